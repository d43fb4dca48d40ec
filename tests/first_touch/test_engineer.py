"""The first hour of an engineer with logs, as a script that a stranger could run."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.slow  # sixty commands, a process each
def test_the_first_hour_of_an_engineer(tmp_path):
    script = ROOT / "tests" / "first_touch" / "engineer.py"
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.splitlines()[-1].endswith("nothing that surprises")
