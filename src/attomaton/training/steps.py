"""Steps: how a gradient moves the parameters. Each trial of a batch moves by itself."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import real_number, settle, show


@dataclass(frozen=True)
class Decay:
    """η_t = η t^(−power) at step t = 1, 2, …: what theorems about margins ask for, with a power of ½.

    Attributes
    ----------
    power : float
        From 0, which changes nothing, to 1.

    Examples
    --------
    >>> import attomaton as at
    >>> schedule = Decay()
    >>> [schedule(step) for step in (0, 3, 99)]  # steps are counted from 0
    [1.0, 0.5, 0.1]
    >>> at.GradientDescent(0.3, normalized=True, schedule=schedule).schedule
    Decay(power=0.5)
    """

    power: float = 0.5

    def __post_init__(self) -> None:
        settle(self, power=real_number(self.power, "power", least=0, most=1))

    def __call__(self, step: int) -> float:
        """The factor of η at a step counted from 0."""
        return (step + 1.0) ** -self.power


def find_pace(step_size: float, schedule: Callable[[int], float] | None, step: int) -> float:
    """η_t, the step size times the schedule's factor."""
    return step_size * (1.0 if schedule is None else schedule(step))


Parameters = tuple[Tensor, ...]
"""W, or K and Q: the first axis is the trial."""


LARGEST_STEP = 1e300
"""The largest step size: beyond it squares of the weights overflow at once."""

RAISED = {torch.float64: 2.0**400, torch.float32: 2.0**40}
"""Gradients are raised by this, exactly, before they are squared: small ones would vanish."""


class Step(Protocol):
    """What turns gradients into new parameters; its state is a tuple of tensors.

    Examples
    --------
    >>> import attomaton as at
    >>> class SignDescent:  # any class with these methods will do
    ...     def begin(self, parameters):
    ...         return ()
    ...     def move(self, parameters, gradients, state, step):
    ...         pairs = zip(parameters, gradients, strict=True)
    ...         return tuple(one - 0.1 * slope.sign() for one, slope in pairs), state
    >>> from attomaton.training.models.embeddings import Orthonormal
    >>> samples = at.Samples.from_lists([[0, 1]], [0])
    >>> at.train(samples, at.AttentionModel(Orthonormal()), SignDescent(), steps=3).at(3)[0].round(6).tolist()
    [[0.0, 0.3], [0.0, -0.3]]
    """

    def begin(self, parameters: Parameters) -> Parameters:
        """The state before the first step."""
        ...

    def move(
        self, parameters: Parameters, gradients: Parameters, state: Parameters, step: int
    ) -> tuple[Parameters, Parameters]:
        """New parameters and new state; ``step`` counts from 0."""
        ...


@dataclass(frozen=True)
class GradientDescent:
    """W ← W − η_t v, v the gradient, its direction, or a running sum of it.

    Attributes
    ----------
    step_size : float
        η.
    normalized : bool
        Divide the gradient of each trial by its norm (over all its parameters).
    momentum : float
        v ← momentum · v + gradient.
    schedule : callable, optional
        Step number → factor of η.

    Examples
    --------
    >>> start, slope = (torch.zeros(1, 2, 2),), (torch.tensor([[[3.0, 0.0], [4.0, 0.0]]]),)
    >>> plain, short = GradientDescent(0.1), GradientDescent(0.1, normalized=True)
    >>> for step in (plain, short):
    ...     moved, _ = step.move(start, slope, step.begin(start), 0)
    ...     print([round(one, 6) for one in moved[0].flatten().tolist()])
    [-0.3, 0.0, -0.4, 0.0]
    [-0.06, 0.0, -0.08, 0.0]
    """

    step_size: float
    normalized: bool = False
    momentum: float = 0.0
    schedule: Callable[[int], float] | None = None

    def __post_init__(self) -> None:
        settle(
            self,
            step_size=real_number(self.step_size, "step_size", above=0, most=LARGEST_STEP),
            momentum=real_number(self.momentum, "momentum", least=0, below=1),
        )

    def begin(self, parameters: Parameters) -> Parameters:
        """The running sums, zero."""
        return tuple(torch.zeros_like(one) for one in parameters) if self.momentum else ()

    def move(
        self, parameters: Parameters, gradients: Parameters, state: Parameters, step: int
    ) -> tuple[Parameters, Parameters]:
        """New parameters and running sums."""
        pace = find_pace(self.step_size, self.schedule, step)
        if self.normalized:
            raised = [one * RAISED[one.dtype] for one in gradients]
            norm = sum((one * one).sum((1, 2), keepdim=True) for one in raised) ** 0.5
            gradients = tuple(one / norm for one in raised)
        if self.momentum:
            gradients = tuple(self.momentum * old + new for old, new in zip(state, gradients, strict=True))
            state = gradients
        return tuple(one - pace * move for one, move in zip(parameters, gradients, strict=True)), state


def as_step(value: object) -> Step:
    """The value itself if it is a step; a number is the step size of plain gradient descent.

    Examples
    --------
    >>> as_step(0.5)
    GradientDescent(step_size=0.5, normalized=False, momentum=0.0, schedule=None)
    >>> as_step("adam")
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnsupportedOption: step is 'adam'; give a step size such as 0.5,
    GradientDescent(0.5), Adam(0.1), or another object with the methods begin and move
    """
    if isinstance(value, Real):
        return GradientDescent(cast("float", value))
    able = callable(getattr(value, "begin", None)) and callable(getattr(value, "move", None))
    if not able or isinstance(value, type):
        raise UnsupportedOption(
            f"step is {show(value)}; give a step size such as 0.5, GradientDescent(0.5), Adam(0.1), or "
            "another object with the methods begin and move"
        )
    return cast("Step", value)


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015), without weight decay.

    Attributes
    ----------
    step_size : float
        η.
    betas : tuple of two floats
        How much of the running means of the gradient and of its square is kept at each step.
    epsilon : float
        Added to the root of the mean square. With 0 an entry that never had a gradient does not move.
    schedule : callable, optional
        Step number → factor of η, such as :class:`~attomaton.training.steps.Decay`.

    Examples
    --------
    >>> start, slope = (torch.zeros(1, 1, 2),), (torch.tensor([[[3.0, -0.001]]]),)
    >>> step = Adam(0.1)
    >>> moved, state = step.move(start, slope, step.begin(start), 0)
    >>> [round(one, 4) for one in moved[0].flatten().tolist()]  # about η each, whatever the gradient's size
    [-0.1, 0.1]
    """

    step_size: float
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    schedule: Callable[[int], float] | None = None

    def __post_init__(self) -> None:
        given: Any = self.betas
        if not isinstance(given, tuple | list) or len(self.betas) != 2:
            raise UnsupportedOption(f"betas is {show(self.betas)}; give two numbers")
        settle(
            self,
            step_size=real_number(self.step_size, "step_size", above=0, most=LARGEST_STEP),
            betas=tuple(real_number(beta, "a beta", least=0, below=1) for beta in self.betas),
            epsilon=real_number(self.epsilon, "epsilon", least=0),
        )

    def begin(self, parameters: Parameters) -> Parameters:
        """Running means of gradients and of their squares, zero."""
        return tuple(torch.zeros_like(one) for one in (*parameters, *parameters))

    def move(
        self, parameters: Parameters, gradients: Parameters, state: Parameters, step: int
    ) -> tuple[Parameters, Parameters]:
        """New parameters and running means; without ε, those of gradients raised by ``RAISED``."""
        size, (slow, slower) = len(parameters), self.betas
        if not self.epsilon:
            gradients = tuple(one * RAISED[one.dtype] for one in gradients)
        means = [slow * old + (1 - slow) * new for old, new in zip(state[:size], gradients, strict=True)]
        squares = [
            slower * old + (1 - slower) * new * new for old, new in zip(state[size:], gradients, strict=True)
        ]
        pace = find_pace(self.step_size, self.schedule, step)
        roots = (self._root(square / (1 - slower ** (step + 1))) for square in squares)
        moved = tuple(
            one - pace * (mean / (1 - slow ** (step + 1))) / root
            for one, mean, root in zip(parameters, means, roots, strict=True)
        )
        return moved, (*means, *squares)

    def _root(self, square: Tensor) -> Tensor:
        """The root with ε added; without ε, infinite where it is 0, so that nothing moves there."""
        root = square.sqrt()
        return root + self.epsilon if self.epsilon else root.masked_fill(root == 0, torch.inf)
