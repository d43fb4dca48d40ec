"""A tokenised corpus on disk: a folder of Parquet shards with one document a row."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.artifacts import explained, write_file
from attomaton.borders import trusted
from attomaton.engines.kernel import TOKENS, flatten_lists, piece_of
from attomaton.errors import UnreadableSource
from attomaton.graphs.windows import Piece
from attomaton.tables import Int32, Int64, arrow_parquet, exact_file, make_table, write_parquet

ROWS_AT_ONCE = 1 << 14
SCHEMA = pa.schema([(TOKENS, pa.large_list(pa.int32()))])


@dataclass(frozen=True)
class Shards:
    """Parquet files, each with a column ``tokens`` of integer lists.

    Attributes
    ----------
    paths : tuple of Path
        The files, in the order in which their documents count.
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

    paths: tuple[Path, ...]
    n_tokens: int

    @classmethod
    def from_folder(cls, folder: str | PathLike[str], *, n_tokens: int | None = None) -> "Shards":
        """Every ``.parquet`` file of a folder, by name; ``n_tokens`` is looked up in them if not given."""
        place = Path(folder)
        paths = sorted(place.glob("*.parquet"))
        if not paths:
            raise UnreadableSource(f"{place} holds no .parquet files; give a folder of token shards")
        return cls.from_paths(paths, n_tokens=n_tokens)

    @classmethod
    def from_paths(cls, paths: Sequence[str | PathLike[str]], *, n_tokens: int | None = None) -> "Shards":
        """These files; ``n_tokens`` is found by reading them if not given."""
        shards = cls(tuple(map(Path, paths)), 0)
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
            table = make_table(SCHEMA, {TOKENS: (offsets, ids)})
            write_file(folder / "00000.parquet", lambda path: write_parquet(table, str(path)))
        return cls.from_paths([folder / "00000.parquet"], n_tokens=n_tokens)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Tokens of each shard, from its footer (an empty document counts as one)."""
        return tuple(int(groups[:, 1].sum()) for groups in self._groups)

    @cached_property
    def _groups(self) -> tuple[Int64, ...]:
        """Rows and tokens of each row group of each shard, shape (n_groups, 2), from the footers."""
        return tuple(_count_groups(path) for path in self.paths)

    def jobs(self, size: int) -> list["Shards"]:
        """Consecutive shards in groups of about ``size`` tokens; a larger shard is a group of its own."""
        groups: list[list[Path]] = []
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

    def pieces(self, size: int, window: int) -> Iterator[Piece]:
        """All documents in pieces of about ``size`` tokens; where one is cut, contexts stay whole."""
        return regroup(self._batches(size), size, window)

    def _batches(self, size: int) -> Iterator[Piece]:
        for path in self.paths:
            for batch, row in _batches(path, size):
                yield piece_of(batch, self.n_tokens, place=str(path), first_row=row)


@dataclass(frozen=True, eq=False)
class Cuts:
    """Shards cut into tasks of whole row groups, each of which can be read by itself, anywhere.

    Attributes
    ----------
    paths : tuple of Path
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

    paths: tuple[Path, ...]
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
            for batch, row in _batches(path, size, range(first, stop)):
                yield piece_of(batch, self.n_tokens, place=str(path), first_row=first_row + row)


def regroup(pieces: Iterable[Piece], size: int, window: int) -> Iterator[Piece]:
    """The same documents in pieces of about ``size`` tokens; where one is cut, contexts stay whole."""
    held: list[Piece] = []
    for piece in pieces:
        held.append(piece)
        if sum(len(one.ids) for one in held) >= size:
            yield from _even_cuts(_join(held), size, window)
            held = []
    if held:
        yield from _even_cuts(_join(held), size, window)


def holds_shards(folder: Path) -> bool:
    """Whether a folder holds Parquet files with a column ``tokens``, one document a row."""
    if not folder.is_dir():
        return False
    first = next(iter(sorted(folder.glob("*.parquet"))), None)
    return first is not None and TOKENS in _open_parquet(first).schema_arrow.names


def _even_cuts(piece: Piece, size: int, window: int) -> Iterator[Piece]:
    n_cuts = max(1, round(len(piece.ids) / size))
    return piece.cut(max(1, -(-len(piece.ids) // n_cuts)), window)


def _join(pieces: list[Piece]) -> Piece:
    shifts = np.cumsum([0, *(len(piece.ids) for piece in pieces)])
    borders = [piece.documents[1:] + shift for piece, shift in zip(pieces, shifts[:-1], strict=True)]
    ids = np.concatenate([piece.ids for piece in pieces])
    documents = np.concatenate([[0], *borders])
    return trusted(Piece, ids=ids, documents=documents, head=0, n_tokens=pieces[0].n_tokens)


def _largest_id(shards: Shards) -> int:
    largest = -1
    for path in shards.paths:
        for batch, row in _batches(path, 1 << 22):
            _, values = flatten_lists(batch, place=str(path), first_row=row)
            largest = max(largest, int(values.max(initial=-1)))
    return largest


def _batches(path: Path, size: int, groups: range | None = None) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The record batches of a shard, or of these row groups of it, with their first row from there on.

    Each has about ``size`` tokens, or fewer rows.
    """
    file = _open(path)
    n_rows, n_values = _groups_of(file).sum(axis=0).tolist()
    rows_at_once = min(ROWS_AT_ONCE, max(1, size // max(1, n_values // max(1, n_rows))))
    row = 0
    chosen = None if groups is None else list(groups)
    reader = file.iter_batches(rows_at_once, chosen, columns=[TOKENS], use_threads=False)
    while (batch := _reading(path, lambda: next(reader, None))) is not None:
        yield batch, row
        row += batch.num_rows


def _count_groups(path: Path) -> Int64:
    with _open(path) as file:
        return _groups_of(file)


def _groups_of(file: Any) -> Int64:
    """Rows and tokens of each row group, shape (n_groups, 2)."""
    footer: Any = file.metadata
    counted = np.zeros((footer.num_row_groups, 2), np.int64)
    for number in range(len(counted)):
        group = footer.row_group(number)
        columns = (group.column(place) for place in range(footer.num_columns))
        values = sum(one.num_values for one in columns if one.path_in_schema.split(".")[0] == TOKENS)
        counted[number] = group.num_rows, values
    return counted


def _open_parquet(path: Path) -> Any:
    return _reading(path, lambda: arrow_parquet().ParquetFile(exact_file(path), pre_buffer=False))


def _open(path: Path) -> Any:
    file = _open_parquet(path)
    if TOKENS not in file.schema_arrow.names:
        names = ", ".join(file.schema_arrow.names)
        raise UnreadableSource(f"{path} has no column {TOKENS!r} (it has {names}); tokenise it first")
    return file


def _reading(path: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise UnreadableSource(
            f"{path} cannot be read as Parquet ({reason}); write it again, or leave it out"
        ) from error
