"""Judge margins: each optimiser maximises the margin in its own norm, on data without cycles.

Directions are not judged: the W of largest margin in the max norm or the spectral norm is not unique.
:mod:`~attomaton.claims.margin_bounds` computes what a run must reach.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.printing import count_noun
from attomaton.claims import margin_bounds
from attomaton.claims.approach import need_bound, need_known_path
from attomaton.claims.evidence import (
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
from attomaton.claims.margin_bounds import find_last_scale, find_margins, find_ordered, is_proved
from attomaton.claims.margins import MARGIN_NORMS, MOST_NORM_DIMENSIONS, Norm, own_norm
from attomaton.claims.verdicts import Claim, Judgement
from attomaton.training.steps import Adam, GradientDescent

# ε of Adam is small if it is below this share of the attention outside the highest component.
SMALL_EPSILON = 1e-3


def need_moving(evidence: Evidence) -> str:
    """Condition: weights are finite, and the run ended before rounding hid the gradient."""
    lost = find_lost_digits(evidence)
    if lost.broken or (lost.missed >= lost.least).all():
        return lost.broken
    return (
        f"at the end only {lost.missed.min():.0e} of the attention is outside the highest component, and "
        "rounding hides such small gradients: use fewer steps"
    )


def need_covered_steps(evidence: Evidence) -> str:
    """Condition: steepest or plain gradient descent, or another optimiser whose steps shrink."""
    step = evidence.trace.step
    try:
        first = margin_bounds.list_step_sizes(1.0, getattr(step, "schedule", None), 0, 1)[0]
        last = find_last_scale(evidence)
    except UnsupportedOption as problem:  # only the name of the schedule is stored
        return str(problem)
    missing = need_descent(evidence)
    if is_proved(evidence) or not missing:
        return ""
    if isinstance(step, GradientDescent):
        return missing
    if last < first:
        return ""
    return (
        f"{type(step).__name__} took steps of constant size, but the theorem requires step sizes that "
        "shrink: use schedule=Decay()"
    )


def need_small_epsilon(evidence: Evidence) -> str:
    """Condition: Adam's ε is small compared with the final gradients."""
    step = evidence.trace.step
    if not isinstance(step, Adam) or not step.epsilon:
        return ""
    missed = float(np.where(evidence.directed, evidence.curves.missed[-1], 1.0).min())
    if step.epsilon <= SMALL_EPSILON * missed:
        return ""
    return (
        f"ε = {step.epsilon:g} is not small compared with the final gradients ({missed:.0e} of the attention "
        "is outside the highest component): use epsilon=0"
    )


def need_order(evidence: Evidence) -> str:
    """Condition: some trial has priorities without a cycle, which its embeddings can meet."""
    if find_ordered(evidence).any():
        return ""
    trial = int(evidence.directed.argmax())
    components = evidence.automata[trial].components
    n_ties = components.nodes.num_rows - len(components)
    ties = f"{count_noun(n_ties, 'tie')} in trial {trial}"
    reason = ties if n_ties else "priorities contradict each other"
    every = f"every trial with a priority has a cycle ({reason})"
    return f"{every}, but the theorem assumes data without cycles"


def need_sound_path(evidence: Evidence) -> str:
    """Condition: plain descent is below the stability limit, and its path is known; other steps pass."""
    plain = isinstance(evidence.trace.step, GradientDescent) and not evidence.normalized
    return (need_stable_step(evidence) or need_known_path(evidence)) if plain else ""


def need_long_run(evidence: Evidence) -> str:
    """Condition: half of the run is longer than the optimiser's running means."""
    window = margin_bounds.count_averaged_steps(evidence)
    half = int(evidence.trace.steps[evidence.middle])
    if half >= window:
        return ""
    return f"the optimiser averages over about {window:,.0f} steps, more than half of the run ({half:,})"


@dataclass(frozen=True)
class MarginClaim:
    """The claim that margin(W)/‖W‖ tends to the best margin in a ``norm``, with conditions on this norm."""

    norm: Norm

    def claim(self) -> Claim[Evidence]:
        """The claim with its assumptions; some of them report the measured share if they are not met."""
        assumptions = (
            need_log_loss,
            need_mass_head,
            self.need_own_norm,
            need_start,
            need_direction,
            need_moving,
            self.report_share(need_covered_steps),
            self.report_share(need_small_epsilon),
            self.report_share(need_order),
            need_sound_path,
            need_records,
            self.need_best,
            self.report_share(self.need_short_steps),
        )
        ready = (need_steps, need_long_run, need_bound(margin_bounds.bound_margin, self.norm))
        forecast = partial(margin_bounds.forecast_margin, norm=self.norm)
        return Claim(f"margin-{self.norm}", assumptions, self.judge, ready, forecast)

    def report_share(self, need: Callable[[Evidence], str]) -> Callable[[Evidence], str]:
        # the condition, with the measured share added to its reason

        def need_and_report(evidence: Evidence) -> str:
            reason = need(evidence)
            return reason + self.describe_share(evidence) if reason else ""

        return need_and_report

    def describe_share(self, evidence: Evidence) -> str:
        # the smallest share of the best margin at the end, or an empty text
        share = evidence.once(find_margins, self.norm).share[-1]
        measured = evidence.directed & np.isfinite(share)
        if not measured.any():
            return ""
        least, n_trials = float(share[measured].min()), int(measured.sum())
        worst = f" (the smallest of {n_trials} trials)" if n_trials > 1 else ""
        return f"; measured: {least:.3f} of the best margin in the {self.norm} norm{worst}"

    def need_own_norm(self, evidence: Evidence) -> str:
        """Condition: the optimiser maximises the margin in this norm, and trains W itself."""
        step = evidence.trace.step
        norm = own_norm(step)
        if norm != self.norm:
            return f"{type(step).__name__} maximises the margin in the {norm} norm: see margin-{norm}"
        factored = evidence.trace.model.rank is not None
        return "the theorem is about training W, but here two factors of W were trained" if factored else ""

    def need_best(self, evidence: Evidence) -> str:
        """Condition: the best margin is known in some trial."""
        best = evidence.once(find_margins, self.norm).best
        if np.isfinite(best[find_ordered(evidence)]).any():
            return ""
        n_tokens = evidence.trace.embeddings.shape[1]
        if n_tokens > MOST_NORM_DIMENSIONS:
            return f"the best margin is computed for at most {MOST_NORM_DIMENSIONS} tokens, not {n_tokens:,}"
        return "the best margin was not proved in any trial"

    def need_short_steps(self, evidence: Evidence) -> str:
        """Condition: steps of steepest descent are short enough at the end for some trial's loss to fall."""
        if not is_proved(evidence):
            return ""
        step_size = find_last_scale(evidence) * float(cast("Any", evidence.trace.step).step_size)
        best = evidence.once(find_margins, self.norm).best
        for trial in np.flatnonzero(find_ordered(evidence) & np.isfinite(best)).tolist():
            components, table = evidence.automata[trial].components, evidence.trace.embeddings[trial]
            reach = margin_bounds.find_reach(components, table, self.norm)
            gains = margin_bounds.gains_per_step(np.array([step_size]), best=float(best[trial]), reach=reach)
            if gains[0] >= 0:
                return ""
        return f"nothing is proved about steps of size {step_size:.3g}: use smaller steps"

    def judge(self, evidence: Evidence) -> Judgement:
        share = evidence.once(find_margins, self.norm).share[-1]
        bounds = evidence.once(margin_bounds.bound_margin, self.norm)
        source = "the share of the run at half of the steps"
        if is_proved(evidence):
            source = "the share that these steps are proved to reach from half of the steps on"
        elif isinstance(evidence.trace.step, GradientDescent):
            source = "the share of the computed path at half of the steps"
        meaning = f"share of the best margin in the {self.norm} norm at the end; bound: {source}"
        reached = bounds.judged & (share >= bounds.bound)
        shortfall = np.maximum(bounds.bound, 0.0) - share  # a bound of −inf requires nothing
        return bounds.judge(share, bounds.bound, reached, shortfall, meaning)


# One claim per norm; a run has one optimiser, so at most one of them applies.
MARGIN_CLAIMS = tuple(MarginClaim(norm).claim() for norm in MARGIN_NORMS)
