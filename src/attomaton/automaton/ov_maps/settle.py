"""Which key was read, where several keys write the label: choose, solve, and repeat until no choice changes.

Each round of :func:`settle_choice` solves a convex problem that bounds the loss from above. Then it chooses
for each sample the *writer* (a key that writes the label) with the largest mass in the limit. The new choice
lowers the bound at the current scores. So from round to round the limit of the bound never rises, and where
it does not fall W_svm does not grow. There are finitely many choices, so the rounds end. The result is a
local optimum: another choice of writers may have a smaller loss. See docs/generation.md.

Let A be the keys of a context X that write the label, R the other keys, and m_x the count of the key x. At
scores s the loss of a sample is

    −ln(Σ_{a∈A} m_a e^{s_a} / Σ_{x∈X} m_x e^{s_x}) = ln(1 + Σ_{x∈R} m_x e^{s_x} / Σ_{a∈A} m_a e^{s_a}),

a difference of convex functions of the scores. For any a ∈ A it is at most ln(1 + Σ_{x∈R} m_x e^{s_x} / m_a
e^{s_a}), which is convex: it is the loss of the sample with label a whose context has no other key of A. So
once a key a is chosen for every sample, edges and choices are those of these smaller samples: a beats every
key that does not write the label, and is not compared with the other keys of A.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from attomaton.automaton.ov_maps.writers import Writers, pull_first
from attomaton.automaton.runs.nodes import Nodes, NodeScores
from attomaton.base.progress import Progress, silent
from attomaton.base.ragged import largest_of, occurs, run_starts
from attomaton.base.tables import Bool, Int32
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import count_all_tokens
from attomaton.graphs.choices import ChoiceTable, count_choices, extract_choices
from attomaton.graphs.components import Components
from attomaton.graphs.edges import EdgeTable, extract_edges, make_edges, merge_edges
from attomaton.graphs.grouping import count_keys, find_rows, pack_pairs
from attomaton.solvers.solved import Solved, solve_edges

SCORE_TIE = 1e-9  # closer scores count as equal, so that rounding never changes a choice
MOST_ROUNDS = 100  # the choice then counts as unsettled
CHUNK_KEYS = 1 << 22  # keys counted at a time


@dataclass(frozen=True)
class Settling:
    """How the read keys were chosen, in the ``n_several`` samples whose label several keys write.

    ``rounds`` counts the rounds until no choice changed, 0 if there was nothing to choose. If ``settled``,
    the choice is final: a local optimum, not certified as global.
    """

    n_several: int
    rounds: int
    settled: bool

    @property
    def certified(self) -> bool:
        """Whether there was nothing to choose, so that both certificates apply to the loss itself."""
        return self.n_several == 0


@dataclass(frozen=True, eq=False)
class WritingProblem:
    """The samples of a corpus, with keys as contexts, and the options of the solvers.

    ``alone`` are the samples whose label one key writes; this key is the label here. ``several`` are those
    whose label several keys write. ``lost`` are the queries of the other samples, which are only counted.
    """

    alone: Samples
    several: Writers
    lost: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))
    min_support: int = 1
    embeddings: object = None
    threads: int | None = None

    def take(self, queries: Bool) -> "WritingProblem":
        """The samples of the queries where the mask (n_keys,) is true."""
        return replace(
            self,
            alone=self.alone.take(queries[self.alone.queries]),
            several=self.several.take(queries[self.several.queries]),
            lost=self.lost[queries[self.lost]],
        )

    def edges(self, chosen: Int32) -> EdgeTable:
        """The edges of all samples if the keys ``chosen`` (n_several,) were read."""
        tables = [extract_edges(self.alone, threads=self.threads)]
        if len(self.several):
            tables.append(self.several.edges(chosen))
        if len(self.lost):
            no_edges = np.empty(0, np.int64)
            queries, counts = count_keys(self.lost.astype(np.int64))
            n_realisable = np.zeros_like(counts)
            tables.append(make_edges(self.alone.n_tokens, no_edges, no_edges, queries, n_realisable, counts))
        return merge_edges(tables).filter(min_support=self.min_support)

    def choices(self, chosen: Int32, components: Components) -> ChoiceTable:
        """The choices inside components, if the keys ``chosen`` were read."""
        plain = extract_choices(self.alone, components, threads=self.threads)
        if not len(self.several):
            return plain
        return count_choices([plain, self.several.choices(chosen, components)])

    def solve(self, chosen: Int32, progress: Progress = silent) -> Solved:
        """Both sides of the convex problem that remains once these keys are chosen."""
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
    chunks = [count_all_tokens(chunk) for chunk in problem.alone.chunks(CHUNK_KEYS)]
    alone = [Writers(bags, bags.token == bags.samples.labels[bags.sample]) for bags in chunks]
    writers, pull = pull_first([several, *alone])
    rows, _ = find_rows(writers, pack_pairs(several.queries[several.bags.sample], several.bags.token))
    # rounded, so that pulls that are equal up to rounding tie, and the lowest key is picked
    return several.pick(pull[rows].round(12) if len(writers) else np.zeros(0))


def choose_again(writers: Writers, chosen: Int32, nodes: NodeScores) -> Int32:
    """The writers with the largest mass in the limit; a choice stays unless another writer has more."""
    # The writer with the higher hard score has more mass. If hard scores tie, and keys that do not write the
    # label get some probability, the writer with the larger m e^{soft} has more mass.
    bags = writers.bags
    writes = writers.writes
    # by entry of the bags; −∞ and 0 where there is no evidence
    hard = np.where(nodes.is_node, nodes.hard, -np.inf)
    log_mass = np.where(nodes.is_node, nodes.soft, 0.0) + np.log(bags.multiplicity)
    # by sample: the highest hard score of a writer, and whether a key that does not write gets probability
    best_hard = largest_of(bags.sample[writes], hard[writes], len(writers))
    is_level = nodes.is_node & (hard >= best_hard[bags.sample] - SCORE_TIE)
    is_top = writes & is_level
    loses_mass = occurs(bags.sample[~writes & is_level], len(writers))
    best_mass = largest_of(bags.sample[is_top], log_mass[is_top], len(writers))
    current = np.flatnonzero(writes & (bags.token == chosen[bags.sample]))  # one entry for each sample
    stays = hard[current] >= best_hard - SCORE_TIE
    stays &= ~loses_mass | (log_mass[current] >= best_mass - SCORE_TIE)
    stays |= np.isneginf(best_hard)  # no evidence about any writer
    likeliest = np.flatnonzero(is_top & (log_mass >= best_mass[bags.sample] - SCORE_TIE))
    # entries are sorted by sample and key: the first of a sample is the lowest key
    lowest = likeliest[run_starts(bags.sample[likeliest])] if len(likeliest) else likeliest
    again = chosen.copy()
    again[bags.sample[lowest]] = bags.token[lowest]
    return np.where(stays, chosen, again).astype(np.int32)


def settle_choice(problem: WritingProblem, progress: Callable[[str], object]) -> tuple[Int32, Settling]:
    """The key that is read in each sample with several writers, shape (n_several,), and how it was chosen."""
    several = problem.several
    if not len(several):
        return np.empty(0, np.int32), Settling(0, 0, settled=True)
    chosen = choose_first(problem)
    size = problem.alone.n_tokens
    # Queries are independent without embeddings: only those where a choice changed are solved again.
    active = occurs(several.queries, size)
    for round_number in range(1, MOST_ROUNDS + 1):
        progress(f"choosing the keys to read, round {round_number}")
        is_active = active[several.queries]
        restricted = problem.take(active)
        solved = restricted.solve(chosen[is_active])
        nodes = Nodes.of(solved.components, solved.hard, solved.soft)
        writers = restricted.several
        scores = nodes.find(writers.queries[writers.bags.sample], writers.bags.token)
        again = choose_again(writers, chosen[is_active], scores)
        changed = again != chosen[is_active]
        if not changed.any():
            return chosen, Settling(len(several), round_number, settled=True)
        chosen[is_active] = again
        if problem.embeddings is None:
            active = occurs(writers.queries[changed], size)
    return chosen, Settling(len(several), MOST_ROUNDS, settled=False)
