"""The shards of a corpus, cut into what is worked on at a time: jobs, tasks and pieces."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from os.path import isdir
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.artifacts import explained
from attomaton.base.errors import UnreadableSource
from attomaton.base.remote import Place, RemotePath, as_place
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.documents import Piece, regroup
from attomaton.corpora.shards.format import (
    count_groups,
    flatten_lists,
    has_tokens,
    piece_of,
    read_batches,
    write_documents,
)

FOOTERS_AT_ONCE = 16
"""Footers that are read side by side where each is a request to a store."""


@dataclass(frozen=True)
class Shards:
    """Parquet files, each with a column ``tokens`` of integer lists.

    Attributes
    ----------
    paths : tuple of Path or RemotePath
        The files, in the order in which their documents count; on this machine, or behind URLs.
    n_tokens : int
        Size of the vocabulary.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ids, offsets = np.array([0, 1, 0, 2, 1, 1], np.int32), np.array([0, 6])  # one document
    ...     shards = Shards.write(Path(folder), ids, offsets, n_tokens=3)
    ...     again = Shards.from_folder(folder)  # reads the files to find n_tokens
    ...     pieces = [piece.ids.tolist() for piece in again.pieces(size=3, window=2)]
    ...     print(again == shards == Shards.from_paths(shards.paths), again.sizes, len(again.jobs(size=100)))
    ...     print(len(again.cut(size=100)))  # tasks of whole row groups
    True (6,) 1
    1
    >>> pieces  # where a document is cut, the next piece begins with the context that it needs
    [[0, 1, 0], [1, 0, 2, 1, 1]]
    """

    paths: tuple[Place, ...]
    n_tokens: int

    @classmethod
    def from_folder(
        cls, folder: str | PathLike[str] | RemotePath, *, n_tokens: int | None = None
    ) -> "Shards":
        """Every ``.parquet`` file of a folder, by name; ``n_tokens`` is looked up in them if not given.

        The folder may be a URL that fsspec opens, such as ``s3://bucket/shards``.
        """
        place = as_place(folder)
        paths: list[Any] = sorted(place.glob("*.parquet"))
        if not paths:
            raise UnreadableSource(f"{place} holds no .parquet files; give a folder of token shards")
        return cls.from_paths(paths, n_tokens=n_tokens)

    @classmethod
    def from_paths(
        cls, paths: Sequence[str | PathLike[str] | RemotePath], *, n_tokens: int | None = None
    ) -> "Shards":
        """These files, by path or URL; ``n_tokens`` is found by reading them if not given."""
        shards = cls(tuple(map(as_place, paths)), 0)
        return replace(shards, n_tokens=_largest_id(shards) + 1 if n_tokens is None else n_tokens)

    @classmethod
    def write(cls, folder: Path, ids: Int32, offsets: Int64, *, n_tokens: int) -> "Shards":
        """Documents in memory as shards; document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``.

        Parameters
        ----------
        folder : Path
            Where to; made if it is not there.
        ids : int32 array, shape (n_values,)
            All documents, one after the other.
        offsets : int64 array, shape (n_documents + 1,)
            Where each document begins, and the end.
        n_tokens : int
            Size of the vocabulary.
        """
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_documents(folder / "00000.parquet", ids, offsets)
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
        groups: list[list[Place]] = []
        filled = 0
        for path, tokens in zip(self.paths, self.sizes, strict=True):
            if not groups or filled + tokens > size:
                groups.append([])
                filled = 0
            groups[-1].append(path)
            filled += tokens
        return [replace(self, paths=tuple(group)) for group in groups]

    def cut(self, size: int) -> "Cuts":
        """Consecutive row groups in tasks of about ``size`` tokens; a larger group is a task of its own.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ids, offsets = np.array([0, 1, 0, 2, 1, 1], np.int32), np.array([0, 4, 6])
        ...     len(Shards.write(Path(folder), ids, offsets, n_tokens=3).cut(size=100))
        1
        """
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

    def pieces(self, size: int, window: int | None) -> Iterator[Piece]:
        """All documents in pieces of about ``size`` tokens; where one is cut, contexts stay whole.

        Without a window no document is cut, so that a piece may be as long as the longest document.
        """
        return self._batches(size) if window is None else regroup(self._batches(size), size, window)

    def _batches(self, size: int) -> Iterator[Piece]:
        for path in self.paths:
            for batch, row in read_batches(path, size):
                yield piece_of(batch, self.n_tokens, place=str(path), first_row=row)


@dataclass(frozen=True, eq=False)
class Cuts:
    """Shards cut into tasks of whole row groups, each of which can be read by itself, anywhere.

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

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ids, offsets = np.array([0, 1, 0, 2, 1, 1], np.int32), np.array([0, 4, 6])
    ...     cuts = Shards.write(Path(folder), ids, offsets, n_tokens=3).cut(size=100)
    ...     print(len(cuts), [piece.ids.tolist() for piece in cuts.pieces(0, size=100)])
    1 [[0, 1, 0, 2, 1, 1]]
    """

    paths: tuple[Place, ...]
    n_tokens: int
    stretches: Int64
    starts: Int64

    def __len__(self) -> int:
        return len(self.starts) - 1

    def pieces(self, task: int, size: int) -> Iterator[Piece]:
        """The documents of a task, as they are read; about ``size`` tokens or fewer rows at a time."""
        here: list[list[int]] = self.stretches[self.starts[task] : self.starts[task + 1]].tolist()
        for shard, first, stop, first_row in here:
            path = self.paths[shard]
            for batch, row in read_batches(path, size, range(first, stop)):
                yield piece_of(batch, self.n_tokens, place=str(path), first_row=first_row + row)


def holds_shards(folder: Place) -> bool:
    """Whether a folder holds Parquet files with a column ``tokens``, one document a row."""
    if not (folder.is_dir() if isinstance(folder, RemotePath) else isdir(folder)):  # noqa: PTH112
        return False  # isdir: a text that stands for its path may be too long for one
    first: Any = next(iter(sorted(folder.glob("*.parquet"))), None)
    return first is not None and has_tokens(first)


def _largest_id(shards: Shards) -> int:
    largest = -1
    for path in shards.paths:
        for batch, row in read_batches(path, 1 << 22):
            _, values = flatten_lists(batch, place=str(path), first_row=row)
            largest = max(largest, int(values.max(initial=-1)))
    return largest
