# ruff: noqa: E501  the tables of cases are easier to read with one row each
"""Small files that unpacked to gigabytes: each is refused by name, below 1.5 GB."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest

from attomaton.errors import UnreadableSource
from attomaton.readers import read_corpus
from tests.faults import bombs
from tests.faults.processes import measure

BOMBS = {
    "a list of 10⁹ equal ids in one page": (lambda: bombs.one_list(10**9), "has a page of 1,000,000,000 values"),
    "a list of 6·10⁸ equal ids in 60 pages": (lambda: bombs.one_list(10**7, pages=60), "has a row of about 600,000,000 ids"),
    "the same, packed": (lambda: bombs.one_list(10**7, pages=60, codec="zstd"), "has a row of about 600,000,000 ids"),
    "1,000 times one text of 10 MB": (lambda: bombs.repeated_text(b"x" * 10_000_000, 1000), "unpacks to more than 67,108,864"),
    "10⁹ nulls in one page": (lambda: bombs.nulls(10**9), "has a page of 1,000,000,000 values"),
    "a page of 1.9 GB, zstd": (lambda: bombs.packed_text(1_900_000_000, codec="zstd"), "has a page that unpacks from .* to 1,900,000,010"),
    "a page of 1 GB, gzip": (lambda: bombs.packed_text(1_000_000_000, codec="gzip"), "has a page that unpacks from .* to 1,000,000,010"),
    "a page of 1 GB, snappy": (lambda: bombs.packed_text(1_000_000_000, codec="snappy"), "has a page that unpacks from .* to 1,000,000,010"),
    "60 pages of 60 MB": (lambda: bombs.packed_text(60_000_000, codec="zstd", pages=60), "unpacks to more than"),
    "5,000 texts that share 1 MB": (lambda: bombs.same_prefix(1_000_000, 5000), "unpacks to more than 67,108,864"),
    "a footer of long lists": (lambda: bombs.claimed_containers(900_000), "Exceeded size limit"),
    "a schema of 10⁵ groups": (lambda: bombs.deep_schema(100_000), "Exceeded size limit|too deeply nested"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_parquet_file_stays_small(name, tmp_path):
    make, message = BOMBS[name]
    (tmp_path / "a.parquet").write_bytes(make())
    megabytes, said = measure(tmp_path / "a.parquet")
    assert re.search(message, said), said
    assert megabytes < 1500


def test_rows_without_end_are_counted_where_bad_ones_are_skipped(tmp_path):
    (tmp_path / "a.parquet").write_bytes(bombs.nulls(10**7, pages=20))
    megabytes, said = measure(tmp_path / "a.parquet", "skip")
    assert "holds more than 1,048,576 documents" in said
    assert megabytes < 500


def test_the_crafted_files_are_parquet(tmp_path):
    """The same files with small numbers are read, so what is refused above is their size."""
    for blob, ids in (
        (bombs.one_list(1000), [0] * 1000),
        (bombs.one_list(100, pages=6, codec="zstd"), [0] * 600),
        (bombs.repeated_text(b"a b", 1000), [0, 1] * 1000),
        (bombs.packed_text(5, codec="gzip", rows=3, pages=2), [0] * 6),
        (bombs.same_prefix(40, 300), [0] * 300),
    ):
        (tmp_path / "a.parquet").write_bytes(blob)
        assert read_corpus(tmp_path / "a.parquet").ids.tolist() == ids


def test_rows_of_lists_are_counted_only_where_needed_and_rightly(tmp_path, monkeypatch):
    """With budgets of some values, real files of many shapes still give what was written."""
    import pyarrow.parquet as pq

    from attomaton.corpora.columnar import pages

    counted = []
    monkeypatch.setattr(pages, "values_most", lambda _: 900)
    zeros = pages._count_zeros
    monkeypatch.setattr(pages, "_count_zeros", lambda *given: counted.append(zeros(*given)) or counted[-1])
    rng = np.random.default_rng(0)
    lists = [rng.integers(0, 9, int(length)).tolist() for length in rng.integers(0, 30, 400)]
    for options in (
        {"compression": "none"},
        {"compression": "zstd", "data_page_version": "2.0"},
        {"compression": "gzip", "use_dictionary": False},
        {"compression": "snappy"},
    ):
        counted.clear()
        pq.write_table(
            pa.table({"tokens": lists}),
            tmp_path / "a.parquet",
            data_page_size=200,
            write_batch_size=64,
            **options,
        )
        read = read_corpus(tmp_path / "a.parquet")
        assert np.split(read.ids, read.offsets[1:-1])[7].tolist() == lists[7]
        assert read.ids.tolist() == [token for one in lists for token in one]
        assert np.diff(read.offsets).tolist() == [len(one) for one in lists]
        assert sum(counted) == len(lists)
    (tmp_path / "a.parquet").write_bytes(bombs.one_list(800, pages=6))
    with pytest.raises(
        UnreadableSource, match=r"a\.parquet, row group 0, has a row of about 4,800 ids; split"
    ):
        read_corpus(tmp_path / "a.parquet")


def views(text, rows):
    """So many views of one text."""
    _, one, data = pa.array([text]).cast(pa.string_view()).buffers()
    return pa.Array.from_buffers(
        pa.string_view(), rows, [None, pa.py_buffer(one.to_pybytes()[:16] * rows), data]
    )


def arrow(table, packed):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=packed)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (lambda: pa.table({"text": ["x" * 500_000_000]}), "has a batch, at byte .*, that unpacks from"),
        (lambda: pa.table({"text": pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), ["x" * 10_000_000])}), "unpacks to more than"),
        (lambda: pa.table({"text": views("x" * 10_000_000, 1000)}), "unpacks to more than"),
    ],
    ids=["one text of 500 MB", "a dictionary", "views"],
)  # fmt: skip
def test_a_small_arrow_file_stays_small(table, message, tmp_path):
    (tmp_path / "a.arrow").write_bytes(arrow(table(), "zstd"))
    megabytes, said = measure(tmp_path / "a.arrow")
    assert re.search(message, said), said
    assert megabytes < 1500


def test_a_line_of_very_many_values(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a b", "x": [' + b"[]," * 15_000_000 + b"[]]}\n")
    megabytes, said = measure(tmp_path / "a.jsonl")
    assert "line 1, holds more than 4,194,304 values" in said
    assert megabytes < 1000
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "a,[{" * 2_000_000}) + "\n")
    assert len(read_corpus(tmp_path / "b.jsonl").ids) == 1


NPY = [
    ("{'descr': '<i4', 'fortran_order': False, 'shape': (10000000000000000000000000,), }", "has 50 ids, but its header says"),
    ("{'descr': '<i4', 'fortran_order': False, 'shape': (9223372036854775808, 2), }", "has 50 ids, but its header says"),
    ("{'descr': '<i4', 'fortran_order': False, 'shape': (5, -10), }", "has the shape"),
    ("{'descr': '<m8[s]', 'fortran_order': False, 'shape': (25,), }", "not integers"),
    ("{'descr': ('<i4', (5,)), 'fortran_order': False, 'shape': (10,), }", "not integers"),
    ("[" * 3000, "has no header of an array"),
]  # fmt: skip


@pytest.mark.parametrize(("header", "message"), NPY, ids=[str(number) for number in range(len(NPY))])
def test_headers_of_arrays(header, message, tmp_path):
    told = header.encode() + b" \n"
    blob = (
        b"\x93NUMPY\x02\x00" + len(told).to_bytes(4, "little") + told + np.arange(50, dtype="<i4").tobytes()
    )
    (tmp_path / "a.npy").write_bytes(blob)
    with pytest.raises(UnreadableSource, match=message):
        read_corpus(tmp_path / "a.npy")


def test_lists_of_a_length_of_nothing(tmp_path):
    """The length 3 of a type made 0, which Arrow divides by."""
    blob = arrow(pa.table({"tokens": pa.array([[1, 2, 3]] * 20, pa.list_(pa.int16(), 3))}), None)
    for place in [found.start() for found in re.finditer(b"\x03\x00\x00\x00", blob)]:
        (tmp_path / "a.arrow").write_bytes(blob[:place] + b"\0" + blob[place + 1 :])
        measure(tmp_path / "a.arrow")
