"""Causal value of heads: how the loss rises with mean patterns, and with mean outputs.

Mean outputs also remove what a head reads, so they alone are not evidence about where it looks.
:func:`replace_heads` replaces sets of heads, :func:`share_out` divides the effect of one set among its heads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.errors import MismatchedParts
from attomaton.base.frames import Tabular
from attomaton.base.options import make_rng, whole_number
from attomaton.base.printing import Block, Grid
from attomaton.base.tables import Float64, table_of
from attomaton.heads.audit.jackknife import Estimates, Resampled
from attomaton.heads.audit.replacing import KINDS, LabelledContexts, Means, measure_means, run_all, run_edited
from attomaton.heads.model import Head, HeadModel, check_heads

# Shapley values of at most this many heads are exact, over all subsets; for more, orders are sampled.
MOST_EXACT = 6


@dataclass(frozen=True, eq=False, repr=False)
class Causal(Tabular):
    """How much the loss rises, and how much accuracy falls, if sets of heads are replaced by their means.

    The heads of each of the ``sets`` are replaced together. ``loss`` and ``accuracy`` are those of the
    unchanged model. ``pattern`` and ``ablation`` are the rise in loss, in nats, with mean patterns and with
    mean outputs; ``pattern_drop`` and ``ablation_drop`` (n_sets,) are the fall in accuracy.
    """

    sets: tuple[tuple[Head, ...], ...]
    loss: float
    accuracy: float
    pattern: Estimates
    ablation: Estimates
    pattern_drop: Float64
    ablation_drop: Float64

    def __repr__(self) -> str:
        n = len(self.sets)
        return f"Causal({n} set{'s' * (n != 1)} of heads; loss {self.loss:.4f}, accuracy {self.accuracy:.4f})"

    @property
    def names(self) -> list[str]:
        """The heads of each set, separated by spaces."""
        return [" ".join(map(str, heads)) for heads in self.sets]

    def _table(self) -> pa.Table:
        columns: dict[str, Any] = {"heads": self.names}
        for kind in KINDS:
            rise: Estimates = getattr(self, kind)
            columns |= {f"{kind}_rise": rise.value, f"{kind}_low": rise.low, f"{kind}_high": rise.high}
            columns[f"{kind}_drop"] = getattr(self, f"{kind}_drop")
        return table_of(columns)

    def _blocks(self) -> list[Block]:
        rows = [
            (
                name,
                *(f"{getattr(self, kind).value[row]:+.4f}" for kind in KINDS),
                *(f"{getattr(self, f'{kind}_drop')[row]:+.4f}" for kind in KINDS),
            )
            for row, name in enumerate(self.names)
        ]
        headers = ["heads", "mean pattern: loss", "mean output: loss", "accuracy lost", "accuracy lost "]
        return [repr(self), Grid("", headers, rows)]


def replace_heads(
    model: HeadModel,
    contexts: LabelledContexts,
    *,
    sets: Sequence[Head | Sequence[Head]] | None = None,
    by: str = "lag",
    means_from: LabelledContexts | None = None,
) -> Causal:
    """Measure how much the loss rises if heads get their mean pattern, and if they get their mean output.

    Parameters
    ----------
    model : HeadModel
    contexts : LabelledContexts
        The contexts on which the loss is measured.
    sets : sequence of Head or of sequences of Head, optional
        The heads to replace, one at a time; the heads of an inner sequence are replaced together. None
        replaces every head of the model, one at a time.
    by : str
        ``"lag"`` takes mean patterns by distance, which suits text. ``"position"`` takes them by position,
        which suits contexts in which each position has its own role.
    means_from : LabelledContexts, optional
        The contexts over which means are taken. None means ``contexts``.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> replace_heads(model, LabelledContexts.of(documents, length=8, n_tokens=6)).names
    ['0.0', '0.1']
    """
    alone = [(head,) for head in model.shape.heads]
    groups = alone if sets is None else [(heads,) if isinstance(heads, Head) else heads for heads in sets]
    checked = [tuple(check_heads(heads, model.shape)) for heads in groups]
    if means_from is not None and means_from.tokens.shape[1] != contexts.tokens.shape[1]:
        raise MismatchedParts("means_from and contexts have different lengths; cut both to the same length")
    means = measure_means(model, contexts if means_from is None else means_from, by=by)
    return replace_by(model, contexts, means, checked)


def replace_by(
    model: HeadModel, contexts: LabelledContexts, means: Means, sets: Sequence[Sequence[Head]]
) -> Causal:
    """Measure loss and accuracy with each set of heads replaced, and how they differ from the model's own."""
    runs = [(heads, kind) for heads in sets for kind in KINDS]
    losses, hits = run_all(model, contexts, means, [((), "pattern"), *runs])  # first the unchanged model
    drawn = Resampled.over(np.arange(len(contexts.tokens)))  # each context is from another document
    rises = (losses[1:] - losses[0]).reshape(len(sets), len(KINDS), -1)
    drops = (hits[0].mean() - hits[1:].mean(1)).reshape(len(sets), len(KINDS))
    return Causal(
        tuple(map(tuple, sets)),
        loss=float(losses[0].mean()),
        accuracy=float(hits[0].mean()),
        pattern=drawn.mean(rises[:, 0].T),
        ablation=drawn.mean(rises[:, 1].T),
        pattern_drop=drops[:, 0],
        ablation_drop=drops[:, 1],
    )


@dataclass(frozen=True, eq=False, repr=False)
class Shapley(Tabular):
    """Shapley values: the share of each of ``heads`` in their joint effect on the loss.

    ``pattern`` and ``ablation`` (n_heads,) are shares in nats, with mean patterns and with mean outputs.
    ``pattern_error`` and ``ablation_error`` are standard errors over sampled orders, 0 for exact values.
    """

    heads: tuple[Head, ...]
    pattern: Float64
    ablation: Float64
    pattern_error: Float64
    ablation_error: Float64

    def __repr__(self) -> str:
        n = len(self.heads)
        return (
            f"Shapley({n} head{'s' * (n != 1)}; rise in loss with all mean patterns "
            f"{self.pattern.sum():+.4f}, with all mean outputs {self.ablation.sum():+.4f})"
        )

    def _table(self) -> pa.Table:
        columns: dict[str, Any] = {"head": [str(head) for head in self.heads]}
        for kind in KINDS:
            columns |= {kind: getattr(self, kind), f"{kind}_error": getattr(self, f"{kind}_error")}
        return table_of(columns)


def share_out(
    model: HeadModel,
    contexts: LabelledContexts,
    heads: Sequence[Head],
    *,
    by: str = "lag",
    orders: int = 24,
    seed: int = 0,
) -> Shapley:
    """Compute Shapley values: the rise in loss that each head adds, averaged over orders of replacing heads.

    Parameters
    ----------
    model : HeadModel
    contexts : LabelledContexts
        The contexts on which the loss is measured and means are taken.
    heads : sequence of Head
        The heads. The values of at most six heads are exact, because all subsets are measured.
    by : str
        ``"lag"`` or ``"position"``, as in :func:`replace_heads`.
    orders : int
        The number of random orders for more than six heads.
    seed : int
        The seed of these orders.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> share_out(model, LabelledContexts.of(documents, length=8, n_tokens=6), ["0.0", "0.1"]).heads
    (Head(layer=0, number=0), Head(layer=0, number=1))
    """
    checked = tuple(check_heads(heads, model.shape))
    is_exact = len(checked) <= MOST_EXACT
    orders = orders if is_exact else whole_number(orders, "orders", least=2)
    means = measure_means(model, contexts, by=by)

    @cache  # different orders replace the same sets
    def loss(kind: str, replaced: frozenset[Head]) -> float:
        losses, _ = run_edited(model, contexts, means, sorted(replaced), kind)
        return float(losses.mean())

    shares = list[Float64]()
    errors = list[Float64]()
    for kind in KINDS:
        loss_of_set = partial(loss, kind)
        if is_exact:
            shares.append(np.array([_exact_share(checked, head, loss_of_set) for head in checked]))
            errors.append(np.zeros(len(checked)))
        else:
            rises = _sample_orders(checked, orders, make_rng(seed), loss_of_set)
            shares.append(rises.mean(0))
            errors.append(rises.std(0, ddof=1) / np.sqrt(orders))
    return Shapley(checked, *shares, *errors)


# Σ over sets S without the head of |S|! (n − |S| − 1)! / n! · (loss(S ∪ {head}) − loss(S)).
def _exact_share(heads: tuple[Head, ...], head: Head, loss: Callable[[frozenset[Head]], float]) -> float:
    remaining = [member for member in heads if member != head]
    n = len(heads)
    share = 0.0
    for size in range(n):
        weight = factorial(size) * factorial(n - size - 1) / factorial(n)
        for members in map(frozenset, combinations(remaining, size)):
            share += weight * (loss(members | {head}) - loss(members))
    return share


# The rise in loss that each head adds in each of some random orders, shape (orders, n_heads).
def _sample_orders(
    heads: tuple[Head, ...], orders: int, rng: np.random.Generator, loss: Callable[[frozenset[Head]], float]
) -> Float64:
    rises = np.empty((orders, len(heads)))
    for row in rises:
        replaced: frozenset[Head] = frozenset()
        order: list[int] = rng.permutation(len(heads)).tolist()
        for index in order:
            row[index] = loss(replaced | {heads[index]}) - loss(replaced)
            replaced |= {heads[index]}
    return rises
