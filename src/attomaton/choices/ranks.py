"""Ranks of items on their boards, with rank intervals that hold jointly.

Where the confidence interval of a difference excludes 0, one item is surely ahead of the other. The function
:func:`order_boards` finds these pairs, and then :func:`rank_items` the ranks and their intervals.
"""

from statistics import NormalDist
from typing import NamedTuple, cast

import numpy as np

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.ratings import Ratings
from attomaton.choices.spread import Spread
from attomaton.choices.uncertainty import BoardErrors
from attomaton.solvers.soft.certify import SCORES_WITHIN

# The critical value is a quantile of drawn scores, or Bonferroni's if one of the two limits is exceeded.
SCORE_DRAWS = 10_000  # number of draws of the scores
MOST_DRAWN = 400  # the largest component, in items, for which scores are drawn
LEAST_BEYOND = 50  # the fewest draws expected beyond the critical value: fewer make it too uncertain


class SureOrder(NamedTuple):
    """Which items of a board are surely ahead of which others, jointly with a confidence."""

    items: Int64  # (n,), the numbers of the items of the board
    ahead: Bool  # (n, n), whether the item of the row is surely ahead of the item of the column
    margin: Float64  # (n, n), the difference inside a component above which an item is surely ahead


class Ranks(NamedTuple):
    """The rank of each item on its board, and its rank interval: from 0 to 0 where there is none."""

    rank: Int64  # (n_items,)
    low: Int64  # (n_items,)
    high: Int64  # (n_items,)


def rank_items(ratings: Ratings, orders: list[SureOrder]) -> Ranks:
    """The ranks: 1 plus the number of items on the board that are ahead, by more than rounding."""
    board_of = ratings.board_of_component
    component_of_item = ratings.component
    is_ahead = ratings.gaps.precedes & (board_of[:, None] == board_of)  # the component of the row is
    sizes = np.bincount(component_of_item, minlength=len(board_of))
    rank = 1 + (sizes @ is_ahead)[component_of_item]
    for component in np.flatnonzero(sizes > 1).tolist():
        members = component_of_item == component
        score = ratings.score[members]
        # each score has an error of up to SCORES_WITHIN: count the items ahead by more than rounding
        n_not_ahead = np.searchsorted(np.sort(score), score + 2 * SCORES_WITHIN, "right")
        rank[members] += len(score) - n_not_ahead
    # A rank lies between 1 plus the number of items surely ahead, and the number of items less those surely
    # behind (Klein, Wright and Wieczorek 2020; Mogstad, Romano, Shaikh and Wilhelm 2024).
    low, high = np.zeros_like(rank), np.zeros_like(rank)
    for order in orders:
        low[order.items] = 1 + order.ahead.sum(axis=0)
        high[order.items] = len(order.items) - order.ahead.sum(axis=1)
    return Ranks(rank, low, high)


def order_boards(ratings: Ratings, level: float) -> list[SureOrder]:
    """The sure order of the items of each board with this confidence; empty if covariances are unknown."""
    if ratings.covariance is None:
        return []
    boards = range(len(ratings.anchors))
    return [_order_board(ratings, np.flatnonzero(ratings.board == board), level) for board in boards]


# The sure order of the items of one board; arrays of shape (n, n) are in the order of ``items``.
def _order_board(ratings: Ratings, items: Int64, level: float) -> SureOrder:
    # Let P be the number of pairs that can be compared, and 1 − α the confidence. The differences inside
    # components have simultaneous intervals of confidence 1 − α · (their share of P): the critical value is
    # the quantile of the largest |z_a − z_b| / s.e. over all of them, where z is drawn from the covariance of
    # the scores. With clusters it is the quantile of Student's t at 1 − α / (2P) for each difference. An
    # infinite difference has a bound of confidence 1 − α / (2P) on the means of the two components, lowered
    # by as many standard errors of both items.
    n = len(items)
    component = ratings.component[items]
    score = ratings.score[items]
    differences = ratings.differences(np.repeat(items, n), np.tile(items, n)).reshape(n, n)
    inside = component[:, None] == component
    # Both tables have each pair twice, and each item with itself.
    n_pairs = float((~np.isnan(differences)).sum() - n) / 2  # that can be compared
    n_inside = float(inside.sum() - n) / 2  # of one component
    alpha = 1.0 - level
    tail = alpha / (2.0 * max(n_pairs, 1.0))  # on each side of one difference (Bonferroni)
    if ratings.errors is None:
        score_margin, margin = _margins_from_covariance(ratings, items, alpha * n_inside / max(n_pairs, 1.0))
    else:
        score_margin, margin = _margins_from_clusters(ratings, ratings.errors, items, tail)
    ahead = inside & (np.nan_to_num(differences, nan=0.0) > margin)
    np.fill_diagonal(ahead, False)
    if n_pairs > n_inside:
        # the least gap between the means of both components, with each score off by its error
        bounds = _bound_gaps(ratings, component, 1.0 - tail)
        ahead |= bounds + (score - score_margin)[:, None] - (score + score_margin) > 0
    return SureOrder(items, transitive_closure(ahead), margin)


# How far the score of each item may be off with the required confidence, (n,), 0 for an item alone; and the
# difference of two items of a component, (n, n).
_Margins = tuple[Float64, Float64]


# Margins that all hold with probability 1 − alpha: a critical value times standard errors.
def _margins_from_covariance(ratings: Ratings, items: Int64, alpha: float) -> _Margins:
    all_items = cast("Float64", ratings.covariance)  # order_boards has checked that it is there
    component = ratings.component[items]
    inside = component[:, None] == component
    covariance = np.where(inside, np.nan_to_num(all_items[np.ix_(items, items)]), 0.0)
    critical = critical_value(covariance, component, alpha)
    return critical * np.sqrt(np.diag(covariance)), critical * difference_errors(covariance)


# Margins that are each exceeded with probability ``tail`` on each side: Student's t.
def _margins_from_clusters(ratings: Ratings, errors: BoardErrors, items: Int64, tail: float) -> _Margins:
    of_score = ratings.spread.half_width(tail)[items]
    component = ratings.component[items]
    of_score[(component[:, None] == component).sum(axis=1) == 1] = 0.0  # an item alone has no standard error
    difference = Spread(*(table[np.ix_(items, items)] for table in errors.difference))
    return of_score, difference.half_width(tail)


# The least differences between the components of every two items, shape (n, n); −inf where unknown.
def _bound_gaps(ratings: Ratings, component: Int64, level: float) -> Float64:
    # The components on the board, and the index of the component of each item among them.
    components, position = np.unique(component, return_inverse=True)
    gaps = ratings.gaps
    on_board = np.isin(gaps.above, components) & np.isin(gaps.below, components)
    above = np.searchsorted(components, gaps.above[on_board])
    below = np.searchsorted(components, gaps.below[on_board])
    bounds = np.full((len(components), len(components)), -np.inf)
    bounds[above, below] = gaps.pair_bounds(level)[on_board]
    return bounds[np.ix_(position, position)]  # from pairs of components to pairs of items


def critical_value(covariance: Float64, component: Int64, alpha: float) -> float:
    """The quantile 1 − alpha of the largest |z_a − z_b| / s.e., at most Bonferroni's critical value."""
    sizes = np.unique(component, return_counts=True)[1]
    n_pairs = float((sizes * (sizes - 1)).sum()) / 2
    if not n_pairs:  # every item is alone: the two-sided value of one difference, or 0 if none needs it
        return NormalDist().inv_cdf(1.0 - alpha / 2) if alpha > 0 else 0.0
    bonferroni = NormalDist().inv_cdf(1.0 - alpha / (2 * n_pairs))
    if sizes.max() > MOST_DRAWN or alpha * SCORE_DRAWS < LEAST_BEYOND:
        return bonferroni
    rng = np.random.default_rng(0)
    largest = np.zeros(SCORE_DRAWS)  # for each draw, the maximum of |z_a − z_b| / s.e.
    for number in np.flatnonzero(np.bincount(component) > 1).tolist():
        members = component == number
        inside = covariance[np.ix_(members, members)]
        error = difference_errors(inside)
        values, vectors = np.linalg.eigh(inside)
        root = vectors * np.sqrt(np.maximum(values, 0.0))  # root @ root.T is the covariance
        drawn = root @ rng.standard_normal((len(inside), SCORE_DRAWS))
        for item in range(len(inside) - 1):  # one item at a time, to save memory
            later = error[item, item + 1 :, None]  # standard errors of the differences to later items
            distance = np.abs(drawn[item + 1 :] - drawn[item]) * (later > SCORES_WITHIN)  # 0 / 0 is 0
            np.maximum(largest, (distance / np.maximum(later, SCORES_WITHIN)).max(axis=0), out=largest)
    return min(float(np.quantile(largest, 1.0 - alpha)), bonferroni)


def difference_errors(covariance: Float64) -> Float64:
    """The standard error of the difference of every two items, shape (n, n)."""
    variance = np.diag(covariance)
    return np.sqrt(np.maximum(variance[:, None] + variance - 2.0 * covariance, 0.0))


def transitive_closure(relation: Bool) -> Bool:
    """The relation, shape (n, n), with every pair that a chain of its pairs connects."""
    while True:  # after r rounds, chains have up to 2^r pairs
        steps = relation.astype(np.float32)  # multiplies faster than integers
        longer = relation | (steps @ steps > 0)
        if (longer == relation).all():
            return relation
        relation = longer
