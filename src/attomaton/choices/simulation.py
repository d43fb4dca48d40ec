"""Draw choices from a fitted model, and fit them again: :func:`read_fitted`, then its methods."""

# Draws come from the model with Firth's estimates. Estimates by the maximum spread more than the true values:
# with few games per pair, a test against draws from the maximum would reject too often.

# A row is one alternative of a situation; a meeting is two alternatives of a situation.

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from attomaton.base.errors import UnsupportedOption
from attomaton.base.ragged import group_borders
from attomaton.base.tables import Float64, Int64
from attomaton.choices.conditional import mark_items
from attomaton.choices.logit.fit import LogitFit, fit_logit
from attomaton.choices.logit.newton import NewtonClimb
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.rows import BattleRows, Situations
from attomaton.choices.order import ItemScores
from attomaton.choices.uncertainty import LuceScores

linalg: Any = np.linalg

MOST_ALTERNATIVES = 200_000  # most alternatives of all situations that are drawn again
NUMBERS_AT_ONCE = 1 << 22  # numbers in memory up to which the maxima of many draws are found together

# Most Newton steps for draws: separated draws have no maximum, and would go on for ever.
DRAW_STEPS = 30

# The Newton decrement at which a draw has reached its maximum.
DRAW_SETTLED = 1e-12


@dataclass(frozen=True, eq=False)
class FittedChoices:
    """Choices in situations with their fit."""

    fit: LogitFit
    members: Int64  # (n_rows,), the item of each row, −1 for a tie
    n_items: int
    plain: bool  # without features, so that all choices between the same items are alike

    @property
    def problem(self) -> ChoiceProblem:
        return self.fit.problem

    @cached_property
    def source(self) -> tuple[Float64, Float64]:
        """Firth's estimate β in scaled coordinates, and the probability of each row."""
        firth = self.fit.firth()
        return firth.scaled, firth.top.probability

    @property
    def expected(self) -> Float64:
        """The expected count of each row at the maximum, shape (n_rows,)."""
        return self.problem.situations.spread(self.problem.totals) * self.fit.probabilities

    def draw(self, n_draws: int, rng: np.random.Generator) -> Float64:
        """Draw the count of each row, shape (n_draws, n_rows)."""
        situations = self.problem.situations
        totals = self.problem.totals.astype(np.int64)
        probability = self.source[1]
        if situations.n_rows > MOST_ALTERNATIVES:
            raise UnsupportedOption(
                f"there are {situations.n_rows:,} alternatives, and at most {MOST_ALTERNATIVES:,} can be "
                "drawn in a simulation; fit fewer choices"
            )
        drawn = np.zeros((n_draws, situations.n_rows))
        for chosen, rows in split_by_size(situations):
            share = probability[rows] / probability[rows].sum(axis=1, keepdims=True)
            drawn[:, rows] = rng.multinomial(totals[chosen], share, size=(n_draws, len(chosen)))
        return drawn

    def expect_again(self, drawn: Float64) -> Float64:
        """Fit drawn counts by maximum likelihood: the expected count of each row, shape (n_draws, n_rows)."""
        problem = self.problem
        basis = self.fit.identified.basis
        if len(self._meetings[0]) * basis.shape[1] ** 2 <= NUMBERS_AT_ONCE:  # the squares of _climb_together
            matrix = (problem.rows.take(np.arange(problem.situations.n_rows)) / problem.scale) @ basis
            start = basis.T @ self.source[0]
            batches = np.array_split(drawn, 1 + drawn.size // NUMBERS_AT_ONCE)
            return np.concatenate([self._climb_together(matrix, start, batch.T).T for batch in batches])
        climb = NewtonClimb(most_steps=DRAW_STEPS, settled=DRAW_SETTLED, chord=False)
        times = problem.situations.spread(problem.totals)
        expected = np.empty_like(drawn)
        for number, counts in enumerate(drawn):
            course = climb.run(replace(problem, counts=counts), None, self.source[0])
            expected[number] = times * course.last.point.probability
        return expected

    # Newton's method for many draws at once: the expected counts, shape (n_rows, n_draws).
    def _climb_together(self, matrix: Float64, start: Float64, counts: Float64) -> Float64:
        # The matrix has the rows in coordinates of the identified span, shape (n_rows, n_coordinates), and
        # counts have shape (n_rows, n_draws). The last axis of all other arrays runs over draws.
        situations = self.problem.situations
        times = situations.spread(self.problem.totals)[:, None]
        # The information is Σ t p_a p_b (x_a − x_b)(x_a − x_b)ᵀ over meetings of the rows a and b, where t is
        # the number of choices in the situation; `squares` has the outer products as columns.
        first, second = self._meetings
        differences = matrix[first] - matrix[second]
        squares = (differences[:, :, None] * differences[:, None]).reshape(len(differences), -1).T
        offsets = self.problem.with_offsets(np.zeros(len(matrix)))[:, None]
        point = np.repeat(start[:, None], counts.shape[1], axis=1)
        step, length = np.zeros_like(point), np.ones(counts.shape[1])
        likelihood, probability = np.full(counts.shape[1], -np.inf), np.zeros_like(counts)
        for _ in range(DRAW_STEPS):
            # try the step of each draw, and keep it where the likelihood does not fall, up to rounding
            trial = point + length * step
            utility = matrix @ trial + offsets
            utility -= situations.spread(situations.top(utility))  # against overflow
            odds = np.exp(utility)
            total = situations.spread(situations.sum(odds))
            trial_likelihood = (counts * (utility - np.log(total))).sum(axis=0)
            accepted = trial_likelihood >= likelihood - 1e-9
            point = np.where(accepted, trial, point)
            likelihood = np.where(accepted, trial_likelihood, likelihood)
            probability = np.where(accepted, odds / total, probability)
            # the next step: Newton's, or half of the step that was too long
            gradient = matrix.T @ (counts - times * probability)
            weight = times[first] * probability[first] * probability[second]
            newton = _solve_each(squares @ weight, gradient)
            step, length = np.where(accepted, newton, step), np.where(accepted, 1.0, 0.5 * length)
            if (accepted & ((gradient * newton).sum(axis=0) < DRAW_SETTLED)).all():
                break
        return times * probability

    def refit(self, counts: Float64) -> LogitFit:
        """Fit other counts of the same rows; situations without a choice are left out."""
        rows, names = self.problem.rows, self.problem.names
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
            matrix = rows.pick(np.arange(len(counts)))
            sizes = np.diff(self.problem.situations.starts)
            offsets = self.problem.offsets
            changed = ChoiceProblem.from_rows(matrix, sizes, counts, names=names, offsets=offsets)
        return fit_logit(changed)

    @cached_property
    def cells(self) -> Int64:
        """The cell of each row, shape (n_rows,): an item in a set of items, whatever their order."""
        cell = np.empty(len(self.members), np.int64)
        n_cells = 0  # so far: sets of each size have as many cells as items
        for _, listed in split_by_size(self.problem.situations):
            size = listed.shape[1]
            by_item = np.argsort(self.members[listed], axis=1, kind="stable")
            rows = np.take_along_axis(listed, by_item, axis=1)
            sets, set_number = np.unique(self.members[rows], axis=0, return_inverse=True)
            cell[rows] = n_cells + set_number.reshape(-1, 1) * size + np.arange(size)
            n_cells += len(sets) * size
        return cell

    @property
    def n_free(self) -> int:
        """The number of cells less the number of sets: the counts of a set add up to a known total."""
        # the least cell of a situation belongs to its set, in whichever order the set was listed
        least = np.minimum.reduceat(self.cells, self.problem.situations.starts[:-1])
        n_sets = len(np.unique(least))
        return int(self.cells.max(initial=-1)) + 1 - n_sets

    # The two rows of each pair of alternatives of a situation, shape (2, n_meetings).
    @cached_property
    def _meetings(self) -> Int64:
        meetings = [np.zeros((2, 0), np.int64)]
        for _, listed in split_by_size(self.problem.situations):
            columns = np.triu_indices(listed.shape[1], 1)  # each pair of positions in a situation
            meetings.append(np.stack([listed[:, column] for column in columns]).reshape(2, -1))
        return np.concatenate(meetings, axis=1)

    @cached_property
    def pairs(self) -> "MetPairs":
        """The pairs of different items that met; the item with the lower number is the first."""
        rows = self._meetings
        members = self.members[rows]
        is_pair = (members >= 0).all(axis=0) & (members[0] != members[1])  # not a tie, nor one item twice
        rows, members = rows[:, is_pair], members[:, is_pair]
        rows = np.where(members[0] > members[1], rows[::-1], rows)
        members.sort(axis=0)
        keys, number = np.unique(members[0] * self.n_items + members[1], return_inverse=True)
        return MetPairs(keys // self.n_items, keys % self.n_items, rows, number.ravel(), len(self.members))


@dataclass(frozen=True, eq=False)
class MetPairs:
    """Pairs of items that met, and their meetings: two alternatives of one situation."""

    first: Int64  # (n_pairs,), the item with the lower number
    second: Int64  # (n_pairs,)
    rows: Int64  # (2, n_meetings), the rows of the first and of the second item
    number: Int64  # (n_meetings,), the pair
    n_rows: int

    # For the first and the second item, the number of meetings of each row, (n_rows, n_pairs).
    @cached_property
    def _incidence(self) -> tuple[Any, Any]:
        shape, ones = (self.n_rows, len(self.first)), np.ones(len(self.number))
        first, second = (csr_array((ones, (rows, self.number)), shape=shape) for rows in self.rows)
        return first, second

    def count_wins(self, counts: Float64) -> tuple[Float64, Float64]:
        """How often the first and the second of each pair were chosen in their meetings, (n_pairs,) each."""
        first, second = self._incidence
        return counts @ first, counts @ second

    def add(self, values: Float64) -> Float64:
        """Add up values of meetings over the meetings of each pair."""
        return np.asarray(np.bincount(self.number, values, len(self.first)), np.float64)


# The Newton step of each draw, from arrays of shape (size², n_draws) and (size, n_draws).
def _solve_each(information: Float64, gradient: Float64) -> Float64:
    size = len(gradient)
    matrices = information.T.reshape(-1, size, size)
    # keeps the matrices of separated draws invertible; far below any eigenvalue that matters
    ridge = 1e-12 * np.trace(matrices, axis1=1, axis2=2)[:, None, None] * np.eye(size)
    return linalg.solve(matrices + ridge, gradient.T[:, :, None])[:, :, 0].T


def split_by_size(situations: Situations) -> Iterator[tuple[Int64, Int64]]:
    """For each size, the situations of this size, (n,), and the rows of each of them, (n, size)."""
    sizes = np.diff(situations.starts)
    for size in np.unique(sizes).tolist():
        chosen = np.flatnonzero(sizes == size)
        yield chosen, np.add.outer(situations.starts[chosen], np.arange(size, dtype=np.int64))


def read_fitted(model: ItemScores, n_items: int, *, clustered: bool = False) -> FittedChoices:
    """The choices of a model in situations, with their fit; ``clustered`` allows clusters."""
    why = _why_not_drawn(model, clustered=clustered)
    if why:
        raise UnsupportedOption(why)
    if isinstance(model, LuceScores):
        problem, members = _whole_choices(model, n_items)
        return FittedChoices(fit_logit(problem), members, n_items, True)
    problem = model.logit.problem
    plain = len(problem.names) == n_items + (model.ties == "davidson")  # only items, and the tie
    return FittedChoices(model.logit, _members_of(problem, n_items), n_items, plain)


# Why choices cannot be drawn from a model; empty if they can.
def _why_not_drawn(model: ItemScores, *, clustered: bool) -> str:
    if isinstance(model, LuceScores):
        if model.rankings is not None:
            return "half a win has no probability; fit ties as outcomes, and leave out rankings with ties"
        if model.soft.ridge:
            return "a ridge or a prior moves the fit away from its maximum; fit without it"
        return ""
    if model.units.repeats is not None:
        return "fractions of choices have no probability; fit whole choices"
    if model.clustered and not clustered:
        return "choices of one cluster are not independent; fit without cluster="
    return ""


# The item of each row of a problem; −1 for a tie.
def _members_of(problem: ChoiceProblem, n_items: int) -> Int64:
    rows = problem.rows
    if isinstance(rows, BattleRows):
        tie: list[Any] = [np.full(len(rows.first), -1)] if rows.ties else []
        return np.stack([rows.first, rows.second, *tie], axis=1).ravel()
    # A row of the matrix is the unit vector of its item less that of the reference item of its situation: 1
    # and −1, or zero for the reference itself. A row of a best and a worst item has more entries.
    differences = rows.take(np.arange(problem.situations.n_rows))[:, :n_items]
    if (np.abs(differences).sum(axis=1) > 2.5).any():
        raise UnsupportedOption(
            "best and worst choices cannot be simulated; fit only the choices of the best item"
        )
    situation = problem.situations.of_row
    has_reference = differences.min(axis=1) < -0.5
    reference = np.zeros(len(problem.situations), np.int64)
    reference[situation[has_reference]] = differences[has_reference].argmin(axis=1)
    has_item = differences.max(axis=1) > 0.5
    return np.where(has_item, differences.argmax(axis=1), reference[situation])


# The choices of a Luce model as situations, one for each set of options, and the item of each row.
def _whole_choices(model: LuceScores, n_items: int) -> tuple[ChoiceProblem, Int64]:
    choices = model.choices
    # (items, multiplicities) of a set → how often each item was chosen from it
    wins_by_options = dict[tuple[tuple[int, ...], tuple[int, ...]], dict[int, float]]()
    borders = group_borders(choices.choice, len(choices.winner))
    for row, (winner, count) in enumerate(zip(choices.winner.tolist(), choices.times.tolist(), strict=True)):
        inside = slice(borders[row], borders[row + 1])
        options = tuple(choices.item[inside].tolist()), tuple(choices.multiplicity[inside].tolist())
        if len(options[0]) > 1:
            wins = wins_by_options.setdefault(options, {})
            wins[winner] = wins.get(winner, 0.0) + count
    sizes = np.array([len(items) for items, _ in wins_by_options], np.int64)
    members = np.array([item for items, _ in wins_by_options for item in items], np.int64)
    multiplicity = np.array([times for _, of_set in wins_by_options for times in of_set], np.float64)
    counts = np.array([wins.get(item, 0.0) for (items, _), wins in wins_by_options.items() for item in items])
    names = list(map(str, range(n_items)))
    if sizes.size and (sizes == 2).all() and (multiplicity == 1).all():  # pairs have a faster form
        (first, second), times = members.reshape(-1, 2).T, counts.reshape(-1, 2)
        return ChoiceProblem.from_battles(first, second, times, items=names, merge=False), members
    rows = mark_items(members, n_items)
    return ChoiceProblem.from_rows(rows, sizes, counts, names=names, offsets=np.log(multiplicity)), members
