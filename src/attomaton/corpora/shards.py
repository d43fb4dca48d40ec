"""A tokenised corpus on disk: Parquet shards with one document per row, and a manifest written last."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.artifacts import check_files, list_digests, read_checked, read_manifest, write_file
from attomaton.corpora.readers.batches import Skipped
from attomaton.corpora.readers.documents import Documents
from attomaton.corpora.readers.sources import TOKENIZED, is_tokenized
from attomaton.corpora.tokenizers.vocabulary import Vocabulary
from attomaton.errors import CorruptRun
from attomaton.tables import Int32, Int64, offsets_of

_arrow: Any = pa
VOCABULARY = "vocabulary.json"
GROUP_TOKENS = 1 << 20
"""A row group is closed when it holds so many tokens."""
SHARD_SCHEMA: pa.Schema = _arrow.schema(
    [
        _arrow.field("tokens", _arrow.list_(_arrow.int32()), nullable=False),
        _arrow.field("source", _arrow.string(), nullable=False),
        _arrow.field("row", _arrow.int64(), nullable=False),
    ]
)
"""Token ids of a document, the file it came from, and where it stood there."""


@dataclass(frozen=True, eq=False)
class TokenizedCorpus:
    """A folder that :func:`tokenize_corpus` wrote.

    Attributes
    ----------
    folder : Path
        Where it is.
    manifest : mapping
        What ``manifest.json`` says: counts, inputs, files with their digests.
    vocabulary : Vocabulary, optional
        None for a corpus of ids whose tokenizer is not known.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = at.tokenize_corpus(["to be", "or not to be"], folder).verify()
    ...     ids, [batch] = corpus.documents().ids.tolist(), list(corpus.batches())
    >>> corpus.n_documents, corpus.length, ids, batch.num_rows
    (2, 6, [0, 1, 2, 3, 0, 1], 2)
    """

    folder: Path
    manifest: Mapping[str, Any]
    vocabulary: Vocabulary | None

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary; every id is below."""
        return self.manifest["n_tokens"]

    @property
    def n_documents(self) -> int:
        """How many documents there are."""
        return self.manifest["documents"]

    @property
    def length(self) -> int:
        """How many tokens all documents have together."""
        return self.manifest["tokens"]

    @property
    def skipped(self) -> Skipped:
        """What was skipped as it was read."""
        return Skipped(**self.manifest["skipped"])

    @property
    def shards(self) -> list[Path]:
        """The Parquet files, in the order of the corpus."""
        return [self.folder / name for name in self.manifest["files"] if name.endswith(".parquet")]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The column ``tokens`` of all shards, a row group at a time; each shard is checked first."""
        from pyarrow import parquet

        tables: Any = parquet
        for shard in self.shards:
            self._check([shard])
            with tables.ParquetFile(shard, pre_buffer=False) as file:
                for group in range(file.num_row_groups):
                    yield from file.read_row_group(group, ["tokens"], use_threads=False).to_batches()

    def documents(self) -> Documents:
        """All of it in memory."""
        ids: list[Int32] = [np.empty(0, np.int32)]
        lengths: list[Int64] = [np.empty(0, np.int64)]
        for batch in self.batches():
            columns: Any = batch
            lists = columns.column(0)
            ids.append(lists.flatten().to_numpy(zero_copy_only=False))
            lengths.append(np.diff(lists.offsets.to_numpy().astype(np.int64)))
        offsets = offsets_of(np.concatenate(lengths))
        return Documents(np.concatenate(ids), offsets, self.vocabulary, self.skipped)

    def verify(self) -> "TokenizedCorpus":
        """The corpus itself, if every file still has the digest that the manifest gives it."""
        self._check([self.folder / name for name in self.manifest["files"]])
        return self

    def check_shards(self) -> list[str]:
        """The digests of the shards, which must be those that the manifest gives them.

        Examples
        --------
        >>> import tempfile, attomaton as at
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     len(at.tokenize_corpus(["to be", "or not to be"], folder).check_shards())
        1
        """
        return self._check(self.shards)

    def _check(self, paths: Sequence[Path]) -> list[str]:
        files = {path.name: self.manifest["files"][path.name] for path in paths}
        return check_files(self.folder, files, again="tokenize again")


def read_tokens(folder: str | Path) -> TokenizedCorpus:
    """Read the manifest and the vocabulary of a tokenised corpus; its files must be there in full length.

    :meth:`TokenizedCorpus.verify` compares their digests too.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = at.tokenize_corpus(["to be", "or not to be"], folder)
    ...     read_tokens(folder).vocabulary
    Vocabulary(tokens=('to', 'be', 'or', 'not'), tokenizer='word')
    """
    place = Path(folder)
    if not is_tokenized(place):
        raise CorruptRun(
            f"{place} holds no tokenised corpus, or one that was cut short; write it with "
            f"`attomaton tokenize … --out {place}`, which goes on where it stopped"
        )
    manifest = read_manifest(place, TOKENIZED)
    try:
        digests = list_digests(place, manifest["files"])
        for name in digests:
            if (place / name).stat().st_size != manifest["files"][name]["bytes"]:
                raise CorruptRun(f"{place / name} was altered after it was written; tokenize again")
        words = json.loads(read_checked(place / VOCABULARY, digests[VOCABULARY]))
        vocabulary = None if words is None else Vocabulary.from_record(words)
    except (KeyError, TypeError, AttributeError, ValueError, FileNotFoundError) as error:
        raise CorruptRun(f"{place} is not whole ({error}); tokenize again") from error
    return TokenizedCorpus(place, manifest, vocabulary)


def shard_table(offsets: Int64, ids: Int32, rows: Int64, source: str) -> pa.Table:
    """Documents as rows of a shard."""
    lists = _arrow.ListArray.from_arrays(_arrow.array(offsets, _arrow.int32()), _arrow.array(ids))
    name = _arrow.array([source]).take(_arrow.array(np.zeros(len(rows), np.int32)))
    return _arrow.Table.from_arrays([lists, name, _arrow.array(rows)], schema=SHARD_SCHEMA)


def write_shards(
    tables: Iterator[pa.Table], path_of: Callable[[int], Path], *, shard_tokens: int
) -> dict[str, dict[str, Any]]:
    """Write tables to as many shards as they need: file name → digest, size and counts.

    A shard is closed after the table that takes it to ``shard_tokens``; a document is never divided.
    """
    written: dict[str, dict[str, Any]] = {}
    ahead = next(tables, None)
    while ahead is not None:
        path = path_of(len(written))
        filling = _Filling(ahead, tables, shard_tokens)
        entry = write_file(path, filling.write)
        written[path.name] = {**entry, "documents": filling.documents, "tokens": filling.tokens}
        ahead = filling.ahead
    return written


class _Filling:
    """One shard as it is filled from a stream of tables."""

    def __init__(self, first: pa.Table, tables: Iterator[pa.Table], shard_tokens: int) -> None:
        self.ahead: pa.Table | None = first
        self.documents = self.tokens = 0
        self._tables, self._limit = tables, shard_tokens

    def write(self, path: Path) -> None:
        from pyarrow import parquet

        tables: Any = parquet
        with tables.ParquetWriter(path, SHARD_SCHEMA, compression="zstd", write_page_checksum=True) as writer:
            for group in self._groups():
                writer.write_table(group, row_group_size=max(1, len(group)))

    def _groups(self) -> Iterator[Any]:
        held: list[pa.Table] = []
        size = 0
        while self.ahead is not None and self.tokens < self._limit:
            held.append(self.ahead)
            lists: Any = self.ahead.column("tokens").combine_chunks()
            count = len(lists.flatten())
            size += count
            self.tokens += count
            self.documents += len(self.ahead)
            if size >= GROUP_TOKENS:
                yield _arrow.concat_tables(held)
                held, size = [], 0
            self.ahead = next(self._tables, None)
        if held:
            yield _arrow.concat_tables(held)
