"""The weights of a run of a deep model beside their forecasts: cosine, size and error at every record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.errors import MismatchedParts
from attomaton.base.frames import Tabular
from attomaton.base.tables import Float64, Int64, make_table
from attomaton.theories.beginning.course import ForecastCourse
from attomaton.theories.beginning.result import Beginning
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
AWAY = 0.5
"""Attention has turned away if cos(W, Q̄) is below this."""


@dataclass(frozen=True, eq=False)
class Near:
    """How near one kind of weights is to its forecast; arrays have the shape (n_records, n_trials, L, heads).

    ``cosine`` is that of weights and forecast, NaN if either is zero; ``size`` the norm of the weights / that
    of the forecast, NaN if that is zero; ``error`` the Frobenius norm of their difference.
    """

    cosine: Float64
    size: Float64
    error: Float64


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(Tabular):
    """The run ``trace`` of a deep model compared with the forecast from its corpora, record by record.

    ``beginnings`` is the forecast from each trial's corpus. ``near`` has ``"attention"`` (W), ``"positions"``
    (P), ``"values"`` (V) and ``"output"`` (W_O, with a single layer and head).
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
    """The step at which each curve, shape (n_records, …), first falls below a level that it had reached.

    Linear interpolation between records; NaN where a curve does not fall below.
    """
    below = (curves < level) & np.maximum.accumulate(curves >= level, axis=0)
    after = below.argmax(axis=0)
    before = np.maximum(after - 1, 0)
    high, low = (np.take_along_axis(curves, record[None], 0)[0] for record in (before, after))
    falls = below.any(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(falls & (high >= level), (high - level) / (high - low), 1.0)
    return np.where(falls, steps[before] + share * (steps[after] - steps[before]), np.nan)


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
            f"{trace.n_tokens}, but the forecasts have other sizes; use one Beginning of the run's corpus"
        )
    forecasts_by_step = {
        step: [forecast.weights_at(step, trace.step_size) for forecast in forecasts]
        for step in trace.steps.tolist()
    }
    return Agreement(trace, tuple(forecasts), _measure_all(trace, forecasts_by_step))


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
