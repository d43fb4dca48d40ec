"""One command from WikiText-2 train to a run folder, window 32, DuckDB: both passes, hard, soft, coverage.

Bar: under 90 s on two cores, the median of three runs of the command itself, its start included.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from timing import DATA, report, timed


def once(folder: Path) -> dict:
    corpus = DATA / "wikitext-2" / "train.articles-shuffled.txt"
    options = ["--window", "32", "--engine", "duckdb", "--out", str(folder / "run"), "--json"]
    command = [sys.executable, "-c", "from attomaton.cli import main; main()", "learn", str(corpus), *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    seconds: list[float] = []
    coverage: dict = {}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as name:
            coverage, taken = timed(once, Path(name))
            seconds.append(taken)
    figures = {"seconds": median(seconds), "runs": seconds, "edges": coverage["n_edges"]}
    figures |= {"hard": coverage["hard"]["status"], "soft": coverage["soft"]["status"]}
    certified = figures["hard"] == figures["soft"] == "certified"
    report(figures, {"under_90_s": figures["seconds"] < 90, "certified": certified})
