"""The edge pass of the DuckDB engine against DuckDB's own GROUP BY, window 32, two threads.

Ours: token lists in Parquet → sorted edge table in Parquet, flushed, digested, with samples by query and a
manifest. Bare: the same corpus's (query, winner, loser) rows, already exploded to Parquet, → SELECT …,
count(*) GROUP BY ALL → one Parquet file, in any order. Bar: ours takes at most 1.5 times as long, at 2M
tokens (WikiText-2 train) and at 20M (generated).
"""

import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attomaton.corpora import Shards
from attomaton.corpora.readers.corpus import read_text
from attomaton.engines import DuckDBEngine, Selection
from attomaton.graphs import count_tokens
from generated import N_TYPES, write_generated
from timing import DATA, report, timed

WINDOW, THREADS, BAR = 32, 2, 1.5


def write_wikitext(folder: Path) -> int:
    """WikiText-2 train in two shards of 300 documents each; the size of its vocabulary."""
    documents = read_text(DATA / "wikitext-2" / "train.articles-shuffled.txt")
    folder.mkdir()
    for number, part in enumerate(np.array_split(documents.ids, 2)):
        lists = pa.array(np.array_split(part, 300), pa.list_(pa.int32()))
        pq.write_table(pa.table({"tokens": lists}), folder / f"{number}.parquet")
    return len(documents.vocabulary)


def explode(shards: Shards, path: Path) -> None:
    """Every edge of every sample as a row, in corpus order."""
    schema = pa.schema([(name, pa.int32()) for name in ("query", "winner", "loser")])
    with pq.ParquetWriter(path, schema) as writer:
        for piece in shards.chunks(1 << 19, WINDOW):
            bags = count_tokens(piece.samples(WINDOW))
            winner = bags.samples.labels[bags.sample]
            loses = bags.token != winner
            columns = [bags.samples.queries[bags.sample[loses]], winner[loses], bags.token[loses]]
            writer.write_table(pa.Table.from_arrays([pa.array(one) for one in columns], schema=schema))


def run_ours(shards: Shards, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    DuckDBEngine(shards, work, Selection(WINDOW), threads=THREADS).edges()


def run_bare(exploded: Path, out: Path) -> None:
    import duckdb

    with duckdb.connect(config={"threads": THREADS}) as connection:
        grouped = f"SELECT query, winner, loser, count(*) AS support FROM '{exploded}' GROUP BY ALL"
        connection.execute(f"COPY ({grouped}) TO '{out}'")


def contents(files: str) -> tuple:
    """The rows of a table whatever their order: how many, their support, and a hash."""
    import duckdb

    figures = "count(*), sum(support), bit_xor(hash(query, winner, loser, support::BIGINT))"
    with duckdb.connect(config={"threads": THREADS}) as connection:
        return connection.execute(f"SELECT {figures} FROM '{files}'").fetchall()[0]


def compare(shards: Shards, folder: Path, runs: int) -> dict:
    exploded, work, bare = folder / "exploded.parquet", folder / "work", folder / "bare.parquet"
    explode(shards, exploded)
    run_ours(shards, work)  # compile, and warm the disk's cache
    ours, theirs = [], []
    for _ in range(runs):
        theirs.append(timed(run_bare, exploded, bare)[1])
        ours.append(timed(run_ours, shards, work)[1])
    rows, support, _ = contents(str(bare))
    return {
        "tokens": sum(shards.sizes),
        "exploded_rows": support,
        "edges": rows,
        "same": contents(str(bare)) == contents(str(work / "edges" / "edges-*.parquet")),
        "ours_s": round(median(ours), 2),
        "bare_s": round(median(theirs), 2),
        "ratio": round(median(ours) / median(theirs), 3),
        "runs": runs,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        types = write_wikitext(place / "wikitext")
        (place / "2M").mkdir()
        small = compare(Shards.from_folder(place / "wikitext", n_tokens=types), place / "2M", 5)
        large = None
        if "--small" not in sys.argv:
            write_generated(place / "generated", 20_000_000)
            (place / "20M").mkdir()
            large = compare(Shards.from_folder(place / "generated", n_tokens=N_TYPES), place / "20M", 3)
    bars = {
        f"{size}_{bar}": reached
        for size, figures in (("2M", small), ("20M", large))
        if figures
        for bar, reached in (("same", figures["same"]), ("at_most_1.5", figures["ratio"] <= BAR))
    }
    report({"2M": small, "20M": large}, bars)
