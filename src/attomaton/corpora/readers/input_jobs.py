"""Jobs on one input of a corpus: list its words, or write its shards; a finished job leaves a record.

A record has a key, the digest of the input and of all settings. A job whose record has the same key is not
repeated.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from attomaton.base import artifacts
from attomaton.base.artifacts.manifests import FORMAT
from attomaton.base.errors import UnreadableSource
from attomaton.corpora.readers.batches import Batch, Reader, Reading, TextBatch
from attomaton.corpora.readers.corpus import checked_batches
from attomaton.corpora.readers.numbering import Numbering
from attomaton.corpora.readers.processes import check_stop
from attomaton.corpora.samples import NOTHING_SKIPPED, Skipped
from attomaton.corpora.shards import VOCABULARY_FILE
from attomaton.corpora.token_files import shard_table, write_shards
from attomaton.corpora.tokenizers.encoders import distinct_tokens
from attomaton.corpora.tokenizers.vocabulary import Vocabulary

WORD_RECORDS = "words"  # folder of the records of each WordsJob
INPUT_RECORDS = "inputs"  # folder of the records of each EncodeJob


@dataclass(frozen=True)
class InputJob:
    """Work on the input with this index; its results are written to the folder ``out``."""

    index: int
    reader: Reader
    reading: Reading
    out: Path

    def batches(self) -> Iterator[Batch]:  # of the reader, until another job fails
        for batch in checked_batches(self.reader, self.reading):
            check_stop()
            yield batch

    def write_record(self, folder: str, record: dict[str, Any]) -> None:
        path = record_path(self.out, folder, self.index)
        with artifacts.explained(path, resumable=True):
            artifacts.write_sealed(path, record)


@dataclass(frozen=True)
class WordsJob(InputJob):
    """Lists the distinct words or characters of an input, in order of first appearance."""

    tokenizer: str

    def run(self) -> None:  # unless a record with the same key is there
        key = artifacts.digest_record([input_key(self.reader, self.reading), self.tokenizer])
        if read_record(self.out, WORD_RECORDS, self.index).get("key") == key:
            return
        numbering = Numbering(self.tokenizer)
        kind: str | None = None  # of the documents: "text" or "ids"; None if there are none
        for batch in self.batches():
            if not len(batch.rows):
                continue
            if not isinstance(batch, TextBatch):
                kind = "ids"
                break
            kind = "text"
            numbering.add(distinct_tokens(batch.texts, self.tokenizer))
        self.write_record(WORD_RECORDS, {"key": key, "holds": kind, "tokens": list(numbering.numbers)})


@dataclass
class Counts:
    """What is counted while an input is encoded: skipped documents, their kind, and the largest id."""

    skipped: Skipped = NOTHING_SKIPPED
    holds: str | None = None
    largest: int = 0


@dataclass(frozen=True)
class EncodeJob(InputJob):
    """Writes the shards of an input, and then its record.

    ``ids_digest`` is the digest of the ids of its tokens, and ``vocabulary_digest`` that of the vocabulary
    file.
    """

    ids_digest: str
    vocabulary_digest: str
    shard_tokens: int

    def run(self) -> None:  # unless a record with the same key, and its shards, are there
        source = input_key(self.reader, self.reading)
        key = artifacts.digest_record([source, self.ids_digest, self.shard_tokens])
        record = read_record(self.out, INPUT_RECORDS, self.index)
        if record.get("key") == key and is_whole(self.out, record):
            return
        with artifacts.explained(self.out, resumable=True):
            record_path(self.out, INPUT_RECORDS, self.index).unlink(missing_ok=True)
            for shard in self.out.glob(f"part-{self.index:05d}-*.parquet"):
                shard.unlink()
        self._write_shards({"key": key, "input": source})

    # Writes the shards, and then the record: `keys`, what the input contains, and the digests of the shards.
    def _write_shards(self, keys: dict[str, str]) -> None:
        counts = Counts()
        with artifacts.explained(self.out, resumable=True):
            files = write_shards(
                self._tables(counts),
                lambda number: self.out / f"part-{self.index:05d}-{number:05d}.parquet",
                shard_tokens=self.shard_tokens,
            )
        totals = {name: sum(entry[name] for entry in files.values()) for name in ("documents", "tokens")}
        record = {**keys, "name": self.reader.name, "holds": counts.holds, "largest": counts.largest}
        record |= {**totals, "skipped": asdict(counts.skipped), "files": files}
        self.write_record(INPUT_RECORDS, record)

    # Yields each batch as a table for the shards, and adds what is in it to `counts`.
    def _tables(self, counts: Counts) -> Iterator[pa.Table]:
        vocabulary = _load_vocabulary(self.out / VOCABULARY_FILE, self.vocabulary_digest)
        for batch in self.batches():
            counts.skipped += batch.skipped
            if not len(batch.rows):
                continue
            if not isinstance(batch, TextBatch):
                counts.holds = "ids"
                offsets, ids = batch.offsets, batch.ids
            elif vocabulary is None:
                raise UnreadableSource(f"{self.reader.source} was altered while it was read; read it again")
            else:
                counts.holds = "text"
                offsets, ids = vocabulary.encode_all(batch.texts)
            counts.largest = max(counts.largest, int(ids.max(initial=0)))
            yield shard_table(offsets, ids, batch.rows, self.reader.name)


def record_path(out: Path, folder: str, index: int) -> Path:
    return out / folder / f"{index:05d}.json"


def read_record(out: Path, folder: str, index: int) -> dict[str, Any]:
    return artifacts.read_sealed(record_path(out, folder, index)) or {}


def input_key(reader: Reader, reading: Reading) -> str:
    return artifacts.digest_record([FORMAT, reader.name, reader.digest(), reading.to_record()])


def is_whole(out: Path, record: Mapping[str, Any]) -> bool:
    """Whether all files in a record match their digests."""
    try:
        artifacts.check_files(out, record.get("files"), again="tokenize again")
    except OSError:
        return False
    return True


# Read the vocabulary once per process; the digest distinguishes files of the same name.
@lru_cache(maxsize=1)
def _load_vocabulary(path: Path, _digest: str) -> Vocabulary | None:
    record = json.loads(path.read_text(encoding="utf-8"))
    return None if record is None else Vocabulary.from_record(record)
