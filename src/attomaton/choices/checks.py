"""Test whether choices look like those of a model: goodness of fit, cycles, and prediction of other choices.

:func:`assess` (deviance) and :func:`count_cycles` compare the choices with choices that are drawn from the
model and fitted again; :func:`cross_validate` leaves choices out. The number of cycles is less the number
that each fit predicts, so that it does not depend on how far apart the items are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.rows import Situations
from attomaton.choices.simulation import NUMBERS_AT_ONCE, FittedChoices

ENOUGH_EXPECTED = 5.0  # choices expected in every cell from which the chi-square distribution is used
SHOWN_PAIRS = 5  # pairs or cycles that are printed
MOST_IN_CYCLES = 500  # most items among which cycles are counted
BINS = 10  # intervals of predicted probabilities, equally wide, whose choices are counted


class Assessment(Tabular):
    """The result of a test: a dataclass of numbers and one table."""

    def __repr__(self) -> str:
        return str(self)

    def _table(self) -> pa.Table:
        return next(value for value in vars(self).values() if isinstance(value, pa.Table))

    def _shown(self, items: str) -> tuple[list[dict[str, Any]], list[str]]:
        # the printed rows of the table, and a line that counts the others, if any
        n_hidden = len(self._table()) - SHOWN_PAIRS
        rows: Any = self._table().slice(0, SHOWN_PAIRS).to_pylist()
        return rows, [f"and {n_hidden:,} more {items}; .table() has all"] if n_hidden > 0 else []

    def to_dict(self) -> dict[str, Any]:
        """The numbers and the rows of the table for JSON, where infinity is ``"infinite"``."""
        return {name: _plain(value) for name, value in vars(self).items()}


def _plain(value: Any) -> Any:
    # a table as records, and a number that JSON does not have as text or None; anything else unchanged
    if isinstance(value, pa.Table):
        rows: Any = value.to_pylist()
        return [{name: _plain(cell) for name, cell in row.items()} for row in rows]
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else "infinite" if value > 0 else "-infinite"
    return value


@dataclass(frozen=True, eq=False, repr=False)
class GoodnessOfFit(Assessment):
    """Whether a model fits the choices, with the residual of each pair.

    ``deviance`` and ``pearson`` are 2 Σ O ln(O / E) and Σ (O − E)² / E over the cells, with observed counts O
    and expected counts E; a cell is an item in a set of items that were offered together. ``degrees`` are the
    cells that totals do not fix, less the fitted parameters. ``p_value`` is the probability of a deviance at
    least this large if the model is right, and ``method`` how it was computed.

    ``pairs`` has a row per pair, the most surprising first: first, second, games, wins, expected_wins,
    losses, expected_losses, and residual: wins minus losses, less the expected difference, in standard
    deviations.
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
        rows, more = self._shown("pairs")
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
        headers = ["pair", "games", "wins (expected)", "losses (expected)", "residual"]
        return [head, Listing(headers, cells), *more]


@dataclass(frozen=True, eq=False, repr=False)
class Intransitivity(Assessment):
    """Cyclic triads: three items of which each beat the next more often than it lost to it.

    ``triads`` counts the triads in which every pair played and one item of each pair won more often, and
    ``cyclic`` those that are cycles. ``expected`` is the mean number of cycles in ``n_draws`` draws from the
    model, and ``p_value`` the probability of at least as many cycles if the model is right. ``cycles`` has a
    row per cycle, the clearest first: first beats second, second beats third, third beats first, and margin,
    the least excess of wins among the three pairs.
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
        rows, more = self._shown("cycles")
        lines = [
            f"  {row['first']} > {row['second']} > {row['third']} > {row['first']}, each by "
            f"{show_count(row['margin'])} or more"
            for row in rows
        ]
        return [head, *lines, *(f"  {line}" for line in more)]


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation(Assessment):
    """How well a model predicts choices that it was not fitted to.

    ``log_loss``, ``fitted`` and ``even`` are means of −ln p: of the choices that were left out in turn, of
    the choices that the model was fitted to, and for equally probable outcomes. Choices, or whole clusters,
    were left out in ``n_folds``. ``n_impossible`` of them had probability 0, which makes ``log_loss``
    infinite, and ``n_open`` had a probability that the other choices leave open; these do not count.
    ``calibration`` has a row per tenth of predicted probabilities: low, high, predicted (their mean),
    happened (the share that was chosen) and alternatives, for all alternatives of choices left out.
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
            remedy = 'which penalty="firth" avoids'
            notes.append(f"{self.n_impossible:,} choices left out had probability 0, {remedy}")
        if self.n_open:
            notes.append(f"{self.n_open:,} choices left out do not count: their probabilities are open")
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


# fit, rows, situations → the probability of each row
Predict = Callable[[LogitFit, Any, Situations], Float64]


@dataclass
class _Predictions:
    """Sums over the choices left out; arrays have an entry for each interval of probabilities."""

    loss: float = 0.0
    n_impossible: float = 0.0
    n_open: float = 0.0
    alternatives: Float64 = field(default_factory=lambda: np.zeros(BINS))
    predicted: Float64 = field(default_factory=lambda: np.zeros(BINS))
    happened: Float64 = field(default_factory=lambda: np.zeros(BINS))

    def add(self, situations: Situations, chosen: Float64, probability: Float64) -> None:
        # by row: how often it was chosen in the choices left out, and its probability by the fit to the
        # others, NaN where they leave it open
        is_open = np.isnan(probability)
        self.n_open += chosen[is_open].sum()
        self.n_impossible += chosen[probability == 0].sum()
        counted = ~is_open & (chosen > 0)
        with np.errstate(divide="ignore"):
            self.loss -= float(chosen[counted] @ np.log(probability[counted]))
        # an alternative counts once for each choice in its situation
        times = situations.spread(situations.sum(chosen))
        bins = np.minimum((probability[~is_open] * BINS).astype(np.int64), BINS - 1)
        self.alternatives += np.bincount(bins, times[~is_open], BINS)
        self.predicted += np.bincount(bins, (times * probability)[~is_open], BINS)
        self.happened += np.bincount(bins, chosen[~is_open], BINS)

    def calibrate(self) -> pa.Table:
        filled = np.flatnonzero(self.alternatives)
        alternatives = self.alternatives[filled]
        columns = {
            "low": filled / BINS,
            "high": (filled + 1) / BINS,
            "predicted": self.predicted[filled] / np.maximum(alternatives, 1),
            "happened": self.happened[filled] / np.maximum(alternatives, 1),
            "alternatives": alternatives.astype(np.int64),
        }
        return table_of(columns)


def cross_validate(
    fitted: FittedChoices,
    predict: Predict,
    clusters: Int64 | None,
    log_likelihood: float,
    n_folds: int,
    seed: int,
) -> CrossValidation:
    """Leave choices out in turn, fit the others, and compare; ``log_likelihood`` is that of all choices."""
    problem, situations = fitted.problem, fitted.problem.situations
    # a row is listed as often as it was chosen; a group is one choice, or all choices of one cluster
    rows = np.repeat(np.arange(situations.n_rows), problem.counts.astype(np.int64))
    group = np.arange(len(rows)) if clusters is None else clusters[situations.of_row[rows]]
    n_groups = int(group.max(initial=-1)) + 1
    n_folds = min(whole_number(n_folds, "n_folds", least=2), n_groups)
    if n_folds < 2:
        unit = "choices" if clusters is None else "clusters"
        raise UnsupportedOption(f"cross-validation needs at least two {unit}; add {unit}")
    fold = (np.random.default_rng(seed).permutation(n_groups) % n_folds)[group]
    sums = _Predictions()
    for number in range(n_folds):
        left_out = np.bincount(rows[fold == number], minlength=situations.n_rows).astype(np.float64)
        fit = fitted.refit(problem.counts - left_out)
        for batch in _predict_left_out(problem, fit, predict, left_out):
            sums.add(*batch)
    n_choices = problem.n_choices
    n_counted = n_choices - sums.n_open
    return CrossValidation(
        log_loss=float(sums.loss / n_counted) if n_counted > 0 else np.nan,
        fitted=-log_likelihood / n_choices,
        even=float(np.log(np.diff(situations.starts)) @ problem.totals) / n_choices,
        n_folds=n_folds,
        n_impossible=int(sums.n_impossible),
        n_open=int(sums.n_open),
        calibration=sums.calibrate(),
    )


def _predict_left_out(
    problem: ChoiceProblem, fit: LogitFit, predict: Predict, left_out: Float64
) -> Iterator[tuple[Situations, Float64, Float64]]:
    # predict the choices ``left_out``, counts of shape (n_rows,), in batches of situations for ``add``
    starts = problem.situations.starts
    sizes = np.diff(starts)
    tested = np.flatnonzero(problem.situations.sum(left_out) > 0)
    for batch in np.array_split(tested, 1 + len(tested) * problem.rows.n_parameters // NUMBERS_AT_ONCE):
        rows = ranges_of(starts[batch], sizes[batch])
        situations = Situations(offsets_of(sizes[batch]))
        probability = predict(fit, problem.rows.take(rows), situations)
        if problem.offsets is not None:  # ``predict`` knows none: weigh alternatives, and divide by the sum
            probability *= np.exp(problem.offsets[rows])
            probability /= situations.spread(situations.sum(probability))
        yield situations, left_out[rows], probability


def assess(
    fitted: FittedChoices, items: tuple[Any, ...], method: str | None, n_draws: int, seed: int
) -> GoodnessOfFit:
    """Test the deviance; ``method`` is "chi-square", "bootstrap", or None for what suits the counts."""
    if method not in (None, "chi-square", "bootstrap"):
        raise UnsupportedOption(f"method is {show(method)}; give 'chi-square', 'bootstrap' or None")
    n_draws = whole_number(n_draws, "n_draws", least=1)
    counts, expected = fitted.problem.counts, fitted.expected
    deviance, pearson = measure_deviance(fitted.cells, counts, expected)
    degrees = fitted.n_free - fitted.fit.identified.rank
    if method is None:
        least = np.bincount(fitted.cells, expected).min(initial=np.inf)
        method = "chi-square" if fitted.plain and least >= ENOUGH_EXPECTED else "bootstrap"
    if method == "chi-square":
        from scipy.special import chdtrc

        p_value = float(chdtrc(degrees, deviance)) if degrees > 0 else 1.0
    else:
        method = f"parametric bootstrap, {n_draws:,} draws"
        drawn = fitted.draw(n_draws, np.random.default_rng(seed))
        redrawn = zip(drawn, fitted.expect_again(drawn), strict=True)
        deviances = [measure_deviance(fitted.cells, counts, expected)[0] for counts, expected in redrawn]
        p_value = _count_tail(deviance, np.array(deviances))
    return GoodnessOfFit(deviance, pearson, degrees, p_value, method, _list_pairs(fitted, items))


def measure_deviance(cells: Int64, counts: Float64, expected: Float64) -> tuple[float, float]:
    """The deviance and Pearson's statistic, from the cell, the count and the expected count of each row."""
    observed, predicted = np.bincount(cells, counts), np.bincount(cells, expected)
    occurred, possible = observed > 0, predicted > 0
    deviance = 2.0 * float((observed[occurred] * np.log(observed[occurred] / predicted[occurred])).sum())
    pearson = float((np.square(observed - predicted)[possible] / predicted[possible]).sum())
    return max(deviance, 0.0), pearson


# The share of draws at least as large as the statistic, which counts as a draw.
def _count_tail(statistic: float, drawn: Float64) -> float:
    return float((1 + (drawn >= statistic - 1e-6).sum()) / (1 + len(drawn)))  # equal up to rounding errors


def _list_pairs(fitted: FittedChoices, items: tuple[Any, ...]) -> pa.Table:
    # the table of pairs of a ``GoodnessOfFit``, by falling size of the residual
    pairs, expected = fitted.pairs, fitted.expected
    wins, losses = pairs.count_wins(fitted.problem.counts)
    expected_wins, expected_losses = pairs.count_wins(expected)
    net_wins, variance = _expect_net_wins(fitted, expected)
    excess = wins - losses - net_wins
    # 0 where the wins are certain, except for rounding errors
    residual = np.divide(excess, np.sqrt(variance), out=np.zeros_like(excess), where=variance > 1e-9)
    order = np.argsort(-np.abs(residual), kind="stable")
    return table_of(
        {
            "first": item_column([items[item] for item in pairs.first[order].tolist()]),
            "second": item_column([items[item] for item in pairs.second[order].tolist()]),
            "games": pairs.add(_count_games(fitted))[order],
            "wins": wins[order],
            "expected_wins": expected_wins[order],
            "losses": losses[order],
            "expected_losses": expected_losses[order],
            "residual": residual[order],
        }
    )


def _count_games(fitted: FittedChoices) -> Float64:
    # the number of choices in the situation of each meeting of two items, shape (n_meetings,)
    return fitted.problem.situations.spread(fitted.problem.totals)[fitted.pairs.rows[0]]


# The expected excess of wins over losses of each pair, and its variance.
def _expect_net_wins(fitted: FittedChoices, expected: Float64) -> tuple[Float64, Float64]:
    pairs, games = fitted.pairs, _count_games(fitted)
    # in one game the net win is 1 with probability p, −1 with probability q, and otherwise 0
    p, q = expected[pairs.rows] / games
    variance = pairs.add(games * (p + q - np.square(p - q)))
    return pairs.add(games * (p - q)), variance


def count_cycles(fitted: FittedChoices, items: tuple[Any, ...], n_draws: int, seed: int) -> Intransitivity:
    """Compare the number of cyclic triads with that of draws from the model."""
    n_draws = whole_number(n_draws, "n_draws", least=1)
    if len(items) > MOST_IN_CYCLES:
        raise UnsupportedOption(f"cycles are counted among at most {MOST_IN_CYCLES:,} items; fit fewer items")
    net_wins = _tabulate_net_wins(fitted, fitted.problem.counts)
    is_ahead = (net_wins > 0).astype(np.float64)
    n_cycles = _count_cyclic(is_ahead)
    excess = n_cycles - _predict_cycles(fitted, fitted.expected)
    drawn = fitted.draw(n_draws, np.random.default_rng(seed))
    n_drawn = [_count_cyclic((_tabulate_net_wins(fitted, counts) > 0).astype(np.float64)) for counts in drawn]
    n_predicted = [_predict_cycles(fitted, expected) for expected in fitted.expect_again(drawn)]
    excess_drawn = np.array(n_drawn) - np.array(n_predicted)
    is_decided = is_ahead + is_ahead.T
    return Intransitivity(
        # closed walks of three steps between decided pairs: six for each triad (three starts, two directions)
        triads=round(float(np.trace(is_decided @ is_decided @ is_decided)) / 6),
        cyclic=round(n_cycles),
        expected=float(np.mean(n_drawn)),
        p_value=_count_tail(excess, excess_drawn) if n_cycles else 1.0,
        n_draws=n_draws,
        cycles=_list_cycles(net_wins, items),
    )


# Wins of the item of each row less its losses against the item of each column.
def _tabulate_net_wins(fitted: FittedChoices, counts: Float64) -> Float64:
    pairs, net_wins = fitted.pairs, np.zeros((fitted.n_items, fitted.n_items))
    wins, losses = pairs.count_wins(counts)
    net_wins[pairs.first, pairs.second], net_wins[pairs.second, pairs.first] = wins - losses, losses - wins
    return net_wins


# The number of cyclic triads of a matrix of who is ahead; for probabilities, the expected number.
def _count_cyclic(is_ahead: Float64) -> float:
    return float(np.einsum("ij,ji->", is_ahead @ is_ahead, is_ahead)) / 3  # a cycle is met from three starts


# The number of cyclic triads that a fit predicts if net wins of pairs are independent and normal.
def _predict_cycles(fitted: FittedChoices, expected: Float64) -> float:
    from scipy.special import ndtr  # a tenth of the start-up time

    pairs, is_ahead = fitted.pairs, np.zeros((fitted.n_items, fitted.n_items))
    net_wins, variance = _expect_net_wins(fitted, expected)
    probability = ndtr(net_wins / np.sqrt(np.maximum(variance, 1e-12)))  # 1 or 0 without variance
    is_ahead[pairs.first, pairs.second], is_ahead[pairs.second, pairs.first] = probability, 1.0 - probability
    return _count_cyclic(is_ahead)


# The cycles, the clearest first, each from its lowest item on.
def _list_cycles(net_wins: Float64, items: tuple[Any, ...]) -> pa.Table:
    cycles = list[tuple[int, int, int]]()
    for first in range(len(items)):
        is_ahead = net_wins > 0
        is_ahead[:, :first] = False  # only items from ``first`` on
        for second in np.flatnonzero(is_ahead[first]).tolist():
            for third in np.flatnonzero(is_ahead[second] & is_ahead[:, first]).tolist():
                cycles.append((first, second, third))
    ends = np.array(cycles, np.int64).reshape(-1, 3)
    margin = net_wins[ends, np.roll(ends, -1, axis=1)].min(axis=1)  # of first, second, third to the next
    order = np.argsort(-margin, kind="stable")
    columns = {
        name: item_column([items[number] for number in numbers[order].tolist()])
        for name, numbers in zip(("first", "second", "third"), ends.T, strict=True)
    }
    return table_of(columns | {"margin": margin[order].tolist()})
