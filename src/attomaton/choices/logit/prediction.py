"""Probabilities of new alternatives in the limit of the fit: 0 and 1 where estimates are infinite.

Of each situation the alternatives infinitely far behind another have probability 0, and those that differ
finitely share 1 by the logit. Where two differ by a contrast that is undecided or not identified, the data do
not say; gradient descent from 0 still tends to something, which depends on the scale of the features.
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

MOST_DIFFERENCES = 4_000_000
"""Entries of differences that are formed at a time."""


def predict_rows(
    fit: LogitFit, matrix: Any, situations: Situations, *, descent: bool = False, leave_open: bool = False
) -> Float64:
    """The limit of the probability of each row of new situations, shape (n_rows,).

    A probability that the data leave open raises ``UndeterminedChoice``. With ``leave_open`` it is NaN, and
    with ``descent`` it is the one that gradient descent from 0 tends to.
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


def _predict_block(
    fit: LogitFit, matrix: Float64, situations: Situations, descent: bool, before: int, leave_open: bool
) -> Float64:
    """The probabilities of a few situations, which stand after ``before`` others."""
    problem = fit.problem
    if descent:
        if not fit.direction.certified:
            raise UncertifiedSolution(
                "the direction of gradient descent is not certified; scale features to a common size, or "
                "leave undecided what the data do not decide"
            )
        # descent from 0 stays in R, in the coordinates of the features as given
        outside = raw_complement(problem, fit.identified)
        matrix = matrix - matrix @ outside @ outside.T
        direction = problem.coordinates(fit.direction.vector)
    else:
        direction = fit.evidence.direction
    height = problem.scaled(matrix) @ direction
    highest = np.flatnonzero(height == situations.spread(situations.top(height)))
    first = highest[np.searchsorted(highest, situations.starts[:-1])]
    lead = situations.spread(first)
    contrasts = matrix[lead] - matrix
    rows = problem.scaled(contrasts)
    if descent:
        level, ahead = _follow_descent(fit, rows, rows @ direction)
    else:
        kinds = fit.classify(contrasts)
        level, ahead = kinds == ContrastKind.FINITE, kinds == ContrastKind.PLUS
    bad = np.flatnonzero(~(level | ahead))
    if len(bad) and not leave_open:
        number = before + int(situations.of_row[bad[0]])
        still = ", nor does gradient descent" if descent else ""
        raise UndeterminedChoice(
            f"the data do not decide between two alternatives of situation {number}{still}: the estimate of "
            "their difference is undecided or not identified"
        )
    gap = np.where(level, rows @ fit.evidence.beta, np.where(ahead, np.inf, np.nan))
    odds = np.exp(-(gap - situations.spread(-situations.top(-gap))))
    return odds / situations.spread(situations.sum(odds))


def _follow_descent(fit: LogitFit, contrasts: Float64, heights: Float64) -> tuple[Bool, Bool]:
    """Which contrasts f·β are finite, and which rise along descent, whose heights f·v are given."""
    length = np.linalg.norm(contrasts, axis=1)
    level = np.linalg.norm(contrasts @ fit.finite.complement, axis=1) <= CLOSE * length
    steep = heights > CLOSE * length * np.linalg.norm(fit.problem.coordinates(fit.direction.vector))
    return level, steep & ~level
