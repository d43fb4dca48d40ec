"""Memory over time: 10,000 explanations of a run on disk, and 1,000 small corpora learned, one process each.

Bar: after the first tenth, the resident memory of neither process grows by more than 20 MB. The run is too
large to be read completely, so every explanation reads the rows of its query.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import attomaton as at
from attomaton.automaton.automaton import StoredAutomaton
from generated import write_generated
from timing import report, timed

N_EXPLAINED, N_LEARNED = 10_000, 1_000
TOKENS = 500_000
MOST_GROWTH = 20.0
WORDS = np.array([f"word{number}" for number in range(50)])


def resident_megabytes() -> float:
    """Memory of this process that is in RAM now."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS:"))


def follow(work: Callable[[], object], times: int) -> dict:
    """Work this often; resident memory after each tenth, and the most that it grew after the first."""
    resident: list[float] = []

    def repeat() -> None:
        for number in range(1, times + 1):
            work()
            if number % (times // 10) == 0:
                resident.append(round(resident_megabytes(), 1))

    seconds = timed(repeat)[1]
    growth = round(max(resident) - resident[0], 1)
    return {"times": times, "seconds": seconds, "resident_mb": resident, "growth_mb": growth}


def follow_explaining(run: str) -> dict:
    """Explain random contexts, each of another query than the last."""
    rng, automaton = np.random.default_rng(0), at.Automaton.load(run)
    if not isinstance(automaton, StoredAutomaton):
        raise SystemExit("the run is so small that it was read completely; raise TOKENS")

    def explain() -> None:
        str(automaton.explain((automaton.n_tokens * rng.random(12) ** 4).astype(int).tolist()))

    return follow(explain, N_EXPLAINED)


def follow_learning(_: str) -> dict:
    """Learn texts of 100 to 2,000 random words."""
    rng = np.random.default_rng(0)

    def work() -> None:
        words = rng.choice(WORDS, int(rng.integers(100, 2_000)))
        at.learn([" ".join(words.tolist())], window=8)

    return follow(work, N_LEARNED)


CHILDREN = {"explain": follow_explaining, "learn": follow_learning}


def main() -> None:
    figures: dict = {}
    with tempfile.TemporaryDirectory() as name:
        corpus, run = Path(name, "corpus"), Path(name, "run")
        write_generated(corpus, TOKENS)
        at.learn(corpus, window=32, out=run)
        for child in CHILDREN:
            command = [sys.executable, __file__, f"--child={child}", str(run)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            figures[child] = json.loads(done.stdout)
    bars = {
        f"{child}_grows_at_most_{MOST_GROWTH:g}_MB": figures[child]["growth_mb"] <= MOST_GROWTH
        for child in CHILDREN
    }
    report(figures, bars)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("--child="):
        print(json.dumps(CHILDREN[sys.argv[1].removeprefix("--child=")](sys.argv[2])))
    else:
        main()
