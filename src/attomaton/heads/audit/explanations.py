"""Possible explanations of where a head attends, called rungs: ``ladder.py`` fits them one after the other.

Most rungs give a score to each key of a row (:mod:`.rows`): the predicted attention is softmax(β · score),
with a scale β fitted for each head. :class:`Position` and :class:`KeyToken` have no scores; all their numbers
are fitted. Rungs that need a corpus are made from documents that are not scored. In the file, these come
first, then rungs that look at positions, at texts of tokens, at counts, and at results of attomaton.
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

# The share of uniform attention that is mixed into the automaton's attention, whose probabilities may be 0.
FLOOR = 0.28


class Rung(Protocol):
    """An explanation of where heads attend: any object with a ``name`` and a method ``scores``.

    Examples
    --------
    >>> class Nearest:
    ...     name = "nearest"
    ...
    ...     def scores(self, rows):
    ...         return np.tile(-np.arange(rows.window), (len(rows), 1))
    """

    @property
    def name(self) -> str:
        """The name in tables."""
        ...

    def scores(self, rows: Rows) -> Float64:
        """Return a score for each position of the window, and optionally for the first token of the context.

        The shape is (n_rows, window) or (n_rows, window + 1). If heads have different scores, the shape is
        (n_rows, n_heads, window) or (n_rows, n_heads, window + 1).
        """
        ...


@dataclass(frozen=True)
class Position:
    """Explain attention by distance from the query: one offset per distance is fitted for each head.

    Examples
    --------
    >>> rungs = [Sink(), PreviousToken(), Position()]
    """

    name: str = "position"


@dataclass(frozen=True)
class KeyToken(Checked):
    """Explain attention by the attended token: one effect per token is fitted for each head.

    The fit adds ``ridge`` times the sum of the squared effects to the loss, in nats per row. ``name`` is the
    name in tables.

    Examples
    --------
    >>> rungs = [Position(), KeyToken(ridge=0.01)]
    """

    ridge: float = field(default=1e-3, metadata=checked(real_number, above=0.0))
    name: str = "key token"


# A rung of the ladder: an offset per distance, an effect per token, or scores with one fitted scale.
LadderRung = Position | KeyToken | Rung


@dataclass(frozen=True)
class Last:
    """Explain attention on the position of the query itself.

    Examples
    --------
    >>> rungs = [Sink(), Last(), Position()]
    """

    name: str = "last"

    def scores(self, rows: Rows) -> Float64:
        """Return scores of shape (n_rows, window): 1 at the query's own position, 0 elsewhere."""
        return np.broadcast_to((np.arange(rows.window) == 0).astype(np.float64), rows.tokens.shape)


@dataclass(frozen=True)
class Sink:
    """Explain attention on the first token of the context.

    Examples
    --------
    >>> rungs = [Sink(), Position()]
    """

    name: str = "sink"

    def scores(self, rows: Rows) -> Float64:
        """Return scores of shape (n_rows, window + 1): 1 at the first token, the last column, else 0."""
        is_first = (np.arange(rows.window + 1) == rows.window).astype(np.float64)
        return np.broadcast_to(is_first, (len(rows), rows.window + 1))


@dataclass(frozen=True)
class PreviousToken:
    """Explain attention on the position just before the query.

    Examples
    --------
    >>> rungs = [Sink(), PreviousToken()]
    """

    name: str = "previous token"

    def scores(self, rows: Rows) -> Float64:
        """Return scores of shape (n_rows, window): 1 at the position before the query, 0 elsewhere."""
        return np.broadcast_to((np.arange(rows.window) == 1).astype(np.float64), rows.tokens.shape)


@dataclass(frozen=True)
class Duplicate:
    """Explain attention on earlier positions that have the same token as the query.

    Examples
    --------
    >>> rungs = [Position(), Duplicate()]
    """

    name: str = "duplicate"

    def scores(self, rows: Rows) -> Float64:
        """Return scores of shape (n_rows, window): 1 where an earlier token is the query token, else 0."""
        earlier = np.arange(rows.window) > 0
        return ((rows.tokens == rows.queries[:, None]) & earlier).astype(np.float64)


@dataclass(frozen=True)
class Induction(Checked):
    """Explain attention on the tokens after an earlier occurrence of the last ``length`` tokens (1 to 3).

    Examples
    --------
    >>> rungs = [Position(), Induction(1), Induction(2)]
    """

    length: int = field(default=1, metadata=checked(whole_number, least=1, most=EARLIER))

    @property
    def name(self) -> str:
        return "induction" if self.length == 1 else f"induction by {self.length}"

    def scores(self, rows: Rows) -> Float64:
        """Return scores of shape (n_rows, window): 1 after an earlier occurrence of these tokens, else 0."""
        # The query itself, at lag 0, is not after an earlier occurrence.
        follows = np.tile(np.arange(rows.window) > 0, (len(rows), 1))
        for back in range(self.length):
            # The key at lag i follows lag i + 1, so that must have the token of lag 0, i + 2 that of lag 1, …
            before_key = rows.past[:, back + 1 : back + 1 + rows.window]
            follows &= before_key == rows.past[:, back, None]
        return follows.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Delimiters:
    """Explain attention on punctuation and line ends.

    ``tokens`` (n_tokens,) is True for tokens that are punctuation or contain a line end. ``name`` is the name
    in tables.

    Examples
    --------
    >>> Delimiters.from_texts([".", "a"]).tokens.tolist()
    [True, False]
    """

    tokens: Bool
    name: str = "delimiters"

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> "Delimiters":
        """Make the rung from the texts of all tokens: delimiters have a line end, or no letter or digit."""
        return cls(np.array([_delimits(text) for text in texts], bool))

    def scores(self, rows: Rows) -> Float64:
        """Return scores of shape (n_rows, window): 1 at punctuation and line ends, 0 elsewhere."""
        return self.tokens[rows.tokens].astype(np.float64)


# Spaces alone are no delimiter, although they have no letter or digit.
def _delimits(text: str) -> bool:
    return "\n" in text or (bool(text.strip()) and not any(letter.isalnum() for letter in text))


@dataclass(frozen=True, eq=False)
class SentenceStart:
    """Explain attention on positions at which a sentence or a line begins.

    ``ends`` (n_tokens,) is True for tokens that end a sentence or a line. ``name`` is the name in tables.

    Examples
    --------
    >>> SentenceStart.from_texts(["a", "!"]).ends.tolist()
    [False, True]
    """

    ends: Bool
    name: str = "sentence start"

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> "SentenceStart":
        """Make the rung from the texts of all tokens: a sentence ends with . ! ? or 。 (and a quote)."""
        stops, quotes = (".", "!", "?", "。"), " \"'”’)"
        return cls(np.array(["\n" in text or text.rstrip(quotes).endswith(stops) for text in texts], bool))

    def scores(self, rows: Rows) -> Float64:
        """Return scores of shape (n_rows, window): 1 where a sentence or a line begins, 0 elsewhere."""
        before = rows.past[:, 1 : rows.window + 1]  # the token before each key; −1 if there is none
        return (self.ends[before] & (before >= 0)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class TokenCounts:
    """How often each token, and each pair of a token and the next, occurs in documents.

    ``tokens`` (n_tokens,) are the counts of tokens. ``pairs`` (n_pairs,) are the counts of the pairs that
    occur, and ``keys`` (n_pairs,) are these pairs, packed by ``pack_pairs`` into one number each, ascending.
    """

    tokens: Int64
    keys: Int64
    pairs: Int64

    @classmethod
    def of(cls, documents: Sequence[Any], *, n_tokens: int) -> "TokenCounts":
        """Count documents of token ids."""
        read = [np.empty(0, np.int64), *(np.asarray(ids, np.int64) for ids in documents)]
        tokens = np.bincount(np.concatenate(read), minlength=n_tokens)
        # No pair crosses a border between documents.
        keys, pairs = count_keys(np.concatenate([pack_pairs(ids[:-1], ids[1:]) for ids in read]))
        return cls(tokens.astype(np.int64), keys, pairs)

    @cached_property
    def followed(self) -> Int64:
        """How often each token is followed by another, shape (n_tokens,)."""
        first_tokens, _ = unpack_pairs(self.keys)
        return np.bincount(first_tokens, self.pairs, minlength=len(self.tokens)).astype(np.int64)

    def count_pairs_of(self, first: Integers, second: Integers) -> Int64:
        """How often ``second`` follows ``first``, in the shape of ``second``."""
        pairs = pack_pairs(np.broadcast_to(first, second.shape).ravel(), second.ravel())
        indices, occurs = find_rows(self.keys, pairs)
        # Pairs that do not occur read the 0 at the end.
        return np.append(self.pairs, 0)[np.where(occurs, indices, -1)].reshape(second.shape)


@dataclass(frozen=True, eq=False)
class Frequency:
    """Explain attention by how often the attended token occurs.

    ``counts`` come from the documents to fit on. ``name`` is the name in tables.

    Examples
    --------
    >>> rung = Frequency(TokenCounts.of([[0, 1]], n_tokens=2))
    """

    counts: TokenCounts
    name: str = "frequency"

    def scores(self, rows: Rows) -> Float64:
        """Return ln(count + ½) of the token at each position, shape (n_rows, window)."""
        return np.log(self.counts.tokens + 0.5)[rows.tokens]


@dataclass(frozen=True, eq=False)
class Bigram:
    """Explain attention by the probability that the attended token follows the query token.

    ``counts`` come from the documents to fit on. ``name`` is the name in tables.

    Examples
    --------
    >>> rung = Bigram(TokenCounts.of([[0, 1]], n_tokens=2))
    """

    counts: TokenCounts
    name: str = "bigram"

    def scores(self, rows: Rows) -> Float64:
        """Return ln((c + 0.1) / (C + 0.1 n_tokens)): of C tokens after the query token, c are this token."""
        queries = rows.queries[:, None]
        pairs = self.counts.count_pairs_of(queries, rows.tokens)
        return np.log((pairs + 0.1) / (self.counts.followed[queries] + 0.1 * len(self.counts.tokens)))


@dataclass(frozen=True, eq=False)
class PMI:
    """Explain attention by pointwise mutual information of the query token and the attended token.

    This is large if the attended token is much likelier after the query token than in the whole corpus.
    ``counts`` come from the documents to fit on. ``name`` is the name in tables.

    Examples
    --------
    >>> rung = PMI(TokenCounts.of([[0, 1]], n_tokens=2))
    """

    counts: TokenCounts
    name: str = "PMI"

    def scores(self, rows: Rows) -> Float64:
        """Return ln(probability after the query / probability anywhere) of tokens, shape (n_rows, window).

        A token that is not in the corpus gets the mean score of the other tokens in its row. If no token
        follows the query token in the corpus, all scores of the row are 0.
        """
        tokens = self.counts.tokens
        scores = Bigram(self.counts).scores(rows) - Frequency(self.counts).scores(rows)
        # ``Frequency`` is ln(count + ½): minus this logarithm, it is that of a probability.
        scores += np.log(tokens.sum() + 0.5 * len(tokens))
        is_counted = (tokens[rows.tokens] > 0) & (self.counts.followed[rows.queries] > 0)[:, None]
        n_counted = np.maximum(is_counted.sum(1, keepdims=True), 1)
        mean: Float64 = (scores * is_counted).sum(1, keepdims=True) / n_counted
        return np.where(is_counted, scores, mean)


@dataclass(frozen=True, eq=False)
class Table:
    """Explain attention by a table of scores for pairs of query token and attended token.

    Attributes
    ----------
    name : str
        The name in tables.
    query, token : integers, shape (n_pairs,)
        The pairs that have a score of their own, in any order.
    values : float64 array, shape (n_pairs,) or (n_heads, n_pairs)
        Their scores: the same for all heads, or a row for each head in the order of ``Rows.heads``.
    background : float64 array, shape (n_tokens,) or (n_heads, n_tokens)
        The score of each attended token in all other pairs.

    Examples
    --------
    >>> rung = Table("pairs", np.array([0]), np.array([1]), values=np.array([2.0]), background=np.zeros(2))
    """

    name: str
    query: Integers
    token: Integers
    values: Float64
    background: Float64

    def __post_init__(self) -> None:
        if not len(self.query) == len(self.token) == self.values.shape[-1]:
            raise MismatchedParts(f"the table {self.name!r} needs a query, a token and a value for each pair")

    # The order that sorts the pairs, which ``find_rows`` needs.
    @cached_property
    def _order(self) -> Int64:
        return np.argsort(pack_pairs(self.query, self.token), kind="stable")

    @cached_property
    def _keys(self) -> Int64:
        return pack_pairs(self.query, self.token)[self._order]

    def scores(self, rows: Rows) -> Float64:
        """Return scores of shape (n_rows, window), or (n_rows, n_heads, window) if heads differ."""
        # Look up all positions of all rows, one after the other; scores that all heads share are one head.
        tokens = rows.tokens.ravel()
        pairs = pack_pairs(np.repeat(rows.queries, rows.window), tokens)
        indices, in_table = find_rows(self._keys, pairs)
        values = np.atleast_2d(self.values)
        scores = np.atleast_2d(self.background)[:, tokens].astype(np.float64)
        if len(scores) < len(values):
            scores = np.repeat(scores, len(values), 0)
        if in_table.any():
            scores[:, in_table] = values[:, self._order[indices[in_table]]]
        by_head = scores.reshape(len(scores), *rows.tokens.shape).swapaxes(0, 1)
        return by_head if self.values.ndim == 2 or self.background.ndim == 2 else by_head[:, 0]


def first_looks(beginning: Beginning, *, name: str = "first looks") -> Table:
    """Explain attention by the tokens that each query attends to first at the beginning of training.

    Examples
    --------
    >>> import attomaton as at
    >>> first_looks(at.begin(["a b a c a b a c a"], window=4)).values.shape
    (7,)
    """
    looks: Any = beginning.statistics.looks  # a sparse matrix (n_queries, n_tokens), stored row by row
    query = np.repeat(np.arange(len(looks.indptr) - 1), np.diff(looks.indptr))
    background = np.zeros(int(looks.shape[1]))
    return Table(name, query, np.asarray(looks.indices), np.asarray(looks.data), background)


def usefulness(tables: Sequence[UtilityTable], *, name: str = "utility") -> Table:
    """Explain attention by the utility tables of all heads, in the order of ``Rows.heads``.

    All tables must have the same pairs of query and token: measure them in one call of ``measure_utility``.

    Examples
    --------
    >>> from attomaton.heads import from_arrays, measure_utility
    >>> model = from_arrays(np.eye(5), *np.random.default_rng(0).normal(size=(4, 1, 2, 5, 5)))
    >>> rung = usefulness(measure_utility(model, np.array([[0, 1, 2, 1, 0]])))
    """
    pairs = [table.scores.select(["query", "token"]) for table in tables]
    if any(pairs_of_head != pairs[0] for pairs_of_head in pairs):
        raise MismatchedParts(f"tables of {name!r} have different pairs; measure them in one call")
    values = np.array([column(table.scores, "score") for table in tables])
    query, token = (column(pairs[0], name) for name in ("query", "token"))
    return Table(name, query, token, values, np.array([table.background for table in tables]))


@dataclass(frozen=True, eq=False)
class AttentionRung:
    """Explain attention by the attention that attomaton computes over the last tokens of each context.

    Attributes
    ----------
    name : str
        The name in tables.
    attention : Attention
        What computes the attention: the automaton, ``shrink``, or ``fast_forward`` at a step.
    floor : float, optional
        The share of uniform attention that is mixed in before the logarithm is taken. None means 0 for
        attention that is positive everywhere, and 0.28 for the automaton, whose attention is mostly 0.

    Examples
    --------
    >>> import attomaton as at
    >>> rung = AttentionRung("automaton", at.learn(["a b a c a b"], window=3))
    """

    name: str
    attention: Attention
    floor: float | None = None

    def scores(self, rows: Rows) -> Float64:
        """Return the logarithm of the attention on each position, shape (n_rows, window)."""
        n_rows = len(rows)
        window = rows.window
        default = 0.0 if isinstance(self.attention, FiniteAttention) else FLOOR
        floor = default if self.floor is None else self.floor
        samples = Samples.from_arrays(
            np.ascontiguousarray(rows.tokens[:, ::-1]).ravel(),  # oldest first
            np.arange(0, n_rows * window + 1, window),
            rows.labels,
            n_tokens=max(rows.n_tokens, self.attention.n_tokens),
        )
        predicted = self.attention.predict_samples(samples)
        bags = predicted.bags
        # The attention on a token is divided equally among the positions that have it.
        per_position = predicted.probabilities / bags.multiplicity
        pairs = pack_pairs(np.repeat(np.arange(n_rows), window), rows.tokens.ravel())
        indices, _ = find_rows(pack_pairs(bags.sample, bags.token), pairs)  # every pair is in its bag
        weights = per_position[indices].reshape(n_rows, window)
        return np.log(np.maximum((1.0 - floor) * weights + floor / window, LEAST_ATTENTION))
