"""Verdicts that can fail: bounds that no run can widen, and runs that are too short or beyond the edge."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import StepBeyondEdge
from attomaton.claims.evidence import Evidence
from attomaton.claims.limits import solve_trials
from attomaton.claims.mechanics import MECHANICS_CLAIMS, verify
from attomaton.claims.verdicts import VerdictStatus
from attomaton.training.configuration import describe
from attomaton.training.loop import train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import EmbeddingTable, Orthonormal, RandomUnit
from attomaton.training.models.heads import Tied, Untied
from attomaton.training.models.losses import SquaredLoss
from attomaton.training.steps import Adam, Decay, GradientDescent, Muon, SignDescent, SpectralDescent
from tests.claims import campaign

THREE_TO_TWO = at.Samples.from_lists([[0, 1, 2]] * 5, [0, 0, 0, 1, 1])
ONE_EACH = at.Samples.from_lists([[0, 1, 2], [0, 1, 2, 2]], [0, 1])
ONE_QUERY = at.Samples.from_lists([[0, 1, 3], [1, 0, 3], [0, 2, 3], [2, 3]], [0, 1, 0, 2])
ACYCLIC = at.Samples.from_lists([[0, 1, 2, 3], [1, 2, 3], [2, 3], [0, 4, 3]], [0, 1, 2, 0])


def evidence_of(trace):
    return Evidence(trace, tuple(solve_trials(trace)))


def claim(name):
    return next(one for one in MECHANICS_CLAIMS if one.name == name)


def beyond(samples, step_size, *, embeddings=None, steps=1000):
    """A run beyond the edge, on purpose."""
    model = AttentionModel(Orthonormal() if embeddings is None else embeddings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepBeyondEdge)
        return train(samples, model, GradientDescent(step_size), steps=steps)


# the smallest cases


@pytest.mark.parametrize(
    ("samples", "step_size", "scale"),
    [
        (THREE_TO_TWO, 4.2, 1.0),
        (THREE_TO_TWO, 5.0, 1.0),
        (THREE_TO_TWO, 12.0, 1.0),
        (ONE_EACH, 4.04, 1.0),
        (THREE_TO_TWO, 0.262, 2.0),
    ],
)
def test_beyond_the_edge_no_claim_about_the_run_applies(samples, step_size, scale):
    embeddings = EmbeddingTable(scale * np.eye(3)) if scale != 1 else None
    trace = beyond(samples, step_size, embeddings=embeddings)
    for verdict in verify(solve_trials(trace), trace):
        if verdict.claim in campaign.RUN:
            assert verdict.status is VerdictStatus.NOT_APPLICABLE, verdict
            assert f"the step size {step_size:g} is beyond the edge" in verdict.reason
    table = scale * np.eye(3)
    assert (
        f"{2.0 / campaign.find_curvature(samples, table):.6g}"
        in claim("direction").check(evidence_of(trace)).reason
    )


@pytest.mark.parametrize("step", [GradientDescent(1.0), GradientDescent(0.01, normalized=True)])
def test_a_start_that_still_hides_the_direction_is_too_early(step):
    trace = train(ACYCLIC, AttentionModel(Orthonormal(), start=20.0), step, steps=4000)
    for name in ("direction", "local direction"):
        verdict = claim(name).check(evidence_of(trace))
        assert verdict.status is VerdictStatus.TOO_EARLY


@pytest.mark.slow  # trains
def test_no_bound_of_a_total_variation_is_near_one():
    for size in (0.01, 0.05, 0.09, 0.11, 0.5, 3.0):
        trace = train(
            THREE_TO_TWO, AttentionModel(Orthonormal()), GradientDescent(size, normalized=True), steps=2000
        )
        verdict = claim("soft composition").check(evidence_of(trace))
        if size > 0.1:
            assert verdict.status is VerdictStatus.NOT_APPLICABLE
            assert f"length {size:g}" in verdict.reason
        else:
            assert verdict.status is VerdictStatus.HOLDS
            assert verdict.bound < 0.11


@pytest.mark.parametrize("step", [GradientDescent(1.0), GradientDescent(0.02, normalized=True)])
def test_what_happens_in_the_second_half_moves_no_bound(step):
    """Swings, turns and stops after half of the steps change values, never what they are held against."""
    trace = train(ONE_QUERY, AttentionModel(Orthonormal()), step, steps=4000)
    automata = tuple(solve_trials(trace))
    late = trace.steps > trace.steps[-1] / 2
    rng = np.random.default_rng(0)
    noise = rng.normal(size=trace.weights.shape) * late[:, None, None, None]
    plain, shaken = (
        {v.claim: v for v in verify(automata, one)}
        for one in (trace, replace(trace, weights=trace.weights + noise))
    )
    for name in campaign.LIMITS:
        assert plain[name].status is VerdictStatus.HOLDS
        # the way is computed twice, and the last digits of its sums depend on where arrays lie in memory
        assert shaken[name].bound == pytest.approx(plain[name].bound, rel=1e-9)
        assert name == "norm grows" or shaken[name].status is VerdictStatus.FAILS


# a run that must fail each claim


@cache
def sound_run():
    return train(ONE_QUERY, AttentionModel(Orthonormal()), GradientDescent(1.0), steps=4000)


@cache
def turned():
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    return evidence_of(replace(sound_run(), weights=rotation @ sound_run().weights))


@cache
def shifted():
    """0 and 1 tie under query 3: their scores are moved apart, by 0.01 each."""
    along = np.zeros((4, 4))
    along[[0, 1], 3] = 0.01, -0.01
    return evidence_of(replace(sound_run(), weights=sound_run().weights + along))


def stopped():
    """Nothing moves after half of the steps."""
    weights = sound_run().weights.copy()
    weights[len(weights) // 2 :] = weights[len(weights) // 2]
    return evidence_of(replace(sound_run(), weights=weights))


def drifting():
    """What no sample speaks about grows faster than W."""
    weights = sound_run().weights.copy()
    weights[:, 0, 0, 0] += 5.0 * sound_run().steps / sound_run().steps[-1]
    return evidence_of(replace(sound_run(), weights=weights))


def told_otherwise():
    """The run was made with twice the step size that its record tells."""
    about = {**sound_run().about, "step": describe(GradientDescent(0.5))}
    return evidence_of(replace(sound_run(), about=about))


def wrong_direction():
    """The automata say that W goes elsewhere."""
    evidence = evidence_of(sound_run())
    target = replace(evidence.target, directions=np.ascontiguousarray(evidence.directions[:, ::-1]))
    evidence.__dict__["target"] = target
    return evidence


def half_the_margins():
    evidence = evidence_of(sound_run())
    hard = evidence.automata[0].hard
    scores = hard.scores.set_column(
        hard.scores.schema.get_field_index("score"), "score", [hard.scores.column("score").to_numpy() / 2]
    )
    whole = evidence.automata[0]
    tampered = at.Automaton(whole.components, replace(hard, scores=scores), whole.soft, samples=ONE_QUERY)
    return Evidence(evidence.trace, (tampered,))


@cache
def squared():
    model = AttentionModel(RandomUnit(8), loss=SquaredLoss())
    samples = campaign.draw_samples(np.random.default_rng(3), cyclic=True)
    return evidence_of(train(samples, model, NORMAL, steps=1))


def turned_late(step):
    """On data without cycles, all weights after half of the steps are turned by one rotation."""
    trace = train(ACYCLIC, AttentionModel(Orthonormal()), step, steps=4000)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=trace.weights.shape[2:]))[0]
    late = trace.steps > trace.steps[-1] / 2
    weights = np.where(late[:, None, None, None], rotation @ trace.weights, trace.weights)
    return evidence_of(replace(trace, weights=weights))


NORMAL = GradientDescent(0.01, normalized=True)
FAILING = {
    "feasible": half_the_margins,
    "convex": squared,
    "strictly convex inside": squared,
    "norm grows": stopped,
    "direction": turned,
    "finite part": shifted,
    "regularisation path": wrong_direction,
    "hard retrieval": turned,
    "soft composition": shifted,
    "components": stopped,
    "local direction": drifting,
    "third term": told_otherwise,
    "fast-forward": told_otherwise,
    "margin-frobenius": lambda: turned_late(GradientDescent(1.0)),
    "margin-max": lambda: turned_late(SignDescent(0.1, schedule=Decay())),
    "margin-spectral": lambda: turned_late(SpectralDescent(0.1, schedule=Decay())),
}


def test_every_claim_holds_on_the_sound_run():
    """It has a cycle, of which claims about margins do not speak."""
    found = verify(solve_trials(sound_run()), sound_run())
    assert {v.status for v in found if "margin" not in v.claim} == {VerdictStatus.HOLDS}
    assert {v.status for v in found if "margin" in v.claim} == {VerdictStatus.NOT_APPLICABLE}


@pytest.mark.parametrize("name", [one.name for one in MECHANICS_CLAIMS])
def test_each_claim_has_a_run_that_fails_it(name):
    evidence = FAILING[name]()
    judged = claim(name).judge_anyway if name in campaign.CONVEX else claim(name).check
    assert judged(evidence).status is VerdictStatus.FAILS


# a run that each claim does not apply to


@cache
def all_tie():
    samples = at.Samples.from_lists([[0, 1], [0, 1]], [0, 1])
    return train(samples, AttentionModel(Orthonormal()), GradientDescent(1.0), steps=2000)


@cache
def nothing_ties():
    return train(ACYCLIC, AttentionModel(Orthonormal()), GradientDescent(1.0), steps=2000)


@cache
def by_adam():
    return train(ONE_QUERY, AttentionModel(Orthonormal()), Adam(0.01), steps=2000)


@cache
def by_muon():
    return train(ONE_QUERY, AttentionModel(Orthonormal()), Muon(0.1, schedule=Decay()), steps=200)


@cache
def by_squares():
    return train(ONE_QUERY, AttentionModel(Orthonormal(), loss=SquaredLoss()), NORMAL, steps=2000)


@cache
def tiny():
    return train(ONE_QUERY, AttentionModel(Orthonormal()), GradientDescent(1e-6), steps=2000)


@cache
def untied():
    return train(ONE_QUERY, AttentionModel(Orthonormal(), head=Untied(1.0)), NORMAL, steps=2000)


@cache
def dependent():
    return train(ACYCLIC, AttentionModel(RandomUnit(3), head=Tied()), NORMAL, steps=2000)


OUTSIDE = [
    ("feasible", dependent, "dependent"),
    ("feasible", all_tie, "no token precedes"),
    ("convex", by_squares, "SquaredLoss"),
    ("convex", dependent, "dependent"),
    ("strictly convex inside", nothing_ties, "no trial has a cycle"),
    ("norm grows", by_adam, "Adam"),
    ("direction", all_tie, "no token precedes"),
    ("finite part", nothing_ties, "no trial has a cycle"),
    ("regularisation path", by_squares, "cycle"),
    ("regularisation path", untied, "head"),
    ("hard retrieval", all_tie, "no token precedes"),
    ("soft composition", nothing_ties, "no trial has a cycle"),
    ("components", dependent, "dependent"),
    ("components", by_squares, "SquaredLoss"),
    ("local direction", by_adam, "Adam"),
    ("third term", by_adam, "Adam"),
    ("fast-forward", by_adam, "Adam"),
    ("margin-frobenius", by_adam, "see margin-max"),
    ("margin-frobenius", sound_run, "has a cycle (1 tie in trial 0)"),
    ("margin-max", by_adam, "step sizes that shrink"),
    ("margin-max", nothing_ties, "see margin-frobenius"),
    ("margin-spectral", nothing_ties, "see margin-frobenius"),
    ("margin-spectral", by_muon, "cycle"),
]


@pytest.mark.parametrize(("name", "make", "word"), OUTSIDE)
def test_each_claim_has_a_run_that_it_does_not_apply_to(name, make, word):
    verdict = claim(name).check(evidence_of(make()))
    assert verdict.status is VerdictStatus.NOT_APPLICABLE, verdict
    assert word in verdict.reason


@pytest.mark.parametrize("name", ["finite part", "hard retrieval", "soft composition", "local direction"])
def test_steps_that_are_too_small_are_too_early_even_after_a_thousand_times_as_many(name):
    verdict = claim(name).check(evidence_of(tiny()))
    assert verdict.status is VerdictStatus.TOO_EARLY, verdict
    assert verdict.more_steps is None
    assert "2,048,000 steps would still be too few" in verdict.reason


def test_both_tables_name_every_claim():
    names = {one.name for one in MECHANICS_CLAIMS}
    assert set(FAILING) == {name for name, *_ in OUTSIDE} == names


def test_a_trace_without_its_start_is_not_judged():
    whole = sound_run()
    cut = replace(whole, steps=whole.steps[5:], weights=whole.weights[5:], losses=whole.losses[5:])
    for verdict in verify(solve_trials(cut), cut):
        if verdict.claim in campaign.RUN:
            assert verdict.status is VerdictStatus.NOT_APPLICABLE
            assert "W(0) was not recorded" in verdict.reason


@pytest.mark.parametrize(("head", "size", "word"), [("tied", 0.05, "fewer steps"), ("id", 2.0, "not finite")])
def test_normalised_steps_that_outrun_doubles_are_not_judged(head, size, word):
    """A tied head rounds C Eᵀ = I; a token-id head keeps its digits until gradients underflow to zero."""
    model = AttentionModel(RandomUnit(6), **({"head": Tied()} if head == "tied" else {}))
    trace = train(ACYCLIC, model, GradientDescent(size, normalized=True), steps=4000)
    for name in ("norm grows", "direction", "hard retrieval", "local direction"):
        verdict = claim(name).check(evidence_of(trace))
        assert verdict.status is VerdictStatus.NOT_APPLICABLE
        assert word in verdict.reason


def test_the_local_claim_of_log_loss_has_the_bound_of_the_direction():
    evidence = evidence_of(sound_run())
    local, whole = (claim(name).check(evidence) for name in ("local direction", "direction"))
    assert local.bound == pytest.approx(whole.bound)


# a share of the campaign


@pytest.mark.slow  # campaign
@pytest.mark.parametrize("name", ["sound", "broken"])
def test_a_share_of_the_campaign_has_no_wrong_verdict(name):
    sizes = {"fewest": 1000, "most": 2500} if name == "sound" else {}
    _, wrong, kinds = campaign.play(name, 10 if name == "sound" else 16, 17, **sizes)
    assert wrong == []
    assert len(kinds) == (2 if name == "sound" else len(campaign.BROKEN))


def test_roundings_of_a_tied_head_are_not_taken_for_a_fault():
    """Five tokens, a step of half the edge, and curvature above it on the way: roundings grow to 1e-5."""
    from tests.claims.campaign import draw_sound, judge

    case = draw_sound(np.random.default_rng([31415, 221, True]))
    found = {verdict.claim: verdict for verdict in judge(case, every_claim=False)}
    assert found["fast-forward"].status is VerdictStatus.NOT_APPLICABLE
    assert "tied" in found["fast-forward"].reason
