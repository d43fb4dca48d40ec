"""The next tokens of each context (its support), with counts and entropy."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from attomaton.base import borders
from attomaton.base.borders import MEND
from attomaton.base.errors import MismatchedParts
from attomaton.base.frames import Tabular
from attomaton.base.options import settle
from attomaton.base.ragged import rows_of
from attomaton.base.tables import Bool, Float64, Int32, Int64, Integers, make_table
from attomaton.corpora.samples import MAX_TOKENS

_CONTEXT = pa.large_list(pa.int32())
SUPPORTS = pa.schema(
    {"context": _CONTEXT, "token": pa.int32(), "count": pa.int64(), "probability": pa.float64()}
)


@dataclass(frozen=True)
class CorpusSizes:
    """The sizes of a corpus: ``n_documents``, ``n_tokens``, and ``n_labels`` with a token before them."""

    n_documents: int
    n_tokens: int
    n_labels: int


# A *pair* is a context with one of its next tokens; pairs are sorted by context, then by token.
@dataclass(frozen=True, eq=False, repr=False)
class Supports(Tabular):
    """The tokens that follow each distinct context (its support), with counts.

    ``contexts`` has the tokens of each context in the order of the text, shape (n_contexts, width), rows
    ascending; width is 0 for contexts defined only by features, and for the single empty context. The next
    tokens of a context begin at its ``offsets``, shape (n_contexts + 1,): ``tokens``, ascending within each
    support, and ``counts``, shape (n_pairs,). ``n_tokens`` is V, the size of the vocabulary.
    """

    contexts: Int32
    offsets: Int64
    tokens: Int64
    counts: Int64
    n_tokens: int

    def __post_init__(self) -> None:
        size = borders.check_size(self.n_tokens, MAX_TOKENS, "n_tokens")
        contexts = np.asarray(self.contexts)
        if contexts.ndim != 2 or contexts.dtype.kind not in "iu":
            raise MismatchedParts(f"contexts is not a table of token ids with one row per context; {MEND}")
        borders.check_ids(contexts.ravel(), size, "a token of a context")
        offsets = borders.check_int64(self.offsets, "offsets")
        tokens = borders.check_int64(self.tokens, "tokens")
        counts = borders.check_int64(self.counts, "counts")
        borders.check_offsets(offsets, len(tokens), "offsets of supports")
        borders.check_lengths("tokens and counts", tokens=tokens, counts=counts)
        borders.check_ids(tokens, size, "a token of a support")
        borders.check_count_range(counts, 1, "a count of a support")
        if len(contexts) != len(offsets) - 1 or not len(contexts) or (np.diff(offsets) < 1).any():
            raise MismatchedParts(f"each context needs a support of at least one token; {MEND}")
        row = rows_of(offsets)
        if ((np.diff(tokens) <= 0) & (np.diff(row) == 0)).any():
            raise MismatchedParts(f"the tokens of a support do not increase; {MEND}")
        contexts = contexts.astype(np.int32)
        settle(self, contexts=contexts, offsets=offsets, tokens=tokens, counts=counts, n_tokens=size)

    def __repr__(self) -> str:
        sizes = f"{len(self):,} contexts, {len(self.tokens):,} pairs"
        return f"Supports({sizes}, vocabulary of {self.n_tokens:,})"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def _table(self) -> pa.Table:
        offsets = np.arange(len(self.tokens) + 1) * self.contexts.shape[1]
        columns = {
            "context": (offsets, self.contexts[self.row].ravel()),  # a list column: offsets and values
            "token": self.tokens.astype(np.int32),
            "count": self.counts,
            "probability": self.probabilities,
        }
        return make_table(SUPPORTS, columns)

    @cached_property
    def row(self) -> Int64:
        """The context of each pair, shape (n_pairs,)."""
        return rows_of(self.offsets)

    @cached_property
    def sizes(self) -> Int64:
        """The number of next tokens of each context, shape (n_contexts,)."""
        return np.diff(self.offsets)

    @cached_property
    def totals(self) -> Int64:
        """The number of positions of each context, shape (n_contexts,)."""
        return np.add.reduceat(self.counts, self.offsets[:-1])

    @property
    def n_positions(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def shares(self) -> Float64:
        """π_j, the share of the positions that have each context, shape (n_contexts,)."""
        return self.totals / self.n_positions

    @cached_property
    def probabilities(self) -> Float64:
        """p_jz of each pair, shape (n_pairs,)."""
        return self.counts / self.totals[self.row]

    @cached_property
    def entropy(self) -> float:
        """H = −Σ π_j p_jz ln p_jz, in nats per position: no decoder of these contexts has a lower loss."""
        return float((self.counts * -np.log(self.probabilities)).sum() / self.n_positions) + 0.0

    def pairs_of(self, number: int) -> slice:
        """The pairs of the context with this index."""
        return slice(int(self.offsets[number]), int(self.offsets[number + 1]))

    def find(self, context: Sequence[int] | Integers) -> int | None:
        """The index of a context of token ids; None if it does not occur."""
        (index,), (occurs,) = self.number_all(np.asarray(context, np.int64).reshape(1, -1))
        return int(index) if occurs else None

    def number_all(self, contexts: Int64) -> tuple[Int64, Bool]:
        """The index of each context and whether it occurs, shape (n,); indices of others are meaningless."""
        width = self.contexts.shape[1]
        if contexts.ndim != 2 or contexts.shape[1] != width:
            raise MismatchedParts(f"a context has {width:,} tokens here, not {contexts.shape[-1]:,}")
        inside: Bool = np.all((contexts >= 0) & (contexts < self.n_tokens), axis=1)
        # contexts with ids outside the vocabulary are looked up as zeros, and then not counted
        keys = pack_contexts(np.where(inside[:, None], contexts, 0), self.n_tokens)
        index = np.minimum(np.searchsorted(self._keys, keys), len(self) - 1)
        return index, inside & (self._keys[index] == keys)

    @cached_property
    def _keys(self) -> Int64:
        return pack_contexts(self.contexts.astype(np.int64), self.n_tokens)


def pack_contexts(contexts: Int64, n_tokens: int) -> Int64:
    """Each row of tokens as one number in base V, shape (n,); numbers sort like rows."""
    keys = np.zeros(len(contexts), np.int64)
    for column in range(contexts.shape[1]):
        keys = keys * n_tokens + contexts[:, column]
    return keys


def unpack_contexts(keys: Int64, width: int, n_tokens: int) -> Int32:
    # the rows of tokens that `pack_contexts` packed, shape (n, width)
    contexts = np.empty((len(keys), width), np.int32)
    for column in reversed(range(width)):
        keys, contexts[:, column] = np.divmod(keys, n_tokens)
    return contexts


def supports_of(keys: Int64, counts: Int64, width: int, n_tokens: int) -> Supports:
    """The supports that ascending keys ``context · V + next token`` and their counts describe."""
    context, token = np.divmod(keys, n_tokens)
    starts = np.flatnonzero(np.diff(context, prepend=-1))
    offsets = np.append(starts, len(keys))
    return Supports(unpack_contexts(context[starts], width, n_tokens), offsets, token, counts, n_tokens)


def count_supports(documents: Sequence[Sequence[int]], width: int, n_tokens: int | None = None) -> Supports:
    """Count the next tokens of each context of ``width`` tokens, in documents in memory, by definition.

    ``documents`` are sequences of token ids. ``n_tokens`` is the size of the vocabulary, by default the
    largest id plus one.

    Examples
    --------
    >>> supports = count_supports([[0, 1, 0, 2], [0, 1]], 1)
    >>> supports.contexts.tolist(), supports.tokens.tolist(), supports.counts.tolist()
    ([[0], [1]], [1, 2, 0], [2, 1, 1])
    """
    table: dict[tuple[int, ...], dict[int, int]] = {}
    for document in documents:
        ids = list(map(int, document))
        for position in range(width, len(ids)):
            after = table.setdefault(tuple(ids[position - width : position]), {})
            after[ids[position]] = after.get(ids[position], 0) + 1
    size = max((max(map(int, document), default=-1) for document in documents), default=-1) + 1
    contexts = sorted(table)
    sizes = [len(table[context]) for context in contexts]
    pairs = [pair for context in contexts for pair in sorted(table[context].items())]
    tokens = np.array([token for token, _ in pairs], np.int64)
    counts = np.array([count for _, count in pairs], np.int64)
    offsets = np.cumsum([0, *sizes])
    rows = np.array(contexts, np.int32).reshape(len(contexts), width)
    return Supports(rows, offsets, tokens, counts, size if n_tokens is None else n_tokens)
