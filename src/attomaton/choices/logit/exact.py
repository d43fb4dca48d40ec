"""Proofs in exact arithmetic: ranks of differences, and signs where these are integers or halves.

:func:`prove_in_fractions` proves which pairs die, :func:`classify_in_fractions` decides a contrast, and
:func:`has_rank` checks a rank. The vectors v and λ of a fit are rounded to fractions and projected exactly
onto the solutions of D₀ v = 0 and D₀ᵀ λ = 0, for the matrix D₀ of surviving differences d. Their signs then
have no rounding errors.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.contrasts import ContrastKind
from attomaton.choices.logit.face import find_balance
from attomaton.choices.logit.problem import ChoiceProblem

MOST_FRACTIONS = 20_000  # entries of the distinct differences up to which fractions are used
LARGEST_ENTRY = 2.0**20  # up to this size, halves count as exact and not as rounded numbers
DENOMINATOR = 1 << 20  # the largest denominator of the fractions that vectors of a fit are rounded to
REPEATS = 50  # how many times larger the differences may be than the distinct differences among them

# Entries of the distinct differences up to which a contrast is classified in fractions.
MOST_GENERATORS = 4_000

MOST_RESIDUES = 200_000  # entries of differences up to which their rank is computed modulo a prime

# The rank modulo this prime is never above the exact rank, and below it in one case of 10⁹.
PRIME = 2_147_483_629

Row = list[Fraction]


def prove_in_fractions(
    problem: ChoiceProblem, dying: Bool, direction: Float64, ranks: tuple[int, int]
) -> bool:
    """Whether fractions prove which pairs die, and that S and R have these ranks.

    ``direction`` is about v, in scaled coordinates.
    """
    rows = _unequal_pairs(problem)
    if len(rows) * problem.rows.n_parameters > REPEATS * MOST_FRACTIONS:
        return False
    if not _are_halves(_exact_differences(problem, rows)):
        return False
    pairs = _split_pairs(problem, dying, rows)
    if len(pairs.all) * problem.rows.n_parameters > MOST_FRACTIONS:
        return False
    surviving = reduce_rows(pairs.surviving)
    if (len(surviving.pivots), len(reduce_rows(pairs.all).pivots)) != ranks:
        return False
    raises_all = _raises_all(surviving, pairs.dying, direction / problem.scale)
    return raises_all and _has_balance(pairs.surviving, pairs.both_ways)


def classify_in_fractions(problem: ChoiceProblem, dying: Bool, weights: Float64) -> ContrastKind | None:
    """Decide the class of a contrast of the columns as given; None if there are too many differences.

    ``dying`` is proved. Columns and weights count as exact numbers.
    """
    pairs = _split_pairs(problem, dying, _unequal_pairs(problem))
    if len(pairs.all) * len(weights) > MOST_GENERATORS:
        return None
    target = [Fraction(float(weight)) for weight in weights]
    centring = problem.centring
    for column, constant, centre in zip(*(numbers.tolist() for numbers in centring), strict=True):
        target[column] -= Fraction(centre) * Fraction(float(weights[constant]))
    if _is_independent(pairs.all, target):
        return ContrastKind.UNIDENTIFIED
    if not _is_independent(pairs.surviving, target):
        return ContrastKind.FINITE
    surviving = zip(pairs.surviving, pairs.both_ways, strict=True)
    reversed_pairs = [[-x for x in row] for row, goes_both_ways in surviving if goes_both_ways]
    cone = [*pairs.all, *reversed_pairs]
    if _is_in_cone(cone, target):
        return ContrastKind.PLUS
    return ContrastKind.MINUS if _is_in_cone(cone, [-x for x in target]) else ContrastKind.UNDECIDED


def has_rank(problem: ChoiceProblem, face: Bool, rank: int) -> bool:
    """Whether the differences of a face have at most this rank exactly, not up to rounding.

    Also True where the rank is not computed: for too many rows, and for small integers and halves, whose gaps
    rounding cannot hide unless a column is far larger in other rows.
    """
    rows = _unequal_pairs(problem, face)
    if len(rows) * problem.rows.n_parameters > MOST_RESIDUES:
        return True
    differences = _exact_differences(problem, rows)
    has_far_larger_rows = problem.scale.max(initial=1.0) > LARGEST_ENTRY
    if _are_halves(differences) and not has_far_larger_rows:
        return True
    return rank_modulo(np.unique(differences, axis=0)) <= rank


# The rows of a face whose differences to the reference are not zero.
def _unequal_pairs(problem: ChoiceProblem, face: Bool | None = None) -> Int64:
    return np.flatnonzero(problem.pairs_of(face) & (problem.norms > 0))


def _exact_differences(problem: ChoiceProblem, rows: Int64) -> Float64:
    return problem.differences(rows) * problem.scale  # exact, because the scale is a power of two


def rank_modulo(values: Float64) -> int:
    """The rank modulo a prime of a matrix of floating-point numbers, which are fractions."""
    # a number is integer · 2^(exponent − 53); modulo a prime, negative powers of 2 are integers too
    mantissa, exponent = np.frexp(values)
    exponents, index = np.unique(exponent, return_inverse=True)
    powers = np.array([pow(2, int(exponent) - 53, PRIME) for exponent in exponents], np.int64)
    residues = (mantissa * 2.0**53).astype(np.int64) % PRIME * powers[index.reshape(values.shape)] % PRIME
    rank = 0  # Gaussian elimination; products of residues are below 2⁶²
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


class EchelonForm(NamedTuple):
    """A matrix in reduced echelon form."""

    rows: list[Row]
    pivots: list[int]  # the column of each row in which it is 1 and all others are 0


def reduce_rows(rows: Sequence[Row]) -> EchelonForm:
    """The reduced echelon form of a matrix; rows that depend on earlier ones are left out."""
    reduced, pivots = list[Row](), list[int]()
    for row in rows:
        remainder = list(row)
        for above, pivot in zip(reduced, pivots, strict=True):
            remainder = _subtract(remainder, remainder[pivot], above)
        pivot = next((position for position, value in enumerate(remainder) if value), None)
        if pivot is None:
            continue
        leading = remainder[pivot]
        remainder = [value / leading for value in remainder]
        reduced = [_subtract(above, above[pivot], remainder) for above in reduced]
        reduced.append(remainder)
        pivots.append(pivot)
    return EchelonForm(reduced, pivots)


def _subtract(row: Row, factor: Fraction, pivot_row: Row) -> Row:
    return [a - factor * b for a, b in zip(row, pivot_row, strict=True)] if factor else row


# Whether the direction, projected exactly onto D₀ v = 0, raises all rows that die.
def _raises_all(surviving: EchelonForm, dying_rows: list[Row], direction: Float64) -> bool:
    if not dying_rows:
        return True
    size = max(float(np.abs(direction).max()), 1e-300)
    exact = [Fraction(float(value) / size).limit_denominator(DENOMINATOR) for value in direction]
    free_columns = [k for k in range(len(exact)) if k not in surviving.pivots]
    for row, pivot in zip(*surviving, strict=True):
        exact[pivot] = -sum((row[k] * exact[k] for k in free_columns), Fraction(0))
    return all(sum(map(Fraction.__mul__, row, exact)) > 0 for row in dying_rows)


# Whether some λ > 0 (of any sign on pairs both ways) has Σ λ d = 0 exactly.
def _has_balance(surviving: list[Row], both_ways: list[bool]) -> bool:
    # a floating-point λ with one-way multipliers of 1 or more is rounded; those of independent rows are then
    # solved for in fractions
    if not surviving:
        return True
    matrix = np.array([[float(value) for value in row] for row in surviving])
    multipliers = find_balance(matrix, both_ways)
    if multipliers is None:
        return False
    # solve for those of any sign, then for the large ones: they absorb the rounding
    order = sorted(range(len(surviving)), key=lambda k: (not both_ways[k], -multipliers[k]))
    by_column = [list(column) for column in zip(*(surviving[k] for k in order), strict=True)]
    # the pivots are the rows (columns here) that are independent of the rows before them
    solved = [order[k] for k in sorted(reduce_rows(by_column).pivots)]
    rounded = [k for k in range(len(surviving)) if k not in solved]
    weight = [Fraction(float(value)).limit_denominator(DENOMINATOR) for value in multipliers]
    equations = list[Row]()  # one for each column c: Σ_solved λ_k d_kc = −Σ_rounded λ_k d_kc
    for c in range(matrix.shape[1]):
        right = -sum((weight[k] * surviving[k][c] for k in rounded), Fraction(0))
        equations.append([*(surviving[k][c] for k in solved), right])
    solution = reduce_rows(equations)
    if len(solved) in solution.pivots:  # a pivot at the right-hand side: 0 = 1
        return False
    for row, pivot in zip(*solution, strict=True):
        weight[solved[pivot]] = row[-1]
    return all(both or value > 0 for both, value in zip(both_ways, weight, strict=True))


# Whether target = Σ λ g with λ ≥ 0, by the first phase of the simplex method with Bland's rule.
def _is_in_cone(generators: list[Row], target: Row) -> bool:
    # row k of the tableau is Σ λ g_k = target_k; its basis is an artificial variable, to be driven to 0
    tableau = [[g[k] for g in generators] + [value] for k, value in enumerate(target)]
    tableau = [row if row[-1] >= 0 else [-x for x in row] for row in tableau]  # right-hand sides of 0 or more
    basis = [len(generators) + k for k in range(len(tableau))]
    while True:
        artificial_rows = [row for row, k in zip(tableau, basis, strict=True) if k >= len(generators)]
        column_sums = [sum(column, Fraction(0)) for column in zip(*artificial_rows, strict=True)]
        if not artificial_rows or column_sums[-1] == 0:  # the last is what is still infeasible
            return True

        # Bland: the first column that helps, and the lowest basis number in a tie, so that nothing cycles
        entering = next((k for k, total in enumerate(column_sums[:-1]) if total > 0), None)
        if entering is None:
            return False
        leaving = min(
            (row[-1] / row[entering], basis[k], k) for k, row in enumerate(tableau) if row[entering] > 0
        )[2]

        pivot = tableau[leaving][entering]
        tableau[leaving] = [x / pivot for x in tableau[leaving]]
        for k, row in enumerate(tableau):
            if k != leaving:
                tableau[k] = _subtract(row, row[entering], tableau[leaving])
        basis[leaving] = entering


# Whether the target is not a combination of the rows.
def _is_independent(rows: list[Row], target: Row) -> bool:
    return len(reduce_rows([*rows, target]).pivots) > len(reduce_rows(rows).pivots)


# Whether all values are small multiples of ½.
def _are_halves(values: Float64) -> bool:
    return bool((2 * values % 1 == 0).all()) and float(np.abs(values).max(initial=0.0)) <= LARGEST_ENTRY


class DistinctPairs(NamedTuple):
    """The distinct differences of pairs that survive and that die; ``both_ways`` is of the surviving."""

    surviving: list[Row]
    both_ways: list[bool]
    dying: list[Row]

    @property
    def all(self) -> list[Row]:
        return [*self.surviving, *self.dying]


# The distinct differences of ``rows``, as fractions.
def _split_pairs(problem: ChoiceProblem, dying: Bool, rows: Int64) -> DistinctPairs:
    differences = _exact_differences(problem, rows)
    dies = dying[rows]
    surviving, both_ways = _distinct(differences[~dies], problem.also_chosen[rows[~dies]])
    lost = _distinct(differences[dies], np.zeros(int(dies.sum()), bool))[0]
    return DistinctPairs(surviving, both_ways, lost)


# The distinct rows as fractions, and whether any row equal to them goes both ways.
def _distinct(rows: Float64, both_ways: Bool) -> tuple[list[Row], list[bool]]:
    if not len(rows):
        return [], []
    values, number = np.unique(rows, axis=0, return_inverse=True)
    any_both_ways = np.zeros(len(values), bool)
    any_both_ways[number.ravel()[both_ways]] = True
    return [[Fraction(float(x)) for x in row] for row in values], any_both_ways.tolist()
