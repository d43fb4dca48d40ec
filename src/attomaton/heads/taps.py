"""Attention of ``transformers`` models, tapped where their own code computes it."""

# Inside `with tapped(model, tap, …)`, each layer of the model gives its attention to the `Tap`. Models that
# use the library's attention interface call `_attend`, as if it were an implementation such as sdpa. It calls
# the eager attention of the model's family on sampled rows; so soft caps, sinks, windows, grouped and latent
# keys need no code here. Older models write attention out: `WrittenAttention` sees their `softmax` and
# `matmul`.

import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import RLock, current_thread, main_thread
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel, masking_utils

from attomaton.base.errors import UnreadableModel, UnsupportedOption
from attomaton.base.progress import silent
from attomaton.heads.model import OutputEdit, PatternEdit, keep_shape

_torch: Any = torch  # its type stubs leave some functions partly unknown
_interface: Any = AttentionInterface
_masks: Any = AttentionMaskInterface
_mask_functions: Any = masking_utils

IMPLEMENTATION = "attomaton"  # the attention implementation of a model while it is tapped
PATTERN_ROWS = 64  # rows of attention that are computed at once where no pattern is edited
SWITCH = "_attn_implementation_internal"  # the attribute of configurations that names it

MATMUL = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm)
SOFTMAX = (functional.softmax, torch.softmax, Tensor.softmax)


class StopAtAttention(Exception):
    """Ends the run of an attention module once its attention is known."""


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What a model passes to the interface: queries (n, n_heads, length, width), keys, values and mask."""

    module: Any
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    options: dict[str, Any]

    @property
    def eager(self) -> Callable[..., Any]:
        """The eager attention in the file that defines the class of the module, or one of its bases."""
        for kind in type(self.module).__mro__:
            function = getattr(sys.modules.get(kind.__module__), "eager_attention_forward", None)
            if function is not None:
                return function
        raise UnreadableModel(
            f"{type(self.module).__name__} has no eager attention; give a model that transformers defines"
        )

    def rows(self, positions: Tensor | None = None, *, key: Tensor | None = None) -> Tensor:
        """The pattern at positions (n, n_positions), or all, shape (n, n_heads, n_positions, length).

        In float32 at least: few rows are computed, and a softmax in bfloat16 keeps two digits. ``key``
        replaces the keys of the call.
        """
        query, mask = self.query, self.mask
        key = self.key if key is None else key
        if positions is not None:
            index = positions.to(query.device)[:, None, :, None]
            query = _torch.take_along_dim(query, index, 2)
            if mask is not None and mask.shape[-2] == key.shape[-2]:  # a row per query, not one for all
                mask = _torch.take_along_dim(mask.expand(len(query), *mask.shape[1:]), index, 2)
        wide = torch.promote_types(query.dtype, torch.float32)
        widened = (tensor.to(wide) for tensor in (query, key, self.value))
        return self.eager(self.module, *widened, mask, **self.options)[1]

    def pattern(self) -> Tensor:
        """The whole pattern in the type of the model, shape (n, n_heads, length, length)."""
        return self.eager(self.module, self.query, self.key, self.value, self.mask, **self.options)[1]

    def apply(self, pattern: Tensor) -> Tensor:
        """The outputs of the heads (n, length, n_heads, width) with another pattern."""
        heads_per_group = pattern.shape[1] // self.value.shape[1]
        return (pattern @ self.value.repeat_interleave(heads_per_group, 1)).transpose(1, 2)

    def outputs(self, implementation: str | None) -> Tensor:
        """The outputs of the heads, by sdpa if the model uses it, otherwise in blocks of rows."""
        if implementation == "sdpa":
            sdpa = _interface()["sdpa"]
            return sdpa(self.module, self.query, self.key, self.value, self.mask, **self.options)[0]
        blocks = list[Tensor]()
        for start in range(0, self.query.shape[2], PATTERN_ROWS):
            rows = slice(start, start + PATTERN_ROWS)
            mask = None if self.mask is None else self.mask[:, :, rows]
            query = self.query[:, :, rows]
            blocks.append(self.eager(self.module, query, self.key, self.value, mask, **self.options)[0])
        return torch.cat(blocks, 1)


@dataclass(frozen=True, eq=False)
class WrittenPattern:
    """A pattern that a module computed as a whole, shape (n, n_heads, length, length)."""

    whole: Tensor

    def rows(self, positions: Tensor | None = None) -> Tensor:
        # as AttentionCall.rows
        rows = self.whole.to(torch.promote_types(self.whole.dtype, torch.float32))
        if positions is None:
            return rows
        return _torch.take_along_dim(rows, positions.to(rows.device)[:, None, :, None], 2)


AttentionReading = AttentionCall | WrittenPattern


@dataclass(eq=False)
class Tap:
    """What is done with the attention of each layer, in the order in which a run computes it.

    ``see`` gets the attention; the edits replace patterns and outputs. ``keep_slopes`` says that gradients
    are wanted. While ``stopping``, an attention module runs only until its attention is ``caught``. ``heed``
    raises what Ctrl-C raises, if it was pressed. ``layer`` counts the layers of the run, whose ``modules``
    are listed, and ``usual`` is the attention implementation of each configuration outside the run.
    """

    see: Callable[[int, AttentionReading], object] | None = None
    edit_patterns: PatternEdit | None = None
    edit_outputs: OutputEdit | None = None
    keep_slopes: bool = False
    heed: Callable[[], None] = silent
    layer: int = 0
    stopping: bool = False
    caught: AttentionReading | None = None
    modules: list[Any] = field(default_factory=list[Any])
    usual: dict[int, str | None] = field(default_factory=dict[int, str | None])

    def enter(self, module: Any, attention: AttentionReading) -> int:
        """Note that a layer of the run attends in this module, and return its number."""
        self.heed()
        layer = self.layer
        self.layer += 1
        self.modules.append(module)
        if self.see is not None:
            self.see(layer, attention)
        return layer

    def attend(self, call: AttentionCall) -> Tensor:
        """The outputs of the heads that a model gets, shape (n, length, n_heads, width)."""
        if self.stopping:
            self.caught = call
            if not hasattr(call.module, "_hf_hook"):
                raise StopAtAttention
            width = call.value.shape[-1]  # hooks that offload weights need the module to end
            return call.query.new_zeros(len(call.query), call.query.shape[2], call.query.shape[1], width)
        layer = self.enter(call.module, call)
        if self.edit_patterns is not None:
            pattern = call.pattern()
            outputs = call.apply(keep_shape(self.edit_patterns(layer, pattern), pattern, "edit_patterns"))
        else:
            outputs = call.outputs(self.usual.get(id(getattr(call.module, "config", None))))
        if self.edit_outputs is not None:
            heads = outputs.transpose(1, 2)
            outputs = keep_shape(self.edit_outputs(layer, heads), heads, "edit_outputs").transpose(1, 2)
        return outputs.contiguous()


_TAP: ContextVar[Tap | None] = ContextVar("tap", default=None)  # the tap of the run in this thread
_RUN_LOCK = RLock()  # one tapped run at a time: models are switched for it, and threads may share one


def current_tap() -> Tap:
    # an error in a thread that runs a model while another thread has switched it
    tap = _TAP.get()
    if tap is None:
        raise UnsupportedOption(
            "this model is being audited in another thread; run it after the audit, or audit a copy"
        )
    return tap


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    # registered with the attention interface, which fixes the parameters; no weights are returned
    return current_tap().attend(AttentionCall(module, query, key, value, attention_mask, options)), None


_interface.register(IMPLEMENTATION, _attend)
_masks.register(IMPLEMENTATION, _mask_functions.eager_mask)


class WrittenAttention(TorchFunctionMode):
    """Attention that a module writes out: the softmax of a square of scores, then times values.

    ``shape`` (n, length) is that of the contexts, and ``modules`` are those that attend; none means that all
    modules with parameters may attend. PyTorch calls ``begin`` and ``end`` around each module.
    """

    def __init__(self, tap: Tap, shape: Sequence[int], modules: Sequence[Any]) -> None:
        super().__init__()
        self.tap = tap
        self.n_contexts, length = shape
        self.square = (length, length)
        self.modules = set(map(id, modules))
        self.running = list[Any]()  # the modules that are running, the innermost last
        self.awaits_values = False  # between a softmax and its product with the values

    def begin(self, module: Any, _: Any) -> None:
        current_tap()
        self.running.append(module)

    def end(self, *_: Any) -> None:
        if _TAP.get() is self.tap:
            self.running.pop()

    @property
    def module(self) -> Any:
        """The innermost running module that may attend, or None."""
        for module in reversed(self.running):
            if id(module) in self.modules or (not self.modules and any(True for _ in module.parameters())):
                return module
        return None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        first = args[0] if args else None
        is_square = isinstance(first, Tensor) and first.ndim > 2 and first.shape[-2:] == self.square
        if is_square and func in SOFTMAX and self.module is not None:
            return self._take_pattern(result)
        if is_square and func in MATMUL and self.awaits_values:
            self.awaits_values = False
            if self.tap.edit_outputs is not None:
                heads = self._by_head(result)
                edited = keep_shape(self.tap.edit_outputs(self.tap.layer - 1, heads), heads, "edit_outputs")
                return edited.reshape(result.shape)
        return result

    # Pass the result of a softmax to the tap; what the model gets in place of this result.
    def _take_pattern(self, result: Tensor) -> Tensor:
        pattern = self._by_head(result)
        if self.tap.stopping:
            self.tap.caught = WrittenPattern(pattern)
            raise StopAtAttention
        layer = self.tap.enter(self.module, WrittenPattern(pattern))
        self.awaits_values = True
        if self.tap.edit_patterns is None:
            return result
        edited = keep_shape(self.tap.edit_patterns(layer, pattern), pattern, "edit_patterns")
        return edited.reshape(result.shape)

    def _by_head(self, tensor: Tensor) -> Tensor:
        # some models put contexts and heads on one axis: (n · n_heads, length, ·) → (n, n_heads, length, ·)
        return tensor.reshape(self.n_contexts, -1, *tensor.shape[-2:])


def uses_interface(model: Any) -> bool:
    # whether the model calls the attention interface of transformers; PyTorch modules without it write it out
    whole: Any = next((module for module in model.modules() if isinstance(module, PreTrainedModel)), None)
    return whole is not None and bool(whole._can_set_attn_implementation())


@contextmanager
def deferred(tap: Tap) -> Generator[None]:
    """Ctrl-C and SIGTERM wait for the next layer or the end, so that the model is always switched back."""
    # Otherwise Python may raise their exception while a hook or a mode of PyTorch is being removed.
    if current_thread() is not main_thread():  # which alone receives these signals
        yield
        return
    handlers: dict[int, Any] = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if callable(handler := signal.getsignal(number))
    }
    received = list[int]()

    def heed() -> None:
        if received:
            number = received.pop()
            handlers[number](number, None)

    try:
        for number in handlers:
            signal.signal(number, lambda number, _: received.append(number))
        tap.heed = heed
        yield
    finally:
        for number, handler in reversed(handlers.items()):
            signal.signal(number, handler)
        heed()


@contextmanager
def tapped(model: Any, tap: Tap, shape: Sequence[int], modules: Sequence[Any]) -> Generator[None]:
    """A model with its attention tapped, in evaluation mode; it is switched back at the end.

    ``shape`` is that of the contexts, ``modules`` are those that attend, empty if they are not known.
    """
    configs = {
        id(config): config
        for module in model.modules()
        if hasattr(config := getattr(module, "config", None), SWITCH)
    }
    usual = {key: getattr(config, SWITCH) for key, config in configs.items()}
    interface = uses_interface(model)
    with deferred(tap), _RUN_LOCK, torch.set_grad_enabled(tap.keep_slopes):
        training = [module for module in model.modules() if module.training]
        token = _TAP.set(tap)
        hooks = list[Any]()
        try:
            for module in training:
                module.training = False
            for config in configs.values():
                setattr(config, SWITCH, IMPLEMENTATION if interface else "eager")
            tap.usual = usual
            tap.layer = 0
            if interface:
                yield
                return
            written = WrittenAttention(tap, shape, modules)
            for module in model.modules():
                hooks.append(module.register_forward_pre_hook(written.begin))
                hooks.append(module.register_forward_hook(written.end, always_call=True))
            with written:
                yield
        finally:
            for hook in hooks:
                hook.remove()
            for key, config in configs.items():
                setattr(config, SWITCH, usual[key])
            for module in training:
                module.training = True
            _TAP.reset(token)
