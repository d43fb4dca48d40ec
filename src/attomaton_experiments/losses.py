"""Losses and heads apart, in the first paper's setting: which of the two leads training astray.

Settings: ``data`` and ``step`` as for training, ``model`` with the dimension and the start, and
``temperatures``, those of the cross-entropy. With a folder for ``work`` every training run is stored there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton import Automaton
from attomaton.base.printing import Grid
from attomaton.base.progress import Progress
from attomaton.base.tables import Float64
from attomaton.claims import Verdict, solve_trials
from attomaton.claims.approach import MISSED
from attomaton.claims.evidence import Evidence
from attomaton.claims.local import find_local_directions
from attomaton.claims.mechanics import MECHANICS_CLAIMS
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton.training import (
    AttentionModel,
    CorrelationLoss,
    EmbeddingDistance,
    GradientDescent,
    LogLoss,
    RandomUnit,
    SquaredLoss,
    Store,
    Tied,
    TokenId,
    Trace,
    Untied,
    train,
)
from attomaton_experiments.mechanics import ASTRAY, draw_corpora
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

JUDGED = ("convex", "direction", "hard retrieval", "local direction")
"""The claims judged in each cell."""


@dataclass(frozen=True)
class Cell:
    """A loss with a head; ``temperature`` of the cross-entropy, None for other losses."""

    loss: str
    tied: bool
    head: Any
    value: Any
    temperature: float | None = None

    @property
    def name(self) -> str:
        """Loss and head."""
        warm = "" if self.temperature is None else f", temperature {self.temperature:g}"
        return f"{self.loss}{warm}, {'tied' if self.tied else 'untied'}"


@dataclass(frozen=True, eq=False)
class CellResult:
    """One cell: correlations by record and trial, what trials retrieve at the end, and verdicts."""

    cell: Cell
    steps: Any
    correlation: Float64
    local: Float64
    missed: Float64
    least: float
    verdicts: tuple[Verdict, ...]

    @property
    def astray(self) -> int:
        """The number of trials that converge elsewhere."""
        return int((self.correlation[-1] < ASTRAY).sum())

    @property
    def retrieving(self) -> int:
        """The number of trials whose attention is on the best components at the end."""
        return int((self.missed <= MISSED).sum())


def list_cells(temperatures: Sequence[float]) -> list[Cell]:
    """Every loss with every head. Cross-entropy is log-loss of a softmax; an untied head needs one."""
    cells = [Cell("log", True, TokenId(), LogLoss())]
    cells += [
        Cell("squared", True, TokenId(), SquaredLoss()),
        Cell("squared", False, Untied(1.0), SquaredLoss()),
    ]
    cells += [Cell("mse", tied, EmbeddingDistance(tied), CorrelationLoss()) for tied in (True, False)]
    for tied, head in ((True, Tied), (False, Untied)):
        cells += [
            Cell("cross-entropy", tied, head(temperature), LogLoss(), temperature)
            for temperature in temperatures
        ]
    return cells


def run_losses(settings: Settings, progress: Progress) -> Page:
    """Train every cell on the same draws, measure, judge, and make the page."""
    cells = list_cells(settings["temperatures"])
    corpora = draw_corpora(settings, settings["data"]["draw"])
    automata: list[Automaton] = []
    measured: list[CellResult] = []
    for number, cell in enumerate(cells):
        progress(f"{settings['name']}: {cell.name}", number, len(cells))
        trace = train_cell(settings, cell, corpora)
        automata = automata or solve_trials(trace)  # data and embeddings are those of every cell
        measured.append(measure_cell(cell, trace, automata))
    return render_figure(
        settings,
        _caption(settings),
        (_table(measured, settings["trials"]), _claims(measured)),
        pa.Table.from_pylist([row for result in measured for row in _rows(result)]),
        partial(_draw, measured, settings["trials"]),
        verdicts=[
            Verdict(
                f"{verdict.claim}, {row.cell.name}",
                verdict.status,
                verdict.value,
                verdict.bound,
                verdict.reason,
            )
            for row in measured
            for verdict in row.verdicts
            if verdict.value is not None
        ],
        notes=(_compare(measured), *settings.get("remarks", ())),
    )


def train_cell(settings: Settings, cell: Cell, corpora: Sequence[Any]) -> Trace:
    """Train all trials with one loss and head, or read an earlier run."""
    step, work = settings["step"], settings.get("work")
    slug = cell.name.replace(", ", "-").replace(" ", "-")
    options = settings["model"]
    return train(
        corpora,
        AttentionModel(RandomUnit(options["dim"]), cell.head, cell.value, start=options["start"]),
        GradientDescent(step["size"], normalized=step["normalized"]),
        steps=step["steps"],
        seed=settings["seed"],
        out=None if work is None else Store(Path(work) / slug, resume=True),
    )


def measure_cell(cell: Cell, trace: Trace, automata: list[Automaton]) -> CellResult:
    """Correlations with both directions, and the verdicts on the claims."""
    evidence = Evidence(trace, tuple(automata))
    local = find_local_directions(trace)
    unit = local / np.maximum(np.linalg.norm(local, axis=(1, 2), keepdims=True), np.finfo(float).tiny)
    norms = np.linalg.norm(trace.weights, axis=(2, 3))
    claims = {claim.name: claim for claim in MECHANICS_CLAIMS}
    return CellResult(
        cell,
        trace.steps,
        evidence.curves.correlation,
        np.einsum("rbij,bij->rb", trace.weights, unit) / np.maximum(norms, np.finfo(float).tiny),
        evidence.curves.missed[-1],
        claims["convex"].judge(evidence).value,
        tuple(claims[name].check(evidence) for name in JUDGED),
    )


def _caption(settings: Settings) -> str:
    data, step = settings["data"], settings["step"]
    return (
        f"Losses and heads: K = {data['n_tokens']}, d = {settings['model']['dim']}, n = {data['n_samples']}, "
        f"T = {data['window']}, {settings['trials']} trials, the same draws in every row, "
        f"{'normalised' if step['normalized'] else 'plain'} descent, η = {step['size']:g}, "
        f"{step['steps']:,} steps"
    )


def _table(measured: list[CellResult], n_trials: int) -> Grid:
    headers = ["loss", "head", "corr. with W_svm", f"below {ASTRAY}", "corr. with local W_svm"]
    rows = [
        [
            result.cell.name.rpartition(", ")[0],
            "tied" if result.cell.tied else "untied",
            f"{np.median(result.correlation[-1]):.4f}",
            f"{result.astray} of {n_trials}",
            f"{np.median(result.local[-1]):.4f}",
            f"{int((result.local[-1] < ASTRAY).sum())} of {n_trials}",
            f"{result.retrieving} of {n_trials}",
            f"{result.least:.2g}",
        ]
        for result in measured
    ]
    more = [f"below {ASTRAY}", "trials that retrieve", "least curvature"]
    return Grid(
        "Correlations at the end (medians), and trials that converge elsewhere", [*headers, *more], rows
    )


def _claims(measured: list[CellResult]) -> Grid:
    rows = [[result.cell.name, *(verdict.status.words for verdict in result.verdicts)] for result in measured]
    return Grid("Verdicts", ["loss and head", *JUDGED], rows)


def _compare(measured: list[CellResult]) -> str:
    """How many trials each change leads astray, the rest held fixed."""
    counts = {
        (result.cell.loss, result.cell.temperature, result.cell.tied): result.astray for result in measured
    }
    changes = {
        "squared loss": ("squared", None, True),
        "a softmax over the masses (cross-entropy, temperature 1)": ("cross-entropy", 1.0, True),
        "an untied head, which needs a softmax (temperature 1)": ("cross-entropy", 1.0, False),
        "squared loss and an untied head at once, as in mechanics-local": ("squared", None, False),
    }
    changed_counts = [f"{counts[key]} with {name}" for name, key in changes.items() if key in counts]
    return (
        f"Trials below {ASTRAY}: {counts['log', None, True]} with the log of the mass itself; "
        f"{'; '.join(changed_counts)}."
    )


def _rows(result: CellResult) -> list[dict[str, Any]]:
    """One row per trial at the end."""
    return [
        {
            "loss": result.cell.loss,
            "temperature": result.cell.temperature,
            "tied": result.cell.tied,
            "trial": trial,
            "correlation": float(result.correlation[-1, trial]),
            "local_correlation": float(result.local[-1, trial]),
            "missed": float(result.missed[trial]),
        }
        for trial in range(len(result.missed))
    ]


def _draw(measured: list[CellResult], n_trials: int, path: Path, *, caption: str) -> list[Path]:
    """Median correlations by step for each loss, and trials below the threshold by temperature."""
    kinds = list(dict.fromkeys(result.cell.loss for result in measured))
    panels = [
        LinePanel(
            f"correlation with {'the local' if local else 'the global'} W_svm (solid: tied head)",
            [
                Line(
                    result.cell.loss if result.cell.tied else "",
                    result.steps[1:].tolist(),
                    np.median(result.local if local else result.correlation, axis=1)[1:].tolist(),
                    kinds.index(result.cell.loss),
                    int(not result.cell.tied),
                )
                for result in measured
                if result.cell.temperature in (None, 1.0)
            ],
        )
        for local in (False, True)
    ]
    sweep: list[Line] = []
    for tied in (True, False):
        warmer = [
            result for result in measured if result.cell.temperature is not None and result.cell.tied == tied
        ]
        warm = [float(result.cell.temperature or 0.0) for result in warmer]
        name = f"cross-entropy, {'tied' if tied else 'untied'}"
        sweep.append(Line(name, warm, [result.astray / n_trials for result in warmer], 4, int(not tied)))
    panels.append(LinePanel(f"share of trials below {ASTRAY}", sweep, least=0.0, axis="temperature"))
    written = draw_line_panels(panels[:2], path, caption=caption)
    return written + draw_line_panels(panels[2:], path.with_name(f"{path.name}-temperature"), caption=caption)
