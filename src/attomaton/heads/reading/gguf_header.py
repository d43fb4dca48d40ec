"""The header of a GGUF file, with every length checked against the file; the ``gguf`` package trusts them."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import brief

# Type of a value in the header → how it is stored.
NUMBER_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

TEXT, ARRAY = 8, 9

MOST_HEADER_ENTRIES = 1 << 20  # limit of keys, and of tensors, in a file


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor is in a file: its shape in PyTorch's order, its type, and its first byte."""

    shape: tuple[int, ...]
    kind: int
    start: int


class HeaderReader:
    """Reads a header value by value; ``position`` is the next byte, and never past the end of the file."""

    def __init__(self, content: Any) -> None:
        self.content, self.position = content, 0

    def read(self, size: int) -> bytes:
        if size > len(self.content) - self.position:
            raise UnreadableModel("the file ends within its header")
        self.position += size
        return self.content[self.position - size : self.position]

    def number(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self.read(struct.calcsize(f"<{kind}")))[0]

    def count(self, entries: str) -> int:
        number = self.number("Q")
        if number > MOST_HEADER_ENTRIES:
            raise UnreadableModel(f"its header lists {number:,} {entries}, more than any file has")
        return number

    def text(self) -> str:
        return self.read(self.number("Q")).decode("utf-8", "replace")

    def mapping(self, count: int, entry: str, read_value: Callable[[], Any]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for _ in range(count):
            name = self.text()
            if name in entries:
                raise UnreadableModel(f"its {entry} {brief(name)!r} occurs twice")
            entries[name] = read_value()
        return entries

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind in NUMBER_FORMATS:
            return self.number(NUMBER_FORMATS[kind])
        if kind != ARRAY:
            raise UnreadableModel(f"its header has a value of the unknown type {kind}")
        inner, length = self.number("I"), self.number("Q")
        if inner == TEXT:
            if length > (len(self.content) - self.position) // 8:
                raise UnreadableModel("the file ends within its header")
            return [self.text() for _ in range(length)]
        if inner not in NUMBER_FORMATS:
            raise UnreadableModel(f"its header has an array of the unknown type {inner}")
        dtype = np.dtype(NUMBER_FORMATS[inner]).newbyteorder("<")
        return np.frombuffer(self.read(length * dtype.itemsize), dtype)

    def tensor(self) -> StoredTensor:
        n_axes = self.number("I")
        if not 1 <= n_axes <= 4:
            raise UnreadableModel(f"a tensor has {n_axes} axes; they have one to four")
        sizes = [self.number("Q") for _ in range(n_axes)]
        kind, start = self.number("I"), self.number("Q")
        return StoredTensor(tuple(cast("list[int]", sizes[::-1])), kind, start)
