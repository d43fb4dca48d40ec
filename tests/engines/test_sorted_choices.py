"""Files of sorted choices and their merge: the same rows as counting all choices at once."""

import numpy as np
import pyarrow as pa
import pytest

import attomaton as at
from attomaton.base.artifacts.files import draft_name
from attomaton.base.errors import CorruptRun
from attomaton.engines import sorted_choices
from attomaton.engines.duckdb import DuckDBEngine
from attomaton.engines.sorted_choices import (
    CHOICE_BATCH_BYTES,
    COPIES,
    SortedChoices,
    cut_batches,
    merge_partition,
    size_batches,
)
from attomaton.engines.tasks import write_unmerged
from attomaton.graphs.choices import count_choices, extract_choices
from tests.engines.conftest import write_shards


def draw_choices(rng, n_tokens):
    """Choices of a few whole contexts over few tokens, so that many occur in several files."""
    contexts = [rng.integers(0, n_tokens, rng.integers(1, 5)).tolist() for _ in range(rng.integers(0, 60))]
    samples = at.Samples.from_lists(contexts, [int(rng.choice(one)) for one in contexts], n_tokens=n_tokens)
    return extract_choices(samples)


@pytest.mark.parametrize("size", [1, 100, 300, 3 << 16])
@pytest.mark.parametrize("seed", range(12))
def test_merged_files_equal_counting_at_once(tmp_path, size, seed):
    rng = np.random.default_rng(seed)
    n_tokens = int(rng.integers(2, 5))
    borders = np.unique([0, *rng.integers(0, n_tokens, 2), n_tokens])
    tables = [draw_choices(rng, n_tokens) for _ in range(rng.integers(1, 7))]
    files = []
    for number, table in enumerate(tables):
        write_unmerged(tmp_path / f"{number}.arrow", cut_batches(table, borders, size))
        files.append(SortedChoices(tmp_path / f"{number}.arrow"))
    merged = [list(merge_partition(files, part)) for part in range(len(borders) - 1)]
    expected = count_choices(tables).rows
    joined = pa.concat_tables([expected.slice(0, 0), *(piece for pieces in merged for piece in pieces)])
    assert joined.combine_chunks().equals(expected)
    if size == 1:
        assert sum(file.starts[-1] for file in files) == sum(map(len, tables))
    for part, pieces in enumerate(merged):
        queries = np.concatenate([[borders[part]], *(piece.column("query").to_numpy() for piece in pieces)])
        assert (queries >= borders[part]).all()
        assert (queries < borders[part + 1]).all()


def test_a_merge_holds_about_a_batch_of_each_file(tmp_path):
    """Pieces stay small although a part has hundreds of times as many rows."""
    rng = np.random.default_rng(0)
    files = []
    for number in range(5):
        contexts = [[*rng.integers(0, 40, 6).tolist(), 0] for _ in range(2000)]
        samples = at.Samples.from_lists(contexts, [one[0] for one in contexts], n_tokens=40)
        table = cut_batches(extract_choices(samples), np.array([0, 40]), 640)  # 8 choices
        write_unmerged(tmp_path / f"{number}.arrow", table)
        files.append(SortedChoices(tmp_path / f"{number}.arrow"))
    pieces = list(merge_partition(files, 0))
    assert sum(piece.num_rows for piece in pieces) > 9000
    assert max(piece.num_rows for piece in pieces) <= 5 * 12
    assert len(pieces) < 3 * 2000 / 8  # not a piece for each batch of each file


def write_files(folder, tables, borders, size=1000):
    files = [SortedChoices(folder / f"{number}.arrow") for number in range(len(tables))]
    for file, table in zip(files, tables, strict=True):
        write_unmerged(file.path, cut_batches(table, borders, size))
    return files


def test_files_with_batches_of_other_sizes(tmp_path):
    """A run is resumed with another memory limit: the cut is read from the files."""
    tables = [draw_choices(np.random.default_rng(seed), 4) for seed in range(3)]
    files = []
    for number, (table, size) in enumerate(zip(tables, (1, 200, 10_000), strict=True)):
        (tmp_path / str(number)).mkdir()
        files += write_files(tmp_path / str(number), [table], np.array([0, 2, 4]), size)
    merged = pa.concat_tables([piece for part in range(2) for piece in merge_partition(files, part)])
    assert merged.combine_chunks().equals(count_choices(tables).rows)


def test_batches_fit_in_the_memory():
    sizes = [size_batches(10**9, n_files) for n_files in (0, 10, 1000, 10_000)]
    assert sizes[0] == sizes[1] == CHOICE_BATCH_BYTES[1]
    assert COPIES * 1000 * sizes[2] == pytest.approx(10**9 / 2, rel=1e-3)
    assert sizes[3] == CHOICE_BATCH_BYTES[0]


def test_batches_of_large_sets_have_few_rows(tmp_path):
    """Memory depends on the tokens in choice sets: a wide window has hundreds of times more."""
    contexts = [[*range(first, 1000 + first), 0] for first in range(300)]
    samples = at.Samples.from_lists(contexts, [one[0] for one in contexts], n_tokens=1300)
    [file] = write_files(tmp_path, [extract_choices(samples)], np.array([0, 1300]), 100_000)
    sizes = [batch.nbytes for batch in file.batches(0)]
    assert sum(batch.num_rows for batch in file.batches(0)) == 300
    assert max(sizes) <= 110_000


def test_files_with_later_rows_are_not_searched(tmp_path, monkeypatch):
    """Files of disjoint winners: a round takes rows of one of them, and looks at no row of the others."""
    tables = []
    for number in range(20):
        contexts = [[2 * number + 1, 2 * number + 2, *range(50, 50 + times), 0] for times in range(100)]
        samples = at.Samples.from_lists(contexts, [one[0] for one in contexts], n_tokens=150)
        tables.append(extract_choices(samples))
    files = write_files(tmp_path, tables, np.array([0, 150]))
    keys = []
    key = sorted_choices._Source._key
    monkeypatch.setattr(sorted_choices._Source, "_key", lambda self, row: keys.append(row) or key(self, row))
    merged = pa.concat_tables(list(merge_partition(files, 0)))
    assert merged.combine_chunks().equals(count_choices(tables).rows)
    n_batches = sum(int(file.starts[-1]) for file in files)
    assert n_batches > 20 * 20
    assert len(keys) < 8 * n_batches


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "altered", "foreign", "without starts"])
def test_damaged_files_are_named(tmp_path, damage):
    [file] = write_files(tmp_path, [draw_choices(np.random.default_rng(1), 3)], np.array([0, 3]))
    blob = file.path.read_bytes()
    match damage:
        case "missing":
            file.path.unlink()
        case "empty":
            file.path.write_bytes(b"")
        case "cut":
            file.path.write_bytes(blob[: len(blob) // 2])
        case "altered":
            begin = blob.index(b"\x04\x22\x4d\x18")  # of LZ4
            file.path.write_bytes(blob[:begin] + bytes(8) + blob[begin + 8 :])
        case "foreign":
            table = pa.table({"a": [1]}).replace_schema_metadata({"starts": np.array([0, 1]).tobytes()})
            write_unmerged(file.path, table)
        case _:
            write_unmerged(file.path, pa.table({"a": [1]}))
    with pytest.raises(CorruptRun, match="run the command again"):
        list(merge_partition([SortedChoices(file.path)], 0))


def test_drafts_of_a_killed_merge_are_cleared(tmp_path):
    shards = write_shards(tmp_path / "shards", [[0, 1, 0, 1, 2, 0]], 3)
    engine = DuckDBEngine(shards, tmp_path / "work", memory="1GB", threads=1)
    engine.choices(None)
    draft = tmp_path / "work" / "choices" / draft_name()
    draft.write_bytes(b"half")
    engine.choices(None)
    assert not draft.exists()
