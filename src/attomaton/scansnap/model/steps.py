"""Steps of the Y/Z model: a rate for each trial, in place."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Momentum:
    """SGD with momentum: v ← μ v + ∇, W ← W − η v."""

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
    """Adam with the usual constants."""

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
