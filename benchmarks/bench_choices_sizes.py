"""Sizes of ``fit_choices``: games between many items, and a whole arena.

Each task runs in a process of its own that has fitted a small table before: 2,000 items and 20,000 games with
one tie, with a position and with two features (at most 1 CPU s each); 20,000 items without ties; 10⁵ players
and 10⁶ games, 30 % of them draws (at most 60 CPU s to fit, 60 to print the board, 2 GB); and 1.7 million
battles of 130 models with 40 % ties, position, a length feature and clusters (at most 8 CPU s, 1.2 GB). All
are certified.
``--only TASK`` runs one of them.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from timing import peak_gigabytes, report

LINKS = {"first": "white", "second": "black", "outcome": "result"}


def draw(n_items: int, n_games: int, ties: float) -> dict[str, np.ndarray]:
    """Games of random pairs: names, result of the first, and two features."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, n_items, n_games)
    second = (first + rng.integers(1, n_items, n_games)) % n_items
    strength = rng.normal(size=n_items)
    won = rng.random(n_games) < 1 / (1 + np.exp(strength[second] - strength[first]))
    tied = rng.random(n_games) < ties
    return {
        "white": first + 5,  # 0 and 1 are results
        "black": second + 5,
        "result": np.where(tied, 0.5, np.where(won, 1.0, 0.0)),
        "x": rng.normal(size=n_games),
        "y": rng.normal(size=n_games),
    }


def measure(games: dict[str, np.ndarray], **columns: object) -> dict:
    """CPU seconds of a fit of games, and what came out."""
    import attomaton as at

    at.fit_choices(["a", "b", "a"], losers=["b", "a", "b"], tied=[0, 0, 1])
    start = time.process_time()
    fit = at.fit_choices(games, **columns)
    certified = fit.certified
    figures = {"cpu_s": round(time.process_time() - start, 2), "gb": peak_gigabytes(), "certified": certified}
    figures["components"] = len(fit.components)
    if len(fit.items) >= 10**5 or "cluster" in columns:
        start = time.process_time()
        text = str(fit.board())
        figures |= {"print_cpu_s": round(time.process_time() - start, 2), "gb": peak_gigabytes()}
        figures["lines"] = text.count("\n") + 1
    return figures


def run_one_tie() -> dict:
    """2,000 items, 20,000 games, one tie."""
    games = draw(2_000, 20_000, 0.0)
    games["result"][0] = 0.5
    return measure(games, **LINKS)


def run_position() -> dict:
    """2,000 items, 20,000 games, who moved first."""
    return measure(draw(2_000, 20_000, 0.0), **LINKS, moved_first="white")


def run_features() -> dict:
    """2,000 items, 20,000 games, two features."""
    return measure(draw(2_000, 20_000, 0.0), **LINKS, features=["x", "y"])


def run_plain() -> dict:
    """20,000 items, 200,000 games, no ties."""
    return measure(draw(20_000, 200_000, 0.0), **LINKS)


def run_large() -> dict:
    """10⁵ players, 10⁶ games, 30 % draws."""
    return measure(draw(10**5, 10**6, 0.3), **LINKS)


def run_arena() -> dict:
    """1.7 million battles of 130 models, 40 % ties, position, length, judges as clusters."""
    import pyarrow as pa

    n_battles, rng = 1_700_000, np.random.default_rng(1)
    games = draw(130, n_battles, 0.4)
    names = pa.array([f"model {number}" for number in range(200)])
    words = pa.array(["model_b", "tie", "model_a"])
    table = pa.table(
        {
            "model_a": names.take(pa.array(games["white"])),
            "model_b": names.take(pa.array(games["black"])),
            "winner": words.take(pa.array((2 * games["result"]).astype(np.int64))),
            "length": games["x"],
            "judge": rng.integers(0, 50_000, n_battles),
        }
    )
    del games
    links = {"first": "model_a", "second": "model_b", "outcome": "winner", "moved_first": "model_a"}
    return measure(table, **links, features=["length"], cluster="judge")


TASKS = {
    "one tie": (run_one_tie, 1.0, 2.0),
    "position": (run_position, 1.0, 2.0),
    "two features": (run_features, 1.0, 2.0),
    "20,000 items": (run_plain, 1.0, 2.0),
    "10⁵ players": (run_large, 60.0, 2.0),
    "arena": (run_arena, 8.0, 1.2),
}
"""What to run, and at most how many CPU seconds and gigabytes it takes."""


def run_apart(task: str) -> dict:
    """One task in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, str(Path(__file__)), "--alone", task]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    if "--alone" in sys.argv:
        print(json.dumps(TASKS[sys.argv[-1]][0]()))
        sys.exit()
    chosen = [sys.argv[sys.argv.index("--only") + 1]] if "--only" in sys.argv else list(TASKS)
    figures = {task: run_apart(task) for task in chosen}
    bars = {}
    for task, run in figures.items():
        _, seconds, gigabytes = TASKS[task]
        bars[f"{task}: at most {seconds:g} CPU s and {gigabytes:g} GB, certified"] = (
            run["certified"]
            and max(run["cpu_s"], run.get("print_cpu_s", 0.0)) <= seconds
            and run["gb"] <= gigabytes
        )
    report(figures, bars)
