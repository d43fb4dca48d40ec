"""Bound the share of the best margin that a run must reach at its end, from the first half of its steps.

Plain gradient descent must have the share of its computed path at half of the steps. Steps of steepest
descent in a norm (signs, spectral, normalised; without momentum) have a proved bound. Let γ be the best
margin, R the largest change of a score difference by a W of norm 1, and ψ(z) = eᶻ − 1 − z. Let L be the loss
and G the attention off the labels, both summed over the contexts. A step of length η lowers L by at least
G (γη − ψ(Rη)), and G ≥ κL with κ = (1 − e^{−L})/L. So L falls exponentially in the summed steps while ‖W‖
grows at most by their sum, and a small L means a large margin. For Adam, Muon and momentum the theorems have
rates without usable constants, so such a run is compared with its own margin at half of the steps.
:func:`bound_margin` returns the bounds of all trials, :func:`bound_share` is the proved bound.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.claims.approach import ApproachBounds
from attomaton.claims.computed_path import compute_path, look_ahead
from attomaton.claims.evidence import FEWEST_STEPS, Evidence, need_descent
from attomaton.claims.margins import Margins, Norm, find_strict, measure_margins, read_differences
from attomaton.graphs.components import Components
from attomaton.solvers.hard.solve import Kind
from attomaton.solvers.norms.certify import measure_norm
from attomaton.training.steps import Adam, GradientDescent, SignDescent, SpectralDescent

# Tolerance for comparing shares with proved bounds.
SHARE_TOLERANCE = 1e-6

# Bounds of steepest descent are computed for runs of up to this multiple of the steps.
MOST_MULTIPLE = 64

# Steps oscillate: a share without a proved bound may fall by this from half of the steps to the end.
WOBBLE = 0.05


def find_margins(evidence: Evidence, norm: Norm) -> Margins:
    # for `evidence.once`, which computes the margins of a run once in each norm
    return measure_margins(evidence.trace, evidence.automata, norm)


def is_proved(evidence: Evidence) -> bool:
    """Whether the steps are exact steepest descent, so that :func:`bound_share` applies."""
    step = evidence.trace.step
    exact = isinstance(step, SignDescent | SpectralDescent) or evidence.normalized
    return exact and not getattr(step, "momentum", 0.0)


def find_ordered(evidence: Evidence) -> Bool:
    """Trials with priorities, without cycles, and with embeddings that can meet every priority."""
    met = [automaton.hard.kind is Kind.EVERY_PRIORITY for automaton in evidence.automata]
    return evidence.directed & evidence.acyclic & np.array(met)


def find_reach(components: Components, table: Float64, norm: Norm) -> float:
    """R: the largest change of a score difference by a W of norm 1, max ‖u‖‖v‖ in the dual norm."""
    query, winner, loser = find_strict(components)
    order = 1 if norm == "max" else 2
    lengths = np.linalg.norm(table[winner] - table[loser], order, axis=1)
    return float((lengths * np.linalg.norm(table[query], order, axis=1)).max(initial=0.0))


def list_step_sizes(
    step_size: float, schedule: Callable[[int], float] | None, first: int, last: int
) -> Float64:
    """η of the steps first … last − 1, counted from 0."""
    if schedule is None:
        return np.full(last - first, step_size)
    return step_size * np.array([schedule(step) for step in range(first, last)])


def find_last_scale(evidence: Evidence) -> float:
    # the factor of the schedule on the last step
    last = max(int(evidence.trace.steps[-1]), 1)
    return float(list_step_sizes(1.0, getattr(evidence.trace.step, "schedule", None), last - 1, last)[0])


def gains_per_step(step_sizes: Float64, *, best: float, reach: float) -> Float64:
    """γη − ψ(Rη) of each step: times G, the least fall of the loss; negative if the step is too long."""
    return best * step_sizes - (np.expm1(reach * step_sizes) - reach * step_sizes)


def bound_share(
    step_sizes: Float64, *, best: float, reach: float, norm: float, loss: float, odds: float
) -> float:
    """The share of the best margin that steps must reach from a W of this norm and loss; −inf if unproved."""
    gains = gains_per_step(step_sizes, best=best, reach=reach)
    if not len(step_sizes) or gains.min() < 0 or not 0 < loss < np.inf:
        return -np.inf
    least_share = -np.expm1(-loss) / loss  # κ: least G over L
    log_loss = np.log(loss) - least_share * float(gains.sum())  # ln L at the end, at most
    # the largest single loss is at most the sum, and e^loss − 1 ≥ e^−margin / odds
    final_loss = np.exp(log_loss)  # may be too small to be added to 1
    margin = -(log_loss if final_loss < 1e-8 else np.log(np.expm1(final_loss))) - np.log(odds)
    return float(margin / (best * (norm + float(step_sizes.sum()))))


def bound_margin(evidence: Evidence, norm: Norm) -> ApproachBounds:
    """The share of the best margin that each trial must reach at its end."""
    bound = _bound_shares(evidence, norm, evidence.middle, int(evidence.trace.steps[-1]))
    judged = bound > 0
    if not is_proved(evidence) and not isinstance(evidence.trace.step, GradientDescent):
        share = evidence.once(find_margins, norm).share[-1]
        judged &= ~((share > 0) & (share < bound))  # a share may fall for long before it rises to its limit
    return ApproachBounds(
        bound,
        judged,
        "at half of the steps no margin is large enough to give a bound, or margins are still falling",
    )


def forecast_margin(evidence: Evidence, is_ready: Callable[[Evidence], bool], norm: Norm) -> int | str:
    """Estimate how many more steps a run needs until its margin can be judged, or say why this is unknown."""
    last = int(evidence.trace.steps[-1])
    if not is_proved(evidence) and isinstance(evidence.trace.step, GradientDescent):
        return look_ahead(evidence, is_ready)
    steps = max(2 * last, 2 * int(np.ceil(count_averaged_steps(evidence))), FEWEST_STEPS)
    while not (_bound_shares(evidence, norm, len(evidence.trace.steps) - 1, steps) > 0).any():
        if not is_proved(evidence) or steps > MOST_MULTIPLE * last:
            return "the number of further steps is unknown, since the theorem has no bound so early"
        steps *= 2
    return steps - last


def count_averaged_steps(evidence: Evidence) -> float:
    """The steps in an optimiser's slowest running mean; 1 if a bound is proved or computed."""
    step = evidence.trace.step
    if is_proved(evidence) or not need_descent(evidence):
        return 1.0
    slowest = max(step.betas) if isinstance(step, Adam) else float(getattr(step, "momentum", 0.0))
    return 1.0 / (1.0 - slowest)


def _bound_shares(evidence: Evidence, norm: Norm, record: int, steps: int) -> Float64:
    # the share of each trial after `steps` steps, given the run up to a record, shape (n_trials,)
    margins = evidence.once(find_margins, norm)
    bounds = np.full(evidence.trace.n_trials, -np.inf)
    for trial in np.flatnonzero(find_ordered(evidence) & np.isfinite(margins.best)).tolist():
        if is_proved(evidence):
            bounds[trial] = _bound_steepest(evidence, margins, trial, record, steps) - SHARE_TOLERANCE
        elif isinstance(evidence.trace.step, GradientDescent):
            bounds[trial] = _read_path(evidence, margins, trial) - SHARE_TOLERANCE
        else:
            bounds[trial] = margins.share[record, trial] - WOBBLE
    return bounds


def _bound_steepest(evidence: Evidence, margins: Margins, trial: int, record: int, steps: int) -> float:
    trace = evidence.trace
    contexts = evidence.target.contexts[trial]
    n_contexts = len(contexts.bags.samples)
    missed = float(evidence.curves.missed[record, trial])
    # Σ −ln(1 − m) is at most −ln(1 − Σ m), which keeps its digits where the masses m are small
    precise = n_contexts * missed < 0.5
    loss = -np.log1p(-n_contexts * missed) if precise else n_contexts * float(trace.losses[record, trial])
    schedule = getattr(trace.step, "schedule", None)
    step_size = float(cast("Any", trace.step).step_size)
    return bound_share(
        list_step_sizes(step_size, schedule, first=int(trace.steps[record]), last=steps),
        best=float(margins.best[trial]),
        reach=find_reach(evidence.automata[trial].components, trace.embeddings[trial], margins.norm),
        norm=float(margins.size[record, trial]),
        loss=float(loss),
        odds=float(contexts.bags.multiplicity.max()),
    )


# The share of the computed path of plain descent at half of the steps, if the share is increasing.
def _read_path(evidence: Evidence, margins: Margins, trial: int) -> float:
    path = evidence.once(compute_path)
    if not path.is_known[trial]:
        return -np.inf
    table = evidence.trace.embeddings[trial]
    components = evidence.automata[trial].components
    weights = path.weights[:, trial]
    error = float(path.error[trial])
    reach = find_reach(components, table, margins.norm)
    # a W off by the error has a margin smaller by R · error at most, and a norm larger by the error
    margin = read_differences(components, table, weights).min(axis=1) - reach * error
    share: Float64 = margin / (measure_norm(weights, margins.norm) + error) / margins.best[trial]
    return float(share[0]) if share[-1] >= share[0] else -np.inf
