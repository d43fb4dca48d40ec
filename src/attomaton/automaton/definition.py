"""The automaton's answer to one context, written out: what :meth:`Automaton.predict_bags` does for many.

It is slow and plain; a law in ``tests/automaton/test_batch.py`` holds the two together.
"""

from collections import Counter
from collections.abc import Sequence
from math import exp

from attomaton.automaton.prediction import TIE
from attomaton.solvers.solved import Solved


def predict_by_definition(solved: Solved, context: Sequence[int]) -> dict[int, float]:
    """Token → its chance to be the next one, for the tokens that are retrieved."""
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
