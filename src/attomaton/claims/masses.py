"""Attention as mass on the distinct tokens of each context, for many records of the weights at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.ragged import softmax_runs
from attomaton.base.tables import Bool, Float64, Int64, Integers
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import Bags, count_tokens
from attomaton.graphs.components import Components

SMALL_VOCABULARY = 1_000
"""Up to this many tokens all scores E W Eᵀ are computed at once."""


@dataclass(frozen=True, eq=False)
class TrialContexts:
    """The realisable contexts of one trial as (sample, token) pairs with multiplicities, and its embeddings.

    Attributes
    ----------
    bags : Bags
        The pairs, sorted by sample and token.
    table : float64 array, shape (n_tokens, dim)
        E.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])  # 0 and 1 tie, and both beat 2
    >>> contexts = read_contexts(samples, np.eye(3))
    >>> below = contexts.below(at.find_components(at.extract_edges(samples)))
    >>> contexts.sums(contexts.masses(np.zeros((1, 3, 3))) * below).round(3).tolist()  # lost to the query
    [[0.333, 0.333]]
    """

    bags: Bags
    table: Float64

    @cached_property
    def starts(self) -> Int64:
        """The first pair of each sample; every context has one."""
        return np.searchsorted(self.bags.sample, np.arange(len(self.bags.samples)))

    def masses(self, weights: Float64) -> Float64:
        """m_x e^{s_x} / Σ m e^s for each pair, shape (n_records, n_pairs), from W (n_records, dim, dim)."""
        return softmax_runs(self._scores(weights) + np.log(self.bags.multiplicity), self.starts)

    def below(self, components: Components) -> Bool:
        """Which pairs are not of the label's component, shape (n_pairs,).

        A label beats every other token of its context, so its component is the highest one there.
        """
        return self.apart_from(components, self.bags.samples.labels)

    def apart_from(self, components: Components, tokens: Integers) -> Bool:
        """Which pairs are not in the component of their sample's token, shape (n_pairs,).

        Examples
        --------
        >>> import attomaton as at
        >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])
        >>> components = at.find_components(at.extract_edges(samples))
        >>> read_contexts(samples, np.eye(3)).apart_from(components, np.array([0, 2])).tolist()
        [False, False, True, True, True, False]
        """
        queries = self.bags.samples.queries
        own, _ = components.rows(queries, tokens)
        rows, known = components.rows(queries[self.bags.sample], self.bags.token)
        component = components.component_of_node
        return ~known | (component[rows] != component[own][self.bags.sample])

    def sums(self, values: Float64) -> Float64:
        """Sums over the pairs of each sample, shape (…, n_samples)."""
        return np.add.reduceat(values, self.starts, axis=-1)

    def _scores(self, weights: Float64) -> Float64:
        token, query = self.bags.token, self.bags.samples.queries[self.bags.sample]
        if len(self.table) <= SMALL_VOCABULARY:
            return (self.table @ weights @ self.table.T)[:, token, query]
        asked = self.table[query]
        return np.stack([np.sum((self.table @ one)[token] * asked, axis=1) for one in weights])


def read_contexts(samples: Samples, table: Float64) -> TrialContexts:
    """The realisable contexts among these samples.

    Examples
    --------
    >>> contexts = read_contexts(Samples.from_lists([[1, 0, 1]], [0]), np.eye(2))
    >>> contexts.masses(np.zeros((1, 2, 2))).round(3).tolist()  # attention is uniform over positions
    [[0.333, 0.667]]
    """
    return TrialContexts(count_tokens(samples), table)
