"""The command ``attomaton learn`` killed without warning: run again, it ends with the same run."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import attomaton as at

PROGRAM = "from attomaton.cli import main; main()"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rng = np.random.default_rng(11)
    path = tmp_path_factory.mktemp("killed") / "text.txt"
    path.write_text(" ".join(f"w{number}" for number in (3000 * rng.random(60_000) ** 4).astype(int)))
    return path


def start(text, out):
    options = ["--window", "16", "--engine", "duckdb", "--threads", "2", "--memory", "1GB", "--quiet"]
    command = [sys.executable, "-c", PROGRAM, "learn", str(text), *options, "--out", str(out)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def digests(folder):
    files = json.loads((folder / "manifest.json").read_text())["files"]
    return {name: entry["sha256"] for name, entry in files.items() if name.endswith(".parquet")}


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_killed_command_is_taken_up(text, tmp_path, kills):
    began = time.perf_counter()
    assert start(text, tmp_path / "whole").wait() == 0
    length = time.perf_counter() - began
    moments = np.random.default_rng(kills).uniform(0.0, length, kills)
    for moment in moments.tolist():
        process = start(text, tmp_path / "killed")
        time.sleep(moment)
        process.kill()
        process.wait()
    assert start(text, tmp_path / "killed").wait() == 0
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")
    assert not (tmp_path / "killed" / "work.draft").exists()
    assert at.Automaton.load(tmp_path / "killed").coverage.n_edges
