"""The automaton's answer to one context, written out: what :meth:`Automaton.predict_bags` does for many.

It is slow and plain; a law in ``tests/automaton/test_batch.py`` holds the two together.
"""

from collections import Counter
from collections.abc import Sequence
from math import exp

from attomaton.automaton.prediction import TIE
from attomaton.solvers.solved import Solved


def predict_by_definition(solved: Solved, context: Sequence[int]) -> dict[int, float]:
    """Token → its chance to be the next one, for the tokens that are retrieved.

    Parameters
    ----------
    solved : Solved
        Hard and soft scores of the nodes, which are pairs of a query and a token.
    context : sequence of int
        Token ids; the last is the query.

    Examples
    --------
    >>> from attomaton.corpora.samples import Samples
    >>> from attomaton.solvers.solved import solve_samples
    >>> solved = solve_samples(Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1]))
    >>> {token: round(chance, 6) for token, chance in predict_by_definition(solved, [1, 0, 0, 2]).items()}
    {1: 0.333333, 0: 0.666667}
    """
    query, counts = context[-1], Counter(context)
    hard, soft = (
        {(row["query"], row["token"]): row["score"] for row in side.scores.to_pylist()}
        for side in (solved.hard, solved.soft)
    )
    known = [token for token in counts if (query, token) in hard]
    if not known:  # nothing is known about this query: each position weighs the same
        return {token: count / len(context) for token, count in counts.items()}
    top = max(hard[query, token] for token in known)
    taken = [token for token in known if hard[query, token] >= top - TIE]
    highest = max(soft[query, token] for token in taken)
    odds = {token: counts[token] * exp(soft[query, token] - highest) for token in taken}
    return {token: odd / sum(odds.values()) for token, odd in odds.items()}
