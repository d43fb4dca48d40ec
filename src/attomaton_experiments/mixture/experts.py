"""The experts of a mixture: each a distribution of the next token at every position, or silent there.

The limits of the library are here: attention that copies, a head that writes successors, the decoder.
Where an expert is silent it has no distribution: its probabilities and its confidence are 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from attomaton.automaton.attention import Attention
from attomaton.automaton.prediction import BatchPrediction
from attomaton.base.ragged import largest_of, sum_at
from attomaton.base.tables import Float64, Int32, Int64
from attomaton.corpora import Samples
from attomaton.graphs.bags import count_all_tokens
from attomaton.theories.decoder.supports import Supports
from attomaton_experiments.mixture.reading import MixtureText

SURE = (0.25, 0.6)
"""The largest share of attention is small up to the first, and large from the second on."""

COUNT_LEVELS = (1, 2, 4, 8, 32, 128, 1024, 8192)
"""Counts of a context at which a level of confidence begins."""


class MixtureExpert(Protocol):
    """Predicts every token of a text, or is silent.

    Examples
    --------
    >>> class Always:
    ...     name = "always 0"
    ...
    ...     def read(self, reading):
    ...         return (reading.text == 0).astype(float), np.ones(len(reading), np.int64)
    ...
    ...     def law(self, reading, place):
    ...         return np.eye(reading.n_tokens)[0]
    >>> expert: MixtureExpert = Always()
    >>> expert.read(MixtureText(np.array([1, 0]), before=0, n_tokens=2))[0].tolist()
    [0.0, 1.0]
    """

    @property
    def name(self) -> str:
        """The name in tables."""
        ...

    def read(self, reading: MixtureText) -> tuple[Float64, Int64]:
        """The probability of each token, and the confidence of the expert before seeing it (0: silent)."""
        ...

    def law(self, reading: MixtureText, position: int) -> Float64:
        """All probabilities at one position, shape (n_tokens,): their sum is 1, or 0 if silent."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Equal probabilities for all tokens of the vocabulary.

    Examples
    --------
    >>> reading = MixtureText(np.array([1, 2]), before=0, n_tokens=4)
    >>> [one.tolist() for one in Uniform().read(reading)], Uniform().law(reading, 0).tolist()
    ([[0.25, 0.25], [1, 1]], [0.25, 0.25, 0.25, 0.25])
    """

    name: str = "uniform"

    def read(self, reading: MixtureText) -> tuple[Float64, Int64]:
        """See :class:`MixtureExpert`."""
        return np.full(len(reading), 1 / reading.n_tokens), np.ones(len(reading), np.int64)

    def law(self, reading: MixtureText, position: int) -> Float64:  # noqa: ARG002  the same everywhere
        """See :class:`MixtureExpert`."""
        return np.full(reading.n_tokens, 1 / reading.n_tokens)


@dataclass(frozen=True, eq=False)
class DecoderExpert:
    """The decoder's limit: the successors of the same context. It is silent after unseen contexts.

    Attributes
    ----------
    supports : Supports
        The successors of each context, as from :func:`~attomaton.theories.learn_decoder`.

    Examples
    --------
    >>> from attomaton.theories import count_supports
    >>> expert = DecoderExpert("bigram", count_supports([[0, 1, 0, 2]], 1))
    >>> probabilities, sure = expert.read(MixtureText(np.array([1, 0, 2, 0]), before=0, n_tokens=3))
    >>> probabilities.tolist(), sure.tolist()  # 2 has no successor
    ([0.5, 1.0, 0.5, 0.0], [2, 1, 2, 0])
    >>> expert.law(MixtureText(np.array([1]), before=0, n_tokens=3), 0).tolist()
    [0.0, 0.5, 0.5]
    """

    name: str
    supports: Supports

    def read(self, reading: MixtureText) -> tuple[Float64, Int64]:
        """See :class:`MixtureExpert`. Confidence grows with the count of the context."""
        supports, (number, is_known) = self.supports, self._number(reading)
        wanted = number * supports.n_tokens + reading.text
        pairs = supports.row * supports.n_tokens + supports.tokens
        rows = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
        is_listed = is_known & (pairs[rows] == wanted)
        levels = np.searchsorted(COUNT_LEVELS, supports.totals[number], side="right")
        return np.where(is_listed, supports.probabilities[rows], 0.0), np.where(is_known, levels, 0)

    def law(self, reading: MixtureText, position: int) -> Float64:
        """See :class:`MixtureExpert`."""
        supports, (number, is_known) = self.supports, self._number(reading)
        probabilities = np.zeros(supports.n_tokens)
        if is_known[position]:
            pairs = supports.pairs_of(int(number[position]))
            probabilities[supports.tokens[pairs]] = supports.probabilities[pairs]
        return probabilities

    def _number(self, reading: MixtureText) -> tuple[Int64, np.ndarray]:
        return self.supports.number_all(reading.contexts(self.supports.contexts.shape[1]))


@dataclass(frozen=True, eq=False)
class AttentionExpert:
    """A head over the last tokens, which writes the tokens it reads (it copies), or maps them.

    Attributes
    ----------
    attention : Attention
        The attention: an automaton, or finite scores.
    window : int
        The number of tokens it reads.
    writes : int32 array, shape (n_tokens,), optional
        The token it writes for each token it reads. None means the token itself.

    Examples
    --------
    >>> import attomaton as at
    >>> look = at.shrink(at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1]), strength=0.01)
    >>> reading = MixtureText(np.array([1, 2, 0]), before=0, n_tokens=3)
    >>> AttentionExpert("copies", look, 3).law(reading, 2).round(3).tolist()  # the context is 0 1 2
    [0.747, 0.248, 0.006]
    >>> AttentionExpert("writes", look, 3, np.array([1, 1, 0])).law(reading, 2).round(3).tolist()
    [0.006, 0.994, 0.0]
    >>> [one.round(3).tolist() for one in AttentionExpert("copies", look, 3).read(reading)]
    [[0.0, 0.0, 0.747], [3, 3, 3]]
    """

    name: str
    attention: Attention
    window: int
    writes: Int32 | None = None

    def read(self, reading: MixtureText) -> tuple[Float64, Int64]:
        """See :class:`MixtureExpert`. Confidence grows with the largest share of attention."""
        probabilities, sure = list[Float64](), list[Int64]()
        for samples in reading.samples(self.window):
            answer = self._ask(samples)
            is_label = self._written(answer) == samples.labels[answer.bags.sample]
            sample, share = answer.bags.sample, answer.probabilities
            probabilities.append(sum_at(sample[is_label], share[is_label], len(samples)))
            sure.append(1 + np.searchsorted(SURE, largest_of(sample, share, len(samples))))
        return np.concatenate(probabilities), np.concatenate(sure)

    def law(self, reading: MixtureText, position: int) -> Float64:
        """See :class:`MixtureExpert`."""
        answer = self._ask(reading.all_samples(self.window).take(slice(position, position + 1)))
        return sum_at(self._written(answer), answer.probabilities, reading.n_tokens)

    def _ask(self, samples: Samples) -> BatchPrediction:
        return self.attention.predict_bags(count_all_tokens(samples))

    def _written(self, answer: BatchPrediction) -> Int32:
        return answer.bags.token if self.writes is None else self.writes[answer.bags.token]


def relabel_written(samples: Samples, writes: Int32) -> Samples:
    """Training samples for a head that writes: each label replaced by the context's token that writes it.

    If several tokens of a context write the label, the head's label is a set, and the likelihood is
    no longer concave; the last of them is used here. Samples whose label no token writes are left out.

    Examples
    --------
    >>> samples = Samples.from_lists([[0, 1, 2], [1, 2, 2], [2, 0]], [1, 1, 1])
    >>> list(relabel_written(samples, np.array([1, 1, 0])))  # 0 and 1 write 1
    [Sample(context=(0, 1, 2), label=1), Sample(context=(1, 2, 2), label=1), Sample(context=(2, 0), label=0)]
    """
    written, labels = writes[samples.values], np.full(len(samples), -1, np.int32)
    for open_samples, indices in _walk_back(samples):
        open_still = (labels[open_samples] < 0) & (written[indices] == samples.labels[open_samples])
        labels[open_samples[open_still]] = samples.values[indices[open_still]]
    has_label = labels >= 0
    return replace(samples.take(has_label), labels=labels[has_label])


def _walk_back(samples: Samples) -> Iterator[tuple[Int64, Int64]]:
    """From the last token of every context to the first: the samples that have one there, and its index."""
    for back in range(1, int(samples.lengths.max(initial=0)) + 1):
        long_enough = np.flatnonzero(samples.lengths >= back)
        yield long_enough, samples.stops[long_enough] - back
