"""Compare judges: whether they agree, repeat a choice in the other order, and how much each moves ratings.

:func:`compare_judges` is the entry point. A *unit* is a pair of items on one task.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from attomaton.base.errors import UnsupportedOption
from attomaton.base.printing import Block, Listing, count_noun, show_count
from attomaton.base.tables import Float64, Int64, column_of, table_of
from attomaton.choices.board_rows import item_column
from attomaton.choices.checks import Assessment
from attomaton.choices.columns import columns_of, find_column, number_values
from attomaton.choices.fit import fit_choices
from attomaton.choices.inputs import Columns, parse_choices, read_columns, select_rows
from attomaton.choices.parsed import PairChoices
from attomaton.choices.result import ChoiceFit
from attomaton.choices.sequences import ChoiceData

MOST_JUDGES = 1_000  # most judges, since the choices are fitted again without each
SCORE = np.array([1.0, 0.0, 0.5])  # of the first of a pair, by outcome: FIRST, SECOND, TIE


@dataclass(frozen=True, eq=False, repr=False)
class JudgeComparison(Assessment):
    """How far judges agree, and how much each judge moves the ratings.

    ``alpha`` is Krippendorff's α: 1 if judges agree, 0 if they agree as by chance. It is NaN if ``n_shared``,
    the number of pairs on a task that at least two judges saw, is 0. ``n_swapped`` is how often a judge saw a
    pair, on one task, in both orders. ``alike``, ``always_first`` and ``always_second`` are the shares of
    those times in which the judge chose the same item, the first position, or the second position twice.

    ``judges`` has a row per judge, the most influential first: judge, choices, agreement (the share of equal
    choices by other judges on the same task and pair), item (whose rating moves most without this judge),
    shift (of this rating) and shift_in_errors (in standard errors). The shift is null if the item has no
    finite rating without this judge.
    """

    alpha: float
    n_shared: int
    n_swapped: int
    alike: float
    always_first: float
    always_second: float
    judges: pa.Table

    def _blocks(self) -> list[Block]:
        shared = count_noun(self.n_shared, "pair")
        lines = [f"Krippendorff's alpha {self.alpha:.3f}: {shared} on a task that several judges saw"]
        if self.n_swapped:
            lines.append(
                f"{count_noun(self.n_swapped, 'pair')} seen in both orders by one judge: {self.alike:.0%} "
                f"alike, {self.always_first:.0%} the first both times, {self.always_second:.0%} the second"
            )
        rows, more = self._shown("judges")
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
        return [*lines, Listing(["judge", "choices", "agreement", "item", "shift", "in s.e."], cells), *more]


def compare_judges(table: Any, *, cluster: Any, task: Any = None, **options: Any) -> JudgeComparison:
    """Compare judges: Krippendorff's α, swapped positions, and the influence of each judge on ratings.

    Parameters
    ----------
    table : frame, or path of a file
        One row per choice between two items.
    cluster : column name
        The judges.
    task : column name, optional
        What was judged, such as a question: only choices of equal tasks are compared. None means that all
        rows are one task.
    **options
        The options of :func:`~attomaton.fit_choices`. ``moved_first`` names who stood first.

    Returns
    -------
    JudgeComparison

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
        raise UnsupportedOption(f"there are {len(judges):,} judges; give at most {MOST_JUDGES:,}")
    shrunk = any(options.get(name) for name in ("penalty", "prior", "ridge"))
    full = fit_choices(columns, **options, **({} if shrunk else {"cluster": cluster}))
    votes = _read_votes(columns, judge_of_row, cluster, task, options)
    agreement = measure_agreement(votes, len(judges))
    shifts: list[Shift] = []
    for judge in range(len(judges)):
        without = {name: select_rows(column, judge_of_row != judge) for name, column in columns.items()}
        shifts.append(_measure_shift(full, fit_choices(without, **options)))
    shift = np.array([shift.shift for shift in shifts])
    in_errors = np.array([shift.in_errors for shift in shifts])
    by_judge = {
        "judge": item_column(judges),
        "choices": np.bincount(votes.judge, votes.counts, len(judges)),
        "agreement": column_of(agreement.by_judge, np.isnan(agreement.by_judge)),
        "item": item_column([shift.item for shift in shifts]),
        "shift": column_of(shift, np.isnan(shift)),
        "shift_in_errors": column_of(in_errors, np.isnan(in_errors)),
    }
    # In standard errors if they are known; a judge without whom a rating is infinite comes first.
    influence = np.where(np.isnan(shift), np.inf, np.abs(np.where(np.isnan(in_errors), shift, in_errors)))
    table_by_judge = table_of(by_judge).take(np.argsort(-influence, kind="stable"))
    swapped = compare_orders(votes, len(judges))
    return JudgeComparison(agreement.alpha, agreement.n_shared, *swapped, judges=table_by_judge)


class Votes(NamedTuple):
    """Choices by judges; all arrays have shape (n_votes,). The first item of a unit has the lower number."""

    unit: Int64
    judge: Int64
    score: Float64  # of the first item of the unit: 1, ½ or 0
    counts: Float64
    position: Float64  # 1 if the first item of the unit stood first, −1 if it stood second, else 0

    def tabulate(self, n_judges: int, weights: Float64) -> tuple[Int64, Float64]:
        """The keys unit · n_judges + judge, and the sums of weights by loss, tie and win, (n_keys, 3)."""
        keys, row = np.unique(self.unit * n_judges + self.judge, return_inverse=True)
        entry = row.ravel() * 3 + (2 * self.score).astype(np.int64)  # column 0, 1 or 2
        sums: Any = np.bincount(entry, weights, 3 * len(keys)).reshape(-1, 3)
        return keys, sums


# Read the choices as pairs; the task takes the role of the cluster, to be read beside them.
def _read_votes(
    columns: Mapping[Any, Any], judge_of_row: Int64, cluster: Any, task: Any, options: Mapping[str, Any]
) -> Votes:
    data = ChoiceData(columns, tied=options.get("tied"), counts=options.get("counts"))
    named = {name: option for name, option in options.items() if name in Columns.__annotations__}
    parsed, covariates = parse_choices(data, {**named, "cluster": cluster if task is None else task})
    choices = parsed.choices
    if not isinstance(choices, PairChoices) or covariates.cluster is None:
        raise UnsupportedOption("judges are compared on pairs; give two items and an outcome in each row")
    row = np.arange(len(choices.first)) if choices.row is None else choices.row
    task_of_row = np.zeros_like(judge_of_row) if task is None else covariates.cluster
    low, high = np.minimum(choices.first, choices.second), np.maximum(choices.first, choices.second)
    n_items = len(parsed.items)
    unit = np.unique((task_of_row[row] * n_items + low) * n_items + high, return_inverse=True)[1].ravel()
    is_low = choices.first == low
    score = np.where(is_low, SCORE[choices.outcome], 1.0 - SCORE[choices.outcome])
    moved_first = covariates.features.get("moved_first", np.zeros(len(judge_of_row)))[row]
    position = np.where(is_low, moved_first, -moved_first)
    return Votes(unit, judge_of_row[row], score, parsed.counts.astype(np.float64), position)


class JudgeAgreement(NamedTuple):
    """How far judges agree on units that several of them saw."""

    alpha: float
    n_shared: int  # the number of these units
    by_judge: Float64  # (n_judges,), the share of equal choices by other judges


def measure_agreement(votes: Votes, n_judges: int) -> JudgeAgreement:
    """Krippendorff's α, and how often each judge agrees with others."""
    # α = 1 − D_o / D_e: D_o is the mean squared difference of the choices of two judges on one unit (a win is
    # 1, a tie ½, a loss 0), D_e that of any two choices. If a unit has m choices, each of the m − 1 others
    # counts 1 / (m − 1). Each pair counts in both orders, so that α does not depend on which item is first.
    keys, by_judge = votes.tabulate(n_judges, votes.counts)  # rows are judges on units; loss, tie and win
    unit, judge = keys // n_judges, keys % n_judges
    by_unit = np.stack([np.bincount(unit, column) for column in by_judge.T], axis=1)[unit]
    by_others = by_unit - by_judge
    n_own, n_others = by_judge.sum(axis=1), by_others.sum(axis=1)
    shared = n_others > 0
    n_choices = n_own[shared].sum()
    score = np.array([0.0, 0.5, 1.0])
    squares = np.square(score[:, None] - score)
    disagreement = np.einsum("na,ab,nb->n", by_judge, squares, by_others)
    observed = (disagreement[shared] / n_others[shared]).sum() / max(n_choices, 1.0)  # D_o
    totals = by_judge[shared].sum(axis=0)
    mean_totals = (totals + totals[::-1]) / 2  # of both orders of each pair
    expected = mean_totals @ squares @ mean_totals / max(n_choices * (n_choices - 1.0), 1.0)  # D_e
    n_alike = np.bincount(judge, (by_judge * by_others).sum(axis=1), n_judges)
    n_compared = np.bincount(judge, n_own * n_others, n_judges)
    agreement = np.divide(n_alike, n_compared, out=np.full(n_judges, np.nan), where=n_compared > 0)
    alpha = float(1.0 - observed / expected) if expected > 0 else np.nan
    return JudgeAgreement(alpha, len(np.unique(unit[shared])), agreement)


def compare_orders(votes: Votes, n_judges: int) -> tuple[int, float, float, float]:
    """How many units a judge saw in both orders, and the shares alike, always first and always second."""
    # For each judge and unit, the losses, ties and wins of the first item of the unit when it stood first,
    # and when it stood second. Each choice of the one kind is compared with each of the other.
    stood_first, stood_second = (
        votes.tabulate(n_judges, votes.counts * (votes.position == position))[1] for position in (1, -1)
    )
    n_compared = stood_first.sum(axis=1) * stood_second.sum(axis=1)
    both = n_compared > 0
    if not both.any():
        return 0, np.nan, np.nan, np.nan
    stood_first, stood_second, n_compared = stood_first[both], stood_second[both], n_compared[both]
    counts = (
        (stood_first * stood_second).sum(axis=1),
        stood_first[:, 2] * stood_second[:, 0],  # whichever item stood first won
        stood_first[:, 0] * stood_second[:, 2],  # whichever item stood second won
    )
    alike, always_first, always_second = (float((count / n_compared).mean()) for count in counts)
    return len(n_compared), alike, always_first, always_second


class Shift(NamedTuple):
    """The item whose rating moves most without a judge, and by how much."""

    item: Any
    shift: float
    in_errors: float  # in standard errors of the fit to all judges


# The largest shift of an item of the largest component; NaN for an item without a finite rating.
def _measure_shift(full: ChoiceFit, without: ChoiceFit) -> Shift:
    component = full.model.components.component_of_node[: len(full.items)]
    in_largest = component == np.bincount(component).argmax()
    items = [full.items[number] for number in np.flatnonzero(in_largest).tolist()]
    # The component of each of these items without the judge; −1 for an item that is no longer there. Their
    # ratings are finite inside the component that has most of them.
    new_component = without.model.components.component_of_node[: len(without.items)]
    component_of_item = dict(zip(without.items, new_component.tolist(), strict=True))
    components = [component_of_item.get(item, -1) for item in items]
    largest = max(set(components) - {-1}, key=components.count, default=None)
    for item, number in zip(items, components, strict=True):
        if number != largest:
            return Shift(item, np.nan, np.nan)
    shift = np.array([without.scores[item] - full.scores[item] for item in items])
    shift -= shift.mean()
    in_errors = shift / np.array([full.standard_errors[item] for item in items])
    most = int(np.argmax(np.abs(shift if np.isnan(in_errors).all() else np.nan_to_num(in_errors))))
    return Shift(items[most], float(shift[most]), float(in_errors[most]))
