"""Bounds of infinite ratings: the most probable parameters at the printed bound give the data 1 − level.

Which alternatives are lost is decided in fractions, the finite part is fitted there, and the probability of
all that happened is then maximised over the parameters that move lost alternatives only, at the bound.
"""

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.special import logsumexp

import attomaton as at
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.cones import ExactFace

WITHIN = 0.01
"""A probability of 5 % may be 4.95 % to 5.05 %."""


def draw_pairs(rng, n_items, tiers):
    """Games that the higher tier wins, and either within a tier."""
    games = []
    for _ in range(rng.integers(2, 14)):
        a, b = rng.choice(n_items, 2, replace=False).tolist()
        if tiers[b] > tiers[a] or (tiers[a] == tiers[b] and rng.random() < 0.5):
            a, b = b, a
        games.append((a, b))
    return games


def best_of(rng, members, tiers):
    """A member of the highest tier."""
    highest = max(tiers[item] for item in members)
    return int(rng.choice([item for item in members if tiers[item] == highest]))


def draw(rng, kind):
    """The arguments of ``fit_choices``, and situations as lists of (row, count)."""
    n_items = int(rng.integers(2, 7))
    tiers = rng.integers(0, 4, n_items)
    n_rows = int(rng.integers(1, 9))
    sets = [rng.permutation(n_items)[: rng.integers(2, n_items + 1)].tolist() for _ in range(n_rows)]
    counts = rng.choice([1, 1, 2, 5, 30], n_rows)
    eye = np.eye(n_items)
    if kind == "sets":
        won = [best_of(rng, members, tiers) for members in sets]
        sets = [[*members, *members[: rng.integers(0, 2)]] for members in sets]  # an option twice
        situations = [
            [(eye[item], 0 if place != members.index(first) else count) for place, item in enumerate(members)]
            for members, first, count in zip(sets, won, counts.tolist(), strict=True)
        ]
        return {"winners": won, "choice_sets": sets, "counts": counts}, situations
    if kind == "rankings":
        orders = [sorted(members, key=lambda item: (-tiers[item], rng.random())) for members in sets]
        situations = [
            [(eye[item], count * (place == 0)) for place, item in enumerate(order[start:])]
            for order, count in zip(orders, counts.tolist(), strict=True)
            for start in range(len(order) - 1)
        ]
        return {"rankings": orders, "counts": counts}, situations
    if kind == "best-worst":
        best = [best_of(rng, members, tiers) for members in sets]
        rest = [[x for x in members if x != top] for members, top in zip(sets, best, strict=True)]
        worst = [best_of(rng, members, -tiers) for members in rest]
        situations = [
            [(eye[a] - eye[b], count * (a == top and b == last)) for a in members for b in members if a != b]
            for members, top, last, count in zip(sets, best, worst, counts.tolist(), strict=True)
        ]
        frame = {"B": best, "W": worst, "S": sets, "n": counts.tolist()}
        return {"winners": frame, "best": "B", "worst": "W", "choice_set": "S", "count": "n"}, situations
    games = draw_pairs(rng, n_items, tiers)
    if kind == "pairs":
        won, lost = zip(*games, strict=True)
        situations = [[(eye[a], 1), (eye[b], 0)] for a, b in games]
        return {"winners": list(won), "losers": list(lost)}, situations
    swapped = rng.random(len(games)) < 0.5
    tied = [bool(tiers[a] == tiers[b] and rng.random() < 0.2) for a, b in games]
    extra = rng.integers(-2, 3, len(games)).tolist()
    with_ties, size = any(tied), n_items + 1 + any(tied)
    situations, frame = [], {"one": [], "two": [], "won": [], "x": extra}
    for (a, b), swap, tie, value in zip(games, swapped, tied, extra, strict=True):
        first, second = (b, a) if swap else (a, b)
        rows = np.zeros((2 + with_ties, size))
        rows[0, first], rows[0, n_items], rows[1, second] = 1.0, value, 1.0
        if with_ties:
            rows[2] = (rows[0] + rows[1]) / 2 + np.eye(size)[-1]
        chosen = 2 if tie else int(swap)
        situations.append([(row, int(place == chosen)) for place, row in enumerate(rows)])
        frame["one"].append(f"i{first}")
        frame["two"].append(f"i{second}")
        frame["won"].append("tie" if tie else frame["two" if swap else "one"][-1])
    columns = {"first": "one", "second": "two", "outcome": "won", "features": ["x"]}
    return {"winners": frame, **columns}, situations


class Likelihood:
    """The probability of situations in which only what is not lost happened."""

    def __init__(self, situations) -> None:
        exact = ExactFace(situations)
        lost = {pair for pair, dies in zip(exact.pairs, exact.dies, strict=True) if dies}
        self.situations = [
            (
                np.array([row for row, _ in rows], np.float64),
                np.array([(number, place) not in lost for place in range(len(rows))]),
                np.array([count for _, count in rows], np.float64),
            )
            for number, rows in enumerate(situations)
        ]
        self.size = len(situations[0][0][0])
        surviving = np.array([[float(x) for x in row] for row in exact.surviving]).reshape(-1, self.size)
        self.moves = null_space(surviving) if len(surviving) else np.eye(self.size)
        self.finite = self._fit()

    def _fit(self):
        """The maximum on the face, by Newton's method."""
        beta = np.zeros(self.size)
        for _ in range(100):
            slope, curvature = np.zeros(self.size), np.zeros((self.size, self.size))
            for rows, face, counts in self.situations:
                inside = rows[face]
                share = np.exp(inside @ beta - logsumexp(inside @ beta))
                mean, total = share @ inside, counts.sum()
                slope += counts[face] @ inside - total * mean
                curvature += total * ((inside.T * share) @ inside - np.outer(mean, mean))
            step = np.linalg.pinv(curvature, rcond=1e-10) @ slope
            beta = beta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        return beta

    def __call__(self, beta):
        """Σ N ln P(face), and its gradient."""
        value, slope = 0.0, np.zeros(self.size)
        for rows, face, counts in self.situations:
            utility, total = rows @ beta, counts.sum()
            inside, whole = logsumexp(utility[face]), logsumexp(utility)
            value += total * (inside - whole)
            slope += total * (np.exp(utility[face] - inside) @ rows[face] - np.exp(utility - whole) @ rows)
        return value, slope

    def at_bound(self, contrast, bound):
        """The largest probability of the data with contrast·β = bound."""
        along = contrast @ self.moves
        start = self.finite + self.moves @ along * (bound - contrast @ self.finite) / (along @ along)
        free = self.moves @ null_space(along[None])
        if not free.shape[1]:
            return np.exp(self(start)[0])

        def lost(point):
            value, slope = self(start + free @ point)
            return -value, -(free.T @ slope)

        best = min(
            minimize(lost, origin, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000}).fun
            for origin in (np.zeros(free.shape[1]), np.full(free.shape[1], 0.1))
        )
        return np.exp(-best)


def item_number(item):
    """The number of an item, 3 or ``i3``."""
    return int(str(item).removeprefix("i"))


def attack(rng, kinds=("pairs", "sets", "rankings", "features")) -> Finding:
    """Every bound of a board."""
    kind = str(rng.choice(kinds))
    arguments, situations = draw(rng, kind)
    level = float(rng.choice([0.5, 0.9, 0.95, 0.99]))
    fit = at.fit_choices(**arguments)
    case = {"arguments": {name: str(value) for name, value in arguments.items()}, "level": level}
    if not fit.certified:
        return unjudged("not certified", kind)
    if any(one.kind.value == "not identified" for one in fit.coefficients.values()):
        return unjudged("the feature was left out", kind)
    rows = fit.board(level=level).table().to_pylist()
    likelihood = Likelihood(situations)
    checks = []
    for row in rows:
        if np.isfinite(row["rating"]):
            continue
        bound = row["low"] if row["rating"] > 0 else row["high"]
        if not np.isfinite(bound):
            checks.append((f"no bound of {row['item']}", 1.0, 1.0))  # too many components, or no proof
            continue
        anchor = [
            other["item"] for other in rows if other["board"] == row["board"] and np.isfinite(other["rating"])
        ]
        contrast = np.zeros(likelihood.size)
        contrast[item_number(row["item"])] += 1.0
        for item in anchor:
            contrast[item_number(item)] -= 1.0 / len(anchor)
        found = likelihood.at_bound(contrast, bound)
        checks.append((f"probability at the bound of {row['item']}", abs(found / (1 - level) - 1), WITHIN))
    return worst_of(checks, len(situations), case, kind=kind) if checks else unjudged("no bound", kind)


def attack_best_worst(rng) -> Finding:
    """Boards of best–worst choices."""
    return attack(rng, ("best-worst",))
