"""The first answer: processor seconds of natural first calls with nothing compiled, and with all compiled.

``--parent FOLDER`` is a checkout of an earlier commit, whose times with all compiled must not be better.
"""

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import report

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("ATTOMATON_DATA", ROOT / "../shared/data"))
MOBY = DATA / "gutenberg" / "moby-dick.txt"
README = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL))
CHOICES = "import attomaton as at; at.fit_choices(list('abc'), [['a', 'b'], ['b', 'c'], ['c', 'a']])"
CALLS = {
    "learn": (["-m", "attomaton", "learn", "story.txt", "--window", "8", "--quiet"], 3.0),
    "choices": (["-c", CHOICES], 2.0),
    "readme": (["-c", README], 4.0),
    "verify": (["-m", "attomaton", "verify", "run", "--quiet"], 10.0),
}
"""What is called, and its bar in processor seconds."""


def run(words: list[str], folder: Path, cache: Path, source: Path = ROOT) -> tuple[float, float]:
    """Processor seconds and wall seconds of one program and its children."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(source / "src")}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended - began


def times(
    words: list[str], folder: Path, *, cold: bool, runs: int, source: Path = ROOT
) -> tuple[float, float]:
    """Medians; with ``cold`` each run begins with an empty cache, otherwise with one that is full."""
    with tempfile.TemporaryDirectory() as kept:
        if not cold:
            for _ in range(2):
                run(words, folder, Path(kept), source)
        caches = [Path(kept) / str(number) if cold else Path(kept) for number in range(runs)]
        found = [run(words, folder, cache, source) for cache in caches]
    return tuple(round(statistics.median(one), 2) for one in zip(*found, strict=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=Path)
    parent = parser.parse_known_args()[0].parent
    figures: dict[str, object] = {}
    bars: dict[str, bool] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for words in (
            ["example", "story.txt"],
            ["learn", "story.txt", "--window", "8", "--out", "run"],
            ["train", "story.txt", "--window", "8", "--out", "run"],
        ):
            run(["-m", "attomaton", *words, "--quiet"], folder, folder / "cache")
        for call, (words, bar) in CALLS.items():
            figures[f"{call}_cold_cpu_s"], _ = times(words, folder, cold=True, runs=5)
            bars[f"{call}_cold_under_{bar:g}_s"] = figures[f"{call}_cold_cpu_s"] <= bar
            figures[f"{call}_warm_cpu_s"], _ = times(words, folder, cold=False, runs=5)
            if parent is not None and call != "readme":
                old, _ = times(words, folder, cold=False, runs=5, source=parent)
                figures[f"{call}_warm_parent_cpu_s"] = old
                bars[f"{call}_warm_no_worse"] = figures[f"{call}_warm_cpu_s"] <= 1.05 * old
        if MOBY.is_file():
            novel = ["-c", f"import attomaton as at; at.learn({str(MOBY)!r})"]
            figures["moby_cold_s"] = times(novel, folder, cold=True, runs=3)[1]
            bars["moby_cold_under_15_s"] = figures["moby_cold_s"] <= 15
            figures["moby_warm_s"] = times(novel, folder, cold=False, runs=5)[1]
            if parent is not None:
                figures["moby_warm_parent_s"] = times(novel, folder, cold=False, runs=5, source=parent)[1]
                bars["moby_warm_no_worse"] = figures["moby_warm_s"] <= 1.05 * figures["moby_warm_parent_s"]
    report(figures, bars)
