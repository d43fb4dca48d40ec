"""Newton's method for anchored Luce problems: each group of alternatives is solved separately.

The function is  Σ count · (−ln p(winner)) + ½ r Σ_j (s_j − a_j)²  over the alternatives of one group. With r
= 0 it is the Luce problem itself; with r > 0 it is a ridge (a = 0), shrinkage towards other scores, or one
implicit step of gradient flow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.borders import check_floats, trusted
from attomaton.base.machine import count_processors, divide_work
from attomaton.base.native import solve_groups
from attomaton.base.ragged import group_borders, offsets_of, ranges_of, sum_at
from attomaton.base.tables import Float64, Int32, Int64
from attomaton.solvers.soft.damped import solve_direct
from attomaton.solvers.soft.likelihood import CHOICE_ROUNDING, LuceProblem


class Choices(NamedTuple):
    """Choices sorted by group, in the form of :class:`~attomaton.solvers.soft.likelihood.LuceProblem`."""

    alternative: Int32  # (n_entries,): alternatives of a group are consecutive numbers
    offsets: Int64  # (n_choices + 1,)
    multiplicity: Int32  # (n_entries,)
    winner: Int32  # (n_choices,)
    count: Any  # float64 (n_choices,); tuples have a method of this name


@dataclass(frozen=True, eq=False)
class Groups:
    """A Luce problem with the alternatives and choices of each group stored contiguously."""

    choices: Choices  # sorted by group; alternatives are numbered by group
    alternatives: Int64  # (n_alternatives,): the number in the problem of each alternative, by group
    borders: Int64  # (n_groups + 1,): where the alternatives of each group begin and end
    choice_borders: Int64  # (n_groups + 1,): where the choices of each group begin and end

    def __len__(self) -> int:
        return len(self.borders) - 1

    # The alternatives of a group, and the problem of the group alone, with alternatives numbered from 0.
    def alone(self, group: int) -> tuple[slice, LuceProblem]:
        members = slice(int(self.borders[group]), int(self.borders[group + 1]))
        chosen = slice(int(self.choice_borders[group]), int(self.choice_borders[group + 1]))
        offsets = self.choices.offsets[chosen.start : chosen.stop + 1]
        entries = slice(int(offsets[0]), int(offsets[-1]))
        choices = Choices(
            alternative=self.choices.alternative[entries] - members.start,
            offsets=offsets - offsets[0],
            multiplicity=self.choices.multiplicity[entries],
            winner=self.choices.winner[chosen] - members.start,
            count=self.choices.count[chosen],
        )
        return members, problem_of(choices, np.zeros(members.stop - members.start, np.int64))

    def rounding(self) -> Float64:
        """Bound on the rounding error of a gradient entry of each group, shape (n_groups,)."""
        group = np.repeat(np.arange(len(self)), np.diff(self.choice_borders))
        return CHOICE_ROUNDING * sum_at(group, self.choices.count, len(self))

    @property
    def starts(self) -> tuple[Int64, Int64]:
        """The two arrays of borders, in the form that kernels take."""
        return self.borders, self.choice_borders

    def shares(self, threads: int | None) -> list[Int64]:
        """The groups, largest first, cut into shares of about equal work for the threads."""
        entries = np.diff(self.choices.offsets[self.choice_borders])  # of each group
        largest_first = np.argsort(-entries, kind="stable")
        work = np.cumsum(entries[largest_first] + np.diff(self.borders)[largest_first])
        n_shares = 16 * (threads or count_processors())  # several per thread, so that all end together
        cuts = np.arange(1, n_shares) * int(work[-1] if len(work) else 0) // n_shares
        ends = sorted({0, len(work), *(np.searchsorted(work, cuts) + 1).clip(max=len(work)).tolist()})
        return [largest_first[begin:end] for begin, end in pairwise(ends)]


def problem_of(choices: Choices, component: Int64) -> LuceProblem:
    """A problem from sorted choices, for the definitions in Python; kernels take `Choices` themselves."""
    return trusted(
        LuceProblem,
        alternative=choices.alternative.astype(np.int64),
        offsets=choices.offsets,
        log_multiplicity=np.log(choices.multiplicity),
        winner=choices.winner.astype(np.int64),
        count=choices.count,
        component=component,
    )


def share_groups(groups: Groups, threads: int | None, kernel: Callable[..., None], *args: object) -> None:
    """Call ``kernel(choices, starts, share, *args)`` for shares of the groups, on all threads."""

    def work(share: Int64) -> None:
        kernel(groups.choices, groups.starts, share, *args)

    divide_work(work, groups.shares(threads), threads)


def sort_by_group(problem: LuceProblem) -> Groups:
    """The same problem with alternatives and choices sorted by component, which is their group."""
    nodes = np.argsort(problem.component, kind="stable")
    number = np.empty_like(nodes)  # the inverse: of each alternative, where it is after sorting
    number[nodes] = np.arange(len(nodes))
    group = problem.component[problem.winner]
    order = np.argsort(group, kind="stable")
    lengths = np.diff(problem.offsets)[order]
    entry = ranges_of(problem.offsets[order], lengths)  # of each sorted set, its old entries
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
    """Minimise the Luce loss in each group by damped Newton's method, on ``threads`` threads.

    The solver stops if no gradient entry exceeds ``atol`` plus a bound on rounding errors, or after
    ``max_steps`` steps. If conjugate gradients do not converge, sparse elimination is used.

    Examples
    --------
    >>> entries = np.array([0, 1, 0, 1]), np.array([0, 2, 4]), np.zeros(4)
    >>> problem = LuceProblem(*entries, np.array([0, 1]), np.array([3.0, 1.0]), np.array([0, 0]))  # 3 to 1
    >>> Newton().solve(problem).round(4).tolist()
    [0.4055, -0.6931]
    """

    atol: float = 1e-12
    max_steps: int = 200
    threads: int | None = None

    def solve(
        self, problem: LuceProblem, *, anchor: Float64 | None = None, stiffness: float = 0.0
    ) -> Float64:
        """Return the scores s that minimise Σ count · (−ln p) + ½ stiffness · Σ (s − anchor)².

        The search starts at the ``anchor``, by default 0. With a ``stiffness`` of 0, the choices must
        strongly connect each group.
        """
        if anchor is not None:
            anchor = check_floats(anchor, (problem.n_alternatives,), "the anchor")
        groups = sort_by_group(problem)
        answer = np.empty(problem.n_alternatives)
        anchor = None if anchor is None else anchor[groups.alternatives]
        answer[groups.alternatives] = minimise_groups(self, groups, anchor=anchor, stiffness=stiffness)
        return answer


def minimise_groups(
    solver: Newton, groups: Groups, *, anchor: Float64 | None = None, stiffness: float = 0.0
) -> Float64:
    """The scores of :meth:`Newton.solve` for a sorted problem; anchor and answer are sorted too."""
    start = np.zeros(len(groups.alternatives)) if anchor is None else anchor
    scores, stalled = start.copy(), np.zeros(len(groups), bool)
    pull, limits = (start, float(stiffness)), (solver.atol, solver.max_steps)
    share_groups(groups, solver.threads, solve_groups, pull, (scores, stalled), limits)
    for group in np.flatnonzero(stalled):  # conjugate gradients did not converge
        members, alone = groups.alone(int(group))
        atol = solver.atol + float(alone.rounding()[0])
        scores[members] = solve_direct(
            alone, scores[members], start[members], stiffness, atol=atol, max_steps=solver.max_steps
        )
    return scores
