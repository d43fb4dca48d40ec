"""The messages of an Arrow file or stream, looked at before Arrow unpacks any of them.

A packed buffer begins with the size that it says it unpacks to, and Arrow would make room for it. Here the
descriptions of the messages are read (FlatBuffers) and those sizes held to the budgets.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

from attomaton.corpora.budgets import unpacked_most
from attomaton.errors import UnreadableSource

MAGIC = b"ARROW1"
CONTINUES = b"\xff\xff\xff\xff"
DICTIONARY_BATCH, RECORD_BATCH = 2, 3
Number = tuple[str, int]
I16, U8, I32, U32, I64 = ("<h", 2), ("<B", 1), ("<i", 4), ("<I", 4), ("<q", 8)


def check_messages(file: BinaryIO, source: str, max_bytes: int) -> None:
    """Raise if a message unpacks to too much; the file is left where it was."""
    size = file.seek(0, 2)
    stored = unpacked = 0
    try:
        for position in _positions(file, size):
            kind, in_file, out = _measure(file, position, size)
            if kind == DICTIONARY_BATCH:  # these stay until the end
                stored, unpacked = stored + in_file, unpacked + out
                in_file, out = stored, unpacked
            most = unpacked_most(in_file, max_bytes)
            if out > most:
                raise UnreadableSource(
                    f"{source} has a batch, at byte {position:,}, that unpacks from {in_file:,} bytes to "
                    f"{out:,}, more than {most:,}; write it with fewer rows a batch, or raise the limit "
                    "(max_bytes; --max-document on the command line)"
                )
    except (struct.error, IndexError, OverflowError) as error:
        raise UnreadableSource(
            f"{source}, after row 0, is damaged: the description of a batch leaves the file; fetch or "
            "write it again"
        ) from error
    finally:
        file.seek(0)


def _positions(file: BinaryIO, size: int) -> Iterator[int]:
    """Where messages begin: as the footer says, or one after the other."""
    file.seek(0)
    if file.read(6) == MAGIC:
        yield from _listed(file, size)
        return
    position = 0
    while position + 8 <= size:
        length, prefix = _length(file, position)
        if not length:
            return
        yield position
        described = _Table.root(_read(file, position + prefix, length, size))
        position += prefix + length + described.number(3, I64)


def _listed(file: BinaryIO, size: int) -> Iterator[int]:
    file.seek(max(0, size - 10))
    (length,) = struct.unpack("<i", file.read(4))
    footer = _Table.root(_read(file, size - 10 - length, length, size))
    for field in (2, 3):  # dictionaries, then batches
        for offset, _, _ in footer.structs(field, "<qi4xq"):
            yield int(offset)


def _length(file: BinaryIO, position: int) -> tuple[int, int]:
    """The length of a message's description, and of what stands before it."""
    head = _read(file, position, 8, position + 8)
    if head[:4] == CONTINUES:
        return int.from_bytes(head[4:], "little", signed=True), 8
    return int.from_bytes(head[:4], "little", signed=True), 4


def _measure(file: BinaryIO, position: int, size: int) -> tuple[int, int, int]:
    """The kind of a message, the bytes that it stores, and those that it unpacks to."""
    length, prefix = _length(file, position)
    message = _Table.root(_read(file, position + prefix, length, size))
    kind, body = message.number(1, U8), message.number(3, I64)
    start = position + prefix + length
    if body < 0 or start + body > size:
        raise IndexError("the body leaves the file")
    if kind not in (DICTIONARY_BATCH, RECORD_BATCH):
        return kind, 0, 0
    batch = message.table(2)
    batch = batch.table(1) if batch is not None and kind == DICTIONARY_BATCH else batch
    if batch is None or batch.table(3) is None:
        return kind, body, body
    unpacked = 0
    for offset, stored in batch.structs(2, "<qq"):
        if stored >= 8:
            (told,) = struct.unpack("<q", _read(file, start + offset, 8, size))
            unpacked += max(stored, told)
    return kind, body, unpacked


def _read(file: BinaryIO, position: int, length: int, size: int) -> bytes:
    if position < 0 or length < 0 or position + length > size:
        raise IndexError("a part leaves the file")
    file.seek(position)
    return file.read(length)


class _Table:
    """A FlatBuffers table: numbers, tables and vectors by the number of their field."""

    def __init__(self, blob: bytes, position: int) -> None:
        self._blob, self._position = blob, position
        self._fields = position - self._at(position, I32)
        if self._fields < 0:
            raise IndexError("the list of fields leaves the message")

    @classmethod
    def root(cls, blob: bytes) -> "_Table":
        return cls(blob, struct.unpack_from("<I", blob)[0])

    def number(self, field: int, kind: Number) -> int:
        place = self._place(field)
        return 0 if place is None else self._at(place, kind)

    def table(self, field: int) -> "_Table | None":
        place = self._place(field)
        return None if place is None else _Table(self._blob, place + self._at(place, U32))

    def structs(self, field: int, layout: str) -> Iterator[tuple[int, ...]]:
        place = self._place(field)
        if place is None:
            return
        start = place + self._at(place, U32)
        width = struct.calcsize(layout)
        for index in range(self._at(start, U32)):
            yield struct.unpack_from(layout, self._blob, start + 4 + index * width)

    def _place(self, field: int) -> int | None:
        slot = 4 + 2 * field
        if slot + 2 > self._at(self._fields, I16):
            return None
        step = self._at(self._fields + slot, I16)
        return self._position + step if step else None

    def _at(self, position: int, kind: Number) -> int:
        if position < 0:
            raise IndexError("a value leaves the message")
        return int(struct.unpack_from(kind[0], self._blob, position)[0])
