"""Find the edges on which each component depends.

One noisy sample can tie two tokens that all other samples keep apart. Two questions measure how sensitive a
component is to this. Which single edges connect it? And how large can ``min_support`` be before it falls
apart? :func:`measure_robustness` answers both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from attomaton.base.borders import check_kind
from attomaton.base.errors import MismatchedParts, UnknownToken
from attomaton.base.frames import Tabular
from attomaton.base.native import find_flow_bridges, label_components
from attomaton.base.options import LARGEST_WHOLE, whole_number
from attomaton.base.ragged import group_borders
from attomaton.base.tables import Bool, Int32, Int64, Integers, make_table
from attomaton.graphs.edges import EdgeTable

# Columns of the bridges and of the components; `Robustness` describes them.
_COMPONENT = [("component", pa.int64()), ("query", pa.int32())]
LINK_SCHEMA = pa.schema([*_COMPONENT, ("winner", pa.int32()), ("loser", pa.int32()), ("support", pa.int64())])
ROBUSTNESS_SCHEMA = pa.schema(
    [*_COMPONENT, *((name, pa.int64()) for name in ("size", "edges", "bridges", "support"))]
)


@runtime_checkable
class Grouped(Protocol):
    """A protocol for edges with tokens grouped under each query, such as :class:`Components`."""

    @property
    def edges(self) -> EdgeTable: ...

    @cached_property
    def sizes(self) -> Int64: ...

    @cached_property
    def query_of(self) -> Int32: ...

    @cached_property
    def component_of_node(self) -> Int64: ...

    def rows(self, queries: Integers, tokens: Integers) -> tuple[Int64, Bool]:
        """The row of each (query, token), and which pairs are nodes."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False, repr=False)
class Robustness(Tabular):
    """The edges that connect the components of more than one token.

    ``rows`` has a row for each component, with int64 columns: component, query (int32), size (the number of
    tokens), edges (the number of edges inside), bridges (the number of edges that would split the component
    if removed alone) and support (the largest ``min_support`` at which it is still one component).
    ``bridges`` lists the bridges, with component (int64), query, winner, loser (int32) and support (int64),
    by component, weakest first.
    """

    rows: pa.Table
    bridges: pa.Table

    def __repr__(self) -> str:
        return f"Robustness({self.rows.num_rows:,} components, {self.bridges.num_rows:,} bridges)"

    def _table(self) -> pa.Table:
        return self.rows


@dataclass(frozen=True, eq=False)
class _Links:
    """The edges inside some components, sorted by winner, with nodes and components numbered from 0."""

    # A group is one of these components.
    row: Int64  # (n_links,): the row of each edge in the edge table
    winner: Int64  # (n_links,): a node
    loser: Int64  # (n_links,): a node
    support: Int64  # (n_links,)
    group: Int64  # (n_links,)
    group_of_node: Int64  # (n_nodes,)

    @property
    def n_nodes(self) -> int:
        return len(self.group_of_node)

    @property
    def n_groups(self) -> int:
        return int(self.group_of_node.max(initial=-1)) + 1


def measure_robustness(components: Grouped, numbers: Sequence[int] | None = None) -> Robustness:
    """Find the edges on which components depend, and the largest ``min_support`` that leaves them connected.

    ``components`` is the result of :func:`find_components` without embeddings. ``numbers`` are the components
    to measure, by default all. Components of a single token are left out. The bridges of a strongly connected
    graph are the bridges of its flow graph from any token, and of its reverse (Italiano, Laura and Santaroni,
    2012).

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    >>> robustness = measure_robustness(at.find_components(at.extract_edges(samples)))
    >>> robustness.rows.to_pylist()  # 0 and 1 tie, but only if one sample is enough
    [{'component': 0, 'query': 2, 'size': 2, 'edges': 2, 'bridges': 2, 'support': 1}]
    """
    check_kind(components, Grouped, "components")
    chosen = _choose(components, numbers)
    ids = np.flatnonzero(chosen)  # the component of each group
    links = _find_links(components, chosen)
    connected = _connected(links, np.ones(len(links.row), bool))
    if not connected.all():
        raise MismatchedParts(
            f"component {ids[~connected][0]} was merged because of embeddings, so edges do not connect it; "
            "use find_components(components.edges) instead"
        )
    is_bridge = _find_bridges(links)
    columns = {
        "component": ids,
        "query": components.query_of[ids],
        "size": components.sizes[ids],
        "edges": np.bincount(links.group, minlength=len(ids)),
        "bridges": np.bincount(links.group[is_bridge], minlength=len(ids)),
        "support": _find_support(links),
    }
    bridges = _list_bridges(components.edges, links.row[is_bridge], ids[links.group[is_bridge]])
    return Robustness(make_table(ROBUSTNESS_SCHEMA, columns), bridges)


# Which components to measure, shape (n_components,): those of ``numbers`` with more than one token.
def _choose(components: Grouped, numbers: Sequence[int] | None) -> Bool:
    chosen = components.sizes > 1
    if numbers is None:
        return chosen
    for number in numbers:
        checked = whole_number(number, "the number of a component", least=-LARGEST_WHOLE)
        if not 0 <= checked < len(components):
            raise UnknownToken(
                f"there is no component {number} among {len(components)}, numbered from 0; "
                "components.component(query, token) gives the component of a token"
            )
    return chosen & np.isin(np.arange(len(components)), np.asarray(numbers, np.int64))


# The edges at ``rows`` with the ``component`` of each, by component, weakest first.
def _list_bridges(edges: EdgeTable, rows: Int64, component: Int64) -> pa.Table:
    order = np.lexsort((edges["support"][rows], component))
    names = ("query", "winner", "loser", "support")
    bridges = {"component": component[order], **{name: edges[name][rows[order]] for name in names}}
    return make_table(LINK_SCHEMA, bridges)


# The edges inside the chosen components, whose tokens and components are numbered anew from 0.
def _find_links(components: Grouped, chosen: Bool) -> _Links:
    edges = components.edges
    rows = np.flatnonzero(np.isin(edges["query"], components.query_of[chosen]))
    winner, winner_is_node = components.rows(edges["query"][rows], edges["winner"][rows])
    loser, loser_is_node = components.rows(edges["query"][rows], edges["loser"][rows])
    if not (winner_is_node.all() and loser_is_node.all()):
        raise MismatchedParts("a token of an edge is not a node; use find_components(edges)")
    component = components.component_of_node
    inside = (component[winner] == component[loser]) & chosen[component[winner]]
    rows, winner, loser = rows[inside], winner[inside], loser[inside]
    is_chosen_node = chosen[component]
    # New numbers count the chosen: the k-th chosen node or component has number k − 1.
    new_node = np.cumsum(is_chosen_node) - 1
    group = np.cumsum(chosen) - 1
    return _Links(
        row=rows,
        winner=new_node[winner],
        loser=new_node[loser],
        support=edges["support"][rows],
        group=group[component[winner]],
        group_of_node=group[component[is_chosen_node]],
    )


# Whether the selected edges strongly connect each component, shape (n_groups,).
def _connected(links: _Links, selected: Bool) -> Bool:
    label = label_components(links.winner[selected], links.loser[selected], links.n_nodes)
    # A component is connected if all its nodes have one label: the lowest is the highest.
    lowest = np.full(links.n_groups, links.n_nodes)
    highest = np.zeros(links.n_groups, np.int64)
    np.minimum.at(lowest, links.group_of_node, label)
    np.maximum.at(highest, links.group_of_node, label)
    return lowest == highest


# Which edges would split their component if removed, shape (n_links,).
def _find_bridges(links: _Links) -> Bool:
    # Edges leave their winner, by which links are sorted, and enter their loser.
    by_loser = np.argsort(links.loser, kind="stable")
    winners_by_loser = links.winner[by_loser]
    out_borders = group_borders(links.winner, links.n_nodes)
    in_borders = group_borders(links.loser, links.n_nodes)
    _, roots = np.unique(links.group_of_node, return_index=True)  # the first node of each component
    # Results are in the order of the fourth argument: the first call's by loser, the second's as the links.
    forwards = find_flow_bridges(out_borders, links.loser, in_borders, winners_by_loser, roots)
    # Second call: the reversed graph, in which edges leave their loser.
    backwards = find_flow_bridges(in_borders, winners_by_loser, out_borders, links.loser, roots)
    is_bridge = backwards
    is_bridge[by_loser] |= forwards
    return is_bridge


# The largest ``min_support`` at which each component stays connected, shape (n_groups,).
def _find_support(links: _Links) -> Int64:
    # Bisection in all components at once: `low` connects a component, and more than `high` does not.
    low, high = np.ones(links.n_groups, np.int64), np.ones(links.n_groups, np.int64)
    np.maximum.at(high, links.group, links.support)
    while (low < high).any():
        middle = (low + high + 1) // 2
        connected = _connected(links, links.support >= middle[links.group])
        low, high = np.where(connected, middle, low), np.where(connected, high, middle - 1)
    return low
