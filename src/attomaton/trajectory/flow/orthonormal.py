"""Gradient flow for orthonormal embeddings: queries separate, one coordinate per (query, token), compiled.

Within a component gradients are sums of terms of order 1 that cancel to order 1/t. A component as a whole
moves only by the flow across its border, so that part is summed separately and loses no digits. Conjugate
gradients use whole components in their preconditioner, or they would need an iteration per digit of t.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attomaton.base.borders import check_floats, check_int64, check_lengths
from attomaton.base.errors import MismatchedParts
from attomaton.base.kernels import compiled
from attomaton.base.ragged import run_starts, sum_at
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.soft.likelihood import LuceProblem
from attomaton.solvers.soft.newton import (
    Choices,
    GroupPart,
    Groups,
    Space,
    bend,
    find_diagonal,
    find_part,
    make_room,
    problem_of,
    sort_by_group,
    weigh,
)
from attomaton.trajectory.sharpness import bound_curvatures

Array = Any


def descend_together(queries: Any, scores: Array, step_size: float, n_steps: int) -> None:
    """Take ``n_steps`` steps with all queries, changing ``scores``, shape (n_alternatives,).

    ``queries`` are those of :class:`~attomaton.trajectory.flow.orthonormal.OrthonormalFlow`. The gradient of
    a whole component is the sum of the flows across its border, so nothing cancels (see there).
    """
    choices, (component, size) = queries.choices, queries.wholes
    if not len(choices.winner):
        return
    alternative, begin = choices.alternative, choices.offsets[:-1]
    lengths = np.diff(choices.offsets)
    winner = np.repeat(choices.winner, lengths)
    loses, crosses = alternative != winner, component[alternative] != component[winner]
    count, n_scores, n_wholes = np.repeat(choices.count, lengths), len(scores), len(size)
    offset = np.log(choices.multiplicity)
    for _ in range(n_steps):
        logits = scores[alternative] + offset
        odds = np.exp(logits - np.repeat(np.maximum.reduceat(logits, begin), lengths))
        press = count * loses * odds / np.repeat(np.add.reduceat(odds, begin), lengths)
        slope = _carry(alternative, winner, press, n_scores)
        crossing = _carry(component[alternative], component[winner], press * crosses, n_wholes)
        missing = (crossing - np.bincount(component, slope, n_wholes)) / size
        scores -= step_size * (slope + missing[component])


def _carry(into: Array, out_of: Array, amount: Array, n_places: int) -> Array:
    """The inflow minus the outflow of each alternative, shape (n_places,)."""
    return np.bincount(into, amount, n_places) - np.bincount(out_of, amount, n_places)


MAX_STEPS = 50
"""Maximum number of Newton steps for one minimum."""

MAX_TURNS = 2_000
"""Maximum number of conjugate-gradient iterations for one Newton step."""

ACCURACY = 0.05
"""Factor by which conjugate gradients reduce the residual of one Newton step."""


class Queries(NamedTuple):
    """All queries, in the layout for compiled code."""

    choices: Choices
    starts: tuple[Array, Array]  # int64 (n_queries + 1,) each: borders of alternatives and of choices
    wholes: tuple[Array, Array]  # int64: component of each alternative, size of each component


class Wholes(NamedTuple):
    """Whole components, and work space for the largest query."""

    component: Array  # int64 (n_alternatives,): the components of a query are consecutive numbers
    size: Array  # int64 (n_components,)
    crossing: Array  # float64 work space: what crosses the border of each component
    diagonal: Array  # float64 work space: curvature along each whole component
    sums: Array  # float64 room


@compiled
def find_slope(
    choices: Choices, part: GroupPart, wholes: Wholes, scores: Array, space: Space
) -> tuple[int, int]:
    """Gradient and probabilities at ``scores``, the gradient of whole components without cancellation.

    Also the curvature along each whole component. Returns the first and last component of the query.
    """
    weigh(choices, part, scores, space)
    start = wholes.component[part.first]
    stop = start
    for node in range(part.first, part.last):
        stop = max(stop, wholes.component[node] + 1)
    wholes.crossing[: stop - start] = 0.0
    wholes.diagonal[: stop - start] = 0.0
    if stop - start == part.last - part.first:
        return start, stop
    base = choices.offsets[part.first_choice]
    for choice in range(part.first_choice, part.last_choice):
        own, lost = wholes.component[choices.winner[choice]] - start, 0.0
        for entry in range(choices.offsets[choice], choices.offsets[choice + 1]):
            other = wholes.component[choices.alternative[entry]] - start
            if other != own:
                press = choices.count[choice] * space.probability[entry - base]
                wholes.crossing[other] += press
                wholes.diagonal[other] += press
                lost += press
        wholes.crossing[own] -= lost
        wholes.diagonal[own] += lost
    sum_parts(part, wholes, start, space.gradient)
    for node in range(part.first, part.last):
        place = wholes.component[node] - start
        missing = wholes.crossing[place] - wholes.sums[place]
        space.gradient[node - part.first] += missing / wholes.size[wholes.component[node]]
    return start, stop


@compiled
def sum_parts(part: GroupPart, wholes: Wholes, start: int, values: Array) -> None:
    """The sum of ``values`` over each component of the query, into ``wholes.sums``."""
    for node in range(part.first, part.last):
        wholes.sums[wholes.component[node] - start] = 0.0
    for node in range(part.first, part.last):
        wholes.sums[wholes.component[node] - start] += values[node - part.first]


@compiled
def precondition(
    part: GroupPart, wholes: Wholes, span: tuple[int, int], stiffness: float, space: Space
) -> None:
    """``space.residual`` by the diagonal, and by the diagonal of whole components, into ``space.scaled``."""
    size = part.last - part.first
    for node in range(size):
        space.scaled[node] = space.residual[node] / space.diagonal[node]
    if span[1] - span[0] == size:
        return
    sum_parts(part, wholes, span[0], space.residual)
    for node in range(part.first, part.last):
        number = wholes.component[node]
        if wholes.size[number] > 1:
            place = number - span[0]
            along = wholes.diagonal[place] + stiffness * wholes.size[number]
            space.scaled[node - part.first] += wholes.sums[place] / along


@compiled
def solve_system(
    choices: Choices, part: GroupPart, wholes: Wholes, span: tuple[int, int], stiffness: float, space: Space
) -> None:
    """(H + stiffness) step = residual by conjugate gradients; ``space.residual`` into ``space.step``."""
    size = part.last - part.first
    residual, scaled, direction, bent = space.residual, space.scaled, space.direction, space.bent
    find_diagonal(choices, part, space)
    for node in range(size):
        space.diagonal[node] += stiffness
        space.step[node] = 0.0
        direction[node] = 0.0
    precondition(part, wholes, span, stiffness, space)
    energy, turn = 0.0, 0.0
    for node in range(size):
        energy += residual[node] * scaled[node]
    goal = ACCURACY * ACCURACY * energy
    for _ in range(MAX_TURNS):
        if energy <= goal:
            break
        for node in range(size):
            direction[node] = scaled[node] + turn * direction[node]
        bend(choices, part, space)
        along = 0.0
        for node in range(size):
            bent[node] += stiffness * direction[node]
            along += bent[node] * direction[node]
        if along <= 0.0:
            break
        length = energy / along
        for node in range(size):
            space.step[node] += length * direction[node]
            residual[node] -= length * bent[node]
        precondition(part, wholes, span, stiffness, space)
        fresh = 0.0
        for node in range(size):
            fresh += residual[node] * scaled[node]
        turn, energy = fresh / energy, fresh


@compiled
def minimise_query(
    choices: Choices,
    part: GroupPart,
    wholes: Wholes,
    anchor: Array,
    stiffness: float,
    scores: Array,
    space: Space,
    atol: float,
) -> bool:
    """Move ``scores`` to the minimum of L + ½ stiffness ‖s − anchor‖²; return whether steps became small."""
    size = part.last - part.first
    for _ in range(MAX_STEPS):
        span = find_slope(choices, part, wholes, scores, space)
        for node in range(size):
            space.residual[node] = -space.gradient[node] - stiffness * (scores[node] - anchor[node])
        solve_system(choices, part, wholes, span, stiffness, space)
        lowest, highest = space.step[:size].min(), space.step[:size].max()
        spread = highest - lowest
        share = math.log1p(spread) / spread if spread > 1e-6 else 1.0
        for node in range(size):
            scores[node] += share * space.step[node]
        if max(highest, -lowest) <= atol:
            return True
    return False


@dataclass(frozen=True, eq=False)
class OrthonormalFlow:
    """The training loss as a function of all scores; one block per query."""

    groups: Groups  # the choices by query, counts divided by the number of samples
    wholes: tuple[Int64, Int64]  # the component of each alternative, and the size of each component

    def descend(self, place: Float64, step_size: float, n_steps: int) -> Float64:
        """The point that plain gradient descent reaches in ``n_steps`` steps."""
        moved = self._check(place).copy()
        _descend_all(self._queries, moved, step_size, n_steps)
        return moved

    def minimise(self, anchor: Float64, stiffness: float, start: Float64, atol: float) -> Float64:
        """The minimum of L(x) + ½ stiffness ‖x − anchor‖²; NaN if Newton's method does not converge."""
        moved, anchor = self._check(start).copy(), self._check(anchor)
        found = _minimise_all(self._queries, anchor, stiffness, moved, atol)
        return moved if found else np.full(len(moved), np.nan)

    def damp(self, place: Float64, stiffness: float, move: Float64) -> Float64:
        """(1 + H / stiffness)⁻¹ move."""
        damped, place = self._check(move).copy(), self._check(place)
        _damp_all(self._queries, place, stiffness, damped)
        return damped

    def sharpness(self, place: Float64, enough: float = 0.0) -> Float64:
        """Bounds on the largest eigenvalue of each query's curvature; those up to ``enough`` may be rough."""
        blocks = self.spread(np.arange(len(self.groups.borders) - 1))
        problem = problem_of(self.groups.choices, blocks)
        return bound_curvatures(problem, problem.probabilities(self._check(place)), blocks, enough=enough)

    @property
    def _queries(self) -> Queries:
        return Queries(self.groups.choices, self.groups.starts, self.wholes)

    def _check(self, values: Float64) -> Float64:
        """Check for one number per score: compiled code would read out of bounds otherwise."""
        return check_floats(values, (len(self.groups.place),), "the state of a flow", finite=False)

    def lengths(self, move: Float64) -> Float64:
        """The length of a change of each query's scores, shape (n_queries,)."""
        n_queries = len(self.groups.borders) - 1
        return np.sqrt(sum_at(self.spread(np.arange(n_queries)), move * move, n_queries))

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """The value of each score's query, shape (n_alternatives,)."""
        return np.repeat(values, np.diff(self.groups.borders))


def orthonormal_flow(problem: LuceProblem, component: Int64, n_samples: int) -> OrthonormalFlow:
    """The flow of whole-context choices, sorted by query; ``component`` gives that of each alternative."""
    _check_wholes(problem, check_int64(component, "component"))
    groups = sort_by_group(problem)
    shared = groups.choices._replace(count=groups.choices.count / n_samples)
    number = np.unique(component, return_inverse=True)[1]
    return OrthonormalFlow(
        Groups(shared, groups.place, groups.borders, groups.choice_borders), (number, np.bincount(number))
    )


def _check_wholes(problem: LuceProblem, component: Int64) -> None:
    """Check that queries are contiguous and their components numbered in order."""
    check_lengths("alternatives and their components", query=problem.component, component=component)
    if not len(component):
        return
    query = problem.component
    first = run_starts(query)
    lowest, highest = (np.asarray(find.reduceat(component, first)) for find in (np.minimum, np.maximum))
    sorted_queries = bool((np.diff(query) >= 0).all())
    if not (sorted_queries and (lowest == component[first]).all() and (lowest[1:] > highest[:-1]).all()):
        raise MismatchedParts(
            "these choices and components are from different corpora: a query's components are not numbered "
            "by their first tokens; give results of find_components and extract_choices"
        )


def _descent_work(queries: Queries, _: Array, __: float, n_steps: int) -> float:
    """Estimated cost of a numpy step: 50 Python entries, plus one for each 20 entries."""
    return n_steps * (50 + len(queries.choices.alternative) / 20)


def _newton_work(queries: Queries, *_: Any) -> float:
    """Estimated cost: Newton's method reads all members of choice sets about a hundred times."""
    return 100.0 * len(queries.choices.alternative)


@compiled
def _room(queries: Queries) -> tuple[Space, Wholes]:
    space = make_room(queries.choices, queries.starts, np.arange(len(queries.starts[0]) - 1))
    component, size = queries.wholes
    n_most = len(space.gradient)
    return space, Wholes(component, size, np.empty(n_most), np.empty(n_most), np.empty(n_most))


@compiled(work=_descent_work, instead=descend_together)
def _descend_all(queries: Queries, scores: Array, step_size: float, n_steps: int) -> None:
    space, wholes = _room(queries)
    for query in range(len(queries.starts[0]) - 1):
        part = find_part(queries.starts, query)
        here = scores[part.first : part.last]
        for _ in range(n_steps):
            find_slope(queries.choices, part, wholes, here, space)
            here -= step_size * space.gradient[: len(here)]


@compiled(work=_newton_work)
def _minimise_all(queries: Queries, anchor: Array, stiffness: float, scores: Array, atol: float) -> bool:
    space, wholes = _room(queries)
    for query in range(len(queries.starts[0]) - 1):
        part = find_part(queries.starts, query)
        pull, here = anchor[part.first : part.last], scores[part.first : part.last]
        if not minimise_query(queries.choices, part, wholes, pull, stiffness, here, space, atol):
            return False
    return True


@compiled(work=_newton_work)
def _damp_all(queries: Queries, scores: Array, stiffness: float, moves: Array) -> None:
    space, wholes = _room(queries)
    for query in range(len(queries.starts[0]) - 1):
        part = find_part(queries.starts, query)
        span = find_slope(queries.choices, part, wholes, scores[part.first : part.last], space)
        move = moves[part.first : part.last]
        space.residual[: len(move)] = stiffness * move
        solve_system(queries.choices, part, wholes, span, stiffness, space)
        move[:] = space.step[: len(move)]
