"""Which tokens attention keeps, by the flow itself: for corpora small enough to follow Y and Z exactly.

Where no token is distinct the laws of growth say nothing, but the differential equation still does. Scores
of a query start at 0 and always add up to 0 over the tokens that stand before it, so a token above 0 has been
raised and one below 0 lowered: its odds against a token at 0 are e^z times what its number of occurrences
would give.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import real_number
from attomaton.base.tables import Float64, Int64
from attomaton.theories.scansnap.classes import CorpusClasses
from attomaton.theories.scansnap.flow import solve_flow
from attomaton.theories.scansnap.forecast import Clock
from attomaton.theories.scansnap.law import Rates
from attomaton.theories.scansnap.reduced import Reduced

FEW_NUMBERS = 3000
"""Most numbers in Y and Z together that are followed in seconds."""

MAX_LAW = 1_000_000
"""Most numbers in the laws of all classes."""

NOISE = 1e-6
"""Scores below this are those of tokens that do not move."""


@dataclass(frozen=True, eq=False)
class KeptTokens:
    """One query at the end of the flow.

    Attributes
    ----------
    query : int
        The token.
    tokens : int64 array, shape (n_used,)
        The tokens that stand before it, the most lowered first, the most raised last.
    scores : float64 array, shape (n_used,)
        z of each.
    before, after : float64 arrays, shape (n_used,)
        Attention to each, the mean over the query's sequences, at the start and at the end.

    Examples
    --------
    >>> from attomaton.theories.scansnap.classes import draw_linear_classes
    >>> kept, _ = follow_attention(draw_linear_classes(2), Rates(decoder=10.0, attention=1.0), until=100.0)
    >>> kept.query, kept.tokens[-1].item(), (kept.after / kept.before).round(2)[[0, -1]].tolist()
    (30, 19, [0.89, 1.39])
    """

    query: int
    tokens: Int64
    scores: Float64
    before: Float64
    after: Float64


def can_follow(classes: CorpusClasses) -> bool:
    """Whether Y and Z are small enough for :func:`follow_attention`."""
    used = len(np.union1d(classes.tokens, classes.labels))
    state = used * (len(np.unique(classes.labels)) + 1 + len(np.unique(classes.queries)))
    return state <= FEW_NUMBERS and len(classes) * used <= MAX_LAW


def half_time(classes: CorpusClasses, rates: Rates) -> float:
    """When classes that hold half of all sequences have passed their predicted t₀."""
    snaps = Clock(classes.n_tokens, rates).snap(classes.shares)
    order = np.argsort(snaps, kind="stable")
    return float(snaps[order][np.searchsorted(np.cumsum(classes.shares[order]), 0.5)])


def follow_attention(
    classes: CorpusClasses, rates: Rates, *, until: float, most_slopes: int | None = None
) -> tuple[KeptTokens, ...]:
    """Follow Y and Z to t = ``until`` and say what each query keeps; the most frequent query first."""
    until = real_number(until, "until", above=0)
    if not can_follow(classes):
        raise UnsupportedOption(
            f"{classes} is too large to follow Y and Z exactly; see forecast_queries, which is not"
        )
    flow = solve_flow(classes, rates, [until], growth=False, rtol=1e-7, atol=1e-9, most_slopes=most_slopes)
    reduced, end = flow.reduced, flow.scores[-1]
    before, after = (_mean_attention(reduced, z) for z in (np.zeros_like(end), end))
    found: list[KeptTokens] = []
    for query in classes.query_shares()[0].tolist():
        row = reduced.queries.tolist().index(query)
        there = np.flatnonzero(before[row] > 0)
        order = there[np.argsort(end[row, there], kind="stable")]
        found.append(
            KeptTokens(query, reduced.used[order], end[row, order], before[row, order], after[row, order])
        )
    return tuple(found)


def _mean_attention(reduced: Reduced, scores: Float64) -> Float64:
    """Σ π_n c_n / Σ π_n over the classes of each query, shape (n_queries, n_used)."""
    shares = reduced.classes.shares[:, None]
    return reduced.sum_by_query(shares * reduced.attention(scores)) / reduced.sum_by_query(shares)
