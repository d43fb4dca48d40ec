"""Choice models: components, order, scores and their errors, probabilities, and what is missing."""

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from math import inf

import numpy as np

import attomaton as at
from attomaton.base.errors import UndeterminedChoice
from tests.adversary.draws import describe, draw_corpus
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.graphs import graphs_of, reach
from tests.adversary.reference.least_norm import Constraints, least_norm, orthonormal_gram
from tests.adversary.reference.luce import fit_decimal

COUNTS = (1, 1, 10**3, 10**6, 10**9, 10**12)


def draw(rng):
    """Winners, sets and counts up to 10¹²: rings that are barely connected, and sets at random."""
    n_items = int(rng.integers(2, 7))
    large = int(rng.choice(COUNTS))
    winners, sets, counts = [], [], []
    if rng.random() < 0.6:
        for item in range(n_items):
            winners.append(item)
            sets.append([item, (item + 1) % n_items])
            counts.append(large if item < n_items - 1 else 1)
    for _ in range(int(rng.integers(1, 8))):
        held = rng.integers(0, n_items, int(rng.integers(1, 5))).tolist()
        winners.append(int(rng.choice(held)))
        sets.append(held)
        counts.append(int(rng.choice([1, 2, 1000, large])))
    ridge = float(rng.choice([0.0, 0.0, 0.0, 1e-6, 0.1, 10.0]))
    return winners, sets, counts, ridge


def attack(rng) -> Finding:
    """``fit_choices`` against decimals of sixty digits."""
    winners, sets, counts, ridge = draw(rng)
    case = {"winners": winners, "choice_sets": sets, "counts": counts, "ridge": ridge}
    fit = at.fit_choices(winners, sets, counts=counts, ridge=ridge)
    items = sorted({item for held in sets for item in held})
    beats = {(winner, item) for winner, held in zip(winners, sets, strict=True) for item in held} - {
        (item, item) for item in items
    }
    reached = reach(items, beats)
    own = _components(items, reached)
    checks = [("components", float({frozenset(one) for one in fit.components} != set(own)), 0.0)]
    checks += [
        ("order", float(_order_differs(fit, reached)), 0.0),
        ("missing", _missing(fit, own, beats), 0.0),
    ]
    checks += _direction(fit, items, beats, reached)
    if fit.soft.status is not at.base.Status.CERTIFIED:
        return worst_of(checks, len(sets), case)
    for part in own:
        checks += _part(fit, sorted(part), (winners, sets, counts), ridge)
    checks += _probabilities(fit, rng, items, reached)
    return worst_of(checks, len(sets), case)


def _components(items, reached):
    return {frozenset(o for o in items if o == i or (o in reached[i] and i in reached[o])) for i in items}


def _order_differs(fit, reached):
    """Whether ``order`` is not the least set of pairs that implies every precedence."""
    first = [part[0] for part in fit.components]
    places = range(len(first))
    full = {(a, b) for a in places for b in places if a != b and first[b] in reached[first[a]]}
    least = {(a, b) for a, b in full if not any((a, c) in full and (c, b) in full for c in places)}
    return set(fit.order) != least


def _missing(fit, own, beats):
    """0 if the comparisons named join everything and are the fewest (Eswaran and Tarjan)."""
    parts = list(own)
    if len(parts) == 1:
        return float(len(fit.missing) != 0)
    number = {item: place for place, part in enumerate(parts) for item in part}
    crossing = {(number[a], number[b]) for a, b in beats if number[a] != number[b]}
    into, out = {b for _, b in crossing}, {a for a, _ in crossing}
    alone = sum(place not in into and place not in out for place in range(len(parts)))
    sources = sum(place not in into and place in out for place in range(len(parts)))
    sinks = sum(place not in out and place in into for place in range(len(parts)))
    if len(fit.missing) != max(sources, sinks) + alone:
        return inf
    items = sorted(number)
    joined = reach(items, beats | {(one.winner, one.loser) for one in fit.missing})
    return 0.0 if len(_components(items, joined)) == 1 else inf


def _direction(fit, items, beats, reached):
    place = {item: number for number, item in enumerate(items)}
    edges = [(place[a], place[b], 0) for a, b in sorted(beats)]
    ties = [a in reached[b] for a, b in sorted(beats)]
    held = Constraints(edges, orthonormal_gram(len(items)))
    found = least_norm(held.kernel, [Fraction(int(not tie)) for tie in ties], ties)
    exact = {item: float(held.score(found, place[item], 0)) for item in items}
    told = fit.direction
    return [("direction", max(abs(told[item] - exact[item]) for item in items), 1e-10)]


def _part(fit, items, data, ridge):
    """Scores and standard errors of one component."""
    place, choices = {item: number for number, item in enumerate(items)}, []
    for winner, held, count in zip(*data, strict=True):
        inside = Counter(place[item] for item in held if item in place)
        if winner in place and len(inside) > 1:
            choices.append((place[winner], inside, count))
    if len(items) == 1:
        return [("score alone", float(fit.scores[items[0]] == fit.scores[items[0]]), 0.0)]  # NaN is not
    exact = fit_decimal(len(items), choices, [fit.scores[item] for item in items], ridge=ridge)
    if exact is None:
        return []
    scores, errors = exact
    apart = max(abs(float(Decimal(fit.scores[item]) - scores[place[item]])) for item in items)
    spread = max(abs(float(score)) for score in scores)
    allowed = 1.001 * fit.soft.certificate.error_bound + 1e-15 * (1 + spread)
    checks = [("score beyond its bound", apart, allowed)]
    if not ridge:
        told = max(
            abs(float((Decimal(fit.standard_errors[item]) - errors[place[item]]) / errors[place[item]]))
            for item in items
        )
        checks.append(("standard error, relative", told, 1e-5))
    return checks


def _probabilities(fit, rng, items, reached):
    held = rng.choice(items, int(rng.integers(1, 5))).tolist()
    winner = held[0]

    def tie(other):
        return other == winner or (other in reached[winner] and winner in reached[other])

    rivals = [item for item in held if tie(item)]
    below = all(tie(item) or item in reached[winner] for item in held)
    beaten = any(winner in reached[item] and not tie(item) for item in held)
    try:
        told = fit.probability(winner, held)
    except UndeterminedChoice:
        return [("undetermined", float(below or beaten), 0.0)]
    if beaten:
        return [("probability", abs(told), 0.0)]
    if not below:
        return [("probability of what is undetermined", inf, 0.0)]
    gaps = [0.0 if item == winner else fit.scores[item] - fit.scores[winner] for item in rivals]
    odds = sum(map(np.exp, gaps))
    return [("probability", abs(told - rivals.count(winner) / odds), 1e-12)]


def attack_soft(rng) -> Finding:
    """``solve_luce`` on corpora, component by component."""
    contexts, labels, n_tokens = draw_corpus(rng, most_tokens=7, most_samples=30)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    soft = at.solve_luce(samples, at.find_components(at.extract_edges(samples)))
    if soft.status is not at.base.Status.CERTIFIED:
        return unjudged("not certified")
    told = {(row["query"], row["token"]): row["score"] for row in soft.scores.to_pylist()}
    checks = []
    for query, graph in graphs_of(contexts, labels).items():
        for part in graph.components:
            items = sorted(part)
            place = {item: number for number, item in enumerate(items)}
            choices = [
                (place[label], Counter(place[x] for x in context if x in place), 1)
                for context, label in zip(contexts, labels, strict=True)
                if context[-1] == query and label in context and label in place
            ]
            start = [told[query, item] for item in items]
            if len(items) == 1:
                checks.append(("score alone", abs(start[0]), 0.0))
                continue
            exact = fit_decimal(len(items), choices, start)
            if exact is not None:
                apart = max(abs(float(Decimal(a) - b)) for a, b in zip(start, exact[0], strict=True))
                allowed = 1.001 * soft.certificate.error_bound + 1e-15 * (1 + max(map(abs, start)))
                checks.append(("score beyond its bound", apart, allowed))
    return worst_of(checks, len(contexts), describe(contexts, labels, n_tokens))
