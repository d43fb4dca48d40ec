"""The rungs that audits usually have: counted on the documents to fit on, or learned from them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.shrinkage import shrink
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import find_realisable
from attomaton.heads.audit.explanations import PMI, AttentionRung, Induction, SameToken, TokenCounts
from attomaton.heads.audit.ladder import KeyToken, Position, Step
from attomaton.heads.audit.useful import OfModel
from attomaton.solvers.solved import solve_samples

Rungs = Sequence[Step | OfModel] | Callable[[Sequence[Any]], Sequence[Step | OfModel]] | None
"""Rungs, or what makes them from the documents to fit on; None means the usual ones."""


def plain_rungs(documents: Sequence[Any], *, n_tokens: int) -> tuple[Step, ...]:
    """Position, key token, induction, same token and PMI, counted on documents: the ladder's usual rungs.

    Examples
    --------
    >>> [rung.name for rung in plain_rungs([[0, 1, 0]], n_tokens=2)]
    ['position', 'key token', 'induction', 'same token', 'PMI']
    """
    counts = TokenCounts.of(documents, n_tokens=n_tokens)
    return (Position(), KeyToken(), Induction(), SameToken(), PMI(counts))


def learned_rungs(
    documents: Sequence[Any], *, n_tokens: int, window: int = 32, strength: float | None = 0.5
) -> tuple[Step, ...]:
    """The automaton and ``shrink``, learned from documents; none if no label is in reach.

    Parameters
    ----------
    documents : sequence of integer sequences
        Token ids.
    n_tokens : int
        Size of the vocabulary.
    window : int
        The longest context.
    strength : float, optional
        Of ``shrink``; None means the best on samples held back.

    Examples
    --------
    >>> [rung.name for rung in learned_rungs([[0, 1, 0, 1, 1]], n_tokens=2, window=3)]
    ['automaton', 'shrink']
    """
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
