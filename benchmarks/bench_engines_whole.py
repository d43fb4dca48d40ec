"""The whole path as the corpus grows: learn on 2, 20, 200 and 500 million generated tokens, then ask the run.

Each learning is a process of its own (DuckDB, memory="2GB", two threads, window 32), once at each size:
200 million take a quarter of an hour, 500 million three quarters; the figures of each size are on stderr as
soon as it ends. Bars: at 20M its memory stays at or below 2.6 GB and its files are those of the engine in
memory; at 200M at or below 3 GB, with at most three times the computing time of its own edge pass; at 500M at
or below 3 GB but for the largest query; computing time grows with tokens to a power of at most 1.1; one
explanation of the run of 200M takes at most 1 CPU second and 300 MB, its start included; 10,000 contexts are
predicted in at most 20 s.
``--without=500M`` leaves a size out, ``--keep=FOLDER`` works there and keeps corpora and runs.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import attomaton as at
from generated import N_TYPES, write_generated
from timing import peak_gigabytes, report

SIZES = {"2M": 2_000_000, "20M": 20_000_000, "200M": 200_000_000, "500M": 500_000_000}
LIMITS = {"memory": "2GB", "threads": 2}
CLI = [sys.executable, "-c", "from attomaton.cli import main; main()"]


class Stages:
    """Computing time by stage, and the peak memory between any two calls, told by ``learn`` as it goes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peaks: list[tuple[float, str]] = []
        self._stage, self._since = "start", time.process_time()

    def __call__(self, stage: str, *_: int) -> None:
        now = time.process_time()
        self.seconds[self._stage] = round(self.seconds.get(self._stage, 0.0) + now - self._since, 2)
        self.peaks.append((peak_gigabytes(), self._stage))
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
        self._stage, self._since = stage, now


def child(engine: str, corpus: str, out: str) -> dict:
    """Learn once; what it took."""
    stages, start = Stages(), time.perf_counter()
    where = at.engines.Engine(engine, **LIMITS)
    automaton = at.learn(corpus, window=32, engine=where, out=out, overwrite=True, progress=stages)
    stages("end")
    edges = sum(stages.seconds.get(name, 0.0) for name in ("extracting edges", "edges", "merging"))
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "core_seconds": round(time.process_time(), 1),
        "edge_core_seconds": round(edges, 1),
        "stages": stages.seconds,
        "peak_gb": max(stages.peaks)[0],
        "peaks": sorted(stages.peaks)[:-4:-1],
        "coverage": {
            name: getattr(automaton.coverage, name) for name in ("n_edges", "n_components", "n_queries")
        },
        "certified": automaton.coverage.hard["status"] == automaton.coverage.soft["status"] == "certified",
    }


def learn(engine: str, corpus: Path, out: Path) -> dict:
    """Learn in a process of its own, and look at what it left; the most that it had on disk."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--child", engine, str(corpus), str(out)],
        stdout=subprocess.PIPE,
        text=True,
    )
    most = 0
    while process.poll() is None:
        most = max(most, sum(disk(place) for place in out.parent.glob(f"{out.name}*")))
        time.sleep(2)
    if process.returncode:
        raise SystemExit(f"learn ended with {process.returncode}")
    figures = json.loads(process.stdout.read())
    files = json.loads((out / "manifest.json").read_text())["files"]
    figures["digest"] = hashlib.sha256(
        json.dumps({name: entry["sha256"] for name, entry in files.items()}, sort_keys=True).encode()
    ).hexdigest()
    return {
        **figures,
        "run_gb": round(disk(out) / 1e9, 3),
        "most_disk_gb": round(max(most, disk(out)) / 1e9, 3),
    }


def disk(place: Path) -> int:
    """Bytes of all files below a folder; files that go meanwhile do not count."""
    total = 0
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_size  # noqa: PTH116, PTH118
            except OSError:
                continue
    return total


def ask(run: str) -> dict:
    """Five explanations, each by a command of its own, and 10,000 predictions in another process.

    To be called in a small process: the peak memory of a command includes that of the one which starts it.
    """
    rng = np.random.default_rng(0)
    taken, memory = [], []
    installed = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # as pip installs it: compiled once
    for _ in range(6):
        context = " ".join(map(str, (N_TYPES * rng.random(12) ** 4).astype(int)))
        process = subprocess.Popen([*CLI, "explain", run, context], stdout=subprocess.DEVNULL, env=installed)
        usage = os.wait4(process.pid, 0)[2]
        taken.append(usage.ru_utime + usage.ru_stime)
        memory.append(usage.ru_maxrss / 1e3)
    predicted = call("--predict", Path(run))
    explained = {"explain_cpu_seconds": round(sorted(taken[1:])[2], 2), "explain_mb": round(max(memory), 1)}
    return {**explained, **predicted}


def call(what: str, run: Path) -> dict:
    """A part of this file in a process of its own."""
    command = [sys.executable, __file__, what, str(run)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def predict(run: str) -> dict:
    """The seconds of opening a run and answering 10,000 random contexts."""
    rng = np.random.default_rng(1)
    contexts = (N_TYPES * rng.random((10_000, 32)) ** 4).astype(int).tolist()
    start = time.perf_counter()
    at.Automaton.load(run).predict_batch(contexts)
    return {"predict_seconds": round(time.perf_counter() - start, 2), "predict_gb": peak_gigabytes()}


def main() -> None:
    sizes = [size for size in SIZES if f"--without={size}" not in sys.argv]
    kept = [option.removeprefix("--keep=") for option in sys.argv if option.startswith("--keep=")]
    place = Path(kept[0] if kept else tempfile.mkdtemp())
    figures: dict = {}
    for size in sizes:
        corpus, run = place / f"corpus-{size}", place / f"run-{size}"
        if not corpus.exists():
            write_generated(corpus, SIZES[size])
        figures[size] = {"tokens": SIZES[size], **learn("duckdb", corpus, run), **call("--ask", run)}
        print(size, json.dumps(figures[size]), file=sys.stderr)
        if size == "20M":
            figures["20M in memory"] = learn("memory", corpus, place / "in-memory")
    if not kept:
        shutil.rmtree(place)
    figures |= growth([figures[size] for size in sizes])
    report(figures, bars(figures))


def growth(runs: list[dict]) -> dict:
    """The powers with which time and memory grow (least squares of logarithms)."""
    if len(runs) < 2:
        return {}
    tokens = np.log([run["tokens"] for run in runs])
    return {
        f"growth_of_{key}": round(float(np.polyfit(tokens, np.log([run[key] for run in runs]), 1)[0]), 3)
        for key in ("seconds", "core_seconds", "peak_gb")
    }


def bars(figures: dict) -> dict[str, bool]:
    """What the figures must show."""
    checks = {
        "certified": all(figures[size]["certified"] for size in SIZES if size in figures),
        "growth_at_most_1.1": figures.get("growth_of_core_seconds", 0.0) <= 1.1,
    }
    if "20M" in figures:
        checks["at_most_2.6_GB_at_20M"] = figures["20M"]["peak_gb"] <= 2.6
        checks["same_files_at_20M"] = figures["20M"]["digest"] == figures["20M in memory"]["digest"]
    if large := figures.get("200M"):
        checks |= {
            "whole_at_most_3_edge_passes": large["core_seconds"] <= 3 * large["edge_core_seconds"],
            "at_most_3_GB": large["peak_gb"] <= 3.0,
            "at_most_25_GB_of_disk": large["most_disk_gb"] <= 25,
            "explained_in_1_CPU_s": large["explain_cpu_seconds"] <= 1.0,
            "explained_in_300_MB": large["explain_mb"] <= 300,
            "predicted_in_20_s": large["predict_seconds"] <= 20,
        }
    if "500M" in figures:  # the largest query runs alone
        checks["at_most_3_GB_but_for_one_query"] = figures["500M"]["peaks"][1][0] <= 3.0
    return checks


if __name__ == "__main__":
    if "--child" in sys.argv:
        print(json.dumps(child(*sys.argv[2:])))
    elif "--ask" in sys.argv:
        print(json.dumps(ask(sys.argv[2])))
    elif "--predict" in sys.argv:
        print(json.dumps(predict(sys.argv[2])))
    else:
        main()
