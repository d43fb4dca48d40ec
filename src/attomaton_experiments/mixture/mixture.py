"""One layer that copies, writes successors or falls back to the decoder, and which of them answers where."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.printing import Block, Grid, Printed
from attomaton.base.tables import Float64, Int64
from attomaton_experiments.mixture.experts import MixtureExpert
from attomaton_experiments.mixture.reading import MixtureText
from attomaton_experiments.mixture.weights import MixtureWeights, fit_weights, share_out

SHOWN = 6
"""Tokens shown in an answer."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Experts with weights that depend on the confidence of each expert; never silent.

    Attributes
    ----------
    experts : tuple of MixtureExpert
        The experts; at least one of them is never silent.
    weights : MixtureWeights
        The weight of each expert by position.

    Examples
    --------
    >>> from attomaton.theories import count_supports
    >>> from attomaton_experiments.mixture.experts import DecoderExpert, Uniform
    >>> experts = (Uniform(), DecoderExpert("bigram", count_supports([[0, 1, 0, 1, 0, 2]], 1)))
    >>> mixture = fit_mixture(experts, MixtureText(np.array([1, 0, 1, 0, 0]), before=0, n_tokens=3), pull=1.0)
    >>> reading = MixtureText(np.array([1, 2, 2]), before=0, n_tokens=3)
    >>> mixture.rules(reading).tolist(), mixture.law(reading, 2).round(2).tolist()  # 2 never has a successor
    ([1, 0, 0], [0.33, 0.33, 0.33])
    >>> mixture.answer(reading, 1).rule
    'bigram'
    >>> [one.round(2).tolist() for one in mixture.read(reading)], mixture.shares(reading).shape
    ([[0.55, 0.11, 0.33], [1, 1, 1]], (3, 2))
    """

    experts: tuple[MixtureExpert, ...]
    weights: MixtureWeights
    name: str = "mixture"

    def read(self, reading: MixtureText) -> tuple[Float64, Int64]:
        """The probability of each token, and ones: a mixture is an expert of constant confidence."""
        probabilities, sure = read_experts(self.experts, reading)
        return (self.weights.of(sure) * probabilities).sum(1), np.ones(len(reading), np.int64)

    def shares(self, reading: MixtureText) -> Float64:
        """The share of each expert in the probability of each token, shape (n, n_experts)."""
        probabilities, sure = read_experts(self.experts, reading)
        return share_out(self.weights.of(sure), probabilities)

    def rules(self, reading: MixtureText) -> Int64:
        """The index of the expert with the largest share in the probability of each token, shape (n,)."""
        return self.shares(reading).argmax(1)

    def law(self, reading: MixtureText, position: int) -> Float64:
        """All probabilities at one position, shape (n_tokens,): they sum to 1."""
        return self._carried(reading, position).sum(0)

    def answer(
        self, reading: MixtureText, position: int, words: Sequence[str] | None = None
    ) -> "MixtureAnswer":
        """The rule that answers at one position: the weights, and the main expert for likely tokens."""
        carried = self._carried(reading, position)
        best: list[int] = np.argsort(-carried.sum(0), kind="stable")[:SHOWN].tolist()
        return MixtureAnswer(
            experts=tuple(expert.name for expert in self.experts),
            weights=carried.sum(1),
            tokens=tuple(str(token) if words is None else words[token] for token in best),
            carried=carried[:, best],
        )

    def _carried(self, reading: MixtureText, position: int) -> Float64:
        """Weight times probability of every token by every expert, shape (n_experts, n_tokens)."""
        until = MixtureText(reading.text[: position + 1], reading.before, reading.n_tokens)
        sure = read_experts(self.experts, until)[1][-1:]
        laws = [expert.law(until, position) for expert in self.experts]
        return self.weights.of(sure)[0][:, None] * np.array(laws)


@dataclass(frozen=True, eq=False)
class MixtureAnswer(Printed):
    """The prediction of a mixture at one position.

    Attributes
    ----------
    experts : tuple of str
        Names of the experts.
    weights : float64 array, shape (n_experts,)
        The weight of each expert here.
    tokens : tuple of str
        The likeliest tokens, in descending order.
    carried : float64 array, shape (n_experts, n_shown)
        The contribution of each expert to the probability of each of them.

    Examples
    --------
    >>> answer = MixtureAnswer(("copies", "decoder"), np.array([0.7, 0.3]), ("a",), np.array([[0.1], [0.2]]))
    >>> answer.rule, answer.rules
    ('copies', ('decoder',))
    """

    experts: tuple[str, ...]
    weights: Float64
    tokens: tuple[str, ...]
    carried: Float64

    @property
    def rule(self) -> str:
        """The expert with the largest weight here, whatever the token."""
        return self.experts[int(self.weights.argmax())]

    @property
    def rules(self) -> tuple[str, ...]:
        """The expert that contributes most to the probability of each shown token."""
        return tuple(self.experts[int(index)] for index in self.carried.argmax(0))

    def _blocks(self) -> list[Block]:
        weights = [
            (name, f"{weight:.1%}") for name, weight in zip(self.experts, self.weights.tolist(), strict=True)
        ]
        likely = [
            (token, f"{probability:.1%}", rule)
            for token, probability, rule in zip(
                self.tokens, self.carried.sum(0).tolist(), self.rules, strict=True
            )
        ]
        return [
            Grid("Weight of each rule here", ["rule", "weight"], weights),
            Grid("The likeliest tokens", ["token", "probability", "rule"], likely),
        ]


def read_experts(experts: Sequence[MixtureExpert], reading: MixtureText) -> tuple[Float64, Int64]:
    """The probabilities and confidences of several experts, shape (n, n_experts) each."""
    probabilities, sure = zip(*(expert.read(reading) for expert in experts), strict=True)
    return np.stack(probabilities, 1), np.stack(sure, 1)


def fit_mixture(experts: Sequence[MixtureExpert], held_out: MixtureText, *, pull: float = 50.0) -> Mixture:
    """Fit the weights of experts on held-out text.

    Parameters
    ----------
    experts : sequence of MixtureExpert
        The experts; at least one of them is never silent.
    held_out : MixtureText
        A text that no expert learned from.
    pull : float
        The weight of the overall weights in each cell, in positions.

    Examples
    --------
    >>> from attomaton_experiments.mixture.experts import Uniform
    >>> fit_mixture([Uniform()], MixtureText(np.array([1, 0]), before=0, n_tokens=2)).weights.overall.tolist()
    [1.0]
    """
    return Mixture(tuple(experts), fit_weights(*read_experts(experts, held_out), pull=pull))
