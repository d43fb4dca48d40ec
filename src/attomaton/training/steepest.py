"""Steepest descent in other norms than the Frobenius norm: sign descent, spectral descent, Muon.

A step of steepest descent is the D with ‖D‖ ≤ 1 that the gradient G calls for most, D = argmin ⟨G, D⟩. In
the max norm (the largest entry) it is −sign G, in the Frobenius norm −G/‖G‖, in the spectral norm (the
largest singular value) −U Vᵀ with G = U Σ Vᵀ. Each matrix of each trial moves by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from attomaton.base.options import real_number, settle
from attomaton.training.steps import LARGEST_STEP, RAISED, Adam, GradientDescent, Parameters, find_pace

NEGLIGIBLE = 1e-9
"""Singular values below this, relative to the largest, are rounding and are left out of U Vᵀ."""

SHARES = (3.4445, -4.7750, 2.0315)
"""The polynomial whose repetition brings singular values near 1 (Jordan 2024), as PyTorch has it."""

ROUNDS = 5
"""How often it is repeated."""


@dataclass(frozen=True)
class SignDescent:
    """W ← W − η_t sign(v), v the gradient or its running mean: steepest descent in the max norm.

    Attributes
    ----------
    step_size : float
        η: how far every entry moves whose gradient is not zero.
    momentum : float
        v ← momentum · v + (1 − momentum) · gradient; 0 takes the gradient itself.
    schedule : callable, optional
        Step number → factor of η, such as :class:`~attomaton.training.steps.Decay`.

    Examples
    --------
    >>> start, slope = (torch.zeros(1, 1, 3),), (torch.tensor([[[3.0, -0.001, 0.0]]]),)
    >>> step = SignDescent(0.1)
    >>> moved, _ = step.move(start, slope, step.begin(start), 0)
    >>> [round(one, 4) for one in moved[0].flatten().tolist()]
    [-0.1, 0.1, 0.0]
    """

    step_size: float
    momentum: float = 0.0
    schedule: Callable[[int], float] | None = None

    def __post_init__(self) -> None:
        _settle(self)

    def begin(self, parameters: Parameters) -> Parameters:
        """The running means, zero."""
        return _begin(parameters, self.momentum)

    def move(
        self, parameters: Parameters, gradients: Parameters, state: Parameters, step: int
    ) -> tuple[Parameters, Parameters]:
        """New parameters and running means."""
        pace = find_pace(self.step_size, self.schedule, step)
        means, state = _average(gradients, state, self.momentum)
        return tuple(one - pace * mean.sign() for one, mean in zip(parameters, means, strict=True)), state


@dataclass(frozen=True)
class SpectralDescent:
    """W ← W − η_t U Vᵀ with v = U Σ Vᵀ the gradient or its running mean: steepest in the spectral norm.

    With momentum it is what :class:`Muon` approximates.

    Attributes
    ----------
    step_size : float
        η: every singular value of a step that is not zero.
    momentum : float
        v ← momentum · v + (1 − momentum) · gradient; 0 takes the gradient itself.
    schedule : callable, optional
        Step number → factor of η, such as :class:`~attomaton.training.steps.Decay`.

    Examples
    --------
    >>> start, slope = (torch.zeros(1, 2, 2),), (torch.tensor([[[3.0, 0.0], [0.0, -0.001]]]),)
    >>> step = SpectralDescent(0.1)
    >>> moved, _ = step.move(start, slope, step.begin(start), 0)
    >>> [round(one, 4) + 0.0 for one in moved[0].flatten().tolist()]
    [-0.1, 0.0, 0.0, 0.1]
    """

    step_size: float
    momentum: float = 0.0
    schedule: Callable[[int], float] | None = None

    def __post_init__(self) -> None:
        _settle(self)

    def begin(self, parameters: Parameters) -> Parameters:
        """The running means, zero."""
        return _begin(parameters, self.momentum)

    def move(
        self, parameters: Parameters, gradients: Parameters, state: Parameters, step: int
    ) -> tuple[Parameters, Parameters]:
        """New parameters and running means."""
        pace = find_pace(self.step_size, self.schedule, step)
        means, state = _average(gradients, state, self.momentum)
        moved = (one - pace * flatten_spectrum(mean) for one, mean in zip(parameters, means, strict=True))
        return tuple(moved), state


@dataclass(frozen=True)
class Muon:
    """Muon (Jordan 2024), without weight decay: spectral descent with momentum, U Vᵀ by five products.

    The formulas are those of ``torch.optim.Muon``: v ← momentum · v + (1 − momentum) · gradient, Nesterov's
    look ahead, and a polynomial in place of U Vᵀ that brings singular values between about 0.7 and 1.2, not
    to 1. Here all trials move at once, in the precision of the parameters and however small gradients are.
    PyTorch takes one matrix after the other, rounds it to bfloat16, and shortens steps where the gradient's
    norm is below 1e-7.

    Attributes
    ----------
    step_size : float
        η.
    momentum : float
        How much of the running mean is kept at each step.
    nesterov : bool
        Whether the gradient is mixed in once more before the step.
    schedule : callable, optional
        Step number → factor of η, such as :class:`~attomaton.training.steps.Decay`.
    native : bool
        Let ``torch.optim.Muon`` itself take the steps.

    Examples
    --------
    >>> start, slope = (torch.zeros(1, 2, 2),), (torch.tensor([[[3.0, 0.0], [0.0, -1.0]]]),)
    >>> for step in (Muon(0.1), Muon(0.1, native=True)):
    ...     moved, _ = step.move(start, slope, step.begin(start), 0)
    ...     print([round(one, 2) + 0.0 for one in moved[0].flatten().tolist()])
    [-0.08, 0.0, 0.0, 0.11]
    [-0.08, 0.0, 0.0, 0.11]
    """

    step_size: float
    momentum: float = 0.95
    nesterov: bool = True
    schedule: Callable[[int], float] | None = None
    native: bool = False

    def __post_init__(self) -> None:
        _settle(self)

    def begin(self, parameters: Parameters) -> Parameters:
        """The running means, zero."""
        return tuple(torch.zeros_like(one) for one in parameters)

    def move(
        self, parameters: Parameters, gradients: Parameters, state: Parameters, step: int
    ) -> tuple[Parameters, Parameters]:
        """New parameters and running means."""
        pace = find_pace(self.step_size, self.schedule, step)
        if self.native:
            moved = [
                _move_native(*parts, pace, self) for parts in zip(parameters, gradients, state, strict=True)
            ]
            return tuple(one for one, _ in moved), tuple(one for _, one in moved)
        kept = self.momentum
        means = tuple(kept * old + (1 - kept) * new for old, new in zip(state, gradients, strict=True))
        ahead = means
        if self.nesterov:
            ahead = tuple(kept * mean + (1 - kept) * new for mean, new in zip(means, gradients, strict=True))
        pairs = zip(parameters, ahead, strict=True)
        return tuple(one - pace * _reach(one) * near_spectrum(mean) for one, mean in pairs), means


def flatten_spectrum(matrices: Tensor) -> Tensor:
    """U Vᵀ of each matrix U Σ Vᵀ of a batch, shape (b, m, n): every singular value but 0 becomes 1."""
    largest = matrices.abs().amax((1, 2), keepdim=True)
    parts: Any = cast("Any", torch.linalg).svd(_unit(matrices, largest), full_matrices=False)
    left, values, right = cast("tuple[Tensor, Tensor, Tensor]", tuple(parts))
    kept = (values > NEGLIGIBLE * values[:, :1]).to(matrices.dtype)
    return (left * kept[:, None]) @ right


def near_spectrum(matrices: Tensor) -> Tensor:
    """What five repetitions of the polynomial make of each matrix: singular values from 0.7 to 1.2."""
    wide = matrices.shape[1] <= matrices.shape[2]
    found = matrices if wide else matrices.transpose(1, 2)
    raised = found * RAISED[found.dtype]  # or the squares of small gradients would vanish
    norm = (raised * raised).sum((1, 2), keepdim=True).sqrt()
    found = _unit(raised, norm)
    first, third, fifth = SHARES
    for _ in range(ROUNDS):
        gram = found @ found.transpose(1, 2)
        found = first * found + (third * gram + fifth * gram @ gram) @ found
    return found if wide else found.transpose(1, 2)


def _begin(parameters: Parameters, momentum: float) -> Parameters:
    """Running means before the first step: zero, and none without momentum."""
    return tuple(torch.zeros_like(one) for one in parameters) if momentum else ()


def _average(gradients: Parameters, state: Parameters, momentum: float) -> tuple[Parameters, Parameters]:
    """momentum · mean + (1 − momentum) · gradient, and the state it is; without momentum the gradients."""
    if not momentum:
        return gradients, state
    pairs = zip(state, gradients, strict=True)
    means = tuple(momentum * old + (1 - momentum) * new for old, new in pairs)
    return means, means


def _unit(matrices: Tensor, sizes: Tensor) -> Tensor:
    """Each matrix divided by its size; one of size 0 stays 0."""
    return matrices / torch.where(sizes > 0, sizes, torch.ones_like(sizes))


def _reach(matrices: Tensor) -> float:
    """√max(1, rows/columns), by which PyTorch lengthens the steps of tall matrices."""
    return max(1.0, matrices.shape[1] / matrices.shape[2]) ** 0.5


def _move_native(
    matrices: Tensor, gradients: Tensor, means: Tensor, pace: float, muon: Muon
) -> tuple[Tensor, Tensor]:
    """One step of ``torch.optim.Muon`` for every matrix of a batch."""
    kinds = [torch.nn.Parameter(one.clone()) for one in matrices]
    options = {"momentum": muon.momentum, "nesterov": muon.nesterov, "weight_decay": 0.0}
    taken: Any = cast("Any", torch.optim).Muon(kinds, lr=pace, **options)
    for one, gradient, mean in zip(kinds, gradients, means, strict=True):
        one.grad = gradient.clone()
        taken.state[one]["momentum_buffer"] = mean.clone()
    taken.step()
    kept = [taken.state[one]["momentum_buffer"] for one in kinds]
    return torch.stack([one.detach() for one in kinds]), torch.stack(kept)


def _settle(step: "SignDescent | SpectralDescent | Muon") -> None:
    settle(
        step,
        step_size=real_number(step.step_size, "step_size", above=0, most=LARGEST_STEP),
        momentum=real_number(step.momentum, "momentum", least=0, below=1),
    )


STEPS = (GradientDescent, Adam, SignDescent, SpectralDescent, Muon)
"""The steps that a stored run can name."""
