"""Tables in parts: the rows of some queries are those of the whole table, however it is cut."""

import multiprocessing
import pickle
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from attomaton.base.artifacts import parted
from attomaton.base.artifacts.parted import PartedTable, partition_name, read_whole, write_partition
from attomaton.base.errors import CorruptRun
from attomaton.graphs.partitions import slice_queries

SCHEMA = pa.schema([("query", pa.int32()), ("row", pa.int64()), ("list", pa.large_list(pa.int32()))])


@pytest.fixture(autouse=True, scope="module")
def _small_groups():
    with patch.object(parted, "GROUP_ROWS", 4), patch.object(parted, "MOST_OPEN", 2):
        yield


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:  # noqa: S108
        yield Path(name)


def table_of(counts, **given):
    rows = int(np.sum(counts))
    columns = {
        "query": np.repeat(np.arange(len(counts)), counts),
        "row": np.arange(rows),
        "list": [list(range(row % 3)) for row in range(rows)],
    }
    return pa.table({**columns, **given}, schema=SCHEMA)


def write(folder, counts, borders, **given):
    """A table of so many rows for each query, cut at these borders, on disk; and in memory."""
    table = table_of(counts, **given)
    files = [
        write_partition(folder / partition_name("t", number), [slice_queries(table, *limits)], SCHEMA, {})
        for number, limits in enumerate(pairwise(borders))
    ]
    return table, PartedTable(folder, files, np.array(borders), np.array(counts, np.int64), SCHEMA)


@st.composite
def cut_tables(draw):
    counts = draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 5, 9, 17, 40]), min_size=1, max_size=8))
    inner = draw(st.sets(st.integers(1, len(counts) - 1))) if len(counts) > 1 else set()
    return counts, [0, *sorted(inner), len(counts)]


@given(cut=cut_tables(), data=st.data())
def test_the_rows_of_queries_are_those_of_the_whole_table(folder, cut, data):
    counts, borders = cut
    whole, parts = write(folder, counts, borders)
    asked = np.array(sorted(data.draw(st.sets(st.integers(0, len(counts) - 1)))), np.int64)
    expected = pa.concat_tables(
        [SCHEMA.empty_table(), *(slice_queries(whole, one, one + 1) for one in asked.tolist())]
    )
    assert parts.read(asked).equals(expected.combine_chunks())
    for query in range(len(counts)):
        pieces = list(parts.scan(query))
        found = pa.concat_tables([SCHEMA.empty_table(), *pieces])
        assert found.equals(slice_queries(whole, query, query + 1))
        assert all(piece.num_rows for piece in pieces)
    for limits in pairwise(borders):
        assert parts.read(np.arange(*limits)).equals(slice_queries(whole, *limits).combine_chunks())
    entries = {entry["name"]: entry for entry in parts.files}
    assert read_whole(folder, entries, "t").equals(whole)


@given(cut=cut_tables(), sizes=st.lists(st.integers(0, 9), max_size=12))
def test_the_bytes_do_not_depend_on_the_pieces_that_come(folder, cut, sizes):
    table = table_of(cut[0])
    borders = np.unique(np.clip(np.cumsum([0, *sizes, table.num_rows]), 0, table.num_rows))
    pieces = [table.slice(first, stop - first) for first, stop in pairwise(borders.tolist())]
    one, other = (write_partition(folder / "t", given, SCHEMA, {}) for given in ([table], pieces))
    assert one == other
    assert one["rows"] == table.num_rows


def test_an_altered_group_is_refused_by_name_where_it_is_read(folder):
    rng = np.random.default_rng(0)
    wide = {"list": [rng.integers(0, 2**31 - 1, 4000) for _ in range(120)]}  # Arrow reads 64 kB at the end
    with patch("attomaton.base.artifacts.blocks.BLOCK_BYTES", 64):
        whole, parts = write(folder, [40, 40, 40], [0, 1, 3], **wide)
        path = folder / partition_name("t", 1)
        blob = bytearray(path.read_bytes())
        blob[5] ^= 1  # in the first row group of the second part
        path.write_bytes(blob)
        assert parts.read(np.array([0])).equals(slice_queries(whole, 0, 1))
        assert parts.read(np.array([2])).equals(slice_queries(whole, 2, 3))
        with pytest.raises(CorruptRun, match=r"t-00001\.parquet was altered"):
            parts.read(np.array([0, 1]))
        with pytest.raises(CorruptRun, match=r"t-00001\.parquet was altered"):
            parts.read(np.array([1]))


def test_a_part_that_is_gone_is_refused_by_name(folder):
    _, parts = write(folder, [3, 3], [0, 1, 2])
    (folder / partition_name("t", 1)).unlink()
    assert parts.read(np.array([0])).num_rows == 3
    with pytest.raises(
        CorruptRun, match=r"t-00001\.parquet is missing, or was replaced .*load the run again"
    ):
        parts.read(np.array([1]))


@pytest.mark.parametrize(
    ("counts", "borders"), [([3, 4], [0, 1, 2]), ([3, 3], [0, 2]), ([2, 4], [0, 1, 2]), ([6, 0], [0, 1, 2])]
)
def test_an_index_of_other_rows_is_refused(folder, counts, borders):
    _, parts = write(folder, [3, 3], [0, 1, 2])
    with pytest.raises(CorruptRun, match="do not match its index"):
        PartedTable(folder, parts.files, np.array(borders), np.array(counts), SCHEMA)


def test_files_with_other_rows_or_columns_than_they_should_are_refused(folder):
    _, parts = write(folder, [3, 3], [0, 1, 2])
    told = [{**entry, "rows": 3} for entry in parts.files]
    fewer = write_partition(folder / partition_name("t", 0), [table_of([2])], SCHEMA, {})
    with pytest.raises(CorruptRun, match=r"t-00000\.parquet has unexpected rows or columns"):
        PartedTable(folder, [{**fewer, "rows": 3}, told[1]], parts.borders, parts.counts, SCHEMA).read(
            np.array([0])
        )
    other = write_partition(
        folder / partition_name("t", 0), [table_of([3]).select(["query", "row"])], SCHEMA_OF_TWO, {}
    )
    with pytest.raises(CorruptRun, match=r"t-00000\.parquet has unexpected rows or columns"):
        PartedTable(folder, [other, told[1]], parts.borders, parts.counts, SCHEMA).read(np.array([0]))


SCHEMA_OF_TWO = pa.schema(list(SCHEMA)[:2])


def test_threads_share_a_table(folder):
    counts = [7] * 60
    whole, parts = write(folder, counts, list(range(0, 61, 6)))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: parts.read(np.array([query % 60])), range(600)))
    for query, table in enumerate(found):
        assert table.equals(slice_queries(whole, query % 60, query % 60 + 1))


def _digest(parts):
    return [parts.read(np.array([query])).column("row").to_pylist() for _ in range(5) for query in range(60)]


def test_processes_share_a_table(folder):
    """After a fork two processes would share where they read."""
    _, parts = write(folder, [7] * 60, list(range(0, 61, 6)))
    expected = _digest(parts)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        waiting = [pool.apply_async(_digest, (parts,)) for _ in range(4)]
        assert _digest(parts) == expected
        assert all(one.get(60) == expected for one in waiting)
    assert pickle.loads(pickle.dumps(parts)).read(np.arange(6)).equals(parts.read(np.arange(6)))  # noqa: S301  our own
