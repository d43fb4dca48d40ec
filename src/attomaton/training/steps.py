"""Steps: how a gradient moves the parameters. Each matrix of each trial moves independently.

A steepest-descent step is the D with ‖D‖ ≤ 1 most aligned with −G, D = argmin ⟨G, D⟩, for the gradient G. In
the max norm (the largest entry) it is −sign G, in the Frobenius norm −G/‖G‖, in the spectral norm (the
largest singular value) −U Vᵀ with G = U Σ Vᵀ.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import Checked, checked, real_number, show

# W, or K and Q, each of shape (n_trials, rows, columns). Gradients and states have this form too.
Parameters = tuple[Tensor, ...]

Moved = tuple[Parameters, Parameters]  # parameters and state after a step

# The largest step size: above it, squares of the weights overflow at once.
LARGEST_STEP = 1e300

# Singular values below this, relative to the largest, are left out of U Vᵀ.
NEGLIGIBLE_VALUE = 1e-9

# (a, b, c) of the polynomial σ ← a σ + b σ³ + c σ⁵. Applied five times to singular values σ in (0, 1], it
# brings them near 1 (Jordan 2024, who fitted the coefficients).
POLYNOMIAL = (3.4445, -4.7750, 2.0315)
POLYNOMIAL_ROUNDS = 5

# Gradients are multiplied by this before they are squared, so that squares of small entries do not underflow.
# It is a power of two, so nothing is rounded, and no direction depends on it.
RAISED_SCALE = {torch.float64: 2.0**400, torch.float32: 2.0**40}

STEP_SIZE = checked(real_number, above=0, most=LARGEST_STEP)
MOMENTUM = checked(real_number, least=0, below=1)


class Step(Protocol):
    """Computes new parameters from gradients and a state, which is a tuple of tensors.

    Examples
    --------
    >>> import attomaton as at
    >>> class PlainDescent:  # any class with these methods is a step
    ...     def begin(self, parameters):
    ...         return ()
    ...     def move(self, parameters, gradients, state, step):
    ...         return tuple(p - 0.1 * g for p, g in zip(parameters, gradients, strict=True)), state
    >>> samples, model = at.Samples.from_lists([[0, 1]], [0]), at.AttentionModel("orthonormal")
    >>> at.train(samples, model, PlainDescent(), steps=3).losses[-1].round(3).tolist()
    [0.561]
    """

    def begin(self, parameters: Parameters) -> Parameters:
        """The state before the first step."""
        ...

    def move(self, parameters: Parameters, gradients: Parameters, state: Parameters, step: int) -> Moved:
        """New parameters and new state; ``step`` counts from 0."""
        ...


@dataclass(frozen=True)
class Decay(Checked):
    """η_t = η t^(−power) at step t = 1, 2, …; theorems about margins require a ``power`` of ½.

    Examples
    --------
    >>> schedule = Decay()
    >>> [schedule(step) for step in (0, 3, 99)]  # steps are counted from 0
    [1.0, 0.5, 0.1]
    """

    power: float = field(default=0.5, metadata=checked(real_number, least=0, most=1))

    def __call__(self, step: int) -> float:
        """The factor of η at a step, counted from 0."""
        return (step + 1.0) ** -self.power


class _Momentum(Checked):
    """A step with a step size, a schedule, and a state of running sums or means if ``momentum`` is not 0."""

    step_size: float = field(metadata=STEP_SIZE)
    momentum: float = field(metadata=MOMENTUM)
    schedule: Callable[[int], float] | None

    def begin(self, parameters: Parameters) -> Parameters:
        """Zero running sums or means; no state without momentum."""
        return tuple(torch.zeros_like(parameter) for parameter in parameters) if self.momentum else ()

    # momentum · mean + (1 − momentum) · gradient; without momentum the gradients.
    def _average(self, gradients: Parameters, state: Parameters) -> Parameters:
        if not self.momentum:
            return gradients
        pairs = zip(state, gradients, strict=True)
        return tuple(self.momentum * mean + (1 - self.momentum) * gradient for mean, gradient in pairs)


# η_t: the step size times the factor of the schedule at a step, counted from 0.
def _size_at(rule: "_Momentum | Adam", step: int) -> float:
    return rule.step_size * (1.0 if rule.schedule is None else rule.schedule(step))


@dataclass(frozen=True)
class GradientDescent(_Momentum):
    """W ← W − η_t v, where v is the gradient, its direction, or a running sum of it.

    ``step_size`` is η. If ``normalized``, the gradient of each trial is divided by its norm over all
    parameters; a zero gradient has no direction: the weights of the trial become NaN, and claims are not
    judged. With ``momentum``, v ← momentum · v + gradient. ``schedule``, such as :class:`Decay`, maps a step
    number to a factor of η.

    Examples
    --------
    >>> import attomaton as at
    >>> samples, model = at.Samples.from_lists([[0, 1]], [0]), at.AttentionModel("orthonormal")
    >>> trace = at.train(samples, model, GradientDescent(0.1, normalized=True), steps=3)
    >>> round(float(((trace.at(3) - trace.at(2)) ** 2).sum() ** 0.5), 6)  # the length of a step
    0.1
    """

    step_size: float = field(metadata=STEP_SIZE)
    normalized: bool = False
    momentum: float = field(default=0.0, metadata=MOMENTUM)
    schedule: Callable[[int], float] | None = None

    def move(self, parameters: Parameters, gradients: Parameters, state: Parameters, step: int) -> Moved:
        """New parameters and running sums."""
        step_size = _size_at(self, step)
        if self.normalized:  # one norm per trial, over all its matrices
            scaled = [gradient * RAISED_SCALE[gradient.dtype] for gradient in gradients]
            first, *further = ((gradient * gradient).sum((1, 2), keepdim=True) for gradient in scaled)
            norm = sum(further, first).sqrt()
            gradients = tuple(gradient / norm for gradient in scaled)
        if self.momentum:
            gradients = tuple(self.momentum * old + new for old, new in zip(state, gradients, strict=True))
            state = gradients
        pairs = zip(parameters, gradients, strict=True)
        return tuple(parameter - step_size * move for parameter, move in pairs), state


def as_step(value: object) -> Step:
    """The value itself if it is a step; a number is the step size of plain gradient descent."""
    if isinstance(value, Real):
        return GradientDescent(cast("float", value))
    has_methods = callable(getattr(value, "begin", None)) and callable(getattr(value, "move", None))
    if not has_methods or isinstance(value, type):
        raise UnsupportedOption(
            f"step is {show(value)}; give a step size such as 0.5, GradientDescent(0.5), Adam(0.1), or "
            "another object with the methods begin and move"
        )
    return cast("Step", value)


# The two decay rates of Adam as floats, if they are numbers in [0, 1).
def _check_betas(betas: Any, name: str) -> tuple[float, ...]:
    if not isinstance(cast("object", betas), tuple | list) or len(betas) != 2:
        raise UnsupportedOption(f"{name} is {show(betas)}; give two numbers such as (0.9, 0.999)")
    return tuple(real_number(beta, "a beta", least=0, below=1) for beta in betas)


@dataclass(frozen=True)
class Adam(Checked):
    """Adam (Kingma and Ba 2015), without weight decay.

    ``step_size`` is η, ``betas`` are the decay rates of the running means of the gradient and of its square,
    and ``epsilon`` is added to the root of the mean square; with 0, an entry that never had a gradient does
    not move. ``schedule``, such as :class:`Decay`, maps a step number to a factor of η.

    Examples
    --------
    >>> import attomaton as at
    >>> samples, model = at.Samples.from_lists([[0, 1]], [0]), at.AttentionModel("orthonormal")
    >>> at.train(samples, model, Adam(0.1), steps=1).at(1)[0].round(4).tolist()
    [[0.0, 0.1], [0.0, -0.1]]
    """

    step_size: float = field(metadata=STEP_SIZE)
    betas: tuple[float, float] = field(default=(0.9, 0.999), metadata=checked(_check_betas))
    epsilon: float = field(default=1e-8, metadata=checked(real_number, least=0))
    schedule: Callable[[int], float] | None = None

    def begin(self, parameters: Parameters) -> Parameters:
        """Zero running means of gradients and of their squares."""
        return tuple(torch.zeros_like(parameter) for parameter in (*parameters, *parameters))

    def move(self, parameters: Parameters, gradients: Parameters, state: Parameters, step: int) -> Moved:
        """New parameters and running means; without ε, those of gradients scaled up by ``RAISED_SCALE``."""
        beta_1, beta_2 = self.betas
        old_means, old_squares = state[: len(parameters)], state[len(parameters) :]
        if not self.epsilon:  # then the step does not depend on the scale of the gradients
            gradients = tuple(gradient * RAISED_SCALE[gradient.dtype] for gradient in gradients)
        means = [beta_1 * old + (1 - beta_1) * new for old, new in zip(old_means, gradients, strict=True)]
        pairs = zip(old_squares, gradients, strict=True)
        squares = [beta_2 * old + (1 - beta_2) * new * new for old, new in pairs]
        step_size = _size_at(self, step)
        # Division by 1 − β^(step + 1) corrects the bias of running means that began at zero.
        roots = (self._root(square / (1 - beta_2 ** (step + 1))) for square in squares)
        updated = tuple(
            parameter - step_size * (mean / (1 - beta_1 ** (step + 1))) / root
            for parameter, mean, root in zip(parameters, means, roots, strict=True)
        )
        return updated, (*means, *squares)

    # √square + ε; without ε, infinity where the square is 0, so that nothing moves there.
    def _root(self, square: Tensor) -> Tensor:
        root = square.sqrt()
        return root + self.epsilon if self.epsilon else root.masked_fill(root == 0, torch.inf)


@dataclass(frozen=True)
class _SteepestDescent(_Momentum):
    """W ← W − η_t v̂, where v̂ is the direction, in some norm, of the gradient or of its running mean."""

    step_size: float = field(metadata=STEP_SIZE)
    momentum: float = field(default=0.0, metadata=MOMENTUM)
    schedule: Callable[[int], float] | None = None

    def move(self, parameters: Parameters, gradients: Parameters, state: Parameters, step: int) -> Moved:
        """New parameters and running means."""
        step_size = _size_at(self, step)
        means = self._average(gradients, state)
        pairs = zip(parameters, means, strict=True)
        updated = tuple(old - step_size * self._find_direction(mean) for old, mean in pairs)
        return updated, means if self.momentum else ()

    # The matrix of norm 1 most aligned with each matrix of a batch (n_trials, rows, columns).
    def _find_direction(self, mean: Tensor) -> Tensor:
        raise NotImplementedError


class SignDescent(_SteepestDescent):
    """W ← W − η_t sign(v), where v is the gradient or its running mean: steepest descent in the max norm.

    The ``step_size`` η is how far every entry with a nonzero gradient moves. With ``momentum``, v ← momentum
    · v + (1 − momentum) · gradient. ``schedule``, such as :class:`Decay`, maps a step number to a factor of
    η.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1]], [0])
    >>> at.train(samples, at.AttentionModel("orthonormal"), SignDescent(0.1), steps=1).at(1)[0].tolist()
    [[0.0, 0.1], [0.0, -0.1]]
    """

    def _find_direction(self, mean: Tensor) -> Tensor:
        return mean.sign()


class SpectralDescent(_SteepestDescent):
    """W ← W − η_t U Vᵀ, where v = U Σ Vᵀ is the gradient or its running mean: steepest in the spectral norm.

    :class:`Muon` approximates it with momentum. The ``step_size`` η is every nonzero singular value of a
    step; ``momentum`` and ``schedule`` are as in :class:`SignDescent`.

    Examples
    --------
    >>> import attomaton as at, numpy as np
    >>> samples = at.Samples.from_lists([[0, 1]], [0])
    >>> trace = at.train(samples, at.AttentionModel("orthonormal"), SpectralDescent(0.1), steps=1)
    >>> round(float(np.linalg.norm(trace.at(1)[0], 2)), 6)  # the largest singular value
    0.1
    """

    def _find_direction(self, mean: Tensor) -> Tensor:
        return polar_factor(mean)


@dataclass(frozen=True)
class Muon(_Momentum):
    """Muon (Jordan 2024), without weight decay: spectral descent with momentum, U Vᵀ by five products.

    The formulas are those of ``torch.optim.Muon``: v ← momentum · v + (1 − momentum) · gradient, Nesterov's
    lookahead (the gradient is mixed in once more) if ``nesterov``, and a polynomial instead of U Vᵀ that
    brings singular values to about 0.7 … 1.2 instead of 1. PyTorch rounds each matrix to bfloat16, and
    shortens steps where the gradient's norm is below 1e-7; here steps have the precision of the parameters,
    for gradients of any size. ``step_size``, ``momentum`` and ``schedule`` are as in :class:`SignDescent`.

    Examples
    --------
    >>> import attomaton as at, numpy as np
    >>> samples, model = at.Samples.from_lists([[0, 1]], [0]), at.AttentionModel("orthonormal")
    >>> weights = at.train(samples, model, Muon(0.1), steps=1).at(1)[0]
    >>> round(float(np.linalg.norm(weights, 2)), 2)  # the largest singular value, η times 0.7 to 1.2
    0.07
    """

    step_size: float = field(metadata=STEP_SIZE)
    momentum: float = field(default=0.95, metadata=MOMENTUM)
    nesterov: bool = True
    schedule: Callable[[int], float] | None = None

    def begin(self, parameters: Parameters) -> Parameters:
        """Zero running means."""
        return tuple(torch.zeros_like(parameter) for parameter in parameters)

    def move(self, parameters: Parameters, gradients: Parameters, state: Parameters, step: int) -> Moved:
        """New parameters and running means."""
        step_size = _size_at(self, step)
        means = self._average(gradients, state)
        looked_ahead = self._average(gradients, means) if self.nesterov else means
        pairs = zip(parameters, looked_ahead, strict=True)
        updated = (old - step_size * _tall_scale(old) * approximate_polar_factor(mean) for old, mean in pairs)
        return tuple(updated), means


def polar_factor(matrices: Tensor) -> Tensor:
    """U Vᵀ of each matrix U Σ Vᵀ of a batch, shape (b, m, n): every nonzero singular value becomes 1."""
    largest = matrices.abs().amax((1, 2), keepdim=True)
    svd: Any = cast("Any", torch.linalg).svd(_divide_by_size(matrices, largest), full_matrices=False)
    left, values, right = cast("tuple[Tensor, Tensor, Tensor]", tuple(svd))
    # Singular values are sorted: the first is the largest.
    is_positive = (values > NEGLIGIBLE_VALUE * values[:, :1]).to(matrices.dtype)
    return (left * is_positive[:, None]) @ right


def approximate_polar_factor(matrices: Tensor) -> Tensor:
    """About U Vᵀ of each matrix, shape (b, m, n), with singular values from 0.7 to 1.2 instead of 1."""
    is_wide = matrices.shape[1] <= matrices.shape[2]
    wide = matrices if is_wide else matrices.transpose(1, 2)  # so that M Mᵀ is the smaller Gram matrix
    scaled = wide * RAISED_SCALE[wide.dtype]
    wide = _divide_by_size(scaled, (scaled * scaled).sum((1, 2), keepdim=True).sqrt())
    # For M = U Σ Vᵀ this polynomial is a M + b (M Mᵀ) M + c (M Mᵀ)² M = U (a Σ + b Σ³ + c Σ⁵) Vᵀ.
    a, b, c = POLYNOMIAL
    for _ in range(POLYNOMIAL_ROUNDS):
        gram = wide @ wide.transpose(1, 2)
        wide = a * wide + (b * gram + c * gram @ gram) @ wide
    return wide if is_wide else wide.transpose(1, 2)


# Each matrix divided by its size, shape (b, 1, 1); a zero matrix stays zero.
def _divide_by_size(matrices: Tensor, sizes: Tensor) -> Tensor:
    return matrices / torch.where(sizes > 0, sizes, torch.ones_like(sizes))


# √max(1, rows/columns), by which PyTorch scales the steps of tall matrices.
def _tall_scale(matrices: Tensor) -> float:
    return max(1.0, matrices.shape[1] / matrices.shape[2]) ** 0.5


# The steps that a stored run can name.
STORED_STEPS = (GradientDescent, Adam, SignDescent, SpectralDescent, Muon)
