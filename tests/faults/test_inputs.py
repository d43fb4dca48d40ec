"""Single inputs that hung, took gigabytes, ended in a traceback, or gave a silent wrong answer."""

import hashlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tokenizers

import attomaton as at
from attomaton.corpora.readers import Reading, read_corpus
from attomaton.corpora.tokenize import tokenize_corpus
from attomaton.corpora.tokenizers.patterns import SCHEMES, Scheme
from attomaton.errors import UnreadableSource
from tests.faults import bombs

MEASURED = """
import re, resource, sys
from pathlib import Path
from attomaton.corpora.readers import Reading, read_corpus
from attomaton.errors import AttomatonError
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
try:
    told = len(read_corpus(sys.argv[1], reading=Reading(skip_bad=sys.argv[2] == "skip")).ids)
except AttomatonError as error:
    told = error
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024, told)
"""


def measure(path, skip="stop"):
    """The peak of reading a file in a process of its own, in MB, and what it said."""
    done = subprocess.run([sys.executable, "-c", MEASURED, path, skip], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    megabytes, said = done.stdout.split(" ", 1)
    return int(megabytes), said.strip()


def cli(*arguments, seconds=60, **options):
    command = [sys.executable, "-c", "from attomaton.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, **options)


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

    from attomaton.corpora.readers import pages

    counted = []
    monkeypatch.setattr(pages, "values_most", lambda max_bytes: 900)
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
        pq.write_table(pa.table({"tokens": lists}), tmp_path / "a.parquet", data_page_size=200, write_batch_size=64, **options)
        read = read_corpus(tmp_path / "a.parquet")
        assert np.split(read.ids, read.offsets[1:-1])[7].tolist() == lists[7]
        assert read.ids.tolist() == sum(lists, [])
        assert np.diff(read.offsets).tolist() == [len(one) for one in lists]
        assert sum(counted) == len(lists)
    (tmp_path / "a.parquet").write_bytes(bombs.one_list(800, pages=6))
    with pytest.raises(UnreadableSource, match=r"a\.parquet, row group 0, has a row of about 4,800 ids; split"):
        read_corpus(tmp_path / "a.parquet")


def views(text, rows):
    """So many views of one text."""
    _, one, data = pa.array([text]).cast(pa.string_view()).buffers()
    return pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(one.to_pybytes()[:16] * rows), data])


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
    blob = b"\x93NUMPY\x02\x00" + len(told).to_bytes(4, "little") + told + np.arange(50, dtype="<i4").tobytes()
    (tmp_path / "a.npy").write_bytes(blob)
    with pytest.raises(UnreadableSource, match=message):
        read_corpus(tmp_path / "a.npy")


def irregular(folder, kind):
    path = folder / "a.txt"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as one:
            here = Path.cwd()
            os.chdir(folder)  # a socket's path may have about a hundred characters
            one.bind("a.txt")
            os.chdir(here)
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a device"])
def test_only_regular_files_are_read(kind, tmp_path):
    path = irregular(tmp_path, kind)
    (tmp_path / "b.txt").write_text("a b a")
    signal.alarm(20)
    try:
        for source in (path, tmp_path, f"{tmp_path}/*.txt"):
            for read in (at.learn, read_corpus, lambda one: tokenize_corpus(one, tmp_path.parent / "out")):
                with pytest.raises(UnreadableSource, match=rf"a\.txt is {kind}, not a regular file; .*give '-'"):
                    read(source)
        for name in ("t.json", "cl100k_base.tiktoken"):
            (tmp_path / name).symlink_to(path)
            with pytest.raises(UnreadableSource, match=f"{name} is {kind}, not a regular file"):
                at.Vocabulary.fixed(str(tmp_path / name))
    finally:
        signal.alarm(0)


def test_process_substitution_says_how():
    told = subprocess.run(
        ["bash", "-c", f"{sys.executable} -c 'from attomaton.cli import main; main()' learn <(echo a b a)"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert told.returncode == 2
    assert re.match(r"error: /dev/fd/\d+ is a pipe, not a regular file; .*give '-' as the corpus", told.stderr)


def test_links_that_lead_nowhere_are_named(tmp_path):
    (tmp_path / "a.txt").write_text("a b a")
    (tmp_path / "b.txt").symlink_to(tmp_path / "gone.txt")
    for source in (tmp_path, f"{tmp_path}/*.txt", tmp_path / "b.txt"):
        with pytest.raises(UnreadableSource, match=r"b\.txt is a link that leads nowhere .*gone\.txt"):
            read_corpus(source)
    (tmp_path / "b.txt").unlink()
    (tmp_path / "b.txt").symlink_to(tmp_path / "a.txt")
    assert read_corpus(tmp_path).ids.tolist() == [0, 1, 0, 0, 1, 0]
    (tmp_path / "c").mkdir()
    (tmp_path / "d").symlink_to(tmp_path / "c")
    with pytest.raises(UnreadableSource, match="d is a link to a folder, which is not followed"):
        read_corpus(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list every folder (listed in tests/SKIPS.md)")
def test_folders_that_cannot_be_listed_are_named(tmp_path):
    (tmp_path / "a.txt").write_text("a b a")
    (tmp_path / "b").mkdir(mode=0)
    with pytest.raises(UnreadableSource, match="b cannot be listed"):
        read_corpus(tmp_path)


TEXT = "to be or not to be that is to be\n" * 9


def test_standard_input_is_a_corpus(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    for options in ([], ["--engine", "duckdb", "--threads", "1", "--memory", "500MB"], ["--documents", "line"]):
        for place, source, given in (("x", "-", TEXT), ("y", tmp_path / "a.txt", None)):
            out = tmp_path / f"{place}{len(options)}"
            done = cli("learn", source, "--window", 4, "--out", out, "--quiet", *options, input=given)
            assert done.returncode == 0, done.stderr
        piped, filed = (json.loads((tmp_path / f"{one}{len(options)}" / "manifest.json").read_text()) for one in "xy")
        assert re.fullmatch(r"[0-9a-f]{64}", piped["input"]["sha256"])
        assert "--engine" in options or piped["input"]["sha256"] == filed["input"]["sha256"]  # shards hold names
        assert piped["files"]["edges.parquet"] == filed["files"]["edges.parquet"]
        if not options:
            assert piped["input"]["sha256"] == hashlib.sha256(TEXT.encode()).hexdigest()
    done = cli("tokenize", "-", "--out", tmp_path / "tokens", "--quiet", input=TEXT)
    assert done.returncode == 0, done.stderr
    assert read_corpus(tmp_path / "tokens").ids.tolist() == read_corpus(tmp_path / "a.txt").ids.tolist()


def test_standard_input_in_python_and_its_errors(monkeypatch, tmp_path):
    def give(blob):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(blob)))

    give(TEXT.encode())
    assert at.learn("-", window=4).vocabulary.tokens[:3] == ("to", "be", "or")
    with pytest.raises(UnreadableSource, match=r"standard input has too few tokens \(0\)"):
        at.learn("-")  # it was read to its end
    give(b"caf\xe9 au lait")
    with pytest.raises(UnreadableSource, match="standard input is not UTF-8"):
        read_corpus("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UnreadableSource, match="there is no standard input here"):
        read_corpus("-")
    monkeypatch.chdir(tmp_path)
    Path("-").write_text("a file of that name")
    assert read_corpus(Path("-")).vocabulary.tokens[1] == "file"


def test_documents_in_memory_are_told_apart_by_type_and_shape(tmp_path):
    first = np.array([1, 0, 2, 0], np.int32)
    pairs = [
        ([first], [first.view(np.int64)]),
        ([[1, 0], [2, 0]], [[1, 0, 2, 0]]),
        ([[1, 0, 2], [0]], [[1, 0], [2, 0]]),
        (["ab", "c"], ["a", "bc"]),
        (np.array([1, 2, 3, 4]), np.array([[1, 2], [3, 4]])),
        ([np.frombuffer(b"ab", np.uint8)], ["ab"]),
    ]
    for number, (one, other) in enumerate(pairs):
        for documents in (one, other):
            corpus = tokenize_corpus(documents, tmp_path / str(number)).documents()
            fresh = read_corpus(documents)
            assert (corpus.ids.tolist(), corpus.offsets.tolist()) == (fresh.ids.tolist(), fresh.offsets.tolist())
    for wrong in ([[1, [2]]], [[2**70]], [[None]]):
        with pytest.raises(at.AttomatonError, match="document 0"):
            tokenize_corpus(wrong, tmp_path / "wrong")


def test_a_name_that_is_no_utf8(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    path = folder / os.fsdecode(b"na\xefve.txt")
    path.write_text(TEXT)
    other = folder / os.fsdecode(b"\xff.jsonl")
    other.write_text('{"text": "to be"}\n{"text": 3}\n')
    plain = at.learn(path, window=4, out=tmp_path / "run")
    assert at.Automaton.load(tmp_path / "run").vocabulary == plain.vocabulary
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["input"]["name"] == r"na\xefve.txt"
    done = cli("learn", path, "--window", 4, "--out", tmp_path / "again", "--engine", "duckdb", "--threads", 1, "--memory", "500MB")
    assert done.returncode == 0, done.stderr
    corpus = tokenize_corpus(folder, tmp_path / "tokens", reading=Reading(skip_bad=True))
    told = json.loads((tmp_path / "tokens" / "manifest.json").read_text())
    assert [one["name"] for one in told["inputs"]] == [r"na\xefve.txt", r"\xff.jsonl"]
    assert told["skipped"]["count"] == 1
    assert corpus.n_documents == 2
    with pytest.raises(UnreadableSource, match="line 2, has int in the field"):
        read_corpus(other)


def test_hidden_and_long_names_in_messages(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"\ud800": 1, "x" * 1_000_000: 2}) + "\n")
    with pytest.raises(UnreadableSource, match=r"it has x{80}… \(1,000,000 characters\), \\ud800\)"):
        read_corpus(tmp_path)
    tokenize_corpus([*["a b"]], tmp_path / "out")
    (tmp_path / "b.jsonl").write_text('{"text": "a b"}\n')
    corpus = tokenize_corpus(f"{tmp_path}/*.jsonl", tmp_path / "skipping", reading=Reading(skip_bad=True))
    assert corpus.n_documents == 1


def small(**changes):
    made = json.loads(tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, "[UNK]")).to_str())
    made["pre_tokenizer"] = {"type": "Whitespace"}
    model = changes.pop("model", {})
    return json.dumps({**made, **changes, "model": {**made["model"], **model}})


ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
DEFINITIONS = {
    "an id of 4·10⁹": (small(model={"vocab": {"a": 0, "b": 4_000_000_000}}), "the id of 'b' is 4000000000"),
    "an id of 2·10⁶": (small(model={"vocab": {"a": 0, "b": 2_000_000}}), "the id of 'b' is 2000000"),
    "a negative id": (small(model={"vocab": {"a": 0, "b": -1}}), "the id of 'b' is -1"),
    "half an id": (small(model={"vocab": {"a": 0, "b": 1.5}}), "the id of 'b' is 1.5"),
    "true as an id": (small(model={"vocab": {"a": 0, "b": True}}), "the id of 'b' is True"),
    "one id for two": (small(model={"vocab": {"a": 0, "b": 0, "[UNK]": 1}}), "two tokens of its vocabulary have one id"),
    "a large added token": (small(added_tokens=[{**ADDED, "id": 4_000_000_000, "content": "<s>"}]), "the id of '<s>' is 4000000000"),
    "a long token": (small(model={"vocab": {"a": 0, "x" * 100_000: 1}}), "a token has 100,000 characters"),
    "a name twice": ('{"model": {"vocab": {"a": 0, "a": 4000000000}}}', "says one name twice"),
    "nested deeply": ('{"model": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    "nested": (small(normalizer=json.loads('{"type": "Sequence", "normalizers": [' * 200 + "]}" * 200)), "not a tokenizer.json"),
    "no object": ("[]", "the file is list, not an object"),
    "long words": (small(model={"type": "WordPiece", "continuing_subword_prefix": "##", "max_input_chars_per_word": 10**12}), "max_input_chars_per_word is 1000000000000"),
    "replacing": (small(normalizer={"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 20}] * 9}), "may grow more than 64-fold"),
    "a broken map": (small(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}), "not a tokenizer.json"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFINITIONS)
def test_tokenizer_files_that_ask_for_too_much(name, tmp_path):
    definition, message = DEFINITIONS[name]
    (tmp_path / "t.json").write_text(definition)
    begun = time.monotonic()
    with pytest.raises(UnreadableSource, match=message) as caught:
        at.Vocabulary.fixed(str(tmp_path / "t.json")).encode("a b a")
    assert str(tmp_path / "t.json") in str(caught.value)
    assert time.monotonic() - begun < 5
    assert len(str(caught.value)) < 1000


def test_a_tokenizer_without_its_unknown_token(tmp_path):
    (tmp_path / "t.json").write_text(small(model={"vocab": {"a": 0, "b": 1}}))
    vocabulary = at.Vocabulary.fixed(str(tmp_path / "t.json"))
    assert vocabulary.encode("a b a").tolist() == [0, 1, 0]
    with pytest.raises(UnreadableSource, match=r"no ids for a part of the text \(.*UNK"):
        vocabulary.encode("a strange word")
    (tmp_path / "a.txt").write_text("a strange word")
    done = cli("learn", tmp_path / "a.txt", "--tokenizer", tmp_path / "t.json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_ranks(tmp_path, monkeypatch):
    import base64

    monkeypatch.setitem(SCHEMES, "tiny", Scheme(r"\w+|\s|.", 257, {"<|endoftext|>": 257}))
    good = [base64.b64encode(bytes([byte])).decode() + f" {byte}" for byte in range(256)] + ["YWI= 256"]

    def read(last):
        (tmp_path / "tiny.tiktoken").write_text("\n".join([*good[:-1], *last]))
        return at.Vocabulary.fixed(str(tmp_path / "tiny.tiktoken"))

    assert read(["YWI= 256"]).encode("abc").tolist() == [256, 99]
    long = base64.b64encode(b"x" * 70_000).decode()
    for last, message in (
        (["YWI= 4000000000"], "line 257 has the rank 4000000000, and ranks are below 259"),
        (["YWI= 2000000"], "line 257 has the rank 2000000"),
        (["YWI= -1"], "line 257 is not a token"),
        (["YWI= 1_0"], "line 257 is not a token"),
        (["YWI= ٣"], "line 257 is not a token"),
        (["YWI= 1.5"], "line 257 is not a token"),
        (["YWI= 255"], "two tokens have one rank"),
        (["YWI= 257"], "the rank 257 is that of a special token"),
        (["YQ== 256"], "line 257 repeats a token"),
        ([f"{long} 256"], "line 257 has a token of 70,000 bytes"),
    ):
        with pytest.raises(UnreadableSource, match=message):
            read(last)


def test_a_panic_of_a_library_is_an_error_of_ours():
    from attomaton.corpora.tokenizers.definitions import running

    class PanicException(BaseException):  # as Rust's panics arrive in Python
        pass

    with pytest.raises(UnreadableSource, match="the library broke"), running("the library broke"):
        raise PanicException("index out of bounds")
    with pytest.raises(KeyboardInterrupt), running("the library broke"):
        raise KeyboardInterrupt


LONG = 4_000_000


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    x, y = "x" * LONG, "y" * LONG
    (folder / "a.txt").write_text(f"a b a c b a {x} a b a {x} b c a b {y} a a b {y} b a {x} a {y} a b")
    return at.learn(folder / "a.txt", window=8, out=folder / "run"), folder


def test_long_tokens_are_printed_at_once(long_run, capsys):
    from attomaton.cli.explain import _print_explanation
    from attomaton.cli.learn import _print_coverage, _suggestion
    from attomaton.cli.output import print_error, print_line, print_table

    automaton, folder = long_run
    context = [0, 1, *(token for token in range(len(automaton.vocabulary)) if len(automaton.name(token)) == LONG), 0]
    shown = automaton.show(context)
    for show in (
        lambda: _print_coverage(automaton),
        lambda: print_line(f"Written.{_suggestion(automaton, folder)}"),
        lambda: _print_explanation(automaton.explain(context), automaton.name),
        lambda: print_table("t", ["x"], [("x y " * LONG,)]),
        lambda: print_error("x" * LONG),
        lambda: sys.stdout.write(repr(shown) + shown._repr_html_() + automaton._repr_html_()),
    ):
        begun = time.process_time()
        show()
        assert time.process_time() - begun < 1
    printed = capsys.readouterr()
    assert len(printed.out) < 200_000
    assert "4,000,000 characters" in printed.err
    assert len(printed.err) < 1000
    print_table("t", ["token"], [("x" * LONG,)])
    assert "…" in (cut := capsys.readouterr().out)
    assert "4,000,000" in cut.replace("\n", "")


def test_a_page_cuts_long_tokens_and_tables_keep_them(long_run):
    _, folder = long_run
    done = cli("report", folder / "run", "-o", folder / "a.html")
    assert done.returncode == 0, done.stderr
    page = (folder / "a.html").read_text()
    assert len(page) < 2_000_000
    assert "(4,000,000 characters)" in page
    assert cli("export", folder / "run", "--csv", folder / "csv").returncode == 0
    assert any("x" * LONG in path.read_text() for path in (folder / "csv").iterdir())


def test_paths_are_not_cut(capsys):
    from attomaton.cli.output import print_error

    print_error(f"{'/long' * 800} cannot be read")
    assert "/long" * 800 in capsys.readouterr().err


def test_lists_of_a_length_of_nothing(tmp_path):
    """The length 3 of a type made 0, which Arrow divides by."""
    blob = arrow(pa.table({"tokens": pa.array([[1, 2, 3]] * 20, pa.list_(pa.int16(), 3))}), None)
    for place in [found.start() for found in re.finditer(b"\x03\x00\x00\x00", blob)]:
        (tmp_path / "a.arrow").write_bytes(blob[:place] + b"\0" + blob[place + 1 :])
        measure(tmp_path / "a.arrow")
