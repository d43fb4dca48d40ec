"""Models of which only attention patterns are known, not the weights.

``PatternModel`` is such a model, from a function or from patterns computed elsewhere. The ladder and
next-token seeking need only patterns. Random heads, edits and token scores need weights and raise an error.
``probe_patterns`` finds the sizes of any model by a run, and ``unwrap`` finds the module inside a wrapper.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NoReturn, cast

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import InvalidSamples, UnreadableModel, UnsupportedOption
from attomaton.base.options import whole_number
from attomaton.base.tables import Float64, Integers
from attomaton.corpora.budgets import VOCABULARY_SIZE, brief
from attomaton.heads.model import Head, ModelShape, OutputEdit, PatternEdit, Watched, check_contexts

# Maps contexts of one length, shape (n, length), to the patterns of each layer.
RunPatterns = Callable[[Tensor], Sequence[Any]]

EAGER = "load it again with attn_implementation='eager'"

# Tokens of the context on which a model is first run, to find its number of layers and heads. It is a prime,
# so few sizes in a model are equal to it.
PROBE = 11

AHEAD = 1e-6  # largest attention to later tokens
ROW_TOLERANCE = 0.05  # how far the sum of a row may exceed 1 by rounding (bfloat16 rounds much)


class _Stream:
    """Patterns computed elsewhere, read once, one item per document, in the order of the documents."""

    def __init__(self, items: Iterator[Any], name: str) -> None:
        self._items, self._name = items, name
        self.n_read = 0  # documents whose patterns were read or skipped

    def next(self, length: int) -> list[Tensor]:
        """The patterns of the next document on its first ``length`` tokens, by layer."""
        item = next(self._items, None)
        if item is None:
            raise InvalidSamples(
                f"the iterator has patterns of {self.n_read} documents only; give an item for each document, "
                "in their order. An iterator is read once: make a new one for each audit"
            )
        number = self.n_read
        self.n_read += 1
        patterns = _layers_of(item, self._name)
        covered = min(pattern.shape[-1] for pattern in patterns)
        if covered < length:
            raise InvalidSamples(
                f"the patterns of document {number} cover {covered} of its {length} tokens; give "
                f"patterns over all tokens, or AuditSettings(longest={covered})"
            )
        return [pattern[:, :, :length, :length] for pattern in patterns]

    def skip(self) -> None:
        next(self._items, None)
        self.n_read += 1


@dataclass(frozen=True, eq=False)
class PatternModel:
    """A model of which only attention patterns are known; make it by ``from_function`` or ``from_iterator``.

    ``name`` is the name in results, and ``shape`` has the sizes of the model. ``run`` maps contexts, an int64
    tensor of shape (n, length), to the patterns of each layer, shape (n, n_heads, length, length). ``stream``
    contains the patterns of one document after the other, if they were computed elsewhere.

    Examples
    --------
    >>> model = PatternModel.from_function(lambda ids: [torch.eye(ids.shape[1])[None, None]], n_tokens=5)
    >>> model.shape.n_heads, model.watch(np.array([[3, 1]])).patterns[0].tolist()
    (1, [[[[1.0, 0.0], [0.0, 1.0]]]])
    """

    name: str
    shape: ModelShape
    run: RunPatterns = field(repr=False)
    stream: _Stream | None = field(default=None, repr=False)

    @classmethod
    def from_function(
        cls,
        patterns: Callable[[Tensor], Sequence[Any]],
        *,
        n_tokens: int,
        longest: int | None = None,
        name: str = "attention patterns",
    ) -> "PatternModel":
        """A model given by a function, which maps contexts to the patterns of each layer.

        ``patterns`` gets an int64 tensor of shape (n, length) and returns a pattern of shape (n, n_heads,
        length, length) for each layer. ``n_tokens`` is the size of the vocabulary, ``longest`` the longest
        context (None means any), ``name`` the name in results.
        """
        return cls(name, probe_patterns(name, patterns, n_tokens, longest), patterns)

    @classmethod
    def from_iterator(
        cls, items: Iterable[Any], *, n_tokens: int, name: str = "attention patterns"
    ) -> "PatternModel":
        """A model given by patterns computed elsewhere, one item per document, in the order of the documents.

        An item of ``items`` is an array of shape (n_layers, n_heads, length, length), or a list of the
        layers, such as ``attentions`` of a ``transformers`` model; ``length`` is the number of the document's
        tokens, or less if contexts are cut. ``n_tokens`` is the size of the vocabulary, ``name`` the name in
        results. Items are read once, one by one: make a new model for each audit.

        Examples
        --------
        >>> model = PatternModel.from_iterator(iter([torch.eye(4).expand(2, 3, 4, 4)]), n_tokens=9)
        >>> len(model.shape.heads)
        6
        """
        remaining = iter(items)
        first = next(remaining, None)  # gives the sizes, and is put back in front below
        if first is None:
            raise InvalidSamples("there are no patterns; give an item for each document")
        layers = _layers_of(first, name)
        n_tokens = whole_number(n_tokens, "n_tokens", least=1, most=VOCABULARY_SIZE)
        shape = ModelShape(len(layers), layers[0].shape[1], n_tokens)
        stream = _Stream(chain([first], remaining), name)

        def run(ids: Tensor) -> Sequence[Any]:
            if len(ids) != 1:
                raise InvalidSamples(
                    f"{name} has the patterns of one document at a time, and {len(ids)} contexts were given; "
                    "give one context"
                )
            return stream.next(ids.shape[1])

        return cls(name, shape, run, stream)

    def watch(
        self,
        tokens: Integers | Tensor,
        *,
        edit_patterns: PatternEdit | None = None,
        edit_outputs: OutputEdit | None = None,
    ) -> Watched:
        """Patterns on contexts of one length; logits are NaN."""
        if edit_patterns is not None or edit_outputs is not None:
            self._refuse("edits of patterns and outputs (causal value, utility)")
        ids = check_contexts(tokens, self.shape)
        layers = [_tensor(layer) for layer in self.run(ids) if layer is not None]
        _check_patterns(layers, ids, self.shape, self.name)
        logits = torch.full((1, 1, 1), torch.nan).expand(*ids.shape, self.shape.n_tokens)
        return Watched(logits, tuple(layers))

    def skip(self) -> None:
        """Leave out the patterns of a document that is too short for a row."""
        if self.stream is not None:
            self.stream.skip()

    def score_tokens(self, head: Head, queries: Integers, keys: Integers, *, lag: int = 0) -> Float64:  # noqa: ARG002
        """Raise an error, since token scores need weights."""
        self._refuse("token scores")

    def write_logits(self, head: Head, tokens: Integers) -> Float64:  # noqa: ARG002
        """Raise an error, since what a head writes needs weights."""
        self._refuse("the logits that a head writes")

    def _refuse(self, feature: str) -> NoReturn:
        raise UnsupportedOption(
            f"{feature} need the weights of a model, and attomaton reads only attention patterns from "
            f"{self.name}; leave that out, or give the model itself"
        )


# The children of modules that `torch.compile` and `DataParallel` return.
WRAPPERS = (["_orig_mod"], ["module"])


def unwrap(source: Any) -> Any:
    """The module inside an nnsight model (which is loaded), or inside a compiled or parallel module."""
    wrapper = cast("object", source)
    children: Any = dict(wrapper.named_children()) if isinstance(wrapper, torch.nn.Module) else {}
    if list(children) in WRAPPERS:
        return unwrap(*children.values())
    is_nnsight = hasattr(cast("object", type(source)), "trace")
    if not is_nnsight or not isinstance(_nnsight_module(source), torch.nn.Module):
        return source
    if getattr(source, "dispatched", True) is False:
        source.dispatch()  # loads the weights, and may put another module in place
    return _nnsight_module(source)


# The module inside an nnsight model, which versions of nnsight name _module or _model; None if there is
# none. The model looks up attributes that it lacks in the module; reading __dict__ avoids this.
def _nnsight_module(source: Any) -> Any:
    return source.__dict__.get("_module", source.__dict__.get("_model"))


def probe_patterns(
    name: str, patterns: Callable[[Tensor], Sequence[Any]], n_tokens: Any, longest: int | None
) -> ModelShape:
    """The sizes of a model, with the layers and heads of its patterns on a few tokens."""
    size = whole_number(n_tokens, "n_tokens", least=1, most=VOCABULARY_SIZE)
    ids = torch.arange(min(PROBE, longest or PROBE)).remainder(size)[None]  # one context: 0, 1, 2, …
    try:
        layers = [_tensor(layer) for layer in patterns(ids) if layer is not None]
    except UnreadableModel:
        raise
    except Exception as error:  # a model may raise anything
        reason = brief(str(error).strip() or type(error).__name__)
        raise UnreadableModel(
            f"{name} cannot be run on token ids ({reason}); give a causal model that reads input_ids"
        ) from error
    if not layers or layers[0].ndim != 4:
        raise UnreadableModel(
            f"{name} returns no attention patterns; {EAGER}, or give another model if it has no attention"
        )
    shape = ModelShape(len(layers), layers[0].shape[1], size, longest)
    _check_patterns(layers, ids, shape, name)
    return shape


def _tensor(pattern: Any) -> Tensor:
    # on the CPU, in float32 or float64
    tensor = pattern.detach().cpu() if isinstance(pattern, Tensor) else torch.as_tensor(np.asarray(pattern))
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


# The patterns of one document, each of shape (1, n_heads, length, length).
def _layers_of(item: Any, name: str) -> list[Tensor]:
    try:
        layers = [_tensor(layer) for layer in cast("Iterable[Any]", item)]
    except (TypeError, ValueError) as error:
        raise InvalidSamples(
            f"an item of {name} is of type {type(item).__name__}; give an array of shape (n_layers, n_heads, "
            "length, length)"
        ) from error
    layers = [layer[None] if layer.ndim == 3 else layer for layer in layers]
    if not layers:
        raise InvalidSamples(f"an item of {name} has no layers; if it is from a transformers model, {EAGER}")
    for number, layer in enumerate(layers):
        if layer.ndim != 4 or len(layer) != 1:
            raise InvalidSamples(
                f"layer {number} of an item of {name} has shape {tuple(layer.shape)}; give (n_heads, length, "
                "length) for each layer"
            )
    return layers


def _check_patterns(layers: list[Tensor], ids: Tensor, shape: ModelShape, name: str) -> None:
    # refuse patterns on these contexts that are not causal probabilities, (n, n_heads, length, length) per
    # layer
    n, length = ids.shape
    expected = (n, shape.n_heads, length, length)
    if len(layers) != shape.n_layers:
        raise UnreadableModel(
            f"{name} returns {len(layers)} layers of patterns, but returned {shape.n_layers} before; give a "
            "model with a fixed number of layers"
        )
    for number, layer in enumerate(layers):
        if tuple(layer.shape) != expected:
            raise UnreadableModel(
                f"the patterns of layer {number} of {name} have shape {tuple(layer.shape)} instead of "
                f"{expected}; give a model whose layers have equally many heads, and a column for each token"
            )
        if not bool(layer.isfinite().all()):
            raise UnreadableModel(
                f"the patterns of layer {number} of {name} are not finite; check the weights of the model"
            )
        if float(layer.triu(1).abs().max()) > AHEAD:  # above the diagonal, keys are later than the query
            raise UnreadableModel(
                f"layer {number} of {name} attends to later tokens; give a causal model (decoder only)"
            )
        # a sum below 1 is allowed: some models have learned sinks
        if float(layer.min()) < 0 or float(layer.sum(-1).max()) > 1 + ROW_TOLERANCE:
            raise UnreadableModel(
                f"the patterns of layer {number} of {name} are not probabilities; give attention after the "
                "softmax, with a row for each query"
            )
