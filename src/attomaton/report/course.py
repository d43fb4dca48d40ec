"""How a run nears its limit: the correlation of W with W_svm and the finite part, measured and predicted."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.errors import CorruptRun, MissingExtra, needing
from attomaton.base.tables import Float64
from attomaton.report.lines import Line, LinePanel
from attomaton.report.page.training import follow_trials, why_unpredicted

MOST_NUMBERS = 50_000_000
"""Numbers that the axes of the cyclic subspace may take: more, and neither curve is drawn."""


@dataclass(frozen=True, eq=False)
class CourseCurves:
    """Two curves over the steps, means over trials: ``correlation`` and ``distance`` of the finite part.

    A curve that says nothing (no direction, no ties) is None.
    """

    steps: Float64
    correlation: Float64 | None
    distance: Float64 | None


def draw_course(run: Path) -> list[LinePanel]:
    """The panels of both curves, with what is predicted from the corpus alone; none where it is not known."""
    try:
        with needing("these curves"):
            from attomaton.training.checkpoints import read_trace
        trace = read_trace(run)
    except (CorruptRun, MissingExtra):
        return []
    courses = measure_courses(trace)
    titles = {
        "correlation": ("correlation of W with W_svm", 1.0),
        "distance": ("distance of the finite part, ‖Π_fin W − W_fin‖", 0.0),
    }
    return [
        LinePanel(title, _lines(courses, name, limit))
        for name, (title, limit) in titles.items()
        if courses and getattr(courses["measured"], name) is not None
    ]


def measure_courses(trace: Any) -> dict[str, CourseCurves]:
    """The course of a run as it was ``measured`` and, where it can be computed, as it is ``predicted``."""
    from attomaton.claims.measures import aim_at, dense, solve_trials

    automata = solve_trials(trace)
    ties = max(int((one.components.sizes - 1).sum()) for one in automata)
    if trace.n_trials * ties * trace.weights.shape[-1] ** 2 > MOST_NUMBERS:
        return {}
    target = aim_at(trace, automata)
    courses = {"measured": _measure(target, trace, tied=bool(ties))}
    if not why_unpredicted(trace):
        steps, paths = follow_trials(trace)
        weights = np.array([[dense(path.weights_at(step)) for path in paths] for step in steps])
        unknown = np.full(weights.shape[:2], np.nan)
        computed = replace(trace, steps=np.array(steps, np.int64), weights=weights, losses=unknown)
        courses["predicted"] = _measure(target, computed, tied=bool(ties))
    return courses


def _measure(target: Any, trace: Any, *, tied: bool) -> CourseCurves:
    later = trace.steps > 0
    weights = trace.weights[later]
    directed = bool(target.directions.any(axis=(1, 2)).all())
    return CourseCurves(
        trace.steps[later].astype(np.float64),
        target.correlation(weights).mean(axis=1) if directed else None,
        target.finite_distance(weights).mean(axis=1) if tied else None,
    )


def _lines(courses: dict[str, CourseCurves], name: str, limit: float) -> list[Line]:
    looks = {"measured": (0, 0), "predicted": (1, 1)}
    lines = [
        Line(kind, course.steps.tolist(), getattr(course, name).tolist(), *looks[kind])
        for kind, course in courses.items()
    ]
    return [*lines, Line("limit", [], [limit], 4, 2)]
