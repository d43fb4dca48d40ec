"""Losses ℓ(u) of the value u that the head gives to the label; small u is bad."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from attomaton.base.options import named_instance


class Loss(Protocol):
    """A decreasing function of u, with its derivative."""

    def value(self, right: Tensor) -> Tensor:
        """ℓ(u)."""
        ...

    def slope(self, right: Tensor) -> Tensor:
        """ℓ'(u)."""
        ...


@dataclass(frozen=True)
class LogLoss:
    """ℓ(u) = −ln u. With a softmax head this is cross-entropy.

    Examples
    --------
    >>> import torch
    >>> right = torch.tensor([0.5, 0.25])
    >>> LogLoss().value(right).exp().round(decimals=4).tolist(), LogLoss().slope(right).tolist()
    ([2.0, 4.0], [-2.0, -4.0])
    """

    def value(self, right: Tensor) -> Tensor:
        """ℓ(u)."""
        return -right.log()

    def slope(self, right: Tensor) -> Tensor:
        """ℓ'(u)."""
        return -right.reciprocal()


@dataclass(frozen=True)
class SquaredLoss:
    """ℓ(u) = (1 − u)².

    Examples
    --------
    >>> import torch
    >>> right = torch.tensor([0.5, 0.25])
    >>> SquaredLoss().value(right).tolist(), SquaredLoss().slope(right).tolist()
    ([0.25, 0.5625], [-1.0, -1.5])
    """

    def value(self, right: Tensor) -> Tensor:
        """ℓ(u)."""
        return (1.0 - right) ** 2

    def slope(self, right: Tensor) -> Tensor:
        """ℓ'(u)."""
        return -2.0 * (1.0 - right)


@dataclass(frozen=True)
class CorrelationLoss:
    """ℓ(u) = −u.

    Examples
    --------
    >>> import torch
    >>> right = torch.tensor([0.5, 0.25])
    >>> CorrelationLoss().value(right).tolist(), CorrelationLoss().slope(right).tolist()
    ([-0.5, -0.25], [-1.0, -1.0])
    """

    def value(self, right: Tensor) -> Tensor:
        """ℓ(u)."""
        return -right

    def slope(self, right: Tensor) -> Tensor:
        """ℓ'(u)."""
        return right * 0.0 - 1.0


LOSSES: dict[str, type[Any]] = {"log": LogLoss, "squared": SquaredLoss, "correlation": CorrelationLoss}
"""Name of a loss → its class; stored runs can name these."""


def slope_at(loss: Loss, value: float) -> float:
    """ℓ'(u) at one value."""
    return float(loss.slope(torch.tensor(value, dtype=torch.float64)))


def as_loss(value: object) -> Loss:
    """The loss of this name, or the value itself if it is a loss.

    Examples
    --------
    >>> as_loss("squared"), as_loss(LogLoss())
    (SquaredLoss(), LogLoss())
    """
    return named_instance(value, "loss", LOSSES, ["value", "slope"])
