"""The key that was read where several write the label: choose, solve, and repeat until nothing changes.

Each round solves a convex problem that bounds the loss from above, and then chooses for every sample the
*writer* (a key that writes the label) with the largest mass in the limit, which lowers the bound at the
current scores. So the limit of the bound never rises from round to round, and where it does not fall W_svm
does not grow; there are finitely many choices, so it terminates. The result is a local optimum: another
choice of writers may have a smaller loss, and nothing here rules that out. See docs/generation.md.

With A the keys of a context X that write its label and R the others, the loss of a sample is

    −ln(Σ_{a∈A} m_a e^{s_a} / Σ_{x∈X} m_x e^{s_x}) = ln(1 + Σ_{x∈R} m_x e^{s_x} / Σ_{a∈A} m_a e^{s_a}),

a difference of convex functions of the scores. For any a ∈ A it is at most ln(1 + Σ_{x∈R} m_x e^{s_x} / m_a
e^{s_a}), which is convex: the loss of the sample with label a whose context lacks the rest of A. So once a
key is chosen for every sample, edges and choices are the usual ones of these smaller samples: a beats every
key that does not write the label, and the other keys that do are not compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from attomaton.automaton.ov_maps.maps import Writing
from attomaton.automaton.runs.nodes import Nodes, NodeScores
from attomaton.base.progress import Progress, silent
from attomaton.base.ragged import group_borders, largest_of, occurs, run_starts, sum_at
from attomaton.base.tables import Bool, Float64, Int32, Int64
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import Bags, count_all_tokens
from attomaton.graphs.choices import ChoiceTable, count_choices, extract_choices, make_choices
from attomaton.graphs.components import Components
from attomaton.graphs.edges import CHUNK_VALUES, EdgeTable, extract_edges, make_edges, merge_edges, pack_edges
from attomaton.graphs.grouping import count_keys, distinct_keys, find_rows, pack_pairs
from attomaton.solvers.solved import Solved, solve_edges


@dataclass(frozen=True, eq=False)
class Writers:
    """Samples over keys whose label is a set: the keys of the entries where ``writes`` is true, at least one.

    The contexts are ``bags``; ``bags.samples`` have tokens as labels and keys as values.
    """

    bags: Bags
    writes: Bool

    def __len__(self) -> int:
        return len(self.bags.samples)

    @property
    def queries(self) -> Int32:
        """The query of each sample, shape (n_samples,)."""
        return self.bags.samples.queries

    @property
    def n_writers(self) -> Int64:
        """The number of keys that write the label of each sample, shape (n_samples,)."""
        return np.bincount(self.bags.sample[self.writes], minlength=len(self))

    def take(self, mask: Bool) -> "Writers":
        """The samples where ``mask`` is true."""
        if mask.all():
            return self
        bags, rows = self.bags, mask[self.bags.sample]
        sample = (np.cumsum(mask) - 1)[bags.sample[rows]]
        taken = Bags(bags.samples.take(mask), sample, bags.token[rows], bags.multiplicity[rows])
        return Writers(taken, self.writes[rows])

    def likeliest(self, values: Float64) -> Int32:
        """The writer of each sample with the largest value (n_pairs,); the lowest key in a tie."""
        sample, key, value = self.bags.sample[self.writes], self.bags.token[self.writes], values[self.writes]
        best = np.flatnonzero(value >= largest_of(sample, value, len(self))[sample])
        return key[best[run_starts(sample[best])]] if len(best) else key[:0]

    def label(self, chosen: Int32) -> Samples:
        """The samples, whole, with the chosen key as the label of each."""
        return replace(self.bags.samples, labels=chosen.astype(np.int32))

    def edges(self, chosen: Int32) -> EdgeTable:
        """The edges if ``chosen`` (n_samples,) was read: equal to :func:`written_edges_by_definition`."""
        bags = self.bags
        lost = bags.sample[~self.writes]
        packed = pack_edges(self.queries[lost], chosen[lost], bags.token[~self.writes])
        queries, realisable = count_keys(self.queries.astype(np.int64))
        nothing = np.zeros(len(queries), np.int64)
        return make_edges(bags.samples.n_tokens, *count_keys(packed), queries, realisable, nothing)

    def choices(self, chosen: Int32, components: Components | None) -> ChoiceTable:
        """The choices within components if ``chosen`` was read; None means in whole contexts."""
        bags, winner = self.bags, chosen[self.bags.sample]
        inside = ~self.writes | (bags.token == winner)
        if components is not None:
            nodes = pack_pairs(components.query_of_node, components.token_of_node)
            of_label, label_is_node = _component_of(components, nodes, self.queries, chosen)
            of_key, is_node = _component_of(components, nodes, self.queries[bags.sample], bags.token)
            inside &= is_node & label_is_node[bags.sample] & (of_key == of_label[bags.sample])
        several = np.bincount(bags.sample[inside], minlength=len(self)) > 1
        inside &= several[bags.sample]
        rows = np.flatnonzero(several)
        offsets = group_borders((np.cumsum(several) - 1)[bags.sample[inside]], len(rows))
        lists = bags.token[inside], bags.multiplicity[inside].astype(np.int32)
        single = np.ones(len(rows), np.int64)
        return count_choices([make_choices(self.queries[rows], chosen[rows], offsets, *lists, single)])


def _component_of(components: Components, nodes: Int64, queries: Int32, keys: Int32) -> tuple[Int64, Bool]:
    """The component of each key under its query, and which are nodes at all."""
    rows, is_node = find_rows(nodes, pack_pairs(queries, keys))
    number = components.component_of_node
    return (number[rows] if len(number) else rows), is_node


def find_writers(keys: Samples, writing: Writing) -> Writers:
    """The samples over keys whose label some key of the context writes, with these keys."""
    return _mark(keys.take(count_writers(keys, writing) > 0), writing)


def count_writers(keys: Samples, writing: Writing) -> Int64:
    """The number of distinct keys of each context that write its label, shape (n_samples,)."""
    counts = (_mark(chunk, writing).n_writers for chunk in keys.chunks(CHUNK_VALUES))
    return np.concatenate([np.zeros(0, np.int64), *counts])


def _mark(keys: Samples, writing: Writing) -> Writers:
    bags = count_all_tokens(keys)
    return Writers(bags, writing.write(bags.token) == keys.labels[bags.sample])


def pull_first(samples: Sequence[Writers]) -> tuple[Int64, Float64]:
    """The rise of each key that is a writer somewhere in the first step of gradient descent from zero.

    For the sum of the losses this is Σ m_x [x ∈ A] / m(A) − m_x / T over the samples of a query, m(A) the
    positions whose keys write the label and T all of them.
    """
    keys = [pack_pairs(group.queries[group.bags.sample], group.bags.token) for group in samples]
    keyed = list(zip(keys, samples, strict=True))
    pairs = distinct_keys(np.concatenate([key[group.writes] for key, group in keyed]))
    pull = np.zeros(len(pairs))
    for key, group in keyed:
        bags, writes = group.bags, group.writes
        times = bags.multiplicity.astype(np.float64)
        writing = sum_at(bags.sample[writes], times[writes], len(group))
        gain = np.where(writes, times / np.maximum(writing, 1.0)[bags.sample], 0.0)
        rows, is_writer = find_rows(pairs, key)
        change = gain - times / bags.samples.lengths[bags.sample]
        pull += sum_at(rows[is_writer], change[is_writer], len(pairs))
    return pairs, pull


SCORE_TIE = 1e-9
"""Scores closer than this count as equal, so that rounding never changes a choice."""

MOST_ROUNDS = 100
"""Maximum number of rounds; the choice then counts as unsettled."""


@dataclass(frozen=True)
class Settling:
    """The choice of the keys that were read.

    Attributes
    ----------
    n_several : int
        Samples whose label several keys of the context write.
    rounds : int
        Number of rounds until the choice no longer changed; 0 if there was nothing to choose.
    settled : bool
        Whether the choice stopped changing. It is then a local optimum, not certified as global.
    """

    n_several: int
    rounds: int
    settled: bool

    @property
    def certified(self) -> bool:
        """Whether the certificates of both sides hold for the loss itself: nothing had to be chosen."""
        return self.n_several == 0


@dataclass(frozen=True, eq=False)
class WritingProblem:
    """Reachable samples over keys, and their solution.

    In the samples ``alone`` one key writes the label, and is the label here; several keys write the labels of
    ``several``; ``lost`` are the queries of the samples that no key reaches, which are only counted.
    """

    alone: Samples
    several: Writers
    lost: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))
    min_support: int = 1
    embeddings: object = None
    threads: int | None = None

    def take(self, queries: Bool) -> "WritingProblem":
        """The samples of the queries where ``queries`` (n_keys,) is true."""
        return replace(
            self,
            alone=self.alone.take(queries[self.alone.queries]),
            several=self.several.take(queries[self.several.queries]),
            lost=self.lost[queries[self.lost]],
        )

    def edges(self, chosen: Int32) -> EdgeTable:
        """The edges, with the samples read by query."""
        nothing = np.empty(0, np.int64)
        queries, counts = count_keys(self.lost.astype(np.int64))
        tables = [extract_edges(self.alone, threads=self.threads)]
        if len(self.several):
            tables.append(self.several.edges(chosen))
        if len(self.lost):
            zeros = np.zeros_like(counts)
            tables.append(make_edges(self.alone.n_tokens, nothing, nothing, queries, zeros, counts))
        return merge_edges(tables).filter(min_support=self.min_support)

    def choices(self, chosen: Int32, components: Components) -> ChoiceTable:
        """The choices within components."""
        plain = extract_choices(self.alone, components, threads=self.threads)
        if not len(self.several):
            return plain
        return count_choices([plain, self.several.choices(chosen, components)])

    def solve(self, chosen: Int32, progress: Progress = silent) -> Solved:
        """Both sides, certified, if ``chosen`` was read."""
        return solve_edges(
            self.edges(chosen),
            lambda components: self.choices(chosen, components),
            embeddings=self.embeddings,
            threads=self.threads,
            progress=progress,
        )


def choose_first(problem: WritingProblem) -> Int32:
    """The writers that the first step of gradient descent from zero raises most, shape (n_several,)."""
    several = problem.several
    chunks = [count_all_tokens(chunk) for chunk in problem.alone.chunks(1 << 22)]
    alone = [Writers(bags, bags.token == bags.samples.labels[bags.sample]) for bags in chunks]
    pairs, pull = pull_first([several, *alone])
    rows, _ = find_rows(pairs, pack_pairs(several.queries[several.bags.sample], several.bags.token))
    return several.likeliest(pull[rows].round(12)) if len(pairs) else several.likeliest(np.zeros(0))


def choose_again(writers: Writers, chosen: Int32, nodes: NodeScores) -> Int32:
    """The writers with the largest mass in the limit; a choice stays unless another has more.

    A writer has more mass if its hard score is higher or, where hard scores tie and some probability is lost
    to keys that do not write the label, if m e^{soft} is larger.
    """
    bags = writers.bags
    hard = np.where(nodes.is_node, nodes.hard, -np.inf)
    soft = np.where(nodes.is_node, nodes.soft, 0.0) + np.log(bags.multiplicity)
    current = np.flatnonzero(writers.writes & (bags.token == chosen[bags.sample]))
    best = largest_of(bags.sample[writers.writes], hard[writers.writes], len(writers))
    top = writers.writes & (hard >= best[bags.sample] - SCORE_TIE) & nodes.is_node
    level = ~writers.writes & nodes.is_node & (hard >= best[bags.sample] - SCORE_TIE)
    lossy = occurs(bags.sample[level], len(writers))
    mass = largest_of(bags.sample[top], soft[top], len(writers))
    stays = hard[current] >= best - SCORE_TIE
    stays &= ~lossy | (soft[current] >= mass - SCORE_TIE)
    stays |= np.isneginf(best)
    likeliest = np.flatnonzero(top & (soft >= mass[bags.sample] - SCORE_TIE))
    first = likeliest[run_starts(bags.sample[likeliest])] if len(likeliest) else likeliest
    again = chosen.copy()
    again[bags.sample[first]] = bags.token[first]
    return np.where(stays, chosen, again).astype(np.int32)


def settle_choice(problem: WritingProblem, progress: Callable[[str], object]) -> tuple[Int32, Settling]:
    """The key that was read in each sample of ``problem.several``, and how it was chosen.

    Queries whose choice stays are not solved again, unless embeddings join them.
    """
    several = problem.several
    if not len(several):
        return np.empty(0, np.int32), Settling(0, 0, settled=True)
    chosen = choose_first(problem)
    size = problem.alone.n_tokens
    active = occurs(several.queries, size)
    for number in range(1, MOST_ROUNDS + 1):
        progress(f"choosing the keys to read, round {number}")
        mask = active[several.queries]
        restricted = problem.take(active)
        solved = restricted.solve(chosen[mask])
        nodes = Nodes.of(solved.components, solved.hard, solved.soft)
        writers = restricted.several
        scores = nodes.find(writers.queries[writers.bags.sample], writers.bags.token)
        again = choose_again(writers, chosen[mask], scores)
        changed = again != chosen[mask]
        if not changed.any():
            return chosen, Settling(len(several), number, settled=True)
        chosen[mask] = again
        if problem.embeddings is None:
            active = occurs(writers.queries[changed], size)
    return chosen, Settling(len(several), MOST_ROUNDS, settled=False)
