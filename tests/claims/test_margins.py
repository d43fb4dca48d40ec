"""Margins: measured against their definition, bounds that are proved, verdicts in an optimiser's own norm."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.claims.evidence import Evidence
from attomaton.claims.limits import solve_trials
from attomaton.claims.margin_bounds import bound_margin, bound_share
from attomaton.claims.margin_claims import MARGIN_CLAIMS
from attomaton.claims.margins import MARGIN_NORMS, measure_margins, own_norm, read_differences
from attomaton.claims.mechanics import verify
from attomaton.claims.verdicts import VerdictStatus
from attomaton.training.loop import train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import Orthonormal, RandomUnit
from attomaton.training.steps import Adam, Decay, GradientDescent, Muon, SignDescent, SpectralDescent
from tests.drawn import components_of, embeddings_for
from tests.strategies import sample_sets

FALL = Decay()
STEPS = {
    "margin-frobenius": [GradientDescent(1.0), GradientDescent(0.3, normalized=True, schedule=FALL)],
    "margin-max": [SignDescent(0.1, schedule=FALL), SignDescent(0.02), Adam(0.1, (0.9, 0.99), 0.0, FALL)],
    "margin-spectral": [SpectralDescent(0.1, schedule=FALL), Muon(0.1, schedule=FALL)],
}


def ordered(seeds, **sizes):
    return [at.synthetic.draw_ordered(np.random.default_rng(seed), **sizes) for seed in seeds]


def run(step, samples, embeddings=None, steps=2000):
    return train(samples, AttentionModel(embeddings or Orthonormal()), step, steps=steps)


def judged(trace):
    evidence = Evidence(trace, tuple(solve_trials(trace)))
    return {claim.name: claim.check(evidence) for claim in MARGIN_CLAIMS}


@given(sample_sets(max_tokens=6), st.integers(0, 10), st.booleans())
def test_differences_are_those_of_the_definition(samples, seed, embedded):
    components = components_of(samples)
    table = (
        embeddings_for(seed, samples.n_tokens, samples.n_tokens + 1) if embedded else np.eye(samples.n_tokens)
    )
    weights = np.random.default_rng(seed).normal(size=(2, table.shape[1], table.shape[1]))
    known = []
    for row in components.edges.rows.to_pylist():
        query, winner, loser = row["query"], row["winner"], row["loser"]
        if components.component(query, winner) != components.component(query, loser):
            known.append([(table[winner] - table[loser]) @ one @ table[query] for one in weights])
    np.testing.assert_allclose(
        read_differences(components, table, weights), np.array(known).reshape(-1, 2).T, atol=1e-12
    )


@pytest.mark.parametrize(("name", "step"), [(name, step) for name, steps in STEPS.items() for step in steps])
def test_each_optimiser_is_judged_in_its_own_norm(name, step):
    trace = run(step, ordered(range(3)))
    found = judged(trace)
    assert found[name].status is VerdictStatus.HOLDS, found[name]
    assert 0 < found[name].bound <= found[name].value <= 1
    assert name == f"margin-{own_norm(step)}"
    for other in set(found) - {name}:
        assert found[other].status is VerdictStatus.NOT_APPLICABLE
        assert f"see {name}" in found[other].reason


@pytest.mark.parametrize("step", [SignDescent(0.1, schedule=FALL), SpectralDescent(0.3, schedule=FALL)])
def test_embeddings_may_be_any_independent_ones(step):
    found = judged(run(step, ordered(range(3)), RandomUnit(8)))[f"margin-{own_norm(step)}"]
    assert found.status is VerdictStatus.HOLDS, found


def test_no_share_exceeds_the_best():
    trace = run(SignDescent(0.1, schedule=FALL), ordered(range(4)), steps=500)
    automata = solve_trials(trace)
    for norm in MARGIN_NORMS:
        assert measure_margins(trace, automata, norm).share.max() <= 1 + 1e-6


@pytest.mark.slow  # long training
@pytest.mark.parametrize(
    "step",
    [
        SignDescent(0.1, schedule=FALL),
        SignDescent(0.05),
        GradientDescent(0.2, normalized=True),
        GradientDescent(0.5, normalized=True, schedule=Decay(0.25)),
        SpectralDescent(0.1, schedule=FALL),
    ],
    ids=str,
)
def test_what_is_proved_is_reached_in_every_trial(step):
    """Bounds follow from the first half, and hold for each of 12 trials at several lengths."""
    for steps in (200, 600, 1500):
        trace = run(step, ordered(range(12)), steps=steps)
        evidence = Evidence(trace, tuple(solve_trials(trace)))
        norm = own_norm(step)
        share = measure_margins(trace, evidence.automata, norm).share[-1]
        asked = bound_margin(evidence, norm).bound
        assert np.all(share >= asked)
    assert np.isfinite(asked).all()


def test_longer_runs_are_asked_for_more():
    sizes = {"best": 1.0, "reach": 2.0, "loss": 1e-3, "odds": 1.0}
    paces = 0.1 / np.sqrt(np.arange(1, 40_001))
    asked = [
        bound_share(
            paces[half : 2 * half],
            norm=paces[:half].sum(),
            **{**sizes, "loss": np.exp(-paces[:half].sum())},
        )
        for half in (100, 1_000, 10_000, 20_000)
    ]
    assert asked == sorted(asked)
    assert asked[-1] > 0.9
    assert bound_share(np.zeros(0), norm=1.0, **sizes) == -np.inf


def halve(step):
    """A schedule that a stored run cannot call again."""
    return 0.5 ** (step // 300)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Adam(0.01), "step sizes that shrink"),
        (Adam(1.0, (0.9, 0.9), 1e-8, FALL), "is not small compared with the final gradients"),
        (GradientDescent(0.1, momentum=0.5), "without momentum"),
        (GradientDescent(0.1, normalized=True, schedule=halve), "of which only the name is stored"),
        (SignDescent(0.1, schedule=halve), "of which only the name is stored"),
    ],
)
def test_what_theory_leaves_open_is_measured_and_not_judged(step, said):
    name = f"margin-{own_norm(step)}"
    verdict = judged(run(step, ordered(range(2)), steps=600))[name]
    assert verdict.status is VerdictStatus.NOT_APPLICABLE
    assert said in verdict.reason
    assert "measured: " in verdict.reason


def test_a_run_shorter_than_what_the_step_averages_over_is_too_early():
    verdict = judged(run(Adam(0.1, schedule=FALL), ordered(range(2)), steps=600))["margin-max"]
    assert (verdict.status, verdict.more_steps) == (VerdictStatus.TOO_EARLY, 1400)
    assert "averages over about 1,000 steps" in verdict.reason
    assert "measured: " in verdict.reason


def test_cycles_are_told_with_what_was_measured():
    samples = at.synthetic.draw_ordered(np.random.default_rng(0), cyclic=True)
    verdict = judged(run(SignDescent(0.1, schedule=FALL), samples, steps=300))["margin-max"]
    assert verdict.status is VerdictStatus.NOT_APPLICABLE
    assert "has a cycle" in verdict.reason
    assert "measured: " in verdict.reason


def test_trials_with_cycles_are_left_out_beside_others():
    cyclic = at.synthetic.draw_ordered(np.random.default_rng(0), cyclic=True)
    verdict = judged(run(SignDescent(0.1, schedule=FALL), [*ordered([1]), cyclic]))["margin-max"]
    assert verdict.status is VerdictStatus.HOLDS
    assert "1 of 1 trials reach their bound; trials not judged: 1" in verdict.reason


def test_verify_of_a_run_by_adam_names_the_margin_and_its_number():
    samples = ordered([0])[0]
    trace = run(Adam(0.1, schedule=FALL), samples, steps=4000)
    found = {one.claim: one for one in verify(at.learn(samples), trace)}["margin-max"]
    assert found.status is VerdictStatus.HOLDS
    assert found.value > 0.7
    assert "share of the best margin in the max norm" in found.reason
