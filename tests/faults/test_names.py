"""A name is only a name: folders called like patterns, partitions or quotes change no answer, on any engine.

Beside each folder stand others that a pattern of that name would find, with other documents in them.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import attomaton as at
from attomaton.base.errors import UnsupportedOption, UnwritablePlace
from attomaton.cli import app
from attomaton.corpora.shards import Shards
from attomaton.engines.duckdb import DuckDBEngine
from attomaton.engines.selection import Selection
from attomaton.engines.spark import SparkEngine
from tests.engines.edges import digest, load
from tests.engines.sparks import session_on

NAMES = [
    "a*",
    "a?",
    "[ab]",
    "a[b",
    "[!x]",
    "**",
    "{a,b}",
    "a'b",
    'a"b',
    "a\nb",
    "a\tb",
    "a b",
    "a%20b",
    "100%",
    "é",
    " leading",
    "-x",
    "a#b",
    "a?b=1&c",
    "x=1",
    "key=5",
    "support=7",
    "tokens=3",
    "row=2",
    "a\\*b",
    "a\\",
    "a:b",
    "file:",
    "s3:",
    "~",
    "$HOME",
    "_hidden",
    ".hidden",
    "a;b",
    "--",
    "'); DROP VIEW parts; --",
    os.fsdecode(b"not-utf8-\xff"),
]
SIBLINGS = ["a", "b", "ab", "aXb", "a*b", "abc", "x", "X"]
WINDOW = 6


def draw(seed):
    rng = np.random.default_rng(seed)
    return [(20 * rng.random(60) ** 2).astype(int).tolist() for _ in range(8)]


def write_rows(folder, documents, name="0.parquet"):
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("wb") as file:
        pq.write_table(pa.table({"tokens": pa.array(documents, pa.list_(pa.int32()))}), file)


def edges_by_definition(documents):
    """Counted as the definition reads, with nothing of the product."""
    found = {}
    for document in documents:
        for place in range(1, len(document)):
            context, label = document[max(0, place - WINDOW) : place], document[place]
            if label in context:
                for token in set(context) - {label}:
                    edge = (context[-1], label, token)
                    found[edge] = found.get(edge, 0) + 1
    return found


def edges_of(parts):
    table = parts.load().rows
    names = ("query", "winner", "loser", "support")
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    return {(query, winner, loser): support for query, winner, loser, support in rows}


def put_siblings(base):
    """Folders that a pattern might find: shards of other corpora, and parts of the very same job."""
    write_rows(base / "same", draw(1))
    same = Shards.from_folder(base / "same", n_tokens=20)
    for number, name in enumerate(SIBLINGS):
        write_rows(base / name / "shards", draw(100 + number))
        engine = on_duckdb(same, base / name / "work")
        engine.choices(at.find_components(load(engine.edges())))


@pytest.fixture(scope="module")
def among_siblings(tmp_path_factory):
    base = tmp_path_factory.mktemp("names")
    put_siblings(base)
    return base


def run_among(base, name, make_engine):
    """An engine's answer with shards and work in a folder of this name, against the definition."""
    documents = draw(1)
    write_rows(base / name / "shards", documents)
    shards = Shards.from_folder(base / name / "shards", n_tokens=20)
    engine = make_engine(shards, base / name / "work")
    edges = engine.edges()
    assert edges_of(edges) == edges_by_definition(documents)
    components = at.find_components(edges.load())
    return digest(edges), engine.choices(components)


def on_duckdb(shards, work):
    return DuckDBEngine(shards, work, Selection(WINDOW), "1GB", 1)


def on_spark(shards, work):
    return SparkEngine(shards, work, Selection(WINDOW))


@pytest.mark.slow  # campaign of file names
@pytest.mark.parametrize("name", NAMES)
def test_duckdb(name, among_siblings, tmp_path):
    found, choices = run_among(among_siblings, name, on_duckdb)
    expected, plain = run_among(tmp_path, "plain", on_duckdb)
    assert found == expected
    assert choices.rows.equals(plain.rows)


QUICK = ["a*", "{a,b}", "x=1", "a%20b", "_hidden"]
"""Spark takes some seconds for each name."""


@pytest.mark.parametrize("names", [QUICK, pytest.param(NAMES, marks=pytest.mark.slow)], ids=["some", "all"])
def test_spark(names, among_siblings, tmp_path):
    """All names on one session, which takes seconds to start."""
    with session_on("local[2]"):
        expected, plain = run_among(tmp_path, "plain", on_spark)
        for name in names:
            found, choices = run_among(among_siblings / "spark" / str(len(names)), name, on_spark)
            assert found == expected, name
            assert choices.rows.equals(plain.rows), name


def test_shards_of_any_name_count_on_spark(tmp_path):
    """Spark's own reader leaves out files that begin with ``_`` or a dot, and takes others for patterns."""
    names = ["_a.parquet", ".a.parquet", "a*.parquet", "aX.parquet", "x=1.parquet", "a:b.parquet"]
    for seed, name in enumerate(names):
        write_rows(tmp_path / "shards", draw(seed), name)
    with session_on("local[1]"):
        shards = Shards.from_folder(tmp_path / "shards", n_tokens=20)
        found = SparkEngine(shards, tmp_path / "work", Selection(WINDOW)).edges()
    every = [document for seed in range(len(names)) for document in draw(seed)]
    assert edges_of(found) == edges_by_definition(every)


@pytest.mark.slow  # campaign of file names
@pytest.mark.parametrize("name", ["a*", "[ab]", "x=1", "a'b", "{a,b}", "a\nb", "key=5"])
def test_the_command_and_its_out_folder(name, tmp_path):
    """``learn --out 'a*'``: the work folder lies in the folder that the user names."""
    put_siblings(tmp_path)
    text = " ".join(f"w{token}" for document in draw(3) for token in document)
    (tmp_path / "text.txt").write_text(text)
    command = ["learn", str(tmp_path / "text.txt"), "--window", "6", "--engine", "duckdb", "--quiet"]
    for out in (tmp_path / "plain", tmp_path / name):
        result = CliRunner().invoke(app, [*command, "--out", str(out)])
        assert result.exit_code == 0, result.output
    plain, found = (
        json.loads((out / "manifest.json").read_text())["files"]["edges-00000.parquet"]["sha256"]
        for out in (tmp_path / "plain", tmp_path / name)
    )
    assert found == plain


@pytest.mark.parametrize("name", ["s3:", "file:", "hdfs:", "memory:", "~", "-x", "a*"])
def test_relative_names(name, tmp_path, monkeypatch):
    """Without a slash in front, some names look like addresses."""
    monkeypatch.chdir(tmp_path)
    expected, plain = run_among(Path("plain"), "x", on_duckdb)
    found, choices = run_among(Path(name), "x", on_duckdb)
    assert found == expected
    assert choices.rows.equals(plain.rows)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["plain", name])


def test_where_no_plain_name_is_to_be_had(tmp_path, monkeypatch):
    import tempfile

    from attomaton.engines.merging import plainly_named

    (tmp_path / "a*").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a*"))
    with pytest.raises(UnsupportedOption, match="set TMPDIR"), plainly_named(tmp_path / "a*"):
        pass
    assert list((tmp_path / "a*").iterdir()) == []


class TestPartsOfAnotherJob:
    """Files with the right names and the wrong contents are never read, and those of others never touched."""

    def test_shards_written_into_a_folder_with_shards(self, tmp_path):
        write_rows(tmp_path, draw(5), "99999.parquet")
        ids = np.array([0, 1, 0, 2, 1, 1], np.int32)
        shards = Shards.write(tmp_path, ids, np.array([0, 6]), n_tokens=3)
        assert [path.name for path in shards.paths] == ["00000.parquet"]

    def test_a_part_of_another_job_under_this_job_s_name(self, tmp_path):
        """The bytes are whole and have their own digest, but they are of another corpus."""
        engines = {}
        for seed in (1, 2):
            write_rows(tmp_path / f"shards{seed}", draw(seed))
            shards = Shards.from_folder(tmp_path / f"shards{seed}", n_tokens=20)
            engines[seed] = on_duckdb(shards, tmp_path / f"work{seed}")
            engines[seed].edges()
        other, place = tmp_path / "work2", tmp_path / "work1"
        (record,) = place.glob("edges-*-00000.json")
        (stranger,) = other.glob("edges-*-00000.json")
        told = json.loads(stranger.read_text())
        record.write_text(json.dumps({**told, "fingerprint": json.loads(record.read_text())["fingerprint"]}))
        for part in other.glob("edges-*-00000-*.parquet"):
            (place / part.name).write_bytes(part.read_bytes())
        (place / "edges" / "edges.json").unlink()
        again = on_duckdb(engines[1].shards, place).edges()
        assert edges_of(again) == edges_by_definition(draw(1))

    def test_edges_of_another_job_are_not_taken_up(self, tmp_path):
        """A whole folder of edges from elsewhere: the fingerprint says that it is not ours."""
        for seed in (1, 2):
            write_rows(tmp_path / f"shards{seed}", draw(seed))
            on_duckdb(
                Shards.from_folder(tmp_path / f"shards{seed}", n_tokens=20), tmp_path / f"w{seed}"
            ).edges()
        (tmp_path / "w1" / "edges").rename(tmp_path / "gone")
        (tmp_path / "w2" / "edges").rename(tmp_path / "w1" / "edges")
        (tmp_path / "w1" / "edges" / "edges-99999.parquet").write_bytes(b"left by somebody")
        shards = Shards.from_folder(tmp_path / "shards1", n_tokens=20)
        assert edges_of(on_duckdb(shards, tmp_path / "w1").edges()) == edges_by_definition(draw(1))

    @pytest.mark.parametrize(
        "name", ["notes.draft", ".notes.draft", "edges/order.csv", "spill/thesis.tex", "x"]
    )
    @pytest.mark.parametrize("kind", ["duckdb", "spark"])
    def test_a_folder_with_files_of_others_is_no_place_to_work(self, name, kind, tmp_path):
        write_rows(tmp_path / "shards", draw(1))
        mine = tmp_path / "work" / name
        mine.parent.mkdir(parents=True)
        mine.write_text("mine")
        shards = Shards.from_folder(tmp_path / "shards", n_tokens=20)
        engine = on_duckdb(shards, tmp_path / "work")
        if kind == "spark":
            engine = SparkEngine(shards, tmp_path / "work", Selection(WINDOW), "local[1]")
        with pytest.raises(UnwritablePlace, match="contains other files"):
            engine.choices(None)
        assert mine.read_text() == "mine"
        assert [path.name for path in (tmp_path / "work").iterdir()] == [name.split("/")[0]]

    @pytest.mark.parametrize("name", ["notes.draft", ".notes.draft", "edges/order.csv", "edges/.my.draft"])
    def test_files_put_into_a_work_folder_stay(self, name, tmp_path):
        write_rows(tmp_path / "shards", draw(1))
        shards = Shards.from_folder(tmp_path / "shards", n_tokens=20)
        on_duckdb(shards, tmp_path / "work").edges()
        (tmp_path / "work" / name).write_text("mine")
        found = DuckDBEngine(shards, tmp_path / "work", Selection(3), "1GB", 1).edges()
        assert len(found) > 0
        assert (tmp_path / "work" / name).read_text() == "mine"

    def test_drafts_do_not_follow_links(self, tmp_path):
        """A link where a part is to be drafted: what it points to stays as it is."""
        write_rows(tmp_path / "shards", draw(1))
        shards = Shards.from_folder(tmp_path / "shards", n_tokens=20)
        on_duckdb(shards, tmp_path / "first").edges()
        (tmp_path / "mine").write_text("mine")
        work = tmp_path / "second"
        work.mkdir()
        (work / "attomaton-work.txt").touch()
        for part in (tmp_path / "first").glob("*.parquet"):
            (work / f".{part.name}.draft").symlink_to(tmp_path / "mine")
        assert edges_of(on_duckdb(shards, work).edges()) == edges_by_definition(draw(1))
        assert (tmp_path / "mine").read_text() == "mine"

    def test_two_runs_in_one_work_folder(self, tmp_path):
        write_rows(tmp_path / "shards", draw(1))
        shards = Shards.from_folder(tmp_path / "shards", n_tokens=20)
        refused = []

        def meanwhile(stage, done, total):
            if not refused:
                with pytest.raises(UnwritablePlace, match="another run uses the work folder") as error:
                    on_duckdb(shards, tmp_path / "work").edges()
                refused.append(error)

        first = DuckDBEngine(shards, tmp_path / "work", Selection(WINDOW), "1GB", 1, meanwhile)
        assert edges_of(first.edges()) == edges_by_definition(draw(1))
        assert len(refused) == 1
        assert edges_of(on_duckdb(shards, tmp_path / "work").edges()) == edges_by_definition(draw(1))
