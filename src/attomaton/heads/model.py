"""Heads and models as the audit sees them: logits and attention, also with patterns or outputs replaced."""

# `HeadModel` is what the audit needs of a model. `RotatableModel` adds random heads, and `LayeredModel` adds
# runs layer by layer. The functions below them check contexts, tokens and heads that users give.

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import InvalidSamples, MismatchedParts, TokenOutOfRange, UnsupportedOption
from attomaton.base.options import show, whole_number
from attomaton.base.progress import silent
from attomaton.base.tables import Float64, Int64, Integers

# (layer, patterns of shape (n, n_heads, length, length)) → the patterns to apply instead.
PatternEdit = Callable[[int, Tensor], Tensor]

# (layer, head outputs of shape (n, n_heads, length, head width)) → the outputs to pass on instead.
OutputEdit = Callable[[int, Tensor], Tensor]


BATCH_BYTES = 1 << 27  # memory for patterns and logits at once, in bytes, unless one context needs more

HEAD_NAME = re.compile(r"[Ll]?([0-9]{1,9})(?:\.|[Hh])([0-9]{1,9})", re.ASCII)


class Head(NamedTuple):
    """An attention head: its layer, and its number in the layer, both from 0.

    Examples
    --------
    >>> str(Head(4, 0))
    '4.0'
    >>> Head.of("L17H5") == Head.of("17.5") == Head(17, 5)
    True
    """

    layer: int
    number: int

    def __str__(self) -> str:
        return f"{self.layer}.{self.number}"

    @classmethod
    def of(cls, text: str) -> "Head":
        """The head with this name, such as ``17.5`` or ``L17H5``."""
        match = HEAD_NAME.fullmatch(text.strip())
        if match is None:
            raise MismatchedParts(f"{show(text)} is not a head; give layer and number, such as 4.0 or L4H0")
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model: ``n_layers``, ``n_heads`` per layer, and the vocabulary size ``n_tokens``.

    ``longest`` is the length of the longest context; None means unlimited.
    """

    n_layers: int
    n_heads: int
    n_tokens: int
    longest: int | None = None

    @property
    def heads(self) -> list[Head]:
        """Every head, layer by layer: the order of all arrays over heads."""
        return [Head(layer, number) for layer in range(self.n_layers) for number in range(self.n_heads)]

    def batch_of(self, length: int) -> int:
        """How many contexts of a length run at once, so that patterns and logits stay within 128 MB."""
        # float32: a square of attention for each head, and logits at each position
        context_bytes = 4 * length * (self.n_layers * self.n_heads * length + self.n_tokens)
        return max(BATCH_BYTES // context_bytes, 1)


@dataclass(frozen=True, eq=False)
class Watched:
    """Logits and attention patterns of a model on n contexts.

    ``logits`` (n, length, n_tokens) are those of the next token at every position. ``patterns`` has a tensor
    (n, n_heads, length, length) for each layer, before any edit: rows are queries, columns keys.
    """

    logits: Tensor
    patterns: tuple[Tensor, ...]


class HeadModel(Protocol):
    """A causal model with its ``shape``, whose heads can be recorded; ``open_model`` returns one.

    ``name`` is a folder, an id on the hub with its revision, or the type of an object in memory.
    """

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> ModelShape: ...

    def watch(
        self,
        tokens: Integers | Tensor,
        *,
        edit_patterns: PatternEdit | None = None,
        edit_outputs: OutputEdit | None = None,
    ) -> Watched:
        """Run the model on contexts of one length, shape (n, length).

        Gradients flow only where an edit returns tensors that require them.
        """
        ...

    def score_tokens(self, head: Head, queries: Integers, keys: Integers, *, lag: int = 0) -> Float64:
        """The head's scores before the softmax, from token embeddings alone, shape (n_keys, n_queries).

        Keys are ``lag`` positions before the query; in a model without positions the lag has no effect.
        """
        ...

    def write_logits(self, head: Head, tokens: Integers) -> Float64:
        """What the head adds to the logits, shape (n, n_tokens), if it attends to only one of n tokens.

        The scale of the last norm is taken as one.
        """
        ...


# Called with the number of a layer, the number of a set of heads, and the rows of attention of this set,
# shape (n, n_heads, n_positions, length). Set 0 are the model's heads, sets 1, 2, … are random heads.
WriteRows = Callable[[int, int, Tensor], object]

# Called with a layer and what its attention reads, shape (n, length, dim).
WriteReads = Callable[[int, Tensor], object]

Edits = dict[str, PatternEdit]  # arguments of ``watch`` that edit patterns or outputs


@runtime_checkable
class RotatableModel(HeadModel, Protocol):
    """A model with random heads: its heads with rotated inputs of queries and keys."""

    def rotate(self, *, seed: int) -> HeadModel:
        """The model with random heads: their patterns are recorded, those of the model are applied."""
        ...


@runtime_checkable
class LayeredModel(RotatableModel, Protocol):
    """A model that is run layer by layer, so that no pattern is in memory as a whole."""

    def reads_from(self, model: HeadModel) -> bool:
        """Whether this model has random heads that read the residual stream of the other model."""
        ...

    def record(
        self,
        tokens: Integers,
        positions: Tensor,
        write: WriteRows,
        *,
        random: Sequence[Any] = (),
        reads: WriteReads = silent,
        layers: Sequence[int] | None = None,
    ) -> None:
        """Run the model on contexts and write the rows of attention at positions (n, n_positions).

        ``random`` are models with random heads that read from this model; their rows come from the same run.
        ``layers`` are those whose rows are wanted, ascending; None means all. The run may end after the last.
        """
        ...

    def run_edits(
        self, tokens: Integers | Tensor, runs: Sequence[tuple[int, Edits]], scored: Tensor
    ) -> Iterator[Tensor]:
        """The logits of each run at the positions ``scored``, shape (n, n_scored, n_tokens).

        A run is the number of its first edited layer, and the edits. Runs ascend by this number.
        """
        ...

    def score_inputs(self, layer: int, inputs: Any, keys: Int64, lags: Int64, texts: Int64) -> Float64:
        """The scores of a layer before the softmax, up to a constant per row, shape (n, n_heads, n_keys).

        ``inputs`` (n_inputs, dim) are what attention reads; the last but one is the mean of all. ``keys`` and
        ``lags`` (n, n_keys) are the inputs of the keys of n queries, and how far before the query they are:
        the query itself is the first, and the last two are at the first position of the context. ``texts``
        (n,) are the numbers of the texts with the queries.
        """
        ...


def check_contexts(tokens: Integers | Tensor, shape: ModelShape) -> Tensor:
    """Contexts of one length as an int64 tensor, shape (n, length), if a model of this shape reads them."""
    try:
        ids: Any = tokens.detach().cpu().numpy() if isinstance(tokens, Tensor) else np.asarray(tokens)
    except ValueError:  # lists of unequal lengths
        ids = np.empty(0)
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer) or not ids.size:
        raise InvalidSamples(
            f"contexts are {show(tokens)}; give whole numbers of shape (n, length), at least one token each"
        )
    if shape.longest is not None and ids.shape[1] > shape.longest:
        raise InvalidSamples(
            f"contexts have {ids.shape[1]:,} tokens, but the model reads at most {shape.longest:,}; cut them"
        )
    wrong = np.argwhere((ids < 0) | (ids >= shape.n_tokens))
    if len(wrong):
        row, position = (int(index) for index in wrong[0])
        raise TokenOutOfRange(
            f"token {ids[row, position]} at position {position} of context {row} is not in 0 … "
            f"{shape.n_tokens - 1}; give token ids of the model's tokenizer"
        )
    return torch.as_tensor(ids.astype(np.int64))


def check_tokens(tokens: Integers | Sequence[int], shape: ModelShape) -> Tensor:
    """Token ids as an int64 tensor, shape (n,), if they are in the vocabulary; n may be 0."""
    ids = np.asarray(tokens)
    if ids.ndim != 1 or (ids.size and not np.issubdtype(ids.dtype, np.integer)):
        raise InvalidSamples(f"tokens are {show(tokens)}; give a list of whole numbers")
    if ids.size and not 0 <= ids.min() <= ids.max() < shape.n_tokens:
        wrong = int(ids.min() if ids.min() < 0 else ids.max())
        raise TokenOutOfRange(
            f"token {wrong} is not in 0 … {shape.n_tokens - 1}; give token ids of the model's tokenizer"
        )
    return torch.as_tensor(ids.astype(np.int64))


def check_head(head: Head | str, shape: ModelShape) -> Head:
    """The head, if a model of this shape has it; a text is the name of a head."""
    source = Head.of(head) if isinstance(head, str) else cast("Any", head)
    pair: tuple[Any, ...] = tuple(cast("tuple[Any, ...]", source)) if isinstance(source, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(number, int | np.integer) for number in pair):
        raise MismatchedParts(f"{show(head)} is not a head; give Head(layer, number)")
    layer, number = pair
    if not (0 <= layer < shape.n_layers and 0 <= number < shape.n_heads):
        raise MismatchedParts(
            f"there is no head {layer}.{number}; layers are 0 … {shape.n_layers - 1}, and heads in each "
            f"layer 0 … {shape.n_heads - 1}"
        )
    return Head(int(layer), int(number))


def check_heads(heads: Iterable[Head | str], shape: ModelShape) -> list[Head]:
    # the heads in the order in which they are given, each once
    checked = [check_head(head, shape) for head in heads]
    repeated = [head for index, head in enumerate(checked) if head in checked[:index]]
    if repeated:
        raise MismatchedParts(f"head {repeated[0]} is given twice; give each head once")
    return checked


def choose_heads(
    shape: ModelShape, layers: int | Sequence[int] | None, heads: str | Sequence[Head | str] | None
) -> list[Head]:
    """The heads of these layers, or these heads, in the order of the model; None for both means all heads."""
    if layers is not None and heads is not None:
        raise UnsupportedOption("layers and heads are both given; give one of them")
    if heads is not None:
        chosen = sorted(check_heads([heads] if isinstance(heads, str) else heads, shape))
    elif layers is not None:
        numbers = {
            whole_number(layer, "layers", most=shape.n_layers - 1)
            for layer in ([layers] if isinstance(layers, int) else layers)
        }
        chosen = [head for head in shape.heads if head.layer in numbers]
    else:
        chosen = shape.heads
    if not chosen:
        raise UnsupportedOption("layers or heads is empty; name at least one, or leave both out")
    return chosen


def keep_shape(edited: Tensor, original: Tensor, argument: str) -> Tensor:
    """The result of an edit in the type of its input, if it has the shape of its input."""
    if edited.shape != original.shape:
        raise MismatchedParts(
            f"{argument} returned a tensor of shape {tuple(edited.shape)}; return one of the shape of its "
            f"input, {tuple(original.shape)}"
        )
    return edited.to(original.dtype)
