"""Judges compared: whether they agree, whether one judge sticks to a choice, and what each does to ratings.

Krippendorff's α is 1 − D_o / D_e: D_o is the mean squared difference of the choices of two judges on one task
and pair of items (a win is 1, a tie ½, a loss 0), D_e that of any two choices. A choice of m − 1 that others
made of the same pair counts 1 / (m − 1). Each pair counts in both orders, so that α does not depend on which
item is called the first.
"""

from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from attomaton.base.errors import UnsupportedOption
from attomaton.base.printing import Block, Listing, show_count
from attomaton.base.tables import Float64, Int64, column_of, table_of
from attomaton.choices.board_rows import item_column
from attomaton.choices.checks import SHOWN_PAIRS, Assessment
from attomaton.choices.columns import columns_of, find_column, number_values
from attomaton.choices.fit import fit_choices
from attomaton.choices.inputs import Columns, parse_choices, read_columns, select_rows
from attomaton.choices.parsed import PairChoices
from attomaton.choices.result import ChoiceFit
from attomaton.choices.sequences import ChoiceData

MOST_JUDGES = 1_000
"""Most judges, each of whom is left out once."""

SCORE = np.array([1.0, 0.0, 0.5])
"""The score of the first of a pair, by outcome."""


@dataclass(frozen=True, eq=False, repr=False)
class JudgeComparison(Assessment):
    """How far judges agree, and how much each judge moves the ratings.

    Attributes
    ----------
    alpha : float
        Krippendorff's α: 1 if judges agree, 0 if they agree as by chance; NaN if no two judges judged the
        same pair on the same task.
    n_shared : int
        The number of pairs, each on one task, that at least two judges saw.
    n_swapped : int
        The number of times that a judge saw a pair, on one task, in both orders.
    alike, always_first, always_second : float
        The shares of those times in which the judge chose alike, chose the first position both times, or the
        second both times; NaN without any.
    judges : pyarrow.Table
        One row per judge, the most influential first: judge, choices, agreement (the share of other judges'
        choices, on the same task and pair, that are the same), item (whose rating moves most if this judge is
        left out), shift (by how much) and shift_in_errors (in its standard errors). The shift is null if the
        item has no finite rating without this judge.
    """

    alpha: float
    n_shared: int
    n_swapped: int
    alike: float
    always_first: float
    always_second: float
    judges: pa.Table

    def _blocks(self) -> list[Block]:
        plural = "s" * (self.n_shared != 1)
        lines = [f"Krippendorff's alpha {self.alpha:.3f}: {self.n_shared:,} pair{plural} on a task that "]
        lines[0] += "several judges saw"
        if self.n_swapped:
            lines.append(
                f"{self.n_swapped:,} pair{'s' * (self.n_swapped != 1)} seen in both orders by one judge: "
                f"{self.alike:.0%} alike, {self.always_first:.0%} the first both times, "
                f"{self.always_second:.0%} the second"
            )
        rows: Any = self.judges.slice(0, SHOWN_PAIRS).to_pylist()
        cells = [
            [
                str(row["judge"]),
                show_count(row["choices"]),
                "-" if row["agreement"] is None else f"{row['agreement']:.2f}",
                str(row["item"]),
                "not finite" if row["shift"] is None else f"{row['shift']:+.3f}",
                "-" if row["shift_in_errors"] is None else f"{row['shift_in_errors']:+.2f}",
            ]
            for row in rows
        ]
        more = [f"and {len(self.judges) - SHOWN_PAIRS:,} more judges; .table() has all"] * (
            len(self.judges) > SHOWN_PAIRS
        )
        headers = ["judge", "choices", "agreement", "item", "shift", "in s.e."]
        return [*lines, Listing(headers, cells), *more]


def compare_judges(table: Any, *, cluster: Any, task: Any = None, **options: Any) -> JudgeComparison:
    """Compare judges: Krippendorff's α, swapped positions, and the influence of each judge on ratings.

    Parameters
    ----------
    table : frame, or path of a file
        One row per choice between two items.
    cluster : column name
        The judges.
    task : column name, optional
        What was judged, such as a question: choices between the same two items are compared if their task is
        the same. None means that all rows are one task.
    **options
        As for :func:`~attomaton.fit_choices`. ``moved_first`` names who stood first, for swapped positions.

    Returns
    -------
    JudgeComparison
        Print it for a table.

    Examples
    --------
    >>> votes = {"winner": list("aabaab"), "loser": list("bbabba"), "judge": list("xyzxyz")}
    >>> votes |= {"question": [1, 1, 1, 2, 2, 2]}
    >>> round(compare_judges(votes, cluster="judge", task="question").alpha, 3)
    -0.111
    """
    columns = read_columns(cast("str", table)) if isinstance(table, str | PathLike) else columns_of(table)
    judge_of_row, judges = number_values(find_column(columns, cluster, "cluster"))
    if len(judges) > MOST_JUDGES:
        raise UnsupportedOption(
            f"there are {len(judges):,} judges, and at most {MOST_JUDGES:,} are left out in turn; give a "
            "column with fewer, or a part of the rows"
        )
    shrunk = any(options.get(name) for name in ("penalty", "prior", "ridge"))
    full = fit_choices(columns, **options, **({} if shrunk else {"cluster": cluster}))
    data = ChoiceData(columns, tied=options.get("tied"), counts=options.get("counts"))
    named = {name: option for name, option in options.items() if name in Columns.__annotations__}
    parsed, side = parse_choices(data, {**named, "cluster": cluster if task is None else task})
    choices = parsed.choices
    if not isinstance(choices, PairChoices) or side.cluster is None:
        raise UnsupportedOption("judges are compared on pairs; give two items and an outcome in each row")
    row = np.arange(len(choices.first)) if choices.row is None else choices.row
    task_of_row = np.zeros_like(judge_of_row) if task is None else side.cluster
    low, high = np.minimum(choices.first, choices.second), np.maximum(choices.first, choices.second)
    n_items, is_low = len(parsed.items), choices.first == low
    unit = np.unique((task_of_row[row] * n_items + low) * n_items + high, return_inverse=True)[1].ravel()
    score = np.where(is_low, SCORE[choices.outcome], 1.0 - SCORE[choices.outcome])
    votes = Votes(unit, judge_of_row[row], score, parsed.counts.astype(np.float64))
    moved_first = side.features.get("moved_first", np.zeros(len(judge_of_row)))[row]
    alpha, n_shared, agreement = measure_agreement(votes, len(judges))
    swapped = compare_orders(votes, len(judges), np.where(is_low, moved_first, -moved_first))
    shifts: list[Shift] = []
    for judge in range(len(judges)):
        without = {name: select_rows(column, judge_of_row != judge) for name, column in columns.items()}
        shifts.append(_measure_shift(full, fit_choices(without, **options)))
    shift = np.array([shift.shift for shift in shifts])
    in_errors = np.array([shift.in_errors for shift in shifts])
    table = {
        "judge": item_column(judges),
        "choices": np.bincount(votes.judge, votes.counts, len(judges)),
        "agreement": column_of(agreement, np.isnan(agreement)),
        "item": item_column([shift.item for shift in shifts]),
        "shift": column_of(shift, np.isnan(shift)),
        "shift_in_errors": column_of(in_errors, np.isnan(in_errors)),
    }
    influence = np.where(np.isnan(shift), np.inf, np.abs(np.where(np.isnan(in_errors), shift, in_errors)))
    order = np.argsort(-influence, kind="stable")
    return JudgeComparison(alpha, n_shared, *swapped, table_of(table).take(order))


class Votes(NamedTuple):
    """Choices: the unit of each (a pair on a task), the judge, and the score of the pair's first item."""

    unit: Int64
    judge: Int64
    score: Float64
    counts: Float64

    def by_judge(self, n_judges: int) -> tuple[Int64, Int64]:
        """Each unit of each judge as unit · n_judges + judge, and the entry that counts each choice.

        Of the three entries of a unit and judge, the first counts losses, the second ties, the last wins.
        """
        keys, row = np.unique(self.unit * n_judges + self.judge, return_inverse=True)
        return keys, row.ravel() * 3 + (2 * self.score).astype(np.int64)


def measure_agreement(votes: Votes, n_judges: int) -> tuple[float, int, Float64]:
    """Krippendorff's α, how many units several judges saw, and how often each judge agrees with others."""
    keys, entry = votes.by_judge(n_judges)
    unit, judge = keys // n_judges, keys % n_judges
    votes_of_judge = np.bincount(entry, votes.counts, 3 * len(keys)).reshape(-1, 3)
    total = np.stack([np.bincount(unit, column) for column in votes_of_judge.T], axis=1)[unit]
    votes_of_others, size = total - votes_of_judge, votes_of_judge.sum(axis=1)
    n_others = votes_of_others.sum(axis=1)
    score = np.array([0.0, 0.5, 1.0])
    squares = np.square(score[:, None] - score)
    several = n_others > 0
    n = size[several].sum()
    unlike = np.einsum("na,ab,nb->n", votes_of_judge, squares, votes_of_others)
    observed = (unlike[several] / n_others[several]).sum() / max(n, 1.0)
    totals = votes_of_judge[several].sum(axis=0)
    mean_totals = (totals + totals[::-1]) / 2  # of both orders of each pair
    expected = mean_totals @ squares @ mean_totals / max(n * (n - 1.0), 1.0)
    n_alike = np.bincount(judge, (votes_of_judge * votes_of_others).sum(axis=1), n_judges)
    n_compared = np.bincount(judge, size * n_others, n_judges)
    agreement = np.divide(n_alike, n_compared, out=np.full(n_judges, np.nan), where=n_compared > 0)
    alpha = float(1.0 - observed / expected) if expected > 0 else np.nan
    return alpha, len(np.unique(unit[several])), agreement


def compare_orders(votes: Votes, n_judges: int, position: Float64) -> tuple[int, float, float, float]:
    """How many units a judge saw in both orders, and how often the same item, the first, or the second won.

    ``position`` is 1 where the first item of the pair stood first, −1 where it stood second, else 0.
    """
    keys, entry = votes.by_judge(n_judges)
    stood_first, stood_second = (
        np.bincount(entry, votes.counts * (position == side), 3 * len(keys)).reshape(-1, 3)
        for side in (1, -1)
    )  # columns: losses, ties, wins of the first item of the pair
    n_pairs = stood_first.sum(axis=1) * stood_second.sum(axis=1)
    both = n_pairs > 0
    if not both.any():
        return 0, np.nan, np.nan, np.nan
    stood_first, stood_second, n_pairs = stood_first[both], stood_second[both], n_pairs[both]
    counts = (
        (stood_first * stood_second).sum(axis=1),
        stood_first[:, 2] * stood_second[:, 0],
        stood_first[:, 0] * stood_second[:, 2],
    )
    alike, always_first, always_second = (float((count / n_pairs).mean()) for count in counts)
    return len(n_pairs), alike, always_first, always_second


class Shift(NamedTuple):
    """The item whose rating moves most without a judge, by how much, and in its standard errors."""

    item: Any
    shift: float
    in_errors: float


def _measure_shift(full: ChoiceFit, without: ChoiceFit) -> Shift:
    """The largest shift among the items of the largest component.

    The first item that has no finite rating without the judge comes before all others, with NaN.
    """
    component = full.model.components.component_of_node[: len(full.items)]
    in_largest = component == np.bincount(component).argmax()
    items = [full.items[number] for number in np.flatnonzero(in_largest).tolist()]
    component_without = dict(
        zip(without.items, without.model.components.component_of_node.tolist(), strict=False)
    )
    numbers = [component_without.get(item, -1) for item in items]
    largest = max(set(numbers) - {-1}, key=numbers.count, default=None)
    for item, number in zip(items, numbers, strict=True):
        if number != largest:
            return Shift(item, np.nan, np.nan)
    shift = np.array([without.scores[item] - full.scores[item] for item in items])
    shift -= shift.mean()
    in_errors = shift / np.array([full.standard_errors[item] for item in items])
    most = int(np.argmax(np.abs(shift if np.isnan(in_errors).all() else np.nan_to_num(in_errors))))
    return Shift(items[most], float(shift[most]), float(in_errors[most]))
