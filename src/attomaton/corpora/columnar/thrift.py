"""Structs of Thrift's compact protocol, as far as a Parquet footer and the headers of pages need them."""

from collections.abc import Iterator
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
DEPTH = 16
"""Structs within structs; a page's header has three."""


class Cut(ValueError):
    """The bytes end before the struct does."""


def read_struct(blob: bytes) -> tuple[dict[int, Any], int]:
    """The fields by number that are integers or structs, and how many bytes the struct takes.

    Examples
    --------
    >>> read_struct(bytes([0x15, 0x04, 0x2C, 0x15, 0x06, 0x00, 0x00]))
    ({1: 2, 3: {1: 3}}, 7)
    """
    reader = ThriftReader(blob)
    return reader.struct(), reader.position


class ThriftReader:
    """A place in bytes, from which one value after the other is read or skipped."""

    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self.position = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a struct; the caller reads or skips each before the next."""
        number = 0
        while head := self._byte():
            step = head >> 4
            number = number + step if step else self._signed()
            yield number, head & 15

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """A struct, as far as it holds integers and structs."""
        if depth > DEPTH:
            raise ValueError("structs are nested too deeply")
        found: dict[int, Any] = {}
        for number, kind in self.fields():
            if kind == STRUCT:
                found[number] = self.struct(depth + 1)
            elif I16 <= kind <= I64:
                found[number] = self._signed()
            else:
                self.skip(kind, depth)
        return found

    def items(self, kind: int) -> Iterator[int]:
        """The type of each entry of a list, once for each; the caller reads or skips each before the next."""
        if kind not in (LIST, SET):
            raise ValueError("a list was expected")
        head = self._byte()
        size = head >> 4 if head >> 4 < 15 else self._varint()
        if size > len(self._blob):
            raise Cut("a list is longer than what holds it")
        for _ in range(size):
            yield head & 15

    def skip(self, kind: int, depth: int = 0) -> None:
        """Pass over a value."""
        if depth > DEPTH:
            raise ValueError("values are nested too deeply")
        if kind in (TRUE, FALSE):
            return
        if kind == BINARY:
            self._pass(self._varint())
        elif I16 <= kind <= I64:
            self._varint()
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (LIST, SET):
            for inner in self.items(kind):
                self._skip_item(inner, depth)
        elif kind == MAP:
            self._skip_map(depth)
        else:
            self._pass(_width(kind))

    def _skip_map(self, depth: int) -> None:
        size = self._varint()
        kinds = self._byte() if size else 0
        if size > len(self._blob):
            raise Cut("a map is longer than what holds it")
        for _ in range(size):
            self._skip_item(kinds >> 4, depth)
            self._skip_item(kinds & 15, depth)

    def _skip_item(self, kind: int, depth: int) -> None:
        if kind in (TRUE, FALSE):  # in a list these take a byte
            self._pass(1)
        else:
            self.skip(kind, depth + 1)

    def _pass(self, count: int) -> None:
        self.position += count
        if self.position > len(self._blob):
            raise Cut("the bytes end within a value")

    def _byte(self) -> int:
        self._pass(1)
        return self._blob[self.position - 1]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
            if shift > 63:
                raise ValueError("a number has more than 64 bits")

    def _signed(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)


def _width(kind: int) -> int:
    if kind == BYTE:
        return 1
    if kind == DOUBLE:
        return 8
    raise ValueError(f"there is no type {kind}")
