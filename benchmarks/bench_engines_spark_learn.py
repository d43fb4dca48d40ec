"""The whole of ``learn`` on Spark, on a standalone cluster of two workers, against DuckDB's run.

Generated tokens (20 million by default), window 32, ``spark.driver.maxResultSize=1m``. Bars: both
engines write the same files with the same certificates, and the driver, its Python and its Java together,
takes at most 1 GB. The driver is a process of its own here, so its memory is not that of executors. With
``--local`` Spark runs as ``local[2]`` in one Java process, and only the files must be the same.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

import attomaton as at
from generated import write_generated
from timing import report, timed

sys.path.append(str(Path(__file__).parents[1]))
from tests.engines.sparks import cluster_in, session_on

WINDOW, MOST_BYTES = 32, 1_000_000_000
DRIVER = {"spark.driver.memory": "500m", "spark.executor.memory": "1500m"}


class Watch(threading.Thread):
    """The largest resident memory of this process and of its Java, seen ten times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = {"python": 0, "java": 0, "together": 0}
        self.over = threading.Event()

    def run(self) -> None:
        here = psutil.Process()
        while not self.over.wait(0.1):
            java = [one for one in here.children() if "SparkSubmit" in " ".join(one.cmdline())]
            seen = {"python": here.memory_info().rss, "java": sum(one.memory_info().rss for one in java)}
            seen["together"] = seen["python"] + seen["java"]
            self.peak = {name: max(self.peak[name], size) for name, size in seen.items()}


def outcome(folder: Path) -> dict:
    """What must be equal: files with their digests, certificates and borders of parts."""
    manifest = json.loads((folder / "manifest.json").read_text())
    return {name: manifest[name] for name in ("files", "certificates", "soft", "borders", "n_tokens")}


@contextmanager
def spark_in(folder: Path, *, local: bool) -> Iterator[None]:
    """A session on a cluster of two workers, or on two threads of one Java process."""
    if local:
        with session_on("local[2]", **{"spark.driver.memory": "2g"}):
            yield
    else:
        with cluster_in(folder / "cluster") as cluster, session_on(cluster.master, **DRIVER):
            yield


def learn_on_spark(shards: Path, folder: Path, out: Path, *, local: bool) -> tuple[dict, float]:
    """Learn; the peak of the driver's memory, and the seconds."""
    with spark_in(folder, local=local):
        watch = Watch()
        watch.start()
        _, seconds = timed(lambda: at.learn(shards, window=WINDOW, engine="spark", out=out) and None)
        watch.over.set()
        watch.join()
    return watch.peak, seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=20_000_000)
    parser.add_argument("--shards", type=Path, help="shards written before, in place of new ones")
    parser.add_argument("--run", type=Path, help="the run that DuckDB wrote of them before")
    parser.add_argument("--local", action="store_true", help="on local[2], not on a cluster")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        shards, run = options.shards or place / "tokens", options.run or place / "duckdb"
        if options.shards is None:
            write_generated(shards, options.tokens)
        peak, seconds = learn_on_spark(shards, place, place / "spark", local=options.local)
        if options.run is None:
            at.learn(shards, window=WINDOW, engine=at.engines.Engine("duckdb", memory="2GB"), out=run)
        same = outcome(place / "spark") == outcome(run)
    figures = {"tokens": options.tokens, "seconds": seconds, "driver_bytes": peak}
    report(
        figures, {"same": same} | ({} if options.local else {"at_most_1_gb": peak["together"] <= MOST_BYTES})
    )
