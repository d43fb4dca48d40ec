"""The compiled loops over the contexts of any samples, with the same in numpy for small corpora.

:mod:`attomaton.graphs.windows` holds the loops that need a stream of tokens.
"""

from typing import Any

import numpy as np

from attomaton.base.kernels import compiled
from attomaton.base.ragged import occurs, ranges_of
from attomaton.base.tables import Bool, Int32, Int64
from attomaton.corpora.samples import TOKEN_BITS
from attomaton.graphs.grouping import pack_pairs, stable_order
from attomaton.graphs.windows import pack_context

NUMPY = 50
"""Entries that numpy looks at while Python looks at one."""


def _scan_work(_: Any, starts: Int64, stops: Int64, *__: Any) -> float:
    return float((stops - starts).sum()) / NUMPY


def _link_work(values: Int32, *_: Any) -> float:
    return len(values) / NUMPY


def flatten(starts: Int64, stops: Int64) -> tuple[Int64, Int64]:
    """For every token of every context the number of its sample, and where it stands."""
    lengths = stops - starts
    return np.repeat(np.arange(len(starts)), lengths), ranges_of(starts, lengths)


def _find_plain(values: Int32, starts: Int64, stops: Int64, labels: Int32) -> Bool:
    sample, place = flatten(starts, stops)
    return occurs(sample[values[place] == labels[sample]], len(starts))


@compiled(work=_scan_work, instead=_find_plain)
def find_labels(values: Int32, starts: Int64, stops: Int64, labels: Int32) -> Bool:
    """Which samples have their label in the context, shape (n_samples,)."""
    found = np.zeros(len(starts), np.bool_)
    for sample in range(len(starts)):
        label = labels[sample]
        for place in range(stops[sample] - 1, starts[sample] - 1, -1):
            if values[place] == label:
                found[sample] = True
                break
    return found


def _link_plain(values: Int32, n_tokens: int) -> Int64:
    order = stable_order(values, n_tokens)
    after = np.full(len(values), len(values), np.int64)
    same = values[order[1:]] == values[order[:-1]]
    after[order[:-1][same]] = order[1:][same]
    return after


@compiled(work=_link_work, instead=_link_plain)
def link_ahead(values: Int32, n_tokens: int) -> Int64:
    """Where each token returns, shape (n_values,); ``n_values`` where it does not."""
    after = np.empty(len(values), np.int64)
    following = np.full(n_tokens, len(values), np.int64)
    for place in range(len(values) - 1, -1, -1):
        token = values[place]
        after[place] = following[token]
        following[token] = place
    return after


def _pack_plain(values: Int32, starts: Int64, stops: Int64, labels: Int32, after: Int64) -> Int64:
    sample, place = flatten(starts, stops)
    loses = (after[place] >= stops[sample]) & (values[place] != labels[sample])
    sample, place = sample[loses], place[loses]
    pairs = pack_pairs(values[stops - 1], labels)
    return pack_pairs(pairs[sample], values[place])


@compiled(work=_scan_work, instead=_pack_plain)
def pack_contexts(values: Int32, starts: Int64, stops: Int64, labels: Int32, after: Int64) -> Int64:
    """The edges that realisable samples show, packed; ``after`` says where each token returns."""
    keys = np.empty((stops - starts).sum() + 1, np.int64)
    n_keys = 0
    for sample in range(len(starts)):
        borders = starts[sample], stops[sample]
        pair = (np.int64(values[stops[sample] - 1]) << TOKEN_BITS) | np.int64(labels[sample])
        n_keys = pack_context(values, after, borders, pair, keys, n_keys)
    return keys[:n_keys]
