"""The margin that each optimiser maximises: many small trials, with and without cycles.

Settings: ``data`` (how samples are drawn), ``steps``, ``every`` and ``optimisers``, each with its step, its
size, its decay, and the ``bar`` that a share ``enough`` of the trials without cycles must reach. With a
folder for ``work`` every training run is stored there, and an interrupted one is resumed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.printing import Grid
from attomaton.base.progress import Progress
from attomaton.claims import Verdict, measure_margins, solve_trials
from attomaton.claims.evidence import Evidence
from attomaton.claims.margin_claims import MARGIN_CLAIMS
from attomaton.claims.margins import MARGIN_NORMS, NORM_OF_STEP, Margins, Norm
from attomaton.claims.verdicts import Judgement
from attomaton.corpora import Samples
from attomaton.corpora.synthetic import draw_ordered
from attomaton.graphs import extract_edges, find_components
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton.training import (
    Adam,
    AttentionModel,
    Decay,
    GradientDescent,
    Muon,
    Orthonormal,
    SignDescent,
    SpectralDescent,
    Step,
    Store,
    Watch,
    train,
)
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

STEPS: dict[str, Callable[..., Step]] = {
    "descent": GradientDescent,
    "normalised": partial(GradientDescent, normalized=True),
    "sign": SignDescent,
    "adam": Adam,
    "spectral": SpectralDescent,
    "muon": Muon,
}
"""The steps by their names in settings."""

DRAWS = {"acyclic": "without cycles", "cyclic": "with cycles"}


@dataclass(frozen=True, eq=False)
class OptimiserRun:
    """One optimiser on one kind of data, with margins in every norm and the verdict in its own norm."""

    optimiser: dict[str, Any]
    draw: str
    natural_norm: Norm
    margins: dict[Norm, Margins]
    verdict: Verdict

    @property
    def ends(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The final share of the best margin in its own norm, shape (n_trials,)."""
        return self.margins[self.natural_norm].share[-1]


def run_optimisers(settings: Settings, progress: Progress) -> Page:
    """Train every optimiser on data without and with cycles, measure margins, judge, and make the page."""
    corpora = {draw: draw_trials(settings, draw) for draw in DRAWS}
    pairs = [(draw, optimiser) for draw in DRAWS for optimiser in settings["optimisers"]]
    runs: list[OptimiserRun] = []
    for at, (draw, optimiser) in enumerate(pairs):

        def advance(done: int, total: int, at: int = at, optimiser: dict[str, Any] = optimiser) -> None:
            progress(f"{settings['name']}: {optimiser['name']}", at * total + done, len(pairs) * total)

        runs.append(train_optimiser(settings, draw, optimiser, corpora[draw], advance))
    return render_figure(
        settings,
        _caption(settings, corpora),
        tuple(_table(runs, draw) for draw in DRAWS),
        pa.Table.from_pylist([row for run in runs for row in _rows(run)]),
        partial(_draw, runs),
        verdicts=(*_bars(runs), *(run.verdict for run in runs)),
        notes=NOTES,
    )


NOTES = (
    "The margin of W is the smallest score difference of any priority; its share is margin(W)/‖W‖ / the "
    "best margin in that norm, proved by the Graph-SVM of that norm. Each optimiser is judged in its own "
    "norm; in the others its share stays below 1.",
    "Muon here brings singular values near 1, not to 1, as in PyTorch, so it falls short of spectral "
    "descent. Adam's running mean of squares over 1,000 steps slows the weights down: averages "
    "over 100 steps come closer by the same step.",
    "With cycles the theorem does not apply: scores inside components stay finite, and margins are shown "
    "only for comparison.",
)


def draw_trials(settings: Settings, draw: str) -> list[Samples]:
    """A corpus per trial, each from its own generator."""
    data, cyclic = settings["data"], draw == "cyclic"
    names = ("n_tokens", "n_samples", "window", "n_queries")
    sizes: dict[str, int] = {name: data[name] for name in names}
    number = min(settings["trials"], data["cyclic_trials"]) if cyclic else settings["trials"]
    seeds = ([settings["seed"], trial, int(cyclic)] for trial in range(number))
    return [_draw_one(np.random.default_rng(seed), cyclic=cyclic, **sizes) for seed in seeds]


def _draw_one(rng: np.random.Generator, *, cyclic: bool, **sizes: int) -> Samples:
    """A corpus with a priority, so that there is a margin."""
    while True:
        samples = draw_ordered(rng, cyclic=cyclic, **sizes)
        if find_components(extract_edges(samples)).order.num_rows:
            return samples


def make_step(optimiser: dict[str, Any]) -> Step:
    """The step described by the settings of an optimiser."""
    options: dict[str, Any] = {
        name: optimiser[name] for name in ("betas", "epsilon", "momentum") if name in optimiser
    }
    if optimiser.get("decay"):
        options["schedule"] = Decay(optimiser["decay"])
    return STEPS[optimiser["step"]](optimiser["size"], **options)


def train_optimiser(
    settings: Settings,
    draw: str,
    optimiser: dict[str, Any],
    corpora: list[Samples],
    advance: Callable[[int, int], None],
) -> OptimiserRun:
    """Train all trials with one optimiser, or read an earlier run, and measure."""
    steps, step, work = settings["steps"], make_step(optimiser), settings.get("work")
    watch = Watch([lambda done, _: advance(done, steps)], every=settings["every"])
    slug = f"{draw}-{optimiser['name']}".replace(", ", "-").replace(" ", "-").lower()
    store = None if work is None else Store(Path(work) / slug, resume=True)
    trace = train(corpora, AttentionModel(Orthonormal()), step, steps=steps, watch=watch, out=store)
    automata = tuple(solve_trials(trace))
    natural_norm = NORM_OF_STEP[type(step)]
    claim = next(
        margin_claim for margin_claim in MARGIN_CLAIMS if margin_claim.name == f"margin-{natural_norm}"
    )
    judged = claim.check(Evidence(trace, automata))
    verdict = replace(judged, claim=f"{judged.claim}, {optimiser['name']}, {DRAWS[draw]}")
    margins: dict[Norm, Margins] = {norm: measure_margins(trace, automata, norm) for norm in MARGIN_NORMS}
    return OptimiserRun(optimiser, draw, natural_norm, margins, verdict)


def _bars(runs: list[OptimiserRun]) -> list[Verdict]:
    """How many trials without cycles reach the bar of the settings."""
    verdicts: list[Verdict] = []
    for run in runs:
        if run.draw == "acyclic" and "bar" in run.optimiser:
            reached = float((run.ends >= run.optimiser["bar"]).mean())
            bar = f"{run.optimiser['bar']:g} of the best {run.natural_norm} margin"
            meaning = f"share of the trials with at least {bar}"
            judged = Judgement(reached, run.optimiser["enough"], reached >= run.optimiser["enough"], meaning)
            verdicts.append(judged.about(f"reached, {run.optimiser['name']}"))
    return verdicts


def _caption(settings: Settings, corpora: dict[str, list[Samples]]) -> str:
    data = settings["data"]
    return (
        "Margin of W / best margin in each norm, medians over trials (solid: the optimiser's own norm): "
        f"K = {data['n_tokens']}, n = {data['n_samples']}, T = {data['window']}, "
        f"{data['n_queries']} queries, orthonormal embeddings, {settings['steps']:,} steps; "
        f"{len(corpora['acyclic'])} trials without cycles and {len(corpora['cyclic'])} with"
    )


def _table(runs: list[OptimiserRun], draw: str) -> Grid:
    headers = [
        "optimiser",
        "own norm",
        "median",
        "5 %",
        "smallest",
        *(f"median, {norm}" for norm in MARGIN_NORMS),
    ]
    rows = [
        [
            run.optimiser["name"],
            run.natural_norm,
            *(f"{share:.3f}" for share in np.quantile(run.ends, [0.5, 0.05, 0.0])),
            *(f"{np.median(run.margins[norm].share[-1]):.3f}" for norm in MARGIN_NORMS),
        ]
        for run in runs
        if run.draw == draw
    ]
    return Grid(f"Share of the best margin at the end, {DRAWS[draw]}", headers, rows)


def _rows(run: OptimiserRun) -> list[dict[str, Any]]:
    """One row per norm, record and trial."""
    return [
        {
            "optimiser": run.optimiser["name"],
            "data": run.draw,
            "norm": norm,
            "own": norm == run.natural_norm,
            "step": int(step),
            "trial": trial,
            "share": float(share),
        }
        for norm, margins in run.margins.items()
        for step, shares in zip(margins.steps, margins.share, strict=True)
        for trial, share in enumerate(shares)
    ]


def _draw(runs: list[OptimiserRun], path: Path, *, caption: str) -> list[Path]:
    """Median share of the best margin by step: a panel per norm without cycles, and own norms with cycles."""
    names = list(dict.fromkeys(run.optimiser["name"] for run in runs))
    panels = [
        LinePanel(
            f"{norm} norm",
            [_line(run, norm, names) for run in runs if run.draw == "acyclic"],
            least=0.0,
        )
        for norm in MARGIN_NORMS
    ]
    lines = [_line(run, run.natural_norm, names) for run in runs if run.draw == "cyclic"]
    return draw_line_panels(
        [*panels, LinePanel("own norms, with cycles", lines, least=0.0)], path, caption=caption, n_columns=2
    )


def _line(run: OptimiserRun, norm: Norm, names: list[str]) -> Line:
    """Solid in the optimiser's own norm, dotted in the others."""
    margins, colour = run.margins[norm], names.index(run.optimiser["name"])
    shares = np.median(margins.share[1:], axis=1)
    style = 0 if norm == run.natural_norm else 2
    return Line(run.optimiser["name"], margins.steps[1:].tolist(), shares.tolist(), colour, style)
