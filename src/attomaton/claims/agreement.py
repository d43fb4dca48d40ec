"""Compare the weights of a deep model at every record with their forecasts: cosine, size and error.

A forecast is either the theorem's (:func:`compare_beginning`) or a course (:func:`compare_course`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.errors import MismatchedParts
from attomaton.base.frames import Tabular
from attomaton.base.tables import Float64, Int64, make_table
from attomaton.theories.beginning.course import CourseWeights, ForecastCourse
from attomaton.theories.beginning.result import Beginning, EarlyWeights
from attomaton.theories.beginning.statistics import find_statistics
from attomaton.theories.beginning.theorem import WEIGHT_SIGNS, TheoremBounds
from attomaton.training.trace import DeepTrace

AGREEMENT_SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("step", "trial")),
        ("weights", pa.string()),
        *((name, pa.int64()) for name in ("layer", "head")),
        *((name, pa.float64()) for name in ("cosine", "size", "error", "bound")),
    ]
)

# Attention has turned away from the forecast if cos(W, Q̄) is below this.
AWAY = 0.5


@dataclass(frozen=True, eq=False)
class Near:
    """The distance of one kind of weights from its forecast, shape (n_records, n_trials, L, H) each.

    ``cosine`` is the cosine of weights and forecast (NaN if either is zero), ``size`` the norm of the weights
    divided by the norm of the forecast, and ``error`` the Frobenius norm of their difference.
    """

    cosine: Float64
    size: Float64
    error: Float64


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(Tabular):
    """Every recorded weight of the run ``trace`` of a deep model compared with its forecast.

    ``beginnings`` has the forecast from each trial's corpus. ``near`` has the keys ``"attention"`` (W),
    ``"positions"`` (P), ``"values"`` (V) and ``"output"`` (W_O, which has a single layer and head).
    """

    trace: DeepTrace
    beginnings: tuple[Beginning, ...]
    near: dict[str, Near]

    def __repr__(self) -> str:
        return repr(self.trace).replace("DeepTrace", "Agreement", 1)

    @cached_property
    def bounds(self) -> list[TheoremBounds]:
        """The theorem's bounds at each record; they are equal for all trials."""
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
        """The step at which cos(W, Q̄) falls below ½, shape (n_trials, L, H); NaN if it never falls below."""
        return find_crossings(self.trace.steps, self.near["attention"].cosine, AWAY)

    def _table(self) -> pa.Table:
        columns: dict[str, list[Any]] = {name: [] for name in AGREEMENT_SCHEMA.names}
        for name, near in self.near.items():
            # the row of each number of the flattened arrays: its record, trial, layer and head
            record, trial, layer, head = (index.ravel() for index in np.indices(near.cosine.shape))
            bounds = np.array([getattr(bound, name) for bound in self.bounds])
            rows = {
                "step": self.trace.steps[record],
                "trial": trial,
                "weights": [WEIGHT_SIGNS[name]] * record.size,
                "layer": layer,
                "head": head,
                **{kind: getattr(near, kind).ravel() for kind in ("cosine", "size", "error")},
                "bound": bounds[record],
            }
            for column, values in rows.items():
                columns[column].extend(values)
        return make_table(AGREEMENT_SCHEMA, columns)


def find_crossings(steps: Int64, curves: Float64, level: float) -> Float64:
    """The step at which each curve first falls below a level that it had reached; NaN if it never does."""
    # curves have the records on their first axis; the result has the other axes
    below = (curves < level) & np.maximum.accumulate(curves >= level, axis=0)
    falls = below.any(axis=0)
    after = below.argmax(axis=0)  # the first record below, and the record before it
    before = np.maximum(after - 1, 0)
    high, low = (np.take_along_axis(curves, record[None], 0)[0] for record in (before, after))
    # linear between two records: the level is at (high − level)/(high − low) of the way; without a number
    # before (NaN), the step of the record after is taken
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(falls & (high >= level), (high - level) / (high - low), 1.0)
    return np.where(falls, steps[before] + share * (steps[after] - steps[before]), np.nan)


def begin_from(sequences: Int64, n_tokens: int) -> Beginning:
    """Forecast the first steps of training from sequences, each treated as one document.

    ``sequences`` has window + 1 token ids in each row; ``n_tokens`` is the size of the vocabulary.

    Examples
    --------
    >>> begin_from(np.array([[0, 1, 0], [1, 1, 0]]), 2)
    Beginning(2 sequences of 2 tokens, vocabulary of 2)
    """
    return Beginning(find_statistics(sequences, window=sequences.shape[1] - 1, n_tokens=n_tokens))


def compare_beginning(
    trace: DeepTrace, beginnings: Beginning | Sequence[Beginning] | None = None
) -> Agreement:
    """Compare the weights of a run with the forecast of the first steps, at every record.

    The run is ``trace``; ``beginnings`` is one forecast for all trials or one for each trial. By default, the
    forecasts are computed from the sequences of the run.

    Examples
    --------
    >>> import attomaton as at
    >>> trace = at.train_deep(np.random.default_rng(0).integers(0, 5, (40, 7)), step=0.1, steps=10)
    >>> compare_beginning(trace).near["values"].size[-1].round(1).tolist()
    [[[1.0]]]
    """
    if beginnings is None:
        # trials with one corpus share a forecast
        corpora = {rows.tobytes(): rows for rows in trace.sequences}
        distinct = {content: begin_from(rows, trace.n_tokens) for content, rows in corpora.items()}
        beginnings = [distinct[rows.tobytes()] for rows in trace.sequences]
    forecasts = [beginnings] * trace.n_trials if isinstance(beginnings, Beginning) else list(beginnings)
    sizes = {(forecast.statistics.window, forecast.statistics.n_tokens) for forecast in forecasts}
    if len(forecasts) != trace.n_trials or sizes != {(trace.window, trace.n_tokens)}:
        raise MismatchedParts(
            f"the run has {trace.n_trials} trials, sequences of {trace.window} tokens and a vocabulary of "
            f"{trace.n_tokens}, but the forecasts differ; compute the forecasts from the run's corpus"
        )
    forecasts_by_step = {
        step: [forecast.weights_at(step, trace.step_size) for forecast in forecasts]
        for step in trace.steps.tolist()
    }
    return Agreement(trace, tuple(forecasts), _measure_all(trace, forecasts_by_step))


def compare_course(trace: DeepTrace, courses: ForecastCourse | Sequence[ForecastCourse]) -> dict[str, Near]:
    """Compare the weights of a run with forecast courses (:func:`~attomaton.theories.follow_course`).

    The run is ``trace``; ``courses`` is one course for all trials or one for each trial. Run and courses must
    be recorded at the same steps.

    Examples
    --------
    >>> import attomaton as at
    >>> corpus = np.random.default_rng(0).integers(0, 5, (40, 7))
    >>> trace = at.train_deep(corpus, at.DeepModel(n_layers=2), 1.0, steps=30)
    >>> course = at.theories.follow_course(corpus, 5, step_size=1.0, steps=30, n_layers=2)
    >>> compare_course(trace, course)["attention"].cosine[-1].min() > 0.99
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
            "courses and trace differ in trials, sizes or step size; compute the courses for this trace"
        )
    return _measure_all(
        trace, {step: [forecast.at(step) for forecast in forecasts] for step in trace.steps.tolist()}
    )


def _measure_all(
    trace: DeepTrace, forecasts: Mapping[int, Sequence[EarlyWeights | CourseWeights]]
) -> dict[str, Near]:
    # by kind of weights; `forecasts` has for each step one forecast per trial
    near: dict[str, Near] = {}
    weights = {step: trace.at(step) for step in forecasts}
    for name in WEIGHT_SIGNS:
        records = [
            _measure_weights(name, getattr(weights[step], name), [getattr(each, name) for each in of_step])
            for step, of_step in forecasts.items()
        ]
        near[name] = Near(
            cosine=np.stack([record.cosine for record in records]),
            size=np.stack([record.size for record in records]),
            error=np.stack([record.error for record in records]),
        )
    return near


# Compare one kind of weights at one record with the forecasts of the trials, shape (n_trials, L, H).
def _measure_weights(name: str, weights: Float64, forecasts: Sequence[Float64]) -> Near:
    # weights have the shape (n_trials, L, H, …), but W_O (n_trials, …); the forecast of a trial has a first
    # axis of layers, or is the forecast of every layer
    n_trials = len(weights)
    layers_and_heads = (1, 1) if name == "output" else weights.shape[1:3]
    flat = weights.reshape(n_trials, *layers_and_heads, -1)
    forecast = np.stack(forecasts).reshape(n_trials, -1, 1, flat.shape[3])  # equal for all heads
    length = np.linalg.norm(flat, axis=3)
    forecast_length = np.linalg.norm(forecast, axis=3)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = (flat * forecast).sum(3) / (length * forecast_length)
        size = length / forecast_length
    return Near(cosine, size, error=np.linalg.norm(flat - forecast, axis=3))
