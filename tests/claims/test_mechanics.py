import numpy as np
import pytest

import attomaton as at
from attomaton.claims.convexity import draw_curvature
from attomaton.claims.diagnosis import diagnose
from attomaton.claims.evidence import Evidence
from attomaton.claims.limits import solve_trials
from attomaton.claims.measures import cyclic_axes
from attomaton.claims.mechanics import MECHANICS_CLAIMS, verify
from attomaton.claims.verdicts import VerdictStatus
from attomaton.training.loop import train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import EmbeddingTable, Equicorrelated, Orthonormal, RandomUnit
from attomaton.training.models.heads import Tied, TokenId, Untied
from attomaton.training.models.losses import CorrelationLoss, SquaredLoss
from attomaton.training.steps import Adam, GradientDescent
from tests.claims.runs import draws, global_run, local_run, plain_run

NORMAL = GradientDescent(0.01, normalized=True)


MARGINS = {"margin-frobenius", "margin-max", "margin-spectral"}
"""Claims about data without cycles."""


def evidence_of(trace):
    return Evidence(trace, tuple(solve_trials(trace)))


def statuses(trace):
    return {verdict.claim: verdict.status for verdict in verify(solve_trials(trace), trace)}


def claim(name):
    return next(one for one in MECHANICS_CLAIMS if one.name == name)


def test_the_published_setting_holds():
    verdicts = verify(solve_trials(global_run()), global_run())
    assert {v.claim for v in verdicts if v.status is VerdictStatus.NOT_APPLICABLE} == {
        "third term",
        "fast-forward",
        *MARGINS,
    }
    assert not [v for v in verdicts if v.status is VerdictStatus.FAILS]
    assert all(v.reason for v in verdicts)


def test_plain_descent_from_zero_holds_to_the_third_term():
    verdicts = verify(solve_trials(plain_run()), plain_run())
    others = [verdict for verdict in verdicts if verdict.claim not in MARGINS]
    assert all(verdict.status is VerdictStatus.HOLDS for verdict in others)


def test_another_loss_and_an_untied_head_get_a_local_verdict_only():
    found = statuses(local_run())
    assert found["local direction"] is VerdictStatus.HOLDS
    assert found["feasible"] is VerdictStatus.HOLDS
    others = {status for name, status in found.items() if name not in ("local direction", "feasible")}
    assert others == {VerdictStatus.NOT_APPLICABLE}


@pytest.mark.slow  # long training
def test_without_its_assumptions_the_global_direction_fails():
    verdict = claim("direction").judge_anyway(evidence_of(local_run()))
    assert verdict.status is VerdictStatus.FAILS
    assert verdict.value < 0.95


@pytest.mark.slow  # a thousand points
@pytest.mark.parametrize("model", [AttentionModel(RandomUnit(8)), AttentionModel(RandomUnit(8), head=Tied())])
def test_log_loss_is_convex_at_a_thousand_points(model):
    evidence = evidence_of(train(draws(5), model, NORMAL, steps=1))
    found = draw_curvature(evidence)
    assert len(found.least) == 1000
    assert claim("convex").check(evidence).status is VerdictStatus.HOLDS
    assert claim("strictly convex inside").check(evidence).status is VerdictStatus.HOLDS


@pytest.mark.parametrize("head", [TokenId(), Tied()])
def test_rounding_is_no_negative_curvature(head):
    """Where attention has settled, and where a tied head sums large terms to a small one."""
    samples = at.Samples.from_lists([[0, 1, 2, 3], [2, 1, 3, 0], [1, 2, 0, 3]], [0, 1, 3])
    table = 2.0 * np.eye(4, 6) + np.outer([2, 2, 2, 2], [0, 0, 0, 0, 1, 1])
    model = AttentionModel(EmbeddingTable(table), head=head)
    assert draw_curvature(evidence_of(train(samples, model, NORMAL, steps=1))).least.min() > -1e-12


@pytest.mark.parametrize("loss", [SquaredLoss(), CorrelationLoss()])
def test_other_losses_are_not_convex(loss):
    evidence = evidence_of(train(draws(5), AttentionModel(RandomUnit(8), loss=loss), NORMAL, steps=1))
    verdict = claim("convex").judge_anyway(evidence)
    assert verdict.status is VerdictStatus.FAILS
    assert verdict.value < -0.1
    assert claim("convex").check(evidence).status is VerdictStatus.NOT_APPLICABLE


def test_the_path_claim_takes_other_losses_on_acyclic_data():
    corpora = draws(3, draw=at.synthetic.draw_acyclic)
    for loss in (SquaredLoss(), CorrelationLoss()):
        trace = train(corpora, AttentionModel(RandomUnit(8), loss=loss), NORMAL, steps=1)
        assert claim("regularisation path").check(evidence_of(trace)).status is VerdictStatus.HOLDS
    trace = train(draws(2), AttentionModel(RandomUnit(8), loss=SquaredLoss()), NORMAL, steps=1)
    verdict = claim("regularisation path").check(evidence_of(trace))
    assert verdict.status is VerdictStatus.NOT_APPLICABLE
    assert "cycle" in verdict.reason


@pytest.mark.parametrize(
    ("model", "step", "name", "word"),
    [
        (AttentionModel(RandomUnit(8)), Adam(0.01), "direction", "Adam"),
        (AttentionModel(RandomUnit(8), rank=2, start=1.0), NORMAL, "direction", "factors"),
        (AttentionModel(RandomUnit(8)), GradientDescent(0.1, momentum=0.9), "norm grows", "momentum"),
        (AttentionModel(RandomUnit(8), head=Untied(1.0)), NORMAL, "direction", "head"),
        (AttentionModel(RandomUnit(4), head=Tied()), NORMAL, "convex", "dependent"),
        (AttentionModel(RandomUnit(4)), NORMAL, "feasible", "dependent"),
        (AttentionModel(RandomUnit(8), start=1.0), NORMAL, "third term", "normalised"),
    ],
)
def test_a_missing_assumption_is_named(model, step, name, word):
    evidence = evidence_of(train(draws(2), model, step, steps=5))
    verdict = claim(name).check(evidence)
    assert verdict.status is VerdictStatus.NOT_APPLICABLE
    assert word in verdict.reason
    assert verdict.value is None


@pytest.mark.slow  # training
def test_a_run_that_goes_elsewhere_fails():
    """The weights of every record turned by the same rotation: norms grow, the direction is wrong."""
    from dataclasses import replace

    trace = global_run()
    turned = replace(trace, weights=np.ascontiguousarray(trace.weights[..., ::-1, :]))
    found = {v.claim: v.status for v in verify(solve_trials(trace), turned)}
    for name in ("direction", "finite part", "hard retrieval", "soft composition"):
        assert found[name] is VerdictStatus.FAILS


@pytest.mark.slow  # long training
@pytest.mark.parametrize("wrong", ["shifted", "swinging"])
def test_a_finite_part_that_settles_elsewhere_or_nowhere_fails(wrong):
    from dataclasses import replace

    trace = train(draws(3), AttentionModel(RandomUnit(8)), GradientDescent(1.0), steps=4000)
    automata = solve_trials(trace)
    assert claim("finite part").check(Evidence(trace, tuple(automata))).status is VerdictStatus.HOLDS
    axis = cyclic_axes(trace, [one.components for one in automata])[:, 0].reshape(3, 8, 8)
    swing = np.ones(len(trace.steps)) if wrong == "shifted" else np.cos(trace.steps)
    moved = replace(trace, weights=trace.weights + 1e-2 * swing[:, None, None, None] * axis)
    assert claim("finite part").check(Evidence(moved, tuple(automata))).status is VerdictStatus.FAILS


def test_weights_that_are_not_finite_hold_nothing():
    from dataclasses import replace

    trace = plain_run()
    broken = trace.weights.copy()
    broken[100:] = np.nan
    automata = solve_trials(trace)
    found = {v.claim: v.status for v in verify(automata, replace(trace, weights=broken))}
    about_data = {"feasible", "convex", "strictly convex inside", "regularisation path"}
    assert {name for name, status in found.items() if status is VerdictStatus.HOLDS} == about_data
    assert any("not finite" in line for line in diagnose(replace(trace, weights=broken), automata))


@pytest.mark.parametrize("step", [GradientDescent(1.0), NORMAL])
@pytest.mark.parametrize("steps", [0, 1])
def test_a_run_that_hardly_began_is_not_judged(steps, step):
    trace = train(draws(1), AttentionModel(Orthonormal()), step, steps=steps)
    automata = solve_trials(trace)
    assert not [v for v in verify(automata, trace) if v.fails]
    diagnose(trace, automata)


def test_one_automaton_serves_all_trials_of_its_corpus():
    samples = at.synthetic.draw_cyclic(np.random.default_rng(3))
    model = AttentionModel(Equicorrelated(8, 0.3))
    trace = train(samples, model, GradientDescent(0.02, normalized=True), steps=1500, trials=2)
    assert {v.status for v in verify(at.learn(samples), trace)} <= {
        VerdictStatus.HOLDS,
        VerdictStatus.TOO_EARLY,
        VerdictStatus.NOT_APPLICABLE,
    }
    other = at.synthetic.draw_cyclic(np.random.default_rng(4))
    with pytest.raises(at.AttomatonError, match="learned from other samples"):
        verify(at.learn(other), trace)


def test_diagnoses_name_the_cause():
    good = global_run()
    assert diagnose(good, solve_trials(good)) == []
    model = AttentionModel(Orthonormal())
    cases = {
        "hardly fallen": train(draws(2), model, GradientDescent(1e-5), steps=50),
        "too large": train(draws(2), model, GradientDescent(3.0, normalized=True), steps=300),
        "most attention on tokens": local_run(),
        "share 2 dimensions": train(draws(2), AttentionModel(RandomUnit(2)), GradientDescent(1.0), steps=300),
    }
    for words, trace in cases.items():
        assert any(words in line for line in diagnose(trace, solve_trials(trace))), words
