"""The model interface of the audit: logits and attention, also with patterns or outputs replaced."""

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

PatternEdit = Callable[[int, Tensor], Tensor]
"""(layer, patterns of shape (n, n_heads, length, length)) → the patterns to apply instead."""

OutputEdit = Callable[[int, Tensor], Tensor]
"""(layer, head outputs of shape (n, n_heads, length, head width)) → the outputs to pass on instead."""


BATCH_BYTES = 1 << 27
"""Memory for patterns and logits at once, in bytes, unless one context needs more."""


WRITTEN = re.compile(r"[Ll]?([0-9]{1,9})(?:\.|[Hh])([0-9]{1,9})", re.ASCII)
"""A head as it is written."""


class Head(NamedTuple):
    """One head, by its layer and its number there, both from 0.

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
        """The head that a text names, such as ``17.5`` or ``L17H5``."""
        match = WRITTEN.fullmatch(text.strip())
        if match is None:
            raise MismatchedParts(f"{show(text)} is not a head; give layer and number, such as 4.0 or L4H0")
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model.

    Attributes
    ----------
    n_layers, n_heads : int
        Layers, and heads per layer.
    n_tokens : int
        Size of the vocabulary.
    longest : int, optional
        The longest context that the model takes. None means unlimited.
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
        context_bytes = 4 * length * (self.n_layers * self.n_heads * length + self.n_tokens)
        return max(BATCH_BYTES // context_bytes, 1)


@dataclass(frozen=True, eq=False)
class Watched:
    """Logits and attention patterns of a model on some contexts.

    Attributes
    ----------
    logits : Tensor, shape (n, length, n_tokens)
        Logits of the next token, at every position.
    patterns : tuple of Tensor, each of shape (n, n_heads, length, length)
        The attention of each layer before any edit: rows are queries, columns keys; causal; rows sum to 1.
    """

    logits: Tensor
    patterns: tuple[Tensor, ...]


class HeadModel(Protocol):
    """A causal model whose heads can be recorded. Every adapter and every reader returns one."""

    @property
    def name(self) -> str:
        """The name for users: a folder, an id with its revision, or the type of the object."""
        ...

    @property
    def shape(self) -> ModelShape:
        """Its sizes."""
        ...

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
        """The head's scores before the softmax, from the tokens' own embeddings, shape (n_keys, n_queries).

        Keys are ``lag`` positions before the query. Without positions the lag has no effect.
        """
        ...

    def write_logits(self, head: Head, tokens: Integers) -> Float64:
        """What the head adds to the logits if it attends to one token only, shape (n, n_tokens).

        The token's own embedding passes through values, output and decoder; the last norm's scale is taken
        as one. The result has (n_read, n_tokens) numbers: pass only the tokens you need.
        """
        ...


WriteRows = Callable[[int, int, Tensor], object]
"""(layer, 0 for a model's own heads or the number of a set of random heads, rows) → nothing.

Rows have shape (n, n_heads, n_positions, length)."""

WriteReads = Callable[[int, Tensor], object]
"""(layer, what its attention reads, shape (n, length, dim)) → nothing."""

Edits = dict[str, PatternEdit]
"""Arguments of ``watch`` that edit patterns or outputs."""


@runtime_checkable
class RotatableModel(HeadModel, Protocol):
    """A model that makes random heads from its own, by rotating what queries and keys read."""

    def rotate(self, *, seed: int) -> HeadModel:
        """The model with random heads added: their patterns are recorded, the model's own are applied."""
        ...


@runtime_checkable
class LayeredModel(RotatableModel, Protocol):
    """A model that is followed layer by layer, so that no pattern is held as a whole."""

    def reads_from(self, model: HeadModel) -> bool:
        """Whether these are random heads that read the residual stream of the other model."""
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
        """Run the model on contexts and hand on the rows of positions (n, n_positions).

        ``random`` are models with random heads that read from this one; their rows come from the same run.
        ``layers`` are those whose rows are wanted, ascending; None means all. The run may end after the last.
        """
        ...

    def run_edits(
        self, tokens: Integers | Tensor, runs: Sequence[tuple[int, Edits]], scored: Tensor
    ) -> Iterator[Tensor]:
        """The logits at the scored positions in several runs, each with its first edited layer, ascending."""
        ...

    def score_inputs(self, layer: int, inputs: Any, keys: Int64, lags: Int64, texts: Int64) -> Float64:
        """The scores of all heads of a layer before the softmax, from given inputs of its attention.

        Scores may have a constant added in each row.

        Parameters
        ----------
        layer : int
            Which.
        inputs : float32 array, shape (n_inputs, dim)
            What attention reads; the last but one is the mean of all.
        keys, lags : int arrays, shape (n, n_keys)
            For each query the input of each of its keys, and how far before the query it is. The query itself
            is the first; the last two are at the first position of the context.
        texts : int array, shape (n,)
            The number of the text that each query is in.

        Returns
        -------
        float64 array, shape (n, n_heads, n_keys)
        """
        ...


def check_contexts(tokens: Integers | Tensor, shape: ModelShape) -> Tensor:
    """Contexts of one length as a tensor of int64, shape (n, length), if the model takes them."""
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
            f"contexts have {ids.shape[1]:,} tokens, but the model takes {shape.longest:,}; cut them"
        )
    out = np.argwhere((ids < 0) | (ids >= shape.n_tokens))
    if len(out):
        row, position = (int(index) for index in out[0])
        raise TokenOutOfRange(
            f"token {ids[row, position]} at position {position} of context {row} is not in 0 … "
            f"{shape.n_tokens - 1}; give ids of the model's own tokenizer"
        )
    return torch.as_tensor(ids.astype(np.int64))


def check_tokens(tokens: Integers | Sequence[int], shape: ModelShape) -> Tensor:
    """Token ids as a tensor of int64, shape (n,)."""
    ids = np.asarray(tokens)
    if ids.ndim != 1 or (ids.size and not np.issubdtype(ids.dtype, np.integer)):
        raise InvalidSamples(f"tokens are {show(tokens)}; give whole numbers, shape (n,)")
    if ids.size and not 0 <= ids.min() <= ids.max() < shape.n_tokens:
        wrong = int(ids.min() if ids.min() < 0 else ids.max())
        raise TokenOutOfRange(
            f"token {wrong} is not in 0 … {shape.n_tokens - 1}; give ids of the model's own tokenizer"
        )
    return torch.as_tensor(ids.astype(np.int64))


def check_head(head: Head | str, shape: ModelShape) -> Head:
    """The head, given or named, if the model has it."""
    source = Head.of(head) if isinstance(head, str) else cast("Any", head)
    pair: tuple[Any, ...] = tuple(cast("tuple[Any, ...]", source)) if isinstance(source, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(number, int | np.integer) for number in pair):
        raise MismatchedParts(f"{show(head)} is not a head; give Head(layer, number)")
    layer, number = pair
    if not (0 <= layer < shape.n_layers and 0 <= number < shape.n_heads):
        raise MismatchedParts(
            f"there is no head {layer}.{number}; layers are 0 … {shape.n_layers - 1} and heads 0 … "
            f"{shape.n_heads - 1}"
        )
    return Head(int(layer), int(number))


def check_heads(heads: Iterable[Head | str], shape: ModelShape) -> list[Head]:
    """The heads, if the model has them and none is repeated."""
    checked = [check_head(head, shape) for head in heads]
    twice = [head for index, head in enumerate(checked) if head in checked[:index]]
    if twice:
        raise MismatchedParts(f"head {twice[0]} is given twice; give each head once")
    return checked


def choose_heads(
    shape: ModelShape, layers: int | Sequence[int] | None, heads: str | Sequence[Head | str] | None
) -> list[Head]:
    """The heads of some layers, or some heads, in the order of the model; None for both means all."""
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
        raise UnsupportedOption("layers or heads is empty; name one at least, or leave it out")
    return chosen


def keep_shape(edited: Tensor, original: Tensor, argument: str) -> Tensor:
    """The result of an edit, if it keeps the shape of its input."""
    if edited.shape != original.shape:
        raise MismatchedParts(
            f"{argument} returned shape {tuple(edited.shape)} for shape {tuple(original.shape)}; "
            "return the same shape"
        )
    return edited.to(original.dtype)
