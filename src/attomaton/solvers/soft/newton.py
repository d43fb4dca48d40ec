"""Newton's method for anchored Luce problems, compiled: each group of alternatives is solved separately.

The function is  Σ count · (−ln p(winner)) + ½ r Σ_j (s_j − a_j)²  over the alternatives of one group. With
r = 0 it is the Luce problem itself; with r > 0 it is a ridge (a = 0), shrinkage towards other scores, or one
implicit step of gradient flow.

The innermost loops index arrays with ``np.uint64``: compiled code tests whether a signed index is negative.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.borders import check_floats, trusted
from attomaton.base.kernels import announced, compiled, compiled_within, copy_into, expect_work
from attomaton.base.machine import count_processors, share_out
from attomaton.base.ragged import group_borders, offsets_of, ranges_of, sum_at
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.soft.damped import solve_direct
from attomaton.solvers.soft.likelihood import LuceProblem, rounding_of

Array = Any
"""A numpy array in compiled code."""

MAX_TURNS = 2_000
"""Most conjugate-gradient iterations for one Newton step."""

WIDE = 500.0
"""Exponentials of scores that differ by less are well within the range of float64."""

N_GUESSES = 2
"""Minorise-maximise steps (observed / expected wins) before Newton's, if nothing anchors the scores."""

CLOSEST = 1e-5
"""Largest useful reduction of the residual in one Newton step: beyond it, another step is better."""

STRETCH = 1024
"""Least number of choices whose gradient is summed apart."""

STEADY = 0.1
"""A step whose entries differ by less leaves the diagonal of the curvature nearly as it was."""

MAX_STALLS = 3
"""Newton steps that may exhaust their iterations before the group is abandoned."""


class Choices(NamedTuple):
    """Choices sorted by group, in the form of :class:`~attomaton.solvers.soft.likelihood.LuceProblem`."""

    alternative: Array  # int32 (n_entries,): alternatives of a group are consecutive numbers
    offsets: Array  # int64 (n_choices + 1,)
    multiplicity: Array  # int32 (n_entries,)
    winner: Array  # int32 (n_choices,)
    count: Array  # float64 (n_choices,)


class GroupPart(NamedTuple):
    """The range of one group: its alternatives and its choices."""

    first: int
    last: int
    first_choice: int
    last_choice: int


class Space(NamedTuple):
    """Work arrays, at least as large as the group."""

    probability: Array  # float64 (n_entries of the group,)
    gradient: Array  # float64 (n_alternatives of the group,), and so are the others
    diagonal: Array
    residual: Array
    scaled: Array
    direction: Array
    bent: Array
    step: Array


@compiled_within
def weigh(choices: Choices, part: GroupPart, scores: Array, space: Space) -> None:
    """Probabilities of all members of all sets, and the gradient of the summed loss.

    A winner's 1 − p is computed as the sum of the losers' probabilities, so that no digits are lost. Choices
    are sorted by winner, so an entry of the gradient rises to the number of expected wins before it falls.
    Stretches of choices are summed apart, in ``space.bent``: few additions round off digits of the large sum.
    """
    first, base, size = part.first, choices.offsets[part.first_choice], part.last - part.first
    probability, gradient, recent, power = space.probability, space.gradient, space.bent, space.scaled
    gradient[:size] = 0.0
    recent[:size] = 0.0
    narrow = find_powers(scores, power)
    if not narrow:
        find_odds(choices, part, scores, space)
    stretch = max(size, STRETCH)
    for start in range(part.first_choice, part.last_choice, stretch):
        for choice in range(start, min(start + stretch, part.last_choice)):
            begin, end = choices.offsets[choice], choices.offsets[choice + 1]
            members, shares = choices.alternative[begin:end], probability[begin - base : end - base]
            times, total = choices.multiplicity[begin:end], 0.0
            for entry in range(len(members)):
                if narrow:
                    shares[entry] = power[np.uint64(members[entry] - first)] * times[entry]
                total += shares[entry]
            winner, count, lost, whole = choices.winner[choice], choices.count[choice], 0.0, 1.0 / total
            for entry in range(len(members)):
                shares[entry] *= whole
                if members[entry] != winner:
                    recent[np.uint64(members[entry] - first)] += count * shares[entry]
                    lost += shares[entry]
            recent[winner - first] -= count * lost
        for node in range(size):
            gradient[node] += recent[node]
            recent[node] = 0.0


@compiled_within
def find_powers(scores: Array, power: Array) -> bool:
    """e^s up to a factor, into ``power``; False, and nothing done, where they may not fit float64."""
    lowest, highest = np.inf, -np.inf
    for score in scores:
        lowest, highest = min(lowest, score), max(highest, score)
    if highest - lowest >= WIDE:
        return False
    for node in range(len(scores)):
        power[node] = math.exp(scores[node] - highest)
    return True


@compiled_within
def find_odds(choices: Choices, part: GroupPart, scores: Array, space: Space) -> None:
    """m e^s for each member of each set, up to a factor for each set, into ``space.probability``."""
    first, base, probability = part.first, choices.offsets[part.first_choice], space.probability
    for choice in range(part.first_choice, part.last_choice):
        highest = -np.inf
        for entry in range(choices.offsets[choice], choices.offsets[choice + 1]):
            logit = scores[choices.alternative[entry] - first] + math.log(choices.multiplicity[entry])
            probability[entry - base] = logit
            highest = max(highest, logit)
        for entry in range(choices.offsets[choice] - base, choices.offsets[choice + 1] - base):
            probability[entry] = math.exp(probability[entry] - highest)


@compiled_within
def bend(choices: Choices, part: GroupPart, space: Space) -> None:
    """Curvature of the summed loss along ``space.direction``, into ``space.bent``.

    Differences are relative to the winner, so that nothing cancels if its probability is close to 1.
    """
    first, base = part.first, choices.offsets[part.first_choice]
    probability, direction, bent = space.probability, space.direction, space.bent
    bent[: part.last - first] = 0.0
    for choice in range(part.first_choice, part.last_choice):
        begin, end = choices.offsets[choice], choices.offsets[choice + 1]
        members, shares = choices.alternative[begin:end], probability[begin - base : end - base]
        count, here, mean = choices.count[choice], direction[choices.winner[choice] - first], 0.0
        for entry in range(len(members)):
            mean += shares[entry] * (direction[np.uint64(members[entry] - first)] - here)
        for entry in range(len(members)):
            node = np.uint64(members[entry] - first)
            bent[node] += count * shares[entry] * (direction[node] - here - mean)


@compiled_within
def find_diagonal(choices: Choices, part: GroupPart, space: Space) -> None:
    """The diagonal of the curvature, into ``space.diagonal``."""
    first, base = part.first, choices.offsets[part.first_choice]
    diagonal = space.diagonal
    diagonal[: part.last - first] = 0.0
    for choice in range(part.first_choice, part.last_choice):
        begin, end = choices.offsets[choice], choices.offsets[choice + 1]
        members, shares = choices.alternative[begin:end], space.probability[begin - base : end - base]
        winner, count, lost, won = choices.winner[choice], choices.count[choice], 0.0, 0.0
        for entry in range(len(members)):
            share = shares[entry]
            if members[entry] == winner:
                won = share
            else:
                lost += share
                diagonal[np.uint64(members[entry] - first)] += count * share * (1.0 - share)
        diagonal[winner - first] += count * won * lost


@compiled_within
def find_step(choices: Choices, part: GroupPart, stiffness: float, space: Space, rtol: float) -> bool:
    """The Newton step by conjugate gradients, with the residual reduced by ``rtol``, into ``space.step``.

    ``space.diagonal`` is the preconditioner. Returns whether the residual was reduced that far.
    """
    size = part.last - part.first
    residual, scaled, direction, bent = space.residual, space.scaled, space.direction, space.bent
    energy = 0.0
    for node in range(size):
        space.step[node] = 0.0
        residual[node] = -space.gradient[node]
        direction[node] = scaled[node] = residual[node] / space.diagonal[node]
        energy += residual[node] * scaled[node]
    goal = rtol * rtol * energy
    for _ in range(MAX_TURNS):
        if energy <= goal or energy <= 0.0:
            return True
        bend(choices, part, space)
        along = 0.0
        for node in range(size):
            bent[node] += stiffness * direction[node]
            along += bent[node] * direction[node]
        if along <= 0.0:
            return True
        length, fresh = energy / along, 0.0
        for node in range(size):
            space.step[node] += length * direction[node]
            residual[node] -= length * bent[node]
            scaled[node] = residual[node] / space.diagonal[node]
            fresh += residual[node] * scaled[node]
        turn, energy = fresh / energy, fresh
        for node in range(size):
            direction[node] = scaled[node] + turn * direction[node]
    return False


@compiled_within
def guess_scores(choices: Choices, part: GroupPart, scores: Array, space: Space) -> None:
    """Raise each score by ln(observed wins / expected wins), a few times.

    Each time lowers the loss (Hunter 2004) at the cost of one gradient. Groups in which some alternative
    never wins are left unchanged.
    """
    size = part.last - part.first
    observed = np.zeros(size)
    for choice in range(part.first_choice, part.last_choice):
        observed[choices.winner[choice] - part.first] += choices.count[choice]
    for node in range(size):
        if observed[node] <= 0.0:
            return
    for _ in range(N_GUESSES):
        weigh(choices, part, scores, space)
        for node in range(size):
            scores[node] -= math.log1p(space.gradient[node] / observed[node])


@compiled_within
def add_pull(gradient: Array, anchor: Array, stiffness: float, scores: Array) -> float:
    """Add the pull of the anchor to the gradient of the loss; return the largest entry."""
    total, largest = 0.0, 0.0
    for node in range(len(gradient)):
        gradient[node] += stiffness * (scores[node] - anchor[node])
        total += gradient[node]
    for node in range(len(gradient)):
        if stiffness == 0.0:  # a constant changes nothing, so rounding must not push along it
            gradient[node] -= total / len(gradient)
        largest = max(largest, abs(gradient[node]))
    return largest


@compiled_within
def solve_part(
    choices: Choices,
    part: GroupPart,
    anchor: Array,
    stiffness: float,
    scores: Array,
    space: Space,
    limits: tuple[float, int],
) -> float:
    """Move ``scores`` of one group to the minimum; return the largest gradient entry.

    ``limits`` are the tolerance on gradient entries and the most Newton steps. Along a step whose entries
    differ by at most d the curvature changes at most by the factor e^d, so the fraction ln(1 + d)/d of it
    lowers the function without a line search; it tends to 1. A group whose steps exhaust their iterations is
    abandoned early, with the gradient reached so far, and so is one that rounding keeps from improving.
    """
    size, before, last, spread, stalls = part.last - part.first, np.inf, np.inf, np.inf, 0
    atol, max_steps = limits
    if stiffness == 0.0:
        guess_scores(choices, part, scores, space)
    for step in range(max_steps + 1):
        weigh(choices, part, scores, space)
        largest = add_pull(space.gradient[:size], anchor, stiffness, scores)
        if largest <= atol or step == max_steps or stalls == MAX_STALLS:
            return largest
        gain = largest / before if step > 0 else 1.0
        closer = max(gain * gain, CLOSEST, 0.5 * atol / largest)
        if spread > STEADY:
            find_diagonal(choices, part, space)
            for node in range(size):
                space.diagonal[node] = max(space.diagonal[node] + stiffness, 1e-300)
        if not find_step(choices, part, stiffness, space, min(0.1, closer)):
            stalls += 1
        last, before = before, largest
        lowest, highest = np.inf, -np.inf
        for node in range(size):
            lowest, highest = min(lowest, space.step[node]), max(highest, space.step[node])
        spread = max(highest - lowest, 1e-12)
        if spread < 1e-9 and largest > 0.5 * last:  # full steps without gain: the rest is rounding
            return largest
        share = math.log1p(spread) / spread
        for node in range(size):
            scores[node] += share * space.step[node]
    return np.inf


FAR = 1e4
"""A group that ends with a gradient this many times the tolerance has stalled."""

TURNS = 20
"""Approximate number of times a solver visits a member of a choice set."""


@dataclass(frozen=True, eq=False)
class Groups:
    """A Luce problem with the alternatives and choices of each group stored contiguously."""

    choices: Choices  # sorted by group; alternatives are numbered by group
    place: Int64  # (n_alternatives,): the number in the problem of each alternative here
    borders: Int64  # (n_groups + 1,): where the alternatives of each group begin and end
    choice_borders: Int64  # (n_groups + 1,): where the choices of each group begin and end

    def __len__(self) -> int:
        return len(self.borders) - 1

    def alone(self, group: int) -> tuple[slice, LuceProblem]:
        """The alternatives of one group, and the Luce problem over them."""
        here, some = (
            slice(int(ends[group]), int(ends[group + 1])) for ends in (self.borders, self.choice_borders)
        )
        offsets = self.choices.offsets[some.start : some.stop + 1]
        entries = slice(int(offsets[0]), int(offsets[-1]))
        choices = Choices(
            alternative=self.choices.alternative[entries] - here.start,
            offsets=offsets - offsets[0],
            multiplicity=self.choices.multiplicity[entries],
            winner=self.choices.winner[some] - here.start,
            count=self.choices.count[some],
        )
        return here, problem_of(choices, np.zeros(here.stop - here.start, np.int64))

    def rounding(self) -> Float64:
        """Bound on the rounding error of a gradient entry of each group, shape (n_groups,)."""
        group = np.repeat(np.arange(len(self)), np.diff(self.choice_borders))
        return rounding_of(sum_at(group, self.choices.count, len(self)))

    @property
    def starts(self) -> tuple[Int64, Int64]:
        """Both borders, for compiled code."""
        return self.borders, self.choice_borders

    def shares(self, threads: int | None) -> list[Int64]:
        """The groups, largest first, cut into shares of about equal work for the threads."""
        entries = np.diff(self.choices.offsets[self.choice_borders])  # of each group
        largest_first = np.argsort(-entries, kind="stable")
        work = np.cumsum(entries[largest_first] + np.diff(self.borders)[largest_first])
        number = 16 * (threads or count_processors())
        cuts = np.arange(1, number) * int(work[-1] if len(work) else 0) // number
        ends = sorted({0, len(work), *(np.searchsorted(work, cuts) + 1).clip(max=len(work)).tolist()})
        return [largest_first[begin:end] for begin, end in pairwise(ends)]


def problem_of(choices: Choices, component: Int64) -> LuceProblem:
    """The general form of choices, with these components of their alternatives."""
    return trusted(
        LuceProblem,
        alternative=choices.alternative.astype(np.int64),
        offsets=choices.offsets,
        log_multiplicity=np.log(choices.multiplicity),
        winner=choices.winner.astype(np.int64),
        count=choices.count,
        component=component,
    )


def share_groups(groups: Groups, threads: int | None, kernel: Callable[..., None], *given: object) -> None:
    """Call ``kernel(choices, starts, some, *given)`` for all groups, some of them on each thread.

    Compiled code releases the GIL, and groups share nothing.
    """

    def work(some: Int64) -> None:
        kernel(groups.choices, groups.starts, some, *given)

    expect_work(kernel, TURNS * len(groups.choices.alternative))
    share_out(work, groups.shares(threads), threads)


def sort_by_group(problem: LuceProblem) -> Groups:
    """The problem sorted by its components."""
    nodes = np.argsort(problem.component, kind="stable")
    number = np.empty_like(nodes)
    number[nodes] = np.arange(len(nodes))
    group = problem.component[problem.winner]
    order = np.argsort(group, kind="stable")
    lengths = np.diff(problem.offsets)[order]
    entry = ranges_of(problem.offsets[order], lengths)
    choices = Choices(
        alternative=number[problem.alternative[entry]].astype(np.int32),
        offsets=offsets_of(lengths),
        multiplicity=np.rint(np.exp(problem.log_multiplicity[entry])).astype(np.int32),
        winner=number[problem.winner[order]].astype(np.int32),
        count=problem.count[order],
    )
    n_groups = problem.n_components
    return Groups(choices, nodes, group_borders(problem.component, n_groups), group_borders(group, n_groups))


@dataclass(frozen=True)
class Newton:
    """Damped Newton in each group until no gradient entry exceeds ``atol``, at most ``max_steps`` steps.

    The bound on rounding errors is added to ``atol``: 8 units in the last place for each choice of the group
    and for the pull of the anchor. If conjugate gradients stall, elimination takes over.

    Attributes
    ----------
    atol : float
        Largest gradient entry at which to stop.
    max_steps : int
        Largest number of steps for each group.
    threads : int, optional
        Number of threads; by default one per processor.

    Examples
    --------
    >>> entries = np.array([0, 1, 0, 1]), np.array([0, 2, 4]), np.zeros(4)
    >>> problem = LuceProblem(*entries, np.array([0, 1]), np.array([3.0, 1.0]), np.array([0, 0]))  # 3 to 1
    >>> scores = Newton().solve(problem)
    >>> round(float(np.exp(scores[0] - scores[1])), 6)
    3.0
    >>> Newton().solve(problem, stiffness=1.0).round(4).tolist()  # pulled towards 0
    [0.3418, -0.3418]
    """

    atol: float = 1e-12
    max_steps: int = 200
    threads: int | None = None

    def solve(
        self, problem: LuceProblem, *, anchor: Float64 | None = None, stiffness: float = 0.0
    ) -> Float64:
        """The scores s that minimise Σ count · (−ln p) + ½ stiffness · Σ (s − anchor)², (n_alternatives,).

        No choice set spans two components; a component may be any group. The search starts at the ``anchor``,
        by default 0. With a ``stiffness`` of 0 each group must be strongly connected; its scores are known
        up to a constant.
        """
        if anchor is not None:
            anchor = check_floats(anchor, (problem.n_alternatives,), "the anchor")
        groups = sort_by_group(problem)
        answer = np.empty(problem.n_alternatives)
        here = None if anchor is None else anchor[groups.place]
        answer[groups.place] = minimise_groups(self, groups, anchor=here, stiffness=stiffness)
        return answer


def minimise_groups(
    solver: Newton, groups: Groups, *, anchor: Float64 | None = None, stiffness: float = 0.0
) -> Float64:
    """The scores that :meth:`Newton.solve` finds, for a sorted problem; anchor and answer are sorted too."""
    start = np.zeros(len(groups.place)) if anchor is None else anchor
    scores, stalled = start.copy(), np.zeros(len(groups), bool)
    pull, limits = (start, float(stiffness)), (solver.atol, solver.max_steps)
    share_groups(groups, solver.threads, _solve_groups, pull, (scores, stalled), limits)
    for group in np.flatnonzero(stalled):
        members, alone = groups.alone(int(group))
        goal = solver.atol + float(alone.rounding()[0]), solver.max_steps
        scores[members] = solve_direct(alone, scores[members], (start[members], stiffness), goal)
    return scores


@compiled_within
def find_part(starts: tuple[Array, Array], group: int) -> GroupPart:
    """The range of a group; ``starts`` are the borders of alternatives and of choices."""
    nodes, choices = starts
    return GroupPart(nodes[group], nodes[group + 1], choices[group], choices[group + 1])


@compiled_within
def make_room(choices: Choices, starts: tuple[Array, Array], some: Array) -> Space:
    """Work arrays for the largest of some groups."""
    n_alternatives, n_entries = 0, 0
    for group in some:
        part = find_part(starts, group)
        n_alternatives = max(n_alternatives, part.last - part.first)
        n_entries = max(n_entries, choices.offsets[part.last_choice] - choices.offsets[part.first_choice])
    rows = np.empty((7, n_alternatives))
    return Space(np.empty(n_entries), rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6])


@compiled(work=announced)
def _solve_groups(
    choices: Choices,
    starts: tuple[Array, Array],
    some: Array,
    pull: tuple[Array, float],
    answer: tuple[Array, Array],
    limits: tuple[float, int],
) -> None:
    """Move the scores of the groups ``some`` to their minimum; ``pull`` is the anchor and its stiffness.

    ``answer`` are the scores, and for each group whether it ended far from the tolerance.
    """
    scores, stalled = answer
    anchor, stiffness = pull
    space = make_room(choices, starts, some)
    for group in some:
        part = find_part(starts, group)
        here = slice(part.first, part.last)
        copy_into(scores, part.first, anchor[here])  # so that it may be restarted
        n_choices, farthest = 0.0, 0.0
        for choice in range(part.first_choice, part.last_choice):
            n_choices += choices.count[choice]
        for node in range(part.first, part.last):
            farthest = max(farthest, abs(anchor[node]))
        rounding = 8 * np.finfo(np.float64).eps * (n_choices + stiffness * farthest)
        goal = limits[0] + rounding
        reached = solve_part(choices, part, anchor[here], stiffness, scores[here], space, (goal, limits[1]))
        stalled[group] = reached > FAR * goal
