"""Runs on disk: killed and resumed with the same bits; altered ones refused."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from attomaton.base.errors import CorruptRun, MismatchedParts, UnwritablePlace
from attomaton.training.checkpoints import Store, read_trace
from attomaton.training.loop import Watch, train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import Orthonormal
from attomaton.training.steps import GradientDescent
from attomaton.training.trace import Trace
from tests.conftest import ROOT
from tests.drawn import paper_draw
from tests.sizes import some
from tests.training.runs import run


class Interrupted(Exception):
    pass


def interrupt_at(last):
    def callback(step, losses):
        if step >= last:
            raise Interrupted

    return Watch([callback])


def assert_same_bits(one, other):
    for name in ("steps", "weights", "losses", "embeddings"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


@pytest.fixture(scope="module")
def whole():
    return run()


@pytest.mark.slow  # processes that are killed
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(tmp_path, whole):
    direct = run(Store(tmp_path / "direct", every=100))
    assert_same_bits(direct, whole)
    for last in (0, 70, 700, 4000):
        with pytest.raises(Interrupted):
            run(Store(tmp_path / "cut", resume=True, every=100), watch=interrupt_at(last))
    assert_same_bits(run(Store(tmp_path / "cut", resume=True, every=100)), whole)
    assert_same_bits(Trace.load(tmp_path / "cut" / "training" / "trace.safetensors"), whole)
    for name in ("trace.jsonl", "manifest.json"):
        cut, straight = (tmp_path / part / "training" / name for part in ("cut", "direct"))
        assert cut.read_bytes() == straight.read_bytes()
    assert not list((tmp_path / "cut").rglob("*.draft"))


def test_a_finished_run_is_read_not_trained(tmp_path, whole):
    run(tmp_path)
    again = run(Store(tmp_path, resume=True), watch=interrupt_at(0))
    assert_same_bits(again, whole)


def test_a_run_that_stopped_early_stays_stopped(tmp_path):
    watch = Watch(stop=stop_early)
    first = run(Store(tmp_path, every=10), watch=watch)
    assert first.steps[-1] == 56
    assert_same_bits(run(Store(tmp_path, resume=True, every=10), watch=watch), first)


def stop_early(step, _):
    return step >= 50


def test_an_earlier_run_is_replaced_only_if_that_is_asked_for(tmp_path, whole):
    earlier = run(Store(tmp_path, every=50), seed=9)
    with pytest.raises(UnwritablePlace, match="already contains a training run; continue it with --resume"):
        run(Store(tmp_path, every=1500))
    with pytest.raises(Interrupted):
        run(Store(tmp_path, every=1500, overwrite=True), watch=interrupt_at(3500))
    assert_same_bits(read_trace(tmp_path), earlier)
    with pytest.raises(UnwritablePlace, match="already contains an unfinished training run"):
        run(Store(tmp_path, every=1500))
    assert_same_bits(run(Store(tmp_path, every=1500, overwrite=True)), whole)
    assert_same_bits(read_trace(tmp_path), whole)
    assert {path.name for path in tmp_path.iterdir()} == {"manifest.json", "training"}
    names = sorted(path.stem.lstrip("0") for path in (tmp_path / "training" / "checkpoints").iterdir())
    assert names == ["1500", "3000", "4000"]


def test_every_record_is_a_line(tmp_path):
    trace = run(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "training" / "trace.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == trace.steps.tolist()
    np.testing.assert_allclose([line["loss_mean"] for line in lines], trace.losses.mean(1))
    np.testing.assert_allclose([line["loss_min"] for line in lines], trace.losses.min(1))
    np.testing.assert_allclose([line["loss_max"] for line in lines], trace.losses.max(1))
    norms = np.linalg.norm(trace.weights, axis=(2, 3)).mean(1)
    np.testing.assert_allclose([line["norm_mean"] for line in lines], norms)


@pytest.mark.parametrize("changed", [{"seed": 4}, {"every": 8}, {"steps": 4100}])
def test_another_configuration_is_refused(tmp_path, changed):
    run(tmp_path, steps=4000)
    name, value = next(iter(changed.items()))
    with pytest.raises(
        MismatchedParts, match=rf"{name} is \d+ in the stored run and {value} here; resume it with its"
    ):
        run(Store(tmp_path, resume=True), **changed)


def test_other_samples_models_and_steps_are_refused(tmp_path):
    model, step = AttentionModel(Orthonormal()), GradientDescent(0.5)
    train(paper_draw(0), model, step, steps=5, out=tmp_path)
    store = Store(tmp_path, resume=True)
    for others, named in [
        ((paper_draw(1), model, step), "samples"),
        (
            (paper_draw(0), AttentionModel(Orthonormal(7)), step),
            "model.embeddings.dim is None in the stored run and 7",
        ),
        (
            (paper_draw(0), model, GradientDescent(0.4)),
            "step_size is 0.5 in the stored run and 0.4 here",
        ),
    ]:
        with pytest.raises(MismatchedParts, match=named):
            train(*others, steps=5, out=store)


@pytest.fixture
def cut_run(tmp_path):
    with pytest.raises(Interrupted):
        run(Store(tmp_path, every=100), watch=interrupt_at(350))
    return tmp_path


def checkpoints(folder):
    return sorted(folder.glob("training*/checkpoints/*.safetensors"))


@pytest.mark.parametrize("which", some([0, 1, 2], gate=[2]))
def test_truncated_and_altered_checkpoints_are_refused(cut_run, which):
    file = checkpoints(cut_run)[which]
    good = file.read_bytes()
    rng = np.random.default_rng(which)
    cuts = [good[:length] for length in (0, 7, 100, len(good) // 2, len(good) - 1)]
    flips = []
    for place in [*rng.integers(0, len(good), 60).tolist(), *range(0, 600, 9)]:
        flips.append(bytearray(good))
        flips[-1][place] ^= 1 << int(rng.integers(8))
    for bad in [*cuts, *flips, good + b"more"]:
        file.write_bytes(bad)
        with pytest.raises(CorruptRun, match=r"truncated or altered|was altered|does not follow"):
            run(Store(cut_run, resume=True, every=100))
    file.write_bytes(good)
    run(Store(cut_run, resume=True, every=100))


def test_a_missing_or_swapped_checkpoint_is_refused(cut_run, whole):
    _, second, third = checkpoints(cut_run)
    kept = second.read_bytes()
    second.unlink()
    with pytest.raises(CorruptRun, match="does not follow the checkpoint before"):
        run(Store(cut_run, resume=True, every=100))
    second.write_bytes(third.read_bytes())
    with pytest.raises(CorruptRun, match="does not follow"):
        run(Store(cut_run, resume=True, every=100))
    second.write_bytes(kept)
    third.unlink()
    assert_same_bits(run(Store(cut_run, resume=True, every=100)), whole)


def test_a_broken_manifest_and_an_impossible_place_are_refused(cut_run, tmp_path):
    [manifest] = cut_run.glob("training.partial-*/partial.json")
    manifest.write_text(manifest.read_text()[:50])
    with pytest.raises(CorruptRun, match="train again without resume"):
        run(Store(cut_run, resume=True))
    (tmp_path / "file").touch()
    with pytest.raises(UnwritablePlace, match="is a file"):
        run(tmp_path / "file")


def test_a_trace_is_saved_and_loaded(tmp_path, whole):
    loaded = Trace.load(whole.save(tmp_path / "some" / "trace.safetensors"))
    assert_same_bits(loaded, whole)
    assert loaded.about == whole.about
    for one, other in zip(loaded.samples, whole.samples, strict=True):
        assert list(one) == list(other)
        assert one.n_tokens == other.n_tokens
    shared = train(paper_draw(0), AttentionModel(), GradientDescent(1.0), steps=2, trials=3)
    again = Trace.load(shared.save(tmp_path / "shared"))
    assert again.samples[0] is again.samples[2]
    (tmp_path / "shared").write_bytes((tmp_path / "shared").read_bytes()[:-3])
    with pytest.raises(CorruptRun, match="truncated"):
        Trace.load(tmp_path / "shared")
    with pytest.raises(CorruptRun, match="does not exist"):
        Trace.load(tmp_path / "nothing")


@pytest.mark.slow  # processes that are killed
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_runs_resume_with_the_same_bits(tmp_path, whole, kills):
    """Processes killed without warning, at random moments from start to end; then one that may end."""
    rng = np.random.default_rng(kills)
    for moment in np.sort(rng.integers(0, 350, kills)).tolist():
        process = start(tmp_path)
        wait_for_checkpoints(tmp_path, process, moment)
        time.sleep(float(rng.uniform(0, 0.02)))
        process.kill()
        assert process.wait() == -9, "the run ended before it was killed"
    assert not (tmp_path / "training" / "trace.safetensors").exists()
    assert start(tmp_path).wait() == 0
    assert_same_bits(Trace.load(tmp_path / "training" / "trace.safetensors"), whole)
    lines = (tmp_path / "training" / "trace.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == whole.steps.tolist()


def start(folder):
    command = [sys.executable, "-m", "tests.training.runs", str(folder)]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def wait_for_checkpoints(folder, process, number):
    """Until the run has written that many checkpoints."""
    while process.poll() is None and len(checkpoints(folder)) < number:
        time.sleep(0.002)
