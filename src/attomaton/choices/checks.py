"""Whether choices look like those of a model: goodness of fit by pair, cycles, and choices it has not seen.

Deviance and cycles are compared with what the model itself produces: choices are drawn from it and fitted
again. The number of cyclic triads is taken less what each fit leads one to expect, so that it does not depend
on how far apart the items are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.errors import UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import show, whole_number
from attomaton.base.printing import Block, Listing, show_count
from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.tables import Float64, Int64, table_of
from attomaton.choices.board_rows import item_column
from attomaton.choices.logit.fit import LogitFit
from attomaton.choices.logit.rows import Situations
from attomaton.choices.simulation import NUMBERS_AT_ONCE, FittedChoices

ENOUGH_EXPECTED = 5.0
"""Choices expected in every cell from which the chi-square distribution is used."""

SHOWN_PAIRS = 5
"""Pairs or cycles that are printed."""

MOST_IN_CYCLES = 500
"""Most items among which cycles are counted."""

BINS = 10
"""Intervals of predicted probabilities, equally wide, whose choices are counted."""


class Assessment(Tabular):
    """A dataclass of numbers and one table."""

    def __repr__(self) -> str:
        return str(self)

    def _table(self) -> pa.Table:
        return next(value for value in vars(self).values() if isinstance(value, pa.Table))

    def to_dict(self) -> dict[str, Any]:
        """The numbers and the rows of the table as JSON represents them; an infinite one is ``infinite``."""
        return {name: _plain(value) for name, value in vars(self).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, pa.Table):
        rows: Any = value.to_pylist()
        return [{name: _plain(cell) for name, cell in row.items()} for row in rows]
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else "infinite" if value > 0 else "-infinite"
    return value


@dataclass(frozen=True, eq=False, repr=False)
class GoodnessOfFit(Assessment):
    """Whether a model fits the choices, with the residual of each pair.

    Attributes
    ----------
    deviance, pearson : float
        2 Σ O ln(O / E) and Σ (O − E)² / E over the cells; a cell is an item in a set of items that were
        offered together.
    degrees : int
        The number of cells that totals do not fix, less the number of fitted parameters.
    p_value : float
        The probability of a deviance at least this large if the model is right.
    method : str
        How the p-value was found.
    pairs : pyarrow.Table
        One row per pair, the most surprising first: first, second, games, wins, expected_wins, losses,
        expected_losses, and residual: wins minus losses, less what the fit expects, in standard deviations.
    """

    deviance: float
    pearson: float
    degrees: int
    p_value: float
    method: str
    pairs: pa.Table

    def _blocks(self) -> list[Block]:
        plural = "s" * (self.degrees != 1)
        head = (
            f"deviance {self.deviance:.2f}, Pearson {self.pearson:.2f}, {self.degrees:,} degree{plural} of "
            f"freedom: p = {self.p_value:.3g} ({self.method})"
        )
        rows: Any = self.pairs.slice(0, SHOWN_PAIRS).to_pylist()
        cells = [
            [
                f"{row['first']} – {row['second']}",
                show_count(row["games"]),
                f"{show_count(row['wins'])} ({row['expected_wins']:.1f})",
                f"{show_count(row['losses'])} ({row['expected_losses']:.1f})",
                f"{row['residual']:+.2f}",
            ]
            for row in rows
        ]
        more = [f"and {len(self.pairs) - SHOWN_PAIRS:,} more pairs; .table() has all"] * (
            len(self.pairs) > SHOWN_PAIRS
        )
        return [
            head,
            Listing(["pair", "games", "wins (expected)", "losses (expected)", "residual"], cells),
            *more,
        ]


@dataclass(frozen=True, eq=False, repr=False)
class Intransitivity(Assessment):
    """Cyclic triads: three items of which each beat the next more often than it lost to it.

    Attributes
    ----------
    triads : int
        The number of triads in which every pair met and one item of each pair won more often.
    cyclic : int
        The number of these triads that are cycles.
    expected : float
        How many cycles the model leads one to expect, by draws from it.
    p_value : float
        The probability of at least as many cycles if the model is right, by the parametric bootstrap.
    n_draws : int
        How often choices were drawn.
    cycles : pyarrow.Table
        One row per cycle, the clearest first: first beats second, second beats third, third beats first, and
        margin, the least excess of wins among the three pairs.
    """

    triads: int
    cyclic: int
    expected: float
    p_value: float
    n_draws: int
    cycles: pa.Table

    def _blocks(self) -> list[Block]:
        head = (
            f"{self.cyclic:,} of {self.triads:,} triads are cycles, {self.expected:.1f} expected: "
            f"p = {self.p_value:.3g} (parametric bootstrap, {self.n_draws:,} draws)"
        )
        rows: Any = self.cycles.slice(0, SHOWN_PAIRS).to_pylist()
        lines = [
            f"  {row['first']} > {row['second']} > {row['third']} > {row['first']}, each by "
            f"{show_count(row['margin'])} or more"
            for row in rows
        ]
        more = [f"  and {len(self.cycles) - SHOWN_PAIRS:,} more; .table() has all"] * (
            len(self.cycles) > SHOWN_PAIRS
        )
        return [head, *lines, *more]


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation(Assessment):
    """How well a model predicts choices that it was not fitted to.

    Attributes
    ----------
    log_loss : float
        The mean of −ln p of the choices that were left out in turn; infinite if one of them had p = 0.
    fitted : float
        The mean of −ln p of the choices that the fit has seen.
    even : float
        The mean of −ln p if all outcomes are equally probable.
    n_folds : int
        In how many folds choices, or whole clusters, were left out.
    n_impossible : int
        Choices left out that had probability 0.
    n_open : int
        Choices left out whose probability the other choices leave open; these do not count.
    calibration : pyarrow.Table
        One row per tenth of predicted probabilities: low, high, predicted (their mean), happened (how often
        it was chosen), and alternatives. Every alternative of a choice left out counts.
    """

    log_loss: float
    fitted: float
    even: float
    n_folds: int
    n_impossible: int
    n_open: int
    calibration: pa.Table

    def _blocks(self) -> list[Block]:
        head = (
            f"log loss of choices left out: {self.log_loss:.4f} ({self.n_folds} folds); of those fitted: "
            f"{self.fitted:.4f}; if all outcomes are equally probable: {self.even:.4f}"
        )
        notes = list[str]()
        if self.n_impossible:
            notes.append(
                f"{self.n_impossible:,} choices left out had probability 0; "
                'penalty="firth" gives none the probability 0'
            )
        if self.n_open:
            notes.append(
                f"{self.n_open:,} choices left out do not count: the other choices leave their "
                "probabilities open"
            )
        rows: Any = self.calibration.to_pylist()
        cells = [
            [
                f"{row['low']:.1f} to {row['high']:.1f}",
                f"{row['predicted']:.3f}",
                f"{row['happened']:.3f}",
                f"{row['alternatives']:,}",
            ]
            for row in rows
        ]
        return [head, Listing(["probability", "predicted", "happened", "alternatives"], cells), *notes]


def cross_validate(
    fitted: FittedChoices,
    predict: Callable[[LogitFit, Any, Situations], Float64],
    clusters: Int64 | None,
    log_likelihood: float,
    n_folds: int,
    seed: int,
) -> CrossValidation:
    """Leave choices out in turn, fit the others, and compare."""
    problem, situations = fitted.problem, fitted.problem.situations
    rows = np.repeat(np.arange(situations.n_rows), problem.counts.astype(np.int64))  # one for each choice
    group = np.arange(len(rows)) if clusters is None else clusters[situations.of_row[rows]]
    n_groups = int(group.max(initial=-1)) + 1
    n_folds = min(whole_number(n_folds, "n_folds", least=2), n_groups)
    if n_folds < 2:
        unit = "choices" if clusters is None else "clusters"
        raise UnsupportedOption(f"cross-validation needs at least two {unit}; add {unit}")
    fold = (np.random.default_rng(seed).permutation(n_groups) % n_folds)[group]
    size, loss, impossible, open_ = np.diff(situations.starts), 0.0, 0.0, 0.0
    sums = np.zeros((3, BINS))  # of alternatives, of their probabilities, and of choices
    for number in range(n_folds):
        out = np.bincount(rows[fold == number], minlength=situations.n_rows).astype(np.float64)
        fit, met = fitted.refit(problem.counts - out), np.flatnonzero(situations.sum(out) > 0)
        for few in np.array_split(met, 1 + len(met) * problem.rows.n_parameters // NUMBERS_AT_ONCE):
            numbers = ranges_of(situations.starts[few], size[few])
            inside, chosen = Situations(offsets_of(size[few])), out[numbers]
            probability = predict(fit, problem.rows.take(numbers), inside)
            if problem.offsets is not None:
                probability *= np.exp(problem.offsets[numbers])
                probability /= inside.spread(inside.sum(probability))
            decided = ~np.isnan(probability)
            open_ += chosen[~decided].sum()
            impossible += chosen[probability == 0].sum()
            likely = decided & (chosen > 0)
            with np.errstate(divide="ignore"):
                loss -= float(chosen[likely] @ np.log(probability[likely]))
            times = inside.spread(inside.sum(chosen))
            bins = np.minimum((probability[decided] * BINS).astype(np.int64), BINS - 1)
            for total, value in zip(sums, (times, times * probability, chosen), strict=True):
                total += np.bincount(bins, value[decided], BINS)
    filled = np.flatnonzero(sums[0])
    calibration = table_of(
        {
            "low": filled / BINS,
            "high": (filled + 1) / BINS,
            "predicted": (sums[1] / np.maximum(sums[0], 1))[filled],
            "happened": (sums[2] / np.maximum(sums[0], 1))[filled],
            "alternatives": sums[0][filled].astype(np.int64),
        }
    )
    n_choices = problem.n_choices
    even = float(np.log(size) @ problem.totals) / n_choices
    log_loss = float(loss / (n_choices - open_)) if n_choices > open_ else np.nan
    return CrossValidation(
        log_loss, -log_likelihood / n_choices, even, n_folds, int(impossible), int(open_), calibration
    )


def assess(
    fitted: FittedChoices, items: tuple[Any, ...], method: str | None, n_draws: int, seed: int
) -> GoodnessOfFit:
    """The deviance by pair, its p-value, and residuals."""
    if method not in (None, "chi-square", "bootstrap"):
        raise UnsupportedOption(f"method is {show(method)}; give 'chi-square', 'bootstrap' or None")
    n_draws = whole_number(n_draws, "n_draws", least=1)
    counts, expected = fitted.problem.counts, fitted.expected
    deviance, pearson = measure(fitted.cells, counts, expected)
    degrees = fitted.n_free - fitted.fit.identified.rank
    enough = fitted.plain and np.bincount(fitted.cells, expected).min(initial=np.inf) >= ENOUGH_EXPECTED
    if method == "chi-square" or (method is None and enough):
        from scipy.special import chdtrc

        how, p_value = "chi-square", float(chdtrc(degrees, deviance)) if degrees > 0 else 1.0
    else:
        how = f"parametric bootstrap, {n_draws:,} draws"
        drawn = fitted.draw(n_draws, np.random.default_rng(seed))
        again = zip(drawn, fitted.expect_again(drawn), strict=True)
        deviances = [measure(fitted.cells, *both)[0] for both in again]
        p_value = tail(deviance, np.array(deviances))
    return GoodnessOfFit(deviance, pearson, degrees, p_value, how, _list_pairs(fitted, items))


def measure(cells: Int64, counts: Float64, expected: Float64) -> tuple[float, float]:
    """The deviance and Pearson's statistic of the cells."""
    observed, right = np.bincount(cells, counts), np.bincount(cells, expected)
    occurred, likely = observed > 0, right > 0
    deviance = 2.0 * float((observed[occurred] * np.log(observed[occurred] / right[occurred])).sum())
    pearson = float((np.square(observed - right)[likely] / right[likely]).sum())
    return max(deviance, 0.0), pearson


def tail(statistic: float, drawn: Float64) -> float:
    """The share of draws at least as large, counting the statistic itself."""
    return float((1 + (drawn >= statistic - 1e-6).sum()) / (1 + len(drawn)))


def _list_pairs(fitted: FittedChoices, items: tuple[Any, ...]) -> pa.Table:
    """Observed and expected wins of each pair, the most surprising first."""
    pairs, expected = fitted.pairs, fitted.expected
    wins, losses = pairs.wins(fitted.problem.counts)
    right_wins, right_losses = pairs.wins(expected)
    gap, variance = _net_wins(fitted, expected)
    excess = wins - losses - gap
    residual = np.divide(excess, np.sqrt(variance), out=np.zeros_like(excess), where=variance > 1e-9)
    order = np.argsort(-np.abs(residual), kind="stable")
    games = pairs.add(fitted.problem.situations.spread(fitted.problem.totals)[pairs.rows[0]])
    columns = {
        "first": item_column([items[item] for item in pairs.first[order].tolist()]),
        "second": item_column([items[item] for item in pairs.second[order].tolist()]),
    }
    numbers = (games, wins, right_wins, losses, right_losses, residual)
    names = ("games", "wins", "expected_wins", "losses", "expected_losses", "residual")
    return table_of(
        columns
        | {name: numbers_of_pairs[order] for name, numbers_of_pairs in zip(names, numbers, strict=True)}
    )


def _net_wins(fitted: FittedChoices, expected: Float64) -> tuple[Float64, Float64]:
    """The expected excess of wins over losses of each pair, and its variance."""
    pairs, times = fitted.pairs, fitted.problem.situations.spread(fitted.problem.totals)
    first, second = (expected / times)[pairs.rows]
    times = times[pairs.rows[0]]
    variance = pairs.add(times * (first + second - np.square(first - second)))
    return pairs.add(times * (first - second)), variance


def count_cycles(fitted: FittedChoices, items: tuple[Any, ...], n_draws: int, seed: int) -> Intransitivity:
    """The cyclic triads, against those of draws from the model."""
    n_draws = whole_number(n_draws, "n_draws", least=1)
    if len(items) > MOST_IN_CYCLES:
        raise UnsupportedOption(f"cycles are counted among at most {MOST_IN_CYCLES:,} items; fit fewer items")
    ahead, margin = _beats(fitted, fitted.problem.counts)
    cyclic = _cycles(ahead)
    statistic = cyclic - _anticipate(fitted, fitted.expected)
    again = fitted.draw(n_draws, np.random.default_rng(seed))
    numbers = [_cycles(_beats(fitted, counts)[0]) for counts in again]
    anticipated = [_anticipate(fitted, expected) for expected in fitted.expect_again(again)]
    drawn = np.array(numbers) - np.array(anticipated)
    decided = ahead + ahead.T
    triads = round(float(np.trace(decided @ decided @ decided)) / 6)
    rows = _list_cycles(ahead, margin, items)
    p_value = tail(statistic, drawn) if cyclic else 1.0
    return Intransitivity(triads, round(cyclic), float(np.mean(numbers)), p_value, n_draws, rows)


def _beats(fitted: FittedChoices, counts: Float64) -> tuple[Float64, Float64]:
    """Who won more often against whom, 1 or 0, and by how many, shape (n_items, n_items)."""
    pairs, margin = fitted.pairs, np.zeros((fitted.n_items, fitted.n_items))
    wins, losses = pairs.wins(counts)
    margin[pairs.first, pairs.second], margin[pairs.second, pairs.first] = wins - losses, losses - wins
    return (margin > 0).astype(np.float64), margin


def _cycles(ahead: Float64) -> float:
    """The number of cyclic triads, or the expected number, of a matrix of probabilities of being ahead."""
    return float(np.einsum("ij,ji->", ahead @ ahead, ahead)) / 3


def _anticipate(fitted: FittedChoices, expected: Float64) -> float:
    """About how many cycles a fit leads one to expect: pairs as independent and normal."""
    from scipy.special import ndtr

    pairs, ahead = fitted.pairs, np.zeros((fitted.n_items, fitted.n_items))
    gap, variance = _net_wins(fitted, expected)
    probability = ndtr(gap / np.sqrt(np.maximum(variance, 1e-12)))
    ahead[pairs.first, pairs.second], ahead[pairs.second, pairs.first] = probability, 1.0 - probability
    return _cycles(ahead)


def _list_cycles(ahead: Float64, margin: Float64, items: tuple[Any, ...]) -> pa.Table:
    """The cycles, each from its first item on, the clearest first."""
    cycles = list[tuple[float, tuple[int, int, int]]]()
    for first in range(len(items)):
        later = ahead.copy()
        later[:, :first] = 0.0
        for second in np.flatnonzero(later[first]).tolist():
            for third in np.flatnonzero(later[second] * ahead[:, first]).tolist():
                least = min(margin[first, second], margin[second, third], margin[third, first])
                cycles.append((-float(least), (first, second, third)))
    cycles.sort()
    columns = {
        name: item_column([items[cycle[side]] for _, cycle in cycles])
        for side, name in enumerate(("first", "second", "third"))
    }
    return table_of(columns | {"margin": [-margin for margin, _ in cycles]})
