"""The usual rungs of audits, counted on the documents to fit on or learned from them.

Most depend on the text alone and serve every model that is audited on it. Utility depends on the model too,
so a model with random heads, or at another step of training, is explained by its own utility.
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
from attomaton.heads.audit.explanations import (
    AttentionRung,
    Delimiters,
    Duplicate,
    Induction,
    KeyToken,
    LadderRung,
    Position,
    PreviousToken,
    Rung,
    SentenceStart,
    Sink,
    usefulness,
)
from attomaton.heads.model import HeadModel
from attomaton.heads.utility.closed import PairCounts, count_pairs, find_closed_utility
from attomaton.heads.utility.measured import measure_utility
from attomaton.solvers.solved import solve_samples

LARGE = 5_000
"""The largest vocabulary for which closed-form utility is a usual rung: it runs every token separately."""

MOST_PAIRS = 20_000_000
"""Pairs of positions on which utility is measured, over all heads together."""

LEAST = 20
"""Windows on which it is measured at least, if the text has them."""


@runtime_checkable
class OfModel(Protocol):
    """A rung that is made separately for each model."""

    name: str

    def of(self, model: HeadModel) -> Rung:
        """The rung for one model."""
        ...


@dataclass(frozen=True, eq=False)
class Measured:
    """The measured utility of each head, where all heads attend by their mean patterns.

    Attributes
    ----------
    windows : int64 array, shape (n, length + 1)
        Windows of text; as many of the first are used as ``MOST_PAIRS`` allows.
    name : str
        What tables call it.
    """

    windows: Int64 = field(repr=False)
    name: str = "utility"

    def of(self, model: HeadModel) -> Any:
        """The table for the heads of one model."""
        length = int(self.windows.shape[1]) - 1
        longest = model.shape.longest
        length = length if longest is None else min(length, longest)
        pairs = max(length**2 * len(model.shape.heads) // 2, 1)
        used = self.windows[: max(MOST_PAIRS // pairs, LEAST), : length + 1]
        return usefulness(measure_utility(model, used, baseline="position"), name=self.name)


@dataclass(frozen=True, eq=False)
class Closed:
    """The utility of each head in closed form, from counts of the text and the model's weights.

    Attributes
    ----------
    samples : Samples
        The text, cut into contexts.
    name : str
        What tables call it.
    """

    samples: Samples = field(repr=False)
    name: str = "utility in closed form"

    @cached_property
    def counts(self) -> PairCounts:
        """The counts of the text that it needs."""
        return count_pairs(self.samples)

    def of(self, model: HeadModel) -> Any:
        """The table for the heads of one model."""
        return usefulness(find_closed_utility(model, self.counts), name=self.name)


def useful_rungs(
    documents: Sequence[Any], *, n_tokens: int, window: int = 32
) -> tuple[Measured | Closed, ...]:
    """Utility in closed form and measured, from documents; none if they have fewer than three tokens.

    The closed form runs every token of the vocabulary separately; above ``LARGE`` tokens it is left out.

    Parameters
    ----------
    documents : sequence of integer sequences
        Token ids.
    n_tokens : int
        Size of the vocabulary.
    window : int
        The longest context of the closed form; utility is measured on windows of twice as many tokens.

    Examples
    --------
    >>> [rung.name for rung in useful_rungs([[0, 1, 0, 1, 1]] * 2, n_tokens=2, window=2)]
    ['utility in closed form', 'utility']
    """
    read = [np.asarray(ids, np.int64) for ids in documents if len(ids) > 2]
    if not read:
        return ()
    measured = Measured(cut_windows(read, 2 * window))
    if n_tokens > LARGE:
        return (measured,)
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in read])])
    samples = Samples.from_windows(np.concatenate(read), window=window, documents=offsets, n_tokens=n_tokens)
    return (Closed(samples), measured)


def cut_windows(documents: Sequence[Int64], length: int) -> Int64:
    """Windows of length + 1 tokens, shorter if no document is long enough; first windows come first."""
    length = min(length, max(len(ids) for ids in documents) - 1)
    cut = [
        (start, number, ids[start : start + length + 1])
        for number, ids in enumerate(documents)
        for start in range(0, len(ids) - length, length)
    ]
    return np.array([window for *_, window in sorted(cut, key=lambda each: each[:2])])


def settle_rungs(rungs: Sequence[LadderRung | OfModel], model: HeadModel) -> tuple[LadderRung, ...]:
    """The rungs for one model: those that depend on the model are made for it."""
    return tuple(rung.of(model) if isinstance(rung, OfModel) else rung for rung in rungs)


Rungs = Sequence[LadderRung | OfModel] | Callable[[Sequence[Any]], Sequence[LadderRung | OfModel]] | None
"""Rungs, or a function that makes them from the documents to fit on; None means the usual ones."""


def plain_rungs(texts: Sequence[str] | None = None) -> tuple[LadderRung, ...]:
    """The rungs that every audit climbs: what needs neither counts nor training.

    Parameters
    ----------
    texts : sequence of str, optional
        The texts of all tokens. Without them delimiters and sentence starts are left out.

    Examples
    --------
    >>> [rung.name for rung in plain_rungs(["a", "."])]  # doctest: +NORMALIZE_WHITESPACE
    ['sink', 'previous token', 'position', 'delimiters', 'sentence start', 'duplicate', 'induction',
     'induction by 2', 'induction by 3', 'key token']
    """
    by_text = () if texts is None else (Delimiters.from_texts(texts), SentenceStart.from_texts(texts))
    again = (Duplicate(), Induction(1), Induction(2), Induction(3))
    return (Sink(), PreviousToken(), Position(), *by_text, *again, KeyToken())


def learned_rungs(
    documents: Sequence[Any], *, n_tokens: int, window: int = 32, strength: float | None = 0.5
) -> tuple[AttentionRung, ...]:
    """The automaton and ``shrink``, learned from documents; none if no context contains its label."""
    read = [np.asarray(ids, np.int64) for ids in documents if len(ids) > 1]
    if not read:
        return ()
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in read])])
    samples = Samples.from_windows(np.concatenate(read), window=window, documents=offsets, n_tokens=n_tokens)
    if not find_realisable(samples).any():
        return ()
    solved = solve_samples(samples)
    automaton = Automaton(solved.components, solved.hard, solved.soft)
    return (
        AttentionRung("automaton", automaton),
        AttentionRung("shrink", shrink(samples, strength=strength)),
    )
