"""What to compare next: comparisons that connect boards, make ratings finite, or decide an open order.

:func:`propose_comparisons` lists all three kinds.
"""

from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.printing import name_item
from attomaton.base.tables import Float64
from attomaton.choices.ranks import SureOrder, difference_errors
from attomaton.choices.ratings import Ratings, outcome_probabilities

LEAST_BATCH = 10  # fewest comparisons of a pair that are proposed at once, if no number is given


class NextComparison(NamedTuple):
    """A suggested comparison, with the number of repeats and the reason.

    ``gain`` is the probability that ``times`` comparisons of the two items decide which of them is ahead. It
    is None for a comparison that connects boards or can make a rating finite.
    """

    first: Any
    second: Any
    times: int
    gain: float | None
    reason: str

    def __str__(self) -> str:
        often = f", {self.times:,} times" * (self.times > 1)
        return f"{name_item(self.first)} with {name_item(self.second)}{often}: {self.reason}"


def propose_comparisons(
    ratings: Ratings, orders: list[SureOrder], limit: int, batch: int | None
) -> tuple[NextComparison, ...]:
    """At most ``limit`` comparisons of each kind; ``orders``, one per board, may be empty."""
    deciding = [pair for order in orders for pair in _decide_order(ratings, order, limit, batch)]
    deciding.sort(key=attrgetter("gain"), reverse=True)
    return (*_connect_boards(ratings)[:limit], *_bound_ratings(ratings, orders)[:limit], *deciding[:limit])


# The middle item of the anchor of each further board, with the middle item of the first anchor.
def _connect_boards(ratings: Ratings) -> list[NextComparison]:
    members_of_anchors = [ratings.members[int(anchor)] for anchor in ratings.anchors]
    middles = [ratings.items[members[len(members) // 2]] for members in members_of_anchors]
    return [
        NextComparison(item, middles[0], 1, None, f"connects {name_item(item)} to board 1")
        for item in middles[1:]
    ]


# An item with an infinite rating, with the nearest item of its anchor, where their order is open.
def _bound_ratings(ratings: Ratings, orders: list[SureOrder]) -> list[NextComparison]:
    members, precedes = ratings.members, ratings.gaps.precedes
    comparisons = list[NextComparison]()
    anchors: list[int] = ratings.anchors[ratings.board_of_component].tolist()
    for component, anchor in enumerate(anchors):
        # Members are listed best first: the last of the leading and the first of the trailing are nearest.
        if precedes[component, anchor]:
            item, neighbour = leading, trailing = members[component][-1], members[anchor][0]
        elif precedes[anchor, component]:
            item, neighbour = trailing, leading = members[component][0], members[anchor][-1]
        else:
            continue
        if orders:
            order = orders[int(ratings.board_of_component[component])]
            if order.ahead[tuple(np.searchsorted(order.items, [leading, trailing]))]:  # no longer open
                continue
        first, second = ratings.items[item], ratings.items[neighbour]
        winner = name_item(ratings.items[trailing])
        reason = f"the order is open; a win of {winner} makes the rating of {name_item(first)} finite"
        comparisons.append(NextComparison(first, second, 1, None, reason))
    return comparisons


# The pairs of a board whose order a batch is most likely to decide, each after the batches before it.
def _decide_order(ratings: Ratings, order: SureOrder, limit: int, batch: int | None) -> list[NextComparison]:
    # If ratings are normal about their estimates, b comparisons with information w each lower the variance v
    # of a difference to v' = v / (1 + b w v), and the estimate moves by √(v − v'). The order is decided once
    # the difference divided by √v' exceeds the critical value of the joint rank intervals. In the code,
    # shrink is √(v' / v) of the next batch, and earlier_shrink that of the batches listed before.
    from scipy.special import ndtr  # a tenth of the start-up time

    items, ahead, margin = order
    square = np.ix_(items, items)
    component, score = ratings.component[items], ratings.score[items]
    errors = ratings.errors
    covariance: Any = ratings.covariance if errors is None else errors.independent
    current: Float64 = np.nan_to_num(covariance[square])
    initial = difference_errors(current)
    error = initial if errors is None else errors.difference.error[square]
    is_open = (component[:, None] == component) & ~ahead & ~ahead.T & (error > 0)
    pairs = np.nonzero(np.triu(is_open, 1))
    mean_games = float(ratings.games[items].sum()) / max(len(items) * (len(items) - 1), 1)
    times = batch or max(round(mean_games), LEAST_BATCH)
    gap = np.abs(score[pairs[0]] - score[pairs[1]])
    batch_information = times * information(gap, ratings.tie)
    comparisons = list[NextComparison]()
    remaining = np.ones(len(gap), bool)
    while len(comparisons) < limit and remaining.any():
        current_error = difference_errors(current)[pairs]
        earlier_shrink = current_error / initial[pairs]
        shrink = 1.0 / np.sqrt(1.0 + batch_information * current_error**2)
        threshold = earlier_shrink * shrink * margin[pairs]  # the difference that decides the order
        spread = earlier_shrink * np.sqrt(1.0 - shrink**2) * error[pairs]  # of the move of the estimate
        gain = np.where(remaining, ndtr((gap - threshold) / spread) + ndtr((-gap - threshold) / spread), -1.0)
        best = int(gain.argmax())
        # the two positions among `items`, the better item first
        a, b = sorted((int(pairs[0][best]), int(pairs[1][best])), key=lambda position: -score[position])
        first, second = ratings.items[items[a]], ratings.items[items[b]]
        percent = f"{100 * gain[best]:.2g} %" if gain[best] >= 1e-4 else "less than 0.01 %"
        reason = f"decides which is ahead with probability {percent}"
        comparisons.append(NextComparison(first, second, times, float(gain[best]), reason))
        remaining[best] = False
        current = add_comparison(current, score, ratings.tie, a, b, times)
    return comparisons


def information(gap: Float64, tie: float) -> Float64:
    """The information of one comparison about the gap between its items: p(1 − p) without ties."""
    first, second = outcome_probabilities(gap, tie)
    return (first + second) / 4 - ((first - second) / 2) ** 2


def add_comparison(covariance: Float64, score: Float64, tie: float, a: int, b: int, times: int) -> Float64:
    """Σ − w Σd dᵀΣ / (1 + w dᵀΣd), d = e_a − e_b: the covariance after comparisons of information w."""
    # `direction` is Σd, and `variance` dᵀΣd.
    weight = times * float(information(score[a] - score[b], tie))
    direction = covariance[:, a] - covariance[:, b]
    variance = float(direction[a] - direction[b])
    return covariance - np.outer(direction, direction) * weight / (1.0 + weight * variance)
