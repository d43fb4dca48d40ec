"""Losses ℓ(u) of the value u that the readout gives to the label, and their derivatives ℓ'(u)."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from attomaton.base.options import named_instance


class Loss(Protocol):
    """A decreasing function of u, with its derivative."""

    def value(self, label_values: Tensor) -> Tensor:
        """ℓ(u)."""
        ...

    def slope(self, label_values: Tensor) -> Tensor:
        """ℓ'(u)."""
        ...


@dataclass(frozen=True)
class LogLoss:
    """ℓ(u) = −ln u, with a softmax readout the cross-entropy.

    Examples
    --------
    >>> import attomaton as at
    >>> at.AttentionModel(loss="log").loss
    LogLoss()
    """

    def value(self, label_values: Tensor) -> Tensor:
        """ℓ(u)."""
        return -label_values.log()

    def slope(self, label_values: Tensor) -> Tensor:
        """ℓ'(u)."""
        return -label_values.reciprocal()


@dataclass(frozen=True)
class SquaredLoss:
    """ℓ(u) = (1 − u)².

    Examples
    --------
    >>> import attomaton as at
    >>> at.AttentionModel(loss="squared").loss
    SquaredLoss()
    """

    def value(self, label_values: Tensor) -> Tensor:
        """ℓ(u)."""
        return (1.0 - label_values) ** 2

    def slope(self, label_values: Tensor) -> Tensor:
        """ℓ'(u)."""
        return -2.0 * (1.0 - label_values)


@dataclass(frozen=True)
class CorrelationLoss:
    """ℓ(u) = −u.

    Examples
    --------
    >>> import attomaton as at
    >>> at.AttentionModel(loss="correlation").loss
    CorrelationLoss()
    """

    def value(self, label_values: Tensor) -> Tensor:
        """ℓ(u)."""
        return -label_values

    def slope(self, label_values: Tensor) -> Tensor:
        """ℓ'(u)."""
        return label_values * 0.0 - 1.0


# Name of a loss → its class; stored runs can name these.
LOSSES: dict[str, type[Any]] = {"log": LogLoss, "squared": SquaredLoss, "correlation": CorrelationLoss}


def slope_at(loss: Loss, value: float) -> float:
    return float(loss.slope(torch.tensor(value, dtype=torch.float64)))


def as_loss(value: object) -> Loss:
    return named_instance(value, "loss", LOSSES, ["value", "slope"])
