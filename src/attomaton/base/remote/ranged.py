"""A file behind a URL of which parts are read: each read is one request, tried again where it fails."""

import io
from typing import Any

from attomaton.base.remote.faults import persist, replaced


class RangedFile(io.RawIOBase):
    """The bytes of a remote file, which can be sought; nothing is buffered."""

    def __init__(self, system: Any, path: str, url: str, tag: str | None = None) -> None:
        self._system, self._path, self._url = system, path, url
        self._tag, self._place = tag, 0
        self._file: Any = None
        self.size: int | None = persist(self._open, url)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is, where the store says how large the file is."""
        return self.size is not None

    def tell(self) -> int:
        """Where the next read begins."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place, from the beginning, from here, or from the end."""
        if self.size is None:
            raise io.UnsupportedOperation(f"{self._url} can only be read from its beginning to its end")
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer with the next bytes; how many there were."""
        blob = self._read(len(buffer))
        buffer[: len(blob)] = blob
        return len(blob)

    def readall(self) -> bytes:
        """All that is left, by one request."""
        return self._read(-1)

    def close(self) -> None:
        """Close the file below, too."""
        if self._file is not None:
            self._file.close()
        self._file = None
        super().close()

    def _open(self) -> int | None:
        """Open the file below; its size, if that is known."""
        file = self._system.open(self._path, "rb", cache_type="none")
        details = getattr(file, "details", None)
        tag = tag_of(details) if isinstance(details, dict) else None  # pyright: ignore[reportUnknownArgumentType]
        if None not in (tag, self._tag) and tag != self._tag:
            raise replaced(self._url)
        self._file = file
        return getattr(file, "size", None)

    def _read(self, length: int) -> bytes:
        if self.size is None:
            blob: bytes = self._file.read(length)
        else:
            left = max(0, self.size - self._place)
            wanted = left if length < 0 else min(length, left)
            blob = persist(lambda: self._fetch(wanted), self._url) if wanted else b""
        self._place += len(blob)
        return blob

    def _fetch(self, wanted: int) -> bytes:
        self._file.seek(self._place)
        blob: bytes = self._file.read(wanted)
        if len(blob) != wanted:
            raise ConnectionError(f"{len(blob):,} of {wanted:,} bytes came")
        return blob


def tag_of(details: dict[str, Any]) -> str | None:
    """What a store calls the content of an object: another content, another tag. None if it does not say."""
    tag = details.get("ETag") or details.get("etag")
    return str(tag).strip('"') if tag else None
