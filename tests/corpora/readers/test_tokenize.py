"""Tokenised corpora: the same bytes however many workers there are and however often it was stopped."""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import attomaton as at
from attomaton.base.errors import CorruptRun, UnwritablePlace
from attomaton.corpora.readers import Reading, find_readers, read_corpus
from attomaton.corpora.readers.tokenize import tokenize_corpus
from attomaton.corpora.shards import read_tokens
from attomaton.corpora.token_files import SHARD_SCHEMA

N_FILES = 9


def write_corpus(folder, n_files=N_FILES, n_documents=40, length=30):
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(n_files):
        texts = [
            " ".join(f"w{word}" for word in rng.zipf(1.3, length) % 5000) for _ in range(n_documents + number)
        ]
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (folder / f"{number}.jsonl").write_text(lines)
    return folder


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus") / "in")


@pytest.fixture(scope="module")
def tokens(corpus, tmp_path_factory):
    return tokenize_corpus(corpus, tmp_path_factory.mktemp("tokens"), shard_tokens=500)


def same(one, other):
    return (one.ids.tolist(), one.offsets.tolist(), one.vocabulary) == (
        other.ids.tolist(),
        other.offsets.tolist(),
        other.vocabulary,
    )


def test_a_stream_of_one_document_holds_ids(tmp_path):
    np.save(tmp_path / "ids.npy", np.array([3, 0, 2, 0], np.int32))
    tokens = tokenize_corpus(tmp_path / "ids.npy", tmp_path / "out")
    assert (tokens.n_tokens, tokens.vocabulary) == (4, None)
    assert tokens.documents().ids.tolist() == [3, 0, 2, 0]


def test_shards_hold_what_reading_into_memory_gives(corpus, tokens):
    documents = read_corpus(corpus)
    assert same(tokens.documents(), documents)
    assert same(read_tokens(tokens.folder).verify().documents(), documents)
    assert tokens.n_documents == len(documents.offsets) - 1
    assert tokens.length == len(documents.ids)
    assert tokens.n_tokens == len(documents.vocabulary)
    assert len(tokens.shards) == N_FILES  # batches are larger than these shards


def test_rows_of_a_shard_say_where_documents_came_from(corpus, tokens):
    table = pq.read_table(tokens.shards[3])
    assert table.schema.equals(SHARD_SCHEMA)
    assert set(table["source"].to_pylist()) == {"3.jsonl"}
    assert table["row"].to_pylist() == list(range(1, 44))


def test_a_tokenised_folder_is_a_corpus(tokens):
    again = read_corpus(tokens.folder)
    assert same(again, tokens.documents())
    assert len(find_readers(tokens.folder)) == len(tokens.shards)


def test_shards_are_closed_when_they_are_full_and_keep_documents_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("attomaton.corpora.readers.batches.TEXT_BATCH_BYTES", 100)
    monkeypatch.setattr("attomaton.corpora.token_files.GROUP_TOKENS", 64)
    texts = ["x" * length for length in np.random.default_rng(1).integers(0, 300, 60)]
    tokens = tokenize_corpus(texts, tmp_path, tokenizer="byte", shard_tokens=1000)
    sizes = [entry["tokens"] for name, entry in tokens.manifest["files"].items() if "part" in name]
    assert all(1000 <= size < 1000 + 400 for size in sizes[:-1])
    assert sum(sizes) == tokens.length == sum(map(len, texts))
    assert np.diff(tokens.documents().offsets).tolist() == [len(text) for text in texts]
    assert pq.ParquetFile(tokens.shards[0]).num_row_groups > 3


@pytest.mark.slow  # processes
def test_workers_change_nothing(corpus, tokens, tmp_path):
    tokenize_corpus(corpus, tmp_path, shard_tokens=500, workers=2)
    assert content(tmp_path) == content(tokens.folder)


def test_ids_pass_through(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(12).reshape(3, 4))
    tokens = tokenize_corpus(tmp_path / "a.npy", tmp_path / "out")
    assert tokens.vocabulary is None
    assert tokens.n_tokens == 12
    assert tokens.documents().ids.tolist() == list(range(12))
    with pytest.raises(UnwritablePlace, match="already contains a tokenised corpus"):
        tokenize_corpus(tmp_path / "a.npy", tmp_path / "out", tokenizer="byte")
    tokens = tokenize_corpus(tmp_path / "a.npy", tmp_path / "out", tokenizer="byte", overwrite=True)
    assert (tokens.n_tokens, tokens.vocabulary.tokenizer) == (256, "byte")


def test_memory_urls_and_datasets_are_read_in_this_process(tmp_path):
    import datasets
    import fsspec

    with fsspec.open("memory://here/a.txt", "wb") as file:
        file.write(b"to be")
    with fsspec.open("memory://here/b.txt", "wb") as file:
        file.write(b"or not")
    assert tokenize_corpus("memory://here", tmp_path / "a", workers=2).length == 4
    dataset = datasets.Dataset.from_dict({"text": ["to be", "or not"]})
    assert tokenize_corpus(dataset, tmp_path / "b", workers=2).length == 4


class Counted:
    """How often each input was tokenised."""

    def __init__(self, monkeypatch):
        from attomaton.corpora.readers import input_jobs

        self.inputs = []
        write = input_jobs.EncodeJob._write_shards

        def counted(job, keys):
            self.inputs.append(job.reader.name)
            write(job, keys)

        monkeypatch.setattr(input_jobs.EncodeJob, "_write_shards", counted)

    def take(self):
        taken, self.inputs = self.inputs, []
        return taken


def test_only_what_changed_is_done_again(corpus, tmp_path, monkeypatch):
    counted = Counted(monkeypatch)
    source, out, fresh = tmp_path / "in", tmp_path / "out", tmp_path / "fresh"
    shutil.copytree(corpus, source)

    def rerun(**options):
        tokenize_corpus(source, out, overwrite=True, **options)
        done = counted.take()
        shutil.rmtree(fresh, ignore_errors=True)
        tokenize_corpus(source, fresh, **options)
        assert content(out) == content(fresh)
        counted.take()
        return done

    assert len(rerun()) == N_FILES
    assert rerun() == []
    with (source / "7.jsonl").open("a") as file:
        file.write('{"text": "w1 w2"}\n')
    assert rerun() == ["7.jsonl"]
    with (source / "8.jsonl").open("a") as file:
        file.write('{"text": "w1 w2 new"}\n')
    assert rerun() == ["8.jsonl"]  # the new word comes last, so no other number changes
    (source / "0.jsonl").write_text('{"text": "first of all"}\n')
    assert len(rerun()) == N_FILES  # all numbers change
    (source / "8.jsonl").unlink()
    assert rerun() == []
    assert len(rerun(reading=Reading(max_bytes=10_000))) == N_FILES - 1
    assert len(rerun(tokenizer="character")) == N_FILES - 1
    assert rerun(tokenizer="character") == []


def test_damaged_shards_are_found_and_made_again(corpus, tokens, tmp_path, monkeypatch):
    out = tmp_path / "out"
    shutil.copytree(tokens.folder, out)
    shard = out / "part-00004-00000.parquet"
    blob = bytearray(shard.read_bytes())
    blob[len(blob) // 2] ^= 1
    shard.write_bytes(blob)
    with pytest.raises(CorruptRun, match=r"part-00004-00000\.parquet was altered"):
        read_tokens(out).verify()
    shard.write_bytes(blob[:-1])
    with pytest.raises(CorruptRun, match=r"part-00004-00000\.parquet was altered"):
        read_tokens(out)
    (out / "part-00005-00000.parquet").unlink()
    with pytest.raises(CorruptRun, match=r"was altered|is not whole"):
        read_tokens(out)
    (out / "inputs" / "00002.json").write_text("{")
    counted = Counted(monkeypatch)
    tokenize_corpus(corpus, out, shard_tokens=500)
    assert counted.take() == ["2.jsonl", "4.jsonl", "5.jsonl"]
    assert content(out) == content(tokens.folder)


def test_places_that_do_not_serve(corpus, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").write_text("x")
    with pytest.raises(UnwritablePlace, match="is a file"):
        tokenize_corpus(corpus, tmp_path / "file")
    with pytest.raises(UnwritablePlace, match=r"contains files .'precious\.txt'."):
        tokenize_corpus(corpus, tmp_path / "full")
    with pytest.raises(UnwritablePlace, match="contains the corpus"):
        tokenize_corpus(tmp_path / "full", tmp_path)
    with pytest.raises(CorruptRun, match="is not a complete tokenised corpus"):
        read_tokens(tmp_path)


def test_an_error_in_a_worker_names_the_file_and_leaves_nothing_that_loads(corpus, tmp_path):
    shutil.copytree(corpus, tmp_path / "in")
    (tmp_path / "in" / "5.jsonl").write_text('{"text": "a"}\nbroken\n')
    with pytest.raises(at.AttomatonError, match=r"5\.jsonl, line 2, is not JSON"):
        tokenize_corpus(tmp_path / "in", tmp_path / "out", workers=2)
    with pytest.raises(CorruptRun):
        read_tokens(tmp_path / "out")
    assert multiprocessing_children() == []


def multiprocessing_children():
    """Workers that run; one that has ended and waits to be noticed has no command line."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # also what has just ended
            found += [child] if "spawn_main" in " ".join(child.cmdline()) else []
    return found


FULL = """
import resource, signal, sys
import numpy as np
from attomaton.corpora.readers.tokenize import tokenize_corpus
from attomaton.base.errors import UnwritablePlace
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    tokenize_corpus(np.random.default_rng(0).integers(0, 1 << 20, (40, 5000)), sys.argv[1])
except UnwritablePlace as error:
    print(error)
"""


def test_a_disk_that_takes_no_more_is_named_and_leaves_nothing_that_loads(tmp_path):
    """Files of this process may not pass 100 kB: to the writer, that is a full disk."""
    printed = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "cannot be written" in printed.stdout
    assert "File too large; free space" in printed.stdout
    with pytest.raises(CorruptRun):
        read_tokens(tmp_path)


RUN = """
import sys
from attomaton.corpora.readers.tokenize import tokenize_corpus
if __name__ == "__main__":
    tokenize_corpus(sys.argv[1], sys.argv[2], workers=int(sys.argv[3]), shard_tokens=20_000)
"""


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    """A corpus, the folder that an uninterrupted run makes of it, and a script that runs it."""
    place = tmp_path_factory.mktemp("larger")
    source = write_corpus(place / "in", n_files=8, n_documents=150, length=200)
    tokenize_corpus(source, place / "whole", shard_tokens=20_000)
    (place / "run.py").write_text(RUN)
    return source, place / "whole", place / "run.py"


@pytest.mark.slow  # processes that are killed
@pytest.mark.parametrize(
    ("workers", "moments"),
    [(1, [("words/*.json", 3), ("part-*.parquet", 2), ("inputs/*.json", 5)]), (2, [("inputs/*.json", 2)])],
)
def test_killed_and_resumed_gives_the_same_bytes(workers, moments, larger, tmp_path):
    source, whole, script = larger
    out = tmp_path / "out"
    command = [sys.executable, str(script), str(source), str(out), str(workers)]
    for pattern, count in moments:
        process = subprocess.Popen(command)
        while process.poll() is None and len(list(out.parent.glob(f"out.partial-*/{pattern}"))) < count:
            time.sleep(0.001)
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was done before it could be killed"
        assert psutil.wait_procs(children, timeout=10)[1] == []
        with pytest.raises(CorruptRun):
            read_tokens(out)
    tokenize_corpus(source, out, shard_tokens=20_000)
    assert content(out) == content(whole)


@pytest.mark.slow
def test_killed_at_random_moments(larger, tmp_path):
    source, whole, script = larger
    rng = np.random.default_rng(0)
    killed = 0
    for _ in range(10):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        process = subprocess.Popen([sys.executable, str(script), str(source), str(out), "2"])
        while process.poll() is None and not list(out.parent.glob("out.partial-*")):
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 4))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        tokenize_corpus(source, out, shard_tokens=20_000)
        assert content(out) == content(whole)
    assert killed >= 5


MEASURED = """
import re, sys
from pathlib import Path
from attomaton.corpora.readers.tokenize import tokenize_corpus
tokenize_corpus(sys.argv[1], sys.argv[2])
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""
"""Prints the peak of resident memory in megabytes; that of getrusage would include the parent's."""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path):
    """Ten times the text in one file takes about as much memory."""
    peaks = []
    for times in (1, 10):
        path = tmp_path / f"{times}.jsonl"
        line = json.dumps({"text": " ".join(f"w{number % 997}" for number in range(2000))}) + "\n"
        path.write_text(line * (1000 * times))
        command = [sys.executable, "-c", MEASURED, str(path), str(tmp_path / f"out{times}")]
        peaks.append(int(subprocess.run(command, capture_output=True, check=True).stdout))
    assert peaks[1] < 1.15 * peaks[0], peaks


def test_a_schema_of_lists_of_int32():
    assert SHARD_SCHEMA.field("tokens").type == pa.list_(pa.int32())
