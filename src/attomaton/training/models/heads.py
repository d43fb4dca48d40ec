"""Heads: from attention to the value u of the label, and its derivative with respect to the scores.

Attention a over the positions gives f = Σ_t a_t x_t. A linear head has u = Σ_t a_t v_t with v fixed by the
context; a softmax head has u = softmax(C f / temperature)_y. With a = softmax(s), the derivative by the
scores s is du/ds_t = a_t (du/da_t − Σ a du/da). Positions are the first axis, so sums run over whole rows.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from attomaton.base.options import Checked, checked, named_instance, real_number

_linalg: Any = torch.linalg


class Readout(Protocol):
    """Reads the label's value from attention.

    Shapes: trials b, samples n, positions t, tokens k, dimensions d.
    """

    def prepare(self, keys: Tensor, is_label: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """The constant part of the head during training.

        From keys (b, n, t, d), whether a position is the label (b, n, t), embeddings (b, k, d) and labels
        (b, n).
        """
        ...

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """u, shape (b, n), and du/ds, shape (t, b, n), from attention of shape (t, b, n)."""
        ...


@dataclass(frozen=True)
class TokenId:
    """u = the attention mass on the label, for any embeddings.

    Examples
    --------
    >>> table = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]])  # embeddings of tokens 0 and 1
    >>> keys, labels = table[:, None], torch.tensor([[0]])  # one context, (0, 1), labelled 0
    >>> head = TokenId()
    >>> prepared = head.prepare(keys, torch.tensor([[[True, False]]]), table, labels)
    >>> value, slope = head.read(torch.tensor([[[0.7]], [[0.3]]]), prepared)
    >>> round(value.item(), 6), [round(entry, 6) for entry in slope.flatten().tolist()]
    (0.7, [0.21, -0.21])
    """

    def prepare(self, keys: Tensor, is_label: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """Where the label is, and where it is not."""
        label_mask = _positions_first(is_label.to(keys.dtype))
        return label_mask, 1.0 - label_mask

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """The prediction u, and du/ds by the attention scores s: a (1 − u) at the label, −a u elsewhere.

        1 − u is summed over the other positions, to keep its precision when it is small.
        """
        on_label, elsewhere = (attention * mask for mask in prepared)
        value = on_label.sum(0)
        return value, on_label * elsewhere.sum(0) - elsewhere * value


@dataclass(frozen=True)
class Tied(Checked):
    """C with C Eᵀ = I (assumption A): u = c_yᵀ f is the attention mass on the label if rows are independent.

    Attributes
    ----------
    temperature : float, optional
        With a temperature, u = softmax(C f / temperature)_y, a softmax over the masses of all tokens; None
        means no softmax.

    Examples
    --------
    >>> table = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]])  # embeddings of tokens 0 and 1, not orthogonal
    >>> keys, labels = table[:, None], torch.tensor([[0]])  # one context, (0, 1), labelled 0
    >>> for head in (Tied(), Tied(temperature=1.0)):
    ...     prepared = head.prepare(keys, torch.tensor([[[True, False]]]), table, labels)
    ...     value, slope = head.read(torch.tensor([[[0.7]], [[0.3]]]), prepared)
    ...     print(round(value.item(), 4))  # still the mass on the label; and 1/(1 + e^(0.3 − 0.7))
    0.7
    0.5987
    """

    temperature: float | None = field(default=None, metadata=checked(real_number, above=0))

    def prepare(self, keys: Tensor, is_label: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """c_y · x_t, or with a temperature (divided by it) all c_k · x_t, shape (t, k, b, n), and y."""
        return _prepare_linear(keys, _linalg.pinv(table).transpose(1, 2), labels, self.temperature)

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """The prediction u for each sample, and du/ds by the attention scores s."""
        return _read_prepared(attention, prepared)


@dataclass(frozen=True)
class Untied(Checked):
    """The embeddings as decoder, C = E: u = e_yᵀ f, or softmax(E f / temperature)_y. Violates assumption A.

    Attributes
    ----------
    temperature : float, optional
        Temperature of the softmax over all tokens; None means no softmax.

    Examples
    --------
    >>> table = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]])  # embeddings of tokens 0 and 1, not orthogonal
    >>> keys, labels = table[:, None], torch.tensor([[0]])  # one context, (0, 1), labelled 0
    >>> for head in (Untied(), Untied(temperature=1.0)):
    ...     prepared = head.prepare(keys, torch.tensor([[[True, False]]]), table, labels)
    ...     value, slope = head.read(torch.tensor([[[0.7]], [[0.3]]]), prepared)
    ...     print(round(value.item(), 4))  # 0.7 · 1 + 0.3 · 1; and 1/(1 + e^0.3), as e_1 · f is larger by 0.3
    1.0
    0.4256
    """

    temperature: float | None = field(default=None, metadata=checked(real_number, above=0))

    def prepare(self, keys: Tensor, is_label: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """e_y · x_t, or with a temperature (divided by it) all e_k · x_t, shape (t, k, b, n), and y."""
        return _prepare_linear(keys, table, labels, self.temperature)

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """The prediction u for each sample, and du/ds by the attention scores s."""
        return _read_prepared(attention, prepared)


@dataclass(frozen=True)
class EmbeddingDistance:
    """u = −‖ŷᵀE − e_y‖², with ŷ the masses of the tokens if tied, E f otherwise.

    With :class:`~attomaton.training.models.losses.CorrelationLoss`, ℓ(u) = −u, this is the loss ``mse`` in
    the code of the first paper's authors.

    Attributes
    ----------
    tied : bool
        Whether ŷ are the masses, so that ŷᵀE = f.

    Examples
    --------
    >>> table = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    >>> keys, labels = table[:, None], torch.tensor([[0]])  # one context, (0, 1), labelled 0
    >>> head = EmbeddingDistance()
    >>> prepared = head.prepare(keys, torch.tensor([[[True, False]]]), table, labels)
    >>> value, slope = head.read(torch.tensor([[[0.7]], [[0.3]]]), prepared)
    >>> round(value.item(), 6)  # −(0.3² + 0.3²)
    -0.18
    """

    tied: bool = True

    def prepare(self, keys: Tensor, is_label: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """What each position adds to ŷᵀE − e_y, shape (t, d, b, n): attention sums to 1."""
        written = keys if self.tied else keys @ (table.transpose(1, 2) @ table)[:, None]
        chosen = torch.take_along_dim(table, labels[:, :, None], dim=1)
        return ((written - chosen[:, :, None]).permute(2, 3, 0, 1).contiguous(),)

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """The prediction u for each sample, and du/ds by the attention scores s."""
        (differences,) = prepared
        error = (attention[:, None] * differences).sum(0)
        _, derivative = _read_linear(attention, -2.0 * (error * differences).sum(1))
        return -error.square().sum(0), derivative


HEADS: dict[str, type[Any]] = {
    "token-id": TokenId,
    "tied": Tied,
    "untied": Untied,
    "distance": EmbeddingDistance,
}
"""Name of a head → its class; stored runs can name these."""


def reads_mass(head: object) -> bool:
    """Whether u is the attention mass on the label, for independent embeddings if the head is tied."""
    return isinstance(head, TokenId) or (isinstance(head, Tied) and head.temperature is None)


def as_head(value: object) -> Readout:
    """The head of this name, or the value itself if it is a head.

    Examples
    --------
    >>> as_head("tied"), as_head(TokenId())
    (Tied(temperature=None), TokenId())
    """
    return named_instance(value, "head", HEADS, ["prepare", "read"])


def _positions_first(values: Tensor) -> Tensor:
    """(b, n, t) → (t, b, n)."""
    return values.permute(2, 0, 1).contiguous()


def _prepare_linear(
    keys: Tensor, readout: Tensor, labels: Tensor, temperature: float | None
) -> tuple[Tensor, ...]:
    """c_y · x_t, or with a temperature (divided by it) all c_k · x_t, shape (t, k, b, n), and y."""
    chosen = torch.take_along_dim(readout, labels[:, :, None], dim=1)
    values = _positions_first((keys @ chosen[..., None])[..., 0])
    if temperature is None:
        return (values,)
    logits = (keys @ readout.transpose(1, 2)[:, None]).permute(2, 3, 0, 1).contiguous()
    return values / temperature, logits / temperature, labels[None]


def _read_prepared(attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """u and du/ds of a linear or a softmax head."""
    if len(prepared) == 1:
        return _read_linear(attention, prepared[0])
    values, logits, labels = prepared
    probabilities = torch.softmax((attention[:, None] * logits).sum(0), 0)
    value = probabilities.gather(0, labels)[0]
    _, log_derivative = _read_linear(attention, values - (probabilities * logits).sum(1))
    return value, value * log_derivative


def _read_linear(attention: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Σ a v and its derivative by the scores, a (v − Σ a v).

    Values are relative to those of the positions with most attention: if these hold nearly all of it, the
    contribution of the others is a sum of small numbers rather than a difference of large ones.
    """
    is_largest = (attention == attention.amax(0)).to(values.dtype)
    base = (values * is_largest).sum(0) / is_largest.sum(0)
    terms = attention * (values - base)
    mean = terms.sum(0)
    return mean + base, terms - attention * mean
