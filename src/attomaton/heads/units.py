"""What each attention head of a module reads its queries and keys through, found by gradients.

A unit is an output of a linear map: a row of its weight. If the maps of an attention module return noise, the
gradient of a head's attention by this noise shows which units give the head its queries or keys.
``find_units`` does this, and ``HeadUnits.rotate`` then gives a head random queries or keys.
"""

from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attomaton.heads.rotations import make_generator, rotate_weight
from attomaton.heads.taps import MATMUL, AttentionReading, StopAtAttention, Tap

_torch: Any = torch  # its type stubs leave some functions partly unknown

COUPLED = 0.1  # the least slope of a head that reads a unit, relative to the largest of all heads

TRANSPOSE: Any = _torch.Tensor.T.__get__  # the function that a mode sees when a module uses `weight.T`

# Functions that apply a linear map → whether its weight is transposed, of shape (dim, n_units).
LINEAR: dict[Any, bool] = {functional.linear: False, torch.addmm: True, **dict.fromkeys(MATMUL, True)}

ROOTS = (torch.rsqrt, Tensor.rsqrt)  # in norms, where each head may depend on the units of all
DAMPED = 1e-3  # factor on slopes through roots, which alone show a unit with a gain of zero

Swaps = dict[int, Tensor]  # the id of a weight → the tensor that replaces it


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """An attention module and the arguments with which a model calls it."""

    module: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    tap: Tap

    @property
    def inputs(self) -> Tensor:
        """What the module reads, shape (n, length, dim)."""
        return self.options["hidden_states"] if "hidden_states" in self.options else self.arguments[0]

    def on(self, inputs: Tensor) -> "ModuleCall":
        if "hidden_states" in self.options:
            return replace(self, options={**self.options, "hidden_states": inputs})
        return replace(self, arguments=(inputs, *self.arguments[1:]))

    def attend(self, inputs: Tensor, mode: TorchFunctionMode | None = None) -> AttentionReading:
        """The attention of the module on other inputs, or under a mode, without effect on the model."""
        call = self.on(inputs)
        self.tap.stopping = True
        self.tap.caught = None
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


class AppliedMap(NamedTuple):
    """The weight of a linear map that was applied, whether it is transposed, and the noise it returned."""

    weight: Tensor
    transposed: bool
    noise: Tensor


class NoisyProjections(TorchFunctionMode):
    """Linear maps of a module return noise instead, so that gradients show which heads read it."""

    def __init__(self, call: ModuleCall) -> None:
        super().__init__()
        # The id of a weight, or of its transpose → the weight, the tensor with the id, and whether it is
        # transposed. The tensor is kept, since another one could get its id.
        self.weights: dict[int, tuple[Tensor, Tensor, bool]] = {
            id(weight): (weight, weight, False)
            for weight in call.module.parameters()
            if weight.ndim == 2 and weight.is_floating_point() and not weight.is_meta
        }
        self.shape = call.inputs.shape[:2]
        self.draw = make_generator(0)
        self.outputs = list[AppliedMap]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in ROOTS:  # the same value, with DAMPED times its slope
            return result.detach() + DAMPED * (result - result.detach())
        projection = next(
            (self.weights[id(argument)] for argument in args if id(argument) in self.weights), None
        )
        if projection is None:
            return result
        weight, _, is_transposed = projection
        if func == TRANSPOSE:
            self.weights[id(result)] = weight, result, not is_transposed
        # an output for each position of the contexts; otherwise the map was applied to something else
        if func not in LINEAR or result.numel() != self.shape.numel() * result.shape[-1]:
            return result
        noise = torch.randn(result.shape, generator=self.draw).to(result).requires_grad_()
        self.outputs.append(AppliedMap(weight, LINEAR[func] != is_transposed, noise))
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
        copied = swaps.setdefault(id(self.weight), self.weight.detach().clone())
        rows = copied.T if self.transposed else copied
        rows[self.units] = rotate_weight(rows[self.units].T.cpu(), draw).T.to(rows)


def find_units(call: ModuleCall) -> list[HeadUnits]:
    """Which units of which weights each head reads, queries first; empty if a head has no units to itself."""
    projections = NoisyProjections(call)
    draw = make_generator(1)
    with torch.enable_grad():
        # a random sum of the attention of each head at the last position: its slope is zero where the head
        # reads no noise, and elsewhere almost surely not
        pattern = call.attend(call.inputs.detach(), projections).rows()[:, :, -1]
        scores = (pattern * torch.randn(pattern.shape, generator=draw).to(pattern)).sum((0, 2)).unbind()
    noises = [applied.noise for applied in projections.outputs]
    if not noises or not pattern.requires_grad:
        return []
    slopes = [_torch.autograd.grad(score, noises, retain_graph=True, allow_unused=True) for score in scores]
    groups = list[HeadUnits]()
    for applied, *by_head in zip(projections.outputs, *slopes, strict=True):
        size = (*projections.shape, applied.noise.shape[-1])
        squares = [
            np.zeros(size) if slope is None else slope.reshape(size).cpu().double() ** 2 for slope in by_head
        ]
        groups += _group_units(applied.weight, applied.transposed, np.array(squares))
    heads_alone = {group.heads for group in groups if len(group.heads) == 1}
    if len(heads_alone) < len(scores) or not any(group.keys for group in groups):
        return []
    return sorted(groups, key=lambda group: (group.keys, group.heads))


# Group the units of a weight by the heads that read them, from squared slopes of heads by outputs.
#
# The squares have shape (n_heads, n, length, n_units). The pattern of the last position depends on
# queries at this position alone, and on keys at all positions.
def _group_units(weight: Tensor, transposed: bool, squares: Any) -> list[HeadUnits]:
    strength = squares.sum((1, 2))  # (n_heads, n_units)
    is_key = squares[:, :, :-1].sum((0, 1, 2)) > 0  # read before the last position, so as keys
    reads = (strength > COUPLED**2 * strength.max(0)) & (strength > 0)
    reads_keys = reads[:, is_key]
    # Heads that share a key unit share all of them, also in chains, although a head may read some units
    # weakly. Products of boolean matrices are "and" and "or", so squaring leads from shared units to all
    # chains.
    share_keys = reads_keys @ reads_keys.T
    for _ in range(len(reads)):
        share_keys = share_keys @ share_keys
    reads[:, is_key] = share_keys @ reads_keys
    # units with equal columns, (is it a key, which heads read it), are one group
    kinds = np.concatenate([is_key[None], reads])  # one column per unit
    groups = list[HeadUnits]()
    for kind in np.unique(kinds[:, reads.any(0)], axis=1).T:
        units = torch.as_tensor(np.flatnonzero((kinds == kind[:, None]).all(0)))
        heads = tuple(np.flatnonzero(kind[1:]).tolist())
        groups.append(HeadUnits(weight, transposed, units, bool(kind[0]), heads))
    return groups
