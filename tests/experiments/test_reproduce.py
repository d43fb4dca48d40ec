"""The published experiments, redrawn in small."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from attomaton.claims.verdicts import VerdictStatus
from attomaton.cli import app
from attomaton.errors import UnsupportedOption
from attomaton.experiments.mechanics import train_trials
from attomaton.experiments.run import run_experiment
from attomaton.experiments.settings import list_experiments, read_settings
from attomaton.experiments.write import summarise, write_outcome


@pytest.fixture(scope="module")
def outcome():
    return run_experiment(read_settings("mechanics-global"), trials=5)


def end(outcome, name):
    return outcome.of(name).values[-1]


def test_the_global_experiment_comes_out_as_published(outcome):
    assert outcome.of("correlation").at[-1] == 4000
    assert 0.96 < end(outcome, "correlation").mean() < 0.999
    assert end(outcome, "finite_distance").max() < 0.02
    assert end(outcome, "retrieved").min() > 0.97
    at, predicted = outcome.of("correlation").predicted
    assert at[-1] == 4000
    assert abs(predicted[-1] - end(outcome, "correlation").mean()) < 0.01
    assert {one.status for one in outcome.verdicts} == {VerdictStatus.HOLDS, VerdictStatus.NOT_APPLICABLE}


def test_every_experiment_runs_and_says_what_it_measured():
    for name in list_experiments():
        outcome = run_experiment(read_settings(name), trials=2, seed=1, judged=False)
        assert all(np.isfinite(numbers).all() for numbers in outcome.last().values())
        assert outcome.table().num_rows == sum(one.values.size for one in outcome.measured)
        assert set(outcome.settings.panels) <= {one.name for one in outcome.measured}
        assert set(outcome.settings.published) <= {one.name for one in outcome.measured}


def test_local_directions_are_closer_where_training_goes_astray():
    outcome = run_experiment(read_settings("mechanics-local"), trials=20)
    globally, locally = end(outcome, "correlation"), end(outcome, "local_correlation")
    assert np.median(locally) >= 0.99
    astray = globally < 0.95
    assert astray.sum() >= 10
    assert (locally > globally)[astray].all()
    judged = {one.claim: one.status for one in outcome.verdicts}
    assert judged["local direction"] is VerdictStatus.HOLDS
    assert judged["direction"] is VerdictStatus.NOT_APPLICABLE


def test_plain_descent_is_foretold():
    """Π_fin W → W_fin like 1/t; fast-forward on the curve; the third term within its own error."""
    outcome = run_experiment(read_settings("mechanics-plain"), trials=10, seed=2)
    distance, at = outcome.of("finite_distance").values, outcome.of("finite_distance").at
    first = int(np.abs(at - 1000).argmin())
    slopes = np.log(distance[-1] / distance[first]) / np.log(at[-1] / at[first])
    assert abs(np.median(slopes) + 1) <= 0.1
    assert f"{np.median(slopes):.3f}" in outcome.notes[0]
    judged = {one.claim: one.status for one in outcome.verdicts}
    assert judged["fast-forward"] is VerdictStatus.HOLDS
    assert VerdictStatus.FAILS not in judged.values()


def test_the_path_goes_along_the_graph_svm():
    outcome = run_experiment(read_settings("mechanics-path"), trials=3)
    assert {one.status for one in outcome.verdicts} == {VerdictStatus.HOLDS}
    for measured in outcome.measured:
        if measured.predicted is not None:
            assert abs(measured.predicted[1][-1] - measured.values[-1].mean()) < 0.01


def test_a_trial_is_the_same_alone_and_among_others():
    """Until normalised steps swing around W_fin, where any rounding grows."""
    settings = read_settings("mechanics-global")
    alone, among = (train_trials(settings, trials=trials, seed=0) for trials in (1, 5))
    early = alone.steps <= 1000
    assert np.allclose(alone.weights[early, 0], among.weights[early, 0], rtol=0, atol=1e-12)


def test_figure_numbers_verdicts_and_page_are_written(outcome, tmp_path):
    written = write_outcome(outcome, tmp_path / "out")
    names = {"figure.png", "figure.pdf", "curves.parquet", "verdicts.json", "summary.md"}
    assert {path.name for path in written} == names
    assert all(path.stat().st_size > 500 for path in written)
    page = summarise(outcome)
    assert "0.976 to 0.993" in page
    assert "| direction | holds |" in page
    assert len(json.loads((tmp_path / "out" / "verdicts.json").read_text())) == len(outcome.verdicts)


def test_the_command_prints_published_beside_obtained(tmp_path):
    runner = CliRunner()
    shown = runner.invoke(
        app, ["reproduce", "mechanics-acyclic", "--trials", "2", "--out", str(tmp_path / "run")]
    )
    assert shown.exit_code == 0
    assert "correlation with W_svm" in shown.stdout
    assert (tmp_path / "run" / "summary.md").exists()
    assert "Verdicts" in shown.stdout
    told = runner.invoke(app, ["reproduce", "all-mechanics", "--trials", "2", "--json"])
    assert told.exit_code == 0
    together = json.loads(told.stdout)["experiments"]
    assert {one["experiment"] for one in together} == set(list_experiments())
    assert set(together[0]["measures"]["correlation"]) == {"mean", "min", "max"}
    assert "mechanics-local" in runner.invoke(app, ["reproduce", "list"]).stdout


def test_an_unknown_experiment_is_refused():
    with pytest.raises(UnsupportedOption, match="mechanics-global"):
        read_settings("nothing")
