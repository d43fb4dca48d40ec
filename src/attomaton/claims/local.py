"""Local convergence: the Graph-SVM of the tokens that the trained model itself selects.

With another loss or head, descent may settle on other tokens than the labels' components. Every token that
attention still holds is then taken for chosen, and the graph of these choices has a direction of its own.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.ragged import ranges_of
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.claims.measures import (
    Target,
    TrialContexts,
    cyclic_axes,
    cyclic_place,
    dense,
    read_contexts,
    unless_orthonormal,
)
from attomaton.corpora.samples import Samples
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import EdgeTable, make_edges, pack_edges
from attomaton.graphs.grouping import count_keys
from attomaton.solvers.hard.solve import HardSolution, solve_graph_svm
from attomaton.training.frames import settle_within
from attomaton.training.trace import Trace

SELECTED = 1e-2
"""A token with more attention mass than this is selected."""

UNDECIDED = 9e-3
"""A token with more than this and not selected is ignored."""

FAR = 30.0
"""Multiple of the local direction at which masses below the highest component are gone: e^-30."""


@dataclass(frozen=True, eq=False, repr=False)
class LocalSolutions:
    """What the selected tokens of every trial say its weights converge to.

    Attributes
    ----------
    hard : tuple of HardSolution
        The Graph-SVM of each pseudo-graph; zero where every token is selected in every context.
    target : Target
        Where weights are then said to go. The finite part is the stationary point nearest to W of the
        model's own loss on the selected tokens.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.training.models.embeddings import Orthonormal
    >>> corpus = at.Samples.from_lists([[0, 1]], [0])
    >>> trace = at.train(corpus, at.AttentionModel(Orthonormal()), at.GradientDescent(1.0), steps=1000)
    >>> local = solve_local(trace)
    >>> local, local.directions[0].round(4).tolist()
    (LocalSolutions(1 trials), [[0.0, 0.5], [0.0, -0.5]])
    """

    hard: tuple[HardSolution, ...]
    target: Target

    def __repr__(self) -> str:
        return f"LocalSolutions({len(self.hard):,} trials)"

    @property
    def directions(self) -> Float64:
        """The weights of the Graph-SVMs, shape (n_trials, dim, dim)."""
        return self.target.directions


def solve_local(trace: Trace, *, step: int | None = None) -> LocalSolutions:
    """The pseudo-graph of every trial at a record (None means the last), its Graph-SVM and finite part.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.training.models.embeddings import Orthonormal
    >>> corpus = at.Samples.from_lists([[0, 1, 2]], [0])
    >>> trace = at.train(corpus, at.AttentionModel(Orthonormal()), at.GradientDescent(1.0), steps=1000)
    >>> solve_local(trace, step=0).directions[0].any()  # all three are still selected: they tie
    np.False_
    >>> solve_local(trace).hard[0].scores.column("score").to_numpy().round(4).tolist()  # 0 beats the others
    [0.6667, -0.3333, -0.3333]
    """
    weights = trace.weights[-1] if step is None else trace.at(step)
    read = tuple(read_contexts(*pair) for pair in zip(trace.samples, trace.embeddings, strict=True))
    hard: list[HardSolution] = []
    below: list[Bool] = []
    for contexts, one in zip(read, weights, strict=True):
        mass = contexts.masses(one[None])[0]
        hard.append(_solve_selected(contexts, mass))
        below.append(contexts.apart_from(hard[-1].components, _most_attended(contexts, mass)))
    directions = np.stack([dense(solution.weights) for solution in hard])
    axes = cyclic_axes(trace, [solution.components for solution in hard])
    place = _settle(trace, weights, axes, directions)
    return LocalSolutions(tuple(hard), Target(directions, axes, place, read, tuple(below)))


def find_local_directions(trace: Trace, record: int | None = None) -> Float64:
    """The directions of :func:`solve_local` at a record (None means the last), without the finite parts.

    These take far longer.
    """
    weights = trace.weights[-1] if record is None else trace.weights[record]
    read = (read_contexts(*pair) for pair in zip(trace.samples, trace.embeddings, strict=True))
    hard = [
        _solve_selected(contexts, contexts.masses(one[None])[0])
        for contexts, one in zip(read, weights, strict=True)
    ]
    return np.stack([dense(solution.weights) for solution in hard])


def _solve_selected(contexts: TrialContexts, mass: Float64) -> HardSolution:
    """The Graph-SVM of the tokens that hold this mass."""
    found = find_components(_selected_edges(contexts, mass))
    return solve_graph_svm(found, embeddings=unless_orthonormal(contexts.table))


def find_selected(samples: Samples, table: Float64, weights: Float64) -> Components:
    """The components of the graph in which every selected token of a context beats all others there.

    Selected tokens of one context beat each other, so they tie. Tokens that are neither selected nor clearly
    not are left out of the context.
    """
    contexts = read_contexts(samples, table)
    mass = contexts.masses(weights[None])[0]
    return find_components(_selected_edges(contexts, mass))


def _selected_edges(contexts: TrialContexts, mass: Float64) -> EdgeTable:
    bags = contexts.bags
    winner = np.flatnonzero(mass > SELECTED)
    first, sizes = contexts.starts, np.bincount(bags.sample, minlength=len(bags.samples))
    beside = sizes[bags.sample[winner]]
    loser = ranges_of(first[bags.sample[winner]], beside)
    winner = np.repeat(winner, beside)
    kept = (winner != loser) & ((mass[loser] > SELECTED) | (mass[loser] <= UNDECIDED))
    winner, loser = winner[kept], loser[kept]
    asked = bags.samples.queries
    keys, support = count_keys(pack_edges(asked[bags.sample[winner]], bags.token[winner], bags.token[loser]))
    queries, counts = np.unique(asked, return_counts=True)
    return make_edges(
        bags.samples.n_tokens, keys, support, queries.astype(np.int64), counts, np.zeros_like(counts)
    )


def _most_attended(contexts: TrialContexts, mass: Float64) -> Int64:
    """For each sample the token with most attention; it is selected, unless a hundred share it."""
    order = np.lexsort((mass, contexts.bags.sample))
    last = np.append(contexts.starts[1:], len(mass)) - 1
    return contexts.bags.token[order[last]].astype(np.int64)


def _settle(trace: Trace, weights: Float64, axes: Float64, directions: Float64) -> Float64:
    """Coordinates of the finite part nearest to the weights, shape (n_trials, n_axes)."""
    return settle_within(
        trace.samples,
        trace.model,
        list(trace.embeddings),
        far=FAR * directions,
        axes=axes,
        start=cyclic_place(axes, weights),
    )
