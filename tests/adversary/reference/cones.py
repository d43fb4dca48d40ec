"""Ranks and cones in fractions: which pairs of a choice model die, and what class a contrast has.

A pair d dies unless −d is a non-negative combination of the pairs; Bland's rule ends every simplex.
"""

from fractions import Fraction

ZERO = Fraction(0)


def rank_of(rows) -> int:
    """The rank of rows of fractions."""
    left, rank = [list(row) for row in rows], 0
    for column in range(len(left[0]) if left else 0):
        pivot = next((k for k in range(rank, len(left)) if left[k][column]), None)
        if pivot is None:
            continue
        left[rank], left[pivot] = left[pivot], left[rank]
        for k in range(rank + 1, len(left)):
            if left[k][column]:
                factor = left[k][column] / left[rank][column]
                left[k] = [a - factor * b for a, b in zip(left[k], left[rank], strict=True)]
        rank += 1
    return rank


def in_cone(generators, target) -> bool:
    """Whether target = Σ λ g with λ ≥ 0: phase one of the simplex, by Bland's rule."""
    size = len(target)
    tableau = []
    for k in range(size):
        row = [g[k] for g in generators] + [target[k]]
        tableau.append(row if target[k] >= 0 else [-value for value in row])
    basis = [len(generators) + k for k in range(size)]  # artificial columns, which never come back
    costs = [-sum((row[j] for row in tableau), ZERO) for j in range(len(generators) + 1)]
    while True:
        entering = next((j for j in range(len(generators)) if costs[j] < 0), None)
        if entering is None:
            return costs[-1] == 0
        ratios = [
            (row[-1] / row[entering], basis[k], k) for k, row in enumerate(tableau) if row[entering] > 0
        ]
        leaving = min(ratios)[2]  # the sum of artificial variables is bounded, so there is one
        pivot = tableau[leaving][entering]
        tableau[leaving] = [value / pivot for value in tableau[leaving]]
        for k in range(size):
            if k != leaving and tableau[k][entering]:
                factor = tableau[k][entering]
                tableau[k] = [a - factor * b for a, b in zip(tableau[k], tableau[leaving], strict=True)]
        factor = costs[entering]
        costs = [a - factor * b for a, b in zip(costs, tableau[leaving], strict=True)]
        basis[leaving] = entering


class ExactFace:
    """Which pairs of some choices die, in fractions.

    ``situations`` are lists of (row, count). Pairs are (situation, number of the row) for all rows but the
    first chosen one.
    """

    def __init__(self, situations) -> None:
        self.pairs, self.differences, both = [], [], []
        for number, rows in enumerate(situations):
            chosen = [k for k, (_, count) in enumerate(rows) if count > 0]
            if not chosen or len(rows) < 2:
                continue
            top = rows[chosen[0]][0]
            for k, (row, _) in enumerate(rows):
                if k == chosen[0]:
                    continue
                difference = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(top, row, strict=True)]
                self.pairs.append((number, k))
                self.differences.append(difference)
                both.append(k in chosen)
        generators = {tuple(d) for d in self.differences if any(d)}
        generators |= {
            tuple(-x for x in d) for d, b in zip(self.differences, both, strict=True) if b and any(d)
        }
        self.generators = sorted(generators)
        known = {}
        self.dies = []
        for difference in self.differences:
            key = tuple(difference)
            if key not in known:
                known[key] = any(key) and not in_cone(self.generators, [-x for x in key])
            self.dies.append(known[key])
        self.surviving = [d for d, dead in zip(self.differences, self.dies, strict=True) if not dead]
        self.rank = rank_of(self.surviving)
        self.identified = rank_of(self.differences)

    def classify(self, contrast) -> str:
        """One of the five classes."""
        exact = [Fraction(float(x)) for x in contrast]
        if rank_of([*self.differences, exact]) > self.identified:
            return "not identified"
        if rank_of([*self.surviving, exact]) == self.rank:
            return "finite"
        if in_cone(self.generators, exact):
            return "+inf"
        return "-inf" if in_cone(self.generators, [-x for x in exact]) else "undecided"
