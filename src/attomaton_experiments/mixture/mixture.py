"""One layer that copies, writes successors or falls back to the decoder, and which of them answers where."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.printing import Block, Grid, Printed
from attomaton.base.tables import Float64, Int64
from attomaton_experiments.mixture.parts import MixturePart
from attomaton_experiments.mixture.reading import MixtureText
from attomaton_experiments.mixture.weights import MixtureWeights, fit_weights, share_out

SHOWN = 6
"""Tokens shown in an answer."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Parts with weights that depend on the confidence of each part; never silent.

    Attributes
    ----------
    parts : tuple of MixturePart
        The parts; at least one of them is never silent.
    weights : MixtureWeights
        The weight of each part by position.

    Examples
    --------
    >>> from attomaton.theories import count_supports
    >>> from attomaton_experiments.mixture.parts import DecoderPart, Uniform
    >>> parts = (Uniform(), DecoderPart("bigram", count_supports([[0, 1, 0, 1, 0, 2]], 1)))
    >>> mixture = fit_mixture(parts, MixtureText(np.array([1, 0, 1, 0, 0]), before=0, n_tokens=3), pull=1.0)
    >>> reading = MixtureText(np.array([1, 2, 2]), before=0, n_tokens=3)
    >>> mixture.rules(reading).tolist(), mixture.law(reading, 2).round(2).tolist()  # 2 never has a successor
    ([1, 0, 0], [0.33, 0.33, 0.33])
    >>> mixture.answer(reading, 1).rule
    'bigram'
    >>> [one.round(2).tolist() for one in mixture.read(reading)], mixture.shares(reading).shape
    ([[0.55, 0.11, 0.33], [1, 1, 1]], (3, 2))
    """

    parts: tuple[MixturePart, ...]
    weights: MixtureWeights
    name: str = "mixture"

    def read(self, reading: MixtureText) -> tuple[Float64, Int64]:
        """The probability of each token, and ones: a mixture is a part of constant confidence."""
        probabilities, sure = read_parts(self.parts, reading)
        return (self.weights.of(sure) * probabilities).sum(1), np.ones(len(reading), np.int64)

    def shares(self, reading: MixtureText) -> Float64:
        """The share of each part in the probability of each token, shape (n, n_parts)."""
        probabilities, sure = read_parts(self.parts, reading)
        return share_out(self.weights.of(sure), probabilities)

    def rules(self, reading: MixtureText) -> Int64:
        """The index of the part with the largest share in the probability of each token, shape (n,)."""
        return self.shares(reading).argmax(1)

    def law(self, reading: MixtureText, place: int) -> Float64:
        """All probabilities at one position, shape (n_tokens,): they sum to 1."""
        return self._carried(reading, place).sum(0)

    def answer(self, reading: MixtureText, place: int, words: Sequence[str] | None = None) -> "MixtureAnswer":
        """The rule that answers at one position: the weights, and the main part for the likeliest tokens."""
        carried = self._carried(reading, place)
        best: list[int] = np.argsort(-carried.sum(0), kind="stable")[:SHOWN].tolist()
        return MixtureAnswer(
            parts=tuple(part.name for part in self.parts),
            weights=carried.sum(1),
            tokens=tuple(str(token) if words is None else words[token] for token in best),
            carried=carried[:, best],
        )

    def _carried(self, reading: MixtureText, place: int) -> Float64:
        """Weight times probability of every token by every part, shape (n_parts, n_tokens)."""
        until = MixtureText(reading.text[: place + 1], reading.before, reading.n_tokens)
        sure = read_parts(self.parts, until)[1][-1:]
        laws = [part.law(until, place) for part in self.parts]
        return self.weights.of(sure)[0][:, None] * np.array(laws)


@dataclass(frozen=True, eq=False)
class MixtureAnswer(Printed):
    """The prediction of a mixture at one position.

    Attributes
    ----------
    parts : tuple of str
        Names of the parts.
    weights : float64 array, shape (n_parts,)
        The weight of each part here.
    tokens : tuple of str
        The likeliest tokens, in descending order.
    carried : float64 array, shape (n_parts, n_shown)
        The contribution of each part to the probability of each of them.

    Examples
    --------
    >>> answer = MixtureAnswer(("copies", "decoder"), np.array([0.7, 0.3]), ("a",), np.array([[0.1], [0.2]]))
    >>> answer.rule, answer.rules
    ('copies', ('decoder',))
    """

    parts: tuple[str, ...]
    weights: Float64
    tokens: tuple[str, ...]
    carried: Float64

    @property
    def rule(self) -> str:
        """The part with the largest weight here, whatever the token."""
        return self.parts[int(self.weights.argmax())]

    @property
    def rules(self) -> tuple[str, ...]:
        """The part that contributes most to the probability of each shown token."""
        return tuple(self.parts[int(one)] for one in self.carried.argmax(0))

    def _blocks(self) -> list[Block]:
        weights = [(name, f"{one:.1%}") for name, one in zip(self.parts, self.weights.tolist(), strict=True)]
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


def read_parts(parts: Sequence[MixturePart], reading: MixtureText) -> tuple[Float64, Int64]:
    """The probabilities and confidences of several parts, shape (n, n_parts) each."""
    probabilities, sure = zip(*(part.read(reading) for part in parts), strict=True)
    return np.stack(probabilities, 1), np.stack(sure, 1)


def fit_mixture(parts: Sequence[MixturePart], held: MixtureText, *, pull: float = 50.0) -> Mixture:
    """Fit the weights of parts on held-out text.

    Parameters
    ----------
    parts : sequence of MixturePart
        The parts; at least one of them is never silent.
    held : MixtureText
        A text that no part learned from.
    pull : float
        The weight of the overall weights in each cell, in positions.

    Examples
    --------
    >>> from attomaton_experiments.mixture.parts import Uniform
    >>> fit_mixture([Uniform()], MixtureText(np.array([1, 0]), before=0, n_tokens=2)).weights.overall.tolist()
    [1.0]
    """
    return Mixture(tuple(parts), fit_weights(*read_parts(parts, held), pull=pull))
