"""Heads: from attention to the value u of the label, and its derivative by the attention.

Attention a over the positions gives f = Σ_t a_t x_t. A linear head has u = Σ_t a_t v_t with v fixed by the
context; a softmax head has u = softmax(C f / temperature)_y.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

_linalg: Any = torch.linalg


class Head(Protocol):
    """What reads the label's value from attention.

    Shapes: trials b, samples n, positions t, tokens k, dimensions d.
    """

    def prepare(self, keys: Tensor, hit: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """What of the head does not change in training.

        From keys (b, n, t, d), whether a position holds the label (b, n, t), embeddings (b, k, d) and labels
        (b, n).
        """
        ...

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """u, shape (b, n), and du/da, shape (b, n, t)."""
        ...


@dataclass(frozen=True)
class TokenId:
    """u = the attention mass on the label, whatever the embeddings."""

    def prepare(self, keys: Tensor, hit: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """Where the label stands."""
        return (hit.to(keys.dtype),)

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """U and du/da."""
        return (attention * prepared[0]).sum(-1), prepared[0]


@dataclass(frozen=True)
class Tied:
    """C with C Eᵀ = I (assumption A): u = c_yᵀ f, the attention mass on the label if rows are independent."""

    def prepare(self, keys: Tensor, hit: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """c_y · x_t."""
        heads = _linalg.pinv(table).transpose(1, 2)
        chosen = torch.take_along_dim(heads, labels[:, :, None], dim=1)
        return ((keys @ chosen[..., None])[..., 0],)

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """U and du/da."""
        return (attention * prepared[0]).sum(-1), prepared[0]


@dataclass(frozen=True)
class Untied:
    """C = E: u = e_yᵀ f, or with a temperature softmax(E f / temperature)_y. Violates assumption A."""

    temperature: float | None = None

    def prepare(self, keys: Tensor, hit: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """e_y · x_t, or all e_k · x_t / temperature with the labels."""
        if self.temperature is None:
            chosen = torch.take_along_dim(table, labels[:, :, None], dim=1)
            return ((keys @ chosen[..., None])[..., 0],)
        return keys @ table.transpose(1, 2)[:, None] / self.temperature, labels[..., None]

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """U and du/da."""
        if self.temperature is None:
            return (attention * prepared[0]).sum(-1), prepared[0]
        logits, labels = prepared
        chances = torch.softmax((attention[..., None, :] @ logits)[..., 0, :], -1)
        right = torch.take_along_dim(chances, labels, dim=-1)
        own = torch.take_along_dim(logits, labels[..., None, :].expand(*logits.shape[:-1], 1), dim=-1)[..., 0]
        mean = (logits @ chances[..., None])[..., 0]
        return right[..., 0], right * (own - mean)
