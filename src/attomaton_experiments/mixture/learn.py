"""``learn_mixture``: the limits of a text, and their weights from held-out text."""

import numpy as np

from attomaton.automaton import shrink
from attomaton.graphs import find_successors
from attomaton.theories import learn_decoder
from attomaton_experiments.mixture.experts import AttentionExpert, DecoderExpert, Uniform, relabel_written
from attomaton_experiments.mixture.mixture import Mixture, fit_mixture
from attomaton_experiments.mixture.reading import MixtureText

STRENGTH = 0.4
"""The shrinkage of attention scores, chosen on held-out text of WikiText-2."""

DECODERS = ("unigram", "bigram", "trigram")


def learn_mixture(
    fitted: MixtureText,
    held_out: MixtureText,
    *,
    window: int = 32,
    reach: int | None = None,
    strength: float = STRENGTH,
    pull: float = 50.0,
) -> Mixture:
    """Learn every expert from one text, and fit their weights on another.

    Parameters
    ----------
    fitted : MixtureText
        The text that the limits are learned from.
    held_out : MixtureText
        The held-out text that the weights are fitted on.
    window : int
        Tokens per context when the heads learn.
    reach : int, optional
        Tokens that the copying head reads. None means ``window``.
    strength : float
        The shrinkage of attention scores, as in :func:`~attomaton.shrink`.
    pull : float
        The weight of the overall weights in each cell, in positions.

    Examples
    --------
    >>> text = np.random.default_rng(0).integers(0, 5, 400)
    >>> fitted, held_out = (MixtureText(part, before=0, n_tokens=5) for part in (text[:300], text[300:]))
    >>> mixture = learn_mixture(fitted, held_out, window=4)
    >>> [expert.name for expert in mixture.experts]
    ['uniform', 'unigram', 'bigram', 'trigram', 'copies', 'writes successors']
    >>> round(float(mixture.law(held_out, 7).sum()), 12)
    1.0
    """
    decoders = [learn_decoded(fitted, width) for width in range(len(DECODERS))]
    heads = [learn_copies(fitted, window, strength, reach), learn_writes(fitted, window, strength)]
    return fit_mixture([Uniform(), *decoders, *heads], held_out, pull=pull)


def learn_decoded(fitted: MixtureText, width: int) -> DecoderExpert:
    """The decoder's limit with ``width`` tokens of context, 0 for none.

    Examples
    --------
    >>> learn_decoded(MixtureText(np.array([1, 0, 2]), before=0, n_tokens=3), 1).supports.totals.tolist()
    [2, 1]
    """
    text = np.concatenate([np.full(width, fitted.before), fitted.text])
    context = DECODERS[width] if width < 2 else f"ngram:{width + 1}"
    supports = learn_decoder([text], context, engine="memory").supports
    if supports.n_tokens < fitted.n_tokens:
        supports = type(supports)(
            supports.contexts, supports.offsets, supports.tokens, supports.counts, fitted.n_tokens
        )
    return DecoderExpert(DECODERS[width] if width < len(DECODERS) else context, supports)


def learn_copies(
    fitted: MixtureText, window: int, strength: float = STRENGTH, reach: int | None = None
) -> AttentionExpert:
    """The head that copies the token it reads: the limit of attention, with shrunk scores.

    A score belongs to a query and a token at any positions: scores learned from contexts of ``window``
    tokens are applied to the last ``reach``.

    Examples
    --------
    >>> learn_copies(MixtureText(np.array([1, 0, 1, 0]), before=0, n_tokens=2), 3).name
    'copies'
    """
    return AttentionExpert("copies", shrink(fitted.all_samples(window), strength=strength), reach or window)


def learn_writes(fitted: MixtureText, window: int, strength: float = STRENGTH) -> AttentionExpert:
    """The head that writes the most frequent successor of the token it reads.

    Examples
    --------
    >>> learn_writes(MixtureText(np.array([1, 0, 1, 0]), before=0, n_tokens=2), 3).name
    'writes successors'
    """
    writes = find_successors(fitted.stream, n_tokens=fitted.n_tokens)
    samples = relabel_written(fitted.all_samples(window), writes)
    return AttentionExpert("writes successors", shrink(samples, strength=strength), window, writes)
