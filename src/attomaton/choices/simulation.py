"""Fitted choices drawn again: counts by pair, and what a true model would show.

Draws come from the model with Firth's estimates, whose spread is not larger than that of the truth as the
maximum's is: with few games per pair a test against draws from the maximum rejects too often.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from attomaton.base.errors import UnsupportedOption
from attomaton.base.ragged import group_borders
from attomaton.base.tables import Float64, Int64
from attomaton.choices.logit.fit import LogitFit, fit_logit
from attomaton.choices.logit.newton import NewtonClimb
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.rows import BattleRows, Situations
from attomaton.choices.order import ItemScores
from attomaton.choices.uncertainty import LuceScores

MOST_ROWS = 200_000
"""Most alternatives of all situations that are drawn again."""


@dataclass(frozen=True, eq=False)
class FittedChoices:
    """Choices as situations, with the item of each alternative, and their fit.

    ``members`` has the item of each row, −1 for a tie; ``plain`` says whether nothing but items and ties
    matters, so that all choices between the same items are alike.
    """

    fit: LogitFit
    members: Int64
    n_items: int
    plain: bool

    @property
    def problem(self) -> ChoiceProblem:
        """The choices."""
        return self.fit.problem

    @cached_property
    def source(self) -> tuple[Float64, Float64]:
        """Firth's estimate in scaled coordinates, and the probability of each row there."""
        firth = self.fit.firth()
        return firth.scaled, firth.top.probability

    @property
    def expected(self) -> Float64:
        """How often each row would be chosen, by the maximum."""
        return self.problem.situations.spread(self.problem.totals) * self.fit.probabilities

    def draw(self, n_draws: int, rng: np.random.Generator) -> Float64:
        """How often each row is chosen, drawn again, shape (n_draws, n_rows)."""
        situations, totals = self.problem.situations, self.problem.totals.astype(np.int64)
        drawn = np.zeros((n_draws, situations.n_rows))
        for chosen, rows in split_by_size(situations):
            share = self.source[1][rows]
            share = share / share.sum(axis=1, keepdims=True)
            drawn[:, rows] = rng.multinomial(totals[chosen], share, size=(n_draws, len(chosen)))
        return drawn

    def expect_again(self, counts: Float64) -> Float64:
        """How often each row would be chosen by the maximum for other counts."""
        problem = replace(self.problem, counts=counts)
        last = NewtonClimb(most_steps=20, settled=1e-3, chord=False).run(problem, None, self.source[0]).last
        return problem.situations.spread(problem.totals) * last.probability

    @cached_property
    def cells(self) -> Int64:
        """The cell of each row: an item in a set of items, in whatever order they are listed."""
        situations, cell, n_cells = self.problem.situations, np.empty(len(self.members), np.int64), 0
        for _, listed in split_by_size(situations):
            order, size = np.argsort(self.members[listed], axis=1, kind="stable"), listed.shape[1]
            rows = np.take_along_axis(listed, order, axis=1)
            sets, number = np.unique(self.members[rows], axis=0, return_inverse=True)
            cell[rows] = n_cells + number.reshape(-1, 1) * size + np.arange(size)
            n_cells += len(sets) * size
        return cell

    @property
    def n_free(self) -> int:
        """How many cells are not fixed by the number of choices in their set."""
        first = np.unique(self.cells[self.problem.situations.starts[:-1]])
        sizes = np.diff(np.append(np.sort(first), self.cells.max(initial=-1) + 1))
        return int(self.cells.max(initial=-1)) + 1 - len(sizes)

    @cached_property
    def pairs(self) -> "MetPairs":
        """The pairs of items that met."""
        situations = self.problem.situations
        ends = list[Int64]()
        for _, listed in split_by_size(situations):
            sides = np.triu_indices(listed.shape[1], 1)
            ends.append(np.stack([listed[:, side] for side in sides]).reshape(2, -1))
        rows = np.concatenate(ends, axis=1) if ends else np.zeros((2, 0), np.int64)
        members = self.members[rows]
        use = (members >= 0).all(axis=0) & (members[0] != members[1])
        rows, members = rows[:, use], members[:, use]
        swapped = members[0] > members[1]
        rows = np.where(swapped, rows[::-1], rows)
        members.sort(axis=0)
        keys, number = np.unique(members[0] * self.n_items + members[1], return_inverse=True)
        return MetPairs(keys // self.n_items, keys % self.n_items, rows, number.ravel(), len(self.members))


@dataclass(frozen=True, eq=False)
class MetPairs:
    """Pairs of items that met: ``rows`` has the alternatives of each meeting, ``number`` its pair."""

    first: Int64
    second: Int64
    rows: Int64  # (2, n_meetings)
    number: Int64
    n_rows: int

    @cached_property
    def _incidence(self) -> tuple[Any, Any]:
        shape, ones = (self.n_rows, len(self.first)), np.ones(len(self.number))
        first, second = (csr_array((ones, (side, self.number)), shape=shape) for side in self.rows)
        return first, second

    def wins(self, counts: Float64) -> tuple[Float64, Float64]:
        """How often the first and the second of each pair were chosen where both were there."""
        first, second = self._incidence
        return counts @ first, counts @ second

    def add(self, values: Float64) -> Float64:
        """The sum over the meetings of each pair of a value of each meeting."""
        return np.asarray(np.bincount(self.number, values, len(self.first)), np.float64)


def split_by_size(situations: Situations) -> Iterator[tuple[Int64, Int64]]:
    """The situations of each size, and their rows, shape (n_situations, size)."""
    sizes = np.diff(situations.starts)
    for size in np.unique(sizes).tolist():
        chosen = np.flatnonzero(sizes == size)
        yield chosen, np.add.outer(situations.starts[chosen], np.arange(size, dtype=np.int64))


def why_not_drawn(model: ItemScores) -> str:
    """Why choices cannot be drawn again from a model; empty if they can."""
    if isinstance(model, LuceScores):
        return "half a win has no probability" if model.rankings is not None else ""
    if model.units.repeats is not None:
        return "parts of choices have no probability"
    return "choices of one cluster are not independent" * model.clustered


def read_fitted(model: ItemScores, n_items: int) -> FittedChoices:
    """The choices behind a model, as situations."""
    why = why_not_drawn(model)
    if why:
        raise UnsupportedOption(f"{why}; fit whole choices without cluster=, with ties as outcomes")
    if isinstance(model, LuceScores):
        problem, members = _whole_choices(model, n_items)
        fitted = FittedChoices(fit_logit(problem), members, n_items, True)
    else:
        fit, plain = model.logit, len(model.logit.problem.names) == n_items + (model.ties == "davidson")
        fitted = FittedChoices(fit, _members_of(fit.problem, n_items), n_items, plain)
    if len(fitted.members) > MOST_ROWS:
        raise UnsupportedOption(
            f"there are {len(fitted.members):,} alternatives, and at most {MOST_ROWS:,} are drawn again; "
            "fit a part of the choices"
        )
    return fitted


def _members_of(problem: ChoiceProblem, n_items: int) -> Int64:
    """The item of each row of a problem; −1 for a tie."""
    rows = problem.rows
    if isinstance(rows, BattleRows):
        members: list[Any] = [rows.first, rows.second, *([np.full(len(rows.first), -1)] if rows.ties else [])]
        return np.stack(members, axis=1).ravel()
    differences = rows.take(np.arange(problem.situations.n_rows))[:, :n_items]  # from the reference
    if (np.abs(differences).sum(axis=1) > 2.5).any():
        raise UnsupportedOption("choices of best and worst are not drawn again; fit the choices of the best")
    references = differences.min(axis=1) < -0.5
    reference = np.zeros(len(problem.situations), np.int64)
    reference[problem.situations.of_row[references]] = differences[references].argmin(axis=1)
    mine = differences.max(axis=1) > 0.5
    return np.where(mine, differences.argmax(axis=1), reference[problem.situations.of_row])


def _whole_choices(model: LuceScores, n_items: int) -> tuple[ChoiceProblem, Int64]:
    """The choices of a Luce model, each set of options once, and the item of each row."""
    choices, merged = model.choices, dict[tuple[Any, Any], dict[int, float]]()
    borders = group_borders(choices.choice, len(choices.winner))
    for row, (winner, made) in enumerate(zip(choices.winner.tolist(), choices.made.tolist(), strict=True)):
        inside = slice(borders[row], borders[row + 1])
        options = tuple(choices.item[inside].tolist()), tuple(choices.multiplicity[inside].tolist())
        if len(options[0]) > 1:
            wins = merged.setdefault(options, {})
            wins[winner] = wins.get(winner, 0.0) + made
    sizes = np.array([len(members) for members, _ in merged], np.int64)
    members = np.array([item for members, _ in merged for item in members], np.int64)
    often = np.array([times for _, every in merged for times in every], np.float64)
    chosen = np.array([wins.get(item, 0.0) for (members, _), wins in merged.items() for item in members])
    names = list(map(str, range(n_items)))
    if sizes.size and (sizes == 2).all() and (often == 1).all():
        (first, second), times = members.reshape(-1, 2).T, chosen.reshape(-1, 2)
        return ChoiceProblem.from_battles(first, second, times, items=names, merge=False), members
    size = len(members)
    rows = csr_array((np.ones(size), (np.arange(size), members)), shape=(size, n_items))
    return ChoiceProblem.from_rows(rows, sizes, chosen, names=names, offsets=np.log(often)), members
