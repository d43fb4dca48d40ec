"""Interpolated modified Kneser–Ney: the smoothed n-gram model that language models are usually compared with.

After Chen and Goodman (1999). Counts of the highest order are occurrences, those of a lower order the number
of tokens that precede the gram. Every count is reduced by a discount, D₁, D₂ or D₃₊, and the mass removed
goes to the model of the next lower order; below one token is the uniform distribution.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Float64, Int64
from attomaton_experiments.mixture.experts import COUNT_LEVELS
from attomaton_experiments.mixture.reading import MixtureText

FEW = (0.5, 1.0, 1.5)
"""Discounts for a text too short to estimate them: some count of 1 to 4 does not occur, or an estimate
is not above 0, so that a context could leave no mass to the lower order."""


@dataclass(frozen=True, eq=False)
class Level:
    """One order of the model. Contexts are numbered, so that keys stay small at every order.

    Attributes
    ----------
    contexts : int64 array, shape (n_contexts,)
        Each context as ``token * n_shorter + number`` of its first token and of the remaining shorter
        context, ascending; its own number is its index here. The empty context is 0.
    grams : int64 array, shape (n_grams,)
        ``number * V + token`` of a context and the next token, ascending.
    lowered : float64 array, shape (n_grams,)
        The discounted count of each / the sum of its context.
    backoff : float64 array, shape (n_contexts,)
        The share that each context leaves to the lower order.
    totals : int64 array, shape (n_contexts,)
        The sum of counts of each context.

    Examples
    --------
    >>> level = Level(np.array([0]), np.array([0, 1]), np.array([0.5, 0.25]), np.array([0.25]), np.array([4]))
    >>> contexts, grams = np.array([0, -1]), np.array([1, 3])  # the second context is unknown
    >>> [one.tolist() for one in level.look_up(contexts, grams)]
    [[0.25, 0.0], [0.25, 1.0], [4, 0]]
    """

    contexts: Int64
    grams: Int64
    lowered: Float64
    backoff: Float64
    totals: Int64

    def look_up(self, contexts: Int64, grams: Int64) -> tuple[Float64, Float64, Int64]:
        """For each pair the discounted share, the share of the lower order, and the count of the context."""
        has_context, gram = contexts >= 0, _find(self.grams, grams)
        return (
            np.where(has_context & (gram >= 0), self.lowered[gram], 0.0),
            np.where(has_context, self.backoff[contexts], 1.0),
            np.where(has_context, self.totals[contexts], 0),
        )


@dataclass(frozen=True, eq=False)
class KneserNey:
    """A smoothed n-gram model; never silent.

    Attributes
    ----------
    levels : tuple of Level
        From one token to the highest order.

    Examples
    --------
    >>> reading = MixtureText(np.array([0, 1, 0, 2, 0, 1, 0, 1]), before=2, n_tokens=3)
    >>> model = learn_kneser_ney(reading, 2)
    >>> model.name, model.law(reading, 1).round(3).tolist(), round(model.read(reading)[0][1].item(), 3)
    ('Kneser–Ney, 2 tokens', [0.208, 0.521, 0.271], 0.521)
    """

    levels: tuple[Level, ...]
    n_tokens: int

    @property
    def name(self) -> str:
        """The name, with its order."""
        return f"Kneser–Ney, {len(self.levels)} tokens"

    def read(self, reading: MixtureText) -> tuple[Float64, Int64]:
        """See ``experts.MixtureExpert``. Confidence grows with the count of its longest context."""
        probabilities, totals = self._probabilities(reading.contexts(len(self.levels) - 1), reading.text)
        return probabilities, 1 + np.searchsorted(COUNT_LEVELS, totals, side="right")

    def law(self, reading: MixtureText, position: int) -> Float64:
        """See :class:`~attomaton_experiments.mixture.experts.MixtureExpert`."""
        context = reading.contexts(len(self.levels) - 1)[position]
        every = np.arange(self.n_tokens)
        return self._probabilities(np.tile(context, (self.n_tokens, 1)), every)[0]

    def _probabilities(self, contexts: Int64, labels: Int64) -> tuple[Float64, Int64]:
        probabilities, totals = np.full(len(labels), 1 / self.n_tokens), np.zeros(len(labels), np.int64)
        number, size = np.zeros(len(labels), np.int64), 1
        for width, level in enumerate(self.levels):
            if width:
                longer = _find(level.contexts, contexts[:, -width] * size + number)
                number, size = np.where(number >= 0, longer, -1), len(level.contexts)
            share, backoff, totals = level.look_up(number, number * self.n_tokens + labels)
            probabilities = share + backoff * probabilities
        return probabilities, totals


def learn_kneser_ney(reading: MixtureText, order: int) -> KneserNey:
    """Count a text and discount; ``order`` 2 has one token of context, 1 has none.

    Examples
    --------
    >>> reading = MixtureText(np.array([0, 1, 0, 2, 0, 1]), before=2, n_tokens=3)
    >>> round(float(learn_kneser_ney(reading, 3).law(reading, 2).sum()), 12)
    1.0
    """
    before, levels = reading.contexts(order - 1), list[Level]()
    contexts, number = np.zeros(1, np.int64), np.zeros(len(reading), np.int64)
    for width in range(order):
        if width:
            longer = before[:, -width] * len(contexts) + number
            contexts, number = np.unique(longer, return_inverse=True)
        grams, indices, counts = np.unique(
            number * reading.n_tokens + reading.text, return_inverse=True, return_counts=True
        )
        if width < order - 1:  # each gram counts its preceding tokens
            longer = np.unique(before[:, -width - 1] * len(grams) + indices)
            counts = np.bincount(longer % len(grams))
        levels.append(_discount(contexts, grams, counts, reading.n_tokens))
    return KneserNey(tuple(levels), reading.n_tokens)


def _discount(contexts: Int64, grams: Int64, counts: Int64, size: int) -> Level:
    taken = np.concatenate([[0.0], find_discounts(counts)])[np.minimum(counts, 3)]
    row = grams // size
    totals = np.bincount(row, counts).astype(np.int64)
    backoff = np.bincount(row, taken) / totals
    return Level(contexts, grams, (counts - taken) / totals[row], backoff, totals)


def find_discounts(counts: Int64) -> Float64:
    """D₁, D₂ and D₃₊ from the number of grams that occur once, twice, three and four times.

    Examples
    --------
    >>> find_discounts(np.array([1] * 8 + [2] * 4 + [3] * 2 + [4])).tolist()
    [0.5, 1.25, 2.0]
    >>> find_discounts(np.array([1, 1, 5])).tolist()
    [0.5, 1.0, 1.5]
    >>> find_discounts(np.array([1] * 8 + [2] + [3] * 4 + [4])).tolist()  # D₂ would be below 0
    [0.8, 1.0, 2.2]
    """
    n = np.bincount(np.minimum(counts, 5), minlength=5)[1:5].astype(np.float64)
    if not n.all():
        return np.array(FEW)
    share = n[0] / (n[0] + 2 * n[1])
    discounts = np.array([count - (count + 1) * share * n[count] / n[count - 1] for count in (1, 2, 3)])
    return np.where(discounts > 0, discounts, FEW)


def _find(keys: Int64, wanted: Int64) -> Int64:
    """The index of each wanted key among ascending keys, −1 if absent."""
    indices = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[indices] == wanted, indices, -1)
