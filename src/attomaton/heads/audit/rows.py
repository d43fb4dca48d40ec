"""Attention rows of a model on text: what each head attends to from sampled positions of documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attomaton.base.errors import InvalidSamples, TokenOutOfRange, UnreadableModel, UnsupportedOption
from attomaton.base.options import LARGEST_WHOLE, make_rng, whole_number
from attomaton.base.progress import Advance, silent
from attomaton.base.tables import Bool, Float64, Int32, Int64
from attomaton.corpora.documents import Documents
from attomaton.heads.audit.jackknife import FEWEST_DOCUMENTS
from attomaton.heads.model import Head, HeadModel, LayeredModel
from attomaton.heads.patterns import PatternModel

_torch: Any = torch  # its type stubs leave some functions partly unknown

Float32 = NDArray[np.float32]

MEASURES = ("inside", "first", "withheld", "entropy")
"""Fields with a number for each row and head, whose mean is a column of the audit."""

OF_HEADS = ("attention", *MEASURES)
"""Fields whose second axis is that of the heads."""

ARRAYS = (*OF_HEADS, "past", "starts", "labels", "documents", "positions")
"""Fields that have one entry per row."""

EARLIER = 3
"""Tokens that rows hold beyond their window: induction by three tokens looks at them."""

BATCH_TOKENS = 2048
"""Tokens of documents that are run together, at most, unless one document has more."""

NOTHING = 1e-12
"""The smallest share whose logarithm is taken."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Attention rows: one per sampled position, over the last ``window`` positions that it may attend to.

    Entry 0 is the query itself, entry 1 the token before it, and so on.

    Attributes
    ----------
    heads : tuple of Head
        The heads, in the order of the second axis of ``attention``.
    attention : float32 array, shape (n_rows, n_heads, window)
        The attention on each position, divided by its sum inside the window.
    inside, first : float32 array, shape (n_rows, n_heads)
        The attention inside the window, and on the first token of the context, which is always outside.
    withheld, entropy : float32 array, shape (n_rows, n_heads)
        The attention that no position gets because learned sinks take it, in models such as gpt_oss; and the
        entropy in nats of the attention over all positions.
    past : int32 array, shape (n_rows, window + 3)
        The tokens up to the query, the query first; −1 before the document begins.
    starts, labels : int32 array, shape (n_rows,)
        The first token of the context, and the next token.
    documents, positions : int32 array, shape (n_rows,)
        The number of the document, and the position of the query in its context.
    n_tokens : int
        Size of the vocabulary.
    """

    heads: tuple[Head, ...]
    attention: Float32
    inside: Float32
    first: Float32
    withheld: Float32
    entropy: Float32
    past: Int32
    starts: Int32
    labels: Int32
    documents: Int32
    positions: Int32
    n_tokens: int

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def window(self) -> int:
        """The number of positions per row."""
        return self.past.shape[1] - EARLIER

    @property
    def tokens(self) -> Int32:
        """The token at each position, shape (n_rows, window)."""
        return self.past[:, : self.window]

    @property
    def queries(self) -> Int32:
        """The last token of each context, shape (n_rows,)."""
        return self.past[:, 0]

    @property
    def profile(self) -> Float64:
        """The mean attention on each position, shape (n_heads, window)."""
        return self.attention.mean(0, dtype=np.float64)

    def of_head(self, index: int) -> Float64:
        """The attention of one head on the window and, last, on the first token, shape (n_rows, window + 1).

        In float64, and every row sums to 1 up to rounding: the stored float32 values do so to seven digits
        only, and nearly uniform heads differ by less. A row without attention on any of these positions is 0.
        """
        inside = self.attention[:, index].astype(np.float64) * self.inside[:, index, None]
        attention = np.concatenate([inside, self.first[:, index, None]], 1)
        attends = self.attends[:, index, None]
        return np.divide(
            attention, attention.sum(1, keepdims=True), out=np.zeros_like(attention), where=attends
        )

    @property
    def attends(self) -> Bool:
        """Which rows have attention on the window or the first token, shape (n_rows, n_heads)."""
        return self.inside + self.first > NOTHING

    def take(self, chosen: Bool | Int64) -> "Rows":
        """Some of the rows."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in ARRAYS})

    def of_layer(self, layer: int) -> "Rows":
        """The rows of the heads of one layer; nothing is copied."""
        indices = [index for index, head in enumerate(self.heads) if head.layer == layer]
        span = slice(indices[0], indices[-1] + 1)
        arrays = {name: getattr(self, name)[:, span] for name in OF_HEADS}
        return replace(self, heads=self.heads[span], **arrays)

    def of_heads(self, heads: Sequence[Head]) -> "Rows":
        """The rows of some heads."""
        columns = [self.heads.index(head) for head in heads]
        return replace(
            self, heads=tuple(heads), **{name: getattr(self, name)[:, columns] for name in OF_HEADS}
        )


@dataclass(frozen=True, eq=False)
class MeanReads:
    """What the attention of each layer reads at a token, on average over documents.

    The first position of each document is averaged separately: many models treat it unlike all others.

    Attributes
    ----------
    tokens : int64 array, shape (n_seen,)
        The tokens that occur in the documents, ascending.
    counts : int64 array, shape (n_seen,)
        How often each token occurs.
    layers : tuple of int
        The layers.
    means : float32 array, shape (n_layers, n_seen, dim)
        The mean normed input of attention at the positions of each token, except the first position.
    first : float32 array, shape (n_layers, dim)
        The mean at the first position.
    """

    layers: tuple[int, ...]
    tokens: Int64
    counts: Int64
    means: Float32
    first: Float32


@dataclass(frozen=True, eq=False)
class Recorded:
    """What one pass over documents records: the model's own rows, those of other heads, mean inputs."""

    rows: Rows
    random: tuple[Rows, ...] = ()
    reads: MeanReads | None = None


def watch_rows(
    model: HeadModel,
    documents: Sequence[Any],
    *,
    window: int = 32,
    per_document: int = 20,
    longest: int = 256,
    most_bytes: int = 1 << 30,
    seed: int = 0,
    progress: Advance = silent,
) -> Rows:
    """Run a model over documents and keep the attention of sampled positions, by document and position.

    Documents with fewer than ``window + 2`` tokens are left out. Fewer positions are sampled, or fewer
    documents run, where rows would need more than ``most_bytes``.
    """
    sizes: Any = {"window": window, "per_document": per_document, "longest": longest}
    return record(model, documents, **sizes, most_bytes=most_bytes, seed=seed, progress=progress).rows


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
    """The rows of a model from one pass over documents, as :func:`watch_rows`, and more from the same pass.

    ``random`` are models with random heads that read the residual stream of this model and write nothing:
    what ``rotate_beside`` defines, at sampled positions only. ``reads_of`` are the documents over which what
    attention reads is averaged; none means that it is not recorded. ``layers`` are those that are recorded,
    ascending; None means all. ``most_bytes`` bounds the rows that all heads would have together, so that
    the rows of a layer do not depend on which other layers are recorded.
    """
    window = whole_number(window, "window", least=2)
    per_document = whole_number(per_document, "per_document", least=1)
    longest = _longest_context(model, whole_number(longest, "longest", least=window + 1), window)
    read = cut_documents(list_documents(documents), longest + 1, n_tokens=model.shape.n_tokens)
    numbers = [number for number, ids in enumerate(read) if len(ids) >= window + 2]
    if not numbers:
        raise InvalidSamples(
            f"no document has {window + 2} tokens, which rows of {window} positions need; "
            "give longer documents or a smaller window"
        )
    most_rows = max(
        most_bytes // (4 * len(model.shape.heads) * (window + 2) * (1 + len(random))), 2 * FEWEST_DOCUMENTS
    )
    rng = make_rng(seed)
    if len(numbers) > most_rows:
        numbers = np.sort(rng.choice(numbers, most_rows, replace=False)).tolist()
    each = min(per_document, most_rows // len(numbers))
    positions = dict[int, Int64]()
    for number in numbers:  # each has a token before the window's first position, and a label after it
        free = np.arange(window, len(read[number]) - 1)
        positions[number] = np.sort(rng.choice(free, min(each, len(free)), replace=False))
    tape = _Tape(
        model, {number: read[number] for number in numbers}, positions, window, random, reads_of, layers
    )
    done = 0
    for batch in _batches(model, {number: len(read[number]) - 1 for number in numbers}, len(read)):
        tape.run(batch)
        done += len(batch)
        progress(done, len(numbers))
    return tape.recorded


@dataclass(frozen=True, eq=False)
class _Batch:
    """The sampled positions of documents that are run together, and their rows.

    ``positions`` (n, n_positions) repeats the last of a document that has fewer; ``is_sampled`` says which
    are not such repetitions, and ``rows`` where the rows of these are, in order.
    """

    positions: Tensor
    is_sampled: Tensor
    rows: Int64

    @classmethod
    def of(cls, positions: Sequence[Int64], rows: Sequence[Any]) -> "_Batch":
        """From the positions of each document, and its rows."""
        most = max(map(len, positions))
        padded = np.array([np.pad(at, (0, most - len(at)), mode="edge") for at in positions])
        is_sampled = np.arange(most) < np.array([[len(at)] for at in positions])
        where = [row for span in rows for row in range(span.start, span.stop)]
        return cls(torch.as_tensor(padded), torch.as_tensor(is_sampled), np.array(where, np.int64))


class _Tape:
    """The arrays of a pass, which batches of documents fill."""

    def __init__(
        self,
        model: HeadModel,
        documents: dict[int, Int32],
        positions: dict[int, Int64],
        window: int,
        random: Sequence[LayeredModel],
        reads_of: Sequence[int],
        layers: Sequence[int] | None,
    ) -> None:
        self.model, self.documents, self.positions, self.random = model, documents, positions, random
        self.layers = tuple(range(model.shape.n_layers) if layers is None else layers)
        at = np.concatenate(list(positions.values()))
        number = np.repeat(np.fromiter(positions, np.int32), [len(sampled) for sampled in positions.values()])
        past_positions = at[:, None] - np.arange(window + EARLIER)
        offset = np.cumsum([0, *(len(ids) for ids in documents.values())])
        start = np.repeat(offset[:-1], [len(sampled) for sampled in positions.values()])
        flat = np.concatenate(list(documents.values()))
        heads = tuple(head for head in model.shape.heads if head.layer in self.layers)
        n_sets = 1 + len(random)
        empty = (np.empty((len(at), len(heads), *size), np.float32) for size in ((window,), (), (), (), ()))
        rows = Rows(
            heads,
            *empty,
            past=np.where(past_positions < 0, -1, flat[start[:, None] + np.maximum(past_positions, 0)]),
            starts=flat[start],
            labels=flat[start + at + 1],
            documents=number,
            positions=at.astype(np.int32),
            n_tokens=model.shape.n_tokens,
        )
        self.sets = [rows] + [
            replace(rows, **{name: np.empty_like(getattr(rows, name)) for name in OF_HEADS})
            for _ in range(n_sets - 1)
        ]
        ends = np.cumsum([len(sampled) for sampled in positions.values()])
        self.rows = dict(zip(positions, map(slice, np.r_[0, ends[:-1]], ends), strict=True))
        self.reads_of = {document: None for document in reads_of if document in documents}
        self.tokens, counts = np.unique(
            np.concatenate(
                [np.empty(0, np.int32), *(documents[document][1:-1] for document in self.reads_of)]
            ),
            return_counts=True,
        )
        self.counts = counts.astype(np.int64)
        self.sums: list[Tensor] = []
        self.firsts: list[Tensor] = []

    @property
    def recorded(self) -> Recorded:
        rows, *random = self.sets
        reads = None
        if self.sums:
            sums = torch.stack(self.sums).numpy()
            sums /= self.counts[:, None]
            first = (torch.stack(self.firsts) / len(self.reads_of)).numpy()
            reads = MeanReads(self.layers, self.tokens.astype(np.int64), self.counts, sums, first)
        return Recorded(rows, tuple(random), reads)

    def run(self, numbers: Sequence[int]) -> None:
        """Run the model over some documents."""
        lengths = [len(self.documents[number]) - 1 for number in numbers]
        filled = np.zeros((len(numbers), max(lengths)), np.int32)
        for padded, document in zip(filled, numbers, strict=True):  # causal models do not look ahead
            padded[: len(self.documents[document]) - 1] = self.documents[document][:-1]
        batch = _Batch.of(
            [self.positions[number] for number in numbers], [self.rows[number] for number in numbers]
        )
        if not isinstance(self.model, LayeredModel):
            patterns = self.model.watch(filled).patterns
            for layer in self.layers:
                rows = _torch.take_along_dim(patterns[layer].detach(), batch.positions[:, None, :, None], 2)
                self._write(self.sets[0], layer, batch, rows)
            return

        def write(layer: int, number: int, rows: Tensor) -> None:
            self._write(self.sets[number], layer, batch, rows)

        def add(layer: int, read: Tensor) -> None:
            self._add(layer, numbers, read)

        self.model.record(filled, batch.positions, write, random=self.random, reads=add, layers=self.layers)

    def _write(self, rows: Rows, layer: int, batch: "_Batch", patterns: Tensor) -> None:
        """Write the rows of a batch in a layer, from attention of shape (n, n_heads, n_positions, length)."""
        window_positions = (batch.positions[:, None, :, None] - torch.arange(rows.window)).to(patterns.device)
        attention: Any = (
            _torch.take_along_dim(patterns, window_positions, 3)
            .movedim(1, 2)[batch.is_sampled]
            .float()
            .cpu()
            .numpy()
        )
        first: Any = patterns[..., 0].movedim(1, 2)[batch.is_sampled].float().cpu().numpy()
        inside = attention.sum(2)  # of (n_rows, n_heads, window)
        if not np.isfinite(inside).all():
            wrong = Head(layer, int(np.flatnonzero(~np.isfinite(inside).all(0))[0]))
            raise UnreadableModel(
                f"the attention of head {wrong} of {self.model.name} is NaN: its scores overflow "
                "its type; open the model with dtype='float64', or check its weights"
            )
        attention /= np.maximum(inside, NOTHING)[..., None]
        attention[inside <= NOTHING] = 1.0 / rows.window  # no information about these positions
        start = self.layers.index(layer) * patterns.shape[1]
        entries = (batch.rows, slice(start, start + patterns.shape[1]))
        rows.attention[entries], rows.inside[entries], rows.first[entries] = attention, inside, first
        mass = patterns.sum(-1, keepdim=True)
        entropy = _torch.special.entr(patterns / mass.clamp_min(NOTHING)).sum(-1)
        for name, values in (("withheld", (1.0 - mass[..., 0]).clamp_min(0.0)), ("entropy", entropy)):
            getattr(rows, name)[entries] = values.movedim(1, 2)[batch.is_sampled].float().cpu().numpy()

    def _add(self, layer: int, numbers: Sequence[int], read: Tensor) -> None:
        """Add what attention reads in a layer to the sums of its tokens."""
        at = self.layers.index(layer)
        for row, number in enumerate(numbers):
            if number not in self.reads_of:
                continue
            if len(self.sums) <= at:
                self.sums.append(torch.zeros(len(self.tokens), read.shape[2]))
                self.firsts.append(torch.zeros(read.shape[2]))
            mean = read[row].cpu().float()
            self.firsts[at] += mean[0]
            ids = self.documents[number][1:-1]
            where = torch.as_tensor(np.searchsorted(self.tokens, ids))
            self.sums[at].index_add_(0, where, mean[1 : len(ids) + 1])


def example_rows() -> Rows:
    """One row of one head, for examples: the context 0 1 0 after another 1, and the label 1."""
    full = np.ones((1, 1), np.float32)
    return Rows(
        heads=(Head(0, 0),),
        attention=np.full((1, 1, 3), 1 / 3, np.float32),
        inside=full,
        first=full * 0,
        withheld=full * 0,
        entropy=full,
        past=np.array([[0, 1, 0, 1, -1, -1]], np.int32),
        starts=np.array([1], np.int32),
        labels=np.array([1], np.int32),
        documents=np.array([0], np.int32),
        positions=np.array([3], np.int32),
        n_tokens=2,
    )


def list_documents(documents: Any, limit: int | None = None) -> list[Any]:
    """Documents in order, at most ``limit``, from any container: lists, arrays, tensors, columns, series.

    A pandas series gives its values: its index may be in another order.
    """
    if limit is not None:
        return list_documents(documents)[: whole_number(limit, "limit", least=1)]
    if isinstance(documents, Documents):
        return [documents.ids[first:last] for first, last in pairwise(documents.offsets.tolist())]
    if isinstance(documents, str | bytes | Mapping) or not isinstance(documents, Iterable):
        raise InvalidSamples(
            f"documents is a {type(cast('Any', documents)).__name__}; give a list of token ids per document"
        )
    source = cast("Any", documents)
    return list(source.to_pylist() if hasattr(source, "to_pylist") else source)


def cut_documents(documents: Iterable[Any], longest: int, *, n_tokens: int) -> list[Int32]:
    """The first tokens of each document, checked against the vocabulary."""
    cut = list[Int32]()
    for number, document in enumerate(documents):
        try:
            whole = np.asarray(document)
        except ValueError:  # lists of unequal lengths
            whole = np.empty((0, 0))
        if whole.ndim != 1 or (len(whole) and not np.issubdtype(whole.dtype, np.integer)):
            raise InvalidSamples(
                f"document {number} is not a row of token ids; tokenise it with the tokenizer of the model"
            )
        ids = whole[:longest]
        wrong = ids[(ids < 0) | (ids >= n_tokens)]
        if len(wrong):
            raise TokenOutOfRange(
                f"document {number} holds the id {wrong[0]}, but the model's ids are 0 … {n_tokens - 1}; "
                "tokenise it with the tokenizer of the model"
            )
        cut.append(ids.astype(np.int32))
    return cut


def _longest_context(model: HeadModel, longest: int, window: int) -> int:
    most = model.shape.longest
    if most is not None and most <= window:
        raise UnsupportedOption(
            f"{model.name} takes contexts of {most:,} tokens, but rows of {window} positions need "
            f"{window + 1}; choose a window of at most {most - 1}"
        )
    return longest if most is None else min(longest, most)


def check_parts(
    documents: Sequence[Any], numbers: tuple[Sequence[int], Sequence[int]], *, window: int, length: int
) -> None:
    """Raise, before any work is done, if a part of the documents is too short or too small for an audit.

    ``numbers`` are the documents to fit on and those to score; ``length`` is that of contexts for causal
    value.
    """
    fitted, scored = ([len(documents[number]) for number in chosen] for chosen in numbers)
    if max(fitted) < window + 2:
        raise InvalidSamples(
            f"none of the {len(fitted)} documents to fit on has {window + 2} tokens, which rows of {window} "
            "positions need; give longer documents or a smaller window"
        )
    for least, size in ((window + 2, f"a window of {window}"), (length + 1, f"a length of {length}")):
        long = sum(n_tokens >= least for n_tokens in scored)
        if least > 1 and long < FEWEST_DOCUMENTS:
            raise InvalidSamples(
                f"{len(scored)} of {len(documents)} documents are drawn to be scored, and {long} of them "
                f"have the {least} tokens that {size} needs; {FEWEST_DOCUMENTS} are required: give "
                "more documents, cut long ones, or choose a smaller window or length"
            )


def check_copies(fitted: Sequence[Int32], scored: Sequence[Int32]) -> None:
    """Raise if over half of the documents to score are also among those to fit on: nothing is held out."""
    contents = {ids.tobytes() for ids in fitted}
    copies = sum(ids.tobytes() in contents for ids in scored)
    if 2 * copies > len(scored):
        raise InvalidSamples(
            f"{copies} of the {len(scored)} documents to score are copies of documents to fit on, so "
            "nothing is held out; give each document once"
        )


def _batches(model: HeadModel, lengths: dict[int, int], n_documents: int) -> Iterator[list[int]]:
    """Documents of similar lengths that are run together; shorter ones are padded at the end.

    Patterns from an iterator are read in the order of the documents, one document at a time.
    """
    if isinstance(model, PatternModel) and model.items is not None:
        for number in range(n_documents):
            if number in lengths:
                yield [number]
            else:
                model.skip()
        return
    fast = isinstance(model, LayeredModel)  # it holds no patterns or logits
    batch = list[int]()
    for number in sorted(lengths, key=lambda number: -lengths[number]):
        length = lengths[batch[0] if batch else number]
        if batch and len(batch) >= (BATCH_TOKENS // length if fast else model.shape.batch_of(length)):
            yield batch
            batch = []
        batch.append(number)
    yield batch


def split_documents(n: int, *, share: float = 0.6, seed: int = 0) -> tuple[list[int], list[int]]:
    """A random split of the numbers below n: documents to fit on, and documents to score."""
    n = whole_number(n, "n", least=2, most=LARGEST_WHOLE)
    order = make_rng(seed).permutation(n)
    cut = min(max(round(share * n), 1), n - 1)
    return sorted(order[:cut].tolist()), sorted(order[cut:].tolist())
