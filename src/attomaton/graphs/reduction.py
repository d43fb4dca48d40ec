"""Fewer constraints with the same meaning: the transitive reduction of the order, and a chain of ties.

A transitive edge A → C beside A → B → C asks for a margin of 1 where the path already gives 2; a tie between
all pairs of a component follows from the ties between neighbours.
"""

import numpy as np
import pyarrow as pa

from attomaton.base.tables import Bool, Int64, column, keep_rows
from attomaton.graphs.components import Components


def reduce_order(components: Components) -> pa.Table:
    """The transitive reduction of the order: the rows of ``components.order`` that no longer path replaces.

    Same reachability, hence the same feasible set of the Graph-SVM, with as few edges as possible.
    """
    return keep_rows(components.order, find_needed(components))


def find_needed(components: Components) -> Bool:
    """Which rows of ``components.order`` no longer path replaces, shape (n_order,)."""
    from attomaton.graphs.topology import find_irredundant  # compiles, so only when needed

    return find_irredundant(*components.below)


def find_ends(components: Components) -> tuple[Int64, Int64]:
    """The two nodes that stand for each edge of the order: the first ones of the components it joins.

    Returns two arrays of shape (n_order,), rows of ``components.nodes``.
    """
    offsets, rows = components.members
    first = rows[offsets[:-1]]
    return first[column(components.order, "above")], first[column(components.order, "below")]


def find_ties(components: Components) -> tuple[Int64, Int64]:
    """Pairs of node rows that tie: the neighbours in each component, in rising order of token.

    Returns two arrays of shape (n_nodes − n_components,), rows of ``components.nodes``.
    """
    _, rows = components.members
    component = components.component_of_node[rows]
    same = np.flatnonzero(component[1:] == component[:-1])
    return rows[same], rows[same + 1]
