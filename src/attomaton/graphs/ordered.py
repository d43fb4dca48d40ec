"""Realisable samples in the order of the tables that they make: by query, then by label.

So every share of them makes a stretch of a table by itself, and shares are joined instead of merged.
"""

from itertools import pairwise

import numpy as np

from attomaton.base.machine import count_processors
from attomaton.base.ragged import run_starts
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import find_realisable
from attomaton.graphs.grouping import order_pairs, pack_pairs

SMALLEST = 1 << 18
"""Context tokens below which a share is not worth a thread."""

SHARES = 4
"""Shares for each thread, so that all threads end at about the same time."""


def order_samples(samples: Samples) -> Samples:
    """The realisable samples, by query and label; those with the same two stay in their order."""
    kept = samples.take(find_realisable(samples))
    return kept.take(order_pairs(kept.queries, kept.labels, kept.n_tokens))


def cut_shares(ordered: Samples, most: int, threads: int | None = None) -> list[Samples]:
    """Shares for all threads, of about ``most`` context tokens each at most.

    They are cut between labels; inside the samples of one label only where these are more.
    """
    ends = np.cumsum(ordered.lengths)
    total = int(ends[-1]) if len(ends) else 0
    size = min(most, max(SMALLEST, -(-total // (SHARES * (threads or count_processors())))))
    cuts = np.searchsorted(ends, np.arange(size, total, size), side="right")
    if len(cuts):
        first = run_starts(pack_pairs(ordered.queries, ordered.labels))
        begun = first[np.searchsorted(first, cuts, side="right") - 1]
        cuts = np.where(begun > np.concatenate([[0], cuts[:-1]]), begun, cuts)
    borders = np.unique(np.concatenate([[0], cuts, [len(ordered)]])).tolist()
    return [ordered.take(slice(start, stop)) for start, stop in pairwise(borders)]
