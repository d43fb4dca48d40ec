"""How much the data say about each token under each query, which orders what is otherwise equal."""

import numpy as np

from attomaton.base.tables import Int64, Integers
from attomaton.graphs.components import Components


def count_evidence(components: Components, queries: Integers | None = None) -> Int64:
    """How often each token won or lost under its query, shape (n_nodes,): the support of its edges.

    With ``queries``, only theirs; the others count 0.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2], [0, 1, 2], [3, 2]], [0, 0, 3])
    >>> components = at.find_components(at.extract_edges(samples))
    >>> components.token_of_node.tolist(), count_evidence(components).tolist()
    ([0, 1, 2, 3], [4, 2, 3, 1])
    """
    edges, n_nodes = components.edges, len(components.nodes)
    found = np.zeros(n_nodes, np.int64)
    kept = slice(None) if queries is None else np.flatnonzero(np.isin(edges["query"], queries))
    for end in ("winner", "loser"):
        rows, seen = components.rows(edges["query"][kept], edges[end][kept])
        found += np.bincount(rows[seen], edges["support"][kept][seen], n_nodes).astype(np.int64)
    return found
