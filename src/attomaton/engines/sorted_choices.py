"""Sorted choices of pieces of the corpus on disk, and their merge.

A file has record batches of at most :data:`BATCH_ROWS` choices, cut at the borders of parts of the queries.
The merge of a part holds about a batch of each file: all rows up to the smallest last row of these are
complete, so they can be counted and written.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.borders import trusted
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int64, column, empty_table, exact_file
from attomaton.graphs.choices import CHOICE_SCHEMA, ChoiceTable, count_choices
from attomaton.graphs.grouping import pack_pairs
from attomaton.graphs.parts import join

BATCH_ROWS = 1 << 10
"""Choices in a batch: 400 files of a corpus of 500 million tokens then hold 0.4 million in memory."""

_arrow: Any = pa
ROWS = b"rows"


def cut_batches(choices: ChoiceTable, borders: Int64) -> pa.Table:
    """The choices in batches for a file; the metadata has the number of rows of each part of the queries."""
    starts = np.searchsorted(choices["query"], borders.astype(np.int32))
    rows: Any = choices.rows
    batches = [
        batch
        for first, stop in pairwise(starts.tolist())
        for batch in rows.slice(first, stop - first).to_batches(BATCH_ROWS)
        if batch.num_rows
    ]
    counts = np.diff(starts).astype(np.int64).tobytes()
    return _arrow.Table.from_batches(batches, CHOICE_SCHEMA).replace_schema_metadata({ROWS: counts})


@dataclass(frozen=True)
class SortedChoices:
    """The choices of one piece of the corpus, in a file of the batches that :func:`cut_batches` made."""

    path: Path

    @cached_property
    def rows(self) -> Int64:
        """The number of choices in each part of the queries, shape (n_parts,)."""
        with exact_file(self.path) as opened:
            return np.frombuffer(_arrow.ipc.open_file(opened).schema.metadata[ROWS], np.int64)

    @cached_property
    def _batches(self) -> Int64:
        """The batches of part ``i`` are ``_batches[i] … _batches[i + 1] − 1``."""
        return offsets_of(-(-self.rows // BATCH_ROWS))

    def batches(self, part: int) -> Iterator[pa.Table]:
        """The batches of a part, each read when it is asked for; the file is open only meanwhile."""
        options = _arrow.ipc.IpcReadOptions(use_threads=False)
        for number in range(*self._batches[part : part + 2].tolist()):
            with exact_file(self.path) as opened:
                batch = _arrow.ipc.open_file(opened, options=options).get_batch(number)
            batch.validate(full=True)
            yield _arrow.Table.from_batches([batch], CHOICE_SCHEMA)


def merge_part(files: Sequence[SortedChoices], part: int) -> Iterator[pa.Table]:
    """The choices of a part of the queries in all files, sorted and counted."""
    sources = [_Source(file.batches(part), int(file.rows[part])) for file in files if file.rows[part]]
    while sources:
        for source in sources:
            source.fill()
        complete = min((source.last for source in sources if source.n_unread), default=None)
        taken = [source.take(complete) for source in sources]
        yield count_choices([trusted(ChoiceTable, rows=rows) for rows in taken if rows.num_rows]).rows
        sources = [source for source in sources if source.n_unread or source.rows.num_rows]


class _Source:
    """The choices of a part in one file: a batch in memory, and those that are not read yet."""

    def __init__(self, batches: Iterator[pa.Table], n_rows: int) -> None:
        self._batches, self.n_unread = batches, n_rows
        self.rows = empty_table(CHOICE_SCHEMA)

    def fill(self) -> None:
        """Read a batch if less than half of one is left."""
        if self.n_unread and 2 * self.rows.num_rows < BATCH_ROWS:
            batch = next(self._batches)
            self.n_unread -= batch.num_rows
            self.rows = join(CHOICE_SCHEMA, [self.rows, batch])

    @property
    def last(self) -> tuple[int, ...]:
        """The key of the last row in memory."""
        return self._key(self.rows.num_rows - 1)

    def take(self, until: tuple[int, ...] | None) -> pa.Table:
        """Remove the rows up to a key, or all."""
        n_rows = self.rows.num_rows if until is None else self._find(until)
        taken, self.rows = self.rows.slice(0, n_rows), self.rows.slice(n_rows)
        return taken

    def _find(self, key: tuple[int, ...]) -> int:
        """The number of rows up to a key."""
        pairs = pack_pairs(column(self.rows, "query"), column(self.rows, "winner"))
        pair = pack_pairs(*np.array(key[:2]))
        low, high = (int(np.searchsorted(pairs, pair, side)) for side in ("left", "right"))
        return bisect_right(range(len(pairs)), key, low, high, key=self._key)

    def _key(self, row: int) -> tuple[int, ...]:
        """Query, winner, token, multiplicity, token, multiplicity and so on: keys sort as choices do."""
        (choice,) = self.rows.slice(row, 1).to_pylist()
        members = chain.from_iterable(zip(choice["tokens"], choice["multiplicities"], strict=True))
        return (choice["query"], choice["winner"], *members)
