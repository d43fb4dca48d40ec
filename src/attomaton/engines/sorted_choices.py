"""Write the choices of chunks of the corpus to sorted files, and merge the files.

A file has record batches of about equal size, cut at the borders of the partitions (:func:`cut_batches`).
:func:`merge_partition` has about one batch of each file in memory. All rows up to the smallest of the last
rows in memory are complete, because files are sorted: these rows are counted and written.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.borders import trusted
from attomaton.base.errors import CorruptRun
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int64, column, empty_table, exact_file, ragged_column
from attomaton.graphs.choices import CHOICE_SCHEMA, ChoiceTable, count_choices
from attomaton.graphs.grouping import pack_pairs
from attomaton.graphs.partitions import join_tables

# Least and most bytes of a batch: 90 or a thousand choices among 20 tokens. Smaller ones take more time.
CHOICE_BATCH_BYTES = (1 << 14, 3 << 16)

COPIES = 10  # of a choice in memory while a partition is merged

_arrow: Any = pa
STARTS = b"starts"  # the key of `SortedChoices.starts` in the metadata of a file


def size_batches(memory: int, n_files: int) -> int:
    """Bytes of a batch, so that the merge of a partition of ``n_files`` files takes half of the memory."""
    least, most = CHOICE_BATCH_BYTES
    return min(max(memory // (2 * COPIES * max(1, n_files)), least), most)


def cut_batches(choices: ChoiceTable, borders: Int64, n_bytes: int) -> pa.Table:
    """The choices in batches for a file; the metadata says which batches belong to each partition."""
    starts = np.searchsorted(choices["query"], borders.astype(np.int32))
    rows: Any = choices.rows
    ranges = pairwise(starts.tolist())
    batches = [_batch_rows(rows.slice(first, stop - first), n_bytes) for first, stop in ranges]
    counts = np.array(list(map(len, batches)), np.int64)
    table = _arrow.Table.from_batches(chain.from_iterable(batches), CHOICE_SCHEMA)
    return table.replace_schema_metadata({STARTS: offsets_of(counts).tobytes()})


def _batch_rows(rows: Any, n_bytes: int) -> list[Any]:
    # a batch has the number of rows that fill `n_bytes` at the mean size of a row
    return rows.to_batches(max(1, n_bytes * rows.num_rows // rows.nbytes)) if rows.num_rows else []


@dataclass(frozen=True)
class SortedChoices:
    """The choices of one chunk of the corpus, in a file of the batches that :func:`cut_batches` made."""

    path: Path

    @cached_property
    def starts(self) -> Int64:
        """Partition ``i`` has the batches ``starts[i] … starts[i + 1] − 1``."""
        with self._open() as file:
            return np.frombuffer(file.schema.metadata[STARTS], np.int64)

    def numbers(self, partition: int) -> range:
        """The numbers of the batches of a partition."""
        return range(*self.starts[partition : partition + 2].tolist())

    def batches(self, partition: int) -> Iterator[pa.Table]:
        """The batches of a partition, read one at a time; the file is closed in between."""
        for number in self.numbers(partition):
            with self._open() as file:
                batch = file.get_batch(number)
                batch.validate(full=True)
                table = _arrow.Table.from_batches([batch], CHOICE_SCHEMA)
            yield table

    @contextmanager
    def _open(self) -> Generator[Any]:
        try:
            with exact_file(self.path) as opened:
                yield _arrow.ipc.open_file(opened, options=_arrow.ipc.IpcReadOptions(use_threads=False))
        except (OSError, ValueError, MemoryError, LookupError, TypeError) as error:  # Arrow's; no metadata
            message = f"{self.path} is missing or was altered ({error}); run the command again"
            raise CorruptRun(message) from error


def merge_partition(files: Sequence[SortedChoices], partition: int) -> Iterator[pa.Table]:
    """The choices of a partition in all files, sorted and counted."""
    sources = [_Source(file.batches(partition), len(file.numbers(partition))) for file in files]
    while sources := [source for source in sources if source.fill()]:
        # Files that are read to the end set no limit; None takes all rows.
        complete = min((source.last for source in sources if source.n_unread), default=None)
        taken = [source.take(complete) for source in sources]
        yield count_choices([trusted(ChoiceTable, rows=rows) for rows in taken if rows.num_rows]).rows


class _Source:
    """The choices of a partition in one file: rows in memory, and ``n_unread`` batches on disk."""

    def __init__(self, batches: Iterator[pa.Table], n_batches: int) -> None:
        self._batches = batches
        self.n_unread = n_batches
        self._enough_rows = 1  # below this number another batch is read
        self.last = (0,)  # the key of the last row in memory
        self._set_rows(empty_table(CHOICE_SCHEMA))

    # Keep the rows with the arrays that keys need: packed (query, winner), tokens and counts.
    def _set_rows(self, rows: pa.Table) -> None:
        self._rows = rows
        self._pairs = pack_pairs(column(rows, "query"), column(rows, "winner"))
        self._offsets, self._tokens = ragged_column(rows, "tokens")
        self._times = ragged_column(rows, "multiplicities")[1]

    def fill(self) -> bool:
        """Read a batch if less than half of one is left; return whether there are rows."""
        if self.n_unread and self._rows.num_rows < self._enough_rows:
            batch = next(self._batches)
            self.n_unread -= 1
            self._enough_rows = batch.num_rows // 2 + 1
            self._set_rows(join_tables(CHOICE_SCHEMA, [self._rows, batch]))
            self.last = self._key(self._rows.num_rows - 1)
        return self._rows.num_rows > 0

    def take(self, until: tuple[int, ...] | None) -> pa.Table:
        """Remove and return the rows up to the key ``until``, or all rows for None."""
        n_rows = self._rows.num_rows if until is None else self._count_until(until)
        taken = self._rows.slice(0, n_rows)
        if n_rows:
            self._rows = self._rows.slice(n_rows)
            self._pairs, self._offsets = self._pairs[n_rows:], self._offsets[n_rows:]
        return taken

    # The number of rows up to a key, by bisection: first of the packed pairs, then of whole keys.
    def _count_until(self, key: tuple[int, ...]) -> int:
        low, high = self._pairs.searchsorted([key[0], key[0] + 1])
        return bisect_right(range(len(self._pairs)), key, int(low), int(high), key=self._key)

    # Query and winner, packed, token, multiplicity, token, and so on: keys sort as choices do.
    def _key(self, row: int) -> tuple[int, ...]:
        members = slice(*self._offsets[row : row + 2])
        pairs = np.stack([self._tokens[members], self._times[members]], axis=1)
        return (int(self._pairs[row]), *pairs.ravel().tolist())
