"""A causal ``transformers`` model that runs its own code, on its own device and in its own type.

Rows of attention are computed for sampled queries only. For random heads the attention modules run again with
rotated query and key weights, a rotation for each head. Where these weights are out of reach, because they
are quantised or offloaded, the modules run on rotated inputs instead, one rotation for all heads.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attomaton.base.errors import UnreadableModel, UnsupportedOption
from attomaton.base.progress import silent
from attomaton.base.tables import Float64, Int64, Integers
from attomaton.heads.model import (
    Edits,
    Head,
    ModelShape,
    OutputEdit,
    PatternEdit,
    Watched,
    WriteReads,
    WriteRows,
    check_contexts,
)
from attomaton.heads.patterns import PROBE, probe_patterns
from attomaton.heads.reading.families import read_object
from attomaton.heads.rotations import draw_frame, make_generator, rotate_weight
from attomaton.heads.taps import (
    MATMUL,
    AttentionCall,
    AttentionReading,
    StopAtAttention,
    Tap,
    tapped,
    uses_interface,
)
from attomaton.heads.transformer import Transformer

_torch: Any = torch  # its type stubs leave some functions partly unknown

MODULE_TOKENS, PADDED = 2048, 64
"""Tokens on which attention modules are run at once, and what lengths of contexts are multiples of."""

NOISE_CONTEXTS = 16
"""Contexts of noise on which heads are seen to read projections."""

COUPLED = 0.1
"""The least dependence of a head that reads a unit, relative to that of the head that depends on it most."""

TRANSPOSE: Any = _torch.Tensor.T.__get__

LINEAR: dict[Any, bool] = {functional.linear: False, torch.addmm: True, **dict.fromkeys(MATMUL, True)}
"""Functions that apply a linear map → whether its weight is transposed, of shape (dim, n_units)."""

ROOTS = (torch.rsqrt, Tensor.rsqrt)
"""Functions in norms, through which each head may depend on the units of all."""

DAMPED = 1e-3
"""What slopes through roots are multiplied by: a unit with a gain of zero is seen through them alone."""

Swaps = dict[int, Tensor]
"""The id of a weight → what is used instead."""

ReadCall = Callable[[int, "ModuleCall"], object]
"""Called with the number of each attention layer and the call of its module."""


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """An attention module and the arguments with which a model calls it."""

    module: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    tap: Tap

    @property
    def inputs(self) -> Tensor:
        """What attention reads, shape (n, length, dim)."""
        return self.options["hidden_states"] if "hidden_states" in self.options else self.arguments[0]

    def on(self, inputs: Tensor) -> "ModuleCall":
        """The same call on other inputs."""
        if "hidden_states" in self.options:
            return replace(self, options={**self.options, "hidden_states": inputs})
        return replace(self, arguments=(inputs, *self.arguments[1:]))

    def attend(self, inputs: Tensor, mode: TorchFunctionMode | None = None) -> AttentionReading:
        """The attention of the module on other inputs, or under a mode; the model gets none of it."""
        call = self.on(inputs)
        self.tap.stopping, self.tap.caught = True, None
        try:
            with suppress(StopAtAttention), mode or nullcontext():
                self.module(*call.arguments, **call.options)
        finally:
            self.tap.stopping = False
        return cast("AttentionReading", self.tap.caught)


class SwappedWeights(TorchFunctionMode):
    """Functions get other tensors instead of some weights; no module is changed."""

    def __init__(self, swaps: Swaps) -> None:
        super().__init__()
        self.swaps = swaps

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*(self.swaps.get(id(argument), argument) for argument in args), **(kwargs or {}))


class NoisyProjections(TorchFunctionMode):
    """Linear maps of a module return noise instead, so that gradients show which heads read it."""

    def __init__(self, call: ModuleCall) -> None:
        super().__init__()
        self.weights: dict[int, tuple[Tensor, Tensor, bool]] = {
            id(weight): (weight, weight, False)
            for weight in call.module.parameters()
            if weight.ndim == 2 and weight.is_floating_point() and not weight.is_meta
        }
        self.shape, self.draw = call.inputs.shape[:2], make_generator(0)
        self.outputs = list[tuple[Tensor, bool, Tensor]]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in ROOTS:
            return result.detach() + DAMPED * (result - result.detach())
        projection = next(
            (self.weights[id(argument)] for argument in args if id(argument) in self.weights), None
        )
        if projection is None:
            return result
        weight, _, transposed = projection
        if func == TRANSPOSE:
            self.weights[id(result)] = weight, result, not transposed
        if func not in LINEAR or result.numel() != self.shape.numel() * result.shape[-1]:
            return result
        noise = torch.randn(result.shape, generator=self.draw).to(result).requires_grad_()
        self.outputs.append((weight, LINEAR[func] != transposed, noise))
        return noise


@dataclass(frozen=True, eq=False)
class HeadUnits:
    """Rows of a weight that give some heads their queries, or their keys; columns if it is ``transposed``."""

    weight: Tensor
    transposed: bool
    units: Tensor
    keys: bool
    heads: tuple[int, ...]

    def rotate(self, swaps: Swaps, draw: torch.Generator) -> None:
        """Let these units read through a random rotation, in a copy of the weight among the swaps."""
        whole = swaps.setdefault(id(self.weight), self.weight.detach().clone())
        rows = whole.T if self.transposed else whole
        rows[self.units] = rotate_weight(rows[self.units].T.cpu(), draw).T.to(rows)


def find_units(call: ModuleCall) -> list[HeadUnits]:
    """Which units of which weights each head reads, queries first; none if a head has no units to itself.

    The pattern of the last position depends on queries there alone, and on keys at all positions.
    """
    projections, draw = NoisyProjections(call), make_generator(1)
    with torch.enable_grad():
        pattern = call.attend(call.inputs.detach(), projections).rows()[:, :, -1]
        scores = (pattern * torch.randn(pattern.shape, generator=draw).to(pattern)).sum((0, 2)).unbind()
    noises = [noise for _, _, noise in projections.outputs]
    if not noises or not pattern.requires_grad:
        return []
    slopes = [_torch.autograd.grad(score, noises, retain_graph=True, allow_unused=True) for score in scores]
    groups = list[HeadUnits]()
    for (weight, transposed, noise), *by_head in zip(projections.outputs, *slopes, strict=True):
        size = (*projections.shape, noise.shape[-1])
        squares: Any = np.array(
            [
                np.zeros(size) if slope is None else slope.reshape(size).cpu().double() ** 2
                for slope in by_head
            ]
        )
        strength, earlier = squares.sum((1, 2)), squares[:, :, :-1].sum((0, 1, 2))
        reads = (strength > COUPLED**2 * strength.max(0)) & (strength > 0)
        keys = reads[:, earlier > 0]
        together = keys @ keys.T  # heads that share keys, although one of them reads some units weakly
        for _ in scores:
            together = together @ together
        reads[:, earlier > 0] = together @ keys
        kinds = np.concatenate([earlier[None] > 0, reads])  # one column per unit
        for kind in np.unique(kinds[:, reads.any(0)], axis=1).T:
            units = torch.as_tensor(np.flatnonzero((kinds == kind[:, None]).all(0)))
            heads = tuple(np.flatnonzero(kind[1:]).tolist())
            groups.append(HeadUnits(weight, transposed, units, bool(kind[0]), heads))
    alone = {group.heads for group in groups if len(group.heads) == 1}
    if len(alone) < len(scores) or not any(group.keys for group in groups):
        return []
    return sorted(groups, key=lambda group: (group.keys, group.heads))


@dataclass(frozen=True, eq=False)
class LiveModel:
    """A causal model of ``transformers`` whose own code is run, on its own device.

    The model is switched for each run, and left as it was. Layers are those that attend, in their order.

    Attributes
    ----------
    name : str
        What users call it.
    shape : ModelShape
        The sizes of the model, from a run on a few tokens.
    model : PreTrainedModel
        The model.
    modules : tuple of str
        The name of the attention module of each layer.
    attends_once : bool
        Whether each module attends once when it is called; otherwise there are no random heads.
    seed : int, optional
        With a seed, the patterns of random heads are recorded, and the model's are applied.
    swaps : tuple of dict
        The weights of these random heads, by layer; none if they read rotated inputs.
    calls : dict
        How attention modules are called, by the length of contexts.
    """

    name: str
    shape: ModelShape
    model: Any = field(repr=False)
    modules: tuple[str, ...] = field(default=(), repr=False)
    attends_once: bool = True
    seed: int | None = None
    swaps: tuple[Swaps, ...] = field(default=(), repr=False, compare=False)
    calls: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]], repr=False, compare=False)

    @classmethod
    def of(cls, model: Any) -> "LiveModel":
        """A model, after a run on a few tokens that shows its layers and heads."""
        name, config = type(model).__name__, model.config
        if getattr(config, "is_encoder_decoder", False):
            raise UnreadableModel(f"{name} has an encoder and a decoder; give a causal model (decoder only)")
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        n_tokens = getattr(text, "vocab_size", None)
        with suppress(NotImplementedError):  # in models of images and sound
            embedding = getattr(model.get_input_embeddings(), "weight", None)
            n_tokens = n_tokens if embedding is None else len(embedding)
        if n_tokens is None:
            raise UnreadableModel(f"{name} has no vocabulary; give a causal model that reads input_ids")
        sizes = (getattr(text, size, None) for size in ("max_position_embeddings", "n_positions"))
        longest = next((size for size in sizes if type(size) is int and size > 0), None)
        whole = cls(name, ModelShape(0, 0, n_tokens, longest), model)
        tap = Tap()

        def run(ids: Tensor) -> list[Tensor]:
            patterns = list[Tensor]()
            tap.see = lambda _, attention: patterns.append(attention.rows().detach().cpu())
            whole._run(ids, tap, logits=False)
            return patterns

        names = {id(module): path for path, module in model.named_modules()}
        shape = probe_patterns(name, run, n_tokens, longest)
        whole = replace(whole, shape=shape, modules=tuple(names[id(module)] for module in tap.modules))
        layers = list[int]()
        whole._run(torch.zeros(1, 1, dtype=torch.int64), Tap(), lambda layer, _: layers.append(layer))
        return replace(whole, attends_once=layers == list(range(shape.n_layers)))

    def _run(
        self, tokens: Integers | Tensor, tap: Tap, read: ReadCall | None = None, *, logits: bool = True
    ) -> Any:
        """Run the model with its attention tapped; the logits are None if they are not needed."""
        ids = torch.as_tensor(tokens)
        with suppress(NotImplementedError):
            weight = getattr(self.model.get_input_embeddings(), "weight", ids)
            ids = ids if weight.is_meta else ids.to(weight.device)
        modules = self._modules
        with ExitStack() as stack:
            stack.enter_context(tapped(self.model, tap, ids.shape, modules))
            if read is not None:

                def enter(module: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
                    if not tap.stopping:
                        tap.heed()
                        read(tap.layer, ModuleCall(module, arguments, options, tap))

                for module in dict.fromkeys(modules):
                    stack.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
            body = self.model if logits else getattr(self.model, "base_model", self.model)
            out = body(input_ids=ids, use_cache=False, return_dict=True)
        return out.logits if logits else None

    def watch(
        self,
        tokens: Integers | Tensor,
        *,
        edit_patterns: PatternEdit | None = None,
        edit_outputs: OutputEdit | None = None,
    ) -> Watched:
        """Run the model on contexts of one length, see :class:`~attomaton.heads.model.HeadModel`.

        Edits get tensors on the device of their layer; what is returned is on the CPU.
        """
        edited = edit_patterns is not None or edit_outputs is not None
        slopes = edited and torch.is_grad_enabled()
        tap = Tap(edit_patterns=edit_patterns, edit_outputs=edit_outputs, keep_slopes=slopes)
        return self._watch(tokens, tap)

    def _watch(self, tokens: Integers | Tensor, tap: Tap) -> Watched:
        """Logits and patterns."""
        ids, patterns = check_contexts(tokens, self.shape), list[Tensor]()

        def read(layer: int, call: ModuleCall) -> None:
            patterns.append(self._attend(layer, call, call.inputs).detach().cpu())

        if self.seed is None:
            tap.see = lambda _, attention: patterns.append(attention.rows().detach().cpu())
        logits = self._run(ids, tap, None if self.seed is None else read).cpu()
        return Watched(logits.to(torch.promote_types(logits.dtype, torch.float32)), tuple(patterns))

    def record(
        self,
        tokens: Integers,
        positions: Tensor,
        write: WriteRows,
        *,
        random: Sequence["LiveModel"] = (),
        reads: WriteReads = silent,
        layers: Sequence[int] | None = None,
    ) -> None:
        """Run the model and hand on rows, see :class:`~attomaton.heads.model.LayeredModel`."""
        sets: list[LiveModel] = [self, *random]
        wanted = range(self.shape.n_layers) if layers is None else layers
        # hooks that offload weights need the whole run
        last = None if any(hasattr(module, "_hf_hook") for module in self.model.modules()) else max(wanted)

        def read(layer: int, call: ModuleCall) -> None:
            if layer not in wanted:
                return
            reads(layer, call.inputs)
            for number, model in enumerate(sets):
                if model.seed is not None:
                    write(layer, number, model._attend(layer, call, call.inputs, positions))

        def see(layer: int, attention: AttentionReading) -> None:
            if self.seed is None and layer in wanted:
                write(layer, 0, attention.rows(positions))
            if layer == last:
                raise StopAtAttention

        ids = check_contexts(tokens, self.shape)
        with suppress(StopAtAttention):
            self._run(ids, Tap(see=see), read if self.attends_once else None, logits=False)

    def run_edits(
        self, tokens: Integers | Tensor, runs: Sequence[tuple[int, Edits]], scored: Tensor
    ) -> Iterator[Tensor]:
        """The logits of several runs, each of the whole model."""
        for _, edits in runs:
            tap = Tap(edit_patterns=edits.get("edit_patterns"), edit_outputs=edits.get("edit_outputs"))
            yield self._watch(tokens, tap).logits[:, scored]

    def reads_from(self, model: Any) -> bool:
        """Whether these are random heads that read the residual stream of the other model."""
        return self.seed is not None and getattr(model, "model", None) is self.model

    def rotate(self, *, seed: int) -> "LiveModel":
        """The model with random heads that read the same residual stream and write nothing.

        Every head reads through rotations of its own if the weights that it reads through are in reach.
        Otherwise all heads share a rotation for queries and one for keys.
        """
        if not self.attends_once:
            raise UnsupportedOption(
                f"an attention module of {self.name} attends more than once when it is called"
            )
        draw, swaps = make_generator(seed), list[Swaps]()
        for groups in self._layouts if all(self._layouts) else ():
            swaps.append({})
            for group in groups:
                group.rotate(swaps[-1], draw)
        if not swaps and not uses_interface(self.model):
            raise UnsupportedOption(
                f"the query and key weights of {self.name} are out of reach, and it does not use the "
                "attention interface of transformers"
            )
        name = f"{self.name} with rotated {'heads' if swaps else 'inputs'} beside its own, seed {seed}"
        return replace(self, name=name, seed=seed, swaps=tuple(swaps))

    @property
    def shares_rotations(self) -> bool:
        """Whether these are random heads, and all heads of a layer read through the same rotation."""
        return self.seed is not None and not self.swaps

    @cached_property
    def _layouts(self) -> list[list[HeadUnits]]:
        """What the heads of each layer read through; empty for a layer whose weights are out of reach."""
        layouts = list[list[HeadUnits]]()
        length = min(PROBE, self.shape.longest or PROBE)
        ids = (
            torch.arange(NOISE_CONTEXTS * length)
            .remainder(self.shape.n_tokens)
            .reshape(NOISE_CONTEXTS, length)
        )
        self._run(ids, Tap(), lambda _, call: layouts.append(find_units(call)), logits=False)
        return layouts

    def _attend(
        self, layer: int, call: ModuleCall, inputs: Tensor, positions: Tensor | None = None
    ) -> Tensor:
        """The patterns of a layer, or of its random heads, on given inputs at some positions."""
        if self.seed is None:
            return call.attend(inputs).rows(positions)
        if self.swaps:
            return call.attend(inputs, SwappedWeights(self.swaps[layer])).rows(positions)
        frames = (draw_rotation(inputs.shape[-1], 2 * self.seed + side) for side in (0, 1))
        queries, keys = (cast("AttentionCall", call.attend(inputs @ frame.to(inputs))) for frame in frames)
        return queries.rows(positions, key=keys.key)

    def score_inputs(self, layer: int, inputs: Any, keys: Int64, lags: Int64, texts: Int64) -> Float64:
        """Logarithms of patterns, which are scores up to a constant of each row.

        The inputs of the rows of a text are put into one context, the mean input elsewhere. The last two keys
        share the first position, so there are two such contexts. Keys that a head cannot attend to have the
        least score of their row.
        """
        query, (names, numbers) = lags[:, -1], np.unique(texts, return_inverse=True)
        length = -(-int(query.max() + 1) // PADDED) * PADDED
        length = min(length, self.shape.longest or length)
        contexts = np.full((2, len(names), length), len(inputs) - 2)
        for column in range(keys.shape[1]):
            contexts[:, numbers, query - lags[:, column]] = keys[:, column]
        contexts[1, numbers, 0] = keys[:, -2]
        scores, again = (
            self._attend_contexts(layer, inputs, each, numbers, query, query[:, None] - lags)
            for each in contexts
        )
        best = scores[:, :, :-2].argmax(-1, keepdims=True)
        ratio = np.take_along_axis(scores, best, 2) / np.take_along_axis(again, best, 2)
        scores[:, :, -2] = again[:, :, -2] * ratio[:, :, 0]
        least = np.where(scores > 0, scores, np.inf).min(-1, keepdims=True)
        return np.log(np.maximum(scores, np.where(np.isfinite(least), least, 1.0)))

    def _attend_contexts(
        self, layer: int, inputs: Any, contexts: Int64, numbers: Int64, query: Int64, keys: Int64
    ) -> Float64:
        """The attention of a layer in contexts of inputs, from some positions to others, for each query."""
        calls, n = self._call_modules(contexts.shape[1]), max(MODULE_TOKENS // contexts.shape[1], 1)
        table = torch.as_tensor(inputs).to(calls[layer].inputs)
        attention = np.empty((len(keys), self.shape.n_heads, keys.shape[1]))
        for start in range(0, len(contexts), n):
            batch = [min(context, len(contexts) - 1) for context in range(start, start + n)]
            rows = np.flatnonzero((numbers >= start) & (numbers < start + n))
            row, column = numbers[rows] - start, count_equal(numbers[rows])
            positions = np.zeros((n, column.max() + 1), np.int64)
            positions[row, column] = query[rows]
            read, tap = table[torch.as_tensor(contexts[batch], device=table.device)], Tap()
            with tapped(self.model, tap, (n, contexts.shape[1]), self._modules):
                rows_seen = self._attend(
                    layer, replace(calls[layer], tap=tap), read, torch.as_tensor(positions)
                )
            patterns = rows_seen.cpu().double().numpy()[row, :, column]
            attention[rows] = np.take_along_axis(patterns, keys[rows, None], 2)
        return attention

    def _call_modules(self, length: int) -> list[ModuleCall]:
        """The calls of all attention modules in a run on contexts of a length, with the inputs emptied."""
        if length not in self.calls:
            calls = self.calls[length] = list[ModuleCall]()
            ids = torch.zeros(max(MODULE_TOKENS // length, 1), length, dtype=torch.int64)
            self._run(
                ids, Tap(), lambda _, call: calls.append(call.on(call.inputs.new_empty(0))), logits=False
            )
        return self.calls[length]

    @property
    def _modules(self) -> list[Any]:
        return [self.model.get_submodule(name) for name in self.modules]

    # what only attomaton's own forward pass computes

    @cached_property
    def _reference(self) -> Transformer:
        """The same model in attomaton's forward pass, for what needs the weights of a known family."""
        try:
            return read_object(self.model)
        except UnreadableModel as error:
            reason = str(error).split("; ", 1)[0]
            raise UnsupportedOption(
                "token scores, and what a head writes, need weights that attomaton reads, and it does not "
                f"read those of {self.name} ({reason}); leave that out"
            ) from error

    def score_tokens(self, head: Head, queries: Integers, keys: Integers, *, lag: int = 0) -> Float64:
        """The head's scores of tokens, see :class:`~attomaton.heads.model.HeadModel`."""
        return self._reference.score_tokens(head, queries, keys, lag=lag)

    def project_tokens(self, layer: int, *, lag: int = 0) -> tuple[Tensor, Tensor]:
        """Queries and keys of every token from its own embedding."""
        return self._reference.project_tokens(layer, lag=lag)

    def write_logits(self, head: Head, tokens: Integers) -> Float64:
        """What the head adds to the logits, see :class:`~attomaton.heads.model.HeadModel`."""
        return self._reference.write_logits(head, tokens)


@lru_cache(maxsize=8)
def draw_rotation(size: int, seed: int) -> Tensor:
    """A random rotation, the same for every device."""
    return draw_frame(size, size, make_generator(seed))


def count_equal(sorted_numbers: Int64) -> Int64:
    """How many equal numbers come before each of them."""
    first = np.searchsorted(sorted_numbers, sorted_numbers)
    return np.arange(len(sorted_numbers)) - first
