"""Figures 3, 8 and 9: gain and growth by the closed form, as printed and by the equation; h* and h; B(t₀)."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.printing import Grid
from attomaton.base.progress import Progress
from attomaton.base.tables import Float64
from attomaton.claims import Verdict, judge_rates, verify_flow
from attomaton.claims.verdicts import Judgement
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton.theories import Rates, SnapLaw, solve_flow
from attomaton.theories.scansnap.flow import LayerFlow
from attomaton.theories.scansnap.landmarks import find_snap, find_turn, measure_gain
from attomaton.theories.scansnap.law import solve_exponent
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.scansnap.star import integrate_law, make_star, star_constant
from attomaton_experiments.settings import Settings

Row = dict[str, Any]
MOMENTS = (14.0, 70.0, 280.0, 700.0)
"""Times of the table."""


def run_figure3(settings: Settings, _: Progress) -> Page:
    """Compute every curve and table of the page; nothing is random."""
    curves, grid = _curves(settings), _grid(settings["grid"])
    stars = _stars(settings["star"])
    steps, snaps = _steps(settings["steps"]), _snaps(settings["snaps"])
    rows = [*curves, *grid, *stars, *steps, *snaps]
    names = sorted({name for row in rows for name in row})
    numbers = pa.table({name: [row.get(name) for row in rows] for name in names})
    worst = max(row["error"] for row in grid)
    bound = settings["grid"]["bound"]
    judged = Judgement(worst, bound, worst <= bound, "largest |ΔB| from the equation over the grid")
    size = f"K = {settings['n_classes']}, M = {settings['n_tokens']:,}, η_Z = {settings['attention_rate']:g}"
    return render_figure(
        settings,
        f"Gain and growth for {size}, C₀ = 1/K",
        (_moments(settings), _grid_table(grid), _turn_table(stars), _growth_table(stars)),
        numbers,
        partial(_draw, curves, steps, snaps),
        verdicts=(
            judged.about("closed form"),
            *verify_flow(_flow(settings["star"], 10, 1000, 10.0)),
            _judge_rates(settings),
        ),
        notes=NOTES,
    )


NOTES = (
    "With C₀ = 1/K the printed ¼ ln(C₀ + 4Γ) is below the equation by ¼ ln K once Γ is large, and negative "
    "at the start; ¼ ln(1 + 4Γ/C₀) is the solution.",
    "C₀ = 1/K does not occur in the flow of Y and Z: there one common token gives C₀ = tan²θ₀ K (M − 1)²/"
    "((K − 1) M), which the last table uses. Attention then moves far less than Figure 3 suggests.",
    "The last table also shows how fast the decoder must be. Y remembers the attention it was learned with, "
    "and the class's own term is M − 1 times those of the others: as soon as attention has moved by 1/M of "
    "its value, that memory slows it down, and the closed form is too large.",
)


LEMMAS = "Steps are ahead of the flow by little; B(t₀) depends on K, M and η_Y/η_Z alone (three η_Z coincide)"


def _law(settings: Settings, decoder_rate: float) -> SnapLaw:
    rates = Rates(decoder_rate, settings["attention_rate"])
    return SnapLaw(settings["n_classes"], settings["n_tokens"], rates)


def _curves(settings: Settings) -> list[Row]:
    times: Float64 = np.geomspace(0.1, float(settings["until"]), 300)
    rows: list[Row] = []
    for rate in settings["decoder_rates"]:
        law = _law(settings, rate)
        gain, growth = integrate_law(law, times)
        columns = (times, law.gain(times), gain, law.growth(times), growth, law.growth_as_printed(times))
        names = ("time", "gain", "gain_by_equation", "growth", "growth_by_equation", "growth_as_printed")
        rows += [
            {"part": "curves", "decoder_rate": rate, **dict(zip(names, map(float, values), strict=True))}
            for values in zip(*columns, strict=True)
        ]
    return rows


def _steps(settings: Settings) -> list[Row]:
    """Figure 8: h* by the recursion of Lemma 5, and h of Lemma 6, by number of tokens."""
    rows: list[Row] = []
    rate: float = settings["decoder_rate"]
    times = np.arange(int(settings["until"]) + 1, dtype=np.float64)
    for n_tokens in settings["n_tokens"]:
        heights = [0.0]
        for _ in times[1:]:
            heights.append(heights[-1] + rate / (n_tokens - 1 + np.exp(n_tokens * heights[-1])))
        flow = solve_exponent(rate * times, n_tokens) / n_tokens
        rows += [
            {"part": "steps", "n_tokens": n_tokens, "time": time, "h_by_steps": ahead, "h": flow_height}
            for time, ahead, flow_height in zip(times.tolist(), heights, flow.tolist(), strict=True)
        ]
    return rows


def _snaps(settings: Settings) -> list[Row]:
    """Figure 9: B(t₀) by K, M and η_Y/η_Z, at each of several η_Z."""
    sizes = product(*(settings[name] for name in ("n_classes", "n_tokens", "ratios", "attention_rates")))
    rows: list[Row] = []
    for n_classes, n_tokens, ratio, slow in sizes:
        law = SnapLaw(n_classes, n_tokens, Rates(ratio * slow, slow))
        row = {"n_classes": n_classes, "n_tokens": n_tokens, "ratio": ratio, "attention_rate": slow}
        rows.append({"part": "snaps"} | row | {"growth": float(law.growth(law.snap_start))})
    return rows


def _moments(settings: Settings) -> Grid:
    rows: list[list[str]] = []
    for rate in settings["decoder_rates"]:
        law = _law(settings, rate)
        _, growth = integrate_law(law, MOMENTS)
        for at, moment in enumerate(MOMENTS):
            growths = (growth[at], law.growth(moment), law.growth_as_printed(moment))
            rows.append([f"{rate:g}", f"{moment:g}", *(f"{value:.4f}" for value in growths)])
    return Grid("Growth B", ["η_Y", "t", "equation", "closed form", "as printed"], rows)


def _grid(grid: dict[str, Any]) -> list[Row]:
    """Largest distance to the equation for every K, M and η_Y/η_Z."""
    rows: list[Row] = []
    for n_classes, n_tokens, ratio in product(grid["n_classes"], grid["n_tokens"], grid["ratios"]):
        law = SnapLaw(n_classes, n_tokens, Rates(ratio, 1.0))
        times: Float64 = np.geomspace(law.turn / 50, float(grid["turns"]) * law.turn, 60)
        _, growth = integrate_law(law, times)
        rows.append(
            {
                "part": "grid",
                "n_classes": n_classes,
                "n_tokens": n_tokens,
                "ratio": ratio,
                "error": float(np.abs(law.growth(times) - growth).max()),
                "error_as_printed": float(np.abs(law.growth_as_printed(times) - growth).max()),
                "growth": float(growth[-1]),
            }
        )
    return rows


def _grid_table(grid: list[Row]) -> Grid:
    rows: list[list[str]] = []
    for size in sorted({row["n_tokens"] for row in grid}):
        of_size = [row for row in grid if row["n_tokens"] == size]
        errors = (max(row[name] for row in of_size) for name in ("error", "error_as_printed"))
        least, most = (pick(row["growth"] for row in of_size) for pick in (min, max))
        rows.append(
            [
                f"{size:,}",
                f"{len(of_size)}",
                f"{least:.2f} to {most:.2f}",
                *(f"{error:.2g}" for error in errors),
            ]
        )
    headers = ["M", "cells (K, η_Y/η_Z)", "B at the end", "largest |ΔB|", "largest |ΔB| as printed"]
    return Grid("Closed form compared with the equation", headers, rows)


def _flow(star: dict[str, Any], n_classes: int, n_tokens: int, ratio: float) -> LayerFlow:
    rates = Rates(star["decoder_rate"], star["decoder_rate"] / ratio)
    turn = SnapLaw(n_classes, n_tokens, rates).turn
    classes = make_star(n_classes, n_tokens, common=star["common"])
    return solve_flow(classes, rates, np.geomspace(turn / 50, 100 * turn, 400))


def _judge_rates(settings: Settings) -> Verdict:
    """The measured snap at each η_Y of the figure, on the flow of the star, with the figure's η_Z."""
    classes = make_star(settings["n_classes"], settings["n_tokens"], common=settings["star"]["common"])
    laws = [_law(settings, rate) for rate in sorted(settings["decoder_rates"])]
    spans = [np.geomspace(law.turn / 50, 100 * law.turn, 400) for law in laws]
    return judge_rates([solve_flow(classes, law.rates, span) for law, span in zip(laws, spans, strict=True)])


def _stars(star: dict[str, Any]) -> list[Row]:
    """The flow of Y and Z beside the law with the derived constant."""
    rows: list[Row] = []
    for n_classes, n_tokens, ratio in product(star["n_classes"], star["n_tokens"], star["ratios"]):
        flow = _flow(star, n_classes, n_tokens, ratio)
        constant = star_constant(n_classes, n_tokens, common=star["common"])
        law = SnapLaw(n_classes, n_tokens, flow.rates, start=constant)
        turn = find_turn(flow.times, measure_gain(flow)[:, 0])
        growth: Float64 = flow.growth[:, 0]
        rows.append(
            {
                "part": "flow",
                "n_classes": n_classes,
                "n_tokens": n_tokens,
                "ratio": ratio,
                "turn": turn,
                "turn_derived": law.turn,
                "scan_end": law.scan_end,
                "snap": find_snap(flow.times, growth, turn),
                "snap_derived": law.snap_of_slow_growth,
                "snap_start": law.snap_start,
                "growth_by_flow": float(growth[-1]),
                "growth": float(law.growth(flow.times[-1])),
            }
        )
    return rows


def _turn_table(stars: list[Row]) -> Grid:
    rows = [
        [f"{row['n_classes']}", f"{row['n_tokens']:,}", *(f"{row[name]:.3g}" for name in TIMES)]
        for row in stars
        if row["ratio"] == 100.0
    ]
    headers = ["K", "M", "turn in the flow", "derived", "t₀' of the paper"]
    return Grid(
        "When the gain turns and growth slows, between the paper's times (η_Y/η_Z = 100)",
        [*headers, "snap in the flow", "derived", "t₀ of the paper"],
        rows,
    )


TIMES = ("turn", "turn_derived", "scan_end", "snap", "snap_derived", "snap_start")


def _growth_table(stars: list[Row]) -> Grid:
    rows = [
        [
            *(f"{row['n_classes']}", f"{row['n_tokens']:,}", f"{row['ratio']:g}"),
            *(f"{row['growth_by_flow']:.3g}", f"{row['growth']:.3g}"),
            f"{100 * (row['growth'] / row['growth_by_flow'] - 1):.1f} %",
        ]
        for row in stars
        if row["n_classes"] == 10
    ]
    headers = ["K", "M", "η_Y/η_Z", "B in the flow", "closed form", "error"]
    return Grid("Growth in the flow of Y and Z at 100 turns, with the derived C₀", headers, rows)


def _draw(curves: list[Row], steps: list[Row], snaps: list[Row], path: Path, *, caption: str) -> list[Path]:
    rates = sorted({row["decoder_rate"] for row in curves})
    gains: list[Line] = []
    growths: list[Line] = []
    for colour, rate in enumerate(rates):
        points = [row for row in curves if row["decoder_rate"] == rate]
        times = [row["time"] for row in points]
        gains.append(Line(f"η_Y = {rate:g}", times, [row["gain"] for row in points], colour))
        growths.append(Line(f"η_Y = {rate:g}", times, [row["growth"] for row in points], colour))
        printed = [row["growth_as_printed"] for row in points]
        growths.append(Line("", times, printed, colour, 1))
    panels = [
        LinePanel("gain γ(t)", gains, least=0.0, axis="t"),
        LinePanel("growth B(t) (dashed: as printed)", growths, axis="t"),
    ]
    written = draw_line_panels(panels, path, caption=caption)
    heights: list[Line] = []
    for colour, size in enumerate(sorted({row["n_tokens"] for row in steps})):
        of_size = [row for row in steps if row["n_tokens"] == size and row["time"] > 0]
        for dash, (name, key) in enumerate({"M h*": "h_by_steps", "M h": "h"}.items()):
            values = [size * row[key] for row in of_size]
            heights.append(
                Line(f"{name}, M = {size:,}", [row["time"] for row in of_size], values, colour, dash)
            )
    grown: list[Line] = []
    slowest = min(row["attention_rate"] for row in snaps)
    for colour, size in enumerate(sorted({(row["n_classes"], row["n_tokens"]) for row in snaps})):
        of_size = [row for row in snaps if (row["n_classes"], row["n_tokens"]) == size]
        for dash, slow in enumerate(sorted({row["attention_rate"] for row in of_size})):
            chosen = [row for row in of_size if row["attention_rate"] == slow]
            name = f"K = {size[0]}, M = {size[1]:,}" if slow == slowest else ""
            values = [row["growth"] for row in chosen]
            grown.append(Line(name, [row["ratio"] for row in chosen], values, 3 + colour, dash))
    panels = [
        LinePanel("Figure 8: M h* (steps, solid) and M h (flow, dashed)", heights, axis="t"),
        LinePanel("Figure 9: growth at the start of the snap", grown, axis="η_Y/η_Z"),
    ]
    return written + draw_line_panels(panels, path.with_name(f"{path.name}-lemmas"), caption=LEMMAS)
