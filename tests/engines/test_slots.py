"""Slots: every edge has one, they rise with the edges, and none crosses a part."""

import numpy as np
import pytest

from attomaton.base.tables import make_table
from attomaton.corpora.samples import TOKEN_BITS
from attomaton.engines.executors import cut_slots
from attomaton.graphs import partitions
from attomaton.graphs.edges import QUERY_SCHEMA


def draw_queries(seed):
    rng = np.random.default_rng(seed)
    n_tokens = int(rng.choice([1, 4, 60]))
    query = np.flatnonzero(rng.random(n_tokens) < 0.8).astype(np.int32)
    columns = {"query": query, "realisable": rng.geometric(0.01, len(query)), "unrealisable": query % 5}
    columns["realisable"] **= 2
    return make_table(QUERY_SCHEMA, columns), n_tokens


@pytest.mark.parametrize("most", [10, 1000, 10**9])
@pytest.mark.parametrize("seed", range(8))
def test_slots_cover_the_parts(monkeypatch, seed, most):
    monkeypatch.setattr(partitions, "PARTITION_SAMPLES", 50)
    queries, n_tokens = draw_queries(seed)
    borders = partitions.cut_partitions(queries, n_tokens)
    slots = cut_slots(queries, borders, most)
    assert (np.diff(slots.keys) > 0).all()
    assert (slots.keys[0], slots.keys[-1]) == (0, n_tokens << 2 * TOKEN_BITS)
    assert set(borders << 2 * TOKEN_BITS) <= set(slots.keys)
    query = slots.keys[:-1] >> 2 * TOKEN_BITS
    assert (np.searchsorted(borders, query, side="right") - 1 == slots.partitions).all()
    asked, winner = (
        one.ravel() for one in np.meshgrid(np.arange(n_tokens), np.arange(n_tokens), indexing="ij")
    )
    found = slots.find(asked, winner)
    assert (np.diff(found) >= 0).all()
    assert (slots.partitions[found] == np.searchsorted(borders, asked, side="right") - 1).all()


def test_a_large_query_is_cut_evenly():
    """Tokens that are all as frequent: no slot has twice its share of the pairs."""
    columns = {"query": np.arange(100, dtype=np.int32), "realisable": np.ones(100, np.int64)}
    columns["realisable"][3] = 10**6
    queries = make_table(QUERY_SCHEMA, {**columns, "unrealisable": 10**6 - columns["realisable"]})
    slots = cut_slots(queries, np.array([0, 3, 4, 100]), 1000)
    inside = slots.keys[:-1][slots.partitions == 1] - (3 << 2 * TOKEN_BITS)
    assert 1000 <= len(inside) <= 2000
    assert len(np.unique(inside >> TOKEN_BITS)) == 100


def test_no_samples():
    slots = cut_slots(QUERY_SCHEMA.empty_table(), np.array([0, 0]), 5)
    assert len(slots) == 1
