"""The page of the turn: cosines by step, the turn and its spread, how long the forecast holds, a figure."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.printing import Grid
from attomaton.base.tables import make_table
from attomaton.claims import Verdict, VerdictStatus
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton.theories.beginning.theorem import WEIGHT_SIGNS
from attomaton_experiments.beginning.sequences import Sequences
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

Runs = dict[str, dict[str, Any]]
LEVELS = (0.98, 0.9, 0.5)
SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("step", pa.int64()),
        ("weights", pa.string()),
        ("layer", pa.int64()),
        *((name, pa.float64()) for name in ("loss", "cosine", "size", "course")),
    ]
)


def render_turn(settings: Settings, text: Sequences, runs: Runs) -> Page:
    """The page of all runs, by name; subsamples first."""
    samples = {name: run for name, run in runs.items() if name.startswith("subsample")}
    caption = (
        f"{settings['n_layers']} layers of attention on {text.name}: {len(samples)} subsamples of "
        f"{settings['n_sequences']:,} sequences of {settings['window']} tokens, {text.n_tokens:,} tokens; "
        f"full-batch gradient descent from zero, step {settings['step_size']:g}"
    )
    tables = (_cosines(settings, samples), _turns(samples), _lasting(runs), _keys(samples))
    return render_figure(
        settings,
        caption,
        tables,
        _numbers(runs),
        partial(_draw, runs),
        verdicts=_verdicts(samples),
        notes=tuple(settings.get("remarks", ())),
        options="--data FILE",
    )


def _over(samples: Runs, kind: str, name: str) -> Any:
    """A measure over the subsamples that have it, shape (n_samples, n_layers, n_records)."""
    return np.array([run[kind][name] for run in samples.values() if kind in run])


def _cosines(settings: Settings, samples: Runs) -> Grid:
    """Medians over subsamples at some steps."""
    steps: list[int] = next(iter(samples.values()))["steps"]
    losses = np.array([run["losses"] for run in samples.values()])
    rows = [
        [f"{mark}", f"{np.median(losses[:, steps.index(mark)]):.2f}"]
        + [
            " / ".join(
                f"{value:.2f}"
                for value in np.median(_over(samples, kind, name), axis=0)[:, steps.index(mark)]
            )
            for kind, name in (*(("cosine", name) for name in WEIGHT_SIGNS), ("course", "attention"))
        ]
        for mark in settings["marks"]
        if mark in steps
    ]
    headers = ["step", "loss", *(f"cos {sign}" for sign in WEIGHT_SIGNS.values()), "cos W, course"]
    return Grid("Cosine of weights with their forecast, by layer, medians over subsamples", headers, rows)


def _turns(samples: Runs) -> Grid:
    """The step of the turn by layer, with its spread over subsamples."""
    turns = [run["turns"] for run in samples.values()]
    rows: list[list[str]] = []
    for layer in range(len(turns[0])):
        steps = np.array([turn[layer] for turn in turns if turn[layer] is not None], float)
        cells = ["", "", ""] if not len(steps) else _spread(steps)
        rows.append([f"{layer + 1}", f"{len(steps)} of {len(turns)}", *cells])
    headers = ["layer", "subsamples that turn", "median step", "5 to 95 %", "mean ± standard error"]
    return Grid("The turn: where cos(W, Q̄) falls below ½", headers, rows)


def _spread(values: Any) -> list[str]:
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return [f"{middle:.1f}", f"{low:.1f} to {high:.1f}", f"{values.mean():.2f} ± {error:.2f}"]


def _lasting(runs: Runs) -> Grid:
    """How long each run follows its forecast: the last record up to which every layer's W is along Q̄."""
    named = {"subsample 0": "as above, first subsample"} | {name: name for name in runs if "sub" not in name}
    rows: list[list[str]] = []
    for name, shown in named.items():
        run = runs[name]
        least = np.min(run["cosine"]["attention"], axis=0)
        row = [shown, f"{run['step_size']:g}", f"{run['start']:g}"]
        for level in LEVELS:
            record = _last_above(least, level)
            fallen = 0.0 if record is None else 1 - run["losses"][record] / run["first_loss"]
            row.append("never" if record is None else f"{run['steps'][record]} ({100 * fallen:.0f} %)")
        course = np.min(run["course"]["attention"]) if "course" in run else None
        rows.append([*row, "" if course is None else f"{course:.2f}"])
    headers = [
        "run",
        "step size",
        "start",
        *(f"last step with cos ≥ {level:g} (fall of the loss)" for level in LEVELS),
    ]
    return Grid("How long the forecast of W holds", [*headers, "smallest cos with the course"], rows)


def _last_above(values: Any, level: float) -> int | None:
    """The last record before the first fall below a level, once reached; None if it never was."""
    above = np.flatnonzero(values >= level)
    if not len(above):
        return None
    below = np.flatnonzero(values[above[0] :] < level)
    return int(above[0] + below[0] - 1) if len(below) else len(values) - 1


def _keys(samples: Runs) -> Grid:
    """The keys that all queries together attend to, at first and at the end, on the first subsample."""
    keys: dict[str, list[str]] = next(iter(samples.values()))["keys"]
    rows = [
        [
            name if name == "first" else f"{name} at the end",
            " ".join(tokens[: len(tokens) // 2]),
            " ".join(tokens[len(tokens) // 2 :]),
        ]
        for name, tokens in keys.items()
    ]
    return Grid(
        "What attention turns to: keys by their mean score over queries", ["", "highest", "lowest"], rows
    )


def _verdicts(samples: Runs) -> list[Verdict]:
    """The worst verdict on each claim over the subsamples it applies to."""
    by_claim: dict[str, list[dict[str, Any]]] = {}
    for run in samples.values():
        for record in run["verdicts"]:
            by_claim.setdefault(record["claim"], []).append(record)
    return [_worst(claim, records) for claim, records in by_claim.items()]


def _worst(claim: str, records: list[dict[str, Any]]) -> Verdict:
    judged = [record for record in records if record["value"] is not None]
    if not judged:
        return Verdict(claim, VerdictStatus.NOT_APPLICABLE, None, None, records[0]["reason"])
    failed = [record for record in judged if record["status"] == "fails"]
    worst = min(failed or judged, key=lambda record: record["value"] - record["bound"])
    reason = f"{worst['reason']}; worst of {len(judged)} subsamples, of which {len(failed)} fail"
    return Verdict(claim, VerdictStatus(worst["status"]), worst["value"], worst["bound"], reason)


def _numbers(runs: Runs) -> pa.Table:
    rows = [
        {
            "run": name,
            "step": step,
            "weights": WEIGHT_SIGNS[weights],
            "layer": layer,
            "loss": run["losses"][record],
            "cosine": run["cosine"][weights][layer][record],
            "size": run["size"][weights][layer][record],
            "course": run["course"][weights][layer][record] if "course" in run else float("nan"),
        }
        for name, run in runs.items()
        for weights in WEIGHT_SIGNS
        for layer in range(len(run["cosine"][weights]))
        for record, step in enumerate(run["steps"])
    ]
    return make_table(SCHEMA, {name: [row[name] for row in rows] for name in SCHEMA.names})


def _draw(runs: Runs, path: Path, *, caption: str) -> list[Path]:
    samples = {name: run for name, run in runs.items() if name.startswith("subsample")}
    steps = [float(step) for step in next(iter(samples.values()))["steps"]]
    lines = [
        Line(sign, steps, np.median(_over(samples, "cosine", name), axis=(0, 1)).tolist(), colour, colour)
        for colour, (name, sign) in enumerate(WEIGHT_SIGNS.items())
    ]
    losses = np.median([run["losses"] for run in samples.values()], axis=0)
    panels = [
        LinePanel(
            "cosine of W, medians over subsamples (dotted: each)", _turning(samples, steps), log_axis=False
        ),
        LinePanel("cosine of weights with the first forecast", lines, log_axis=False),
        LinePanel("training loss", [Line("", steps, losses.tolist(), 0)], log_axis=False),
    ]
    starts = _starts(runs)
    if starts:
        panels.append(LinePanel("cosine of W and Q̄ from Gaussian starts", starts, log_axis=False))
    return draw_line_panels(panels, path, caption=caption)


def _turning(samples: Runs, steps: list[float]) -> list[Line]:
    """Cosines of W with Q̄, for each subsample and the median, and with its course."""
    single = [
        Line("", steps, layer, number % 4, 2)
        for run in samples.values()
        for number, layer in enumerate(run["cosine"]["attention"])
    ]
    medians = [
        Line(f"W and {sign}, layer {number + 1}", steps, curve, number % 4, style)
        for style, (kind, sign) in enumerate((("cosine", "Q̄"), ("course", "its course")))
        for number, curve in enumerate(np.median(_over(samples, kind, "attention"), axis=0).tolist())
    ]
    return [*single, *medians]


def _starts(runs: Runs) -> list[Line]:
    """The worst layer for each Gaussian start."""
    chosen = {name: run for name, run in runs.items() if name.startswith("start")}
    least = {name: np.min(run["cosine"]["attention"], axis=0).tolist() for name, run in chosen.items()}
    return [
        Line(
            f"start {_show_power(run['start'])}",
            [float(step) for step in run["steps"]],
            least[name],
            number % 4,
            number % 4,
        )
        for number, (name, run) in enumerate(chosen.items())
    ]


def _show_power(value: float) -> str:
    # 10⁻⁵ instead of 1e-05
    digits, _, exponent = f"{value:.0e}".partition("e")
    is_power = digits == "1" and float(f"1e{exponent}") == value
    return "10" + str(int(exponent)).translate(SUPERSCRIPTS) if is_power else f"{value:g}"
