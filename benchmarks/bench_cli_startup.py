"""Start-up: processor seconds of `import attomaton`, `--version`, `--help`, `learn` and `explain`."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import report

STORY = ["story.txt", "--window", "8", "--out", "run", "--overwrite"]
CALLS = {
    "import": (["-c", "import attomaton"], 0.5),
    "version": (["-m", "attomaton", "--version"], 0.3),
    "help": (["-m", "attomaton", "--help"], 0.8),
    "learn": (["-m", "attomaton", "learn", *STORY], 2.0),
    "explain": (["-m", "attomaton", "explain", "run", "the wind saw the lamp and the"], 1.0),
}
"""What is called, and its bar in processor seconds."""


def seconds(words: list[str], folder: str) -> float:
    """Processor seconds of one program and its children."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "pyc")
        os.environ |= {"PYTHONPYCACHEPREFIX": str(kept), "PYTHONDONTWRITEBYTECODE": ""}
        seconds(["-m", "attomaton", "example", "story.txt"], folder)
        for call, (words, _) in CALLS.items():
            seconds(words, folder)  # byte-compile
            figures[f"{call}_cpu_s"] = round(statistics.median(seconds(words, folder) for _ in range(5)), 2)
    bars = {f"{call}_under_{bar:g}_s": figures[f"{call}_cpu_s"] <= bar for call, (_, bar) in CALLS.items()}
    report(figures, bars)
