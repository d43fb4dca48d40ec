"""Components of edges that come in pieces: what a query's edges say is kept, the edges themselves are not.

An edge inside a component adds nothing once the component is known, and parallel edges between two components
add up to one pair of the order. So the edges that are held are those of the piece at hand and of the
condensation so far. A query that is too large for memory is solved from a file in this way.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base.borders import trusted
from attomaton.base.tables import Int64, column, empty_table, make_table
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, Components
from attomaton.graphs.edges import EDGE_SCHEMA, EdgeTable
from attomaton.graphs.grouping import distinct_keys, pack_pairs, unpack_pairs
from attomaton.graphs.strong import Order, condense, find_nodes, in_order_of_appearance, label_components


class Gathered(NamedTuple):
    """Components without their edges, and what these add up to.

    Attributes
    ----------
    components : Components
        With no edges.
    n_edges : int64 array, shape (n_tokens,)
        Edges of each query.
    evidence : int64 array, shape (n_nodes,)
        The support of all edges of each node, as :func:`~attomaton.graphs.evidence.count_evidence` sums it.
    """

    components: Components
    n_edges: Int64
    evidence: Int64


class _Gathering(NamedTuple):
    """Nodes so far, their evidence and groups, how many groups there are, and the order between these."""

    keys: Int64
    evidence: Int64
    group: Int64
    n_groups: int
    order: Order


def gather_components(pieces: Iterable[pa.Table], queries: pa.Table, n_tokens: int) -> Gathered:
    """Find components and their order as :func:`~attomaton.graphs.components.find_components` does."""
    asked = column(queries, "query")[column(queries, "realisable") > 0]
    keys = pack_pairs(asked, asked)
    nothing = (_NOTHING, _NOTHING, _NOTHING, _NOTHING)
    state = _Gathering(keys, np.zeros(len(keys), np.int64), np.arange(len(keys)), len(keys), nothing)
    n_edges = np.zeros(n_tokens, np.int64)
    for piece in pieces:
        n_edges += np.bincount(column(piece, "query"), minlength=n_tokens)
        state = _add(state, piece, n_tokens)
    component = in_order_of_appearance(state.group)
    number = np.empty(state.n_groups, np.int64)
    number[state.group] = component
    above, below, edges, supports = state.order
    order = condense(number[above], number[below], edges, supports, state.n_groups)
    query, token = unpack_pairs(state.keys)
    nodes = {"query": query.astype(np.int32), "token": token.astype(np.int32), "component": component}
    components = trusted(
        Components,
        edges=trusted(EdgeTable, rows=empty_table(EDGE_SCHEMA), queries=queries, n_tokens=n_tokens),
        nodes=make_table(NODE_SCHEMA, nodes),
        order=make_table(ORDER_SCHEMA, dict(zip(ORDER_SCHEMA.names, order, strict=True))),
    )
    return Gathered(components, n_edges, state.evidence)


_NOTHING: Int64 = np.empty(0, np.int64)


def _add(state: _Gathering, piece: pa.Table, n_tokens: int) -> _Gathering:
    """Groups that the edges of a piece close to cycles become one, and edges inside a group are forgotten."""
    query, winner, loser = (column(piece, name) for name in ("query", "winner", "loser"))
    keys = distinct_keys(np.concatenate([state.keys, pack_pairs(query, winner), pack_pairs(query, loser)]))
    group, evidence = np.full(len(keys), -1, np.int64), np.zeros(len(keys), np.int64)
    known = np.searchsorted(keys, state.keys)
    group[known], evidence[known] = state.group, state.evidence
    fresh = np.flatnonzero(group < 0)
    group[fresh] = state.n_groups + np.arange(len(fresh))
    n_groups = state.n_groups + len(fresh)
    top, bottom = (find_nodes(keys, query, tokens, n_tokens) for tokens in (winner, loser))
    support: Int64 = column(piece, "support")
    for end in (top, bottom):
        np.add.at(evidence, end, support)
    held = state.order
    above, below, edges, supports = condense(
        np.concatenate([held[0], group[top]]),
        np.concatenate([held[1], group[bottom]]),
        np.concatenate([held[2], np.ones(len(query), np.int64)]),
        np.concatenate([held[3], support]),
        n_groups,
    )
    label = label_components(above, below, n_groups)
    n_labels = int(label.max(initial=-1)) + 1
    order = condense(label[above], label[below], edges, supports, n_labels)
    return _Gathering(keys, evidence, label[group], n_labels, order)
