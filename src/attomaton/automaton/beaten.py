"""What the retrieved components of a context beat, and on what evidence."""

from collections.abc import Mapping, Sequence

from attomaton.automaton.reasons import Beaten
from attomaton.graphs.paths import QueryGraph, QueryOrder

Tokens = tuple[int, ...]


def trace_beaten(
    graph: QueryGraph, retrieved: Sequence[int], present: Mapping[int, Tokens]
) -> tuple[tuple[Beaten, ...], tuple[Tokens, ...]]:
    """What every retrieved component precedes, with the evidence, and what they do not all precede.

    Parameters
    ----------
    graph : QueryGraph
        The graph of the context's query.
    retrieved : sequence of int
        The retrieved components; evidence is given from the first of them.
    present : mapping of int to tuple of int
        Every component of the context → its tokens there.
    """
    order = QueryOrder(graph)
    searches = [order.search(top) for top in retrieved]
    others = [number for number in present if number not in retrieved]
    under = [number for number in others if all(reached[order.local(number)] for reached, _ in searches)]
    evidence = order.evidence(searches[0][1], retrieved[0], under)
    beaten = [Beaten(present[number], steps) for number, steps in zip(under, evidence, strict=True)]
    return tuple(beaten), tuple(present[number] for number in others if number not in under)
