"""The claims of "Scan and Snap" (arXiv 2305.16380), judged on the flow of Y and Z itself.

Numbers in brackets are those of the claims on the theory page. Where a printed formula was corrected, the
verdict compares the flow with the corrected one and reports what the printed one gives.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.tables import Float64
from attomaton.claims.verdicts import Claim, Judgement, Verdicts
from attomaton.theories.scansnap.assumptions import largest_overlap
from attomaton.theories.scansnap.flow import LayerFlow, find_snap, find_turn, fit_power, measure_gain
from attomaton.theories.scansnap.law import SnapLaw

NEAR = 0.25
"""Relative tolerance of times compared with their formulas."""

POWER = 0.1
"""Tolerance of fitted powers compared with the claimed ones."""

BENT = 0.05
"""The law of ratios may be off by this share of 2 (z_l − z_l(0))."""

WEAK = 0.1
"""Classes are weakly correlated if K times the largest f_n·f_n' is below this."""

FAST = 10.0
"""η_Y/η_Z from which the decoder counts as faster."""


@dataclass(frozen=True, eq=False)
class ScanEvidence:
    """A flow, and the quantities that the claims need, computed once."""

    flow: LayerFlow

    @cached_property
    def law(self) -> SnapLaw:
        """The closed form for the same numbers of classes and tokens."""
        classes = self.flow.reduced.classes
        return SnapLaw(len(classes), classes.n_tokens, self.flow.rates)

    @cached_property
    def gain(self) -> Float64:
        """Mean gain over the classes, shape (n_times,)."""
        return measure_gain(self.flow).mean(axis=1)

    @cached_property
    def turn(self) -> float:
        """The time of the largest gain."""
        return find_turn(self.flow.times, self.gain)

    @cached_property
    def growth(self) -> Float64:
        """Mean of B over the classes, shape (n_times,)."""
        return self.flow.growth.mean(axis=1)


def verify_flow(flow: LayerFlow) -> Verdicts:
    """Test a flow against claims 1 to 4; times should range from t₀'/50 to 100 t₀'.

    Examples
    --------
    >>> from attomaton.theories.scansnap.classes import CorpusClasses
    >>> weights = 0.95 * np.eye(10, 1000, k=1)  # ten classes: a distinct token each, and token 0 in common
    >>> weights[:, 0] = 0.05
    >>> star = CorpusClasses.from_table(np.arange(11, 21), np.arange(21, 31), weights)
    >>> from attomaton.theories.scansnap.flow import solve_flow
    >>> from attomaton.theories.scansnap.law import Rates
    >>> times = np.geomspace(0.1, 1000, 300)
    >>> verdicts = verify_flow(solve_flow(star, Rates(5.0, 0.5), times))
    >>> [verdict.claim for verdict in verdicts if verdict.status.value != "holds"]  # η_Y/η_Z is below M
    ['ratios (3)']
    """
    evidence = ScanEvidence(flow)
    return Verdicts(claim.check(evidence) for claim in CLAIMS)


def _need_weak(evidence: ScanEvidence) -> str:
    classes = evidence.flow.reduced.classes
    weight = len(classes) * largest_overlap(classes)
    return f"classes overlap: K max f_n·f_n' = {weight:.2g}, above {WEAK:g}" if weight > WEAK else ""


def _need_fast_decoder(evidence: ScanEvidence) -> str:
    ratio = evidence.flow.rates.ratio
    return f"η_Y/η_Z = {ratio:g} is below {FAST:g}" if ratio < FAST else ""


def _need_decoder_beyond_vocabulary(evidence: ScanEvidence) -> str:
    """The class's own term in Y is M − 1 times the others', so the effect of attention must not reach it."""
    ratio, size = evidence.flow.rates.ratio, evidence.law.n_tokens
    return f"η_Y/η_Z = {ratio:g} is below M = {size:,}" if ratio < size else ""


def _need_own_queries(evidence: ScanEvidence) -> str:
    reduced = evidence.flow.reduced
    alone = len(reduced.queries) == len(reduced.classes)
    return "" if alone else "some query has several classes, which share its scores"


def _need_one_common(evidence: ScanEvidence) -> str:
    common = int((~evidence.flow.reduced.is_own.any(axis=0)).sum())
    return "" if common == 1 else f"{common} tokens are common, not one"


def _need_distinct(evidence: ScanEvidence) -> str:
    owned = evidence.flow.reduced.is_own.any(axis=1).all()
    return "" if owned else "some class has no distinct token"


def _need_times(evidence: ScanEvidence) -> str:
    first, last = evidence.flow.times[[0, -1]] / evidence.law.turn
    if first > 1 / 20 or last < 50:
        return f"times range from {first:.2g} to {last:.2g} of t₀'; the claim needs 1/20 to 50"
    return ""


def _judge_rise(evidence: ScanEvidence) -> Judgement:
    early = evidence.flow.times < evidence.law.turn / 5
    power = fit_power(evidence.flow.times[early], evidence.gain[early])
    return Judgement(power, 1.0, abs(power - 1) <= POWER, "power of t at which the gain rises before t₀'/5")


def _judge_fall(evidence: ScanEvidence) -> Judgement:
    late = evidence.flow.times > 10 * evidence.law.turn
    clock, gain = evidence.law.clock(evidence.flow.times[late]), evidence.gain[late]
    power = fit_power(clock, gain / np.log(evidence.law.n_tokens * clock))
    printed = fit_power(clock, gain / np.log(clock))
    meaning = (
        f"power of t of γ/ln(M η_Y t/K) after 10 t₀'; with the printed ln(η_Y t/K) it would be {printed:.3f}"
    )
    return Judgement(power, -1.0, abs(power + 1) <= POWER, meaning)


def _judge_distinct(evidence: ScanEvidence) -> Judgement:
    reduced, scores = evidence.flow.reduced, evidence.flow.scores[-1]
    lowest = float(scores[reduced.query_of][reduced.is_own].min())
    return Judgement(lowest, 0.0, lowest > 0, "smallest score of a distinct token at the end")


def _judge_common(evidence: ScanEvidence) -> Judgement:
    shared = ~evidence.flow.reduced.is_own.any(axis=0)
    highest = float(evidence.flow.scores[-1][:, shared].max())
    return Judgement(highest, 0.0, highest < 0, "largest score of the common token at the end")


def _judge_ratios(evidence: ScanEvidence) -> Judgement:
    """ln r(t) − ln r(0) against 2 (z_l(t) − z_l(0)), for the leading token and the others of its class."""
    reduced, scores = evidence.flow.reduced, evidence.flow.scores[-1]
    worst = 0.0
    for number, own in enumerate(reduced.is_own):
        law, lifted = reduced.law[number, own], scores[reduced.query_of[number], own]
        lead = law.argmax()
        others = law < law[lead]
        before = (law[lead] / law[others]) ** 2
        after = before * np.exp(2 * (lifted[lead] - lifted[others]))
        bent = np.log((after - 1) / (before - 1)) - 2 * lifted[lead]
        worst = max(worst, float(np.abs(bent).max(initial=0.0)) / (2 * float(lifted[lead])))
    return Judgement(
        worst, BENT, worst <= BENT, "largest error of ln r_{l/l'}(t), as a share of 2 (z_l − z_l(0))"
    )


def _judge_bounds(evidence: ScanEvidence) -> Judgement:
    """f²(0) B ≤ z_l ≤ B for the dominant token."""
    reduced, grown = evidence.flow.reduced, evidence.flow.growth[-1]
    own = reduced.law * reduced.is_own
    lead = own.argmax(axis=1)
    lifted = evidence.flow.scores[-1][reduced.query_of, lead] / grown
    floor = (own.max(axis=1) / np.linalg.norm(reduced.law, axis=1)) ** 2
    inside = bool((lifted >= floor - 1e-9).all() and (lifted <= 1 + 1e-9).all())
    meaning = (
        f"½ ln χ/B of the dominant token, smallest over the classes; claimed: f²(0) = {floor.min():.3g} to 1"
    )
    return Judgement(float(lifted.min()), float(floor.min()), inside, meaning)


def _judge_turn(evidence: ScanEvidence) -> Judgement:
    share = evidence.turn / evidence.law.turn_as_printed
    exact = evidence.turn / evidence.law.turn
    meaning = f"t₀' / (K ln M/η_Y); t₀' / ((K/η_Y)(w + 1/(w − 1))), w = 1 + W((M − 1)/e), is {exact:.4f}"
    return Judgement(share, 1.0, abs(share - 1) <= NEAR, meaning)


def _judge_snap(evidence: ScanEvidence) -> Judgement:
    snap = find_snap(evidence.flow.times, evidence.growth, evidence.turn)
    share = snap / evidence.law.snap_of_slow_growth
    printed = snap / evidence.law.snap_as_printed
    meaning = f"t₀ / ((K/η_Y)(w + w/(w − 2))), w = ln M + ln(w/(w − 2)); t₀ / (2 K ln M/η_Y) is {printed:.3f}"
    return Judgement(share, 1.0, abs(share - 1) <= NEAR, meaning)


CLAIMS: tuple[Claim[ScanEvidence], ...] = (
    Claim("gain rises (1)", (_need_weak, _need_times), _judge_rise),
    Claim("gain falls (1)", (_need_weak, _need_times), _judge_fall),
    Claim("distinct tokens grow (2)", (_need_distinct, _need_own_queries), _judge_distinct),
    Claim("the common token shrinks (2)", (_need_one_common, _need_own_queries), _judge_common),
    Claim(
        "ratios (3)",
        (_need_distinct, _need_own_queries, _need_weak, _need_decoder_beyond_vocabulary),
        _judge_ratios,
    ),
    Claim("dominant token (3)", (_need_distinct, _need_own_queries), _judge_bounds),
    Claim("turn (4)", (_need_weak, _need_times), _judge_turn),
    Claim("snap (4)", (_need_weak, _need_times, _need_own_queries, _need_fast_decoder), _judge_snap),
)
"""Claims 1 to 4; claim 5 compares runs with different rates: see figure 6 of the experiments."""
