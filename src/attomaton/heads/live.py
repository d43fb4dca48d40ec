"""A causal ``transformers`` model that runs its own code, on its own device and in its own type.

``open_model`` calls ``LiveModel.of``. Every run of the model is ``LiveModel._run``, under a ``Tap`` that gets
the attention of each layer. Rows of attention are computed for sampled queries only. For random heads the
attention modules run again with rotated query and key weights, a rotation for each head. If these weights are
quantised or offloaded, the modules run on rotated inputs instead, with one rotation for all heads.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

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
from attomaton.heads.rotations import draw_frame, make_generator
from attomaton.heads.taps import AttentionCall, AttentionReading, StopAtAttention, Tap, tapped, uses_interface
from attomaton.heads.transformer import Transformer
from attomaton.heads.units import HeadUnits, ModuleCall, SwappedWeights, Swaps, find_units

MODULE_TOKENS = 2048  # tokens on which attention modules are run at once, to bound memory
PADDED = 64  # contexts are padded to a multiple of this length, so that few lengths of calls are kept

NOISE_CONTEXTS = 16  # contexts of noise on which the units that heads read are found

ReadCall = Callable[[int, ModuleCall], object]  # called with the number of a layer and the call of its module


@dataclass(frozen=True, eq=False)
class LiveModel:
    """A causal model of ``transformers`` whose own code is run, on its own device.

    ``shape`` is found by a run on a few tokens. The ``model`` is switched for each run, and switched back.
    Layers are those that attend, in their order; ``modules`` are the names of their attention modules, and
    ``attends_once`` says whether each module attends once when it is called (otherwise there are no random
    heads). With a ``seed``, the patterns of random heads are recorded, and those of the model are applied.
    ``swaps`` are the weights of the random heads by layer, empty if they read rotated inputs. ``calls`` are
    the calls of the attention modules, by the length of contexts.
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
        """A model, after a run on a few tokens to find its layers and heads."""
        name = type(model).__name__
        config = model.config
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

        # first run: how many layers and heads attend, and in which modules
        probed = cls(name, ModelShape(0, 0, n_tokens, longest), model)
        tap = Tap()

        def run(ids: Tensor) -> list[Tensor]:
            patterns = list[Tensor]()
            tap.see = lambda _, attention: patterns.append(attention.rows().detach().cpu())
            probed._run(ids, tap, logits=False)
            return patterns

        shape = probe_patterns(name, run, n_tokens, longest)
        names = {id(module): path for path, module in model.named_modules()}
        opened = replace(probed, shape=shape, modules=tuple(names[id(module)] for module in tap.modules))

        # second run: whether each call of a module is one layer, in the order of the layers
        called = list[int]()
        opened._run(torch.zeros(1, 1, dtype=torch.int64), Tap(), lambda layer, _: called.append(layer))
        return replace(opened, attends_once=called == list(range(shape.n_layers)))

    # Run the model on contexts with its attention tapped; the logits are None if they are not needed.
    #
    # `read` is called before each attention module with its layer and its call.
    def _run(
        self, tokens: Integers | Tensor, tap: Tap, read: ReadCall | None = None, *, logits: bool = True
    ) -> Any:
        ids = torch.as_tensor(tokens)
        with suppress(NotImplementedError):  # in models of images and sound
            weight = getattr(self.model.get_input_embeddings(), "weight", ids)
            ids = ids if weight.is_meta else ids.to(weight.device)
        modules = self._modules
        with ExitStack() as stack:
            stack.enter_context(tapped(self.model, tap, ids.shape, modules))
            if read is not None:

                def enter(module: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
                    if not tap.stopping:  # otherwise this call was made by `read` itself
                        tap.heed()
                        read(tap.layer, ModuleCall(module, arguments, options, tap))

                for module in dict.fromkeys(modules):
                    stack.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
            body = self.model if logits else getattr(self.model, "base_model", self.model)
            out = body(input_ids=ids, use_cache=False, return_dict=True)
        if logits and not hasattr(out, "logits"):
            raise UnreadableModel(
                f"{self.name} has no logits; open the model with AutoModelForCausalLM instead of AutoModel"
            )
        return out.logits if logits else None

    def watch(
        self,
        tokens: Integers | Tensor,
        *,
        edit_patterns: PatternEdit | None = None,
        edit_outputs: OutputEdit | None = None,
    ) -> Watched:
        """Run the model; edits get tensors on the device of their layer, and the result is on the CPU."""
        is_edited = edit_patterns is not None or edit_outputs is not None
        keep_slopes = is_edited and torch.is_grad_enabled()
        tap = Tap(edit_patterns=edit_patterns, edit_outputs=edit_outputs, keep_slopes=keep_slopes)
        return self._watch(tokens, tap)

    def _watch(self, tokens: Integers | Tensor, tap: Tap) -> Watched:
        # logits, and the patterns of the recorded heads: those of the model, or with a seed the random ones
        ids = check_contexts(tokens, self.shape)
        patterns = list[Tensor]()

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
        """Run the model and write rows, see :class:`~attomaton.heads.model.LayeredModel`."""
        head_sets: list[LiveModel] = [self, *random]
        wanted = range(self.shape.n_layers) if layers is None else layers
        # the run ends after this layer, except if hooks offload weights, which they do at the end
        last = None if any(hasattr(module, "_hf_hook") for module in self.model.modules()) else max(wanted)

        def read(layer: int, call: ModuleCall) -> None:
            if layer not in wanted:
                return
            reads(layer, call.inputs)
            for head_set, model in enumerate(head_sets):
                if model.seed is not None:
                    write(layer, head_set, model._attend(layer, call, call.inputs, positions))

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
        # every run is a whole run of the model: its own code cannot begin at a layer
        for _, edits in runs:
            tap = Tap(edit_patterns=edits.get("edit_patterns"), edit_outputs=edits.get("edit_outputs"))
            yield self._watch(tokens, tap).logits[:, scored]

    def reads_from(self, model: Any) -> bool:
        # whether this model has random heads that read the residual stream of the other model
        return self.seed is not None and getattr(model, "model", None) is self.model

    def rotate(self, *, seed: int) -> "LiveModel":
        """The model with random heads, which read the residual stream of the model and write nothing."""
        if not self.attends_once:
            raise UnsupportedOption(
                f"an attention module of {self.name} attends more than once when it is called"
            )
        draw = make_generator(seed)
        swaps = list[Swaps]()
        # the heads of a layer share two rotations if some query or key weights are out of reach
        for layout in self._layouts if all(self._layouts) else ():
            swaps.append({})
            for units in layout:
                units.rotate(swaps[-1], draw)
        if not swaps and not uses_interface(self.model):
            raise UnsupportedOption(
                f"the query and key weights of {self.name} are out of reach, and it does not use the "
                "attention interface of transformers"
            )
        name = f"{self.name} with rotated {'heads' if swaps else 'inputs'} beside its own, seed {seed}"
        return replace(self, name=name, seed=seed, swaps=tuple(swaps))

    @property
    def shares_rotations(self) -> bool:
        """Whether this model has random heads, and all heads of a layer share their rotations."""
        return self.seed is not None and not self.swaps

    # The units that the heads of each layer read; empty for a layer whose weights cannot be reached. They
    # are found on contexts of all tokens in turn: 0, 1, 2, …
    @cached_property
    def _layouts(self) -> list[list[HeadUnits]]:
        layouts = list[list[HeadUnits]]()
        length = min(PROBE, self.shape.longest or PROBE)
        ids = torch.arange(NOISE_CONTEXTS * length).remainder(self.shape.n_tokens).reshape(-1, length)
        self._run(ids, Tap(), lambda _, call: layouts.append(find_units(call)), logits=False)
        return layouts

    def _attend(
        self, layer: int, call: ModuleCall, inputs: Tensor, positions: Tensor | None = None
    ) -> Tensor:
        # rows of the recorded heads on these inputs, shape (n, n_heads, n_positions, length)
        if self.seed is None:
            return call.attend(inputs).rows(positions)
        if self.swaps:
            return call.attend(inputs, SwappedWeights(self.swaps[layer])).rows(positions)
        # a rotation of the inputs for queries and another for keys; the two seeds differ from those of all
        # other models
        frames = (draw_rotation(inputs.shape[-1], 2 * self.seed + side) for side in (0, 1))
        queries, keys = (cast("AttentionCall", call.attend(inputs @ frame.to(inputs))) for frame in frames)
        return queries.rows(positions, key=keys.key)

    def score_inputs(self, layer: int, inputs: Any, keys: Int64, lags: Int64, texts: Int64) -> Float64:
        """Logarithms of attention, which are scores up to a constant in each row."""
        # The inputs of all queries of a text are put into one context, the mean input elsewhere. The last two
        # keys are both at the first position, so attention is computed in two contexts, and the second is
        # scaled to agree with the first. Keys that a head cannot attend to have the least score of their row.
        positions = lags[:, -1]  # of the queries: the last key is the first position of the context
        names, context = np.unique(texts, return_inverse=True)
        length = -(-int(positions.max() + 1) // PADDED) * PADDED
        length = min(length, self.shape.longest or length)
        # two sets of contexts, a row per text; entries are indices of inputs, of which the last but one is
        # the mean
        contexts = np.full((2, len(names), length), len(inputs) - 2)
        for column in range(keys.shape[1]):
            contexts[:, context, positions - lags[:, column]] = keys[:, column]
        contexts[1, context, 0] = keys[:, -2]  # the loop left the last key there
        key_positions = positions[:, None] - lags
        attention, second = (
            self._attend_contexts(layer, inputs, ids, context, positions, key_positions) for ids in contexts
        )
        # rows of the two softmaxes differ by a factor except at the first position; the key with the most
        # attention gives the factor with the least rounding
        best = attention[:, :, :-2].argmax(-1, keepdims=True)
        ratio = np.take_along_axis(attention, best, 2) / np.take_along_axis(second, best, 2)
        attention[:, :, -2] = second[:, :, -2] * ratio[:, :, 0]
        least = np.where(attention > 0, attention, np.inf).min(-1, keepdims=True)
        return np.log(np.maximum(attention, np.where(np.isfinite(least), least, 1.0)))

    # The attention of a layer from each query to its keys, shape (n, n_heads, n_keys).
    #
    # `contexts` (n_contexts, length) are indices of inputs. Query i is at `positions[i]` of context
    # `context[i]`, which ascends, and its keys are at `key_positions[i]`.
    def _attend_contexts(
        self, layer: int, inputs: Any, contexts: Int64, context: Int64, positions: Int64, key_positions: Int64
    ) -> Float64:
        length = contexts.shape[1]
        calls = self._call_modules(length)
        n_at_once = max(MODULE_TOKENS // length, 1)
        table = torch.as_tensor(inputs).to(calls[layer].inputs)
        attention = np.empty((len(key_positions), self.shape.n_heads, key_positions.shape[1]))
        for start in range(0, len(contexts), n_at_once):
            # a module was called with n_at_once contexts, so the last context fills up the last batch
            batch = [min(index, len(contexts) - 1) for index in range(start, start + n_at_once)]
            queries = np.flatnonzero((context >= start) & (context < start + n_at_once))
            # batch_positions[row, column] is the position of a query: its context in the batch, and the
            # number of queries of this context before it
            row = context[queries] - start
            column = count_equal(context[queries])
            batch_positions = np.zeros((n_at_once, column.max() + 1), np.int64)
            batch_positions[row, column] = positions[queries]
            read = table[torch.as_tensor(contexts[batch], device=table.device)]
            tap = Tap()
            with tapped(self.model, tap, (n_at_once, length), self._modules):
                call = replace(calls[layer], tap=tap)
                patterns = self._attend(layer, call, read, torch.as_tensor(batch_positions))
            of_queries = patterns.cpu().double().numpy()[row, :, column]
            attention[queries] = np.take_along_axis(of_queries, key_positions[queries, None], 2)
        return attention

    # The calls of all attention modules in a run on contexts of this length, with empty inputs.
    def _call_modules(self, length: int) -> list[ModuleCall]:
        if length not in self.calls:
            calls = self.calls[length] = list[ModuleCall]()
            ids = torch.zeros(max(MODULE_TOKENS // length, 1), length, dtype=torch.int64)

            def keep(_: int, call: ModuleCall) -> None:
                calls.append(call.on(call.inputs.new_empty(0)))

            self._run(ids, Tap(), keep, logits=False)
        return self.calls[length]

    @property
    def _modules(self) -> list[Any]:
        return [self.model.get_submodule(name) for name in self.modules]

    # computed from the weights by attomaton's forward pass

    @cached_property
    def _reference(self) -> Transformer:
        # the same weights in attomaton's forward pass, for what needs weights and not attention
        try:
            return read_object(self.model)
        except UnreadableModel as error:
            reason = str(error).split("; ", 1)[0]
            raise UnsupportedOption(
                f"attomaton cannot read the weights of {self.name} ({reason}), so token scores and what a "
                "head writes are not available; do not request them"
            ) from error

    def score_tokens(self, head: Head, queries: Integers, keys: Integers, *, lag: int = 0) -> Float64:
        return self._reference.score_tokens(head, queries, keys, lag=lag)

    def project_tokens(self, layer: int, *, lag: int = 0) -> tuple[Tensor, Tensor]:
        return self._reference.project_tokens(layer, lag=lag)

    def write_logits(self, head: Head, tokens: Integers) -> Float64:
        return self._reference.write_logits(head, tokens)


@lru_cache(maxsize=8)
def draw_rotation(size: int, seed: int) -> Tensor:
    """A random rotation (size, size), on the CPU so that it is the same for every device."""
    return draw_frame(size, size, make_generator(seed))


def count_equal(sorted_numbers: Int64) -> Int64:
    """How many equal numbers come before each of them."""
    first = np.searchsorted(sorted_numbers, sorted_numbers)
    return np.arange(len(sorted_numbers)) - first
