"""Possible explanations of where a head attends: rungs of the ladder.

A rung knows nothing about heads. Either it gives a score to each key of a row, and how much attention a key
gets is softmax(β · score) with one fitted scale β; or it is free, with one offset per lag (:class:`Position`)
or one effect per token (:class:`KeyToken`) fitted for each head. Rungs that need a corpus are made from
documents that are not scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from attomaton.automaton.attention import Attention
from attomaton.automaton.finite import FiniteAttention
from attomaton.base.errors import MismatchedParts
from attomaton.base.options import Checked, checked, real_number, whole_number
from attomaton.base.tables import Bool, Float64, Int64, Integers, column
from attomaton.corpora.samples import Samples
from attomaton.graphs.grouping import count_keys, find_rows, pack_pairs, unpack_pairs
from attomaton.heads.audit.rows import EARLIER, LEAST_ATTENTION, Rows
from attomaton.heads.utility.measured import UtilityTable
from attomaton.theories.beginning.result import Beginning

FLOOR = 0.28  # the share of uniform attention mixed into the automaton's, whose probabilities may be 0


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
        """A score for each position of the window, and optionally for the first token of the context.

        Shape (n_rows, window or window + 1), or (n_rows, n_heads, window or window + 1) where heads differ.
        """
        ...


@dataclass(frozen=True)
class Position:
    """The position profile: one offset per lag, fitted for each head.

    Examples
    --------
    >>> Position().name
    'position'
    """

    name: str = "position"


@dataclass(frozen=True)
class KeyToken(Checked):
    """One effect per token, fitted for each head and shrunk.

    ``ridge`` × the squares of the effects is added to the loss, in nats per row; ``name`` is the name in
    tables.

    Examples
    --------
    >>> KeyToken(ridge=0.01).name
    'key token'
    """

    ridge: float = field(default=1e-3, metadata=checked(real_number, above=0.0))
    name: str = "key token"


# A rung of the ladder: free offsets, free effects, or scores with one fitted scale.
LadderRung = Position | KeyToken | Rung


@dataclass(frozen=True)
class Last:
    """The query's own position.

    Examples
    --------
    >>> Last().name
    'last'
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
    >>> Sink().name
    'sink'
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
    >>> PreviousToken().name
    'previous token'
    """

    name: str = "previous token"

    def scores(self, rows: Rows) -> Float64:
        """1 at the position before the query's, shape (n_rows, window)."""
        return np.broadcast_to((np.arange(rows.window) == 1).astype(np.float64), rows.tokens.shape)


@dataclass(frozen=True)
class Duplicate:
    """Earlier positions with the token of the query.

    Examples
    --------
    >>> Duplicate().name
    'duplicate'
    """

    name: str = "duplicate"

    def scores(self, rows: Rows) -> Float64:
        """1 where an earlier token is the query, shape (n_rows, window)."""
        earlier = np.arange(rows.window) > 0
        return ((rows.tokens == rows.queries[:, None]) & earlier).astype(np.float64)


@dataclass(frozen=True)
class Induction(Checked):
    """The positions after an earlier occurrence of the query, or of the last ``length`` tokens (1 to 3).

    Examples
    --------
    >>> Induction(2).name
    'induction by 2'
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
    """The positions of punctuation and line ends.

    ``tokens`` (n_tokens,) says which tokens count; ``name`` is the name in tables.

    Examples
    --------
    >>> Delimiters.from_texts([".", "a"]).tokens.tolist()
    [True, False]
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

    ``ends`` (n_tokens,) says which tokens end a sentence or a line; ``name`` is the name in tables.

    Examples
    --------
    >>> SentenceStart.from_texts(["a", "!"]).ends.tolist()
    [False, True]
    """

    ends: Bool
    name: str = "sentence start"

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> "SentenceStart":
        """From the texts of all tokens: those with a line end, or whose end is . ! ? or 。 (and a quote)."""
        stripped = [text.rstrip(" \"'”’)") for text in texts]
        ends = [
            short.endswith((".", "!", "?", "。")) or "\n" in text
            for text, short in zip(texts, stripped, strict=True)
        ]
        return cls(np.array(ends, bool))

    def scores(self, rows: Rows) -> Float64:
        """1 where the token before ends a sentence or a line, shape (n_rows, window)."""
        before = rows.past[:, 1 : rows.window + 1]
        return (self.ends[before] & (before >= 0)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class TokenCounts:
    """How often each token occurs in documents, and each pair of a token and the next.

    ``tokens`` (n_tokens,) are the counts of tokens, ``pairs`` (n_pairs,) those of the pairs that occur, and
    ``keys`` (n_pairs,) these pairs as packed numbers, ascending.
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

    def count_pairs_of(self, first: Integers, second: Integers) -> Int64:
        """How often ``second`` follows ``first``, in the shape of ``second``."""
        pairs = pack_pairs(np.broadcast_to(first, second.shape).ravel(), second.ravel())
        indices, occurs = find_rows(self.keys, pairs)
        return np.where(occurs, self.pairs[indices] if len(self.pairs) else 0, 0).reshape(second.shape)


@dataclass(frozen=True, eq=False)
class Frequency:
    """The logarithm of a token's count.

    ``counts`` are those of the documents to fit on, and ``name`` is the name in tables.

    Examples
    --------
    >>> Frequency(TokenCounts.of([[0, 1]], n_tokens=2)).name
    'frequency'
    """

    counts: TokenCounts
    name: str = "frequency"

    def scores(self, rows: Rows) -> Float64:
        """ln(count + ½) of each token, shape (n_rows, window)."""
        return np.log(self.counts.tokens + 0.5)[rows.tokens]


@dataclass(frozen=True, eq=False)
class Bigram:
    """The log probability that a token follows the query in the corpus.

    ``counts`` are those of the documents to fit on, and ``name`` is the name in tables.

    Examples
    --------
    >>> Bigram(TokenCounts.of([[0, 1]], n_tokens=2)).name
    'bigram'
    """

    counts: TokenCounts
    name: str = "bigram"

    def scores(self, rows: Rows) -> Float64:
        """ln((count + 0.1) / (Σ counts + 0.1 n_tokens)), shape (n_rows, window)."""
        queries = rows.queries[:, None]
        pairs = self.counts.count_pairs_of(queries, rows.tokens)
        return np.log((pairs + 0.1) / (self.counts.followed[queries] + 0.1 * len(self.counts.tokens)))


@dataclass(frozen=True, eq=False)
class PMI:
    """Pointwise mutual information of the query and the token that follows it.

    ``counts`` are those of the documents to fit on, and ``name`` is the name in tables.

    Examples
    --------
    >>> PMI(TokenCounts.of([[0, 1]], n_tokens=2)).name
    'PMI'
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
        n_counted = np.maximum(is_counted.sum(1, keepdims=True), 1)
        mean: Float64 = (scores * is_counted).sum(1, keepdims=True) / n_counted
        return np.where(is_counted, scores, mean)


@dataclass(frozen=True, eq=False)
class Table:
    """Scores looked up by query and token in a table, which may lack pairs.

    Attributes
    ----------
    name : str
        Name in tables.
    query, token : integers, shape (n_pairs,)
        The pairs.
    values : float64 array, shape (n_pairs,) or (n_heads, n_pairs)
        Their scores, shared by all heads or one row for each of ``Rows.heads``.
    background : float64 array, shape (n_tokens,) or (n_heads, n_tokens)
        The score of a token for pairs not in the table.

    Examples
    --------
    >>> Table("pairs", np.array([0]), np.array([1]), values=np.array([2.0]), background=np.zeros(2)).name
    'pairs'
    """

    name: str
    query: Integers
    token: Integers
    values: Float64
    background: Float64

    def __post_init__(self) -> None:
        if not len(self.query) == len(self.token) == self.values.shape[-1]:
            raise MismatchedParts(f"the table {self.name!r} needs as many values as queries and tokens")

    @cached_property
    def _sorted(self) -> tuple[Int64, Int64]:
        keys = pack_pairs(self.query, self.token)
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def scores(self, rows: Rows) -> Float64:
        """The score of each position, shape (n_rows, window), or (n_rows, n_heads, window)."""
        keys, order = self._sorted
        pairs = pack_pairs(np.repeat(rows.queries, rows.window), rows.tokens.ravel())
        indices, in_table = find_rows(keys, pairs)
        values = np.atleast_2d(self.values)
        scores = np.atleast_2d(self.background)[:, rows.tokens.ravel()].astype(np.float64)
        scores = np.repeat(scores, len(values), 0) if len(scores) < len(values) else scores
        if in_table.any():
            scores[:, in_table] = values[:, order[indices[in_table]]]
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

    The tables must have the same pairs, as those of one call of ``measure_utility`` do.

    Examples
    --------
    >>> from attomaton.heads import from_arrays, measure_utility
    >>> model = from_arrays(np.eye(5), *np.random.default_rng(0).normal(size=(4, 1, 2, 5, 5)))
    >>> usefulness(measure_utility(model, np.array([[0, 1, 2, 1, 0]]))).values.shape[0]
    2
    """
    pairs = [table.scores.select(["query", "token"]) for table in tables]
    if any(pairs_of_head != pairs[0] for pairs_of_head in pairs):
        raise MismatchedParts(f"the tables of {name!r} have different pairs; measure them on the same text")
    values = np.array([column(table.scores, "score") for table in tables])
    query, token = (column(pairs[0], name) for name in ("query", "token"))
    return Table(name, query, token, values, np.array([table.background for table in tables]))


@dataclass(frozen=True, eq=False)
class AttentionRung:
    """Attention computed by attomaton: the automaton, ``shrink``, or ``fast_forward`` at a step.

    Attributes
    ----------
    name : str
        Name in tables.
    attention : Attention
        Computes attention over the last ``window`` tokens of each context.
    floor : float, optional
        The share of uniform attention mixed in before the logarithm. None means 0 for finite scores, and 0.28
        for the automaton, whose attention is 0 at most positions.

    Examples
    --------
    >>> import attomaton as at
    >>> AttentionRung("automaton", at.learn(["a b a c a b"], window=3)).name
    'automaton'
    """

    name: str
    attention: Attention
    floor: float | None = None

    def scores(self, rows: Rows) -> Float64:
        """The logarithm of the attention, shape (n_rows, window)."""
        n, window = len(rows), rows.window
        default = 0.0 if isinstance(self.attention, FiniteAttention) else FLOOR
        floor = default if self.floor is None else self.floor
        contexts = np.ascontiguousarray(rows.tokens[:, ::-1]).ravel()
        size = max(rows.n_tokens, self.attention.n_tokens)
        offsets = np.arange(0, n * window + 1, window)
        predicted = self.attention.predict_samples(
            Samples.from_arrays(contexts, offsets, rows.labels, n_tokens=size)
        )
        bags = predicted.bags
        per_position = predicted.probabilities / bags.multiplicity
        pairs = pack_pairs(np.repeat(np.arange(n), window), rows.tokens.ravel())
        indices, _ = find_rows(pack_pairs(bags.sample, bags.token), pairs)
        weights = per_position[indices].reshape(n, window)
        return np.log(np.maximum((1.0 - floor) * weights + floor / window, LEAST_ATTENTION))
