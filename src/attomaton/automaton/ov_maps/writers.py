"""Samples whose label several keys can write, and their edges and choices after a key is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attomaton.automaton.ov_maps.maps import Writing
from attomaton.base.ragged import group_borders, largest_of, run_starts, sum_at
from attomaton.base.tables import Bool, Float64, Int32, Int64
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import Bags, count_all_tokens
from attomaton.graphs.choices import ChoiceTable, count_choices, make_choices
from attomaton.graphs.components import Components
from attomaton.graphs.edges import CHUNK_VALUES, EdgeTable, make_edges, pack_edges
from attomaton.graphs.grouping import count_keys, distinct_keys, find_rows, pack_pairs


@dataclass(frozen=True, eq=False)
class Writers:
    """Samples whose contexts are keys, and whose label at least one key writes.

    ``bags`` has an entry for each distinct key (``bags.token``) of each context, and ``writes`` marks the
    entries that write the label. The labels of ``bags.samples`` are tokens.
    """

    bags: Bags
    writes: Bool

    def __len__(self) -> int:
        return len(self.bags.samples)

    @property
    def queries(self) -> Int32:
        """The key at the end of each context, shape (n_samples,)."""
        return self.bags.samples.queries

    @property
    def n_writers(self) -> Int64:
        """The number of keys of each context that write the label, shape (n_samples,)."""
        return np.bincount(self.bags.sample[self.writes], minlength=len(self))

    def take(self, mask: Bool) -> "Writers":
        if mask.all():
            return self
        bags = self.bags
        entries = mask[bags.sample]
        sample = (np.cumsum(mask) - 1)[bags.sample[entries]]  # numbered among the taken samples
        taken = Bags(bags.samples.take(mask), sample, bags.token[entries], bags.multiplicity[entries])
        return Writers(taken, self.writes[entries])

    def pick(self, values: Float64) -> Int32:
        """The writer of each sample with the largest of ``values`` (n_entries,); the lowest key in a tie."""
        sample = self.bags.sample[self.writes]
        key = self.bags.token[self.writes]
        value = values[self.writes]
        best = np.flatnonzero(value >= largest_of(sample, value, len(self))[sample])
        # entries are sorted by sample and key: the first of a sample is the lowest key
        return key[best[run_starts(sample[best])]] if len(best) else key[:0]

    def label(self, chosen: Int32) -> Samples:
        return replace(self.bags.samples, labels=chosen.astype(np.int32))

    def edges(self, chosen: Int32) -> EdgeTable:
        """The edges if the keys ``chosen`` were read: each beats all keys that do not write the label."""
        bags = self.bags
        sample_of_loser = bags.sample[~self.writes]
        losers = bags.token[~self.writes]
        packed = pack_edges(self.queries[sample_of_loser], chosen[sample_of_loser], losers)
        queries, realisable = count_keys(self.queries.astype(np.int64))
        nothing = np.zeros(len(queries), np.int64)
        return make_edges(bags.samples.n_tokens, *count_keys(packed), queries, realisable, nothing)

    def choices(self, chosen: Int32, components: Components | None) -> ChoiceTable:
        """The choices if the keys ``chosen`` were read, within components or (None) in whole contexts."""
        bags = self.bags
        is_member = ~self.writes | (bags.token == chosen[bags.sample])
        if components is not None:
            of_chosen, chosen_is_node = _find_components(components, self.queries, chosen)
            of_key, is_node = _find_components(components, self.queries[bags.sample], bags.token)
            is_member &= is_node & chosen_is_node[bags.sample] & (of_key == of_chosen[bags.sample])
        has_several = np.bincount(bags.sample[is_member], minlength=len(self)) > 1
        is_member &= has_several[bags.sample]
        rows = np.flatnonzero(has_several)
        row_of_sample = np.cumsum(has_several) - 1
        offsets = group_borders(row_of_sample[bags.sample[is_member]], len(rows))
        members = bags.token[is_member], bags.multiplicity[is_member].astype(np.int32)
        counts = np.ones(len(rows), np.int64)
        return count_choices([make_choices(self.queries[rows], chosen[rows], offsets, *members, counts)])


def _find_components(components: Components, queries: Int32, keys: Int32) -> tuple[Int64, Bool]:
    # the component of each pair (query, key), and whether the key is a node; if not, any number
    nodes = pack_pairs(components.query_of_node, components.token_of_node)
    rows, is_node = find_rows(nodes, pack_pairs(queries, keys))
    component = components.component_of_node
    return (component[rows] if len(component) else rows), is_node


def find_writers(keys: Samples, writing: Writing) -> Writers:
    """The samples whose label some key writes; contexts are keys, labels are tokens."""
    return _mark_writers(keys.take(count_writers(keys, writing) > 0), writing)


def count_writers(keys: Samples, writing: Writing) -> Int64:
    """The number of keys of each context that write the label, shape (n_samples,), in bounded memory."""
    counts = (_mark_writers(chunk, writing).n_writers for chunk in keys.chunks(CHUNK_VALUES))
    return np.concatenate([np.zeros(0, np.int64), *counts])


def _mark_writers(keys: Samples, writing: Writing) -> Writers:
    bags = count_all_tokens(keys)
    return Writers(bags, writing.write(bags.token) == keys.labels[bags.sample])


def pull_first(samples: Sequence[Writers]) -> tuple[Int64, Float64]:
    """The pairs (query, key) that are writers in some sample, and how the first step changes their scores."""
    # The pairs are packed. At zero scores the negative gradient of the summed loss is Σ m_x [x ∈ A] / m(A) −
    # m_x / T over the samples of a query. A are the keys that write the label, m(A) is their number of
    # positions, and T that of all keys.
    pairs_of = [pack_pairs(group.queries[group.bags.sample], group.bags.token) for group in samples]
    of_writers = [pairs[group.writes] for pairs, group in zip(pairs_of, samples, strict=True)]
    writers = distinct_keys(np.concatenate(of_writers))
    pull = np.zeros(len(writers))
    for pairs, group in zip(pairs_of, samples, strict=True):
        bags = group.bags
        writes = group.writes
        count = bags.multiplicity.astype(np.float64)
        n_writing = sum_at(bags.sample[writes], count[writes], len(group))
        gain = np.where(writes, count / np.maximum(n_writing, 1.0)[bags.sample], 0.0)
        loss = count / bags.samples.lengths[bags.sample]
        rows, is_writer = find_rows(writers, pairs)
        pull += sum_at(rows[is_writer], (gain - loss)[is_writer], len(writers))
    return writers, pull
