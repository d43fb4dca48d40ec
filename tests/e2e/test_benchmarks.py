"""Every benchmark reaches its bar."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("bench_*.py")))
def test_benchmark_reaches_its_bar(name, request):
    if "wikitext" in (FOLDER / name).read_text(encoding="utf-8"):
        request.getfixturevalue("wikitext")
    result = subprocess.run(
        [sys.executable, FOLDER / name, "--check"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout)["bars"]
