"""Components of edges in pieces are those of the edges together, however they are cut."""

import numpy as np
import pytest

import attomaton as at
from attomaton.graphs.components import count_evidence
from attomaton.graphs.partitions import gather_components, slice_edges


def draw_edges(seed):
    rng = np.random.default_rng(seed)
    n_tokens = int(rng.choice([3, 8, 40]))
    ids = (n_tokens * rng.random(int(rng.choice([5, 60, 900]))) ** rng.choice([1, 3])).astype(int)
    return at.extract_edges(at.Samples.from_windows(ids, window=int(rng.choice([2, 5])), n_tokens=n_tokens))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("size", [1, 30, 10**6])
def test_pieces_give_the_components_of_the_whole(seed, size):
    edges = draw_edges(seed)
    whole = at.find_components(edges)
    step = max(size, len(edges) // 50)
    pieces = (edges.rows.slice(start, step) for start in range(0, len(edges), step))
    found = gather_components(pieces, edges.queries, edges.n_tokens)
    assert found.components.nodes.equals(whole.nodes)
    assert found.components.order.equals(whole.order)
    assert found.evidence.tolist() == count_evidence(whole).tolist()
    assert found.n_edges.tolist() == np.bincount(edges["query"], minlength=edges.n_tokens).tolist()


def test_one_query_of_many():
    edges = draw_edges(2)
    part = slice_edges(edges, 3, 5)
    found = gather_components([part.rows], part.queries, part.n_tokens).components
    assert found.nodes.equals(at.find_components(part).nodes)


def test_what_is_held_is_the_condensation():
    """A ring of tokens, the last edge of which ties them all: nothing is left of the order."""
    contexts = [[(token + 1) % 50, token, 50] for token in range(50)]
    edges = at.extract_edges(at.Samples.from_lists(contexts, list(range(50))))
    halves = [edges.rows.slice(0, 60), edges.rows.slice(60)]
    found = gather_components(halves, edges.queries, edges.n_tokens).components
    assert found.sizes.tolist() == [50, 1]
    assert found.order.num_rows == 1
