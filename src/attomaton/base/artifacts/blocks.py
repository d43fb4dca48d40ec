"""Files that are read block by block, each block checked: a small read is as safe as that of a whole file."""

import hashlib
import io
from pathlib import Path
from typing import Any, BinaryIO

from attomaton.base.errors import CorruptRun

BLOCK = 1 << 17
"""Bytes that have a digest of their own."""

DIGITS = 16
"""Hexadecimal digits that are kept of the SHA-256 of a block."""

REPLACED = ", or replaced by another one after it was opened; load the run again, or write it again"
"""How a message ends about a file that is not what the manifest said when the run was opened."""


def entry_in_blocks(path: Path) -> dict[str, Any]:
    """Digest and size of a file, as manifests list them, and under ``blocks`` the digests of its blocks."""
    whole, blocks, size = hashlib.sha256(), "", 0
    with path.open("rb", buffering=0) as file:
        for blob in iter(lambda: file.read(BLOCK), b""):
            whole.update(blob)
            blocks += _digest(blob)
            size += len(blob)
    return {"sha256": whole.hexdigest(), "bytes": size, "blocks": blocks}


class CheckedFile(io.RawIOBase):
    """A file that is open for reading, of which only blocks that are as they were written are given out."""

    def __init__(self, file: BinaryIO, entry: Any, name: str) -> None:
        self._file, self.name = file, name
        self._size, self._blocks = int(entry["bytes"]), str(entry["blocks"])
        self._place = 0
        if len(self._blocks) != DIGITS * -(-self._size // BLOCK):
            raise CorruptRun(f"the manifest lists the blocks of {name} wrongly; write the run again")

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place, from the beginning, from here, or from the end."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes, fewer at the end of the file; all that are left by default."""
        left = max(0, self._size - self._place)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        first, last = self._place // BLOCK, (self._place + wanted - 1) // BLOCK
        blob = self._read_blocks(first, last)
        start = self._place - first * BLOCK
        self._place += wanted
        return blob[start : start + wanted]

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer with the next bytes; how many there were."""
        blob = self.read(len(buffer))
        buffer[: len(blob)] = blob
        return len(blob)

    def close(self) -> None:
        """Close the file below, too."""
        self._file.close()
        super().close()

    def _read_blocks(self, first: int, last: int) -> bytes:
        self._file.seek(first * BLOCK)
        blob = self._file.read(min((last + 1) * BLOCK, self._size) - first * BLOCK)
        for number in range(first, last + 1):
            start = (number - first) * BLOCK
            told = self._blocks[DIGITS * number : DIGITS * (number + 1)]
            if _digest(blob[start : start + BLOCK]) != told:
                raise CorruptRun(f"{self.name} was altered after the run was written{REPLACED}")
        return blob


def _digest(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()[:DIGITS]
