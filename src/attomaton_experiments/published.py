"""The numbers that the authors of the two papers published in files, beside ours, in one table.

Settings: ``experiments``, whose settings have the published numbers and their source; ``trials``, if given,
replaces theirs.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.printing import Grid
from attomaton.base.progress import Progress
from attomaton.base.tables import Float64
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton_experiments.mechanics import measure_training
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.scansnap.figure4 import run_figure4
from attomaton_experiments.scansnap.figure6 import run_figure6
from attomaton_experiments.settings import Settings, read_settings

Row = dict[str, Any]


def run_published(settings: Settings, progress: Progress) -> Page:
    """Run the experiments, and put each published number beside ours."""
    rows: list[Row] = []
    names: list[str] = settings["experiments"]
    for number, name in enumerate(names):
        progress(f"{settings['name']}: {name}", number, len(names))
        cell = read_settings(name, trials=settings.get("trials"), seed=settings["seed"])
        rows += {"training": _mechanics, "figure4": _losses, "figure6": _cells}[cell["kind"]](cell)
    return render_figure(
        settings,
        f"{len(rows)} published numbers or sets of numbers",
        (_table(rows),),
        pa.Table.from_pylist(rows),
        partial(_draw, rows),
        verdicts=(),
        notes=NOTES,
    )


NOTES = (
    "Rows of the first paper compare means and ranges over draws that differ. Figure 4 compares one run of "
    "the authors with the mean of our seeds, and Figure 6 means over ten seeds. All numbers are in "
    "numbers.parquet.",
    "Left out: the second rows that the local notebook prints (correlations with R·W_svm + W_fin, lines 1043 "
    "to 1053), whose W_fin is trained with squared loss; and the test losses that the notebook of Figure 7 "
    "prints (0.37 to 0.22), which are of another vocabulary and of three layers too.",
)


def _mechanics(settings: Settings) -> list[Row]:
    """Each measure with published values: ten trials of the authors beside ours."""
    outcome = measure_training(settings, judged=False)
    published = settings["published"]
    return [
        {
            **_head(settings, panel.title),
            "published": sum(published[name]) / len(published[name]),
            "published_low": min(published[name]),
            "published_high": max(published[name]),
            "ours": float(panel.values[-1].mean()),
            "ours_low": float(panel.values[-1].min()),
            "ours_high": float(panel.values[-1].max()),
        }
        for name, panel in outcome.measured.items()
        if name in published
    ]


def _losses(settings: Settings) -> list[Row]:
    """The logged losses of Figure 4."""
    return [
        _head(settings, "loss", f"step {row['step']}") | {"published": row["published"], "ours": row["loss"]}
        for row in run_figure4(settings).numbers.to_pylist()
        if row["published"] is not None
    ]


def _cells(settings: Settings) -> list[Row]:
    """The cells of Figure 6."""
    cells: dict[tuple[Any, ...], list[Row]] = {}
    for row in run_figure6(settings).numbers.to_pylist():
        cells.setdefault((row["n_queries"], row["attention_rate"], row["ratio"]), []).append(row)
    return [
        _head(settings, "entropy", f"{queries} queries, η_Z = {slow:g}, η_Y/η_Z = {ratio:g}")
        | {"published": trials[0]["published"], "ours": float(np.mean([row["entropy"] for row in trials]))}
        for (queries, slow, ratio), trials in cells.items()
    ]


def _head(settings: Settings, quantity: str, position: str = "") -> Row:
    return {
        "figure": settings["figure"],
        "experiment": settings["name"],
        "quantity": quantity,
        "place": position,
        "source": settings["published"]["source"],
    }


def _table(rows: list[Row]) -> Grid:
    """One line per figure and quantity: a single number, or how far all of them are apart."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["figure"], row["quantity"]), []).append(row)
    lines: list[list[str]] = []
    for (figure, quantity), cells in groups.items():
        gaps: Float64 = np.array([row["ours"] - row["published"] for row in cells])
        sizes: Float64 = np.array([row["published"] for row in cells])
        if len(cells) == 1:
            [row] = cells
            published, ours = (_span(row, name) for name in ("published", "ours"))
            lines.append([figure, quantity, published, ours, f"{gaps[0]:+.3g}", row["source"]])
            continue
        published = f"{len(cells)} numbers, {sizes.min():.3g} to {sizes.max():.3g}"
        share = np.abs(gaps / sizes)
        apart = f"{100 * share.mean():.2g} % on average, at most {100 * share.max():.2g} %"
        lines.append([figure, quantity, published, "each", apart, cells[0]["source"]])
    return Grid(
        "Published and ours", ["figure", "quantity", "published", "ours", "difference", "source"], lines
    )


def _span(row: Row, name: str) -> str:
    return f"{row[name]:.4g} ({row[f'{name}_low']:.4g} to {row[f'{name}_high']:.4g})"


def _draw(rows: list[Row], path: Path, *, caption: str) -> list[Path]:
    """Ours over published, number by number, for every figure with several."""
    panels: list[LinePanel] = []
    for figure, quantity in dict.fromkeys((row["figure"], row["quantity"]) for row in rows):
        cells = [row for row in rows if (row["figure"], row["quantity"]) == (figure, quantity)]
        if len(cells) > 1:
            ratios = [row["ours"] / row["published"] for row in cells]
            lines = [
                Line("ours / published", list(range(1, len(cells) + 1)), ratios, 0),
                Line("", [], [1.0], 1, 1),
            ]
            panels.append(LinePanel(f"{figure}: {quantity}", lines, axis="number", log_axis=False))
    return draw_line_panels(panels, path, caption=caption)
