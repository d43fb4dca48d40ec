"""Places in a context that heads are named after: how much attention they get, and how useful it would be."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.heads.model import HeadModel
from attomaton.heads.utility.measured import find_gains

Places = Callable[[Int64], Bool]
"""From contexts, shape (n, length), to the keys at the place of each query, shape (n, length, length)."""


def first_token(tokens: Int64) -> Bool:
    """The first token of the context."""
    return _earlier(tokens) & (np.arange(int(tokens.shape[1])) == 0)


def previous_token(tokens: Int64) -> Bool:
    """The token before the query."""
    place = np.arange(int(tokens.shape[1]))
    return _earlier(tokens) & (place[:, None] - place[None, :] == 1)


def same_token(tokens: Int64) -> Bool:
    """Earlier occurrences of the query."""
    return _earlier(tokens) & (tokens[:, :, None] == tokens[:, None, :])


def induction(tokens: Int64) -> Bool:
    """The tokens that followed earlier occurrences of the query.

    Examples
    --------
    >>> induction(np.array([[7, 8, 9, 7]]))[0, 3].tolist()
    [False, True, False, False]
    """
    before = np.concatenate([np.full((len(tokens), 1), -1), tokens[:, :-1]], axis=1)
    return _earlier(tokens) & (tokens[:, :, None] == before[:, None, :])


def _earlier(tokens: Int64) -> Bool:
    length = int(tokens.shape[1])
    return np.broadcast_to(np.tri(length, length, -1, dtype=bool), (len(tokens), length, length))


PLACES: dict[str, Places] = {
    "first token": first_token,
    "previous token": previous_token,
    "same token": same_token,
    "induction": induction,
}


def place_column(measure: str, place: str) -> str:
    """The column of a measure at a place, such as ``attention_previous_token``."""
    return f"{measure}_{place.replace(' ', '_')}"


def measure_places(model: HeadModel, windows: Int64) -> list[dict[str, float]]:
    """For each head, ``attention_PLACE`` and ``utility_PLACE``, means over the queries that have the place.

    Utility is what the loss falls by, for each unit of attention moved there from uniform attention, where
    all heads attend uniformly; of several keys at the place, their mean. ``windows`` are contexts with the
    label of the last position, shape (n, length + 1).
    """
    heads, tokens = model.shape.heads, windows[:, :-1]
    gains = list(find_gains(model, windows, baseline="uniform", alone=False, heads=heads))
    patterns = model.watch(tokens).patterns
    there = {name: find(tokens) for name, find in PLACES.items()}
    told: list[dict[str, float]] = []
    for head in heads:
        seen: Any = patterns[head.layer][:, head.number].double().numpy()
        useful = np.concatenate([part.values[head] for part in gains])
        told.append(
            {
                place_column(measure, name): average_at(values, keys, total=measure == "attention")
                for name, keys in there.items()
                for measure, values in (("attention", seen), ("utility", useful))
            }
        )
    return told


def average_at(values: Float64, keys: Bool, *, total: bool) -> float:
    """The mean over queries with such keys of the values there, summed over keys if ``total``, else averaged.

    Examples
    --------
    >>> keys = np.array([[[False, False], [True, True]]])
    >>> average_at(np.array([[[1.0, 0.0], [0.25, 0.75]]]), keys, total=True)
    1.0
    """
    count = keys.sum(-1)
    sums: Float64 = (values * keys).sum(-1)[count > 0]
    averaged = sums if total else sums / count[count > 0]
    return float(averaged.mean()) if len(sums) else 0.0
