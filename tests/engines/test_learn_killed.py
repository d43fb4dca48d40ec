"""The command ``attomaton learn`` killed without warning: run again, it ends with the same run."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import attomaton as at
from tests.faults.counts import trials

PROGRAM = """
import atexit, json, os
from attomaton.engines.work import StageRecords
from attomaton.graphs import partitions
partitions.PARTITION_SAMPLES = 500  # so that there are many parts
taken, made = [], []
read_intact = StageRecords.read_intact
def counted(self, number):
    found = read_intact(self, number)
    if found is not None:
        taken.append([self.stage, number])
    return found
StageRecords.read_intact = counted
from attomaton.engines import duckdb
open_edges = duckdb.open_edges
def opened(*given):  # the edges of a finished pass, all at once
    found = open_edges(*given)
    taken.extend(["edges", number] for number in range(len(found.files)))
    return found
duckdb.open_edges = opened
if "TAKEN" in os.environ:
    atexit.register(lambda: open(os.environ["TAKEN"], "w").write(json.dumps(taken)))
from attomaton.cli import main
main()
"""
"""The command, with small parts, that tells which of them it took up from an earlier run."""

STAGES = {
    "a piece is counted": "edges-*-*.json",
    "some edges are merged": "edges/edges-?????.json",
    "the edges are merged": "edges.json",
    "some of the hard side is solved": "hard/hard-?????.json",
    "some choices are merged": "choices/choices-?????.json",
    "some of the soft side is solved": "soft/soft-?????.json",
}
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


def start(text, out, taken=None):
    options = ["--window", "16", "--engine", "duckdb", "--threads", "2", "--memory", "1GB", "--quiet"]
    command = [sys.executable, "-c", PROGRAM, "learn", str(text), *options, "--out", str(out)]
    told = {} if taken is None else {"TAKEN": str(taken)}
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **told})


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


@pytest.mark.slow  # campaign of kills
def test_a_command_killed_at_every_stage_is_taken_up(text, tmp_path, whole):
    for stage, pattern in STAGES.items():
        process = start(text, tmp_path / "killed")
        wait_for(tmp_path, pattern, process)
        assert was_killed(process), f"it was done before it could be killed where {stage}"
        assert any(tmp_path.rglob(pattern)), f"it was killed before {stage}"
    check_end(text, tmp_path / "killed", whole[0])


def finished_parts(folder):
    """Stage and number of every part that is recorded."""
    places = {
        name: folder.rglob(f"{name}/{name}-?????.json") for name in ("edges", "hard", "choices", "soft")
    }
    return {(name, int(path.stem[-5:])) for name, paths in places.items() for path in paths}


@pytest.mark.slow
def test_a_command_killed_at_random_moments_is_taken_up(text, tmp_path, whole, record_property):
    """Each time the next run ends with the same files, and takes up most of what was finished."""
    landed = found = used = 0
    stages = set()
    for number, share in enumerate(np.random.default_rng(20).uniform(0.15, 1.0, trials(20)).tolist()):
        out, told = tmp_path / f"out{number}" / "killed", tmp_path / f"taken{number}"
        out.parent.mkdir()
        process = start(text, out)
        time.sleep(share * whole[1])
        if was_killed(process) and not (out / "manifest.json").exists():  # the run was not yet whole
            landed += 1
            left = finished_parts(out.parent)
            assert start(text, out, told).wait() == 0
            taken = {tuple(one) for one in json.loads(told.read_text())}
            found, used = found + len(left), used + len(left & taken)
            stages |= {stage for stage, _ in left}
        assert digests(out) == digests(whole[0])
        assert [path.name for path in out.parent.iterdir()] == [out.name]
        shutil.rmtree(out.parent)
    record_property("killed", f"{landed} kills landed; {used} of {found} finished parts were taken up")
    assert landed > trials(20) // 2
    assert stages == {"edges", "hard", "choices", "soft"}
    assert used >= 0.6 * found
