"""An experiment on disk: figure, numbers and a page that puts published beside obtained."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attomaton.experiments.run import MEASURES, Outcome
from attomaton.report.figures import Panel, draw_panels
from attomaton.tables import Float64, write_parquet

LOGARITHMIC = ("finite_distance", "surprise")


def write_outcome(outcome: Outcome, folder: Path) -> list[Path]:
    """Write ``figure.png``, ``figure.pdf``, ``curves.parquet`` and ``summary.md``; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = draw_panels(_panels(outcome), folder / "figure", caption=_caption(outcome))
    write_parquet(outcome.curves.summary(), str(folder / "curves.parquet"))
    page = folder / "summary.md"
    page.write_text(summarise(outcome), encoding="utf-8")
    return [*written, folder / "curves.parquet", page]


def summarise(outcome: Outcome) -> str:
    """One page in Markdown: settings, and published beside obtained at the last step."""
    settings, curves = outcome.settings, outcome.curves
    lines = [
        f"# {settings.name}: {settings.title}",
        "",
        _caption(outcome) + ".",
        "",
        f"At step {curves.steps[-1]:,}, over {outcome.trace.n_trials} trials:",
        "",
        "| measure | mean | std | min | max | published range |",
        "|---|---|---|---|---|---|",
    ]
    for name, title in MEASURES.items():
        published = settings.published.get(name)
        shown = f"{published[0]:g} to {published[1]:g}" if published else ""
        lines.append(f"| {title} | {_numbers(getattr(curves, name)[-1])} | {shown} |")
    lines += [
        "",
        f"Correlation that the expansion gives at the norm reached: {outcome.predicted[-1]:.4f}.",
        "",
    ]
    return "\n".join(lines)


def _numbers(values: Float64) -> str:
    return " | ".join(f"{one:.4g}" for one in (values.mean(), values.std(), values.min(), values.max()))


def _caption(outcome: Outcome) -> str:
    data, step = outcome.settings.data, outcome.settings.step
    kind = "normalised" if step["normalized"] else "plain"
    return (
        f"{outcome.settings.title}. K = {data['n_tokens']}, d = {outcome.settings.model['dim']}, "
        f"n = {data['n_samples']}, T = {data['window']}, {outcome.trace.n_trials} trials, {kind} descent, "
        f"step {step['size']}"
    )


def _panels(outcome: Outcome) -> Sequence[Panel]:
    curves, published = outcome.curves, outcome.settings.published
    return [
        Panel(
            title,
            curves.steps,
            np.maximum(getattr(curves, name), 1e-16) if name in LOGARITHMIC else getattr(curves, name),
            outcome.predicted if name == "correlation" else None,
            published.get(name),
            log=name in LOGARITHMIC,
        )
        for name, title in MEASURES.items()
        if np.ptp(getattr(curves, name)) > 0  # without ties there is no finite part to show
    ]
