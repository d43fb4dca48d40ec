"""Judge claims about the beginning of training (arXiv 2601.19208) on runs of deep models.

If a model starts near zero, four statistics of its corpus determine its first steps, so its weights can be
forecast. Four claims compare the errors of this forecast with the theorem's bounds. Two were found by
measuring: W points along its forecast at first, and turns away after the steps that the theorem covers.
"""

# `verify_beginning` judges the six claims on a run that was compared with the forecast (an `Agreement`).
# The forecast of each kind of weights, by its name, is a number that grows with the step times a statistic:
#
# - "output": W_O, the readout ∝ B̄, how often each token follows each, centred;
# - "values": V ∝ Φ̄ᵀB̄ᵀ, with Φ̄, the share of each token in the contexts of each next token, centred;
# - "attention": W, attention by content ∝ Q̄, what each query gains first from attending to each key;
# - "positions": P, attention by position ∝ Δ, what is gained first from attending at each lag.
#
# Arrays: `near[name].cosine` and `.error` have the axes (n_records, n_trials, n_layers, n_heads). `turns`,
# the step at which cos(W, Q̄) falls below AWAY (NaN if never), has (n_trials, n_layers, n_heads). `fallen`,
# the relative fall of the loss since the start, and all masks of records have (n_records, n_trials).

from functools import partial

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.claims.agreement import AWAY, Agreement, Near, compare_beginning
from attomaton.claims.verdicts import Claim, Judgement, Verdict, Verdicts, VerdictStatus
from attomaton.theories.beginning.theorem import WEIGHT_SIGNS, Coefficients
from attomaton.training.steps import GradientDescent
from attomaton.training.trace import DeepTrace

# The smallest cos(W, Q̄) of every layer while the loss has hardly fallen.
NEAR_COSINE = 0.98

# The relative fall up to which the loss has hardly fallen.
FALLEN = 0.05

# The smallest cosine of W and its course.
LEAST_COSINE = 0.8

# The relative fall of the loss up to which the course is judged.
FOLLOWED = 0.4

# The first step after which the forecast of W is not zero.
FIRST_STEP = 3

# Initial weights of this share of the forecast no longer hide it.
FADED = 0.1


def verify_beginning(run: DeepTrace | Agreement) -> Verdicts:
    """Test a run of a deep model against every claim about the beginning of training.

    Examples
    --------
    >>> import attomaton as at
    >>> corpus = np.random.default_rng(0).integers(0, 600, (60, 7))
    >>> verify_beginning(at.train_deep(corpus, steps=8, step=0.02, n_tokens=600))[0].status.words
    'holds'
    """
    agreement = run if isinstance(run, Agreement) else compare_beginning(run)
    return Verdicts(claim.check(agreement) for claim in BEGINNING_CLAIMS)


def _need_plain_descent(agreement: Agreement) -> str:
    step = agreement.trace.step
    plain = isinstance(step, GradientDescent) and not (step.normalized or step.momentum or step.schedule)
    return "" if plain else f"the forecast is for plain gradient descent, not {type(step).__name__}"


def _need_attention_only(agreement: Agreement) -> str:
    model = agreement.trace.model
    if model.hidden is not None:
        return "the theorem covers attention-only models, but this model has a feed-forward layer"
    if not model.positions:
        return "the theorem covers models with relative positions, but this model has none"
    if model.n_heads > 1:
        return (
            f"the theorem covers one head per layer, not {model.n_heads}; heads with equal initial weights "
            "follow this forecast"
        )
    return ""


def _need_zero_start(agreement: Agreement) -> str:
    start = agreement.trace.model.start
    reason = f"the weights start with deviation {start:g}, but the bounds are for a start at zero"
    return reason if start else ""


def _need_promise(agreement: Agreement) -> str:
    if len(_promised(agreement)):
        return ""
    after = [bounds for bounds, step in zip(agreement.bounds, agreement.trace.steps, strict=True) if step]
    return "; ".join(after[0].reasons) if after else "no step was taken"


# The records after the start that the theorem covers.
def _promised(agreement: Agreement) -> list[int]:
    steps = agreement.trace.steps
    return [record for record, bounds in enumerate(agreement.bounds) if bounds.hold and steps[record]]


def _judge_bound(name: str, agreement: Agreement) -> Judgement:
    # the errors of the weights `name`, the largest of all trials, layers and heads at each record, against
    # the bounds of the theorem
    records = _promised(agreement)
    errors = agreement.near[name].error[records].reshape(len(records), -1).max(axis=1)
    bounds = np.array([getattr(agreement.bounds[record], name) for record in records], np.float64)
    worst = int((errors / bounds).argmax())
    error = f"Frobenius error of {WEIGHT_SIGNS[name]} at step {agreement.trace.steps[records[worst]]:,}"
    meaning = f"{error}, where it is largest relative to its bound"
    return Judgement(float(errors[worst]), float(bounds[worst]), bool((errors <= bounds).all()), meaning)


# Whether W has moved and outgrown its start, and the loss has hardly fallen: (n_records, n_trials).
def _early(agreement: Agreement) -> Bool:
    trace = agreement.trace
    has_moved = np.isfinite(agreement.near["attention"].cosine).all(axis=(2, 3))  # NaN while W is zero
    norms = [float(np.linalg.norm(beginning.statistics.look_table)) for beginning in agreement.beginnings]
    factors = [Coefficients.at(step, trace.step_size).attention for step in trace.steps.tolist()]
    # the norm of the forecast of W, compared with that of its random start of deviation `start`
    outgrows_start = np.outer(factors, norms) * FADED >= trace.model.start * trace.n_tokens
    return has_moved & (agreement.fallen <= FALLEN) & (trace.steps >= FIRST_STEP)[:, None] & outgrows_start


def _need_early_records(agreement: Agreement) -> str:
    if _early(agreement).any():
        return ""
    return (
        f"at no record W has outgrown its start while the loss has fallen by at most {100 * FALLEN:g} %; "
        "record more often, or use smaller steps or smaller initial weights"
    )


def _judge_direction(agreement: Agreement) -> Judgement:
    least = float(agreement.near["attention"].cosine.min(axis=(2, 3))[_early(agreement)].min())
    meaning = f"smallest cos(W, Q̄) of any layer while the loss has fallen by at most {100 * FALLEN:g} %"
    return Judgement(least, NEAR_COSINE, least >= NEAR_COSINE, meaning)


def _need_turn(agreement: Agreement) -> str:
    any_turns = np.isfinite(agreement.turns).any()
    return "" if any_turns else f"cos(W, Q̄) stays above {AWAY:g} in every layer to the end of the run"


def _judge_turning(agreement: Agreement) -> Judgement:
    first = float(np.nanmin(agreement.turns))
    until = agreement.beginnings[0].valid_until(
        agreement.trace.step_size, n_layers=agreement.trace.model.n_layers
    )
    # (n_layers, n_trials · n_heads)
    by_layer = agreement.turns.transpose(1, 0, 2).reshape(agreement.trace.model.n_layers, -1)
    layers = ", ".join(_median(of_layer) for of_layer in by_layer)
    meaning = (
        f"first step at which cos(W, Q̄) of a layer falls below {AWAY:g} (median by layer: {layers}); "
        "bound: the last step that the theorem covers"
    )
    return Judgement(first, float(until), first > until, meaning)


def _median(steps: Float64) -> str:
    # the median step at which a layer turns, over trials and heads; if some do not turn, how many do
    finite = steps[np.isfinite(steps)]
    return f"{np.median(finite):.1f}" if len(finite) == len(steps) else f"{len(finite)} of {len(steps)} turn"


def _need_two_layers(agreement: Agreement) -> str:
    layers = agreement.trace.model.n_layers
    reason = f"the forecast course is computed for at most two layers, not {layers}"
    return reason if layers > 2 else ""


# Not among BEGINNING_CLAIMS, which judge an agreement alone: the course of a run must be computed first,
# which takes as long as a short training. The experiment `beginning-turn` does so.
def judge_course(agreement: Agreement, near: Near) -> Verdict:
    """Judge W by its course at the last record at which the loss has fallen by at most ``FOLLOWED``.

    ``near`` compares W with its course (:func:`.agreement.compare_course`).
    """
    needs = (_need_plain_descent, _need_attention_only, _need_zero_start, _need_two_layers)
    missing = next(filter(None, (need(agreement) for need in needs)), "")
    name = "beginning-course"
    followed = f"{100 * FOLLOWED:g} %"
    early = np.isfinite(near.cosine).all(axis=(2, 3)) & (agreement.fallen <= FOLLOWED)
    if missing or not early.any(axis=0).all():
        reason = missing or f"at no record W has moved while the loss has fallen by at most {followed}"
        return Verdict(name, VerdictStatus.NOT_APPLICABLE, None, None, reason)
    cosines = near.cosine.min(axis=(2, 3))
    last = len(early) - 1 - early[::-1].argmax(axis=0)  # the last early record of each trial
    end = float(cosines[last, np.arange(len(last))].min())
    step = agreement.trace.steps[last.max()]
    least = cosines[early].min()
    meaning = (
        f"cosine of W and its forecast course in the worst layer at step {step:,}, the last record whose "
        f"loss has fallen by at most {followed}; up to this step the cosine is at least {least:.2f}"
    )
    return Judgement(end, LEAST_COSINE, end >= LEAST_COSINE, meaning).about(name)


_THEOREM = (_need_plain_descent, _need_attention_only, _need_zero_start, _need_promise)

# The theorem's four bounds, and two observations about W beyond them.
BEGINNING_CLAIMS: tuple[Claim[Agreement], ...] = (
    *(Claim(f"beginning-{name}", _THEOREM, partial(_judge_bound, name)) for name in WEIGHT_SIGNS),
    Claim("beginning-direction", (_need_plain_descent, _need_early_records), _judge_direction),
    Claim("beginning-turn", (_need_plain_descent, _need_turn), _judge_turning),
)
