"""Forecasts of the second theory for each query: its distinct tokens, the order of fading, and the times.

**Which tokens are distinct.** The paper's Ω(l) runs over all classes. In running text a token occurs in some
thirty contexts, each of another class, so no token has |Ω(l)| = 1. But a query's attention row only weighs
tokens that precede that query. So here a token is distinct *under a query* if it belongs to one of the
query's own classes only. With one query the two definitions agree; :attr:`QueryForecast.everywhere` has the
tokens that also meet the paper's. The narrower definition ignores the decoder, which all queries share: a
token that is distinct under this query may precede other labels under other queries. The order below accounts
for that.

**In which order they fade.** By the exact first movement of their scores, the pulls of
:mod:`~attomaton.theories.scansnap.pulls`: the most lowered fade first, the most raised last. For tokens that
meet the paper's definition this is, in each class, the order of P(l | n), as its claim 3 states.
:attr:`QueryForecast.upward` is the share that is raised at all: all of them under the paper's assumptions,
few of them in text.

**When.** The decoder of class n learns at the rate η_Y π_n, so its gain peaks at the turn and ends at the
snap, the times of a corpus of 1/π_n equal classes. Both come from the closed form for slow attention (C₀ → ∞,
B ∝ Γ), where they depend only on π_n, M and η_Y; the snap approaches (ln M + 1)/(η_Y π_n) for large M.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from attomaton.base.options import real_number, whole_number
from attomaton.base.ragged import run_starts
from attomaton.base.tables import Float64, Int64
from attomaton.theories.scansnap.classes import CorpusClasses
from attomaton.theories.scansnap.law import Rates, SnapLaw
from attomaton.theories.scansnap.pulls import find_pulls

SLOW_ATTENTION = 1e9
"""C₀ for slow attention, where B ∝ Γ."""


@dataclass(frozen=True, eq=False, repr=False)
class QueryForecast:
    """One query: its classes, and its tokens in the order of fading.

    Attributes
    ----------
    query : int
        The token.
    share : float
        The query's share of all sequences.
    labels : int64 array, shape (n_classes,)
        The next token of each of its classes, the most frequent first.
    class_shares, turns, snaps : float64 arrays, shape (n_classes,)
        Share of each class in the whole corpus; its predicted turn and snap.
    tokens : int64 array, shape (n_used,)
        All tokens that precede the query, ascending.
    pulls : float64 array, shape (n_used,)
        The exact first movement of each token's score; see :mod:`~attomaton.theories.scansnap.pulls`.
    distinct : int64 array, shape (n_distinct,)
        Tokens that occur in one class only, in the order of fading: the last stays longest.
    owners : int64 array, shape (n_distinct,)
        The class of each distinct token, as an index into ``labels``.
    probabilities : float64 array, shape (n_distinct,)
        P(l | n) of each distinct token in its class.
    everywhere : int64 array
        Those distinct tokens that occur in only one class of the whole corpus.
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
        """Tokens of several of its classes, ascending."""
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

    def first_to_fade(self, number: int) -> Int64:
        """``number`` distinct tokens of the first half; the first to fade comes first."""
        return self.distinct[: len(self.distinct) // 2][:number]

    def last_to_stay(self, number: int) -> Int64:
        """``number`` distinct tokens of the second half; the last to stay comes first."""
        return self.distinct[len(self.distinct) // 2 :][::-1][:number]

    def lowered_first(self, number: int) -> Int64:
        """``number`` tokens of any kind that are lowered, strongest first."""
        order = np.argsort(self.pulls, kind="stable")[:number]
        return self.tokens[order[self.pulls[order] < 0]]

    def raised_first(self, number: int) -> Int64:
        """``number`` tokens of any kind that are raised, strongest first."""
        order = np.argsort(-self.pulls, kind="stable")[:number]
        return self.tokens[order[self.pulls[order] > 0]]


@dataclass(frozen=True)
class Clock:
    """Turn and snap of a class, given its share, for M tokens and slow attention.

    Attributes
    ----------
    n_tokens : int
        M.
    rates : Rates
        η_Y and η_Z.
    """

    n_tokens: int
    rates: Rates

    def turn(self, shares: Float64) -> Float64:
        """The turn of classes with these shares."""
        return _unit_times(self.n_tokens)[0] / (self.rates.decoder * shares)

    def snap(self, shares: Float64) -> Float64:
        """The snap of classes with these shares."""
        return _unit_times(self.n_tokens)[1] / (self.rates.decoder * shares)


@lru_cache
def _unit_times(n_tokens: int) -> tuple[float, float]:
    """Turn and snap of one class at η_Y = 1; divide by η_Y π_n for any class."""
    law = SnapLaw(1, n_tokens, Rates(decoder=1.0, attention=1.0), start=SLOW_ATTENTION)
    return law.turn, law.snap


def forecast_queries(
    classes: CorpusClasses, rates: Rates, *, n_queries: int = 20, tolerance: float = 0.0
) -> tuple[QueryForecast, ...]:
    """Forecasts for the most frequent queries.

    Parameters
    ----------
    classes : CorpusClasses
        The whole corpus.
    rates : Rates
        η_Y and η_Z.
    n_queries : int
        Number of queries, the most frequent first.
    tolerance : float
        A token is distinct if all but this share of its occurrences before the query are in one class.

    Examples
    --------
    >>> from attomaton.theories.scansnap.classes import draw_linear_classes
    >>> two = draw_linear_classes(1, classes_per_query=2)  # each with ten tokens of its own, and ten shared
    >>> [forecast] = forecast_queries(two, Rates(decoder=10.0, attention=1.0))
    >>> forecast
    QueryForecast(query 30: 2 classes, 20 distinct and 10 common tokens)
    """
    tolerance = real_number(tolerance, "tolerance", least=0, below=1)
    n_queries = whole_number(n_queries, "n_queries", least=1)
    queries, shares = classes.query_shares()
    clock, distinct_everywhere = Clock(classes.n_tokens, rates), classes.is_distinct(tolerance)
    forecasts: list[QueryForecast] = []
    all_pulls = find_pulls(classes, queries[:n_queries])
    for query, share, (tokens, pulls) in zip(queries.tolist(), shares.tolist(), all_pulls, strict=False):
        numbers = np.flatnonzero(classes.queries == query)
        of_query = classes.take(numbers[np.argsort(-classes.shares[numbers], kind="stable")])
        distinct, entries = find_distinct(of_query, tolerance)
        order = np.argsort(pulls[np.searchsorted(tokens, distinct)], kind="stable")
        distinct, entries = distinct[order], entries[order]
        forecasts.append(
            QueryForecast(
                query=query,
                share=share,
                labels=of_query.labels.astype(np.int64),
                class_shares=of_query.shares,
                turns=clock.turn(of_query.shares),
                snaps=clock.snap(of_query.shares),
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
    """Distinct tokens of some classes, ascending, and the entry of each in its class."""
    if not len(classes.tokens):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    mass = classes.shares[classes.rows] * classes.probabilities
    order = np.lexsort((-mass, classes.tokens))
    starts = run_starts(classes.tokens[order])
    tokens = classes.tokens[order][starts].astype(np.int64)
    total = np.add.reduceat(mass[order], starts)
    single = np.diff(starts, append=len(order)) == 1
    enough = single | (mass[order][starts] >= (1 - tolerance) * total)
    return tokens[enough], order[starts][enough]
