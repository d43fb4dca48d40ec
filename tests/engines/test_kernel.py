"""The kernel against its plain definition, and what it says about input it cannot take."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.errors import (
    TokenOutOfRange,
    UnreadableSource,
    UnsupportedOption,
)
from attomaton.base.machine import available_memory, parse_memory
from attomaton.corpora.documents import Chunk
from attomaton.corpora.shards import Shards
from attomaton.corpora.token_files import chunk_of
from attomaton.engines.duckdb import DuckDBEngine
from attomaton.engines.kernel import choices_of_chunk, edge_rows, query_rows
from attomaton.engines.memory import MemoryEngine
from attomaton.engines.selection import Selection, hash_share
from attomaton.graphs.partitions import cut_queries
from attomaton.graphs.windows import link_repeats, window_edges
from tests.drawn import as_counter
from tests.engines.conftest import samples_of

document_lists = st.lists(st.lists(st.integers(0, 5), max_size=25), max_size=6)


def batch_of(documents, kind=None):
    return pa.record_batch([pa.array(documents, kind or pa.list_(pa.int32()))], names=["tokens"])


@given(document_lists, st.integers(1, 12), st.sets(st.integers(0, 5), min_size=1))
def test_batch_equals_definition(documents, window, queries):
    selection = Selection(window, queries=tuple(queries))
    selected = selection.selected(6)
    piece = chunk_of(batch_of(documents), 6)
    links = link_repeats(piece, window, selected)
    nothing = np.empty(0, np.int64), np.empty(0, np.int64)
    chunks = window_edges(piece, links, window=window, selected=selected, max_keys=1 << 20)
    keys, support = next(iter(chunks), nothing)
    samples = samples_of(documents, 6, window)
    samples = samples.take(selected[samples.queries])
    expected = at.extract_edges(samples)
    assert edge_rows(keys, support.astype(np.int64)).equals(expected.rows.combine_chunks())
    assert query_rows(links).equals(expected.queries.combine_chunks())
    components = at.find_components(expected)
    choices = choices_of_chunk(piece, components, selection=selection, selected=selected)
    assert choices.rows.equals(at.extract_choices(samples, components).rows)


@given(document_lists, st.integers(1, 9), st.integers(1, 30), st.integers(1, 40))
def test_pieces_and_chunks_change_nothing(documents, window, size, max_keys):
    ids = np.array([token for document in documents for token in document], np.int32)
    borders = np.concatenate([[0], np.cumsum([len(document) for document in documents])]).astype(np.int64)
    selected = np.ones(6, bool)
    found, realisable = {}, np.zeros(6, int)
    for piece in Chunk(ids, borders, 0, 6).cut(size, window):
        links = link_repeats(piece, window, selected)
        realisable += links.realisable
        for keys, support in window_edges(piece, links, window=window, selected=selected, max_keys=max_keys):
            assert (np.diff(keys) > 0).all()
            assert support.sum() <= max(max_keys, window)
            for key, count in zip(keys.tolist(), support.tolist(), strict=True):
                found[key] = found.get(key, 0) + count
    expected = as_counter(at.extract_edges(samples_of(documents, 6, window)))
    packed = {
        (query << 42) | (winner << 21) | loser: count for (query, winner, loser), count in expected.items()
    }
    assert found == packed


@pytest.mark.parametrize(
    ("lists", "error", "message"),
    [
        ([[0, 1], [2, 7]], TokenOutOfRange, "token 7 at .*, row 1, position 1, is not in 0 … 4"),
        ([[0], [-1]], TokenOutOfRange, "token -1 at .*, row 1, position 0,"),
        ([[0], None], UnreadableSource, "row 1, is null"),
        ([[0, None]], UnreadableSource, "row 0, has a null among its ids"),
        (["some text"], UnreadableSource, "not a list of integers"),
        ([[0.5]], UnreadableSource, "not a list of integers"),
        ([[[0]]], UnreadableSource, "not a list of integers"),
        ([[2**40]], TokenOutOfRange, "token 1099511627776 at .*, row 0, position 0,"),
    ],
)
def test_bad_documents_are_named(tmp_path, lists, error, message):
    pq.write_table(pa.table({"tokens": lists}), tmp_path / "bad.parquet")
    shards = Shards.from_folder(tmp_path, n_tokens=5)
    for engine in (MemoryEngine(shards), DuckDBEngine(shards, tmp_path / "work", memory="1GB", threads=1)):
        with pytest.raises(error, match=message) as caught:
            engine.edges()
        assert "bad.parquet" in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"window": 0},
        {"max_window": 0},
        {"min_support": 0},
        {"queries": 0},
        {"sample_queries": 0.0},
        {"sample_queries": 1.5},
    ],
)
def test_impossible_selections(settings):
    with pytest.raises(UnsupportedOption, match=next(iter(settings))):
        Selection(**settings)


def test_share_of_queries():
    share = hash_share(100_000)
    assert abs(share.mean() - 0.5) < 0.005
    assert abs((share < 0.1).mean() - 0.1) < 0.005
    assert np.array_equal(hash_share(10), share[:10])  # a larger vocabulary changes nothing
    small, large = Selection(sample_queries=0.1).selected(1000), Selection(sample_queries=0.3).selected(1000)
    assert not (small & ~large).any()
    with pytest.raises(TokenOutOfRange, match="query 9"):
        Selection(queries=(9,)).selected(9)


def test_memory_sizes():
    assert parse_memory("2GB") == parse_memory(2_000_000_000) == 2_000_000_000
    assert parse_memory(None) == int(0.6 * available_memory())
    for wrong in ("two", "2XB", "-1GB", "1MB"):
        with pytest.raises(UnsupportedOption, match="memory"):
            parse_memory(wrong)


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(0, 30))
def test_cut_queries(weights, size):
    borders = cut_queries(np.array(weights, np.int64), size)
    assert borders[0] == 0
    assert borders[-1] == len(weights)
    for first, stop in pairwise(borders.tolist()):
        assert stop - first <= 1 or sum(weights[first:stop]) <= max(size, 1)
