"""Learning part by part: the same bytes as in memory, whatever the cut, the engine and who was there."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import attomaton as at
from attomaton.automaton.runs import staged
from attomaton.base.artifacts import parted
from attomaton.base.errors import CorruptRun
from attomaton.base.tables import rows_to_bytes
from attomaton.engines import Engine, partitions as edge_partitions
from attomaton.engines.partitions import sum_choices
from attomaton.engines.tasks import run_weighed
from attomaton.engines.work import StageRecords
from attomaton.graphs import partitions
from attomaton.graphs.choices import count_choices, encode_choices, extract_choices
from tests.engines.conftest import draw_documents, samples_of, write_shards


@pytest.fixture
def small_parts(monkeypatch):
    """Parts and row groups so small that a few hundred samples fill many."""
    monkeypatch.setattr(partitions, "PARTITION_SAMPLES", 20)
    monkeypatch.setattr(parted, "GROUP_ROWS", 32)


def told(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return {name: manifest[name] for name in ("files", "certificates", "soft", "borders", "n_tokens")}


@pytest.mark.filterwarnings("ignore::attomaton.base.errors.NothingRealisable")
@pytest.mark.parametrize("seed", range(12))
def test_the_same_bytes_in_memory_and_on_disk(tmp_path, small_parts, seed):
    documents, n_tokens = draw_documents(np.random.default_rng(seed))
    write_shards(tmp_path / "shards", [*documents, [0, 0]], n_tokens, 2)  # without a sample it is refused
    options = {"window": 6}
    for engine in ("memory", "duckdb"):
        at.learn(tmp_path / "shards", engine=Engine(engine, memory="1GB"), out=tmp_path / engine, **options)
    assert told(tmp_path / "memory") == told(tmp_path / "duckdb")


@pytest.mark.parametrize("seed", range(4))
def test_parts_whose_edges_are_not_held(tmp_path, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    write_shards(tmp_path / "shards", [rng.integers(0, 12, 300).tolist() for _ in range(4)], 12, 2)
    options = {"window": 6, "engine": Engine("duckdb", memory="1GB")}
    at.learn(tmp_path / "shards", out=tmp_path / "held", **options)
    monkeypatch.setattr(staged, "MOST_LOADED_EDGES", 5)
    monkeypatch.setattr(edge_partitions, "SCANNED_ROWS", 40)
    at.learn(tmp_path / "shards", out=tmp_path / "scanned", **options)
    assert told(tmp_path / "held") == told(tmp_path / "scanned")


@pytest.mark.filterwarnings("ignore::attomaton.base.errors.NothingRealisable")
@pytest.mark.parametrize("seed", range(20))
def test_parts_join_to_the_whole(monkeypatch, seed):
    documents, n_tokens = draw_documents(np.random.default_rng(seed))
    samples = samples_of(documents, n_tokens, 6)
    whole = at.learn(samples)
    monkeypatch.setattr(partitions, "PARTITION_SAMPLES", 10)
    joined = at.learn(samples)
    for table in ("nodes", "order"):
        assert getattr(whole.components, table).equals(getattr(joined.components, table))
    assert whole.hard.scores.equals(joined.hard.scores)
    assert whole.hard.multipliers.equals(joined.hard.multipliers)
    assert whole.soft.scores.equals(joined.soft.scores)
    assert joined.hard.certificate.upper == pytest.approx(whole.hard.certificate.upper, rel=1e-12)
    assert joined.soft.loss == pytest.approx(whole.soft.loss, rel=1e-12)
    assert joined.soft.certificate == whole.soft.certificate
    ties = partitions.keep_ties(whole.components)
    assert extract_choices(samples, ties).rows.equals(whole.soft.choices.rows)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_sorted_choices_are_added_up_across_batches(size):
    samples = at.Samples.from_lists(
        [[0, 1, 2], [1, 0, 2], [1, 0, 2], [0, 2], [0, 2], [0, 2]], [0, 1, 1, 0, 0, 2]
    )
    once = extract_choices(samples)
    expected = count_choices([once, once])
    rows = rows_to_bytes(*encode_choices(once))
    twice = pa.table({"row": pa.concat_arrays([rows, rows]), "count": np.tile(once["count"], 2)}).sort_by(
        "row"
    )
    batches = [(batch.column(0), batch.column(1).to_numpy()) for batch in twice.to_batches(size)]
    assert pa.concat_tables(sum_choices(batches)).combine_chunks().equals(expected.rows)


def test_a_record_is_taken_up_only_if_it_is_of_the_same_work_and_its_files_are_whole(tmp_path):
    stage_records, calls = StageRecords(tmp_path, "stage", "a" * 64), []

    def work(number):
        calls.append(number)
        (tmp_path / "file").write_bytes(b"whole")
        from attomaton.base.artifacts.files import entry_of

        return {"files": {"file": entry_of(tmp_path / "file")}}

    assert stage_records.run(0, work) == stage_records.run(0, work)
    assert calls == [0]
    (tmp_path / "file").write_bytes(b"other")
    stage_records.run(0, work)
    assert calls == [0, 0]
    StageRecords(tmp_path, "stage", "b" * 64).run(0, work)
    assert calls == [0, 0, 0]
    (tmp_path / "stage-00000.json").write_text("{")
    stage_records.run(0, work)
    assert calls == [0, 0, 0, 0]
    stage_records.run(7, work)
    stage_records.clear(1)
    assert [path.name for path in tmp_path.glob("*.json")] == ["stage-00000.json"]


def test_heavy_parts_are_worked_on_alone():
    import threading
    import time

    stop, at_once, most, told = threading.Event(), [0], {}, []

    def work(number):
        at_once[0] += 1
        time.sleep(0.01)
        most[number] = at_once[0]
        at_once[0] -= 1
        return {"number": number}

    weights = [1, 100, 1, 1, 100, 1]
    found = run_weighed(work, weights, threads=4, max_weight=10, report=told.append, stop=stop)
    assert [record["number"] for record in found] == list(range(6))
    assert most[1] == most[4] == 1
    assert told[-1] == sum(weights)


def test_a_part_that_fails_stops_the_others():
    import threading

    stop = threading.Event()

    def work(number):
        if number == 1:
            raise CorruptRun("here")
        return {}

    with pytest.raises(CorruptRun, match="here"):
        run_weighed(work, [1, 1, 1], threads=1, max_weight=10, report=lambda _: None, stop=stop)
    assert stop.is_set()


def test_finished_parts_are_taken_up_after_an_interruption(tmp_path, small_parts, monkeypatch):
    rng = np.random.default_rng(3)
    write_shards(tmp_path / "shards", [rng.integers(0, 12, 300).tolist() for _ in range(4)], 12, 2)
    options = {"window": 6, "engine": Engine("duckdb", memory="1GB", threads=1)}
    at.learn(tmp_path / "shards", out=tmp_path / "whole", **options)
    begun: list[int] = []
    seen: list[tuple[str, int]] = []
    original = StageRecords.run

    def counted(self, number, work):
        def noted(part):
            begun.append(part)
            if len(begun) == limit:
                raise KeyboardInterrupt
            record = work(part)
            seen.append((self.stage, part))
            return record

        return original(self, number, noted)

    monkeypatch.setattr(StageRecords, "run", counted)
    for limit in (3, 6, 10, 14):  # noqa: B007  (the closure reads it)
        begun.clear()
        with pytest.raises(KeyboardInterrupt):
            at.learn(tmp_path / "shards", out=tmp_path / "run", **options)
    limit = 10**9
    at.learn(tmp_path / "shards", out=tmp_path / "run", **options)
    assert len(seen) == len(set(seen)), "a finished part was worked on twice"
    assert told(tmp_path / "run") == told(tmp_path / "whole")


def test_an_automaton_of_no_folder_is_read_whole(tmp_path, small_parts):
    rng = np.random.default_rng(3)
    write_shards(tmp_path / "shards", [rng.integers(0, 12, 300).tolist()], 12)
    on_disk = at.learn(tmp_path / "shards", window=6, engine=at.engines.Engine("duckdb", memory="1GB"))
    in_memory = at.learn(tmp_path / "shards", window=6, engine="memory")
    assert on_disk.soft.scores.equals(in_memory.soft.scores)
    assert on_disk.coverage == in_memory.coverage
    assert not list(Path(tmp_path).glob("attomaton-*"))


class Interrupted(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("other", [[[3, 3, 3], [4]], [[3, 4, 3, 4, 3]]])
@pytest.mark.parametrize("min_support", [1, 100])
def test_the_hard_side_of_other_samples_is_not_taken_up(tmp_path, monkeypatch, other, min_support):
    """The edges are the same, or there are none; a query may have samples and no edge."""
    first = [[0, 1, 0, 1, 1, 0, 2, 0, 1, 2, 0]]
    keep = at.Selection(4, min_support=min_support)
    options = {"keep": keep, "engine": Engine("duckdb", memory="1GB")}
    write_shards(tmp_path / "one", [*first, [3, 4]], 5, 1)
    write_shards(tmp_path / "other", [*first, *other], 5, 1)
    with monkeypatch.context() as patch:

        def stop(*_, **__):
            raise Interrupted

        patch.setattr(staged.SoftStage, "__call__", stop)
        with pytest.raises(Interrupted):
            at.learn(tmp_path / "one", out=tmp_path / "run", **options)
    at.learn(tmp_path / "other", out=tmp_path / "run", **options)
    at.learn(tmp_path / "other", out=tmp_path / "memory", **{**options, "engine": "memory"})
    assert told(tmp_path / "run") == told(tmp_path / "memory")


def test_long_rows_of_choices_weigh_more(tmp_path, monkeypatch):
    """What a part takes goes by the members of its choice sets, not by their number alone."""
    rng, weighed = np.random.default_rng(0), []
    real = staged.SoftStage.weights.fget

    def weigh(stage):
        weighed.append(sum(real(stage)) / sum(int(entry["rows"]) + 1 for entry in stage.choices.entries))
        return real(stage)

    monkeypatch.setattr(staged.SoftStage, "weights", property(weigh))
    for window in (4, 64):
        place = tmp_path / f"shards{window}"
        write_shards(place, [rng.integers(0, 40, 400).tolist()], 40, 1)
        at.learn(
            place,
            window=window,
            engine=at.engines.Engine("duckdb", memory="1GB"),
            out=tmp_path / f"run{window}",
        )
    assert weighed[-1] > 2 * weighed[0]
