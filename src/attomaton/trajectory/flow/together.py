"""Gradient descent of all queries at once, in numpy: what Python does where compiling does not pay."""

from typing import Any

import numpy as np

Array = Any


def descend_together(queries: Any, scores: Array, step_size: float, n_steps: int) -> None:
    """Take ``n_steps`` steps with all queries, changing ``scores``, shape (n_alternatives,).

    ``queries`` are those of :class:`~attomaton.trajectory.flow.orthonormal.OrthonormalFlow`. The gradient of
    a whole component is the sum of what crosses its border, so nothing cancels (see there).
    """
    choices, (component, size) = queries.choices, queries.wholes
    if not len(choices.winner):
        return
    alternative, begin = choices.alternative, choices.offsets[:-1]
    lengths = np.diff(choices.offsets)
    winner = np.repeat(choices.winner, lengths)
    loses, crosses = alternative != winner, component[alternative] != component[winner]
    count, n_scores, n_wholes = np.repeat(choices.count, lengths), len(scores), len(size)
    offset = np.log(choices.multiplicity)
    for _ in range(n_steps):
        logits = scores[alternative] + offset
        odds = np.exp(logits - np.repeat(np.maximum.reduceat(logits, begin), lengths))
        press = count * loses * odds / np.repeat(np.add.reduceat(odds, begin), lengths)
        slope = _carry(alternative, winner, press, n_scores)
        crossing = _carry(component[alternative], component[winner], press * crosses, n_wholes)
        missing = (crossing - np.bincount(component, slope, n_wholes)) / size
        scores -= step_size * (slope + missing[component])


def _carry(into: Array, out_of: Array, amount: Array, n_places: int) -> Array:
    """What each place receives less what it gives, shape (n_places,)."""
    return np.bincount(into, amount, n_places) - np.bincount(out_of, amount, n_places)
