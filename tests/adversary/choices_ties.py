"""Ties by half wins: scores, standard errors and ranks, against sixty digits and numerical derivatives."""

import json
from collections import Counter
from decimal import Decimal, localcontext
from itertools import chain, permutations, product
from math import factorial, inf, isnan, lcm, prod

import attomaton as at
from tests.adversary.finding import Finding, worst_of
from tests.adversary.reference.graphs import reach
from tests.adversary.reference.luce import DIGITS, fit_decimal, solve

COUNTS = (1, 1, 2, 5, 1000, 10**6)
STEP = Decimal(10) ** -15


def draw(rng):
    """Rankings of places: pairs of which many are tied, or longer ones; one pool of items, or two apart."""
    n_items, pairs = int(rng.integers(2, 7)), bool(rng.random() < 0.7)
    pools = [list(range(n_items))]
    if n_items > 3 and rng.random() < 0.4:
        cut = int(rng.integers(2, n_items - 1))
        pools = [pools[0][:cut], pools[0][cut:]]
    large, rankings, counts = int(rng.choice(COUNTS)), [], []
    for _ in range(int(rng.integers(1, 9))):
        pool = pools[int(rng.integers(len(pools)))]
        length = 2 if pairs else int(rng.integers(2, min(len(pool), 4) + 1))
        order = rng.permutation(pool)[:length].tolist()
        places = [[order[0]]]
        for item in order[1:]:
            if rng.random() < 0.45 and len(places[-1]) < 3:
                places[-1].append(item)
            else:
                places.append([item])
        rankings.append(places)
        counts.append(int(rng.choice([1, 2, large])))
    if rng.random() < 0.5:  # an item that never lost, or never won
        rankings.append([[n_items], [0]] if rng.random() < 0.5 else [[0], [n_items]])
        counts.append(large)
    prior = float(rng.choice([0.5, 2.0])) if rng.random() < 0.2 else None
    return rankings, counts, prior, pairs


def attack(rng) -> Finding:
    """``fit_choices`` with ties, as pairs or as rankings."""
    rankings, counts, prior, pairs = draw(rng)
    case = {"rankings": rankings, "counts": counts, "prior": prior}
    if pairs:
        flat = [list(chain.from_iterable(places)) for places in rankings]
        tied = [len(places) == 1 for places in rankings]
        won, lost = zip(*flat, strict=True)
        fit = at.fit_choices(list(won), losers=list(lost), tied=tied, counts=counts, prior=prior, ties="half")
    else:
        fit = at.fit_choices(rankings=rankings, counts=counts, prior=prior)
    items = sorted({item for places in rankings for item in chain.from_iterable(places)})
    beats = set()
    for places in rankings:
        for number, place in enumerate(places):
            below = set(chain.from_iterable(places[number:]))
            beats |= {(one, other) for one in place for other in below if one != other}
    reached = reach(items, beats)
    ties = sum(n * sum(len(p) > 1 for p in places) for places, n in zip(rankings, counts, strict=True))
    checks = [("number of ties", float(fit.n_ties != ties), 0.0)]
    json.dumps(fit.to_dict(), allow_nan=False)
    kind = ("pairs" if pairs else "rankings") + ", prior" * (prior is not None)
    if fit.soft.status is not at.base.Status.CERTIFIED:
        return worst_of(checks, len(rankings), case, kind=kind)
    own = {
        item: frozenset(x for x in items if x == item or (x in reached[item] and item in reached[x]))
        for item in items
    }
    parts = [frozenset(items)] if prior is not None else set(own.values())
    for part in parts:
        checks += _part(fit, sorted(part), rankings, counts, 0 if prior is None else prior**-2, ties > 0)
    if prior is None:
        checks.append(("ranks", _ranks_differ(fit, reached, own), 0.0))
    return worst_of(checks, len(rankings), case, kind=kind)


def _ranks_differ(fit, reached, own):
    """How many items have another rank than counting those ahead of them on their board gives."""
    rows, wrong = fit.table().to_pylist(), 0
    for row in rows:
        item = row["item"]
        peers = [one["item"] for one in rows if one["board"] == row["board"]]
        better = [one for one in peers if item in reached[one] and one not in own[item]]
        ahead = [one for one in own[item] if fit.scores[one] > fit.scores[item] + 2e-6]
        close = any(1e-6 < abs(fit.scores[one] - fit.scores[item]) < 1e-5 for one in own[item] - {item})
        wrong += row["rank"] != 1 + len(better) + len(ahead) and not close
    return float(wrong)


def _orders(places):
    """Every order of those who share a place."""
    return [list(chain.from_iterable(chosen)) for chosen in product(*map(permutations, places))]


def _part(fit, items, rankings, counts, ridge, tied):
    """Scores, standard errors and one difference of a component."""
    if len(items) == 1:
        told = (fit.scores[items[0]], fit.standard_errors[items[0]], fit.covariance(items)[0, 0])
        return [("score alone", float(not all(map(isnan, told))), 0.0)]
    number, inside = {item: place for place, item in enumerate(items)}, []
    for places, count in zip(rankings, counts, strict=True):
        cut = [[number[item] for item in place if item in number] for place in places]
        if sum(map(len, cut)) > 1:
            inside.append(([place for place in cut if place], count))
    scale = lcm(*(prod(factorial(len(place)) for place in places) for places, _ in inside))
    choices = [
        (order[k], Counter(order[k:]), count * scale // len(orders))
        for places, count in inside
        for orders in [_orders(places)]
        for order in orders
        for k in range(len(order) - 1)
    ]
    start = [fit.scores[item] for item in items]
    exact = fit_decimal(len(items), choices, start, ridge=ridge * scale)
    if exact is None:
        return []
    scores, errors = exact
    apart = max(abs(float(Decimal(a) - b)) for a, b in zip(start, scores, strict=True))
    allowed = 1.001 * fit.soft.certificate.error_bound + 1e-15 * (1 + max(map(abs, start)))
    checks = [("score beyond its bound", apart, allowed)]
    if tied:
        spread = sandwich(inside, scores, Decimal(ridge))
    elif ridge:
        return checks
    else:
        spread = {(place, place): errors[place] ** 2 for place in range(len(items))}
    told = [fit.standard_errors[item] for item in items]
    wanted = [spread[place, place].sqrt() for place in range(len(items))]
    worst = max(abs(float(Decimal(a) / b - 1)) for a, b in zip(told, wanted, strict=True))
    checks.append(("standard error, relative", worst, 1e-5))
    if tied:
        gap = (spread[0, 0] + spread[1, 1] - 2 * spread[0, 1]).sqrt()
        error = fit.difference(items[0], items[1]).standard_error
        off = inf if error is None else abs(float(Decimal(error) / gap - 1))
        checks.append(("error of a difference, relative", off, 1e-5))
    return checks


def sandwich(rankings, scores, ridge):
    """H⁺ (Σ ψψᵀ + W H⁺ W + ridge) H⁺ in decimals, by differences of the loss of each ranking."""
    size = len(scores)
    with localcontext() as context:
        context.prec = DIGITS
        found = [_differentiate(places, scores) for places, _ in rankings]
        counts = [count for _, count in rankings]
        curvature = _add(size, [(n, one[1]) for n, one in zip(counts, found, strict=True)])
        share = 1 / Decimal(size)
        for one in range(size):
            curvature[one] = [value + share for value in curvature[one]]
            curvature[one][one] += ridge
        units = [[Decimal(int(one == other)) for other in range(size)] for one in range(size)]
        flat = share / (1 + ridge)
        inverse = [[value - flat for value in solve(curvature, unit)] for unit in units]
        blocks = []
        for n, (slope, own) in zip(counts, found, strict=True):
            outer = [[a * b for b in slope] for a in slope]
            bent = _times(own, _times(inverse, own))
            blocks += [(n, outer), (n, bent)]
        middle = _add(size, [*blocks, (ridge, units)])
        whole = _times(inverse, _times(middle, inverse))
        return {(one, other): whole[one][other] for one in range(size) for other in range(size)}


def _differentiate(places, scores):
    """Slope and curvature of the loss of one ranking."""
    size, held, orders = len(scores), list(chain.from_iterable(places)), _orders(places)

    def loss(*moves):
        odds = {item: scores[item] for item in held}
        for item, step in moves:
            odds[item] += step
        odds = {item: value.exp() for item, value in odds.items()}
        total = Decimal(0)
        for order in orders:
            for k in range(len(order) - 1):
                total -= (odds[order[k]] / sum(odds[item] for item in order[k:])).ln()
        return total / len(orders)

    slope = [Decimal(0)] * size
    curvature = [[Decimal(0)] * size for _ in range(size)]
    middle = loss()
    for place, one in enumerate(held):
        up, down = loss((one, STEP)), loss((one, -STEP))
        slope[one] = (up - down) / (2 * STEP)
        curvature[one][one] = (up - 2 * middle + down) / STEP**2
        for other in held[:place]:
            both = [loss((one, a * STEP), (other, b * STEP)) for a in (1, -1) for b in (1, -1)]
            curvature[one][other] = (both[0] - both[1] - both[2] + both[3]) / (4 * STEP**2)
            curvature[other][one] = curvature[one][other]
    return slope, curvature


def _add(size, terms):
    return [[sum(n * block[a][b] for n, block in terms) for b in range(size)] for a in range(size)]


def _times(one, other):
    columns = list(zip(*other, strict=True))
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in one]
