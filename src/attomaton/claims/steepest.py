"""Claims about margins: each optimiser seeks the largest margin in its own norm, on data without cycles.

Margins are judged, never directions: the W of largest margin in the max norm or the spectral norm is not
unique. Steps of steepest descent have a bound that is proved (:mod:`attomaton.claims.steepest`), and plain
descent has that of its computed way. For Adam, Muon and momentum the theorems have rates without usable
constants, and a run is held against its own margin at half of the steps.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.tables import Bool, Float64
from attomaton.claims.approach import ApproachBounds, find_worst, need_way
from attomaton.claims.evidence import (
    DIGITS,
    DIGITS_TIED,
    FEWEST_STEPS,
    Evidence,
    need_descent,
    need_direction,
    need_log_loss,
    need_mass_head,
    need_records,
    need_stable_step,
    need_start,
    need_steps,
)
from attomaton.claims.margins import (
    MOST_DIMENSIONS,
    NORMS,
    Margins,
    Norm,
    find_reach,
    measure_margins,
    own_norm,
    read_differences,
)
from attomaton.claims.verdicts import Claim, Judgement
from attomaton.claims.way import compute_way, look_ahead
from attomaton.solvers.hard.solve import Kind
from attomaton.solvers.norms.certify import measure_norm
from attomaton.training.models.heads import Tied
from attomaton.training.steepest import SignDescent, SpectralDescent
from attomaton.training.steps import Adam, GradientDescent


def list_paces(step_size: float, schedule: Callable[[int], float] | None, first: int, last: int) -> Float64:
    """η_t of the steps first, …, last − 1, counted from 0."""
    if schedule is None:
        return np.full(last - first, step_size)
    return step_size * np.array([schedule(step) for step in range(first, last)])


def bound_share(
    paces: Float64, *, best: float, reach: float, size: float, surprise: float, odds: float
) -> float:
    """The share of the best margin that steps of these lengths must reach; −inf if none is proved."""
    gains = find_gains(paces, best=best, reach=reach)
    if not len(paces) or gains.min() < 0 or not 0 < surprise < np.inf:
        return -np.inf
    kept = -np.expm1(-surprise) / surprise  # κ: least G over L
    log_surprise = np.log(surprise) - kept * float(gains.sum())
    # the largest single loss is at most the summed one, and e^loss − 1 ≥ e^−margin / odds
    margin = -_log_expm1(log_surprise) - np.log(odds)
    return float(margin / (best * (size + float(paces.sum()))))


def find_gains(paces: Float64, *, best: float, reach: float) -> Float64:
    """γη − ψ(Rη) of each step: what it takes off the loss, over G; less than zero if it is too long."""
    return best * paces - (np.expm1(reach * paces) - reach * paces)


def _log_expm1(log_value: float) -> float:
    """ln(e^x − 1) from ln x, where x may be too small to be added to 1."""
    value = np.exp(log_value)
    return log_value if value < 1e-8 else float(np.log(np.expm1(value)))


ROUNDING = 1e-6
"""Shares are held against proved bounds to this."""

FURTHEST = 64
"""What steepest descent must reach is computed for runs of up to this many times the steps."""

WOBBLE = 0.05
"""A share may fall by this from half of the steps to the end, where no bound is proved: steps swing.

If it falls by more and stays above 0, the run is too early: shares of Muon were seen to fall by 0.15 first.
"""

SMALL = 1e-3
"""ε of Adam is small if it is less than this share of the attention that is left to move."""


def _find(evidence: Evidence, norm: Norm) -> Margins:
    return measure_margins(evidence.trace, evidence.automata, norm)


FINDERS: dict[Norm, Callable[[Evidence], Margins]] = {norm: partial(_find, norm=norm) for norm in NORMS}
"""Each measures margins in one norm, once for each evidence."""


def is_proved(evidence: Evidence) -> bool:
    """Whether steps are those of steepest descent itself, so that :func:`bound_share` speaks of them."""
    step = evidence.trace.step
    exact = isinstance(step, SignDescent | SpectralDescent) or evidence.normalized
    return exact and not getattr(step, "momentum", 0.0)


def describe_share(evidence: Evidence, norm: Norm) -> str:
    """What was measured, for a claim that does not apply; nothing if that is not known."""
    share = evidence.once(FINDERS[norm]).share[-1]
    known = evidence.directed & np.isfinite(share)
    if not known.any():
        return ""
    least, trials = float(share[known].min()), int(known.sum())
    return f"; measured: {least:.3f} of the best margin in the {norm} norm (the least of {trials} trials)"


def need_own_norm(evidence: Evidence, norm: Norm) -> str:
    """The step seeks the margin of this norm, and W itself was trained."""
    step = evidence.trace.step
    own = own_norm(step)
    if own != norm:
        return f"the step is {step}, which seeks the largest margin in the {own} norm: see margin-{own}"
    return (
        "" if evidence.trace.model.rank is None else "W is a product of two factors, and these were trained"
    )


def need_rule(evidence: Evidence, norm: Norm) -> str:
    """The theorem, or the computed way, speaks of these steps."""
    step = evidence.trace.step
    if is_proved(evidence) or not need_descent(evidence):
        return ""
    if isinstance(step, GradientDescent):
        return need_descent(evidence) + describe_share(evidence, norm)
    try:
        first, last = list_paces(1.0, cast("Any", step).schedule, 0, 1)[0], _last_pace(evidence)
    except UnsupportedOption as problem:
        return str(problem)
    if not last < first:
        return (
            f"the step is {step}, of one size, and the theorem speaks of step sizes that shrink: give "
            f"schedule=Decay(){describe_share(evidence, norm)}"
        )
    return ""


def need_memory(evidence: Evidence, norm: Norm) -> str:
    """Half of the run is longer than what the step averages over, where no bound is proved."""
    memory, half = _memory(evidence), int(evidence.trace.steps[evidence.middle])
    if half >= memory:
        return ""
    return (
        f"the step averages over about {memory:,.0f} steps, and half of the run is {half:,}"
        f"{describe_share(evidence, norm)}"
    )


def _memory(evidence: Evidence) -> float:
    """How many steps the slowest running mean of a step is of; one where a bound is proved or computed."""
    step = evidence.trace.step
    if is_proved(evidence) or not need_descent(evidence):
        return 1.0
    slowest = max(step.betas) if isinstance(step, Adam) else float(getattr(step, "momentum", 0.0))
    return 1.0 / (1.0 - slowest)


def _last_pace(evidence: Evidence) -> float:
    last = max(int(evidence.trace.steps[-1]), 1)
    return float(list_paces(1.0, getattr(evidence.trace.step, "schedule", None), last - 1, last)[0])


def need_small_epsilon(evidence: Evidence, norm: Norm) -> str:
    """ε of Adam is small beside the gradients of every trial, to the end."""
    step = evidence.trace.step
    if not isinstance(step, Adam) or not step.epsilon:
        return ""
    left = float(np.where(evidence.directed, evidence.curves.missed[-1], 1.0).min())
    if step.epsilon <= SMALL * left:
        return ""
    return (
        f"ε = {step.epsilon:g} is not small beside gradients at the end, where {left:.0e} of the attention "
        f"is left to move: give epsilon=0{describe_share(evidence, norm)}"
    )


def need_moving(evidence: Evidence) -> str:
    """Weights are finite, and gradients did not vanish in rounding."""
    broken = ~np.isfinite(evidence.trace.weights).all(axis=(0, 2, 3))
    if broken.any():
        return f"the weights of trial {int(broken.argmax())} are not finite"
    least = DIGITS_TIED if isinstance(evidence.trace.model.head, Tied) else DIGITS
    missed = np.where(evidence.directed, evidence.curves.missed[-1], 1.0)
    if (missed >= least).all():
        return ""
    return (
        f"{missed.min():.0e} of the attention was left to move, and rounding hides its gradient: train less"
    )


def need_order(evidence: Evidence, norm: Norm) -> str:
    """Some trial with a priority has no cycle, and every priority can be met."""
    if find_ordered(evidence).any():
        return ""
    trial = int(evidence.directed.argmax())
    automaton = evidence.automata[trial]
    ties = automaton.components.nodes.num_rows - len(automaton.components)
    what = f"{ties} ties in trial {trial}" if ties else "priorities contradict each other"
    return (
        f"every trial with a priority has a cycle ({what}), and the theorem speaks of data without"
        f"{describe_share(evidence, norm)}"
    )


def find_ordered(evidence: Evidence) -> Bool:
    """Trials with priorities, without cycles, whose embeddings can meet every priority, shape (n_trials,)."""
    met = [automaton.hard.kind is Kind.EVERY_PRIORITY for automaton in evidence.automata]
    return evidence.directed & evidence.acyclic & np.array(met)


def need_best(evidence: Evidence, norm: Norm) -> str:
    """The best margin of some trial without cycles is proved."""
    if np.isfinite(evidence.once(FINDERS[norm]).best[find_ordered(evidence)]).any():
        return ""
    n_tokens = evidence.trace.embeddings.shape[1]
    if n_tokens > MOST_DIMENSIONS:
        return f"the best margin is computed for at most {MOST_DIMENSIONS} tokens, not {n_tokens:,}"
    return "the best margin of no trial was proved"


def need_short_paces(evidence: Evidence, norm: Norm) -> str:
    """Steps of steepest descent are so short at the end that some trial's loss must fall."""
    if not is_proved(evidence):
        return ""
    pace = _last_pace(evidence) * float(cast("Any", evidence.trace.step).step_size)
    best = evidence.once(FINDERS[norm]).best
    for trial in np.flatnonzero(find_ordered(evidence) & np.isfinite(best)).tolist():
        reach = find_reach(evidence.automata[trial].components, evidence.trace.embeddings[trial], norm)
        if find_gains(np.array([pace]), best=float(best[trial]), reach=reach)[0] >= 0:
            return ""
    return f"steps of length {pace:.3g} are so long that nothing is proved of them: take shorter steps" + (
        describe_share(evidence, norm)
    )


def need_reached(evidence: Evidence, norm: Norm) -> str:
    """Some trial is far enough at half of the steps that something can be asked of its end."""
    told = "by half of the steps no margin is large enough to ask one of the end, or it falls for a while"
    missing = evidence.once(BOUNDERS[norm]).missing(told)
    return missing + describe_share(evidence, norm) if missing else ""


def forecast_margin(evidence: Evidence, is_ready: Callable[[Evidence], bool], norm: Norm) -> int | str:
    """About how many more steps until a margin can be judged, or why that is not known.

    Plain descent has its computed way. For other steps it is known what a run of twice the steps would be
    asked for, since half of it is this run; and what is proved of steepest descent is proved of longer runs,
    too.
    """
    last = int(evidence.trace.steps[-1])
    if not is_proved(evidence) and isinstance(evidence.trace.step, GradientDescent):
        return look_ahead(evidence, is_ready)
    steps = max(2 * last, 2 * int(np.ceil(_memory(evidence))), FEWEST_STEPS)
    while not (_ask(evidence, norm, len(evidence.trace.steps) - 1, steps) > 0).any():
        if not is_proved(evidence) or steps > FURTHEST * last:
            return (
                "no number of steps can be given, for the theorem has no rate with known constants so early"
            )
        steps *= 2
    return steps - last


def _bound(evidence: Evidence, norm: Norm) -> ApproachBounds:
    """The share of the best margin that is asked of each trial."""
    asked = _ask(evidence, norm, evidence.middle, int(evidence.trace.steps[-1]))
    among = asked > 0
    if not is_proved(evidence) and not isinstance(evidence.trace.step, GradientDescent):
        share = evidence.once(FINDERS[norm]).share[-1]
        among &= ~((share > 0) & (share < asked))  # a share may fall for long before it rises to its limit
    return ApproachBounds(asked, among)


def _ask(evidence: Evidence, norm: Norm, record: int, steps: int) -> Float64:
    """The share that is asked of each trial after so many steps, from where it was at a record."""
    margins = evidence.once(FINDERS[norm])
    asked = np.full(evidence.trace.n_trials, -np.inf)
    for trial in np.flatnonzero(find_ordered(evidence) & np.isfinite(margins.best)):
        if is_proved(evidence):
            asked[trial] = _prove(evidence, margins, int(trial), record, steps) - ROUNDING
        elif isinstance(evidence.trace.step, GradientDescent):
            asked[trial] = _expect(evidence, margins, int(trial)) - ROUNDING
        else:
            asked[trial] = margins.share[record, trial] - WOBBLE
    return asked


def _prove(evidence: Evidence, margins: Margins, trial: int, record: int, steps: int) -> float:
    """What steepest descent must reach after so many steps, from where it was at a record."""
    trace = evidence.trace
    contexts = evidence.target.contexts[trial]
    count, left = len(contexts.bags.samples), float(evidence.curves.missed[record, trial])
    surprise = -np.log1p(-count * left) if count * left < 0.5 else count * float(trace.losses[record, trial])
    step = trace.step
    paces = list_paces(
        float(cast("Any", step).step_size),
        getattr(step, "schedule", None),
        int(trace.steps[record]),
        steps,
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
    """The share that the computed way of plain descent has at half of the steps, if it closes in."""
    way, table = evidence.once(compute_way), evidence.trace.embeddings[trial]
    if not way.known[trial]:
        return -np.inf
    components, weights = evidence.automata[trial].components, way.weights[:, trial]
    reach, error = find_reach(components, table, margins.norm), float(way.error[trial])
    margin = read_differences(components, table, weights).min(axis=1) - reach * error
    share: Float64 = margin / (measure_norm(weights, margins.norm) + error) / margins.best[trial]
    return float(share[0]) if share[-1] >= share[0] else -np.inf


BOUNDERS: dict[Norm, Callable[[Evidence], ApproachBounds]] = {
    norm: partial(_bound, norm=norm) for norm in NORMS
}
"""Each says what is asked in one norm, once for each evidence."""


def judge_margin(evidence: Evidence, norm: Norm) -> Judgement:
    """margin(W)/‖W‖ → the best margin in this norm."""
    share, bounds = evidence.once(FINDERS[norm]).share[-1], evidence.once(BOUNDERS[norm])
    worst = find_worst(bounds.asked - share, bounds.among)
    reached = bounds.among & (share >= bounds.asked)
    left = int((~bounds.among).sum())
    how = "what the run had at half of the steps"
    if is_proved(evidence):
        how = "what such steps must reach from where the run was at half of them"
    elif isinstance(evidence.trace.step, GradientDescent):
        how = "that of the computed way at half of the steps"
    return Judgement(
        float(share[worst]),
        float(bounds.asked[worst]),
        bool(reached[worst]),
        f"share of the best margin in the {norm} norm at the end (trial {worst}); bound: {how}; "
        f"{int(reached.sum())} of {int(bounds.among.sum())} trials reach theirs"
        + f"; trials not judged: {left}"
        * bool(left),
    )


def _need_sound_way(evidence: Evidence) -> str:
    """Plain descent is below the edge of stability, and its way is known."""
    plain = isinstance(evidence.trace.step, GradientDescent) and not evidence.normalized
    return (need_stable_step(evidence) or need_way(evidence)) if plain else ""


def _claim(norm: Norm) -> Claim[Evidence]:
    def of_norm(need: Callable[[Evidence, Norm], str]) -> Callable[[Evidence], str]:
        return lambda evidence: need(evidence, norm)

    assumptions = (
        need_log_loss,
        need_mass_head,
        of_norm(need_own_norm),
        need_start,
        need_direction,
        need_moving,
        of_norm(need_rule),
        of_norm(need_small_epsilon),
        of_norm(need_order),
        _need_sound_way,
        need_records,
        of_norm(need_best),
        of_norm(need_short_paces),
    )
    return Claim(
        f"margin-{norm}",
        assumptions,
        partial(judge_margin, norm=norm),
        (need_steps, of_norm(need_memory), of_norm(need_reached)),
        partial(forecast_margin, norm=norm),
    )


MARGIN_CLAIMS = tuple(_claim(norm) for norm in NORMS)
"""One claim for each norm; a run has one optimiser, and so at most one of them applies."""
