"""The outcome of an experiment on text: curves of agreement with the automaton; and its page."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from attomaton.automaton.rules import RULES
from attomaton.base.printing import Grid
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton_experiments.page import Page, render_table
from attomaton_experiments.settings import Settings

FEW = 0.005
"""Rules that answer a smaller share of the held-out contexts are not drawn: too few samples."""

KINDS = ("held out", "trained on")
AGREEMENT = [
    *("contexts", "rule", "share", "model", "step"),
    *("top token retrieved", "mass retrieved", "same top token", "distance"),
]
QUALITY = ["contexts", "model", "step", "log-loss, nats", "top-1"]

SHOWN = {
    "all": "all",
    "determined": "determined",
    "incomparable": "incomparable",
    "unseen_ignored": "unseen ignored",
}
"""The rules in the figure; without evidence, every token counts as retrieved."""

MEASURES = ("retrieved", "mass", "same_top", "distance")
CURVE_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("model", "contexts", "rule")),
        *((name, pa.int64()) for name in ("step", "n_contexts")),
        *((name, pa.float64()) for name in ("epochs", "log_loss", "top1", *MEASURES)),
    ]
)
Row = dict[str, Any]
"""One row of the curves: an agreement, and log-loss and top-1 accuracy over all contexts of its kind."""


@dataclass(frozen=True, eq=False)
class TextOutcome:
    """The outcome of one experiment on text.

    Attributes
    ----------
    settings : dict
        The settings.
    counts : dict
        n_tokens, samples and realisable ones trained on and held out, pairs, components.
    shares : dict
        Share of the held-out contexts that each rule answered.
    curves : pyarrow.Table
        Columns model, contexts (``"held out"`` or ``"trained on"``), rule, step, n_contexts, epochs,
        log_loss, top1 and the measures of :class:`~attomaton_experiments.retrieval.RetrievalAgreement`. The
        models ``"uniform attention"`` (its top token is the most frequent of the context) and ``"any token"``
        (all distinct tokens equal) show the values without training.
    """

    settings: Settings
    counts: dict[str, int]
    shares: dict[str, float]
    curves: pa.Table

    def rows(self, **wanted: str) -> list[Row]:
        """The rows of the curves that have these values."""
        rows: list[Row] = self.curves.to_pylist()
        return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def render_text(outcome: TextOutcome) -> Page:
    """The page: the trained models, and their agreement with the automaton at the last step."""
    settings, counts = outcome.settings, outcome.counts
    name, title, caption = settings["name"], settings["title"], _caption(outcome)
    last = list({(row["model"], row["contexts"]): row for row in outcome.rows(rule="all")}.values())
    headers = ["model", "contexts", "step", "top token retrieved", "distance", "log-loss"]
    return Page(
        name=name,
        paragraphs=(
            f"# {name}: {title}",
            f"{caption.replace(chr(10), '. ')}. Trained on {counts['trained_on']:,} realisable samples "
            f"with {counts['pairs']:,} (query, token) pairs, whose automaton has {counts['components']:,} "
            f"components; {counts['held_out']:,} realisable contexts held out.",
            "Top token retrieved: the share of contexts in which the token with the most attention lies in "
            "the component that the automaton retrieves. "
            "The theorem covers only determined contexts.",
            render_table(AGREEMENT, _agreement(outcome)),
            render_table(QUALITY, _quality(outcome)),
        ),
        printed=(Grid(title, headers, [_few_cells(row) for row in last]),),
        size=f"{counts['held_out']:,} contexts held out; ",
        record={"seconds": None, "counts": counts, "shares": outcome.shares, "last": last},
        numbers=outcome.curves,
        numbers_file="curves.parquet",
        draw=lambda path: draw_line_panels(_panels(outcome), path, caption=caption),
        verdicts=None,
    )


def _agreement(outcome: TextOutcome) -> list[list[str]]:
    """Agreement of attention with the automaton, for every rule."""
    shares = {"all": 1.0, **outcome.shares}
    rows: list[list[str]] = []
    for kind in KINDS:
        for rule in ("all", *(rule.name.lower() for rule in RULES)):
            percent = f"{100 * shares[rule]:.2f} %" if kind == "held out" else ""
            rows += [[kind, rule, percent, *_cells(row)] for row in _ends(outcome, kind, rule)]
    return rows


def _quality(outcome: TextOutcome) -> list[list[str]]:
    """How well labels are predicted."""
    return [
        [kind, row["model"], f"{row['step']:,}", f"{row['log_loss']:.3f}", f"{100 * row['top1']:.1f} %"]
        for kind in KINDS
        for row in _ends(outcome, kind, "all")
    ]


def _ends(outcome: TextOutcome, kind: str, rule: str) -> list[Row]:
    """The last row of every model."""
    last = {row["model"]: row for row in outcome.rows(contexts=kind, rule=rule)}
    return list(last.values())


def _cells(row: Row) -> list[str]:
    shares = (f"{100 * row[name]:.2f} %" for name in ("retrieved", "mass", "same_top"))
    return [row["model"], f"{row['step']:,}", *shares, f"{row['distance']:.3f}"]


def _few_cells(row: Row) -> list[str]:
    numbers = f"{100 * row['retrieved']:.2f} %", f"{row['distance']:.3f}", f"{row['log_loss']:.3f}"
    return [row["model"], row["contexts"], str(row["step"]), *numbers]


def _caption(outcome: TextOutcome) -> str:
    settings = outcome.settings
    return (
        f"{settings['title']}\nwindow {settings['window']}, K = {outcome.counts['n_tokens']:,}, "
        f"last {100 * settings['held_out']:g} % held out"
        + "".join(f"\n{model['name']}: {_describe_step(model)}" for model in settings["models"])
    )


def _describe_step(model: dict[str, Any]) -> str:
    kind = {"adam": "Adam", "descent": "gradient descent"}[model["step"]]
    return f"{kind}, step {model['size']:g}" + (
        f", batch {model['batch_size']:,}" if "batch_size" in model else ""
    )


def _panels(outcome: TextOutcome) -> list[LinePanel]:
    """The top tokens for each rule that answers enough contexts; the distance for determined ones."""
    shares = {"all": 1.0, **outcome.shares}
    if max(outcome.shares.values()) > 1.0 - FEW:  # one rule answers nearly all
        del shares["all"]
    panels = [
        LinePanel(
            f"top token retrieved, share of contexts: {name} ({100 * shares[rule]:.1f} %)",
            _lines(outcome, "retrieved", rule),
        )
        for rule, name in SHOWN.items()
        if shares.get(rule, 0.0) >= FEW
    ]
    title = "total variation between attention and automaton: determined"
    return [*panels, LinePanel(title, _lines(outcome, "distance", "determined"), least=0.0)]


def _lines(outcome: TextOutcome, measure: str, rule: str) -> list[Line]:
    lines: list[Line] = []
    names = [model["name"] for model in outcome.settings["models"]]
    for colour, name in enumerate(names):
        for style, kind in enumerate(KINDS):
            rows = outcome.rows(model=name, contexts=kind, rule=rule)
            if rows:
                steps, values = ([row[key] for row in rows] for key in ("step", measure))
                lines.append(Line(f"{name}, {kind}", steps, values, colour, style))
    for style, name in ((2, "uniform attention"), (3, "any token")):
        rows = outcome.rows(model=name, contexts="held out", rule=rule)
        if rows:
            lines.append(Line(f"{name}, held out", (), [rows[0][measure]], 3, style))
    return lines
