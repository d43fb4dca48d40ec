"""Components of the graph, read off trained weights step by step, in the first paper's setting.

Settings as for training (:mod:`attomaton_experiments.mechanics`). With a folder for ``work`` the run is
stored there.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.printing import Grid
from attomaton.base.progress import Progress
from attomaton.base.tables import Bool, Float64, Int64, column, table_of
from attomaton.claims import count_components, solve_trials
from attomaton.claims.components import forecast_readable, measure_gaps
from attomaton.claims.evidence import Evidence
from attomaton.claims.mechanics import MECHANICS_CLAIMS
from attomaton.graphs.components import Components
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton.training import Trace
from attomaton_experiments.mechanics import train_trials
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

RECORDS = 41
"""Records at which components are read, evenly spaced in the logarithm of the step."""

SHARES = ("recovered", "merged", "split")


def run_components(settings: Settings, progress: Progress) -> Page:
    """Train, read components at each record, compare with the graph and with the forecast, make the page."""
    progress(f"{settings['name']}: training", 0, 0)
    trace = train_trials(settings)
    evidence = Evidence(trace, tuple(solve_trials(trace)))
    records = _choose_records(trace.steps)
    counts = np.zeros((len(records), trace.n_trials, 4), np.int64)
    forecast = np.zeros((len(records), trace.n_trials), bool)
    for trial, automaton in enumerate(evidence.automata):
        progress(f"{settings['name']}: reading components", trial, trace.n_trials)
        for row, record in enumerate(records.tolist()):
            count = count_components(trace, automaton.components, trial=trial, record=record)
            counts[row, trial] = count.all, count.recovered, count.merged, count.split
        forecast[:, trial] = forecast_readable(evidence, trial, trace.steps[records])
    complete = counts[..., 1] == counts[..., 0]
    return render_figure(
        settings,
        _caption(settings),
        (_table(trace.steps[records], counts, complete, forecast),),
        _numbers(trace.steps[records], counts, forecast),
        partial(_draw, trace, evidence.automata[0].components, records, counts, forecast),
        verdicts=[claim.check(evidence) for claim in MECHANICS_CLAIMS if claim.name == "components"],
        notes=(_compare(trace.steps[records], complete, forecast), *settings.get("remarks", ())),
    )


def _choose_records(steps: Int64) -> Int64:
    """Records of even steps, since the record at half of the step is needed too."""
    wanted: Float64 = np.geomspace(2, float(steps[-1]), RECORDS)
    even = np.flatnonzero((steps % 2 == 0) & (steps > 0))
    return np.unique(even[np.abs(steps[even, None] - wanted).argmin(axis=0)])


def _caption(settings: Settings) -> str:
    data, step = settings["data"], settings["step"]
    return (
        f"{settings['title']}: K = {data['n_tokens']}, d = {settings['model']['dim']}, "
        f"n = {data['n_samples']}, T = {data['window']}, {settings['trials']} trials, plain descent, "
        f"η = {step['size']:g}, {step['steps']:,} steps"
    )


def find_start(flags: Bool, steps: Int64) -> Float64:
    """The step from which a column of flags stays true to the end, infinite if none, shape (n_trials,)."""
    lasting = np.logical_and.accumulate(flags[::-1])[::-1]
    return np.where(lasting.any(axis=0), steps[lasting.argmax(axis=0)], np.inf)


def _table(steps: Int64, counts: Int64, complete: Bool, forecast: Bool) -> Grid:
    total = counts[0, :, 0].sum()
    rows = [
        [
            f"{steps[row]:,}",
            *(f"{100 * counts[row, :, column].sum() / total:.1f} %" for column in (1, 2, 3)),
            str(int(complete[row].sum())),
            str(int(forecast[row].sum())),
        ]
        for row in np.unique(np.linspace(0, len(steps) - 1, 9).astype(int)).tolist()
    ]
    headers = ["step", *SHARES, "trials with every component", "trials in which the forecast says so"]
    return Grid(f"The {total:,} components of the graphs, read off the weights", headers, rows)


def _compare(steps: Int64, complete: Bool, forecast: Bool) -> str:
    """The step from which the weights have every component, measured and computed without training."""
    measured, computed = find_start(complete, steps), find_start(forecast, steps)
    covered = np.isfinite(computed)
    return (
        f"By the last step the weights have every component in {int(complete[-1].sum())} of "
        f"{complete.shape[1]} trials. The computed path says from which step on they must, in "
        f"{int(covered.sum())} trials by the last step (median step {np.median(computed[covered]):,.0f}); in "
        f"{int((measured <= computed)[covered].sum())} of these the weights have them from that step or "
        f"earlier (median step {np.median(measured[covered]):,.0f}). The forecast covers "
        f"{int(forecast.sum()):,} pairs of record and trial; the weights have every component at "
        f"{int((forecast & complete).sum()):,} of them."
    )


def _numbers(steps: Int64, counts: Int64, forecast: Bool) -> pa.Table:
    row, trial = (axis.ravel() for axis in np.indices(forecast.shape))
    columns: dict[str, Any] = {"step": steps[row], "trial": trial, "forecast": forecast.ravel()}
    names = ("components", *SHARES)
    return table_of(columns | {name: counts[..., number].ravel() for number, name in enumerate(names)})


def _draw(
    trace: Trace,
    components: Components,
    records: Int64,
    counts: Int64,
    forecast: Bool,
    path: Path,
    *,
    caption: str,
) -> list[Path]:
    """Shares of components by step, and the gaps of the first trial."""
    steps = trace.steps[records].tolist()
    shares = counts[..., 1:].sum(axis=1) / counts[0, :, 0].sum()
    lines = [Line(name, steps, shares[:, number].tolist(), number) for number, name in enumerate(SHARES)]
    lines.append(
        Line("all recovered, forecast (share of trials)", steps, forecast.mean(axis=1).tolist(), 3, 1)
    )
    gaps = measure_gaps(components, trace.embeddings[0], trace.weights[records, 0])
    query, winner, loser = (column(components.edges.rows, name) for name in ("query", "winner", "loser"))
    tied = components.components_of(query, winner) == components.components_of(query, loser)
    curves = [
        Line(f"gap {'inside a component' if inside else 'across components'}", steps, gap, 4 + inside)
        for gap, inside in zip(gaps.T.tolist(), tied.tolist(), strict=True)
    ]
    panels = [
        LinePanel("share of the graph's components", lines, least=0.0),
        LinePanel("score gap of winner over loser, trial 0", curves),
    ]
    return draw_line_panels(panels, path, caption=caption)
