"""Finite sequences drawn from classes, as token counts: their order does not matter."""

from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Float64, Int64
from attomaton.theories.scansnap.reduced import ReducedCorpus


@dataclass(frozen=True, eq=False)
class Draws:
    """Sequences of one length.

    Attributes
    ----------
    classes : int64 array, shape (...,)
        The class of each sequence.
    counts : float64 array, shape (..., n_keys)
        How often each used token occurs before the query.

    Examples
    --------
    >>> from attomaton_experiments.scansnap.star import make_star
    >>> drawn = draw_counts(ReducedCorpus(make_star(2, 10, common=0.5)), (1000,), 9, np.random.default_rng(0))
    >>> own = drawn.counts[np.arange(1000), 1 + drawn.classes]  # the distinct token of each sequence's class
    >>> bool((own + drawn.counts[:, 0] == 8).all()), round(own.mean())
    (True, 4)
    """

    classes: Int64
    counts: Float64


def draw_counts(
    reduced: ReducedCorpus, shape: tuple[int, ...], length: int, rng: np.random.Generator
) -> Draws:
    """Draw classes by their shares, and ``length`` − 1 tokens before the query by P(l | n).

    Parameters
    ----------
    reduced : ReducedCorpus
        The corpus.
    shape : tuple of int
        The number of sequences, along any number of axes.
    length : int
        Tokens of a sequence, including its query.
    rng : numpy.random.Generator
        The random generator.

    Examples
    --------
    >>> from attomaton.theories import draw_linear_classes
    >>> drawn = draw_counts(ReducedCorpus(draw_linear_classes(2)), (5,), 128, np.random.default_rng(0))
    >>> drawn.counts.shape, drawn.counts.sum(axis=1).tolist()
    ((5, 30), [127.0, 127.0, 127.0, 127.0, 127.0])
    """
    classes = reduced.classes
    number = rng.choice(len(classes), shape, p=classes.shares)
    tokens, law = reduced.padded_law
    drawn = rng.multinomial(length - 1, law[number])
    counts = np.zeros((*shape, len(reduced.keys)))
    np.put_along_axis(counts, tokens[number], drawn.astype(np.float64), axis=-1)
    return Draws(number, counts)
