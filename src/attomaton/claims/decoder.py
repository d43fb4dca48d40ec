"""Claims about the decoder's limit (arXiv 2402.18551), judged on runs of gradient descent.

The loss ends at the entropy, or where the features let it; W grows along W^mm; logits inside supports end at
the finite part. Two more are ours: t · (CE − limit) → ‖W^mm‖²/η for any features, and the logits of one-hot
contexts at every step.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.claims.verdicts import Claim, Judgement, Verdicts
from attomaton.decoder.course import follow, list_levels
from attomaton.decoder.descent import DecoderTrace
from attomaton.decoder.features import EmbeddedLimit, solve_decoder
from attomaton.decoder.law import direct_column, find_finite, squared_norm
from attomaton.tables import Float64

LATE = 200.0
"""η t π p of the rarest next token of any context from which on the laws of large steps are judged."""

SETTLED = 0.02
"""How much ηt(CE − limit) may still change between the last two records."""

ALONG = 0.99
"""The least cosine of what W grows by and W^mm."""

RATE = 0.01
"""How far from 1 ηt(CE − limit)/‖W^mm‖² may be."""

OFF = 0.01
"""How far logits may be from what is foretold, in nats."""

APART = 0.02
"""How far differences inside supports may be from the finite part."""


@dataclass(frozen=True, eq=False)
class DecoderEvidence:
    """A run, and where its limit says that it goes.

    Attributes
    ----------
    trace : DecoderTrace
        The run.
    limit : EmbeddedLimit, optional
        The solved limit, for given features; one-hot contexts have closed forms.
    """

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
        """CE less its limit at each record, shape (n_steps,)."""
        more = 0.0 if self.limit is None else self.limit.loss - self.limit.entropy
        return self.trace.excesses - more

    @property
    def rates(self) -> Float64:
        """ηt(CE − limit)/‖W^mm‖² at each record."""
        return self.trace.step_size * np.array(self.trace.steps) * self.above / self.squared_norm


def verify_decoder(trace: DecoderTrace) -> Verdicts:
    """Hold a run of a decoder against every claim about its limit.

    Examples
    --------
    >>> from attomaton.decoder.descent import train_decoder
    >>> from attomaton.decoder.supports import count_supports
    >>> trace = train_decoder(count_supports([[0, 1, 0, 2, 0, 1]], 1), [1000, 5000], 1.0)
    >>> [(one.claim, one.status.value) for one in verify_decoder(trace)]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('decoder-loss', 'holds'), ('decoder-rate', 'holds'), ('decoder-direction', 'holds'),
     ('decoder-finite', 'holds'), ('decoder-logits', 'holds')]
    """
    limit = None if trace.features is None else solve_decoder(trace.supports, trace.features).expect()
    evidence = DecoderEvidence(trace, limit)
    return Verdicts(claim.check(evidence) for claim in CLAIMS)


def _need_steps(evidence: DecoderEvidence) -> str:
    return "" if evidence.trace.steps[-1] > 0 else "no step was taken"


def _need_growth(evidence: DecoderEvidence) -> str:
    told = "W^mm is 0: no support can be told from the rest, or each is the whole vocabulary"
    return "" if evidence.squared_norm > 1e-12 else told


def _need_late(evidence: DecoderEvidence) -> str:
    """One-hot contexts are late by their rarest next token; others if the rate has settled."""
    trace = evidence.trace
    if evidence.limit is None:
        supports = trace.supports
        least = float((supports.shares[supports.row] * supports.chances).min())
        late = trace.step_size * trace.steps[-1] * least
        told = (
            f"ηtπp of the rarest next token is {late:.3g}, and the law is judged from {LATE:g} on; train on"
        )
        return "" if late >= LATE else told
    if evidence.squared_norm <= 1e-12:
        return ""
    rates = evidence.rates
    if len(rates) < 2:
        return "with given features two records are needed, to tell whether the rate has settled"
    told = f"ηt(CE − limit)/‖W^mm‖² was {rates[-2]:.3f} and is {rates[-1]:.3f}, and has not settled; train on"
    return "" if abs(rates[-1] / rates[-2] - 1) <= SETTLED else told


def _need_two_records(evidence: DecoderEvidence) -> str:
    steps = evidence.trace.steps
    told = "the last two records must be apart by a factor of 2, to tell what W grows by; record earlier, too"
    return "" if len(steps) > 1 and steps[-1] >= 2 * max(steps[-2], 1) else told


def _need_one_hot(evidence: DecoderEvidence) -> str:
    told = "logits at every step are foretold for one-hot contexts, and these have features"
    return "" if evidence.limit is None else told


def _need_ties(evidence: DecoderEvidence) -> str:
    tied = (evidence.trace.supports.sizes > 1).any()
    merged = evidence.limit is not None and (evidence.limit.solved.merged.sum(axis=1) > 1).any()
    return "" if tied or merged else "every support has one token, so that there is no finite part"


def _judge_loss(evidence: DecoderEvidence) -> Judgement:
    trace, above = evidence.trace, float(evidence.above[-1])
    law = evidence.squared_norm / (trace.step_size * trace.steps[-1])
    bound = 2 * law + 1e-3
    name = "entropy" if evidence.limit is None else "limit"
    meaning = f"CE less its {name} at step {trace.steps[-1]:,}; the bound is twice ‖W^mm‖²/(ηt), and 0.001"
    return Judgement(above, bound, above <= bound, meaning)


def _judge_rate(evidence: DecoderEvidence) -> Judgement:
    off = abs(float(evidence.rates[-1]) - 1)
    bound = RATE if evidence.limit is None else 10 * RATE
    meaning = f"ηt(CE − limit)/‖W^mm‖² at step {evidence.trace.steps[-1]:,}, its distance from 1"
    return Judgement(off, bound, off <= bound, meaning)


def _judge_direction(evidence: DecoderEvidence) -> Judgement:
    early, late = evidence.trace.weights[-2:]
    grown, direction = late - early, evidence.direction
    cosine = float((grown * direction).sum() / np.linalg.norm(grown) / np.linalg.norm(direction))
    first, last = evidence.trace.steps[-2:]
    meaning = f"cosine of W^mm and what W grew by from step {first:,} to {last:,}"
    return Judgement(cosine, ALONG, cosine >= ALONG, meaning)


def _judge_finite(evidence: DecoderEvidence) -> Judgement:
    trace = evidence.trace
    logits, supports = trace.logits(-1), trace.supports
    if evidence.limit is None:
        merged = np.zeros(logits.shape, bool)
        merged[supports.row, supports.tokens] = True
        wanted = np.zeros(logits.shape)
        wanted[supports.row, supports.tokens] = find_finite(supports)
    else:
        merged, wanted = evidence.limit.solved.merged, evidence.limit.features @ evidence.limit.finite.T
    off = np.where(merged, logits - wanted, 0.0)
    off = np.where(merged, off - (off.sum(axis=1) / merged.sum(axis=1))[:, None], 0.0)
    worst = float(np.abs(off).max())
    meaning = (
        f"largest distance of a logit from the finite part inside a support, at step {trace.steps[-1]:,}"
    )
    return Judgement(worst, APART, worst <= APART, meaning)


def _judge_logits(evidence: DecoderEvidence) -> Judgement:
    trace = evidence.trace
    levels, level = list_levels(trace.supports)
    worst, at = 0.0, trace.steps[0]
    for record, moment in enumerate(follow(levels, trace.steps, trace.step_size)):
        told = np.repeat(moment.logits[levels.offsets[1:] - 1][:, None], trace.supports.n_tokens, axis=1)
        told[trace.supports.row, trace.supports.tokens] = moment.logits[level]
        off = float(np.abs(trace.logits(record) - told).max())
        worst, at = max((worst, at), (off, trace.steps[record]))
    meaning = f"largest error of a foretold logit at any record, at step {at:,}"
    return Judgement(worst, OFF, worst <= OFF, meaning)


CLAIMS: tuple[Claim[DecoderEvidence], ...] = (
    Claim("decoder-loss", (_need_steps, _need_late), _judge_loss),
    Claim("decoder-rate", (_need_steps, _need_growth, _need_late), _judge_rate),
    Claim("decoder-direction", (_need_growth, _need_two_records, _need_late), _judge_direction),
    Claim("decoder-finite", (_need_ties, _need_late), _judge_finite),
    Claim("decoder-logits", (_need_one_hot,), _judge_logits),
)
"""Three of the paper, and two of ours."""
