"""What the retrieved components of a context beat, and on what evidence."""

from collections.abc import Mapping, Sequence

from attomaton.automaton.reasons import Beaten
from attomaton.graphs.components import Components
from attomaton.graphs.paths import QueryOrder

Tokens = tuple[int, ...]


def trace_beaten(
    components: Components, query: int, retrieved: Sequence[int], present: Mapping[int, Tokens]
) -> tuple[tuple[Beaten, ...], tuple[Tokens, ...]]:
    """What every retrieved component precedes, with the evidence, and what they do not all precede.

    Parameters
    ----------
    components : Components
        All components.
    query : int
        The query of the context.
    retrieved : sequence of int
        The retrieved components; evidence is given from the first of them.
    present : mapping of int to tuple of int
        Every component of the context → its tokens there.
    """
    order = QueryOrder(components, query)
    searches = [order.search(top) for top in retrieved]
    beaten: list[Beaten] = []
    incomparable: list[Tokens] = []
    for number, tokens in present.items():
        if number in retrieved:
            continue
        if all(reached[order.local(number)] for reached, _ in searches):
            beaten.append(Beaten(tokens, order.evidence(searches[0][1], retrieved[0], number)))
        else:
            incomparable.append(tokens)
    return tuple(beaten), tuple(incomparable)
