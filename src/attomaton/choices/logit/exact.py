"""Proofs in exact arithmetic, where floating point decides nothing: ranks, and signs for integers and halves.

The vectors of a fit are rounded to fractions and put exactly on the solutions of D₀ v = 0 and D₀ᵀ λ = 0; then
signs are read off without any rounding.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.choices.logit.contrasts import ContrastKind
from attomaton.choices.logit.face import find_balance
from attomaton.choices.logit.problem import ChoiceProblem

MOST_FRACTIONS = 20_000
"""Entries of the distinct differences up to which fractions are used."""

LARGEST_ENTRY = 2.0**20
"""Up to this size, halves are taken for what was meant, and not for rounded numbers."""

DENOMINATOR = 1 << 20

MOST_GENERATORS = 4_000
"""Entries of the distinct differences up to which a contrast is classified in fractions."""

MOST_RESIDUES = 200_000
"""Entries of differences up to which their rank is computed modulo a prime."""

PRIME = 2_147_483_629
"""The rank modulo this prime is never above the rank of the numbers, and below it in one case of 10⁹."""

Row = list[Fraction]


def prove_in_fractions(
    problem: ChoiceProblem, dying: Bool, direction: Float64, ranks: tuple[int, int]
) -> bool:
    """Whether fractions prove which pairs die, and that S and R have these ranks.

    ``direction`` is v, about, in scaled coordinates.
    """
    rows = np.flatnonzero(problem.is_pair & (problem.norms > 0))
    if len(rows) * problem.rows.n_parameters > 50 * MOST_FRACTIONS:
        return False
    raw = problem.differences(rows) * problem.scale  # exact: the scale is a power of two
    if not _is_half(raw):
        return False
    level, both, rising = _divide(raw, dying[rows], problem.also_chosen[rows])
    if (len(level) + len(rising)) * problem.rows.n_parameters > MOST_FRACTIONS:
        return False
    reduced, pivots = reduce_rows(level)
    if (len(pivots), len(reduce_rows([*level, *rising])[1])) != ranks:
        return False
    return _rises(reduced, pivots, rising, direction / problem.scale) and _balances(level, both)


def classify_in_fractions(problem: ChoiceProblem, dying: Bool, weights: Float64) -> ContrastKind | None:
    """The class of a contrast of the columns as given; None where there are too many differences.

    ``dying`` is proved. The columns as stored and the weights are numbers without rounding errors.
    """
    rows = np.flatnonzero(problem.is_pair & (problem.norms > 0))
    raw = problem.differences(rows) * problem.scale  # exact: the scale is a power of two
    level, both, rising = _divide(raw, dying[rows], problem.also_chosen[rows])
    if (len(level) + len(rising)) * len(weights) > MOST_GENERATORS:
        return None
    target = [Fraction(float(weight)) for weight in weights]
    centring = problem.centring
    for column, constant, centre in zip(*(numbers.tolist() for numbers in centring), strict=True):
        target[column] -= Fraction(centre) * Fraction(float(weights[constant]))
    if _independent([*level, *rising, target])[-1:] == [len(level) + len(rising)]:
        return ContrastKind.UNIDENTIFIED
    if _independent([*level, target])[-1:] != [len(level)]:
        return ContrastKind.FINITE
    cone = [*level, *rising, *([-x for x in row] for row, free in zip(level, both, strict=True) if free)]
    if _is_in_cone(cone, target):
        return ContrastKind.PLUS
    return ContrastKind.MINUS if _is_in_cone(cone, [-x for x in target]) else ContrastKind.UNDECIDED


def _is_in_cone(generators: list[Row], target: Row) -> bool:
    """Whether target = Σ λ g with λ ≥ 0: the first phase of the simplex method, by Bland's rule."""
    table = [[g[k] for g in generators] + [value] for k, value in enumerate(target)]
    table = [row if row[-1] >= 0 else [-x for x in row] for row in table]
    basis = [len(generators) + k for k in range(len(table))]
    while True:
        missing = [row for row, number in zip(table, basis, strict=True) if number >= len(generators)]
        gains = [sum(column, Fraction(0)) for column in zip(*missing, strict=True)]
        if not missing or gains[-1] == 0:
            return True
        enter = next((k for k, gain in enumerate(gains[:-1]) if gain > 0), None)
        if enter is None:
            return False
        leave = min((row[-1] / row[enter], basis[k], k) for k, row in enumerate(table) if row[enter] > 0)[2]
        first = table[leave][enter]
        table[leave] = [x / first for x in table[leave]]
        for k, row in enumerate(table):
            if k != leave and row[enter]:
                factor = row[enter]
                table[k] = [a - factor * b for a, b in zip(row, table[leave], strict=True)]
        basis[leave] = enter


def has_rank(problem: ChoiceProblem, face: Bool, rank: int) -> bool:
    """Whether the differences of a face have at most this rank as the numbers they are, not up to rounding.

    Small integers and halves have gaps too wide for rounding to hide, unless other rows have a column far
    larger; their rank is not computed, nor is that of too many rows.
    """
    rows = np.flatnonzero(problem.is_pair & face & (problem.norms > 0))
    if len(rows) * problem.rows.n_parameters > MOST_RESIDUES:
        return True
    raw = problem.differences(rows) * problem.scale  # exact: the scale is a power of two
    wide = problem.scale.max(initial=1.0) > LARGEST_ENTRY
    return (_is_half(raw) and not wide) or rank_modulo(np.unique(raw, axis=0)) <= rank


def rank_modulo(values: Float64) -> int:
    """The rank of a matrix of floating-point numbers, which are fractions, modulo a prime."""
    mantissa, exponent = np.frexp(values)
    powers, number = np.unique(exponent, return_inverse=True)
    factor = np.array([pow(2, int(power) - 53, PRIME) for power in powers], np.int64)
    residues = (mantissa * 2.0**53).astype(np.int64) % PRIME * factor[number.reshape(values.shape)] % PRIME
    rank = 0
    for column in range(residues.shape[1]):
        nonzero = np.flatnonzero(residues[rank:, column])
        if not len(nonzero):
            continue
        residues[[rank, rank + nonzero[0]]] = residues[[rank + nonzero[0], rank]]
        pivot = residues[rank] * pow(int(residues[rank, column]), -1, PRIME) % PRIME
        below = residues[rank + 1 :]
        below -= below[:, [column]] * pivot % PRIME
        below %= PRIME
        rank += 1
    return rank


def reduce_rows(rows: Sequence[Row]) -> tuple[list[Row], list[int]]:
    """The reduced echelon form of some rows, and its pivot columns."""
    reduced, pivots = list[Row](), list[int]()
    for row in rows:
        remainder = list(row)
        for above, pivot in zip(reduced, pivots, strict=True):
            if remainder[pivot]:
                factor = remainder[pivot]
                remainder = [a - factor * b for a, b in zip(remainder, above, strict=True)]
        pivot = next((position for position, value in enumerate(remainder) if value), None)
        if pivot is None:
            continue
        first = remainder[pivot]
        remainder = [value / first for value in remainder]
        for position, above in enumerate(reduced):
            if above[pivot]:
                factor = above[pivot]
                reduced[position] = [a - factor * b for a, b in zip(above, remainder, strict=True)]
        reduced.append(remainder)
        pivots.append(pivot)
    return reduced, pivots


def _rises(reduced: list[Row], pivots: list[int], rising: list[Row], direction: Float64) -> bool:
    """Whether the direction, put exactly on D₀ v = 0, raises all rows."""
    if not rising:
        return True
    size = max(float(np.abs(direction).max()), 1e-300)
    exact = [Fraction(float(value) / size).limit_denominator(DENOMINATOR) for value in direction]
    for row, pivot in zip(reduced, pivots, strict=True):
        exact[pivot] = -sum((row[k] * exact[k] for k in range(len(exact)) if k not in pivots), Fraction(0))
    return all(sum(map(Fraction.__mul__, row, exact)) > 0 for row in rising)


def _balances(level: list[Row], both: list[bool]) -> bool:
    """Whether some λ > 0 (of any sign on pairs both ways) has Σ λ d = 0 exactly.

    A floating-point λ is found with all one-way multipliers at 1 or above and rounded; the multipliers of
    independent rows are then solved for in fractions.
    """
    if not level:
        return True
    matrix = np.array([[float(value) for value in row] for row in level])
    multipliers = find_balance(matrix, both)
    if multipliers is None:
        return False
    order = sorted(
        range(len(level)), key=lambda k: (not both[k], -multipliers[k])
    )  # large ones bear rounding
    basis = _independent([level[k] for k in order])
    solved = [order[k] for k in basis]
    weight = [Fraction(float(value)).limit_denominator(DENOMINATOR) for value in multipliers]
    remainder = [
        -sum((weight[k] * level[k][c] for k in range(len(level)) if k not in solved), Fraction(0))
        for c in range(matrix.shape[1])
    ]
    columns = [[level[k][c] for k in solved] + [remainder[c]] for c in range(matrix.shape[1])]
    reduced, pivots = reduce_rows(columns)
    if len(solved) in pivots:
        return False
    for row, pivot in zip(reduced, pivots, strict=True):
        weight[solved[pivot]] = row[-1]
    return all(free or value > 0 for free, value in zip(both, weight, strict=True))


def _independent(rows: list[Row]) -> list[int]:
    """The numbers of rows that are independent of those before them."""
    reduced, numbers = list[Row](), list[int]()
    for number, row in enumerate(rows):
        larger = reduce_rows([*reduced, row])[0]
        if len(larger) > len(reduced):
            reduced = larger
            numbers.append(number)
    return numbers


def _is_half(values: Float64) -> bool:
    return bool((2 * values % 1 == 0).all()) and float(np.abs(values).max(initial=0.0)) <= LARGEST_ENTRY


def _divide(raw: Float64, dying: Bool, also_chosen: Bool) -> tuple[list[Row], list[bool], list[Row]]:
    """The distinct differences that survive, which of them are pairs both ways, and those that die."""
    level, both = _distinct(raw[~dying], also_chosen[~dying])
    return level, both, _distinct(raw[dying], np.zeros(int(dying.sum()), bool))[0]


def _distinct(rows: Float64, both: Bool) -> tuple[list[Row], list[bool]]:
    if not len(rows):
        return [], []
    values, number = np.unique(rows, axis=0, return_inverse=True)
    free = np.zeros(len(values), bool)
    free[number.ravel()[both]] = True
    return [[Fraction(float(x)) for x in row] for row in values], free.tolist()
