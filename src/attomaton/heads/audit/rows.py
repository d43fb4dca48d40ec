"""Attention rows of a model on text: what each head attends to from sampled positions of documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from attomaton.base.errors import InvalidSamples, TokenOutOfRange, UnreadableModel, UnsupportedOption
from attomaton.base.options import LARGEST, make_rng, whole_number
from attomaton.base.progress import Advance, silent
from attomaton.base.tables import Bool, Float64, Int32, Int64
from attomaton.heads.audit.jackknife import FEWEST
from attomaton.heads.model import Head, HeadModel
from attomaton.heads.patterns import PatternModel

Float32 = NDArray[np.float32]

ARRAYS = ("attention", "inside", "first", "tokens", "before", "labels", "documents", "positions")
"""Fields that have one entry per row."""

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
    tokens, before : int32 array, shape (n_rows, window)
        The token at each position, and the token before it.
    labels, documents, positions : int32 array, shape (n_rows,)
        The next token, the number of the document, and the position of the query in its context.
    n_tokens : int
        Size of the vocabulary.

    Examples
    --------
    >>> rows = example_rows()
    >>> len(rows), rows.window, rows.queries.tolist(), rows.take(np.array([True])).labels.tolist()
    (1, 3, [0], [1])
    >>> rows.of_head(0).round(3).tolist()
    [[0.333, 0.333, 0.333]]
    """

    heads: tuple[Head, ...]
    attention: Float32
    inside: Float32
    first: Float32
    tokens: Int32
    before: Int32
    labels: Int32
    documents: Int32
    positions: Int32
    n_tokens: int

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def window(self) -> int:
        """The number of positions per row."""
        return self.tokens.shape[1]

    @property
    def queries(self) -> Int32:
        """The last token of each context, shape (n_rows,)."""
        return self.tokens[:, 0]

    @property
    def profile(self) -> Float64:
        """The mean attention on each position, shape (n_heads, window)."""
        return self.attention.mean(0, dtype=np.float64)

    def of_head(self, place: int) -> Float64:
        """The attention of one head in float64, shape (n_rows, window); every row sums to 1 up to rounding.

        The stored float32 values do so to seven digits only, and nearly uniform heads differ by less.
        """
        own = self.attention[:, place].astype(np.float64)
        return own / own.sum(1, keepdims=True)

    def take(self, kept: Bool | Int64) -> "Rows":
        """Some of the rows."""
        return replace(self, **{name: getattr(self, name)[kept] for name in ARRAYS})


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
    """Run a model over documents and keep the attention of sampled positions.

    Parameters
    ----------
    model : HeadModel
        The model whose heads are recorded.
    documents : sequence of integer sequences
        Token ids. Only the first tokens of each document are read, as many as the model takes; documents
        with fewer than ``window + 2`` tokens are left out.
    window : int
        Positions kept in each row.
    per_document : int
        Positions sampled from each document, at most.
    longest : int
        The longest context; the model's own limit if that is smaller.
    most_bytes : int
        Memory limit of the rows. Fewer positions are sampled where ``per_document`` would need more.
    seed : int
        Seed for sampling positions.
    progress : callable, optional
        Called with the number of documents done and the total.

    Returns
    -------
    Rows
        Sorted by document and position.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> watch_rows(model, documents[:1], window=8, per_document=5).attention.shape
    (5, 2, 8)
    """
    window = whole_number(window, "window", least=2)
    per_document = whole_number(per_document, "per_document", least=1)
    longest = _longest(model, whole_number(longest, "longest", least=window + 1), window)
    read = cut_documents(list_documents(documents), longest + 1, n_tokens=model.shape.n_tokens)
    numbers = [number for number, ids in enumerate(read) if len(ids) >= window + 2]
    if not numbers:
        raise InvalidSamples(
            f"no document has {window + 2} tokens, which rows of {window} positions need; "
            "give longer documents or a smaller window"
        )
    row_bytes = 4 * len(model.shape.heads) * (window + 2)
    each = max(min(per_document, most_bytes // (row_bytes * len(numbers))), 1)
    rng = make_rng(seed)
    places = dict[int, Int64]()
    for number in numbers:  # each has a token before the window's first position, and a label after it
        free = np.arange(window, len(read[number]) - 1)
        places[number] = np.sort(rng.choice(free, min(each, len(free)), replace=False))
    parts, done = list[Rows](), 0
    for batch in _batches(model, {number: len(read[number]) - 1 for number in numbers}, len(read)):
        parts.append(_watch_batch(model, {number: read[number] for number in batch}, places, window))
        done += len(batch)
        progress(done, len(numbers))
    return _join(parts)


def example_rows() -> Rows:
    """One row of one head, for examples: the context 0 1 0 after another 1, and the label 1."""
    one = np.ones((1, 1), np.float32)
    return Rows(
        heads=(Head(0, 0),),
        attention=np.full((1, 1, 3), 1 / 3, np.float32),
        inside=one,
        first=one * 0,
        tokens=np.array([[0, 1, 0]], np.int32),
        before=np.array([[1, 0, 1]], np.int32),
        labels=np.array([1], np.int32),
        documents=np.array([0], np.int32),
        positions=np.array([3], np.int32),
        n_tokens=2,
    )


def list_documents(documents: Any) -> list[Any]:
    """Documents in order, from any container: lists, arrays, tensors, Arrow columns, pandas series.

    A series gives its values: its index may be in another order.
    """
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


def _longest(model: HeadModel, longest: int, window: int) -> int:
    most = model.shape.longest
    if most is not None and most <= window:
        raise UnsupportedOption(
            f"{model.name} takes contexts of {most:,} tokens, but rows of {window} positions need "
            f"{window + 1}; choose a window of at most {most - 1}"
        )
    return longest if most is None else min(longest, most)


def check_parts(
    documents: Sequence[Any], parts: tuple[Sequence[int], Sequence[int]], *, window: int, length: int
) -> None:
    """Raise, before any work is done, if a part of the documents is too short or too small for an audit.

    ``parts`` are the documents to fit on and those to score; ``length`` is that of contexts for causal value.
    """
    fitted, scored = ([len(documents[one]) for one in part] for part in parts)
    if max(fitted) < window + 2:
        raise InvalidSamples(
            f"none of the {len(fitted)} documents to fit on has {window + 2} tokens, which rows of {window} "
            "positions need; give longer documents or a smaller window"
        )
    for least, what in ((window + 2, f"a window of {window}"), (length + 1, f"a length of {length}")):
        long = sum(one >= least for one in scored)
        if least > 1 and long < FEWEST:
            raise InvalidSamples(
                f"{len(scored)} of {len(documents)} documents are drawn to be scored, and {long} of them "
                f"have the {least} tokens that {what} needs; {FEWEST} are required: give more documents, cut "
                "long ones, or choose a smaller window or length (length 0 leaves causal value out)"
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
    batch = list[int]()
    for number in sorted(lengths, key=lambda one: -lengths[one]):
        if batch and len(batch) >= model.shape.batch_of(lengths[batch[0]]):
            yield batch
            batch = []
        batch.append(number)
    yield batch


def _watch_batch(
    model: HeadModel, documents: dict[int, Int32], places: dict[int, Int64], window: int
) -> Rows:
    """The rows of some documents."""
    filled = np.zeros((len(documents), max(map(len, documents.values())) - 1), np.int32)
    for row, ids in zip(filled, documents.values(), strict=True):  # causal models do not look ahead
        row[: len(ids) - 1] = ids[:-1]
    patterns = model.watch(filled).patterns
    parts: dict[str, list[Any]] = {name: [] for name in ARRAYS if name != "inside"}
    for row, (number, ids) in enumerate(documents.items()):
        at = places[number]
        behind = at[:, None] - np.arange(window)
        by_layer = [layer[row].detach()[:, at].float().cpu().numpy() for layer in patterns]
        attention = np.concatenate(by_layer).transpose(1, 0, 2)  # (n_at, n_heads, length)
        parts["attention"].append(np.take_along_axis(attention, behind[:, None], 2))
        parts["first"].append(attention[:, :, 0])
        parts["tokens"].append(ids[behind])
        parts["before"].append(ids[behind - 1])
        parts["labels"].append(ids[at + 1])
        parts["documents"].append(np.full(len(at), number, np.int32))
        parts["positions"].append(at.astype(np.int32))
    joined = {name: np.concatenate(values) for name, values in parts.items()}
    inside = joined["attention"].sum(2)
    if not np.isfinite(inside).all():
        wrong = model.shape.heads[int(np.argwhere(~np.isfinite(inside))[0, 1])]
        raise UnreadableModel(
            f"the attention of head {wrong} of {model.name} is NaN: its scores overflow "
            "its type; open the model with dtype='float64', or check its weights"
        )
    joined["attention"] /= np.maximum(inside, NOTHING)[..., None]
    joined["attention"][inside <= NOTHING] = 1.0 / window  # no information about these positions
    return Rows(heads=tuple(model.shape.heads), inside=inside, n_tokens=model.shape.n_tokens, **joined)


def _join(parts: list[Rows]) -> Rows:
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    order = np.lexsort((joined["positions"], joined["documents"]))
    return replace(parts[0], **{name: values[order] for name, values in joined.items()})


def split_documents(n: int, *, share: float = 0.6, seed: int = 0) -> tuple[list[int], list[int]]:
    """A random split of the numbers below n: documents to fit on, and documents to score."""
    n = whole_number(n, "n", least=2, most=LARGEST)
    order = make_rng(seed).permutation(n)
    cut = min(max(round(share * n), 1), n - 1)
    return sorted(order[:cut].tolist()), sorted(order[cut:].tolist())
