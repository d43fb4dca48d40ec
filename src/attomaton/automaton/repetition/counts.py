"""Draw long texts from a layer that continues its own output, storing only token counts.

With equal seeds a text equals that of :meth:`~attomaton.automaton.attention.Attention.generate`, but compiled
code draws it: ten million steps take a second or less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.repetition.odds import Odds, RepeatedLayer, read_odds
from attomaton.base.errors import UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.native import append_tokens
from attomaton.base.options import make_rng, whole_number
from attomaton.base.tables import Float64, Int32, Int64, table_of

DRAWN_AT_ONCE = 1_000_000  # random numbers in memory
MOST_TEXT_STEPS = 100_000_000_000  # some hours for a few tokens


@dataclass(frozen=True, eq=False, repr=False)
class TextCounts(Tabular):
    """The counts of the tokens in several texts, at some lengths of the texts.

    ``tokens`` are ids, shape (K,). ``lengths``, shape (n_lengths,), include the prompt. ``counts`` have the
    shape (n_texts, n_lengths, K).
    """

    tokens: Int32
    lengths: Int64
    counts: Float64

    def __repr__(self) -> str:
        return f"Counts({len(self.tokens):,} tokens, {len(self.counts):,} texts of {self.lengths[-1]:,})"

    def _table(self) -> pa.Table:
        run, length, token = np.indices(self.counts.shape).reshape(3, -1)
        columns = {"run": run, "length": self.lengths[length], "token": self.tokens[token]}
        return table_of({**columns, "count": self.counts.ravel()})

    @property
    def mean(self) -> Float64:
        """The mean count of each token over texts, shape (n_lengths, K)."""
        return self.counts.mean(axis=0)

    @property
    def shares(self) -> Float64:
        """The mean share of each token over texts, shape (n_lengths, K)."""
        return self.mean / self.lengths[:, None]

    def slopes(self, since: int) -> Float64:
        """The slope d ln n / d ln t of the mean counts, from the length ``since`` to the last, shape (K,)."""
        first = int(np.searchsorted(self.lengths, since))
        if first >= len(self.lengths) - 1 or self.lengths[first] != since:
            raise UnsupportedOption(
                f"length {since:,} is the last length, or tokens were not counted there; give another one "
                "of the counted lengths"
            )
        log_growth = np.log(self.mean[-1] / self.mean[first])
        return log_growth / np.log(self.lengths[-1] / self.lengths[first])


def draw_counts(
    layer: RepeatedLayer,
    prompt: Any = None,
    *,
    lengths: Sequence[int],
    seed: np.random.Generator | int | None = 0,
    runs: int = 1,
) -> TextCounts:
    """Let a layer continue a prompt, with its whole output as context, and count the tokens.

    Parameters
    ----------
    layer : Attention or float array, shape (n_tokens, n_tokens)
        An automaton, another attention, or a table of odds with one row per query.
    prompt : str or sequence, optional
        The first context. None means each token once.
    lengths : sequence of int
        The lengths of the text, including the prompt, at which tokens are counted, in ascending order.
    seed : int or numpy.random.Generator, optional
        The random generator, or its seed.
    runs : int
        The number of texts, drawn one after the other from the same generator.

    Examples
    --------
    >>> draw_counts([[0.2, 0.8], [0.5, 0.5]], lengths=[10, 100], seed=3).counts.shape
    (1, 2, 2)
    """
    odds, indices = read_odds(layer, prompt)
    checked = check_text_lengths(lengths, len(indices))
    runs = whole_number(runs, "runs", least=1)
    rng = make_rng(seed)
    counts = [_count_text(odds, indices, checked, rng) for _ in range(runs)]
    return TextCounts(odds.tokens, checked, np.array(counts))


def check_text_lengths(lengths: Sequence[int], shortest: int) -> Int64:
    """The lengths as an array; they must rise, and be at least ``shortest``, the length of the prompt."""
    checked = [whole_number(length, "a length", least=shortest, most=MOST_TEXT_STEPS) for length in lengths]
    if not checked or checked != sorted(set(checked)):
        raise UnsupportedOption("the lengths do not increase; give each length once, in ascending order")
    return np.array(checked, np.int64)


def count_prompt(indices: Int64, n_tokens: int) -> Float64:
    return np.bincount(indices, minlength=n_tokens).astype(np.float64)


# The counts of the tokens in one text at these lengths, shape (n_lengths, K).
def _count_text(odds: Odds, prompt: Int64, lengths: Int64, rng: np.random.Generator) -> Float64:
    table = np.ascontiguousarray(odds.among())
    counts = count_prompt(prompt, len(odds.tokens))  # `append_tokens` adds to it
    last = int(prompt[-1])
    length = len(prompt)
    counts_at: list[Float64] = []
    for target in lengths.tolist():
        while length < target:
            n_drawn = min(DRAWN_AT_ONCE, target - length)
            last = append_tokens(table, counts, last, rng.random(n_drawn))
            length += n_drawn
        counts_at.append(counts.copy())
    return np.array(counts_at)
