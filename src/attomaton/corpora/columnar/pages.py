"""The pages of a Parquet column, looked at before Arrow unpacks any of them.

A page can say that it unpacks to gigabytes, or hold a billion equal values in a few bytes, and Arrow would
believe it. Here the headers of the pages are read (Thrift's compact protocol), held to the budgets, and the
rows that may be read at once are chosen so that what is unpacked stays small. Where the values of a list
column are too many for one piece, the repetition levels are counted too, so that a row without end is found.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from attomaton.corpora.budgets import UNPACKED, unpacked_most, values_most
from attomaton.corpora.columnar.footers import Chunk
from attomaton.corpora.columnar.thrift import Cut, read_struct
from attomaton.errors import UnreadableSource
from attomaton.tables import Int64

_arrow: Any = pa
ROWS = 1000
"""Rows that are read at once, where nothing speaks against it."""
HEADER, LONGEST_HEADER = 1 << 12, 1 << 20
"""Bytes that are read for a page's header, at first and at most."""
DICTIONARY, DATA, DATA_2 = 2, 0, 3
"""Kinds of pages."""
DICTIONARY_ENCODED = (2, 8)
SHARED_PREFIXES = 7
"""Encoding in which a text repeats the beginning of the one before."""
CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
"""Number of a packing in a Parquet file → its name in Arrow."""
RUN_LENGTHS = 3
"""Encoding of the levels; the other one packs their bits."""


@dataclass(frozen=True)
class Page:
    """A page as its header describes it; ``start`` is where its stored bytes begin."""

    kind: int
    start: int
    stored: int
    unpacked: int
    n_values: int
    encoding: int
    level_encoding: int
    level_bytes: int | None


def rows_at_once(file: BinaryIO, chunk: Chunk, max_bytes: int) -> int:
    """How many rows of a chunk may be read at once, at least one; an error if one would be too much."""
    pages: list[Page] = []
    dictionary = 0
    longest = 0
    for page in read_pages(file, chunk):
        _check(page, chunk, max_bytes)
        if page.kind == DICTIONARY:
            dictionary = max(dictionary, page.unpacked)
        else:
            pages.append(page)
        if page.kind != DICTIONARY and page.encoding == SHARED_PREFIXES:
            longest = max(longest, page.unpacked)
    if chunk.is_list:
        return _rows_of_lists(file, chunk, pages, max_bytes)
    if any(page.encoding in DICTIONARY_ENCODED for page in pages):
        longest = max(longest, dictionary)
    most = max(UNPACKED, 4 * max_bytes)
    sizes = np.array([page.unpacked for page in pages], np.int64)
    rows = np.array([page.n_values for page in pages], np.int64)
    return max(1, min(_fitting(sizes, rows, most)[0], most // max(1, longest)))


def _rows_of_lists(file: BinaryIO, chunk: Chunk, pages: list[Page], max_bytes: int) -> int:
    values = np.array([page.n_values for page in pages], np.int64)
    most = values_most(max_bytes)
    if int(values.sum()) <= most:
        return ROWS
    begun = np.array([_records(file, chunk, page) for page in pages], np.int64)
    rows, worst = _fitting(values, begun, most)
    if worst > 3 * most:  # a row, with the pages in which it begins and ends
        raise UnreadableSource(
            f"{chunk.source}, row group {chunk.group}, has a row of about {worst:,} ids; split the document, "
            "or raise the limit (max_bytes; --max-document on the command line)"
        )
    return rows


def _fitting(sizes: Int64, rows: Int64, most: int) -> tuple[int, int]:
    """The most rows, up to ``ROWS``, whose pages together have at most ``most``, and what theirs have."""
    at_once = ROWS
    while (worst := _largest(sizes, rows, at_once)) > most and at_once > 1:
        at_once //= 2
    return at_once, worst


def _largest(sizes: Int64, rows: Int64, at_once: int) -> int:
    """The most that the pages of a run of rows have; rows may begin at the end of a page."""
    begun = np.concatenate([[0], np.cumsum(rows)])
    total = np.concatenate([[0], np.cumsum(sizes)])
    first = np.flatnonzero(rows)  # pages in which a row begins
    if not len(first):
        return int(total[-1])
    last = np.searchsorted(begun, begun[first + 1] - 1 + at_once, side="right")
    return int((total[np.minimum(last, len(sizes))] - total[first]).max())


def _check(page: Page, chunk: Chunk, max_bytes: int) -> None:
    place = f"{chunk.source}, row group {chunk.group},"
    most = unpacked_most(page.stored, max_bytes)
    if page.unpacked > most:
        raise UnreadableSource(
            f"{place} has a page that unpacks from {page.stored:,} bytes to {page.unpacked:,}, more than "
            f"{most:,}; write it with smaller pages, or raise the limit (max_bytes; --max-document on the "
            "command line)"
        )
    if page.kind == DICTIONARY:
        if 4 * page.n_values > page.unpacked:
            raise UnreadableSource(
                f"{place} has a dictionary of {page.n_values:,} values in {page.unpacked:,} bytes, so it is "
                "damaged; fetch or write it again"
            )
    elif page.n_values > values_most(max_bytes):
        raise UnreadableSource(
            f"{place} has a page of {page.n_values:,} values, more than {values_most(max_bytes):,}; write it "
            "with smaller pages, or raise the limit (max_bytes; --max-document on the command line)"
        )


def read_pages(file: BinaryIO, chunk: Chunk) -> Iterator[Page]:
    """The pages of a chunk, by their headers."""
    position, seen = chunk.start, 0
    size = file.seek(0, 2)
    stop = min(chunk.stop, size)
    while position < stop and seen < chunk.n_values:
        page = _read_page(file, position, chunk)
        if page.stored < 0 or page.unpacked < 0 or page.n_values < 0 or page.start + page.stored > size:
            raise _damaged(chunk, position)
        yield page
        seen += page.n_values if page.kind in (DATA, DATA_2) else 0
        position = page.start + page.stored


def _read_page(file: BinaryIO, position: int, chunk: Chunk) -> Page:
    wanted = HEADER
    while True:
        file.seek(position)
        blob = file.read(wanted)
        try:
            header, length = read_struct(blob)
            break
        except Cut as error:
            if len(blob) < wanted or wanted >= LONGEST_HEADER:
                raise _damaged(chunk, position) from error
            wanted *= 16
        except ValueError as error:
            raise _damaged(chunk, position) from error
    try:
        kind = int(header[1])
        told: Any = header.get({DATA: 5, DICTIONARY: 7, DATA_2: 8}.get(kind, 0), {})
        two = kind == DATA_2
        return Page(
            kind=kind,
            start=position + length,
            stored=int(header[3]),
            unpacked=int(header[2]),
            n_values=int(told.get(1, 0)),
            encoding=int(told.get(4 if two else 2, 0)),
            level_encoding=RUN_LENGTHS if two else int(told.get(4, RUN_LENGTHS)),
            level_bytes=int(told.get(6, 0)) if two else None,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _damaged(chunk, position) from error


def _damaged(chunk: Chunk, position: int) -> UnreadableSource:
    return UnreadableSource(
        f"{chunk.source}, row group {chunk.group}, has no page at byte {position:,}, where one should begin: "
        "it is damaged; fetch or write it again"
    )


def _records(file: BinaryIO, chunk: Chunk, page: Page) -> int:
    """How many rows begin in a page of a list column: its repetition levels that are 0."""
    file.seek(page.start)
    if page.level_bytes is not None:
        levels = file.read(min(page.level_bytes, page.stored))
    else:
        blob = file.read(page.stored)
        if chunk.codec:
            blob = _unpack(blob, page, chunk)
        if page.level_encoding != RUN_LENGTHS:
            bits = np.unpackbits(np.frombuffer(blob, np.uint8, min(len(blob), (page.n_values + 7) // 8)))
            return int(page.n_values - bits[: page.n_values].sum())
        levels = blob[4 : 4 + int.from_bytes(blob[:4], "little")]
    return _count_zeros(levels, page.n_values)


def _unpack(blob: bytes, page: Page, chunk: Chunk) -> bytes:
    name = CODECS.get(chunk.codec)
    if name is None:
        raise UnreadableSource(
            f"{chunk.source}, row group {chunk.group}, is packed in a way whose rows cannot be counted; "
            "write it packed by zstd or snappy"
        )
    return _arrow.decompress(blob, page.unpacked, name, asbytes=True)


def _count_zeros(levels: bytes, n_values: int) -> int:
    """The zeros among levels of one bit, in runs or packed in eights."""
    zeros = seen = position = 0
    while position < len(levels) and seen < n_values:
        head = shift = 0
        while position < len(levels):
            byte = levels[position]
            position += 1
            head |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 35:
                break
        if head & 1:
            packed = levels[position : position + (head >> 1)]
            position += head >> 1
            bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")[: n_values - seen]
            zeros += int(len(bits) - bits.sum())
            seen += len(bits)
            if not packed:
                break
        else:
            count = min(head >> 1, n_values - seen)
            zeros += count * (position < len(levels) and levels[position] == 0)
            position += 1
            seen += count
    return zeros
