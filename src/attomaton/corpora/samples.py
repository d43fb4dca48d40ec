"""Samples: contexts of unequal lengths, each with a label, checked once and then trusted.

A context is a slice of one shared array of token ids. So the overlapping windows of a text need two offsets
for each sample, and no copy of the text. *Trusted* values are made without the checks of ``__post_init__``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from attomaton.base.borders import CONTIGUOUS, check_int64, check_size, trusted
from attomaton.base.errors import EmptyContext, InvalidSamples, TokenOutOfRange, UnsupportedOption
from attomaton.base.frames import Tabular, first_rows
from attomaton.base.options import settle, show, whole_number
from attomaton.base.printing import PRINTED_ROWS, Block, count_noun
from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.tables import Int32, Int64, make_table

SAMPLE_SCHEMA = pa.schema([("context", pa.large_list(pa.int32())), ("label", pa.int32())])

WINDOW = 32  # longest context by default, in tokens
TOKEN_BITS = 21  # bits of a token id inside a packed key: (query, winner, loser) fits 63 bits
MAX_TOKENS = 1 << TOKEN_BITS  # largest vocabulary: 2,097,152 tokens


class Sample(NamedTuple):
    """A context and the token that follows it. The query is the last token of the context.

    Examples
    --------
    >>> Samples.from_lists([[1, 0, 2]], [0])[0]
    Sample(context=(1, 0, 2), label=0)
    """

    context: tuple[int, ...]
    label: int


@dataclass(frozen=True)
class Skipped:
    """``count`` documents of a corpus were skipped; ``first`` is the error of the first one."""

    count: int = 0
    first: str | None = None

    def __add__(self, later: "Skipped") -> "Skipped":
        return Skipped(self.count + later.count, later.first if self.first is None else self.first)


NOTHING_SKIPPED = Skipped()

# What the error for an id outside the vocabulary advises, where a user may not have set `n_tokens`.
ID_CURE = "correct the ids, or give the tokenizer of the ids"


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Tabular):
    """Contexts and labels in ragged arrays: context ``i`` is ``values[starts[i]:stops[i]]``.

    Build samples with :meth:`from_lists`, :meth:`from_arrays` or :meth:`from_windows`.

    ``values`` are token ids, shape (n_values,), all below ``n_tokens``, the size of the vocabulary.
    ``starts`` and ``stops`` are the positions in ``values`` where contexts begin and end, and ``labels`` are
    the tokens to predict, each of shape (n_samples,). ``skipped`` counts the documents of the corpus that
    could not be read.

    Examples
    --------
    >>> samples = Samples.from_lists([[0, 2], [1, 0, 2]], [0, 1])
    >>> len(samples), samples.n_tokens, samples[1]
    (2, 3, Sample(context=(1, 0, 2), label=1))
    """

    values: Int32
    starts: Int64
    stops: Int64
    labels: Int32
    n_tokens: int
    skipped: Skipped = NOTHING_SKIPPED

    def __post_init__(self) -> None:
        size = check_size(self.n_tokens, MAX_TOKENS, "n_tokens", error=InvalidSamples)
        values = _integers(self.values, "values")
        labels = _integers(self.labels, "labels")
        starts = check_int64(self.starts, "starts", error=InvalidSamples)
        stops = check_int64(self.stops, "stops", error=InvalidSamples)
        if not len(starts) == len(stops) == len(labels):
            counts = f"{len(starts)} starts, {len(stops)} stops and {len(labels)} labels"
            raise InvalidSamples(f"there are {counts}; give one start, stop and label for each sample")
        check_range(values, size, lambda index: f"index {index} of values")
        check_range(labels, size, lambda index: f"the label of sample {index}")
        _check_contexts(starts, stops, len(values))
        ids = {"values": values.astype(np.int32, copy=False), "labels": labels.astype(np.int32, copy=False)}
        settle(self, starts=starts, stops=stops, n_tokens=size, **ids)

    @classmethod
    def from_lists(
        cls, contexts: Sequence[Sequence[int]], labels: Sequence[int], *, n_tokens: int | None = None
    ) -> Self:
        """Build samples from nested lists of token ids; the last token of each context is the query.

        ``n_tokens`` is the size of the vocabulary, by default the largest id plus one.
        """
        try:
            if len(contexts) != len(labels):
                raise InvalidSamples(
                    f"{len(contexts)} contexts but {len(labels)} labels; give one label for each context"
                )
            lengths = np.fromiter((len(context) for context in contexts), np.int64, len(contexts))
            flat = [token for context in contexts for token in context]
        except TypeError as error:
            raise InvalidSamples(
                f"contexts or labels have a wrong type ({error}); give lists of ids, and a list of labels"
            ) from error
        values = np.asarray(flat or np.empty(0, np.int32))
        return cls.from_arrays(values, offsets_of(lengths), labels, n_tokens=n_tokens)

    @classmethod
    def from_arrays(
        cls, values: ArrayLike, offsets: ArrayLike, labels: ArrayLike, *, n_tokens: int | None = None
    ) -> Self:
        """Build samples from ragged arrays: context ``i`` is ``values[offsets[i]:offsets[i + 1]]``.

        There is one label for each context. ``n_tokens`` is by default the largest id plus one.
        """
        ids = _integers(values, "values")
        borders = _integers(offsets, "offsets")
        targets = _integers(labels, "labels")
        if len(borders) != len(targets) + 1:
            raise InvalidSamples(
                f"{len(targets)} labels need {len(targets) + 1} offsets, not {len(borders)}; give 0, and "
                "the end of each context"
            )
        _check_sample_offsets(borders, len(ids), "sample")
        starts = borders[:-1].astype(np.int64)
        stops = borders[1:].astype(np.int64)
        _check_contexts(starts, stops, len(ids))
        size = _vocabulary_size(n_tokens, ids, targets)

        def locate(index: int) -> str:  # the first sample that ends after ids[index] contains it
            sample = int(np.searchsorted(stops, index, side="right"))
            return f"position {index - starts[sample]} of the context of sample {sample}"

        check_range(ids, size, locate)
        check_range(targets, size, lambda index: f"the label of sample {index}")
        numbers = {"values": ids.astype(np.int32), "labels": targets.astype(np.int32)}
        return trusted(cls, starts=starts, stops=stops, n_tokens=size, **numbers)

    @classmethod
    def from_windows(
        cls, ids: ArrayLike, *, window: int, documents: ArrayLike | None = None, n_tokens: int | None = None
    ) -> Self:
        """Build samples from a stream of ids: a token with up to ``window`` preceding tokens as context.

        The label ``ids[i]`` has the context ``ids[max(start, i − window):i]``, where ``start`` is the first
        position of the document; the first token of a document is not a label. ``documents`` are the offsets
        of the documents in ``ids``; by default there is one document. ``n_tokens`` is by default the largest
        id plus one.

        Examples
        --------
        >>> list(Samples.from_windows([0, 1, 2, 1, 0], window=2, documents=[0, 3, 5]))
        [Sample(context=(0,), label=1), Sample(context=(0, 1), label=2), Sample(context=(1,), label=0)]
        """
        stream = _integers(ids, "ids")
        borders = _integers([0, len(stream)] if documents is None else documents, "documents")
        longest = min(whole_number(window, "window", least=1), len(stream))
        _check_sample_offsets(borders, len(stream), "document")
        size = _vocabulary_size(n_tokens, stream)
        check_range(stream, size, lambda index: f"position {index} of the stream")
        # for each position of the stream: the first position of its document
        document_start = np.repeat(borders[:-1], np.diff(borders)).astype(np.int64)
        position = np.arange(len(stream), dtype=np.int64)
        # a label is the token after its context, so the position of a label is the stop of its context
        stops = position[position > document_start]
        starts = np.maximum(document_start[stops], stops - longest)
        values = stream.astype(np.int32)
        return trusted(cls, values=values, starts=starts, stops=stops, labels=values[stops], n_tokens=size)

    def __repr__(self) -> str:
        return f"Samples({len(self):,} samples, {self.n_tokens:,} tokens)"

    def _table(self) -> pa.Table:
        flat = self.values[ranges_of(self.starts, self.lengths)]
        return make_table(SAMPLE_SCHEMA, {"context": (offsets_of(self.lengths), flat), "label": self.labels})

    def _blocks(self) -> list[Block]:
        shown = self.take(slice(0, PRINTED_ROWS))._table()
        return [repr(self), *first_rows(shown, n_rows=len(self))]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Sample:
        context = self.values[self.starts[index] : self.stops[index]]
        return Sample(tuple(context.tolist()), int(self.labels[index]))

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))

    def __add__(self, later: "Samples") -> "Samples":
        # the values of `later` come after ours, so its starts and stops are shifted by the number of ours
        shifts = {"values": 0, "starts": len(self.values), "stops": len(self.values), "labels": 0}
        joined = {
            name: np.concatenate([getattr(self, name), getattr(later, name) + shift])
            for name, shift in shifts.items()
        }
        size = max(self.n_tokens, later.n_tokens)
        return trusted(Samples, n_tokens=size, skipped=self.skipped + later.skipped, **joined)

    @cached_property
    def queries(self) -> Int32:  # the last token of each context
        return self.values[self.stops - 1]

    @cached_property
    def lengths(self) -> Int64:
        return self.stops - self.starts

    def take(self, index: slice | NDArray[np.integer[Any]] | NDArray[np.bool_]) -> "Samples":
        """The samples at ``index``, which is a slice, positions or a mask; the token array is shared."""
        chosen = {name: getattr(self, name)[index] for name in ("starts", "stops", "labels")}
        return trusted(Samples, values=self.values, n_tokens=self.n_tokens, skipped=self.skipped, **chosen)

    def chunks(self, max_values: int) -> Iterator["Samples"]:
        """Yield consecutive samples in chunks whose contexts have about ``max_values`` tokens in total."""
        max_values = whole_number(max_values, "max_values", least=1)
        ends = np.cumsum(self.lengths)  # tokens in all contexts up to and with that of each sample
        total = int(ends[-1]) if len(ends) else 0
        # chunk k begins with the first sample up to which contexts have more than k · max_values tokens
        cuts = np.searchsorted(ends, np.arange(max_values, total, max_values), side="right")
        borders = np.unique(np.concatenate([[0], cuts, [len(self)]]))
        for start, stop in pairwise(borders.tolist()):
            yield self.take(slice(start, stop))


# A user's integers as an array of one axis. The type is kept, so that a range check sees the numbers before a
# conversion could wrap them; only uint64 becomes int64, because a sum of the two is float64 in NumPy.
def _integers(array: ArrayLike, name: str) -> NDArray[np.integer[Any]]:
    numbers = np.require(array, None, CONTIGUOUS)
    if numbers.size == 0 and numbers.ndim == 1:
        return numbers.astype(np.int64)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise InvalidSamples(
            f"{name} must be a one-dimensional array of integers, not {numbers.dtype} of shape "
            f"{numbers.shape}; convert it first"
        )
    if numbers.dtype == np.uint64 and numbers.max() > np.iinfo(np.int64).max:
        raise InvalidSamples(f"{name} contains {numbers.max()}, which does not fit int64; correct the number")
    return numbers.astype(np.int64, copy=False) if numbers.dtype == np.uint64 else numbers


# Refuses offsets of `item`s (samples or documents) that do not rise from 0 to the number of ids.
def _check_sample_offsets(offsets: NDArray[np.integer[Any]], n_values: int, item: str) -> None:
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n_values:
        shown = f"{offsets[0]} … {offsets[-1]}" if len(offsets) else "nothing"
        raise InvalidSamples(f"{item} offsets must run from 0 to {n_values}, the number of ids, not {shown}")
    falling = np.flatnonzero(offsets[1:] < offsets[:-1])
    if len(falling):
        raise InvalidSamples(f"{item} offsets must not decrease: {item} {falling[0]} ends before it starts")


# Refuses contexts that are not within the values, or are empty.
def _check_contexts(starts: Int64, stops: Int64, n_values: int) -> None:
    outside = np.flatnonzero((starts < 0) | (stops > n_values) | (starts > stops))
    if len(outside):
        sample = outside[0]
        raise InvalidSamples(
            f"the context of sample {sample} is values[{starts[sample]}:{stops[sample]}], but there are "
            f"{n_values} values ({count_noun(len(outside), 'such sample')}); correct starts and stops"
        )
    empty = np.flatnonzero(starts == stops)
    if len(empty):
        raise EmptyContext(
            f"sample {empty[0]} has an empty context ({count_noun(len(empty), 'such sample')}), but a "
            "context needs at least one token, the query; drop the sample"
        )


# The size that a user gave, checked, or the largest id in the arrays plus one.
def _vocabulary_size(n_tokens: int | None, *arrays: NDArray[np.integer[Any]]) -> int:
    size = n_tokens
    if size is None:
        size = max((int(array.max()) + 1 for array in arrays if len(array)), default=0)
    try:
        return whole_number(size, "n_tokens", most=MAX_TOKENS)
    except UnsupportedOption as error:
        raise InvalidSamples(
            f"n_tokens is {show(size)}, but it must be from 0 to {MAX_TOKENS:,}; renumber the tokens that "
            "occur as 0, 1, 2 …"
        ) from error


def check_range(
    ids: NDArray[np.integer[Any]],
    n_tokens: int,
    locate: Callable[[int], str],
    cure: str = "raise n_tokens, or correct the ids",
) -> None:
    """Refuse ids outside 0 … n_tokens − 1; ``locate`` says in words where the id at an index is."""
    outside = np.flatnonzero((ids < 0) | (ids >= n_tokens))
    if len(outside):
        raise TokenOutOfRange(
            f"token {ids[outside[0]]} at {locate(int(outside[0]))} is not in 0 … {n_tokens - 1} "
            f"({count_noun(len(outside), 'such id')}); {cure}"
        )
