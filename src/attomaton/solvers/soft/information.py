"""Standard errors of Luce scores from the observed information: the Hessian of the summed loss.

Scores have mean zero in their component, so their covariance is the pseudo-inverse of the Hessian H there. It
is found as (H + c/m 11ᵀ)⁻¹ − 11ᵀ/(c m): adding c along the flat direction makes H invertible and changes
nothing else.
"""

from typing import Any

import numpy as np

from attomaton.base.borders import check_floats
from attomaton.base.errors import UnsupportedOption
from attomaton.base.kernels import announced, compiled
from attomaton.base.tables import Float64
from attomaton.solvers.soft.groups import find_part, make_room, share_groups, sort_by_group
from attomaton.solvers.soft.likelihood import LuceProblem
from attomaton.solvers.soft.newton import Array, Choices, GroupPart, Space, weigh

linalg: Any = np.linalg

LARGEST = 16_384
"""Most tokens of a component whose covariance, a dense matrix, is formed: two gigabytes."""


def score_errors(problem: LuceProblem, scores: Float64, *, ridge: float = 0.0) -> Float64:
    """The standard error of each score about the mean of its component, shape (n_alternatives,)."""
    scores = check_floats(scores, (problem.n_alternatives,), "scores")
    groups = sort_by_group(problem)
    largest = int(np.diff(groups.borders).max(initial=0))
    if largest > LARGEST:
        raise UnsupportedOption(
            f"a component has {largest:,} tokens, and standard errors need a dense matrix of that size; "
            f"at most {LARGEST:,} are supported"
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
    """Σ count (diag p − p pᵀ) over the choices of one group, from the chances in ``space``."""
    first, base = part.first, choices.offsets[part.first_choice]
    size = part.last - first
    hessian = np.zeros((size, size))
    for choice in range(part.first_choice, part.last_choice):
        count = choices.count[choice]
        begin, end = choices.offsets[choice], choices.offsets[choice + 1]
        for entry in range(begin, end):
            node, share = choices.alternative[entry] - first, count * space.chance[entry - base]
            for other in range(begin, entry):
                weight = share * space.chance[other - base]
                neighbour = choices.alternative[other] - first
                hessian[node, neighbour] -= weight
                hessian[neighbour, node] -= weight
                hessian[node, node] += weight
                hessian[neighbour, neighbour] += weight
    return hessian
