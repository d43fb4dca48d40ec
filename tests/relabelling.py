"""Samples whose tokens have other ids: a law says that this permutes the answers."""

from dataclasses import replace

import numpy as np


def relabel(samples, new_ids):
    """The samples with token ``i`` renamed to ``new_ids[i]``, a permutation of the vocabulary."""
    ids = np.asarray(new_ids, np.int32)
    return replace(samples, values=ids[samples.values], labels=ids[samples.labels])
