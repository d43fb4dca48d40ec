"""Select what a corpus pass keeps: the window, and limits that leave every selected count exact."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

import numpy as np

from attomaton.base.errors import TokenOutOfRange, UnsupportedOption
from attomaton.base.options import Checked, checked, share, show, whole_number
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.corpora.samples import WINDOW
from attomaton.corpora.tokenizers import Vocabulary


# Queries as a tuple of ids and tokens, or the number to keep.
def _check_queries(value: object, name: str) -> tuple[int | str, ...] | int:
    queries = cast("Any", value)
    if isinstance(value, str | bytes):
        raise UnsupportedOption(f"{name} is the text {show(value)}; give a list of tokens or token ids")
    if isinstance(value, int | float | np.number):
        return whole_number(queries, name, least=1)
    if not isinstance(value, Iterable) or (isinstance(value, np.ndarray) and not np.ndim(queries)):
        raise UnsupportedOption(f"{name} is {show(queries)}; give tokens, token ids, or a number of queries")
    listed: list[Any] = list(queries)
    if not listed:
        raise UnsupportedOption(f"{name} is empty; give tokens or token ids, or None for all queries")
    return tuple(query if isinstance(query, str) else whole_number(query, "a query") for query in listed)


@dataclass(frozen=True)
class Selection(Checked):
    """The contexts, queries and edges that a corpus pass keeps; all counts stay exact.

    Attributes
    ----------
    window : int, optional
        The length of the longest context; 32 by default.
    max_window : int, optional
        The number of last tokens that a context keeps, also in given samples.
    min_support : int
        The number of samples that an edge needs; other edges are dropped after counting.
    queries : sequence of int or str, or int, optional
        The queries to keep, as ids or tokens. A number k keeps the k queries with the most realisable samples
        (ties go to the smaller id).
    sample_queries : float
        The fraction of the queries to keep, chosen by a hash of the id, which is equal on every engine.

    Examples
    --------
    >>> import attomaton as at
    >>> at.learn([[0, 1, 0, 2, 0, 1]], keep=Selection(window=3, queries=[1]))
    Automaton(1 query, 2 components, 3 tokens)
    """

    window: int | None = field(default=None, metadata=checked(whole_number, least=1))
    max_window: int | None = field(default=None, metadata=checked(whole_number, least=1))
    min_support: int = field(default=1, metadata=checked(whole_number, least=1))
    queries: Sequence[int] | Sequence[str] | int | None = field(
        default=None, metadata=checked(_check_queries)
    )
    sample_queries: float = field(default=1.0, metadata=checked(share))

    @property
    def top(self) -> int | None:
        """The number of most frequent queries to keep; None if all queries are kept."""
        return self.queries if isinstance(self.queries, int) else None

    def with_ids(self, vocabulary: Vocabulary | None) -> "Selection":
        """Replace queries that are named by their tokens with token ids."""
        if self.queries is None or isinstance(self.queries, int):
            return self
        if vocabulary is None and any(isinstance(query, str) for query in self.queries):
            raise UnsupportedOption(
                "queries are given as text, but the source has no vocabulary; give token ids"
            )
        ids = [
            int(vocabulary.lookup([query])[0]) if vocabulary and isinstance(query, str) else query
            for query in self.queries
        ]
        return replace(self, queries=tuple(cast("list[int]", ids)))

    @property
    def longest(self) -> int:
        """The length of the longest context that is read."""
        return WINDOW if self.window is None else self.window

    @property
    def reach(self) -> int:
        """The length of the longest context after all limits."""
        return self.longest if self.max_window is None else min(self.longest, self.max_window)

    def selected(self, n_tokens: int) -> Bool:
        """Return whether a pass keeps each query before samples are counted, shape (n_tokens,)."""
        every = self.sample_queries == 1
        selected = np.ones(n_tokens, bool) if every else hash_share(n_tokens) < self.sample_queries
        if self.queries is None or isinstance(self.queries, int):
            return selected
        listed = np.zeros(n_tokens, bool)
        ids = cast("Sequence[int]", self.queries)
        outside = [query for query in ids if not 0 <= query < n_tokens]
        if outside:
            raise TokenOutOfRange(
                f"query {outside[0]} is not in 0 … {n_tokens - 1}; give ids of this vocabulary"
            )
        listed[np.array(ids, np.int64)] = True
        return selected & listed

    def largest(self, selected: Bool, realisable: Int64) -> Bool:
        """Return which selected queries are among the ``top`` with the most samples, shape (n_tokens,)."""
        if self.top is None:
            return selected
        ids = np.flatnonzero(selected)
        top_ids = ids[np.lexsort((ids, -realisable[ids]))][: self.top]  # most samples first, then by id
        is_top = np.zeros(len(selected), bool)
        is_top[top_ids] = True
        return is_top

    def to_dict(self) -> Mapping[str, Any]:
        """Return the settings as plain values, for manifests."""
        return {**asdict(self), "window": self.longest}


def select(keep: object, window: int | None) -> Selection:
    """The selection of a user, with the window if it is given separately."""
    if keep is not None and not isinstance(keep, Selection):
        raise UnsupportedOption(f"keep is of type {type(keep).__name__}; give an attomaton.Selection")
    if keep is None or window is None:
        return keep or Selection(window)
    if keep.window not in (window, None):
        raise UnsupportedOption(
            f"window is {show(window)}, but keep.window is {keep.window}; give only one of them"
        )
    return replace(keep, window=window)


def hash_share(n_tokens: int) -> Float64:
    """A fixed pseudo-random number in [0, 1) for each token id (the finaliser of SplitMix64)."""
    # multiples of the constant are the states of SplitMix64; the top 53 bits make a float64
    mixed = np.arange(1, n_tokens + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / float(1 << 53)
