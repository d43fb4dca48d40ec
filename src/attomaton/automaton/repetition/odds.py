"""The odds with which a layer draws the next token among those of a prompt.

Attention points at its context, so a text that it goes on with never has another token than its prompt. All
that matters of the layer is therefore a square table: how it ranks the prompt's tokens under each of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attomaton.automaton.attention import Attention
from attomaton.automaton.automaton import Automaton
from attomaton.automaton.context import Context, Names, read_context
from attomaton.automaton.prediction import TIE
from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.tables import Bool, Float64, Int32, Int64
from attomaton.corpora.samples import Samples

MOST_TOKENS = 1_000
"""Distinct tokens of a prompt: the table of odds is dense."""

Layer = Any
"""An attention (an automaton, finite scores), or its odds as a square array that is not negative."""


@dataclass(frozen=True, eq=False, repr=False)
class Odds:
    """How a layer ranks K tokens under each of them.

    Under the query i the tokens of the highest level that are present are retrieved, and drawn with the odds
    m_j e^{score}, m_j being how often token j stands in the context.

    Attributes
    ----------
    tokens : int32 array, shape (K,)
        Their ids, rising. Rows and columns of the tables below are in this order.
    levels : float64 array, shape (K, K)
        The level of each token (columns) under each query (rows); −∞ where no sample speaks of the pair.
    scores : float64 array, shape (K, K)
        Scores inside a level.
    name : Names
        The text of each token id.

    Examples
    --------
    >>> odds = read_odds([[3.0, 1.0], [1.0, 0.0]], None)[0]
    >>> odds.among().round(3).tolist()  # rows are scaled so that the largest is 1
    [[1.0, 0.333], [1.0, 0.0]]
    >>> odds.among(np.array([False, True])).tolist()  # without token 0, token 1 is what is left
    [[0.0, 1.0], [0.0, 1.0]]
    >>> odds
    Odds(2 tokens)
    """

    tokens: Int32
    levels: Float64
    scores: Float64
    name: Names = field(default_factory=Names)

    def __repr__(self) -> str:
        return f"Odds({len(self.tokens):,} tokens)"

    def among(self, present: Bool | None = None) -> Float64:
        """w, shape (K, K): the odds under each query where the tokens ``present`` stand once.

        None means all. Rows are scaled so that their largest entry is 1, which changes no chance.
        """
        there = np.ones(len(self.tokens), np.bool_) if present is None else present
        levels: Float64 = np.where(there, self.levels, -np.inf)
        top: Float64 = levels.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):  # −∞ from −∞: no token of the row is known, and all are taken
            taken: Bool = there & ((levels >= top - TIE) | (top == -np.inf))
        scores = np.where(taken, self.scores, -np.inf)
        return np.exp(scores - scores.max(axis=1, keepdims=True))


def read_odds(layer: Layer, prompt: Context | None) -> tuple[Odds, Int64]:
    """The odds among the tokens of a prompt, and the prompt as places among these, shape (length,)."""
    given = layer if isinstance(layer, Attention) else _check_table(layer)
    size = given.n_tokens if isinstance(given, Attention) else len(given)
    vocabulary = given.vocabulary if isinstance(given, Attention) else None
    context: Any = range(size) if prompt is None and size <= MOST_TOKENS else prompt
    if context is None:
        raise UnsupportedOption(
            f"the layer has {size:,} tokens, and a text is drawn from at most {MOST_TOKENS:,}; give a prompt"
        )
    ids, names = read_context(list(context) if isinstance(context, range) else context, size, vocabulary)
    tokens, places = np.unique(ids, return_inverse=True)
    if len(tokens) > MOST_TOKENS:
        raise UnsupportedOption(
            f"the prompt has {len(tokens):,} different tokens, and {MOST_TOKENS:,} are the most; give a "
            "shorter one"
        )
    levels, scores = _rank(given, tokens.astype(np.int32))
    return Odds(tokens.astype(np.int32), levels, scores, names), places.astype(np.int64)


def _rank(layer: Attention | Float64, tokens: Int32) -> tuple[Float64, Float64]:
    """Levels and scores of the tokens under each other, shape (K, K) each."""
    shape = len(tokens), len(tokens)
    if isinstance(layer, Automaton):
        known = layer.know(np.repeat(tokens, len(tokens)), np.tile(tokens, len(tokens)))
        levels, scores = np.where(known.seen, known.hard, -np.inf), np.where(known.seen, known.soft, 0.0)
        return levels.reshape(shape), scores.reshape(shape)
    chances = _chances(layer, tokens) if isinstance(layer, Attention) else layer[np.ix_(tokens, tokens)]
    above = chances > 0
    scores = np.zeros(shape)
    scores[above] = np.log(chances[above])
    return np.where(above, 0.0, -np.inf), scores


def _chances(layer: Attention, tokens: Int32) -> Float64:
    """The chances under each query where each token stands once, shape (K, K)."""
    size = len(tokens)
    values = np.array([np.append(np.delete(tokens, place), tokens[place]) for place in range(size)])
    offsets = np.arange(0, size * size + 1, size)
    n_tokens = max(layer.n_tokens, int(tokens.max()) + 1)
    contexts = Samples.from_arrays(values.ravel(), offsets, tokens, n_tokens=n_tokens)
    return layer.predict_samples(contexts).probabilities.reshape(size, size)


def _check_table(given: Layer) -> Float64:
    """Odds as an array: square, finite, not negative."""
    table: Any
    try:
        table = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        table = np.empty((0, 0))
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not table.size:
        raise MismatchedParts(
            f"a layer of the type {type(given).__name__} is given; give an automaton, another attention, or "
            "its odds as a square array, rows being queries"
        )
    if not np.isfinite(table).all() or (table < 0).any():
        raise MismatchedParts("some odds are negative or not finite; odds are e^{score}")
    return table


def count_places(places: Sequence[int] | Int64, n_tokens: int) -> Float64:
    """How often each token stands in a prompt, shape (n_tokens,)."""
    return np.bincount(np.asarray(places, np.int64), minlength=n_tokens).astype(np.float64)
