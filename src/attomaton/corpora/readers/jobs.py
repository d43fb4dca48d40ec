"""The work on one input file: its distinct words, or its shards; each ends with a record."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from attomaton.base.artifacts import check_files, digest_record, explained, read_sealed, write_sealed
from attomaton.base.artifacts.seals import FORMAT
from attomaton.base.errors import UnreadableSource
from attomaton.corpora.readers.batches import Reader, Reading, TextBatch
from attomaton.corpora.readers.corpus import Numbering, checked_batches
from attomaton.corpora.readers.processes import check_stop
from attomaton.corpora.samples import NOTHING_SKIPPED, Skipped
from attomaton.corpora.shards import VOCABULARY, shard_table, write_shards
from attomaton.corpora.tokenizers.encoders import distinct_tokens
from attomaton.corpora.tokenizers.vocabulary import Vocabulary

WORDS, INPUTS = "words", "inputs"
"""Folders of the records."""

FILES = (VOCABULARY, "part-#####-#####.parquet", f"{WORDS}/**", f"{INPUTS}/**")
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
        """Write the record, unless it is there."""
        path = record_path(self.out, WORDS, self.index)
        key = digest_record([input_key(self.reader, self.reading), self.tokenizer])
        if read_record(path).get("key") == key:
            return
        numbering, holds = Numbering(self.tokenizer), None
        for batch in checked_batches(self.reader, self.reading):
            check_stop()
            if len(batch.rows):
                holds = "text" if isinstance(batch, TextBatch) else "ids"
            if not isinstance(batch, TextBatch):
                break
            numbering.add(distinct_tokens(batch.texts, self.tokenizer))
        _write(path, {"key": key, "holds": holds, "tokens": list(numbering.numbers)})


@dataclass(frozen=True)
class EncodeJob:
    """The shards of one input.

    ``numbers`` is the digest of what numbers its tokens, ``vocabulary`` that of the file to take them from.
    """

    index: int
    reader: Reader
    reading: Reading
    out: Path
    numbers: str
    vocabulary: str
    shard_tokens: int

    def run(self) -> None:
        """Write the shards and then the record, unless they are there."""
        path = record_path(self.out, INPUTS, self.index)
        source = input_key(self.reader, self.reading)
        key = digest_record([source, self.numbers, self.shard_tokens])
        record = read_record(path)
        if record.get("key") == key and is_whole(self.out, record):
            return
        with explained(self.out, resumable=True):
            path.unlink(missing_ok=True)
            for shard in self.out.glob(f"part-{self.index:05d}-*.parquet"):
                shard.unlink()
        self._write_shards(path, {"key": key, "input": source})

    def _write_shards(self, path: Path, keys: dict[str, str]) -> None:
        counts = _Counts()
        with explained(self.out, resumable=True):
            files = write_shards(
                self._tables(counts),
                lambda number: self.out / f"part-{self.index:05d}-{number:05d}.parquet",
                shard_tokens=self.shard_tokens,
            )
        record = {**keys, "name": self.reader.name, "holds": counts.holds, "largest": counts.largest}
        record |= {"documents": sum(entry["documents"] for entry in files.values())}
        record |= {"tokens": sum(entry["tokens"] for entry in files.values())}
        _write(path, {**record, "skipped": asdict(counts.skipped), "files": files})

    def _tables(self, counts: "_Counts") -> Iterator[pa.Table]:
        vocabulary = _load_vocabulary(self.out / VOCABULARY, self.vocabulary)
        for batch in checked_batches(self.reader, self.reading):
            check_stop()
            counts.skipped += batch.skipped
            if not len(batch.rows):
                continue
            if not isinstance(batch, TextBatch):
                counts.holds, offsets, ids = "ids", batch.offsets, batch.ids
            elif vocabulary is None:
                raise UnreadableSource(f"{self.reader.source} was altered while it was read; run it again")
            else:
                counts.holds = "text"
                offsets, ids = vocabulary.encode_all(batch.texts)
            counts.largest = max(counts.largest, int(ids.max(initial=0)))
            yield shard_table(offsets, ids, batch.rows, self.reader.name)


class _Counts:
    """What is counted while an input is read."""

    def __init__(self) -> None:
        self.skipped: Skipped = NOTHING_SKIPPED
        self.holds: str | None = None
        self.largest = 0


def record_path(out: Path, folder: str, index: int) -> Path:
    """Where the record of an input is."""
    return out / folder / f"{index:05d}.json"


def read_record(path: Path) -> dict[str, Any]:
    """A record, empty if there is none that is whole."""
    return read_sealed(path) or {}


def input_key(reader: Reader, reading: Reading) -> str:
    """The digest of an input's bytes, of its name, and of how it is read."""
    return digest_record([FORMAT, reader.name, reader.digest(), reading.to_record()])


def is_whole(out: Path, record: Mapping[str, Any]) -> bool:
    """Whether every file that a record or manifest lists is as it was written."""
    try:
        check_files(out, record.get("files"), again="tokenize again")
    except OSError:
        return False
    return True


@lru_cache(maxsize=1)
def _load_vocabulary(path: Path, _digest: str) -> Vocabulary | None:
    """The vocabulary, read once per process; the digest tells files of the same name apart."""
    record = json.loads(path.read_text(encoding="utf-8"))
    return None if record is None else Vocabulary.from_record(record)


def _write(path: Path, record: dict[str, Any]) -> None:
    with explained(path, resumable=True):
        write_sealed(path, record)
