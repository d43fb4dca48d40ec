"""The command ``attomaton learn`` killed without warning: run again, it ends with the same run."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import attomaton as at

PROGRAM = "from attomaton.cli import main; main()"
STAGES = {"a piece is counted": "edges-*.json", "the edges are merged": "edges.json"}
"""What a run has written on its way, and the file that says so."""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rng = np.random.default_rng(11)
    path = tmp_path_factory.mktemp("killed") / "text.txt"
    path.write_text(" ".join(f"w{number}" for number in (3000 * rng.random(60_000) ** 4).astype(int)))
    return path


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory):
    """An undisturbed run, and the seconds it took from its start to its end."""
    out, began = tmp_path_factory.mktemp("whole") / "run", time.perf_counter()
    assert start(text, out).wait() == 0
    return out, time.perf_counter() - began


def start(text, out):
    options = ["--window", "16", "--engine", "duckdb", "--threads", "2", "--memory", "1GB", "--quiet"]
    command = [sys.executable, "-c", PROGRAM, "learn", str(text), *options, "--out", str(out)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def was_killed(process):
    """Kill −9; whether that ended the process, and not its own end."""
    process.kill()
    return process.wait() == -signal.SIGKILL


def wait_for(folder, pattern, process):
    """Until a file of this name stands in the folder."""
    while process.poll() is None and not any(folder.rglob(pattern)):
        time.sleep(0.001)


def check_end(text, out, whole):
    """Started once more it ends well, with the same tables, and leaves nothing behind."""
    assert start(text, out).wait() == 0
    assert digests(out) == digests(whole)
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert not (out / "work").exists()
    assert at.Automaton.load(out).coverage.n_edges


def digests(folder):
    files = json.loads((folder / "manifest.json").read_text())["files"]
    return {name: entry["sha256"] for name, entry in files.items() if name.endswith(".parquet")}


def test_a_command_killed_at_every_stage_is_taken_up(text, tmp_path, whole):
    for stage, pattern in STAGES.items():
        process = start(text, tmp_path / "killed")
        wait_for(tmp_path, pattern, process)
        assert was_killed(process), f"it was done before it could be killed where {stage}"
        assert any(tmp_path.rglob(pattern)), f"it was killed before {stage}"
    check_end(text, tmp_path / "killed", whole[0])


@pytest.mark.slow
def test_a_command_killed_at_random_moments_is_taken_up(text, tmp_path, whole):
    """What is taken up is done sooner, so some of twenty kills come too late; most do not."""
    landed = 0
    for moment in np.random.default_rng(20).uniform(0.0, whole[1], 20).tolist():
        process = start(text, tmp_path / "killed")
        time.sleep(moment)
        landed += was_killed(process)
    assert landed > 10
    check_end(text, tmp_path / "killed", whole[0])
