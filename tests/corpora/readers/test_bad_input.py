# ruff: noqa: E501  the table of errors is easier to read with one row each
"""Bad input is an error that names the file and the place, or a counted skip; never a traceback or silence."""

import contextlib
import gzip
import io
import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import attomaton as at
from attomaton.base.errors import TokenOutOfRange, UnreadableSource, UnsupportedOption
from attomaton.corpora.readers import Reading, read_corpus
from attomaton.corpora.readers.tokenize import tokenize_corpus

GOOD = '{"text": "a b a"}\n'


def parquet(table):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="none")
    return sink.getvalue().to_pybytes()


def zst(blob):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(blob)
    return sink.getvalue().to_pybytes()


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def stream(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


WORDS = np.random.default_rng(0).integers(0, 1 << 60, 40_000).tobytes().hex()
LONG = json.dumps({"text": WORDS}).encode() + b"\n"
BROKEN_UTF8 = pa.StringArray.from_buffers(
    2, pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"a\xff\xfe")
)

FATAL = [
    ("empty.txt", b"", r"empty\.txt is empty"),
    ("empty.jsonl", b"\n\n", r"empty\.jsonl is empty"),
    ("empty.npy", npy(np.empty(0, np.int32)), r"empty\.npy is empty"),
    ("empty.bin", b"", r"empty\.bin is empty"),
    ("empty.fasta", b"", r"empty\.fasta is empty"),
    ("empty.parquet", b"", r"empty\.parquet, after row 0, .*"),
    ("rows.parquet", parquet(pa.table({"text": pa.array([], pa.string())})), r"rows\.parquet is empty"),
    ("cut.parquet", parquet(pa.table({"text": [WORDS] * 3}))[:-100], r"cut\.parquet, after row 0, is damaged"),
    ("cut.jsonl.gz", gzip.compress(GOOD.encode() * 3 + LONG)[:-2000], r"cut\.jsonl\.gz, after line 3, is damaged: Compressed file ended"),
    ("junk.jsonl.gz", GOOD.encode(), r"junk\.jsonl\.gz, after line 0, is damaged: Not a gzipped file"),
    ("cut.jsonl.zst", zst(GOOD.encode() * 3 + LONG)[:-2000], r"cut\.jsonl\.zst, after line \d, cannot be read: Truncated"),
    ("junk.jsonl.zst", GOOD.encode(), r"junk\.jsonl\.zst, after line 0, cannot be read: ZSTD"),
    ("cut.arrow", stream(pa.table({"text": [WORDS] * 3}))[:-2000], r"cut\.arrow, after row 0, "),
    ("junk.arrow", b"no arrows here at all", r"junk\.arrow, after row 0, "),
    ("junk.npy", b"no numbers", r"junk\.npy has no valid array header"),
    ("cut.npy", npy(np.arange(100))[:-8], r"cut\.npy has 99 ids, but its header has the shape \(100,\)"),
    ("odd.npy", npy(np.arange(100))[:-3], r"odd\.npy ends inside an id: 797 bytes are not a multiple of 8"),
    ("odd.bin", b"\0\0\1", r"odd\.bin ends inside an id: 3 bytes are not a multiple of 2 .uint16.; set the right dtype"),
    ("float.npy", npy(np.ones(3)), r"float\.npy is an array of float64, not integers"),
    ("pickled.npy", npy(np.array([{}, "x"], object), allow_pickle=True), r"pickled\.npy is an array of object, not integers.*never unpickles"),
    ("cube.npy", npy(np.ones((2, 2, 2), int)), r"cube\.npy has shape \(2, 2, 2\)"),
    ("fortran.npy", npy(np.asfortranarray(np.ones((2, 3), int))), r"fortran\.npy has shape \(2, 3\) in column order"),
    ("nested.parquet", parquet(pa.table({"tokens": [[[1]]]})), r"nested\.parquet has no column of text or of lists .*tokens: list<element: list<"),
    ("struct.parquet", parquet(pa.table({"text": [{"x": "y"}]})), r"struct\.parquet has no column of text"),
    ("floats.parquet", parquet(pa.table({"tokens": [[0.5]]})), r"floats\.parquet has no column of text"),
    ("several.parquet", parquet(pa.table({"text": ["x"], "tokens": [[1]]})), r"several columns to read .text, tokens.; choose one by column"),
    ("header.fasta", b"MKV\n>x\n", r"header\.fasta, line 1, is before the first header"),
    ("access.log.1", b"a b a", r"access\.log\.1 has an unknown suffix; set its format"),
    ("table.csv", b"a,b\n", r"table\.csv has the columns a, b in its first row; name the column .* with column"),
    ("headless.csv", b"GET /a 200\nGET /b 404\n", r"has the columns GET /a 200 in its first row.*if the file has no header, add one"),
    ("unnamed.csv", b"GET:/a\nGET:/b\n", r"has the columns GET:/a in its first row"),
    ("twice.csv", b"text,text\na,b\n", r"twice\.csv has two or more columns called 'text'; choose one of text, text"),
    ("utf16.csv", "text\na b\n".encode("utf-16"), r"utf16\.csv, line 1, is not UTF-8 text .*looks like UTF-16"),
    ("open.csv", b'text\na b a\n"c d\ne f\n', r"open\.csv, line 3, opens a quote that is never closed"),
    ("mac.csv", b"n,text\r1,a b\r2,c d\r", r"mac\.csv, line 1, is not CSV .new-line character .*; if lines end with .r alone, convert them"),
    ("header.csv", b"text\n", r"header\.csv is empty: it has no documents"),
    ("cut.csv.gz", gzip.compress(b"text\n" + b"a b\n" * 9)[:-5], r"cut\.csv\.gz, after line .* is damaged"),
    ("cut.json", b'["a b", "c', r"cut\.json is not JSON .Unterminated string"),
    ("open.json", b'["a b"', r"open\.json is not JSON"),
    ("comma.json", b'["a b" "c"]', r"comma\.json is not JSON .Expecting ',' delimiter: line 1 column 8 .char 7."),
    ("more.json", b'["a b"] 1', r"more\.json is neither a list nor a sequence of objects"),
    ("number.json", b"17", r"number\.json is neither a list nor a sequence of objects"),
    ("columns.json", b'{"text": ["a b", "c d"]}', r"is one object whose field 'text' is a list, which may be one document or several"),
    ("wrapped.json", b'{"hits": [{"text": "a b"}]}', r"wrapped\.json, element 0, has no field 'text', only hits"),
    ("deep.json", b"[" * 200_000, r"deep\.json is nested too deeply"),
    ("latin.json", b'["caf\xe9 a"]', r"latin\.json is not UTF-8 text \(byte 5: "),
    ("empty.json", b"[]", r"empty\.json is empty"),
    ("both.jsonl", f'{GOOD}{{"text": [1, 2]}}\n'.encode(), r"record 2 is token ids, but the records before it are text"),
    ("lines.log", GOOD.encode(), r"lines\.log begins with JSON; set format='jsonl'"),
    ("pretty.log", b'[\n  {"text": "a"}\n]', r"pretty\.log begins with JSON"),
    ("packed.log", gzip.compress(b"a b a"), r"packed\.log is not UTF-8 text .*it is compressed"),
]  # fmt: skip

ROWS = [
    ("latin.txt", "a b caf\xe9".encode("latin-1"), r"latin\.txt is not UTF-8 text \(byte 7: "),
    ("utf16.txt", "a b c".encode("utf-16"), r"utf16\.txt is not UTF-8 text .*looks like UTF-16"),
    ("latin.jsonl", GOOD.encode() + b'{"text": "caf\xe9"}\n', r"latin\.jsonl, line 2, is not UTF-8 text \(byte 13"),
    ("broken.jsonl", f'{GOOD}{GOOD}{{"text": "a'.encode(), r"broken\.jsonl, line 3, is not JSON"),
    ("list.jsonl", f"{GOOD}[1]\n".encode(), r"list\.jsonl, line 2, is not a JSON object"),
    ("field.jsonl", f'{GOOD}{{"body": "a"}}\n'.encode(), r"field\.jsonl, line 2, has no field 'text', only body"),
    ("null.jsonl", f'{GOOD}{{"text": null}}\n'.encode(), r"null\.jsonl, line 2, has NoneType in the field 'text'"),
    ("half.jsonl", f'{GOOD}{{"text": "x \\ud800"}}\n'.encode(), r"half\.jsonl, line 2, is not Unicode: character 2 is the surrogate U\+D800"),
    ("deep.jsonl", GOOD.encode() + b"[" * 200_000 + b"\n", r"deep\.jsonl, line 2, is nested too deeply"),
    ("digits.jsonl", GOOD.encode() + b'{"text": ' + b"1" * 9000 + b"}\n", r"digits\.jsonl, line 2, is not JSON"),
    ("null.parquet", parquet(pa.table({"text": ["a", None]})), r"null\.parquet, row 1, is null, not text"),
    ("bytes.parquet", parquet(pa.table({"text": BROKEN_UTF8})), r"bytes\.parquet, row 1, is not UTF-8 text"),
    ("negative.parquet", parquet(pa.table({"tokens": [[1], [0, -1]]})), r"token -1 at .*negative\.parquet, row 1, position 1, is not in 0 … 2097151"),
    ("large.parquet", parquet(pa.table({"tokens": [[1], [1 << 40]]})), r"token 1099511627776 at .*large\.parquet, row 1, position 0"),
    ("none.parquet", parquet(pa.table({"tokens": [[1], None]})), r"none\.parquet, row 1, is null"),
    ("hole.parquet", parquet(pa.table({"tokens": [[1], [2, None]]})), r"hole\.parquet, row 1, has a null among its ids"),
    ("negative.npy", npy(np.array([[1, 2], [3, -7]])), r"token -7 at .*negative\.npy, the document at 1, position 1"),
    ("large.npy", npy(np.array([1 << 63], np.uint64)), r"token 9223372036854775808 at .*large\.npy, the document at 0"),
    ("latin.csv", b"text,n\na b,1\ncaf\xe9,2\n", r"latin\.csv, line 3, is not UTF-8 text \(byte 3"),
    ("uneven.csv", b"text,n\na b,1\nc, d,2\n", r"uneven\.csv, line 3, has 3 cells, but the header has 2; quote cells that contain ','"),
    ("behind.csv", b'text,n\na b,1\n"c"d,2\n', r"behind\.csv, line 3, is not CSV .',' expected after '\"'.; write each quote inside quotes twice"),
    ("null.json", b'["a b", null]', r"null\.json, element 1, is NoneType, not text, a list of tokens or a list of ids"),
    ("ids.json", b"[[1], [2, -3]]", r"token -3 at .*ids\.json, element 1, position 1"),
    ("huge.json", b"[[1], [2, 18446744073709551616]]", r"huge\.json, element 1, has an id of more than 64 bits"),
    ("huge.jsonl", b'{"text": [1]}\n{"text": [2, 18446744073709551616]}\n', r"huge\.jsonl, line 2, has an id of more than"),
    ("hole.json", b'[["a", "b"], ["c", null]]', r"hole\.json, element 1, has NoneType at position 1"),
    ("void.json", b'[["a", "b"], ["c", ""]]', r"void\.json, element 1, has an empty token at position 1"),
    ("number.json", b'["a b", 3]', r"number\.json, element 1, is a number; write each document as a list"),
    ("latin.fasta", b">x\nMKV\n>y\nM\xe9\n", r"latin\.fasta, line 4, is not UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), FATAL + ROWS, ids=[row[0] for row in FATAL + ROWS])
def test_bad_input_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    for read in (read_corpus, lambda path: tokenize_corpus(path, tmp_path / "out")):
        with pytest.raises(at.AttomatonError, match=message):
            read(tmp_path / name)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize(("name", "content", "message"), ROWS, ids=[row[0] for row in ROWS])
def test_bad_documents_can_be_skipped_and_are_counted(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    documents = read_corpus(tmp_path / name, reading=Reading(skip_bad=True))
    assert documents.skipped.count == 1
    with pytest.raises(UnreadableSource, match=message):
        raise UnreadableSource(documents.skipped.first)
    kept = {"latin.txt": 0, "utf16.txt": 0, "large.npy": 0, "broken.jsonl": 2}.get(name, 1)
    assert len(documents.offsets) - 1 == kept


WHOLE = {
    "a.jsonl": GOOD.encode() * 9,
    "a.jsonl.gz": gzip.compress(GOOD.encode() * 9),
    "a.jsonl.zst": zst(GOOD.encode() * 9),
    "a.txt": "a b é\n".encode() * 9,
    "a.json": json.dumps(["a b", "é"] * 9).encode(),
    "b.json": json.dumps([{"text": "a b"}] * 9, indent=1).encode(),
    "a.json.gz": gzip.compress(json.dumps(["a b", "é"] * 9).encode()),
    "a.csv": b'text,n\na b,1\n"c ""d""\ne",2\n' * 1 + b"a b,1\n" * 9,
    "a.tsv": b"text\tn\na b\t1\n" + b"a b\t1\n" * 9,
    "a.log": "a b é\n".encode() * 9,
    "a.parquet": parquet(pa.table({"text": ["a b", "é"] * 9})),
    "b.parquet": parquet(pa.table({"tokens": [[1, 2], [3]] * 9})),
    "a.arrow": stream(pa.table({"text": ["a b", "é"] * 9})),
    "b.arrow": stream(pa.table({"tokens": [[1, 2], [3]] * 9})),
    "a.npy": npy(np.arange(40)),
    "a.bin": np.arange(40, dtype="<u2").tobytes(),
    "a.fasta": b">x\nMKV\n>y\nAA\n",
}


@pytest.mark.slow  # campaign
@pytest.mark.parametrize("name", WHOLE)
@given(
    cut=st.none() | st.floats(0, 1),
    flips=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), max_size=4),
    skip_bad=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_of_any_kind_is_an_error_of_ours_or_harmless(name, cut, flips, skip_bad, tmp_path):
    blob = bytearray(WHOLE[name])
    for place, flip in flips:
        blob[int(place * (len(blob) - 1))] ^= flip
    (tmp_path / name).write_bytes(blob if cut is None else blob[: int(cut * len(blob))])
    with contextlib.suppress(at.AttomatonError):
        read_corpus(tmp_path / name, reading=Reading(skip_bad=skip_bad))


def test_a_damaged_file_is_an_error_even_where_bad_documents_are_skipped(tmp_path):
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(LONG)[:-2000])
    with pytest.raises(UnreadableSource, match="is damaged"):
        read_corpus(tmp_path, reading=Reading(skip_bad=True))


def test_ids_are_held_to_the_tokenizer_given(tmp_path):
    pq.write_table(pa.table({"tokens": [[1, 255], [256]]}), tmp_path / "a.parquet")
    with pytest.raises(
        TokenOutOfRange, match=r"token 256 at .*a\.parquet, row 1, position 0, is not in 0 … 255"
    ):
        read_corpus(tmp_path, tokenizer="byte")
    assert read_corpus(tmp_path).vocabulary is None
    assert read_corpus(tmp_path).ids.tolist() == [1, 255, 256]


def test_text_and_ids_do_not_mix_without_a_tokenizer_file(tmp_path):
    pq.write_table(pa.table({"tokens": [[1, 2]]}), tmp_path / "a.parquet")
    (tmp_path / "b.txt").write_text("a b")
    for read in (read_corpus, lambda path: tokenize_corpus(path, tmp_path.parent / "mixed-out")):
        with pytest.raises(UnsupportedOption, match="has both text and token ids"):
            read(tmp_path)
    assert read_corpus(tmp_path, tokenizer="byte").ids.tolist() == [1, 2, 97, 32, 98]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.txt", r"missing\.txt cannot be read: No such file"),
        ("nothing-*.txt", r"nothing-\*\.txt has no files to read"),
        ("x" * 300, "cannot be read: File name too long"),
        ("memory://nowhere/a.txt", "cannot be read"),
        ("strange://x/a.txt", "strange://x/a.txt cannot be opened: Protocol not known"),
        (3, "a corpus of type int cannot be read"),
        ([[1], "a"], "record 1 is text, but the records before it are token ids"),
        ([[1, -2]], "token -2 at document 0, position 1"),
        ([[0.5]], "document 0 has float at position 0; give a document as one text"),
        (["\ud800"], "document 0 is not Unicode"),
        ([], "the list of documents is empty"),
    ],
)  # fmt: skip
def test_sources_that_are_none(source, message):
    with pytest.raises(at.AttomatonError, match=message):
        read_corpus(source)


def test_what_reading_can_be(tmp_path):
    for wrong in ({"documents": "page"}, {"dtype": "float32"}, {"max_bytes": 0}):
        with pytest.raises(UnsupportedOption, match=next(iter(wrong))):
            Reading(**wrong)


LIMITED = [
    ("a.jsonl", GOOD.encode() + LONG + GOOD.encode(), r"a\.jsonl, line 2, is longer than 10,000 bytes; .*raise the limit"),
    ("a.jsonl.gz", gzip.compress(GOOD.encode() + LONG + GOOD.encode()), r"a\.jsonl\.gz, line 2, is longer than 10,000 bytes"),
    ("a.json", json.dumps(["a", WORDS, "b"]).encode(), r"a\.json, element 1, is longer than 10,000 bytes"),
    ("a.txt", WORDS.encode(), r"a\.txt is longer than 10,000 bytes; read each line as a document"),
    ("a.fasta", b">x\nM\n>y\n" + b"MKVLA" * 3000 + b"\n>z\nM\n", r"a\.fasta, the sequence at line 3, is longer than 10,000"),
    ("b.fasta", b">x\nM\n>y\n" + b"MKVLA\n" * 3000 + b"\n>z\nM\n", r"b\.fasta, the sequence at line 3, is longer than 10,000"),
    ("a.parquet", parquet(pa.table({"text": ["a", WORDS, "b"]})), r"a\.parquet, row 1, is longer than 10,000"),
    ("b.parquet", parquet(pa.table({"tokens": [[1], [1] * 9000, [1]]})), r"b\.parquet, row 1, is longer than 10,000"),
    ("a.bin", np.ones(9000, "<u2").tobytes(), r"a\.bin, the document at position 0, .*is longer than 10,000 bytes; set separator to the id that ends a document"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), LIMITED, ids=[row[0] for row in LIMITED])
def test_long_documents_are_refused_or_skipped(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableSource, match=message):
        read_corpus(tmp_path, reading=Reading(max_bytes=10_000))
    documents = read_corpus(tmp_path, reading=Reading(max_bytes=10_000, skip_bad=True))
    assert documents.skipped.count == 1
    assert len(documents.offsets) - 1 == (0 if name in ("a.txt", "a.bin") else 2)


@pytest.mark.parametrize("name", ["a.txt", "a"])
def test_one_text_file_obeys_the_limit_as_many_do(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + b"to be or not to be\r\n")
    for source in (path, str(path), [path], tmp_path):
        with pytest.raises(UnreadableSource, match=f"{path.name} is longer than 10 bytes; read each line"):
            at.learn(source, reading=Reading(max_bytes=10))
        vocabulary = at.learn(source, reading=Reading(max_bytes=23)).vocabulary
        assert vocabulary.tokens == ("to", "be", "or", "not", "<eos>")


def test_lines_up_to_the_limit_are_read(tmp_path):
    for length, ending in ((10, b"\n"), (10, b"\r\n"), (10, b"")):
        (tmp_path / "a.txt").write_bytes(b"x" * length + ending)
        reading = Reading(max_bytes=10, documents="line")
        assert len(read_corpus(tmp_path, tokenizer="byte", reading=reading).ids) == 10
    for content in (b"x" * 11, b"x" * 11 + b"\n", b"x" * 8 + b"\r" * 4 + b"x\n"):
        (tmp_path / "a.txt").write_bytes(content)
        with pytest.raises(UnreadableSource, match="line 1, is longer than 10 bytes"):
            read_corpus(tmp_path, reading=Reading(max_bytes=10, documents="line"))


def test_a_long_line_is_never_held(tmp_path):
    """Two hundred times the limit, and no more memory than a few limits."""
    limit = 1 << 16
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "' + b"x" * (200 * limit) + b'"}\n' + GOOD.encode())
    tracemalloc.start()
    documents = read_corpus(tmp_path, reading=Reading(max_bytes=limit, skip_bad=True))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert documents.ids.tolist() == [0, 1, 0]
    assert peak < 80 * limit


MEASURED = """
import re, sys
from pathlib import Path
from attomaton.corpora.readers import read_corpus
from attomaton.base.errors import AttomatonError
try:
    read_corpus(sys.argv[1])
except AttomatonError as error:
    print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024, error)
"""


@pytest.mark.slow
def test_a_line_of_a_gigabyte(tmp_path):
    path = tmp_path / "giant.jsonl"
    with path.open("wb") as file:
        file.write(GOOD.encode() + b'{"text": "')
        for _ in range(1024):
            file.write(b"word " * 209_716)
        file.write(b'"}\n')
    assert path.stat().st_size > 1 << 30
    printed = subprocess.run(
        [sys.executable, "-c", MEASURED, path], capture_output=True, text=True, check=True
    )
    megabytes, error = printed.stdout.split(" ", 1)
    assert "giant.jsonl, line 2, is longer than 67,108,864 bytes" in error
    assert int(megabytes) < 320  # the interpreter, and two copies of 64 MB while the line grows
    path.unlink()


@pytest.mark.slow  # processes
def test_the_command_line_shows_no_traceback(tmp_path):
    (tmp_path / "a.jsonl").write_text(f'{GOOD}{{"text"\n')
    command = [
        sys.executable,
        "-c",
        "from attomaton.cli import main; main()",
        "tokenize",
        "a.jsonl",
        "--out",
        "o",
    ]
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.splitlines()[-1].startswith("error: a.jsonl, line 2, is not JSON")
    assert "Traceback" not in failed.stderr
    skipped = subprocess.run(
        [*command, "--skip-bad"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert skipped.returncode == 0
    assert skipped.stderr.splitlines()[-1].startswith(
        "Warning: 1 document was skipped; the first: a.jsonl, line 2, is not JSON"
    )
    record = subprocess.run(
        [*command, "--skip-bad", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(record.stdout) | {"first_skipped": ""} == {
        "documents": 1,
        "tokens": 3,
        "vocabulary": 2,
        "shards": 1,
        "skipped": 1,
        "first_skipped": "",
        "out": "o",
    }
