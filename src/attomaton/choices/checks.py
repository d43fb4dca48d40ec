"""Test whether choices look like those of a model: goodness of fit, cycles, and prediction of other choices.

Deviance and cycles are compared with those of choices that are drawn from the model and fitted again. From
the number of cyclic triads the number that each fit predicts is subtracted, so that the statistic does not
depend on how far apart the items are.
"""

from collections.abc import Callable, Iterator
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
        n_hidden = len(self._table()) - SHOWN_PAIRS
        rows: Any = self._table().slice(0, SHOWN_PAIRS).to_pylist()
        return rows, [f"and {n_hidden:,} more {items}; .table() has all"] if n_hidden > 0 else []

    def to_dict(self) -> dict[str, Any]:
        """The numbers and the rows of the table for JSON, where infinity is ``"infinite"``."""
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
            avoided = 'which penalty="firth" avoids'
            notes.append(f"{self.n_impossible:,} choices left out had probability 0, {avoided}")
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


# The probability of each row of new situations by a fit.
Predict = Callable[[LogitFit, Any, Situations], Float64]


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
    rows = np.repeat(np.arange(situations.n_rows), problem.counts.astype(np.int64))  # one for each choice
    group = np.arange(len(rows)) if clusters is None else clusters[situations.of_row[rows]]
    n_groups = int(group.max(initial=-1)) + 1
    n_folds = min(whole_number(n_folds, "n_folds", least=2), n_groups)
    if n_folds < 2:
        unit = "choices" if clusters is None else "clusters"
        raise UnsupportedOption(f"cross-validation needs at least two {unit}; add {unit}")
    fold = (np.random.default_rng(seed).permutation(n_groups) % n_folds)[group]
    loss, n_impossible, n_open, sums = 0.0, 0.0, 0.0, np.zeros((3, BINS))
    for number in range(n_folds):
        left_out = np.bincount(rows[fold == number], minlength=situations.n_rows).astype(np.float64)
        fit = fitted.refit(problem.counts - left_out)
        for chosen, probability, inside in _predict_left_out(problem, fit, predict, left_out):
            is_open = np.isnan(probability)
            n_open += chosen[is_open].sum()
            n_impossible += chosen[probability == 0].sum()
            counted = ~is_open & (chosen > 0)
            with np.errstate(divide="ignore"):
                loss -= float(chosen[counted] @ np.log(probability[counted]))
            times = inside.spread(inside.sum(chosen))
            bins = np.minimum((probability[~is_open] * BINS).astype(np.int64), BINS - 1)
            for total, value in zip(sums, (times, times * probability, chosen), strict=True):
                total += np.bincount(bins, value[~is_open], BINS)
    n_choices = problem.n_choices
    return CrossValidation(
        log_loss=float(loss / (n_choices - n_open)) if n_choices > n_open else np.nan,
        fitted=-log_likelihood / n_choices,
        even=float(np.log(np.diff(situations.starts)) @ problem.totals) / n_choices,
        n_folds=n_folds,
        n_impossible=int(n_impossible),
        n_open=int(n_open),
        calibration=_calibrate(*sums),
    )


def _predict_left_out(
    problem: ChoiceProblem, fit: LogitFit, predict: Predict, left_out: Float64
) -> Iterator[tuple[Float64, Float64, Situations]]:
    """The choices left out in batches of situations: how often each row was chosen, and its probability."""
    starts = problem.situations.starts
    sizes, tested = np.diff(starts), np.flatnonzero(problem.situations.sum(left_out) > 0)
    for batch in np.array_split(tested, 1 + len(tested) * problem.rows.n_parameters // NUMBERS_AT_ONCE):
        rows, inside = ranges_of(starts[batch], sizes[batch]), Situations(offsets_of(sizes[batch]))
        probability = predict(fit, problem.rows.take(rows), inside)
        if problem.offsets is not None:
            probability *= np.exp(problem.offsets[rows])
            probability /= inside.spread(inside.sum(probability))
        yield left_out[rows], probability, inside


def _calibrate(alternatives: Float64, predicted: Float64, happened: Float64) -> pa.Table:
    filled = np.flatnonzero(alternatives)
    return table_of(
        {
            "low": filled / BINS,
            "high": (filled + 1) / BINS,
            "predicted": (predicted / np.maximum(alternatives, 1))[filled],
            "happened": (happened / np.maximum(alternatives, 1))[filled],
            "alternatives": alternatives[filled].astype(np.int64),
        }
    )


def assess(
    fitted: FittedChoices, items: tuple[Any, ...], method: str | None, n_draws: int, seed: int
) -> GoodnessOfFit:
    """Test the goodness of fit by deviance; ``method`` None chooses the chi-square distribution or draws."""
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
        again = zip(drawn, fitted.expect_again(drawn), strict=True)
        deviances = [measure_deviance(fitted.cells, *counts_and_expected)[0] for counts_and_expected in again]
        p_value = _count_tail(deviance, np.array(deviances))
    return GoodnessOfFit(deviance, pearson, degrees, p_value, method, _list_pairs(fitted, items))


def measure_deviance(cells: Int64, counts: Float64, expected: Float64) -> tuple[float, float]:
    observed, predicted = np.bincount(cells, counts), np.bincount(cells, expected)
    occurred, possible = observed > 0, predicted > 0
    deviance = 2.0 * float((observed[occurred] * np.log(observed[occurred] / predicted[occurred])).sum())
    pearson = float((np.square(observed - predicted)[possible] / predicted[possible]).sum())
    return max(deviance, 0.0), pearson


def _count_tail(statistic: float, drawn: Float64) -> float:
    """The share of draws at least as large as the statistic, which counts as a draw."""
    return float((1 + (drawn >= statistic - 1e-6).sum()) / (1 + len(drawn)))


def _list_pairs(fitted: FittedChoices, items: tuple[Any, ...]) -> pa.Table:
    pairs, expected = fitted.pairs, fitted.expected
    wins, losses = pairs.count_wins(fitted.problem.counts)
    expected_wins, expected_losses = pairs.count_wins(expected)
    net_wins, variance = _expect_net_wins(fitted, expected)
    excess = wins - losses - net_wins
    residual = np.divide(excess, np.sqrt(variance), out=np.zeros_like(excess), where=variance > 1e-9)
    order = np.argsort(-np.abs(residual), kind="stable")
    games = pairs.add(fitted.problem.situations.spread(fitted.problem.totals)[pairs.rows[0]])
    return table_of(
        {
            "first": item_column([items[item] for item in pairs.first[order].tolist()]),
            "second": item_column([items[item] for item in pairs.second[order].tolist()]),
            "games": games[order],
            "wins": wins[order],
            "expected_wins": expected_wins[order],
            "losses": losses[order],
            "expected_losses": expected_losses[order],
            "residual": residual[order],
        }
    )


def _expect_net_wins(fitted: FittedChoices, expected: Float64) -> tuple[Float64, Float64]:
    """The expected excess of wins over losses of each pair, and its variance."""
    pairs, times = fitted.pairs, fitted.problem.situations.spread(fitted.problem.totals)
    first, second = (expected / times)[pairs.rows]
    times = times[pairs.rows[0]]
    variance = pairs.add(times * (first + second - np.square(first - second)))
    return pairs.add(times * (first - second)), variance


def count_cycles(fitted: FittedChoices, items: tuple[Any, ...], n_draws: int, seed: int) -> Intransitivity:
    """Compare the number of cyclic triads with that of draws from the model."""
    n_draws = whole_number(n_draws, "n_draws", least=1)
    if len(items) > MOST_IN_CYCLES:
        raise UnsupportedOption(f"cycles are counted among at most {MOST_IN_CYCLES:,} items; fit fewer items")
    ahead, margin = _find_winners(fitted, fitted.problem.counts)
    cyclic = _count_triads(ahead)
    statistic = cyclic - _predict_triads(fitted, fitted.expected)
    again = fitted.draw(n_draws, np.random.default_rng(seed))
    cyclic_again = [_count_triads(_find_winners(fitted, counts)[0]) for counts in again]
    predicted = [_predict_triads(fitted, expected) for expected in fitted.expect_again(again)]
    drawn = np.array(cyclic_again) - np.array(predicted)
    decided = ahead + ahead.T
    return Intransitivity(
        triads=round(float(np.trace(decided @ decided @ decided)) / 6),
        cyclic=round(cyclic),
        expected=float(np.mean(cyclic_again)),
        p_value=_count_tail(statistic, drawn) if cyclic else 1.0,
        n_draws=n_draws,
        cycles=_list_cycles(ahead, margin, items),
    )


def _find_winners(fitted: FittedChoices, counts: Float64) -> tuple[Float64, Float64]:
    """Who won more often against whom, 1 or 0, and by how many, shape (n_items, n_items)."""
    pairs, margin = fitted.pairs, np.zeros((fitted.n_items, fitted.n_items))
    wins, losses = pairs.count_wins(counts)
    margin[pairs.first, pairs.second], margin[pairs.second, pairs.first] = wins - losses, losses - wins
    return (margin > 0).astype(np.float64), margin


def _count_triads(ahead: Float64) -> float:
    """The number of cyclic triads of a matrix of who is ahead; for probabilities, the expected number."""
    return float(np.einsum("ij,ji->", ahead @ ahead, ahead)) / 3


def _predict_triads(fitted: FittedChoices, expected: Float64) -> float:
    """The number of cyclic triads that a fit predicts if net wins of pairs are independent and normal."""
    from scipy.special import ndtr

    pairs, ahead = fitted.pairs, np.zeros((fitted.n_items, fitted.n_items))
    net_wins, variance = _expect_net_wins(fitted, expected)
    probability = ndtr(net_wins / np.sqrt(np.maximum(variance, 1e-12)))
    ahead[pairs.first, pairs.second], ahead[pairs.second, pairs.first] = probability, 1.0 - probability
    return _count_triads(ahead)


def _list_cycles(ahead: Float64, margin: Float64, items: tuple[Any, ...]) -> pa.Table:
    """The cycles, the clearest first, each from its lowest item on."""
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
