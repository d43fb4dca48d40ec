"""The usual rungs: ``plain_rungs``, and with theory ``learned_rungs`` and ``useful_rungs``.

The rungs from theory are made from the documents to fit on. Utility depends on the model too, so each model
is explained by its own utility: :func:`settle_rungs` makes the rungs of one model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.shrinkage import shrink
from attomaton.base.tables import Int64
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import find_realisable
from attomaton.heads.audit import explanations
from attomaton.heads.audit.explanations import AttentionRung, LadderRung, Rung
from attomaton.heads.model import HeadModel
from attomaton.heads.utility.closed import PairCounts, count_pairs, find_closed_utility
from attomaton.heads.utility.measured import measure_utility
from attomaton.solvers.solved import solve_samples

# The largest vocabulary for which closed-form utility is a usual rung: it runs every token separately.
MOST_CLOSED_TOKENS = 5_000

MOST_PAIRS = 20_000_000  # pairs of positions on which utility is measured, over all heads

LEAST_WINDOWS = 20  # windows on which utility is measured at least, even if they have more pairs


@runtime_checkable
class OfModel(Protocol):
    """A rung that is made separately for each model."""

    name: str

    def of(self, model: HeadModel) -> Rung:
        """The rung for one model."""
        ...


@dataclass(frozen=True, eq=False)
class Measured:
    """The utility of each head, measured on ``windows`` (n, length + 1) of text; ``name`` in tables."""

    windows: Int64 = field(repr=False)
    name: str = "utility"

    def of(self, model: HeadModel) -> Any:
        """The table for the heads of one model."""
        whole = self.windows.shape[1] - 1
        length = min(whole, model.shape.longest or whole)
        pairs = max(length**2 * len(model.shape.heads) // 2, 1)  # of a query and an earlier key, per window
        used = self.windows[: max(MOST_PAIRS // pairs, LEAST_WINDOWS), : length + 1]
        return explanations.usefulness(measure_utility(model, used, baseline="position"), name=self.name)


@dataclass(frozen=True, eq=False)
class Closed:
    """The utility of each head in closed form, from counts of ``samples`` and weights; ``name`` in tables."""

    samples: Samples = field(repr=False)
    name: str = "utility in closed form"

    @cached_property
    def counts(self) -> PairCounts:
        """The counts of the samples, which serve all models."""
        return count_pairs(self.samples)

    def of(self, model: HeadModel) -> Any:
        """The table for the heads of one model."""
        return explanations.usefulness(find_closed_utility(model, self.counts), name=self.name)


def useful_rungs(
    documents: Sequence[Any], *, n_tokens: int, window: int = 32
) -> tuple[Measured | Closed, ...]:
    """Make two explanations from utility, that is how much attention to a token lowers the loss.

    One is in closed form, on contexts of at most ``window`` tokens. The other is measured, on windows of text
    with twice as many tokens. Both are made from ``documents``, which are lists of token ids below
    ``n_tokens``. If ``n_tokens`` is above 5,000, the closed form is left out, because it runs every token
    separately. If no document has three tokens, the result is empty.

    Examples
    --------
    >>> [rung.name for rung in useful_rungs([[0, 1, 0, 1, 1]] * 2, n_tokens=2, window=2)]
    ['utility in closed form', 'utility']
    """
    read = [np.asarray(ids, np.int64) for ids in documents if len(ids) > 2]
    if not read:
        return ()
    measured = Measured(cut_windows(read, 2 * window))
    if n_tokens > MOST_CLOSED_TOKENS:
        return (measured,)
    return (Closed(_cut_samples(read, window, n_tokens)), measured)


# A sample for each position that has a next token, with a context of at most ``window`` tokens.
def _cut_samples(documents: Sequence[Int64], window: int, n_tokens: int) -> Samples:
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in documents])])
    ids = np.concatenate(documents)
    return Samples.from_windows(ids, window=window, documents=offsets, n_tokens=n_tokens)


def cut_windows(documents: Sequence[Int64], length: int) -> Int64:
    """Windows of length + 1 tokens, or fewer if no document is so long: the first of each document first."""
    length = min(length, max(len(ids) for ids in documents) - 1)
    starts = range(0, max(len(ids) for ids in documents) - length, length)
    return np.array(
        [
            ids[start : start + length + 1]
            for start in starts
            for ids in documents
            if start < len(ids) - length
        ]
    )


def settle_rungs(rungs: Sequence[LadderRung | OfModel], model: HeadModel) -> tuple[LadderRung, ...]:
    """The rungs for one model: those that depend on the model are made for it."""
    return tuple(rung.of(model) if isinstance(rung, OfModel) else rung for rung in rungs)


# Rungs, or a function that makes them from the documents to fit on; None means the usual ones.
Rungs = Sequence[LadderRung | OfModel] | Callable[[Sequence[Any]], Sequence[LadderRung | OfModel]] | None


def plain_rungs(texts: Sequence[str] | None = None) -> tuple[LadderRung, ...]:
    """List the explanations that every audit uses; they need neither token counts nor training.

    Delimiters and sentence starts are included only if the ``texts`` of all tokens are known.

    Examples
    --------
    >>> [rung.name for rung in plain_rungs()]
    ['sink', 'previous token', 'position', 'duplicate', 'induction', 'induction by 2', 'induction by 3',
     'key token']
    """
    rungs: list[LadderRung] = [explanations.Sink(), explanations.PreviousToken(), explanations.Position()]
    if texts is not None:
        rungs += [explanations.Delimiters.from_texts(texts), explanations.SentenceStart.from_texts(texts)]
    rungs += [explanations.Duplicate(), *map(explanations.Induction, (1, 2, 3)), explanations.KeyToken()]
    return tuple(rungs)


def learned_rungs(
    documents: Sequence[Any], *, n_tokens: int, window: int = 32, strength: float | None = 0.5
) -> tuple[AttentionRung, ...]:
    """The automaton and ``shrink``, learned from documents; none if no context contains its next token."""
    read = [np.asarray(ids, np.int64) for ids in documents if len(ids) > 1]
    if not read:
        return ()
    samples = _cut_samples(read, window, n_tokens)
    if not find_realisable(samples).any():
        return ()
    solved = solve_samples(samples)
    automaton = Automaton(solved.components, solved.hard, solved.soft)
    return AttentionRung("automaton", automaton), AttentionRung("shrink", shrink(samples, strength=strength))
