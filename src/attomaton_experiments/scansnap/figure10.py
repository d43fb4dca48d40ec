"""Figure 10 of the second paper: entropy of attention on text after training, by learning rate."""

from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
import pyarrow as pa

from attomaton.base.printing import Grid
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import Float64, make_table
from attomaton.claims import Verdict, VerdictStatus
from attomaton_experiments.figures.panels import Panel, draw_panels
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.scansnap.language import OUTSIDE, describe_model, make_training
from attomaton_experiments.scansnap_model.language_training import (
    AttentionRecord,
    LanguageRun,
    cut_windows,
    run_all,
)
from attomaton_experiments.scansnap_model.texts import TextPair, read_texts
from attomaton_experiments.settings import Settings

MEASURES = ("entropy", "loss", "largest", "own", "previous")
SCHEMA = pa.schema(
    [
        ("rate", pa.float64()),
        *((name, pa.int64()) for name in ("trial", "step")),
        *((name, pa.float64()) for name in MEASURES),
    ]
)


@dataclass(frozen=True, eq=False)
class Sweep:
    """Runs by rate and trial.

    Attributes
    ----------
    rates : tuple of float
        Learning rates, ascending.
    steps : tuple of int
        The steps at which attention was measured.
    values : dict of str to float64 array, shape (n_rates, n_trials, n_records)
        The measurements, by :data:`MEASURES`.
    """

    rates: tuple[float, ...]
    steps: tuple[int, ...]
    values: dict[str, Float64]

    def last(self, measure: str) -> Float64:
        """A measure at the end, shape (n_rates, n_trials)."""
        return self.values[measure][:, :, -1]

    @property
    def changes(self) -> list[tuple[float, float]]:
        """From each rate to the next: the change of the final mean entropy, and its error.

        The error is the standard error of a difference of means of independent trials; one trial has none.
        """
        ends = self.last("entropy")
        trials = ends.shape[1]
        squares = ends.var(1, ddof=1) / trials if trials > 1 else np.full(len(ends), np.inf)
        errors = np.sqrt(squares[1:] + squares[:-1])
        return list(zip(np.diff(ends.mean(1)).tolist(), errors.tolist(), strict=True))

    @property
    def n_falls(self) -> int:
        """For how many rates the final mean entropy falls at the next rate."""
        return sum(change < 0 for change, _ in self.changes)


def run_figure10(settings: Settings, progress: Progress = silent) -> Page:
    """Train with each rate from several starts, and measure attention on valid.txt."""
    began = perf_counter()
    texts = read_texts(settings["source"], settings["n_tokens"])
    sweep = run_sweep(settings, texts, progress)
    return _write(settings, texts, sweep, perf_counter() - began)


def run_sweep(settings: Settings, texts: TextPair, progress: Progress = silent) -> Sweep:
    """All runs: every rate from every start."""
    windows = cut_windows(texts.valid, settings["model"]["window"], settings["n_windows"])
    rates, steps = tuple(settings["rates"]), tuple(settings["records"])
    seeds = range(settings["seed"], settings["seed"] + settings["trials"])
    runs = [
        LanguageRun(make_training(settings, texts, rate=rate, seed=seed), texts.train, windows, steps)
        for rate in rates
        for seed in seeds
    ]
    records_of_runs = run_all(runs, workers=settings["workers"], progress=partial(progress, settings["name"]))
    table = np.array([[_measures(record) for record in records] for records in records_of_runs])
    shaped = table.reshape(len(rates), len(seeds), len(steps), len(MEASURES))
    return Sweep(rates, steps, {name: shaped[..., number] for number, name in enumerate(MEASURES)})


def _measures(record: AttentionRecord) -> list[float]:
    """In the order of :data:`MEASURES`."""
    return [
        record.mean_entropy,
        record.loss,
        record.largest,
        float(record.by_distance[0]),
        float(record.by_distance[1]),
    ]


def _write(settings: Settings, texts: TextPair, sweep: Sweep, seconds: float) -> Page:
    trials = sweep.last("entropy").shape[1]
    caption = f"{describe_model(settings, texts)}; SGD, {sweep.steps[-1]:,} steps, {trials} seeds"
    entropies = sweep.last("entropy").mean(1)
    notes = (
        f"Mean entropy falls at {sweep.n_falls} of {len(sweep.rates) - 1} increases of the rate, from "
        f"{entropies[0]:.3f} to {entropies[-1]:.3f} nats. The paper reports: the larger the rate, the lower "
        f"the entropy. {_say_changes(sweep)}",
        f"Measured on {settings['n_windows']:,} windows of valid, without dropout. The rate of "
        f"{', '.join(settings['training']['fast'])} is {settings['training']['fast_ratio']:g} times that of "
        "the rest.",
        "A flow with both rates increased at a fixed ratio would only run faster: the same entropy "
        "at equal rate × steps. Differences there come from finite steps: their length, the noise of "
        "mini-batches, and the amount of text read.",
        *settings.get("remarks", []),
        f"Wall time {seconds / 60:.1f} minutes.",
    )

    return render_figure(
        settings,
        caption,
        (_table_of_ends(sweep), _table_of_entropies(sweep), _table_of_times(sweep)),
        _numbers(sweep),
        partial(draw_panels, _panels(sweep)),
        verdicts=(judge_figure10(sweep),),
        notes=notes,
        options="--data FOLDER",
    )


def _say_changes(sweep: Sweep) -> str:
    """Each increase of the rate in words, with the standard error."""
    pairs = zip(sweep.rates, sweep.rates[1:], sweep.changes, strict=False)
    changes = [f"{low:g} to {high:g}: {change:+.3f} ± {error:.3f}" for low, high, (change, error) in pairs]
    return f"Changes with their standard errors: {'; '.join(changes)}."


def judge_figure10(sweep: Sweep) -> Verdict:
    """The verdict on the claim that increasing both rates at a fixed ratio makes attention sparser."""
    entropies = sweep.last("entropy").mean(1)
    falls = "has this order" if sweep.n_falls == len(sweep.rates) - 1 else "does not always have this order"
    return Verdict(
        "sparser with larger rates",
        VerdictStatus.NOT_APPLICABLE,
        float(entropies[-1]),
        float(entropies[0]),
        f"{OUTSIDE}. Measured nevertheless: mean entropy {falls}; the value is that of the largest rate, the "
        "bound that of the smallest",
    )


def _panels(sweep: Sweep) -> list[Panel]:
    rates = np.array(sweep.rates)
    titles = {
        "entropy": "entropy of attention, nats",
        "loss": "log-loss on valid, nats",
        "largest": "largest weight of a row",
        "own": "attention on the query itself",
    }
    return [Panel(title, rates, sweep.last(name), axis="learning rate") for name, title in titles.items()]


def _table_of_ends(sweep: Sweep) -> Grid:
    rows = [
        [f"{rate:g}", *(_spread(sweep.last(name)[number]) for name in MEASURES)]
        for number, rate in enumerate(sweep.rates)
    ]
    headers = ["rate", "entropy", "log-loss", "largest weight", "on the query", "on the one before"]
    return Grid(f"After {sweep.steps[-1]:,} steps, mean ± std over seeds", headers, rows)


def _table_of_entropies(sweep: Sweep) -> Grid:
    rows = [
        [
            f"{rate:g}",
            *(_spread(sweep.values["entropy"][number, :, when]) for when in range(len(sweep.steps))),
        ]
        for number, rate in enumerate(sweep.rates)
    ]
    return Grid("Entropy by step", ["rate", *(f"{step:,}" for step in sweep.steps)], rows)


def _table_of_times(sweep: Sweep) -> Grid:
    """Entropies at equal rate × steps: a flow would have equal ones."""
    cells: dict[float, dict[float, str]] = {}
    for number, rate in enumerate(sweep.rates):
        for when, step in enumerate(sweep.steps):
            cell = f"{_spread(sweep.values['entropy'][number, :, when])} ({step:,})"
            cells.setdefault(round(rate * step, 6), {})[rate] = cell
    rows = [
        [f"{time:g}", *(row.get(rate, "") for rate in sweep.rates)]
        for time, row in sorted(cells.items())
        if time > 0 and len(row) > 1
    ]
    headers = ["rate × steps", *(f"rate {rate:g}" for rate in sweep.rates)]
    return Grid("Entropy at equal rate × steps (with the number of steps)", headers, rows)


def _spread(values: Float64) -> str:
    return f"{values.mean():.3f} ± {values.std():.3f}"


def _numbers(sweep: Sweep) -> pa.Table:
    rate, trial, step = np.indices(sweep.values["entropy"].shape)
    return make_table(
        SCHEMA,
        {
            "rate": np.array(sweep.rates)[rate.ravel()],
            "trial": trial.ravel(),
            "step": np.array(sweep.steps)[step.ravel()],
            **{name: values.ravel() for name, values in sweep.values.items()},
        },
    )
