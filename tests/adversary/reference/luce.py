"""The Luce model by Newton's method, in decimals of many digits or in doubles.

Choices are (winner, {item: multiplicity}, count). Scores have mean zero.
"""

from decimal import Decimal, localcontext

import numpy as np

DIGITS = 60


def fit_decimal(n_items, choices, start, *, ridge=0):
    """Scores and standard errors of strongly connected items, to some forty digits; None if it stalls."""
    with localcontext() as context:
        context.prec = DIGITS
        scores = [Decimal(float(value)) for value in start]
        for _ in range(80):
            gradient, hessian, lift = _slopes(n_items, choices, scores, ridge)
            step = solve(hessian, [-value for value in gradient])
            longest = max(abs(value) for value in step)
            shrink = Decimal(1) if longest < 2 else 2 / longest
            scores = [score + shrink * value for score, value in zip(scores, step, strict=True)]
            if longest < Decimal(10) ** -35:
                break
        else:
            return None
        mean = sum(scores) / n_items
        errors = []
        for item in range(n_items):
            unit = [Decimal(int(other == item)) for other in range(n_items)]
            variance = solve(hessian, unit)[item]
            errors.append((variance - 1 / lift / n_items).sqrt() if not ridge else variance.sqrt())
        return [score - mean for score in scores], errors


def _slopes(n_items, choices, scores, ridge):
    """Gradient and Hessian of the summed loss; along the ones, which it does not see, the Hessian is lifted.

    Adding (lift / n) 1 1ᵀ has the eigenvalue lift along the ones.
    """
    gradient = [Decimal(0)] * n_items
    hessian = [[Decimal(0)] * n_items for _ in range(n_items)]
    for winner, held, count in choices:
        odds = {item: times * scores[item].exp() for item, times in held.items()}
        total = sum(odds.values())
        probability = {item: value / total for item, value in odds.items()}
        gradient[winner] -= count
        for item, mine in probability.items():
            gradient[item] += count * mine
            hessian[item][item] += count * mine
            for other, theirs in probability.items():
                hessian[item][other] -= count * mine * theirs
    for item in range(n_items):
        gradient[item] += Decimal(ridge) * scores[item]
        hessian[item][item] += Decimal(ridge)
    lift = sum(hessian[item][item] for item in range(n_items)) / n_items
    if not ridge:
        hessian = [[value + lift / n_items for value in row] for row in hessian]
    return gradient, hessian, lift


def solve(matrix, right):
    """Gauss with row pivots, for lists of exact or long numbers."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for pivot in range(size):
        best = max(range(pivot, size), key=lambda row: abs(rows[row][pivot]))
        rows[pivot], rows[best] = rows[best], rows[pivot]
        for row in range(pivot + 1, size):
            factor = rows[row][pivot] / rows[pivot][pivot]
            for at in range(pivot, size + 1):
                rows[row][at] -= factor * rows[pivot][at]
    found = [rows[0][size] * 0] * size
    for row in reversed(range(size)):
        rest = sum(rows[row][at] * found[at] for at in range(row + 1, size))
        found[row] = (rows[row][size] - rest) / rows[row][row]
    return found


def fit_doubles(n_items, choices, *, anchor=None, stiffness=0.0):
    """The same in doubles, optionally pulled towards anchors: minimises Σ −ln p + ½ stiffness ‖s − u‖²."""
    anchor = np.zeros(n_items) if anchor is None else anchor
    scores = anchor.copy()
    for _ in range(500):
        gradient, hessian = stiffness * (scores - anchor), stiffness * np.eye(n_items)
        for winner, held, count in choices:
            items, times = np.array(list(held)), np.array(list(held.values()), float)
            odds = times * np.exp(scores[items] - scores[items].max())
            probability = odds / odds.sum()
            gradient[winner] -= count
            gradient[items] += count * probability
            hessian[np.ix_(items, items)] += count * (
                np.diag(probability) - np.outer(probability, probability)
            )
        step = np.linalg.lstsq(hessian, -gradient, rcond=1e-14)[0]
        longest = np.abs(step).max(initial=0.0)
        scores = scores + step * min(1.0, 1.0 / longest if longest > 0 else 1.0)
        if longest < 1e-13:
            break
    return scores if stiffness else scores - scores.mean()
