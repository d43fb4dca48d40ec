"""Interpolated modified Kneser–Ney: the smoothed n-gram model that a language model is usually held against.

After Chen and Goodman (1999). A gram of the highest order counts as often as it occurs, one of a lower order
by how many tokens it follows. Every count is lowered by a discount, D₁, D₂ or D₃₊, and what is taken away
goes to the model of the next lower order; below one token stands the uniform law.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.mixture.parts import SEEN
from attomaton.mixture.reading import Reading
from attomaton.tables import Float64, Int64

FEW = (0.5, 1.0, 1.5)
"""Discounts where a text is too short to estimate them: some count of 1 to 4 does not occur."""


@dataclass(frozen=True, eq=False)
class Level:
    """One order of the model.

    Attributes
    ----------
    grams : int64 array, shape (n_grams,)
        Context and token as one number in base V, rising.
    lowered : float64 array, shape (n_grams,)
        The discounted count of each over the sum of its context.
    contexts : int64 array, shape (n_contexts,)
        The contexts, rising.
    rest : float64 array, shape (n_contexts,)
        The share that each leaves to the lower order.
    totals : int64 array, shape (n_contexts,)
        The sum of counts of each.

    Examples
    --------
    >>> level = Level(np.array([0, 1]), np.array([0.5, 0.25]), np.array([0]), np.array([0.25]), np.array([4]))
    >>> [one.tolist() for one in level.look_up(np.array([0, 1]), np.array([1, 3]))]  # context 1 is unknown
    [[0.25, 0.0], [0.25, 1.0], [4, 0]]
    """

    grams: Int64
    lowered: Float64
    contexts: Int64
    rest: Float64
    totals: Int64

    def look_up(self, contexts: Int64, grams: Int64) -> tuple[Float64, Float64, Int64]:
        """For each pair the discounted share, the share of the lower order, and how often the context was."""
        at, known = _find(self.contexts, contexts)
        gram, there = _find(self.grams, grams)
        return (
            np.where(there, self.lowered[gram], 0.0),
            np.where(known, self.rest[at], 1.0),
            np.where(known, self.totals[at], 0),
        )


@dataclass(frozen=True, eq=False)
class KneserNey:
    """A smoothed n-gram model; never silent.

    Attributes
    ----------
    levels : tuple of Level
        From one token to the highest order.
    n_tokens : int
        Size of the vocabulary.

    Examples
    --------
    >>> reading = Reading(np.array([0, 1, 0, 2, 0, 1, 0, 1]), before=2, n_tokens=3)
    >>> model = learn_kneser_ney(reading, 2)
    >>> model.name, model.law(reading, 1).round(3).tolist(), round(model.read(reading)[0][1].item(), 3)
    ('Kneser–Ney, 2 tokens', [0.208, 0.521, 0.271], 0.521)
    """

    levels: tuple[Level, ...]
    n_tokens: int

    @property
    def name(self) -> str:
        """Its order in words."""
        return f"Kneser–Ney, {len(self.levels)} tokens"

    def read(self, reading: Reading) -> tuple[Float64, Int64]:
        """See :class:`~attomaton.mixture.parts.Part`. The more often its longest context was, the surer."""
        chances, totals = self._chances(reading.contexts(len(self.levels) - 1), reading.text)
        return chances, 1 + np.searchsorted(SEEN, totals, side="right")

    def law(self, reading: Reading, place: int) -> Float64:
        """See :class:`~attomaton.mixture.parts.Part`."""
        context = reading.contexts(len(self.levels) - 1)[place]
        every = np.arange(self.n_tokens)
        return self._chances(np.tile(context, (self.n_tokens, 1)), every)[0]

    def _chances(self, contexts: Int64, labels: Int64) -> tuple[Float64, Int64]:
        chances, totals = np.full(len(labels), 1 / self.n_tokens), np.zeros(len(labels), np.int64)
        key, base = np.zeros(len(labels), np.int64), 1
        for width, level in enumerate(self.levels):
            if width:
                key += contexts[:, -width] * base
                base *= self.n_tokens
            share, rest, totals = level.look_up(key, key * self.n_tokens + labels)
            chances = share + rest * chances
        return chances, totals


def learn_kneser_ney(reading: Reading, order: int) -> KneserNey:
    """Count a text and discount; ``order`` 2 has one token of context, and 1 has none.

    Examples
    --------
    >>> reading = Reading(np.array([0, 1, 0, 2, 0, 1]), before=2, n_tokens=3)
    >>> round(float(learn_kneser_ney(reading, 3).law(reading, 2).sum()), 12)
    1.0
    """
    size = reading.n_tokens
    levels = list[Level]()
    for width in range(order):
        if width == order - 1:
            grams, counts = np.unique(_keys(reading, width + 1), return_counts=True)
        else:  # each gram as often as there are tokens before it
            longer = np.unique(_keys(reading, width + 2)) % size ** (width + 1)
            grams, counts = np.unique(longer, return_counts=True)
        levels.append(_discount(grams, counts, size))
    return KneserNey(tuple(levels), size)


def _keys(reading: Reading, length: int) -> Int64:
    """The last ``length`` tokens of every position as one number."""
    keys = np.zeros(len(reading), np.int64)
    for column in (*reading.contexts(length - 1).T, reading.text):
        keys = keys * reading.n_tokens + column
    return keys


def _discount(grams: Int64, counts: Int64, size: int) -> Level:
    taken = np.concatenate([[0.0], find_discounts(counts)])[np.minimum(counts, 3)]
    contexts, first = np.unique(grams // size, return_index=True)
    totals = np.add.reduceat(counts, first)
    rest = np.add.reduceat(taken, first) / totals
    row = np.repeat(np.arange(len(contexts)), np.diff(np.append(first, len(grams))))
    return Level(grams, (counts - taken) / totals[row], contexts, rest, totals)


def find_discounts(counts: Int64) -> Float64:
    """D₁, D₂ and D₃₊ from how many grams occur once, twice, three and four times.

    Examples
    --------
    >>> find_discounts(np.array([1] * 8 + [2] * 4 + [3] * 2 + [4])).tolist()
    [0.5, 1.25, 2.0]
    >>> find_discounts(np.array([1, 1, 5])).tolist()
    [0.5, 1.0, 1.5]
    """
    n = np.bincount(np.minimum(counts, 5), minlength=5)[1:5].astype(np.float64)
    if not n.all():
        return np.array(FEW)
    share = n[0] / (n[0] + 2 * n[1])
    found = np.array([one - (one + 1) * share * n[one] / n[one - 1] for one in (1, 2, 3)])
    return np.clip(found, 0.0, [1.0, 2.0, 3.0])


def _find(held: Int64, wanted: Int64) -> tuple[Int64, np.ndarray]:
    place = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    return place, held[place] == wanted
