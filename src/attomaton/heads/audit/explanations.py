"""Possible explanations of where a head looks: rungs, each a score for every position of a context.

A rung knows nothing about heads: it scores how much attention each position should get, up to a scale and a
constant that are fitted. Rungs that need a corpus are made from documents that are not scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from attomaton.automaton.attention import Attention
from attomaton.automaton.finite import FiniteAttention
from attomaton.base.errors import MismatchedParts
from attomaton.base.options import Checked, checked, whole_number
from attomaton.base.tables import Bool, Float64, Int64, Integers, column
from attomaton.corpora.samples import Samples
from attomaton.graphs.grouping import count_keys, find_rows, pack_pairs, unpack_pairs
from attomaton.heads.audit.rows import EARLIER, NOTHING, Rows
from attomaton.heads.utility.measured import UtilityTable
from attomaton.theories.beginning.result import Beginning

FLOOR = 0.28
"""The share of uniform attention mixed into the automaton's, whose probabilities may be 0."""


class Rung(Protocol):
    """An explanation of attention.

    Examples
    --------
    >>> class Nearest:
    ...     name = "nearest"
    ...
    ...     def scores(self, rows):
    ...         return np.tile(-np.arange(rows.window), (len(rows), 1))
    >>> rung: Rung = Nearest()
    >>> rung.name
    'nearest'
    """

    @property
    def name(self) -> str:
        """The name in tables."""
        ...

    def scores(self, rows: Rows) -> Float64:
        """A score per position, shape (n_rows, window), or (n_rows, n_heads, window) where heads differ."""
        ...


@dataclass(frozen=True)
class Last:
    """The query's own position.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> Last().scores(example_rows()).tolist()
    [[1.0, 0.0, 0.0]]
    """

    name: str = "last"

    def scores(self, rows: Rows) -> Float64:
        """1 at the query's own position, shape (n_rows, window)."""
        return np.broadcast_to((np.arange(rows.window) == 0).astype(np.float64), rows.tokens.shape)


@dataclass(frozen=True)
class Sink:
    """The first token of the context.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> Sink().scores(example_rows()).tolist()
    [[0.0, 0.0, 0.0, 1.0]]
    """

    name: str = "sink"

    def scores(self, rows: Rows) -> Float64:
        """1 at the first token, shape (n_rows, window + 1)."""
        is_first = (np.arange(rows.window + 1) == rows.window).astype(np.float64)
        return np.broadcast_to(is_first, (len(rows), rows.window + 1))


@dataclass(frozen=True)
class PreviousToken:
    """The position before the query.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> PreviousToken().scores(example_rows()).tolist()
    [[0.0, 1.0, 0.0]]
    """

    name: str = "previous token"

    def scores(self, rows: Rows) -> Float64:
        """1 at the position before the query's, shape (n_rows, window)."""
        return np.broadcast_to((np.arange(rows.window) == 1).astype(np.float64), rows.tokens.shape)


@dataclass(frozen=True)
class Duplicate:
    """Earlier positions that hold the query's token.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> Duplicate().scores(example_rows()).tolist()
    [[0.0, 0.0, 1.0]]
    """

    name: str = "duplicate"

    def scores(self, rows: Rows) -> Float64:
        """1 where an earlier token is the query, shape (n_rows, window)."""
        earlier = np.arange(rows.window) > 0
        return ((rows.tokens == rows.queries[:, None]) & earlier).astype(np.float64)


@dataclass(frozen=True)
class Induction(Checked):
    """The positions after an earlier occurrence of the last tokens.

    Attributes
    ----------
    length : int
        How many tokens must occur again: the query alone, or it and one or two before it.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> Induction().scores(example_rows()).tolist(), Induction(2).name
    ([[0.0, 1.0, 0.0]], 'induction by 2')
    """

    length: int = field(default=1, metadata=checked(whole_number, least=1, most=EARLIER))

    @property
    def name(self) -> str:
        """The name in tables."""
        return "induction" if self.length == 1 else f"induction by {self.length}"

    def scores(self, rows: Rows) -> Float64:
        """1 where the tokens before a position are the last ``length``, shape (n_rows, window)."""
        same = np.tile(np.arange(rows.window) > 0, (len(rows), 1))
        for back in range(self.length):
            same &= rows.past[:, back + 1 : back + 1 + rows.window] == rows.past[:, back, None]
        return same.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Delimiters:
    """The positions that hold punctuation or the end of a line.

    Attributes
    ----------
    tokens : bool array, shape (n_tokens,)
        Which tokens count; :meth:`from_texts` finds them.
    name : str
        What tables call it.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> Delimiters.from_texts([".", "a"]).scores(example_rows()).tolist()
    [[1.0, 0.0, 1.0]]
    """

    tokens: Bool
    name: str = "delimiters"

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> "Delimiters":
        """From the texts of all tokens: those with a line end, and punctuation (no letter or digit)."""
        return cls(np.array([_delimits(text) for text in texts], bool))

    def scores(self, rows: Rows) -> Float64:
        """1 where the token counts, shape (n_rows, window)."""
        return self.tokens[rows.tokens].astype(np.float64)


def _delimits(text: str) -> bool:
    """Whether a text is punctuation or ends a line."""
    return "\n" in text or (bool(text.strip()) and not any(letter.isalnum() for letter in text))


@dataclass(frozen=True, eq=False)
class SentenceStart:
    """The positions at which a sentence or a line begins.

    Attributes
    ----------
    ends : bool array, shape (n_tokens,)
        Which tokens end a sentence or a line; :meth:`from_texts` finds them.
    name : str
        What tables call it.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> SentenceStart.from_texts(["a", "!"]).scores(example_rows()).tolist()
    [[1.0, 0.0, 1.0]]
    """

    ends: Bool
    name: str = "sentence start"

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> "SentenceStart":
        """From the texts of all tokens: those with a line end, or whose end is . ! ? or 。 (and a quote)."""
        stripped = (text.rstrip(" \"'”’)") for text in texts)
        return cls(
            np.array(
                [
                    short.endswith((".", "!", "?", "。")) or "\n" in text
                    for text, short in zip(texts, stripped, strict=True)
                ],
                bool,
            )
        )

    def scores(self, rows: Rows) -> Float64:
        """1 where the token before ends a sentence or a line, shape (n_rows, window)."""
        before = rows.past[:, 1 : rows.window + 1]
        return (self.ends[before] & (before >= 0)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class TokenCounts:
    """Counts of tokens and of pairs of neighbours in documents.

    Attributes
    ----------
    tokens : int64 array, shape (n_tokens,)
        How often each token occurs.
    keys, pairs : int64 array, shape (n_pairs,)
        The pairs that occur, packed and ascending, and how often each occurs.
    """

    tokens: Int64
    keys: Int64
    pairs: Int64

    @classmethod
    def of(cls, documents: Sequence[Any], *, n_tokens: int) -> "TokenCounts":
        """Count documents of token ids."""
        read = [np.asarray(ids, np.int64) for ids in documents if len(ids)]
        flat = np.concatenate(read) if read else np.empty(0, np.int64)
        packed = [pack_pairs(ids[:-1], ids[1:]) for ids in read]
        keys, pairs = count_keys(np.concatenate(packed) if packed else np.empty(0, np.int64))
        return cls(np.bincount(flat, minlength=n_tokens).astype(np.int64), keys, pairs)

    @cached_property
    def followed(self) -> Int64:
        """How often each token is followed by another, shape (n_tokens,)."""
        owners, _ = unpack_pairs(self.keys)
        return np.bincount(owners, self.pairs, minlength=len(self.tokens)).astype(np.int64)

    def of_pairs(self, first: Integers, second: Integers) -> Int64:
        """How often ``second`` follows ``first``, in the shape of ``second``."""
        pairs = pack_pairs(np.broadcast_to(first, second.shape).ravel(), second.ravel())
        rows, counted = find_rows(self.keys, pairs)
        return np.where(counted, self.pairs[rows] if len(self.pairs) else 0, 0).reshape(second.shape)


@dataclass(frozen=True, eq=False)
class Frequency:
    """The logarithm of a token's count.

    ``counts`` come from the documents to fit on.

    Attributes
    ----------
    counts : TokenCounts
        Counts in the documents to fit on.
    name : str
        What tables call it.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> Frequency(TokenCounts.of([[0, 1]], n_tokens=2)).scores(example_rows()).shape
    (1, 3)
    """

    counts: TokenCounts
    name: str = "frequency"

    def scores(self, rows: Rows) -> Float64:
        """ln(count + ½) of each token, shape (n_rows, window)."""
        return np.log(self.counts.tokens + 0.5)[rows.tokens]


@dataclass(frozen=True, eq=False)
class Bigram:
    """The log probability that a token follows the query in the corpus.

    ``counts`` come from the documents to fit on.

    Attributes
    ----------
    counts : TokenCounts
        Counts in the documents to fit on.
    name : str
        What tables call it.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> Bigram(TokenCounts.of([[0, 1]], n_tokens=2)).scores(example_rows()).shape
    (1, 3)
    """

    counts: TokenCounts
    name: str = "bigram"

    def scores(self, rows: Rows) -> Float64:
        """ln((count + 0.1) / (Σ counts + 0.1 n_tokens)), shape (n_rows, window)."""
        queries = rows.queries[:, None]
        pairs = self.counts.of_pairs(queries, rows.tokens)
        return np.log((pairs + 0.1) / (self.counts.followed[queries] + 0.1 * len(self.counts.tokens)))


@dataclass(frozen=True, eq=False)
class PMI:
    """Pointwise mutual information of the query and the token that follows it.

    ``counts`` come from the documents to fit on.

    Attributes
    ----------
    counts : TokenCounts
        Counts in the documents to fit on.
    name : str
        What tables call it.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> PMI(TokenCounts.of([[0] * 100], n_tokens=2)).scores(example_rows()).round(3).tolist()
    [[0.004, 0.004, 0.004]]
    """

    counts: TokenCounts
    name: str = "PMI"

    def scores(self, rows: Rows) -> Float64:
        """ln(probability after the query / probability anywhere), shape (n_rows, window).

        A token that the corpus lacks gets the mean score of the other tokens in its row, which is neutral;
        for a query that the corpus lacks all scores are 0.
        """
        tokens = self.counts.tokens
        scores = Bigram(self.counts).scores(rows) - Frequency(self.counts).scores(rows)
        scores += np.log(tokens.sum() + 0.5 * len(tokens))
        is_counted = (tokens[rows.tokens] > 0) & (self.counts.followed[rows.queries] > 0)[:, None]
        usual: Float64 = (scores * is_counted).sum(1, keepdims=True) / np.maximum(
            is_counted.sum(1, keepdims=True), 1
        )
        return np.where(is_counted, scores, usual)


@dataclass(frozen=True, eq=False)
class Table:
    """Scores looked up by query and token in a table, which may lack pairs.

    Attributes
    ----------
    name : str
        What tables call it.
    query, token : integers, shape (n_pairs,)
        The pairs.
    values : float64 array, shape (n_pairs,) or (n_heads, n_pairs)
        Their scores, shared by all heads or one row for each of ``Rows.heads``.
    background : float64 array, shape (n_tokens,) or (n_heads, n_tokens)
        The score of a token for pairs not in the table.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> table = Table("mine", np.array([0]), np.array([1]), np.array([2.0]), np.zeros(2))
    >>> table.scores(example_rows()).tolist()
    [[0.0, 2.0, 0.0]]
    """

    name: str
    query: Integers
    token: Integers
    values: Float64
    background: Float64

    def __post_init__(self) -> None:
        if not len(self.query) == len(self.token) == self.values.shape[-1]:
            raise MismatchedParts(f"the table {self.name!r} needs a query, a token and a score in each row")

    @cached_property
    def _sorted(self) -> tuple[Int64, Int64]:
        keys = pack_pairs(self.query, self.token)
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def scores(self, rows: Rows) -> Float64:
        """The score of each position, shape (n_rows, window), or (n_rows, n_heads, window)."""
        keys, order = self._sorted
        pairs = pack_pairs(np.repeat(rows.queries, rows.window), rows.tokens.ravel())
        table_rows, in_table = find_rows(keys, pairs)
        values = np.atleast_2d(self.values)
        scores = np.atleast_2d(self.background)[:, rows.tokens.ravel()].astype(np.float64)
        scores = np.repeat(scores, len(values), 0) if len(scores) < len(values) else scores
        if in_table.any():
            scores[:, in_table] = values[:, order[table_rows[in_table]]]
        by_head = scores.reshape(len(scores), *rows.tokens.shape).swapaxes(0, 1)
        return by_head if self.values.ndim == 2 or self.background.ndim == 2 else by_head[:, 0]


def first_looks(beginning: Beginning, *, name: str = "first looks") -> Table:
    """Q̄ at the beginning of training as a rung: what each query attends to first.

    Examples
    --------
    >>> import attomaton as at
    >>> first_looks(at.begin(["a b a c a b a c a"], window=4)).values.shape
    (7,)
    """
    table: Any = beginning.statistics.looks
    n_queries, n_tokens = int(table.shape[0]), int(table.shape[1])
    query = np.repeat(np.arange(n_queries), np.diff(table.indptr))
    return Table(name, query, np.asarray(table.indices), np.asarray(table.data), np.zeros(n_tokens))


def usefulness(tables: Sequence[UtilityTable], *, name: str = "utility") -> Table:
    """Utility tables of all heads, in the order of ``Rows.heads``, as one rung with scores per head.

    The tables must hold the same pairs, as those from one call of ``measure_utility`` do.

    Examples
    --------
    >>> from attomaton.heads.arrays import from_arrays
    >>> from attomaton.heads.utility.measured import measure_utility
    >>> maps = np.random.default_rng(0).normal(size=(4, 1, 2, 5, 5))  # query, key, value, output: 2 heads
    >>> model = from_arrays(np.eye(5), *maps)
    >>> tables = measure_utility(model, np.array([[0, 1, 2, 1, 0], [3, 2, 1, 1, 4]]))
    >>> usefulness(tables).values.shape[0]
    2
    """
    query, token = (column(tables[0].scores, name) for name in ("query", "token"))
    if any(
        table.scores.select(["query", "token"]) != tables[0].scores.select(["query", "token"])
        for table in tables
    ):
        raise MismatchedParts(f"the tables of {name!r} hold different pairs; measure them on the same text")
    values = np.array([column(table.scores, "score") for table in tables])
    return Table(name, query, token, values, np.array([table.background for table in tables]))


@dataclass(frozen=True, eq=False)
class AttentionRung:
    """Attention computed by attomaton: the automaton, ``shrink``, or ``fast_forward`` at a step.

    Attributes
    ----------
    name : str
        What tables call it.
    attention : Attention
        Computes attention over the last ``window`` tokens of each context.
    floor : float, optional
        The share of uniform attention mixed in before the logarithm. None means 0 for finite scores, and 0.28
        for the automaton, which gives most positions a probability of 0.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.heads.audit.rows import example_rows
    >>> auto = at.learn(["a b a c a b"], window=3)
    >>> AttentionRung("automaton", auto, floor=0.5).scores(example_rows()).shape
    (1, 3)
    """

    name: str
    attention: Attention
    floor: float | None = None

    def scores(self, rows: Rows) -> Float64:
        """The logarithm of the attention, shape (n_rows, window)."""
        n, window = len(rows), rows.window
        floor = self.floor
        if floor is None:
            floor = 0.0 if isinstance(self.attention, FiniteAttention) else FLOOR
        contexts = np.ascontiguousarray(rows.tokens[:, ::-1]).ravel()
        size = max(rows.n_tokens, self.attention.n_tokens)
        offsets = np.arange(0, n * window + 1, window)
        predicted = self.attention.predict_samples(
            Samples.from_arrays(contexts, offsets, rows.labels, n_tokens=size)
        )
        bags = predicted.bags
        each = predicted.probabilities / bags.multiplicity
        pairs = pack_pairs(np.repeat(np.arange(n), window), rows.tokens.ravel())
        rows_of_pairs, _ = find_rows(pack_pairs(bags.sample, bags.token), pairs)
        weights = each[rows_of_pairs].reshape(n, window)
        return np.log(np.maximum((1.0 - floor) * weights + floor / window, NOTHING))
