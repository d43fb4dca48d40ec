"""Attention rows of a model on text: what each head looks at from some positions of some documents."""

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

Float32 = NDArray[np.float32]

ARRAYS = ("attention", "inside", "first", "tokens", "before", "labels", "documents", "positions")
"""Fields of rows that have an entry for each."""

NOTHING = 1e-12
"""The least share that a logarithm is taken of."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Attention rows: one for each sampled position, with the last ``window`` places that it may look at.

    Place 0 is the query itself, place 1 the token before it, and so on.

    Attributes
    ----------
    heads : tuple of Head
        Whose rows they are, in the order of the second axis of ``attention``.
    attention : float32 array, shape (n_rows, n_heads, window)
        The attention on each place, divided by its sum inside the window.
    inside, first : float32 array, shape (n_rows, n_heads)
        The attention inside the window, and on the first token of the context, which is never inside.
    tokens, before : int32 array, shape (n_rows, window)
        The token at each place, and the token before it.
    labels, documents, positions : int32 array, shape (n_rows,)
        The token that comes next, the number of the document, and the place of the query in its context.

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
        """How many places each row has."""
        return self.tokens.shape[1]

    @property
    def queries(self) -> Int32:
        """The last token of each context, shape (n_rows,)."""
        return self.tokens[:, 0]

    @property
    def profile(self) -> Float64:
        """The mean attention on each place, shape (n_heads, window)."""
        return self.attention.mean(0, dtype=np.float64)

    def of_head(self, place: int) -> Float64:
        """The attention of one head in float64, shape (n_rows, window); every row sums to 1 up to rounding.

        The stored floats do so to seven digits only, which is more than nearly uniform heads depart by.
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
    """Run a model over documents and keep the attention of some positions of each.

    Parameters
    ----------
    model : HeadModel
        Whose heads are watched.
    documents : sequence of integer sequences
        Token ids. Of each document the first tokens are read, as many as the model takes; those with fewer
        than ``window + 2`` tokens are left out.
    window : int
        How many places of each row are kept.
    per_document : int
        How many positions of each document are drawn, at most.
    longest : int
        The longest context; that of the model, if it takes less.
    most_bytes : int
        What the rows may take. Fewer positions are drawn where ``per_document`` would take more.
    seed : int
        What draws positions.
    progress : callable, optional
        Called with how many documents are done, and how many there are.

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
            f"no document has {window + 2} tokens, which rows of {window} places need; "
            "give longer documents or a smaller window"
        )
    row_bytes = 4 * len(model.shape.heads) * (window + 2)
    each = max(min(per_document, most_bytes // (row_bytes * len(numbers))), 1)
    rng = make_rng(seed)
    places = dict[int, Int64]()
    for number in numbers:  # each has a token before the window's first place, and a label after it
        free = np.arange(window, len(read[number]) - 1)
        places[number] = np.sort(rng.choice(free, min(each, len(free)), replace=False))
    parts, done = list[Rows](), 0
    for batch in _batches(model, {number: len(read[number]) - 1 for number in numbers}):
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
    """Documents by their place, whatever holds them: lists, arrays, tensors, Arrow columns, pandas series.

    A series is asked for its values: its own numbers may be in another order.
    """
    if isinstance(documents, str | bytes | Mapping) or not isinstance(documents, Iterable):
        raise InvalidSamples(
            f"the documents are a {type(cast('Any', documents)).__name__}; give a list with the token ids of "
            "each document"
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
                f"document {number} holds no token ids in a row; tokenise it with the tokenizer of the model"
            )
        ids = whole[:longest]
        wrong = ids[(ids < 0) | (ids >= n_tokens)]
        if len(wrong):
            raise TokenOutOfRange(
                f"document {number} holds the id {wrong[0]}, and ids of the model are 0 … {n_tokens - 1}; "
                "tokenise it with the tokenizer of the model"
            )
        cut.append(ids.astype(np.int32))
    return cut


def _longest(model: HeadModel, longest: int, window: int) -> int:
    most = model.shape.longest
    if most is not None and most <= window:
        raise UnsupportedOption(
            f"{model.name} takes contexts of {most:,} tokens, and rows of {window} places need "
            f"{window + 1}; take a window of {most - 1} or less"
        )
    return longest if most is None else min(longest, most)


def check_parts(
    documents: Sequence[Any], parts: tuple[Sequence[int], Sequence[int]], *, window: int, length: int
) -> None:
    """Raise, before any work is done, if a part of the documents is too short or too small for an audit.

    ``parts`` are the documents to fit on and those to score; ``length`` is that of causal value's contexts.
    """
    fitted, scored = ([len(documents[one]) for one in part] for part in parts)
    if max(fitted) < window + 2:
        raise InvalidSamples(
            f"no document of the {len(fitted)} to fit on has {window + 2} tokens, which rows of {window} "
            "places need; give longer documents or a smaller window"
        )
    for least, what in ((window + 2, f"a window of {window}"), (length + 1, f"a length of {length}")):
        long = sum(one >= least for one in scored)
        if least > 1 and long < FEWEST:
            raise InvalidSamples(
                f"of {len(documents)} documents {len(scored)} are drawn to be scored, and {long} of them "
                f"have the {least} tokens that {what} needs; {FEWEST} are needed, give more documents, cut "
                "long ones, or take a smaller window or length (length 0 leaves causal value out)"
            )


def check_copies(fitted: Sequence[Int32], scored: Sequence[Int32]) -> None:
    """Raise if more than half of the documents to score stand among those to fit on: nothing is held back."""
    contents = {ids.tobytes() for ids in fitted}
    copies = sum(ids.tobytes() in contents for ids in scored)
    if 2 * copies > len(scored):
        raise InvalidSamples(
            f"{copies} of the {len(scored)} documents to score are copies of documents to fit on, so that "
            "nothing is held back; give each document once"
        )


def _batches(model: HeadModel, lengths: dict[int, int]) -> Iterator[list[int]]:
    """Documents that are run together, of like lengths: shorter ones are filled up behind their end."""
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
    for row, ids in zip(filled, documents.values(), strict=True):  # causal models do not look behind an end
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
            f"the attention of head {wrong} of {model.name} is not a number: its scores are too large for "
            "its type; open the model with dtype='float64', or mind its weights"
        )
    joined["attention"] /= np.maximum(inside, NOTHING)[..., None]
    joined["attention"][inside <= NOTHING] = 1.0 / window  # nothing is said about these places
    return Rows(heads=tuple(model.shape.heads), inside=inside, n_tokens=model.shape.n_tokens, **joined)


def _join(parts: list[Rows]) -> Rows:
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    order = np.lexsort((joined["positions"], joined["documents"]))
    return replace(parts[0], **{name: values[order] for name, values in joined.items()})


def split_documents(n: int, *, share: float = 0.6, seed: int = 0) -> tuple[list[int], list[int]]:
    """Two parts of the numbers below n, drawn: documents to fit on, and documents to score."""
    n = whole_number(n, "n", least=2, most=LARGEST)
    order = make_rng(seed).permutation(n)
    cut = min(max(round(share * n), 1), n - 1)
    return sorted(order[:cut].tolist()), sorted(order[cut:].tolist())
