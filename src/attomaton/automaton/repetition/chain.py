"""Text that a layer draws from its own output without end: only how often each token came up is kept.

It is what :meth:`~attomaton.automaton.attention.Attention.generate` draws with the same seed, compiled, so
that ten million steps take a second or less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.repetition.odds import Layer, Odds, count_places, read_odds
from attomaton.base.errors import UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.kernels import compiled
from attomaton.base.options import make_rng, whole_number
from attomaton.base.tables import Float64, Int32, Int64, table_of

BLOCK = 1_000_000
"""Draws that are made at once."""

MOST_STEPS = 100_000_000_000
"""The most steps of one text: some hours for a few tokens."""


@dataclass(frozen=True, eq=False, repr=False)
class TextCounts(Tabular):
    """How often each token had come up, in several texts, at some lengths.

    Attributes
    ----------
    tokens : int32 array, shape (K,)
        The ids of the tokens.
    lengths : int64 array, shape (n_marks,)
        Lengths of the text at which was counted, the prompt included.
    counts : float64 array, shape (n_runs, n_marks, K)
        How often each token had come up by then.

    Examples
    --------
    >>> counts = draw_counts([[3.0, 1.0], [3.0, 1.0]], [0, 1], lengths=[10, 1000, 100_000], seed=1, runs=20)
    >>> counts, counts.shares.shape
    (Counts(2 tokens, 20 texts of 100,000), (3, 2))
    >>> counts.slopes(1000)[1].round(1)  # the count of token 1 grows like t^⅓
    np.float64(0.3)
    """

    tokens: Int32
    lengths: Int64
    counts: Float64

    def __repr__(self) -> str:
        return f"Counts({len(self.tokens):,} tokens, {len(self.counts):,} texts of {self.lengths[-1]:,})"

    def _table(self) -> pa.Table:
        """Columns run, length, token and count, a row for each."""
        runs, marks, size = self.counts.shape
        run, mark, token = np.indices((runs, marks, size)).reshape(3, -1)
        columns = {"run": run, "length": self.lengths[mark], "token": self.tokens[token]}
        return table_of({**columns, "count": self.counts.ravel()})

    @property
    def mean(self) -> Float64:
        """The mean count over texts, shape (n_marks, K)."""
        return self.counts.mean(axis=0)

    @property
    def shares(self) -> Float64:
        """The mean share over texts, shape (n_marks, K)."""
        return self.mean / self.lengths[:, None]

    def slopes(self, since: int) -> Float64:
        """d ln n / d ln t of the mean counts from a length that was counted to the last, shape (K,)."""
        first = int(np.searchsorted(self.lengths, since))
        if first >= len(self.lengths) - 1 or self.lengths[first] != since:
            raise UnsupportedOption(f"nothing was counted at the length {since:,} and after it; give another")
        grown = np.log(self.mean[-1] / self.mean[first])
        return grown / np.log(self.lengths[-1] / self.lengths[first])


def draw_counts(
    layer: Layer,
    prompt: Any = None,
    *,
    lengths: Sequence[int],
    seed: np.random.Generator | int | None = 0,
    runs: int = 1,
) -> TextCounts:
    """Let a layer go on from a prompt with all that it wrote as its context, and count tokens.

    Parameters
    ----------
    layer : Attention or float array, shape (n_tokens, n_tokens)
        What draws: an automaton, another attention, or odds with a row for each query.
    prompt : str or sequence, optional
        The first context; None means every token once.
    lengths : sequence of int
        Lengths of the text, prompt included, at which to count; rising, none below the prompt's.
    seed : int or numpy.random.Generator, optional
        What draws, or the seed of it.
    runs : int
        How many texts, one after the other from the same generator.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 0, 1]], [0, 1, 2, 2]))
    >>> draw_counts(auto, [0, 1, 2], lengths=[9], seed=3).counts.tolist()
    [[[3.0, 2.0, 4.0]]]
    >>> np.bincount((0, 1, 2) + auto.generate([0, 1, 2], 6, seed=3).tokens).tolist()
    [3, 2, 4]
    """
    odds, places = read_odds(layer, prompt)
    marks = check_lengths(lengths, len(places))
    runs, rng = whole_number(runs, "runs", least=1), make_rng(seed)
    found = [_draw(odds, places, marks, rng) for _ in range(runs)]
    return TextCounts(odds.tokens, marks, np.array(found))


def check_lengths(lengths: Sequence[int], least: int) -> Int64:
    """Lengths at which to count, shape (n_marks,): whole, rising, none below that of the prompt."""
    given = [whole_number(one, "a length", least=least, most=MOST_STEPS) for one in lengths]
    if not given or given != sorted(set(given)):
        raise UnsupportedOption("the lengths do not rise; give each once, the shortest first")
    return np.array(given, np.int64)


def _draw(odds: Odds, places: Int64, marks: Int64, rng: np.random.Generator) -> Float64:
    table, counts = odds.among(), count_places(places, len(odds.tokens))
    last, length = int(places[-1]), len(places)
    found: list[Float64] = []
    for mark in marks.tolist():
        while length < mark:
            n = min(BLOCK, mark - length)
            last = append_tokens(table, counts, last, rng.random(n))
            length += n
        found.append(counts.copy())
    return np.array(found)


def _work(_: Float64, counts: Float64, __: int, draws: Float64) -> float:
    return 2.0 * len(draws) * len(counts)


@compiled(work=_work)
def append_tokens(odds: Float64, counts: Float64, last: int, draws: Float64) -> int:
    """Draw a token for each entry of ``draws`` (in [0, 1)), add it to ``counts``, and return the last one."""
    for at in range(len(draws)):
        total = 0.0
        for token in range(len(counts)):
            total += counts[token] * odds[last, token]
        left = draws[at] * total
        below, taken, going = 0.0, last, True
        for token in range(len(counts)):
            part = counts[token] * odds[last, token]
            if going and part > 0.0:
                taken = token
                below += part
                going = below <= left
        counts[taken] += 1.0
        last = taken
    return last
