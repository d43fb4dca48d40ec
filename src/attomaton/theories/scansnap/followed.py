"""Compute attention to the tokens of each query at the end of the exact flow, for small corpora."""

from dataclasses import dataclass

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import real_number
from attomaton.base.tables import Float64, Int64
from attomaton.theories.scansnap.classes import CorpusClasses
from attomaton.theories.scansnap.flow import solve_flow
from attomaton.theories.scansnap.law import Rates, find_class_times

# Maximum size of Y and Z together that can be followed in seconds.
FEW_NUMBERS = 3000

# Maximum size of the table P(l | n) of all classes.
MAX_LAW = 1_000_000


@dataclass(frozen=True, eq=False)
class FollowedQuery:
    """One ``query`` at the end of the flow, shape (n_keys,) for each array.

    ``tokens`` precede the query, from the most lowered to the most raised. ``scores`` is z of each token.
    ``before`` and ``after`` are its mean attention over the query's sequences, at the start and at the end.
    """

    query: int
    tokens: Int64
    scores: Float64
    before: Float64
    after: Float64


def can_follow(classes: CorpusClasses) -> bool:
    # whether Y, with a row per token and a column per label and for all others, and Z are small enough
    n_used = len(np.union1d(classes.tokens, classes.labels))
    n_numbers = n_used * (len(np.unique(classes.labels)) + 1 + len(np.unique(classes.queries)))
    return n_numbers <= FEW_NUMBERS and len(classes) * n_used <= MAX_LAW


def half_time(classes: CorpusClasses, rates: Rates) -> float:
    """The time when classes with half of all sequences have passed their predicted snap."""
    _, snaps = find_class_times(classes.shares, classes.n_tokens, rates)
    order = np.argsort(snaps, kind="stable")
    return float(snaps[order][np.searchsorted(np.cumsum(classes.shares[order]), 0.5)])


def follow_attention(
    classes: CorpusClasses, rates: Rates, *, until: float, most_slopes: int | None = None
) -> tuple[FollowedQuery, ...]:
    """Follow Y and Z to t = ``until``; return the tokens of each query, most frequent query first."""
    until = real_number(until, "until", above=0)
    if not can_follow(classes):
        raise UnsupportedOption(
            f"{classes} is too large to follow Y and Z exactly; use forecast_queries, which has no limit"
        )
    flow = solve_flow(classes, rates, [until], growth=False, rtol=1e-7, atol=1e-9, most_slopes=most_slopes)
    reduced = flow.reduced
    end = flow.scores[-1]
    shares = classes.shares[:, None]
    # mean attention of each query's classes to the keys, shape (n_queries, n_keys)
    before, after = (
        reduced.sum_by_query(shares * reduced.attention(scores)) / reduced.sum_by_query(shares)
        for scores in (np.zeros_like(end), end)
    )
    followed: list[FollowedQuery] = []
    for query in classes.query_shares()[0].tolist():
        row = reduced.queries.tolist().index(query)
        present = np.flatnonzero(before[row] > 0)
        order = present[np.argsort(end[row, present], kind="stable")]
        followed.append(
            FollowedQuery(query, reduced.keys[order], end[row, order], before[row, order], after[row, order])
        )
    return tuple(followed)
