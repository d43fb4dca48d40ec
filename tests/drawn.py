"""What hypothesis draws: sample sets, graphs, embeddings; and slow, plain helpers to compare with."""

import networkx as nx
import numpy as np
from hypothesis import strategies as st

import attomaton as at
from attomaton.graphs.edges import EdgeTable, make_edges, pack_edges
from attomaton.graphs.grouping import count_keys

seeds = st.integers(0, 2**32 - 1)


@st.composite
def sample_sets(draw, max_tokens=6, max_samples=25, max_context=6, min_samples=0):
    """Ragged contexts with repetitions; about half of the labels surely realisable."""
    n_tokens = draw(st.integers(1, max_tokens))
    token = st.integers(0, n_tokens - 1)
    contexts = draw(
        st.lists(
            st.lists(token, min_size=1, max_size=max_context), min_size=min_samples, max_size=max_samples
        )
    )
    labels = [draw(st.sampled_from(context) | token) for context in contexts]
    return at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)


def paper_draw(seed, *, n_tokens=6, n_samples=8, window=4, repeats=False):
    """A random draw with every label realisable, from a seed; optionally with repeated tokens."""
    rng = np.random.default_rng(seed)
    if not repeats:
        return at.synthetic.draw_random(rng, n_tokens=n_tokens, n_samples=n_samples, window=window)
    contexts = rng.integers(0, n_tokens, (n_samples, window))
    labels = [int(rng.choice(context)) for context in contexts]
    return at.Samples.from_lists(contexts.tolist(), labels, n_tokens=n_tokens)


def embeddings_for(seed, n_tokens, dim):
    """Random unit rows."""
    table = np.random.default_rng(seed).normal(size=(n_tokens, dim))
    return table / np.linalg.norm(table, axis=1, keepdims=True)


def edge_table(query, winner, loser, n_tokens) -> EdgeTable:
    """An edge table straight from arrays, each row one sample."""
    keys, support = count_keys(pack_edges(np.asarray(query), np.asarray(winner), np.asarray(loser)))
    queries, samples = count_keys(np.asarray(query, np.int64))
    return make_edges(n_tokens, keys, support, queries, samples, np.zeros_like(samples))


def as_counter(edges: EdgeTable):
    """(query, winner, loser) → support, to compare with the definition."""
    rows = zip(*(edges[name].tolist() for name in ("query", "winner", "loser", "support")), strict=True)
    return {(query, winner, loser): support for query, winner, loser, support in rows}


def scores_of(solution):
    """(query, token) → score."""
    return {(row["query"], row["token"]): row["score"] for row in solution.scores.to_pylist()}


def parts_of(components):
    """The components as a set of (query, frozenset of tokens)."""
    return {
        (int(components.query_of[number]), frozenset(components.tokens(number).tolist()))
        for number in range(len(components))
    }


def networkx_graph(edges: EdgeTable) -> nx.DiGraph:
    """All queries' graphs as one networkx graph over (query, token)."""
    graph = nx.DiGraph()
    for row in edges.queries.to_pylist():
        if row["realisable"]:
            graph.add_node((row["query"], row["query"]))
    for row in edges.table.to_pylist():
        graph.add_edge((row["query"], row["winner"]), (row["query"], row["loser"]))
    return graph


def learn_parts(samples, embeddings=None):
    """Components, hard and soft solutions of a sample set, certified."""
    components = at.find_components(at.extract_edges(samples))
    hard = at.solve_graph_svm(components, embeddings=embeddings).expect()
    return components, hard, at.solve_luce(samples, components, embeddings=embeddings).expect()
