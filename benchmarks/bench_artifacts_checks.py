"""What ownership, seals, locks and borders cost: `learn` of WikiText-2 train, window 32, before and after.

Both sides run in turn, in one run, on the same interpreter: this tree, and the last commit without the
checks, unpacked by git. Bar: the median of three runs of the command itself is at most 5 % slower, on either
engine.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from timing import DATA, report, timed

BEFORE = "ce13c09"
"""The last commit before the checks."""

ROOT = Path(__file__).parents[1]
ENGINES = ("memory", "duckdb")


def once(tree: Path, engine: str, folder: Path) -> int:
    """Learn with the source of a tree; how many edges there are."""
    corpus = DATA / "wikitext-2" / "train.articles-shuffled.txt"
    options = ["--window", "32", "--engine", engine, "--out", str(folder / "run"), "--json"]
    command = [sys.executable, "-c", "from attomaton.cli import main; main()", "learn", str(corpus), *options]
    told = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=told)
    return json.loads(done.stdout)["n_edges"]


def unpack(commit: str, folder: Path) -> Path:
    """The source of a commit."""
    packed = subprocess.run(["git", "-C", ROOT, "archive", commit, "src"], check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    return folder


def processor_seconds() -> float:
    """What all processes that ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    figures: dict = {}
    with tempfile.TemporaryDirectory() as name:
        trees = {"before": unpack(BEFORE, Path(name)), "after": ROOT}
        for engine in ENGINES:
            seconds: dict[str, list[float]] = {side: [] for side in trees}
            used: dict[str, list[float]] = {side: [] for side in trees}
            for turn in range(4):
                for side, tree in trees.items():
                    with tempfile.TemporaryDirectory() as out:
                        start = processor_seconds()
                        edges, taken = timed(once, tree, engine, Path(out))
                        if turn:  # the first turn compiles
                            seconds[side].append(taken)
                            used[side].append(processor_seconds() - start)
            figures[engine] = {
                "ratio": median(seconds["after"]) / median(seconds["before"]),
                "processor_ratio": median(used["after"]) / median(used["before"]),
                "seconds": seconds,
                "edges": edges,
            }
    report(figures, {f"{engine}_at_most_5_percent": figures[engine]["ratio"] <= 1.05 for engine in ENGINES})
