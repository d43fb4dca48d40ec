"""All groups of an anchored Luce problem, each solved by compiled Newton steps, shared between threads."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attomaton.base.borders import check_floats, trusted
from attomaton.base.kernels import announced, compiled, compiled_within, copy_into, expect_work
from attomaton.base.machine import count_processors, share_out
from attomaton.base.ragged import group_borders, offsets_of, ranges_of, sum_at
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.soft.direct import solve_direct
from attomaton.solvers.soft.likelihood import LuceProblem, rounding_of
from attomaton.solvers.soft.newton import Array, Choices, GroupPart, Space, make_space, solve_part

FAR = 1e4
"""A group that ends with a gradient this many times larger than asked has stalled."""

TURNS = 20
"""How often a solver looks at a member of a choice set, about."""


@dataclass(frozen=True, eq=False)
class Groups:
    """A Luce problem with the alternatives and choices of each group next to each other.

    Attributes
    ----------
    choices : Choices
        The choices, sorted by group; alternatives numbered by group.
    place : int64 array, shape (n_alternatives,)
        The problem's number of each alternative here.
    borders : int64 array, shape (n_groups + 1,)
        Group g has the alternatives ``borders[g] … borders[g + 1] − 1``.
    choice_borders : int64 array, shape (n_groups + 1,)
        Group g has the choices ``choice_borders[g] … choice_borders[g + 1] − 1``.
    """

    choices: Choices
    place: Int64
    borders: Int64
    choice_borders: Int64

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
        """What rounding alone may leave of a gradient entry of each group, shape (n_groups,)."""
        group = np.repeat(np.arange(len(self)), np.diff(self.choice_borders))
        return rounding_of(sum_at(group, self.choices.count, len(self)))

    @property
    def starts(self) -> tuple[Int64, Int64]:
        """Both borders, as compiled code takes them."""
        return self.borders, self.choice_borders

    @property
    def n_entries(self) -> Int64:
        """Members of all choice sets of each group, shape (n_groups,)."""
        return np.diff(self.choices.offsets[self.choice_borders])

    def shares(self, threads: int | None) -> list[Int64]:
        """The groups, those with most entries first, cut into shares of about equal work for the threads."""
        entries = self.n_entries
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

    Compiled code holds no lock, and groups share nothing.
    """

    def work(some: Int64) -> None:
        kernel(groups.choices, groups.starts, some, *given)

    expect_work(kernel, TURNS * len(groups.choices.alternative))
    share_out(work, groups.shares(threads), threads)


def sort_by_group(problem: LuceProblem) -> Groups:
    """The problem sorted by its components."""
    place = np.argsort(problem.component, kind="stable")
    number = np.empty_like(place)
    number[place] = np.arange(len(place))
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
    return Groups(choices, place, group_borders(problem.component, n_groups), group_borders(group, n_groups))


@dataclass(frozen=True)
class Newton:
    """Damped Newton in each group until no gradient entry exceeds ``atol``, at most ``max_steps`` steps.

    To ``atol`` comes what rounding alone may leave: 8 units in the last place for each choice of the group
    and for the pull of the anchor. Where conjugate gradients stall, elimination takes over. Equal
    to :class:`~attomaton.solvers.soft.reference.DampedNewton` without an
    anchor.

    Attributes
    ----------
    atol : float
        Largest gradient entry to be left.
    max_steps : int
        Steps for each group, at most.
    threads : int, optional
        How many to use; all processors if not given.

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
        """The scores s that minimise Σ count · (−ln p) + ½ stiffness · Σ (s − anchor)².

        Parameters
        ----------
        problem : LuceProblem
            The choices. No choice set holds alternatives of two components; a component may be any group.
        anchor : float64 array, shape (n_alternatives,), optional
            Where the scores are pulled to, and where the search starts. None means zero.
        stiffness : float
            How hard they are pulled. 0: not at all; then each group must be strongly connected, and its
            scores are known up to a constant.

        Returns
        -------
        float64 array, shape (n_alternatives,)
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
    """The scores that :meth:`Newton.solve` finds, of a problem that is sorted; so are anchor and answer."""
    start = np.zeros(len(groups.place)) if anchor is None else anchor
    scores, left = start.copy(), np.zeros(len(groups), bool)
    pull, limits = (start, float(stiffness)), (solver.atol, solver.max_steps)
    share_groups(groups, solver.threads, _solve_groups, pull, (scores, left), limits)
    for group in np.flatnonzero(left):
        kept, alone = groups.alone(int(group))
        asked = solver.atol + float(alone.rounding()[0]), solver.max_steps
        scores[kept] = solve_direct(alone, scores[kept], (start[kept], stiffness), asked)
    return scores


@compiled_within
def find_part(starts: tuple[Array, Array], group: int) -> GroupPart:
    """Where a group stands; ``starts`` are the borders of alternatives and of choices."""
    nodes, choices = starts
    return GroupPart(nodes[group], nodes[group + 1], choices[group], choices[group + 1])


@compiled_within
def make_room(choices: Choices, starts: tuple[Array, Array], some: Array) -> Space:
    """Room for the largest of some groups."""
    n_alternatives, n_entries = 0, 0
    for group in some:
        part = find_part(starts, group)
        n_alternatives = max(n_alternatives, part.last - part.first)
        n_entries = max(n_entries, choices.offsets[part.last_choice] - choices.offsets[part.first_choice])
    return make_space(n_alternatives, n_entries)


@compiled(work=announced)
def _solve_groups(
    choices: Choices,
    starts: tuple[Array, Array],
    some: Array,
    pull: tuple[Array, float],
    found: tuple[Array, Array],
    limits: tuple[float, int],
) -> None:
    """Move the scores of the groups ``some`` to their minimum; ``pull`` is the anchor and its stiffness.

    ``found`` are the scores, and for each group whether it ended far from what was asked.
    """
    scores, left = found
    anchor, stiffness = pull
    space = make_room(choices, starts, some)
    for group in some:
        part = find_part(starts, group)
        here = slice(part.first, part.last)
        copy_into(scores, part.first, anchor[here])  # so that it may be begun again
        made, farthest = 0.0, 0.0
        for choice in range(part.first_choice, part.last_choice):
            made += choices.count[choice]
        for node in range(part.first, part.last):
            farthest = max(farthest, abs(anchor[node]))
        rounding = 8 * np.finfo(np.float64).eps * (made + stiffness * farthest)
        asked = limits[0] + rounding
        reached = solve_part(choices, part, anchor[here], stiffness, scores[here], space, (asked, limits[1]))
        left[group] = reached > FAR * asked
