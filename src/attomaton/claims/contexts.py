"""Measure the attention that the weights of a run give to the tokens of its realisable contexts."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.ragged import softmax_runs
from attomaton.base.tables import Bool, Float64, Int64, Integers
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import Bags, count_tokens
from attomaton.graphs.components import Components

# Up to this many tokens, all scores E W Eᵀ are computed at once.
SMALL_VOCABULARY = 1_000

# Largest number of attention entries computed at once.
MOST_MASSES = 20_000_000


@dataclass(frozen=True, eq=False)
class TrialContexts:
    """The realisable contexts of a trial: sorted (sample, token) pairs ``bags``, and embeddings ``table``."""

    bags: Bags
    table: Float64

    @cached_property
    def starts(self) -> Int64:
        """The index of the first pair of each sample."""
        return np.searchsorted(self.bags.sample, np.arange(len(self.bags.samples)))

    def masses(self, weights: Float64) -> Float64:
        """m_x e^{s_x} / Σ m e^s for each pair, shape (n_records, n_pairs), from W (n_records, dim, dim)."""
        return softmax_runs(self._scores(weights) + np.log(self.bags.multiplicity), self.starts)

    def outside_component_of(self, components: Components, tokens: Integers) -> Bool:
        """Which pairs are outside the component of their sample's token in ``tokens``, shape (n_pairs,)."""
        queries = self.bags.samples.queries
        sample_nodes, _ = components.rows(queries, tokens)
        pair_nodes, is_node = components.rows(queries[self.bags.sample], self.bags.token)
        component = components.component_of_node
        return ~is_node | (component[pair_nodes] != component[sample_nodes][self.bags.sample])

    def sums(self, values: Float64) -> Float64:
        """Sum values over the pairs of each sample; the last axis becomes n_samples."""
        return np.add.reduceat(values, self.starts, axis=-1)

    def mean_mass(self, weights: Float64, counted: Bool) -> Float64:
        """The attention mass on the counted pairs, averaged over the samples, shape (n_records,)."""
        n_at_once = max(MOST_MASSES // max(len(counted), len(self.table) ** 2), 1)
        totals = [
            self.masses(weights[first : first + n_at_once])[:, counted].sum(1)
            for first in range(0, len(weights), n_at_once)
        ]
        return np.concatenate(totals) / len(self.bags.samples)

    def _scores(self, weights: Float64) -> Float64:
        # e_xᵀ W e_k of each pair of a token x and the query k of its sample, shape (n_records, n_pairs)
        token = self.bags.token
        query = self.bags.samples.queries[self.bags.sample]
        if len(self.table) <= SMALL_VOCABULARY:
            return (self.table @ weights @ self.table.T)[:, token, query]
        queries = self.table[query]
        return np.stack([np.sum((self.table @ weight)[token] * queries, axis=1) for weight in weights])


def read_contexts(samples: Samples, table: Float64) -> TrialContexts:
    return TrialContexts(count_tokens(samples), table)
