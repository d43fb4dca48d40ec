"""Shards: whoever wrote a file and whoever reads it, the documents are the same; bad files are named."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import attomaton as at
from attomaton.base.artifacts import MANIFEST, digest_file, write_sealed
from attomaton.base.errors import CorruptRun, UnreadableSource
from attomaton.corpora.shards import Shards, read_tokens


def write_lists(path, documents, kind=None):
    table = pa.table({"tokens": pa.array(documents, kind or pa.list_(pa.int32()))})
    pq.write_table(table, path, row_group_size=5)


def lists_of(shards):
    """All documents of shards, read in pieces that cut none of them."""
    for piece in shards.chunks(size=1 << 20, window=4):
        yield from (ids.tolist() for ids in np.split(piece.ids, piece.documents[1:-1]))


def test_all_writers_and_readers_agree(tmp_path):
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 50, length).tolist() for length in rng.integers(0, 9, 200)]
    tokens = at.tokenize_corpus(documents, tmp_path / "tokenised", shard_tokens=100)
    read = tokens.documents()
    assert [ids.tolist() for ids in np.split(read.ids, read.offsets[1:-1])] == documents
    assert [one for batch in tokens.batches() for one in batch.column(0).to_pylist()] == documents
    assert list(lists_of(Shards.from_paths(tokens.shards, n_tokens=tokens.n_tokens))) == documents
    assert list(lists_of(Shards.write(tmp_path / "ids", read.ids, read.offsets, n_tokens=50))) == documents
    (tmp_path / "lists").mkdir()
    for number, kind in enumerate((None, pa.large_list(pa.int32()), pa.list_(pa.uint16()))):
        write_lists(tmp_path / "lists" / f"{number}.parquet", documents, kind)
    assert list(lists_of(Shards.from_folder(tmp_path / "lists"))) == 3 * documents


def test_tasks_of_row_groups_hold_every_document_once(tmp_path):
    documents = [[number % 7] * (number % 4) for number in range(64)]
    write_lists(tmp_path / "0.parquet", documents[:40])
    write_lists(tmp_path / "1.parquet", documents[40:])
    cuts = Shards.from_folder(tmp_path).cut(size=20)
    read = [
        ids.tolist()
        for task in range(len(cuts))
        for piece in cuts.chunks(task, size=8)
        for ids in np.split(piece.ids, piece.documents[1:-1])
    ]
    assert len(cuts) > 2
    assert read == documents


def test_bad_files_are_named(tmp_path):
    with pytest.raises(UnreadableSource, match=r"no \.parquet files"):
        Shards.from_folder(tmp_path)
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "0.parquet")
    with pytest.raises(UnreadableSource, match=r"0\.parquet has no column 'tokens' \(it has text\)"):
        Shards.from_folder(tmp_path)
    write_lists(tmp_path / "0.parquet", [[0, 1, 0]] * 50)
    whole = (tmp_path / "0.parquet").read_bytes()
    for cut in (0, 3, len(whole) // 2, len(whole) - 1):
        (tmp_path / "0.parquet").write_bytes(whole[:cut])
        with pytest.raises(UnreadableSource, match=r"0\.parquet cannot be read as Parquet"):
            Shards.from_folder(tmp_path)
    (tmp_path / "0.parquet").write_bytes(whole[:4] + bytes(60) + whole[64:])
    with pytest.raises(UnreadableSource, match=r"0\.parquet"):
        list(Shards.from_folder(tmp_path, n_tokens=2).chunks(size=100, window=2))


def test_vocabulary_is_looked_up(tmp_path):
    write_lists(tmp_path / "0.parquet", [[0, 4, 0], [], [2]])
    assert Shards.from_folder(tmp_path).n_tokens == 5


def test_a_tokenised_corpus_is_held_to_its_manifest(tmp_path):
    tokens = at.tokenize_corpus([[0, 1, 2], [2, 1]], tmp_path)
    shard = tokens.shards[0]
    write_lists(shard, [[0, None]])
    with pytest.raises(CorruptRun, match="was altered after it was written"):
        tokens.documents()
    _forge(tmp_path, shard)  # also with its digest, a file is read as carefully as any other
    with pytest.raises(UnreadableSource, match=r"\.parquet, row 0, has a null among its ids"):
        read_tokens(tmp_path).documents()


def _forge(folder, shard):
    """A manifest that lists the shard as it is now."""
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][shard.name] |= {"sha256": digest_file(shard), "bytes": shard.stat().st_size}
    write_sealed(folder / MANIFEST, {key: value for key, value in manifest.items() if key != "seal"})
