"""Samples labelled with the most useful token to attend to: a text as seen by a head's values.

The automaton describes heads that predict the tokens they attend to. To describe a head with other values,
the token with the highest utility replaces the label of each context. Such samples give the order of tokens
that a head follows if it always attends to the best token.
"""

from collections.abc import Sequence

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.tables import Bool, Int32, Int64, Integers
from attomaton.corpora import Samples
from attomaton.heads import Head
from attomaton.heads.model import HeadModel
from attomaton.heads.utility.measured import Baseline, find_gains


def relabel_by_utility(
    model: HeadModel,
    rows: Integers,
    *,
    baseline: Baseline = "uniform",
    alone: bool = False,
    first: int = 1,
    copies: bool = False,
    heads: Sequence[Head] | None = None,
) -> list[Samples]:
    """Samples for each head: contexts unchanged, labelled with the most useful token to attend to.

    The label of a context x_1, …, x_T is the x_i with the largest −∂loss/∂a_i, the first among equals.
    All heads share their contexts. Learn from them as from any samples, with
    :func:`~attomaton.learn` or :func:`~attomaton.shrink`.

    Parameters
    ----------
    rows : integers, shape (n, length + 1)
        Windows of the training text: contexts, and the label of the last position.
    baseline, alone, first, copies, heads
        As for :func:`~attomaton.heads.measure_utility`.

    Returns
    -------
    list of Samples
        In the order of the heads.

    Examples
    --------
    >>> from attomaton.heads import from_arrays
    >>> look, copy = np.zeros((1, 1, 4, 4)), np.eye(4)[None, None]
    >>> layer = from_arrays(np.eye(4), look, look, copy, copy)  # it copies its input: labels stay
    >>> list(relabel_by_utility(layer, np.array([[2, 0, 1, 0]]), first=2))[0][0]
    Sample(context=(2, 0, 1), label=0)
    """
    chosen_heads = model.shape.heads if heads is None else list(heads)
    values, labels = list[Int32](), {head: list[Int32]() for head in chosen_heads}
    starts, stops, n_read = list[Int64](), list[Int64](), 0
    for gains in find_gains(model, rows, baseline=baseline, alone=alone, heads=chosen_heads):
        length = int(gains.tokens.shape[1])
        row, last = np.nonzero(gains.counted(first, copies=copies))
        values.append(gains.tokens.ravel().astype(np.int32))
        starts.append(n_read + row * length)
        stops.append(n_read + row * length + last + 1)
        earlier: Bool = np.arange(length) <= last[:, None]
        for head in chosen_heads:
            worth = np.where(earlier, gains.values[head][row, last], -np.inf)
            labels[head].append(gains.tokens[row, worth.argmax(1)].astype(np.int32))
        n_read += gains.tokens.size
    if not sum(len(batch) for batch in starts):
        raise InvalidSamples(
            "no position counts; give longer windows, a smaller `first`, or text whose labels are in the "
            "context"
        )
    tokens, begin, end = np.concatenate(values), np.concatenate(starts), np.concatenate(stops)
    every = [np.concatenate(labels[head]) for head in chosen_heads]
    return [Samples(tokens, begin, end, label, model.shape.n_tokens) for label in every]
