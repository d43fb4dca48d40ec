"""Judge the claims of "Scan and Snap" (arXiv 2305.16380) on the flow of Y and Z itself.

Numbers in brackets are those of the claims on the theory page. t₀' and t₀ are the times of Theorem 4, which
says nothing about the time between them. Turn and snap are our own times.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.tables import Float64
from attomaton.claims.verdicts import Claim, Judgement, Verdict, Verdicts
from attomaton.theories.scansnap.assumptions import largest_overlap
from attomaton.theories.scansnap.flow import LayerFlow
from attomaton.theories.scansnap.landmarks import find_snap, find_turn, measure_freezing, measure_gain
from attomaton.theories.scansnap.law import SnapLaw

# Relative tolerance of times compared with their formulas.
TIME_TOLERANCE = 0.25

# Tolerance of fitted powers compared with the claimed ones.
POWER_TOLERANCE = 0.1

# The law of ratios may be off by this share of 2 (z_l − z_l(0)).
RATIO_TOLERANCE = 0.05

# Classes are weakly correlated if K times the largest f_n·f_n' is below this.
WEAK_OVERLAP = 0.1

# η_Y/η_Z from which the decoder counts as faster.
FAST_DECODER = 10.0

# Rounding of ratios that are compared with their bounds, and of probabilities, relative to the largest.
RATIO_ROUNDING, PROBABILITY_ROUNDING = 1e-9, 1e-12


@dataclass(frozen=True, eq=False)
class ScanEvidence:
    """A flow, and the quantities that the claims need, computed once."""

    flow: LayerFlow

    @cached_property
    def law(self) -> SnapLaw:
        classes = self.flow.reduced.classes
        return SnapLaw(len(classes), classes.n_tokens, self.flow.rates)

    @cached_property
    def gain(self) -> Float64:
        """Gain averaged over the classes, shape (n_times,)."""
        return measure_gain(self.flow).mean(axis=1)

    @cached_property
    def turn(self) -> float:
        return find_turn(self.flow.times, self.gain)

    @cached_property
    def snap(self) -> float:
        """The time at which growth has slowed to half of its steepness."""
        return find_snap(self.flow.times, self.growth, self.turn)

    @cached_property
    def score_moves(self) -> Float64:
        """Changes of the scores since the previous recorded time, shape (n_times, n_queries, n_keys)."""
        return np.diff(self.flow.scores, axis=0, prepend=0.0)

    @cached_property
    def growth(self) -> Float64:
        """B averaged over the classes, shape (n_times,)."""
        return self.flow.growth.mean(axis=1)


def verify_flow(flow: LayerFlow) -> Verdicts:
    """Test a flow against claims 1 to 4 of "Scan and Snap".

    Its times should range from a fiftieth of the turn (the time of the largest gain) to 100 turns.

    Examples
    --------
    >>> from attomaton.theories import Rates, draw_linear_classes, solve_flow
    >>> flow = solve_flow(draw_linear_classes(n_queries=5), Rates(5.0, 0.5), np.geomspace(0.1, 100, 50))
    >>> verify_flow(flow)[2].status.words
    'holds'
    """
    evidence = ScanEvidence(flow)
    return Verdicts(claim.check(evidence) for claim in SCANSNAP_CLAIMS)


def _need_weak(evidence: ScanEvidence) -> str:
    classes = evidence.flow.reduced.classes
    weight = len(classes) * largest_overlap(classes)
    reason = f"classes overlap: K max f_n·f_n' is {weight:.2g}, above {WEAK_OVERLAP:g}"
    return reason if weight > WEAK_OVERLAP else ""


def _need_fast_decoder(evidence: ScanEvidence) -> str:
    ratio = evidence.flow.rates.ratio
    return f"η_Y/η_Z = {ratio:g} is below {FAST_DECODER:g}" if ratio < FAST_DECODER else ""


# A class's own term in Y is M − 1 times the others', so the effect of attention must not reach it.
def _need_decoder_beyond_vocabulary(evidence: ScanEvidence) -> str:
    ratio, size = evidence.flow.rates.ratio, evidence.law.n_tokens
    return f"η_Y/η_Z = {ratio:g} is below M = {size:,}" if ratio < size else ""


def _need_own_queries(evidence: ScanEvidence) -> str:
    reduced = evidence.flow.reduced
    alone = len(reduced.queries) == len(reduced.classes)
    return "" if alone else "some query has several classes, which share its scores"


def _need_one_common(evidence: ScanEvidence) -> str:
    n_common = int((~evidence.flow.reduced.is_distinct.any(axis=0)).sum())
    return "" if n_common == 1 else f"the number of common tokens is {n_common}, not 1"


def _need_distinct(evidence: ScanEvidence) -> str:
    each_has = evidence.flow.reduced.is_distinct.any(axis=1).all()
    return "" if each_has else "some class has no distinct token"


def _need_several_distinct(evidence: ScanEvidence) -> str:
    several = (evidence.flow.reduced.is_distinct.sum(axis=1) > 1).any()
    return "" if several else "no class has two distinct tokens to compare"


# The assumptions of Corollary 2: a single query, alike classes, and equally probable common tokens.
def _need_symmetry(evidence: ScanEvidence) -> str:
    reduced = evidence.flow.reduced
    probabilities = reduced.probabilities
    is_common = ~reduced.is_distinct.any(axis=0)
    if len(reduced.queries) > 1:
        return f"there are {len(reduced.queries)} queries, not one"
    if int(is_common.sum()) < 2:
        return "fewer than two tokens are common"
    common = probabilities[:, is_common]
    distinct = np.sort(probabilities * reduced.is_distinct, axis=1)  # each class has its own distinct tokens
    alike = np.allclose(common, common[:1]) and np.allclose(distinct, distinct[:1])
    alike = alike and np.allclose(reduced.classes.shares, 1 / len(probabilities))
    return "" if alike else "classes differ in their probabilities, so they are not symmetric"


def _need_times(evidence: ScanEvidence) -> str:
    # claims about powers of t need times far before and far after the turn
    first, last = evidence.flow.times[[0, -1]] / evidence.law.turn
    if first > 1 / 20 or last < 50:
        return f"times range from {first:.2g} to {last:.2g} turns; the claim needs 1/20 to 50"
    return ""


def _judge_near(value: float, expected: float, tolerance: float, meaning: str) -> Judgement:
    return Judgement(value, expected, abs(value - expected) <= tolerance, meaning)


def fit_power(times: Float64, values: Float64) -> float:
    """Slope of ln(values) over ln(times), by least squares."""
    return float(np.polyfit(np.log(times), np.log(values), 1)[0])


def _judge_rise(evidence: ScanEvidence) -> Judgement:
    early = evidence.flow.times < evidence.law.turn / 5
    power = fit_power(evidence.flow.times[early], evidence.gain[early])
    meaning = "power of t with which the gain rises before a fifth of the turn"
    return _judge_near(power, 1.0, POWER_TOLERANCE, meaning)


def _judge_fall(evidence: ScanEvidence) -> Judgement:
    late = evidence.flow.times > 10 * evidence.law.turn
    clock = evidence.law.clock(evidence.flow.times[late])  # η_Y t/K
    gain = evidence.gain[late]
    power = fit_power(clock, gain / np.log(evidence.law.n_tokens * clock))
    printed = fit_power(clock, gain / np.log(clock))
    meaning = (
        f"power of t in γ/ln(M η_Y t/K) after 10 turns; with the ln(η_Y t/K) of Theorem 1 it is {printed:.3f}"
    )
    return _judge_near(power, -1.0, POWER_TOLERANCE, meaning)


def _judge_distinct(evidence: ScanEvidence) -> Judgement:
    reduced = evidence.flow.reduced
    least = float(evidence.score_moves[:, reduced.query_index][:, reduced.is_distinct].min())
    return Judgement(least, 0.0, least > 0, "smallest move of a distinct token's score between two records")


def _judge_common(evidence: ScanEvidence) -> Judgement:
    reduced = evidence.flow.reduced
    is_common = reduced.probabilities.astype(bool) & ~reduced.is_distinct
    most = float(evidence.score_moves[:, reduced.query_index][:, is_common].max())
    return Judgement(most, 0.0, most < 0, "largest move of a common token's score between two records")


# For each class, P(l | n) of its distinct tokens and their scores, shape (n_times, n_distinct).
def _list_distinct(evidence: ScanEvidence) -> Iterator[tuple[Float64, Float64]]:
    reduced = evidence.flow.reduced
    scores = evidence.flow.scores
    for row, is_distinct in enumerate(reduced.is_distinct):
        yield reduced.probabilities[row, is_distinct], scores[:, reduced.query_index[row], is_distinct]


# Claim: at each record, of two tokens of a class the more probable one has the larger score.
def _judge_order(evidence: ScanEvidence) -> Judgement:
    least = np.inf
    n_pairs = 0
    for probabilities, scores in _list_distinct(evidence):
        order = np.argsort(probabilities, kind="stable")
        # neighbours in this order, unless equally probable up to rounding
        rises = np.diff(probabilities[order]) > PROBABILITY_ROUNDING * probabilities.max(initial=0.0)
        leads = np.diff(scores[:, order], axis=1)[:, rises]
        least = min(least, float(leads.min(initial=np.inf)))
        n_pairs += leads.shape[1]
    meaning = (
        f"smallest lead in score of a token over the next less probable token of its class; {n_pairs} pairs"
    )
    return Judgement(least, 0.0, least > 0, meaning)


# Compare ln r(t) − ln r(0) with 2 (z_l(t) − z_l(0)) for the leading token l and others of its class.
def _judge_ratios(evidence: ScanEvidence) -> Judgement:
    worst = 0.0
    for probabilities, scores in _list_distinct(evidence):
        final = scores[-1]
        leading = probabilities.argmax()
        lesser = probabilities < probabilities[leading]
        # r = (f_l/f_l')² − 1, with f ∝ P(· | n) e^z and z(0) = 0
        before = (probabilities[leading] / probabilities[lesser]) ** 2
        after = before * np.exp(2 * (final[leading] - final[lesser]))
        errors = np.log((after - 1) / (before - 1)) - 2 * final[leading]
        worst = max(worst, float(np.abs(errors).max(initial=0.0)) / (2 * float(final[leading])))
    meaning = "largest error of ln r_{l/l'}(t), as a share of 2 (z_l − z_l(0))"
    return Judgement(worst, RATIO_TOLERANCE, worst <= RATIO_TOLERANCE, meaning)


# Claim: f²(0) B ≤ z_l ≤ B for the dominant token l of each class.
def _judge_bounds(evidence: ScanEvidence) -> Judgement:
    flow = evidence.flow
    reduced = flow.reduced
    distinct = reduced.probabilities * reduced.is_distinct
    dominant = distinct.argmax(axis=1)  # the most probable distinct token of each class
    ratio = flow.scores[-1][reduced.query_index, dominant] / flow.growth[-1]
    floor = (distinct.max(axis=1) / np.linalg.norm(reduced.probabilities, axis=1)) ** 2
    inside = bool((ratio >= floor - RATIO_ROUNDING).all() and (ratio <= 1 + RATIO_ROUNDING).all())
    meaning = (
        f"½ ln χ/B of the dominant token, smallest over the classes; claimed: f²(0) = {floor.min():.3g} to 1"
    )
    return Judgement(float(ratio.min()), float(floor.min()), inside, meaning)


def _judge_scanning(evidence: ScanEvidence) -> Judgement:
    early = evidence.flow.times < evidence.law.scan_end / 5
    power = fit_power(evidence.flow.times[early], np.expm1(4 * evidence.growth[early]))
    meaning = "power of t with which e^{4B} − 1 grows before t₀'/5, where t₀' = K ln M/η_Y"
    return _judge_near(power, 2.0, 2 * POWER_TOLERANCE, meaning)


def _judge_snapping(evidence: ScanEvidence) -> Judgement:
    law = evidence.law
    late = evidence.flow.times > 3 * law.snap_start
    times = evidence.flow.times[late]
    log_clock = np.log(law.n_tokens * law.clock(times))  # ln(M η_Y t/K)
    growth = np.expm1(4 * evidence.growth[late])  # e^{4B} − 1
    plain = fit_power(times, growth)
    meaning = (
        f"power of ln(M η_Y t/K) with which e^{{4B}} − 1 grows after 3 t₀, t₀ = 2 (1 + ω₁) K ln M/η_Y; the "
        f"power of t is {plain:.2g}"
    )
    return _judge_near(fit_power(log_clock, growth), 2.0, 2 * TIME_TOLERANCE, meaning)


def _judge_freezing(evidence: ScanEvidence) -> Judgement:
    law = evidence.law
    flow = evidence.flow
    moved = measure_freezing(flow)
    # with growth like ln² t, the last doubling has the share 2 ln 2/ln(M η_Y t/K)
    limit = 2 * np.log(2) / np.log(law.n_tokens * law.clock(flow.times[-1]))
    early = moved[np.searchsorted(flow.times, law.scan_end / 5)]
    meaning = (
        "share of the whole movement of attention that falls into the last doubling of the time; bound: "
        f"twice 2 ln 2/ln(M η_Y t/K), which tends to 0; at t₀'/5 it is {early:.2g}"
    )
    return Judgement(float(moved[-1]), float(2 * limit), bool(moved[-1] <= 2 * limit), meaning)


def _judge_turn(evidence: ScanEvidence) -> Judgement:
    before = evidence.turn / evidence.law.scan_end
    meaning = f"turn / ((K/η_Y)(w + 1/(w − 1))), w = 1 + W((M − 1)/e); the turn is at {before:.3f} t₀'"
    return _judge_near(evidence.turn / evidence.law.turn, 1.0, TIME_TOLERANCE, meaning)


def _judge_snap(evidence: ScanEvidence) -> Judgement:
    before = evidence.snap / evidence.law.snap_start
    meaning = f"snap / ((K/η_Y)(w + w/(w − 2))), w = ln M + ln(w/(w − 2)); the snap is at {before:.3f} t₀"
    return _judge_near(evidence.snap / evidence.law.snap_of_slow_growth, 1.0, TIME_TOLERANCE, meaning)


def judge_rates(flows: Sequence[LayerFlow]) -> Verdict:
    """Test whether growth slows down earlier at a larger η_Y.

    ``flows`` are at least two flows that differ in η_Y alone, sorted by η_Y.

    Examples
    --------
    >>> from attomaton.theories import Rates, draw_linear_classes, solve_flow
    >>> classes, times = draw_linear_classes(n_queries=5), np.geomspace(0.1, 1000, 100)
    >>> judge_rates([solve_flow(classes, Rates(rate, 0.5), times) for rate in (2.0, 5.0)]).status.words
    'holds'
    """
    snaps = np.array([ScanEvidence(flow).snap for flow in flows])
    largest = float((snaps[1:] / snaps[:-1]).max())
    pairs = zip(flows, snaps.tolist(), strict=True)
    listed = ", ".join(f"{flow.rates.decoder:g}: {snap:.4g}" for flow, snap in pairs)
    meaning = f"largest ratio of the snaps at two neighbouring η_Y, the larger to the smaller; snaps {listed}"
    return Judgement(largest, 1.0, largest < 1.0, meaning).about("larger η_Y: earlier (4)")


_RATIOS = (_need_distinct, _need_own_queries, _need_weak, _need_decoder_beyond_vocabulary)
_GROWTH = (_need_weak, _need_times, _need_distinct, _need_own_queries, _need_fast_decoder)

# Claims 1 to 4; claim 5 compares runs with different rates: see figure 6 of the experiments.
SCANSNAP_CLAIMS: tuple[Claim[ScanEvidence], ...] = (
    Claim("gain rises (1)", (_need_weak, _need_times), _judge_rise),
    Claim("gain falls (1)", (_need_weak, _need_times), _judge_fall),
    Claim("distinct tokens grow (2)", (_need_distinct, _need_own_queries), _judge_distinct),
    Claim("the common token shrinks (2)", (_need_one_common, _need_own_queries), _judge_common),
    Claim("several common tokens shrink (2)", (_need_symmetry,), _judge_common),
    Claim("ratios (3)", _RATIOS, _judge_ratios),
    Claim("dominant token (3)", (_need_distinct, _need_own_queries), _judge_bounds),
    Claim("order in time (3)", (_need_several_distinct, _need_own_queries), _judge_order),
    Claim("scanning (4)", _GROWTH, _judge_scanning),
    Claim("snapping (4)", _GROWTH, _judge_snapping),
    Claim("freezing (4)", _GROWTH, _judge_freezing),
    Claim("turn (ours)", (_need_weak, _need_times), _judge_turn),
    Claim("snap (ours)", _GROWTH, _judge_snap),
)
