"""Judge where gradient descent converges: norm, direction, finite part, retrieval and composition.

A theorem is about the limit, but a run ends. So at its end the run must be at least as near to the limit as
the computed path (:mod:`~attomaton.claims.computed_path`) is at half of the steps. If the computed path is
still far from the limit there, the run is too short to be judged. For each claim a ``bound_…`` finds the
bounds of the trials, and a ``judge_…`` compares the end of the run with them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.claims.computed_path import ComputedPath, compute_path
from attomaton.claims.evidence import Evidence, correlation_of, find_tangents
from attomaton.claims.limits import dense
from attomaton.claims.verdicts import Judgement

# Distances and angles below this count as zero.
NEGLIGIBLE = 1e-6

# A path with a lower correlation with W_svm at half of the steps is not near: it is 26° away.
NEAR_CORRELATION = 0.9

# A path with more attention than this below the highest component at half of the steps is not near.
MISSED = 0.1

# A difference from the Luce odds (total variation, at most 1) above this gives no information.
UNINFORMATIVE = 0.1

# Normalised steps of length η oscillate around W_fin by about η/2; by this many η at most.
SWINGS = 2.0


def tangent_of(correlation: float) -> float:
    # of the angle with this cosine
    return float(np.sqrt(1.0 - correlation**2) / correlation)


def find_worst(shortfall: Float64, judged: Bool) -> int:
    """The trial with the largest shortfall among the judged trials; among all trials if none is judged."""
    counted = judged if judged.any() else np.ones_like(judged)
    return int(np.where(counted, np.nan_to_num(shortfall, nan=np.inf), -np.inf).argmax())


def name_trials(meaning: str, worst: int, reached: Bool, judged: Bool) -> str:
    # the meaning of a number, with the worst trial and the count of trials that reach their bound
    if len(judged) == 1:
        return meaning
    n_left = len(judged) - int(judged.sum())
    left = f"; trials not judged: {n_left}" if n_left else ""
    counted = f"{int(reached.sum())} of {int(judged.sum())} trials reach their bound{left}"
    return f"{meaning}; trial {worst} is the worst, {counted}"


@dataclass(frozen=True, eq=False)
class ApproachBounds:
    """The bounds of the trials for one claim, shape (n_trials,), and which trials can be judged by them."""

    bound: Float64
    judged: Bool
    reason: str  # why no trial can be judged, if so

    def judge(
        self, values: Float64, bounds: Float64, reached: Bool, shortfall: Float64, meaning: str
    ) -> Judgement:
        """Judge by the trial with the largest shortfall; count the judged trials that reach their bounds."""
        worst = find_worst(shortfall, self.judged)
        meaning = name_trials(meaning, worst, self.judged & reached, self.judged)
        return Judgement(float(values[worst]), float(bounds[worst]), bool(reached[worst]), meaning)

    def judge_below(
        self, values: Float64, meaning: str, show: Callable[[Float64], Float64] = np.asarray
    ) -> Judgement:
        """Judge whether values are at most the bounds, and report both through ``show``."""
        # relative to the bound, so that the trial with the largest is the worst
        shortfall = values / np.maximum(self.bound, np.finfo(float).tiny)
        return self.judge(show(values), show(self.bound), values <= self.bound, shortfall, meaning)


def need_bound(find: Callable[..., ApproachBounds], *arguments: object) -> Callable[[Evidence], str]:
    """Condition: the bounds can judge some trial, because its path is near the limit at half of the steps."""

    def need(evidence: Evidence) -> str:
        bounds = evidence.once(find, *arguments)
        return "" if bounds.judged.any() else bounds.reason

    return need


# The computed path, and the largest distance of a sound run from it: error plus oscillation of steps.
def _path_and_distance(evidence: Evidence) -> tuple[ComputedPath, Float64]:
    path = evidence.once(compute_path)
    return path, path.error + swings_of(evidence) + NEGLIGIBLE


def swings_of(evidence: Evidence) -> float:
    """The largest distance at which steps of constant length keep a run from W_fin; otherwise 0."""
    return SWINGS * evidence.step_size if evidence.normalized else 0.0


# max ‖e‖² of each trial: if W changes by ΔW, a score difference changes by at most 2 max ‖e‖² ‖ΔW‖.
def _longest_embedding(evidence: Evidence) -> Float64:
    return np.sum(evidence.trace.embeddings**2, axis=2).max(axis=1)


def _attention_change(evidence: Evidence, distance: Float64 | float) -> Float64:
    # the largest change of attention in a context (total variation) by a ΔW of this norm: a quarter of the
    # change of the score differences
    return 0.5 * _longest_embedding(evidence) * distance


def need_known_path(evidence: Evidence) -> str:
    path = evidence.once(compute_path)
    return "" if path.is_known.any() else f"the path of the run is unknown ({path.reason})"


# W_svm, but ones where it is 0: such trials are not judged, and have no angle.
def _safe_directions(evidence: Evidence) -> Float64:
    return np.where(evidence.directed[:, None, None], evidence.directions, 1.0)


def bound_direction(evidence: Evidence) -> ApproachBounds:
    """The tangent of the angle between W_svm and the computed path at half of the steps."""
    path, distance = _path_and_distance(evidence)
    tangent, level = find_tangents(path.weights, _safe_directions(evidence))
    # W off by the distance changes the tangent, perpendicular part / level, by about distance / level
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        bound = np.where(level[0] > 0, tangent[0] + distance / level[0], np.inf)
    closing = tangent[-1] <= tangent[0] + NEGLIGIBLE
    is_near = bound <= tangent_of(NEAR_CORRELATION)
    return ApproachBounds(
        bound,
        evidence.directed & path.is_known & closing & is_near,
        f"the computed path at half of the steps is far from W_svm (correlation below {NEAR_CORRELATION})",
    )


def judge_direction(evidence: Evidence) -> Judgement:
    """Claim: W/‖W‖ → W_svm/‖W_svm‖."""
    (tangent,), _ = find_tangents(evidence.trace.weights[-1:], _safe_directions(evidence))
    meaning = "correlation of W with W_svm at the end; bound: value on the computed path at half of the steps"
    return evidence.once(bound_direction).judge_below(tangent, meaning, show=correlation_of)


def bound_growth(evidence: Evidence) -> ApproachBounds:
    """Half of the growth of the computed path in the second half; 1 if steps are normalised."""
    path = evidence.once(compute_path)
    norm = path.curves.norm
    normalized = evidence.normalized
    growth = norm[-1] / np.maximum(norm[0], np.finfo(float).tiny)
    bound = np.ones_like(growth) if normalized else 1.0 + 0.5 * (growth - 1.0)
    grows = norm[-1] - norm[0] > 4.0 * path.error  # twice the error of each of the two norms
    return ApproachBounds(
        bound,
        evidence.directed & path.is_known & (grows | normalized) & (norm[-1] >= norm[0]),
        "the norm of the computed path does not grow yet in any trial",
    )


def judge_norm(evidence: Evidence) -> Judgement:
    """Claim: ‖W‖ grows in the second half of training."""
    bounds, norm = evidence.once(bound_growth), evidence.curves.norm
    growth = norm[-1] / np.maximum(norm[evidence.middle], np.finfo(float).tiny)
    bound = "any growth" if evidence.normalized else "half of the computed growth"
    meaning = f"‖W‖ at the end / ‖W‖ at half of the steps; bound: {bound}"
    return bounds.judge(growth, bounds.bound, growth > bounds.bound, bounds.bound - growth, meaning)


def bound_finite(evidence: Evidence) -> ApproachBounds:
    """The largest ‖Π_fin W − W_fin‖ of the computed path from half of the steps on, plus the oscillation."""
    path, distance = _path_and_distance(evidence)
    bound = path.curves.finite_distance.max(axis=0) + distance
    is_late = ~evidence.directed | (path.curves.missed[0] <= MISSED)
    is_near = _attention_change(evidence, bound) <= UNINFORMATIVE
    return ApproachBounds(
        bound,
        ~evidence.acyclic & path.is_known & is_late & is_near,
        "at half of the steps attention on the computed path differs from its limit by more than "
        f"{UNINFORMATIVE} in every trial",
    )


def need_short_steps(evidence: Evidence) -> str:
    """Condition: steps of constant length oscillate around W_fin so little that the claim can be judged."""
    swings = swings_of(evidence)
    too_long = _attention_change(evidence, swings) > UNINFORMATIVE
    if not (swings and too_long[~evidence.acyclic].all()):
        return ""
    return (
        f"normalised steps of length {evidence.step_size:g} may oscillate around W_fin by {swings:g}, which "
        f"moves attention by more than {UNINFORMATIVE}: use shorter steps"
    )


def judge_finite(evidence: Evidence) -> Judgement:
    """Claim: Π_fin W → W_fin."""
    steps = evidence.trace.steps
    distance = evidence.curves.finite_distance[steps >= 0.9 * steps[-1]].max(axis=0)
    meaning = "largest ‖Π_fin W − W_fin‖ in the last tenth of the steps"
    return evidence.once(bound_finite).judge_below(distance, meaning)


def judge_composition(evidence: Evidence) -> Judgement:
    """Claim: inside the highest component, attention has the Luce odds of W_fin."""
    trace = evidence.trace
    apart = np.zeros(trace.n_trials)
    for trial, automaton in enumerate(evidence.automata):
        contexts = evidence.target.contexts[trial]
        # attention by the final W and by W_fin, as shares of the attention inside the highest component
        masses = contexts.masses(np.stack([trace.weights[-1, trial], dense(automaton.soft.weights)]))
        masses = np.where(evidence.target.below[trial], 0.0, masses)
        shares = masses / contexts.sums(masses)[:, contexts.bags.sample]
        apart[trial] = 0.5 * contexts.sums(np.abs(shares[0] - shares[1])).max()
    finite = evidence.once(bound_finite)
    bounds = replace(finite, bound=_attention_change(evidence, finite.bound))
    return bounds.judge_below(apart, "largest difference of attention from the Luce odds in any context")


def bound_missed(evidence: Evidence) -> ApproachBounds:
    """The mass below the highest component that the computed path leaves at half of the steps."""
    path, distance = _path_and_distance(evidence)
    missed = path.curves.missed
    # a score difference that changes by d multiplies a ratio of masses by eᵈ
    with np.errstate(over="ignore"):
        bound = missed[0] * np.exp(2.0 * _longest_embedding(evidence) * distance)
    falling = missed[-1] <= missed[0]
    return ApproachBounds(
        bound,
        evidence.directed & path.is_known & falling & (bound <= MISSED),
        f"in no trial is the attention below the highest component known to be at most {MISSED} at half of "
        "the steps of the computed path and not to rise afterwards",
    )


def judge_retrieval(evidence: Evidence) -> Judgement:
    """Claim: the attention mass below the highest component vanishes."""
    meaning = "mean attention below the highest component at the end"
    return evidence.once(bound_missed).judge_below(evidence.curves.missed[-1], meaning)
