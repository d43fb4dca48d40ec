"""The claims of "Mechanics of Next Token Prediction with Self-Attention", the third term and margins, judged.

A theorem is about the limit, but a run ends. So each claim about a limit is tested against a bound that
depends on the data, W(0) and the step size only, or on the first half of the run
(:mod:`attomaton.claims.approach`). A run that is too short for its bound to be informative is not judged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array

import attomaton.claims.approach as approach
from attomaton.automaton.automaton import Automaton
from attomaton.base.errors import MismatchedParts
from attomaton.base.tables import Bool, Float64, column
from attomaton.claims.components import judge_components, need_readable
from attomaton.claims.evidence import (
    Evidence,
    need_descent,
    need_digits,
    need_direction,
    need_independence,
    need_log_loss,
    need_mass_head,
    need_plain_descent,
    need_records,
    need_stable_step,
    need_start,
    need_steps,
    need_ties,
    step_size_of,
)
from attomaton.claims.limits import check_automata, dense, solve_trial, solve_trials
from attomaton.claims.local import judge_local, judge_path, need_decided, need_path, need_slope
from attomaton.claims.margins import MARGIN_CLAIMS
from attomaton.claims.verdicts import Claim, Judgement, Verdicts
from attomaton.graphs.components import find_ends
from attomaton.graphs.edges import extract_edges
from attomaton.solvers.hard.solve import Kind
from attomaton.training.models.heads import Tied
from attomaton.training.trace import Trace
from attomaton.trajectory.expansion import Expansion, expand
from attomaton.trajectory.sharpness import STABILITY_LIMIT, bound_any_sharpness

LATE_STEP = 1_000
"""From this step on, fast-forward is compared with the run."""

RECORDS = 20
"""Number of records, evenly spaced, at which a run is compared with its forecast."""

CLOSELY = 0.5
"""W moves by half ‖W_svm‖ while steps grow 1.6-fold; larger errors give no information about a step."""

WEIGHT_ROUNDING = 1e-12
"""Rounding errors of a tensor program, relative to ‖W‖."""


def verify(automata: Automaton | Sequence[Automaton], trace: Trace) -> Verdicts:
    """Test a training run against every claim of the theory.

    Parameters
    ----------
    automata : Automaton or sequence of Automaton
        The automata of the trials (:func:`~attomaton.claims.limits.solve_trials`), one per trial.
        A single automaton must come from the corpus that all trials were trained on; it is solved again with
        the embeddings of each.
    trace : Trace
        The run.

    Returns
    -------
    Verdicts
        One verdict per claim. Numbers are those of the worst trial.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.training.models.embeddings import Orthonormal
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1])
    >>> trace = at.train(samples, at.AttentionModel(Orthonormal()), at.GradientDescent(1.0), steps=2000)
    >>> verify(at.learn(samples), trace).summary
    '13 hold, 3 not judged (3 do not apply here)'
    """
    if isinstance(automata, Automaton):
        for samples in {id(corpus): corpus for corpus in trace.samples}.values():
            if not extract_edges(samples).rows.equals(automata.components.edges.rows):
                raise MismatchedParts("the automaton was not learned from the samples of this run")
        automata = solve_trials(trace)
    check_automata(trace, automata)
    evidence = Evidence(trace, tuple(automata))
    return Verdicts(claim.check(evidence) for claim in MECHANICS_CLAIMS)


def expand_trial(trace: Trace, automaton: Automaton, trial: int) -> Expansion:
    """The expansion of one trial from its own W(0)."""
    start, table = trace.weights[0, trial], trace.embeddings[trial]
    sparse = isinstance(automaton.hard.weights, csc_array)
    if sparse and start.any():
        automaton, sparse = solve_trial(trace.samples[trial], table), False
    return expand(
        automaton,
        trace.samples[trial],
        step_size=step_size_of(trace),
        embeddings=None if sparse else table,
        start=start if start.any() else None,
    )


@dataclass(frozen=True, eq=False)
class Misses:
    """How far runs are from the computed weights, shape (n_trials,) each.

    ``predicted`` are the trials with a sufficiently accurate prediction, ``share`` is the largest
    ‖W − computed‖ of any record / the reported error.
    """

    predicted: Bool
    share: Float64

    def judge(self, measure: str) -> Judgement:
        """Within the error in every trial with a prediction."""
        worst = approach.find_worst(self.share, self.predicted)
        value = float(self.share[worst])
        meaning = approach.name_trials(measure, worst, self.predicted & (self.share <= 1), self.predicted)
        return Judgement(value, 1.0, value <= 1.0, meaning)


def _enough(evidence: Evidence, trial: int, error: float) -> bool:
    """Whether an error is less than W moves while the steps grow by a factor √e."""
    return error <= CLOSELY * float(np.linalg.norm(evidence.directions[trial]))


def expand_once(evidence: Evidence, trial: int) -> Expansion:
    """The expansion of one trial, computed once."""
    key = (expand_trial, trial)
    if key not in evidence.of_data:
        evidence.of_data[key] = expand_trial(evidence.trace, evidence.automata[trial], trial)
    return evidence.of_data[key]


def find_misses(evidence: Evidence) -> Misses:
    """The end of the run compared with the expansion, in trials where data alone determine it."""
    trace, last = evidence.trace, float(evidence.trace.steps[-1])
    close, share = np.zeros(trace.n_trials, bool), np.full(trace.n_trials, np.inf)
    for trial in np.flatnonzero(evidence.directed).tolist():
        expansion = expand_once(evidence, trial)
        if not expansion.caveat:
            error = expansion.error_at(last)
            close[trial] = _enough(evidence, trial, error)
            away = np.linalg.norm(trace.weights[-1, trial] - dense(expansion.weights_at(last)))
            share[trial] = np.nan_to_num(away, nan=np.inf) / max(error, np.finfo(float).tiny)
    return Misses(close, share)


def need_data_alone(evidence: Evidence) -> str:
    """Condition: the third term of some trial follows from data alone."""
    trials = np.flatnonzero(evidence.directed).tolist()
    caveats = [expand_once(evidence, trial).caveat for trial in trials]
    return "" if "" in caveats else f"in no trial does the third term follow from data alone: {caveats[0]}"


def need_prediction(evidence: Evidence) -> str:
    """Condition: the expansion of some trial is accurate by the end."""
    reason = "the expansion is not accurate yet by the end in any trial"
    return "" if evidence.once(find_misses).predicted.any() else reason


def judge_third_term(evidence: Evidence) -> Judgement:
    """Claim: W(t) is where the expansion predicts it, within its own error."""
    return evidence.once(find_misses).judge("‖W − predicted‖ at the end / error bound of the expansion")


def need_late_records(evidence: Evidence) -> str:
    """Condition: some record is late enough."""
    return "" if evidence.trace.steps[-1] >= LATE_STEP else f"training ended before step {LATE_STEP:,}"


def count_to_late(evidence: Evidence, *_: object) -> int:
    """The steps until the first that is late enough."""
    return LATE_STEP - int(evidence.trace.steps[-1])


def need_steady_head(evidence: Evidence) -> str:
    """Condition: rounding errors of the head do not grow; a tied head has more of them than token-id.

    They grow where the loss is more curved along the path than the step allows, even if not in the limit.
    """
    trace = evidence.trace
    if not isinstance(trace.model.head, Tied):
        return ""
    steepest = max(bound_any_sharpness(table) for table in trace.embeddings)
    if evidence.step_size * steepest < STABILITY_LIMIT:
        return ""
    return "the head is tied, and its rounding errors may grow where the loss is too curved for the step"


def follow_run(evidence: Evidence) -> Misses:
    """Late records compared with fast-forward from the same W(0)."""
    trace = evidence.trace
    late = np.flatnonzero(trace.steps >= LATE_STEP)
    late = late[np.unique(np.linspace(0, len(late) - 1, RECORDS if len(late) else 0).astype(int))]
    close, share = np.zeros(trace.n_trials, bool), np.zeros(trace.n_trials)
    for trial in np.flatnonzero(evidence.directed).tolist():
        forward = approach.follow_trial(evidence, trial)
        close[trial] = _enough(evidence, trial, forward.error_at(float(trace.steps[-1])))
        if not close[trial]:
            continue
        for record in late.tolist():
            step, weights = float(trace.steps[record]), trace.weights[record, trial]
            computed = dense(forward.weights_at(step))
            away = np.nan_to_num(np.linalg.norm(weights - computed), nan=np.inf)
            allowed = forward.error_at(step) + WEIGHT_ROUNDING * float(np.linalg.norm(computed))
            share[trial] = max(share[trial], away / allowed)
    return Misses(close, share)


def need_followed(evidence: Evidence) -> str:
    """Condition: fast-forward can predict some trial."""
    reason = "fast-forward cannot predict the end of any trial"
    return "" if evidence.once(follow_run).predicted.any() else reason


def judge_fast_forward(evidence: Evidence) -> Judgement:
    """Claim: from the same W(0), fast-forward has the weights of the run at every late record."""
    meaning = f"largest ‖W − computed‖ / error bound of fast-forward, from step {LATE_STEP:,} on"
    return evidence.once(follow_run).judge(meaning)


def _need_priorities(evidence: Evidence) -> str:
    """Some trial with independent embeddings has a priority."""
    orders = zip(evidence.automata, evidence.independent, strict=True)
    any_order = any(counts and automaton.components.order.num_rows for automaton, counts in orders)
    return "" if any_order else "no token precedes another, so the Graph-SVM has no constraints"


def judge_feasibility(evidence: Evidence) -> Judgement:
    """Claim: every priority is met with a margin of 1."""
    least = np.inf
    for automaton, counts in zip(evidence.automata, evidence.independent, strict=True):
        if counts:
            above, below = find_ends(automaton.components)
            scores = column(automaton.hard.scores, "score")
            met = automaton.hard.kind is Kind.EVERY_PRIORITY
            least = min(least, float((scores[above] - scores[below]).min(initial=np.inf)) if met else 0.0)
    return Judgement(least, 1 - 1e-6, least >= 1 - 1e-6, "smallest margin of any priority")


_CONVEX = (need_log_loss, need_mass_head)
_RUN = (need_log_loss, need_mass_head, need_descent, need_start, need_stable_step, need_digits)
_GLOBAL = (*_RUN, need_direction, need_records, approach.need_known_path)
_FINITE = (*_RUN, need_ties, need_records, approach.need_known_path, approach.need_short_steps)
_LOCAL = (need_descent, need_slope, need_start, need_stable_step, need_digits, need_records)
_PLAIN = (need_plain_descent, *_RUN, need_direction)


def _limit(
    name: str,
    assumptions: tuple[Callable[[Evidence], str], ...],
    judge: Callable[[Evidence], Judgement],
    near: Callable[[Evidence], str],
) -> Claim[Evidence]:
    """A claim about a limit, judged once the run is near."""
    return Claim(name, assumptions, judge, (need_steps, near), approach.look_ahead)


MECHANICS_CLAIMS = (
    Claim("feasible", (need_independence, _need_priorities), judge_feasibility),
    Claim("convex", _CONVEX, approach.judge_convexity),
    Claim("strictly convex inside", (*_CONVEX, need_ties), approach.judge_strictness),
    _limit("norm grows", _GLOBAL, approach.judge_norm, approach.need_growth),
    _limit("direction", _GLOBAL, approach.judge_direction, approach.need_near_direction),
    _limit("finite part", _FINITE, approach.judge_finite, approach.need_near_finite),
    Claim("regularisation path", (need_mass_head, need_direction, need_path), judge_path),
    _limit("hard retrieval", _GLOBAL, approach.judge_retrieval, approach.need_near_retrieval),
    _limit("soft composition", _FINITE, approach.judge_composition, approach.need_near_finite),
    _limit(
        "components",
        (*_RUN, need_independence, need_records, approach.need_known_path),
        judge_components,
        need_readable,
    ),
    _limit("local direction", _LOCAL, judge_local, need_decided),
    _limit("third term", (*_PLAIN, need_records, need_data_alone), judge_third_term, need_prediction),
    Claim(
        "fast-forward",
        (*_PLAIN, need_steady_head, need_followed),
        judge_fast_forward,
        (need_late_records,),
        count_to_late,
    ),
    *MARGIN_CLAIMS,
)
