"""Predict the probabilities of new alternatives, which are 0 or 1 in the limit where estimates are infinite.

Alternatives infinitely far behind another of their situation have probability 0; the others share 1 by the
logit. If two alternatives differ by a contrast that is undecided or not identified, the data leave their
probabilities open. Gradient descent from 0 still has a limit, which depends on the scale of the features.
"""

from typing import Any

import numpy as np

from attomaton.base.errors import UncertifiedSolution, UndeterminedChoice
from attomaton.base.tables import Bool, Float64
from attomaton.choices.logit.cone import CLOSE
from attomaton.choices.logit.contrasts import ContrastKind
from attomaton.choices.logit.direction import raw_complement
from attomaton.choices.logit.fit import LogitFit
from attomaton.choices.logit.rows import Situations

MOST_DIFFERENCES = 4_000_000  # entries of differences in memory at once


def predict_rows(
    fit: LogitFit, matrix: Any, situations: Situations, *, descent: bool = False, leave_open: bool = False
) -> Float64:
    """The limit of the probability of each row of new situations, shape (n_rows,).

    A probability that the data leave open is the limit of gradient descent with ``descent``, NaN with
    ``leave_open``, and otherwise raises ``UndeterminedChoice``.
    """
    probability = np.empty(situations.n_rows)
    most = max(MOST_DIFFERENCES // max(matrix.shape[1], 1), 1)
    starts = situations.starts
    begin = 0
    while begin < len(situations):
        end = max(int((starts <= starts[begin] + most).sum()) - 1, begin + 1)
        rows = slice(int(starts[begin]), int(starts[end]))
        block: Any = matrix[rows]
        values: Any = block.toarray() if hasattr(block, "toarray") else np.asarray(block, np.float64)
        inside = Situations(starts[begin : end + 1] - starts[begin])
        probability[rows] = _predict_block(fit, values, inside, descent, begin, leave_open)
        begin = end
    return probability


# The probabilities of some situations, which follow ``before`` others.
def _predict_block(
    fit: LogitFit, matrix: Float64, situations: Situations, descent: bool, before: int, leave_open: bool
) -> Float64:
    problem = fit.problem
    if descent:
        if not fit.direction.certified:
            raise UncertifiedSolution(
                "the direction of gradient descent is not certified; scale features to a common size, or "
                "predict without it (undecided='refuse')"
            )
        # descent from 0 stays in R, in the coordinates of the features as given
        outside = raw_complement(problem, fit.identified)
        matrix = matrix - matrix @ outside @ outside.T
        direction = problem.coordinates(fit.direction.vector)
    else:
        direction = fit.evidence.direction
    height = problem.scaled(matrix) @ direction
    highest = np.flatnonzero(height == situations.spread(situations.top(height)))
    leaders = highest[np.searchsorted(highest, situations.starts[:-1])]
    contrasts = matrix[situations.spread(leaders)] - matrix  # the leader of the situation less each row
    scaled = problem.scaled(contrasts)
    if descent:
        is_finite, is_behind = _follow_descent(fit, scaled, scaled @ direction)
    else:
        kinds = fit.classify(contrasts)
        is_finite, is_behind = kinds == ContrastKind.FINITE, kinds == ContrastKind.PLUS
    undecided = np.flatnonzero(~(is_finite | is_behind))
    if len(undecided) and not leave_open:
        number = before + int(situations.of_row[undecided[0]])
        still = ", nor does gradient descent" if descent else ""
        raise UndeterminedChoice(
            f"the data do not decide between two alternatives of situation {number}{still}; leave out that "
            "situation"
        )
    gap = np.where(is_finite, scaled @ fit.evidence.beta, np.where(is_behind, np.inf, np.nan))
    odds = np.exp(-(gap - situations.spread(-situations.top(-gap))))
    return odds / situations.spread(situations.sum(odds))


# Which contrasts f·β are finite, and which tend to +∞ under gradient descent; ``heights`` are f·v.
def _follow_descent(fit: LogitFit, contrasts: Float64, heights: Float64) -> tuple[Bool, Bool]:
    length = np.linalg.norm(contrasts, axis=1)
    is_finite = np.linalg.norm(contrasts @ fit.finite.complement, axis=1) <= CLOSE * length
    rises = heights > CLOSE * length * np.linalg.norm(fit.problem.coordinates(fit.direction.vector))
    return is_finite, rises & ~is_finite
