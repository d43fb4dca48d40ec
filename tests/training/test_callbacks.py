"""Trackers: what TensorBoard, W&B and trackio keep is read back; the last two also with stand-ins."""

import json
import os
import sqlite3
import struct
import subprocess
import sys
import warnings
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from attomaton.base.errors import MissingExtra
from attomaton.training.callbacks import TensorBoard, Trackio, WandB
from attomaton.training.loop import Watch, train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.steps import GradientDescent
from tests.drawn import paper_draw


def trained(callback):
    watch = Watch([callback], every=5)
    return train(paper_draw(0), AttentionModel(), GradientDescent(1.0), steps=20, trials=3, watch=watch)


def expected(trace):
    return [
        (int(step), {"loss/mean": losses.mean(), "loss/min": losses.min(), "loss/max": losses.max()})
        for step, losses in zip(trace.steps, trace.losses, strict=True)
    ]


def test_tensorboard_files_hold_the_losses(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorBoard's own
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        with TensorBoard(str(tmp_path)) as tracker:
            trace = trained(tracker)
        events = EventAccumulator(str(tmp_path)).Reload()
    for name in ("loss/mean", "loss/min", "loss/max"):
        read = [(event.step, event.value) for event in events.Scalars(name)]
        assert [step for step, _ in read] == trace.steps.tolist()
        np.testing.assert_allclose(
            [value for _, value in read], [row[name] for _, row in expected(trace)], rtol=1e-6
        )


@pytest.mark.parametrize(("kind", "package"), [(WandB, "wandb"), (Trackio, "trackio")])
def test_trackers_are_begun_told_and_ended(monkeypatch, kind, package):
    calls = []
    run = SimpleNamespace(
        log=lambda values, step: calls.append((step, values)), finish=lambda: calls.append("finished")
    )
    module = ModuleType(package)
    module.init = lambda **settings: calls.append(settings) or run
    monkeypatch.setitem(sys.modules, package, module)
    with kind("attention", {"config": {"dim": 8}}) as tracker:
        trace = trained(tracker)
    assert calls == [{"project": "attention", "config": {"dim": 8}}, *expected(trace), "finished"]


RUN = """
import json
from attomaton.training.callbacks import Trackio, WandB
from tests.training.test_callbacks import expected, trained
with {tracker} as tracker:
    trace = trained(tracker)
print("kept", json.dumps(expected(trace)))
"""


def run_tracker(tracker, folder):
    """The losses of a run that a real tracker was told, in a process of its own and without a network."""
    offline = {"WANDB_SILENT": "true", "TRACKIO_DIR": str(folder / "kept"), "HF_HUB_OFFLINE": "1"}
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(tracker=tracker)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **offline, **paths},
    )
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("kept "))
    return [(step, values) for step, values in json.loads(line.removeprefix("kept "))]


def read_wandb(file):
    """The history in a file of W&B: seven bytes, then a log as LevelDB writes it, in blocks of 32 kB."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, place, held = file.read_bytes(), 7, b""
    while place + 7 <= len(data):
        left = 32_768 - place % 32_768
        _, length, kind = struct.unpack_from("<IHB", data, place) if left >= 7 else (0, 0, 0)
        if kind == 0:  # the rest of a block
            place += left
            continue
        held += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = Record.FromString(held)
            held = b""
            items = record.history.item
            row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in items}
            if row:
                yield row["_step"], {name: row[name] for name in row if name.startswith("loss/")}


def test_wandb_keeps_the_losses(tmp_path):
    pytest.importorskip("wandb", reason="no wandb here (listed in tests/SKIPS.md)")
    told = run_tracker("WandB('attention', {'mode': 'offline', 'dir': '.'})", tmp_path)
    [file] = tmp_path.glob("wandb/offline-run-*/*.wandb")
    for found, wanted in zip(read_wandb(file), told, strict=True):
        assert found[0] == wanted[0]
        assert found[1] == pytest.approx(wanted[1], rel=1e-12)


def test_trackio_keeps_the_losses(tmp_path):
    pytest.importorskip("trackio", reason="no trackio here (listed in tests/SKIPS.md)")
    told = run_tracker("Trackio('attention')", tmp_path)
    kept = sqlite3.connect(tmp_path / "kept" / "attention.db")
    rows = kept.execute("SELECT step, metrics FROM metrics ORDER BY step").fetchall()
    kept.close()
    assert [(step, json.loads(values)) for step, values in rows] == told


@pytest.mark.parametrize(
    ("callback", "package"),
    [(TensorBoard("x"), "tensorboard"), (WandB("x"), "wandb"), (Trackio("x"), "trackio")],
)
def test_a_missing_package_is_named(monkeypatch, callback, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'attomaton\[{package}\]'"):
        trained(callback)
