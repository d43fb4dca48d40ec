"""Figure 7 of the second paper: attention of a one-layer Transformer on text, over training."""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa

from attomaton.base.printing import Grid
from attomaton.base.progress import Progress, silent
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Float64, Int64, make_table
from attomaton.claims import Verdict, VerdictStatus
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton_experiments.figures.maps import MapPanel, draw_maps
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.scansnap.language import OUTSIDE, describe_model, make_training
from attomaton_experiments.scansnap_model.language_training import AttentionRecord, cut_windows
from attomaton_experiments.scansnap_model.texts import TextPair, read_texts
from attomaton_experiments.settings import Settings

SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        *((name, pa.float64()) for name in ("loss", "entropy", "largest", "own", "previous", "first")),
        *((name, pa.large_list(pa.float64())) for name in ("entropy_by_position", "by_distance", "gains")),
        ("map", pa.large_list(pa.float64())),
    ]
)


@dataclass(frozen=True, eq=False)
class TextRun:
    """A run with its settings.

    Attributes
    ----------
    settings : dict
        The settings.
    texts : TextPair
        The texts.
    windows : int64 array, shape (n_windows, window + 1)
        The windows for measuring; the first is shown.
    records : list of AttentionRecord
        The measurements.
    """

    settings: Settings
    texts: TextPair
    windows: Int64
    records: list[AttentionRecord]

    @property
    def window(self) -> int:
        """The number of tokens read at once."""
        return self.settings["model"]["window"]

    @property
    def groups(self) -> list[tuple[str, Int64]]:
        """Names of the groups of tokens, and the ids of each: ``<unk>``, then words by rank."""
        size = len(self.texts.tokens)
        ends = [*(rank for rank in self.settings["ranks"] if rank < size - 1), size - 1]
        begins = [0, *ends[:-1]]
        words = [
            (f"words {begin + 1:,} to {end:,}", np.arange(begin + 1, end + 1))
            for begin, end in zip(begins, ends, strict=True)
        ]
        return [*words, ("<unk>", np.zeros(1, np.int64))]

    def gains(self, record: AttentionRecord) -> Float64:
        """Attention on each group of tokens, as a multiple of that under uniform attention."""
        shares = 1.0 / np.arange(1, self.window + 1)
        later = np.cumsum(shares[::-1])[::-1]  # from the queries at and after a key's position
        uniform = np.zeros(len(self.texts.tokens))
        np.add.at(uniform, self.windows[:, :-1].ravel(), np.tile(later, len(self.windows)))
        return np.array(
            [record.received[ids].sum() / max(uniform[ids].sum(), 1e-300) for _, ids in self.groups]
        )


def run_figure7(settings: Settings, progress: Progress = silent) -> Page:
    """Train on train*.txt of the folder, and measure the attention on valid.txt on the way."""
    began = perf_counter()
    texts = read_texts(settings["source"], settings["n_tokens"])
    window = settings["model"]["window"]
    spread = cut_windows(texts.valid, window, settings["n_windows"])
    shown = cut_windows(texts.valid, window, (len(texts.valid) - 1) // window)[settings["shown_window"]]
    windows = np.concatenate([shown[None], spread])
    training = make_training(settings, texts, rate=settings["rate"], seed=settings["seed"])
    announce = partial(progress, settings["name"])
    records = training.run(texts.train, windows, records=tuple(settings["records"]), progress=announce)
    return _write(TextRun(settings, texts, windows, records), perf_counter() - began)


def _write(run: TextRun, seconds: float) -> Page:
    settings = run.settings
    steps, rate = settings["training"], settings["rate"]
    caption = (
        f"{describe_model(settings, run.texts)}; SGD, rate {rate:g} "
        f"({rate * steps['fast_ratio']:g} for the feed-forward layer), {run.records[-1].step:,} steps"
    )

    notes = (
        "![Entropy and shares of attention over training](figure-entropy.png)",
        f"Measured on {len(run.windows):,} windows of valid, without dropout; the map is of the first "
        f"{settings['shown_tokens']} tokens of window {settings['shown_window']}: no query sees "
        "later tokens. *Gain*: attention on a group of tokens as a multiple of that under uniform "
        "attention.",
        f"Uniform attention has an entropy of {_uniform_entropy(run):.3f}: the mean of ln i over the "
        "positions i of the window.",
        _say_moves(run),
        f"Wall time {seconds / 60:.1f} minutes.",
    )
    return render_figure(
        settings,
        caption,
        (_table(run),),
        _numbers(run),
        partial(_draw, run),
        verdicts=judge_figure7(run),
        notes=notes,
        options="--data FOLDER",
    )


def _say_moves(run: TextRun) -> str:
    """How many queries of the shown window keep their top key from map to map."""
    maps = [record for record in run.records if record.step in run.settings["maps_at"]]
    moves = [
        f"{int((before.shown[0].argmax(1) == after.shown[0].argmax(1)).sum())} from step {before.step:,} to "
        f"{after.step:,}"
        for before, after in pairwise(maps)
    ]
    return (
        f"Of the {run.window} queries of the shown window, these keep the key they attend to most: "
        f"{', '.join(moves)}."
    )


def _uniform_entropy(run: TextRun) -> float:
    return float(np.mean(np.log(np.arange(1, run.window + 1))))


def judge_figure7(run: TextRun) -> tuple[Verdict, ...]:
    """The verdicts on two claims of the theory, which does not cover this model."""
    first, last = run.records[0], run.records[-1]
    gains = run.gains(last)
    common, rare = float(gains[0]), float(gains[-2])
    fell = "falls" if last.mean_entropy < first.mean_entropy else "does not fall"
    moved = "more" if rare > common else "less"
    names = [name for name, _ in run.groups]
    return (
        Verdict(
            "attention grows sparse",
            VerdictStatus.NOT_APPLICABLE,
            last.mean_entropy,
            first.mean_entropy,
            f"{OUTSIDE}. Measured nevertheless: mean entropy {fell}, from the bound to the value",
        ),
        Verdict(
            "common tokens fade",
            VerdictStatus.NOT_APPLICABLE,
            common,
            rare,
            f"{OUTSIDE}. Measured nevertheless: {names[-2]} have {moved} attention for their frequency (the "
            f"bound) than {names[0]} (the value)",
        ),
    )


def _table(run: TextRun) -> Grid:
    names = [name for name, _ in run.groups]
    rows = [
        [
            f"{record.step:,}",
            f"{record.loss:.3f}",
            f"{record.mean_entropy:.3f}",
            f"{record.largest:.2f}",
            *(f"{100 * share:.1f} %" for share in (record.by_distance[0], record.by_distance[1])),
            *(f"{gain:.2f}" for gain in run.gains(record)),
        ]
        for record in run.records
        if record.step in run.settings["maps_at"] or record.step in (10, 100)
    ]
    headers = ["step", "loss", "entropy", "largest weight", "on the query", "on the one before"]
    return Grid("Attention on valid", [*headers, *(f"gain of {name}" for name in names)], rows)


def _numbers(run: TextRun) -> pa.Table:
    maps = {
        record.step: record.shown[0].ravel()
        for record in run.records
        if record.step in run.settings["maps_at"]
    }
    lists = {
        "entropy_by_position": [record.entropy for record in run.records],
        "by_distance": [record.by_distance for record in run.records],
        "gains": [run.gains(record) for record in run.records],
        "map": [maps.get(record.step, np.empty(0)) for record in run.records],
    }
    return make_table(
        SCHEMA,
        {
            "step": [record.step for record in run.records],
            "loss": [record.loss for record in run.records],
            "entropy": [record.mean_entropy for record in run.records],
            "largest": [record.largest for record in run.records],
            "own": [record.by_distance[0] for record in run.records],
            "previous": [record.by_distance[1] for record in run.records],
            "first": [float(record.shown[0, :, 0].mean()) for record in run.records],
            **{
                name: (offsets_of(np.array([len(row) for row in rows])), np.concatenate(rows))
                for name, rows in lists.items()
            },
        },
    )


def _draw(run: TextRun, path: Path, *, caption: str) -> list[Path]:
    """The maps, and curves beside them."""
    size: int = run.settings["shown_tokens"]
    names = [run.texts.tokens[int(token)] for token in run.windows[0, :size]]
    panels = [
        MapPanel(
            f"step {record.step:,}, entropy {record.mean_entropy:.2f}", record.shown[0, :size, :size], names
        )
        for record in run.records
        if record.step in run.settings["maps_at"]
    ]
    curves = _draw_curves(run, path.with_name(f"{path.name}-entropy"))
    return [*draw_maps(panels, path, caption=caption), *curves]


def _draw_curves(run: TextRun, path: Path) -> list[Path]:
    after = [record for record in run.records if record.step]
    steps = [float(record.step) for record in after]
    gains = np.array([run.gains(record) for record in after])
    entropy = [
        Line("uniform attention", steps, [_uniform_entropy(run)], 3, 2),
        Line("measured on valid", steps, [record.mean_entropy for record in after], 0),
    ]
    shares = [
        Line("on the query itself", steps, [float(record.by_distance[0]) for record in after], 1),
        Line("on the token before", steps, [float(record.by_distance[1]) for record in after], 2, 1),
        Line("largest weight of a row", steps, [record.largest for record in after], 0, 3),
    ]
    tokens = [
        Line(name, steps, gains[:, number].tolist(), number, number % 4)
        for number, (name, _) in enumerate(run.groups)
    ]
    panels = [
        LinePanel("entropy of attention, nats", entropy, least=0.0),
        LinePanel("share of attention", shares, least=0.0),
        LinePanel("attention on tokens / uniform attention", tokens, least=0.0),
    ]
    caption = f"Attention over training, on {len(run.windows):,} windows of valid"
    return draw_line_panels(panels, path, caption=caption)
