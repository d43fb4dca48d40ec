"""Layers with random odds that read their own output: whether the predicted tokens win, and how others fade.

Settings: ``n_tokens``, ``length`` of the texts, ``each`` (a prompt with all tokens equally often) and
``winners`` and ``others`` (a prompt near the limit, which starts ``runs`` texts, for exponents).
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton import Winners, draw_counts, winners
from attomaton.automaton.repetition.counts import TextCounts
from attomaton.automaton.repetition.limits import find_limit
from attomaton.base.printing import Grid
from attomaton.base.progress import Progress
from attomaton.base.tables import Float64
from attomaton.claims import Verdict
from attomaton.claims.verdicts import Judgement
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

SLOW = 0.1
"""Exponents below this are not judged: such tokens hardly occur."""

NEAR = 0.05
"""How far an exponent may be from the measured one."""

ENOUGH = 0.9
"""The share of layers whose winners must be as predicted."""

FOLLOWED = 0.95
"""The share of slopes that must be near the flow's: where limits separate, a single text is random."""

DRAWN = 4
"""Layers in the figure."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One layer: its prediction, and the texts it wrote after either prompt."""

    predicted: Winners
    even: TextCounts
    near: TextCounts | None

    @property
    def right(self) -> bool:
        """Whether the counts at the last length lead to the predicted winners."""
        counts = self.even.mean[-1]
        end = find_limit(self.predicted.odds.among(), counts / counts.sum())
        return end is not None and np.array_equal(end.winners, self.predicted.first.winners)

    @property
    def judged(self) -> Any:
        """Tokens that fade and occur often enough."""
        return ~self.predicted.first.winners & (self.predicted.exponents >= SLOW)

    @property
    def share_error(self) -> float:
        """The largest error of a share at the last length, after the prompt of all tokens."""
        last = int(self.even.lengths[-1])
        return float(np.abs(self.even.shares[-1] - self.predicted.shares_at([last])[0]).max())

    @property
    def exponent_errors(self) -> Float64:
        """Measured slope − ρ near the limit, for the judged tokens."""
        if self.near is None:
            return np.empty(0)
        return (self.near.slopes(int(self.near.lengths[0])) - self.predicted.exponents)[self.judged]

    @property
    def slope_errors(self) -> Float64:
        """Measured slope over the last two decades − the flow's, after the prompt of all tokens."""
        last = int(self.even.lengths[-1])
        expected = self.predicted.slopes_between(last // 100, last)
        return (self.even.slopes(last // 100) - expected)[self.judged]


def run_repetition(settings: Settings, progress: Progress) -> Page:
    """Sample layers and texts, compare, judge, and make the page."""
    trials: list[Trial] = []
    for number in range(settings["trials"]):
        progress(settings["name"], number, settings["trials"])
        trials.append(run_trial(settings, number))
    return render_figure(
        settings,
        _caption(settings),
        (_table(trials),),
        pa.Table.from_pylist([row for number, trial in enumerate(trials) for row in _rows(number, trial)]),
        partial(_draw, trials),
        verdicts=_judge(trials),
        notes=NOTES,
    )


NOTES = (
    "Winners count as right if the flow from the text's counts at its last length ends at "
    "the predicted tokens: beyond it random draws move shares by less than 1/1000. Shares alone often "
    "do not show the winners at that length, since other tokens fade like t^(ρ − 1), and ρ may be "
    "near 1.",
    "Exponents are measured on texts that begin near the limit; after a prompt of all tokens the "
    "slopes of the last two decades are those of the flow there, which is not yet at its limit.",
)


def draw_odds(settings: Settings, number: int) -> Float64:
    """The odds of one layer, shape (n_tokens, n_tokens): e^N(0, 1), every second one without repetition."""
    rng, size = np.random.default_rng([settings["seed"], number]), settings["n_tokens"]
    table = np.exp(rng.normal(size=(size, size)))
    if number % 2:
        np.fill_diagonal(table, settings["itself"])
    return table


def run_trial(settings: Settings, number: int) -> Trial:
    """Predict and sample for one layer."""
    table, length = draw_odds(settings, number), int(settings["length"])
    rng = np.random.default_rng([settings["seed"], number, 1])
    prompt = np.repeat(np.arange(len(table)), settings["each"]).tolist()
    predicted = winners(table, prompt)
    marks = np.geomspace(max(len(prompt), length // 10**4), length, 25).tolist()
    lengths = sorted({length // 100, *(round(mark) for mark in marks)})
    even = draw_counts(table, prompt, lengths=lengths, seed=rng)
    counts = np.maximum((settings["winners"] * predicted.shares).round(), settings["others"]).astype(np.int64)
    close = np.repeat(np.arange(len(table)), counts).tolist()
    near = draw_counts(table, close, lengths=[len(close), length], seed=rng, runs=settings["runs"])
    return Trial(predicted, even, near if predicted.first.certified else None)


def _judge(trials: list[Trial]) -> list[Verdict]:
    right = float(np.mean([trial.right for trial in trials]))
    errors = np.concatenate([trial.exponent_errors for trial in trials])
    slopes = np.concatenate([trial.slope_errors for trial in trials])
    exponent = float(np.abs(errors).max(initial=0.0))
    slope = float((np.abs(slopes) <= NEAR).mean()) if len(slopes) else 1.0
    share = max(trial.share_error for trial in trials)
    meaning = f"largest error of {len(errors)} exponents of at least {SLOW}, near the limit"
    flow = (
        f"share of {len(slopes)} slopes of the last two decades within {NEAR} of the flow's, in one text each"
    )
    return [
        Judgement(right, ENOUGH, right >= ENOUGH, "share of the layers with the predicted winners").about(
            "repetition-winners"
        ),
        Judgement(exponent, NEAR, exponent <= NEAR, meaning).about("repetition-exponents"),
        Judgement(slope, FOLLOWED, slope >= FOLLOWED, flow).about("repetition-slopes"),
        Judgement(share, NEAR, share <= NEAR, "largest error of a share at the last length").about(
            "repetition-shares"
        ),
    ]


def _caption(settings: Settings) -> str:
    return (
        f"{settings['trials']} layers of {settings['n_tokens']} tokens with random odds, texts of "
        f"{settings['length']:,} tokens: the shares of the tokens as the text grows, sampled (solid) "
        "and predicted (dashed)"
    )


def _table(trials: list[Trial]) -> Grid:
    headers = ["layer", "winners", "limits", "right", "rate", "shares", "slopes", "exponents"]
    rows = [
        [
            str(number),
            " ".join(map(str, trial.predicted.tokens)),
            str(len(trial.predicted.limits)),
            "yes" if trial.right else "no",
            f"{trial.predicted.first.rate:.3f}",
            f"{trial.share_error:.3f}",
            f"{np.abs(trial.slope_errors).max(initial=0.0):.3f}",
            f"{np.abs(trial.exponent_errors).max(initial=0.0):.3f}",
        ]
        for number, trial in enumerate(trials)
    ]
    return Grid("Winners, and largest errors of shares, slopes and exponents", headers, rows)


def _rows(number: int, trial: Trial) -> list[dict[str, Any]]:
    """One row per token and length."""
    lengths = trial.even.lengths.tolist()
    predicted = trial.predicted.shares_at(lengths)
    return [
        {
            "layer": number,
            "length": length,
            "token": token,
            "share": float(trial.even.shares[at, token]),
            "predicted": float(predicted[at, token]),
            "limit": float(trial.predicted.shares[token]),
            "exponent": float(trial.predicted.exponents[token]),
        }
        for at, length in enumerate(lengths)
        for token in range(predicted.shape[1])
    ]


def _draw(trials: list[Trial], path: Path, *, caption: str) -> list[Path]:
    panels = [_panel(number, trial) for number, trial in enumerate(trials[:DRAWN])]
    return draw_line_panels(panels, path, caption=caption, n_columns=2)


def _panel(number: int, trial: Trial) -> LinePanel:
    lengths = trial.even.lengths.tolist()
    predicted = trial.predicted.shares_at(lengths)
    lines = [
        Line(f"token {token}" * (not style), lengths, shares[:, token].tolist(), token, style)
        for style, shares in ((0, trial.even.shares), (1, predicted))
        for token in range(predicted.shape[1])
    ]
    return LinePanel(f"layer {number}", lines, least=0.0, axis="length of the text")
