"""Compute gradient descent at any step for one-hot contexts.

From W = 0 all tokens outside a support have equal logits, and so do tokens of a support with equal counts. So
a context consists of a few *levels*, each with its probability p, its number of tokens and its logit.
Contexts with equal levels have equal logits at every step, and share one course. With q the softmax,

    L ← L + f(L),   f = ηπ (p − q),

and after many steps L hardly changes from one to the next. So k steps are taken at once, by

    L' − L = f(L) + (k − 1) f(L'),   solved to first order in L' − L,

which is the exact step at k = 1 and stable at any k: its matrix is diagonal plus rank one, so it costs as
much as a softmax. N steps take N/k of these; Richardson extrapolation over eight values of k leads to k = 1.
The last two orders give the error, and N is as large as that allows (:func:`follow_levels`).

A level is stored as x = L − ln p minus its mean under p, a token outside as its logit minus the same mean.
Then CE − H = ln(1 + Σ p (eˣ − 1 − x) + Σ eˣ outside), with no difference of large numbers at any step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.borders import check_ids, check_int64, check_lengths
from attomaton.base.errors import TokenOutOfRange, UnsupportedOption
from attomaton.base.ragged import offsets_of, rows_of
from attomaton.base.tables import Float64, Int64, sum_equal_rows
from attomaton.theories.decoder.supports import Supports

# Number of values of k for the extrapolation to single steps.
EXTRAPOLATIONS = 8

# Maximum difference in a logit between the last two orders.
LOGIT_TOLERANCE = 3e-7

# CE − H of a context below which its digits are dropped.
LEAST_EXCESS = 1e-16

# Levels that are computed together, so that they stay in the processor's cache.
BATCH_LEVELS = 4096

# Maximum number of single steps until many steps at once are accurate.
MOST_SINGLE_STEPS = 100_000

# η π_j at which gradient descent becomes unstable: the curvature is at most ½, and 2/½ is 4.
UNSTABLE = 4.0


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of some courses, as ragged rows: those of a course, ascending in p, and then one with p = 0.

    The last level of a course has all tokens outside the support. The levels of a course begin at its
    ``offsets``, shape (n_courses + 1,). Each level has the probability ``probabilities`` of each of its
    tokens, and their number ``tokens``, shape (n_levels,). Each course has ``contexts`` contexts with equal
    counts, and each of them has the share ``shares`` of the positions, shape (n_courses,).
    """

    offsets: Int64
    probabilities: Float64
    tokens: Float64
    shares: Float64
    contexts: Int64


def find_levels(supports: Supports) -> Levels:
    """The distinct courses of a corpus; contexts with equal counts share one."""
    groups = _group_counts(supports, slice(None))
    once = np.ones(len(groups.offsets) - 1, np.int64)
    if max(groups.counts.max(initial=0), groups.sizes.max(initial=0)) > np.iinfo(np.int32).max:
        return _levels_of(groups, once, supports)  # one course for each context: equal rows must be int32
    # one row for each context, count and size of each group in turn; equal rows become one
    numbers = np.column_stack([groups.counts, groups.sizes]).astype(np.int32).ravel()
    offsets, numbers, contexts = sum_equal_rows(2 * groups.offsets, numbers, once)
    distinct = _CountGroups(offsets // 2, numbers[::2].astype(np.int64), numbers[1::2].astype(np.int64))
    return _levels_of(distinct, contexts, supports)


def list_levels(supports: Supports, number: int | None = None) -> tuple[Levels, Int64]:
    """The course of every context, or of one context, and the level of each (context, token) pair."""
    pairs = slice(None) if number is None else supports.pairs_of(number)
    groups = _group_counts(supports, pairs)
    levels = _levels_of(groups, np.ones(len(groups.offsets) - 1, np.int64), supports)
    n_contexts_before = rows_of(groups.offsets)[groups.of_pair]  # each has one level outside its support
    return levels, groups.of_pair + n_contexts_before


class _CountGroups(NamedTuple):
    """The tokens of each context in groups of equal counts, as ragged rows: one row for each context."""

    offsets: Int64  # where the groups of each context begin, shape (n_contexts + 1,)
    counts: Int64  # ascending within a context, shape (n_groups,)
    sizes: Int64  # number of tokens, shape (n_groups,)
    of_pair: Int64 = np.empty(0, np.int64)  # the group of each (context, token) pair, shape (n_pairs,)


def _group_counts(supports: Supports, pairs: slice) -> _CountGroups:
    # the groups of a range of (context, token) pairs, which are those of consecutive contexts
    order = np.lexsort((supports.counts[pairs], supports.row[pairs]))
    context = supports.row[pairs][order]
    counts = supports.counts[pairs][order]
    begins = (np.diff(context, prepend=-1) != 0) | (np.diff(counts, prepend=-1) != 0)
    starts = np.flatnonzero(begins)
    of_pair = np.empty(len(order), np.int64)
    of_pair[order] = np.cumsum(begins) - 1
    offsets = offsets_of(np.bincount(context[starts] - context[0]))  # contexts counted from the first
    return _CountGroups(offsets, counts[starts], np.diff(np.append(starts, len(order))), of_pair)


# The levels of each row of groups, which stands for a number of ``contexts`` with equal counts.
def _levels_of(groups: _CountGroups, contexts: Int64, supports: Supports) -> Levels:
    starts, ends = groups.offsets[:-1], groups.offsets[1:]
    totals = np.add.reduceat(groups.counts * groups.sizes, starts)
    n_outside = supports.n_tokens - np.add.reduceat(groups.sizes, starts)
    probabilities = groups.counts / totals[rows_of(groups.offsets)]
    return Levels(
        offsets=groups.offsets + np.arange(len(groups.offsets)),  # each row before has one level outside
        probabilities=np.insert(probabilities, ends, 0.0),
        tokens=np.insert(groups.sizes.astype(np.float64), ends, n_outside.astype(np.float64)),
        shares=totals / supports.n_positions,
        contexts=contexts,
    )


@dataclass(frozen=True, eq=False)
class Moment:
    """All courses after ``step`` steps: ``state`` is x of each of the ``levels``, shape (n_levels,)."""

    step: int
    levels: Levels
    state: Float64

    @property
    def logits(self) -> Float64:
        """The logit of each level, shape (n_levels,); the logits of all tokens of a context sum to 0."""
        levels = self.levels
        logits = self.state + _log(levels.probabilities)  # up to one constant for each course
        sums = np.add.reduceat(np.stack([levels.tokens * logits, levels.tokens]), levels.offsets[:-1], axis=1)
        return logits - (sums[0] / sums[1])[rows_of(levels.offsets)]

    @property
    def excess(self) -> float:
        """CE − H: the mean of Σ p ln(p/q) over all positions."""
        levels = self.levels
        slack = _Descent(levels, 0.0).find_slack(self.state)  # at any step size
        return float((levels.contexts * levels.shares) @ np.log1p(slack))


def follow_levels(
    levels: Levels, steps: Sequence[int], step_size: float, *, exact: int = 0
) -> Iterator[Moment]:
    """Follow gradient descent to each of these ascending steps; the first ``exact`` are taken one by one.

    Raises ``UnsupportedOption`` if the step size is unstable, or nearly unstable and steps at once are
    inaccurate.
    """
    largest = step_size * float(levels.shares.max())
    if largest >= UNSTABLE:
        raise UnsupportedOption(
            f"step_size is {step_size:g}, and gradient descent is unstable because {step_size:g} times the "
            f"share of the most frequent context is {largest:.3g}, not below {UNSTABLE:g}; give a step_size "
            f"below {UNSTABLE * step_size / largest:.3g}"
        )
    courses = [_Descent(batch, step_size).follow(steps, exact) for batch in _split_levels(levels)]
    for step, states in zip(steps, zip(*courses, strict=True), strict=True):
        yield Moment(step, levels, np.concatenate(states))


# The courses in batches of about :data:`BATCH_LEVELS` levels, each with its own values of k.
def _split_levels(levels: Levels) -> Iterator[Levels]:
    offsets = levels.offsets
    borders = np.searchsorted(offsets, np.arange(0, int(offsets[-1]), BATCH_LEVELS)).tolist()
    for first, last in pairwise(sorted({*borders, len(levels.shares)})):
        rows = slice(offsets[first], offsets[last])
        yield Levels(
            offsets=offsets[first : last + 1] - offsets[first],
            probabilities=levels.probabilities[rows],
            tokens=levels.tokens[rows],
            shares=levels.shares[first:last],
            contexts=levels.contexts[first:last],
        )


def _log(probabilities: Float64) -> Float64:
    # ln p of each level, and 0 for levels outside the support, whose state has no ln p
    return np.log(np.where(probabilities > 0, probabilities, 1.0))


class _Descent:
    """Gradient descent on a batch of courses, from x of each level to x after one or more steps."""

    def __init__(self, levels: Levels, step_size: float) -> None:
        self._probabilities = levels.probabilities
        self._tokens = levels.tokens
        self._outside = levels.offsets[1:] - 1  # the last level of each course
        self._course = rows_of(levels.offsets)  # the course of each level
        self._step_size = step_size
        self._rate = step_size * levels.shares[self._course]  # ηπ
        self._mass = levels.tokens * levels.probabilities

    def follow(self, steps: Sequence[int], exact: int) -> Iterator[Float64]:
        """The state after each of these ascending steps from W = 0; the first ``exact`` are taken singly."""
        state = self._centre(-_log(self._probabilities))  # equal logits
        now = 0
        allowed = 0.0  # steps that may be taken at once, by the last error
        for step in steps:
            while now < step:
                n_steps = min(int(allowed), step - now)
                if now >= exact and n_steps > EXTRAPOLATIONS:
                    ahead, error = self.extrapolate(state, n_steps)
                    # the error grows like the 8th power of the steps: aim at 0.8 of the largest number
                    growth = 0.8 * (LOGIT_TOLERANCE / max(error, 1e-99)) ** (1 / EXTRAPOLATIONS)
                    allowed = n_steps * min(max(growth, 0.2), 4.0)
                    if error <= LOGIT_TOLERANCE:
                        state = ahead
                        now += n_steps
                        continue
                    if allowed > 2 * EXTRAPOLATIONS:  # try again with fewer
                        continue
                    if now > max(exact, MOST_SINGLE_STEPS):
                        raise UnsupportedOption(
                            f"after {now:,} steps of size {self._step_size:g} logits still oscillate, as "
                            "they do where gradient descent is nearly unstable; give a smaller step_size"
                        )
                # single steps for an eighth of the time so far, then another attempt
                allowed = 2.0 * EXTRAPOLATIONS
                n_single = min(max(EXTRAPOLATIONS, now // 8), step - now)
                for _ in range(n_single):
                    state = self.step(state, 1.0)
                now += n_single
            yield state

    def find_slack(self, state: Float64) -> Float64:
        """Σ p eˣ inside plus Σ eˣ outside, minus 1, of each course, shape (n_courses,)."""
        inside = np.bincount(self._course, self._mass * (np.expm1(state) - state))
        return np.maximum(inside, 0.0) + self._tokens[self._outside] * np.exp(state[self._outside])

    def step(self, state: Float64, n_steps: float) -> Float64:
        """Take ``n_steps`` steps by one implicit step, which is gradient descent itself for a single step."""
        log_scale = -np.log1p(self.find_slack(state))
        # pull = p − q, with q the softmax p eˣ / Σ; outside p is 0 and q is eˣ / Σ
        pull = -self._probabilities * np.expm1(state + log_scale[self._course])
        softmax = self._probabilities - pull
        softmax[self._outside] = np.exp(state[self._outside] + log_scale)
        pull[self._outside] = -softmax[self._outside]
        # with d = L' − L, κ = (k − 1)ηπ q and f(L') = f(L) − ηπ q ∘ (d − q·d): d = (move + κ q·d)/(1 + κ),
        # and taking the mean of both sides under q gives the number q·d (shift)
        stiffness = (n_steps - 1.0) * self._rate * softmax
        damping = 1.0 / (1.0 + stiffness)
        move = n_steps * self._rate * pull
        weight = self._tokens * softmax * damping
        shift = np.bincount(self._course, weight * move) / np.bincount(self._course, weight)
        return self._centre(state + damping * (move + stiffness * shift[self._course]))

    def extrapolate(self, state: Float64, n_steps: int) -> tuple[Float64, float]:
        """The state after ``n_steps`` steps, and an error estimate; infinite if the steps overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            ahead, change = self._richardson(state, n_steps)
            squares = np.bincount(self._course, self._mass * change**2)
        # near the limit CE − H is quadratic in the distance to it: so √slack is the distance to compare with
        relative = np.sqrt(squares / (self.find_slack(state) + LEAST_EXCESS))
        errors = np.append(relative, np.abs(change[self._tokens > 0]))
        return ahead, float(np.nan_to_num(errors, nan=np.inf).max())

    # Take ``n_steps`` by 1, 2 … implicit steps, extrapolated to single steps; return the last change.
    def _richardson(self, state: Float64, n_steps: int) -> tuple[Float64, Float64]:
        orders: list[Float64] = []
        for n_parts in range(1, EXTRAPOLATIONS + 1):
            ahead = state
            for _ in range(n_parts):
                ahead = self.step(ahead, n_steps / n_parts)
            # Neville's scheme: orders[i] and finer[i] have removed i powers of k − 1 from the error
            finer = [ahead]
            for order, coarse in enumerate(orders, 1):
                ratio = (n_steps / (n_parts - order) - 1.0) / (n_steps / n_parts - 1.0)
                finer.append(finer[-1] + (finer[-1] - coarse) / (ratio - 1.0))
            orders = finer
        return self._centre(orders[-1]), orders[-1] - orders[-2]

    # The state minus its mean under p, twice, so that no rounding of it remains.
    def _centre(self, state: Float64) -> Float64:
        for _ in range(2):
            state = state - np.bincount(self._course, self._mass * state)[self._course]
        return state


@dataclass(frozen=True, eq=False, repr=False)
class StoppedDecoder:
    """The logits of every context at one step: of each next token, and one for all tokens that never follow.

    ``supports`` are the next tokens of each context, ``moment`` has the levels at this step, and
    ``level_of_pair`` the level of each (context, next token) pair, shape (n_pairs,). ``step_size`` is η.
    """

    supports: Supports
    moment: Moment
    level_of_pair: Int64
    step_size: float

    def __repr__(self) -> str:
        return f"StoppedDecoder(step {self.moment.step:,} of size {self.step_size:g})"

    @property
    def loss(self) -> float:
        """The mean cross-entropy, in nats per position."""
        return self.supports.entropy + self.moment.excess

    @property
    def pair_logits(self) -> Float64:
        """The logit of each (context, next token) pair, shape (n_pairs,)."""
        return self.moment.logits[self.level_of_pair]

    @property
    def outside_logits(self) -> Float64:
        """The common logit of all tokens outside each support, shape (n_contexts,)."""
        return self.moment.logits[self.moment.levels.offsets[1:] - 1]

    @property
    def weights(self) -> Float64:
        """W, one column per context, shape (n_tokens, n_contexts)."""
        table = np.repeat(self.outside_logits[None], self.supports.n_tokens, axis=0)
        table[self.supports.tokens, self.supports.row] = self.pair_logits
        return table

    def column(self, number: int) -> Float64:
        """The logits of the context with this index, shape (n_tokens,)."""
        pairs = self.supports.pairs_of(number)
        logits = np.full(self.supports.n_tokens, self.outside_logits[number])
        logits[self.supports.tokens[pairs]] = self.moment.logits[self.level_of_pair[pairs]]
        return logits

    def log_probabilities(self, contexts: Any, labels: Any) -> Float64:
        """ln p of ``labels``, shape (n,), after ``contexts`` of token ids, shape (n, width)."""
        supports = self.supports
        width = supports.contexts.shape[1]
        label_ids = check_int64(labels, "labels")
        context_ids = check_int64(np.ravel(contexts), "contexts").reshape(-1, width)
        check_lengths("contexts and labels", contexts=context_ids, labels=label_ids)
        check_ids(label_ids, supports.n_tokens, "a label", error=TokenOutOfRange)
        number, occurs = supports.number_all(context_ids)
        # pairs as keys context · V + token, ascending; a label without a key is outside the support
        keys = supports.row * supports.n_tokens + supports.tokens
        pairs = number * supports.n_tokens + label_ids
        index = np.minimum(np.searchsorted(keys, pairs), len(keys) - 1)
        logits = np.where(keys[index] == pairs, self.pair_logits[index], self.outside_logits[number])
        return np.where(occurs, logits - self._log_sums[number], -np.log(supports.n_tokens))

    # ln Σ e^logit over all tokens, shape (n_contexts,).
    @property
    def _log_sums(self) -> Float64:
        levels = self.moment.levels
        logits = self.moment.logits
        starts = levels.offsets[:-1]
        top = np.maximum.reduceat(logits, starts)
        raised = levels.tokens * np.exp(logits - top[rows_of(levels.offsets)])
        return top + np.log(np.add.reduceat(raised, starts))


def follow_decoder(supports: Supports, steps: Sequence[int], step_size: float) -> Iterator[StoppedDecoder]:
    """The decoder with all contexts after each of these ascending steps."""
    levels, level_of_pair = list_levels(supports)
    for moment in follow_levels(levels, steps, step_size):
        yield StoppedDecoder(supports, moment, level_of_pair, step_size)


def logits_of(supports: Supports, number: int, step: int, step_size: float) -> Float64:
    """The logits of one context after ``step`` steps, computed alone, shape (n_tokens,)."""
    levels, level_of_pair = list_levels(supports, number)
    (moment,) = follow_levels(levels, [step], step_size)
    logits = np.full(supports.n_tokens, moment.logits[-1])
    logits[supports.tokens[supports.pairs_of(number)]] = moment.logits[level_of_pair]
    return logits
