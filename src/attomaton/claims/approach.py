"""Claims about where gradient descent goes: norm, direction, finite part, retrieval and composition.

Each is judged at the end of the run by what the computed way (:mod:`attomaton.claims.way`) has reached at
half of the steps. Trials whose computed way is not near by then are too short and are not judged.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.claims.evidence import Evidence, correlation_of, find_tangents
from attomaton.claims.measures import dense
from attomaton.claims.verdicts import Judgement
from attomaton.claims.way import Way, compute_way
from attomaton.training.models.attention import measure_curvatures

SETTLED = 1e-6
"""Distances and angles below this are as good as none."""

NEAR = 0.9
"""A way whose correlation with W_svm is less at half of the steps has not come near: it is 26° away."""

MISSED = 0.1
"""A way that leaves more attention than this below the best component at half of the steps: the same."""

TOLD = 0.1
"""A difference from the Luce odds (total variation, at most 1) that may be larger than this tells nothing."""

SWINGS = 2.0
"""Normalised steps of length η swing around W_fin by about η/2; by this many η at most."""


def tangent_of(correlation: float) -> float:
    """The tangent of the angle with this cosine."""
    return float(np.sqrt(1.0 - correlation**2) / correlation)


def find_worst(shortfall: Float64, among: Bool) -> int:
    """The trial that falls shortest, among those that count."""
    return int(np.where(among, np.nan_to_num(shortfall, nan=np.inf), -np.inf).argmax())


@dataclass(frozen=True, eq=False)
class ApproachBounds:
    """What is asked of each trial, and of which trials it can be asked, shape (n_trials,) each."""

    asked: Float64
    among: Bool

    def missing(self, short: str) -> str:
        """Nothing if some trial can be judged, else that the run is too short."""
        return "" if self.among.any() else short


def _reach(evidence: Evidence) -> tuple[Way, Float64]:
    """The computed way, and how far from it a sound run may be: its error, and the swings of its steps."""
    way = evidence.once(compute_way)
    return way, way.error + _swings(evidence) + SETTLED


def _swings(evidence: Evidence) -> float:
    """How far steps of one length keep a run from W_fin, at most; those that shrink do not."""
    return SWINGS * evidence.step_size if evidence.normalized else 0.0


def _longest(evidence: Evidence) -> Float64:
    """max ‖e‖² of each trial: a difference of scores moves by at most twice that times ‖ΔW‖."""
    return np.sum(evidence.trace.embeddings**2, axis=2).max(axis=1)


def need_way(evidence: Evidence) -> str:
    """The way of some trial can be computed."""
    way = evidence.once(compute_way)
    return "" if way.known.any() else f"where the run should be is not known ({way.reason})"


def _safe_directions(evidence: Evidence) -> Float64:
    return np.where(evidence.directed[:, None, None], evidence.directions, 1.0)


def bound_direction(evidence: Evidence) -> ApproachBounds:
    """The tangent to W_svm that the computed way has at half of the steps, if it is near and closes in."""
    way, reach = _reach(evidence)
    tangent, level = find_tangents(way.weights, _safe_directions(evidence))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        asked = np.where(level[0] > 0, tangent[0] + reach / level[0], np.inf)
    closing = tangent[-1] <= tangent[0] + SETTLED
    return ApproachBounds(asked, evidence.directed & way.known & closing & (asked <= tangent_of(NEAR)))


def need_near_direction(evidence: Evidence) -> str:
    """Some trial should be near W_svm by half of the steps."""
    told = f"by half of the steps the computed way has no correlation of {NEAR} with W_svm in any trial"
    return evidence.once(bound_direction).missing(told)


def judge_direction(evidence: Evidence) -> Judgement:
    """W/‖W‖ → W_svm/‖W_svm‖."""
    bounds = evidence.once(bound_direction)
    tangent, _ = find_tangents(evidence.trace.weights[-1:], _safe_directions(evidence))
    worst = find_worst(tangent[0] / bounds.asked, bounds.among)
    return Judgement(
        float(correlation_of(tangent[0])[worst]),
        float(correlation_of(bounds.asked)[worst]),
        bool(tangent[0, worst] <= bounds.asked[worst]),
        f"correlation of W with W_svm at the end (trial {worst}); bound: that of the computed way at half of "
        f"the steps; {_count(tangent[0] <= bounds.asked, bounds)}",
    )


def _count(reached: Bool, bounds: ApproachBounds) -> str:
    n_judged, left = int(bounds.among.sum()), int((~bounds.among).sum())
    told = f"{int((bounds.among & reached).sum())} of {n_judged} trials reach theirs"
    return told + f"; trials not judged: {left}" * bool(left)


def bound_growth(evidence: Evidence) -> ApproachBounds:
    """Half of the growth that the computed way has in the second half; just 1 if steps are normalised."""
    way, _ = _reach(evidence)
    norm, normalized = way.curves.norm, evidence.normalized
    growth = norm[-1] / np.maximum(norm[0], np.finfo(float).tiny)
    asked = np.ones_like(growth) if normalized else 1.0 + 0.5 * (growth - 1.0)
    grows = norm[-1] - norm[0] > 4.0 * way.error
    return ApproachBounds(asked, evidence.directed & way.known & (grows | normalized) & (norm[-1] >= norm[0]))


def need_growth(evidence: Evidence) -> str:
    """The norm should grow in the second half of some trial."""
    return evidence.once(bound_growth).missing("the norm of the computed way does not grow yet in any trial")


def judge_norm(evidence: Evidence) -> Judgement:
    """‖W‖ grows in the second half of training."""
    bounds, norm = evidence.once(bound_growth), evidence.curves.norm
    growth = norm[-1] / np.maximum(norm[evidence.middle], np.finfo(float).tiny)
    worst = find_worst(bounds.asked - growth, bounds.among)
    value, bound = float(growth[worst]), float(bounds.asked[worst])
    asked = "any growth" if evidence.normalized else "half of the growth that was computed"
    meaning = f"‖W‖ at the end over that at half the steps (trial {worst}); bound: {asked}"
    return Judgement(value, bound, value > bound, f"{meaning}; {_count(growth > bounds.asked, bounds)}")


def bound_finite(evidence: Evidence) -> ApproachBounds:
    """The largest ‖Π_fin W − W_fin‖ of the computed way from half of the steps on, and the run's swings.

    What is below the best components must have lost its attention: else W_fin is near by chance only.
    """
    way, reach = _reach(evidence)
    asked = way.curves.finite_distance.max(axis=0) + reach
    late = ~evidence.directed | (way.curves.missed[0] <= MISSED)
    told = 0.5 * _longest(evidence) * asked <= TOLD
    return ApproachBounds(asked, ~evidence.acyclic & way.known & late & told)


def need_short_steps(evidence: Evidence) -> str:
    """Steps of one length swing around W_fin so little that something can be told."""
    swings, among = _swings(evidence), ~evidence.acyclic
    if not (swings and (0.5 * _longest(evidence) * swings > TOLD)[among].all()):
        return ""
    return (
        f"normalised steps of length {evidence.step_size:g} may swing around W_fin by {swings:g}, which "
        f"moves attention by more than {TOLD}: take shorter steps"
    )


def need_near_finite(evidence: Evidence) -> str:
    """What is left of the way to W_fin is small enough to tell something."""
    told = (
        "by half of the steps the computed way is so far from its limit in every trial that attention is off "
        f"by more than {TOLD}"
    )
    return evidence.once(bound_finite).missing(told)


def judge_finite(evidence: Evidence) -> Judgement:
    """Π_fin W → W_fin."""
    steps, bounds = evidence.trace.steps, evidence.once(bound_finite)
    distance = evidence.curves.finite_distance[steps >= 0.9 * steps[-1]].max(axis=0)
    worst = find_worst(distance / bounds.asked, bounds.among)
    value, bound = float(distance[worst]), float(bounds.asked[worst])
    meaning = f"largest ‖Π_fin W − W_fin‖ in the last tenth of the steps (trial {worst})"
    return Judgement(value, bound, value <= bound, f"{meaning}; {_count(distance <= bounds.asked, bounds)}")


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
    bounds = evidence.once(bound_finite)
    asked = 0.5 * _longest(evidence) * bounds.asked
    worst = find_worst(apart / asked, bounds.among)
    value, bound = float(apart[worst]), float(asked[worst])
    meaning = f"largest difference from the Luce odds in any context (trial {worst})"
    return Judgement(value, bound, value <= bound, f"{meaning}; {_count(apart <= asked, bounds)}")


def bound_missed(evidence: Evidence) -> ApproachBounds:
    """The mass below the highest component that the computed way leaves at half of the steps."""
    way, reach = _reach(evidence)
    missed = way.curves.missed
    with np.errstate(over="ignore"):
        asked = missed[0] * np.exp(2.0 * _longest(evidence) * reach)
    falling = missed[-1] <= missed[0]
    return ApproachBounds(asked, evidence.directed & way.known & falling & (asked <= MISSED))


def need_near_retrieval(evidence: Evidence) -> str:
    """Some trial should have most attention where it belongs by half of the steps."""
    told = f"by half of the steps the computed way leaves more than {MISSED} of the attention elsewhere"
    return evidence.once(bound_missed).missing(told)


def judge_retrieval(evidence: Evidence) -> Judgement:
    """The attention mass below the highest component vanishes."""
    bounds, missed = evidence.once(bound_missed), evidence.curves.missed[-1]
    asked = np.maximum(bounds.asked, np.finfo(float).tiny)
    worst = find_worst(missed / asked, bounds.among)
    value, bound = float(missed[worst]), float(bounds.asked[worst])
    meaning = f"mean attention below the best component at the end (trial {worst})"
    return Judgement(value, bound, value <= bound, f"{meaning}; {_count(missed <= bounds.asked, bounds)}")


N_POINTS = 1_000
"""Random points at which the curvature is computed, over all trials."""

MOST_DIMENSIONS = 16
"""A Hessian has dim² rows, and a thousand of them are decomposed."""

AT_ONCE = 2_000_000
"""Numbers of curvatures computed at once."""

ROUNDING = 1e-12
"""Eigenvalues above −this, relative to the largest, count as zero or more."""


@dataclass(frozen=True, eq=False)
class Curvature:
    """Smallest eigenvalues of the Hessian at random points, relative to its largest.

    Attributes
    ----------
    least : float64 array, shape (n_points,)
        In all directions.
    least_cyclic : float64 array, shape (n_cyclic_points,)
        Within the cyclic subspace, at the points of trials that have one.
    """

    least: Float64
    least_cyclic: Float64


def draw_curvature(evidence: Evidence, *, n_points: int = N_POINTS, seed: int = 0) -> Curvature:
    """Hessians at points W with normal entries of size 0.1 to 3, spread over the trials."""
    trace = evidence.trace
    rng = np.random.default_rng(seed)
    dim = trace.weights.shape[2]
    axes = evidence.target.axes
    least: list[float] = []
    least_cyclic: list[float] = []
    at_once = max(AT_ONCE // dim**4, 1)
    for first in range(0, n_points, at_once):
        numbers = range(first, min(first + at_once, n_points))
        trials = [number % trace.n_trials for number in numbers]
        sizes = 10 ** rng.uniform(-1.0, np.log10(3.0), (len(trials), 1, 1))
        points = sizes * rng.normal(size=(len(trials), dim, dim))
        samples = [trace.samples[trial] for trial in trials]
        bent = measure_curvatures(trace.model, samples, list(trace.embeddings[trials]), points)
        values = np.linalg.eigvalsh(bent)
        largest = np.maximum(np.abs(values).max(1), np.finfo(float).tiny)
        least += (values[:, 0] / largest).tolist()
        for one, frame, unit in zip(bent, axes[trials], largest, strict=True):
            used = frame[frame.any(axis=1)]
            if len(used):
                least_cyclic.append(float(np.linalg.eigvalsh(used @ one @ used.T)[0] / unit))
    return Curvature(np.array(least), np.array(least_cyclic))


def need_few_dimensions(evidence: Evidence) -> str:
    """The Hessian is small enough to decompose it often."""
    dim = evidence.trace.weights.shape[2]
    return "" if dim <= MOST_DIMENSIONS else f"tried in at most {MOST_DIMENSIONS} dimensions, not {dim}"


def judge_convexity(evidence: Evidence) -> Judgement:
    """No eigenvalue of the Hessian below zero, but for rounding."""
    least = float(evidence.once(draw_curvature).least.min())
    meaning = f"smallest eigenvalue of the Hessian at {N_POINTS:,} random points, relative to its largest"
    return Judgement(least, -ROUNDING, least >= -ROUNDING, meaning)


def judge_strictness(evidence: Evidence) -> Judgement:
    """Every eigenvalue within the cyclic subspace above zero."""
    least = float(evidence.once(draw_curvature).least_cyclic.min(initial=np.inf))
    meaning = f"the same within the cyclic subspace, at {N_POINTS:,} random points"
    return Judgement(least, ROUNDING, least > ROUNDING, meaning)
