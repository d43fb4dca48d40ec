"""Compare beginning and end of training: whether a query ends with the tokens that it attends to first.

For one layer of tied attention both ends follow from the corpus: row k of Q̄ is the attention of query k
in the first steps, column k of W_svm its attention in the limit. If the two rank the tokens of the
query's contexts in opposite orders, attention must turn.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.automaton import Automaton
from attomaton.base.errors import MismatchedParts
from attomaton.base.frames import Tabular
from attomaton.base.tables import Bool, Float64, Int64, column, make_table
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.theories.beginning.result import Beginning

# Tokens that a query must have: fewer have no meaningful order.
FEWEST_TOKENS = 5

# Scores of W_svm are solved to more digits than this; equal ones must share a rank.
SCORE_DIGITS = 9

# An order is kept, or turned, if the agreement is this many deviations from that of two random orders.
SIGNIFICANT_DEVIATIONS = 1.96

_ID, _COUNT = pa.int32(), pa.int64()
_RESULT = {"agreement": pa.float64(), "course": pa.string(), "first": _ID, "last": _ID}
ENDS_SCHEMA = pa.schema({"query": _ID, "size": _COUNT, "samples": _COUNT, **_RESULT})


@dataclass(frozen=True, eq=False, repr=False)
class Ends(Tabular):
    """Rank agreement between the beginning and the end of training, for each query with at least five tokens.

    Each array has one entry for each of the ``queries``. ``sizes`` is the number of ranked tokens,
    ``samples`` the number of occurrences of the query. ``agreements`` is Spearman's rank correlation of Q̄'s
    row and W_svm's column, NaN if one of them ranks all tokens equally. ``first`` and ``last`` are the
    highest-ranked tokens in Q̄ and W_svm, named by the ``vocabulary``.
    """

    queries: Int64
    sizes: Int64
    samples: Int64
    agreements: Float64
    first: Int64
    last: Int64
    vocabulary: Vocabulary | None = None

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        keep, reverse = int(self.keeps.sum()), int(self.turns.sum())
        return f"Ends({len(self):,} queries: {keep:,} keep their order, {reverse:,} reverse it)"

    @cached_property
    def _least_agreement(self) -> Float64:
        # the agreement beyond which two orders of this many tokens are unlikely to be random
        return SIGNIFICANT_DEVIATIONS / np.sqrt(self.sizes - 1)

    @property
    def keeps(self) -> Bool:
        """Whether each query ends with the order that it begins with, beyond random agreement."""
        return np.nan_to_num(self.agreements) > self._least_agreement

    @property
    def turns(self) -> Bool:
        """Whether each query ends with the opposite order, beyond random agreement."""
        return np.nan_to_num(self.agreements) < -self._least_agreement

    def named(self, course: str, count: int) -> list[str]:
        """The names of the most frequent queries that ``"keep"`` or ``"turn"``."""
        chosen = np.flatnonzero(self.keeps if course == "keep" else self.turns)
        order = chosen[np.argsort(-self.samples[chosen], kind="stable")][:count]
        names = self.vocabulary.tokens if self.vocabulary is not None else None
        return [str(query) if names is None else names[query] for query in self.queries[order].tolist()]

    def _table(self) -> pa.Table:
        course = np.where(self.keeps, "keeps", np.where(self.turns, "turns", "neither"))
        columns = {
            "query": self.queries.astype(np.int32),
            "size": self.sizes,
            "samples": self.samples,
            "agreement": self.agreements,
            "course": course.tolist(),
            "first": self.first.astype(np.int32),
            "last": self.last.astype(np.int32),
        }
        return make_table(ENDS_SCHEMA, columns)

    def _words(self) -> Vocabulary | None:
        return self.vocabulary


def compare_ends(automaton: Automaton, beginning: Beginning) -> Ends:
    """Compare, for each query, the order of tokens at the beginning of training (Q̄) with the end (W_svm).

    Both arguments must be computed from one corpus with one tokenizer.

    Examples
    --------
    >>> import attomaton as at
    >>> text = "a b a c a b a c a".split()
    >>> compare_ends(at.learn([text], window=4), at.begin([text], window=4))
    Ends(0 queries: 0 keep their order, 0 reverse it)
    """
    statistics = beginning.statistics
    if automaton.components.edges.n_tokens != statistics.n_tokens:
        raise MismatchedParts(
            f"the automaton has {automaton.components.edges.n_tokens:,} tokens, but the beginning has "
            f"{statistics.n_tokens:,}; compute both from one corpus with one tokenizer"
        )
    scores = automaton.hard.scores
    queries, tokens = (np.asarray(column(scores, name)).astype(np.int64) for name in ("query", "token"))
    final_scores = np.round(np.asarray(column(scores, "score"), np.float64), SCORE_DIGITS)
    gains = _gains_of(statistics.looks, queries, tokens)
    rows = np.flatnonzero(np.isfinite(gains))  # pairs with a score at both ends, by query, then by token
    rows = rows[np.lexsort((tokens[rows], queries[rows]))]
    tokens = tokens[rows]
    gains = gains[rows]
    final_scores = final_scores[rows]
    ranked, group, sizes = np.unique(queries[rows], return_inverse=True, return_counts=True)
    n_queries = len(ranked)
    enough = sizes >= FEWEST_TOKENS
    counts = np.asarray(statistics.counts.sum(axis=1)).ravel().astype(np.int64)
    return Ends(
        queries=ranked[enough],
        sizes=sizes[enough],
        samples=counts[ranked[enough]],
        agreements=correlate_ranks(group, gains, final_scores, n_queries)[enough],
        first=tokens[_tops(group, gains, n_queries)][enough],
        last=tokens[_tops(group, final_scores, n_queries)][enough],
        vocabulary=beginning.vocabulary if beginning.vocabulary is not None else automaton.vocabulary,
    )


def correlate_ranks(group: Int64, first: Float64, second: Float64, n_groups: int) -> Float64:
    """Spearman's correlation within each group, shape (n_groups,); equal values share a rank."""
    # the covariance of the ranks, over the root of the product of their variances
    ranks = [_ranks(group, values) for values in (first, second)]
    sizes = np.bincount(group, minlength=n_groups)
    apart = [rank - (np.bincount(group, rank, n_groups) / sizes)[group] for rank in ranks]
    covariance = np.bincount(group, apart[0] * apart[1], n_groups)
    variances = [np.bincount(group, deviation * deviation, n_groups) for deviation in apart]
    with np.errstate(invalid="ignore", divide="ignore"):
        return covariance / np.sqrt(variances[0] * variances[1])


def _ranks(group: Int64, values: Float64) -> Float64:
    # the rank of each value in its group, up to a constant; equal values get the mean of their ranks
    order = np.lexsort((values, group))
    by_group = group[order]
    ascending = values[order]
    # runs of equal values of one group; ranks are counted over all groups, which adds a constant to each
    begins = np.ones(len(order), bool)
    begins[1:] = (ascending[1:] != ascending[:-1]) | (by_group[1:] != by_group[:-1])
    starts = np.flatnonzero(begins)
    stops = np.append(starts[1:], len(order))
    ranks = np.empty(len(order))
    ranks[order] = ((starts + stops - 1) / 2)[np.cumsum(begins) - 1]
    return ranks


def _tops(group: Int64, values: Float64, n_groups: int) -> Int64:
    # the index of the largest value of each group, the first of equal values; groups are ascending
    order = np.lexsort((-np.arange(len(values)), values, group))
    return order[np.cumsum(np.bincount(group, minlength=n_groups)) - 1]


# Q̄ of these pairs; NaN if a pair has no entry.
def _gains_of(looks: Any, queries: Int64, tokens: Int64) -> Float64:
    entries = looks.copy()  # 1 at each entry, to tell an entry of 0 from none
    entries.data = np.ones_like(entries.data)
    gains, present = (np.asarray(table[queries, tokens]).ravel() for table in (looks, entries))
    return np.where(present > 0, gains, np.nan)
