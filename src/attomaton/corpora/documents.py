"""A tokenised corpus in memory: whole documents, and chunks of them with complete contexts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from attomaton.base.borders import check_ids, check_int32, check_int64, check_offsets, check_size, trusted
from attomaton.base.errors import InvalidSamples, TokenOutOfRange
from attomaton.base.options import settle, whole_number
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.samples import MAX_TOKENS, NOTHING_SKIPPED, Samples, Skipped
from attomaton.corpora.tokenizers.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Documents:
    """A tokenised corpus in memory: document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``.

    ``ids`` are the token ids of all documents, shape (n_values,), and ``offsets`` have the shape (n_documents
    + 1,). ``vocabulary`` is None if the tokenizer of the ids is unknown. ``skipped`` counts the documents
    that could not be read.

    Examples
    --------
    >>> import attomaton as at
    >>> list(at.read_corpus(["to be", "or not to be"]).windows(window=2))[:2]
    [Sample(context=(0,), label=1), Sample(context=(2,), label=3)]
    """

    ids: Int32
    offsets: Int64
    vocabulary: Vocabulary | None
    skipped: Skipped = NOTHING_SKIPPED

    def __post_init__(self) -> None:
        ids = check_int32(self.ids, "ids", error=TokenOutOfRange)
        size = MAX_TOKENS if self.vocabulary is None else len(self.vocabulary)
        check_ids(ids, size, "a token of the documents", error=TokenOutOfRange)
        offsets = check_int64(self.offsets, "offsets", error=InvalidSamples)
        check_offsets(offsets, len(ids), "offsets of documents", error=InvalidSamples)
        settle(self, ids=ids, offsets=offsets)

    def windows(self, window: int) -> Samples:
        """Make samples: each token with up to ``window`` preceding tokens of its document as context."""
        samples = self.as_chunk.samples(min(whole_number(window, "window", least=1), len(self.ids)))
        return replace(samples, skipped=self.skipped) if self.skipped.count else samples

    @property
    def as_chunk(self) -> "Chunk":
        """All documents as one chunk. Without a vocabulary, its size is the largest id plus one."""
        vocabulary = self.vocabulary
        size = int(self.ids.max(initial=-1)) + 1 if vocabulary is None else len(vocabulary)
        return trusted(Chunk, ids=self.ids, documents=self.offsets, head=0, n_tokens=size)


@dataclass(frozen=True, eq=False)
class Chunk:
    """A chunk of a tokenised corpus; every token except the first one of each document is a label.

    ``ids`` are token ids below ``n_tokens``, shape (n_values,), and ``documents`` are the offsets of the
    documents in them. The first ``head`` tokens repeat the end of the previous chunk: they are context, but
    not labels.
    """

    ids: Int32
    documents: Int64
    head: int
    n_tokens: int

    def __post_init__(self) -> None:
        size = check_size(self.n_tokens, MAX_TOKENS, "n_tokens", error=InvalidSamples)
        ids = check_int32(self.ids, "ids", error=InvalidSamples)
        documents = check_int64(self.documents, "documents", error=InvalidSamples)
        check_ids(ids, size, "a token of the chunk", error=TokenOutOfRange)
        check_offsets(documents, len(ids), "offsets of documents", error=InvalidSamples)
        head = check_size(self.head, len(ids), "the head of a chunk", error=InvalidSamples)
        settle(self, ids=ids, documents=documents, head=head, n_tokens=size)

    def cut(self, size: int, window: int) -> Iterator["Chunk"]:
        """Yield chunks of ``size`` labels, each with the preceding text that its contexts need."""
        for start in range(self.head, len(self.ids), size):
            stop = min(start + size, len(self.ids))
            # the new chunk has the ids `first` to `stop`; those before `start` are only context
            inner_borders = self.documents[(self.documents > start) & (self.documents < stop)]
            document_start = int(self.documents[np.searchsorted(self.documents, start, side="right") - 1])
            first = max(document_start, start - window)
            borders = np.concatenate([[first], inner_borders, [stop]])
            arrays = {"ids": self.ids[first:stop], "documents": borders - first, "head": start - first}
            yield trusted(Chunk, n_tokens=self.n_tokens, **arrays)

    def samples(self, window: int) -> Samples:
        """Make a sample of each label, with its context."""
        # for each position in ids: the first position of its document
        document_start = np.repeat(self.documents[:-1], np.diff(self.documents))
        position = np.arange(len(self.ids), dtype=np.int64)
        # a label is the token after its context, so the position of a label is the stop of its context
        stops = position[(position > document_start) & (position >= self.head)]
        starts = np.maximum(document_start[stops], stops - window)
        borders = {"starts": starts, "stops": stops}
        return trusted(Samples, values=self.ids, labels=self.ids[stops], n_tokens=self.n_tokens, **borders)


def regroup(chunks: Iterable[Chunk], size: int, window: int) -> Iterator[Chunk]:
    """Yield the documents in chunks of about ``size`` tokens; contexts stay complete across cuts."""
    pending: list[Chunk] = []
    for chunk in chunks:
        pending.append(chunk)
        if sum(len(earlier.ids) for earlier in pending) >= size:
            yield from _cut_evenly(pending, size, window)
            pending = []
    if pending:
        yield from _cut_evenly(pending, size, window)


# Joins chunks without heads, and cuts the result into chunks of equal size, of about `size` tokens.
def _cut_evenly(chunks: list[Chunk], size: int, window: int) -> Iterator[Chunk]:
    # where each chunk begins in the joined ids
    shifts = np.cumsum([0, *(len(chunk.ids) for chunk in chunks)])
    borders = [chunk.documents[1:] + shift for chunk, shift in zip(chunks, shifts[:-1], strict=True)]
    ids = np.concatenate([chunk.ids for chunk in chunks])
    documents = np.concatenate([[0], *borders])
    whole = trusted(Chunk, ids=ids, documents=documents, head=0, n_tokens=chunks[0].n_tokens)
    n_cuts = max(1, round(len(ids) / size))
    return whole.cut(max(1, -(-len(ids) // n_cuts)), window)  # rounded up
