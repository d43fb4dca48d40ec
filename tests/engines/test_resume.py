"""Killed, interrupted or out of room: a rerun gives the same answer, and nothing half-written loads."""

import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from attomaton.base.errors import CorruptRun, UnwritablePlace
from attomaton.engines import partitions, tasks
from attomaton.engines.duckdb import DuckDBEngine
from attomaton.engines.memory import MemoryEngine
from attomaton.engines.selection import Selection
from tests.engines.conftest import samples_of, write_shards
from tests.engines.edges import digest

PROGRAM = textwrap.dedent("""
    import sys
    from pathlib import Path
    from attomaton.engines import tasks
    from attomaton.engines.duckdb import DuckDBEngine
    from attomaton.engines.selection import Selection
    from attomaton.corpora.shards import Shards

    tasks.JOB_TOKENS = int(sys.argv[3])
    shards = Shards.from_folder(sys.argv[1], n_tokens=500)
    engine = DuckDBEngine(shards, Path(sys.argv[2]), Selection(16), "1GB", 2)
    print("ready", flush=True)
    engine.edges()
""")


def draw_text(n_documents, length, seed=5):
    rng = np.random.default_rng(seed)
    return [(500 * rng.random(length) ** 3).astype(int).tolist() for _ in range(n_documents)]


@pytest.fixture
def many_jobs(monkeypatch):
    monkeypatch.setattr(tasks, "JOB_TOKENS", 2000)


class StopHere(BaseException):
    """Stands for Ctrl-C at one place."""


def stop_at(call):
    calls = []

    def progress(stage, done, total):
        assert 0 <= done <= total
        calls.append(stage)
        if len(calls) == call:
            raise StopHere

    return progress


def test_interrupted_anywhere(tmp_path, many_jobs):
    shards = write_shards(tmp_path, draw_text(12, 1000), 500, 6)
    expected = digest(MemoryEngine(shards, Selection(16)).edges())
    place = tmp_path / "work"
    kept = set()
    for call in range(1, 40):
        before = {path: path.stat().st_mtime_ns for path in kept}
        engine = DuckDBEngine(shards, place, Selection(16), "1GB", 2, stop_at(call))
        try:
            found = engine.edges()
        except StopHere:
            assert not (place / "spill").exists()
            assert not list(place.rglob(".*.draft"))
            with pytest.raises(CorruptRun):
                partitions.open_edges(place / "edges", {})
        else:
            break
        assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items()), "work done twice"
        kept = set(place.glob("edges-*-*.parquet")) if list(place.glob("edges-*.json")) else set()
        kept = {path for path in kept if (place / f"{path.name[:28]}.json").exists()}
    assert call > 4
    assert digest(found) == expected


def test_finished_work_is_taken_up_and_changed_work_is_not(tmp_path, many_jobs):
    documents = draw_text(6, 1000)
    shards = write_shards(tmp_path, documents, 500, 3)
    place = tmp_path / "work"
    first = DuckDBEngine(shards, place, Selection(16), "1GB", 2).edges()
    stamps = {path: path.stat().st_mtime_ns for path in place.rglob("*.parquet")}
    again = DuckDBEngine(shards, place, Selection(16), "1GB", 1).edges()
    assert digest(again) == digest(first)
    assert stamps == {path: path.stat().st_mtime_ns for path in place.rglob("*.parquet")}
    for settings in (Selection(8), Selection(16, queries=(1, 2))):
        found = DuckDBEngine(shards, place, settings, "1GB", 2).edges()
        assert digest(found) == digest(MemoryEngine(shards, settings).edges())
    damaged = next(path for path in place.glob("edges-*.parquet") if path.stat().st_size > 2000)
    damaged.write_bytes(damaged.read_bytes()[:-7])
    assert digest(DuckDBEngine(shards, place, Selection(16), "1GB", 2).edges()) == digest(first)
    documents[0] = documents[0][::-1]
    changed = write_shards(tmp_path, documents, 500, 3)
    found = DuckDBEngine(changed, place, Selection(16), "1GB", 2).edges()
    assert digest(found) == digest(MemoryEngine(samples_of(documents, 500, 16)).edges()) != digest(first)


@pytest.mark.slow  # fills a disk
@pytest.mark.parametrize("stage", ["parts", "merging"])
def test_no_room(tmp_path, many_jobs, stage):
    """A limit on the size of files stands for a full disk: both are an OSError in the middle of a write."""
    shards = write_shards(tmp_path, draw_text(16, 2500), 500, 16)
    DuckDBEngine(shards, tmp_path / "whole", Selection(16), "1GB", 2).edges()
    largest = {folder: largest_file(tmp_path / "whole" / folder) for folder in (".", "edges")}
    assert largest["."] < largest["edges"]
    limit = 100 if stage == "parts" else largest["."]
    code = PROGRAM.replace("engine.edges()", f"limits = ({limit}, {limit})\n") + textwrap.dedent("""
        import resource
        from attomaton.base.errors import AttomatonError
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        try:
            engine.edges()
        except AttomatonError as error:
            print(type(error).__name__, error)
    """)
    command = [sys.executable, "-c", code, str(tmp_path), str(tmp_path / "work"), "2000"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "UnwritablePlace" in result.stdout
    assert "free space" in result.stdout
    assert not result.stderr
    with pytest.raises(CorruptRun):
        partitions.open_edges(tmp_path / "work" / "edges", {})
    assert bool(list((tmp_path / "work").glob("edges-*.json"))) == (stage == "merging")
    assert not list((tmp_path / "work").rglob(".*.draft"))


def largest_file(folder):
    return max(path.stat().st_size for path in folder.glob("*.parquet"))


def test_places_that_cannot_be_written(tmp_path):
    shards = write_shards(tmp_path, [[0, 1, 0]], 2)
    (tmp_path / "file").touch()
    with pytest.raises(UnwritablePlace, match="file"):
        DuckDBEngine(shards, tmp_path / "file" / "work", Selection(4), "1GB", 1).edges()


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    """Kill −9 at 20 moments spread over the run."""
    shards = write_shards(tmp_path, draw_text(40, 20_000), 500, 8)
    expected = digest(MemoryEngine(shards, Selection(16)).edges())
    rng = np.random.default_rng(6)
    length = run_for(tmp_path, tmp_path / "whole", 1e9)
    taken_up = killed = 0
    for number in range(20):
        place = tmp_path / f"work{number}"
        killed += run_for(tmp_path, place, rng.random() * length) is None
        finished = {path: path.stat().st_mtime_ns for path in place.glob("*.json")}
        found = DuckDBEngine(shards, place, Selection(16), "1GB", 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tasks, "JOB_TOKENS", 100_000)
            assert digest(found.edges()) == expected
        assert all(path.stat().st_mtime_ns == stamp for path, stamp in finished.items())
        taken_up += bool(finished)
    assert killed >= 15
    assert taken_up >= 5


def run_for(corpus, place, seconds):
    """Run the pass in a process and kill it after so long; how long it took, or None if it was killed."""
    command = [sys.executable, "-c", PROGRAM, str(corpus), str(place), "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        start = time.perf_counter()
        try:
            process.wait(timeout=min(seconds, 600))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            return None
        assert process.returncode == 0
        return time.perf_counter() - start
