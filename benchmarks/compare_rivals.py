"""The same tables on other packages: processor seconds, memory, and what each prints for the winless.

    python benchmarks/compare_rivals.py [--folder FOLDER] [--tables arena,league,patients,classes]

Each package runs in a process of its own, in one of two virtual environments that the script creates in
FOLDER (a temporary one by default): arena-rank, which pins its versions, has one for itself. The first fit
of a process includes what it compiles; the second is the same fit again.

arena: 100,000 battles of 12 models (`simulate_arena`), a quarter of them ties; `lotus` lost all of its 40.
league: 2,000 players and 20,000 games without ties. `player 1999` lost all.
patients: a logistic regression, 1,000 cases and 6 columns; the one case in 40 with `mark` had y = 1.
classes: 400 logistic regressions of 8 to 39 cases, each coefficient decided by two linear programs.
"""

import argparse
import json
import os
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

PATIENCE, MOST_SECONDS = 30, 1_200
"""Processor seconds above which a fit is not repeated, and seconds after which it is stopped."""


def arena_rank(table: Any) -> Callable[[], str]:
    import pandas as pd
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    frame = pd.DataFrame({name: table[name] for name in ("model_a", "model_b", "winner")})

    def run() -> str:
        data = PairDataset.from_pandas(frame)
        found = BradleyTerry(len(data.competitors)).compute_ratings_and_cis(data)
        last = found["competitors"].index(table["winless"])
        low, high = float(found["rating_lower"][last]), float(found["rating_upper"][last])
        return f"{float(found['ratings'][last]):.0f}, {low:.0f} to {high:.0f}"

    return run


def arenakit(table: Any) -> Callable[[], str]:
    from arenakit import Arena, Battle, bootstrap, fit_bt, to_elo

    def run() -> str:
        columns = (table[name] for name in ("model_a", "model_b", "winner"))
        arena = Arena([Battle(model_a=a, model_b=b, winner=won) for a, b, won in zip(*columns, strict=True)])
        ratings, last = to_elo(fit_bt(arena.counts()).scores), arena.models.index(table["winless"])
        if len(ratings) > 100:  # its bootstrap refits 1,000 times
            return f"{ratings[last]:.0f} (without its bootstrap)"
        spread = to_elo(np.asarray(bootstrap(arena).scores))
        low, high = np.quantile(spread[:, last], [0.025, 0.975])
        return f"{ratings[last]:.0f}, {low:.0f} to {high:.0f}"

    return run


def evalica(table: Any) -> Callable[[], str]:
    import evalica as package

    words = {"model_a": package.Winner.X, "model_b": package.Winner.Y, "tie": package.Winner.Draw}

    def run() -> str:
        winners = [words[won] for won in table["winner"]]
        found = package.bradley_terry(table["model_a"], table["model_b"], winners)
        with np.errstate(divide="ignore"):
            scores = ELO * (np.log(found.scores) - np.log(found.scores).mean()) + 1000
        note = "" if found.iterations < 100 else "; stopped at 100 iterations, no warning"
        if np.ptp(scores) < 1e-6:
            return f"every rating {scores.mean():.0f}{note}"
        return f"{scores[table['winless']]:.0f}{note}"

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
            return f"{scores[number[table['winless']]]:.0f}{dropped}"

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
        last = players[table["winless"]]
        return f"mu {last.mu:.1f}, sigma {last.sigma:.1f} (one pass in the order of the games)"

    return run


def statsmodels(table: Any) -> Callable[[], str]:
    from statsmodels.discrete.discrete_model import Logit

    X, y = np.column_stack([np.ones(len(table["y"])), table["X"]]), table["y"]

    def run() -> str:
        fit = Logit(y, X).fit(disp=0)
        return f"{fit.params[-1]:.2f} ± {fit.bse[-1]:,.4g}"

    return run


def scikit_learn(**options: Any) -> Callable[[Any], Callable[[], str]]:
    def make(table: Any) -> Callable[[], str]:
        from sklearn.linear_model import LogisticRegression

        def run() -> str:
            return f"{LogisticRegression(**options).fit(table['X'], table['y']).coef_[0, -1]:.2f}"

        return run

    return make


def detect_separation(table: Any) -> Callable[[], str]:
    from firthmodels import detect_separation as detect

    def run() -> str:
        found = detect(table["X"], table["y"])
        way = {1: "+inf", -1: "-inf", 0: "finite"}[int(found.directions[-2])]  # the intercept is last
        return f"{way}"

    return run


def count_wrong(table: Any, decide: Callable[[Any, Any], list[str]]) -> str:
    """Coefficients that the linear programs prove finite or infinite, and that are called something else."""
    wrong = [
        any(one in ENDS and one != other for one, other in zip(kinds, decide(X, y), strict=True))
        for X, y, kinds in zip(table["X"], table["y"], table["kinds"], strict=True)
    ]
    return f"a coefficient wrong in {sum(wrong)} of {len(wrong)} tables"


ENDS = ("finite", "+inf", "-inf")


def detect_classes(table: Any) -> Callable[[], str]:
    from firthmodels import detect_separation as detect

    def decide(X: Any, y: Any) -> list[str]:
        found = np.asarray(detect(np.array(X), np.array(y)).directions)
        return [ENDS[int(way)] for way in np.roll(found, 1)]  # 1 is +inf, -1 is -inf, as of ENDS

    return lambda: count_wrong(table, decide)


def own_classes(table: Any) -> Callable[[], str]:
    import attomaton as at

    return lambda: count_wrong(table, lambda X, y: list(at.check_separation(X, y).kinds.values()))


def draw_classes(rng: Any) -> dict[str, Any]:
    """Random logistic regressions without collinear columns, and the class of each coefficient."""
    from scipy.optimize import linprog

    tables: dict[str, Any] = {"X": [], "y": [], "kinds": []}
    while len(tables["X"]) < 400:
        X = rng.integers(-2, 3, (rng.integers(8, 40), rng.integers(1, 5))).astype(float)
        y = (rng.random(len(X)) < 1 / (1 + np.exp(-2 * X[:, 0] - 1))).astype(int)
        wide = np.column_stack([np.ones(len(X)), X])
        if y.min() == y.max() or np.linalg.matrix_rank(wide) < wide.shape[1]:
            continue
        losing, kinds = wide * (1 - 2 * y[:, None]), list[str]()
        for goal in np.eye(wide.shape[1]):
            ways = [
                linprog(-sign * goal, losing, np.zeros(len(X)), bounds=(-1, 1)).fun < -1e-7
                for sign in (1, -1)
            ]
            kinds.append("open" if all(ways) else ENDS[1] if ways[0] else ENDS[2] if ways[1] else ENDS[0])
        for name, value in (("X", X.tolist()), ("y", y.tolist()), ("kinds", kinds)):
            tables[name].append(value)
    return tables


def firth(table: Any) -> Callable[[], str]:
    from firthmodels import FirthLogisticRegression

    def run() -> str:
        model = FirthLogisticRegression().fit(table["X"], table["y"])
        model.lrt()
        low, high = model.conf_int(method="pl")[len(model.coef_) - 1]
        return f"{model.coef_[-1]:.2f}, {low:.2f} to {high:.2f}"

    return run


def own_board(table: Any) -> Callable[[], str]:
    import pyarrow as pa

    import attomaton as at

    frame = pa.table({name: table[name] for name in ("model_a", "model_b", "winner")})

    def run() -> str:
        rows = at.fit_choices(frame).board(scale="elo").table().to_pylist()
        row = next(row for row in rows if row["item"] == table["winless"])
        return f"≤ {row['high']:.0f}" if row["rating"] == -np.inf else f"{row['rating']:.0f}"

    return run


def own_separation(table: Any) -> Callable[[], str]:
    import attomaton as at

    def run() -> str:
        found = at.check_separation(table["X"], table["y"], names=[*"abcde", "mark"]).coefficients[-1]
        return f"{found.kind.value}, {found.bound_reading}"

    return run


def own_firth(table: Any) -> Callable[[], str]:
    import attomaton as at

    def run() -> str:
        found = at.check_separation(table["X"], table["y"], names=[*"abcde", "mark"]).firth().contrast("mark")
        low, high = found.interval()
        return f"{found.value:.2f}, {low:.2f} to {high:.2f}"

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
    "attomaton `check_separation`, each": ("", own_classes, ("classes",)),
    "firthmodels `detect_separation`, each": ("rivals", detect_classes, ("classes",)),
}
"""Row → its environment (empty: this one), what makes the call from a table, and the tables."""


def make_table(name: str) -> dict[str, Any]:
    """One of the three tables, the same every time."""
    rng = np.random.default_rng(48)
    if name == "arena":
        import attomaton.choices

        battles = attomaton.choices.simulate_arena(100_000).to_pydict()
        winner = ["tie" if won.startswith("tie") else won for won in battles["winner"]]
        pairs = {name: battles[name] for name in ("model_a", "model_b")}
        return {**pairs, "winner": winner, "winless": "lotus"}
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
            "winless": "player 1999",
        }
    if name == "classes":
        return draw_classes(rng)
    X = np.column_stack([rng.normal(size=(1_000, 5)), np.arange(1_000) % 40 == 0])
    y = (rng.random(1_000) < 1 / (1 + np.exp(-X[:, 0]))) | (X[:, 5] > 0)
    return {"X": X.tolist(), "y": y.astype(int).tolist()}


def run_here(row: str, path: Path) -> None:
    """Run one row in this process and print what came of it as JSON."""
    table: dict[str, Any] = json.loads(path.read_text())
    if "X" in table and "kinds" not in table:
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
    record["megabytes"] = peak_megabytes()
    print(json.dumps(record))


def peak_megabytes() -> float:
    """The largest resident memory of this process; getrusage would count its parent's before exec."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


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
    parser.add_argument("--tables", default="arena,league,patients,classes")
    parser.add_argument("--row")
    parser.add_argument("--table", type=Path)
    chosen = parser.parse_args()
    if chosen.row:
        run_here(chosen.row, chosen.table)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        pythons = install(folder)
        print("| package and call | table | first, s | again, s | MB | printed for winless or `mark` |")
        print("|---|---|---|---|---|---|")
        for name in chosen.tables.split(","):
            path = Path(temporary) / f"{name}.json"
            path.write_text(json.dumps(make_table(name)))
            for row, (environment, _, tables) in CALLS.items():
                if name in tables:
                    print(measure(row, name, pythons[environment], path), flush=True)


if __name__ == "__main__":
    main()
