"""The footer of a Parquet file: where the chunks of a column are.

Arrow reads the footer too, but what Python may ask it about a chunk ends the process where a footer is
damaged, so the few numbers that are needed are read here.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import pyarrow as pa

from attomaton.corpora.budgets import CONTAINER, FOOTER
from attomaton.corpora.columnar.thrift import LIST, STRUCT, ThriftReader
from attomaton.errors import UnreadableSource

_arrow: Any = pa
PARQUET = {"buffer_size": 1 << 20, "pre_buffer": False, "page_checksum_verification": True}
END = b"PAR1"
ROW_GROUPS, COLUMNS, METADATA = 4, 1, 3
"""Fields of the file, of a row group, and of a column."""
CODEC, N_VALUES, PACKED_SIZE, FIRST_PAGE, DICTIONARY_PAGE = 4, 5, 7, 9, 11
"""Fields of the metadata of a chunk."""


@dataclass(frozen=True)
class Chunk:
    """One column of one row group: where its pages are and how they are packed."""

    source: str
    group: int
    start: int
    stop: int
    n_values: int
    codec: int
    is_list: bool


def open_parquet(file: BinaryIO, source: str) -> Any:
    """A Parquet file whose footer is no longer than it may be, and has no list that is longer than itself."""
    from pyarrow import parquet

    tables: Any = parquet
    size, length = _measure(file)
    if length > FOOTER:
        raise UnreadableSource(
            f"{source} has a footer of {length:,} bytes, more than {FOOTER:,}; write it with fewer row "
            "groups or columns"
        )
    limits = {
        "thrift_string_size_limit": min(FOOTER, max(1, size)),
        "thrift_container_size_limit": min(CONTAINER, max(64, length // 8)),
    }
    return tables.ParquetFile(_arrow.PythonFile(file, "r"), **PARQUET, **limits)


def read_chunks(file: BinaryIO, source: str, leaves: Collection[int], *, is_list: bool) -> list[list[Chunk]]:
    """For each row group, the chunks of some columns, which are numbered as in the file."""
    size, length = _measure(file)
    file.seek(max(0, size - 8 - length))
    reader = ThriftReader(file.read(length))
    groups: list[list[Chunk]] = []
    for number, kind in reader.fields():
        if number != ROW_GROUPS or kind != LIST:
            reader.skip(kind)
            continue
        for inner in reader.items(kind):
            _expect(inner)
            found = _read_group(reader, leaves)
            groups.append([_chunk(source, len(groups), one, is_list=is_list) for one in found])
    return groups


def _measure(file: BinaryIO) -> tuple[int, int]:
    """The size of a file, and of its footer; 0 if it has none."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 8))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little") if tail[4:] == END else 0
    return size, length


def _read_group(reader: ThriftReader, leaves: Collection[int]) -> list[dict[int, Any]]:
    found: list[dict[int, Any]] = []
    for number, kind in reader.fields():
        if number != COLUMNS or kind != LIST:
            reader.skip(kind)
            continue
        for place, inner in enumerate(reader.items(kind)):
            _expect(inner)
            if place in leaves:
                told = reader.struct().get(METADATA)
                found.append(cast("dict[int, Any]", told) if isinstance(told, dict) else {})
            else:
                reader.skip(inner)
    return found


def _expect(kind: int) -> None:
    if kind != STRUCT:
        raise ValueError("the footer lists something else than row groups and columns")


def _chunk(source: str, group: int, told: dict[int, Any], *, is_list: bool) -> Chunk:
    codec, n_values, size, start = (_number(told, one) for one in (CODEC, N_VALUES, PACKED_SIZE, FIRST_PAGE))
    first = _number(told, DICTIONARY_PAGE) if DICTIONARY_PAGE in told else 0
    start = first if 0 < first < start else start
    if start < 0 or size < 0:
        raise ValueError("a column begins before the file")
    return Chunk(source, group, start, start + size, n_values, codec, is_list)


def _number(told: dict[int, Any], field: int) -> int:
    number = told.get(field)
    if not isinstance(number, int):
        raise ValueError("the footer says too little about a column")
    return number
