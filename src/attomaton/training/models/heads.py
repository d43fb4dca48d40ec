"""Readouts: from attention to the value u of the label, and its derivative by the attention scores.

Attention a over the positions of a context gives f = Σ_t a_t x_t. A linear readout has u = Σ_t a_t v_t with v
fixed by the context; a softmax readout has u = softmax(C f / temperature)_y with a decoder C. With a =
softmax(s), the derivative by the scores s is du/ds_t = a_t (du/da_t − Σ a du/da). Positions are the first
axis, so sums run over whole rows.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from attomaton.base.options import Checked, checked, named_instance, real_number

_linalg: Any = torch.linalg


class Readout(Protocol):
    """Computes the value u of the label from attention, in two steps.

    Sizes are b trials, n samples, t positions, k tokens and d dimensions.
    """

    def prepare(self, keys: Tensor, is_label: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """What stays constant during training.

        It depends on the keys (b, n, t, d), on which positions are the label (b, n, t), on the embeddings (b,
        k, d) and the labels (b, n).
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
    >>> import attomaton as at
    >>> at.AttentionModel(head=TokenId()).head
    TokenId()
    """

    def prepare(self, keys: Tensor, is_label: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """1 at positions with the label and 0 elsewhere, and the opposite, shape (t, b, n) each."""
        label_mask = _positions_first(is_label.to(keys.dtype))
        return label_mask, 1.0 - label_mask

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """The prediction u, and du/ds: a (1 − u) at the label, −a u elsewhere."""
        on_label, elsewhere = (attention * mask for mask in prepared)
        value = on_label.sum(0)
        complement = elsewhere.sum(0)  # 1 − u, more precisely than by subtraction when it is small
        return value, on_label * complement - elsewhere * value


class _Decoded(Checked):
    """u = c_yᵀ f, or with a temperature softmax(C f / temperature)_y, with row c_k of C for each token k."""

    temperature: float | None

    def _find_decoder(self, table: Tensor) -> Tensor:
        raise NotImplementedError

    def prepare(self, keys: Tensor, is_label: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """c_y · x_t; with a temperature (divided by it) also all c_k · x_t, shape (t, k, b, n), and y."""
        decoder = self._find_decoder(table)
        chosen = torch.take_along_dim(decoder, labels[:, :, None], dim=1)
        values = _positions_first((keys @ chosen[..., None])[..., 0])
        if self.temperature is None:
            return (values,)
        logits = (keys @ decoder.transpose(1, 2)[:, None]).permute(2, 3, 0, 1).contiguous()
        return values / self.temperature, logits / self.temperature, labels[None]

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        if len(prepared) == 1:  # without a temperature u is linear in the attention
            return _read_linear(attention, prepared[0])
        # d ln u/da_t = value_t − Σ_k p_k logit_kt, from which _read_linear computes d ln u/ds; du = u d ln u.
        values, logits, labels = prepared
        probabilities = torch.softmax((attention[:, None] * logits).sum(0), 0)
        value = probabilities.gather(0, labels)[0]
        _, log_derivative = _read_linear(attention, values - (probabilities * logits).sum(1))
        return value, value * log_derivative


@dataclass(frozen=True)
class Tied(_Decoded):
    """C with C Eᵀ = I (assumption A): u = c_yᵀ f is the attention mass on the label if rows are independent.

    With a ``temperature``, u = softmax(C f / temperature)_y, a softmax over the masses of all tokens.

    Examples
    --------
    >>> import attomaton as at
    >>> at.AttentionModel(head=Tied(temperature=0.5)).head
    Tied(temperature=0.5)
    """

    temperature: float | None = field(default=None, metadata=checked(real_number, above=0))

    def _find_decoder(self, table: Tensor) -> Tensor:
        return _linalg.pinv(table).transpose(1, 2)


@dataclass(frozen=True)
class Untied(_Decoded):
    """The embeddings as decoder, C = E, which violates assumption A: u = e_yᵀ f.

    With a ``temperature``, u = softmax(E f / temperature)_y, a softmax over all tokens.

    Examples
    --------
    >>> import attomaton as at
    >>> at.AttentionModel(head=Untied(temperature=1.0)).head
    Untied(temperature=1.0)
    """

    temperature: float | None = field(default=None, metadata=checked(real_number, above=0))

    def _find_decoder(self, table: Tensor) -> Tensor:
        return table


@dataclass(frozen=True)
class EmbeddingDistance:
    """u = −‖ŷᵀE − e_y‖², where ŷ are the attention masses of the tokens if ``tied``, and E f otherwise.

    With :class:`~attomaton.training.models.losses.CorrelationLoss`, ℓ(u) = −u, this is the loss ``mse`` in
    the code of the first paper's authors.

    Examples
    --------
    >>> import attomaton as at
    >>> at.AttentionModel(head=EmbeddingDistance(), loss="correlation").head
    EmbeddingDistance(tied=True)
    """

    tied: bool = True

    def prepare(self, keys: Tensor, is_label: Tensor, table: Tensor, labels: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """What each position adds to ŷᵀE − e_y, shape (t, d, b, n), since attention sums to 1."""
        written = keys if self.tied else keys @ (table.transpose(1, 2) @ table)[:, None]
        chosen = torch.take_along_dim(table, labels[:, :, None], dim=1)
        return ((written - chosen[:, :, None]).permute(2, 3, 0, 1).contiguous(),)

    def read(self, attention: Tensor, prepared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """The prediction u for each sample, and its derivative by the attention scores s."""
        # u = −‖Σ_t a_t δ_t‖² has the derivative du/da_t = −2 (Σ a δ)·δ_t.
        (differences,) = prepared
        error = (attention[:, None] * differences).sum(0)
        _, derivative = _read_linear(attention, -2.0 * (error * differences).sum(1))
        return -error.square().sum(0), derivative


# Name of a readout → its class; stored runs can name these.
HEADS: dict[str, type[Any]] = {
    "token-id": TokenId,
    "tied": Tied,
    "untied": Untied,
    "distance": EmbeddingDistance,
}


def reads_mass(head: object) -> bool:
    """Whether u is the attention mass on the label, for independent embeddings if the readout is tied."""
    return isinstance(head, TokenId) or (isinstance(head, Tied) and head.temperature is None)


def as_head(value: object) -> Readout:
    return named_instance(value, "head", HEADS, ["prepare", "read"])


# (b, n, t) → (t, b, n).
def _positions_first(values: Tensor) -> Tensor:
    return values.permute(2, 0, 1).contiguous()


# Σ_t a_t v_t, shape (b, n), and its derivative by the scores, a_t (v_t − Σ a v), shape (t, b, n).
def _read_linear(attention: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    # The mean of v where attention is largest is subtracted first. If these positions have nearly all of the
    # attention, the contribution of the others is a sum of small numbers, not a difference of large ones.
    is_largest = (attention == attention.amax(0)).to(values.dtype)
    base = (values * is_largest).sum(0) / is_largest.sum(0)
    terms = attention * (values - base)
    mean = terms.sum(0)
    return mean + base, terms - attention * mean
