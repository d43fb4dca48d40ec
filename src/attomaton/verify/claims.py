"""The claims of "Mechanics of Next Token Prediction with Self-Attention", and the third term, judged on runs.

A theorem speaks of the limit; a run ends. So each claim about a limit is judged by how fast the run gets
closer to it: half the way against the end.
"""

from collections.abc import Sequence

import numpy as np

from attomaton.errors import MismatchedParts
from attomaton.graphs.edges import extract_edges
from attomaton.graphs.reduction import find_ends
from attomaton.hard.solve import Kind
from attomaton.limit.automaton import Automaton
from attomaton.models.losses import LogLoss
from attomaton.tables import Bool, Float64, column
from attomaton.training.path import MOST_DIMENSIONS, trace_path
from attomaton.training.steps import GradientDescent
from attomaton.training.trace import Trace
from attomaton.verify.convexity import judge_convexity, judge_strictness, need_few_dimensions
from attomaton.verify.evidence import (
    Evidence,
    correlation_of,
    find_angles,
    need_descent,
    need_direction,
    need_independence,
    need_length,
    need_log_loss,
    need_mass_head,
    need_plain_descent,
    need_ties,
)
from attomaton.verify.forecast import judge_fast_forward, judge_third_term, need_late_records, need_told
from attomaton.verify.local import SELECTED, UNDECIDED
from attomaton.verify.measures import check_automata, dense, solve_trials
from attomaton.verify.verdicts import Claim, Judgement, Verdicts

CLOSER = 0.9
"""A tangent that halves in the limit must fall at least to this share; before, it falls more slowly."""

SETTLED = 1e-6
"""Distances and angles below this are as good as none."""

KEEPS = 0.7
"""A selected token with less than this share of the mass that it had at half the steps is on its way out."""

LEVELS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
"""Radii of the regularisation path, in units of ‖W_svm‖."""

PATH_TRIALS = 10
"""The path is followed for this many trials, at most."""


def verify(automata: Automaton | Sequence[Automaton], trace: Trace) -> Verdicts:
    """Hold a training run against every claim of the theory.

    Parameters
    ----------
    automata : Automaton or sequence of Automaton
        What the samples of the trials say (:func:`~attomaton.verify.measures.solve_trials`), one for each.
        A single automaton must be of the corpus that all trials were trained on; it is solved again with the
        embeddings of each.
    trace : Trace
        The run.

    Returns
    -------
    Verdicts
        A list, one for each claim. Numbers are those of the worst trial.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.models.attention import AttentionModel
    >>> from attomaton.models.embeddings import Orthonormal
    >>> from attomaton.training.loop import train
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1])
    >>> trace = train(samples, AttentionModel(Orthonormal()), GradientDescent(1.0), steps=2000)
    >>> for verdict in verify(at.learn(samples), trace):
    ...     print(verdict.claim, verdict.status.value)
    feasible holds
    convex holds
    strictly convex inside holds
    norm grows holds
    direction holds
    finite part holds
    regularisation path holds
    hard retrieval holds
    soft composition holds
    local direction holds
    third term holds
    fast-forward holds
    """
    if isinstance(automata, Automaton):
        for samples in {id(one): one for one in trace.samples}.values():
            if not extract_edges(samples).table.equals(automata.components.edges.table):
                raise MismatchedParts("the automaton was not learned from the samples of this run")
        automata = solve_trials(trace)
    check_automata(trace, automata)
    evidence = Evidence(trace, tuple(automata))
    return Verdicts(claim.check(evidence) for claim in CLAIMS)


def _worst(shortfall: Float64, among: Bool) -> int:
    """The trial that falls shortest, among those that count."""
    return int(np.where(among, np.nan_to_num(shortfall, nan=np.inf), -np.inf).argmax())


def judge_feasibility(evidence: Evidence) -> Judgement:
    """Every priority is met with a margin of 1."""
    least = np.inf
    for automaton, counts in zip(evidence.automata, evidence.independent, strict=True):
        if counts:
            above, below = find_ends(automaton.components)
            scores = column(automaton.hard.scores, "score")
            met = automaton.hard.kind is Kind.EVERY_PRIORITY
            least = min(least, float((scores[above] - scores[below]).min(initial=np.inf)) if met else 0.0)
    return Judgement(least, 1 - 1e-6, least >= 1 - 1e-6, "smallest margin of any priority")


def judge_norm(evidence: Evidence) -> Judgement:
    """‖W‖ still grows in the second half of training."""
    norm = evidence.curves.norm
    growth = norm[-1] / np.maximum(norm[evidence.middle], np.finfo(float).tiny)
    worst = _worst(-growth, evidence.directed)
    value = float(growth[worst])
    return Judgement(value, 1.0, value > 1.0, f"‖W‖ at the end over that at half the steps (trial {worst})")


def _judge_angle(weights: Float64, along: Float64, among: Bool, what: str) -> Judgement:
    """The angle to a direction closes."""
    safe = np.where(among[:, None, None], along, 1.0)
    last, half = find_angles(weights, safe)
    asked = np.maximum(CLOSER * half, SETTLED)
    worst = _worst(last / asked, among)
    return Judgement(
        float(correlation_of(last)[worst]),
        float(correlation_of(asked)[worst]),
        bool(last[worst] <= asked[worst]),
        f"{what} (trial {worst}); bound: {CLOSER:.0%} of the tangent of the angle at half the way; "
        f"{int((among & (last <= asked)).sum())} of {int(among.sum())} trials reach theirs",
    )


def judge_direction(evidence: Evidence) -> Judgement:
    """W/‖W‖ → W_svm/‖W_svm‖."""
    what = "correlation of W with W_svm at the end"
    return _judge_angle(evidence.trace.weights, evidence.directions, evidence.directed, what)


def judge_local(evidence: Evidence) -> Judgement:
    """W/‖W‖ → the direction of the tokens that the model selects."""
    what = "correlation of W with the Graph-SVM of the selected tokens at the end"
    return _judge_angle(evidence.trace.weights, evidence.local_directions, evidence.once(_decided), what)


def _decided(evidence: Evidence) -> Bool:
    """Trials of which claim 6 speaks: selected tokens keep their mass, all others lose theirs, and some do.

    The threshold of selection knows nothing of the limit: a token below it may hold its small mass for ever,
    and tokens just below it are left out of the graph.
    """
    trace = evidence.trace
    settled = np.zeros(trace.n_trials, bool)
    for trial, contexts in enumerate(evidence.target.contexts):
        before, after = contexts.masses(trace.weights[[evidence.middle, -1], trial])
        kept = after >= KEEPS * before
        clear = (after > SELECTED) | (after <= UNDECIDED)
        settled[trial] = bool((clear & (kept == (after > SELECTED)))[after > 0].all())
    return settled & np.asarray(evidence.local_directions.any(axis=(1, 2)))


def _need_decided(evidence: Evidence) -> str:
    """Some trial has made its choice."""
    told = "no trial has made its choice: selected tokens lose attention, or others keep theirs; train on"
    return "" if evidence.once(_decided).any() else told


def _finite_bounds(evidence: Evidence) -> Float64:
    """How close Π_fin W should be to W_fin in the last tenth of training, shape (n_trials,).

    The distance falls, perhaps after a swing through W_fin: it is at most what W has moved since a quarter of
    the steps, and half the largest distance before. Steps of one length η leave a floor of about η/2; four
    times that is allowed. Steps that shrink with the gradient leave none.
    """
    step, steps = evidence.trace.step, evidence.trace.steps
    floor = 2.0 * step.step_size if isinstance(step, GradientDescent) and step.normalized else SETTLED
    late = evidence.cyclic_places[steps >= steps[-1] / 4]
    moved = np.linalg.norm(late - late[-1], axis=2).max(axis=0)
    early = (steps >= steps[-1] / 100) & (steps <= steps[-1] / 4)
    before = evidence.curves.finite_distance[early].max(axis=0, initial=0.0)
    return np.maximum(np.minimum(moved, 0.5 * before), floor)


def judge_finite(evidence: Evidence) -> Judgement:
    """Π_fin W → W_fin."""
    steps = evidence.trace.steps
    distance = evidence.curves.finite_distance[steps >= 0.9 * steps[-1]].max(axis=0)
    bounds = evidence.once(_finite_bounds)
    worst = _worst(distance - bounds, ~evidence.acyclic)
    value, bound = float(distance[worst]), float(bounds[worst])
    meaning = f"largest ‖Π_fin W − W_fin‖ in the last tenth of the steps (trial {worst})"
    return Judgement(value, bound, value <= bound, meaning)


def judge_retrieval(evidence: Evidence) -> Judgement:
    """The mass below the highest component falls at least like e^(−level/2), W ≈ level · W_svm."""
    missed, trace = evidence.curves.missed, evidence.trace
    size = np.linalg.norm(evidence.directions, axis=(1, 2))
    level = evidence.target.level(trace.weights[[evidence.middle, -1]]) / size
    among = evidence.directed & (missed[-1] != 0)
    fallen = np.log(np.where(among, missed[evidence.middle], 1.0) / np.where(among, missed[-1], 1.0))
    rate = np.where(among, fallen / np.maximum(level[1] - level[0], 1e-300), np.inf)
    worst = _worst(-rate, evidence.directed)
    kept = 1.0 - float(missed[-1].max())
    meaning = f"fall of ln(mass missed) per unit of W_svm (trial {worst}); least mass retrieved {kept:.6f}"
    return Judgement(float(rate[worst]), 0.5, bool(rate[worst] >= 0.5), meaning)


def judge_composition(evidence: Evidence) -> Judgement:
    """Inside the highest component, attention has the Luce odds of W_fin."""
    trace = evidence.trace
    apart = np.zeros(trace.n_trials)
    for trial, automaton in enumerate(evidence.automata):
        contexts, inside = evidence.target.contexts[trial], ~evidence.target.below[trial]
        both = contexts.masses(np.stack([trace.weights[-1, trial], dense(automaton.soft.weights)]))
        both = np.where(inside, both, 0.0)
        both = both / contexts.sums(both)[:, contexts.bags.sample]
        apart[trial] = 0.5 * contexts.sums(np.abs(both[0] - both[1])).max()
    longest = np.sum(trace.embeddings**2, axis=2).max(axis=1)  # a score moves by ‖e_i − e_j‖ ‖e_k‖ times ΔW
    bounds = 0.5 * longest * evidence.once(_finite_bounds)
    worst = _worst(apart - bounds, ~evidence.acyclic)
    value, bound = float(apart[worst]), float(bounds[worst])
    meaning = f"largest difference from the Luce odds in any context (trial {worst})"
    return Judgement(value, bound, value <= bound, meaning)


def judge_path(evidence: Evidence) -> Judgement:
    """The regularisation path goes along W_svm."""
    trace = evidence.trace
    chosen: list[int] = np.flatnonzero(_on_path(evidence))[:PATH_TRIALS].tolist()
    along = evidence.directions[chosen]
    path = trace_path(
        [trace.samples[trial] for trial in chosen],
        trace.model,
        list(trace.embeddings[chosen]),
        radii=LEVELS[:, None] * np.linalg.norm(along, axis=(1, 2)),
    )
    what = f"correlation of W_R with W_svm at R = {LEVELS[-1]:g} ‖W_svm‖"
    return _judge_angle(path.weights, along, np.ones(len(chosen), bool), what)


def _on_path(evidence: Evidence) -> Bool:
    """Trials of which claim 4 speaks: with log-loss all, else those without ties."""
    ties_allowed = isinstance(evidence.trace.model.loss, LogLoss)
    return evidence.directed & (evidence.acyclic | ties_allowed)


def _need_path(evidence: Evidence) -> str:
    """The data and the size allow the path."""
    dim = evidence.trace.weights.shape[2]
    if dim > MOST_DIMENSIONS:
        return f"the path is followed in at most {MOST_DIMENSIONS} dimensions, not {dim}"
    return "" if _on_path(evidence).any() else "every trial has a cycle, and the loss is not log-loss"


_CONVEX = (need_log_loss, need_mass_head, need_few_dimensions)
_GLOBAL = (need_log_loss, need_mass_head, need_descent, need_direction)

_FINITE = (need_log_loss, need_mass_head, need_descent, need_ties, need_length)

CLAIMS = (
    Claim("feasible", (need_independence,), judge_feasibility),
    Claim("convex", _CONVEX, judge_convexity),
    Claim("strictly convex inside", (*_CONVEX, need_ties), judge_strictness),
    Claim("norm grows", (*_GLOBAL, need_length), judge_norm),
    Claim("direction", (*_GLOBAL, need_length), judge_direction),
    Claim("finite part", _FINITE, judge_finite),
    Claim("regularisation path", (need_mass_head, need_direction, _need_path), judge_path),
    Claim("hard retrieval", (*_GLOBAL, need_length), judge_retrieval),
    Claim("soft composition", _FINITE, judge_composition),
    Claim("local direction", (need_descent, need_length, _need_decided), judge_local),
    Claim("third term", (*_GLOBAL, need_plain_descent, need_length, need_told), judge_third_term),
    Claim("fast-forward", (*_GLOBAL, need_plain_descent, need_late_records), judge_fast_forward),
)
