"""How much the data say about each token under each query, which orders what is otherwise equal."""

import numpy as np

from attomaton.base.tables import Int64, Integers
from attomaton.graphs.components import Components


def count_evidence(components: Components, queries: Integers | None = None) -> Int64:
    """How often each token won or lost under its query, shape (n_nodes,): the support of its edges.

    With ``queries``, only theirs; the others count 0.
    """
    edges, n_nodes = components.edges, len(components.nodes)
    found = np.zeros(n_nodes, np.int64)
    kept = slice(None) if queries is None else np.flatnonzero(np.isin(edges["query"], queries))
    for end in ("winner", "loser"):
        rows, seen = components.rows(edges["query"][kept], edges[end][kept])
        found += np.bincount(rows[seen], edges["support"][kept][seen], n_nodes).astype(np.int64)
    return found
