"""The outcome of an experiment of the first paper: curves by trial beside predicted ones; its page."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from attomaton.base.printing import Grid
from attomaton.base.tables import make_table
from attomaton.claims import Verdict
from attomaton_experiments.figures.panels import Panel, draw_panels
from attomaton_experiments.page import Page, render_table, render_verdicts
from attomaton_experiments.settings import Settings

LEAST = 1e-16
"""Smaller numbers are drawn as this on logarithmic axes."""

NUMBER_SCHEMA = pa.schema([("at", pa.float64()), ("trial", pa.int64()), ("value", pa.float64())])


@dataclass(frozen=True, eq=False, repr=False)
class Outcome:
    """The outcome of one experiment.

    Attributes
    ----------
    settings : dict
        The settings; the figure shows the measures in its ``panels``, or all.
    measured : dict of str to Panel
        All curves, along steps or radii, by their names in files. Predictions are means over the
        trials (geometric on a logarithmic axis); NaN where there is none.
    verdicts : tuple of Verdict
        The verdicts on the claims; empty if they were not judged.
    notes : tuple of str
        Sentences for the page: counts over trials that no single curve shows.
    """

    settings: Settings
    measured: dict[str, Panel]
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Outcome({self.settings['name']}: {self.n_trials:,} trials, {len(self.measured)} measures)"

    @property
    def first(self) -> Panel:
        """The first of the curves, which all have the same axis."""
        return next(iter(self.measured.values()))

    @property
    def n_trials(self) -> int:
        """The number of trials."""
        return self.first.values.shape[1]

    def last(self) -> dict[str, tuple[float, float, float]]:
        """Mean, smallest and largest over the trials of every measure at its last record."""
        ends = {name: panel.values[-1] for name, panel in self.measured.items()}
        return {name: (float(end.mean()), float(end.min()), float(end.max())) for name, end in ends.items()}

    def table(self) -> pa.Table:
        """All numbers, in the columns ``measure``, ``at``, ``trial`` and ``value``."""
        names = [name for name, panel in self.measured.items() for _ in range(panel.values.size)]
        curves = self.measured.values()
        columns = {
            "at": np.concatenate([np.repeat(curve.at, curve.values.shape[1]) for curve in curves]),
            "trial": np.concatenate([np.indices(curve.values.shape)[1].ravel() for curve in curves]),
            "value": np.concatenate([curve.values.ravel() for curve in curves]),
        }
        return make_table(NUMBER_SCHEMA, columns).add_column(0, "measure", pa.array(names, pa.string()))


def render_outcome(outcome: Outcome) -> Page:
    """The page: settings, published and obtained values at the end, verdicts, and remarks on differences."""
    name, title = outcome.settings["name"], outcome.settings["title"]
    caption, number = _caption(outcome), outcome.n_trials
    ends = {name: dict(zip(("mean", "min", "max"), end, strict=True)) for name, end in outcome.last().items()}
    headers = ["measure", "mean", "range", "published"]
    rows = [
        [panel.title, f"{end['mean']:.4g}", f"{end['min']:.4g} to {end['max']:.4g}", _published(panel)]
        for panel, end in zip(outcome.measured.values(), ends.values(), strict=True)
    ]
    return Page(
        name=name,
        paragraphs=(f"# {name}: {title}", f"{caption}.", *_paragraphs(outcome)),
        printed=(Grid(f"{title} ({name})", headers, rows), *outcome.notes),
        size=f"{number} trials in ",
        record={"trials": number, "seconds": None, "measures": ends, "notes": outcome.notes},
        numbers=outcome.table(),
        numbers_file="curves.parquet",
        draw=lambda path: draw_panels(_panels(outcome), path, caption=caption),
        verdicts=outcome.verdicts,
    )


def _paragraphs(outcome: Outcome) -> list[str]:
    first, number = outcome.first, outcome.n_trials
    headers = ["measure", "mean", "std", "min", "max", "published range"]
    rows = [[panel.title, *_numbers(panel), _published(panel)] for panel in outcome.measured.values()]
    return [
        f"At {first.axis} = {first.at[-1]:,g}, over {number} trials:",
        render_table(headers, rows),
        *_predicted(outcome),
        *outcome.notes,
        *outcome.settings.get("remarks", ()),
        *render_verdicts(outcome.verdicts),
        "![Curves](figure.png)",
        "Lines are means over trials and bands one standard deviation (of logarithms on logarithmic axes); "
        "dashed lines were computed from the data alone. All numbers: `curves.parquet`. To reproduce: "
        f"`attomaton reproduce {outcome.settings['name']} --trials {number} --out DIR`.",
    ]


def _caption(outcome: Outcome) -> str:
    """Title and settings in one sentence."""
    settings = outcome.settings
    data, step = settings["data"], settings.get("step")
    phrases = [
        f"{settings['title']}. K = {data['n_tokens']}, d = {settings['model']['dim']}, "
        f"n = {data['n_samples']}, T = {data['window']}",
        f"{outcome.n_trials} trials",
    ]
    if step:
        kind = "normalised" if step["normalized"] else "plain"
        phrases.append(f"{kind} descent, η = {step['size']:g}")
    return ", ".join(phrases)


def _numbers(panel: Panel) -> list[str]:
    end = panel.values[-1]
    return [f"{number:.4g}" for number in (end.mean(), end.std(), end.min(), end.max())]


def _published(panel: Panel) -> str:
    return f"{panel.published[0]:g} to {panel.published[1]:g}" if panel.published else ""


def _predicted(outcome: Outcome) -> list[str]:
    """The predictions for the end, to compare with the measured values."""
    shown = [
        f"{panel.title} {panel.predicted[1][-1]:.4g}"
        for panel in outcome.measured.values()
        if panel.predicted is not None
    ]
    lead = "Computed without training, at the same point (means; geometric if the axis is logarithmic): "
    return [f"{lead}{'; '.join(shown)}."] if shown else []


def _panels(outcome: Outcome) -> list[Panel]:
    """The panels of the figure; a logarithmic panel shows the trials with nonzero values."""
    chosen = [outcome.measured[name] for name in outcome.settings.get("panels", outcome.measured)]
    return [
        _positive(panel) if panel.log else panel for panel in chosen if np.ptp(panel.values) > 0
    ]  # zero without ties


def _positive(panel: Panel) -> Panel:
    """The trials with values that a logarithmic axis can show, and in the title how many they are."""
    positive, n_trials = (panel.values > LEAST).any(axis=0), panel.values.shape[1]
    title = (
        panel.title if np.all(positive) else f"{panel.title} ({int(np.sum(positive))} of {n_trials} trials)"
    )
    return replace(panel, title=title, values=np.maximum(panel.values[:, positive], LEAST))
