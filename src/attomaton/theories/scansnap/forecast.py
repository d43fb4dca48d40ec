"""Forecast for each query of the second theory: its distinct tokens, the order of fading, and the times.

In running text a token precedes many labels, so over all classes no token is distinct. But a query's
attention only weighs tokens that precede this query, so a token is distinct *under a query* if it belongs to
one of the query's own classes only. Tokens fade in the order of their pulls, the exact first movement of
their scores (:mod:`~attomaton.theories.scansnap.pulls`). For tokens that are distinct over all classes this
is the order of P(l | n), as in claim 3 of the paper. The decoder of class n learns at the rate η_Y π_n, so
turn and snap are those of a corpus of 1/π_n equal classes, by the closed form for slow attention (C₀ → ∞, B ∝
Γ). :func:`forecast_queries` makes one :class:`QueryForecast` for each of the most frequent queries.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.options import real_number, whole_number
from attomaton.base.ragged import run_starts
from attomaton.base.tables import Float64, Int64
from attomaton.theories.scansnap.classes import CorpusClasses
from attomaton.theories.scansnap.law import Rates, find_class_times
from attomaton.theories.scansnap.pulls import find_pulls


@dataclass(frozen=True, eq=False, repr=False)
class QueryForecast:
    """The forecast for one ``query``: its classes, and its tokens in the order of fading.

    For each class of the query, most frequent first: ``labels`` (its next token), ``class_shares`` (its share
    of the corpus), ``turns`` and ``snaps`` (its predicted times). For each token before the query, ascending:
    ``tokens`` (its id) and ``pulls`` (the first movement of its score, see
    :mod:`~attomaton.theories.scansnap.pulls`). For each distinct token, first to fade first: ``distinct``
    (its id), ``owners`` (the index of its class in ``labels``) and ``probabilities`` (P(l | n) in this
    class). ``everywhere`` has the distinct tokens that occur in only one class of the whole corpus. ``share``
    is the query's share of all sequences.
    """

    query: int
    share: float
    labels: Int64
    class_shares: Float64
    turns: Float64
    snaps: Float64
    tokens: Int64
    pulls: Float64
    distinct: Int64
    owners: Int64
    probabilities: Float64
    everywhere: Int64

    def __repr__(self) -> str:
        return (
            f"QueryForecast(query {self.query}: {len(self.labels):,} classes, "
            f"{len(self.distinct):,} distinct and {len(self.common):,} common tokens)"
        )

    @cached_property
    def common(self) -> Int64:
        """Tokens of several classes of the query, ascending."""
        return np.setdiff1d(self.tokens, self.distinct, assume_unique=True)

    @property
    def upward(self) -> float:
        """The share of the distinct tokens that are raised at the start; 0 if there are none."""
        up = self.pulls[np.searchsorted(self.tokens, self.distinct)] > 0
        return float(up.mean()) if len(up) else 0.0

    @property
    def half_snap(self) -> float:
        """The time when classes with half of the query's sequences have passed their snap."""
        return float(self.snaps[np.searchsorted(np.cumsum(self.class_shares), 0.5 * self.share)])

    def first_to_fade(self, count: int) -> Int64:
        """The first ``count`` distinct tokens to fade, from the first half, first to fade first."""
        return self.distinct[: len(self.distinct) // 2][:count]

    def last_to_stay(self, count: int) -> Int64:
        """The ``count`` distinct tokens to fade last, from the second half, last to fade first."""
        return self.distinct[len(self.distinct) // 2 :][::-1][:count]

    def lowered_first(self, count: int) -> Int64:
        """The ``count`` tokens that are lowered most, distinct or not, most lowered first."""
        order = np.argsort(self.pulls, kind="stable")[:count]
        return self.tokens[order[self.pulls[order] < 0]]

    def raised_first(self, count: int) -> Int64:
        """The ``count`` tokens that are raised most, distinct or not, most raised first."""
        order = np.argsort(-self.pulls, kind="stable")[:count]
        return self.tokens[order[self.pulls[order] > 0]]


def forecast_queries(
    classes: CorpusClasses, rates: Rates, *, n_queries: int = 20, tolerance: float = 0.0
) -> tuple[QueryForecast, ...]:
    """Forecast for the most frequent queries which tokens fade from attention, in which order and when.

    ``classes`` are those of the whole corpus, ``rates`` the learning rates, and ``n_queries`` is the number
    of queries. A token is distinct if one class has all its occurrences before the query except for a share
    of ``tolerance``.

    Examples
    --------
    >>> from attomaton.theories import draw_linear_classes
    >>> classes = draw_linear_classes(1, classes_per_query=2)
    >>> forecast_queries(classes, Rates(decoder=10.0, attention=1.0))
    (QueryForecast(query 30: 2 classes, 20 distinct and 10 common tokens),)
    """
    tolerance = real_number(tolerance, "tolerance", least=0, below=1)
    n_queries = whole_number(n_queries, "n_queries", least=1)
    turns, snaps = find_class_times(classes.shares, classes.n_tokens, rates)
    distinct_everywhere = classes.is_distinct(tolerance)
    queries, shares = classes.query_shares()
    forecasts: list[QueryForecast] = []
    for query, share, (tokens, pulls) in zip(
        queries.tolist(), shares.tolist(), find_pulls(classes, queries[:n_queries]), strict=False
    ):
        rows = np.flatnonzero(classes.queries == query)  # its classes, then by descending share
        rows = rows[np.argsort(-classes.shares[rows], kind="stable")]
        of_query = classes.take(rows)
        distinct, entries = find_distinct(of_query, tolerance)
        fading = np.argsort(pulls[np.searchsorted(tokens, distinct)], kind="stable")  # smallest pull first
        distinct = distinct[fading]
        entries = entries[fading]
        forecasts.append(
            QueryForecast(
                query=query,
                share=share,
                labels=of_query.labels.astype(np.int64),
                class_shares=of_query.shares,
                turns=turns[rows],
                snaps=snaps[rows],
                tokens=tokens,
                pulls=pulls,
                distinct=distinct,
                owners=of_query.rows[entries],
                probabilities=of_query.probabilities[entries],
                everywhere=distinct[distinct_everywhere[distinct]],
            )
        )
    return tuple(forecasts)


def find_distinct(classes: CorpusClasses, tolerance: float = 0.0) -> tuple[Int64, Int64]:
    """The distinct tokens of these classes, ascending, and the entry of each in the class that has most."""
    if not len(classes.tokens):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    mass = classes.shares[classes.rows] * classes.probabilities
    order = np.lexsort((-mass, classes.tokens))  # by token, the class with most occurrences first
    starts = run_starts(classes.tokens[order])
    total = np.add.reduceat(mass[order], starts)
    in_one_class = np.diff(starts, append=len(order)) == 1
    is_distinct = in_one_class | (mass[order][starts] >= (1 - tolerance) * total)
    entries = order[starts][is_distinct]
    return classes.tokens[entries].astype(np.int64), entries
