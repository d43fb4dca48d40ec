"""One pass of a model over documents, which records attention rows at sampled positions.

The same pass records the rows of random heads that read the residual stream of the model, and the mean of
what attention reads at each token.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import InvalidSamples, UnreadableModel, UnsupportedOption
from attomaton.base.options import make_rng, whole_number
from attomaton.base.progress import Advance, silent
from attomaton.base.tables import Int32, Int64
from attomaton.heads.audit.documents import cut_documents, list_documents
from attomaton.heads.audit.jackknife import FEWEST_DOCUMENTS
from attomaton.heads.audit.rows import (
    BY_HEAD,
    EARLIER,
    LEAST_ATTENTION,
    MEASURES,
    Float32,
    Rows,
    measure_patterns,
)
from attomaton.heads.model import Head, HeadModel, LayeredModel
from attomaton.heads.patterns import PatternModel

_torch: Any = torch  # its type stubs leave some functions partly unknown

BATCH_TOKENS = 2048
"""Tokens of documents that are run together, at most, unless one document has more."""


@dataclass(frozen=True, eq=False)
class MeanReads:
    """What the attention of each of ``layers`` reads at a token, on average over documents.

    ``tokens`` (n_seen,) occur in the documents, ``counts`` times each, and ascend; ``means`` (n_layers,
    n_seen, dim) are their mean normed inputs of attention. The first position of each document is left out,
    since many models treat it unlike all others: ``first`` (n_layers, dim) is its mean.
    """

    layers: tuple[int, ...]
    tokens: Int64
    counts: Int64
    means: Float32
    first: Float32


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

    Documents with fewer than ``window + 2`` tokens are left out. Fewer positions are sampled, or fewer
    documents run, where the rows of all heads of all layers would need more than ``most_bytes``: the rows of
    a layer do not depend on which ``layers`` are recorded (ascending; None means all). ``random`` are models
    with random heads that read the residual stream of this model and write nothing, as ``rotate_beside``
    defines them. What attention reads is averaged over the documents ``reads_of``, if there are any.
    """
    window = whole_number(window, "window", least=2)
    per_document = whole_number(per_document, "per_document", least=1)
    longest = _longest_context(model, whole_number(longest, "longest", least=window + 1), window)
    cut = cut_documents(list_documents(documents), longest + 1, n_tokens=model.shape.n_tokens)
    row_bytes = 4 * len(model.shape.heads) * (window + 2) * (1 + len(random))
    most_rows = max(most_bytes // row_bytes, 2 * FEWEST_DOCUMENTS)
    positions = _draw_positions(cut, window, per_document, most_rows, make_rng(seed))
    used = {number: cut[number] for number in positions}
    layers = tuple(range(model.shape.n_layers) if layers is None else layers)
    rows = _allocate_rows(model, used, positions, window, layers)
    sets = [rows, *(_with_new_arrays(rows) for _ in random)]
    reads = _ReadSums(layers, {number: used[number] for number in dict.fromkeys(reads_of) if number in used})
    tape = _Tape(model, random, layers, sets, reads)
    row_indices = _index_rows(positions)
    done = 0
    for numbers in _batch_numbers(model, {number: len(ids) - 1 for number, ids in used.items()}, len(cut)):
        tape.run(_Batch.of(numbers, used, positions, row_indices))
        done += len(numbers)
        progress(done, len(used))
    return Recorded(rows, tuple(sets[1:]), reads.means())


def _longest_context(model: HeadModel, longest: int, window: int) -> int:
    most = model.shape.longest
    if most is not None and most <= window:
        raise UnsupportedOption(
            f"{model.name} reads contexts of at most {most:,} tokens, but a window of {window} needs "
            f"{window + 1}; choose a window of at most {most - 1}"
        )
    return longest if most is None else min(longest, most)


def _draw_positions(
    documents: Sequence[Int32], window: int, per_document: int, most_rows: int, rng: np.random.Generator
) -> dict[int, Int64]:
    """The positions to sample from each document that is long enough, ascending, by its number."""
    numbers = [number for number, ids in enumerate(documents) if len(ids) >= window + 2]
    if not numbers:
        raise InvalidSamples(
            f"no document has {window + 2} tokens, which a window of {window} needs; "
            "give longer documents or a smaller window"
        )
    if len(numbers) > most_rows:
        numbers = np.sort(rng.choice(numbers, most_rows, replace=False)).tolist()
    per_document = min(per_document, most_rows // len(numbers))
    positions = dict[int, Int64]()
    for number in numbers:  # a token before the window's first position, and a label after the query
        possible = np.arange(window, len(documents[number]) - 1)
        n_drawn = min(per_document, len(possible))
        positions[number] = np.sort(rng.choice(possible, n_drawn, replace=False))
    return positions


def _index_rows(positions: Mapping[int, Int64]) -> dict[int, Int64]:
    """The indices of the rows of each document: documents follow one another."""
    ends = np.cumsum([len(drawn) for drawn in positions.values()])
    indices: list[Any] = np.split(np.arange(ends[-1]), ends[:-1])
    return dict(zip(positions, indices, strict=True))


def _allocate_rows(
    model: HeadModel,
    documents: Mapping[int, Int32],
    positions: Mapping[int, Int64],
    window: int,
    layers: Sequence[int],
) -> Rows:
    """The rows of all sampled positions, with empty arrays by head."""
    past, labels = list[Int32](), list[Int32]()
    for number, drawn in positions.items():
        ids, back = documents[number], drawn[:, None] - np.arange(window + EARLIER)
        past.append(np.where(back < 0, -1, ids[np.maximum(back, 0)]))
        labels.append(ids[drawn + 1])
    counts = [len(drawn) for drawn in positions.values()]
    heads = tuple(head for head in model.shape.heads if head.layer in layers)
    size = (sum(counts), len(heads))
    return Rows(
        heads=heads,
        attention=np.empty((*size, window), np.float32),
        **{name: np.empty(size, np.float32) for name in MEASURES},
        past=np.concatenate(past),
        starts=np.repeat(np.array([documents[number][0] for number in positions]), counts),
        labels=np.concatenate(labels),
        documents=np.repeat(np.fromiter(positions, np.int32), counts),
        positions=np.concatenate(list(positions.values())).astype(np.int32),
        n_tokens=model.shape.n_tokens,
    )


def _with_new_arrays(rows: Rows) -> Rows:
    return replace(rows, **{name: np.empty_like(getattr(rows, name)) for name in BY_HEAD})


@dataclass(frozen=True, eq=False)
class _Batch:
    """Documents that are run together, by their ``numbers``.

    ``contexts`` (n, length) are padded at the end. ``queries`` (n, n_queries) are the sampled positions;
    where a document has fewer, its last is repeated. ``is_sampled`` is False for repetitions, and ``rows``
    are the indices of all others in ``Rows``.
    """

    numbers: Sequence[int]
    contexts: Int32
    queries: Tensor
    is_sampled: Tensor
    rows: Int64

    @classmethod
    def of(
        cls,
        numbers: Sequence[int],
        documents: Mapping[int, Int32],
        positions: Mapping[int, Int64],
        row_indices: Mapping[int, Int64],
    ) -> "_Batch":
        contexts = np.zeros((len(numbers), max(len(documents[number]) - 1 for number in numbers)), np.int32)
        for context, number in zip(contexts, numbers, strict=True):  # causal models do not look ahead
            context[: len(documents[number]) - 1] = documents[number][:-1]
        counts = np.array([[len(positions[number])] for number in numbers])
        most = int(counts.max())
        queries = [
            np.pad(positions[number], (0, most - len(positions[number])), mode="edge") for number in numbers
        ]
        return cls(
            numbers,
            contexts,
            torch.as_tensor(np.array(queries)),
            torch.as_tensor(np.arange(most) < counts),
            np.concatenate([row_indices[number] for number in numbers]),
        )


@dataclass(frozen=True, eq=False)
class _Tape:
    """What a pass records, batch by batch; ``sets`` are the rows of the model, then those of ``random``."""

    model: HeadModel
    random: Sequence[LayeredModel]
    layers: tuple[int, ...]
    sets: list[Rows]
    reads: "_ReadSums"

    def run(self, batch: _Batch) -> None:
        write = partial(self._write, batch)
        if isinstance(self.model, LayeredModel):
            add = partial(self.reads.add, batch.numbers)
            self.model.record(
                batch.contexts, batch.queries, write, random=self.random, reads=add, layers=self.layers
            )
            return
        patterns = self.model.watch(batch.contexts).patterns
        for layer in self.layers:
            write(
                layer, 0, _torch.take_along_dim(patterns[layer].detach(), batch.queries[:, None, :, None], 2)
            )

    def _write(self, batch: _Batch, layer: int, number: int, patterns: Tensor) -> None:
        """Write the rows of one set in a layer, from patterns of shape (n, n_heads, n_queries, length)."""
        rows = self.sets[number]
        measured: dict[str, Float32] = {
            name: values.movedim(1, 2)[batch.is_sampled].float().cpu().numpy()
            for name, values in measure_patterns(patterns, batch.queries, rows.window).items()
        }
        attention = measured["attention"]  # (n_rows, n_heads, window)
        inside = measured["inside"] = attention.sum(2)
        if not np.isfinite(inside).all():
            wrong = Head(layer, int(np.flatnonzero(~np.isfinite(inside).all(0))[0]))
            raise UnreadableModel(
                f"the attention of head {wrong} of {self.model.name} is NaN: its scores overflow "
                "its type; open the model with dtype='float64', or check its weights"
            )
        attention /= np.maximum(inside, LEAST_ATTENTION)[..., None]
        attention[inside <= LEAST_ATTENTION] = 1.0 / rows.window  # no information about these positions
        n_heads = patterns.shape[1]
        start = self.layers.index(layer) * n_heads
        for name, values in measured.items():
            getattr(rows, name)[batch.rows, start : start + n_heads] = values


class _ReadSums:
    """Sums of what attention reads, by layer, over the positions of each token in some documents."""

    def __init__(self, layers: tuple[int, ...], documents: Mapping[int, Int32]) -> None:
        self.layers, self.documents = layers, documents
        inner = [ids[1:-1] for ids in documents.values()]  # without the first position, and without the label
        self.tokens, self.counts = np.unique(
            np.concatenate([np.empty(0, np.int32), *inner]), return_counts=True
        )
        self.sums, self.firsts = dict[int, Tensor](), dict[int, Tensor]()

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
            ids = self.documents[number][1:-1]
            indices = torch.as_tensor(np.searchsorted(self.tokens, ids))
            self.sums[layer].index_add_(0, indices, inputs[1 : len(ids) + 1])

    def means(self) -> MeanReads | None:
        """The means over all documents; None if nothing was added."""
        if not self.sums:
            return None
        counts = self.counts.astype(np.int64)
        means = torch.stack([self.sums[layer] for layer in self.layers]).numpy()
        means /= counts[:, None]
        first = torch.stack([self.firsts[layer] for layer in self.layers]) / len(self.documents)
        return MeanReads(self.layers, self.tokens.astype(np.int64), counts, means, first.numpy())


def _batch_numbers(model: HeadModel, lengths: Mapping[int, int], n_documents: int) -> Iterator[list[int]]:
    """The numbers of documents of similar lengths that are run together.

    Patterns from an iterator are read in the order of the documents, one document at a time.
    """
    if isinstance(model, PatternModel) and model.items is not None:
        for number in range(n_documents):
            if number in lengths:
                yield [number]
            else:
                model.skip()
        return
    layered = isinstance(model, LayeredModel)  # it keeps no patterns or logits
    batch = list[int]()
    for number in sorted(lengths, key=lambda number: -lengths[number]):
        length = lengths[batch[0] if batch else number]
        if batch and len(batch) >= (BATCH_TOKENS // length if layered else model.shape.batch_of(length)):
            yield batch
            batch = []
        batch.append(number)
    yield batch
