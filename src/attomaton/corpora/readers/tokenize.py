"""Tokenising a corpus to Parquet shards, in parallel and resumable.

Each input file produces its own shards and then its own record, so an interrupted run resumes with the files
that have no record yet. A record holds the digest of the input and of all settings; if either differs, the
file is processed again. The shards of a file do not depend on the other files, nor on the process that wrote
them, so the folder has the same bytes for any number of interruptions and workers.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base import artifacts
from attomaton.base.artifacts.files import DRAFT, entry_of, show_path
from attomaton.base.artifacts.folders import lock_target, resolve_target
from attomaton.base.artifacts.manifests import FORMAT
from attomaton.base.artifacts.ownership import take_stock
from attomaton.base.artifacts.systems import link_or_copy
from attomaton.base.errors import UnreadableSource, UnwritablePlace
from attomaton.base.options import MOST_THREADS, whole_number
from attomaton.base.progress import Advance, silent
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers.batches import Reader, Reading, TextBatch, as_reading
from attomaton.corpora.readers.corpus import checked_batches, with_id_limit
from attomaton.corpora.readers.files import FileReader
from attomaton.corpora.readers.numbering import Numbering, refuse_mixture
from attomaton.corpora.readers.processes import Workers, check_stop
from attomaton.corpora.readers.sources import find_readers
from attomaton.corpora.samples import NOTHING_SKIPPED, Skipped
from attomaton.corpora.shards import (
    TOKENIZED,
    VOCABULARY_FILE,
    TokenizedCorpus,
    is_tokenized,
    read_tokens,
)
from attomaton.corpora.token_files import shard_table, write_shards
from attomaton.corpora.tokenizers.encoders import distinct_tokens
from attomaton.corpora.tokenizers.vocabulary import Vocabulary

WORD_RECORDS, INPUT_RECORDS = "words", "inputs"  # folders of the records
FIVE_DIGITS = "[0-9]" * 5
TOKENIZED_FILES = (
    VOCABULARY_FILE,
    f"part-{FIVE_DIGITS}-{FIVE_DIGITS}.parquet",
    f"{WORD_RECORDS}/*",
    f"{INPUT_RECORDS}/*",
)
"""The files of a tokenised corpus: shards are numbered by input."""


@dataclass(frozen=True)
class WordsJob:
    """The distinct words or characters of one input, in order of first appearance."""

    index: int
    reader: Reader
    reading: Reading
    out: Path
    tokenizer: str

    def run(self) -> None:
        """Write the record, unless it exists."""
        path = record_path(self.out, WORD_RECORDS, self.index)
        key = artifacts.digest_record([input_key(self.reader, self.reading), self.tokenizer])
        if read_record(path).get("key") == key:
            return
        numbering, holds = Numbering(self.tokenizer), None
        for batch in checked_batches(self.reader, self.reading):
            check_stop()
            if not len(batch.rows):
                continue
            if not isinstance(batch, TextBatch):
                holds = "ids"
                break
            holds = "text"
            numbering.add(distinct_tokens(batch.texts, self.tokenizer))
        _write_record(path, {"key": key, "holds": holds, "tokens": list(numbering.numbers)})


@dataclass(frozen=True)
class EncodeJob:
    """The shards of one input.

    ``numbers`` is the digest of the token numbering, ``vocabulary`` that of the file to read it from.
    """

    index: int
    reader: Reader
    reading: Reading
    out: Path
    numbers: str
    vocabulary: str
    shard_tokens: int

    def run(self) -> None:
        """Write the shards and then the record, unless they exist."""
        path = record_path(self.out, INPUT_RECORDS, self.index)
        source = input_key(self.reader, self.reading)
        key = artifacts.digest_record([source, self.numbers, self.shard_tokens])
        record = read_record(path)
        if record.get("key") == key and is_whole(self.out, record):
            return
        with artifacts.explained(self.out, resumable=True):
            path.unlink(missing_ok=True)
            for shard in self.out.glob(f"part-{self.index:05d}-*.parquet"):
                shard.unlink()
        self._write_shards(path, {"key": key, "input": source})

    def _write_shards(self, path: Path, keys: dict[str, str]) -> None:
        counts = SimpleNamespace(skipped=NOTHING_SKIPPED, holds=None, largest=0)
        with artifacts.explained(self.out, resumable=True):
            files = write_shards(
                self._tables(counts),
                lambda number: self.out / f"part-{self.index:05d}-{number:05d}.parquet",
                shard_tokens=self.shard_tokens,
            )
        record = {**keys, "name": self.reader.name, "holds": counts.holds, "largest": counts.largest}
        record |= {"documents": sum(entry["documents"] for entry in files.values())}
        record |= {"tokens": sum(entry["tokens"] for entry in files.values())}
        _write_record(path, {**record, "skipped": asdict(counts.skipped), "files": files})

    def _tables(self, counts: Any) -> Iterator[pa.Table]:
        vocabulary = _load_vocabulary(self.out / VOCABULARY_FILE, self.vocabulary)
        for batch in checked_batches(self.reader, self.reading):
            check_stop()
            counts.skipped += batch.skipped
            if not len(batch.rows):
                continue
            if not isinstance(batch, TextBatch):
                counts.holds, offsets, ids = "ids", batch.offsets, batch.ids
            elif vocabulary is None:
                raise UnreadableSource(f"{self.reader.source} was altered while it was read; run this again")
            else:
                counts.holds = "text"
                offsets, ids = vocabulary.encode_all(batch.texts)
            counts.largest = max(counts.largest, int(ids.max(initial=0)))
            yield shard_table(offsets, ids, batch.rows, self.reader.name)


def record_path(out: Path, folder: str, index: int) -> Path:
    return out / folder / f"{index:05d}.json"


def read_record(path: Path) -> dict[str, Any]:
    """A record, empty if there is no intact one."""
    return artifacts.read_sealed(path) or {}


def input_key(reader: Reader, reading: Reading) -> str:
    """The digest of an input's bytes, its name, and the reading options."""
    return artifacts.digest_record([FORMAT, reader.name, reader.digest(), reading.to_record()])


def is_whole(out: Path, record: Mapping[str, Any]) -> bool:
    """Whether every file that a record or manifest lists is unchanged."""
    try:
        artifacts.check_files(out, record.get("files"), again="tokenize again")
    except OSError:
        return False
    return True


@lru_cache(maxsize=1)
def _load_vocabulary(path: Path, _digest: str) -> Vocabulary | None:
    """The vocabulary, read once per process; the digest distinguishes files of the same name."""
    record = json.loads(path.read_text(encoding="utf-8"))
    return None if record is None else Vocabulary.from_record(record)


def _write_record(path: Path, record: dict[str, Any]) -> None:
    with artifacts.explained(path, resumable=True):
        artifacts.write_sealed(path, record)


SHARD_TOKENS = 1 << 25  # about 50 MB of Parquet


def tokenize_corpus(
    source: Any,
    out: str | Path,
    *,
    tokenizer: str = "word",
    reading: Reading | None = None,
    workers: int = 1,
    shard_tokens: int = SHARD_TOKENS,
    overwrite: bool = False,
    progress: Advance | None = None,
) -> TokenizedCorpus:
    """Tokenise a corpus to Parquet shards; an interrupted run resumes where it stopped.

    Parameters
    ----------
    source : path, URL, sequence or dataset
        Any source that :func:`~attomaton.corpora.readers.find_readers` accepts.
    out : path
        Folder for the shards: new, empty, or that of an earlier call. Shards are first written to a folder
        next to ``out``; if this call is stopped, the same call resumes from there.
    tokenizer : str
        ``"word"``, ``"word-lower"``, ``"word-punct"``, ``"character"``, ``"byte"``, or the path of a
        ``tokenizer.json`` or ``.tiktoken`` file. Words and characters are numbered in order of first
        appearance in the corpus, which takes an extra pass.
    reading : Reading, optional
        How to read.
    workers : int
        Processes; each takes one input file at a time. A script that uses more than one needs the usual
        ``if __name__ == "__main__":``.
    shard_tokens : int
        Number of tokens at which a shard is closed.
    overwrite : bool
        Replace the shards of another corpus or of other settings; shards of an identical call are returned
        unchanged.
    progress : callable, optional
        Called with the number of files done and the total, in each pass.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = tokenize_corpus(["to be", "or not to be"], folder)
    ...     offsets = corpus.documents().offsets.tolist()
    >>> corpus.n_documents, corpus.length, corpus.vocabulary.tokens, offsets
    (2, 6, ('to', 'be', 'or', 'not'), [0, 2, 6])
    """
    workers = whole_number(workers, "workers", least=1, most=MOST_THREADS)
    shard_tokens = whole_number(shard_tokens, "shard_tokens", least=1)
    job = _Job.of(source, tokenizer, reading, shard_tokens)
    target = resolve_target(out)
    job.refuse_inputs_in(target)
    with lock_target(target) as lock:
        same = job.is_that_of(target)
        if same and is_whole(target, artifacts.read_manifest(target, TOKENIZED)):
            return read_tokens(target)
        replace = overwrite or same  # the call that made a damaged corpus repairs it
        with artifacts.build_folder(
            target, TOKENIZED, TOKENIZED_FILES, overwrite=replace, resumable=True, lock=lock
        ) as building:
            _seed(building.folder, target)
            job.run(building.folder, workers, progress or silent)
            if not artifacts.read_manifest(building.folder, TOKENIZED)["tokens"]:
                raise UnreadableSource("the corpus has no tokens; give another corpus")
    return read_tokens(target)


def tokenize_into(folder: Path, source: Any, *, tokenizer: str, reading: Reading) -> TokenizedCorpus:
    """Tokenize a corpus into a folder that is entirely ours; resume from its content."""
    _Job.of(source, tokenizer, reading, SHARD_TOKENS).run(folder, 1)
    return read_tokens(folder)


@dataclass(frozen=True)
class _Job:
    readers: Sequence[Reader]
    reading: Reading
    tokenizer: str
    vocabulary: Vocabulary | None
    shard_tokens: int

    @classmethod
    def of(cls, source: Any, tokenizer: str, reading: Reading | None, shard_tokens: int) -> "_Job":
        vocabulary = Vocabulary.fixed(tokenizer)
        if isinstance(source, Documents) and source.vocabulary is not None:
            vocabulary, tokenizer = source.vocabulary, source.vocabulary.tokenizer
        how = with_id_limit(as_reading(reading), vocabulary)
        return cls(find_readers(source, how), how, tokenizer, vocabulary, shard_tokens)

    def refuse_inputs_in(self, target: Path) -> None:
        """Never write to the folder that holds an input."""
        readers = [reader for reader in self.readers if isinstance(reader, FileReader)]
        paths = [reader.source for reader in readers if not reader.file.is_url]
        for path in (path for path in paths if target in Path(path).resolve().parents):
            raise UnwritablePlace(
                f"{show_path(target)} holds the corpus itself ({path}); give another folder for the shards"
            )

    def is_that_of(self, folder: Path) -> bool:
        """Whether a folder holds the output of this job."""
        if not is_tokenized(folder):
            return False
        inputs = [input_key(reader, self.reading) for reader in self.readers]
        return artifacts.read_manifest(folder, TOKENIZED).get("job") == self.digest(inputs)

    def digest(self, inputs: Sequence[str]) -> str:
        fixed = None if self.vocabulary is None else self.vocabulary.definition
        return artifacts.digest_record([FORMAT, list(inputs), self.tokenizer, fixed, self.shard_tokens])

    def run(self, out: Path, workers: int, progress: Advance = silent) -> None:
        """Write shards, records and the manifest into a folder that is entirely ours."""
        vocabulary, readers = self.vocabulary, self.readers
        with artifacts.explained(out):
            _prepare(out, len(readers), counted=vocabulary is None)
        with Workers(workers, progress) as pool:
            if vocabulary is None:
                counting = (self.reading, out, self.tokenizer)
                pool.run([WordsJob(index, reader, *counting) for index, reader in enumerate(readers)])
                vocabulary, numbers = _merge_words(out, len(readers), self.tokenizer)
            else:
                numbers = [artifacts.digest_record([vocabulary.tokenizer, vocabulary.definition])] * len(
                    readers
                )
            words = None if vocabulary is None else vocabulary.to_record()
            with artifacts.explained(out):
                digest = artifacts.write_file(out / VOCABULARY_FILE, artifacts.json_writer(words))["sha256"]
            pool.run(
                [
                    EncodeJob(index, reader, self.reading, out, numbers[index], digest, self.shard_tokens)
                    for index, reader in enumerate(readers)
                ]
            )
        records = [read_record(record_path(out, INPUT_RECORDS, index)) for index in range(len(readers))]
        manifest = _manifest(out, records, vocabulary, self.reading)
        job = self.digest([record["input"] for record in records])
        with artifacts.explained(out):
            artifacts.write_sealed(out / artifacts.MANIFEST, {**manifest, "job": job})


def _prepare(out: Path, n_inputs: int, *, counted: bool) -> None:
    """Create the folders; remove leftovers of inputs that no longer exist."""
    for folder in (out / WORD_RECORDS, out / INPUT_RECORDS):
        folder.mkdir(parents=True, exist_ok=True)
    (out / artifacts.MANIFEST).unlink(missing_ok=True)
    for path in [*out.glob("part-*"), *(out / WORD_RECORDS).iterdir(), *(out / INPUT_RECORDS).iterdir()]:
        gone = path.parent.name == WORD_RECORDS and not counted
        number = path.name.removeprefix("part-")[:5]  # of the input to which a shard or record belongs
        if gone or path.name.endswith(DRAFT) or (number.isdigit() and int(number) >= n_inputs):
            path.unlink()


def _seed(folder: Path, replaced: Path) -> None:
    """Start with links to the shards and records of the folder being replaced, which cost nothing.

    They are used only if their digests match, and never written to: each new file first has a new name.
    """
    stock = take_stock(replaced) if replaced.is_dir() else None
    for file in [] if stock is None else stock.files:
        new = folder / file.relative_to(replaced)
        if file.name != artifacts.MANIFEST and not new.exists():
            new.parent.mkdir(exist_ok=True)
            link_or_copy(file, new)


def _merge_words(out: Path, n_inputs: int, tokenizer: str) -> tuple[Vocabulary | None, list[str]]:
    """The vocabulary in order of first appearance, and for each input the digest of its tokens' numbers."""
    numbering = Numbering(tokenizer)
    numbers: list[str] = []
    kinds: set[str] = set()
    for index in range(n_inputs):
        record = read_record(record_path(out, WORD_RECORDS, index))
        tokens = tuple(record["tokens"])
        kinds |= {record["holds"]} - {None}
        numbering.add(tokens)
        ids = np.fromiter((numbering.numbers[token] for token in tokens), np.int32, len(tokens))
        numbers.append(hashlib.sha256(f"{tokenizer} {record['holds']}".encode() + ids.tobytes()).hexdigest())
    refuse_mixture(kinds, tokenizer)
    return (None if kinds == {"ids"} else Vocabulary(tuple(numbering.numbers), tokenizer)), numbers


def _manifest(
    out: Path, records: list[dict[str, Any]], vocabulary: Vocabulary | None, reading: Reading
) -> dict[str, Any]:
    files: dict[str, Any] = {}
    skipped = NOTHING_SKIPPED
    for record in records:
        files |= record["files"]
        skipped += Skipped(**record["skipped"])
    largest = max(record["largest"] for record in records)
    inputs = ("name", "documents", "tokens", "skipped")
    return {
        "kind": TOKENIZED.name,
        "format": FORMAT,
        "tokenizer": None if vocabulary is None else vocabulary.tokenizer,
        "n_tokens": largest + 1 if vocabulary is None else len(vocabulary),
        "documents": sum(record["documents"] for record in records),
        "tokens": sum(record["tokens"] for record in records),
        "skipped": asdict(skipped),
        "reading": reading.to_record(),
        "inputs": [{name: record[name] for name in inputs} for record in records],
        "versions": {package: version(package) for package in ("attomaton", "pyarrow")},
        "files": {**files, VOCABULARY_FILE: entry_of(out / VOCABULARY_FILE)},
        "records": sorted(
            f"{folder}/{path.name}"
            for folder in (WORD_RECORDS, INPUT_RECORDS)
            for path in (out / folder).iterdir()
        ),
    }
