"""Start-up: quick, and without the heavy parts."""

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
