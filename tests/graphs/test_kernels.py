"""The kernels of graphs against slow definitions, and arrays with gaps against arrays without."""

from collections import Counter
from itertools import chain, pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base import native
from attomaton.base.ragged import group_borders, offsets_of
from attomaton.corpora.documents import Chunk
from attomaton.graphs.bags import find_realisable
from attomaton.graphs.choices import choices_by_definition
from attomaton.graphs.grouping import pack_pairs
from attomaton.graphs.windows import link_repeats, window_edges
from tests.strategies import arcs, sample_sets

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=20)
tokens = st.lists(st.integers(0, 5), max_size=30)


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 7))), pairs)
def test_nodes_are_found_by_their_key(nodes, asked):
    queries, wanted = np.array(sorted(asked), np.int32).reshape(-1, 2).T
    keys = pack_pairs(*np.array(sorted(nodes), np.int64).reshape(-1, 2).T)
    row_of = {node: row for row, node in enumerate(sorted(nodes))}
    found = native.find_nodes(keys, queries.copy(), wanted.copy(), 8)
    assert found.tolist() == [row_of.get(pair, -1) for pair in sorted(asked)]


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 4), max_size=40))
def test_condensed_edges_add_up(rows):
    above, below, counts, support = (column.copy() for column in np.array(rows, np.int64).reshape(-1, 4).T)
    edges, supports = Counter(), Counter()
    for one, other, count, weight in rows:
        if one != other:
            edges[one, other] += count
            supports[one, other] += weight
    expected = [(*pair, edges[pair], supports[pair]) for pair in sorted(edges)]
    found = native.condense(above, below, counts, support, 6)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected


@given(tokens)
def test_the_next_position_of_each_token(values):
    expected = [
        next((later for later in range(position + 1, len(values)) if values[later] == token), len(values))
        for position, token in enumerate(values)
    ]
    assert native.link_ahead(np.array(values, np.int32), 6).tolist() == expected


@given(tokens)
def test_equal_keys_are_counted(values):
    keys = np.sort(np.array(values, np.int64))
    distinct, times = np.unique(keys, return_counts=True)
    support = native.count_runs(keys)
    assert support.tolist() == times.tolist()
    assert keys[: len(support)].tolist() == distinct.tolist()


@given(arcs(9, 20), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=20))
def test_paths_lead_to_all_nodes_below(edges, asked):
    above, below = (end.copy() for end in edges)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(9))
    graph.add_edges_from(zip(above.tolist(), below.tolist(), strict=True))
    reached = {node: {node, *nx.descendants(graph, node)} for node in graph}
    start = group_borders(above, 9)
    top, bottom = (column.copy() for column in np.array(sorted(asked), np.int64).reshape(-1, 2).T)
    expected = [other in reached[one] for one, other in sorted(asked)]
    height = native.find_heights(start, below)
    assert native.find_paths(start, below, height, top, bottom).tolist() == expected
    groups, order = np.unique(top), np.arange(len(np.unique(top)))
    first = np.searchsorted(top, [*groups, 9])
    together = [all(expected[one:end]) for one, end in pairwise(first)]
    assert native.precede_all(order, groups, first, bottom, start, below).tolist() == together


@pytest.mark.parametrize("kernel", [native.find_heights, native.find_irredundant])
def test_a_cycle_is_refused(kernel):
    with pytest.raises(ValueError, match="cycle"):
        kernel(np.array([0, 1, 2]), np.array([1, 0]))


@pytest.mark.parametrize("n_tokens", [5, 100])
def test_large_choice_sets_equal_the_definition(n_tokens):
    """With sets of more tokens than are sorted by counting, and labels that tie under another query only."""
    rng = np.random.default_rng(n_tokens)
    queries = np.repeat([0, 1, 2, 3], 300)
    contexts = [[*rng.integers(0, n_tokens, 4 * n_tokens).tolist(), int(query)] for query in queries]
    samples = at.Samples.from_lists(contexts, [int(rng.choice(one)) for one in contexts], n_tokens=n_tokens)
    components = at.find_components(at.extract_edges(samples.take(queries % 2 == 0)))  # none of 1 and 3
    for restricted in (components, None):
        rows = at.extract_choices(samples, restricted).rows.to_pylist()
        sets = [tuple(zip(row["tokens"], row["multiplicities"], strict=True)) for row in rows]
        found = {
            (row["query"], row["winner"], own): row["count"] for row, own in zip(rows, sets, strict=True)
        }
        assert found == choices_by_definition(samples, restricted)
    assert max(len(row["tokens"]) for row in rows) > min(n_tokens - 1, 64)


def spread(array):
    """The same numbers with gaps between them in memory."""
    return np.repeat(array, 2)[::2]


@given(sample_sets(max_samples=8))
def test_samples_may_have_gaps_in_memory(samples):
    arrays = {name: spread(getattr(samples, name)) for name in ("values", "starts", "stops", "labels")}
    gaps = at.Samples(**arrays, n_tokens=samples.n_tokens)
    assert find_realisable(gaps).tolist() == find_realisable(samples).tolist()
    edges = at.extract_edges(samples)
    assert at.extract_edges(gaps).rows.equals(edges.rows)
    components = at.find_components(edges)
    assert at.extract_choices(gaps, components).rows.equals(at.extract_choices(samples, components).rows)


@given(st.lists(tokens, min_size=1, max_size=4))
def test_pieces_may_have_gaps_in_memory(documents):
    ids = np.array(list(chain(*documents)), np.int32)
    borders = offsets_of(np.array([len(one) for one in documents]))
    selected = np.arange(6) != 3
    found = []
    for make in (np.copy, spread):
        piece = Chunk(make(ids), make(borders), 0, 6)
        links = link_repeats(piece, 4, make(selected))
        chunks = window_edges(piece, links, window=4, selected=make(selected), max_keys=5)
        found.append([(keys.tolist(), support.tolist()) for keys, support in chunks])
    assert found[0] == found[1]
