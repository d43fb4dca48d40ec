"""Compiled code is kept on disk for the next program; where it cannot be, a warning says so."""

import os
import subprocess
import sys

import numba
import pytest

from attomaton.base import kernels

PROGRAM = """
import numpy as np
import sums
print(sums.total(np.arange(10.0)), sum(sums.total.code.stats.cache_hits.values()))
"""
SOURCE = """
from attomaton.base.kernels import compiled

@compiled
def total(values):
    found = 0.0
    for value in values:
        found += value
    return found
"""


def test_the_next_program_reads_what_was_compiled(tmp_path):
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
    assert list((tmp_path / "cache").rglob("sums.total-*.nbi"))
    (tmp_path / "sums.py").write_text(SOURCE + "\n# a newer source\n")
    assert run() == 0


def test_where_nothing_can_be_kept_a_warning_says_so(monkeypatch):
    real = numba.njit

    def njit(function, *, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(function, **options)

    monkeypatch.setattr(numba, "njit", njit)
    with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR to a writable folder"):
        made = kernels.dispatcher_of(lambda number: 2 * number)
    assert made(4) == 8
    assert kernels.has_kept(made) is None
