"""Any causal model that yields attention patterns, with nothing known of its weights.

The ladder and next-token seeking need only patterns, so they work for every model that shows them. Random
heads, edits and token scores need weights: a pattern model has none of these and says so.
"""

import re
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
from attomaton.heads.reading.configs import FAMILIES

RunPatterns = Callable[[Tensor], tuple[Tensor | None, Sequence[Any]]]
"""Contexts of one length, shape (n, length), to logits, if there are any, and the patterns of each layer."""

EAGER = "load it again with attn_implementation='eager'"

PROBE = 11
"""Tokens of the context that a model is first run on, to see how many layers and heads it has.

A prime, so that few sizes in a model are equal to it."""

AHEAD, ROW_TOLERANCE = 1e-6, 0.05
"""What attention to later tokens, and a row's sum above 1, may come to by rounding (bfloat16 rounds much)."""


@dataclass(frozen=True, eq=False)
class PatternModel:
    """A model of which only attention patterns are known.

    Use ``from_lens``, ``from_function`` or ``from_iterator``;
    :func:`~attomaton.heads.opening.open_model` does so for models whose weights it does not read.

    Attributes
    ----------
    name : str
        What users call it.
    shape : ModelShape
        The sizes of the model, from a run on a few tokens.
    run : callable
        Contexts, int64 tensor of shape (n, length), to logits (or None) and the patterns of each layer, shape
        (n, n_heads, length, length).
    reason : str
        Why its weights are not read.
    items : iterator, optional
        Patterns of one document after the other. They are read once, in the order of the documents.
    weights : tuple of tensors
        The weights, if there are any: they tell models of the same name apart.
    settings : str
        The configuration, if there is one: it tells models of the same weights apart.

    Examples
    --------
    >>> model = PatternModel.from_function(lambda ids: [torch.eye(ids.shape[1])[None, None]], n_tokens=5)
    >>> model.shape.n_heads, model.watch(np.array([[3, 1]])).patterns[0].tolist()
    (1, [[[[1.0, 0.0], [0.0, 1.0]]]])
    """

    name: str
    shape: ModelShape
    run: RunPatterns = field(repr=False)
    reason: str = ""
    items: Iterator[Any] | None = field(default=None, repr=False)
    weights: tuple[Tensor, ...] = field(default=(), repr=False)
    settings: str = field(default="", repr=False)

    @classmethod
    def from_lens(cls, model: Any, *, reason: str = "") -> "PatternModel":
        """A TransformerLens model (``HookedTransformer`` or a bridge), by its ``hook_pattern`` points."""
        names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(model.cfg.n_layers)]

        def run(ids: Tensor) -> tuple[Tensor | None, Sequence[Any]]:
            with torch.no_grad():
                logits, cache = model.run_with_cache(
                    ids.to(model.cfg.device), names_filter=names.__contains__
                )
            return logits, [cache[name] for name in names if name in cache]

        name, cfg = "TransformerLens", model.cfg
        shape = probe_patterns(name, lambda ids: run(ids)[1], cfg.d_vocab, cfg.n_ctx)
        weights = tuple(model.state_dict().values())
        return cls(
            name, shape, run, reason, weights=weights, settings=re.sub(r" at 0x[0-9a-f]+", "", repr(cfg))
        )

    @classmethod
    def from_function(
        cls,
        patterns: Callable[[Tensor], Sequence[Any]],
        *,
        n_tokens: int,
        longest: int | None = None,
        name: str = "attention patterns",
    ) -> "PatternModel":
        """A function from contexts, shape (n, length), to the patterns of each layer.

        Parameters
        ----------
        patterns : callable
            Gets an int64 tensor of shape (n, length), and returns a pattern of shape (n, n_heads, length,
            length) for each layer.
        n_tokens : int
            Size of the vocabulary.
        longest : int, optional
            The longest context; None means any.
        name : str
            Name of the model in the audit.
        """
        return cls(name, probe_patterns(name, patterns, n_tokens, longest), lambda ids: (None, patterns(ids)))

    @classmethod
    def from_iterator(
        cls, items: Iterable[Any], *, n_tokens: int, name: str = "attention patterns"
    ) -> "PatternModel":
        """Patterns that were computed elsewhere, one item for each document, in the order of the documents.

        They are read once and never held together, so an iterator can load them one by one. For another audit
        make another model.

        Parameters
        ----------
        items : iterable
            For each document an array of shape (n_layers, n_heads, length, length), or its layers: what
            ``attentions`` of a ``transformers`` model has for it. ``length`` is the number of the document's
            tokens, or less if contexts are cut.
        n_tokens : int
            Size of the vocabulary.
        name : str
            Name of the model in the audit.

        Examples
        --------
        >>> model = PatternModel.from_iterator(iter([torch.eye(4).expand(2, 3, 4, 4)]), n_tokens=9)
        >>> len(model.shape.heads)
        6
        """
        stream = iter(items)
        first = next(stream, None)
        if first is None:
            raise InvalidSamples("there are no patterns; give an item for each document")
        layers = _layers_of(first, name)
        remaining = chain([first], stream)
        n_tokens = whole_number(n_tokens, "n_tokens", least=1, most=VOCABULARY_SIZE)
        count = 0

        def run(ids: Tensor) -> tuple[Tensor | None, Sequence[Any]]:
            nonlocal count
            item = next(remaining, None)
            if item is None or len(ids) != 1:
                raise InvalidSamples(
                    f"the iterator has patterns of {count} documents only; give an item for each document, "
                    "in their order. An iterator is read once: make a new one for each audit"
                )
            count += 1
            length, patterns = ids.shape[1], _layers_of(item, name)
            if min(pattern.shape[-1] for pattern in patterns) < length:
                raise InvalidSamples(
                    f"the patterns of document {count - 1} cover {patterns[0].shape[-1]} of its {length} "
                    "tokens; give patterns over all of them, or AuditSettings("
                    f"longest={patterns[0].shape[-1]})"
                )
            return None, [pattern[:, :, :length, :length] for pattern in patterns]

        shape = ModelShape(len(layers), layers[0].shape[1], n_tokens)
        return cls(name, shape, run, items=remaining)

    def watch(
        self,
        tokens: Integers | Tensor,
        *,
        edit_patterns: PatternEdit | None = None,
        edit_outputs: OutputEdit | None = None,
    ) -> Watched:
        """Patterns on contexts of one length; logits are NaN if the model gives none."""
        if edit_patterns is not None or edit_outputs is not None:
            self._need_weights("edits of patterns and outputs (causal value, utility)")
        ids = check_contexts(tokens, self.shape)
        logits, patterns = self.run(ids)
        layers = [_tensor(layer) for layer in patterns if layer is not None]
        _check_patterns(layers, ids, self.shape, self.name)
        if logits is None:
            logits = torch.full((1, 1, 1), torch.nan).expand(*ids.shape, self.shape.n_tokens)
        return Watched(logits.detach().cpu(), tuple(layers))

    def skip(self) -> None:
        """Leave out the patterns of a document that is too short to be watched."""
        if self.items is not None:
            next(self.items, None)

    def score_tokens(self, head: Head, queries: Integers, keys: Integers, *, lag: int = 0) -> Float64:
        """Not available."""
        del head, queries, keys, lag
        self._need_weights("token scores")

    def write_logits(self, head: Head, tokens: Integers) -> Float64:
        """Not available."""
        del head, tokens
        self._need_weights("what a head writes")

    def _need_weights(self, missing: str) -> NoReturn:
        why = f" ({self.reason})" if self.reason else ""
        raise UnsupportedOption(
            f"{missing} need the weights of a model, and attomaton reads only attention patterns from "
            f"{self.name}{why}; leave that out, or give a model of the type {', '.join(FAMILIES)}"
        )


WRAPPERS = (["_orig_mod"], ["module"])
"""The only parts of modules that ``torch.compile`` and ``DataParallel`` return."""


def unwrap(source: Any) -> Any:
    """The module inside an nnsight model, loaded if it was not yet, or inside a compiled or parallel one."""
    whole = cast("object", source)
    inside: Any = dict(whole.named_children()) if isinstance(whole, torch.nn.Module) else {}
    if list(inside) in WRAPPERS:
        return unwrap(*inside.values())
    if not hasattr(cast("object", type(source)), "trace"):
        return source
    module = source.__dict__.get("_module", source.__dict__.get("_model"))
    if not isinstance(module, torch.nn.Module):
        return source
    if getattr(source, "dispatched", True) is False:
        source.dispatch()
        module = source.__dict__.get("_module", source.__dict__.get("_model"))
    return module


def probe_patterns(
    name: str, patterns: Callable[[Tensor], Sequence[Any]], n_tokens: Any, longest: int | None
) -> ModelShape:
    """The sizes of a model, with as many layers and heads as it shows on a few tokens."""
    size = whole_number(n_tokens, "n_tokens", least=1, most=VOCABULARY_SIZE)
    ids = torch.arange(min(PROBE, longest or PROBE)).remainder(size)[None]
    try:
        layers = [_tensor(layer) for layer in patterns(ids) if layer is not None]
    except UnreadableModel:
        raise
    except Exception as error:  # whatever a stranger's model raises
        why = brief(str(error).strip() or type(error).__name__)
        raise UnreadableModel(
            f"{name} cannot be run on token ids ({why}); give a causal model that takes input_ids"
        ) from error
    if not layers or layers[0].ndim != 4:
        raise UnreadableModel(
            f"{name} yields no attention patterns; {EAGER}; models without attention have none"
        )
    shape = ModelShape(len(layers), layers[0].shape[1], size, longest)
    _check_patterns(layers, ids, shape, name)
    return shape


def _tensor(pattern: Any) -> Tensor:
    """A pattern as a float tensor on the CPU."""
    tensor = pattern.detach().cpu() if isinstance(pattern, Tensor) else torch.as_tensor(np.asarray(pattern))
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def _layers_of(item: Any, name: str) -> list[Tensor]:
    """The patterns of one document, each of shape (1, n_heads, length, length)."""
    try:
        layers = [_tensor(layer) for layer in cast("Iterable[Any]", item)]
    except (TypeError, ValueError) as error:
        raise InvalidSamples(
            f"an item of {name} is a {type(item).__name__}; give arrays of shape (n_layers, n_heads, length, "
            "length)"
        ) from error
    layers = [layer[None] if layer.ndim == 3 else layer for layer in layers]
    if not layers:
        raise InvalidSamples(f"an item of {name} has no layers; if it is from a transformers model, {EAGER}")
    if any(layer.ndim != 4 or len(layer) != 1 for layer in layers):
        shapes = [tuple(layer.shape) for layer in layers[:1]]
        raise InvalidSamples(
            f"an item of {name} has layers of shape {shapes}; give (n_heads, length, length) for each layer"
        )
    return layers


def _check_patterns(layers: list[Tensor], ids: Tensor, shape: ModelShape, name: str) -> None:
    """Raise unless these are causal attention patterns of the right shape."""
    n, length = ids.shape
    expected = (n, shape.n_heads, length, length)
    if len(layers) != shape.n_layers:
        raise UnreadableModel(
            f"{name} yields {len(layers)} layers of patterns, but yielded {shape.n_layers} before"
        )
    for number, layer in enumerate(layers):
        if tuple(layer.shape) != expected:
            raise UnreadableModel(
                f"the patterns of layer {number} of {name} have shape {tuple(layer.shape)} and not "
                f"{expected}; all layers must have the same number of heads, and a column for each token"
            )
        if not bool(layer.isfinite().all()):
            raise UnreadableModel(f"the patterns of layer {number} of {name} are not finite")
        if float(layer.triu(1).abs().max()) > AHEAD:
            raise UnreadableModel(
                f"layer {number} of {name} attends to later tokens; give a causal model (decoder only)"
            )
        if float(layer.min()) < 0 or float(layer.sum(-1).max()) > 1 + ROW_TOLERANCE:
            raise UnreadableModel(
                f"the patterns of layer {number} of {name} are no probabilities; give attention after the "
                "softmax, rows as queries"
            )
