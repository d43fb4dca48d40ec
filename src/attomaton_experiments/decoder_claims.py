"""The decoder's limit (arXiv 2402.18551) and training: descent that takes every step, and claims about it.

The loss ends at the entropy, or as low as the features allow; W grows along W^mm; logits inside
supports end at the finite part. Two more are ours: t · (CE − limit) → ‖W^mm‖²/η for any features, and the
logits of one-hot contexts at every step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import real_number, whole_number
from attomaton.base.tables import Float64
from attomaton.claims.verdicts import Claim, Judgement, Verdicts
from attomaton.theories.decoder.closed_form import direct_column, find_finite, squared_norm
from attomaton.theories.decoder.course import follow_decoder
from attomaton.theories.decoder.features import EmbeddedLimit, check_features, law_of, solve_decoder
from attomaton.theories.decoder.supports import Supports


@dataclass(frozen=True, eq=False, repr=False)
class DecoderTrace:
    """A decoder in training.

    Attributes
    ----------
    supports : Supports
        The training contexts and their next tokens.
    features : float64 array, shape (n_contexts, dim), optional
        h_j of each context; None means one-hot.
    step_size : float
        η.
    steps : tuple of int
        The recorded steps, ascending.
    weights : float64 array, shape (n_steps, n_tokens, dim)
        W at each of them; dim is the number of contexts if they are one-hot.
    excesses : float64 array, shape (n_steps,)
        CE − H at each.

    Examples
    --------
    >>> from attomaton.theories.decoder.supports import count_supports
    >>> trace = train_decoder(count_supports([[0, 1, 0, 2]], 1), [1, 10], 0.5)
    >>> trace, trace.excesses.round(4).tolist()
    (DecoderTrace(10 steps of size 0.5, 2 records), [0.5655, 0.2485])
    >>> trace.logits(-1)[0].round(3).tolist()  # of context 0
    [-0.744, 0.372, 0.372]
    """

    supports: Supports
    features: Float64 | None
    step_size: float
    steps: tuple[int, ...]
    weights: Float64
    excesses: Float64

    def __repr__(self) -> str:
        return (
            f"DecoderTrace({self.steps[-1]:,} steps of size {self.step_size:g}, {len(self.steps):,} records)"
        )

    def logits(self, record: int) -> Float64:
        """The logits of all contexts at a record, shape (n_contexts, n_tokens)."""
        return _logits(self.weights[record], self.features)


def train_decoder(
    supports: Supports, steps: Sequence[int], step_size: float = 1.0, *, features: object = None
) -> DecoderTrace:
    """Train a decoder by full-batch gradient descent on its mean cross-entropy, from W = 0.

    Parameters
    ----------
    supports : Supports
        The next tokens of each context.
    steps : sequence of int
        The steps to record, ascending; the last is the length of the run.
    step_size : float
        η.
    features : float array, shape (n_contexts, dim), optional
        h_j of each context; one-hot by default.

    Examples
    --------
    >>> from attomaton.theories.decoder.supports import count_supports
    >>> supports = count_supports([[0, 1, 0, 2]], 1)
    >>> train_decoder(supports, [100], features=[[1.0, 0.0], [1.0, 1.0]]).weights.shape
    (1, 3, 2)
    """
    records = tuple(whole_number(step, "a step", least=0) for step in steps)
    if not records or list(records) != sorted(set(records)):
        raise UnsupportedOption("the steps to record do not increase; give at least one, in ascending order")
    step_size = real_number(step_size, "step_size", above=0)
    table = None if features is None else check_features(features, len(supports))
    law = law_of(supports)
    weights = np.zeros((supports.n_tokens, len(supports) if table is None else table.shape[1]))
    rates, recorded, now = step_size * supports.shares[:, None], list[Float64](), 0
    for step in records:
        for _ in range(step - now):
            pull = (rates * (law - softmax(_logits(weights, table), axis=1))).T
            weights = weights + (pull if table is None else pull @ table)
        recorded.append(weights)
        now = step
    excesses = [find_excess(supports, _logits(matrix, table)) for matrix in recorded]
    return DecoderTrace(supports, table, step_size, records, np.array(recorded), np.array(excesses))


def find_excess(supports: Supports, logits: Float64) -> float:
    """CE − H of logits, shape (n_contexts, n_tokens): the mean over positions of Σ p ln(p/q)."""
    top = logits.max(axis=1)
    sums = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    logs = logits[supports.row, supports.tokens] - sums[supports.row]
    return float(supports.counts @ (np.log(supports.probabilities) - logs)) / supports.n_positions


def _logits(weights: Float64, features: Float64 | None) -> Float64:
    return weights.T if features is None else features @ weights.T


SMALL = 1e-12
"""‖W^mm‖² below which W does not grow."""


@dataclass(frozen=True, eq=False)
class DecoderEvidence:
    """A run, and its solved limit for given features; one-hot contexts have closed forms."""

    trace: DecoderTrace
    limit: EmbeddedLimit | None

    @cached_property
    def direction(self) -> Float64:
        """W^mm, shape (n_tokens, dim)."""
        supports = self.trace.supports
        if self.limit is not None:
            return self.limit.direction
        return np.array([direct_column(supports, number) for number in range(len(supports))]).T

    @property
    def squared_norm(self) -> float:
        """‖W^mm‖²."""
        return self.limit.squared_norm if self.limit is not None else squared_norm(self.trace.supports)

    @cached_property
    def above(self) -> Float64:
        """CE minus its limit at each record, shape (n_steps,)."""
        more = 0.0 if self.limit is None else self.limit.loss - self.limit.entropy
        return self.trace.excesses - more

    @property
    def rates(self) -> Float64:
        """ηt(CE − limit)/‖W^mm‖² at each record."""
        return self.trace.step_size * np.array(self.trace.steps) * self.above / self.squared_norm

    @property
    def lateness(self) -> float:
        """η t π p of the rarest next token of any context, at the last record."""
        trace, supports = self.trace, self.trace.supports
        least = float((supports.shares[supports.row] * supports.probabilities).min())
        return trace.step_size * trace.steps[-1] * least

    @property
    def change(self) -> float:
        """The relative change of the rate since :attr:`earlier`; where W^mm is 0, that of the loss.

        Infinite if there is no such record.
        """
        record = self.earlier
        if record is None:
            return np.inf
        if self.squared_norm <= SMALL:
            return float(abs(self.above[-1] - self.above[record]))
        return float(abs(self.rates[-1] / self.rates[record] - 1))

    @property
    def has_ties(self) -> bool:
        """Whether some support has two tokens, or one that is inseparable from it."""
        merged = self.trace.supports.sizes if self.limit is None else self.limit.solved.merged.sum(axis=1)
        return bool((merged > 1).any())

    @property
    def earlier(self) -> int | None:
        """The last record at no more than half of the last step, if there is one."""
        steps = self.trace.steps
        records = [record for record, step in enumerate(steps) if 0 < 2 * step <= steps[-1]]
        return records[-1] if records else None

    def cosine_since(self, record: int) -> float:
        """The cosine of W^mm and the change of W from a record to the last."""
        grown, direction = self.trace.weights[-1] - self.trace.weights[record], self.direction
        return float((grown * direction).sum() / np.linalg.norm(grown) / np.linalg.norm(direction))

    def miss_finite(self) -> float:
        """The largest distance of a logit from the finite part inside a support, at the last record."""
        logits, supports = self.trace.logits(-1), self.trace.supports
        if self.limit is None:
            merged = np.zeros(logits.shape, bool)
            merged[supports.row, supports.tokens] = True
            expected = np.zeros(logits.shape)
            expected[supports.row, supports.tokens] = find_finite(supports)
        else:
            merged, expected = self.limit.solved.merged, self.limit.features @ self.limit.finite.T
        off = np.where(merged, logits - expected, 0.0)
        centred = off - (off.sum(axis=1) / merged.sum(axis=1))[:, None]
        return float(np.abs(np.where(merged, centred, 0.0)).max())

    def miss_logits(self) -> Float64:
        """The largest error of a predicted logit of one-hot contexts at each record, shape (n_steps,)."""
        trace = self.trace
        stopped = follow_decoder(trace.supports, trace.steps, trace.step_size)
        return np.array(
            [float(np.abs(trace.weights[record] - stop.weights).max()) for record, stop in enumerate(stopped)]
        )


LATE = 200.0
"""η t π p of the rarest next token of any context, from which the laws of large steps are judged."""

SETTLED = 0.02
"""How much ηt(CE − limit), or CE − limit if W^mm is 0, may still change between the last two records."""

LEAST_COSINE = 0.99
"""The smallest cosine of W^mm and the growth of W."""

RATE = 0.01
"""How far from 1 ηt(CE − limit)/‖W^mm‖² may be."""

OFF = 0.01
"""How far logits may be from their forecast, in nats."""

APART = 0.02
"""How far differences inside supports may be from the finite part."""


def verify_decoder(trace: DecoderTrace) -> Verdicts:
    """Test a run of a decoder against every claim about its limit.

    Examples
    --------
    >>> from attomaton.theories.decoder.supports import count_supports
    >>> trace = train_decoder(count_supports([[0, 1, 0, 2, 0, 1]], 1), [1000, 5000], 1.0)
    >>> [(one.claim, one.status.value) for one in verify_decoder(trace)]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('decoder-loss', 'holds'), ('decoder-rate', 'holds'), ('decoder-direction', 'holds'),
     ('decoder-finite', 'holds'), ('decoder-logits', 'holds')]
    """
    limit = None if trace.features is None else solve_decoder(trace.supports, trace.features).expect()
    evidence = DecoderEvidence(trace, limit)
    return Verdicts(claim.check(evidence) for claim in CLAIMS)


def _need_growth(evidence: DecoderEvidence) -> str:
    reason = "W^mm is 0: no support can be separated from the rest, or each is the whole vocabulary"
    return "" if evidence.squared_norm > 1e-12 else reason


def _need_late(evidence: DecoderEvidence) -> str:
    """One-hot contexts are late by their rarest next token; others if the rate, or the loss, has settled."""
    late, change = evidence.lateness, evidence.change
    if evidence.limit is None:
        return "" if late >= LATE else f"ηtπp of the rarest next token is {late:.3g}, below {LATE:g}"
    reason = f"the loss above its limit, times t, has changed by {change:.1%} since half of the steps"
    return "" if change <= SETTLED else reason


def _count_to_late(evidence: DecoderEvidence, *_: object) -> int | str:
    """The steps until one-hot contexts are late, which is proportional to steps."""
    if evidence.limit is not None:
        return (
            "the number of further steps is unknown, since the features determine how fast the loss settles"
        )
    steps = evidence.trace.steps[-1]
    return math.ceil(steps * LATE / evidence.lateness) - steps


def _need_earlier(evidence: DecoderEvidence) -> str:
    reason = "no record is at or before half of the last step, to measure the growth of W; record earlier too"
    return "" if evidence.earlier is not None else reason


def _need_one_hot(evidence: DecoderEvidence) -> str:
    return "" if evidence.limit is None else "logits at every step are predicted for one-hot contexts only"


def _need_ties(evidence: DecoderEvidence) -> str:
    return "" if evidence.has_ties else "every support has one token, so there is no finite part"


def _judge_loss(evidence: DecoderEvidence) -> Judgement:
    trace, above = evidence.trace, float(evidence.above[-1])
    bound = 2 * evidence.squared_norm / (trace.step_size * trace.steps[-1]) + 1e-3
    meaning = f"CE minus its limit at step {trace.steps[-1]:,}; the bound is twice ‖W^mm‖²/(ηt), and 0.001"
    return Judgement(above, bound, above <= bound, meaning)


def _judge_rate(evidence: DecoderEvidence) -> Judgement:
    off = abs(float(evidence.rates[-1]) - 1)
    bound = RATE if evidence.limit is None else 10 * RATE
    meaning = f"ηt(CE − limit)/‖W^mm‖² at step {evidence.trace.steps[-1]:,}, its distance from 1"
    return Judgement(off, bound, off <= bound, meaning)


def _judge_direction(evidence: DecoderEvidence) -> Judgement:
    record, steps = evidence.earlier or 0, evidence.trace.steps
    cosine = evidence.cosine_since(record)
    meaning = f"cosine of W^mm and the growth of W from step {steps[record]:,} to {steps[-1]:,}"
    return Judgement(cosine, LEAST_COSINE, cosine >= LEAST_COSINE, meaning)


def _judge_finite(evidence: DecoderEvidence) -> Judgement:
    worst, last = evidence.miss_finite(), evidence.trace.steps[-1]
    meaning = f"largest distance of a logit from the finite part within a support, at step {last:,}"
    return Judgement(worst, APART, worst <= APART, meaning)


def _judge_logits(evidence: DecoderEvidence) -> Judgement:
    missed = evidence.miss_logits()
    worst = int(missed.argmax())
    meaning = f"largest error of a predicted logit at any record, at step {evidence.trace.steps[worst]:,}"
    return Judgement(float(missed[worst]), OFF, bool(missed[worst] <= OFF), meaning)


_LATE = ((_need_late,), _count_to_late)

CLAIMS: tuple[Claim[DecoderEvidence], ...] = (
    Claim("decoder-loss", (), _judge_loss, *_LATE),
    Claim("decoder-rate", (_need_growth,), _judge_rate, *_LATE),
    Claim("decoder-direction", (_need_growth, _need_earlier), _judge_direction, *_LATE),
    Claim("decoder-finite", (_need_ties,), _judge_finite, *_LATE),
    Claim("decoder-logits", (_need_one_hot,), _judge_logits),
)
"""Three claims of the paper, and two of ours."""
