"""Targets that heads are named after, such as the previous token: attention there, and how useful it is."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.heads.model import HeadModel
from attomaton.heads.utility.measured import find_gains

FindTarget = Callable[[Int64], Bool]
"""From contexts, shape (n, length), to the target keys of each query, shape (n, length, length)."""


def first_token(tokens: Int64) -> Bool:
    """The first token of the context."""
    return _earlier(tokens) & (np.arange(int(tokens.shape[1])) == 0)


def previous_token(tokens: Int64) -> Bool:
    """The token before the query."""
    positions = np.arange(int(tokens.shape[1]))
    return _earlier(tokens) & (positions[:, None] - positions[None, :] == 1)


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


TARGETS: dict[str, FindTarget] = {
    "first token": first_token,
    "previous token": previous_token,
    "same token": same_token,
    "induction": induction,
}


def target_column(measure: str, target: str) -> str:
    """The column of a measure of a target, such as ``attention_previous_token``."""
    return f"{measure}_{target.replace(' ', '_')}"


def measure_targets(model: HeadModel, windows: Int64) -> list[dict[str, float]]:
    """For each head, ``attention_TARGET`` and ``utility_TARGET``, means over queries that have the target.

    Utility is what the loss falls by, for each unit of attention moved there from uniform attention, where
    all heads attend uniformly; of several target keys, their mean. ``windows`` are contexts with the
    label of the last position, shape (n, length + 1).
    """
    heads, tokens = model.shape.heads, windows[:, :-1]
    gains = list(find_gains(model, windows, baseline="uniform", alone=False, heads=heads))
    patterns = model.watch(tokens).patterns
    keys_of = {name: find(tokens) for name, find in TARGETS.items()}
    measured: list[dict[str, float]] = []
    for head in heads:
        attended: Any = patterns[head.layer][:, head.number].double().numpy()
        useful = np.concatenate([batch.values[head] for batch in gains])
        measured.append(
            {
                target_column(measure, name): average_at(values, keys, total=measure == "attention")
                for name, keys in keys_of.items()
                for measure, values in (("attention", attended), ("utility", useful))
            }
        )
    return measured


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
