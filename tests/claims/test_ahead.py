"""Claims that are too early: how many more steps they need, and that these are enough."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import attomaton as at
from attomaton.claims.evidence import Evidence
from attomaton.claims.limits import solve_trials
from attomaton.claims.mechanics import MECHANICS_CLAIMS, verify
from attomaton.claims.verdicts import Verdict, Verdicts, VerdictStatus
from attomaton.cli import app
from attomaton.training.loop import Watch, train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import Orthonormal, RandomUnit
from attomaton.training.models.losses import CorrelationLoss
from attomaton.training.steps import Adam, Decay, GradientDescent, SignDescent
from tests.claims.runs import draws

ORDERED = at.synthetic.draw_ordered(np.random.default_rng(0))


def claim(name):
    return next(one for one in MECHANICS_CLAIMS if one.name == name)


def check(name, samples, step, steps, model=None):
    trace = train(samples, model or AttentionModel(Orthonormal()), step, steps=steps)
    return claim(name).check(Evidence(trace, tuple(solve_trials(trace))))


@pytest.mark.slow  # trains and verifies the whole example
def test_readme_run_says_what_training_would_decide_and_what_not(tmp_path):
    """At 1,000 steps of README's example nine of sixteen claims were not judged, all for the same word."""
    run, runner = tmp_path / "run", CliRunner()
    assert runner.invoke(app, ["example", str(tmp_path / "story.txt")]).exit_code == 0
    train_it = ["train", str(tmp_path / "story.txt"), "--out", str(run), "--window", "8", "--steps", "1000"]
    assert runner.invoke(app, train_it).exit_code == 0
    record = json.loads(runner.invoke(app, ["verify", str(run), "--json"]).stdout)
    assert record["summary"] == "7 hold, 9 not judged (5 need more steps, 4 do not apply here)"
    assert record["counts"] == {"holds": 7, "fails": 0, "too_early": 5, "not_applicable": 4}
    more = {one["claim"]: one["more_steps"] for one in record["verdicts"] if one["status"] == "too_early"}
    assert set(more) == {"finite part", "hard retrieval", "soft composition", "components", "local direction"}
    assert (
        300 < more["hard retrieval"] < 2_000 < more["finite part"] < 4_000 < more["local direction"] < 10**5
    )
    for one in record["verdicts"]:
        assert (one["more_steps"] is not None) == (one["status"] == "too_early")


@pytest.mark.slow  # trains several times
@pytest.mark.parametrize("name", ["direction", "finite part", "hard retrieval", "local direction"])
def test_so_many_more_steps_are_enough_and_a_quarter_is_not(name):
    """The run of fewest steps is found by a factor of 2^¼, and given in two digits."""
    step, steps = GradientDescent(0.05), 120
    for samples in draws(2):
        early = check(name, samples, step, steps)
        assert early.status is VerdictStatus.TOO_EARLY
        assert f"needs about {early.more_steps:,} more steps: " in early.reason
        assert check(name, samples, step, steps + early.more_steps).status is VerdictStatus.HOLDS
        assert check(name, samples, step, steps + early.more_steps // 4).status is VerdictStatus.TOO_EARLY


@pytest.mark.parametrize("name", ["finite part", "hard retrieval", "local direction"])
def test_normalised_steps_are_forecast_by_their_pace(name):
    """They are taken to go on as fast as in the second half, so that half as much again is allowed."""
    step, steps = GradientDescent(0.02, normalized=True), 150
    for samples in draws(2):
        early = check(name, samples, step, steps)
        assert early.status is VerdictStatus.TOO_EARLY
        late = check(name, samples, step, int(1.5 * (steps + early.more_steps)))
        assert late.status is VerdictStatus.HOLDS


def test_embedded_trials_have_a_forecast_too():
    model, step = AttentionModel(RandomUnit(8), start=1.0), GradientDescent(0.05)
    early = check("direction", draws(2), step, 100, model)
    assert early.status is VerdictStatus.TOO_EARLY
    late = check("direction", draws(2), step, 100 + early.more_steps, model)
    assert late.status is VerdictStatus.HOLDS


def test_fast_forward_needs_the_steps_to_the_thousandth():
    verdict = check("fast-forward", ORDERED, GradientDescent(1.0), 400)
    assert (verdict.status, verdict.more_steps) == (VerdictStatus.TOO_EARLY, 600)


@pytest.mark.parametrize(
    ("name", "step", "steps"),
    [
        ("margin-max", Adam(0.1, schedule=Decay()), 600),  # β₂ averages over 1,000 steps
        ("margin-max", SignDescent(0.3, schedule=Decay()), 80),
        ("margin-frobenius", GradientDescent(0.3), 120),
    ],
)
def test_margins_are_judged_after_so_many_more_steps(name, step, steps):
    early = check(name, ORDERED, step, steps)
    assert early.status is VerdictStatus.TOO_EARLY
    assert early.more_steps is not None
    assert check(name, ORDERED, step, steps + early.more_steps).status is VerdictStatus.HOLDS


def test_steps_of_one_length_that_are_too_long_are_not_a_matter_of_time():
    verdict = check("margin-max", ORDERED, SignDescent(3.0), 150)
    assert verdict.status is VerdictStatus.NOT_APPLICABLE
    assert "use smaller steps" in verdict.reason


def test_where_no_way_is_computed_no_number_is_given():
    model = AttentionModel(Orthonormal(), loss=CorrelationLoss())
    verdict = check("local direction", draws(1), GradientDescent(0.01), 100, model)
    assert verdict.status is VerdictStatus.TOO_EARLY
    assert verdict.more_steps is None
    assert "the number of further steps is unknown" in verdict.reason
    assert "CorrelationLoss" in verdict.reason


def test_few_records_of_a_long_run_are_not_mended_by_steps():
    trace = train(
        ORDERED, AttentionModel(Orthonormal()), GradientDescent(1.0), steps=400, watch=Watch(every=200)
    )
    verdict = {one.claim: one for one in verify(solve_trials(trace), trace)}["direction"]
    assert verdict.status is VerdictStatus.NOT_APPLICABLE
    assert "3 records are too few" in verdict.reason


def test_the_summary_separates_what_was_not_judged():
    status = VerdictStatus
    held, failed = (Verdict("a", one, 1.0, 1.0, "") for one in (status.HOLDS, status.FAILS))
    early = Verdict("b", status.TOO_EARLY, None, None, "", 10)
    outside = Verdict("c", status.NOT_APPLICABLE, None, None, "")
    assert Verdicts([held] * 5 + [early] * 4 + [outside] * 6).summary == (
        "5 hold, 10 not judged (4 need more steps, 6 do not apply here)"
    )
    assert Verdicts([failed, early]).summary == "1 fails, 1 not judged (1 needs more steps)"
    assert Verdicts([outside]).summary == "0 hold, 1 not judged (1 does not apply here)"
    assert Verdicts([held, failed, failed]).summary == "1 holds, 2 fail"
    assert Verdicts([early, held]).table().column("more_steps").to_pylist() == [10, None]
