"""The odds with which a layer draws the next token among those of a prompt.

Attention points at its context, so a generated text never has a token that its prompt lacks. The layer
therefore reduces to a square table: its ranking of the prompt's tokens under each of them.

:func:`draw_counts` draws long texts from this table and stores only the count of each token. A text equals
that of :meth:`~attomaton.automaton.attention.Attention.generate` with the same seed, but compiled code draws
it: ten million steps take a second or less.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.attention import Attention
from attomaton.automaton.automaton import Automaton
from attomaton.automaton.prediction import HARD_TIE
from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.native import append_tokens
from attomaton.base.options import make_rng, whole_number
from attomaton.base.tables import Bool, Float64, Int32, Int64, table_of
from attomaton.corpora.prompts import Context, Names, read_context
from attomaton.corpora.samples import Samples

MOST_TOKENS = 1_000
"""Maximum number of distinct tokens of a prompt: the table of odds is dense."""

RepeatedLayer = Any
"""An attention (an automaton, finite scores), or its odds as a non-negative square array."""


@dataclass(frozen=True, eq=False, repr=False)
class Odds:
    """How a layer ranks K tokens, with each of them in turn as the query.

    Under the query i the tokens of the highest level that are present are retrieved, and drawn with the odds
    m_j e^{score}, m_j being the count of token j in the context.

    Attributes
    ----------
    tokens : int32 array, shape (K,)
        Their ids, ascending. Rows and columns of the tables below are in this order.
    levels : float64 array, shape (K, K)
        The level of each token (columns) under each query (rows); −∞ where no sample concerns the pair.
    scores : float64 array, shape (K, K)
        Scores within a level.
    name : Names
        The text of each token id.
    """

    tokens: Int32
    levels: Float64
    scores: Float64
    name: Names = field(default_factory=Names)

    def __repr__(self) -> str:
        return f"Odds({len(self.tokens):,} tokens)"

    def among(self, present: Bool | None = None) -> Float64:
        """w, shape (K, K): the odds under each query if the tokens ``present`` occur once each.

        None means all. Rows are scaled so that their largest entry is 1, which changes no probability.
        """
        present = np.ones(len(self.tokens), np.bool_) if present is None else present
        levels: Float64 = np.where(present, self.levels, -np.inf)
        top: Float64 = levels.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):  # −∞ − (−∞): no token of the row is known, so all are drawn
            taken: Bool = present & ((levels >= top - HARD_TIE) | (top == -np.inf))
        scores = np.where(taken, self.scores, -np.inf)
        return np.exp(scores - scores.max(axis=1, keepdims=True))


def read_odds(layer: RepeatedLayer, prompt: Context | None) -> tuple[Odds, Int64]:
    """The odds among the tokens of a prompt, and the prompt as indices into these, shape (length,)."""
    checked = layer if isinstance(layer, Attention) else _check_table(layer)
    size = checked.n_tokens if isinstance(checked, Attention) else len(checked)
    vocabulary = checked.vocabulary if isinstance(checked, Attention) else None
    context: Any = range(size) if prompt is None and size <= MOST_TOKENS else prompt
    if context is None:
        raise UnsupportedOption(
            f"the layer has {size:,} tokens, and a text is drawn from at most {MOST_TOKENS:,}; give a prompt"
        )
    ids, names = read_context(list(context) if isinstance(context, range) else context, size, vocabulary)
    tokens, indices = np.unique(ids, return_inverse=True)
    if len(tokens) > MOST_TOKENS:
        raise UnsupportedOption(
            f"the prompt has {len(tokens):,} different tokens; at most {MOST_TOKENS:,} are supported: "
            "give a shorter prompt"
        )
    levels, scores = _rank(checked, tokens.astype(np.int32))
    return Odds(tokens.astype(np.int32), levels, scores, names), indices.astype(np.int64)


def _rank(layer: Attention | Float64, tokens: Int32) -> tuple[Float64, Float64]:
    """Levels and scores of the tokens under each other, shape (K, K) each."""
    shape = len(tokens), len(tokens)
    if isinstance(layer, Automaton):
        nodes = layer.look_up(np.repeat(tokens, len(tokens)), np.tile(tokens, len(tokens)))
        levels = np.where(nodes.is_node, nodes.hard, -np.inf)
        scores = np.where(nodes.is_node, nodes.soft, 0.0)
        return levels.reshape(shape), scores.reshape(shape)
    probabilities = (
        _probabilities(layer, tokens) if isinstance(layer, Attention) else layer[np.ix_(tokens, tokens)]
    )
    above = probabilities > 0
    scores = np.zeros(shape)
    scores[above] = np.log(probabilities[above])
    return np.where(above, 0.0, -np.inf), scores


def _probabilities(layer: Attention, tokens: Int32) -> Float64:
    """The probabilities under each query if each token occurs once, shape (K, K)."""
    size = len(tokens)
    values = np.array([np.append(np.delete(tokens, index), tokens[index]) for index in range(size)])
    offsets = np.arange(0, size * size + 1, size)
    n_tokens = max(layer.n_tokens, int(tokens.max()) + 1)
    contexts = Samples.from_arrays(values.ravel(), offsets, tokens, n_tokens=n_tokens)
    return layer.predict_samples(contexts).probabilities.reshape(size, size)


def _check_table(layer: RepeatedLayer) -> Float64:
    """Odds as an array: square, finite, non-negative."""
    table: Any
    try:
        table = np.asarray(layer, np.float64)
    except (TypeError, ValueError):
        table = np.empty((0, 0))
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not table.size:
        raise MismatchedParts(
            f"a layer of type {type(layer).__name__} is not supported; give an automaton, another attention, "
            "or its odds as a square array whose rows are queries"
        )
    if not np.isfinite(table).all() or (table < 0).any():
        raise MismatchedParts("some odds are negative or not finite; odds are e^{score}")
    return table


def count_prompt(indices: Sequence[int] | Int64, n_tokens: int) -> Float64:
    """The count of each token in a prompt, shape (n_tokens,)."""
    return np.bincount(np.asarray(indices, np.int64), minlength=n_tokens).astype(np.float64)


DRAWN_AT_ONCE = 1_000_000
"""Number of draws made at once."""

MOST_TEXT_STEPS = 100_000_000_000
"""Maximum number of steps of one text: some hours for a few tokens."""


@dataclass(frozen=True, eq=False, repr=False)
class TextCounts(Tabular):
    """The counts of each token, in several texts, at some lengths.

    Attributes
    ----------
    tokens : int32 array, shape (K,)
        The ids of the tokens.
    lengths : int64 array, shape (n_marks,)
        The counted lengths of the text, including the prompt.
    counts : float64 array, shape (n_runs, n_marks, K)
        The count of each token at each length.
    """

    tokens: Int32
    lengths: Int64
    counts: Float64

    def __repr__(self) -> str:
        return f"Counts({len(self.tokens):,} tokens, {len(self.counts):,} texts of {self.lengths[-1]:,})"

    def _table(self) -> pa.Table:
        """Columns run, length, token and count, one row per count."""
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
        """d ln n / d ln t of the mean counts from a counted length to the last, shape (K,)."""
        first = int(np.searchsorted(self.lengths, since))
        if first >= len(self.lengths) - 1 or self.lengths[first] != since:
            raise UnsupportedOption(
                f"length {since:,} is not one of the counted lengths before the last; give one of those"
            )
        grown = np.log(self.mean[-1] / self.mean[first])
        return grown / np.log(self.lengths[-1] / self.lengths[first])


def draw_counts(
    layer: RepeatedLayer,
    prompt: Any = None,
    *,
    lengths: Sequence[int],
    seed: np.random.Generator | int | None = 0,
    runs: int = 1,
) -> TextCounts:
    """Let a layer continue a prompt, with its whole output as context, and count tokens.

    Parameters
    ----------
    layer : Attention or float array, shape (n_tokens, n_tokens)
        An automaton, another attention, or odds with one row per query.
    prompt : str or sequence, optional
        The first context; None means every token once.
    lengths : sequence of int
        Lengths of the text, prompt included, at which to count; ascending, at least the prompt's.
    seed : int or numpy.random.Generator, optional
        The generator, or its seed.
    runs : int
        Number of texts, drawn in turn from the same generator.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 0, 1]], [0, 1, 2, 2]))
    >>> draw_counts(auto, [0, 1, 2], lengths=[9], seed=3).counts.tolist()
    [[[3.0, 2.0, 4.0]]]
    >>> np.bincount((0, 1, 2) + auto.generate([0, 1, 2], 6, seed=3).tokens).tolist()
    [3, 2, 4]
    """
    odds, indices = read_odds(layer, prompt)
    marks = check_marks(lengths, len(indices))
    runs, rng = whole_number(runs, "runs", least=1), make_rng(seed)
    counts = [_count_text(odds, indices, marks, rng) for _ in range(runs)]
    return TextCounts(odds.tokens, marks, np.array(counts))


def check_marks(lengths: Sequence[int], least: int) -> Int64:
    """Lengths at which to count, shape (n_marks,): whole, ascending, at least that of the prompt."""
    marks = [whole_number(length, "a length", least=least, most=MOST_TEXT_STEPS) for length in lengths]
    if not marks or marks != sorted(set(marks)):
        raise UnsupportedOption("the lengths do not increase; give each once, in ascending order")
    return np.array(marks, np.int64)


def _count_text(odds: Odds, prompt: Int64, marks: Int64, rng: np.random.Generator) -> Float64:
    table, counts = np.ascontiguousarray(odds.among()), count_prompt(prompt, len(odds.tokens))
    last, length = int(prompt[-1]), len(prompt)
    counts_at: list[Float64] = []
    for mark in marks.tolist():
        while length < mark:
            n = min(DRAWN_AT_ONCE, mark - length)
            last = append_tokens(table, counts, last, rng.random(n))
            length += n
        counts_at.append(counts.copy())
    return np.array(counts_at)
