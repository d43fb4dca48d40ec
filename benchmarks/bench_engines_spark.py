"""The edge pass of the Spark engine against Spark's own groupBy, local[2], WikiText-2 train, window 32.

Ours: token lists in Parquet → shards digested, samples counted by query, sorted edge table in Parquet files
of whole queries, flushed, digested and read back, with a manifest. Bare: the same corpus's (query, winner,
loser) rows, already exploded to Parquet, → groupBy(query, winner, loser).count() → Parquet files, in any
order. Both in one session. Bar: ours takes at most 1.6 times as long. With --sizes, ours alone at 1M to 16M
generated tokens as well, with core-seconds of Java and Python.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from attomaton.corpora import Shards
from attomaton.engines import Selection, SparkEngine
from attomaton.engines.sparksession import open_session
from bench_engines_duckdb import contents, explode, write_wikitext
from generated import N_TYPES, write_generated
from timing import report, timed

WINDOW, THREADS, BAR = 32, 2, 1.6
SIZES = {"1M": 1_000_000, "2M": 2_000_000, "4M": 4_000_000, "8M": 8_000_000, "16M": 16_000_000}


def run_ours(shards: Shards, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    SparkEngine(shards, work, Selection(WINDOW)).edges()


def run_bare(session: Any, exploded: Path, out: Path) -> None:
    rows = session.read.parquet(str(exploded)).groupBy("query", "winner", "loser").count()
    rows.withColumnRenamed("count", "support").write.mode("overwrite").parquet(str(out))


def compare(session: Any, shards: Shards, folder: Path) -> dict:
    exploded, work, bare = folder / "exploded.parquet", folder / "work", folder / "bare"
    explode(shards, exploded)
    run_ours(shards, work)  # compile, and warm both engines
    _, seconds = timed(run_bare, session, exploded, bare)
    runs = 5 if seconds < 20 else 3
    ours, theirs = [], []
    for _ in range(runs):
        theirs.append(timed(run_bare, session, exploded, bare)[1])
        ours.append(timed(run_ours, shards, work)[1])
    rows, support, _ = contents(str(bare / "*.parquet"))
    return {
        "tokens": sum(shards.sizes),
        "exploded_rows": support,
        "edges": rows,
        "same": contents(str(bare / "*.parquet")) == contents(str(work / "edges" / "edges-*.parquet")),
        "ours_s": round(median(ours), 2),
        "bare_s": round(median(theirs), 2),
        "ratio": round(median(ours) / median(theirs), 3),
        "runs": runs,
    }


def measure(folder: Path, n_tokens: int) -> dict:
    """Our pass over generated text: seconds, core-seconds of all processes, edges and bytes."""
    write_generated(folder / "tokens", n_tokens)
    shards = Shards.from_folder(folder / "tokens", n_tokens=N_TYPES)
    used = core_seconds()
    _, seconds = timed(run_ours, shards, folder / "work")
    files = list((folder / "work" / "edges").glob("edges-*.parquet"))
    rows, _, _ = contents(str(folder / "work" / "edges" / "edges-*.parquet"))
    figures = {"tokens": n_tokens, "seconds": seconds, "core_seconds": round(core_seconds() - used, 1)}
    return {**figures, "edges": rows, "edge_bytes": sum(path.stat().st_size for path in files)}


def core_seconds() -> float:
    """Processor time of this process and all below it so far."""
    import psutil

    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(process.cpu_times()[:4]) for process in family)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        session = open_session(f"local[{THREADS}]", None, None)
        types = write_wikitext(place / "wikitext")
        wikitext = compare(session, Shards.from_folder(place / "wikitext", n_tokens=types), place)
        sizes = {size: measure(place / size, n) for size, n in SIZES.items() if "--sizes" in sys.argv}
        session.stop()
    bars = {"same": wikitext["same"], "at_most_1.6": wikitext["ratio"] <= BAR}
    report({"wikitext": wikitext, **sizes}, bars)
