"""Causal value of heads: how the loss rises with a head's mean pattern, and with its mean output.

Replacing the pattern by its mean removes where a head looks and keeps what it reads. Mean ablation removes
both, so it is not evidence about where a head looks. The two are always measured and shown together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from attomaton.base.errors import InvalidSamples, MismatchedParts, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import make_rng, whole_number
from attomaton.base.printing import Block, Grid
from attomaton.base.tables import Bool, Float64, Int32, table_of
from attomaton.heads.audit.documents import cut_documents, list_documents
from attomaton.heads.audit.jackknife import Estimates, Resampled
from attomaton.heads.model import Edits, Head, HeadModel, LayeredModel, check_heads

MOST_EXACT = 6
"""Shapley values of up to this many heads are exact, over all subsets; beyond, orders are sampled."""

BY = ("lag", "position")
KINDS = ("pattern", "ablation")

_torch: Any = torch  # its type stubs leave some functions partly unknown


@dataclass(frozen=True, eq=False)
class LabelledContexts:
    """Contexts of one length with their labels, one from each document.

    Attributes
    ----------
    tokens : int32 array, shape (n, length + 1)
        Each context, followed by the label of its last position.
    scored : bool array, shape (length,)
        The positions whose loss counts.
    """

    tokens: Int32
    scored: Bool

    def __post_init__(self) -> None:
        length = self.tokens.shape[1] - 1
        if self.scored.shape != (length,) or not self.scored.any():
            raise MismatchedParts(
                f"scored has shape {self.scored.shape} with {int(self.scored.sum())} true; give "
                f"true or false for each of {length} positions, at least one of them true"
            )

    @classmethod
    def of(
        cls,
        documents: Sequence[Any],
        *,
        length: int,
        n_tokens: int,
        scored: Bool | None = None,
        most: int | None = None,
    ) -> "LabelledContexts":
        """The first ``length + 1`` tokens of every document that is long enough, or of ``most`` of them."""
        length = whole_number(length, "length", least=2)
        every = cut_documents(list_documents(documents), length + 1, n_tokens=n_tokens)
        read = [ids for ids in every if len(ids) > length]
        if not read:
            raise InvalidSamples(f"no document has {length + 1} tokens; choose a smaller length")
        if most is not None and len(read) > most:
            read = [read[int(index)] for index in np.linspace(0, len(read) - 1, most).round()]
        return cls(np.array(read), np.ones(length, bool) if scored is None else np.asarray(scored, bool))

    def batches(self, model: HeadModel) -> Iterator[Tensor]:
        """The contexts, in batches that are run at once."""
        length = self.tokens.shape[1] - 1
        size = model.shape.batch_of(length)
        for first in range(0, len(self.tokens), size):
            yield _torch.from_numpy(self.tokens[first : first + size].astype(np.int64))


@dataclass(frozen=True, eq=False)
class Means:
    """The mean pattern (n_heads, length, length) and mean output of every head, by layer.

    By lag, a pattern is the mean attention on the first token and a profile for other positions; by position,
    it is the mean of each entry. Outputs have shape (n_heads, length or 1, width).
    """

    patterns: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def edits(self, heads: Sequence[Head], kind: str) -> Edits:
        """Arguments of ``watch`` that give these heads their mean patterns or mean outputs."""
        means = self.patterns if kind == "pattern" else self.outputs

        def edit(layer: int, tensor: Tensor) -> Tensor:
            numbers = [head.number for head in heads if head.layer == layer]
            if not numbers:
                return tensor
            changed = tensor.clone()
            changed[:, numbers] = means[layer][numbers].to(tensor)
            return changed

        return {"edit_patterns" if kind == "pattern" else "edit_outputs": edit} if heads else {}


def measure_means(model: HeadModel, contexts: LabelledContexts, *, by: str = "lag") -> Means:
    """The mean pattern and mean output of every head over contexts.

    ``by="lag"`` suits text, where absolute positions mean little; ``by="position"`` suits contexts in which
    each position has its own role.
    """
    if by not in BY:
        raise UnsupportedOption(f"means are by lag or by position, not {by!r}")
    sums: list[Tensor] = []
    output_sums: list[Tensor] = []

    def collect(layer: int, outputs: Tensor) -> Tensor:
        total = outputs.detach().cpu().double().sum(0)
        if len(output_sums) <= layer:
            output_sums.append(total)
        else:
            output_sums[layer] += total
        return outputs

    for tokens in contexts.batches(model):
        with torch.no_grad():
            patterns = model.watch(tokens[:, :-1], edit_outputs=collect).patterns
        totals = [pattern.detach().double().sum(0) for pattern in patterns]
        sums = [old + new for old, new in zip(sums, totals, strict=True)] if sums else totals
    n = len(contexts.tokens)
    means, outputs = [total / n for total in sums], [total / n for total in output_sums]
    if by == "position":
        return Means(tuple(means), tuple(outputs))
    return Means(tuple(map(_by_lag, means)), tuple(output.mean(1, keepdim=True) for output in outputs))


def _by_lag(mean: Tensor) -> Tensor:
    """Mean patterns, shape (n_heads, length, length), as the mass on the first token and a profile by lag.

    Every row sums to what the mean row at this position sums to: less than 1 in models with learned sinks.
    """
    length, mass = mean.shape[1], mean.sum(2, keepdim=True)
    lags = torch.arange(length)[:, None] - torch.arange(length)
    first = mean[:, 1:, 0].mean(1)
    profile = torch.stack(
        [mean[:, lag + 1 :, 1:].diagonal(0, 1, 2).mean(1) for lag in range(length - 1)], 1
    )  # row lag + 1 + i looks at position 1 + i
    spread = profile[:, lags.clamp(0, length - 2)] * ((lags >= 0) & (torch.arange(length) > 0))
    total = spread.sum(2, keepdim=True)
    spread = spread / torch.where(total > 0, total, 1.0) * (mass - first[:, None, None]).clamp_min(0.0)
    spread[:, :, 0] = first[:, None]
    spread[:, 0] = 0.0
    spread[:, 0, 0] = 1.0
    return spread / spread.sum(2, keepdim=True) * mass


@dataclass(frozen=True, eq=False, repr=False)
class Causal(Tabular):
    """Causal value of sets of heads: how much the loss rises, and how much accuracy falls.

    Attributes
    ----------
    sets : tuple of tuple of Head
        The heads that are changed together, one set per row.
    loss, accuracy : float
        The loss and the accuracy of the unchanged model, at the scored positions.
    pattern, ablation : Estimates
        The rise of the loss in nats with the set's mean patterns, and with its mean outputs.
    pattern_drop, ablation_drop : float64 array, shape (n_sets,)
        The fall in accuracy, in the same two cases.
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
        """The sets as text."""
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
                *(f"{getattr(self, kind).value[at]:+.4f}" for kind in KINDS),
                *(f"{getattr(self, f'{kind}_drop')[at]:+.4f}" for kind in KINDS),
            )
            for at, name in enumerate(self.names)
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
    """Measure the causal value of sets of heads, by mean patterns and by mean outputs.

    Parameters
    ----------
    model : HeadModel
        The model.
    contexts : LabelledContexts
        Where the loss is measured.
    sets : sequence of Head or of sequences of Head, optional
        Heads that are changed alone or together. None means each head alone.
    by : str
        ``"lag"`` or ``"position"``, as in :func:`measure_means`.
    means_from : LabelledContexts, optional
        Where the means are taken. None means the same contexts.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> contexts = LabelledContexts.of(documents, length=8, n_tokens=6)
    >>> replace_heads(model, contexts).names
    ['0.0', '0.1']
    """
    alone = [(head,) for head in model.shape.heads]
    groups = alone if sets is None else [(heads,) if isinstance(heads, Head) else heads for heads in sets]
    checked = [tuple(check_heads(heads, model.shape)) for heads in groups]
    if means_from is not None and means_from.tokens.shape[1] != contexts.tokens.shape[1]:
        raise MismatchedParts("the contexts for the means have another length; cut both to the same length")
    means = measure_means(model, contexts if means_from is None else means_from, by=by)
    return replace_by(model, contexts, means, checked)


def replace_by(
    model: HeadModel, contexts: LabelledContexts, means: Means, sets: Sequence[Sequence[Head]]
) -> Causal:
    """The causal value of sets of heads, by means that were measured before."""
    runs = [(heads, kind) for heads in sets for kind in KINDS]
    losses, hits = run_all(model, contexts, means, [((), "pattern"), *runs])
    drawn = Resampled.over(np.arange(len(contexts.tokens)))
    rises = (losses[1:] - losses[0]).reshape(len(sets), len(KINDS), -1)
    drops = (hits[0].mean() - hits[1:].mean(1)).reshape(len(sets), len(KINDS))
    pattern, ablation = (drawn.mean(rises[:, kind].T) for kind in range(len(KINDS)))
    whole = float(losses[0].mean()), float(hits[0].mean())
    return Causal(tuple(map(tuple, sets)), *whole, pattern, ablation, drops[:, 0], drops[:, 1])


def run_all(
    model: HeadModel,
    contexts: LabelledContexts,
    means: Means,
    runs: Sequence[tuple[Sequence[Head], str]],
) -> tuple[Float64, Float64]:
    """Loss and accuracy of each context for several runs, each with some heads changed, shapes (n_runs, n).

    What :func:`run_edited` defines; a :class:`~attomaton.heads.model.LayeredModel` may begin a run at the
    first changed layer, since edits change nothing before it.
    """
    losses, hits = (np.empty((len(runs), len(contexts.tokens))) for _ in range(2))
    n_layers, start = model.shape.n_layers, 0
    first = [min((head.layer for head in heads), default=n_layers) for heads, _ in runs]
    scored: Tensor = _torch.from_numpy(contexts.scored)
    order = sorted(range(len(runs)), key=first.__getitem__)
    changes: list[tuple[int, Any]] = [(first[run], means.edits(*runs[run])) for run in order]
    for tokens in contexts.batches(model):
        batch, start = slice(start, start + len(tokens)), start + len(tokens)
        read, labels = tokens[:, :-1], tokens[:, 1:][:, scored]
        every = (
            model.run_edits(read, changes, scored)
            if isinstance(model, LayeredModel)
            else (model.watch(read, **edits).logits[:, scored] for _, edits in changes)
        )
        for run, logits in zip(order, every, strict=True):
            losses[run, batch], hits[run, batch] = _score_contexts(logits, labels)
    return losses, hits


def run_edited(
    model: HeadModel, contexts: LabelledContexts, means: Means, heads: Sequence[Head], kind: str
) -> tuple[Float64, Float64]:
    """Loss and accuracy of each context at the scored positions, with some heads changed, shapes (n,)."""
    scored: Tensor = _torch.from_numpy(contexts.scored)
    scores = [
        _score_contexts(
            model.watch(tokens[:, :-1], **means.edits(heads, kind)).logits[:, scored],
            tokens[:, 1:][:, scored],
        )
        for tokens in contexts.batches(model)
    ]
    losses, hits = (np.concatenate(batch) for batch in zip(*scores, strict=True))
    return losses, hits


def _score_contexts(logits: Tensor, labels: Tensor) -> tuple[Float64, Float64]:
    """Mean loss and accuracy of each context, shapes (n,)."""
    logits = logits.detach().double()
    losses = -torch.log_softmax(logits, -1).gather(-1, labels[..., None])[..., 0].mean(1)
    return losses.numpy(), (logits.argmax(-1) == labels).double().mean(1).numpy()


@dataclass(frozen=True, eq=False, repr=False)
class Shapley(Tabular):
    """Shapley values: each head's share of a set's joint effect on the loss, for mean patterns and outputs.

    Attributes
    ----------
    heads : tuple of Head
        The set.
    pattern, ablation : float64 array, shape (n_heads,)
        Each head's share in nats; the shares add up to the effect of the whole set.
    pattern_error, ablation_error : float64 array, shape (n_heads,)
        Standard errors over sampled orders; 0 if all subsets were measured.
    """

    heads: tuple[Head, ...]
    pattern: Float64
    ablation: Float64
    pattern_error: Float64
    ablation_error: Float64

    def __repr__(self) -> str:
        n = len(self.heads)
        return (
            f"Shapley({n} head{'s' * (n != 1)}: mean patterns {self.pattern.sum():+.4f}, mean outputs "
            f"{self.ablation.sum():+.4f} in all)"
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
    """Shapley values of heads: the rise in loss that each adds, averaged over the orders of changing them.

    For up to six heads every subset is measured and the values are exact.

    Parameters
    ----------
    model : HeadModel
        The model.
    contexts : LabelledContexts
        Where the loss is measured and the means are taken.
    heads : sequence of Head
        The set.
    by : str
        ``"lag"`` or ``"position"``, as in :func:`measure_means`.
    orders : int
        How many orders are sampled if there are more than six heads.
    seed : int
        Random seed.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> contexts = LabelledContexts.of(documents, length=8, n_tokens=6)
    >>> share_out(model, contexts, model.shape.heads).pattern.shape
    (2,)
    """
    checked = tuple(check_heads(heads, model.shape))
    means = measure_means(model, contexts, by=by)
    losses: dict[tuple[str, frozenset[Head]], float] = {}
    exact = len(checked) <= MOST_EXACT
    orders = orders if exact else whole_number(orders, "orders", least=2)

    def value(kind: str, changed: frozenset[Head]) -> float:
        if (kind, changed) not in losses:
            losses[kind, changed] = float(run_edited(model, contexts, means, sorted(changed), kind)[0].mean())
        return losses[kind, changed]

    shares = list[Float64]()
    errors = list[Float64]()
    for kind in KINDS:
        if exact:
            shares.append(np.array([_share(checked, head, partial(value, kind)) for head in checked]))
            errors.append(np.zeros(len(checked)))
            continue
        gains = _draw_orders(checked, orders, make_rng(seed), partial(value, kind))
        shares.append(gains.mean(0))
        errors.append(gains.std(0, ddof=1) / np.sqrt(orders))
    return Shapley(checked, *shares, *errors)


def _share(heads: tuple[Head, ...], head: Head, value: Callable[[frozenset[Head]], float]) -> float:
    """Σ over sets without the head of |S|! (n − |S| − 1)! / n! times the rise that the head adds to S."""
    remaining = [member for member in heads if member != head]
    n, total = len(heads), 0.0
    for size in range(n):
        weight = factorial(size) * factorial(n - size - 1) / factorial(n)
        for chosen in combinations(remaining, size):
            changed = frozenset(chosen)
            total += weight * (value(changed | {head}) - value(changed))
    return total


def _draw_orders(
    heads: tuple[Head, ...],
    orders: int,
    rng: np.random.Generator,
    value: Callable[[frozenset[Head]], float],
) -> Float64:
    """The rise that each head adds in each of some random orders, shape (orders, n_heads)."""
    gains = np.empty((orders, len(heads)))
    for row in gains:
        changed: frozenset[Head] = frozenset()
        order: list[int] = rng.permutation(len(heads)).tolist()
        for at in order:
            row[at] = value(changed | {heads[at]}) - value(changed)
            changed |= {heads[at]}
    return gains
