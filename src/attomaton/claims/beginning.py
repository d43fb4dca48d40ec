"""Claims about the beginning of training (arXiv 2601.19208), judged on runs of deep models.

In the first steps every layer's weights follow the corpus: W_O ∝ B̄, V ∝ Φ̄ᵀB̄ᵀ, W ∝ Q̄, P ∝ Δ. Four claims hold
their errors against the theorem's bounds where it speaks; two more were found by measuring: as long as the
loss has fallen by a twentieth at most, W points along Q̄, and it turns away from Q̄ only after the steps that
the theorem speaks of.
"""

from typing import Any

import numpy as np

from attomaton.base.tables import Float64
from attomaton.claims.agreement import TURNED, Agreement, Near, compare_beginning
from attomaton.claims.verdicts import Claim, Judgement, Verdict, Verdicts, VerdictStatus
from attomaton.theories.beginning.theorem import WEIGHTS, Coefficients
from attomaton.training.steps import GradientDescent
from attomaton.training.trace import DeepTrace

NEAR = 0.98
"""The least cos(W, Q̄) of every layer while the loss has hardly fallen."""

FALLEN = 0.05
"""The share of its start by which the loss has hardly fallen."""

ALONG = 0.8
"""The least cosine of W and its course."""

FOLLOWED = 0.4
"""The share of its start by which the loss may have fallen then."""

FIRST = 3
"""The first step after which the forecast of W is not zero."""

FADED = 0.1
"""A start that is this share of the forecast no longer hides it."""


def verify_beginning(run: DeepTrace | Agreement) -> Verdicts:
    """Hold a run of a deep model against every claim about the beginning of training.

    Examples
    --------
    >>> import attomaton as at
    >>> corpus = np.random.default_rng(0).integers(0, 600, (60, 7))
    >>> verdicts = verify_beginning(at.train_deep(corpus, steps=8, step=0.02, n_tokens=600))
    >>> [(one.claim, one.status.value) for one in verdicts][:4]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('beginning-attention', 'holds'), ('beginning-positions', 'holds'),
     ('beginning-values', 'holds'), ('beginning-output', 'holds')]
    """
    agreement = run if isinstance(run, Agreement) else compare_beginning(run)
    return Verdicts(claim.check(agreement) for claim in CLAIMS)


def _need_plain_descent(agreement: Agreement) -> str:
    step = agreement.trace.step
    plain = isinstance(step, GradientDescent) and not (step.normalized or step.momentum or step.schedule)
    return "" if plain else f"the forecast is of plain gradient descent, and this is {type(step).__name__}"


def _need_attention_only(agreement: Agreement) -> str:
    model = agreement.trace.model
    if model.hidden is not None:
        return "the theorem is of attention alone, and this model has a feed-forward part"
    if not model.positions:
        return "the theorem is of a model with relative positions, and this one has none"
    if model.n_heads > 1:
        return "the theorem is of one head; several that start equal stay equal, each with this forecast"
    return ""


def _need_zero_start(agreement: Agreement) -> str:
    start = agreement.trace.model.start
    told = f"the weights start Gaussian with deviation {start:g}, and the bounds are held against zero starts"
    return told if start else ""


def _need_promise(agreement: Agreement) -> str:
    """Some record after the start is inside the theorem's range."""
    if len(_promised(agreement)):
        return ""
    after = [one for one, step in zip(agreement.bounds, agreement.trace.steps, strict=True) if step]
    return "; ".join(after[0].reasons) if after else "no step was taken"


def _promised(agreement: Agreement) -> list[int]:
    """The records after the start that the theorem speaks of."""
    steps = agreement.trace.steps
    return [place for place, one in enumerate(agreement.bounds) if one.hold and steps[place]]


def _judge_bound(name: str, agreement: Agreement) -> Judgement:
    """The record whose error is the largest share of its bound."""
    places = _promised(agreement)
    errors = agreement.near[name].error[places].reshape(len(places), -1).max(axis=1)
    told: list[float] = [getattr(agreement.bounds[place], name) for place in places]
    bounds = np.array(told)
    worst = int((errors / bounds).argmax())
    sign, step = WEIGHTS[name], agreement.trace.steps[places[worst]]
    meaning = f"Frobenius error of {sign} at step {step:,}, the nearest to its bound of all layers and steps"
    return Judgement(float(errors[worst]), float(bounds[worst]), bool((errors <= bounds).all()), meaning)


def _early(agreement: Agreement) -> Any:
    """The records and trials, shape (n_records, n_trials), at which the forecast should be seen.

    W has moved, the loss has fallen by a twentieth at most, and the forecast is ten times the start.
    """
    trace = agreement.trace
    moved = np.isfinite(agreement.near["attention"].cosine).all(axis=(2, 3))
    grown = _forecast_norms(agreement) * FADED >= trace.model.start * trace.n_tokens
    return moved & (agreement.fallen <= FALLEN) & (trace.steps >= FIRST)[:, None] & grown


def _forecast_norms(agreement: Agreement) -> Float64:
    """The norm that is forecast for W, shape (n_records, n_trials)."""
    steps, size = agreement.trace.steps.tolist(), agreement.trace.step_size
    looks = [float(np.linalg.norm(one.statistics.look_table)) for one in agreement.beginnings]
    return np.outer([Coefficients.at(step, size).attention for step in steps], looks)


def _need_early_records(agreement: Agreement) -> str:
    if _early(agreement).any():
        return ""
    return (
        "no record has a W that has outgrown its start and a loss that has fallen by at most 5 %; record "
        "more often, or take smaller steps or a smaller start"
    )


def _judge_direction(agreement: Agreement) -> Judgement:
    least = float(agreement.near["attention"].cosine.min(axis=(2, 3))[_early(agreement)].min())
    meaning = "least cos(W, Q̄) of any layer while the loss has fallen by at most 5 % of its start"
    return Judgement(least, NEAR, least >= NEAR, meaning)


def _need_turn(agreement: Agreement) -> str:
    turned = np.isfinite(agreement.turns).any()
    return "" if turned else f"cos(W, Q̄) stays above {TURNED:g} in every layer to the end of the run"


def _judge_turn(agreement: Agreement) -> Judgement:
    first = float(np.nanmin(agreement.turns))
    until = agreement.beginnings[0].valid_until(
        agreement.trace.step_size, n_layers=agreement.trace.model.n_layers
    )
    by_layer = agreement.turns.transpose(1, 0, 2).reshape(agreement.trace.model.n_layers, -1)
    layers = ", ".join(_median(one) for one in by_layer)
    meaning = (
        f"first step at which cos(W, Q̄) of a layer falls below {TURNED:g} (median by layer: {layers}); the "
        "bound is the last step that the theorem speaks of"
    )
    return Judgement(first, float(until), first > until, meaning)


def _median(steps: Float64) -> str:
    found = steps[np.isfinite(steps)]
    return f"{np.median(found):.1f}" if len(found) == len(steps) else f"{len(found)} of {len(steps)} turn"


def _need_two_layers(agreement: Agreement) -> str:
    layers = agreement.trace.model.n_layers
    told = f"a course follows what one layer reads of another, and {layers} layers read through each other"
    return told if layers > 2 else ""


def judge_course(agreement: Agreement, near: Near) -> Verdict:
    """Whether W is along :func:`~attomaton.theories.beginning.course.follow_course` late in the run.

    What is judged is the last record at which the loss has fallen by at most 40 % of its start; how near W
    was on the way is told, too. Where a layer turns fast, a course that is a step ahead is far off for a
    while.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.theories.beginning.course import follow_course
    >>> from attomaton.claims.agreement import compare_course
    >>> corpus = np.random.default_rng(0).integers(0, 5, (40, 7))
    >>> trace = at.train_deep(corpus, step=1.0, steps=30)
    >>> near = compare_course(trace, follow_course(corpus, 5, step_size=1.0, steps=30))
    >>> judge_course(compare_beginning(trace), near["attention"]).status.value
    'holds'
    """
    needs = (_need_plain_descent, _need_attention_only, _need_zero_start, _need_two_layers)
    missing = next(filter(None, (need(agreement) for need in needs)), "")
    name = "beginning-course"
    told = np.isfinite(near.cosine).all(axis=(2, 3)) & (agreement.fallen <= FOLLOWED)
    if missing or not told.any(axis=0).all():
        reason = missing or "W has not moved by a record at which the loss has fallen by at most 40 %"
        return Verdict(name, VerdictStatus.NOT_APPLICABLE, None, None, reason)
    cosines = near.cosine.min(axis=(2, 3))
    last = len(told) - 1 - told[::-1].argmax(axis=0)
    end = float(cosines[last, np.arange(len(last))].min())
    step, least = agreement.trace.steps[last.max()], cosines[told].min()
    meaning = (
        f"cosine of W and its course, of the worst layer, at step {step:,}, the last record with a loss that "
        f"has fallen by at most 40 %; on the way it was {least:.2f} or more"
    )
    return Judgement(end, ALONG, end >= ALONG, meaning).about(name)


_THEOREM = (_need_plain_descent, _need_attention_only, _need_zero_start, _need_promise)


def _bound_claim(name: str) -> Claim[Agreement]:
    return Claim(f"beginning-{name}", _THEOREM, lambda agreement: _judge_bound(name, agreement))


CLAIMS: tuple[Claim[Agreement], ...] = (
    *(_bound_claim(name) for name in WEIGHTS),
    Claim("beginning-direction", (_need_plain_descent, _need_early_records), _judge_direction),
    Claim("beginning-turn", (_need_plain_descent, _need_turn), _judge_turn),
)
"""The theorem's four bounds, and what was measured of W beyond them."""
