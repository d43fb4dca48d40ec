"""attomaton verify: verdicts of a training run on a text."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from attomaton.base.errors import CorruptRun
from attomaton.cli import app
from attomaton.training.checkpoints import read_trace

runner = CliRunner()
TEXT = "a b a c a b a c b a c a b b a c a a b c a b a\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text(TEXT * 2)
    trained = runner.invoke(
        app,
        ["train", str(folder / "text.txt"), "--out", str(folder / "run"), "--window", "3", "--steps", "2000"],
    )
    assert trained.exit_code == 0
    return folder / "run"


def test_verdicts_are_printed_and_kept(run):
    shown = runner.invoke(app, ["verify", str(run)])
    assert shown.exit_code == 0, shown.output
    assert "finite part" in shown.stdout
    told = runner.invoke(app, ["verify", str(run), "--json"])
    record = json.loads(told.stdout)
    assert record["verdicts"] == json.loads((run / "verdicts.json").read_text())["verdicts"]
    assert (
        {"holds"} <= {one["status"] for one in record["verdicts"]} <= {"holds", "too_early", "not_applicable"}
    )
    n_held = record["counts"]["holds"]
    assert sum(record["counts"].values()) == len(record["verdicts"]) == 16
    assert record["summary"].startswith(f"{n_held} hold, {16 - n_held} not judged (")
    assert shown.stdout.startswith(record["summary"])


def test_a_run_that_goes_elsewhere_ends_with_1(run, tmp_path):
    from dataclasses import replace

    trace = read_trace(run)
    (tmp_path / "training").mkdir()
    turned = replace(trace, weights=np.ascontiguousarray(-trace.weights))
    turned.save(tmp_path / "training" / "trace.safetensors")
    shown = runner.invoke(app, ["verify", str(tmp_path), "--json"])
    assert shown.exit_code == 1
    record = json.loads(shown.stdout)
    assert "fails" in {one["status"] for one in record["verdicts"]}
    assert any("most attention on tokens" in line for line in record["diagnosis"])


def test_a_folder_without_training_is_refused(tmp_path):
    with pytest.raises(CorruptRun, match="not contain a finished training"):
        runner.invoke(app, ["verify", str(tmp_path)], catch_exceptions=False)


def test_a_restored_run_knows_its_model_and_step(run):
    from attomaton.training.models.embeddings import Orthonormal
    from attomaton.training.steps import GradientDescent

    trace = read_trace(run)
    assert trace.model.embeddings == Orthonormal()
    assert trace.step == GradientDescent(1.0)
