"""A layer fed its own output: limits of the flow and loops of a window, against definitions."""

import time
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
from scipy.integrate import solve_ivp

import attomaton as at
from attomaton.automaton.repetition.loops import find_loops
from tests.adversary.finding import Finding, unjudged, worst_of

SECONDS = 10.0
"""Of computing within which a layer of up to six tokens must be answered."""


@cache
def trees(size):
    """For each root the other places, and their parents in every spanning tree towards it."""
    found = []
    for root in range(size):
        others = [place for place in range(size) if place != root]
        kept = []
        for parents in product(range(size), repeat=size - 1):
            up = dict(zip(others, parents, strict=True))
            if all(_climbs(place, up, root, size) for place in others):
                kept.append(parents)
        found.append((np.array(others, int), np.array(kept, int).reshape(-1, size - 1)))
    return found


def _climbs(place, up, root, size):
    for _ in range(size):
        if place == root:
            return True
        place = up[place]
    return place == root


def stationary(probabilities):
    """The stationary law by the Markov chain tree theorem: sums of products of probabilities."""
    weights = [
        probabilities[others, parents].prod(axis=1).sum() for others, parents in trees(len(probabilities))
    ]
    return np.array(weights) / np.sum(weights)


def pull(table, heights):
    """d ln x / d ln t at ln x = heights."""
    near = np.maximum(heights - heights.max(), -200.0)
    probabilities = table * np.exp(near)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    shares = np.exp(near) / np.exp(near).sum()
    return stationary(probabilities) / shares - 1


def follow(table, shares, span):
    """Shares after ``span`` of ln t; None if that cannot be followed."""
    solved = solve_ivp(
        lambda _, h: pull(table, h), (0, span), np.log(shares), method="BDF", rtol=1e-6, atol=1e-6
    )
    if not solved.success:
        return None
    end = np.exp(solved.y[:, -1] - solved.y[:, -1].max())
    return end / end.sum()


def exact_exponents(table, shares):
    """ρ in fractions of the shares as they are."""
    size, total = len(table), [Fraction(0)] * len(table)
    given = [Fraction(float(share)) for share in shares]
    for i in range(size):
        if given[i]:
            row = [Fraction(float(one)) for one in table[i]]
            reached = sum(a * b for a, b in zip(given, row, strict=True))
            for j in range(size):
                total[j] += given[i] * row[j] / reached
    return np.array([float(one) for one in total])


def draw_layer(rng):
    """Odds of one to six tokens: small integers, ties, zeros, scaled rows, all alike, near ties."""
    size, kind = (
        int(rng.integers(1, 7)),
        str(rng.choice(["integers", "zeros", "ties", "smooth", "near", "alike"])),
    )
    if kind == "integers":
        table = rng.integers(1, 4, (size, size)).astype(float)
    elif kind == "zeros":
        table = rng.integers(0, 3, (size, size)).astype(float)
    elif kind == "ties":
        table = rng.integers(0, 3, (size, size)) + np.eye(size)
        table[0] = table[0].max()
    elif kind == "smooth":
        table = np.exp(rng.normal(size=(size, size)) * rng.choice([0.1, 1.0, 3.0]))
    elif kind == "near":
        table = rng.integers(1, 3, (size, size)) * (1 + 1e-7 * rng.normal(size=(size, size)))
    else:
        table = np.where(np.eye(size, dtype=bool), rng.choice([0.5, 1.0, 2.0]), 1.0)
    if rng.random() < 0.3:
        table = table * 10.0 ** rng.integers(-6, 7, (size, 1))
    return table, kind


def classes_of(table):
    """The sets of tokens that a text does not leave."""
    size = len(table)
    reach = (table > 0) | np.eye(size, dtype=bool)
    for between in range(size):
        reach |= reach[:, [between]] & reach[[between]]
    closed = [place for place in range(size) if reach[reach[place], place].all()]
    return {tuple(np.flatnonzero(reach[place])) for place in closed}, reach


def attack_winners(rng) -> Finding:
    """``winners`` against fractions, its own flow near the limit and from the prompt, and a clock."""
    _warm()
    given, kind = draw_layer(rng)
    size = len(given)
    prompt = None if rng.random() < 0.3 else np.append(np.arange(size), rng.integers(0, size, 5)).tolist()
    starts = int(rng.choice([0, 0, 2, 20]))
    case = {"layer": given.tolist(), "prompt": prompt, "starts": starts}
    begun = time.process_time()
    found = at.winners(given, prompt, starts=starts)
    checks = [("CPU seconds", time.process_time() - begun, SECONDS)]
    table = np.where(given.sum(axis=1, keepdims=True) > 0, given, 1.0)
    table /= table.max(axis=1, keepdims=True)
    sets, reach = classes_of(table)
    for limit in found.limits:
        checks += _check_fixed(table, limit)
    proved = [limit for limit in found.limits if limit.certified]
    if proved:
        limit = proved[int(rng.integers(len(proved)))]
        inside = next((list(one) for one in sets if limit.winners[list(one)].any()), [])
        checks += _check_attracts(table, inside, limit, rng)
    first = None if prompt is None else prompt[-1]
    if found.settled and found.first.certified and len(sets) == 1 and found.n_classes == 1:
        counts = np.bincount(range(size) if prompt is None else prompt, minlength=size)
        checks += _check_from(table, list(next(iter(sets))), found.first, counts)
    for place in range(size):
        own = np.delete(table[place], place).max(initial=0.0) < (1 - 1e-6) * table[place, place]
        if own and (table[:, place] > 0).all() and (first is None or reach[first, place]):
            there = any(one.shares[place] == 1 for one in found.limits)
            checks.append(("a token that prefers itself is listed", float(not there), 0.0))
    promised = len(checks) > 1
    if not promised and checks[0][1] <= SECONDS:
        return unjudged("nothing certified", kind)
    return worst_of(checks, size, case, kind=kind)


@cache
def _warm():
    at.winners(np.exp(np.random.default_rng(0).normal(size=(6, 6))))


def _check_fixed(table, limit):
    exact = exact_exponents(table, limit.shares)
    there = limit.shares > 0
    known = ~np.isnan(limit.exponents)
    checks = [
        ("ρ of winners", float(np.abs(exact[there] - 1).max()), 1e-8),
        ("ρ as told", float(np.abs(exact - limit.exponents)[known].max()), 1e-8),
        ("shares sum to 1", abs(float(limit.shares.sum()) - 1), 1e-12),
    ]
    if limit.certified:
        highest = float(exact[~there].max(initial=0.0))
        beyond = max(highest - 1, 0.0) if limit.slow else float(highest >= 1)
        checks.append(("ρ of others above 1", beyond, 1e-12 if limit.slow else 0.0))
    if limit.neutral:
        checks += _check_line(table[np.ix_(there, there)], limit.shares[there])
    return checks


def _check_line(table, shares):
    """A single direction in which q(x) − x does not change: all along it nothing moves."""

    def drift(at):
        probabilities = table * at
        return stationary(probabilities / probabilities.sum(axis=1, keepdims=True)) - at

    basis = np.linalg.svd(np.ones((1, len(shares))))[2][1:]
    step = 1e-5 * shares.min()
    slopes = np.array(
        [(drift(shares + step * one) - drift(shares - step * one)) / (2 * step) for one in basis]
    )
    _, values, rights = np.linalg.svd(slopes.T)
    if (values < 1e-5).sum() != 1:
        return [("some direction stands still", float(values[-1]), 1e-5)]
    along = rights[-1] @ basis
    along *= 0.5 * shares.min() / np.abs(along).max()
    return [("a line stands still", float(np.abs(drift(shares + along)).max()), 1e-6)]


def _check_attracts(table, inside, limit, rng):
    """From shares a thousandth away, in any direction inside the closed set, the flow comes back."""
    if len(inside) < 2 or (speed := -limit.bend if limit.slow else -limit.rate) < 1e-4:
        return []
    own, away = table[np.ix_(inside, inside)], 1e-3
    shares = (1 - away) * limit.shares[inside] + away * np.maximum(
        rng.dirichlet(np.full(len(inside), 0.5)), 1e-4
    )
    shares /= shares.sum()
    before = float(np.abs(shares - limit.shares[inside]).max())
    end = follow(own, shares, 30 / (before * speed) if limit.slow else 30 / speed)  # y/(1 + y · speed · ln t)
    if end is None:
        return []
    after = float(np.abs(end - limit.shares[inside]).max())
    return [("the distance after a long time, relative", after / before, 0.5)]


def _check_from(table, inside, limit, counts):
    """From the prompt's own shares the flow ends at the limit that is named first."""
    speed = -limit.bend if limit.slow else -limit.rate
    if len(inside) < 2 or speed < 1e-2:
        return []
    span = 3_000 / speed if limit.slow else 40 / speed
    end = follow(table[np.ix_(inside, inside)], counts[inside] / counts[inside].sum(), span)
    if end is None:
        return []
    return [("the flow's end from the prompt's limit", float(np.abs(end - limit.shares[inside]).max()), 0.05)]


def attack_loops(rng) -> Finding:
    """``find_loops`` against the chain of all windows that a prompt leads to."""
    size, window = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    table = rng.integers(0, 3, (size, size)).astype(float)
    if rng.random() < 0.4:
        table = (rng.random((size, size)) < 0.5).astype(float)
    if rng.random() < 0.3:
        table *= 10.0 ** rng.integers(-6, 7, (size, 1))
    prompt = rng.integers(0, size, int(rng.integers(1, 7))).tolist()
    case = {"layer": table.tolist(), "prompt": prompt, "window": window}
    found = find_loops(table, prompt, window=window)
    ends, steps = _absorb(table, tuple(prompt[-window:]), window)
    if found.probabilities is None:
        return unjudged("no probabilities")
    told = Counter(dict(zip(found.loops, found.probabilities.tolist(), strict=True)))
    if len(told) != len(found.loops):
        return Finding(1.0, 0.0, "loops named twice", size, case)
    apart = max(abs(told[loop] - ends[loop]) for loop in told | ends)
    checks = [("probability of a loop", apart, 1e-9)]
    checks.append(("mean number of tokens, relative", abs(found.steps - steps) / (1 + steps), 1e-8))
    named = {tuple(sorted(loop)) for loop in found.loops}
    checks.append(
        ("a loop that absorbs is named", float(any(tuple(sorted(one)) not in named for one in ends)), 0.0)
    )
    return worst_of(checks, size * window, case)


def _after(table, state, window):
    counts = np.bincount(state, minlength=len(table))
    odds = counts * table[state[-1]]
    odds = odds if odds.sum() else counts
    return {(*state, int(j))[-window:]: odds[j] / odds.sum() for j in np.flatnonzero(odds)}


def _absorb(table, start, window):
    """Probabilities of the cycles that a text ends in, and the mean tokens until it loses no more tokens."""
    moves, waiting = {}, [start]
    while waiting:
        state = waiting.pop()
        if state not in moves:
            moves[state] = _after(table, state, window)
            waiting += moves[state]
    names = {state: place for place, state in enumerate(moves)}
    probabilities = np.zeros((len(names), len(names)))
    for state, after in moves.items():
        for other, probability in after.items():
            probabilities[names[state], names[other]] += probability
    reach = (probabilities > 0) | np.eye(len(names), dtype=bool)
    while not np.array_equal(further := reach.astype(float) @ reach > 0, reach):
        reach = further
    sets = [frozenset(state) for state in names]
    stays = np.array(
        [all(sets[other] == sets[p] for other in np.flatnonzero(reach[p])) for p in range(len(names))]
    )
    visits = np.linalg.solve(np.eye(len(names)) - (probabilities * ~stays[:, None]).T, np.eye(len(names))[0])
    ends = Counter()
    for state, place in names.items():
        if stays[place] and visits[place] > 0:
            ends[_cycle(moves, state)] += visits[place]
    return ends, float(visits[~stays].sum())


def _cycle(moves, state):
    """The tokens that a window of a closed set goes round, the lowest first."""
    seen, at_place = [], state
    while at_place not in seen:
        seen.append(at_place)
        at_place = max(moves[at_place])
    loop = [one[-1] for one in seen[seen.index(at_place) :]]
    lowest = loop.index(min(loop))
    return (*loop[lowest:], *loop[:lowest])
