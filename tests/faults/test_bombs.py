# ruff: noqa: E501  the tables of cases are easier to read with one row each
"""Small files that unpacked to gigabytes: each is refused by name, below 1.5 GB."""

import gzip
import json
import re
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attomaton.base.errors import UnreadableSource
from attomaton.choices import fit_choices
from attomaton.corpora.readers import read_corpus
from tests.cli.inside import run_inside
from tests.faults.processes import measure


def test_a_small_parquet_file_stays_small(tmp_path):
    """A text of 300 MB in some kilobytes: the file says how large it is, and it is not unpacked."""
    pq.write_table(pa.table({"text": ["x" * 300_000_000]}), tmp_path / "a.parquet", compression="zstd")
    megabytes, said = measure(tmp_path / "a.parquet")
    assert re.search(r"row group 0, has rows that unpack to 300,0\d\d,\d\d\d bytes each; split", said), said
    assert megabytes < 500


def test_a_page_that_claims_gigabytes(tmp_path):
    """The third number of a page's header is its size as stored: Arrow's buffers would be as long as that."""
    pq.write_table(pa.table({"text": ["a b a"] * 9}), tmp_path / "a.parquet", use_dictionary=False)
    blob = (tmp_path / "a.parquet").read_bytes()
    header = re.match(rb"PAR1(?:\x15[\x80-\xff]*[\x00-\x7f]){2}\x15", blob)[0]
    (tmp_path / "a.parquet").write_bytes(header + b"\xfe\xff\xff\xff\x0f" + blob[len(header) + 1 :])
    megabytes, said = measure(tmp_path / "a.parquet")
    assert "Page was smaller" in said
    assert megabytes < 500


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
        (lambda: pa.table({"text": pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), ["x" * 10_000_000])}), "unpacks to more than"),
        (lambda: pa.table({"text": views("x" * 10_000_000, 1000)}), "unpacks to more than"),
    ],
    ids=["a dictionary", "views"],
)  # fmt: skip
def test_a_small_arrow_file_stays_small(table, message, tmp_path):
    (tmp_path / "a.arrow").write_bytes(arrow(table(), "zstd"))
    megabytes, said = measure(tmp_path / "a.arrow")
    assert re.search(message, said), said
    assert megabytes < 1500


def test_a_line_of_very_many_values(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a b", "x": [' + b"[]," * 15_000_000 + b"[]]}\n")
    megabytes, said = measure(tmp_path / "a.jsonl")
    assert "line 1, has more than 4,194,304 values" in said
    assert megabytes < 1000
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "a,[{" * 2_000_000}) + "\n")
    assert len(read_corpus(tmp_path / "b.jsonl").ids) == 1


NPY = [
    ("{'descr': '<i4', 'fortran_order': False, 'shape': (10000000000000000000000000,), }", "has 50 ids, but its header has"),
    ("{'descr': '<i4', 'fortran_order': False, 'shape': (9223372036854775808, 2), }", "has 50 ids, but its header has"),
    ("{'descr': '<i4', 'fortran_order': False, 'shape': (5, -10), }", "has shape"),
    ("{'descr': '<m8[s]', 'fortran_order': False, 'shape': (25,), }", "not integers"),
    ("{'descr': ('<i4', (5,)), 'fortran_order': False, 'shape': (10,), }", "not integers"),
    ("[" * 3000, "has no valid array header"),
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


ROWS = 6_000_000
MERGE = "replace equal rows by one row with a count, or decompress the file"


def gzipped(path, blob, times):
    with gzip.open(path, "wb") as file:
        for _ in range(times):
            file.write(blob)


def write_choices(path):
    """A few kilobytes that unpack to very many choices."""
    if path.suffix == ".parquet":
        same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(ROWS, np.int8)), ["a"])
        pq.write_table(pa.table({"winner": same, "loser": same}), path)
    elif ".csv" in path.name:
        gzipped(path, b"winner,loser\n" * 1000, ROWS // 1000)
    else:
        gzipped(path, b'{"winner": "a", "loser": "b"}\n' * 1000, ROWS // 1000)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.parquet", "a.jsonl.gz"])
def test_a_small_table_of_very_many_choices(name, tmp_path):
    write_choices(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 1e6
    with pytest.raises(UnreadableSource, match=MERGE):
        fit_choices(tmp_path / name, winner="winner", loser="loser")
    done = run_inside("choices", name, "--winner", "winner", "--loser", "loser", cwd=tmp_path)
    assert done.returncode == 2
    assert MERGE in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def ranked(n_items):
    return "|".join(map(str, range(n_items)))


LARGE = {
    "names.jsonl": (
        b"\n".join(b'{"k%d": 0}' % row for row in range(20_000)),
        [],
        "give all records the same fields",
    ),
    "lists.json.gz": (b'[{"ranking": [' + b"[]," * 3_000_000 + b"[]]}]", [], "values; replace"),
    "lines.jsonl.gz": (b'{"a": 0}\n' * 3_000_000, [], "has 3,000,000 values"),
    "ranking.csv": (
        f"ranking\n{ranked(20_000)}".encode(),
        ["--split", "|"],
        "shorten the rankings",
    ),
    "twice.csv": (
        f"ranking\n{ranked(100_000)}|99999".encode(),
        ["--split", "|"],
        "contains '99999' more than once",
    ),
    "ranks.csv": (
        b",".join(b"i%d" % item for item in range(500))
        + (b"\n" + b",".join(b"%d" % (1 + item) for item in range(500))) * 100,
        ["--ranks", ",".join(f"i{item}" for item in range(500))],
        "shorten the rankings",
    ),
    "sets.csv": (
        f"best,worst,choice_set\n0,1,{ranked(2_000)}".encode(),
        ["--split", "|"],
        "shorten the rankings or sets",
    ),
    "by.csv": (
        b"winner,loser,id\n" + b"".join(b"a,b,%d\n" % row for row in range(50_000)),
        ["--by", "id"],
        "at most 1,000",
    ),
}
"""Content, options, and what the error says."""


@pytest.mark.parametrize("name", LARGE)
def test_a_small_table_of_very_much_work(name, tmp_path):
    content, options, message = LARGE[name]
    if name.endswith(".gz"):
        gzipped(tmp_path / name, content, 1)
    else:
        (tmp_path / name).write_bytes(content)
    before = time.process_time()
    done = run_inside("choices", name, *options, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert message in " ".join(done.stderr.split())
    assert time.process_time() - before < 30


def test_rankings_of_usual_lengths_are_not_limited():
    rankings = [[f"i{(start + 7 * step) % 61}" for step in range(60)] for start in range(2_400)]
    assert fit_choices(rankings=rankings).certified  # 4.4 million alternatives


def test_a_compressed_table_of_a_million_choices_is_read(tmp_path):
    gzipped(tmp_path / "a.csv.gz", b"winner,loser\n" + b"a,b\nb,a\n" * 500_000, 1)
    assert "1,000,000 choices" in str(fit_choices(tmp_path / "a.csv.gz", winner="winner", loser="loser"))


def test_a_parquet_table_of_choices_that_is_not_utf_8_is_named(tmp_path):
    names = pa.array([b"a", b"\xe6", b"b"]).view(pa.string())
    pq.write_table(pa.table({"winner": names, "loser": ["c"] * 3}), tmp_path / "a.parquet")
    with pytest.raises(UnreadableSource, match=r"a\.parquet is damaged.*Invalid UTF8"):
        fit_choices(tmp_path / "a.parquet", winner="winner", loser="loser")
