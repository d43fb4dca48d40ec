"""Judge whether a run has the weights computed by the expansion with its third term, and by fast-forward.

The expansion is W(t) = ln t · W_svm + W_fin + R + o(1), where R is the third term. Each computation reports
an error; the distance of the run must be at most this error.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array

from attomaton.automaton.automaton import Automaton
from attomaton.base.tables import Bool, Float64
from attomaton.claims.approach import find_worst, name_trials
from attomaton.claims.computed_path import follow_trial
from attomaton.claims.evidence import Evidence, step_size_of
from attomaton.claims.limits import dense, solve_trial
from attomaton.claims.verdicts import Judgement
from attomaton.training.models.heads import Tied
from attomaton.training.trace import Trace
from attomaton.trajectory.expansion import Expansion, expand
from attomaton.trajectory.sharpness import STABILITY_LIMIT, bound_any_sharpness

# From this step on, fast-forward is compared with the run.
LATE_STEP = 1_000

# Number of records, evenly spaced, at which a run is compared with its forecast.
RECORDS = 20

# W moves by half ‖W_svm‖ while steps grow 1.6-fold; larger errors give no information about a step.
CLOSELY = 0.5

# Rounding errors of a tensor program, relative to ‖W‖.
WEIGHT_ROUNDING = 1e-12


def expand_trial(trace: Trace, automaton: Automaton, trial: int) -> Expansion:
    """The expansion of a trial of plain gradient descent from W(0)."""
    start = trace.weights[0, trial]
    embeddings = trace.embeddings[trial]
    # sparse weights mean orthonormal embeddings, given as None; a start other than 0 needs dense weights
    orthonormal = isinstance(automaton.hard.weights, csc_array)
    if orthonormal and start.any():
        automaton = solve_trial(trace.samples[trial], embeddings)
        orthonormal = False
    return expand(
        automaton,
        trace.samples[trial],
        step_size=step_size_of(trace),
        embeddings=None if orthonormal else embeddings,
        start=start if start.any() else None,
    )


@dataclass(frozen=True, eq=False)
class Misses:
    """The distance of runs from the computed weights, shape (n_trials,) each."""

    predicted: Bool  # whether the computed weights are accurate enough to say something about the run
    share: Float64  # the largest ‖W − computed‖ / reported error of any record

    def judge(self, measure: str) -> Judgement:
        worst = find_worst(self.share, self.predicted)
        value = float(self.share[worst])
        meaning = name_trials(measure, worst, self.predicted & (self.share <= 1), self.predicted)
        return Judgement(value, 1.0, value <= 1.0, meaning)


# Whether an error is less than W moves while the steps grow by a factor √e.
def _is_close(evidence: Evidence, trial: int, error: float) -> bool:
    return error <= CLOSELY * float(np.linalg.norm(evidence.directions[trial]))


def expand_once(evidence: Evidence, trial: int) -> Expansion:
    # kept for lengthened runs, too, since it depends only on data, W(0) and step
    key = (expand_trial, trial)
    if key not in evidence.of_data:
        evidence.of_data[key] = expand_trial(evidence.trace, evidence.automata[trial], trial)
    return evidence.of_data[key]


def find_misses(evidence: Evidence) -> Misses:
    """Compare the end of the run with the expansion, in trials where data alone determine it."""
    trace = evidence.trace
    last = float(trace.steps[-1])
    close = np.zeros(trace.n_trials, bool)
    share = np.full(trace.n_trials, np.inf)
    for trial in np.flatnonzero(evidence.directed).tolist():
        expansion = expand_once(evidence, trial)
        if not expansion.caveat:
            error = expansion.error_at(last)
            close[trial] = _is_close(evidence, trial, error)
            away = np.linalg.norm(trace.weights[-1, trial] - dense(expansion.weights_at(last)))
            share[trial] = np.nan_to_num(away, nan=np.inf) / max(error, np.finfo(float).tiny)
    return Misses(close, share)


def need_data_alone(evidence: Evidence) -> str:
    trials = np.flatnonzero(evidence.directed).tolist()
    caveats = [expand_once(evidence, trial).caveat for trial in trials]
    return "" if "" in caveats else f"the data do not determine the third term of any trial: {caveats[0]}"


def need_prediction(evidence: Evidence) -> str:
    reason = "every trial ends before the expansion is accurate"
    return "" if evidence.once(find_misses).predicted.any() else reason


def judge_third_term(evidence: Evidence) -> Judgement:
    return evidence.once(find_misses).judge("‖W − predicted‖ at the end / error bound of the expansion")


def need_late_records(evidence: Evidence) -> str:
    return "" if evidence.trace.steps[-1] >= LATE_STEP else f"training ended before step {LATE_STEP:,}"


def count_to_late(evidence: Evidence, *_: object) -> int:
    return LATE_STEP - int(evidence.trace.steps[-1])


def need_steady_head(evidence: Evidence) -> str:
    """Condition: rounding errors of a tied readout do not grow along the path."""
    trace = evidence.trace
    if not isinstance(trace.model.head, Tied):
        return ""
    steepest = max(bound_any_sharpness(table) for table in trace.embeddings)
    if evidence.step_size * steepest < STABILITY_LIMIT:
        return ""
    return "the head is tied, and its rounding errors may grow where the loss is too curved for the step size"


def follow_run(evidence: Evidence) -> Misses:
    """Compare late records with fast-forward from W(0), in trials where this is accurate to the end."""
    trace = evidence.trace
    late = np.flatnonzero(trace.steps >= LATE_STEP)
    chosen = np.linspace(0, len(late) - 1, RECORDS if len(late) else 0).astype(int)
    late = late[np.unique(chosen)]
    close = np.zeros(trace.n_trials, bool)
    share = np.zeros(trace.n_trials)
    for trial in np.flatnonzero(evidence.directed).tolist():
        forward = follow_trial(evidence, trial)
        close[trial] = _is_close(evidence, trial, forward.error_at(float(trace.steps[-1])))
        if not close[trial]:
            continue
        for record in late.tolist():
            step = float(trace.steps[record])
            computed = dense(forward.weights_at(step))
            away = np.nan_to_num(np.linalg.norm(trace.weights[record, trial] - computed), nan=np.inf)
            allowed = forward.error_at(step) + WEIGHT_ROUNDING * float(np.linalg.norm(computed))
            share[trial] = max(share[trial], away / allowed)
    return Misses(close, share)


def need_followed(evidence: Evidence) -> str:
    reason = "fast-forward cannot predict the end of any trial"
    return "" if evidence.once(follow_run).predicted.any() else reason


def judge_fast_forward(evidence: Evidence) -> Judgement:
    meaning = f"largest ‖W − computed‖ / error bound of fast-forward, from step {LATE_STEP:,} on"
    return evidence.once(follow_run).judge(meaning)
