"""Claims of the second theory: they hold where their assumptions do, and can fail."""

import numpy as np
import pytest

from attomaton.claims.scansnap import SCANSNAP_CLAIMS, ScanEvidence, judge_rates, verify_flow
from attomaton.theories.scansnap.classes import CorpusClasses, draw_linear_classes
from attomaton.theories.scansnap.flow import solve_flow
from attomaton.theories.scansnap.law import Rates, SnapLaw
from attomaton_experiments.scansnap.star import make_star
from tests.claims import scan_campaign


def follow(classes, rates):
    turn = SnapLaw(len(classes), classes.n_tokens, rates).turn
    return solve_flow(classes, rates, np.geomspace(turn / 50, 100 * turn, 300), rtol=1e-9, atol=1e-13)


def several(n_distinct, n_tokens=300):
    """Five classes around one rare common token, with some distinct tokens each."""
    weights = np.zeros((5, n_tokens))
    weights[:, 0] = 0.02
    for number in range(5):
        own = 1 + number * n_distinct
        weights[number, own : own + n_distinct] = np.linspace(0.1, 1, n_distinct)
    first = 1 + 5 * n_distinct
    return CorpusClasses.from_table(first + np.arange(5), first + 5 + np.arange(5), weights)


def statuses(flow):
    return {verdict.claim: verdict.status.value for verdict in verify_flow(flow)}


def test_all_claims_hold_where_their_assumptions_do():
    found = statuses(follow(several(4), Rates(5.0, 5.0 / 400)))
    assert found.pop("several common tokens shrink (2)") == "not_applicable"
    assert set(found.values()) == {"holds"}, found


def test_corollary_2_holds_for_alike_classes_of_one_query():
    found = statuses(follow(draw_linear_classes(1, classes_per_query=3), Rates(10.0, 1.0)))
    assert found["several common tokens shrink (2)"] == "holds"


@pytest.mark.parametrize("n_tokens", [30, 1000, 10**5])
def test_the_times_of_theorem_4_are_those_of_lemma_9(n_tokens):
    """e^{Mh} ≤ M − 1 until t₀', and e^{Mh} ≥ (M − 1) M h from t₀ on."""
    law = SnapLaw(10, n_tokens, Rates(5.0, 0.5))
    scanned = law.exponent(np.linspace(0, 1, 50)[1:] * law.scan_end)
    assert (np.exp(scanned) <= np.minimum(n_tokens - 1, (n_tokens - 1) * scanned * 1.001) + 1).all()
    snapped = law.exponent(np.geomspace(1, 1e6, 50) * law.snap_start)
    assert (np.exp(snapped) >= np.maximum(n_tokens - 1, (n_tokens - 1) * snapped * (1 - 1e-9))).all()
    assert law.turn < law.scan_end < law.snap_start
    assert law.snap_of_slow_growth < law.snap_start


def test_growth_is_judged_in_both_regimes_and_larger_rates_are_earlier():
    verdicts = {
        one.claim: one for one in verify_flow(follow(make_star(10, 1000, common=0.05), Rates(5.0, 0.5)))
    }
    assert verdicts["scanning (4)"].value == pytest.approx(2.0, abs=1e-3)
    assert 2.0 < verdicts["snapping (4)"].value < 2.4
    flows = [follow(make_star(5, 300, common=0.05), Rates(rate, 0.1)) for rate in (1.0, 3.0)]
    assert judge_rates(flows).value == pytest.approx(1 / 3, rel=0.01)
    assert judge_rates(flows[::-1]).fails


def test_no_sound_flow_fails_and_no_broken_one_holds():
    counts, wrong = scan_campaign.play(4, seed=5)
    assert wrong == []
    failed = {claim for kind, claim, status in counts if kind != "sound" and status == "fails"}
    in_time = {"distinct tokens grow (2)", "the common token shrinks (2)", "several common tokens shrink (2)"}
    growth = {"order in time (3)", "scanning (4)", "snapping (4)", "freezing (4)", "larger η_Y: earlier (4)"}
    assert failed == in_time | growth


def test_overlapping_classes_are_outside_most_claims():
    found = statuses(follow(draw_linear_classes(2), Rates(10.0, 1.0)))
    assert found["gain rises (1)"] == found["turn (ours)"] == found["ratios (3)"] == "not_applicable"
    assert found["the common token shrinks (2)"] == "not_applicable"
    assert found["distinct tokens grow (2)"] == "holds"


def test_queries_with_several_classes_are_said():
    verdicts = verify_flow(follow(draw_linear_classes(1, classes_per_query=2), Rates(10.0, 1.0)))
    assert any("several classes" in verdict.reason for verdict in verdicts)


def test_the_law_of_ratios_fails_where_the_decoder_is_not_fast_enough():
    """Its error is that of Y's memory: proportional to η_Z/η_Y, and M times what one might expect."""
    claim = next(one for one in SCANSNAP_CLAIMS if one.name == "ratios (3)")
    errors = [
        claim.judge_anyway(ScanEvidence(follow(several(4), Rates(5.0, 5.0 / ratio)))).value
        for ratio in (10.0, 100.0, 1000.0)
    ]
    assert errors[0] > 0.05
    assert errors[1] / errors[0] == pytest.approx(0.1, abs=0.05)
    assert errors[2] / errors[1] == pytest.approx(0.1, abs=0.05)
