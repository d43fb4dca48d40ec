"""Where gradient descent is at any step, for one-hot contexts: the course of every context's logits.

From W = 0 all tokens that are outside a support keep one logit, and so do those of a support with equal
counts: a context is a few *levels*, each with its chance p, its number of tokens and its logit. Contexts with
the same levels have the same course, so a corpus has few courses. With q the softmax,

    L ← L + ηπ (p − q)

is taken as it is for the first steps; after them it is hardly to be told from the flow dL/dτ = p − q,
τ = ηπt, which an L-stable Rosenbrock method follows in steps that grow with t. Its matrix is diagonal plus
rank one, so a step costs as much as a softmax.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.decoder.supports import Supports
from attomaton.errors import UnsupportedOption
from attomaton.ragged import offsets_of, rows_of
from attomaton.tables import Float64, Int64, sum_equal_rows

EXACT = 128
"""Steps that are taken as gradient descent takes them."""

GROWTH = 0.02
"""What a later step of the flow is, as a share of the time that has passed."""

EDGE = 4.0
"""η π_j from which on gradient descent leaves the flow: the curvature is ½ at most, and 2/½ is 4."""

_GAMMA = 1.0 - np.sqrt(0.5)


@dataclass(frozen=True, eq=False)
class Levels:
    """The distinct courses of a corpus, as ragged rows of levels.

    Attributes
    ----------
    offsets : int64 array, shape (n_courses + 1,)
        Where the levels of each course begin; the last of each is that of all tokens outside the support.
    chances : float64 array, shape (n_levels,)
        p of each token of the level.
    tokens : float64 array, shape (n_levels,)
        How many tokens it has.
    shares : float64 array, shape (n_courses,)
        π of one context of the course.
    contexts : int64 array, shape (n_courses,)
        How many contexts go this way.

    Examples
    --------
    >>> from attomaton.decoder.supports import count_supports
    >>> levels = find_levels(count_supports([[0, 1, 0, 1, 0, 2, 0]], 1))
    >>> levels.chances.round(4).tolist(), levels.tokens.tolist(), levels.contexts.tolist()
    ([1.0, 0.0, 0.3333, 0.6667, 0.0, 1.0, 0.0], [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 2.0], [1, 1, 1])
    """

    offsets: Int64
    chances: Float64
    tokens: Float64
    shares: Float64
    contexts: Int64


@dataclass(frozen=True, eq=False)
class _Listed:
    """The levels of every support: rows of (count, tokens), where each begins, and the level of each pair."""

    table: Int64
    offsets: Int64
    level: Int64


def find_levels(supports: Supports) -> Levels:
    """The courses of all contexts, each once."""
    listed = _list(supports, slice(None))
    once = np.ones(len(listed.offsets) - 1, np.int64)
    if listed.table.max(initial=0) > np.iinfo(np.int32).max:
        return _complete(listed.table, listed.offsets, once, supports)  # each by itself
    words = listed.table.astype(np.int32).ravel()
    offsets, words, contexts = sum_equal_rows(2 * listed.offsets, words, once)
    return _complete(words.reshape(-1, 2).astype(np.int64), offsets // 2, contexts, supports)


def list_levels(supports: Supports, number: int | None = None) -> tuple[Levels, Int64]:
    """The course of every context, or of one, and the level of each of its pairs.

    Examples
    --------
    >>> from attomaton.decoder.supports import count_supports
    >>> levels, level = list_levels(count_supports([[0, 1, 0, 1, 0, 2, 0]], 1))
    >>> level.tolist(), levels.offsets.tolist()
    ([1, 0, 3, 5], [0, 3, 5, 7])
    """
    listed = _list(supports, slice(None) if number is None else supports.pairs_of(number))
    once = np.ones(len(listed.offsets) - 1, np.int64)
    levels = _complete(listed.table, listed.offsets, once, supports)
    return levels, listed.level + rows_of(listed.offsets)[listed.level]


def _list(supports: Supports, pairs: slice) -> _Listed:
    row, counts = supports.row[pairs], supports.counts[pairs]
    order = np.lexsort((counts, row))
    row, counts = row[order], counts[order]
    begins = (np.diff(row, prepend=-1) != 0) | (np.diff(counts, prepend=-1) != 0)
    starts = np.flatnonzero(begins)
    level = np.empty(len(row), np.int64)
    level[order] = np.cumsum(begins) - 1
    table = np.stack([counts[starts], np.diff(np.append(starts, len(row)))], axis=1)
    return _Listed(table, offsets_of(np.bincount(row[starts] - row[0])), level)


def _complete(inside: Int64, offsets: Int64, contexts: Int64, supports: Supports) -> Levels:
    """The levels with that of the tokens outside behind those of each support."""
    starts = offsets[:-1]
    totals = np.add.reduceat(inside[:, 0] * inside[:, 1], starts)
    outside = supports.n_tokens - np.add.reduceat(inside[:, 1], starts)
    chances = inside[:, 0] / totals[rows_of(offsets)]
    return Levels(
        offsets + np.arange(len(offsets)),
        np.insert(chances, offsets[1:], 0.0),
        np.insert(inside[:, 1].astype(np.float64), offsets[1:], outside.astype(np.float64)),
        totals / supports.n_positions,
        contexts,
    )


@dataclass(frozen=True, eq=False)
class Moment:
    """All courses at one step.

    Attributes
    ----------
    step : int
        t.
    levels : Levels
        What moves.
    logits : float64 array, shape (n_levels,)
        The logit of each level.

    Examples
    --------
    >>> from attomaton.decoder.supports import count_supports
    >>> levels = list_levels(count_supports([[0, 1, 0, 1, 0, 2, 0]], 1), 0)[0]
    >>> [(one.step, one.logits.round(3).tolist()) for one in follow(levels, [0, 1000], 1.0)]
    [(0, [0.0, 0.0, 0.0]), (1000, [1.608, 2.302, -3.91])]
    """

    step: int
    levels: Levels
    logits: Float64

    @property
    def excess(self) -> float:
        """CE − H: the mean of Σ p ln(p/q) over all positions."""
        held = self.levels
        row = rows_of(held.offsets)
        top = np.maximum.reduceat(self.logits, held.offsets[:-1])
        sums = np.add.reduceat(held.tokens * np.exp(self.logits - top[row]), held.offsets[:-1])
        logs = self.logits - (top + np.log(sums))[row]
        inside = held.chances > 0
        terms = np.zeros(len(logs))
        terms[inside] = (held.tokens * held.chances)[inside] * (np.log(held.chances[inside]) - logs[inside])
        return float((held.contexts * held.shares) @ np.add.reduceat(terms, held.offsets[:-1]))


def follow(levels: Levels, steps: Sequence[int], step_size: float, *, exact: int = EXACT) -> Iterator[Moment]:
    """The courses at these rising steps of gradient descent, by its first steps and the flow after them.

    The first ``exact`` steps are taken as they are; if that is all of them, this is training itself.
    """
    largest = step_size * float(levels.shares.max())
    if largest >= EDGE:
        raise UnsupportedOption(
            f"step_size is {step_size:g}, and {step_size:g} times the share of the most frequent context is "
            f"{largest:.3g}; from {EDGE:g} on gradient descent is unstable: give at most "
            f"{EDGE * step_size / largest:.3g}"
        )
    mover = _Mover(levels, step_size)
    logits, now = np.zeros(len(levels.chances)), 0
    for step in steps:
        while now < min(step, exact):
            logits, now = mover.descend(logits), now + 1
        while now < step:
            n_left = np.ceil(np.log(step / now) / np.log1p(GROWTH))
            ahead = (step / now) ** (1.0 / n_left) * now if n_left > 1 else float(step)
            logits, now = mover.flow(logits, ahead - now), ahead
        yield Moment(step, levels, logits)


class _Mover:
    """One step of all courses: of gradient descent, or of its flow."""

    def __init__(self, levels: Levels, step_size: float) -> None:
        self._levels, self._starts = levels, levels.offsets[:-1]
        self._row = rows_of(levels.offsets)
        self._rate = step_size * levels.shares[self._row]

    def descend(self, logits: Float64) -> Float64:
        return logits + self._rate * (self._levels.chances - self._softmax(logits))

    def flow(self, logits: Float64, steps: float) -> Float64:
        """The second-order Rosenbrock method of two stages, γ = 1 − √½, after so many steps."""
        time, chances = self._rate * steps, self._levels.chances
        softmax = self._softmax(logits)
        first = self._solve(softmax, time, chances - softmax)
        ahead = logits + time * first
        second = self._solve(softmax, time, chances - self._softmax(ahead) - 2.0 * first)
        return logits + time * (1.5 * first + 0.5 * second)

    def _solve(self, softmax: Float64, time: Float64, right: Float64) -> Float64:
        """(I + γτ (diag q − q (nq)ᵀ))⁻¹ right, by its diagonal and its one rank; n tokens of each level."""
        stiff = _GAMMA * time
        damped = 1.0 / (1.0 + stiff * softmax)
        mass = self._levels.tokens * softmax * damped
        sums = np.add.reduceat(np.stack([mass * right, mass]), self._starts, axis=1)
        return damped * (right + stiff * softmax * (sums[0] / sums[1])[self._row])

    def _softmax(self, logits: Float64) -> Float64:
        top = np.maximum.reduceat(logits, self._starts)
        raised = np.exp(logits - top[self._row])
        return raised / np.add.reduceat(self._levels.tokens * raised, self._starts)[self._row]
