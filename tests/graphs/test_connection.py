"""The fewest edges that strongly connect an order, and orders with a cycle."""

from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st

from attomaton.base.errors import MismatchedParts
from attomaton.graphs.components import check_acyclic
from attomaton.graphs.strong import connect_strongly
from tests.strategies import arcs, orderings


@st.composite
def acyclic_graphs(draw, n_nodes, most_edges):
    above, below = draw(arcs(n_nodes, most_edges))
    rename = draw(orderings(n_nodes))
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n_nodes))
    graph.add_edges_from(zip(rename[above].tolist(), rename[below].tolist(), strict=True))
    return graph


def edges_of(graph):
    pairs = np.array(graph.edges, np.int64).reshape(-1, 2)
    return graph.number_of_nodes(), pairs[:, 0], pairs[:, 1]


@given(st.integers(1, 40).flatmap(lambda n_nodes: acyclic_graphs(n_nodes, 3 * n_nodes)))
def test_it_connects_with_as_many_as_sources_or_sinks(graph):
    sources = sum(degree == 0 for _, degree in graph.in_degree)
    sinks = sum(degree == 0 for _, degree in graph.out_degree)
    added = connect_strongly(*edges_of(graph))
    assert len(added) == (max(sources, sinks) if len(graph) > 1 else 0)
    graph.add_edges_from(added)
    assert nx.is_strongly_connected(graph)


@given(acyclic_graphs(4, 6))
def test_no_fewer_edges_would_do(graph):
    fewer = len(connect_strongly(*edges_of(graph))) - 1
    for some in combinations(product(range(4), repeat=2), fewer):
        trial = graph.copy()
        trial.add_edges_from(some)
        assert not nx.is_strongly_connected(trial)


@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] != pair[1])))
def test_an_order_is_refused_exactly_if_it_has_a_cycle(pairs):
    ends = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    if nx.is_directed_acyclic_graph(nx.DiGraph(pairs)):
        check_acyclic(ends[:, 0], ends[:, 1], 8)
    else:
        with pytest.raises(MismatchedParts, match="cycle"):
            check_acyclic(ends[:, 0], ends[:, 1], 8)
