"""Priority graphs by their definition: dictionaries, and rows of bits for what reaches what."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class QueryGraph:
    """The graph of one query: ``wins[i, j]`` samples had the label i with j in the context."""

    query: int
    wins: Counter

    @cached_property
    def nodes(self):
        return sorted({token for edge in self.wins for token in edge} | {self.query})

    @cached_property
    def reached(self):
        """For each token the tokens that a path leads to."""
        return reach(self.nodes, self.wins)

    def tie(self, one, other):
        return one == other or (other in self.reached[one] and one in self.reached[other])

    def precedes(self, one, other):
        return other in self.reached[one] and one not in self.reached[other]

    @cached_property
    def components(self):
        """Sets of tokens that tie, by their smallest token."""
        found, done = [], set()
        for token in self.nodes:
            if token not in done:
                own = {other for other in self.nodes if self.tie(token, other)}
                done |= own
                found.append(own)
        return found

    @cached_property
    def component_of(self):
        return {token: number for number, own in enumerate(self.components) for token in own}


def reach(nodes, edges):
    """Everything that each node has a path to (itself only on a circle), by Warshall on rows of bits."""
    place = {node: number for number, node in enumerate(nodes)}
    rows = [0] * len(nodes)
    for one, other in edges:
        rows[place[one]] |= 1 << place[other]
    for middle in range(len(nodes)):
        for row in range(len(nodes)):
            if rows[row] >> middle & 1:
                rows[row] |= rows[middle]
    return {node: {nodes[at] for at in range(len(nodes)) if rows[place[node]] >> at & 1} for node in nodes}


def graphs_of(contexts, labels):
    """The graph of every query that has a realisable sample."""
    wins = {}
    for context, label in zip(contexts, labels, strict=True):
        if label in context:
            counted = wins.setdefault(context[-1], Counter())
            counted.update((label, token) for token in set(context) if token != label)
    return {query: QueryGraph(query, counted) for query, counted in wins.items()}
