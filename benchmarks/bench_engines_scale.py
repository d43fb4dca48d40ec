"""The edge pass of the DuckDB engine as the corpus grows: 2, 20, 60, 200 million generated tokens, window 32.

Each run is a process of its own under memory="2GB" with two threads, the median of three (of five at 2M).
Bars: at 20M tokens the process stays at or below 2.6 GB and gives the in-memory engine's digest; at 200M it
completes within the same memory and has read every position; time grows with tokens to a power of at most 1.1
(least squares of logarithms).
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from attomaton.base.artifacts.arrays import digest_arrays
from attomaton.corpora import Shards
from attomaton.engines import DuckDBEngine, MemoryEngine, Selection
from generated import N_TYPES, write_generated
from timing import peak_gigabytes, report

SIZES = {"2M": 2_000_000, "20M": 20_000_000, "60M": 60_000_000, "200M": 200_000_000}
WINDOW, MEMORY, THREADS = 32, "2GB", 2


def child(engine: str, corpus: str, work: str) -> dict:
    """One pass; what it took."""
    shards = Shards.from_folder(corpus, n_tokens=N_TYPES)
    start, used = time.perf_counter(), time.process_time()
    if engine == "duckdb":
        edges = DuckDBEngine(shards, Path(work), Selection(WINDOW), MEMORY, THREADS).edges()
    else:
        edges = MemoryEngine(shards, Selection(WINDOW)).edges()
    figures = {
        "tokens": sum(shards.sizes),
        "seconds": round(time.perf_counter() - start, 2),
        "core_seconds": round(time.process_time() - used, 2),
        "peak_gb": peak_gigabytes(),
        "edges": len(edges),
        "samples": int(
            sum(edges.queries.column(name).to_numpy().sum() for name in ("realisable", "unrealisable"))
        ),
        "bytes_read_and_written": 512 * sum(resource.getrusage(resource.RUSAGE_SELF)[9:11]),
    }
    if sum(shards.sizes) <= SIZES["20M"]:
        table = edges if engine == "memory" else edges.load()
        columns = [*table.rows.columns, *table.queries.columns]
        figures["digest"] = digest_arrays(*(values.to_numpy() for values in columns))
    return figures


def run(engine: str, corpus: Path, work: Path) -> dict:
    command = [sys.executable, __file__, "--child", engine, str(corpus), str(work)]
    figures = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    if engine == "duckdb":
        figures["part_bytes"] = sum(path.stat().st_size for path in work.glob("*.parquet"))
        figures["edge_bytes"] = sum(path.stat().st_size for path in (work / "edges").glob("*.parquet"))
        shutil.rmtree(work)
    return figures


def main() -> None:
    sizes = [size for size in SIZES if f"--without={size}" not in sys.argv]
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for size in sizes:
            write_generated(place / size, SIZES[size])
            if size == sizes[0]:
                run("duckdb", place / size, place / "work")  # compile
            runs = [run("duckdb", place / size, place / "work") for _ in range(5 if size == "2M" else 3)]
            figures[size] = middle(runs)
            if size == "20M":
                figures["20M in memory"] = run("memory", place / size, place / "work")
            documents = Shards.from_folder(place / size, n_tokens=N_TYPES)
            figures[size]["documents"] = count_documents(documents)
            shutil.rmtree(place / size)
    tokens = np.log([figures[size]["tokens"] for size in sizes])
    for growth, key in (("growth", "seconds"), ("growth_of_core_seconds", "core_seconds")):
        taken = np.log([figures[size][key] for size in sizes])
        figures[growth] = round(float(np.polyfit(tokens, taken, 1)[0]), 3)
    bars = {
        "same_answer_at_20M": figures["20M"]["digest"] == figures["20M in memory"]["digest"],
        "at_most_2.6_GB": all(figures[size]["peak_gb"] <= 2.6 for size in sizes),
        "every_position": all(
            figures[size]["samples"] == figures[size]["tokens"] - figures[size]["documents"] for size in sizes
        ),
        "growth_at_most_1.1": figures["growth"] <= 1.1,
    }
    report(figures, bars)


def middle(runs: list[dict]) -> dict:
    """The run of median time, with the largest memory of all and every time."""
    chosen = sorted(runs, key=lambda one: one["seconds"])[len(runs) // 2]
    return {
        **chosen,
        "peak_gb": max(one["peak_gb"] for one in runs),
        "all_seconds": [one["seconds"] for one in runs],
    }


def count_documents(shards: Shards) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in shards.paths)


if __name__ == "__main__":
    if "--child" in sys.argv:
        print(json.dumps(child(*sys.argv[2:])))
    else:
        main()
