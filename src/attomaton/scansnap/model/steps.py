"""Steps of the Y/Z model: a rate for each trial, in place."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Momentum:
    """SGD with momentum: v ← μ v + ∇, W ← W − η v.

    Attributes
    ----------
    momentum : float
        μ.

    Examples
    --------
    >>> optimiser, weights = Momentum(0.9), torch.zeros(1, 1, 1)
    >>> state, rate = optimiser.start(weights), torch.tensor(0.1)
    >>> for _ in range(3):
    ...     optimiser.move(weights, torch.ones(1, 1, 1), rate, state)
    >>> round(-weights.item(), 4)  # 0.1 (1 + 1.9 + 2.71)
    0.561
    """

    momentum: float = 0.9

    def start(self, weights: Tensor) -> dict[str, Tensor]:
        """Nothing gathered yet."""
        return {"velocity": torch.zeros_like(weights)}

    def move(self, weights: Tensor, slope: Tensor, rate: Tensor, state: dict[str, Tensor]) -> None:
        """One step, in place."""
        state["velocity"].mul_(self.momentum).add_(slope)
        weights.sub_(rate * state["velocity"])


@dataclass(frozen=True)
class Adam:
    """Adam with the usual constants.

    Attributes
    ----------
    betas : tuple of two floats
        How much of the running means of the gradient and of its square is kept at each step.
    eps : float
        Added to the root of the mean square.

    Examples
    --------
    >>> optimiser, weights = Adam(), torch.zeros(1, 1, 2)
    >>> state, rate = optimiser.start(weights), torch.tensor(0.1)
    >>> optimiser.move(weights, torch.tensor([[[3.0, -0.001]]]), rate, state)
    >>> [round(one, 4) for one in weights.flatten().tolist()]  # about the rate, whatever the gradient's size
    [-0.1, 0.1]
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def start(self, weights: Tensor) -> dict[str, Tensor]:
        """Nothing gathered yet."""
        zero = torch.zeros_like(weights)
        return {"mean": zero, "square": zero.clone(), "step": torch.zeros((), dtype=torch.float64)}

    def move(self, weights: Tensor, slope: Tensor, rate: Tensor, state: dict[str, Tensor]) -> None:
        """One step, in place."""
        first, second = self.betas
        step = state["step"].add_(1)
        state["mean"].mul_(first).add_(slope, alpha=1 - first)
        state["square"].mul_(second).addcmul_(slope, slope, value=1 - second)
        spread = (state["square"] / (1 - second**step)).sqrt_().add_(self.eps)
        weights.sub_(rate * (state["mean"] / (1 - first**step)) / spread)
