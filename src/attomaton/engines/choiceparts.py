"""The choices of a corpus in parts: each holds whole queries, and is read when it is asked for."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts.parted import write_part
from attomaton.base.errors import CorruptRun
from attomaton.base.tables import (
    Int64,
    arrow_compute,
    arrow_parquet,
    column,
    exact_file,
    make_table,
    ragged_column,
)
from attomaton.engines.parts import count_rows, scan_rows
from attomaton.graphs.choices import (
    CHOICE_FILE,
    CHOICE_SCHEMA,
    ChoiceTable,
    count_choices,
    unpack_choices,
    unpack_in_any_order,
)
from attomaton.graphs.parts import join, slice_queries

_arrow: Any = pa

PLAIN = {"query": np.int32, "winner": np.int32, "count": np.int64}
LISTS = ("tokens", "multiplicities")
READ_ROWS = 1 << 17
"""Choices that are read at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceParts:
    """What an engine's second pass returns. :meth:`load` makes it one :class:`ChoiceTable` where that fits.

    Attributes
    ----------
    borders : int64 array, shape (n_parts + 1,)
        Part ``i`` holds the queries ``borders[i] … borders[i + 1] − 1``.
    pieces : tuple of Path or pyarrow.Table
        The choices of each part.
    entries : tuple of dict
        What was told of each file when it was written; empty for pieces in memory.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.graphs.choices import extract_choices
    >>> choices = extract_choices(at.Samples.from_lists([[0, 1, 2], [1, 0]], [0, 1]))
    >>> parts = cut_choices(choices, np.array([0, 1, 3]))
    >>> parts, parts.part(1).num_rows, parts.load().rows.equals(choices.rows)
    (ChoiceParts(2 parts), 1, True)
    """

    borders: Int64
    pieces: tuple[Path | pa.Table, ...]
    entries: tuple[Mapping[str, Any], ...] = ()

    def __repr__(self) -> str:
        return f"ChoiceParts({len(self.pieces):,} parts)"

    def part(self, number: int) -> pa.Table:
        """The choices of one part of the queries, in memory."""
        piece = self.pieces[number]
        if not isinstance(piece, Path):
            return piece
        try:
            return read_choices(piece)
        except ValueError as error:  # Arrow's errors are such, and what does not fit
            raise CorruptRun(f"{piece} was altered ({error}); delete {piece.parent} and run again") from error

    def load(self) -> ChoiceTable:
        """All choices in memory."""
        return ChoiceTable(join(CHOICE_SCHEMA, [self.part(number) for number in range(len(self.pieces))]))


def read_choices(file: Path) -> pa.Table:
    """The choices of a file, read a piece at a time into arrays of the right length: none is held twice.

    A frequent word of a large corpus has a hundred million members in its choice sets.
    """
    n_rows, n_members = count_rows(file), count_values(file, "tokens")
    plain = {name: np.empty(n_rows, kind) for name, kind in PLAIN.items()}
    lists = {name: np.empty(n_members, np.int32) for name in LISTS}
    offsets, row, member = np.zeros(n_rows + 1, np.int64), 0, 0
    for piece in scan_rows(file, CHOICE_SCHEMA, rows=READ_ROWS):
        until = row + piece.num_rows
        for name, values in plain.items():
            values[row:until] = column(piece, name)
        ends, _ = ragged_column(piece, LISTS[0])
        offsets[row : until + 1] = member + ends
        for name, values in lists.items():
            values[member : offsets[until]] = ragged_column(piece, name)[1]
        row, member = until, int(offsets[until])
    return make_table(CHOICE_SCHEMA, {**plain, **{name: (offsets, values) for name, values in lists.items()}})


def count_values(piece: Path | pa.Table, name: str) -> int:
    """How many values the lists of a column hold together, in a Parquet file from its footer alone."""
    if not isinstance(piece, Path):
        return len(ragged_column(piece, name)[1])
    about = arrow_parquet().read_metadata(exact_file(piece))
    groups = (about.row_group(number) for number in range(about.num_row_groups))
    columns = (group.column(place) for group in groups for place in range(group.num_columns))
    return sum(one.num_values for one in columns if one.path_in_schema.split(".")[0] == name)


def sum_choices(batches: Iterable[tuple[Any, Int64]]) -> Iterator[pa.Table]:
    """Sorted batches of encoded choices with counts → choices with summed counts; a run may cross batches."""
    last: Any = _arrow.array([], pa.large_binary())
    held: Int64 = np.empty(0, np.int64)
    for batch, counts in batches:
        rows: Any = _arrow.concat_arrays([last, batch.cast(pa.large_binary())])
        counts = np.concatenate([held, counts])
        differs: Any = arrow_compute().not_equal(rows.slice(1), rows.slice(0, len(rows) - 1))
        first = np.flatnonzero(np.concatenate([[True], differs.to_numpy(zero_copy_only=False)]))
        sums: Int64 = np.add.reduceat(counts, first, dtype=np.int64)
        distinct: Any = rows.take(_arrow.array(first))
        last, held = distinct.slice(len(first) - 1), sums[-1:]
        if len(first) > 1:
            yield unpack_choices(_arrow.chunked_array([distinct.slice(0, len(first) - 1)]), sums[:-1]).rows
    if len(held):
        yield unpack_choices(_arrow.chunked_array([last]), held).rows


def write_choices(file: Path, batches: Iterable[tuple[Any, Int64]]) -> dict[str, Any]:
    """Write rising encoded choices with their counts to one Parquet file; its entry."""
    return write_part(file, sum_choices(batches), CHOICE_SCHEMA, CHOICE_FILE)


def count_unsorted(file: Path, batches: Iterable[tuple[Any, Int64]]) -> dict[str, Any]:
    """The same for encoded choices in any order, all of which are in memory together."""
    parts = [unpack_in_any_order(_arrow.chunked_array([rows]), count) for rows, count in batches]
    counted = ChoiceTable(count_choices(parts).rows)
    return write_part(file, [counted.rows], CHOICE_SCHEMA, CHOICE_FILE)


def cut_choices(choices: ChoiceTable, borders: Int64) -> ChoiceParts:
    """Choices in memory, in parts of the queries."""
    return ChoiceParts(
        borders, tuple(slice_queries(choices.rows, *limits) for limits in pairwise(borders.tolist()))
    )
