"""Labels that several keys of a context write: a set, of which one key is chosen as the one that was read.

With A the keys of a context X that write its label and R the others, the loss of a sample is

    −ln(Σ_{a∈A} m_a e^{s_a} / Σ_{x∈X} m_x e^{s_x}) = ln(1 + Σ_{x∈R} m_x e^{s_x} / Σ_{a∈A} m_a e^{s_a}),

a difference of convex functions of the scores. For any a ∈ A it is at most ln(1 + Σ_{x∈R} m_x e^{s_x} / m_a
e^{s_a}), which is convex: the loss of the sample with label a whose context has lost the rest of A. So once a
key is chosen for every sample, edges and choices are the usual ones of these smaller samples: a beats every
key that does not write the label, and nothing is said about the other keys that do.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attomaton.automaton.ov_maps.maps import Writing
from attomaton.base.ragged import group_borders, largest_of, occurs, run_starts, sum_at
from attomaton.base.tables import Bool, Float64, Int32, Int64
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import Bags, count_all_tokens
from attomaton.graphs.choices import ChoiceTable, count_choices, make_choices
from attomaton.graphs.components import Components
from attomaton.graphs.edges import CHUNK_VALUES, EdgeTable, make_edges, pack_edges
from attomaton.graphs.grouping import count_keys, distinct_keys, find_rows, pack_pairs


@dataclass(frozen=True, eq=False)
class Writers:
    """Samples over keys whose label is a set.

    Attributes
    ----------
    bags : Bags
        Their contexts; ``bags.samples`` have tokens as labels and keys as values.
    mine : bool array, shape (n_pairs,)
        Which entries write the label of their sample; each sample has at least one.
    """

    bags: Bags
    mine: Bool

    def __len__(self) -> int:
        return len(self.bags.samples)

    @property
    def queries(self) -> Int32:
        """The query of each sample, shape (n_samples,)."""
        return self.bags.samples.queries

    @property
    def n_writers(self) -> Int64:
        """How many keys write the label of each sample, shape (n_samples,)."""
        return np.bincount(self.bags.sample[self.mine], minlength=len(self))

    def take(self, kept: Bool) -> "Writers":
        """The samples where ``kept`` is true."""
        if kept.all():
            return self
        bags, rows = self.bags, kept[self.bags.sample]
        number = np.cumsum(kept) - 1
        some = Bags(
            bags.samples.take(kept), number[bags.sample[rows]], bags.token[rows], bags.multiplicity[rows]
        )
        return Writers(some, self.mine[rows])

    def likeliest(self, values: Float64) -> Int32:
        """The writer of each sample with the largest of the values (n_pairs,); of equals the lowest key."""
        sample, key, value = self.bags.sample[self.mine], self.bags.token[self.mine], values[self.mine]
        best = np.flatnonzero(value >= largest_of(sample, value, len(self))[sample])
        return key[best[run_starts(sample[best])]] if len(best) else key[:0]

    def label(self, chosen: Int32) -> Samples:
        """The samples, whole, with the chosen key as the label of each."""
        return replace(self.bags.samples, labels=chosen.astype(np.int32))

    def edges(self, chosen: Int32) -> EdgeTable:
        """Who beats whom if ``chosen`` (n_samples,) was read: equal to :func:`edges_by_definition`."""
        bags = self.bags
        lost = bags.sample[~self.mine]
        packed = pack_edges(self.queries[lost], chosen[lost], bags.token[~self.mine])
        queries, realisable = count_keys(self.queries.astype(np.int64))
        nothing = np.zeros(len(queries), np.int64)
        return make_edges(bags.samples.n_tokens, *count_keys(packed), queries, realisable, nothing)

    def choices(self, chosen: Int32, components: Components | None) -> ChoiceTable:
        """The choices inside components if ``chosen`` was read; None means in whole contexts."""
        bags, winner = self.bags, chosen[self.bags.sample]
        inside = ~self.mine | (bags.token == winner)
        if components is not None:
            nodes = pack_pairs(components.query_of_node, components.token_of_node)
            own, known = _component_of(components, nodes, self.queries, chosen)
            other, there = _component_of(components, nodes, self.queries[bags.sample], bags.token)
            inside &= there & known[bags.sample] & (other == own[bags.sample])
        several = np.bincount(bags.sample[inside], minlength=len(self)) > 1
        inside &= several[bags.sample]
        rows = np.flatnonzero(several)
        offsets = group_borders((np.cumsum(several) - 1)[bags.sample[inside]], len(rows))
        lists = bags.token[inside], bags.multiplicity[inside].astype(np.int32)
        one = np.ones(len(rows), np.int64)
        return count_choices([make_choices(self.queries[rows], chosen[rows], offsets, *lists, one)])


def _component_of(components: Components, nodes: Int64, queries: Int32, keys: Int32) -> tuple[Int64, Bool]:
    """The component of each key under its query, and which are nodes at all."""
    rows, found = find_rows(nodes, pack_pairs(queries, keys))
    number = components.component_of_node
    return (number[rows] if len(number) else rows), found


def find_writers(keys: Samples, writing: Writing) -> Writers:
    """The samples over keys whose label some key of the context writes, with these keys."""
    return _mark(keys.take(count_writers(keys, writing) > 0), writing)


def count_writers(keys: Samples, writing: Writing) -> Int64:
    """How many distinct keys of each context write its label, shape (n_samples,)."""
    counts = [np.zeros(0, np.int64)]
    for piece in keys.chunks(CHUNK_VALUES):
        marked = _mark(piece, writing)
        counts.append(marked.n_writers)
    return np.concatenate(counts)


def _mark(keys: Samples, writing: Writing) -> Writers:
    bags = count_all_tokens(keys)
    return Writers(bags, writing.write(bags.token) == keys.labels[bags.sample])


def pull_first(parts: Sequence[Writers]) -> tuple[Int64, Float64]:
    """How far the first step of gradient descent from zero raises each key that is a writer somewhere.

    For the sum of the losses this is Σ m_x [x ∈ A] / m(A) − m_x / T over the samples of a query, m(A) the
    positions whose keys write the label and T all of them.
    """
    keys = [pack_pairs(one.queries[one.bags.sample], one.bags.token) for one in parts]
    pairs = distinct_keys(np.concatenate([key[one.mine] for key, one in zip(keys, parts, strict=True)]))
    pull = np.zeros(len(pairs))
    for key, one in zip(keys, parts, strict=True):
        bags = one.bags
        times = bags.multiplicity.astype(np.float64)
        writing = sum_at(bags.sample[one.mine], times[one.mine], len(one))
        gain = np.where(one.mine, times / np.maximum(writing, 1.0)[bags.sample], 0.0)
        rows, found = find_rows(pairs, key)
        change = gain - times / bags.samples.lengths[bags.sample]
        pull += sum_at(rows[found], change[found], len(pairs))
    return pairs, pull


def edges_by_definition(
    samples: Samples, writing: Writing, chosen: Sequence[int]
) -> Counter[tuple[int, int, int]]:
    """The edges, word for word: the chosen key beats every key of the context that writes something else."""
    edges: Counter[tuple[int, int, int]] = Counter()
    for (context, label), key in zip(samples, chosen, strict=True):
        for other in set(context):
            if int(writing.write(np.array([other]))[0]) != label:
                edges[context[-1], key, other] += 1
    return edges


def lose_anything(writers: Writers, hard: Float64, seen: Bool, best: Float64, tie: float) -> Bool:
    """Which samples leave some chance to a key that does not write the label, in the limit."""
    bags = writers.bags
    level = ~writers.mine & seen & (hard >= best[bags.sample] - tie)
    return occurs(bags.sample[level], len(writers))
