"""The published experiments, redrawn in small."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from attomaton.base.errors import UnsupportedOption
from attomaton.claims.verdicts import VerdictStatus
from attomaton.cli import app
from attomaton_experiments.mechanics import measure_training, train_trials
from attomaton_experiments.outcome import render_outcome
from attomaton_experiments.page import write_page
from attomaton_experiments.path import measure_path
from attomaton_experiments.run import KINDS, run_experiment
from attomaton_experiments.settings import ALL, find_experiments, list_experiments, read_settings


@pytest.fixture(scope="module")
def outcome():
    return measure_training(read_settings("mechanics-global", trials=5))


def end(outcome, name):
    return outcome.measured[name].values[-1]


@pytest.mark.slow  # an experiment
def test_the_global_experiment_comes_out_as_published(outcome):
    assert outcome.measured["correlation"].at[-1] == 4000
    assert 0.96 < end(outcome, "correlation").mean() < 0.999
    assert end(outcome, "finite_distance").max() < 0.02
    assert end(outcome, "retrieved").min() > 0.97
    at, predicted = outcome.measured["correlation"].predicted
    assert at[-1] == 4000
    assert abs(predicted[-1] - end(outcome, "correlation").mean()) < 0.01
    assert {one.status for one in outcome.verdicts} == {VerdictStatus.HOLDS, VerdictStatus.NOT_APPLICABLE}


@pytest.mark.slow  # experiments
def test_every_experiment_runs_and_says_what_it_measured():
    for name in find_experiments(ALL):
        settings = read_settings(name, trials=2, seed=1)
        if settings["kind"] not in ("training", "path"):
            continue  # tested by themselves
        path = settings["kind"] == "path"
        outcome = measure_path(settings) if path else measure_training(settings, judged=False)
        assert all(np.isfinite(numbers).all() for numbers in outcome.last().values())
        assert outcome.table().num_rows == sum(one.values.size for one in outcome.measured.values())
        assert {*settings.get("panels", ()), *settings.get("published", ())} <= set(outcome.measured)


@pytest.mark.slow  # an experiment
def test_local_directions_are_closer_where_training_goes_astray():
    outcome = measure_training(read_settings("mechanics-local", trials=20))
    globally, locally = end(outcome, "correlation"), end(outcome, "local_correlation")
    assert np.median(locally) >= 0.99
    astray = globally < 0.95
    assert astray.sum() >= 10
    assert (locally > globally)[astray].all()
    judged = {one.claim: one.status for one in outcome.verdicts}
    assert judged["local direction"] is VerdictStatus.HOLDS
    assert judged["direction"] is VerdictStatus.NOT_APPLICABLE


@pytest.mark.slow  # an experiment
def test_plain_descent_is_predicted():
    """Π_fin W → W_fin like 1/t; fast-forward on the curve; the third term within its own error."""
    outcome = measure_training(read_settings("mechanics-plain", trials=10, seed=2))
    distance, at = outcome.measured["finite_distance"].values, outcome.measured["finite_distance"].at
    first = int(np.abs(at - 1000).argmin())
    slopes = np.log(distance[-1] / distance[first]) / np.log(at[-1] / at[first])
    assert abs(np.median(slopes) + 1) <= 0.1
    assert f"{np.median(slopes):.3f}" in outcome.notes[0]
    judged = {one.claim: one.status for one in outcome.verdicts}
    assert judged["fast-forward"] is VerdictStatus.HOLDS
    assert VerdictStatus.FAILS not in judged.values()


@pytest.mark.slow  # an experiment
def test_loss_and_head_apart(tmp_path):
    """Log-loss of the mass is the only cell without a trial astray; a stored run is read again."""
    settings = read_settings("mechanics-losses", trials=10, work=tmp_path)
    settings["temperatures"], settings["step"]["steps"] = [1.0], 1000
    page = run_experiment(settings)
    astray = {(row[0], row[1]): int(row[3].split()[0]) for row in page.record["tables"][0]["rows"]}
    assert astray["log", "tied"] == 0
    assert astray["squared", "untied"] >= 8 > astray["squared", "tied"]
    assert astray["cross-entropy, temperature 1", "untied"] >= 4
    judged = {one.claim: one.status for one in page.verdicts}
    assert judged["convex, log, tied"] is judged["direction, log, tied"] is VerdictStatus.HOLDS
    assert VerdictStatus.FAILS not in judged.values()
    assert run_experiment(settings).numbers.equals(page.numbers)


@pytest.mark.slow  # an experiment
def test_components_emerge_when_forecast(tmp_path):
    settings = read_settings("mechanics-components", trials=5, work=tmp_path)
    page = run_experiment(settings)
    assert [one.status for one in page.verdicts] == [VerdictStatus.HOLDS]
    rows = page.numbers.to_pylist()
    assert all(row["recovered"] == row["components"] for row in rows if row["forecast"])
    assert sum(row["forecast"] for row in rows) > 50
    assert not any(row["forecast"] for row in rows if row["step"] == 2)
    assert run_experiment(settings).numbers.equals(page.numbers)


@pytest.mark.slow  # an experiment
def test_the_path_goes_along_the_graph_svm():
    outcome = measure_path(read_settings("mechanics-path", trials=3))
    assert {one.status for one in outcome.verdicts} == {VerdictStatus.HOLDS}
    for measured in outcome.measured.values():
        if measured.predicted is not None:
            assert abs(measured.predicted[1][-1] - measured.values[-1].mean()) < 0.01


@pytest.mark.slow  # an experiment
def test_a_trial_is_the_same_alone_and_among_others():
    """Until normalised steps swing around W_fin, where any rounding grows."""
    alone, among = (train_trials(read_settings("mechanics-global", trials=trials)) for trials in (1, 5))
    early = alone.steps <= 1000
    assert np.allclose(alone.weights[early, 0], among.weights[early, 0], rtol=0, atol=1e-12)


@pytest.mark.slow  # an experiment
def test_figure_numbers_verdicts_and_page_are_written(outcome, tmp_path):
    page = render_outcome(outcome)
    written = write_page(page, tmp_path / "out")
    names = {"figure.png", "figure.pdf", "curves.parquet", "verdicts.json", "summary.md"}
    assert {path.name for path in written} == names
    assert all(path.stat().st_size > 500 for path in written)
    assert "0.976 to 0.993" in page.text
    assert "| direction | holds |" in page.text
    assert len(json.loads((tmp_path / "out" / "verdicts.json").read_text())) == len(outcome.verdicts)


@pytest.mark.slow  # an experiment
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
    assert {one["experiment"] for one in together} == set(find_experiments(ALL))
    assert set(next(one for one in together if "measures" in one)["measures"]["correlation"]) == {
        "mean",
        "min",
        "max",
    }
    assert "mechanics-local" in runner.invoke(app, ["reproduce", "list"]).stdout


def test_an_unknown_experiment_is_refused_with_the_names_of_all():
    with pytest.raises(UnsupportedOption, match=r"mechanics-global.*text-shakespeare.*scan-snap-meeting"):
        read_settings("nothing")


def test_every_experiment_has_something_that_runs_it(tmp_path):
    names = list_experiments()
    assert len(names) == 33
    assert {read_settings(name, data=tmp_path)["kind"] for name in names} == set(KINDS)
