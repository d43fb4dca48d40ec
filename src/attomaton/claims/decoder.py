"""Claims about the decoder's limit (arXiv 2402.18551), judged on runs of gradient descent.

The loss ends at the entropy, or as low as the features allow; W grows along W^mm; logits inside
supports end at the finite part. Two more are ours: t · (CE − limit) → ‖W^mm‖²/η for any features, and the
logits of one-hot contexts at every step.
"""

import math

from attomaton.claims.verdicts import Claim, Judgement, Verdicts
from attomaton.theories.decoder.descent import DecoderTrace
from attomaton.theories.decoder.evidence import DecoderEvidence
from attomaton.theories.decoder.features import solve_decoder

LATE = 200.0
"""η t π p of the rarest next token of any context, from which the laws of large steps are judged."""

SETTLED = 0.02
"""How much ηt(CE − limit), or CE − limit if W^mm is 0, may still change between the last two records."""

ALONG = 0.99
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
    >>> from attomaton.theories.decoder.descent import train_decoder
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
        return "the number of steps is unknown, since the features determine how fast the loss settles"
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
    return Judgement(cosine, ALONG, cosine >= ALONG, meaning)


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
