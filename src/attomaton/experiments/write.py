"""An experiment on disk: figure, numbers, verdicts and a page that puts published beside obtained."""

from pathlib import Path

import numpy as np

from attomaton.artifacts import build_folder, explained, json_writer
from attomaton.claims.verdicts import as_record
from attomaton.experiments.outcome import Measured, Outcome
from attomaton.report.figures import Panel, draw_panels
from attomaton.report.markdown import render_table, render_verdicts
from attomaton.tables import write_parquet

LEAST = 1e-16
"""Smaller numbers are drawn as this on logarithmic axes."""


def write_outcome(outcome: Outcome, folder: Path) -> list[Path]:
    """Write figure.png, figure.pdf, curves.parquet, verdicts.json and summary.md; returns their paths."""
    with build_folder(folder, "experiment", overwrite=True) as building:
        place = building.folder
        written = draw_panels(_panels(outcome), place / "figure", caption=caption(outcome))
        numbers, verdicts, page = (place / name for name in ("curves.parquet", "verdicts.json", "summary.md"))
        with explained(folder):
            write_parquet(outcome.table(), str(numbers))
            json_writer([as_record(one) for one in outcome.verdicts])(verdicts)
            page.write_text(summarise(outcome), encoding="utf-8")
            building.finish({"name": outcome.settings.name})
    return [folder / path.name for path in (*written, numbers, verdicts, page)]


def summarise(outcome: Outcome) -> str:
    """One page in Markdown: settings, published beside obtained at the end, verdicts, and what differs."""
    settings = outcome.settings
    headers = ["measure", "mean", "std", "min", "max", "published range"]
    rows = [[one.title, *_numbers(one), _published(outcome, one.name)] for one in outcome.measured]
    lines = [
        f"# {settings.name}: {settings.title}",
        caption(outcome) + ".",
        f"At {outcome.axis} = {outcome.measured[0].at[-1]:,g}, over {outcome.n_trials} trials:",
        render_table(headers, rows),
        *_foretold(outcome),
        *outcome.notes,
        *settings.remarks,
    ]
    if outcome.verdicts:
        lines += ["## Verdicts", render_verdicts(outcome.verdicts)]
    lines += [
        "![Curves](figure.png)",
        "Lines are means over trials and bands one standard deviation (of logarithms on logarithmic axes); "
        "dashed lines were computed from the data alone. All numbers: `curves.parquet`. Again: "
        f"`attomaton reproduce {settings.name} --trials {outcome.n_trials} --out DIR`.",
    ]
    return "\n\n".join(lines) + "\n"


def caption(outcome: Outcome) -> str:
    """Title and settings in one sentence."""
    settings = outcome.settings
    data, step = settings.data, settings.step
    parts = [
        f"{settings.title}. K = {data['n_tokens']}, d = {settings.model['dim']}, n = {data['n_samples']}, "
        f"T = {data['window']}",
        f"{outcome.n_trials} trials",
    ]
    if step:
        kind = "normalised" if step["normalized"] else "plain"
        parts.append(f"{kind} descent, η = {step['size']:g}")
    return ", ".join(parts)


def _numbers(one: Measured) -> list[str]:
    end = one.values[-1]
    return [f"{number:.4g}" for number in (end.mean(), end.std(), end.min(), end.max())]


def _published(outcome: Outcome, name: str) -> str:
    found = outcome.settings.published.get(name)
    return f"{found[0]:g} to {found[1]:g}" if found else ""


def _foretold(outcome: Outcome) -> list[str]:
    """What was predicted for the end, beside what was measured."""
    told = [one for one in outcome.measured if one.predicted is not None]
    if not told:
        return []
    shown = [f"{one.title} {one.predicted[1][-1]:.4g}" for one in told if one.predicted is not None]
    return [
        "Computed without training, for the same place (means; geometric where the axis is logarithmic): "
        + "; ".join(shown)
        + "."
    ]


def _panels(outcome: Outcome) -> list[Panel]:
    asked = outcome.settings.panels
    chosen = [one for one in outcome.measured if not asked or one.name in asked]
    return [_panel(outcome, one) for one in chosen if np.ptp(one.values) > 0]  # without ties there is nothing


def _panel(outcome: Outcome, one: Measured) -> Panel:
    """A logarithmic panel shows the trials that have something to show."""
    values = one.values
    if one.log:
        values = np.maximum(values[:, (values > LEAST).any(axis=0)], LEAST)
    published = outcome.settings.published.get(one.name)
    return Panel(
        one.title,
        one.at,
        values,
        one.predicted,
        published,
        axis=outcome.axis,
        log=one.log,
        log_axis=outcome.settings.log_axis,
    )
