"""Proven bounds on gradient and curvature of the Luce loss in each group of alternatives.

The Hessian on a group is a graph Laplacian: L = Σ count Σ_{i<j} p_i p_j (e_i − e_j)(e_i − e_j)ᵀ. Its smallest
eigenvalue on scores with mean zero is no smaller than that of L without the row and column of one alternative
(interlacing), L_r, whose off-diagonal entries are not positive. If some v > 0 has L_r v ≥ c > 0 in every
entry, L_r is an M-matrix: its inverse has no negative entry, and its row sums are at most max v / c, so that
the eigenvalue is at least c / max v. Conjugate gradients supply v; whatever they return, the bound holds for
the v that is checked, and the rounding error of the check itself is subtracted.
"""

import math
from typing import Any

import numpy as np

from attomaton.base.borders import check_floats
from attomaton.base.errors import UnsupportedOption
from attomaton.base.kernels import announced, compiled, compiled_within, copy_into
from attomaton.base.tables import Float64
from attomaton.solvers.soft.likelihood import LuceProblem, Slopes
from attomaton.solvers.soft.newton import (
    Array,
    Choices,
    GroupPart,
    Groups,
    Space,
    bend,
    find_diagonal,
    find_part,
    make_room,
    share_groups,
    sort_by_group,
    weigh,
)

EPS = float(np.finfo(np.float64).eps)

LEAST_PROBABILITY = 1e-290
"""Smaller probabilities are inaccurate or zero."""

CLOSE = 0.25
"""How far L_r v may be from 1: closer costs more iterations than it gains."""


def measure_slopes(
    problem: LuceProblem, scores: Float64, *, ridge: float = 0.0, threads: int | None = None
) -> Slopes:
    """Bounds on gradient and curvature of the summed loss + ½ ridge Σ s² in each component.

    If nothing is proven, as in a group that no choices connect, the curvature is that of the ridge alone.
    """
    scores = check_floats(scores, (problem.n_alternatives,), "scores")
    groups = sort_by_group(problem)
    return measure_groups(groups, scores[groups.place], ridge=ridge, threads=threads)


def measure_groups(
    groups: Groups, scores: Float64, *, ridge: float = 0.0, threads: int | None = None
) -> Slopes:
    """The same for a problem and scores sorted by group."""
    n_groups = len(groups)
    slopes = Slopes(np.zeros(n_groups), np.zeros(n_groups), np.full(n_groups, np.inf), np.zeros(n_groups))
    share_groups(groups, threads, _measure_groups, (scores, float(ridge)), slopes)
    return slopes


@compiled(work=announced)
def _measure_groups(
    choices: Choices, starts: tuple[Array, Array], some: Array, at: tuple[Array, float], slopes: Slopes
) -> None:
    """Bounds for the groups ``some`` at these scores, with this ridge."""
    scores, ridge = at
    space = make_room(choices, starts, some)
    for group in some:
        part = find_part(starts, group)
        size = part.last - part.first
        if size < 2:
            continue
        here = scores[part.first : part.last]
        weigh(choices, part, here, space)
        slopes.loss[group] = _sum_losses(choices, part, here, space)
        loose = find_looseness(choices, part, here)
        moved = np.zeros(size)
        steep = _measure_gradient(choices, part, here, space, (loose, ridge), moved)
        slopes.largest[group], slopes.gradient[group] = steep
        slopes.curvature[group] = ridge + _least_curvature(choices, part, space, loose, moved)


@compiled_within
def _sum_losses(choices: Choices, part: GroupPart, scores: Array, space: Space) -> float:
    """−Σ count · ln p(winner), from the probabilities, or from the scores if a probability is too small."""
    base, total = choices.offsets[part.first_choice], 0.0
    for choice in range(part.first_choice, part.last_choice):
        begin, end = choices.offsets[choice], choices.offsets[choice + 1]
        winner_entry = begin
        while choices.alternative[winner_entry] != choices.winner[choice]:
            winner_entry += 1
        won, own, rest = space.probability[winner_entry - base], 0.0, -np.inf
        if won < LEAST_PROBABILITY:
            for entry in range(begin, end):
                logit = scores[choices.alternative[entry] - part.first]
                logit += math.log(choices.multiplicity[entry])
                own = logit if entry == winner_entry else own
                rest = max(rest, logit) + math.log1p(math.exp(-abs(rest - logit)))
        total += choices.count[choice] * (-math.log(won) if won >= LEAST_PROBABILITY else rest - own)
    return total


@compiled_within
def find_looseness(choices: Choices, part: GroupPart, scores: Array) -> float:
    """Relative rounding error of a probability, from the magnitude of logits and the length of sums."""
    largest, longest, most = 0.0, 0, 1
    for score in scores:
        largest = max(largest, abs(score))
    for choice in range(part.first_choice, part.last_choice):
        longest = max(longest, choices.offsets[choice + 1] - choices.offsets[choice])
    for entry in range(choices.offsets[part.first_choice], choices.offsets[part.last_choice]):
        most = max(most, choices.multiplicity[entry])
    return EPS * (4.0 * (largest + math.log(most)) + longest + 8.0)


@compiled_within
def _measure_gradient(
    choices: Choices, part: GroupPart, scores: Array, space: Space, loose: tuple[float, float], moved: Array
) -> tuple[float, float]:
    """The largest entry, and an upper bound on the norm; ``loose`` is the looseness, and the ridge.

    ``moved`` becomes Σ count · (1 − p if it won, p if another won) for each alternative: the sum of the
    absolute terms of the gradient.
    """
    first, base = part.first, choices.offsets[part.first_choice]
    for choice in range(part.first_choice, part.last_choice):
        winner, count, lost = choices.winner[choice] - first, choices.count[choice], 0.0
        for entry in range(choices.offsets[choice], choices.offsets[choice + 1]):
            node = choices.alternative[entry] - first
            if node != winner:
                moved[node] += count * space.probability[entry - base]
                lost += space.probability[entry - base]
        moved[winner] += count * lost
    square, largest = 0.0, 0.0
    for node in range(len(moved)):
        pull = loose[1] * scores[node]
        entry = abs(space.gradient[node] + pull)
        largest = max(largest, entry)
        length = entry + loose[0] * (moved[node] + abs(pull))
        square += length * length
    return largest, np.sqrt(square) * (1.0 + EPS * len(moved))


@compiled_within
def _least_curvature(choices: Choices, part: GroupPart, space: Space, loose: float, moved: Array) -> float:
    """A proven lower bound on the smallest eigenvalue over scores with mean zero; 0 if none is found."""
    size = part.last - part.first
    find_diagonal(choices, part, space)
    root, lowest = part.first - part.first, np.inf  # a zero with the type of nodes: one type compiles once
    for node in range(size):
        lowest = min(lowest, space.diagonal[node])
        if space.diagonal[node] > space.diagonal[root]:
            root = node
    if lowest <= 0.0 or not _solve_grounded(choices, part, space, root):
        return 0.0
    least, largest = np.inf, 0.0
    for node in range(size):
        largest = max(largest, space.step[node])
    copy_into(space.direction, 0, space.step[:size])
    bend(choices, part, space)
    for node in range(size):
        if node != root:
            if not space.step[node] > 0.0:
                return 0.0
            least = min(least, space.bent[node] - 4.0 * loose * moved[node] * largest)
    return max(least, 0.0) / largest * (1.0 - 4.0 * loose)


@compiled_within
def _solve_grounded(choices: Choices, part: GroupPart, space: Space, root: int) -> bool:
    """Solve L_r v ≈ 1 by conjugate gradients, v = 0 at the root, into ``space.step``; return success."""
    size = part.last - part.first
    residual, scaled, direction, bent = space.residual, space.scaled, space.direction, space.bent
    energy = 0.0
    for node in range(size):
        space.step[node] = 0.0
        residual[node] = 0.0 if node == root else 1.0
        direction[node] = scaled[node] = residual[node] / space.diagonal[node]
        energy += residual[node] * scaled[node]
    for _ in range(2 * size + 100):
        bend(choices, part, space)
        bent[root] = 0.0
        along = 0.0
        for node in range(size):
            along += bent[node] * direction[node]
        if not 0.0 < along < np.inf:
            return False
        length, fresh, farthest = energy / along, 0.0, 0.0
        for node in range(size):
            space.step[node] += length * direction[node]
            residual[node] -= length * bent[node]
            scaled[node] = residual[node] / space.diagonal[node]
            fresh += residual[node] * scaled[node]
            farthest = max(farthest, abs(residual[node]))
        if farthest <= CLOSE:
            return True
        turn, energy = fresh / energy, fresh
        for node in range(size):
            direction[node] = scaled[node] + turn * direction[node]
    return False


linalg: Any = np.linalg

LARGEST = 16_384
"""Most tokens of a component for its covariance, a dense matrix: two gigabytes."""


def score_errors(problem: LuceProblem, scores: Float64, *, ridge: float = 0.0) -> Float64:
    """The standard error of each score relative to the mean of its component, shape (n_alternatives,).

    The covariance of scores with mean zero is the pseudo-inverse of the Hessian H of the summed loss, found
    as (H + c/m 11ᵀ)⁻¹ − 11ᵀ/(c m): adding c along the flat direction makes H invertible and changes nothing
    else.
    """
    scores = check_floats(scores, (problem.n_alternatives,), "scores")
    groups = sort_by_group(problem)
    largest = int(np.diff(groups.borders).max(initial=0))
    if largest > LARGEST:
        raise UnsupportedOption(
            f"a component has {largest:,} tokens, and standard errors need a dense matrix of that size; "
            f"give components of at most {LARGEST:,} tokens"
        )
    variance = np.zeros(problem.n_alternatives)
    share_groups(groups, None, _spread_groups, (scores[groups.place], float(ridge)), variance)
    errors = np.empty_like(variance)
    errors[groups.place] = np.sqrt(np.maximum(variance, 0.0))
    return errors


@compiled(work=announced)
def _spread_groups(
    choices: Choices, starts: tuple[Array, Array], some: Array, at: tuple[Array, float], variance: Array
) -> None:
    """The variance of each score of the groups ``some``."""
    scores, ridge = at
    space = make_room(choices, starts, some)
    for group in some:
        part = find_part(starts, group)
        size = part.last - part.first
        if size < 2:
            continue
        weigh(choices, part, scores[part.first : part.last], space)
        hessian = fill_hessian(choices, part, space)
        lift = np.trace(hessian) / size
        for node in range(size):
            hessian[node, node] += ridge
        covariance = linalg.inv(hessian + lift / size)
        for node in range(size):
            variance[part.first + node] = covariance[node, node] - 1.0 / ((lift + ridge) * size)


@compiled
def fill_hessian(choices: Choices, part: GroupPart, space: Space) -> Array:
    """Σ count (diag p − p pᵀ) over the choices of one group, from the probabilities in ``space``."""
    first, base = part.first, choices.offsets[part.first_choice]
    size = part.last - first
    hessian = np.zeros((size, size))
    for choice in range(part.first_choice, part.last_choice):
        count = choices.count[choice]
        begin, end = choices.offsets[choice], choices.offsets[choice + 1]
        for entry in range(begin, end):
            node, share = choices.alternative[entry] - first, count * space.probability[entry - base]
            for other in range(begin, entry):
                weight = share * space.probability[other - base]
                neighbour = choices.alternative[other] - first
                hessian[node, neighbour] -= weight
                hessian[neighbour, node] -= weight
                hessian[node, node] += weight
                hessian[neighbour, neighbour] += weight
    return hessian
