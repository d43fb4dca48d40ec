"""A run of a deep model beside what its corpora forecast: cosines, sizes, errors, where attention turns."""

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
from attomaton.theories.beginning.theorem import WEIGHTS, TheoremBounds
from attomaton.training.trace import DeepTrace

SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("step", "trial")),
        ("weights", pa.string()),
        *((name, pa.int64()) for name in ("layer", "head")),
        *((name, pa.float64()) for name in ("cosine", "size", "error", "bound")),
    ]
)
TURNED = 0.5
"""Attention has turned where cos(W, Q̄) is below this."""


@dataclass(frozen=True, eq=False)
class Near:
    """How near one kind of weights is to its forecast; each array has shape (n_records, n_trials, L, H).

    Attributes
    ----------
    cosine : float64 array
        Cosine of weights and forecast; NaN where either is zero.
    size : float64 array
        Norm of the weights over that of the forecast; NaN where that is zero.
    error : float64 array
        Frobenius norm of their difference.

    Examples
    --------
    >>> import attomaton as at
    >>> trace = at.train_deep(np.array([[0, 1, 0, 1, 1]]), steps=1, step=0.1)
    >>> agreement = compare_beginning(trace)
    >>> agreement.near["output"].cosine[-1].round(6).tolist()  # W_O is ηB̄ after one step
    [[[1.0]]]
    """

    cosine: Float64
    size: Float64
    error: Float64


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(Tabular):
    """A run of a deep model beside what its corpora forecast, record by record.

    Attributes
    ----------
    trace : DeepTrace
        The run.
    beginnings : tuple of Beginning
        What each trial's corpus forecasts.
    near : dict of str to Near
        ``"attention"`` (W), ``"positions"`` (P), ``"values"`` (V), ``"output"`` (W_O, whose layers and heads
        are one).

    Examples
    --------
    >>> import attomaton as at
    >>> rng = np.random.default_rng(0)
    >>> model = at.DeepModel(n_layers=2)
    >>> agreement = compare_beginning(at.train_deep(rng.integers(0, 5, (40, 7)), model, 0.1, steps=10))
    >>> agreement
    Agreement(1 trials, 2 layers, 11 records to step 10)
    >>> agreement.near["attention"].cosine[-1].min().round(2)
    np.float64(1.0)
    >>> agreement.table().column_names[:5]
    ['step', 'trial', 'weights', 'layer', 'head']
    """

    trace: DeepTrace
    beginnings: tuple[Beginning, ...]
    near: dict[str, Near]

    def __repr__(self) -> str:
        return repr(self.trace).replace("DeepTrace", "Agreement", 1)

    @cached_property
    def bounds(self) -> list[TheoremBounds]:
        """The theorem's bounds at each record; those of the first trial, whose sizes all share."""
        model, start = self.trace.model, "small" if self.trace.model.start else "zero"
        return [
            self.beginnings[0].bounds_at(step, self.trace.step_size, n_layers=model.n_layers, start=start)
            for step in self.trace.steps.tolist()
        ]

    @cached_property
    def fallen(self) -> Float64:
        """The share of its start by which the loss has fallen, shape (n_records, n_trials)."""
        return 1 - self.trace.losses / self.trace.losses[0]

    @cached_property
    def turns(self) -> Float64:
        """The step at which cos(W, Q̄) falls below ½, shape (n_trials, L, H); NaN where it does not."""
        return find_crossings(self.trace.steps, self.near["attention"].cosine, TURNED)

    def _table(self) -> pa.Table:
        columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
        for name, near in self.near.items():
            record, trial, layer, head = (axis.ravel() for axis in np.indices(near.cosine.shape))
            told = np.array([getattr(one, name) for one in self.bounds])
            measured = {kind: getattr(near, kind).ravel() for kind in ("cosine", "size", "error")}
            places = {"step": self.trace.steps[record], "trial": trial, "layer": layer, "head": head}
            parts = {**places, **measured, "weights": [WEIGHTS[name]] * record.size, "bound": told[record]}
            for column, part in parts.items():
                columns[column].extend(part)
        return make_table(SCHEMA, columns)


def find_crossings(steps: Int64, values: Float64, level: float) -> Float64:
    """Where curves that were above a level first fall below it, between two records on a straight line.

    Parameters
    ----------
    steps : int64 array, shape (n_records,)
        Where the curves were measured.
    values : float64 array, shape (n_records, …)
        The curves; NaN is neither above nor below.
    level : float
        The level.

    Returns
    -------
    float64 array, shape (…)
        NaN where a curve does not fall below.

    Examples
    --------
    >>> curves = np.array([[np.nan, np.nan], [1.0, 1.0], [0.25, 0.9]])
    >>> find_crossings(np.array([0, 10, 20]), curves, 0.5)
    array([16.66666667,         nan])
    """
    below = (values < level) & np.maximum.accumulate(values >= level, axis=0)
    last = below.argmax(axis=0)
    first = np.maximum(last - 1, 0)
    high, low = (np.take_along_axis(values, place[None], 0)[0] for place in (first, last))
    fell = below.any(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(fell & (high >= level), (high - level) / (high - low), 1.0)
    return np.where(fell, steps[first] + share * (steps[last] - steps[first]), np.nan)


def begin_from(sequences: Int64, n_tokens: int) -> Beginning:
    """What sequences, shape (n_sequences, window + 1), forecast; each is a document of its own.

    Examples
    --------
    >>> begin_from(np.array([[0, 1, 0], [1, 1, 0]]), 2)
    Beginning(2 sequences of 2 tokens, vocabulary of 2)
    """
    return Beginning(find_statistics(sequences, window=sequences.shape[1] - 1, n_tokens=n_tokens))


def compare_beginning(
    trace: DeepTrace, beginnings: Beginning | Sequence[Beginning] | None = None
) -> Agreement:
    """Hold every recorded weight of a run beside its forecast.

    Parameters
    ----------
    trace : DeepTrace
        The run.
    beginnings : Beginning or sequence of Beginning, optional
        What the corpus of all trials, or that of each, forecasts; computed from the sequences of the trace
        if not given.

    Examples
    --------
    >>> import attomaton as at
    >>> trace = at.train_deep(np.random.default_rng(0).integers(0, 5, (40, 7)), step=0.1, steps=10)
    >>> compare_beginning(trace).near["values"].size[-1].round(1).tolist()
    [[[1.0]]]
    """
    if beginnings is None:
        known: dict[bytes, Beginning] = {}
        for one in trace.sequences:
            if one.tobytes() not in known:
                known[one.tobytes()] = begin_from(one, trace.n_tokens)
        beginnings = [known[one.tobytes()] for one in trace.sequences]
    told = [beginnings] * trace.n_trials if isinstance(beginnings, Beginning) else list(beginnings)
    sizes = {(one.statistics.window, one.statistics.n_tokens) for one in told}
    if len(told) != trace.n_trials or sizes != {(trace.window, trace.n_tokens)}:
        raise MismatchedParts(
            f"the run has {trace.n_trials} trials of sequences of {trace.window} tokens out of "
            f"{trace.n_tokens}, and the forecasts are of other sizes; give one Beginning of that corpus"
        )
    at = {step: [one.weights_at(step, trace.step_size) for one in told] for step in trace.steps.tolist()}
    return Agreement(trace, tuple(told), _measure_all(trace, at))


def compare_course(trace: DeepTrace, courses: ForecastCourse | Sequence[ForecastCourse]) -> dict[str, Near]:
    """Hold every recorded weight of a run beside a course that has the same records.

    Parameters
    ----------
    trace : DeepTrace
        The run.
    courses : ForecastCourse or sequence of Course
        That of all trials, or of each (:func:`~attomaton.theories.beginning.course.follow_course`).

    Returns
    -------
    dict of str to Near
        As of :class:`Agreement`.

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
    told = [courses] * trace.n_trials if isinstance(courses, ForecastCourse) else list(courses)
    shape = (trace.model.n_layers, trace.n_tokens, trace.n_tokens)
    fits = all(one.step_size == trace.step_size and one.weights[0].attention.shape == shape for one in told)
    if len(told) != trace.n_trials or not fits:
        raise MismatchedParts("the courses are of another number of trials, size or step; follow them anew")
    return _measure_all(trace, {step: [one.at(step) for one in told] for step in trace.steps.tolist()})


def _measure_all(trace: DeepTrace, told: Mapping[int, Sequence[Any]]) -> dict[str, Near]:
    """Cosine, size and error at all records, of weights that are told by step and trial."""
    weights = {step: trace.at(step) for step in told}
    near: dict[str, Near] = {}
    for name in WEIGHTS:
        rows = [
            _measure(getattr(weights[step], name), [getattr(one, name) for one in told[step]], name)
            for step in told
        ]
        near[name] = Near(*(np.stack(kind) for kind in zip(*rows, strict=True)))
    return near


def _measure(weights: Float64, told: Sequence[Float64], name: str) -> tuple[Float64, Float64, Float64]:
    """Cosine, size and error, shape (n_trials, L, H); the forecast is of each layer, or the same for all."""
    n_trials = len(weights)
    flat = weights.reshape(n_trials, *((1, 1) if name == "output" else weights.shape[1:3]), -1)
    forecast = np.stack(told).reshape(n_trials, -1, 1, flat.shape[3])
    held, norm = np.linalg.norm(flat, axis=3), np.linalg.norm(forecast, axis=3)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine, size = (flat * forecast).sum(3) / (held * norm), held / norm
    return cosine, size, np.linalg.norm(flat - forecast, axis=3)
