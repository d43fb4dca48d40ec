"""The training loss over whole contexts, as a function of the scores that a corpus concerns."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from attomaton.base.errors import MismatchedParts
from attomaton.base.tables import Float64, Int32, Int64, column, ragged_column
from attomaton.corpora.samples import Samples
from attomaton.graphs.choices import ChoiceTable, extract_choices
from attomaton.graphs.components import Components
from attomaton.solvers.soft.likelihood import LuceProblem, context_problem


@dataclass(frozen=True, eq=False)
class TrainingLoss:
    """L(s) = (1/n) Σ −ln p(label), with one score s per (query, token) pair.

    ``pairs`` is the sorted table of (query, token) pairs that occur in a context, ``problem`` the choices
    from whole contexts over these pairs, and ``nodes`` (n_pairs,) the row of each pair in the nodes of
    ``components``, the components of the corpus.
    """

    components: Components
    pairs: pa.Table
    problem: LuceProblem
    nodes: Int64

    @property
    def n_samples(self) -> int:
        """n: realisable samples, including those with a single distinct token."""
        return max(self.components.edges.n_samples, 1)

    @property
    def query(self) -> Int32:
        return column(self.pairs, "query")

    @property
    def token(self) -> Int32:
        return column(self.pairs, "token")

    @property
    def component(self) -> Int64:
        return self.components.component_of_node[self.nodes]

    def at(self, scores: Float64) -> float:
        """The loss at these scores, shape (n_pairs,)."""
        return self.problem.loss(scores) / self.n_samples


def training_loss(samples: Samples | ChoiceTable, components: Components) -> TrainingLoss:
    """The training loss of a corpus, or of its whole-context choices, ``extract_choices(samples)``."""
    choices = samples if isinstance(samples, ChoiceTable) else extract_choices(samples)
    pairs, problem = context_problem(choices)
    nodes, is_node = components.rows(column(pairs, "query"), column(pairs, "token"))
    edges, (offsets, _) = components.edges, ragged_column(choices.rows, "tokens")
    compared = np.bincount(choices["query"], choices["count"] * (np.diff(offsets) - 1), edges.n_tokens)
    counted = np.bincount(edges["query"], edges["support"], edges.n_tokens)
    if not (is_node.all() and np.array_equal(compared, counted)):
        raise MismatchedParts(
            "the samples and the components are from different corpora; give the samples that the components "
            "were found from, with no edges left out (min_support=1), or extract_choices(samples)"
        )
    return TrainingLoss(components, pairs, problem, nodes)
