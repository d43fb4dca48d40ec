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

linalg: Any = np.linalg

MOST_ALTERNATIVES = 200_000
"""Most alternatives of all situations that are drawn again."""

NUMBERS_AT_ONCE = 1 << 22
"""Numbers in memory up to which the maxima of many draws are found together."""

DRAW_STEPS, DRAW_SETTLED = 30, 1e-12
"""Newton steps of draws at most, and the decrement at which they stop: separated ones never do."""


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
        if situations.n_rows > MOST_ALTERNATIVES:
            raise UnsupportedOption(
                f"there are {situations.n_rows:,} alternatives, and at most {MOST_ALTERNATIVES:,} can be "
                "drawn in a simulation; fit a part of the choices"
            )
        drawn = np.zeros((n_draws, situations.n_rows))
        for chosen, rows in split_by_size(situations):
            share = self.source[1][rows]
            share = share / share.sum(axis=1, keepdims=True)
            drawn[:, rows] = rng.multinomial(totals[chosen], share, size=(n_draws, len(chosen)))
        return drawn

    def expect_again(self, drawn: Float64) -> Float64:
        """How often each row would be chosen by the maxima for other counts, shape (n_draws, n_rows)."""
        problem = self.problem
        basis = self.fit.identified.basis
        if len(self._meetings[0]) * basis.shape[1] ** 2 <= NUMBERS_AT_ONCE:
            matrix = (problem.rows.take(np.arange(problem.situations.n_rows)) / problem.scale) @ basis
            start = basis.T @ self.source[0]
            batches = np.array_split(drawn, 1 + drawn.size // NUMBERS_AT_ONCE)
            return np.concatenate([self._climb_together(matrix, start, batch.T).T for batch in batches])
        climb = NewtonClimb(most_steps=DRAW_STEPS, settled=DRAW_SETTLED, chord=False)
        expected = np.empty_like(drawn)
        for counts, row in zip(drawn, expected, strict=True):
            redrawn = replace(problem, counts=counts)
            last = climb.run(redrawn, None, self.source[0]).last
            row[:] = problem.situations.spread(problem.totals) * last.probability
        return expected

    def _climb_together(self, matrix: Float64, start: Float64, counts: Float64) -> Float64:
        """Newton's method for many counts of few choices at once; all arrays end with the draws."""
        situations, (first, second) = self.problem.situations, self._meetings
        times = situations.spread(self.problem.totals)[:, None]
        away = matrix[first] - matrix[second]
        squares = (away[:, :, None] * away[:, None]).reshape(len(away), -1).T
        size, n_draws = len(start), counts.shape[1]
        offsets = self.problem.with_offsets(np.zeros(len(matrix)))[:, None]
        point = np.repeat(start[:, None], n_draws, axis=1)
        step, length = np.zeros_like(point), np.ones(n_draws)
        value, probability = np.full(n_draws, -np.inf), np.zeros_like(counts)
        for _ in range(DRAW_STEPS):
            # try each draw's step, and keep it where the likelihood does not fall
            ahead = point + length * step
            utility = matrix @ ahead + offsets
            utility -= situations.spread(situations.top(utility))
            odds = np.exp(utility)
            total = situations.spread(situations.sum(odds))
            reached = (counts * (utility - np.log(total))).sum(axis=0)
            up = reached >= value - 1e-9
            point, value = np.where(up, ahead, point), np.where(up, reached, value)
            probability = np.where(up, odds / total, probability)
            # the next step: Newton's, or half of the one that was too long
            gradient = matrix.T @ (counts - times * probability)
            weight = times[first] * probability[first] * probability[second]
            information = (squares @ weight).T.reshape(-1, size, size)
            ridge = 1e-12 * np.trace(information, axis1=1, axis2=2)[:, None, None] * np.eye(size)
            newton: Float64 = linalg.solve(information + ridge, gradient.T[:, :, None])[:, :, 0].T
            step, length = np.where(up, newton, step), np.where(up, 1.0, 0.5 * length)
            if (up & ((gradient * newton).sum(axis=0) < DRAW_SETTLED)).all():
                break
        return times * probability

    def refit(self, counts: Float64) -> LogitFit:
        """The fit of other counts; situations without a choice are left out."""
        problem, rows, names = self.problem, self.problem.rows, self.problem.names
        if isinstance(rows, BattleRows):
            changed = ChoiceProblem.from_battles(
                rows.first,
                rows.second,
                counts.reshape(len(rows.first), -1),
                items=names[: rows.n_items],
                features=rows.features.T,
                names=names[rows.n_items : rows.n_items + len(rows.features)],
                merge=False,
            )
        else:
            matrix, sizes = rows.pick(np.arange(len(counts))), np.diff(problem.situations.starts)
            changed = ChoiceProblem.from_rows(matrix, sizes, counts, names=names, offsets=problem.offsets)
        return fit_logit(changed)

    @cached_property
    def cells(self) -> Int64:
        """The cell of each row: an item in a set of items, in whatever order they are listed."""
        cell, n_cells = np.empty(len(self.members), np.int64), 0
        for _, listed in split_by_size(self.problem.situations):
            size = listed.shape[1]
            order = np.argsort(self.members[listed], axis=1, kind="stable")
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
    def _meetings(self) -> Int64:
        """Each two alternatives of each situation, shape (2, n_meetings)."""
        ends = [np.zeros((2, 0), np.int64)]
        for _, listed in split_by_size(self.problem.situations):
            sides = np.triu_indices(listed.shape[1], 1)
            ends.append(np.stack([listed[:, side] for side in sides]).reshape(2, -1))
        return np.concatenate(ends, axis=1)

    @cached_property
    def pairs(self) -> "MetPairs":
        rows = self._meetings
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
        shape, units = (self.n_rows, len(self.first)), np.ones(len(self.number))
        first, second = (csr_array((units, (side, self.number)), shape=shape) for side in self.rows)
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


def read_fitted(model: ItemScores, n_items: int, *, clustered: bool = False) -> FittedChoices:
    """The choices behind a model, as situations; ``clustered`` says that they may depend on each other."""
    if isinstance(model, LuceScores):
        why = "half a win has no probability" if model.rankings is not None else ""
        if not why and model.soft.ridge:
            why = "a ridge or a prior moves the fit away from its maximum"
    elif model.units.repeats is not None:
        why = "parts of choices have no probability"
    else:
        why = "choices of one cluster are not independent" if model.clustered and not clustered else ""
    if why:
        raise UnsupportedOption(f"{why}; fit whole choices without cluster=, with ties as outcomes")
    if isinstance(model, LuceScores):
        problem, members = _whole_choices(model, n_items)
        return FittedChoices(fit_logit(problem), members, n_items, True)
    fit, plain = model.logit, len(model.logit.problem.names) == n_items + (model.ties == "davidson")
    return FittedChoices(fit, _members_of(fit.problem, n_items), n_items, plain)


def _members_of(problem: ChoiceProblem, n_items: int) -> Int64:
    """The item of each row of a problem; −1 for a tie."""
    rows = problem.rows
    if isinstance(rows, BattleRows):
        members: list[Any] = [rows.first, rows.second, *([np.full(len(rows.first), -1)] if rows.ties else [])]
        return np.stack(members, axis=1).ravel()
    # each row is the unit vector of its item, less that of the reference: 1 at the one, −1 at the other
    differences = rows.take(np.arange(problem.situations.n_rows))[:, :n_items]
    if (np.abs(differences).sum(axis=1) > 2.5).any():
        raise UnsupportedOption(
            "choices of best and worst cannot be simulated; fit the choices of the best alone"
        )
    references = differences.min(axis=1) < -0.5
    reference = np.zeros(len(problem.situations), np.int64)
    reference[problem.situations.of_row[references]] = differences[references].argmin(axis=1)
    differs = differences.max(axis=1) > 0.5
    return np.where(differs, differences.argmax(axis=1), reference[problem.situations.of_row])


def _whole_choices(model: LuceScores, n_items: int) -> tuple[ChoiceProblem, Int64]:
    """The choices of a Luce model, each set of options once, and the item of each row."""
    choices = model.choices
    merged = dict[tuple[Any, Any], dict[int, float]]()  # items and multiplicities of a set → wins
    borders = group_borders(choices.choice, len(choices.winner))
    for row, (winner, count) in enumerate(zip(choices.winner.tolist(), choices.times.tolist(), strict=True)):
        inside = slice(borders[row], borders[row + 1])
        options = tuple(choices.item[inside].tolist()), tuple(choices.multiplicity[inside].tolist())
        if len(options[0]) > 1:
            wins = merged.setdefault(options, {})
            wins[winner] = wins.get(winner, 0.0) + count
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
