"""The fewest edges that strongly connect an order."""

from itertools import combinations, product

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attomaton.graphs.connection import connect
from tests.drawn import seeds


def acyclic_graph(seed, n_nodes, density):
    rng = np.random.default_rng(seed)
    above, below = np.nonzero(np.triu(rng.random((n_nodes, n_nodes)) < density, 1))
    rename = rng.permutation(n_nodes)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n_nodes))
    graph.add_edges_from(zip(rename[above].tolist(), rename[below].tolist(), strict=True))
    return graph


def edges_of(graph):
    pairs = np.array(graph.edges, np.int64).reshape(-1, 2)
    return graph.number_of_nodes(), pairs[:, 0], pairs[:, 1]


@given(seeds, st.integers(1, 40), st.sampled_from([0.0, 0.02, 0.05, 0.1, 0.3]))
def test_it_connects_with_as_many_as_sources_or_sinks(seed, n_nodes, density):
    graph = acyclic_graph(seed, n_nodes, density)
    sources = sum(degree == 0 for _, degree in graph.in_degree)
    sinks = sum(degree == 0 for _, degree in graph.out_degree)
    added = connect(*edges_of(graph))
    assert len(added) == (max(sources, sinks) if n_nodes > 1 else 0)
    graph.add_edges_from(added)
    assert nx.is_strongly_connected(graph)


@given(seeds, st.sampled_from([0.0, 0.2, 0.5]))
def test_no_fewer_edges_would_do(seed, density):
    graph = acyclic_graph(seed, 4, density)
    fewer = len(connect(*edges_of(graph))) - 1
    for some in combinations(product(range(4), repeat=2), fewer):
        trial = graph.copy()
        trial.add_edges_from(some)
        assert not nx.is_strongly_connected(trial)
