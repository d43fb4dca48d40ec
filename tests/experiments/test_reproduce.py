"""The published experiments, redrawn in small."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from attomaton.cli import app
from attomaton.errors import UnsupportedOption
from attomaton.experiments.run import MEASURES, run_experiment
from attomaton.experiments.settings import list_experiments, read_settings
from attomaton.experiments.write import summarise, write_outcome


@pytest.fixture(scope="module")
def outcome():
    return run_experiment(read_settings("mechanics-global"), trials=5)


def test_the_global_experiment_comes_out_as_published(outcome):
    curves = outcome.curves
    assert curves.steps[-1] == 4000
    assert 0.96 < curves.correlation[-1].mean() < 0.999
    assert curves.finite_distance[-1].max() < 0.02
    assert curves.retrieved[-1].min() > 0.97
    assert np.nanmax(np.abs(outcome.predicted[-1] - curves.correlation[-1].mean())) < 0.01


def test_every_experiment_runs_and_names_its_measures():
    for name in list_experiments():
        settings = read_settings(name)
        outcome = run_experiment(settings, trials=2, seed=1)
        assert set(outcome.last()) == set(MEASURES)
        assert all(np.isfinite(numbers).all() for numbers in outcome.last().values())


def test_a_trial_is_the_same_alone_and_among_others(outcome):
    """Until normalised steps swing around W_fin, where any rounding grows."""
    alone = run_experiment(read_settings("mechanics-global"), trials=1)
    early = outcome.trace.steps <= 1000
    assert np.allclose(alone.trace.weights[early, 0], outcome.trace.weights[early, 0], rtol=0, atol=1e-12)


def test_figure_numbers_and_page_are_written(outcome, tmp_path):
    written = write_outcome(outcome, tmp_path / "out")
    assert {path.name for path in written} == {"figure.png", "figure.pdf", "curves.parquet", "summary.md"}
    assert all(path.stat().st_size > 500 for path in written)
    assert "0.976 to 0.993" in summarise(outcome)


def test_the_command_prints_published_beside_obtained(tmp_path):
    runner = CliRunner()
    shown = runner.invoke(
        app, ["reproduce", "mechanics-acyclic", "--trials", "2", "--out", str(tmp_path / "run")]
    )
    assert shown.exit_code == 0
    assert "correlation with W_svm" in shown.stdout
    assert (tmp_path / "run" / "summary.md").exists()
    told = runner.invoke(app, ["reproduce", "mechanics-global", "--trials", "2", "--json"])
    assert json.loads(told.stdout)["experiment"] == "mechanics-global"
    assert "mechanics-local" in runner.invoke(app, ["reproduce", "list"]).stdout


def test_an_unknown_experiment_is_refused():
    with pytest.raises(UnsupportedOption, match="mechanics-global"):
        read_settings("nothing")
