"""The first answer: processor seconds of first calls, each in its own process; the size of the core.

``--parent FOLDER`` is a checkout of an earlier commit with its kernels built, whose times must not be better.
"""

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from timing import report

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("ATTOMATON_DATA", ROOT / "../shared/data")).resolve()
WIKITEXT = DATA / "wikitext-2"
README = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL))
CHOICES = "import attomaton as at; at.fit_choices(list('abc'), [['a', 'b'], ['b', 'c'], ['c', 'a']])"
BOARD = "choices arena.csv --moved-first model_a --features length --cluster judge --scale elo"
LARGE = "import attomaton as at; at.learn('part.txt', window=16)"
FORWARD = """
import time
import attomaton as at
samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [3, 0, 2]], [0, 1, 0], n_tokens=4)
began = time.process_time()
at.fast_forward(samples, step_size=1.0, to=1e6)
print(time.process_time() - began)
"""
CALLS = {
    "story": (["-m", "attomaton", "learn", "story.txt", "--window", "8", "--quiet"], 0.9),
    "choices": (["-c", CHOICES], 2.0),
    "board": (["-m", "attomaton", *BOARD.split()], 1.5),
    "readme": (["-c", README], 4.0),
    "verify": (["-m", "attomaton", "verify", "run", "--quiet"], 10.0),
    "learn_200000_tokens": (["-c", LARGE], 3.0),
}
"""What is called, and its bar in processor seconds."""
FORWARD_SECONDS = 0.5
MOST_MEBIBYTES = 420


def run(words: list[str], folder: Path, source: Path = ROOT) -> tuple[float, str]:
    """Processor seconds of one program and its children, and what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(source / "src"), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended.stdout


def seconds(words: list[str], folder: Path, source: Path = ROOT) -> float:
    """The median of five runs, after one that leaves Python's bytecode."""
    run(words, folder, source)
    return round(statistics.median(run(words, folder, source)[0] for _ in range(5)), 2)


def requirements_size(folder: Path) -> int:
    """MiB that the core requirements add to an empty environment."""

    def size() -> int:
        return int(subprocess.run(["du", "-sm", folder], check=True, capture_output=True).stdout.split()[0])

    venv.create(folder, with_pip=True)
    before = size()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *project["dependencies"]], check=True)
    return size() - before


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=Path)
    parent = parser.parse_known_args()[0].parent
    figures: dict[str, float] = {}
    bars: dict[str, bool] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for words in (
            ["example", "story.txt"],
            ["example", "arena.csv"],
            ["learn", "story.txt", "--window", "8", "--out", "run"],
            ["train", "story.txt", "--window", "8", "--out", "run"],
        ):
            run(["-m", "attomaton", *words, "--quiet"], folder)
        if WIKITEXT.is_dir():
            text = next(WIKITEXT.glob("train*.txt")).read_text(encoding="utf-8")
            (folder / "part.txt").write_text(" ".join(text.split()[:200_000]), encoding="utf-8")
        else:
            del CALLS["learn_200000_tokens"]
        for call, (words, bar) in CALLS.items():
            figures[f"{call}_cpu_s"] = seconds(words, folder)
            bars[f"{call}_under_{bar:g}_s"] = figures[f"{call}_cpu_s"] <= bar
            if parent is not None:
                figures[f"{call}_parent_cpu_s"] = seconds(words, folder, parent)
                bars[f"{call}_no_worse"] = figures[f"{call}_cpu_s"] <= 1.05 * figures[f"{call}_parent_cpu_s"]
        calls = [float(run(["-c", FORWARD], folder)[1]) for _ in range(5)]
        figures["first_fast_forward_cpu_s"] = round(statistics.median(calls), 2)
        bars[f"first_fast_forward_under_{FORWARD_SECONDS}_s"] = (
            figures["first_fast_forward_cpu_s"] <= FORWARD_SECONDS
        )
        figures["requirements_mib"] = requirements_size(folder / "plain")
        bars[f"requirements_under_{MOST_MEBIBYTES}_mib"] = figures["requirements_mib"] <= MOST_MEBIBYTES
    report(figures, bars)
