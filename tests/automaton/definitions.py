"""The plain definitions that fast code of the room is tested against."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import exp

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from attomaton.automaton.generation import choose
from attomaton.automaton.ov_maps.maps import Writing
from attomaton.automaton.prediction import HARD_TIE
from attomaton.automaton.repetition.loops import WindowTokens, next_windows
from attomaton.automaton.repetition.odds import Odds
from attomaton.base.tables import Float64
from attomaton.corpora.samples import Samples
from attomaton.solvers.solved import Solved


def predict_by_definition(solved: Solved, context: Sequence[int]) -> dict[int, float]:
    """Token → probability that it comes next, for the retrieved tokens."""
    query, counts = context[-1], Counter(context)
    hard, soft = (
        {(row["query"], row["token"]): row["score"] for row in side.scores.to_pylist()}
        for side in (solved.hard, solved.soft)
    )
    nodes = [token for token in counts if (query, token) in hard]
    if not nodes:  # nothing is known about this query: every position has equal weight
        return {token: count / len(context) for token, count in counts.items()}
    top = max(hard[query, token] for token in nodes)
    taken = [token for token in nodes if hard[query, token] >= top - HARD_TIE]
    highest = max(soft[query, token] for token in taken)
    odds = {token: counts[token] * exp(soft[query, token] - highest) for token in taken}
    return {token: odd / sum(odds.values()) for token, odd in odds.items()}


def generate_by_definition(
    predict_proba: Callable[[list[int]], Float64],
    prompt: Sequence[int],
    n: int,
    rng: np.random.Generator | None,
    window: int | None = None,
) -> tuple[int, ...]:
    """:meth:`Attention.generate` by definition: recompute the probabilities at every step."""
    context = list(prompt)
    for _ in range(n):
        context.append(choose(predict_proba(context if window is None else context[-window:]), rng))
    return tuple(context[len(prompt) :])


def written_edges_by_definition(
    samples: Samples, writing: Writing, chosen: Sequence[int]
) -> Counter[tuple[int, int, int]]:
    """The edges, by definition: the chosen key beats every key that does not write the label."""
    edges: Counter[tuple[int, int, int]] = Counter()
    for (context, label), key in zip(samples, chosen, strict=True):
        for loser in set(context):
            if int(writing.write(np.array([loser]))[0]) != label:
                edges[context[-1], key, loser] += 1
    return edges


def loops_by_definition(odds: Odds, window: int) -> list[WindowTokens]:
    """The result of :func:`list_cycles`, by visiting all K^T windows: the sets that no text leaves."""
    size = len(odds.tokens)
    states = [tuple(tokens) for tokens in np.indices((size,) * window).reshape(window, -1).T.tolist()]
    number = {state: index for index, state in enumerate(states)}
    edges = [(number[a], number[b]) for a in states for b in next_windows(odds, a, window)]
    source, target = np.array(edges).T
    graph = csr_array((np.ones(len(edges)), (source, target)), shape=(len(states), len(states)))
    labels = connected_components(graph, directed=True, connection="strong")[1]
    left = np.unique(labels[source[labels[source] != labels[target]]])
    closed = np.flatnonzero(~np.isin(labels, left))
    return sorted({_cycle_of(odds, states[index], window) for index in closed})


def _cycle_of(odds: Odds, state: WindowTokens, window: int) -> WindowTokens:
    """The cycle of tokens in a window of a closed set, lowest first."""
    walked = [state[-1]]
    for _ in range(len(odds.tokens) * window):
        (state,) = next_windows(odds, state, window)
        if state[-1] == walked[0]:
            break
        walked.append(state[-1])
    lowest = walked.index(min(walked))
    return (*walked[lowest:], *walked[:lowest])
