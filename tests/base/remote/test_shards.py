"""Corpora behind URLs: every engine learns the same from a bucket as from a disk."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import attomaton as at
from attomaton.base.errors import CorruptRun, UnreadableSource, UnsupportedOption
from attomaton.base.remote import RemotePath
from attomaton.corpora.shards import Shards, is_tokenized, read_tokens
from attomaton.engines.choose import Engine, make_engine
from attomaton.engines.duckdb import DuckDBEngine
from attomaton.engines.selection import Selection
from attomaton.engines.work import fingerprint
from tests.base.remote.store import Faults, Proxy
from tests.cli.inside import run_inside
from tests.engines.edges import digest

SELECTION = Selection(window=6)


def write_local(folder: Path, n_shards: int = 3, seed: int = 1) -> Shards:
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for number in range(n_shards):
        documents = [rng.integers(0, 12, rng.integers(0, 60)).tolist() for _ in range(20)]
        table = pa.table({"tokens": pa.array(documents, pa.list_(pa.int32()))})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=7)
    return Shards.from_folder(folder)


def send(folder: Path, place: RemotePath) -> RemotePath:
    for file in folder.rglob("*"):
        if file.is_file():
            (place / file.relative_to(folder).as_posix()).upload(file)
    return place


@pytest.fixture(params=["s3", "memory", "file"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> RemotePath:
    """A folder behind each kind of URL."""
    if request.param == "s3":
        return request.getfixturevalue("bucket") / "shards"
    return RemotePath(f"{request.param}://{tmp_path}/remote/shards")


def test_shards_behind_urls_are_those_of_the_disk(remote: RemotePath, tmp_path: Path) -> None:
    local = write_local(tmp_path / "shards")
    send(tmp_path / "shards", remote)
    shards = Shards.from_folder(remote.url)
    assert (shards.n_tokens, shards.sizes) == (local.n_tokens, local.sizes)
    assert shards == Shards.from_paths([str(path) for path in shards.paths])
    for one, other in zip(shards.chunks(100, 6), local.chunks(100, 6), strict=True):
        assert np.array_equal(one.ids, other.ids)
    cuts, known = shards.cut(50), local.cut(50)
    assert len(cuts) == len(known) > 3
    assert [p.ids.tolist() for p in cuts.chunks(2, 50)] == [p.ids.tolist() for p in known.chunks(2, 50)]


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_engines_learn_the_same_through_a_quarter_of_faults(
    bucket: RemotePath, proxy: Proxy, tmp_path: Path, engine: str
) -> None:
    local = write_local(tmp_path / "shards")
    send(tmp_path / "shards", bucket / "shards")
    wanted = digest(make_engine("memory", local, SELECTION, work=tmp_path / "none").edges())
    proxy.faults = Faults(0.25, seed=7, only=("500", "503", "reset", "cut"))
    shards = Shards.from_folder(f"{bucket}/shards")
    found = make_engine(Engine(engine, memory="500MB"), shards, SELECTION, work=tmp_path / "work").edges()
    assert digest(found) == wanted
    assert sum(proxy.faults.told.values()) >= 3


def test_finished_parts_are_taken_up_by_tags_and_not_by_reading(
    bucket: RemotePath, proxy: Proxy, tmp_path: Path
) -> None:
    write_local(tmp_path / "shards")
    send(tmp_path / "shards", bucket / "shards")
    before = DuckDBEngine(Shards.from_folder(f"{bucket}/shards"), tmp_path / "work", SELECTION).edges()
    shards = Shards.from_folder(f"{bucket}/shards", n_tokens=12)
    proxy.faults = Faults()
    assert digest(DuckDBEngine(shards, tmp_path / "work", SELECTION).edges()) == digest(before)
    assert not proxy.faults.requests  # the listing has told sizes and tags
    told = fingerprint(shards, {})
    (bucket / "shards/1.parquet").upload(tmp_path / "shards/0.parquet")
    assert fingerprint(Shards.from_folder(f"{bucket}/shards", n_tokens=12), {}) != told
    with pytest.raises(UnreadableSource, match=r"1\.parquet was replaced"):
        list(shards.chunks(100, 6))


@pytest.mark.slow  # a store of its own
def test_learn_takes_a_bucket_of_shards(bucket: RemotePath, proxy: Proxy, tmp_path: Path) -> None:
    write_local(tmp_path / "shards")
    url = send(tmp_path / "shards", bucket / "shards").url
    wanted = at.learn(tmp_path / "shards", window=6, engine="memory").hard.scores
    proxy.faults = Faults(0.2, seed=3, only=("500", "503"))
    for engine in ("memory", "duckdb"):
        found = at.learn(url, window=6, engine=engine)
        assert found.hard.scores.equals(wanted)
    options = ("--engine", "duckdb", "--window", "6", "--out", "run", "--quiet")
    done = run_inside("learn", url, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert at.Automaton.load(tmp_path / "run").hard.scores.equals(wanted)


def test_tokenised_corpora_keep_their_words_and_digests(remote: RemotePath, tmp_path: Path) -> None:
    texts = ["to be or not to be", "that is the question"]
    local = at.tokenize_corpus(texts, tmp_path / "tokens")
    send(tmp_path / "tokens", remote)
    assert is_tokenized(remote.url)
    corpus = read_tokens(remote.url).verify()
    assert corpus.vocabulary == local.vocabulary
    assert at.read_corpus(remote.url).ids.tolist() == local.documents().ids.tolist()
    assert at.read_corpus(corpus).offsets.tolist() == local.documents().offsets.tolist()
    again = at.tokenize_corpus(remote.url, tmp_path / "again")
    assert again.documents().ids.tolist() == local.documents().ids.tolist()
    learned, known = at.learn(remote.url, window=4), at.learn(tmp_path / "tokens", window=4)
    assert learned.vocabulary == known.vocabulary
    assert learned.hard.scores.equals(known.hard.scores)
    shard = next(iter(remote.glob("*.parquet")))
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptRun, match="was altered"):
        read_tokens(remote.url).verify()


def test_texts_in_a_bucket_are_read_through_faults(bucket: RemotePath, proxy: Proxy) -> None:
    (bucket / "texts/a.txt").write_bytes(b"to be or not to be")
    (bucket / "texts/b.jsonl").write_bytes(b'{"text": "that is"}\n{"text": "the question"}\n')
    proxy.faults = Faults(0.2, seed=5, only=("500", "503", "reset", "cut"))
    documents = at.read_corpus(f"{bucket}/texts")
    assert np.diff(documents.offsets).tolist() == [6, 2, 2]
    assert np.diff(at.read_corpus(f"{bucket}/texts/*.jsonl").offsets).tolist() == [2, 2]
    assert at.learn(f"{bucket}/texts/a.txt", window=4).vocabulary is not None
    assert at.learn(f"{bucket}/texts", window=4).vocabulary is not None


def test_what_cannot_be_is_said(bucket: RemotePath, proxy: Proxy, tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="check the URL"):
        Shards.from_folder(f"{bucket}/nothing")
    (bucket / "other/a.txt").write_bytes(b"to be")
    with pytest.raises(UnreadableSource, match=r"has no \.parquet files"):
        Shards.from_folder(f"{bucket}/other")
    (bucket / "broken/a.parquet").write_bytes(b"PAR1 and nothing more PAR1")
    with pytest.raises(UnreadableSource, match="cannot be read as Parquet"):
        Shards.from_folder(f"{bucket}/broken")
    write_local(tmp_path / "shards")
    shards = Shards.from_folder(send(tmp_path / "shards", bucket / "shards").url)
    for work in (f"{bucket}/work", RemotePath(f"{bucket}/work")):
        with pytest.raises(UnsupportedOption, match=r"work folder.*give a folder on a disk of this machine"):
            DuckDBEngine(shards, Path(work) if isinstance(work, str) else work, SELECTION).edges()  # pyright: ignore
    proxy.faults = Faults(1.0, only=("503",), in_a_row=10_000)
    with pytest.raises(UnreadableSource, match=r"Service Unavailable.*try again later"):
        at.learn(f"{bucket}/shards", window=6)
