"""What the retrieved components of a context beat, on what evidence, and by which rule it was answered."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attomaton.automaton.context import Naming
from attomaton.automaton.explanation import Explanation
from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.reasons import Beaten, Rule
from attomaton.graphs.paths import QueryGraph, QueryOrder

Tokens = tuple[int, ...]


def trace_beaten(
    graph: QueryGraph, retrieved: Sequence[int], present: Mapping[int, Tokens]
) -> tuple[tuple[Beaten, ...], tuple[Tokens, ...]]:
    """What every retrieved component precedes, with the evidence, and what they do not all precede."""
    order = QueryOrder(graph)
    searches = [order.search(top) for top in retrieved]
    others = [number for number in present if number not in retrieved]
    under = [number for number in others if all(reached[order.local(number)] for reached, _ in searches)]
    evidence = order.evidence(searches[0][1], retrieved[0], under)
    beaten = [Beaten(present[number], steps) for number, steps in zip(under, evidence, strict=True)]
    return tuple(beaten), tuple(present[number] for number in others if number not in under)


def explain_answer(
    answer: BatchPrediction, names: Naming, graph_of: Callable[[int], QueryGraph]
) -> Explanation:
    """Why one context, a batch of one, was answered as it was; tokens are called by ``names``."""
    tokens, seen = answer.bags.token, answer.seen
    component = answer.component[seen]
    retrieved: list[int] = np.unique(component[answer.probabilities[seen] > 0]).tolist()
    present = {
        number: tuple(tokens[seen][component == number].tolist()) for number in np.unique(component).tolist()
    }
    beaten, incomparable = (), ()
    if retrieved:
        query = int(answer.bags.samples.queries[0])
        beaten, incomparable = trace_beaten(graph_of(query), retrieved, present)
    return Explanation(
        context=tuple(answer.bags.samples.values.tolist()),
        rule=_rule(answer, len(retrieved), bool(incomparable)),
        retrieved=tuple(present[number] for number in retrieved),
        probabilities=answer.chances(),
        beaten=beaten,
        incomparable=incomparable,
        unseen=tuple(tokens[~seen].tolist()),
        unknown=names.unknown,
        name=names,
    )


def _rule(answer: BatchPrediction, n_retrieved: int, undecided: bool) -> Rule:
    if not n_retrieved:
        return Rule.BACK_OFF
    if undecided or n_retrieved > 1:
        return Rule.INCOMPARABLE
    return Rule.DETERMINED if answer.seen.all() else Rule.UNSEEN_IGNORED
