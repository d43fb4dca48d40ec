"""Read token ids from ``.npy`` arrays and headerless ``.bin`` files, and cut them into documents."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from attomaton.base.errors import AttomatonError, UnreadableSource
from attomaton.base.tables import Integers
from attomaton.corpora.budgets import brief
from attomaton.corpora.readers.batches import Reading, Skips, TokenBatch, checked_ids, token_batch, too_long
from attomaton.corpora.readers.columns import ID_BYTES
from attomaton.corpora.readers.files import FileReader, naming, suffix_of

IDS_AT_ONCE = 1 << 20  # ids read together
NPY_VERSIONS = ((1, 0), (2, 0), (3, 0))  # of the header of an .npy array
NAME_SEPARATOR = "set separator to the id that ends a document"


@dataclass(frozen=True)
class StreamReader(FileReader):
    """A ``.bin`` file of numbers, or an ``.npy`` array: of one axis (a stream) or two (documents as rows).

    The row of a document is the position of its first id in the stream, or its row in the array.
    """

    def batches(self) -> Iterator[TokenBatch]:
        position = 0
        with naming(self.source, lambda: f", after position {position},"), self.file.open() as file:
            dtype = np.dtype(self.reading.dtype).newbyteorder("<")
            shape = None
            if suffix_of(self.file, self.reading) == ".npy":
                dtype, shape = _read_header(file, self.source)
            # the rows of an array of two axes are documents of one length
            width = shape[1] if shape is not None and len(shape) == 2 else None
            cutter = _Cutter(self.source, self.reading, width)
            while len(ids := self._read(file, dtype, position)):
                position += len(ids)
                yield cutter.cut(ids)
            if shape is not None and position != math.prod(shape):
                raise UnreadableSource(
                    f"{self.source} has {position:,} ids, but its header has the shape {brief(str(shape))}; "
                    "write the file again"
                )
            yield cutter.finish()

    # The next ids of a stream, at most IDS_AT_ONCE; none at its end. One read may return fewer bytes.
    def _read(self, file: BinaryIO, dtype: "np.dtype[Any]", position: int) -> Integers:
        blob = bytearray()
        size_at_once = IDS_AT_ONCE * dtype.itemsize
        while len(blob) < size_at_once and (blob_read := file.read(size_at_once - len(blob))):
            blob += blob_read
        if len(blob) % dtype.itemsize:
            size = position * dtype.itemsize + len(blob)
            raise UnreadableSource(
                f"{self.source} ends inside an id: {size:,} bytes are not a multiple of {dtype.itemsize} "
                f"({dtype.name}); set the right dtype, or download the file again"
            )
        return np.frombuffer(bytes(blob), dtype)


class _Cutter:
    """Cuts a stream, chunk by chunk, into documents of ``width`` ids, or at the separator.

    The current document began at the position ``_start`` of the stream; its ``_length`` ids so far are in
    ``_segments``.
    """

    def __init__(self, source: str, reading: Reading, width: int | None) -> None:
        self._source = source
        self._reading = reading
        self._width = width
        self._skips = Skips(reading)
        self._segments: list[Integers] = []
        self._start = 0
        self._length = 0
        self._lists: list[Integers] = []  # finished documents
        self._rows: list[int] = []  # and their rows

    def cut(self, ids: Integers) -> TokenBatch:
        """The documents that end in this chunk."""
        start = 0
        for stop in self._stops(ids):
            self._extend(ids[start:stop])
            self._close()
            start = stop
        self._extend(ids[start:])  # the beginning of a document that continues in the next chunk
        return self._take()

    def finish(self) -> TokenBatch:
        if self._length:
            self._close()
        return self._take()

    def _take(self) -> TokenBatch:  # the finished documents, which are then forgotten
        batch = token_batch(self._lists, self._rows, self._skips)
        self._lists, self._rows = [], []
        return batch

    # Where documents end in a chunk: the first of fixed width still lacks width − length ids.
    def _stops(self, ids: Integers) -> list[int]:
        if self._width == 0 or (self._width is None and self._reading.separator is None):
            return []
        if self._width is not None:
            return list(range(self._width - self._length, len(ids) + 1, self._width))
        return (np.flatnonzero(ids == self._reading.separator) + 1).tolist()

    # Adds ids to the current document; those of a document that is too long are counted, but not kept.
    def _extend(self, segment: Integers) -> None:
        self._length += len(segment)
        if ID_BYTES * self._length <= self._reading.max_bytes:
            self._segments.append(segment)
        elif not self._reading.skip_bad:
            raise self._too_long()
        else:
            self._segments = []

    # Ends the current document: its ids are checked and added to the finished ones, or its error is reported.
    def _close(self) -> None:
        row = self._start if self._width is None else self._start // max(1, self._width)
        try:
            if ID_BYTES * self._length > self._reading.max_bytes:
                raise self._too_long()
            location = f"{self._source}, the document at {row}"
            self._lists.append(checked_ids(np.concatenate(self._segments), location, self._reading.n_tokens))
        except AttomatonError as error:
            self._skips.add(error)
        else:
            self._rows.append(row)
        self._segments = []
        self._start += self._length
        self._length = 0

    def _too_long(self) -> UnreadableSource:
        location = f"{self._source}, the document at position {self._start}, at four bytes an id,"
        return too_long(location, self._reading, advice=NAME_SEPARATOR)


# The type and the shape of an .npy array, which must be integers in one axis, or in two in row order.
def _read_header(file: BinaryIO, source: str) -> tuple["np.dtype[Any]", tuple[int, ...]]:
    npy: Any = np.lib.format
    try:
        version = npy.read_magic(file)
        if version not in NPY_VERSIONS:
            raise ValueError(f"its version is {version}")
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            shape, by_column, dtype = read(file)
    except Exception as error:  # a damaged header can raise any error of Python's parser
        raise UnreadableSource(
            f"{source} has no valid array header ({brief(str(error))}); save the array again"
        ) from error
    if dtype.kind not in "iu":
        raise UnreadableSource(
            f"{source} is an array of {brief(str(dtype))}, not integers; save it as integers (attomaton "
            "never unpickles)"
        )
    if len(shape) not in (1, 2) or min(shape) < 0 or (by_column and len(shape) == 2):
        raise UnreadableSource(
            f"{source} has shape {brief(str(shape))}{' in column order' if by_column else ''}; save one "
            "axis (a stream), or two in row order (a document in each row)"
        )
    return dtype, shape
