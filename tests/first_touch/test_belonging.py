"""Parts of a run folder belong together, and no command writes over a run's own files."""

import shutil

import pytest
from typer.testing import CliRunner

import attomaton as at
from attomaton.base.errors import MismatchedParts, UnsupportedOption, UnwritablePlace
from attomaton.cli import app
from attomaton.training.trace import Trace


def call(*words):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.txt"
    assert call("example", path, "--quiet").exit_code == 0
    return path


@pytest.fixture
def run(story, tmp_path):
    assert call("learn", story, "--window", 8, "--out", tmp_path / "run", "--quiet").exit_code == 0
    return tmp_path / "run"


def train(story, run, *more):
    return call("train", story, "--out", run, "--steps", 3, "--quiet", *more)


def test_a_training_of_another_window_is_refused_beside_a_run(story, run):
    with pytest.raises(MismatchedParts, match=r"window 8; the training has 320 realisable samples"):
        train(story, run)
    assert not (run / "training").exists()
    assert train(story, run, "--window", 8).exit_code == 0


def test_the_library_refuses_it_too(story, run):
    samples = at.learn(story, window=4).samples
    with pytest.raises(MismatchedParts, match="other samples"):
        at.train(samples, at.AttentionModel(), at.GradientDescent(1.0), steps=2, out=run)


@pytest.mark.parametrize("command", [["verify"], ["report", "--out", "page.html"]])
def test_a_mixed_folder_is_refused(story, run, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert train(story, tmp_path / "other").exit_code == 0
    shutil.copytree(tmp_path / "other" / "training", run / "training")
    with pytest.raises(MismatchedParts, match="keep the training in a separate folder"):
        call(command[0], run, *command[1:])
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_run_without_a_digest_is_compared_by_its_edges(story, tmp_path, engine):
    place = tmp_path / engine
    if engine == "duckdb":
        at.learn(story, window=8, engine="duckdb", out=place)
    else:
        at.learn(story, window=8).save(place)
    with pytest.raises(MismatchedParts, match="other edges"):
        train(story, place)
    assert train(story, place, "--window", 8).exit_code == 0


def test_a_training_that_comes_first_needs_no_run(story, tmp_path):
    assert train(story, tmp_path / "new").exit_code == 0


@pytest.mark.parametrize("name", ["edges-00000.parquet", "manifest.json", "new.html"])
def test_no_report_is_written_into_a_run(run, name):
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(UnwritablePlace, match="an attomaton folder"):
        call("report", run, "--out", run / name)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_a_run_folder_is_no_trace_but_is_not_to_be_deleted(story, run):
    with pytest.raises(UnsupportedOption, match="a trace is a file") as told:
        Trace.load(run)
    assert "delete" not in str(told.value)
    train(story, run, "--window", 8)
    with pytest.raises(UnsupportedOption) as told:
        Trace.load(run)
    advised = str(told.value).partition("give ")[2]
    assert Trace.load(advised).n_trials == 1
