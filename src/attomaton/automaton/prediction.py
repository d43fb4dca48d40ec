"""Predict many contexts at once: a probability for each distinct token of each context."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
import pyarrow as pa

from attomaton.automaton.runs.nodes import NodeScores
from attomaton.base.frames import Tabular
from attomaton.base.ragged import largest_of, occurs, odds_of, run_starts, shares_of
from attomaton.base.tables import Bool, Float64, Int32, Int64, table_of
from attomaton.graphs.bags import Bags
from attomaton.solvers.solved import Solved

# Hard scores closer than this count as equal: they are exact to rounding, and rational, so ties are real.
HARD_TIE = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class BatchPrediction(Tabular):
    """The predictions for many contexts, one entry for each distinct token of each context.

    ``bags`` describes the entries: each belongs to the context ``bags.sample`` (ascending) and to the token
    ``bags.token`` (ascending in each context), which occurs ``bags.multiplicity`` times. The other arrays
    have the shape (n_entries,). ``is_node`` is false if the token is no node under the query; a context
    without any node has no evidence. ``component`` is the component of a node, without meaning if scores are
    finite. ``probabilities`` sum to 1 over each context that has entries.
    """

    bags: Bags
    component: Int64
    is_node: Bool
    probabilities: Float64

    def __repr__(self) -> str:
        return f"BatchPrediction({self.n_samples:,} contexts, {len(self.probabilities):,} probabilities)"

    def _table(self) -> pa.Table:
        bags = self.bags
        columns = {"sample": bags.sample, "token": bags.token, "multiplicity": bags.multiplicity}
        return table_of({**columns, "is_node": self.is_node, "probability": self.probabilities})

    @property
    def n_samples(self) -> int:
        """The number of contexts."""
        return len(self.bags.samples)

    @property
    def no_evidence(self) -> Bool:
        """Which contexts have no node of the graph of their query, shape (n_samples,)."""
        return ~occurs(self.bags.sample[self.is_node], self.n_samples)

    def distribution(self) -> dict[int, float]:
        """Map each token with positive probability to it; for a batch of one context."""
        positive = self.probabilities > 0
        tokens = self.bags.token[positive].tolist()
        return dict(zip(tokens, self.probabilities[positive].tolist(), strict=True))

    def of_labels(self) -> Float64:
        """The probability of the label of each sample, shape (n_samples,): 0 if it is not in the context."""
        is_label = self.bags.token == self.bags.samples.labels[self.bags.sample]
        probabilities = np.zeros(self.n_samples)
        probabilities[self.bags.sample[is_label]] = self.probabilities[is_label]
        return probabilities

    def most_likely(self) -> tuple[Int64, Int32]:
        """The samples with entries, ascending, and the most probable token of each, the lowest in a tie."""
        sample = self.bags.sample
        if not len(sample):
            return sample, self.bags.token
        highest = largest_of(sample, self.probabilities, self.n_samples)
        best = np.flatnonzero(self.probabilities == highest[sample])
        best = best[run_starts(sample[best])]
        return sample[best], self.bags.token[best]


def predict_from_scores(bags: Bags, nodes: NodeScores) -> BatchPrediction:
    """Predict the next token of each context from the scores of its entries under its query.

    Of the tokens that are nodes, those with the highest hard score are retrieved. A retrieved token has a
    probability proportional to multiplicity · e^{soft score}, any other token has 0. In a context without
    nodes, a token has a probability proportional to its multiplicity.
    """
    n_samples = len(bags.samples)
    is_node = nodes.is_node
    multiplicity = bags.multiplicity.astype(np.float64)
    # of the entries that are nodes: the context and the hard score
    sample = bags.sample[is_node]
    hard = nodes.hard[is_node]
    retrieved = hard >= largest_of(sample, hard, n_samples)[sample] - HARD_TIE
    odds = odds_of(sample, np.where(retrieved, nodes.soft[is_node], -np.inf), n_samples)
    has_node = occurs(sample, n_samples)
    weights = np.where(has_node[bags.sample], 0.0, multiplicity)  # no evidence: uniform over positions
    weights[is_node] = odds * multiplicity[is_node]  # 0 if not retrieved
    return BatchPrediction(bags, nodes.component, is_node, shares_of(bags.sample, weights, n_samples))


def predict_by_definition(solved: Solved, context: Sequence[int]) -> dict[int, float]:
    """Predict one context: a slow reference implementation of :func:`predict_from_scores`, for tests."""
    # The result maps the tokens with positive probability to it.
    query = context[-1]
    counts = Counter(context)
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
