"""Learn on Spark writes the run that DuckDB writes, byte for byte, and takes up what an earlier run left."""

import json

import numpy as np
import pytest

import attomaton as at
from attomaton.automaton.runs.staged import learn_by_partition
from attomaton.engines import spark
from attomaton.engines.selection import Selection
from attomaton.graphs import partitions
from tests.engines.conftest import SPARKS, draw_documents, write_shards

SAMPLES = 90
"""Realisable samples of a part: a few parts for each corpus."""

on_spark = pytest.mark.parametrize("make_engine", SPARKS, indirect=True, scope="session")


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(partitions, "PARTITION_SAMPLES", SAMPLES)


def told(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return {name: manifest[name] for name in ("files", "certificates", "soft", "borders", "n_tokens")}


def check_equal(source, place, **options):
    """Learn with both; the engine takes the session that the fixture started."""
    for engine, memory in (("duckdb", "1GB"), ("spark", None)):
        at.learn(source, engine=at.engines.Engine(engine, memory=memory), out=place / engine, **options)
    assert told(place / "spark") == told(place / "duckdb")


@pytest.mark.filterwarnings("ignore::attomaton.base.errors.NothingRealisable")
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 200), marks=pytest.mark.slow)])
@on_spark
def test_the_same_run_as_duckdb(make_engine, tmp_path, small_parts, seeds):
    for seed in seeds:
        documents, n_tokens = draw_documents(np.random.default_rng(seed))
        write_shards(tmp_path / f"shards{seed}", [*documents, [0, 0]], n_tokens, 2)
        check_equal(tmp_path / f"shards{seed}", tmp_path / f"runs{seed}", window=6)


@on_spark
def test_a_large_query_is_counted_by_several_tasks(make_engine, tmp_path, small_parts, monkeypatch):
    monkeypatch.setattr(spark, "TASK_SAMPLES", 20)
    rng = np.random.default_rng(3)
    write_shards(tmp_path / "shards", [(9 * rng.random(400) ** 3).astype(int).tolist()], 9)
    tasks = []
    whole = spark.map_batches

    def listen(frame, function, schema):
        tasks.append(function)
        return whole(frame, function, schema)

    monkeypatch.setattr(spark, "map_batches", listen)
    check_equal(tmp_path / "shards", tmp_path, window=6)
    joins = [task for task in tasks if type(task).__name__ == "JoinFiles"]
    assert [task.kind for task in joins] == ["edges", "choices"]
    assert max(map(len, joins[0].files)) > 5


@pytest.mark.slow
@on_spark
def test_wikitext(make_engine, tmp_path, wikitext):
    check_equal(wikitext / "train.articles-shuffled.txt", tmp_path, window=32)


@pytest.fixture
def shards(tmp_path):
    rng = np.random.default_rng(3)
    return write_shards(tmp_path / "shards", [rng.integers(0, 12, 300).tolist() for _ in range(4)], 12, 2)


def stamps(folder):
    """When each file of rows was written; those that no record names are left out."""
    found = [path for path in folder.glob("*/*.parquet") if not path.name.startswith("ties")]
    return {path: path.stat().st_mtime_ns for path in found}


@on_spark
def test_finished_work_is_taken_up(make_engine, tmp_path, small_parts, shards):
    work = tmp_path / "work"

    def learn():
        engine = make_engine(shards, work, Selection(6))
        return learn_by_partition(engine, engine.edges())

    first = learn()
    assert len(first.hard) == len(first.soft) > 3
    written = stamps(work)
    assert {path.parent.name for path in written} == {"edges", "hard", "choices", "soft"}
    again = learn()
    assert stamps(work) == written
    assert again.proofs == first.proofs
    lost = work / "hard" / again.hard[2]["names"]["nodes"]
    lost.write_bytes(lost.read_bytes()[:-1])
    lost_choices = again.choices.files[0]
    lost_choices.unlink()
    third = learn()
    new = {path for path in stamps(work) if path not in written}
    assert {path.parent.name for path in new} == {"hard", "choices"}
    assert {path.name[:11] for path in new if path.parent.name == "hard"} == {
        "nodes-00002",
        "order-00002",
        "index-00002",
    }
    assert digests(third) == digests(first)
    other = make_engine(shards, work, Selection(4))
    assert digests(learn_by_partition(other, other.edges())) != digests(first)


def digests(finished):
    return [entry["sha256"] for *_, entry in finished._files()]


@on_spark
def test_what_the_driver_hears_does_not_grow_with_the_files(make_engine, tmp_path, small_parts, shards):
    """Numbers and names only; entries, with the digests of blocks, are read from files beside the rows."""
    heard = []
    engine = make_engine(shards, tmp_path / "work", Selection(6))
    collect = type(engine)._collect

    def listen(self, stage, entries):
        rows = collect(self, stage, entries)
        heard.extend(json.dumps(row) for row in rows)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(engine), "_collect", listen)
        learn_by_partition(engine, engine.edges())
    assert len(heard) > 15
    assert max(map(len, heard)) < 160  # a digest, a name and a size; digests of blocks would be longer


@on_spark
def test_a_work_folder_that_is_not_shared_is_told(make_engine, tmp_path, shards):
    engine = make_engine(shards, tmp_path / "work", Selection(6))
    edges = engine.edges()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attomaton.engines.work.artifacts.read_sealed", lambda _: None)
        with pytest.raises(at.AttomatonError, match="that all machines share"):
            learn_by_partition(engine, edges)
