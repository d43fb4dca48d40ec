"""What is written, from what is read: the chances of keys added up by the token that they write."""

from dataclasses import replace

import numpy as np

from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.writing.maps import Writing
from attomaton.base.borders import trusted
from attomaton.base.ragged import run_starts
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import Bags
from attomaton.graphs.grouping import pack_pairs


def write_prediction(read: BatchPrediction, writing: Writing) -> BatchPrediction:
    """The chances of tokens to be written, from those of keys to be read.

    The contexts of the answer hold what is written at each position; a token has the component of the
    likeliest key that writes it, and was seen if any of them was.
    """
    bags = read.bags
    tokens = writing.write(bags.token)
    pairs = pack_pairs(bags.sample, tokens)
    order = np.lexsort((-read.probabilities, pairs))
    first = run_starts(pairs[order]) if len(pairs) else np.empty(0, np.int64)
    rows = order[first]
    samples = trusted(
        Samples,
        values=writing.write(bags.samples.values),
        starts=bags.samples.starts,
        stops=bags.samples.stops,
        labels=bags.samples.labels,
        n_tokens=bags.samples.n_tokens,
    )
    if not len(rows):
        return replace(read, bags=replace(bags, samples=samples))
    seen = np.logical_or.reduceat(read.seen[order], first)
    times = np.add.reduceat(bags.multiplicity[order], first)
    merged = Bags(samples, bags.sample[rows], tokens[rows], times)
    chances = np.add.reduceat(read.probabilities[order], first)
    return BatchPrediction(merged, read.component[rows], seen, chances)
