"""``learn_mixture``: the limits of a text, and their weights from what was held back of it."""

import numpy as np

from attomaton.automaton import shrink
from attomaton.graphs import find_successors
from attomaton.theories import learn_decoder
from attomaton_experiments.mixture.mixture import Mixture, fit_mixture
from attomaton_experiments.mixture.parts import AttentionPart, DecoderPart, Uniform, relabel_written
from attomaton_experiments.mixture.reading import MixtureText

STRENGTH = 0.4
"""How far scores of attention are held back: what held-back text chose on WikiText-2."""

DECODERS = ("unigram", "bigram", "trigram")


def learn_mixture(
    fitted: MixtureText,
    held: MixtureText,
    *,
    window: int = 32,
    reach: int | None = None,
    strength: float = STRENGTH,
    pull: float = 50.0,
) -> Mixture:
    """Learn every part from one text, and weigh them by another.

    Parameters
    ----------
    fitted : MixtureText
        What the limits are learned from.
    held : MixtureText
        What the weights are fitted on: a text that was held back.
    window : int
        Tokens of the contexts that the heads learn from.
    reach : int, optional
        Tokens that the copying head reads; ``window`` if not given.
    strength : float
        How far scores of attention are held back, as in :func:`~attomaton.shrink`.
    pull : float
        How many positions the overall weights count for in each cell.

    Examples
    --------
    >>> text = np.random.default_rng(0).integers(0, 5, 400)
    >>> fitted, held = (MixtureText(part, before=0, n_tokens=5) for part in (text[:300], text[300:]))
    >>> mixture = learn_mixture(fitted, held, window=4)
    >>> [part.name for part in mixture.parts]
    ['uniform', 'unigram', 'bigram', 'trigram', 'copies', 'writes successors']
    >>> round(float(mixture.law(held, 7).sum()), 12)
    1.0
    """
    decoders = [learn_decoded(fitted, width) for width in range(len(DECODERS))]
    heads = [learn_copies(fitted, window, strength, reach), learn_writes(fitted, window, strength)]
    return fit_mixture([Uniform(), *decoders, *heads], held, pull=pull)


def learn_decoded(fitted: MixtureText, width: int) -> DecoderPart:
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
    return DecoderPart(DECODERS[width] if width < len(DECODERS) else context, supports)


def learn_copies(
    fitted: MixtureText, window: int, strength: float = STRENGTH, reach: int | None = None
) -> AttentionPart:
    """The head that writes what it reads: attention's limit, its scores held back.

    A score belongs to a query and a token, wherever they stand: scores learned from contexts of ``window``
    tokens are read over the last ``reach``.

    Examples
    --------
    >>> learn_copies(MixtureText(np.array([1, 0, 1, 0]), before=0, n_tokens=2), 3).name
    'copies'
    """
    return AttentionPart("copies", shrink(fitted.all_samples(window), strength=strength), reach or window)


def learn_writes(fitted: MixtureText, window: int, strength: float = STRENGTH) -> AttentionPart:
    """The head that writes the most frequent successor of what it reads.

    Examples
    --------
    >>> learn_writes(MixtureText(np.array([1, 0, 1, 0]), before=0, n_tokens=2), 3).name
    'writes successors'
    """
    writes = find_successors(fitted.stream, n_tokens=fitted.n_tokens)
    samples = relabel_written(fitted.all_samples(window), writes)
    return AttentionPart("writes successors", shrink(samples, strength=strength), window, writes)
