"""What components hang on, against the definitions in plain networkx."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

import attomaton as at
from attomaton.base.errors import MismatchedParts, UnknownToken
from attomaton.graphs.components import merge_components
from attomaton.graphs.robustness import measure_robustness
from tests.drawn import edge_table
from tests.strategies import edge_tables, tied_sets


def graph_of(components, number):
    """The data edges inside one component."""
    query, tokens = int(components.query_of[number]), components.tokens(number).tolist()
    graph = nx.DiGraph()
    graph.add_nodes_from(tokens)
    for row in components.edges.rows.to_pylist():
        if row["query"] == query and row["winner"] in tokens and row["loser"] in tokens:
            graph.add_edge(row["winner"], row["loser"], support=row["support"])
    return graph


def bridges_by_definition(graph):
    """Every edge without which the graph is no longer strongly connected."""
    return {
        edge for edge in graph.edges if not nx.is_strongly_connected(nx.restricted_view(graph, [], [edge]))
    }


def support_by_definition(graph):
    """The largest s such that the edges with support s or more strongly connect the graph."""
    supports = sorted({support for _, _, support in graph.edges(data="support")})
    return max(support for support in supports if nx.is_strongly_connected(at_least(graph, support)))


def at_least(graph, support):
    """Only the edges with this support or more."""
    return nx.subgraph_view(graph, filter_edge=lambda one, other: graph[one][other]["support"] >= support)


@given(edge_tables(max_tokens=10, max_edges=70))
def test_bridges_and_supports_equal_the_definitions(edges):
    components = at.find_components(edges)
    robustness = measure_robustness(components)
    rows = robustness.rows.to_pylist()
    assert [row["component"] for row in rows] == np.flatnonzero(components.sizes > 1).tolist()
    for row in rows:
        number, graph = row["component"], graph_of(components, row["component"])
        found = components.bridges_of(number)
        links = {(link["winner"], link["loser"]): link["support"] for link in found.to_pylist()}
        assert links == {edge: graph.edges[edge]["support"] for edge in bridges_by_definition(graph)}
        assert found.equals(robustness.bridges.filter(np.array(robustness.bridges["component"]) == number))
        assert list(links.values()) == sorted(links.values())
        assert row["support"] == support_by_definition(graph)
        assert (row["size"], row["edges"]) == (graph.number_of_nodes(), graph.number_of_edges())
        assert (row["bridges"], row["query"]) == (len(links), components.query_of[number])


@given(tied_sets(max_tokens=9))
def test_min_support_splits_a_component_just_above_its_support(samples):
    edges = at.extract_edges(samples)
    components = at.find_components(edges)
    for row in measure_robustness(components).rows.to_pylist():
        tokens = set(components.tokens(row["component"]).tolist())
        for min_support, whole in ((row["support"], True), (row["support"] + 1, False)):
            filtered = at.find_components(edges.filter(min_support=min_support))
            _, found = filtered.rows(np.full(len(tokens), row["query"]), np.array(sorted(tokens)))
            numbers = {filtered.component(row["query"], token) for token in tokens} if found.all() else set()
            assert (len(numbers) == 1) is whole


@pytest.mark.slow  # scale
def test_long_cycles_are_walked_without_recursion():
    n_tokens = 100_000
    ring = np.arange(n_tokens)
    one_way = edge_table(np.zeros_like(ring), ring, np.roll(ring, -1), n_tokens)
    assert measure_robustness(at.find_components(one_way)).bridges.num_rows == n_tokens
    both_ways = one_way + edge_table(np.zeros_like(ring), np.roll(ring, -1), ring, n_tokens)
    assert measure_robustness(at.find_components(both_ways)).bridges.num_rows == 0


def test_single_tokens_have_no_row_and_merged_components_are_refused():
    components = at.find_components(at.extract_edges(at.Samples.from_lists([[0, 1, 2]], [0])))
    assert measure_robustness(components).rows.num_rows == 0
    assert components.bridges_of(0).num_rows == 0
    merged = merge_components(components, np.zeros(len(components), np.int64))
    with pytest.raises(MismatchedParts, match="component 0 was merged because of embeddings"):
        merged.bridges_of(0)


@pytest.mark.parametrize("number", [-1, 3, 99])
def test_components_that_do_not_exist_are_refused(number):
    components = at.find_components(at.extract_edges(at.Samples.from_lists([[0, 1, 2]], [0])))
    with pytest.raises(UnknownToken, match=f"no component {number} among 3, numbered from 0"):
        components.bridges_of(number)


def test_samples_are_no_components():
    with pytest.raises(MismatchedParts, match="components is of type Samples"):
        measure_robustness(at.Samples.from_lists([[0, 1]], [0]))
