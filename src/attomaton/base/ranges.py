"""Files read in ranges: a raw file whose subclass reads bytes from a position, with one call per read."""

import io
from typing import Any


class RangeReader(io.RawIOBase):
    """A file of ``size`` bytes; a size of None is unknown, and the file can only be read sequentially."""

    file: Any = None
    position = 0

    def __init__(self, file: Any, name: str, size: int | None) -> None:
        self.file, self.name, self.size = file, name, size

    def read_range(self, length: int) -> bytes:
        """Read ``length`` bytes from ``position`` on; -1 means all bytes of a file of unknown size."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.size is not None

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if self.size is None:
            raise io.UnsupportedOperation(f"{self.name} can only be read sequentially")
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        self.position = max(0, start + offset)
        return self.position

    def read(self, size: int | None = -1, /) -> bytes:
        length = -1 if size is None else size
        if self.size is not None:
            remaining = max(0, self.size - self.position)
            length = remaining if length < 0 else min(length, remaining)
        blob = self.read_range(length) if length else b""
        self.position += len(blob)
        return blob

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        blob = self.read(len(buffer))
        buffer[: len(blob)] = blob
        return len(blob)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        super().close()
