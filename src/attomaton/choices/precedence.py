"""Which items of a conditional logit are infinitely far ahead of which: their components and order.

Items are in one component if their difference is finite, and one precedes another if it is infinitely far
ahead. :func:`order_items` answers by the graph of wins if that is enough, otherwise by contrasts.
"""

import numpy as np

from attomaton.base.tables import Bool, Int64
from attomaton.choices.logit.cone import CLOSE
from attomaton.choices.logit.contrasts import ContrastKind
from attomaton.choices.logit.fit import LogitFit
from attomaton.choices.parsed import make_item_edges
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import EdgeTable
from attomaton.graphs.grouping import count_keys
from attomaton.graphs.paths import QueryOrder, graph_of


def order_items(logit: LogitFit, n_items: int, edges: EdgeTable | None) -> Components:
    """The components of items, which are the first columns, and their order."""
    # If every other coefficient is finite, the strong components of the graph of wins (a tie is an edge each
    # way) are the answer. Otherwise the contrast of each pair of components is decided.
    graph = None if edges is None else find_components(edges)
    largest = np.abs(logit.finite.aliases[n_items:]).max(initial=0.0)
    if graph is not None and largest <= CLOSE:
        return graph
    return order_by_contrasts(logit, n_items, graph)


def order_by_contrasts(logit: LogitFit, n_items: int, graph: Components | None) -> Components:
    """The components of items and their order from the classes of differences of items."""
    component, leaders = _group_finite(logit, n_items)
    # a path in the graph of wins is necessary for one item to be ahead of another
    reachable = np.ones((len(leaders),) * 2, bool) if graph is None else _search(graph, n_items, leaders)
    # A graph with these components and this order has an edge between the leaders of two components, and a
    # cycle through each component: from each item to the next in it, and from its last item to its first.
    upper, lower = np.nonzero(_find_order(logit, leaders, reachable))
    items = np.lexsort((np.arange(n_items), component))  # by component
    follows = component[items[1:]] == component[items[:-1]]
    first = np.searchsorted(component[items], np.arange(len(leaders)))
    last = np.searchsorted(component[items], np.arange(len(leaders)), side="right") - 1
    several = last > first  # a component of one item has no cycle
    winner = np.concatenate([leaders[upper], items[:-1][follows], items[last[several]]])
    loser = np.concatenate([leaders[lower], items[1:][follows], items[first[several]]])
    arcs, support = count_keys(winner * n_items + loser)
    return find_components(make_item_edges(arcs // n_items, arcs % n_items, support, n_items))


# The component of each item, (n_items,), and the *leader*, or first item, of each, (n_components,).
def _group_finite(logit: LogitFit, n_items: int) -> tuple[Int64, Int64]:
    # A difference of two items is finite if the complement of the finite span leaves nothing of it.
    scale = logit.problem.scale[:n_items]
    outside = logit.problem.parameters(logit.finite.complement)[:n_items]
    component = np.full(n_items, -1)  # −1 until an item is assigned
    leaders: list[int] = []
    for item in range(n_items):
        if component[item] < 0:
            distance = np.linalg.norm(outside - outside[item], axis=1)
            is_close = distance <= CLOSE * np.hypot(1 / scale, 1 / scale[item])
            component[is_close & (component < 0)] = len(leaders)
            leaders.append(item)
    return component, np.array(leaders, np.int64)


# Which component is ahead of which, given an item of each, shape (n_components, n_components).
def _find_order(logit: LogitFit, leaders: Int64, reachable: Bool) -> Bool:
    # From the lowest component up: whatever is below a component that is below needs no decision.
    outside = logit.problem.parameters(logit.finite.complement)[leaders]
    height = outside @ (logit.finite.complement.T @ logit.evidence.direction)
    rising = np.argsort(height).tolist()
    above = np.zeros((len(leaders), len(leaders)), bool)
    for position, upper in enumerate(rising):
        for lower in reversed(rising[:position]):
            if above[upper, lower] or not reachable[upper, lower]:
                continue
            contrast = np.zeros(len(logit.problem.scale))
            contrast[[leaders[upper], leaders[lower]]] = 1.0, -1.0
            if logit.classify(contrast[None])[0] is ContrastKind.PLUS:
                above[upper] |= above[lower]
                above[upper, lower] = True
    return above


# Whether the graph of wins has a path between these items, shape (n_leaders, n_leaders).
def _search(graph: Components, n_items: int, leaders: Int64) -> Bool:
    paths = QueryOrder(graph_of(graph, n_items))  # the query of the graph is the number after the items
    component = graph.component_of_node[leaders]
    return np.array([paths.search(int(start))[0][component] for start in component], bool)
