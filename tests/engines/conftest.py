"""Corpora of token lists and the engines that every test of this folder runs on."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import attomaton as at
from attomaton.corpora.shards import Shards
from attomaton.engines.duckdb import DuckDBEngine
from attomaton.engines.memory import MemoryEngine
from attomaton.engines.spark import SparkEngine
from tests.engines.sparks import spark_on

ENGINES: dict[str, Callable] = {
    "memory": lambda shards, _, selection: MemoryEngine(shards, selection),
    "duckdb-1": lambda shards, work, selection: DuckDBEngine(shards, work, selection, "1GB", 1),
    "duckdb-2": lambda shards, work, selection: DuckDBEngine(shards, work, selection, "1GB", 2),
}
"""Name → (shards, work folder, selection) → engine."""


SPARKS = [
    "spark-local",
    pytest.param("spark-cluster", marks=pytest.mark.slow),
]


SPARK_IN_GATE = "test_random_corpora_together[spark-local-0]"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """In the gate one test starts Spark, which takes seconds to start and up to one for each job."""
    for item in items:
        starts = "[spark" in item.nodeid or item.path.name == "test_spark_faults.py"
        if starts and item.name != SPARK_IN_GATE:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=ENGINES)
def make_quick_engine(request):
    return ENGINES[request.param]


@pytest.fixture(scope="module", params=[*ENGINES, *SPARKS])  # other modules need sessions of their own
def make_engine(request, tmp_path_factory):
    if request.param in ENGINES:
        yield ENGINES[request.param]
    else:
        with spark_on(request.param, tmp_path_factory) as master:
            yield lambda shards, work, selection: SparkEngine(shards, work, selection, master)


def draw_documents(rng):
    """Ragged documents over a few tokens: empty ones, single tokens, long ones, many repetitions."""
    n_tokens = int(rng.choice([1, 2, 5, 30, 400]))
    lengths = rng.choice([0, 1, 2, 7, 40, 150], int(rng.integers(0, 12)))
    return [rng.integers(0, n_tokens, length).tolist() for length in lengths], n_tokens


def write_shards(folder, documents, n_tokens, n_shards=1, *, large=False) -> Shards:
    """The documents in so many Parquet files."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = pa.large_list(pa.int32()) if large else pa.list_(pa.int32())
    borders = np.linspace(0, len(documents), n_shards + 1).astype(int)
    for number in range(n_shards):
        rows = documents[borders[number] : borders[number + 1]]
        table = pa.table({"tokens": pa.array(rows, kind)})
        pq.write_table(table, folder / f"{number:03d}.parquet", row_group_size=5)
    return Shards.from_folder(folder, n_tokens=n_tokens)


def samples_of(documents, n_tokens, window) -> at.Samples:
    """The plain definition: every window of every document."""
    ids = [token for document in documents for token in document]
    borders = np.concatenate([[0], np.cumsum([len(document) for document in documents])]).astype(int)
    return at.Samples.from_windows(ids, window=window, documents=borders, n_tokens=n_tokens)
