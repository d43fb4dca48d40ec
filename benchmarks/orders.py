"""Problems of the hard side of standard shapes, for benchmarks and tests."""

import numpy as np

from attomaton.base.tables import Float64, Int64
from attomaton.corpora.synthetic import draw_random
from attomaton.graphs import Components, extract_edges, find_components
from attomaton.solvers.hard.problem import OrderProblem


def random_order(n_nodes: int, n_pairs: int, rng: np.random.Generator) -> OrderProblem:
    """One order: uniform pairs a < b, each once."""
    return _one_order(n_nodes, np.sort(rng.integers(0, n_nodes, (2, n_pairs)), axis=0))


def deep_order(n_nodes: int, n_pairs: int, rng: np.random.Generator, span: int = 1000) -> OrderProblem:
    """One order with many levels: pairs at most ``span`` apart, each once."""
    above = rng.integers(0, n_nodes, n_pairs)
    below = above + rng.integers(1, span + 1, n_pairs)
    inside = below < n_nodes
    return _one_order(n_nodes, np.stack([above[inside], below[inside]]))


def _one_order(n_nodes: int, pairs: Int64) -> OrderProblem:
    above, below = pairs
    keys = np.unique(above[above < below] * n_nodes + below[above < below])
    return OrderProblem(
        np.ones(n_nodes, np.int64), keys // n_nodes, keys % n_nodes, np.zeros(n_nodes, np.int64)
    )


def random_corpus(
    n_tokens: int, dim: int, n_samples: int, window: int, rng: np.random.Generator
) -> tuple[Components, Float64]:
    """Components of random samples without repetition, and random unit embeddings, shape (n_tokens, dim)."""
    samples = draw_random(rng, n_tokens=n_tokens, n_samples=n_samples, window=window)
    embeddings = rng.normal(size=(n_tokens, dim))
    norms = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return find_components(extract_edges(samples)), embeddings / norms
