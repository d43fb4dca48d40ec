"""Runs of a model in which heads have their mean pattern or their mean output instead of their own.

A mean pattern removes where a head looks and keeps what it reads. A mean output (mean ablation) removes both.
:func:`measure_means` makes the means; :func:`run_all` and :func:`run_edited` give losses with heads replaced.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import InvalidSamples, MismatchedParts
from attomaton.base.options import choice, whole_number
from attomaton.base.tables import Bool, Float64, Int32
from attomaton.heads.audit.documents import cut_documents, list_documents
from attomaton.heads.model import Edits, Head, HeadModel, LayeredModel

BY = ("lag", "position")  # what mean patterns depend on

KINDS = ("pattern", "ablation")  # what is replaced: the pattern of heads, or their output

_torch: Any = torch  # its type stubs leave some functions partly unknown


@dataclass(frozen=True, eq=False)
class LabelledContexts:
    """Contexts of one length, one from each document, with the positions whose loss counts.

    ``tokens`` (n, length + 1) are the contexts, each followed by its last next token; ``scored`` (length,) is
    True at positions that count.
    """

    tokens: Int32
    scored: Bool

    def __post_init__(self) -> None:
        length = self.tokens.shape[1] - 1
        if self.scored.shape != (length,) or not self.scored.any():
            raise MismatchedParts(
                f"scored has shape {self.scored.shape} and is True at {int(self.scored.sum())} positions; "
                f"give True or False for each of {length} positions, and at least one True"
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
        """The contexts with their labels, in batches that are run at once."""
        length = self.tokens.shape[1] - 1
        size = model.shape.batch_of(length)
        for start in range(0, len(self.tokens), size):
            yield _torch.from_numpy(self.tokens[start : start + size].astype(np.int64))


@dataclass(frozen=True, eq=False)
class Means:
    """The mean pattern and the mean output of every head, by layer."""

    # (n_heads, length, length): by position, the mean of each entry; by lag, see ``_by_lag``.
    patterns: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]  # (n_heads, length, width) by position, (n_heads, 1, width) by lag

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
    """Take the mean pattern and mean output of every head over contexts, by ``"lag"`` or ``"position"``."""
    by = choice(by, "by", options=BY)
    pattern_sums: dict[int, Tensor] = {}
    output_sums: dict[int, Tensor] = {}

    def add(sums: dict[int, Tensor], layer: int, values: Tensor) -> None:
        total = values.double().sum(0)
        sums[layer] = sums[layer] + total if layer in sums else total

    def collect(layer: int, outputs: Tensor) -> Tensor:
        add(output_sums, layer, outputs.detach().cpu())
        return outputs

    for tokens in contexts.batches(model):
        with torch.no_grad():
            patterns = model.watch(tokens[:, :-1], edit_outputs=collect).patterns
        for layer, pattern in enumerate(patterns):
            add(pattern_sums, layer, pattern.detach())
    n = len(contexts.tokens)
    patterns = tuple(total / n for total in pattern_sums.values())
    outputs = tuple(total / n for total in output_sums.values())
    if by == "position":
        return Means(patterns, outputs)
    return Means(tuple(map(_by_lag, patterns)), tuple(output.mean(1, keepdim=True) for output in outputs))


# A mean pattern (n_heads, length, length) made of the mass on the first token and a profile by lag.
def _by_lag(mean: Tensor) -> Tensor:
    length = mean.shape[1]
    mass = mean.sum(2, keepdim=True)  # of each row, which stays; less than 1 in models with learned sinks
    first = mean[:, 1:, 0].mean(1)  # on the first token, from later queries

    # Give each entry the value of its lag, except on the first token and on later keys.
    lags = torch.arange(length)[:, None] - torch.arange(length)
    is_profiled = (lags >= 0) & (torch.arange(length) > 0)
    spread = _profile_by_lag(mean)[:, lags.clamp(0, length - 2)] * is_profiled  # lag length − 1: first token

    # Scale each row to the mass that the first token leaves.
    total = spread.sum(2, keepdim=True)
    remaining = (mass - first[:, None, None]).clamp_min(0.0)
    pattern = spread / torch.where(total > 0, total, 1.0) * remaining
    pattern[:, :, 0] = first[:, None]

    # The first query can only attend to the first token.
    pattern[:, 0] = 0.0
    pattern[:, 0, 0] = 1.0

    # Rows without a profile, or with too much on the first token, do not have the right sum yet.
    return pattern / pattern.sum(2, keepdim=True) * mass


# The mean attention at each lag 0 … length − 2, without the first token, shape (n_heads, length − 1).
def _profile_by_lag(mean: Tensor) -> Tensor:
    # Without row 0 … lag and column 0, entry (i, i) has query lag + 1 + i and key 1 + i.
    n_lags = mean.shape[1] - 1
    return torch.stack([mean[:, lag + 1 :, 1:].diagonal(0, 1, 2).mean(1) for lag in range(n_lags)], 1)


def run_all(
    model: HeadModel, contexts: LabelledContexts, means: Means, runs: Sequence[tuple[Sequence[Head], str]]
) -> tuple[Float64, Float64]:
    """Loss and accuracy of each context in several runs, as in :func:`run_edited`, shapes (n_runs, n)."""
    # A run is the heads that are replaced, and the kind of their replacement.
    losses, hits = np.empty((2, len(runs), len(contexts.tokens)))
    n_layers = model.shape.n_layers
    first_layers = [min((head.layer for head in heads), default=n_layers) for heads, _ in runs]
    # `run_edits` needs the runs in ascending order of the first layer that they change.
    order = sorted(range(len(runs)), key=first_layers.__getitem__)
    changes: list[tuple[int, Any]] = [(first_layers[run], means.edits(*runs[run])) for run in order]
    scored: Tensor = _torch.from_numpy(contexts.scored)
    start = 0
    for tokens in contexts.batches(model):
        batch = slice(start, start + len(tokens))
        start = batch.stop
        context_tokens = tokens[:, :-1]
        labels = tokens[:, 1:][:, scored]
        logits_of_runs = (
            model.run_edits(context_tokens, changes, scored)
            if isinstance(model, LayeredModel)
            else (model.watch(context_tokens, **edits).logits[:, scored] for _, edits in changes)
        )
        for run, logits in zip(order, logits_of_runs, strict=True):
            losses[run, batch], hits[run, batch] = _score_contexts(logits, labels)
    return losses, hits


def run_edited(
    model: HeadModel, contexts: LabelledContexts, means: Means, heads: Sequence[Head], kind: str
) -> tuple[Float64, Float64]:
    """Loss and accuracy of each context at the scored positions, with heads replaced, shapes (n,)."""
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


# Loss and accuracy of each context, from logits (n, n_scored, n_tokens) and labels (n, n_scored).
def _score_contexts(logits: Tensor, labels: Tensor) -> tuple[Float64, Float64]:
    logits = logits.detach().double()
    losses = -torch.log_softmax(logits, -1).gather(-1, labels[..., None])[..., 0].mean(1)
    return losses.numpy(), (logits.argmax(-1) == labels).double().mean(1).numpy()
