"""Shards: token ids on disk, in Parquet files with one document per row, and folders of them.

Any file with a column ``tokens`` of integer lists is a shard. Shards written by ``tokenize_corpus`` also
record where each document came from, and share a folder with their vocabulary and a manifest, which is
written last.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from os.path import isdir
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base import artifacts, errors
from attomaton.base.artifacts.manifests import was_sealed
from attomaton.base.borders import trusted
from attomaton.base.ragged import offsets_of
from attomaton.base.remote import AnyPath, RemotePath, as_path
from attomaton.base.tables import (
    Int32,
    Int64,
    arrow_compute,
    arrow_parquet,
    exact_file,
    make_table,
    write_parquet,
)
from attomaton.corpora.documents import Chunk, Documents, regroup
from attomaton.corpora.samples import ID_CURE, MAX_TOKENS, Skipped, check_range
from attomaton.corpora.tokenizers.vocabulary import Vocabulary

TOKENS = "tokens"  # the column that holds a document


def chunk_of(
    batch: pa.RecordBatch, n_tokens: int, *, location: str = "the batch", first_row: int = 0
) -> Chunk:
    """A batch's documents as checked arrays; errors cite ``location`` and ``first_row``."""
    rows: Any = batch
    check_token_column(rows.schema, location)
    offsets, ids = read_lists(rows.column(TOKENS), n_tokens, location, first_row)
    return trusted(Chunk, ids=ids, documents=offsets, head=0, n_tokens=n_tokens)


def check_token_column(schema: Any, location: object) -> None:
    """Refuse a table without lists of integers in the column ``tokens``."""
    if TOKENS not in schema.names:
        raise errors.UnreadableSource(
            f"{location} has no column {TOKENS!r} (it has {', '.join(schema.names)}); tokenise it first"
        )
    kind = schema.field(TOKENS).type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_integer(
        kind.value_type
    ):
        raise errors.UnreadableSource(
            f"{location}: column {TOKENS!r} is {kind}, not a list of integers; tokenise it first"
        )


def read_lists(lists: Any, n_tokens: int, location: str, first_row: int) -> tuple[Int64, Int32]:
    """An Arrow array of lists of ids as ``(offsets, ids)``; an error names the row and the position."""
    flat, offsets = (
        lists.flatten(),
        offsets_of(arrow_compute().list_value_length(lists).fill_null(0).to_numpy()),
    )

    def row_of(at: int) -> str:
        return f"{location}, row {first_row + int(np.searchsorted(offsets, at, side='right')) - 1}"

    if lists.null_count:
        row = first_row + lists.is_null().to_pylist().index(True)
        raise errors.UnreadableSource(f"{location}, row {row}, is null, not a list of ids; drop the row")
    if flat.null_count:
        where = row_of(flat.is_null().to_pylist().index(True))
        raise errors.UnreadableSource(f"{where}, has a null among its ids; drop the row or mend it")
    ids = flat.to_numpy(zero_copy_only=False)

    def locate(at: int) -> str:
        return f"{row_of(at)}, position {at - offsets[np.searchsorted(offsets, at, side='right') - 1]},"

    check_range(ids, n_tokens, locate, ID_CURE)
    return offsets, ids.astype(np.int32, copy=False)


_arrow: Any = pa
ROWS_AT_ONCE = 1 << 14  # most rows read together
FOOTER_AHEAD = 1 << 16
"""Bytes read ahead of a shard at a URL: as many as Arrow first reads at the end of a file."""
GROUP_TOKENS = 1 << 20  # number of tokens at which a row group is closed
SHARD_SCHEMA: pa.Schema = _arrow.schema(
    [
        _arrow.field(TOKENS, _arrow.list_(_arrow.int32()), nullable=False),
        _arrow.field("source", _arrow.string(), nullable=False),
        _arrow.field("row", _arrow.int64(), nullable=False),
    ]
)
"""Token ids of a document, its source file, and its row there."""
IDS_SCHEMA = pa.schema([(TOKENS, pa.large_list(pa.int32()))])
"""Token ids alone, for documents from memory."""


def read_batches(
    path: AnyPath, size: int, groups: range | None = None
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The record batches of a shard, or of some of its row groups, with the first row of each.

    Each has about ``size`` tokens, or fewer if rows are limited.
    """
    file = _open_shard(path)
    n_rows, n_values = _groups_of(file).sum(axis=0).tolist()
    rows_at_once = min(ROWS_AT_ONCE, max(1, size // max(1, n_values // max(1, n_rows))))
    row = 0
    chosen = None if groups is None else list(groups)
    reader = file.iter_batches(rows_at_once, chosen, columns=[TOKENS], use_threads=False)
    while (batch := _reading(path, lambda: next(reader, None))) is not None:
        yield batch, row
        row += batch.num_rows


def count_groups(path: AnyPath) -> Int64:
    """Rows and tokens of each row group of a shard, shape (n_groups, 2), from its footer."""
    with _open_shard(path) as file:
        return _groups_of(file)


def _groups_of(file: Any) -> Int64:
    footer: Any = file.metadata
    counted = np.zeros((footer.num_row_groups, 2), np.int64)
    for number in range(len(counted)):
        group = footer.row_group(number)
        columns = (group.column(index) for index in range(footer.num_columns))
        values = sum(column.num_values for column in columns if column.path_in_schema.split(".")[0] == TOKENS)
        counted[number] = group.num_rows, values
    return counted


def _open_parquet(path: AnyPath) -> Any:
    def read() -> Any:
        if isinstance(path, RemotePath):
            file = _arrow.PythonFile(path.open("rb", ahead=FOOTER_AHEAD), "r")
        else:
            file = exact_file(path)
        return arrow_parquet().ParquetFile(file, pre_buffer=False)

    return _reading(path, read)


def _open_shard(path: AnyPath) -> Any:
    file = _open_parquet(path)
    check_token_column(file.schema_arrow, path)
    return file


def _reading(path: AnyPath, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except errors.AttomatonError:
        raise  # error of a store
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise errors.UnreadableSource(
            f"{path} cannot be read as Parquet ({reason}); write it again, or leave it out"
        ) from error


def shard_table(offsets: Int64, ids: Int32, rows: Int64, source: str) -> pa.Table:
    lists = _arrow.ListArray.from_arrays(_arrow.array(offsets, _arrow.int32()), _arrow.array(ids))
    name = _arrow.array([source]).take(_arrow.array(np.zeros(len(rows), np.int32)))
    return _arrow.Table.from_arrays([lists, name, _arrow.array(rows)], schema=SHARD_SCHEMA)


def write_shards(
    tables: Iterator[pa.Table], path_of: Callable[[int], Path], *, shard_tokens: int
) -> dict[str, dict[str, Any]]:
    """Write tables to as many shards as needed; return file name → digest, size and counts.

    A shard is closed after the table that brings it to ``shard_tokens``; documents are never split.
    """
    ahead, counts = next(tables, None), {"documents": 0, "tokens": 0}

    def row_groups() -> Iterator[Any]:
        nonlocal ahead
        pending: list[pa.Table] = []
        size = 0
        while ahead is not None and counts["tokens"] < shard_tokens:
            lists: Any = ahead.column(TOKENS).combine_chunks()
            size += len(lists.flatten())
            counts["tokens"] += len(lists.flatten())
            counts["documents"] += len(ahead)
            pending.append(ahead)
            if size >= GROUP_TOKENS:
                yield _arrow.concat_tables(pending)
                pending, size = [], 0
            ahead = next(tables, None)
        if pending:
            yield _arrow.concat_tables(pending)

    def write(path: Path) -> None:
        options: Any = {"compression": "zstd", "write_page_checksum": True}
        parquet = arrow_parquet()
        with exact_file(path, "wb") as sink, parquet.ParquetWriter(sink, SHARD_SCHEMA, **options) as writer:
            for group in row_groups():
                writer.write_table(group, row_group_size=max(1, len(group)))

    written: dict[str, dict[str, Any]] = {}
    while ahead is not None:
        counts = {"documents": 0, "tokens": 0}
        path = path_of(len(written))
        written[path.name] = {**artifacts.write_file(path, write), **counts}
    return written


FOOTERS_AT_ONCE = 16  # footers read in parallel if each is a request to a store


@dataclass(frozen=True)
class Shards:
    """Parquet files, each with a column ``tokens`` of integer lists.

    Attributes
    ----------
    paths : tuple of Path or RemotePath
        The files, in the order of their documents; on this machine, or at URLs.
    n_tokens : int
        Size of the vocabulary.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ids, offsets = np.array([0, 1, 0, 2, 1, 1], np.int32), np.array([0, 6])  # one document
    ...     shards = Shards.write(Path(folder), ids, offsets, n_tokens=3)
    ...     again = Shards.from_folder(folder)  # reads the files to find n_tokens
    ...     chunks = [chunk.ids.tolist() for chunk in again.chunks(size=3, window=2)]
    ...     print(again == shards == Shards.from_paths(shards.paths), again.sizes, len(again.jobs(size=100)))
    ...     print(len(again.cut(size=100)))  # tasks of whole row groups
    True (6,) 1
    1
    >>> chunks  # if a document is cut, the next chunk begins with the context that it needs
    [[0, 1, 0], [1, 0, 2, 1, 1]]
    """

    paths: tuple[AnyPath, ...]
    n_tokens: int

    @classmethod
    def from_folder(
        cls, folder: str | PathLike[str] | RemotePath, *, n_tokens: int | None = None
    ) -> "Shards":
        """All ``.parquet`` files of a folder, in name order; by default reading them finds ``n_tokens``.

        The folder may be a URL that fsspec opens, such as ``s3://bucket/shards``.
        """
        path = as_path(folder)
        paths: list[Any] = sorted(path.glob("*.parquet"))
        if not paths:
            raise errors.UnreadableSource(f"{path} has no .parquet files; give a folder of token shards")
        return cls.from_paths(paths, n_tokens=n_tokens)

    @classmethod
    def from_paths(
        cls, paths: Sequence[str | PathLike[str] | RemotePath], *, n_tokens: int | None = None
    ) -> "Shards":
        """These files, by path or URL; by default ``n_tokens`` is found by reading them."""
        files = tuple(map(as_path, paths))
        if n_tokens is not None:
            return cls(files, n_tokens)
        largest = -1
        for path in files:
            for batch, row in read_batches(path, 1 << 22):
                largest = max(
                    largest,
                    int(chunk_of(batch, MAX_TOKENS, location=str(path), first_row=row).ids.max(initial=-1)),
                )
        return cls(files, largest + 1)

    @classmethod
    def write(cls, folder: Path, ids: Int32, offsets: Int64, *, n_tokens: int) -> "Shards":
        """Write documents in memory as shards; document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``."""
        table = make_table(IDS_SCHEMA, {TOKENS: (offsets, ids)})
        with artifacts.explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            artifacts.write_file(folder / "00000.parquet", lambda draft: write_parquet(table, draft))
        return cls.from_paths([folder / "00000.parquet"], n_tokens=n_tokens)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Tokens of each shard, from its footer (an empty document counts as one)."""
        return tuple(int(groups[:, 1].sum()) for groups in self._groups)

    @cached_property
    def _groups(self) -> tuple[Int64, ...]:
        """Rows and tokens of each row group of each shard, shape (n_groups, 2), from the footers."""
        if not any(isinstance(path, RemotePath) for path in self.paths):
            return tuple(count_groups(path) for path in self.paths)
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            return tuple(pool.map(count_groups, self.paths))

    def jobs(self, size: int) -> list["Shards"]:
        """Consecutive shards in groups of about ``size`` tokens; a larger shard is a group of its own."""
        groups: list[list[AnyPath]] = []
        filled = 0
        for path, tokens in zip(self.paths, self.sizes, strict=True):
            if not groups or filled + tokens > size:
                groups.append([])
                filled = 0
            groups[-1].append(path)
            filled += tokens
        return [replace(self, paths=tuple(group)) for group in groups]

    def cut(self, size: int) -> "Cuts":
        """Consecutive row groups in tasks of about ``size`` tokens; a larger group is a task of its own."""
        stretches: list[tuple[int, int, int, int]] = []
        starts, filled = [0], 0
        for shard, groups in enumerate(self._groups):
            first_rows = np.concatenate([[0], np.cumsum(groups[:, 0])]).tolist()
            for group, (_, tokens) in enumerate(groups.tolist()):
                if filled and filled + tokens > size:
                    starts.append(len(stretches))
                    filled = 0
                filled += tokens
                if len(stretches) > starts[-1] and stretches[-1][0] == shard:
                    stretches[-1] = (*stretches[-1][:2], group + 1, stretches[-1][3])
                else:
                    stretches.append((shard, group, group + 1, first_rows[group]))
        table = np.array(stretches, np.int64).reshape(-1, 4)
        return Cuts(self.paths, self.n_tokens, table, np.array([*starts, len(stretches)], np.int64))

    def chunks(self, size: int, window: int | None) -> Iterator[Chunk]:
        """All documents in chunks of about ``size`` tokens; contexts stay complete across cuts.

        Without a window documents are not cut, so a chunk may be as long as the longest document.
        """
        return self._batches(size) if window is None else regroup(self._batches(size), size, window)

    def _batches(self, size: int) -> Iterator[Chunk]:
        for path in self.paths:
            for batch, row in read_batches(path, size):
                yield chunk_of(batch, self.n_tokens, location=str(path), first_row=row)


@dataclass(frozen=True, eq=False)
class Cuts:
    """Shards cut into tasks of whole row groups; any process or machine can read a task on its own.

    Attributes
    ----------
    paths : tuple of Path or RemotePath
        The shards.
    n_tokens : int
        Size of the vocabulary.
    stretches : int64 array, shape (n_stretches, 4)
        Shard, first row group, last row group + 1, and first row.
    starts : int64 array, shape (n_tasks + 1,)
        Task ``i`` has the stretches ``starts[i] … starts[i + 1] − 1``.
    """

    paths: tuple[AnyPath, ...]
    n_tokens: int
    stretches: Int64
    starts: Int64

    def __len__(self) -> int:
        return len(self.starts) - 1

    def chunks(self, task: int, size: int) -> Iterator[Chunk]:
        """The documents of a task, about ``size`` tokens at a time."""
        here: list[list[int]] = self.stretches[self.starts[task] : self.starts[task + 1]].tolist()
        for shard, first, stop, first_row in here:
            path = self.paths[shard]
            for batch, row in read_batches(path, size, range(first, stop)):
                yield chunk_of(batch, self.n_tokens, location=str(path), first_row=first_row + row)


def holds_shards(folder: AnyPath) -> bool:
    """Whether a folder holds Parquet files with a column ``tokens``, one document per row."""
    if not (folder.is_dir() if isinstance(folder, RemotePath) else isdir(folder)):  # noqa: PTH112
        return False  # isdir: a text given in place of a path may be too long for one
    first: Any = next(iter(sorted(folder.glob("*.parquet"))), None)
    return first is not None and TOKENS in _open_parquet(first).schema_arrow.names


TOKENIZED = artifacts.FolderKind("tokens", "a tokenised corpus", "attomaton tokenize --out")
VOCABULARY_FILE = "vocabulary.json"


@dataclass(frozen=True, eq=False)
class TokenizedCorpus:
    """A folder that :func:`tokenize_corpus` wrote.

    Attributes
    ----------
    folder : Path or RemotePath
        The folder; if it is a URL, such as ``s3://bucket/tokens``, the shards are read from there.
    manifest : mapping
        The content of ``manifest.json``: counts, inputs, files with their digests.
    vocabulary : Vocabulary, optional
        None for a corpus of ids whose tokenizer is unknown.
    """

    folder: AnyPath
    manifest: Mapping[str, Any]
    vocabulary: Vocabulary | None

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary; every id is below it."""
        return self.manifest["n_tokens"]

    @property
    def n_documents(self) -> int:
        """The number of documents."""
        return self.manifest["documents"]

    @property
    def length(self) -> int:
        """The number of tokens in all documents."""
        return self.manifest["tokens"]

    @property
    def skipped(self) -> Skipped:
        """The documents that were skipped during reading."""
        return Skipped(**self.manifest["skipped"])

    @property
    def shards(self) -> list[AnyPath]:
        """The Parquet files, in the order of the corpus."""
        return [self.folder / name for name in self.manifest["files"] if name.endswith(".parquet")]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The column ``tokens`` of all shards, a few megabytes at a time; each shard is checked first."""
        return (batch for _, batch, _ in self._read())

    def documents(self) -> Documents:
        """Load the whole corpus into memory."""
        ids: list[Int32] = [np.empty(0, np.int32)]
        lengths: list[Int64] = [np.empty(0, np.int64)]
        for shard, batch, row in self._read():
            chunk = chunk_of(batch, self.n_tokens, location=str(shard), first_row=row)
            ids.append(chunk.ids)
            lengths.append(np.diff(chunk.documents))
        offsets = offsets_of(np.concatenate(lengths))
        return Documents(np.concatenate(ids), offsets, self.vocabulary, self.skipped)

    def verify(self) -> "TokenizedCorpus":
        """Return the corpus itself, if every file still has its digest in the manifest."""
        self._check([self.folder / name for name in self.manifest["files"]])
        return self

    def check_shards(self) -> list[str]:
        """The digests of the shards, after comparing them with the manifest."""
        return self._check(self.shards)

    def _read(self) -> Iterator[tuple[AnyPath, pa.RecordBatch, int]]:
        for shard in self.shards:
            self._check([shard])
            for batch, row in read_batches(shard, GROUP_TOKENS):
                yield shard, batch, row

    def _check(self, paths: Sequence[AnyPath]) -> list[str]:
        files = {path.name: self.manifest["files"][path.name] for path in paths}
        return artifacts.check_files(self.folder, files, again="tokenize again")


def is_tokenized(folder: str | PathLike[str] | RemotePath) -> bool:
    """Whether a folder has the manifest of a tokenised corpus; always false for a web server."""
    target = as_path(folder)
    if isinstance(target, RemotePath) and not target.is_dir():
        return False
    path = target / artifacts.MANIFEST
    record = artifacts.read_sealed(path)
    if record is None and was_sealed(path):
        raise errors.CorruptRun(f"{path} was altered, or has an older format; write {folder} again")
    return record is not None and record.get("kind") == TOKENIZED.name


def read_tokens(folder: str | PathLike[str] | RemotePath) -> TokenizedCorpus:
    """Read the manifest and the vocabulary of a tokenised corpus; check the existence and size of its files.

    :meth:`TokenizedCorpus.verify` also checks their digests.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = at.tokenize_corpus(["to be", "or not to be"], folder)
    ...     read_tokens(folder).vocabulary
    Vocabulary(4 tokens, 'word')
    """
    path = as_path(folder)
    if not is_tokenized(path):
        raise errors.CorruptRun(
            f"{path} does not hold a tokenised corpus, or holds an incomplete one; write it with "
            f"`attomaton tokenize … --out {path}`, which resumes where it stopped"
        )
    manifest = artifacts.read_manifest(path, TOKENIZED)
    try:
        digests = artifacts.list_digests(path, manifest["files"])
        for name in digests:
            if (path / name).stat().st_size != manifest["files"][name]["bytes"]:
                raise errors.CorruptRun(f"{path / name} was altered after it was written; tokenize again")
        words = json.loads(artifacts.read_checked(path / VOCABULARY_FILE, digests[VOCABULARY_FILE]))
        vocabulary = None if words is None else Vocabulary.from_record(words)
    except (KeyError, TypeError, AttributeError, ValueError, FileNotFoundError) as error:
        raise errors.CorruptRun(f"{path} is incomplete ({error}); tokenize again") from error
    return TokenizedCorpus(path, manifest, vocabulary)
