"""Losses ℓ(u) of the value u that the head gives to the label; small u is bad."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


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
    """ℓ(u) = −ln u. With a softmax head this is cross-entropy."""

    def value(self, right: Tensor) -> Tensor:
        """ℓ(u)."""
        return -right.log()

    def slope(self, right: Tensor) -> Tensor:
        """ℓ'(u)."""
        return -1.0 / right


@dataclass(frozen=True)
class SquaredLoss:
    """ℓ(u) = (1 − u)²."""

    def value(self, right: Tensor) -> Tensor:
        """ℓ(u)."""
        return (1.0 - right) ** 2

    def slope(self, right: Tensor) -> Tensor:
        """ℓ'(u)."""
        return -2.0 * (1.0 - right)


@dataclass(frozen=True)
class CorrelationLoss:
    """ℓ(u) = −u."""

    def value(self, right: Tensor) -> Tensor:
        """ℓ(u)."""
        return -right

    def slope(self, right: Tensor) -> Tensor:
        """ℓ'(u)."""
        return right * 0.0 - 1.0
