"""What Spark's executors run for sums by key; see :mod:`attomaton.engines.sums`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.tables import column
from attomaton.corpora.shards import Cuts
from attomaton.engines.executors import (
    Batches,
    batches_of,
    filled,
    numbers_of,
    open_arrow,
    store_arrow,
    tell,
)
from attomaton.engines.sums import MOST_ROWS, PIECE_TOKENS, Counting, Sums, add_rows, merge_sums, sum_in_parts

LISTED = "kind int, key long, high long, low long"
"""The rows of a pass, before they are added up; ``kind`` is a number."""

_arrow: Any = pa


@dataclass(frozen=True, eq=False)
class ListSums:
    """Tasks → (kind, key, high, low), added up within a piece.

    Attributes
    ----------
    cuts : Cuts
        The documents of each task.
    count : Counting
        What is counted, with empty tables.
    tables : mapping of str to Path
        Arrow files of its tables.
    """

    cuts: Cuts
    count: Counting
    tables: Mapping[str, Path]

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Run on a partition."""
        count = self.count.with_tables({name: open_arrow(path) for name, path in self.tables.items()})
        number_of = {kind: number for number, kind in enumerate(count.sizes)}
        for task in numbers_of(batches):
            for piece in self.cuts.pieces(task, PIECE_TOKENS):
                for kind, sums in sum_in_parts(piece, count, MOST_ROWS):
                    number = np.full(len(sums), number_of[kind], np.int32)
                    yield from batches_of(sums.to_table().add_column(0, "kind", _arrow.array(number)))


@dataclass(frozen=True, eq=False)
class StoreSums:
    """(kind, key, high, low), each key once → one Arrow file; tells its entry."""

    folder: Path

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Run on a partition."""
        rows = [_arrow.Table.from_batches([batch]) for batch in filled(batches)]
        if rows:
            yield tell(0, **store_arrow(self.folder / f"sums-{token_hex(6)}.arrow", rows))


def share(cuts: Cuts, count: Counting, folder: Path) -> ListSums:
    """The pass as it is sent to executors: its tables are written to files, and not sent with it."""
    tables = count.tables
    paths = {name: folder / f"{name}-{token_hex(6)}.arrow" for name in tables}
    for name, path in paths.items():
        store_arrow(path, [tables[name]])
    return ListSums(
        cuts, count.with_tables({name: table.slice(0, 0) for name, table in tables.items()}), paths
    )


def read_sums(paths: Sequence[Path], count: Counting) -> dict[str, Sums]:
    """The sums of each kind, from the files of all partitions."""
    listed: dict[str, list[Sums]] = {kind: [] for kind in count.sizes}
    for path in paths:
        kinds, *rest = (column(open_arrow(path), name) for name in ("kind", "key", "sum(high)", "sum(low)"))
        for number, kind in enumerate(count.sizes):
            listed[kind].append(add_rows(*(part[kinds == number] for part in rest)))
    return {kind: merge_sums(parts) for kind, parts in listed.items()}
