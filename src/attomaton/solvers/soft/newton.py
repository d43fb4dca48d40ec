"""Newton's method for anchored Luce problems, compiled: each group of alternatives alone, to its own end.

The function is  Σ count · (−ln p(winner)) + ½ r Σ_j (s_j − a_j)²  over the alternatives of one group. With
r = 0 it is the Luce problem itself; with r > 0 it is a ridge (a = 0), shrinkage towards other scores, or one
implicit step of gradient flow.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.kernels import compiled_within

Array = Any
"""A numpy array, in code that is compiled."""

MAX_TURNS = 2_000
"""Most conjugate-gradient turns for one Newton step."""

WIDE = 500.0
"""Scores that differ by less have powers of e that fit floating point with room to spare."""

N_GUESSES = 2
"""Steps of expected against observed wins that precede Newton's where nothing anchors the scores."""

CLOSEST = 1e-5
"""No Newton step needs its residual lowered by more: the next step does that better."""

MAX_STALLS = 3
"""Newton steps that may use up their turns; then the group is given up."""


class Choices(NamedTuple):
    """Choices sorted by group, as :class:`~attomaton.solvers.soft.likelihood.LuceProblem` has them."""

    alternative: Array  # int32 (n_entries,): alternatives of a group are consecutive numbers
    offsets: Array  # int64 (n_choices + 1,)
    multiplicity: Array  # int32 (n_entries,)
    winner: Array  # int32 (n_choices,)
    count: Array  # float64 (n_choices,)


class GroupPart(NamedTuple):
    """Where one group stands: its alternatives and its choices."""

    first: int
    last: int
    first_choice: int
    last_choice: int


class Space(NamedTuple):
    """Room to work in, at least as large as the group."""

    chance: Array  # float64 (n_entries of the group,)
    gradient: Array  # float64 (n_alternatives of the group,), and so are the others
    diagonal: Array
    residual: Array
    scaled: Array
    direction: Array
    bent: Array
    step: Array


@compiled_within
def make_space(n_alternatives: int, n_entries: int) -> Space:
    """Room for groups up to this size."""
    return Space(
        np.empty(n_entries),
        np.empty(n_alternatives),
        np.empty(n_alternatives),
        np.empty(n_alternatives),
        np.empty(n_alternatives),
        np.empty(n_alternatives),
        np.empty(n_alternatives),
        np.empty(n_alternatives),
    )


@compiled_within
def weigh(choices: Choices, part: GroupPart, scores: Array, space: Space) -> None:
    """Chances of all members of all sets, and the gradient of the summed loss.

    What a winner lacks of certainty is the sum of the losers' chances, never 1 − p: no digit is lost when
    that is small.
    """
    first, base = part.first, choices.offsets[part.first_choice]
    chance, gradient = space.chance, space.gradient
    gradient[: part.last - first] = 0.0
    find_odds(choices, part, scores, space)
    for choice in range(part.first_choice, part.last_choice):
        begin, end = choices.offsets[choice], choices.offsets[choice + 1]
        members, shares = choices.alternative[begin:end], chance[begin - base : end - base]
        total = 0.0
        for share in shares:
            total += share
        winner, count, lost, whole = choices.winner[choice], choices.count[choice], 0.0, 1.0 / total
        for entry in range(len(members)):
            shares[entry] *= whole
            if members[entry] != winner:
                gradient[members[entry] - first] += count * shares[entry]
                lost += shares[entry]
        gradient[winner - first] -= count * lost


@compiled_within
def find_odds(choices: Choices, part: GroupPart, scores: Array, space: Space) -> None:
    """m e^s for each member of each set, up to a factor for each set, into ``space.chance``.

    Where all e^s of the group are floating-point numbers, each is computed once.
    """
    first, base = part.first, choices.offsets[part.first_choice]
    chance, power = space.chance, space.scaled
    lowest, highest = np.inf, -np.inf
    for score in scores:
        lowest, highest = min(lowest, score), max(highest, score)
    if highest - lowest < WIDE:
        for node in range(part.last - first):
            power[node] = math.exp(scores[node] - highest)
        for entry in range(base, choices.offsets[part.last_choice]):
            chance[entry - base] = power[choices.alternative[entry] - first] * choices.multiplicity[entry]
        return
    for choice in range(part.first_choice, part.last_choice):
        highest = -np.inf
        for entry in range(choices.offsets[choice], choices.offsets[choice + 1]):
            logit = scores[choices.alternative[entry] - first] + math.log(choices.multiplicity[entry])
            chance[entry - base] = logit
            highest = max(highest, logit)
        for entry in range(choices.offsets[choice] - base, choices.offsets[choice + 1] - base):
            chance[entry] = math.exp(chance[entry] - highest)


@compiled_within
def bend(choices: Choices, part: GroupPart, space: Space) -> None:
    """Curvature of the summed loss along ``space.direction``, into ``space.bent``.

    Differences are taken to the winner, so that nothing cancels when its chance is close to 1.
    """
    first, base = part.first, choices.offsets[part.first_choice]
    chance, direction, bent = space.chance, space.direction, space.bent
    bent[: part.last - first] = 0.0
    for choice in range(part.first_choice, part.last_choice):
        begin, end = choices.offsets[choice], choices.offsets[choice + 1]
        members, shares = choices.alternative[begin:end], chance[begin - base : end - base]
        count, here, mean = choices.count[choice], direction[choices.winner[choice] - first], 0.0
        for entry in range(len(members)):
            mean += shares[entry] * (direction[members[entry] - first] - here)
        for entry in range(len(members)):
            node = members[entry] - first
            bent[node] += count * shares[entry] * (direction[node] - here - mean)


@compiled_within
def find_diagonal(choices: Choices, part: GroupPart, space: Space) -> None:
    """The diagonal of the curvature, into ``space.diagonal``."""
    first, base = part.first, choices.offsets[part.first_choice]
    diagonal = space.diagonal
    diagonal[: part.last - first] = 0.0
    for choice in range(part.first_choice, part.last_choice):
        begin, end = choices.offsets[choice], choices.offsets[choice + 1]
        members, shares = choices.alternative[begin:end], space.chance[begin - base : end - base]
        winner, count, lost, won = choices.winner[choice], choices.count[choice], 0.0, 0.0
        for entry in range(len(members)):
            share = shares[entry]
            if members[entry] == winner:
                won = share
            else:
                lost += share
                diagonal[members[entry] - first] += count * share * (1.0 - share)
        diagonal[winner - first] += count * won * lost


@compiled_within
def find_step(choices: Choices, part: GroupPart, stiffness: float, space: Space, rtol: float) -> bool:
    """The Newton step by conjugate gradients, the residual lowered by ``rtol``, into ``space.step``.

    Returns whether it was lowered that far.
    """
    size = part.last - part.first
    residual, scaled, direction, bent = space.residual, space.scaled, space.direction, space.bent
    find_diagonal(choices, part, space)
    energy = 0.0
    for node in range(size):
        space.diagonal[node] = max(space.diagonal[node] + stiffness, 1e-300)
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

    Each time lowers the loss (Hunter 2004) at the price of one gradient. Groups in which something never wins
    are left as they are.
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
    """Add the pull of the anchor to the gradient of the loss; returns the largest entry."""
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
    """Move ``scores`` of one group to the minimum; returns the largest gradient entry.

    ``limits`` are the largest gradient entry asked for and the most Newton steps. Along a step whose entries
    differ by at most d the curvature changes at most by the factor e^d, so the share ln(1 + d)/d of it lowers
    the function without any line search; it tends to 1. A group whose steps use up their turns is given up
    early, with the gradient entry reached, and so is one that rounding keeps from coming closer.
    """
    size, before, last, stalls = part.last - part.first, np.inf, np.inf, 0
    atol, max_steps = limits
    if stiffness == 0.0:
        guess_scores(choices, part, scores, space)
    for step in range(max_steps + 1):
        weigh(choices, part, scores, space)
        largest = add_pull(space.gradient[:size], anchor, stiffness, scores)
        if largest <= atol or step == max_steps or stalls == MAX_STALLS:
            return largest
        closer = max((largest / before) * (largest / before), CLOSEST, 0.5 * atol / largest)
        if not find_step(choices, part, stiffness, space, min(0.1, closer)):
            stalls += 1
        last, before = before, largest
        lowest, highest = np.inf, -np.inf
        for node in range(size):
            lowest, highest = min(lowest, space.step[node]), max(highest, space.step[node])
        spread = max(highest - lowest, 1e-12)
        if spread < 1e-9 and largest > 0.5 * last:  # full steps that gain nothing: the rest is rounding
            return largest
        share = math.log1p(spread) / spread
        for node in range(size):
            scores[node] += share * space.step[node]
    return np.inf
