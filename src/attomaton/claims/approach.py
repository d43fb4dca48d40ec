"""Claims about where gradient descent converges: norm, direction, finite part, retrieval and composition.

A theorem is about the limit, but a run ends. The path to the limit can be computed without training: plain
descent at any step, and normalised descent follows the same path at its own speed. So each claim about a
limit has a bound that does not depend on the run: at its end the run must be as near to the limit as the
computed path is at half of the steps. If that is not near at all, the run is too short to be judged.

The loss of normalised descent at half of its steps shows how far along the path it is.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.base.tables import Bool, Float64, Int64, column
from attomaton.claims.evidence import (
    FEWEST_STEPS,
    Evidence,
    correlation_of,
    find_tangents,
    need_descent,
    need_log_loss,
    need_mass_head,
)
from attomaton.claims.limits import dense, embeddings_for_solvers
from attomaton.claims.measures import Curves, measure_against
from attomaton.claims.verdicts import Judgement
from attomaton.training.models.attention import measure_curvatures
from attomaton.training.models.heads import TokenId, reads_mass
from attomaton.trajectory.forward import Trajectory, fast_forward
from attomaton.trajectory.sharpness import bound_any_sharpness

TIMES = np.array([0.5, 0.625, 0.75, 0.875, 1.0])
"""Shares of the steps of plain descent at which its path is computed; half of the steps is the first."""

LATER = np.array([1.0, 1.5, 2.0, 4.0, 8.0])
"""Multiples of the time reached at half of the steps, for normalised descent."""

GENTLE = 0.1
"""η λ of the plain descent whose path normalised steps follow: small, so that it is nearly a flow."""

LAST_STEP = 1e12
"""The path is computed up to this step of plain descent; runs beyond it are judged as if they were here."""

MOST_LENGTHENING = 1024
"""To find when a claim can be judged, runs of up to this multiple of the steps are computed."""

QUARTERS = 2.0 ** np.array([0.25, 0.5, 0.75, 1.0])
"""The factor by which a run that is too short is lengthened for the next try."""

TIME_HALVINGS = 3
"""The time at which the path has a given loss is found to the 8th root of ten, and rounded down."""

LOSS_TOLERANCE = 1e-12
"""Tolerance for comparing losses, relative to 1."""

NEGLIGIBLE = 1e-6
"""Distances and angles below this count as zero."""

NEAR_CORRELATION = 0.9
"""A path with a lower correlation with W_svm at half of the steps is not near: it is 26° away."""

MISSED = 0.1
"""A path that leaves more attention than this below the best component at half of the steps is not near."""

UNINFORMATIVE = 0.1
"""A difference from the Luce odds (total variation, at most 1) above this gives no information."""

SWINGS = 2.0
"""Normalised steps of length η oscillate around W_fin by about η/2; by this many η at most."""

N_POINTS = 1_000
"""Random points at which the curvature is computed, over all trials."""

MOST_HESSIAN_DIMENSIONS = 16
"""Limit of dimensions: a Hessian has dim² rows, and a thousand of them are decomposed."""

HESSIAN_NUMBERS = 2_000_000
"""Numbers of Hessians computed at once."""

EIGENVALUE_ROUNDING = 1e-12
"""Eigenvalues above −this, relative to the largest, count as nonnegative."""

FLAT = 1e-3
"""Share of the largest curvature that embeddings allow below which eigenvalues have few digits."""

PROVED = (
    "proved: with log-loss on a mass the Hessian is a mean over contexts of the covariance of e_x e_kᵀ under "
    "attention, so at any W no eigenvalue is negative"
)
"""Why the loss is convex, as a verdict says it."""

STRICT = f"{PROVED}, and none is 0 in the span of the edges, since every token of a context has attention"
"""Why it is strictly convex in the cyclic subspace, as a verdict says it."""


@dataclass(frozen=True, eq=False)
class ComputedPath:
    """Where the trials should be, from half of the steps on.

    ``curves`` and ``weights`` (n_times, n_trials, dim, dim) are computed, ``error`` (n_trials,) bounds
    the error of the weights, infinite if the path is unknown, and ``reason`` explains the first such case.
    """

    curves: Curves
    weights: Float64
    error: Float64
    reason: str

    @property
    def is_known(self) -> Bool:
        """Trials whose path is known, shape (n_trials,)."""
        return np.isfinite(self.error)


def compute_path(evidence: Evidence) -> ComputedPath:
    """The computed path of every trial; steps must be those of gradient descent."""
    trace = evidence.trace
    weights = np.zeros((len(TIMES), *trace.weights.shape[1:]))
    error, reason = np.full(trace.n_trials, np.inf), ""
    for trial in range(trace.n_trials):
        try:
            path = follow_trial(evidence, trial)
            times = _path_times(evidence, path, trial)
            error[trial] = path.error_at(float(times[-1]))
        except (UncertifiedSolution, UnsupportedOption) as problem:
            reason = reason or f"trial {trial}: {problem}"
            continue
        if np.isfinite(error[trial]):
            weights[:, trial] = [dense(path.weights_at(float(time))) for time in times]
        else:
            reason = reason or f"trial {trial}: {path.caveat}"
    unknown = np.full(weights.shape[:2], np.nan)
    computed = replace(trace, steps=np.arange(len(TIMES)), weights=weights, losses=unknown)
    return ComputedPath(measure_against(computed, evidence.target), weights, error, reason)


def lengthen_run(evidence: Evidence, steps: int) -> Evidence:
    """The run as it would be after more steps, at none, half and all of them, from its computed path.

    Normalised steps are assumed to continue along the path as fast as in the second half of the run.
    """
    trace, halves = evidence.trace, np.array([steps // 2, steps])
    weights = np.zeros((3, *trace.weights.shape[1:]))
    losses = np.full(weights.shape[:2], np.nan)
    weights[0] = trace.weights[0]
    for trial in np.flatnonzero(evidence.once(compute_path).is_known).tolist():
        path = follow_trial(evidence, trial)
        times = _times_ahead(evidence, path, trial, halves) if evidence.normalized else halves
        for at, time in enumerate(map(float, times), start=1):  # one by one: a path keeps only its last point
            weights[at, trial], losses[at, trial] = dense(path.weights_at(time)), path.loss_at(time)
    longer = replace(trace, steps=np.array([0, *halves]), weights=weights, losses=losses)
    return replace(evidence, trace=longer)


def _times_ahead(evidence: Evidence, path: Trajectory, trial: int, steps: Int64) -> list[float]:
    """The times at which the path has the norms that normalised steps will reach, to the 8th root of ten."""
    trace, middle = evidence.trace, evidence.middle
    half, last = np.linalg.norm(trace.weights[[middle, -1], trial], axis=(1, 2))
    pace = (last - half) / (trace.steps[-1] - trace.steps[middle])
    grid = 10.0 ** np.arange(0.0, np.log10(LAST_STEP), 0.125)
    norms = [last + pace * (step - trace.steps[-1]) for step in steps.tolist()]

    def norm_at(time: float) -> float:
        return float(np.linalg.norm(dense(path.weights_at(time))))

    return [float(grid[bisect_left(grid, norm, hi=len(grid) - 1, key=norm_at)]) for norm in norms]


def look_ahead(evidence: Evidence, is_ready: Callable[[Evidence], bool]) -> int | str:
    """About how many more steps a run of gradient descent needs, to two digits, or why this is unknown.

    It is the shortest run, tried in factors of 2^¼, whose computed path can be judged.
    """
    missing = need_descent(evidence) or need_log_loss(evidence) or need_mass_head(evidence)
    if missing or not evidence.once(compute_path).is_known.any():
        missing = missing or evidence.once(compute_path).reason
        return f"the number of steps is unknown, since a longer run cannot be predicted ({missing})"
    last = int(evidence.trace.steps[-1])
    if not last:
        return "the number of steps is unknown, since none was taken"
    # double the run until it can be judged, then try quarter powers of two in the last doubling
    short = max(last, FEWEST_STEPS // 2)
    while not is_ready(evidence.once(lengthen_run, 2 * short)):
        short *= 2
        if short >= MOST_LENGTHENING * max(last, FEWEST_STEPS // 2):
            return f"{short:,} steps would still be too few"
    steps = next(
        steps
        for steps in np.ceil(short * QUARTERS).astype(int)
        if is_ready(evidence.once(lengthen_run, steps))
    )
    n_more = int(steps) - last
    unit = 10 ** max(len(str(n_more)) - 2, 0)
    return -(-n_more // unit) * unit  # rounded up to two digits


def follow_trial(evidence: Evidence, trial: int) -> Trajectory:
    """Plain descent from a trial's W(0) with its step size; with a small one if its steps are normalised."""
    key = (follow_trial, trial)
    if key in evidence.of_data:
        return evidence.of_data[key]
    trace = evidence.trace
    table = trace.embeddings[trial]
    gentle = GENTLE / max(bound_any_sharpness(table), np.finfo(float).tiny)
    start = trace.weights[0, trial]
    path = fast_forward(
        trace.samples[trial],
        embeddings=embeddings_for_solvers(table),
        step_size=gentle if evidence.normalized else evidence.step_size,
        to=1.0 if evidence.normalized else max(float(trace.steps[-1]), 1.0),
        start=start if start.any() else None,
        components=evidence.automata[trial].components,
    )
    return evidence.of_data.setdefault(key, path)


def _path_times(evidence: Evidence, path: Trajectory, trial: int) -> Float64:
    """The steps of the computed path that correspond to half of the run's steps, and to later ones."""
    trace = evidence.trace
    if evidence.normalized:
        loss = float(trace.losses[evidence.middle, trial])
        return np.minimum(LATER * find_time(path, loss), LAST_STEP)
    half, last = float(trace.steps[evidence.middle]), float(trace.steps[-1])
    return np.floor(half + (last - half) * (TIMES - TIMES[0]) / (TIMES[-1] - TIMES[0]))


def find_time(path: Trajectory, loss: float) -> float:
    """A step at which the path still has at least this loss, close to the last such; 0 if it never has."""
    least = loss + LOSS_TOLERANCE * max(abs(loss), 1.0)
    if not path.loss_at(1.0) >= least:
        return 0.0
    low = 0.0
    # the exponent of a step that still has the loss: in whole powers of ten, then by bisection
    while low < np.log10(LAST_STEP) and path.loss_at(10.0 ** (low + 1.0)) >= least:
        low += 1.0
    width = 1.0
    for _ in range(TIME_HALVINGS):
        width /= 2.0
        if path.loss_at(10.0 ** (low + width)) >= least:
            low += width
    return 10.0**low


def tangent_of(correlation: float) -> float:
    return float(np.sqrt(1.0 - correlation**2) / correlation)


def find_worst(shortfall: Float64, among: Bool) -> int:
    """The trial with the largest shortfall, among those that count; among all if none does."""
    among = among if among.any() else np.ones_like(among)
    return int(np.where(among, np.nan_to_num(shortfall, nan=np.inf), -np.inf).argmax())


def name_trials(meaning: str, worst: int, reached: Bool, judged: Bool) -> str:
    """What was measured in the worst trial, and how many trials reach their bounds, if there are several."""
    if len(judged) == 1:
        return meaning
    n_left = len(judged) - int(judged.sum())
    left = f"; trials not judged: {n_left}" if n_left else ""
    counted = f"{int(reached.sum())} of {int(judged.sum())} trials reach their bound{left}"
    return f"{meaning}; trial {worst} is the worst, {counted}"


@dataclass(frozen=True, eq=False)
class ApproachBounds:
    """The bound of each trial, and which trials can be judged, shape (n_trials,) each."""

    bound: Float64
    among: Bool

    def missing(self, short: str) -> str:
        """Why no trial can be judged (the run is too short); empty if some trial can be."""
        return "" if self.among.any() else short

    def judge(
        self, values: Float64, bounds: Float64, reached: Bool, shortfall: Float64, meaning: str
    ) -> Judgement:
        """The trial with the largest shortfall, and how many of those judged reach their bounds."""
        worst = find_worst(shortfall, self.among)
        meaning = name_trials(meaning, worst, self.among & reached, self.among)
        return Judgement(float(values[worst]), float(bounds[worst]), bool(reached[worst]), meaning)


def _path_and_reach(evidence: Evidence) -> tuple[ComputedPath, Float64]:
    """The computed path, and how far from it a sound run may be: its error plus the oscillation of steps."""
    path = evidence.once(compute_path)
    return path, path.error + swings_of(evidence) + NEGLIGIBLE


def swings_of(evidence: Evidence) -> float:
    """How far steps of constant length keep a run from W_fin, at most; 0 for steps that shrink."""
    return SWINGS * evidence.step_size if evidence.normalized else 0.0


def _longest_embedding(evidence: Evidence) -> Float64:
    """max ‖e‖² of each trial: a score difference moves by at most twice that times ‖ΔW‖."""
    return np.sum(evidence.trace.embeddings**2, axis=2).max(axis=1)


def need_known_path(evidence: Evidence) -> str:
    """Condition: the path of some trial can be computed."""
    path = evidence.once(compute_path)
    return "" if path.is_known.any() else f"the path of the run is unknown ({path.reason})"


def _safe_directions(evidence: Evidence) -> Float64:
    return np.where(evidence.directed[:, None, None], evidence.directions, 1.0)


def bound_direction(evidence: Evidence) -> ApproachBounds:
    """The tangent to W_svm of the computed path at half of the steps, if it is near and decreasing."""
    path, reach = _path_and_reach(evidence)
    tangent, level = find_tangents(path.weights, _safe_directions(evidence))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        bound = np.where(level[0] > 0, tangent[0] + reach / level[0], np.inf)
    closing = tangent[-1] <= tangent[0] + NEGLIGIBLE
    return ApproachBounds(
        bound, evidence.directed & path.is_known & closing & (bound <= tangent_of(NEAR_CORRELATION))
    )


def need_near_direction(evidence: Evidence) -> str:
    """Condition: some trial should be near W_svm by half of the steps."""
    least = f"a correlation with W_svm of at least {NEAR_CORRELATION}"
    reason = f"in no trial does the computed path have {least} at half of the steps"
    return evidence.once(bound_direction).missing(reason)


def judge_direction(evidence: Evidence) -> Judgement:
    """Claim: W/‖W‖ → W_svm/‖W_svm‖."""
    bounds = evidence.once(bound_direction)
    (tangent,), _ = find_tangents(evidence.trace.weights[-1:], _safe_directions(evidence))
    meaning = "correlation of W with W_svm at the end; bound: that of the computed path at half of the steps"
    return bounds.judge(
        correlation_of(tangent),
        correlation_of(bounds.bound),
        tangent <= bounds.bound,
        tangent / bounds.bound,
        meaning,
    )


def bound_growth(evidence: Evidence) -> ApproachBounds:
    """Half of the growth of the computed path in the second half; just 1 if steps are normalised."""
    path, _ = _path_and_reach(evidence)
    norm, normalized = path.curves.norm, evidence.normalized
    growth = norm[-1] / np.maximum(norm[0], np.finfo(float).tiny)
    bound = np.ones_like(growth) if normalized else 1.0 + 0.5 * (growth - 1.0)
    grows = norm[-1] - norm[0] > 4.0 * path.error
    return ApproachBounds(
        bound, evidence.directed & path.is_known & (grows | normalized) & (norm[-1] >= norm[0])
    )


def need_growth(evidence: Evidence) -> str:
    """Condition: the norm should grow in the second half of some trial."""
    return evidence.once(bound_growth).missing("the norm of the computed path does not grow yet in any trial")


def judge_norm(evidence: Evidence) -> Judgement:
    """Claim: ‖W‖ grows in the second half of training."""
    bounds, norm = evidence.once(bound_growth), evidence.curves.norm
    growth = norm[-1] / np.maximum(norm[evidence.middle], np.finfo(float).tiny)
    bound = "any growth" if evidence.normalized else "half of the computed growth"
    meaning = f"‖W‖ at the end / ‖W‖ at half of the steps; bound: {bound}"
    return bounds.judge(growth, bounds.bound, growth > bounds.bound, bounds.bound - growth, meaning)


def bound_finite(evidence: Evidence) -> ApproachBounds:
    """The largest ‖Π_fin W − W_fin‖ of the computed path from half of the steps on, plus the oscillation.

    Tokens below the best components must have lost their attention: otherwise W_fin is near by accident.
    """
    path, reach = _path_and_reach(evidence)
    bound = path.curves.finite_distance.max(axis=0) + reach
    late = ~evidence.directed | (path.curves.missed[0] <= MISSED)
    telling = 0.5 * _longest_embedding(evidence) * bound <= UNINFORMATIVE
    return ApproachBounds(bound, ~evidence.acyclic & path.is_known & late & telling)


def need_short_steps(evidence: Evidence) -> str:
    """Condition: steps of constant length oscillate around W_fin so little that the claim can be judged."""
    swings, among = swings_of(evidence), ~evidence.acyclic
    if not (swings and (0.5 * _longest_embedding(evidence) * swings > UNINFORMATIVE)[among].all()):
        return ""
    return (
        f"normalised steps of length {evidence.step_size:g} may oscillate around W_fin by {swings:g}, which "
        f"moves attention by more than {UNINFORMATIVE}: use shorter steps"
    )


def need_near_finite(evidence: Evidence) -> str:
    """Condition: the remaining distance to W_fin is small enough to judge the claim."""
    reason = (
        "at half of the steps the computed path is far from its limit in every trial: attention is off "
        f"by more than {UNINFORMATIVE}"
    )
    return evidence.once(bound_finite).missing(reason)


def judge_finite(evidence: Evidence) -> Judgement:
    """Claim: Π_fin W → W_fin."""
    steps, bounds = evidence.trace.steps, evidence.once(bound_finite)
    distance = evidence.curves.finite_distance[steps >= 0.9 * steps[-1]].max(axis=0)
    meaning = "largest ‖Π_fin W − W_fin‖ in the last tenth of the steps"
    return bounds.judge(distance, bounds.bound, distance <= bounds.bound, distance / bounds.bound, meaning)


def judge_composition(evidence: Evidence) -> Judgement:
    """Claim: inside the highest component, attention has the Luce odds of W_fin."""
    trace = evidence.trace
    apart = np.zeros(trace.n_trials)
    for trial, automaton in enumerate(evidence.automata):
        contexts, inside = evidence.target.contexts[trial], ~evidence.target.below[trial]
        both = contexts.masses(np.stack([trace.weights[-1, trial], dense(automaton.soft.weights)]))
        both = np.where(inside, both, 0.0)
        both = both / contexts.sums(both)[:, contexts.bags.sample]
        apart[trial] = 0.5 * contexts.sums(np.abs(both[0] - both[1])).max()
    bounds = evidence.once(bound_finite)
    bound = 0.5 * _longest_embedding(evidence) * bounds.bound
    meaning = "largest difference from the Luce odds in any context"
    return bounds.judge(apart, bound, apart <= bound, apart / bound, meaning)


def bound_missed(evidence: Evidence) -> ApproachBounds:
    """The mass below the highest component that the computed path leaves at half of the steps."""
    path, reach = _path_and_reach(evidence)
    missed = path.curves.missed
    with np.errstate(over="ignore"):
        bound = missed[0] * np.exp(2.0 * _longest_embedding(evidence) * reach)
    falling = missed[-1] <= missed[0]
    return ApproachBounds(bound, evidence.directed & path.is_known & falling & (bound <= MISSED))


def need_near_retrieval(evidence: Evidence) -> str:
    """Condition: some trial should have most attention on its best component at half of the steps."""
    reason = (
        f"at half of the steps the computed path leaves more than {MISSED} of the attention below the best "
        "component"
    )
    return evidence.once(bound_missed).missing(reason)


def judge_retrieval(evidence: Evidence) -> Judgement:
    """Claim: the attention mass below the highest component vanishes."""
    bounds, missed = evidence.once(bound_missed), evidence.curves.missed[-1]
    shortfall = missed / np.maximum(bounds.bound, np.finfo(float).tiny)
    meaning = "mean attention below the best component at the end"
    return bounds.judge(missed, bounds.bound, missed <= bounds.bound, shortfall, meaning)


@dataclass(frozen=True, eq=False)
class Curvature:
    """Smallest eigenvalues of the Hessian at random points, relative to its largest.

    ``least`` in all directions, ``least_cyclic`` within the cyclic subspace of trials that have one.
    """

    least: Float64
    least_cyclic: Float64


def draw_curvature(evidence: Evidence) -> Curvature:
    """Hessians at points W with normal entries of size 0.1 to 3, spread over the trials.

    A tied head computes the attention mass on the label as a sum in which large terms cancel, so where the
    mass is small its Hessian has few digits: here the mass itself is read instead. Where attention has
    settled in all samples, every eigenvalue is small, and is compared with what is not.
    """
    trace = evidence.trace
    model = replace(trace.model, head=TokenId()) if reads_mass(trace.model.head) else trace.model
    rng = np.random.default_rng(0)
    dim = trace.weights.shape[2]
    axes = evidence.target.axes
    least: list[float] = []
    least_cyclic: list[float] = []
    n_at_once = max(HESSIAN_NUMBERS // dim**4, 1)
    for first in range(0, N_POINTS, n_at_once):
        numbers = range(first, min(first + n_at_once, N_POINTS))
        trials = [number % trace.n_trials for number in numbers]
        sizes = 10 ** rng.uniform(-1.0, np.log10(3.0), (len(trials), 1, 1))
        points = sizes * rng.normal(size=(len(trials), dim, dim))
        samples = [trace.samples[trial] for trial in trials]
        hessians = measure_curvatures(model, samples, list(trace.embeddings[trials]), points)
        eigenvalues = np.linalg.eigvalsh(hessians)
        # relative to the largest, unless attention has settled and all of them are small
        most_curvature = np.square(trace.embeddings[trials]).sum(-1).max(-1) ** 2
        largest = np.maximum(np.abs(eigenvalues).max(1), np.finfo(float).tiny)
        least += (eigenvalues[:, 0] / np.maximum(largest, FLAT * most_curvature)).tolist()
        for hessian, padded_axes, scale in zip(hessians, axes[trials], largest, strict=True):
            cyclic = padded_axes[padded_axes.any(axis=1)]
            if len(cyclic):
                least_cyclic.append(float(np.linalg.eigvalsh(cyclic @ hessian @ cyclic.T)[0] / scale))
    return Curvature(np.array(least), np.array(least_cyclic))


def _is_sampled(evidence: Evidence) -> bool:
    """Whether Hessians are computed: where they are small, and for losses and heads without a proof."""
    return evidence.trace.weights.shape[2] <= MOST_HESSIAN_DIMENSIONS or not _is_proved(evidence)


def _is_proved(evidence: Evidence) -> bool:
    return not (need_log_loss(evidence) or need_mass_head(evidence))


def judge_convexity(evidence: Evidence) -> Judgement:
    """Claim: no eigenvalue of the Hessian is below zero (proved, and up to rounding at random points)."""
    if not _is_sampled(evidence):
        return Judgement(0.0, 0.0, True, PROVED)
    least = float(evidence.once(draw_curvature).least.min())
    meaning = f"smallest eigenvalue of the Hessian at {N_POINTS:,} random points, relative to its largest"
    if _is_proved(evidence):
        meaning += f"; {PROVED}"
    return Judgement(least, -EIGENVALUE_ROUNDING, least >= -EIGENVALUE_ROUNDING, meaning)


def judge_strictness(evidence: Evidence) -> Judgement:
    """Claim: every eigenvalue within the cyclic subspace is above zero: the ties span it, and are edges."""
    if _is_sampled(evidence):
        least = float(evidence.once(draw_curvature).least_cyclic.min(initial=np.inf))
        meaning = (
            f"smallest eigenvalue of the Hessian within the cyclic subspace at {N_POINTS:,} random points, "
            "relative to its largest"
        )
        if _is_proved(evidence):
            meaning += f"; {STRICT}"
        return Judgement(least, EIGENVALUE_ROUNDING, least > EIGENVALUE_ROUNDING, meaning)
    least = min(_span_ties(evidence, trial) for trial in np.flatnonzero(~evidence.acyclic).tolist())
    meaning = f"smallest eigenvalue of the ties within the cyclic subspace, relative to the largest; {STRICT}"
    return Judgement(least, EIGENVALUE_ROUNDING, least > EIGENVALUE_ROUNDING, meaning)


def _span_ties(evidence: Evidence, trial: int) -> float:
    """How well the edges between tied tokens span the cyclic subspace of a trial; 0 if they do not."""
    components, table = evidence.automata[trial].components, evidence.trace.embeddings[trial]
    query, winner, loser = (column(components.edges.rows, name) for name in ("query", "winner", "loser"))
    tied = components.components_of(query, winner) == components.components_of(query, loser)
    axes = evidence.target.axes[trial]
    axes = axes[axes.any(axis=1)].reshape(-1, table.shape[1], table.shape[1])
    apart, of_query = table[winner[tied]] - table[loser[tied]], table[query[tied]]
    coordinates = np.einsum("aij,ei,ej->ae", axes, apart, of_query, optimize=True)
    values = np.linalg.eigvalsh(coordinates @ coordinates.T)
    return float(values[0] / values[-1])
