"""Compiled code on disk that was damaged, or is someone else's, is compiled anew."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np
import sums
print(sums.total(np.arange(10.0)), sum(sums.total.code.stats.cache_hits.values()))
"""
SOURCE = """
from attomaton.compiled import compiled

@compiled
def total(values):
    found = 0.0
    for value in values:
        found += value
    return found
"""


@pytest.fixture
def compiled_once(tmp_path):
    """A folder with a compiled function in a cache of its own; a way to run it in a new program."""
    (tmp_path / "sums.py").write_text(SOURCE)

    def run():
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=tmp_path,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "ATTOMATON_COMPILE": "on"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        total, hits = ended.stdout.split()
        assert total == "45.0"
        return int(hits)

    assert run() == 0
    assert run() == 1
    return run, sorted((tmp_path / "cache").rglob("sums.*.nbc"))


class Touch:
    """What a foreign pickle does: it runs code."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_damaged_cache_is_compiled_anew(compiled_once, tmp_path):
    run, files = compiled_once
    assert files
    whole = files[0].read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for damage in (b"", whole[:40], whole[: len(whole) // 2], bytes(flipped), b"garbage" * 99, whole[1:]):
        files[0].write_bytes(damage)
        assert run() == 0  # compiled, not taken from the file
        assert run() == 1  # and the file is whole again
    files[0].write_bytes(pickle.dumps(Touch(tmp_path / "touched")))
    assert run() == 0
    assert not (tmp_path / "touched").exists()


def test_a_cache_that_anyone_can_write_is_not_read(compiled_once):
    run, files = compiled_once
    files[0].parent.chmod(0o777)
    assert run() == 0
    files[0].parent.chmod(0o755)
    assert run() == 1


def test_a_cache_that_cannot_be_written_is_no_error(compiled_once):
    run, files = compiled_once
    shutil.rmtree(files[0].parent)
    files[0].parent.write_text("a file where the folder should be")
    assert run() == 0
