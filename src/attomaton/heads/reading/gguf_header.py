"""The header of a GGUF file, with every length checked against the file; the ``gguf`` package trusts them."""

# The layout of a file, all numbers little-endian:
#
#     magic "GGUF" | version u32 | number of tensors u64 | number of keys u64
#     per key:     name (text) | type u32 | value
#     per tensor:  name (text) | number of axes u32 | a size per axis u64 | type u32 | first byte u64
#     padding, then the numbers of the tensors
#
# A text is its length in bytes (u64) and UTF-8; an array is its type u32, its length u64 and its values.
# `open_gguf` in `gguf.py` reads these parts in this order with a `HeaderReader`.

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import brief

# Type of a number in the header → its format for `struct` and numpy.
NUMBER_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

TEXT, ARRAY = 8, 9  # types of the other values
TEXT_LENGTH_BYTES = 8  # of the length before each text, so the least that a text takes
MOST_TENSOR_AXES = 4  # the limit of GGUF

MOST_HEADER_ENTRIES = 1 << 20  # limit of keys, and of tensors, in a file


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor is in a file: its shape in PyTorch's order, its type, and its first byte."""

    shape: tuple[int, ...]
    kind: int
    start: int  # in the header from the first tensor on, and in a ``GGUFFile`` from the beginning of the file


class HeaderReader:
    """Reads a header value by value; ``position`` is the next byte, and never past the end of the file."""

    def __init__(self, content: Any) -> None:
        self.content = content
        self.position = 0

    def read(self, size: int) -> bytes:
        if size > len(self.content) - self.position:
            raise UnreadableModel("the file ends within its header")
        self.position += size
        return self.content[self.position - size : self.position]

    def number(self, number_format: str) -> Any:
        """A number in this format of ``struct``, such as "I" for u32 and "Q" for u64."""
        layout = struct.Struct(f"<{number_format}")
        return layout.unpack(self.read(layout.size))[0]

    def count(self, entries: str) -> int:
        """How many keys or tensors the file lists; ``entries`` is their noun in an error."""
        number = self.number("Q")
        if number > MOST_HEADER_ENTRIES:
            raise UnreadableModel(f"its header lists {number:,} {entries}, more than any file has")
        return number

    def text(self) -> str:
        """A text; bytes that are not UTF-8 are replaced."""
        return self.read(self.number("Q")).decode("utf-8", "replace")

    def mapping(self, count: int, entry: str, read_value: Callable[[], Any]) -> dict[str, Any]:
        """``count`` names with what ``read_value`` reads after each; ``entry`` is their noun in an error."""
        entries: dict[str, Any] = {}
        for _ in range(count):
            name = self.text()
            if name in entries:
                raise UnreadableModel(f"its {entry} {brief(name)!r} occurs twice")
            entries[name] = read_value()
        return entries

    def value(self, value_type: int) -> Any:
        """A value of a type: a number, a text, a list of texts, or a numpy array of numbers."""
        if value_type == TEXT:
            return self.text()
        if value_type in NUMBER_FORMATS:
            return self.number(NUMBER_FORMATS[value_type])
        if value_type != ARRAY:
            raise UnreadableModel(f"its header has a value of the unknown type {value_type}")
        entry_type = self.number("I")
        length = self.number("Q")
        if entry_type == TEXT:
            # a false length is refused before the list grows
            if length > (len(self.content) - self.position) // TEXT_LENGTH_BYTES:
                raise UnreadableModel("the file ends within its header")
            return [self.text() for _ in range(length)]
        if entry_type not in NUMBER_FORMATS:
            raise UnreadableModel(f"its header has an array of the unknown type {entry_type}")
        dtype = np.dtype(NUMBER_FORMATS[entry_type]).newbyteorder("<")
        return np.frombuffer(self.read(length * dtype.itemsize), dtype)

    def tensor(self) -> StoredTensor:
        """What the header says of a tensor after its name."""
        n_axes = self.number("I")
        if not 1 <= n_axes <= MOST_TENSOR_AXES:
            raise UnreadableModel(f"a tensor has {n_axes} axes; they have one to four")
        sizes = [self.number("Q") for _ in range(n_axes)]
        shape = tuple(cast("list[int]", sizes[::-1]))  # stored with the last axis first
        return StoredTensor(shape, kind=self.number("I"), start=self.number("Q"))
