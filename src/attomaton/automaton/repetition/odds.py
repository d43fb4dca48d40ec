"""The odds with which a layer draws the next token from the tokens of a prompt.

Attention retrieves only tokens of its context, so a generated text contains only tokens of its prompt. The
layer then reduces to a square table: its scores for the tokens of the prompt under each of them.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attomaton.automaton.attention import Attention
from attomaton.automaton.automaton import Automaton
from attomaton.automaton.prediction import HARD_TIE
from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.tables import Bool, Float64, Int32, Int64
from attomaton.corpora.prompts import Context, Names, read_context
from attomaton.corpora.samples import Samples

# Maximum number of distinct tokens of a prompt: the table of odds is dense.
MOST_TOKENS = 1_000

# An attention (an automaton, finite scores), or its odds as a non-negative square array.
RepeatedLayer = Any


@dataclass(frozen=True, eq=False, repr=False)
class Odds:
    """How a layer ranks K tokens, with each of them as the query.

    ``tokens`` are their ids, ascending, shape (K,), and the rows (queries) and columns (tokens) of ``levels``
    and ``scores``, shape (K, K), are in this order. Of the tokens in a context, those of the highest level
    are retrieved, token j with odds m_j e^{score_j}, where m_j is its count. The level is −∞ if there is no
    evidence about the pair. ``name`` gives the text of a token id.
    """

    tokens: Int32
    levels: Float64
    scores: Float64
    name: Names = field(default_factory=Names)

    def __repr__(self) -> str:
        return f"Odds({len(self.tokens):,} tokens)"

    def among(self, present: Bool | None = None) -> Float64:
        """The odds w if each token in ``present`` occurs once, shape (K, K); rows are scaled to at most 1."""
        present = np.ones(len(self.tokens), np.bool_) if present is None else present
        levels: Float64 = np.where(present, self.levels, -np.inf)
        highest: Float64 = levels.max(axis=1, keepdims=True)  # −∞ if the query knows no token
        with np.errstate(invalid="ignore"):  # −∞ − (−∞); without evidence all tokens are drawn
            retrieved: Bool = present & ((levels >= highest - HARD_TIE) | (highest == -np.inf))
        scores = np.where(retrieved, self.scores, -np.inf)
        return np.exp(scores - scores.max(axis=1, keepdims=True))


def read_odds(layer: RepeatedLayer, prompt: Context | None) -> tuple[Odds, Int64]:
    """The odds among the tokens of a prompt (None: all tokens), and the prompt as indices of these tokens."""
    if isinstance(layer, Attention):
        n_tokens, vocabulary = layer.n_tokens, layer.vocabulary
    else:
        layer = _check_odds(layer)
        n_tokens, vocabulary = len(layer), None
    if prompt is None and n_tokens > MOST_TOKENS:
        raise UnsupportedOption(f"the layer has {n_tokens:,} tokens (limit: {MOST_TOKENS:,}); give a prompt")
    ids, names = read_context(list(range(n_tokens)) if prompt is None else prompt, n_tokens, vocabulary)
    tokens, indices = np.unique(ids, return_inverse=True)
    if len(tokens) > MOST_TOKENS:
        raise UnsupportedOption(
            f"the prompt has {len(tokens):,} different tokens, more than the limit of {MOST_TOKENS:,}; give "
            "a shorter prompt"
        )
    levels, scores = _rank(layer, tokens.astype(np.int32))
    return Odds(tokens.astype(np.int32), levels, scores, names), indices.astype(np.int64)


# The levels and the scores of :class:`Odds` among these tokens, both of shape (K, K).
def _rank(layer: Attention | Float64, tokens: Int32) -> tuple[Float64, Float64]:
    shape = len(tokens), len(tokens)
    if isinstance(layer, Automaton):
        nodes = layer.look_up(np.repeat(tokens, len(tokens)), np.tile(tokens, len(tokens)))
        levels = np.where(nodes.is_node, nodes.hard, -np.inf)
        scores = np.where(nodes.is_node, nodes.soft, 0.0)
        return levels.reshape(shape), scores.reshape(shape)
    odds = (
        _probabilities_once(layer, tokens) if isinstance(layer, Attention) else layer[np.ix_(tokens, tokens)]
    )
    positive = odds > 0
    scores = np.zeros(shape)
    scores[positive] = np.log(odds[positive])
    return np.where(positive, 0.0, -np.inf), scores


# The probability of each token under each query in a context that has each token once, shape (K, K).
def _probabilities_once(layer: Attention, tokens: Int32) -> Float64:
    size = len(tokens)
    # context i has token i at the end, as the query
    contexts = np.array([np.append(np.delete(tokens, index), tokens[index]) for index in range(size)])
    offsets = np.arange(0, size * size + 1, size)
    # unknown words of the prompt have ids from layer.n_tokens on
    n_tokens = max(layer.n_tokens, int(tokens.max()) + 1)
    samples = Samples.from_arrays(contexts.ravel(), offsets, tokens, n_tokens=n_tokens)
    return layer.predict_samples(samples).probabilities.reshape(size, size)


def _check_odds(layer: RepeatedLayer) -> Float64:
    odds: Any
    try:
        odds = np.asarray(layer, np.float64)
    except (TypeError, ValueError):
        odds = np.empty((0, 0))
    if odds.ndim != 2 or odds.shape[0] != odds.shape[1] or not odds.size:
        raise MismatchedParts(
            f"a layer of type {type(layer).__name__} is not supported; give an automaton, another attention, "
            "or its odds as a square array whose rows are queries"
        )
    if not np.isfinite(odds).all() or (odds < 0).any():
        raise MismatchedParts("some odds are negative or not finite; for each query and token, give e^score")
    return odds
