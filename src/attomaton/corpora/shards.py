"""Shards: token ids on disk, in Parquet files with one document per row, and folders of such files.

Any Parquet file with a column ``tokens`` of integer lists is a shard. The shards that ``tokenize_corpus``
writes also record the source of each document. They share a folder with their vocabulary and with a manifest,
which is written last.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
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
from attomaton.base.ragged import offsets_of
from attomaton.base.remote import AnyPath, RemotePath, as_path
from attomaton.base.tables import Int32, Int64, make_table, write_parquet
from attomaton.corpora import token_files
from attomaton.corpora.documents import Chunk, Documents, regroup
from attomaton.corpora.samples import MAX_TOKENS, Skipped
from attomaton.corpora.tokenizers.vocabulary import Vocabulary

FOOTERS_AT_ONCE = 16  # footers read in parallel if each is a request to a store
SCANNED_TOKENS = 1 << 22  # tokens in memory while files are read only to find their largest id

PathOrUrl = str | PathLike[str] | RemotePath


@dataclass(frozen=True)
class Shards:
    """Parquet files at ``paths``, each with a column ``tokens`` of lists of ids below ``n_tokens``.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = at.tokenize_corpus(["to be or not to be"], folder)
    ...     [chunk.ids.tolist() for chunk in Shards.from_folder(folder).chunks(size=3, window=2)]
    [[0, 1, 2], [1, 2, 3, 0, 1]]
    """

    paths: tuple[AnyPath, ...]
    n_tokens: int

    @classmethod
    def from_folder(cls, folder: PathOrUrl, *, n_tokens: int | None = None) -> "Shards":
        """All ``.parquet`` files of a folder or URL, by name; ``n_tokens`` is that of :meth:`from_paths`."""
        path = as_path(folder)
        paths: list[Any] = sorted(path.glob("*.parquet"))
        if not paths:
            raise errors.UnreadableSource(f"{path} has no .parquet files; give the folder of the shards")
        return cls.from_paths(paths, n_tokens=n_tokens)

    @classmethod
    def from_paths(cls, paths: Sequence[PathOrUrl], *, n_tokens: int | None = None) -> "Shards":
        """The files at these paths or URLs; without ``n_tokens``, all files are read to find it."""
        files = tuple(map(as_path, paths))
        if n_tokens is not None:
            return cls(files, n_tokens)
        chunks = cls(files, MAX_TOKENS).chunks(SCANNED_TOKENS, window=None)
        largest_id = max((int(chunk.ids.max(initial=-1)) for chunk in chunks), default=-1)  # −1: no ids
        return cls(files, largest_id + 1)

    @classmethod
    def write(cls, folder: Path, ids: Int32, offsets: Int64, *, n_tokens: int) -> "Shards":
        """Write documents as a shard; document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``."""
        table = make_table(token_files.IDS_SCHEMA, {token_files.TOKENS: (offsets, ids)})
        with artifacts.explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            artifacts.write_file(folder / "00000.parquet", lambda draft: write_parquet(table, draft))
        return cls.from_paths([folder / "00000.parquet"], n_tokens=n_tokens)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of tokens of each shard, from its footer; an empty document counts as one token."""
        return tuple(int(groups[:, 1].sum()) for groups in self._groups)

    # Rows and tokens of each row group of each shard, shape (n_groups, 2), from the footers.
    @cached_property
    def _groups(self) -> tuple[Int64, ...]:
        if not any(isinstance(path, RemotePath) for path in self.paths):
            return tuple(token_files.count_groups(path) for path in self.paths)
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            return tuple(pool.map(token_files.count_groups, self.paths))

    def jobs(self, size: int) -> list["Shards"]:
        """Consecutive shards in groups of about ``size`` tokens; a larger shard is a group alone."""
        groups: list[list[AnyPath]] = []
        group_size = 0  # tokens in the last group
        for path, n_tokens in zip(self.paths, self.sizes, strict=True):
            if not groups or group_size + n_tokens > size:
                groups.append([])
                group_size = 0
            groups[-1].append(path)
            group_size += n_tokens
        return [replace(self, paths=tuple(group)) for group in groups]

    def cut(self, size: int) -> "Cuts":
        """Consecutive row groups in tasks of about ``size`` tokens; a larger row group is a task alone."""
        # A stretch is a run of row groups of one shard, read by one task: [shard, first row group, last row
        # group + 1, first row]. Each row group extends the last stretch, or begins a new one.
        stretches: list[list[int]] = []
        starts = [0]  # the first stretch of each task
        task_size = 0  # tokens in the current task
        for shard, groups in enumerate(self._groups):
            first_rows = offsets_of(groups[:, 0]).tolist()
            for group, n_tokens in enumerate(groups[:, 1].tolist()):
                if task_size and task_size + n_tokens > size:
                    starts.append(len(stretches))
                    task_size = 0
                task_size += n_tokens
                if len(stretches) > starts[-1] and stretches[-1][0] == shard:
                    stretches[-1][2] = group + 1
                else:
                    stretches.append([shard, group, group + 1, first_rows[group]])
        table = np.array(stretches, np.int64).reshape(-1, 4)
        return Cuts(self.paths, self.n_tokens, table, np.array([*starts, len(stretches)], np.int64))

    def chunks(self, size: int, window: int | None) -> Iterator[Chunk]:
        """Yield all documents in chunks of about ``size`` tokens; contexts stay complete across cuts.

        Without a window, documents are not cut, so a chunk may be as long as the longest document.
        """
        return self._batches(size) if window is None else regroup(self._batches(size), size, window)

    def _batches(self, size: int) -> Iterator[Chunk]:
        for path in self.paths:
            for batch, row in token_files.read_batches(path, size):
                yield token_files.chunk_of(batch, self.n_tokens, location=str(path), first_row=row)


@dataclass(frozen=True, eq=False)
class Cuts:
    """Shards cut into tasks of whole row groups, each of which any process or machine can read.

    ``paths`` and ``n_tokens`` are those of the shards. A row of ``stretches``, shape (n_stretches, 4), has
    the index of a shard, its first row group, its last row group + 1, and its first row. Task ``i`` reads the
    stretches ``starts[i] … starts[i + 1] − 1``; ``starts`` has the shape (n_tasks + 1,).
    """

    paths: tuple[AnyPath, ...]
    n_tokens: int
    stretches: Int64
    starts: Int64

    def __len__(self) -> int:
        return len(self.starts) - 1

    def chunks(self, task: int, size: int) -> Iterator[Chunk]:
        """Yield the documents of a task, about ``size`` tokens at a time."""
        stretches: list[list[int]] = self.stretches[self.starts[task] : self.starts[task + 1]].tolist()
        for shard, start, stop, first_row in stretches:
            path = self.paths[shard]
            for batch, row_in_stretch in token_files.read_batches(path, size, range(start, stop)):
                row = first_row + row_in_stretch
                yield token_files.chunk_of(batch, self.n_tokens, location=str(path), first_row=row)


def holds_shards(folder: AnyPath) -> bool:
    """Whether the first Parquet file of a folder has a column ``tokens``."""
    if not (folder.is_dir() if isinstance(folder, RemotePath) else isdir(folder)):  # noqa: PTH112
        return False  # isdir: a text given in place of a path may be too long for one
    first: Any = next(iter(sorted(folder.glob("*.parquet"))), None)
    return first is not None and token_files.has_token_column(first)


TOKENIZED = artifacts.FolderKind("tokens", "a tokenised corpus", "attomaton tokenize --out")
VOCABULARY_FILE = "vocabulary.json"


@dataclass(frozen=True, eq=False)
class TokenizedCorpus:
    """A ``folder`` that :func:`tokenize_corpus` wrote, on this machine or at a URL.

    ``manifest`` is the content of ``manifest.json``: counts, inputs, and files with their digests.
    ``vocabulary`` is None if the tokenizer of the ids is unknown.
    """

    folder: AnyPath
    manifest: Mapping[str, Any]
    vocabulary: Vocabulary | None

    @property
    def n_tokens(self) -> int:
        return self.manifest["n_tokens"]

    @property
    def n_documents(self) -> int:
        return self.manifest["documents"]

    @property
    def length(self) -> int:  # the number of tokens in all documents
        return self.manifest["tokens"]

    @property
    def skipped(self) -> Skipped:
        return Skipped(**self.manifest["skipped"])

    @property
    def shards(self) -> list[AnyPath]:
        return [self.folder / name for name in self.manifest["files"] if name.endswith(".parquet")]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the column ``tokens`` of all shards in small batches; each shard is checked first."""
        for shard in self._checked_shards():
            yield from (batch for batch, _ in token_files.read_batches(shard, token_files.GROUP_TOKENS))

    def documents(self) -> Documents:
        """Load the whole corpus into memory."""
        ids: list[Int32] = [np.empty(0, np.int32)]
        lengths: list[Int64] = [np.empty(0, np.int64)]
        for shard in self._checked_shards():
            for batch, row in token_files.read_batches(shard, token_files.GROUP_TOKENS):
                chunk = token_files.chunk_of(batch, self.n_tokens, location=str(shard), first_row=row)
                ids.append(chunk.ids)
                lengths.append(np.diff(chunk.documents))
        offsets = offsets_of(np.concatenate(lengths))
        return Documents(np.concatenate(ids), offsets, self.vocabulary, self.skipped)

    def verify(self) -> "TokenizedCorpus":
        """Return the corpus itself if every file matches its digest in the manifest."""
        self._check([self.folder / name for name in self.manifest["files"]])
        return self

    def check_shards(self) -> list[str]:
        """Compare the shards with their digests in the manifest; return the digests."""
        return self._check(self.shards)

    def _checked_shards(self) -> Iterator[AnyPath]:
        for shard in self.shards:
            self._check([shard])
            yield shard

    # The digests of these files; an error if one of them does not match the manifest.
    def _check(self, paths: Sequence[AnyPath]) -> list[str]:
        files = {path.name: self.manifest["files"][path.name] for path in paths}
        return artifacts.check_files(self.folder, files, again="tokenise the corpus again")


def is_tokenized(folder: PathOrUrl) -> bool:
    """Whether a folder has the manifest of a tokenised corpus; always false on a web server."""
    target = as_path(folder)
    if isinstance(target, RemotePath) and not target.is_dir():
        return False
    path = target / artifacts.MANIFEST
    record = artifacts.read_sealed(path)
    if record is None and was_sealed(path):
        raise errors.CorruptRun(f"{path} was altered, or has an older format; tokenise the corpus again")
    return record is not None and record.get("kind") == TOKENIZED.name


def read_tokens(folder: PathOrUrl) -> TokenizedCorpus:
    """Open a tokenised corpus: read its manifest and its vocabulary, and check the sizes of its files.

    :meth:`TokenizedCorpus.verify` also checks the digests of the files.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_tokens(at.tokenize_corpus(["to be", "or not to be"], folder).folder).vocabulary
    Vocabulary(4 tokens, 'word')
    """
    path = as_path(folder)
    if not is_tokenized(path):
        raise errors.CorruptRun(
            f"{path} is not a complete tokenised corpus; write it with `attomaton tokenize … --out {path}`, "
            "which resumes where it stopped"
        )
    manifest = artifacts.read_manifest(path, TOKENIZED)
    try:
        digests = artifacts.list_digests(path, manifest["files"])
        for name in digests:
            if (path / name).stat().st_size != manifest["files"][name]["bytes"]:
                raise errors.CorruptRun(f"{path / name} was altered after it was written; tokenise it again")
        words = json.loads(artifacts.read_checked(path / VOCABULARY_FILE, digests[VOCABULARY_FILE]))
        vocabulary = None if words is None else Vocabulary.from_record(words)
    except (KeyError, TypeError, AttributeError, ValueError, FileNotFoundError) as error:
        raise errors.CorruptRun(f"{path} is incomplete ({error}); tokenise the corpus again") from error
    return TokenizedCorpus(path, manifest, vocabulary)
