"""The published curves: cosines of every layer's weights with their forecast, over training.

Settings: ``tokenizer``, ``n_tokens``, ``window`` and ``n_sequences`` (the corpus), ``n_layers``,
``step_sizes``, ``epochs``, ``steps_per_epoch``, ``every`` (steps between records), ``marks`` (epochs in
the table) and ``published`` (smallest cosines by step size, epoch and weights).
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.printing import Grid
from attomaton.base.progress import Progress
from attomaton.base.tables import make_table
from attomaton.claims import Verdict, VerdictStatus, compare_beginning, verify_beginning
from attomaton.claims.agreement import Agreement
from attomaton.claims.verdicts import verdict_record
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton.theories.beginning.theorem import WEIGHT_SIGNS
from attomaton.training import DeepModel, Watch, train_deep
from attomaton_experiments.beginning.sequences import Sequences, read_sequences
from attomaton_experiments.finished import FinishedResults
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

SCHEMA = pa.schema(
    [
        ("step_size", pa.float64()),
        ("step", pa.int64()),
        ("epoch", pa.float64()),
        ("weights", pa.string()),
        ("layer", pa.int64()),
        *((name, pa.float64()) for name in ("loss", "cosine", "size")),
    ]
)


def run_curves(settings: Settings, progress: Progress) -> Page:
    """Train once with each step size, and compare every layer with the forecast from the corpus."""
    results = FinishedResults(settings.get("work"))
    sizes = {name: settings[name] for name in ("tokenizer", "n_tokens", "window")}
    progress("reading", 0, 0)
    text = read_sequences(settings["source"], sizes["n_tokens"], sizes["window"], sizes["tokenizer"])
    runs: dict[float, dict[str, Any]] = {}
    for size in settings["step_sizes"]:
        progress(f"training {settings['n_layers']} layers with step {size:g}", 0, 0)
        runs[size] = results.take(
            f"step size {size:g}", _options_of(settings, text, size), partial(_train, settings, text, size)
        )
    return _write(settings, text, runs)


def _options_of(settings: Settings, text: Sequences, size: float) -> dict[str, Any]:
    """The settings that determine the numbers of one run."""
    names = ("n_layers", "epochs", "steps_per_epoch", "every", "n_sequences", "seed", "tokenizer")
    return {name: settings[name] for name in names} | {
        "step_size": size,
        "text": text.name,
        "n_tokens": text.n_tokens,
        "shape": list(text.table.shape),
    }


def _train(settings: Settings, text: Sequences, size: float) -> dict[str, Any]:
    """Losses, cosines and sizes by record, kind of weights and layer."""
    trace = train_deep(
        text.draw(settings["n_sequences"], [settings["seed"], 0]),
        DeepModel(n_layers=settings["n_layers"]),
        size,
        steps=settings["epochs"] * settings["steps_per_epoch"],
        n_tokens=text.n_tokens,
        watch=Watch(every=settings["every"]),
        seed=settings["seed"],
    )
    agreement = compare_beginning(trace)
    verdicts = [verdict_record(verdict) for verdict in verify_beginning(agreement)]
    return {**measured(agreement), "verdicts": verdicts}


def measured(agreement: Agreement) -> dict[str, Any]:
    """The numbers of a run with one trial and one head, from the first record with a forecast of W."""
    trace = agreement.trace
    measured_records = np.flatnonzero(np.isfinite(agreement.near["attention"].cosine).all(axis=(1, 2, 3)))
    lists: dict[str, Any] = {
        "steps": trace.steps[measured_records].tolist(),
        "losses": trace.losses[measured_records, 0].tolist(),
    }
    lists["first_loss"] = float(trace.losses[0, 0])
    for kind in ("cosine", "size"):
        near = {
            name: getattr(weights, kind)[measured_records, 0, :, 0]
            for name, weights in agreement.near.items()
        }
        lists[kind] = {name: values.T.tolist() for name, values in near.items()}
    return lists


def _write(settings: Settings, text: Sequences, runs: dict[float, dict[str, Any]]) -> Page:
    caption = (
        f"{settings['n_layers']} layers of attention on {text.name}: {settings['n_sequences']:,} sequences "
        f"of {settings['window']} tokens, {text.n_tokens:,} tokens; full-batch gradient descent from zero, "
        f"{settings['epochs']} epochs of {settings['steps_per_epoch']} steps"
    )
    return render_figure(
        settings,
        caption,
        (_table(settings, runs),),
        _numbers(settings, runs),
        partial(_draw, settings, runs),
        verdicts=[_verdict(size, record) for size, run in runs.items() for record in run["verdicts"]],
        notes=tuple(settings.get("remarks", ())),
        options="--data FILE",
    )


def _verdict(size: float, record: dict[str, Any]) -> Verdict:
    status, claim = VerdictStatus(record["status"]), f"{record['claim']} (step {size:g})"
    return Verdict(claim, status, record["value"], record["bound"], record["reason"])


def _table(settings: Settings, runs: dict[float, dict[str, Any]]) -> Grid:
    """The smallest cosine of any layer up to each mark, beside the published value."""
    published = {(setting["step_size"], setting["epoch"]): setting for setting in settings["published"]}
    rows: list[list[str]] = []
    for size, run in runs.items():
        for mark in settings["marks"]:
            last = mark * settings["steps_per_epoch"]
            records = [record for record, step in enumerate(run["steps"]) if step <= last]
            least = {
                name: min(layer[record] for layer in run["cosine"][name] for record in records)
                for name in WEIGHT_SIGNS
            }
            expected = published.get((size, mark), {})
            row = [f"{size:g}", f"{mark}", f"{run['losses'][records[-1]]:.3f}"]
            row += [f"{least[name]:.4f}" for name in WEIGHT_SIGNS]
            rows.append([*row, expected.get("said", "")])
    headers = ["step size", "epochs", "loss", *WEIGHT_SIGNS.values(), "published"]
    return Grid("Smallest cosine of any layer with the forecast, up to an epoch", headers, rows)


def _numbers(settings: Settings, runs: dict[float, dict[str, Any]]) -> pa.Table:
    rows = [
        {
            "step_size": size,
            "step": step,
            "epoch": step / settings["steps_per_epoch"],
            "weights": WEIGHT_SIGNS[name],
            "layer": layer,
            "loss": run["losses"][record],
            **{kind: run[kind][name][layer][record] for kind in ("cosine", "size")},
        }
        for size, run in runs.items()
        for name in WEIGHT_SIGNS
        for layer in range(len(run["cosine"][name]))
        for record, step in enumerate(run["steps"])
    ]
    return make_table(SCHEMA, {name: [row[name] for row in rows] for name in SCHEMA.names})


def _draw(settings: Settings, runs: dict[float, dict[str, Any]], path: Path, *, caption: str) -> list[Path]:
    """One row per kind of weights, one column per step size."""
    floors = {
        size: min(min(map(min, run["cosine"][name])) for name in WEIGHT_SIGNS) for size, run in runs.items()
    }
    panels = [
        LinePanel(
            f"cosine of {sign}, step {size:g}",
            [
                Line(
                    "all layers" if name == "output" else f"layer {layer + 1}",
                    [step / settings["steps_per_epoch"] for step in run["steps"]],
                    values,
                    3 if name == "output" else layer % 3,
                    layer % 4,
                )
                for layer, values in enumerate(run["cosine"][name])
            ],
            least=min(0.0, floors[size] - 0.05) if floors[size] < 0.9 else None,
            axis="epoch",
            log_axis=False,
        )
        for name, sign in WEIGHT_SIGNS.items()
        for size, run in runs.items()
    ]
    return draw_line_panels(panels, path, caption=caption, n_columns=len(runs))
