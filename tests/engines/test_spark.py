"""What is special about Spark: solvers where the data is, a bounded driver, lost workers, clear errors."""

import doctest
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from typer.testing import CliRunner

import attomaton as at
from attomaton.base.errors import MissingExtra, TokenOutOfRange, UnreadableSource, UnsupportedOption
from attomaton.cli import app
from attomaton.engines import spark, sparksession
from attomaton.engines.memory import MemoryEngine
from attomaton.engines.selection import Selection
from attomaton.engines.spark import SparkEngine
from tests.engines.conftest import SPARKS, write_shards
from tests.engines.edges import digest
from tests.engines.sparks import cluster_in, session_on


def draw_text(n_documents, length, n_tokens=60):
    rng = np.random.default_rng(9)
    return [(n_tokens * rng.random(length) ** 2).astype(int).tolist() for _ in range(n_documents)]


on_spark = pytest.mark.parametrize("make_engine", SPARKS, indirect=True, scope="session")


@on_spark
def test_the_example_of_the_docstring_runs(make_engine):
    """The doctests leave it out, for it needs Java; the engine takes the session that the fixture started."""
    (example,) = doctest.DocTestFinder(recurse=False).find(SparkEngine)
    for line in example.examples:
        line.options.pop(doctest.SKIP, None)
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example).failed == 0


@on_spark
def test_the_driver_takes_at_most_1_mb(make_engine, tmp_path):
    """In the session of these tests Spark refuses a larger result, so no engine here asks for one."""
    engine = make_engine(write_shards(tmp_path, draw_text(4, 200), 60), tmp_path / "work", Selection(8))
    with pytest.raises(Exception, match="maxResultSize"):
        engine.session.range(0, 10**6, 1, 2).collect()


@on_spark
def test_finished_edges_are_taken_up(make_engine, tmp_path):
    shards = write_shards(tmp_path, draw_text(4, 200), 60)
    first = digest(make_engine(shards, tmp_path / "work", Selection(8)).edges())
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "edges").iterdir()}
    again = make_engine(shards, tmp_path / "work", Selection(8)).edges()
    assert digest(again) == first
    assert stamps == {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "edges").iterdir()}
    assert digest(make_engine(shards, tmp_path / "work", Selection(4)).edges()) != first


@on_spark
def test_errors_name_file_and_document(make_engine, tmp_path):
    shards = write_shards(tmp_path, [[0, 1, 0], [1, 0], [0, 9, 0], [1]], 10, 2)
    small = type(shards)(shards.paths, 5)
    with pytest.raises(TokenOutOfRange, match=r"token 9 at .*001\.parquet, row 0, position 1,"):
        make_engine(small, tmp_path / "work", Selection(4)).edges()
    shards.paths[0].write_bytes(shards.paths[0].read_bytes()[:-9])
    with pytest.raises(UnreadableSource, match=r"000\.parquet"):
        make_engine(shards, tmp_path / "work", Selection(4)).edges()
    with pytest.raises(UnsupportedOption, match="stop it, or use it"):
        SparkEngine(shards, tmp_path / "work", Selection(4), "local[7]").edges()


@on_spark
def test_all_limits_at_once(make_engine, tmp_path):
    shards = write_shards(tmp_path, draw_text(10, 200), 60, 3)
    selection = Selection(8, max_window=5, min_support=2, queries=9, sample_queries=0.7)
    found = make_engine(shards, tmp_path / "work", selection).edges()
    assert digest(found) == digest(MemoryEngine(shards, selection).edges())
    assert 0 < found.queries.num_rows <= 9


@on_spark
def test_learn_and_the_command(make_engine, tmp_path):
    """The same run as in memory; the engine takes the session that the fixture started."""
    write_shards(tmp_path / "shards", draw_text(6, 200), 60, 2)
    expected = at.learn(tmp_path / "shards", window=8, engine="memory")
    found = at.learn(tmp_path / "shards", window=8, engine="spark", out=tmp_path / "run")
    assert not (tmp_path / "run" / "work.draft").exists()
    assert found.hard.scores.equals(expected.hard.scores)
    assert found.soft.scores.equals(expected.soft.scores)
    options = ["--window", "8", "--engine", "spark", "--memory", "256MB", "--json"]
    result = CliRunner().invoke(app, ["learn", str(tmp_path / "shards"), *options])
    assert json.loads(result.stdout)["n_edges"] == expected.coverage.n_edges


@pytest.mark.slow  # starts Spark in a process of its own
def test_little_memory_is_enough_to_start(tmp_path):
    write_shards(tmp_path / "shards", draw_text(6, 200), 60, 2)
    command = ["learn", "shards", "--window", "8", "--engine", "spark", "--memory", "256MB", "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "attomaton", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["n_edges"] == at.learn(tmp_path / "shards", window=8).coverage.n_edges


def test_what_is_missing(tmp_path, monkeypatch):
    shards = write_shards(tmp_path, [[0, 1, 0]], 2)
    engine = SparkEngine(shards, tmp_path / "work", Selection(4), "local[1]")
    monkeypatch.setattr(sparksession.shutil, "which", lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingExtra, match="openjdk-17-jre-headless"):
        engine.edges()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtra, match=r"pip install 'attomaton\[spark\]'"):
        engine.edges()


@pytest.mark.slow
def test_a_worker_killed_in_mid_job(tmp_path, monkeypatch):
    """Kill −9 of one of two workers while tasks run, five times: the digest is always the same."""
    monkeypatch.setattr(spark, "SPARK_CHUNK_TOKENS", 1 << 14)
    shards = write_shards(tmp_path / "shards", draw_text(60, 10_000, 2_000), 2_000, 12)
    expected = digest(MemoryEngine(shards, Selection(32)).edges())
    monkeypatch.setattr(spark, "MOST_TASK_TOKENS", 1 << 15)
    with cluster_in(tmp_path / "cluster") as cluster, session_on(cluster.master) as session:
        for number, (stage, n_tasks) in enumerate([(1, 3), (2, 2), (2, 7), (3, 1), (3, 5)]):
            engine = SparkEngine(shards, tmp_path / f"work{number}", Selection(32), cluster.master)
            with ThreadPoolExecutor(1) as pool:
                job = pool.submit(engine.edges)
                wait_for_tasks(session, job, stage=stage, n_tasks=n_tasks)
                assert not job.done()
                cluster.kill_worker()
                assert digest(job.result()) == expected
            cluster.add_worker()


def wait_for_tasks(session, job, *, stage, n_tasks):
    """Until so many tasks of this stage are done and more run: shards digested, samples, edges, files."""
    tracker = session.sparkContext.statusTracker()
    seen = []
    while not job.done():
        for active in tracker.getActiveStageIds():
            told = tracker.getStageInfo(active)
            if told is None or told.numTasks < 8:
                continue
            seen += [active] if active not in seen else []
            if len(seen) > stage and told.numActiveTasks and told.numCompletedTasks >= n_tasks:
                return
        time.sleep(0.01)
