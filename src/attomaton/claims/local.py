"""Judge local convergence by the Graph-SVM of the tokens that the trained model itself selects.

With another loss or head, descent may converge to tokens outside the labels' components. No path can be
computed then, so claims are judged by how much the angle to the direction falls in the second half.
:func:`solve_local` is public; :func:`judge_local` and :func:`judge_path` judge claims.
"""

# Arrays over pairs have an entry for each (sample, token) pair of a trial's contexts. `mass` is the attention
# on each pair; a token with enough of it is *selected*. Convergence of W to a direction is judged by the
# tangent of the angle between them, which a correlation near 1 would hide in rounding. `judge_path` judges
# another claim: whether the W of least loss in balls of growing radius R (the regularisation path) tends to
# the direction W_svm of the labels.

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attomaton.base.ragged import ranges_of
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.claims import approach
from attomaton.claims.contexts import TrialContexts, read_contexts
from attomaton.claims.evidence import Evidence, correlation_of, find_tangents, need_log_loss, need_mass_head
from attomaton.claims.limits import dense, embeddings_for_solvers
from attomaton.claims.measures import Target, cyclic_axes, cyclic_coordinates
from attomaton.claims.verdicts import Judgement
from attomaton.graphs.components import find_components
from attomaton.graphs.edges import EdgeTable, make_edges, pack_edges
from attomaton.graphs.grouping import count_keys
from attomaton.solvers.hard.solve import HardSolution, solve_graph_svm
from attomaton.training.frames import minimise_in_span
from attomaton.training.models.heads import EmbeddingDistance, reads_mass
from attomaton.training.models.losses import LogLoss, slope_at
from attomaton.training.path import MOST_PATH_DIMENSIONS, trace_path
from attomaton.training.trace import Trace

# A token with more attention mass than this is selected.
SELECTED = 1e-2

# A token with more mass than this that is not selected is ignored.
LEAST_UNDECIDED = 9e-3

# Multiple of the local direction at which masses below the highest component have vanished: e^-30.
FAR = 30.0

# A tangent that halves in the limit must fall at least to this share; earlier, it falls more slowly.
CLOSER = 0.9

# W must have moved this many times ‖W(0)‖ by half of the steps: else the start still hides the direction.
FORGOTTEN = 2.0

# Local directions that differ by less, relative to their norm, count as equal.
ALIKE = 1e-6

# A selected token with less than this share of its mass at half of the steps is losing its attention.
KEEPS = 0.7

# Radii of the regularisation path, in units of ‖W_svm‖.
LEVELS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])

# The path is computed for at most this many trials.
PATH_TRIALS = 10


@dataclass(frozen=True, eq=False, repr=False)
class LocalSolutions:
    """The predicted limit of the weights of every trial, given the tokens that the model selects.

    ``hard`` has the Graph-SVM of the selected tokens of each trial. ``target`` has the predicted limits.
    Their finite part is the stationary point, nearest to W, of the model's own loss on the selected tokens.
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
    """Solve the Graph-SVM of the tokens that the model of each trial selects, and find the finite part.

    A token is selected if its attention mass is above 0.01 after the recorded ``step`` (by default the last).

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.training.models.embeddings import Orthonormal
    >>> corpus = at.Samples.from_lists([[0, 1, 2]], [0])
    >>> trace = at.train(corpus, at.AttentionModel(Orthonormal()), at.GradientDescent(1.0), steps=1000)
    >>> solve_local(trace).hard[0].scores.column("score").to_numpy().round(4).tolist()  # 0 beats the others
    [0.6667, -0.3333, -0.3333]
    """
    weights = trace.weights[-1] if step is None else trace.at(step)
    selected = _solve_selected(trace, weights)
    below = [
        contexts.outside_component_of(hard.components, _most_attended(contexts, mass))
        for contexts, mass, hard in selected
    ]
    directions = np.stack([dense(trial.hard.weights) for trial in selected])
    axes = cyclic_axes(trace, [trial.hard.components for trial in selected])
    position = minimise_in_span(
        trace.samples,
        trace.model,
        list(trace.embeddings),
        far=FAR * directions,
        axes=axes,
        start=cyclic_coordinates(axes, weights[None])[0],
    )
    contexts = tuple(trial.contexts for trial in selected)
    target = Target(directions, axes, position, contexts, tuple(below))
    return LocalSolutions(tuple(trial.hard for trial in selected), target)


def find_local_directions(trace: Trace, record: int | None = None) -> Float64:
    """The directions of :func:`solve_local` at a record, by default the last, without the finite parts."""
    selected = _solve_selected(trace, trace.weights[-1 if record is None else record])
    return np.stack([dense(trial.hard.weights) for trial in selected])


class _Selected(NamedTuple):
    """The tokens that the model selects in one trial, and the direction that follows."""

    contexts: TrialContexts
    mass: Float64  # the attention on each (sample, token) pair of the contexts, shape (n_pairs,)
    hard: HardSolution  # the Graph-SVM of the selected tokens


# Solve the Graph-SVM of each trial for these weights, shape (n_trials, dim, dim).
def _solve_selected(trace: Trace, weights: Float64) -> list[_Selected]:
    selected: list[_Selected] = []
    for samples, table, of_trial in zip(trace.samples, trace.embeddings, weights, strict=True):
        contexts = read_contexts(samples, table)
        mass = contexts.masses(of_trial[None])[0]
        components = find_components(selected_edges(contexts, mass))
        hard = solve_graph_svm(components, embeddings=embeddings_for_solvers(table))
        selected.append(_Selected(contexts, mass, hard))
    return selected


def selected_edges(contexts: TrialContexts, mass: Float64) -> EdgeTable:
    """The edges from every selected token of a context to all other tokens there, so selected tokens tie."""
    bags = contexts.bags
    sizes = np.bincount(bags.sample, minlength=len(bags.samples))
    selected = np.flatnonzero(mass > SELECTED)
    sample = bags.sample[selected]
    # each selected token against every token of its context, as pairs of rows of the bags
    winner = np.repeat(selected, sizes[sample])
    loser = ranges_of(contexts.starts[sample], sizes[sample])
    # a loser is selected, too (a tie), or clearly not selected; what is in between is left out
    clear = (winner != loser) & ((mass[loser] > SELECTED) | (mass[loser] <= LEAST_UNDECIDED))
    winner = winner[clear]
    loser = loser[clear]
    query = bags.samples.queries[bags.sample[winner]]
    keys, support = count_keys(pack_edges(query, bags.token[winner], bags.token[loser]))
    queries, counts = np.unique(bags.samples.queries, return_counts=True)
    unrealisable = np.zeros_like(counts)
    return make_edges(bags.samples.n_tokens, keys, support, queries.astype(np.int64), counts, unrealisable)


def _most_attended(contexts: TrialContexts, mass: Float64) -> Int64:
    # the token with most attention in each sample
    order = np.lexsort((mass, contexts.bags.sample))  # by sample, then by mass
    last = np.append(contexts.starts[1:], len(mass)) - 1
    return contexts.bags.token[order[last]].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Angles:
    """Tangents of the angles between W and a direction, with their bounds, shape (n_trials,) each."""

    last: Float64  # at the end
    half: Float64  # at half of the path; 0 if it does not matter
    bound: Float64  # of the tangent at the end
    covered: Bool  # whether the claim covers the trial

    @property
    def judged(self) -> Bool:
        """All covered trials except those whose angle falls, but is still wide."""
        early = (self.last <= self.bound) & ~(self.half <= approach.tangent_of(approach.NEAR_CORRELATION))
        return self.covered & ~early

    def judge(self, meaning: str) -> Judgement:
        """Judge by the worst trial; report the correlations instead of the tangents."""
        worst = approach.find_worst(self.last / self.bound, self.judged)
        return Judgement(
            float(correlation_of(self.last)[worst]),
            float(correlation_of(self.bound)[worst]),
            bool(self.last[worst] <= self.bound[worst]),
            approach.name_trials(meaning, worst, self.judged & (self.last <= self.bound), self.judged),
        )


def judge_local(evidence: Evidence) -> Judgement:
    """Claim: W/‖W‖ → the direction of the tokens that the model selects."""
    angles = evidence.once(_find_local)
    bound = "the correlation of the computed path with W_svm at half of the steps"
    if need_log_loss(evidence) or need_mass_head(evidence):
        bound = f"an angle with {CLOSER:.0%} of the tangent at which W was half as long as in mid-run"
    meaning = f"correlation of W with the Graph-SVM of the selected tokens at the end; bound: {bound}"
    return angles.judge(meaning)


def _local_directions(evidence: Evidence) -> Float64:
    return find_local_directions(evidence.trace)


# The angles to the directions of the selected tokens, with bounds from the first half of the run.
def _find_local(evidence: Evidence) -> Angles:
    # While W = level · direction + a bounded term, the tangent is halved when the level grows twofold;
    # otherwise it does not fall. With log-loss and a mass head the direction is W_svm in the limit, and its
    # bound is known.
    trace = evidence.trace
    middle = evidence.middle
    decided = evidence.once(_decided)
    # a direction for every trial; those that are not decided are not judged, but a zero would give NaN
    directions = np.where(decided[:, None, None], evidence.once(_local_directions), 1.0)
    tangent, level = find_tangents(trace.weights, directions)
    if not (need_log_loss(evidence) or need_mass_head(evidence)):
        bounds = evidence.once(approach.bound_direction)
        covered = decided & bounds.judged & _alike(evidence.once(_local_directions), evidence.directions)
        return Angles(tangent[-1], np.zeros(len(decided)), bounds.bound, covered)
    # the record of each trial at which W was half as long, along the direction, as in the middle
    before = np.abs(level[: middle + 1] - level[middle] / 2).argmin(axis=0)
    bound = np.maximum(CLOSER * tangent[before, np.arange(len(before))], approach.NEGLIGIBLE)
    return Angles(tangent[-1], tangent[middle], bound, decided)


def _alike(left: Float64, right: Float64) -> Bool:
    # where two directions are equal and nonzero, shape (n_trials,)
    length = np.linalg.norm(left, axis=(1, 2))
    return (np.linalg.norm(left - right, axis=(1, 2)) <= ALIKE * length) & (length > 0)


# Trials that claim 6 covers: selected tokens keep their mass, others lose theirs, W(0) is forgotten.
def _decided(evidence: Evidence) -> Bool:
    trace = evidence.trace
    settled = np.zeros(trace.n_trials, bool)
    for trial, contexts in enumerate(evidence.target.contexts):
        before, after = contexts.masses(trace.weights[[evidence.middle, -1], trial])
        # by pair; the run has settled if exactly the selected tokens keep their mass
        keeps = after >= KEEPS * before
        selected = after > SELECTED
        clear = selected | (after <= LEAST_UNDECIDED)
        settled[trial] = bool((clear & (keeps == selected))[after > 0].all())
    first = trace.weights[0]
    half = trace.weights[evidence.middle]
    moved = np.linalg.norm(half - first, axis=(1, 2)) >= FORGOTTEN * np.linalg.norm(first, axis=(1, 2))
    at_end = evidence.once(_local_directions)
    at_half = find_local_directions(trace, evidence.middle)
    # W must move by at least −ln KEEPS times at_end: a token beaten by a margin of 1 then falls to KEEPS
    advance = np.einsum("bij,bij->b", trace.weights[-1] - half, at_end)
    could_tell = advance >= -np.log(KEEPS) * np.sum(at_end**2, axis=(1, 2))
    return settled & moved & could_tell & _alike(at_end, at_half)


def need_slope(evidence: Evidence) -> str:
    """Condition: the loss is not flat where the label has all attention."""
    # otherwise contexts that select their label have gradients e^{−2 gap}, others e^{−gap}: margins differ
    head = evidence.trace.model.head
    flat = reads_mass(head) and slope_at(evidence.trace.model.loss, 1.0) == 0
    if not (flat or isinstance(head, EmbeddingDistance)):
        return ""
    return "the derivative of the loss is 0 where the label has all attention, so margins need not be equal"


def need_decided(evidence: Evidence) -> str:
    """Condition: in some trial the selected tokens are final, and W is near the direction of these."""
    if not evidence.once(_decided).any():
        return (
            "in no trial is the selection of tokens final: selected tokens still lose attention, others keep "
            "theirs, or W(0) still has an effect"
        )
    near = (
        "in no trial is W near the solution of the Graph-SVM in which the tokens that the model selects win"
    )
    return "" if evidence.once(_find_local).judged.any() else near


def judge_path(evidence: Evidence) -> Judgement:
    meaning = (
        f"correlation of W_R with W_svm at R = {LEVELS[-1]:g} ‖W_svm‖; bound: an angle with {CLOSER:.0%} of "
        f"the tangent at R = {LEVELS[-2]:g} ‖W_svm‖"
    )
    return evidence.once(_follow_path).judge(meaning)


# The angles between W_svm and the W of least loss in balls of growing radius, at the last two radii.
def _follow_path(evidence: Evidence) -> Angles:
    trace = evidence.trace
    chosen: list[int] = np.flatnonzero(_on_path(evidence))[:PATH_TRIALS].tolist()
    directions = evidence.directions[chosen]
    path = trace_path(
        [trace.samples[trial] for trial in chosen],
        trace.model,
        list(trace.embeddings[chosen]),
        radii=LEVELS[:, None] * np.linalg.norm(directions, axis=(1, 2)),
    )
    tangent, _ = find_tangents(path.weights, directions)
    bound = np.maximum(CLOSER * tangent[-2], approach.NEGLIGIBLE)
    return Angles(tangent[-1], tangent[-2], bound, np.ones(len(chosen), bool))


def _on_path(evidence: Evidence) -> Bool:
    # trials that claim 4 covers: all with log-loss, otherwise those without ties
    ties_allowed = isinstance(evidence.trace.model.loss, LogLoss)
    return evidence.directed & (evidence.acyclic | ties_allowed)


def need_path(evidence: Evidence) -> str:
    dim = evidence.trace.weights.shape[2]
    if dim > MOST_PATH_DIMENSIONS:
        return f"the regularisation path is computed in at most {MOST_PATH_DIMENSIONS} dimensions, not {dim}"
    if not _on_path(evidence).any():
        return "every trial has a cycle, and the loss is not log-loss"
    near = f"the path approaches W_svm, but is not near it at R = {LEVELS[-2]:g} ‖W_svm‖ in any trial"
    return "" if evidence.once(_follow_path).judged.any() else near
