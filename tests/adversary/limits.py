"""Which priorities embeddings can meet, on both sides of the 4,000 nodes up to which that is computed."""

import numpy as np

import attomaton as at
from attomaton.base.errors import AttomatonError
from attomaton.graphs.separation import separate
from tests.adversary.finding import Finding, unjudged, worst_of

BORDER = 4000
FARKAS = 1e-9


def draw(rng):
    """Three nodes for each of many queries; perhaps two queries are opposites and ask for the same.

    Tokens 0 and 1 are compared under every query. With e_q' = −e_q no W puts 0 before 1 under both. Without
    such a pair the first axis meets everything: all queries have it, and 0 more of it than any other token.
    """
    n_nodes = int(rng.choice([30, 300, BORDER - 40, BORDER - 1, BORDER + 2, BORDER + 200]))
    n_queries, dim = n_nodes // 3, int(rng.integers(3, 9))
    n_tokens = n_queries + 2
    table = rng.normal(size=(n_tokens, dim))
    table[:, 0] = np.abs(table[:, 0]) + 0.1
    table[0, 0] = table[:, 0].max() + 1.0
    contradiction = bool(rng.random() < 0.5)
    if contradiction:
        table[2 + n_queries // 2] = -table[2]
    return n_tokens, table, contradiction


def attack(rng) -> Finding:
    """Contradictions that are known are found, and nothing else is called one."""
    n_tokens, table, contradiction = draw(rng)
    queries = range(2, n_tokens)
    samples = at.Samples.from_lists(
        [[0, 1, query] for query in queries], [0] * len(queries), n_tokens=n_tokens
    )
    case = {"n_nodes": 3 * len(queries), "dim": table.shape[1], "contradiction": contradiction}
    try:
        separation = separate(at.find_components(at.extract_edges(samples)), table)
    except AttomatonError as error:
        return unjudged(f"refused: {type(error).__name__}")
    if not separation.decided:
        return unjudged("too many nodes to decide")
    if separation.feasible == contradiction:
        told = "called feasible" if separation.feasible else "called contradictory"
        return Finding(np.inf, 0.0, told, n_tokens, case)
    if not contradiction:
        return Finding(0.0, FARKAS, "feasible", n_tokens, case)
    merged = separation.components
    asked, keys = table[merged.query_of_node], table[merged.token_of_node]
    terms = separation.forces[:, None, None] * keys[:, :, None] * asked[:, None, :]
    sizes = np.linalg.norm(terms, axis=(1, 2)).sum()
    left = float(np.linalg.norm(terms.sum(axis=0)) / sizes) if sizes else np.inf
    negative = float(max(-separation.multipliers.min(), 0.0))
    checks = [("Farkas sum", left, FARKAS), ("negative Farkas weight", negative, 0.0)]
    return worst_of(checks, n_tokens, case)
