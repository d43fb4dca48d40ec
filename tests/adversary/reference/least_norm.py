"""The Graph-SVM by an active-set method in exact or very long arithmetic.

min ½‖W‖² subject to ⟨W, direction_c⟩ ≥ asked_c (or = asked_c for ties), in its dual: Goldfarb and Idnani's
steps, each of which raises the dual objective, so that the method ends. Numbers may be fractions (exact) or
decimals of many digits, where ``negligible`` is what counts as zero.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Any


class Unsolved(Exception):
    """The active-set method took too many steps."""


def least_norm(kernel: Any, asked: Any, is_tie: Any, *, negligible: Any = 0, most_steps: int = 5000) -> Any:
    """The multipliers {constraint: value} of the optimum, or None if the constraints contradict.

    ``kernel(a, b)`` is the inner product of two directions, ``asked`` the right-hand sides.
    """
    active, place = [], {}
    for number, tie in enumerate(is_tie):
        if tie:  # ties ask for 0, so that those which depend on others follow
            _, left = _project(kernel, active, number)
            if left > negligible * kernel(number, number):
                active.append(number)
                place[number] = 0 * kernel(number, number)
    strict = [number for number, tie in enumerate(is_tie) if not tie]
    for _ in range(most_steps):
        entering, missing = _most_violated(kernel, asked, strict, place, negligible)
        if entering is None:
            return place
        if not _enter(kernel, is_tie, active, place, entering, missing, negligible):
            return None
    raise Unsolved


def _most_violated(kernel, asked, strict, place, negligible):
    best, most = None, 0
    for number in strict:
        if number in place:
            continue
        missing = asked[number] - sum(value * kernel(number, other) for other, value in place.items())
        if missing > negligible and missing > most:
            best, most = number, missing
    return best, most


def _enter(kernel, is_tie, active, place, entering, missing, negligible):
    """Raise the multiplier of a violated constraint until it is met; False if that cannot be."""
    pushed = 0 * missing
    while True:
        along, left = _project(kernel, active, entering)
        free = left > negligible * kernel(entering, entering)
        step, blocking = missing / left if free else None, None
        for number, slope in zip(active, along, strict=True):
            if not is_tie[number] and slope > negligible:
                ratio = place[number] / slope
                if step is None or ratio < step:
                    step, blocking = ratio, number
        if step is None:
            return False
        for number, slope in zip(active, along, strict=True):
            place[number] -= step * slope
        pushed += step
        if free:
            missing -= step * left
        if blocking is None:
            active.append(entering)
            place[entering] = pushed
            return True
        active.remove(blocking)
        del place[blocking]


def _project(kernel, active, number):
    """The combination of active directions nearest to one more, and the squared distance that is left."""
    size = len(active)
    rows = [[kernel(one, other) for other in active] + [kernel(one, number)] for one in active]
    for pivot in range(size):
        for row in range(pivot + 1, size):
            factor = rows[row][pivot] / rows[pivot][pivot]
            if factor:
                for at in range(pivot, size + 1):
                    rows[row][at] -= factor * rows[pivot][at]
    found: list[Any] = [0] * size
    for row in reversed(range(size)):
        rest = sum((rows[row][at] * found[at] for at in range(row + 1, size)), 0 * rows[row][size])
        found[row] = (rows[row][size] - rest) / rows[row][row]
    mine = sum((kernel(one, number) * value for one, value in zip(active, found, strict=True)), 0)
    return found, kernel(number, number) - mine


def gram_of(table, number=Decimal):
    """E Eᵀ from the doubles as they are, exactly for fractions."""
    rows = [[number(float(value)) for value in row] for row in table]
    return [[sum(a * b for a, b in zip(one, other, strict=True)) for other in rows] for one in rows]


def orthonormal_gram(n_tokens):
    """E Eᵀ for orthonormal rows, as fractions."""
    return [[Fraction(int(one == other)) for other in range(n_tokens)] for one in range(n_tokens)]


class Constraints:
    """Edges i → j under k with their kernel (e_i − e_j)·(e_u − e_v) e_k·e_l, kept once computed."""

    def __init__(self, edges, gram):
        self.edges, self.gram, self._kept = edges, gram, {}

    def kernel(self, one, other):
        key = (one, other) if one <= other else (other, one)
        if key not in self._kept:
            (i, j, k), (u, v, m) = self.edges[one], self.edges[other]
            g = self.gram
            self._kept[key] = (g[i][u] - g[i][v] - g[j][u] + g[j][v]) * g[k][m]
        return self._kept[key]

    def score(self, multipliers, token, query):
        """e_tokenᵀ W e_query."""
        g, total = self.gram, 0
        for number, value in multipliers.items():
            i, j, k = self.edges[number]
            total += value * (g[token][i] - g[token][j]) * g[query][k]
        return total
