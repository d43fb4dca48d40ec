"""One pass of a model over documents, which records attention rows at sampled positions: ``record``.

The pass also records rows of random heads, and the mean of what attention reads at each token. Positions are
sampled first, so the size of :class:`~.rows.Rows` is known; batches of documents then fill it.
"""

# A *row* of attention is what a head attends to from one sampled position, the *query*. There is one `Rows`
# for each *set* of heads: set 0 are the heads of the model, set i those of random model i − 1.

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attomaton.base.errors import InvalidSamples, UnreadableModel, UnsupportedOption
from attomaton.base.options import make_rng, whole_number
from attomaton.base.progress import Advance, silent
from attomaton.base.tables import Int32, Int64
from attomaton.heads.audit.documents import cut_documents, list_documents
from attomaton.heads.audit.jackknife import FEWEST_DOCUMENTS
from attomaton.heads.audit.rows import BY_HEAD, EARLIER, LEAST_ATTENTION, MEASURES, Rows, measure_patterns
from attomaton.heads.model import Head, HeadModel, LayeredModel
from attomaton.heads.patterns import PatternModel

_torch: Any = torch  # its type stubs leave some functions partly unknown

BATCH_TOKENS = 2048  # tokens of documents that are run together, at most, unless one document has more


@dataclass(frozen=True, eq=False)
class MeanReads:
    """What the attention of each of ``layers`` reads at a token, on average over documents.

    The first position of each document is averaged alone, since many models treat it unlike all others.
    """

    layers: tuple[int, ...]
    tokens: Int64  # (n_seen,): the tokens that occur, ascending
    counts: Int64  # (n_seen,): how often, without first positions
    means: NDArray[np.float32]  # (n_layers, n_seen, dim): the mean normed input of attention at each token
    first: NDArray[np.float32]  # (n_layers, dim): the same at first positions


@dataclass(frozen=True, eq=False)
class Recorded:
    """What one pass over documents records: the rows of the model, those of random heads, mean inputs."""

    rows: Rows
    random: tuple[Rows, ...] = ()
    reads: MeanReads | None = None


def record(
    model: HeadModel,
    documents: Sequence[Any],
    *,
    window: int = 32,
    per_document: int = 20,
    longest: int = 256,
    random: Sequence[LayeredModel] = (),
    reads_of: Sequence[int] = (),
    layers: Sequence[int] | None = None,
    most_bytes: int = 1 << 30,
    seed: int = 0,
    progress: Advance = silent,
) -> Recorded:
    """Record the attention at sampled positions of documents, and what attention reads, in one pass.

    - ``window``: recorded keys before a query; documents with fewer than ``window + 2`` tokens are left out.
    - ``per_document``, ``longest``: most positions that are sampled in a document, and its longest context.
    - ``random``: models with random heads, as ``rotate_beside`` makes them.
    - ``reads_of``: numbers of the documents over which what attention reads is averaged.
    - ``layers``: the recorded layers, ascending; None means all. The sampled positions do not depend on them.
    - ``most_bytes``: size of the rows of all heads in all layers, above which fewer positions are sampled.
    """
    window = whole_number(window, "window", least=2)
    per_document = whole_number(per_document, "per_document", least=1)
    longest = _longest_context(model, whole_number(longest, "longest", least=window + 1), window)
    cut = cut_documents(list_documents(documents), longest + 1, n_tokens=model.shape.n_tokens)
    # For each head about ``window + 2`` float32 numbers: attention on the window, and some of its measures.
    row_bytes = 4 * len(model.shape.heads) * (window + 2) * (1 + len(random))
    most_rows = max(most_bytes // row_bytes, 2 * FEWEST_DOCUMENTS)
    sampled = _sample_positions(cut, window, per_document, most_rows, make_rng(seed))
    layers = tuple(range(model.shape.n_layers) if layers is None else layers)
    rows = _allocate_rows(model, sampled, window, layers)
    # The rows of random heads share all arrays with those of the model, except the arrays by head.
    by_head = [{name: np.empty_like(getattr(rows, name)) for name in BY_HEAD} for _ in random]
    rows_of_random = tuple(replace(rows, **arrays) for arrays in by_head)
    averaged = set(reads_of)
    reads = _ReadSums(layers, [document for document in sampled if document.number in averaged])
    recorder = _Recorder(model, random, layers, (rows, *rows_of_random), reads)
    done = 0
    for batch in _batch_documents(model, sampled, len(cut)):
        recorder.run(batch)
        done += len(batch)
        progress(done, len(sampled))
    return Recorded(rows, rows_of_random, reads.means())


def _longest_context(model: HeadModel, longest: int, window: int) -> int:
    # ``longest``, or what the model reads if that is less; a window must fit in.
    most = model.shape.longest
    if most is not None and most <= window:
        raise UnsupportedOption(
            f"{model.name} reads contexts of at most {most:,} tokens, but a window of {window} needs "
            f"{window + 1}; choose a window of at most {most - 1}"
        )
    return longest if most is None else min(longest, most)


@dataclass(frozen=True, eq=False)
class _Sampled:
    """A document with the sampled ``positions``, ascending, and ``rows``, their indices in :class:`Rows`."""

    number: int  # among all documents
    ids: Int32  # the context, and the label of its last position
    positions: Int64
    rows: Int64

    @property
    def context(self) -> Int32:
        return self.ids[:-1]


# Draw positions in each document that is long enough, with a window before and a label after each.
def _sample_positions(
    documents: Sequence[Int32], window: int, per_document: int, most_rows: int, rng: np.random.Generator
) -> list[_Sampled]:
    numbers = [number for number, ids in enumerate(documents) if len(ids) >= window + 2]
    if not numbers:
        raise InvalidSamples(
            f"no document has {window + 2} tokens, which a window of {window} needs; choose a smaller window"
        )
    if len(numbers) > most_rows:
        numbers = np.sort(rng.choice(numbers, most_rows, replace=False)).tolist()
    per_document = min(per_document, most_rows // len(numbers))
    sampled = list[_Sampled]()
    n_rows = 0
    for number in numbers:
        possible = np.arange(window, len(documents[number]) - 1)
        positions = np.sort(rng.choice(possible, min(per_document, len(possible)), replace=False))
        rows = np.arange(n_rows, n_rows + len(positions))
        sampled.append(_Sampled(number, documents[number], positions, rows))
        n_rows += len(positions)
    return sampled


# Rows with tokens and positions, document after document; the arrays by head are not yet filled.
def _allocate_rows(
    model: HeadModel, documents: Sequence[_Sampled], window: int, layers: Sequence[int]
) -> Rows:
    past = list[Int32]()
    for document in documents:
        positions = document.positions[:, None] - np.arange(window + EARLIER)  # newest first
        past.append(np.where(positions < 0, -1, document.ids[np.maximum(positions, 0)]))
    counts = [len(document.rows) for document in documents]
    heads = tuple(head for head in model.shape.heads if head.layer in layers)
    size = (sum(counts), len(heads))
    return Rows(
        heads=heads,
        attention=np.empty((*size, window), np.float32),
        **{name: np.empty(size, np.float32) for name in MEASURES},
        past=np.concatenate(past),
        starts=np.repeat(np.array([document.ids[0] for document in documents]), counts),
        labels=np.concatenate([document.ids[document.positions + 1] for document in documents]),
        documents=np.repeat(np.array([document.number for document in documents], np.int32), counts),
        positions=np.concatenate([document.positions for document in documents]).astype(np.int32),
        n_tokens=model.shape.n_tokens,
    )


# Documents of similar lengths that are run together, the longest first.
def _batch_documents(
    model: HeadModel, documents: Sequence[_Sampled], n_documents: int
) -> Iterator[list[_Sampled]]:
    # Patterns from an iterator are read in the order of all documents, one document at a time.
    if isinstance(model, PatternModel) and model.stream is not None:
        by_number = {document.number: document for document in documents}
        for number in range(n_documents):
            if number in by_number:
                yield [by_number[number]]
            else:
                model.skip()
        return
    is_layered = isinstance(model, LayeredModel)  # it keeps no patterns or logits
    batch = list[_Sampled]()
    for document in sorted(documents, key=lambda document: -len(document.context)):
        length = len((batch[0] if batch else document).context)
        if batch and len(batch) >= (BATCH_TOKENS // length if is_layered else model.shape.batch_of(length)):
            yield batch
            batch = []
        batch.append(document)
    yield batch


class _BatchQueries(NamedTuple):
    """The sampled positions of a batch of n documents, as many columns as the document with most has."""

    positions: Tensor  # (n, n_queries): with fewer in a document, its last one is repeated
    is_sampled: Tensor  # (n, n_queries): False where repeated
    indices: Int64  # (is_sampled.sum(),): the index in `Rows` of each sampled position


@dataclass(frozen=True, eq=False)
class _Recorder:
    """Runs batches and writes what they show to the rows of every set of heads."""

    model: HeadModel
    random: Sequence[LayeredModel]
    layers: tuple[int, ...]
    rows_of_set: tuple[Rows, ...]
    reads: "_ReadSums"

    def run(self, batch: Sequence[_Sampled]) -> None:
        """Run the model over a batch of contexts, padded at the end, and write their rows."""
        longest = max(len(document.context) for document in batch)
        n_queries = max(len(document.positions) for document in batch)
        contexts = np.zeros((len(batch), longest), np.int32)
        positions = np.empty((len(batch), n_queries), np.int64)
        is_sampled = np.zeros((len(batch), n_queries), bool)
        for index, document in enumerate(batch):
            n = len(document.positions)
            contexts[index, : len(document.context)] = document.context
            positions[index] = np.pad(document.positions, (0, n_queries - n), mode="edge")
            is_sampled[index, :n] = True
        queries = torch.as_tensor(positions)
        indices = np.concatenate([document.rows for document in batch])
        # the model calls this as `WriteRows`: with a layer, the number of a set of heads, and their patterns
        write = partial(self._write, _BatchQueries(queries, torch.as_tensor(is_sampled), indices))
        if isinstance(self.model, LayeredModel):
            add = partial(self.reads.add, [document.number for document in batch])
            self.model.record(contexts, queries, write, random=self.random, reads=add, layers=self.layers)
            return
        patterns = self.model.watch(contexts).patterns  # of such a model there are no random heads
        for layer in self.layers:
            write(layer, 0, _torch.take_along_dim(patterns[layer].detach(), queries[:, None, :, None], 2))

    # Write to the rows of a set where its heads in a layer attend: (n, n_heads, n_queries, length).
    def _write(self, queries: _BatchQueries, layer: int, head_set: int, patterns: Tensor) -> None:
        rows = self.rows_of_set[head_set]
        measured: dict[str, NDArray[np.float32]] = {
            name: values.movedim(1, 2)[queries.is_sampled].float().cpu().numpy()  # (n_indices, n_heads, …)
            for name, values in measure_patterns(patterns, queries.positions, rows.window).items()
        }
        attention = measured["attention"]
        inside = measured["inside"] = attention.sum(2)
        if not np.isfinite(inside).all():
            wrong = Head(layer, int(np.flatnonzero(~np.isfinite(inside).all(0))[0]))
            raise UnreadableModel(
                f"the attention of head {wrong} of {self.model.name} is NaN, because its scores "
                "overflow; open the model with dtype='float64', or check its weights"
            )
        attention /= np.maximum(inside, LEAST_ATTENTION)[..., None]
        attention[inside <= LEAST_ATTENTION] = 1.0 / rows.window  # no information about these positions
        # the heads of `Rows` are those of `self.layers`, layer by layer, and all layers have as many heads
        n_heads = self.model.shape.n_heads
        if patterns.shape[1] != n_heads:  # of a class of the user, which `open_model` does not check
            found = f"layer {layer} of {self.model.name} has patterns of {patterns.shape[1]} heads"
            raise UnreadableModel(f"{found}, but the shape of the model says {n_heads}; correct one of them")
        first_head = self.layers.index(layer) * n_heads
        for name, values in measured.items():
            getattr(rows, name)[queries.indices, first_head : first_head + n_heads] = values


class _ReadSums:
    """Sums of what attention reads, by layer, over the positions of each token in some documents."""

    def __init__(self, layers: tuple[int, ...], documents: Sequence[_Sampled]) -> None:
        self.layers = layers
        self.documents = {document.number: document.context for document in documents}
        inner = [context[1:] for context in self.documents.values()]
        every_token = np.concatenate([np.empty(0, np.int32), *inner])
        self.tokens, self.counts = np.unique(every_token, return_counts=True)
        self.sums = dict[int, Tensor]()  # by layer, shape (n_seen, dim)
        self.firsts = dict[int, Tensor]()  # by layer, shape (dim,): sums at first positions

    def add(self, numbers: Sequence[int], layer: int, reads: Tensor) -> None:
        """Add what attention reads in a layer, shape (n, length, dim), in a batch of documents."""
        for number, read in zip(numbers, reads, strict=True):
            if number not in self.documents:
                continue
            if layer not in self.sums:
                self.sums[layer] = torch.zeros(len(self.tokens), read.shape[1])
                self.firsts[layer] = torch.zeros(read.shape[1])
            inputs = read.cpu().float()
            self.firsts[layer] += inputs[0]
            context = self.documents[number]
            indices = torch.as_tensor(np.searchsorted(self.tokens, context[1:]))
            self.sums[layer].index_add_(0, indices, inputs[1 : len(context)])

    def means(self) -> MeanReads | None:
        """None if no document is averaged, or the model shows its patterns only."""
        if not self.sums:
            return None
        counts = self.counts.astype(np.int64)
        means = torch.stack([self.sums[layer] for layer in self.layers]).numpy()
        means /= counts[:, None]
        first = torch.stack([self.firsts[layer] for layer in self.layers]) / len(self.documents)
        return MeanReads(self.layers, self.tokens.astype(np.int64), counts, means, first.numpy())
