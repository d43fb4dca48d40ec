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
from attomaton.tables import Int32, Int64, arrow_parquet, make_table, write_parquet

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
    True (6,) 1
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
        return cls.from_folder(folder, n_tokens=n_tokens)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Tokens of each shard, from its footer (an empty document counts as one)."""
        return tuple(_count_values(path) for path in self.paths)

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

    def pieces(self, size: int, window: int) -> Iterator[Piece]:
        """All documents in pieces of about ``size`` tokens; where one is cut, contexts stay whole."""
        return regroup(self._batches(size), size, window)

    def _batches(self, size: int) -> Iterator[Piece]:
        for path in self.paths:
            for batch, row in _batches(path, size):
                yield piece_of(batch, self.n_tokens, place=str(path), first_row=row)


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


def _batches(path: Path, size: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The record batches of a shard, each of about ``size`` tokens or fewer rows, with their first row."""
    file = _open(path)
    n_rows = file.metadata.num_rows
    average = max(1, _count_values(path) // max(1, n_rows))
    rows_at_once = min(ROWS_AT_ONCE, max(1, size // average))
    row = 0
    reader = file.iter_batches(rows_at_once, columns=[TOKENS], use_threads=False)
    while (batch := _reading(path, lambda: next(reader, None))) is not None:
        yield batch, row
        row += batch.num_rows


def _count_values(path: Path) -> int:
    footer = _open(path).metadata
    total = 0
    for group in range(footer.num_row_groups):
        columns = (footer.row_group(group).column(number) for number in range(footer.num_columns))
        total += sum(one.num_values for one in columns if one.path_in_schema.split(".")[0] == TOKENS)
    return total


def _open_parquet(path: Path) -> Any:
    return _reading(path, lambda: arrow_parquet().ParquetFile(path, pre_buffer=False))


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
