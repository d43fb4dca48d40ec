"""Contexts as bags: the distinct tokens of each sample with their multiplicities.

Both corpus passes (edges and choices) start from here, with the realisable samples only, and so does every
prediction, with all of them.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Bool, Int32, Int64
from attomaton.corpora.samples import Samples
from attomaton.graphs.grouping import count_keys, pack_pairs, unpack_pairs
from attomaton.graphs.scanning import find_labels, flatten


@dataclass(frozen=True, eq=False)
class Bags:
    """Distinct (sample, token) pairs of some samples, sorted by sample and token.

    Attributes
    ----------
    samples : Samples
        The samples they are of.
    sample : int64 array, shape (n_pairs,)
        Index into ``samples``.
    token : int32 array, shape (n_pairs,)
        A token of that sample's context.
    multiplicity : int64 array, shape (n_pairs,)
        How often the token occurs in the context.

    Examples
    --------
    >>> bags = count_tokens(Samples.from_lists([[1, 0, 1], [2, 0]], [0, 0]))
    >>> bags.sample.tolist(), bags.token.tolist(), bags.multiplicity.tolist()
    ([0, 0, 1, 1], [0, 1, 0, 2], [1, 2, 1, 1])
    >>> bags.keep(bags.token != bags.samples.labels[bags.sample]).token.tolist()  # what loses in each context
    [1, 2]
    """

    samples: Samples
    sample: Int64
    token: Int32
    multiplicity: Int64

    def keep(self, mask: Bool) -> "Bags":
        """Keep only the pairs where ``mask`` is true; a sample may be left without any."""
        return Bags(self.samples, self.sample[mask], self.token[mask], self.multiplicity[mask])


def count_tokens(samples: Samples) -> Bags:
    """Count each realisable context's tokens; the other samples are left out.

    Examples
    --------
    >>> bags = count_tokens(Samples.from_lists([[1, 0, 1], [2, 0]], [0, 1]))
    >>> len(bags.samples), bags.token.tolist(), bags.multiplicity.tolist()
    (1, [0, 1], [1, 2])
    """
    return count_all_tokens(samples.take(find_realisable(samples)))


def count_all_tokens(samples: Samples) -> Bags:
    """Count every context's tokens, whatever the labels.

    Examples
    --------
    >>> bags = count_all_tokens(Samples.from_lists([[1, 0, 1], [2, 0]], [0, 1]))
    >>> bags.sample.tolist(), bags.token.tolist(), bags.multiplicity.tolist()
    ([0, 0, 1, 1], [0, 1, 0, 2], [1, 2, 1, 1])
    """
    sample, place = flatten(samples.starts, samples.stops)
    keys, multiplicity = count_keys(pack_pairs(sample, samples.values[place]))
    return Bags(samples, *unpack_pairs(keys), multiplicity)


def find_realisable(samples: Samples) -> Bool:
    """Which samples have their label in the context, shape (n_samples,). Assumption B of the theory.

    Examples
    --------
    >>> find_realisable(Samples.from_lists([[1, 0, 1], [2, 0]], [0, 1])).tolist()
    [True, False]
    """
    return find_labels(np.ascontiguousarray(samples.values), samples.starts, samples.stops, samples.labels)
