"""What was computed without training, held against the run: the third term and fast-forward."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csc_array

from attomaton.limit.automaton import Automaton
from attomaton.limit.expansion import Expansion, expand
from attomaton.limit.fast_forward import fast_forward
from attomaton.tables import Float64, Int64
from attomaton.training.steps import GradientDescent
from attomaton.training.trace import Trace
from attomaton.verify.evidence import Evidence
from attomaton.verify.measures import dense, solve_trial, unless_identity
from attomaton.verify.verdicts import Judgement

LATE = 1_000
"""From this step on fast-forward is held against the run."""

RECORDS = 20
"""At so many records, spread evenly."""

CLOSE = 1e-4
"""Largest difference of correlations there."""


def expand_trial(trace: Trace, automaton: Automaton, trial: int) -> Expansion:
    """The expansion of one trial from its own W(0)."""
    start, table = trace.weights[0, trial], trace.embeddings[trial]
    sparse = isinstance(automaton.hard.weights, csc_array)
    if sparse and start.any():
        automaton, sparse = solve_trial(trace.samples[trial], table), False
    return expand(
        automaton,
        trace.samples[trial],
        step_size=_step_size(trace),
        embeddings=None if sparse else table,
        start=start if start.any() else None,
    )


def _step_size(trace: Trace) -> float:
    """η of gradient descent; 1 for other steps, of which neither claim speaks."""
    return trace.step.step_size if isinstance(trace.step, GradientDescent) else 1.0


def predict_trace(trace: Trace, automata: tuple[Automaton, ...], records: Int64) -> Trace:
    """The run as the expansion predicts it at these records, from data, W(0) and the norms reached.

    Normalised descent runs along the path of plain flow, W = level·W_svm + W_fin + R in the span of the edges
    and W(0) outside of it. How fast depends on the steps, so the level is what the norm of W leaves for it;
    NaN while W is too short.
    """
    weights = np.empty((len(records), *trace.weights.shape[1:]))
    for trial, automaton in enumerate(automata):
        rest = dense(expand_trial(trace, automaton, trial).weights_along(0.0))
        direction = dense(automaton.hard.weights)
        norms = np.linalg.norm(trace.weights[records, trial], axis=(1, 2))
        levels = find_levels(direction, rest, norms)
        weights[:, trial] = levels[:, None, None] * direction + rest
    unknown = np.full((len(records), trace.n_trials), np.nan)
    return replace(trace, steps=trace.steps[records], weights=weights, losses=unknown)


def find_levels(direction: Float64, rest: Float64, norms: Float64) -> Float64:
    """The level at which level·direction + rest has these norms, or NaN."""
    size, along, square = (float(np.sum(one)) for one in (direction**2, rest * direction, rest**2))
    if size == 0:
        return np.full(len(norms), np.nan)
    root = (along / size) ** 2 - (square - norms**2) / size
    return np.sqrt(np.where(root >= 0, root, np.nan)) - along / size


def find_misses(evidence: Evidence) -> Float64:
    """‖W − predicted‖ at the end over the error that the expansion expects, shape (n_trials,).

    NaN where data alone do not tell, or nothing precedes anything.
    """
    trace, last = evidence.trace, float(evidence.trace.steps[-1])
    misses = np.full(trace.n_trials, np.nan)
    for trial in np.flatnonzero(evidence.directed).tolist():
        expansion = expand_trial(trace, evidence.automata[trial], trial)
        if not expansion.caveat:
            away = np.linalg.norm(trace.weights[-1, trial] - dense(expansion.weights_at(last)))
            misses[trial] = away / expansion.error_at(last)
    return misses


def need_told(evidence: Evidence) -> str:
    """Some trial's third term follows from data alone."""
    told = bool(np.isfinite(evidence.once(find_misses)).any())
    return "" if told else "the third term depends on the path in every trial"


def judge_third_term(evidence: Evidence) -> Judgement:
    """W(t) is where the expansion predicts it, within its own error."""
    misses = evidence.once(find_misses)
    told = int(np.isfinite(misses).sum())
    worst = float(np.nanmax(misses))
    meaning = (
        f"‖W − predicted‖ at the end over the error the expansion reports (trial {np.nanargmax(misses)}); "
        f"{int((misses <= 1).sum())} of the {told} trials that data alone decide are within theirs"
    )
    return Judgement(worst, 1.0, worst <= 1.0, meaning)


def need_late_records(evidence: Evidence) -> str:
    """Something was recorded late enough."""
    return "" if evidence.trace.steps[-1] >= LATE else f"training ended before step {LATE:,}"


def judge_fast_forward(evidence: Evidence) -> Judgement:
    """From the same W(0), fast-forward has the correlation of the run at every late record."""
    trace = evidence.trace
    late = np.flatnonzero(trace.steps >= LATE)
    late = late[np.unique(np.linspace(0, len(late) - 1, RECORDS).astype(int))]
    weights = np.empty((len(late), *trace.weights.shape[1:]))
    for trial, (samples, table) in enumerate(zip(trace.samples, trace.embeddings, strict=True)):
        forward = fast_forward(
            samples,
            embeddings=unless_identity(table),
            step_size=_step_size(trace),
            to=float(trace.steps[-1]),
            start=trace.weights[0, trial],
            components=evidence.automata[trial].components,
        )
        for place, record in enumerate(late.tolist()):
            weights[place, trial] = dense(forward.weights_at(float(trace.steps[record])))
    apart = np.abs(evidence.target.correlation(weights) - evidence.curves.correlation[late])
    apart = apart[:, evidence.directed].max(axis=0)
    meaning = (
        f"largest difference of correlations with W_svm from step {LATE:,} on; "
        f"{int((apart <= CLOSE).sum())} of {len(apart)} trials are within the bound"
    )
    return Judgement(float(apart.max()), CLOSE, bool(apart.max() <= CLOSE), meaning)
