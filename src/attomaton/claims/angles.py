"""Claims about a direction that are judged by how an angle closes: local convergence, regularisation path.

No way is computed for these: losses and heads may be any. What an angle is held against is in the first half.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.claims.approach import NEAR, SETTLED, bound_direction, find_worst, tangent_of
from attomaton.claims.evidence import (
    Evidence,
    correlation_of,
    find_tangents,
    need_log_loss,
    need_mass_head,
)
from attomaton.claims.local import SELECTED, UNDECIDED, find_local_directions
from attomaton.claims.verdicts import Judgement
from attomaton.training.models.losses import LogLoss
from attomaton.training.path import MOST_DIMENSIONS, trace_path

CLOSER = 0.9
"""A tangent that halves in the limit must fall at least to this share; before, it falls more slowly."""

FORGOTTEN = 2.0
"""W must have moved this many times ‖W(0)‖ by half of the steps: else the start still hides the direction."""

ALIKE = 1e-6
"""Local directions that differ by less, relative to their length, are the same."""

KEEPS = 0.7
"""A selected token with less than this share of the mass that it had at half the steps is on its way out."""

LEVELS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
"""Radii of the regularisation path, in units of ‖W_svm‖."""

PATH_TRIALS = 10
"""The path is followed for this many trials, at most."""


@dataclass(frozen=True, eq=False)
class Angles:
    """Tangents at the end and at half of the way, those asked for, and which trials they tell of."""

    last: Float64
    half: Float64
    asked: Float64
    among: Bool

    @property
    def judged(self) -> Bool:
        """Not those that get nearer, but are not near yet: they may or may not arrive."""
        early = (self.last <= self.asked) & ~(self.half <= tangent_of(NEAR))
        return self.among & ~early

    def judge(self, what: str) -> Judgement:
        """Each judged trial reaches what is asked of it."""
        worst = find_worst(self.last / self.asked, self.judged)
        reached, judged = int((self.judged & (self.last <= self.asked)).sum()), int(self.judged.sum())
        return Judgement(
            float(correlation_of(self.last)[worst]),
            float(correlation_of(self.asked)[worst]),
            bool(self.last[worst] <= self.asked[worst]),
            what.format(f"trial {worst}", reached, judged),
        )


def judge_local(evidence: Evidence) -> Judgement:
    """W/‖W‖ → the direction of the tokens that the model selects."""
    found = evidence.once(_find_local)
    what = (
        f"correlation of W with the Graph-SVM of the selected tokens at the end ({{}}); bound: as for the "
        f"direction, or with other losses and heads {CLOSER:.0%} of the tangent of the angle when W was half "
        "as far as at half of the steps; {} of {} trials reach theirs"
    )
    return found.judge(what)


def _find_local(evidence: Evidence) -> Angles:
    """The angles to the directions of the selected tokens; what they are compared with is in the first half.

    While W = level · direction + something bounded, the tangent halves when the level doubles; if W goes
    elsewhere, it stays. With log-loss and a mass head the direction is W_svm in the end, and its bound is
    known.
    """
    trace, middle, among = evidence.trace, evidence.middle, evidence.once(_decided)
    along = np.where(among[:, None, None], evidence.local_directions, 1.0)
    tangent, level = find_tangents(trace.weights, along)
    if not (need_log_loss(evidence) or need_mass_head(evidence)):
        bounds = evidence.once(bound_direction)
        among = among & bounds.among & _alike(evidence.local_directions, evidence.directions)
        return Angles(tangent[-1], np.zeros(len(among)), bounds.asked, among)
    before = np.abs(level[: middle + 1] - level[middle] / 2).argmin(axis=0)
    asked = np.maximum(CLOSER * tangent[before, np.arange(len(before))], SETTLED)
    return Angles(tangent[-1], tangent[middle], asked, among)


def _alike(one: Float64, other: Float64) -> Bool:
    """Where two directions are the same, and not zero, shape (n_trials,)."""
    length = np.linalg.norm(one, axis=(1, 2))
    return (np.linalg.norm(one - other, axis=(1, 2)) <= ALIKE * length) & (length > 0)


def _decided(evidence: Evidence) -> Bool:
    """Trials of which claim 6 speaks: selected tokens keep their mass, all others lose theirs, and some do.

    The threshold of selection knows nothing of the limit: a token below it may hold its small mass for ever,
    and tokens just below it are left out of the graph. What is selected at half of the steps must be what is
    selected at the end, and W(0) must be forgotten by then.
    """
    trace = evidence.trace
    settled = np.zeros(trace.n_trials, bool)
    for trial, contexts in enumerate(evidence.target.contexts):
        before, after = contexts.masses(trace.weights[[evidence.middle, -1], trial])
        kept = after >= KEEPS * before
        clear = (after > SELECTED) | (after <= UNDECIDED)
        settled[trial] = bool((clear & (kept == (after > SELECTED)))[after > 0].all())
    first, half = trace.weights[0], trace.weights[evidence.middle]
    moved = np.linalg.norm(half - first, axis=(1, 2)) >= FORGOTTEN * np.linalg.norm(first, axis=(1, 2))
    return settled & moved & evidence.once(_same_selection)


def _same_selection(evidence: Evidence) -> Bool:
    """Trials whose selected tokens have the same direction at half of the steps as at the end, not zero."""
    half = find_local_directions(evidence.trace, evidence.middle)
    return _alike(evidence.local_directions, half)


def need_decided(evidence: Evidence) -> str:
    """Some trial has made its choice, and come near."""
    if not evidence.once(_decided).any():
        return (
            "no trial has made its choice: selected tokens lose attention, others keep theirs, or W(0) still "
            "shows"
        )
    near = "W is not near the direction of the selected tokens in any trial, or should not be yet"
    return "" if evidence.once(_find_local).judged.any() else near


def judge_path(evidence: Evidence) -> Judgement:
    """The regularisation path goes along W_svm."""
    what = (
        f"correlation of W_R with W_svm at R = {LEVELS[-1]:g} ‖W_svm‖ ({{}}); bound: {CLOSER:.0%} of the "
        f"tangent of the angle at R = {LEVELS[-2]:g} ‖W_svm‖; {{}} of {{}} trials reach theirs"
    )
    return evidence.once(_follow_path).judge(what)


def _follow_path(evidence: Evidence) -> Angles:
    """The angles to W_svm at the last two radii."""
    trace = evidence.trace
    chosen: list[int] = np.flatnonzero(_on_path(evidence))[:PATH_TRIALS].tolist()
    along = evidence.directions[chosen]
    path = trace_path(
        [trace.samples[trial] for trial in chosen],
        trace.model,
        list(trace.embeddings[chosen]),
        radii=LEVELS[:, None] * np.linalg.norm(along, axis=(1, 2)),
    )
    tangent, _ = find_tangents(path.weights, along)
    asked = np.maximum(CLOSER * tangent[-2], SETTLED)
    return Angles(tangent[-1], tangent[-2], asked, np.ones(len(chosen), bool))


def _on_path(evidence: Evidence) -> Bool:
    """Trials of which claim 4 speaks: with log-loss all, else those without ties."""
    ties_allowed = isinstance(evidence.trace.model.loss, LogLoss)
    return evidence.directed & (evidence.acyclic | ties_allowed)


def need_path(evidence: Evidence) -> str:
    """The data and the size allow the path."""
    dim = evidence.trace.weights.shape[2]
    if dim > MOST_DIMENSIONS:
        return f"the path is followed in at most {MOST_DIMENSIONS} dimensions, not {dim}"
    if not _on_path(evidence).any():
        return "every trial has a cycle, and the loss is not log-loss"
    near = f"the path is not near W_svm at R = {LEVELS[-2]:g} ‖W_svm‖ in any trial, though it gets nearer"
    return "" if evidence.once(_follow_path).judged.any() else near
