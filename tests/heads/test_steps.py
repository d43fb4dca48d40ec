"""Models by their steps: names, order, runs of attomaton on disk, and named errors."""

import shutil

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import AttomatonError, CorruptRun, MismatchedParts, UnreadableModel
from attomaton.heads.audit.steps import expand_globs, find_steps, spread, step_of
from attomaton.heads.opening import open_model
from attomaton.heads.trained import open_checkpoint, read_any_trace, watch_trace
from attomaton.training.checkpoints import Store

CONTEXT = np.array([[0, 1, 2, 1]])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A layer, trained for 60 steps, recorded at every third and kept at every twentieth."""
    place = tmp_path_factory.mktemp("own") / "run"
    samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 0]], [0, 1, 1])
    watch = at.training.Watch(every=3)
    at.train(
        samples,
        at.AttentionModel(),
        at.GradientDescent(1.0),
        steps=60,
        watch=watch,
        out=Store(place, every=20),
    )
    return place


@pytest.fixture(scope="module")
def deep_run(tmp_path_factory):
    place = tmp_path_factory.mktemp("deep") / "run"
    model = at.DeepModel(n_layers=2, n_heads=2)
    at.train_deep(np.array([[0, 1, 2, 0, 1]]), model, 0.5, steps=30, out=Store(place, every=10))
    return place


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("run/checkpoint-100", 100),
        ("run-2/step_20", 20),
        ("pythia/step1000", 1000),
        ("run/epoch=3", 3),
        ("run/000000000040.safetensors", 40),
        ("run/7", 7),
        ("step100-tokens2", 100),
    ],
)
def test_names_say_their_steps(name, step):
    assert step_of(name) == step


@pytest.mark.parametrize("name", ["final", "step-10k", "part-2-of-3", "run/checkpoint", "2x4", "9" * 19])
def test_names_without_one_step_are_refused(name):
    with pytest.raises(UnreadableModel, match="not named after a step"):
        step_of(name)


def test_steps_are_sorted_as_numbers():
    names = ["checkpoint-1000", "checkpoint-20", "checkpoint-300"]
    assert [one.step for one in find_steps(names)] == [20, 300, 1000]
    assert [one.step for one in find_steps(names, most=2)] == [20, 1000]
    with pytest.raises(MismatchedParts, match="both at step 20"):
        find_steps([*names, "other/checkpoint-20"])


def test_globs_are_opened(tmp_path):
    for name in ("step-5", "step-10", "[step]"):
        (tmp_path / name).mkdir()
    assert sorted(expand_globs([f"{tmp_path}/step-*"])) == [f"{tmp_path}/step-10", f"{tmp_path}/step-5"]
    assert expand_globs([f"{tmp_path}/[step]"]) == [f"{tmp_path}/[step]"]  # what is there is no glob
    with pytest.raises(UnreadableModel, match="no file or folder matches"):
        expand_globs([f"{tmp_path}/none-*"])


def test_evenly_spread():
    steps = find_steps([f"step-{step}" for step in range(10)])
    assert [one.step for one in spread(steps, 1)] == [9]
    assert [one.step for one in spread(steps, 4)] == [0, 3, 6, 9]
    assert spread(steps, 50) == steps


def test_a_run_opens_at_its_last_step_and_at_recorded_ones(run):
    last = open_model(run)
    assert last.name == "AttentionModel, trial 0 at step 60"
    assert [one.step for one in find_steps([str(run)])] == [60]
    steps = find_steps([str(run)], most=5)
    assert [one.step for one in steps] == [0, 15, 30, 45, 60]
    trace = read_any_trace(run)
    for one in steps:
        seen, wanted = (
            model.watch(CONTEXT).patterns[0] for model in (one.open(), watch_trace(trace, step=one.step))
        )
        assert (seen == wanted).all()


@pytest.mark.parametrize("kind", ["run", "deep_run"])
def test_checkpoints_of_a_run_are_what_was_recorded_there(kind, request):
    place = request.getfixturevalue(kind)
    trace = read_any_trace(place)
    files = sorted(map(str, (place / "training" / "checkpoints").glob("*.safetensors")))
    steps = find_steps(files)
    assert len(steps) == 3
    for one in steps:
        if one.step in trace.steps:
            seen, wanted = (model.watch(CONTEXT) for model in (one.open(), watch_trace(trace, step=one.step)))
            assert all(map(np.array_equal, seen.patterns, wanted.patterns))
    assert (open_model(files[-1]).watch(CONTEXT).logits == open_model(place).watch(CONTEXT).logits).all()


def test_checkpoints_that_fit_no_run_are_named_errors(run, deep_run, tmp_path):
    alone = tmp_path / "model.safetensors"
    shutil.copy(sorted((run / "training" / "checkpoints").iterdir())[0], alone)
    with pytest.raises(UnreadableModel, match="is a file"):
        open_model(alone)
    mixed = tmp_path / "mixed"
    shutil.copytree(run, mixed)
    there = sorted((mixed / "training" / "checkpoints").iterdir())
    shutil.copy(
        sorted((deep_run / "training" / "checkpoints").iterdir())[0], there[0].with_stem("000000000010")
    )
    with pytest.raises(AttomatonError):
        open_checkpoint(there[0].with_stem("000000000010"))
    there[1].rename(there[1].with_stem("000000000041"))
    with pytest.raises(CorruptRun, match="of another step than its name says"):
        open_checkpoint(there[1].with_stem("000000000041"))


def test_a_run_without_a_training_says_so(tmp_path):
    at.learn(at.Samples.from_lists([[0, 1]], [0])).save(tmp_path / "run")
    with pytest.raises(CorruptRun, match="not contain a finished training"):
        open_model(tmp_path / "run")
