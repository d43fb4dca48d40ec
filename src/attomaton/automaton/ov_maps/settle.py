"""Which key was read where several write the label: chosen, solved, chosen again, until nothing changes.

Each round solves a convex problem that bounds the loss from above
(:mod:`attomaton.automaton.ov_maps.writers`) and then chooses for every sample the writer with the largest
mass in the limit, which lowers the bound at the scores just found. So the limit of the bound never rises from
round to round, and where it stays the same W_svm does not grow; there are finitely many choices, so it ends.
Where it ends is a local optimum: another choice of writers may have a smaller loss, and nothing here proves
that none does. See docs/writing.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from attomaton.automaton.ov_maps.writers import Writers, lose_anything, pull_first
from attomaton.automaton.runs.nodes import Known, Nodes
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

TIE = 1e-9
"""Scores closer than this count as equal, so that rounding never changes a choice."""

MOST_ROUNDS = 100
"""Rounds after which the choice is taken as it is, and said to be unsettled."""


@dataclass(frozen=True)
class Settling:
    """How the keys that were read were chosen.

    Attributes
    ----------
    n_several : int
        Samples whose label several keys of the context write.
    rounds : int
        How often the problem was solved before the choice stayed; 0 where there was nothing to choose.
    settled : bool
        Whether the choice stayed. It is then a local optimum, which is not certified to be a global one.

    Examples
    --------
    >>> Settling(n_several=0, rounds=0, settled=True).certified
    True
    """

    n_several: int
    rounds: int
    settled: bool

    @property
    def certified(self) -> bool:
        """Whether the certificates of both sides speak of the loss itself: nothing had to be chosen."""
        return self.n_several == 0


@dataclass(frozen=True, eq=False)
class WritingProblem:
    """Reachable samples over keys, and how they are solved.

    Attributes
    ----------
    alone : Samples
        Those whose label one key writes, which is their label here.
    several : Writers
        Those whose label several keys write.
    lost : int32 array
        The queries of the samples that no key reaches; they are counted only.
    min_support : int
        Edges that fewer samples show are left out.
    embeddings : float array, shape (n_keys, dim), optional
        None means orthonormal.
    threads : int, optional
        How many to use.
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
        """Who beats whom, with the samples read by query."""
        nothing = np.empty(0, np.int64)
        queries, counts = count_keys(self.lost.astype(np.int64))
        parts = [extract_edges(self.alone, threads=self.threads)]
        if len(self.several):
            parts.append(self.several.edges(chosen))
        if len(self.lost):
            zeros = np.zeros_like(counts)
            parts.append(make_edges(self.alone.n_tokens, nothing, nothing, queries, zeros, counts))
        return merge_edges(parts).filter(min_support=self.min_support)

    def choices(self, chosen: Int32, components: Components) -> ChoiceTable:
        """The choices inside components."""
        plain = extract_choices(self.alone, components, threads=self.threads)
        if not len(self.several):
            return plain
        return count_choices([plain, self.several.choices(chosen, components)])

    def solve(self, chosen: Int32, progress: Progress = silent) -> Solved:
        """Both sides, certified, if ``chosen`` was read."""
        return solve_edges(
            self.edges(chosen),
            lambda found: self.choices(chosen, found),
            embeddings=self.embeddings,
            threads=self.threads,
            progress=progress,
        )


def choose_first(problem: WritingProblem) -> Int32:
    """The writers that the first step of gradient descent from zero raises most, shape (n_several,)."""
    several = problem.several
    alone = [_alone(piece) for piece in problem.alone.chunks(1 << 22)]
    pairs, pull = pull_first([several, *alone])
    rows, _ = find_rows(pairs, pack_pairs(several.queries[several.bags.sample], several.bags.token))
    return several.likeliest(pull[rows].round(12)) if len(pairs) else several.likeliest(np.zeros(0))


def _alone(samples: Samples) -> Writers:
    """Samples with one key as their label, as sets of one."""
    bags = count_all_tokens(samples)
    return Writers(bags, bags.token == samples.labels[bags.sample])


def choose_again(writers: Writers, chosen: Int32, known: Known) -> Int32:
    """The writers with the largest mass in the limit; a choice stays where no other has more.

    A writer has more mass if its hard score is higher or, where hard scores tie and some chance is lost to
    keys that do not write the label, if m e^{soft} is larger.
    """
    bags = writers.bags
    hard = np.where(known.seen, known.hard, -np.inf)
    soft = np.where(known.seen, known.soft, 0.0) + np.log(bags.multiplicity)
    own = np.flatnonzero(writers.mine & (bags.token == chosen[bags.sample]))
    best = largest_of(bags.sample[writers.mine], hard[writers.mine], len(writers))
    top = writers.mine & (hard >= best[bags.sample] - TIE) & known.seen
    lossy = lose_anything(writers, hard, known.seen, best, TIE)
    mass = largest_of(bags.sample[top], soft[top], len(writers))
    stays = hard[own] >= best - TIE
    stays &= ~lossy | (soft[own] >= mass - TIE)
    stays |= np.isneginf(best)
    wanted = np.flatnonzero(top & (soft >= mass[bags.sample] - TIE))
    first = wanted[run_starts(bags.sample[wanted])] if len(wanted) else wanted
    again = chosen.copy()
    again[bags.sample[first]] = bags.token[first]
    return np.where(stays, chosen, again).astype(np.int32)


def settle(problem: WritingProblem, progress: Callable[[str], object]) -> tuple[Int32, Settling]:
    """The key that was read in each sample of ``problem.several``, and how it was found.

    Queries whose choice stays are not solved again, unless embeddings join them.
    """
    several = problem.several
    if not len(several):
        return np.empty(0, np.int32), Settling(0, 0, settled=True)
    chosen = choose_first(problem)
    size = problem.alone.n_tokens
    active = occurs(several.queries, size)
    for number in range(1, MOST_ROUNDS + 1):
        progress(f"choosing what is read, round {number}")
        mask = active[several.queries]
        part = problem.take(active)
        solved = part.solve(chosen[mask])
        nodes = Nodes.of(solved.components, solved.hard, solved.soft)
        bags = part.several.bags
        known = nodes.find(part.several.queries[bags.sample], bags.token)
        again = choose_again(part.several, chosen[mask], known)
        changed = again != chosen[mask]
        if not changed.any():
            return chosen, Settling(len(several), number, settled=True)
        chosen[mask] = again
        if problem.embeddings is None:
            active = occurs(part.several.queries[changed], size)
    return chosen, Settling(len(several), MOST_ROUNDS, settled=False)
