"""Virtual environments of their own, made new for a test, with nothing in them but what it installs."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TORCH = "torch==2.13.0"
"""The build for processors; without it pip would take one with gigabytes for graphics cards."""


def build(place, root=ROOT, *, kinds=(), **environment):
    """Build the sdist, and the wheel from it, or what ``kinds`` asks for; return the files, by name.

    What builds is taken from this environment (``dev`` has it), so that two builds differ by nothing else.
    All files have one date, unless the environment gives another.
    """
    dated = {"SOURCE_DATE_EPOCH": "1640995200"}
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", place, root]
    subprocess.run(
        list(map(str, command)), check=True, capture_output=True, env={**os.environ, **dated, **environment}
    )
    return sorted(Path(place).iterdir())


def released(place):
    """The sdist and the wheel of this tree; the gate has built them."""
    given = os.environ.get("ATTOMATON_DIST")
    return sorted(Path(given).iterdir()) if given else build(place)


class Environment:
    """A virtual environment in ``folder / "venv"``; its programs run in ``folder``, and see no PYTHONPATH."""

    def __init__(self, folder, python=sys.executable):
        self.folder = Path(folder)
        self.bin = self.folder / "venv" / "bin"
        subprocess.run([python, "-m", "venv", self.folder / "venv"], check=True, capture_output=True)

    def install(self, *requirements):
        """What pip is told, without its progress; a failure shows pip's words.

        Modules are compiled when they are first imported: few of them are, and pip would compile them all.
        """
        result = self.run("pip", "install", "--quiet", "--no-compile", *requirements)
        assert result.returncode == 0, result.stderr

    def run(self, program, *arguments, **environment):
        """Run one of its programs to the end, with the exit code and what it printed."""
        outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [self.bin / program, *map(str, arguments)],
            cwd=self.folder,
            env={**outside, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def python(self, code, *arguments, **environment):
        """Run Python in it, warnings as errors; return what it printed."""
        result = self.run("python", "-W", "error", "-c", code, *arguments, **environment)
        assert result.returncode == 0, result.stderr
        return result.stdout
