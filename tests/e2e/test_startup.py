"""Start-up: quick, and without the heavy parts."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "bench_cli_startup.py"
HEAVY = ("torch", "duckdb", "pyspark", "numba", "matplotlib", "sklearn")


def test_import_loads_nothing_heavy():
    code = f"import sys, attomaton; print([name for name in {HEAVY} if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


@pytest.mark.timing
def test_start_up_is_quick():
    """Import under 1 s, help under 1.5 s."""
    result = subprocess.run(
        [sys.executable, BENCHMARK, "--check"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout


@pytest.mark.slow
@pytest.mark.timing
def test_the_first_learn_compiles_within_half_a_minute(tmp_path):
    """Processor seconds of `learn` on a small text, with no compiled code kept, and with it."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    learn = "import attomaton as at; at.learn(['a b a c b a b c a b c b a b'] * 3, window=4)"
    first, again = (_processor_seconds([sys.executable, "-c", learn], environment) for _ in range(2))
    assert first < 30
    assert again < 5


def _processor_seconds(command, environment):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, env=environment, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
