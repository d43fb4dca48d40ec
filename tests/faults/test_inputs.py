"""Inputs that hung, were skipped or mixed up in silence, or had names that broke the manifest."""

import errno
import hashlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import UnreadableSource, UnwritablePlace
from attomaton.corpora.readers import Reading, read_corpus
from attomaton.corpora.readers.tokenize import tokenize_corpus
from tests.faults.processes import cli


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
                with pytest.raises(
                    UnreadableSource, match=rf"a\.txt is {kind}, not a regular file; .*with '-'"
                ):
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
    assert re.search(
        r"error: /dev/fd/\d+ is a pipe, not a regular file; .*with '-' as the corpus", told.stderr
    )


def test_links_that_lead_nowhere_are_named(tmp_path):
    (tmp_path / "a.txt").write_text("a b a")
    (tmp_path / "b.txt").symlink_to(tmp_path / "gone.txt")
    for source in (tmp_path, f"{tmp_path}/*.txt", tmp_path / "b.txt"):
        with pytest.raises(UnreadableSource, match=r"b\.txt is a broken link .*gone\.txt"):
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


@pytest.mark.slow  # ten processes
def test_standard_input_is_a_corpus(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    for options in (
        [],
        ["--engine", "duckdb", "--threads", "1", "--memory", "500MB"],
        ["--documents", "line"],
    ):
        for place, source, given in (("x", "-", TEXT), ("y", tmp_path / "a.txt", None)):
            out = tmp_path / f"{place}{len(options)}"
            done = cli("learn", source, "--window", 4, "--out", out, "--quiet", *options, input=given)
            assert done.returncode == 0, done.stderr
        piped, filed = (
            json.loads((tmp_path / f"{one}{len(options)}" / "manifest.json").read_text()) for one in "xy"
        )
        assert re.fullmatch(r"[0-9a-f]{64}", piped["input"]["sha256"])
        assert (
            "--engine" in options or piped["input"]["sha256"] == filed["input"]["sha256"]
        )  # shards hold names
        assert piped["files"]["edges-00000.parquet"] == filed["files"]["edges-00000.parquet"]
        if not options:
            assert piped["input"]["sha256"] == hashlib.sha256(TEXT.encode()).hexdigest()
    done = cli("tokenize", "-", "--out", tmp_path / "tokens", "--quiet", input=TEXT)
    assert done.returncode == 0, done.stderr
    assert read_corpus(tmp_path / "tokens").ids.tolist() == read_corpus(tmp_path / "a.txt").ids.tolist()


class FullFile(io.BytesIO):
    """A file on a disk without room."""

    def write(self, _):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_temporary_folder_is_not_called_unreadable_input(monkeypatch):
    told = r"the temporary folder \(TMPDIR\), .*, cannot be written: No space left on device; free"
    for make in (lambda **_: FullFile(), lambda **_: FullFile().write(b"")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"to be or not to be")))
        monkeypatch.setattr("attomaton.corpora.readers.files.tempfile.TemporaryFile", make)
        with pytest.raises(UnwritablePlace, match=told):
            at.learn("-")


def test_standard_input_in_python_and_its_errors(monkeypatch, tmp_path):
    def give(blob):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(blob)))

    give(TEXT.encode())
    assert at.learn("-", window=4).vocabulary.tokens[:3] == ("to", "be", "or")
    with pytest.raises(UnreadableSource, match=r"standard input has 0 tokens"):
        at.learn("-")  # it was read to its end
    give(b"caf\xe9 au lait")
    with pytest.raises(UnreadableSource, match="standard input is not UTF-8"):
        read_corpus("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UnreadableSource, match="this process has no standard input"):
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
            corpus = tokenize_corpus(documents, tmp_path / str(number), overwrite=True).documents()
            fresh = read_corpus(documents)
            assert (corpus.ids.tolist(), corpus.offsets.tolist()) == (
                fresh.ids.tolist(),
                fresh.offsets.tolist(),
            )
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
    done = cli(
        "learn",
        path,
        "--window",
        4,
        "--out",
        tmp_path / "again",
        "--engine",
        "duckdb",
        "--threads",
        1,
        "--memory",
        "500MB",
    )
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
    with pytest.raises(UnreadableSource, match=r"only x{80}… \(1,000,000 characters\), \\ud800;"):
        read_corpus(tmp_path)
    tokenize_corpus([*["a b"]], tmp_path / "out")
    (tmp_path / "b.jsonl").write_text('{"text": "a b"}\n')
    corpus = tokenize_corpus(f"{tmp_path}/*.jsonl", tmp_path / "skipping", reading=Reading(skip_bad=True))
    assert corpus.n_documents == 1
