"""Represent contexts as bags of tokens, and find the realisable samples.

Both corpus passes (edges and choices) start here, with the realisable samples only, and so does every
prediction, with all samples. Loops that need a stream of tokens are in :mod:`attomaton.graphs.windows`.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attomaton.base.machine import count_processors
from attomaton.base.native import find_labels
from attomaton.base.ragged import ranges_of, run_starts
from attomaton.base.tables import Bool, Int32, Int64
from attomaton.corpora.samples import Samples
from attomaton.graphs.grouping import count_keys, order_pairs, pack_pairs, unpack_pairs

# Fewest context tokens per share for which a thread pays.
SMALLEST_SHARE = 1 << 18

# Shares per thread, so that all threads end at about the same time.
SHARES_PER_THREAD = 4


def flatten(starts: Int64, stops: Int64) -> tuple[Int64, Int64]:
    """The sample number and the position of every token of every context."""
    lengths = stops - starts
    return np.repeat(np.arange(len(starts)), lengths), ranges_of(starts, lengths)


@dataclass(frozen=True, eq=False)
class Bags:
    """Distinct (sample, token) pairs of the contexts of ``samples``, sorted by sample and token.

    For each pair, ``sample`` is an index into ``samples``, ``token`` a token of the sample's context, and
    ``multiplicity`` the number of its occurrences there.
    """

    samples: Samples
    sample: Int64  # (n_pairs,)
    token: Int32  # (n_pairs,)
    multiplicity: Int64  # (n_pairs,)

    def keep(self, mask: Bool) -> "Bags":
        """Keep only the pairs where ``mask`` is true; a sample may be left without pairs."""
        return Bags(self.samples, self.sample[mask], self.token[mask], self.multiplicity[mask])


def count_tokens(samples: Samples) -> Bags:
    """Count the tokens of each realisable context (a context that contains its label); omit other samples.

    Examples
    --------
    >>> count_tokens(Samples.from_lists([[1, 0, 1], [2, 0]], [0, 1])).multiplicity.tolist()
    [1, 2]
    """
    return count_all_tokens(samples.take(find_realisable(samples)))


def count_all_tokens(samples: Samples) -> Bags:
    """Count the tokens of each context, realisable or not."""
    sample, position = flatten(samples.starts, samples.stops)
    keys, multiplicity = count_keys(pack_pairs(sample, samples.values[position]))
    return Bags(samples, *unpack_pairs(keys), multiplicity)


def find_realisable(samples: Samples) -> Bool:
    """Whether each sample has its label in the context, shape (n_samples,). Assumption B of the theory."""
    values, labels = np.ascontiguousarray(samples.values), np.ascontiguousarray(samples.labels)
    starts, stops = np.ascontiguousarray(samples.starts), np.ascontiguousarray(samples.stops)
    return find_labels(values, starts, stops, labels)


def order_samples(samples: Samples) -> Samples:
    """The realisable samples, stably sorted by query and label."""
    realisable = samples.take(find_realisable(samples))
    return realisable.take(order_pairs(realisable.queries, realisable.labels, realisable.n_tokens))


def cut_shares(ordered: Samples, most: int, threads: int | None = None) -> list[Samples]:
    """Cut sorted samples into shares of about ``most`` context tokens, between two labels if possible."""
    ends = np.cumsum(ordered.stops - ordered.starts)  # context tokens up to and including each sample
    total = int(ends[-1]) if len(ends) else 0
    n_shares = SHARES_PER_THREAD * (threads or count_processors())
    size = min(most, max(SMALLEST_SHARE, -(-total // n_shares)))  # rounded up
    cuts = np.searchsorted(ends, np.arange(size, total, size), side="right")
    if len(cuts):
        # Cut before the first sample of a query and label, unless that would empty the share.
        label_starts = run_starts(pack_pairs(ordered.queries, ordered.labels))
        label_start = label_starts[np.searchsorted(label_starts, cuts, side="right") - 1]
        cuts = np.where(label_start > np.concatenate([[0], cuts[:-1]]), label_start, cuts)
    borders = np.unique(np.concatenate([[0], cuts, [len(ordered)]])).tolist()
    return [ordered.take(slice(start, stop)) for start, stop in pairwise(borders)]
