"""Contexts as bags: the distinct tokens of each realisable sample with their multiplicities.

Both corpus passes (edges and choices) start from here.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.corpora.samples import MAX_TOKENS, TOKEN_BITS, Samples
from attomaton.graphs.grouping import count_keys
from attomaton.tables import Bool, Int32, Int64


@dataclass(frozen=True, eq=False)
class Bags:
    """Distinct (sample, token) pairs of the realisable samples, sorted by sample and token.

    Attributes
    ----------
    samples : Samples
        The realisable samples only.
    sample : int64 array, shape (n_pairs,)
        Index into ``samples``.
    token : int32 array, shape (n_pairs,)
        A token of that sample's context.
    multiplicity : int64 array, shape (n_pairs,)
        How often the token occurs in the context.
    """

    samples: Samples
    sample: Int64
    token: Int32
    multiplicity: Int64


def count_tokens(samples: Samples) -> Bags:
    """Count each realisable context's tokens.

    Examples
    --------
    >>> bags = count_tokens(Samples.from_lists([[1, 0, 1], [2, 0]], [0, 1]))
    >>> len(bags.samples), bags.token.tolist(), bags.multiplicity.tolist()
    (1, [0, 1], [1, 2])
    """
    kept = samples.take(find_realisable(samples))
    sample, token = _flatten(kept)
    keys, multiplicity = count_keys((sample << TOKEN_BITS) | token)
    return Bags(kept, keys >> TOKEN_BITS, (keys & (MAX_TOKENS - 1)).astype(np.int32), multiplicity)


def find_realisable(samples: Samples) -> Bool:
    """Which samples have their label in the context, shape (n_samples,). Assumption B of the theory."""
    sample, token = _flatten(samples)
    realisable = np.zeros(len(samples), bool)
    realisable[sample[token == samples.labels[sample]]] = True
    return realisable


def _flatten(samples: Samples) -> tuple[Int64, Int32]:
    """Every (sample, token) occurrence, in order."""
    lengths = samples.lengths
    sample = np.repeat(np.arange(len(samples)), lengths)
    before = np.cumsum(lengths) - lengths
    position = np.arange(len(sample)) + np.repeat(samples.starts - before, lengths)
    return sample, samples.values[position]
