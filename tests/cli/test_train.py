"""``attomaton train``: output, files, resuming, exit codes."""

import json
import subprocess
import sys

import numpy as np
import pytest

from attomaton.corpora.readers import read_text
from attomaton.training.trace import Trace
from tests.cli.test_commands import attomaton
from tests.trajectory.definition import descend_by_definition


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("train")
    assert attomaton("example", "story.txt", cwd=place).returncode == 0
    options = ["--window", 8, "--steps", 60, "--json"]
    trained = attomaton("train", "story.txt", "--out", "run", *options, cwd=place)
    assert trained.returncode == 0, trained.stderr
    (place / "trained.json").write_text(trained.stdout)
    return place


def test_train_is_gradient_descent_on_the_text(folder):
    samples = read_text(folder / "story.txt").windows(8)
    trace = Trace.load(folder / "run" / "training" / "trace.safetensors")
    expected = descend_by_definition(samples, np.eye(61), step_size=1.0, n_steps=60)
    np.testing.assert_allclose(trace.at(60)[0], expected, atol=1e-10)
    record = json.loads((folder / "trained.json").read_text())
    lines = (folder / "run" / "training" / "trace.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    assert (record["steps"], record["tokens"], record["dim"], record["out"]) == (60, 61, 61, "run")
    assert record["samples"] == sum(label in context for context, label in samples)
    assert record["loss"] == last["loss_mean"] < record["first_loss"]
    assert record["norm"] == pytest.approx(last["norm_mean"])


def test_a_training_alone_is_not_an_automaton(folder):
    for arguments in (("report", "run"), ("explain", "run", "the")):
        refused = attomaton(*arguments, cwd=folder)
        assert refused.returncode == 2
        assert "run has no automaton; run `attomaton learn … --out run`" in refused.stderr


def test_train_prints_a_table_and_resumes(folder):
    options = ["--window", 8, "--steps", 60, "--resume"]
    printed = attomaton("train", "story.txt", "--out", "run", *options, cwd=folder)
    assert printed.returncode == 0
    for text in ("realisable samples", "loss at the end", "Written to run/training."):
        assert text in printed.stdout
    assert attomaton("train", "story.txt", "--out", "run", *options, "--quiet", cwd=folder).stdout == ""


def test_random_embeddings_and_normalised_steps(folder):
    options = ["--dim", 5, "--normalized", "--step-size", 0.1, "--steps", 7, "--seed", 3, "--json"]
    printed = attomaton("train", "story.txt", "--out", "small", *options, cwd=folder)
    record = json.loads(printed.stdout)
    assert record["dim"] == 5
    assert 0 < record["norm"] <= 0.7 + 1e-12


def test_other_optimisers_and_steps_that_fall(folder):
    options = [
        "--optimiser",
        "sign",
        "--decay",
        0.5,
        "--step-size",
        0.1,
        "--window",
        4,
        "--steps",
        4,
        "--json",
    ]
    printed = attomaton("train", "story.txt", "--out", "signs", *options, cwd=folder)
    assert printed.returncode == 0, printed.stderr
    trace = Trace.load(folder / "signs" / "training" / "trace.safetensors")
    assert np.abs(trace.at(4)).max() == pytest.approx(0.1 * sum(step**-0.5 for step in range(1, 5)))
    judged = json.loads(attomaton("verify", "signs", "--json", cwd=folder).stdout)
    assert "margin-max" in [one["claim"] for one in judged["verdicts"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["story.txt", "--out", "run", "--resume"], "error: the run in run has other settings: "),
        (["story.txt", "--out", "story.txt"], "error: story.txt is a file; give the path of a folder"),
        (["missing.txt", "--out", "x"], "error: missing.txt cannot be read"),
        (["story.txt", "--out", "x", "--dim", "100000"], "use a smaller --dim"),
        (["story.txt"], "Missing option '--out'"),
        (["story.txt", "--out", "x", "--optimiser", "sgd"], "give one of descent, sign, adam"),
        (
            ["story.txt", "--out", "x", "--optimiser", "sign", "--normalized"],
            "works only with --optimiser descent",
        ),
    ],
)
def test_user_errors_are_exit_code_2(folder, arguments, message):
    result = attomaton("train", *arguments, cwd=folder)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_an_altered_checkpoint_is_refused_in_one_line(folder):
    assert attomaton("train", "story.txt", "--out", "bad", "--steps", 5, cwd=folder).returncode == 0
    file = max((folder / "bad" / "training" / "checkpoints").iterdir())
    file.write_bytes(file.read_bytes()[:-9])
    result = attomaton("train", "story.txt", "--out", "bad", "--steps", 5, "--resume", cwd=folder)
    assert result.returncode == 2
    assert "is truncated or altered" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_loss_that_is_not_finite_is_exit_code_1(folder):
    options = ["--steps", 30, "--step-size", 1e300, "--out", "wild"]
    result = attomaton("train", "story.txt", *options, cwd=folder)
    assert result.returncode == 1, result.stderr
    assert "Try a smaller step size" in result.stdout


@pytest.mark.slow  # a process each
@pytest.mark.parametrize(
    "arguments",
    [["train", "story.txt"], ["verify", "."], ["reproduce", "mechanics-global"]],
    ids=["train", "verify", "reproduce"],
)
def test_without_pytorch_the_extra_is_named(folder, arguments):
    code = "import sys; sys.modules['torch'] = None; from attomaton.cli import main; main()"
    out = [] if arguments[0] == "verify" else ["--out", "none"]
    command = [sys.executable, "-c", code, *arguments, *out]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "pip install 'attomaton[train]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_step_beyond_the_edge_is_said_before_training(tmp_path):
    (tmp_path / "ties.txt").write_text("a b c a a b c b a b c a a b c b " * 5)
    options = ["--window", 4, "--steps", 30, "--json", "--quiet"]
    calm = attomaton("train", "ties.txt", "--out", "calm", "--step-size", 1.0, *options, cwd=tmp_path)
    assert (calm.returncode, calm.stderr) == (0, "")
    wild = attomaton("train", "ties.txt", "--out", "wild", "--step-size", 50.0, *options, cwd=tmp_path)
    assert wild.returncode == 0
    assert wild.stderr.startswith("Warning: the step size 50 is beyond the edge of stability, 2/λ_max = ")
    assert wild.stderr.count("\n") == 1
    assert json.loads(wild.stdout)["steps"] == 30
