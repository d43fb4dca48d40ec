"""Margins of a run, in the norm that its optimiser keeps small, compared with the best; claims on them.

The margin of W is the smallest score difference of any priority. Divided by ‖W‖ it is at most the best
margin, the inverse of the least norm of the Graph-SVM (:func:`~attomaton.solvers.norms.solve.solve_normed`).

Each optimiser maximises the margin in its own norm, on data without cycles. Margins are judged, never
directions: the W of largest margin in the max norm or the spectral norm is not unique. Steps of steepest
descent have a proved bound, and plain descent has the bound of its computed path. For Adam, Muon and
momentum the theorems have rates without usable constants, so a run is tested against its own margin at half
of the steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.base.solutions import is_orthonormal
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.claims.approach import ApproachBounds, compute_path, look_ahead, need_known_path
from attomaton.claims.evidence import (
    FEWEST_STEPS,
    Evidence,
    find_lost_digits,
    need_descent,
    need_direction,
    need_log_loss,
    need_mass_head,
    need_records,
    need_stable_step,
    need_start,
    need_steps,
)
from attomaton.claims.limits import check_automata, embeddings_for_solvers
from attomaton.claims.verdicts import Claim, Judgement
from attomaton.graphs.components import Components
from attomaton.solvers.hard.solve import Kind
from attomaton.solvers.norms.certify import measure_norm
from attomaton.solvers.norms.solve import solve_normed
from attomaton.training.steps import Adam, GradientDescent, Muon, SignDescent, SpectralDescent, Step
from attomaton.training.trace import Trace

Norm = Literal["frobenius", "max", "spectral"]

MARGIN_NORMS: tuple[Norm, ...] = ("frobenius", "max", "spectral")

NORM_OF_STEP: dict[type, Norm] = {
    GradientDescent: "frobenius",
    SignDescent: "max",
    Adam: "max",
    SpectralDescent: "spectral",
    Muon: "spectral",
}
"""The norm in which each kind of step maximises the margin."""

MOST_NORM_DIMENSIONS = 64
"""Size limit: larger problems in the spectral norm, or in the max norm with embeddings, take too long."""

SHARE_TOLERANCE = 1e-6
"""Tolerance for comparing shares with proved bounds."""

MOST_MULTIPLE = 64
"""Bounds of steepest descent are computed for runs of up to this multiple of the steps."""

WOBBLE = 0.05
"""A share without a proved bound may fall by this from half of the steps to the end: steps oscillate.

If it falls by more and stays above 0, it is too early: shares of Muon were seen to fall by 0.15 at first.
"""

SMALL_EPSILON = 1e-3
"""ε of Adam is small if it is below this share of the attention that is left to move."""


def own_norm(step: Step) -> Norm | None:
    """The norm in which training with this kind of step maximises the margin; None if no theory names one.

    Examples
    --------
    >>> own_norm(Adam(0.1)), own_norm(GradientDescent(1.0)), own_norm(Muon(0.1))
    ('max', 'frobenius', 'spectral')
    """
    return NORM_OF_STEP.get(type(step))


@dataclass(frozen=True, eq=False)
class Margins:
    """The margins of a run in one norm.

    Attributes
    ----------
    norm : str
        "frobenius", "max" or "spectral".
    steps : int64 array, shape (n_records,)
        The steps of the records.
    margin : float64 array, shape (n_records, n_trials)
        The smallest score difference of any priority; infinite in trials without priorities.
    size : float64 array, shape (n_records, n_trials)
        ‖W‖.
    best : float64 array, shape (n_trials,)
        The largest margin that a W of norm 1 can have; NaN if not proved.
    """

    norm: Norm
    steps: Int64
    margin: Float64
    size: Float64
    best: Float64

    @property
    def share(self) -> Float64:
        """The margin of W/‖W‖ as a share of the best, shape (n_records, n_trials); 0 if W = 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.size > 0, self.margin / self.size / self.best, 0.0)


def measure_margins(trace: Trace, automata: Sequence[Automaton], norm: Norm) -> Margins:
    """The margins of every record and trial, and the best margin of each trial in this norm.

    Parameters
    ----------
    trace : Trace
        The run.
    automata : sequence of Automaton
        The automata of the trials (:func:`~attomaton.claims.limits.solve_trials`).
    norm : "frobenius", "max" or "spectral"
        What W is divided by.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.claims.limits import solve_trials
    >>> from attomaton.training.models.embeddings import Orthonormal
    >>> samples = at.Samples.from_lists([[0, 1]], [0])
    >>> trace = at.train(samples, at.AttentionModel(Orthonormal()), at.GradientDescent(1.0), steps=10)
    >>> measure_margins(trace, solve_trials(trace), "max").share[-1].round(6).tolist()  # one priority
    [1.0]
    """
    check_automata(trace, automata)
    n_records, n_trials = trace.weights.shape[:2]
    margin = np.full((n_records, n_trials), np.inf)
    best = np.full(n_trials, np.nan)
    for trial, automaton in enumerate(automata):
        table = trace.embeddings[trial]
        differences = read_differences(automaton.components, table, trace.weights[:, trial])
        margin[:, trial] = differences.min(axis=1, initial=np.inf)
        best[trial] = find_best(automaton, table, norm)
    return Margins(norm, trace.steps, margin, measure_norm(trace.weights, norm), best)


def find_best(automaton: Automaton, table: Float64, norm: Norm) -> float:
    """The best margin of a W of norm 1 for one trial; NaN if not proved, or if the problem is too large."""
    components = automaton.components
    if norm == "frobenius":
        squared = automaton.hard.certificate.upper
        return 1.0 / np.sqrt(squared) if squared > 0 else np.nan
    embeddings = embeddings_for_solvers(table)
    closed = norm == "max" and embeddings is None
    if (not closed and max(table.shape) > MOST_NORM_DIMENSIONS) or not components.order.num_rows:
        return np.nan
    try:
        return solve_normed(components, norm=norm, embeddings=embeddings).expect().best_margin
    except UncertifiedSolution:
        return np.nan


def read_differences(components: Components, table: Float64, weights: Float64) -> Float64:
    """(e_i − e_j)ᵀ W e_k of every edge i → j between components, shape (n_records, n_edges)."""
    query, winner, loser = find_strict(components)
    if is_orthonormal(table):
        return weights[:, winner, query] - weights[:, loser, query]
    scores = table @ weights @ table.T
    return scores[:, winner, query] - scores[:, loser, query]


def find_strict(components: Components) -> tuple[Int64, Int64, Int64]:
    """Query, winner and loser of the data edges between components, shape (n_edges,) each."""
    edges, n_tokens = components.edges, components.edges.n_tokens
    query, winner, loser = (np.asarray(edges[name], np.int64) for name in ("query", "winner", "loser"))
    keys = components.query_of_node.astype(np.int64) * n_tokens + components.token_of_node
    component = components.component_of_node
    ends = (component[np.searchsorted(keys, query * n_tokens + end)] for end in (winner, loser))
    strict = np.not_equal(*ends)
    return query[strict], winner[strict], loser[strict]


def find_reach(components: Components, table: Float64, norm: Norm) -> float:
    """The most that a W of norm 1 can move a score difference: max ‖u‖‖v‖ over edges, in the dual norm.

    The dual of the max norm is the sum of absolute values; that of the others is ‖u‖₂ ‖v‖₂ for u vᵀ.
    """
    query, winner, loser = find_strict(components)
    order = 1 if norm == "max" else 2
    lengths = np.linalg.norm(table[winner] - table[loser], order, axis=1)
    return float((lengths * np.linalg.norm(table[query], order, axis=1)).max(initial=0.0))


def list_paces(step_size: float, schedule: Callable[[int], float] | None, first: int, last: int) -> Float64:
    """η_t of the steps first, …, last − 1, counted from 0."""
    if schedule is None:
        return np.full(last - first, step_size)
    return step_size * np.array([schedule(step) for step in range(first, last)])


def bound_share(
    paces: Float64, *, best: float, reach: float, size: float, surprise: float, odds: float
) -> float:
    """The share of the best margin that steps of these lengths must reach; −inf if none is proved."""
    gains = gain_per_step(paces, best=best, reach=reach)
    if not len(paces) or gains.min() < 0 or not 0 < surprise < np.inf:
        return -np.inf
    least_share = -np.expm1(-surprise) / surprise  # κ: least G over L
    log_surprise = np.log(surprise) - least_share * float(gains.sum())
    # the largest single loss is at most the sum, and e^loss − 1 ≥ e^−margin / odds
    value = np.exp(log_surprise)  # may be too small to be added to 1
    margin = -(log_surprise if value < 1e-8 else np.log(np.expm1(value))) - np.log(odds)
    return float(margin / (best * (size + float(paces.sum()))))


def gain_per_step(paces: Float64, *, best: float, reach: float) -> Float64:
    """γη − ψ(Rη) of each step: the fall of the loss / G; below zero if the step is too long."""
    return best * paces - (np.expm1(reach * paces) - reach * paces)


def find_margins(evidence: Evidence, norm: Norm) -> Margins:
    """The margins of the run in one norm."""
    return measure_margins(evidence.trace, evidence.automata, norm)


def is_proved(evidence: Evidence) -> bool:
    """Whether the steps are exact steepest descent, so that :func:`bound_share` applies."""
    step = evidence.trace.step
    exact = isinstance(step, SignDescent | SpectralDescent) or evidence.normalized
    return exact and not getattr(step, "momentum", 0.0)


def describe_share(evidence: Evidence, norm: Norm) -> str:
    """The measured share, for a claim that does not apply; empty if unknown."""
    share = evidence.once(find_margins, norm).share[-1]
    measured = evidence.directed & np.isfinite(share)
    if not measured.any():
        return ""
    least, trials = float(share[measured].min()), int(measured.sum())
    worst = f" (the smallest of {trials} trials)" if trials > 1 else ""
    return f"; measured: {least:.3f} of the best margin in the {norm} norm{worst}"


def need_own_norm(evidence: Evidence, norm: Norm) -> str:
    """Condition: the step maximises the margin in this norm, and W itself was trained."""
    step = evidence.trace.step
    natural = own_norm(step)
    if natural != norm:
        return f"{type(step).__name__} maximises the margin in the {natural} norm: see margin-{natural}"
    return "" if evidence.trace.model.rank is None else "W is a product of two factors, which were trained"


def need_rule(evidence: Evidence) -> str:
    """Condition: the theorem, or the computed path, covers these steps."""
    step = evidence.trace.step
    try:
        first, last = list_paces(1.0, getattr(step, "schedule", None), 0, 1)[0], _last_pace(evidence)
    except UnsupportedOption as problem:  # only the name of the schedule is stored
        return str(problem)
    if is_proved(evidence) or not need_descent(evidence):
        return ""
    if isinstance(step, GradientDescent):
        return need_descent(evidence)
    if not last < first:
        return (
            f"{type(step).__name__} took steps of constant size, but the theorem requires step sizes that "
            "shrink: give schedule=Decay()"
        )
    return ""


def need_memory(evidence: Evidence) -> str:
    """Condition: half of the run is longer than the step's averaging window, if no bound is proved."""
    memory, half = _memory(evidence), int(evidence.trace.steps[evidence.middle])
    if half >= memory:
        return ""
    return f"the optimiser averages over about {memory:,.0f} steps, more than half of the run ({half:,})"


def _memory(evidence: Evidence) -> float:
    """Steps in the slowest running mean of a step; one if a bound is proved or computed."""
    step = evidence.trace.step
    if is_proved(evidence) or not need_descent(evidence):
        return 1.0
    slowest = max(step.betas) if isinstance(step, Adam) else float(getattr(step, "momentum", 0.0))
    return 1.0 / (1.0 - slowest)


def _last_pace(evidence: Evidence) -> float:
    last = max(int(evidence.trace.steps[-1]), 1)
    return float(list_paces(1.0, getattr(evidence.trace.step, "schedule", None), last - 1, last)[0])


def need_small_epsilon(evidence: Evidence) -> str:
    """Condition: ε of Adam is small compared with the gradients of every trial, to the end."""
    step = evidence.trace.step
    if not isinstance(step, Adam) or not step.epsilon:
        return ""
    missed = float(np.where(evidence.directed, evidence.curves.missed[-1], 1.0).min())
    if step.epsilon <= SMALL_EPSILON * missed:
        return ""
    return (
        f"ε = {step.epsilon:g} is not small compared with the final gradients ({missed:.0e} of the attention "
        "is left to move): give epsilon=0"
    )


def need_moving(evidence: Evidence) -> str:
    """Condition: weights are finite, and gradients did not vanish by rounding."""
    broken, missed, least = find_lost_digits(evidence)
    if broken or (missed >= least).all():
        return broken
    return (
        f"at the end only {missed.min():.0e} of the attention is left to move, and rounding hides such small "
        "gradients: use fewer steps"
    )


def need_order(evidence: Evidence) -> str:
    """Condition: some trial with a priority has no cycle, and every priority can be met."""
    if find_ordered(evidence).any():
        return ""
    trial = int(evidence.directed.argmax())
    automaton = evidence.automata[trial]
    ties = automaton.components.nodes.num_rows - len(automaton.components)
    reason = f"{ties} tie{'s' * (ties != 1)} in trial {trial}" if ties else "priorities contradict each other"
    return f"every trial with a priority has a cycle ({reason}), but the theorem assumes data without cycles"


def find_ordered(evidence: Evidence) -> Bool:
    """Trials with priorities, without cycles, whose embeddings can meet every priority, shape (n_trials,)."""
    met = [automaton.hard.kind is Kind.EVERY_PRIORITY for automaton in evidence.automata]
    return evidence.directed & evidence.acyclic & np.array(met)


def need_best(evidence: Evidence, norm: Norm) -> str:
    """Condition: the best margin of some trial without cycles is proved."""
    if np.isfinite(evidence.once(find_margins, norm).best[find_ordered(evidence)]).any():
        return ""
    n_tokens = evidence.trace.embeddings.shape[1]
    if n_tokens > MOST_NORM_DIMENSIONS:
        return f"the best margin is computed for at most {MOST_NORM_DIMENSIONS} tokens, not {n_tokens:,}"
    return "the best margin was not proved in any trial"


def need_short_paces(evidence: Evidence, norm: Norm) -> str:
    """Condition: steps of steepest descent are short enough at the end for some trial's loss to fall."""
    if not is_proved(evidence):
        return ""
    pace = _last_pace(evidence) * float(cast("Any", evidence.trace.step).step_size)
    best = evidence.once(find_margins, norm).best
    for trial in np.flatnonzero(find_ordered(evidence) & np.isfinite(best)).tolist():
        reach = find_reach(evidence.automata[trial].components, evidence.trace.embeddings[trial], norm)
        if gain_per_step(np.array([pace]), best=float(best[trial]), reach=reach)[0] >= 0:
            return ""
    return f"nothing is proved about steps as long as {pace:.3g}: use shorter steps"


def need_reached(evidence: Evidence, norm: Norm) -> str:
    """Condition: some trial is far enough at half of the steps to set a bound for its end."""
    reason = "at half of the steps no margin is large enough to set a bound, or the margin falls for a while"
    return evidence.once(bound_margin, norm).missing(reason)


def forecast_margin(evidence: Evidence, is_ready: Callable[[Evidence], bool], norm: Norm) -> int | str:
    """About how many more steps until a margin can be judged, or why this is unknown.

    Plain descent has its computed path. For other steps, the bound of a run of twice the steps is known,
    since half of it is this run; and the proofs about steepest descent also apply to longer runs.
    """
    last = int(evidence.trace.steps[-1])
    if not is_proved(evidence) and isinstance(evidence.trace.step, GradientDescent):
        return look_ahead(evidence, is_ready)
    steps = max(2 * last, 2 * int(np.ceil(_memory(evidence))), FEWEST_STEPS)
    while not (_bound_shares(evidence, norm, len(evidence.trace.steps) - 1, steps) > 0).any():
        if not is_proved(evidence) or steps > MOST_MULTIPLE * last:
            return "the number of steps is unknown, since the theorem's constants are unknown so early"
        steps *= 2
    return steps - last


def bound_margin(evidence: Evidence, norm: Norm) -> ApproachBounds:
    """The share of the best margin that each trial must reach."""
    bound = _bound_shares(evidence, norm, evidence.middle, int(evidence.trace.steps[-1]))
    among = bound > 0
    if not is_proved(evidence) and not isinstance(evidence.trace.step, GradientDescent):
        share = evidence.once(find_margins, norm).share[-1]
        among &= ~((share > 0) & (share < bound))  # a share may fall for long before it rises to its limit
    return ApproachBounds(bound, among)


def _bound_shares(evidence: Evidence, norm: Norm, record: int, steps: int) -> Float64:
    """The share that each trial must reach after this many steps, from its state at a record."""
    margins = evidence.once(find_margins, norm)
    bounds = np.full(evidence.trace.n_trials, -np.inf)
    for trial in np.flatnonzero(find_ordered(evidence) & np.isfinite(margins.best)):
        if is_proved(evidence):
            bounds[trial] = _proved_share(evidence, margins, int(trial), record, steps) - SHARE_TOLERANCE
        elif isinstance(evidence.trace.step, GradientDescent):
            bounds[trial] = _expect(evidence, margins, int(trial)) - SHARE_TOLERANCE
        else:
            bounds[trial] = margins.share[record, trial] - WOBBLE
    return bounds


def _proved_share(evidence: Evidence, margins: Margins, trial: int, record: int, steps: int) -> float:
    """The share that steepest descent must reach after this many steps, from its state at a record."""
    trace = evidence.trace
    contexts = evidence.target.contexts[trial]
    count, missed = len(contexts.bags.samples), float(evidence.curves.missed[record, trial])
    surprise = (
        -np.log1p(-count * missed) if count * missed < 0.5 else count * float(trace.losses[record, trial])
    )
    step = trace.step
    paces = list_paces(
        float(cast("Any", step).step_size), getattr(step, "schedule", None), int(trace.steps[record]), steps
    )
    return bound_share(
        paces,
        best=float(margins.best[trial]),
        reach=find_reach(evidence.automata[trial].components, trace.embeddings[trial], margins.norm),
        size=float(margins.size[record, trial]),
        surprise=float(surprise),
        odds=float(contexts.bags.multiplicity.max()),
    )


def _expect(evidence: Evidence, margins: Margins, trial: int) -> float:
    """The share of the computed path of plain descent at half of the steps, if it is increasing."""
    path, table = evidence.once(compute_path), evidence.trace.embeddings[trial]
    if not path.is_known[trial]:
        return -np.inf
    components, weights = evidence.automata[trial].components, path.weights[:, trial]
    reach, error = find_reach(components, table, margins.norm), float(path.error[trial])
    margin = read_differences(components, table, weights).min(axis=1) - reach * error
    share: Float64 = margin / (measure_norm(weights, margins.norm) + error) / margins.best[trial]
    return float(share[0]) if share[-1] >= share[0] else -np.inf


def judge_margin(evidence: Evidence, norm: Norm) -> Judgement:
    """Claim: margin(W)/‖W‖ → the best margin in this norm."""
    share, bounds = evidence.once(find_margins, norm).share[-1], evidence.once(bound_margin, norm)
    bound = "that of the run at half of the steps"
    if is_proved(evidence):
        bound = "what such steps must reach, starting from half of the steps"
    elif isinstance(evidence.trace.step, GradientDescent):
        bound = "that of the computed path at half of the steps"
    meaning = f"share of the best margin in the {norm} norm at the end; bound: {bound}"
    reached = bounds.among & (share >= bounds.bound)
    shortfall = np.maximum(bounds.bound, 0.0) - share  # −inf asks nothing of a trial that is not judged
    return bounds.judge(share, bounds.bound, reached, shortfall, meaning)


def _need_sound_path(evidence: Evidence) -> str:
    """Plain descent is below the edge of stability, and its path is known."""
    plain = isinstance(evidence.trace.step, GradientDescent) and not evidence.normalized
    return (need_stable_step(evidence) or need_known_path(evidence)) if plain else ""


def _claim(norm: Norm) -> Claim[Evidence]:
    def of_norm(need: Callable[[Evidence, Norm], str]) -> Callable[[Evidence], str]:
        return lambda evidence: need(evidence, norm)

    def with_share(need: Callable[[Evidence], str]) -> Callable[[Evidence], str]:
        def tell(evidence: Evidence) -> str:
            reason = need(evidence)
            return reason + describe_share(evidence, norm) if reason else ""

        return tell

    assumptions = (
        need_log_loss,
        need_mass_head,
        of_norm(need_own_norm),
        need_start,
        need_direction,
        need_moving,
        with_share(need_rule),
        with_share(need_small_epsilon),
        with_share(need_order),
        _need_sound_path,
        need_records,
        of_norm(need_best),
        with_share(of_norm(need_short_paces)),
    )
    return Claim(
        f"margin-{norm}",
        assumptions,
        partial(judge_margin, norm=norm),
        (need_steps, need_memory, of_norm(need_reached)),
        partial(forecast_margin, norm=norm),
    )


MARGIN_CLAIMS = tuple(_claim(norm) for norm in MARGIN_NORMS)
"""One claim per norm; a run has one optimiser, so at most one of them applies."""
