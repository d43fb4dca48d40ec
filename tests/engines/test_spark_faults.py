"""Spark with failing tasks and lost workers: the answers are those of an undisturbed run, bit by bit."""

import numpy as np
import pytest

import attomaton as at
from attomaton.automaton.runs.staged import learn_by_partition
from attomaton.engines import spark
from attomaton.engines.duckdb import DuckDBEngine
from attomaton.engines.memory import MemoryEngine
from attomaton.engines.selection import Selection
from attomaton.engines.spark import SparkEngine
from attomaton.graphs import partitions
from tests.engines.conftest import write_shards
from tests.engines.edges import digest
from tests.engines.sparkfaults import KINDS, MANY, failing_tasks, read_attempts, workers_killed
from tests.engines.sparks import cluster_in, session_on

TASKS = {
    *("DigestFiles", "CountSamples", "StoreRows", "PackEdges", "WriteEdges", "JoinFiles"),
    *("HardStage", "JoinTies", "PackChoices", "WriteChoices", "SoftStage"),
}
"""What executors do for a run."""

RATE = 0.25
SELECTION = Selection(16)
N_TOKENS = 500


@pytest.fixture
def shards(tmp_path, monkeypatch):
    """Some tens of tasks in each pass, and some parts."""
    monkeypatch.setattr(partitions, "PARTITION_SAMPLES", 700)
    monkeypatch.setattr(spark, "TASK_SAMPLES", 200)
    monkeypatch.setattr(spark, "MOST_TASK_TOKENS", 1 << 12)
    monkeypatch.setattr(spark, "LEAST_TASK_TOKENS", 1 << 12)
    monkeypatch.setattr(spark, "SPARK_CHUNK_TOKENS", 1 << 11)
    rng = np.random.default_rng(12)
    documents = [(N_TOKENS * rng.random(1000) ** 3).astype(int).tolist() for _ in range(30)]
    return write_shards(tmp_path / "shards", documents, N_TOKENS, 4)


def answers(engine):
    """Digests of every file of a run: edges, hard side, choices, soft side; and both certificates."""
    finished = learn_by_partition(engine, engine.edges())
    files = {(table, number): entry["sha256"] for table, number, _, entry in finished._files()}
    return files, finished.proofs, finished.coverage(None)


def check_attempts(log):
    """So many did fail, in every way, and every task was tried until it went well."""
    attempts = read_attempts(log)
    failed = [attempt for attempt in attempts if attempt.kind != "well"]
    assert {attempt.kind for attempt in failed} == set(KINDS)
    assert 0.6 * RATE < len(failed) / len(attempts) < 1.5 * RATE
    well = {(attempt.stage, attempt.part) for attempt in attempts if attempt.kind == "well"}
    assert {(attempt.stage, attempt.part) for attempt in attempts} == well
    return attempts


@pytest.mark.parametrize("seeds", [[1], pytest.param([2, 3, 4, 5], marks=pytest.mark.slow)])
def test_a_quarter_of_all_attempts_fails(shards, tmp_path, seeds):
    expected = answers(DuckDBEngine(shards, tmp_path / "duckdb", SELECTION, "1GB", 2))
    assert len(expected[0]) > 4 * 5  # tables and parts
    master = f"local[2,{MANY}]"
    with session_on(master):
        for seed in seeds:
            work, log = tmp_path / f"work{seed}", tmp_path / f"log{seed}"
            with failing_tasks(log, rate=RATE, seed=seed):
                assert answers(SparkEngine(shards, work, SELECTION, master)) == expected
            check_attempts(log)


def test_too_many_failures_are_told_and_the_next_run_ends_well(shards, tmp_path):
    """Where every attempt fails the run says so; nothing of what it wrote is taken for an answer."""
    expected = digest(MemoryEngine(shards, SELECTION).edges())
    with session_on("local[2,2]"):
        engine = SparkEngine(shards, tmp_path / "work", SELECTION)
        every = failing_tasks(tmp_path / "log", rate=1.0, seed=1, only="WriteEdges")
        with every, pytest.raises(at.AttomatonError, match="Spark failed"):
            engine.edges()
        assert {path.name for path in (tmp_path / "work" / "edges").iterdir()} > {"queries.parquet"}
        assert digest(SparkEngine(shards, tmp_path / "work", SELECTION).edges()) == expected


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, RATE])
def test_a_worker_killed_in_every_stage(shards, tmp_path, rate):
    """Ten runs on a cluster of two workers: samples, edges, the hard side, choices and the soft side.

    And ten in which a quarter of all attempts fails besides.
    """
    expected = answers(DuckDBEngine(shards, tmp_path / "duckdb", SELECTION, "1GB", 2))
    equal = kills = stages = n_attempts = 0
    settings = {"spark.task.maxFailures": MANY}
    with cluster_in(tmp_path / "cluster") as cluster, session_on(cluster.master, **settings) as session:
        for number in range(10):
            log, gate = tmp_path / f"log{number}", tmp_path / f"gate{number}"
            engine = SparkEngine(shards, tmp_path / f"work{number}", SELECTION, cluster.master)
            with (
                failing_tasks(log, rate=rate, seed=number, gate=gate),
                workers_killed(session, cluster, gate) as killed,
            ):
                equal += answers(engine) == expected
            attempts = check_attempts(log) if rate else read_attempts(log)
            assert {attempt.task for attempt in attempts} == TASKS
            ours = {attempt.stage for attempt in attempts}
            kills, stages = kills + len(ours & set(killed)), stages + len(ours)
            n_attempts += len(attempts)
            print(f"run {number}: {equal} equal, {n_attempts} attempts, {kills} kills in {stages} stages")  # noqa: T201
    assert equal == 10
    assert kills == stages
