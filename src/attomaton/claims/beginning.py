"""Claims about the beginning of training (arXiv 2601.19208), judged on runs of deep models.

In the first steps every layer's weights follow the corpus: W_O ∝ B̄, V ∝ Φ̄ᵀB̄ᵀ, W ∝ Q̄, P ∝ Δ. Four claims
compare their errors with the theorem's bounds where it applies; two more were found by measuring: while the
loss has fallen by at most a twentieth, W points along Q̄, and it turns away from Q̄ only after the steps
that the theorem covers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.errors import MismatchedParts
from attomaton.base.frames import Tabular
from attomaton.base.tables import Float64, Int64, make_table
from attomaton.claims.verdicts import Claim, Judgement, Verdict, Verdicts, VerdictStatus
from attomaton.theories.beginning.course import ForecastCourse
from attomaton.theories.beginning.result import Beginning
from attomaton.theories.beginning.statistics import find_statistics
from attomaton.theories.beginning.theorem import WEIGHT_SIGNS, Coefficients, TheoremBounds
from attomaton.training.steps import GradientDescent
from attomaton.training.trace import DeepTrace

AGREEMENT_SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("step", "trial")),
        ("weights", pa.string()),
        *((name, pa.int64()) for name in ("layer", "head")),
        *((name, pa.float64()) for name in ("cosine", "size", "error", "bound")),
    ]
)
AWAY = 0.5
"""Attention has turned away if cos(W, Q̄) is below this."""

NEAR_COSINE = 0.98
"""The smallest cos(W, Q̄) of every layer while the loss has hardly fallen."""

FALLEN = 0.05
"""The relative fall up to which the loss has hardly fallen."""

LEAST_COSINE = 0.8
"""The smallest cosine of W and its course."""

FOLLOWED = 0.4
"""The relative fall of the loss up to which the course is judged."""

FIRST_STEP = 3
"""The first step after which the forecast of W is not zero."""

FADED = 0.1
"""Initial weights of this share of the forecast no longer hide it."""


@dataclass(frozen=True, eq=False)
class Near:
    """How near one kind of weights is to its forecast; each array has shape (n_records, n_trials, L, H).

    ``cosine`` is that of weights and forecast, NaN if either is zero; ``size`` the norm of the weights / that
    of the forecast, NaN if that is zero; ``error`` the Frobenius norm of their difference.
    """

    cosine: Float64
    size: Float64
    error: Float64


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(Tabular):
    """A run of a deep model compared with the forecast from its corpora, record by record.

    Attributes
    ----------
    trace : DeepTrace
        The run.
    beginnings : tuple of Beginning
        The forecast from each trial's corpus.
    near : dict of str to Near
        ``"attention"`` (W), ``"positions"`` (P), ``"values"`` (V), ``"output"`` (W_O, with a single layer and
        head axis).
    """

    trace: DeepTrace
    beginnings: tuple[Beginning, ...]
    near: dict[str, Near]

    def __repr__(self) -> str:
        return repr(self.trace).replace("DeepTrace", "Agreement", 1)

    @cached_property
    def bounds(self) -> list[TheoremBounds]:
        """The theorem's bounds at each record, from the first trial, since all have the same sizes."""
        model, start = self.trace.model, "small" if self.trace.model.start else "zero"
        return [
            self.beginnings[0].bounds_at(step, self.trace.step_size, n_layers=model.n_layers, start=start)
            for step in self.trace.steps.tolist()
        ]

    @cached_property
    def fallen(self) -> Float64:
        """The relative fall of the loss since the start, shape (n_records, n_trials)."""
        return 1 - self.trace.losses / self.trace.losses[0]

    @cached_property
    def turns(self) -> Float64:
        """The step at which cos(W, Q̄) falls below ½, shape (n_trials, L, H); NaN if it does not."""
        return find_crossings(self.trace.steps, self.near["attention"].cosine, AWAY)

    def _table(self) -> pa.Table:
        columns: dict[str, list[Any]] = {name: [] for name in AGREEMENT_SCHEMA.names}
        for name, near in self.near.items():
            record, trial, layer, head = (axis.ravel() for axis in np.indices(near.cosine.shape))
            bounds = np.array([getattr(bound, name) for bound in self.bounds])
            measured = {kind: getattr(near, kind).ravel() for kind in ("cosine", "size", "error")}
            indices = {"step": self.trace.steps[record], "trial": trial, "layer": layer, "head": head}
            entries = {
                **indices,
                **measured,
                "weights": [WEIGHT_SIGNS[name]] * record.size,
                "bound": bounds[record],
            }
            for column, values in entries.items():
                columns[column].extend(values)
        return make_table(AGREEMENT_SCHEMA, columns)


def find_crossings(steps: Int64, values: Float64, level: float) -> Float64:
    """Where curves that were above a level first fall below it, by linear interpolation between records.

    Parameters
    ----------
    steps : int64 array, shape (n_records,)
        The steps of the records.
    values : float64 array, shape (n_records, …)
        The curves; NaN is neither above nor below.
    level : float
        The level.

    Returns
    -------
    float64 array, shape (…)
        NaN if a curve does not fall below.
    """
    below = (values < level) & np.maximum.accumulate(values >= level, axis=0)
    last = below.argmax(axis=0)
    first = np.maximum(last - 1, 0)
    high, low = (np.take_along_axis(values, record[None], 0)[0] for record in (first, last))
    fell = below.any(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(fell & (high >= level), (high - level) / (high - low), 1.0)
    return np.where(fell, steps[first] + share * (steps[last] - steps[first]), np.nan)


def begin_from(sequences: Int64, n_tokens: int) -> Beginning:
    """The forecast from sequences, shape (n_sequences, window + 1); each sequence is one document.

    Examples
    --------
    >>> begin_from(np.array([[0, 1, 0], [1, 1, 0]]), 2)
    Beginning(2 sequences of 2 tokens, vocabulary of 2)
    """
    return Beginning(find_statistics(sequences, window=sequences.shape[1] - 1, n_tokens=n_tokens))


def compare_beginning(
    trace: DeepTrace, beginnings: Beginning | Sequence[Beginning] | None = None
) -> Agreement:
    """Compare every recorded weight of a run with its forecast.

    Parameters
    ----------
    trace : DeepTrace
        The run.
    beginnings : Beginning or sequence of Beginning, optional
        The forecast from the corpus of all trials, or one for each trial; computed from the sequences of the
        trace if not given.

    Examples
    --------
    >>> import attomaton as at
    >>> trace = at.train_deep(np.random.default_rng(0).integers(0, 5, (40, 7)), step=0.1, steps=10)
    >>> compare_beginning(trace).near["values"].size[-1].round(1).tolist()
    [[[1.0]]]
    """
    if beginnings is None:
        corpora = {rows.tobytes(): rows for rows in trace.sequences}
        distinct = {content: begin_from(rows, trace.n_tokens) for content, rows in corpora.items()}
        beginnings = [distinct[rows.tobytes()] for rows in trace.sequences]
    forecasts = [beginnings] * trace.n_trials if isinstance(beginnings, Beginning) else list(beginnings)
    sizes = {(forecast.statistics.window, forecast.statistics.n_tokens) for forecast in forecasts}
    if len(forecasts) != trace.n_trials or sizes != {(trace.window, trace.n_tokens)}:
        raise MismatchedParts(
            f"the run has {trace.n_trials} trials with sequences of {trace.window} tokens, vocabulary "
            f"{trace.n_tokens}, but the forecasts have other sizes; give one Beginning of that corpus"
        )
    at = {
        step: [forecast.weights_at(step, trace.step_size) for forecast in forecasts]
        for step in trace.steps.tolist()
    }
    return Agreement(trace, tuple(forecasts), _measure_all(trace, at))


def compare_course(trace: DeepTrace, courses: ForecastCourse | Sequence[ForecastCourse]) -> dict[str, Near]:
    """Compare every recorded weight of a run with a forecast course at the same records.

    Parameters
    ----------
    trace : DeepTrace
        The run.
    courses : ForecastCourse or sequence of ForecastCourse
        One for all trials, or one per trial (:func:`~attomaton.theories.beginning.course.follow_course`).

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.theories.beginning.course import follow_course
    >>> corpus = np.random.default_rng(0).integers(0, 5, (40, 7))
    >>> trace = at.train_deep(corpus, at.DeepModel(n_layers=2), 1.0, steps=30)
    >>> near = compare_course(trace, follow_course(corpus, 5, step_size=1.0, steps=30, n_layers=2))
    >>> near["attention"].cosine[-1].min() > 0.99
    np.True_
    """
    forecasts = [courses] * trace.n_trials if isinstance(courses, ForecastCourse) else list(courses)
    shape = (trace.model.n_layers, trace.n_tokens, trace.n_tokens)
    fits = all(
        forecast.step_size == trace.step_size and forecast.weights[0].attention.shape == shape
        for forecast in forecasts
    )
    if len(forecasts) != trace.n_trials or not fits:
        raise MismatchedParts(
            "the courses do not match the trace in trials, sizes or step size; compute them for this trace"
        )
    return _measure_all(
        trace, {step: [forecast.at(step) for forecast in forecasts] for step in trace.steps.tolist()}
    )


def _measure_all(trace: DeepTrace, forecasts: Mapping[int, Sequence[Any]]) -> dict[str, Near]:
    """Cosine, size and error at all records, for forecasts by step and trial."""
    weights = {step: trace.at(step) for step in forecasts}
    near: dict[str, Near] = {}
    for name in WEIGHT_SIGNS:
        rows = [
            _measure_weights(
                getattr(weights[step], name), [getattr(forecast, name) for forecast in forecasts[step]], name
            )
            for step in forecasts
        ]
        near[name] = Near(*(np.stack(kind) for kind in zip(*rows, strict=True)))
    return near


def _measure_weights(
    weights: Float64, forecasts: Sequence[Float64], name: str
) -> tuple[Float64, Float64, Float64]:
    """Cosine, size and error, shape (n_trials, L, H); one forecast per layer, or one for all."""
    n_trials = len(weights)
    flat = weights.reshape(n_trials, *((1, 1) if name == "output" else weights.shape[1:3]), -1)
    forecast = np.stack(forecasts).reshape(n_trials, -1, 1, flat.shape[3])
    length, norm = np.linalg.norm(flat, axis=3), np.linalg.norm(forecast, axis=3)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine, size = (flat * forecast).sum(3) / (length * norm), length / norm
    return cosine, size, np.linalg.norm(flat - forecast, axis=3)


def verify_beginning(run: DeepTrace | Agreement) -> Verdicts:
    """Test a run of a deep model against every claim about the beginning of training.

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
    return Verdicts(claim.check(agreement) for claim in BEGINNING_CLAIMS)


def _need_plain_descent(agreement: Agreement) -> str:
    step = agreement.trace.step
    plain = isinstance(step, GradientDescent) and not (step.normalized or step.momentum or step.schedule)
    return "" if plain else f"the forecast is for plain gradient descent, not {type(step).__name__}"


def _need_attention_only(agreement: Agreement) -> str:
    model = agreement.trace.model
    if model.hidden is not None:
        return "the theorem covers attention alone, but this model has a feed-forward layer"
    if not model.positions:
        return "the theorem covers models with relative positions, but this one has none"
    if model.n_heads > 1:
        return (
            "the theorem covers one head per layer; heads that start equal stay equal, and each follows this "
            "forecast"
        )
    return ""


def _need_zero_start(agreement: Agreement) -> str:
    start = agreement.trace.model.start
    reason = f"the weights start Gaussian with deviation {start:g}, but the bounds are for a start at zero"
    return reason if start else ""


def _need_promise(agreement: Agreement) -> str:
    """Some record after the start is inside the theorem's range."""
    if len(_promised(agreement)):
        return ""
    after = [bounds for bounds, step in zip(agreement.bounds, agreement.trace.steps, strict=True) if step]
    return "; ".join(after[0].reasons) if after else "no step was taken"


def _promised(agreement: Agreement) -> list[int]:
    """The records after the start that the theorem covers."""
    steps = agreement.trace.steps
    return [record for record, bounds in enumerate(agreement.bounds) if bounds.hold and steps[record]]


def _judge_bound(name: str, agreement: Agreement) -> Judgement:
    """The record with the largest error / bound."""
    records = _promised(agreement)
    errors = agreement.near[name].error[records].reshape(len(records), -1).max(axis=1)
    limits: list[float] = [getattr(agreement.bounds[record], name) for record in records]
    bounds = np.array(limits)
    worst = int((errors / bounds).argmax())
    sign, step = WEIGHT_SIGNS[name], agreement.trace.steps[records[worst]]
    meaning = f"Frobenius error of {sign} at step {step:,}, closest to its bound over all layers and steps"
    return Judgement(float(errors[worst]), float(bounds[worst]), bool((errors <= bounds).all()), meaning)


def _early(agreement: Agreement) -> Any:
    """The records and trials, shape (n_records, n_trials), at which the forecast should be visible.

    W has moved, the loss has fallen by at most a twentieth, and the forecast is ten times the start.
    """
    trace = agreement.trace
    moved = np.isfinite(agreement.near["attention"].cosine).all(axis=(2, 3))
    looks = [float(np.linalg.norm(beginning.statistics.look_table)) for beginning in agreement.beginnings]
    sizes = [Coefficients.at(step, trace.step_size).attention for step in trace.steps.tolist()]
    grown = np.outer(sizes, looks) * FADED >= trace.model.start * trace.n_tokens
    return moved & (agreement.fallen <= FALLEN) & (trace.steps >= FIRST_STEP)[:, None] & grown


def _need_early_records(agreement: Agreement) -> str:
    if _early(agreement).any():
        return ""
    return (
        "no record has a W that has outgrown its start and a loss that has fallen by at most 5 %; record "
        "more often, or use smaller steps or a smaller start"
    )


def _judge_direction(agreement: Agreement) -> Judgement:
    least = float(agreement.near["attention"].cosine.min(axis=(2, 3))[_early(agreement)].min())
    meaning = "smallest cos(W, Q̄) of any layer while the loss has fallen by at most 5 % of its start"
    return Judgement(least, NEAR_COSINE, least >= NEAR_COSINE, meaning)


def _need_turn(agreement: Agreement) -> str:
    any_turns = np.isfinite(agreement.turns).any()
    return "" if any_turns else f"cos(W, Q̄) stays above {AWAY:g} in every layer to the end of the run"


def _judge_turning(agreement: Agreement) -> Judgement:
    first = float(np.nanmin(agreement.turns))
    until = agreement.beginnings[0].valid_until(
        agreement.trace.step_size, n_layers=agreement.trace.model.n_layers
    )
    by_layer = agreement.turns.transpose(1, 0, 2).reshape(agreement.trace.model.n_layers, -1)
    layers = ", ".join(_median(of_layer) for of_layer in by_layer)
    meaning = (
        f"first step at which cos(W, Q̄) of a layer falls below {AWAY:g} (median by layer: {layers}); the "
        "bound is the last step that the theorem covers"
    )
    return Judgement(first, float(until), first > until, meaning)


def _median(steps: Float64) -> str:
    finite = steps[np.isfinite(steps)]
    return f"{np.median(finite):.1f}" if len(finite) == len(steps) else f"{len(finite)} of {len(steps)} turn"


def _need_two_layers(agreement: Agreement) -> str:
    layers = agreement.trace.model.n_layers
    reason = f"a course is computed for at most two layers, not {layers}"
    return reason if layers > 2 else ""


def judge_course(agreement: Agreement, near: Near) -> Verdict:
    """Whether W is along :func:`~attomaton.theories.beginning.course.follow_course` late in the run.

    The last record at which the loss has fallen by at most 40 % of its start is judged; the smallest cosine
    before it is reported too. Where a layer turns fast, a course that is one step ahead is far off for a
    while.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.theories.beginning.course import follow_course
    >>> from attomaton.claims.beginning import compare_course
    >>> corpus = np.random.default_rng(0).integers(0, 5, (40, 7))
    >>> trace = at.train_deep(corpus, step=1.0, steps=30)
    >>> near = compare_course(trace, follow_course(corpus, 5, step_size=1.0, steps=30))
    >>> judge_course(compare_beginning(trace), near["attention"]).status.value
    'holds'
    """
    needs = (_need_plain_descent, _need_attention_only, _need_zero_start, _need_two_layers)
    missing = next(filter(None, (need(agreement) for need in needs)), "")
    name = "beginning-course"
    early = np.isfinite(near.cosine).all(axis=(2, 3)) & (agreement.fallen <= FOLLOWED)
    if missing or not early.any(axis=0).all():
        reason = missing or "at every record W has not moved, or the loss has fallen by more than 40 %"
        return Verdict(name, VerdictStatus.NOT_APPLICABLE, None, None, reason)
    cosines = near.cosine.min(axis=(2, 3))
    last = len(early) - 1 - early[::-1].argmax(axis=0)
    end = float(cosines[last, np.arange(len(last))].min())
    step, least = agreement.trace.steps[last.max()], cosines[early].min()
    meaning = (
        f"cosine of W and its course in the worst layer at step {step:,}, the last record whose loss has "
        f"fallen by at most 40 %; up to this step the cosine is at least {least:.2f}"
    )
    return Judgement(end, LEAST_COSINE, end >= LEAST_COSINE, meaning).about(name)


_THEOREM = (_need_plain_descent, _need_attention_only, _need_zero_start, _need_promise)


BEGINNING_CLAIMS: tuple[Claim[Agreement], ...] = (
    *(Claim(f"beginning-{name}", _THEOREM, partial(_judge_bound, name)) for name in WEIGHT_SIGNS),
    Claim("beginning-direction", (_need_plain_descent, _need_early_records), _judge_direction),
    Claim("beginning-turn", (_need_plain_descent, _need_turn), _judge_turning),
)
"""The theorem's four bounds, and two observations about W beyond them."""
