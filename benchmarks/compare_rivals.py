"""The same tables on other packages: processor seconds, memory, and what each prints for the winless.

    python benchmarks/compare_rivals.py [--folder FOLDER] > docs/rivals-table.md

Each package runs in a process of its own, in one of two virtual environments that the script creates in
FOLDER (a temporary one by default): arena-rank, which pins its versions, has one for itself. The first fit
of a process includes what it compiles; the second is the same fit again.

arena: 100,000 battles of 12 models (`simulate_arena`), a quarter of them ties; `lotus` lost all of its 40.
league: 2,000 players and 20,000 games without ties. The lowest player lost all.
patients: a logistic regression, 1,000 cases and 6 columns; the one case in 40 with `mark` had y = 1.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = {
    "rivals": [
        "arenakit==0.1.1",
        "choix",
        "evalica",
        "firthmodels",
        "openskill",
        "pandas",
        "scikit-learn",
        "statsmodels",
    ],
    "arena-rank": ["arena-rank==0.1.1"],
}
"""Virtual environment → what is installed into it."""

ELO = 400 / np.log(10)

PATIENCE, MOST_SECONDS = 30, 300
"""Processor seconds above which a fit is not repeated, and seconds after which it is stopped."""


def arena_rank(table: Any) -> Callable[[], str]:
    import pandas as pd
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    frame = pd.DataFrame(table)

    def run() -> str:
        data = PairDataset.from_pandas(frame)
        found = BradleyTerry(len(data.competitors)).compute_ratings_and_cis(data)
        last = int(np.argmin(found["ratings"]))
        low, high = float(found["rating_lower"][last]), float(found["rating_upper"][last])
        return f"{found['competitors'][last]}: {float(found['ratings'][last]):.0f}, {low:.0f} to {high:.0f}"

    return run


def arenakit(table: Any) -> Callable[[], str]:
    from arenakit import Arena, Battle, bootstrap, fit_bt, to_elo

    def run() -> str:
        columns = (table[name] for name in ("model_a", "model_b", "winner"))
        arena = Arena([Battle(model_a=a, model_b=b, winner=won) for a, b, won in zip(*columns, strict=True)])
        ratings = to_elo(fit_bt(arena.counts()).scores)
        if len(ratings) > 100:  # its bootstrap refits 1,000 times
            last = int(np.argmin(ratings))
            return f"{arena.models[last]}: {ratings[last]:.0f} (without its bootstrap)"
        spread = to_elo(np.asarray(bootstrap(arena).scores))
        last = int(np.argmin(ratings))
        low, high = np.quantile(spread[:, last], [0.025, 0.975])
        return f"{arena.models[last]}: {ratings[last]:.0f}, {low:.0f} to {high:.0f}"

    return run


def evalica(table: Any) -> Callable[[], str]:
    import evalica as package

    words = {"model_a": package.Winner.X, "model_b": package.Winner.Y, "tie": package.Winner.Draw}

    def run() -> str:
        winners = [words[won] for won in table["winner"]]
        found = package.bradley_terry(table["model_a"], table["model_b"], winners)
        with np.errstate(divide="ignore"):
            scores = ELO * (np.log(found.scores) - np.log(found.scores).mean()) + 1000
        note = "" if found.iterations < 100 else "; stopped at 100 iterations, without a word"
        if np.ptp(scores) < 1e-6:
            return f"every rating {scores.mean():.0f}{note}"
        return f"{scores.idxmin()}: {scores.min():.0f}{note}"

    return run


def choix(method: str) -> Callable[[Any], Callable[[], str]]:
    def make(table: Any) -> Callable[[], str]:
        import choix as package

        def run() -> str:
            names = sorted({*table["model_a"], *table["model_b"]})
            number = {name: k for k, name in enumerate(names)}
            rows = zip(table["model_a"], table["model_b"], table["winner"], strict=True)
            pairs = [
                (number[a], number[b]) if won == "model_a" else (number[b], number[a])
                for a, b, won in rows
                if won != "tie"
            ]
            scores = 1000 + ELO * getattr(package, method)(len(names), pairs)
            dropped = " (ties left out)" if len(pairs) < len(table["winner"]) else ""
            return f"{names[int(np.argmin(scores))]}: {scores.min():.0f}{dropped}"

        return run

    return make


def openskill(table: Any) -> Callable[[], str]:
    from openskill.models import BradleyTerryFull

    def run() -> str:
        model = BradleyTerryFull()
        players = {name: model.rating(name=name) for name in {*table["model_a"], *table["model_b"]}}
        ranks = {"model_a": [1, 2], "model_b": [2, 1], "tie": [1, 1]}
        for a, b, won in zip(table["model_a"], table["model_b"], table["winner"], strict=True):
            rated = model.rate([[players[a]], [players[b]]], ranks=ranks[won])
            (players[a],), (players[b],) = rated
        last = min(players.values(), key=lambda player: player.mu)
        return f"{last.name}: mu {last.mu:.1f}, sigma {last.sigma:.1f} (one pass in the order of the games)"

    return run


def statsmodels(table: Any) -> Callable[[], str]:
    from statsmodels.discrete.discrete_model import Logit

    X, y = np.column_stack([np.ones(len(table["y"])), table["X"]]), table["y"]

    def run() -> str:
        fit = Logit(y, X).fit(disp=0)
        return f"mark: {fit.params[-1]:.2f} ± {fit.bse[-1]:,.4g}"

    return run


def scikit_learn(**options: Any) -> Callable[[Any], Callable[[], str]]:
    def make(table: Any) -> Callable[[], str]:
        from sklearn.linear_model import LogisticRegression

        def run() -> str:
            return f"mark: {LogisticRegression(**options).fit(table['X'], table['y']).coef_[0, -1]:.2f}"

        return run

    return make


def detect_separation(table: Any) -> Callable[[], str]:
    from firthmodels import detect_separation as detect

    def run() -> str:
        found = detect(table["X"], table["y"])
        way = {1: "+inf", -1: "-inf", 0: "finite"}[int(found.directions[-2])]  # the intercept is last
        return f"mark: {way}"

    return run


def firth(table: Any) -> Callable[[], str]:
    from firthmodels import FirthLogisticRegression

    def run() -> str:
        model = FirthLogisticRegression().fit(table["X"], table["y"])
        model.lrt()
        low, high = model.conf_int(method="pl")[len(model.coef_) - 1]
        return f"mark: {model.coef_[-1]:.2f}, {low:.2f} to {high:.2f}"

    return run


def own_board(table: Any) -> Callable[[], str]:
    import pyarrow as pa

    import attomaton as at

    frame = pa.table(table)

    def run() -> str:
        row = at.fit_choices(frame).board(scale="elo").table().to_pylist()[-1]
        return (
            f"{row['item']}: ≤ {row['high']:.0f}"
            if row["rating"] == -np.inf
            else f"{row['item']}: {row['rating']:.0f}"
        )

    return run


def own_separation(table: Any) -> Callable[[], str]:
    import attomaton as at

    def run() -> str:
        found = at.check_separation(table["X"], table["y"], names=[*"abcde", "mark"]).coefficients[-1]
        return f"mark: {found.kind.value}, {found.bound_reading}"

    return run


def own_firth(table: Any) -> Callable[[], str]:
    import attomaton as at

    def run() -> str:
        found = at.check_separation(table["X"], table["y"], names=[*"abcde", "mark"]).firth().contrast("mark")
        low, high = found.interval()
        return f"mark: {found.value:.2f}, {low:.2f} to {high:.2f}"

    return run


BOARDS = ("arena", "league")
CALLS: dict[str, tuple[str, Callable[[Any], Callable[[], str]], tuple[str, ...]]] = {
    "attomaton `fit_choices().board()`": ("", own_board, BOARDS),
    "arena-rank 0.1.1 `BradleyTerry`": ("arena-rank", arena_rank, BOARDS),
    "arenakit 0.1.1 `fit_bt`, `bootstrap`": ("rivals", arenakit, BOARDS),
    "evalica `bradley_terry`": ("rivals", evalica, BOARDS),
    "choix `ilsr_pairwise`": ("rivals", choix("ilsr_pairwise"), BOARDS),
    "choix `opt_pairwise`": ("rivals", choix("opt_pairwise"), BOARDS),
    "openskill `BradleyTerryFull`": ("rivals", openskill, BOARDS),
    "attomaton `check_separation`": ("", own_separation, ("patients",)),
    "attomaton `.firth()`": ("", own_firth, ("patients",)),
    "statsmodels `Logit`": ("rivals", statsmodels, ("patients",)),
    "scikit-learn `LogisticRegression()`": ("rivals", scikit_learn(), ("patients",)),
    "scikit-learn `LogisticRegression(C=inf)`": ("rivals", scikit_learn(C=np.inf), ("patients",)),
    "firthmodels `detect_separation`": ("rivals", detect_separation, ("patients",)),
    "firthmodels `FirthLogisticRegression`": ("rivals", firth, ("patients",)),
}
"""Row → its environment (empty: this one), what makes the call from a table, and the tables."""


def make_table(name: str) -> dict[str, Any]:
    """One of the three tables, the same every time."""
    rng = np.random.default_rng(48)
    if name == "arena":
        import attomaton.choices

        battles = attomaton.choices.simulate_arena(100_000).to_pydict()
        winner = ["tie" if won.startswith("tie") else won for won in battles["winner"]]
        return {"model_a": battles["model_a"], "model_b": battles["model_b"], "winner": winner}
    if name == "league":
        strength = np.append(rng.normal(size=1_999), -50.0)
        first = rng.integers(0, 2_000, 20_000)
        second = (first + rng.integers(1, 2_000, 20_000)) % 2_000
        won = rng.random(20_000) < 1 / (1 + np.exp(strength[second] - strength[first]))
        names = np.array([f"player {k:04d}" for k in range(2_000)])
        winner = np.where(won, "model_a", "model_b")
        return {
            "model_a": names[first].tolist(),
            "model_b": names[second].tolist(),
            "winner": winner.tolist(),
        }
    X = np.column_stack([rng.normal(size=(1_000, 5)), np.arange(1_000) % 40 == 0])
    y = (rng.random(1_000) < 1 / (1 + np.exp(-X[:, 0]))) | (X[:, 5] > 0)
    return {"X": X.tolist(), "y": y.astype(int).tolist()}


def run_here(row: str, path: Path) -> None:
    """Run one row in this process and print what came of it as JSON."""
    table: dict[str, Any] = json.loads(path.read_text())
    if "X" in table:
        table = {name: np.array(values) for name, values in table.items()}
    record: dict[str, Any] = {"seconds": []}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        try:
            run = CALLS[row][1](table)
            record["start"] = time.process_time() - start
            for _ in range(2):
                start = time.process_time()
                record["printed"] = run()
                record["seconds"].append(time.process_time() - start)
                if record["seconds"][0] > PATIENCE:
                    break
        except Exception as wrong:  # what a package raises is its answer
            record["printed"] = f"{type(wrong).__name__}: {' '.join(str(wrong).split()).split('. ')[0][:120]}"
            record["seconds"].append(time.process_time() - start)
    kinds = sorted({one.category.__name__ for one in caught} - {"DeprecationWarning", "FutureWarning"})
    record["warned"] = kinds
    record["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps(record))


def install(folder: Path) -> dict[str, Path | str]:
    """The Python of each environment, or why it could not be made."""
    found: dict[str, Path | str] = {"": Path(sys.executable)}
    for name, packages in PACKAGES.items():
        python = folder / name / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder / name)], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        found[name] = python if done.returncode == 0 else f"pip install {' '.join(packages)}: {lines[-1:]}"
    return found


def measure(row: str, name: str, python: Path | str, path: Path) -> str:
    """One line of the Markdown table."""
    if isinstance(python, str):
        return f"| {row} | {name} | - | - | - | could not be installed: {python} |"
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    try:
        done = subprocess.run(
            [str(python), __file__, "--row", row, "--table", str(path)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **one},
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"| {row} | {name} | > {MOST_SECONDS} | - | - | stopped |"
    record = json.loads(done.stdout.splitlines()[-1])
    seconds = [f"{number:.2f}" for number in record["seconds"]]
    first, again = (*seconds, "-")[:2]
    warned = "; " + ", ".join(record["warned"]) if record["warned"] else ""
    return f"| {row} | {name} | {first} | {again} | {record['megabytes']:.0f} | {record['printed']}{warned} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--row")
    parser.add_argument("--table", type=Path)
    chosen = parser.parse_args()
    if chosen.row:
        run_here(chosen.row, chosen.table)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        pythons = install(folder)
        print("| package and call | table | first, s | again, s | MB | the winless, or `mark` |")
        print("|---|---|---|---|---|---|")
        for name in (*BOARDS, "patients"):
            path = Path(temporary) / f"{name}.json"
            path.write_text(json.dumps(make_table(name)))
            for row, (environment, _, tables) in CALLS.items():
                if name in tables:
                    print(measure(row, name, pythons[environment], path), flush=True)


if __name__ == "__main__":
    main()
