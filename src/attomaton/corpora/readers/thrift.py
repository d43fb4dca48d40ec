"""Structs of Thrift's compact protocol, as far as the header of a Parquet page needs them."""

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
    reader = _Reader(blob)
    return reader.struct(0), reader.position


class _Reader:
    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self.position = 0

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > DEPTH:
            raise ValueError("structs are nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._signed()
            told = self._value(kind, depth)
            if told is not None:
                found[number] = told
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind in (I16, I32, I64):
            return self._signed()
        if kind == STRUCT:
            return self.struct(depth + 1)
        self._skip(kind, depth)
        return None

    def _skip(self, kind: int, depth: int) -> None:
        if kind == BYTE:
            self._pass(1)
        elif kind == DOUBLE:
            self._pass(8)
        elif kind == BINARY:
            self._pass(self._varint())
        elif kind in (LIST, SET):
            self._skip_list(depth)
        elif kind == MAP:
            size = self._varint()
            kinds = self._byte() if size else 0
            self._skip_all([kinds >> 4, kinds & 15], size, depth)
        else:
            raise ValueError(f"there is no type {kind}")

    def _skip_list(self, depth: int) -> None:
        head = self._byte()
        size = head >> 4 if head >> 4 < 15 else self._varint()
        self._skip_all([head & 15], size, depth)

    def _skip_all(self, kinds: list[int], size: int, depth: int) -> None:
        if depth > DEPTH:
            raise ValueError("lists are nested too deeply")
        if size > len(self._blob):
            raise Cut("a list is longer than what holds it")
        for _ in range(size):
            for kind in kinds:
                if kind in (TRUE, FALSE):
                    self._pass(1)
                else:
                    self._value(kind, depth + 1)

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
