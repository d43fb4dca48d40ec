"""Files at URLs: object stores and whatever else fsspec reaches, with their errors explained.

The library of each store retries transient errors as it sees fit.
"""

import fnmatch
import hashlib
import io
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

from attomaton.base import errors

CREDENTIALS = (
    "for s3:// set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; for gs:// set "
    "GOOGLE_APPLICATION_CREDENTIALS; for public data, FSSPEC_S3_ANON=true or FSSPEC_GS_TOKEN=anon"
)


class NothingThere(errors.UnreadableSource, FileNotFoundError):
    """There is no file at a URL."""


@contextmanager
def reaching(url: str, *, writing: bool = False) -> Generator[None]:
    """Explain what a store raises: what cannot be read or written, why, and what to do."""
    try:
        yield
    except errors.AttomatonError:
        raise
    except Exception as error:  # each store has errors of its own
        raise _explain(error, url, writing=writing) from error


def _explain(error: Exception, url: str, *, writing: bool) -> errors.AttomatonError:
    kind = errors.UnwritablePlace if writing else errors.UnreadableSource
    reason, name = " ".join(str(error).split()), type(error).__name__
    failure = f"{url} cannot be {'written' if writing else 'read'}"
    if isinstance(error, FileNotFoundError):
        if writing:
            return kind(
                f"{failure}: there is no such bucket or folder ({reason}); create it, or check the URL"
            )
        return NothingThere(f"{failure}: there is no such file, folder or bucket; check the URL")
    if "Credential" in name or name == "ProfileNotFound":
        return kind(f"{failure}: no credentials were found ({reason}); {CREDENTIALS}")
    if name == "FileExpired":  # a range was requested of an object that was replaced since it was opened
        return _replaced(url)
    if isinstance(error, PermissionError):
        return kind(
            f"{failure}: access is denied ({reason}); check which account is used, and its permissions there"
        )
    return kind(f"{failure}: {name} ({reason}); check the URL and access rights, or try again later")


def _replaced(url: str) -> errors.UnreadableSource:
    return errors.UnreadableSource(
        f"{url} was replaced while it was read; wait until it is complete, and run this again"
    )


class RangeReader(io.RawIOBase):
    """A file that is read in ranges, each by one call of ``read_range``; nothing is buffered."""

    file: Any = None
    position = 0

    def __init__(self, file: Any, name: str, size: int | None) -> None:
        self.file, self.name, self.size = file, name, size

    def read_range(self, length: int) -> bytes:
        """``length`` bytes from ``position`` on; -1 for all bytes of a file of unknown size."""
        raise NotImplementedError

    def readable(self) -> bool:
        """Whether the file can be read: always."""
        return True

    def seekable(self) -> bool:
        """Whether the file can be sought: only if its size is known."""
        return self.size is not None

    def tell(self) -> int:
        """Where the next read begins."""
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position, relative to the beginning, the current position, or the end."""
        if self.size is None:
            raise io.UnsupportedOperation(f"{self.name} can only be read sequentially")
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        self.position = max(0, start + offset)
        return self.position

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes, fewer at the end of the file; the whole rest by default."""
        length = -1 if size is None else size
        if self.size is not None:
            remaining = max(0, self.size - self.position)
            length = remaining if length < 0 else min(length, remaining)
        blob = self.read_range(length) if length else b""
        self.position += len(blob)
        return blob

    def readall(self) -> bytes:
        """The whole rest, in one request."""
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer with the next bytes; return how many there were."""
        blob = self.read(len(buffer))
        buffer[: len(blob)] = blob
        return len(blob)

    def close(self) -> None:
        """Close the underlying file, too, if it was opened."""
        if self.file is not None:
            self.file.close()
        super().close()


class RemoteFile(RangeReader):
    """The bytes of a file at a URL, which must have the ``tag`` that a listing gave."""

    def __init__(self, system: Any, path: str, url: str, tag: str | None) -> None:
        with reaching(url):
            file = system.open(path, "rb", cache_type="none")
        details: Any = getattr(file, "details", None)
        now = tag_of(cast("dict[str, Any]", details)) if isinstance(details, dict) else None
        if None not in (now, tag) and now != tag:
            raise _replaced(url)
        super().__init__(file, url, getattr(file, "size", None))

    def read_range(self, length: int) -> bytes:
        """The bytes from here on."""
        with reaching(self.name):
            if self.size is not None:
                self.file.seek(self.position)
            return self.file.read(length)


def tag_of(details: dict[str, Any]) -> str | None:
    """The tag that a store gives the content of an object, which changes with it; None if there is none."""
    tag = details.get("ETag") or details.get("etag")
    return str(tag).strip('"') if tag else None


READ_AHEAD = 1 << 20  # bytes read at once where a file is read sequentially
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(::[A-Za-z][A-Za-z0-9+.-]+)*://")  # one letter is a drive
S3_TRIES = 8  # with pauses of half a minute in all
_SHARED = ("s3://", "s3a://", "gs://", "gcs://")
_WEB = frozenset(["http", "https"])
_STORES = {
    "s3": ("the library s3fs", "'attomaton[remote]'"),
    "s3a": ("the library s3fs", "'attomaton[remote]'"),
    "gs": ("the library gcsfs", "gcsfs"),
    "gcs": ("the library gcsfs", "gcsfs"),
    "abfs": ("the library adlfs", "adlfs"),
    "az": ("the library adlfs", "adlfs"),
}
"""Scheme of a URL → the library that fsspec needs for it, and how to install it."""


class Stat(NamedTuple):
    """A file's size, and a tag that changes with its content, if the store has one."""

    st_size: int
    tag: str | None


@dataclass(frozen=True, order=True)
class RemotePath:
    """A file or folder at a URL that fsspec opens.

    A missing file raises an error that is also a ``FileNotFoundError``.

    Attributes
    ----------
    url : str
        The URL, such as ``s3://bucket/folder``.
    listed : Stat, optional
        The size and the tag of the file in a listing of its folder.
    """

    url: str
    listed: Stat | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(f"{self.url.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.url.partition("://")[2]).name

    @property
    def suffix(self) -> str:
        """The suffix of the name."""
        return PurePosixPath(self.name).suffix

    @property
    def is_web(self) -> bool:
        """Whether it is on a web server, which has no folders."""
        return self.url.partition("://")[0].lower() in _WEB

    def system(self) -> tuple[Any, str]:
        """The file system of fsspec and the path in it."""
        return open_system(self.url)

    def open(self, mode: str = "rb", ahead: int = READ_AHEAD) -> BinaryIO:
        """Open the file for reading, with seeking; at least ``ahead`` bytes are read at once."""
        if mode != "rb":
            raise errors.UnsupportedOption(
                f"mode {mode!r} is not supported for {self.url}; open files at URLs with 'rb'"
            )
        system, path = self.system()
        tag = None if self.listed is None else self.listed.tag
        return io.BufferedReader(RemoteFile(system, path, self.url, tag), ahead)

    def read_bytes(self) -> bytes:
        """All bytes."""
        with self.open() as file:
            return file.read()

    def stat(self) -> Stat:
        """Current size and tag."""
        system, path = self.system()
        with reaching(self.url):
            details = system.info(path)
        if details.get("type") == "directory":
            raise NothingThere(f"{self.url} is a folder; give the URL of a file")
        return Stat(int(details.get("size") or 0), tag_of(details))

    def is_file(self) -> bool:
        """Whether there is a file of this name."""
        try:
            self.stat()
        except NothingThere:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether there is a folder of this name; a web server has none."""
        if self.is_web:
            return False
        system, path = self.system()
        try:
            with reaching(self.url):
                return system.info(path).get("type") == "directory"
        except NothingThere:
            return False

    def glob(self, pattern: str) -> Iterator["RemotePath"]:
        """The files directly in this folder whose names match a pattern, with their sizes."""
        system, path = self.system()
        with reaching(self.url):
            listing: list[dict[str, Any]] = system.ls(path, detail=True)
        for details in listing:
            name = PurePosixPath(str(details["name"])).name
            if details.get("type") == "file" and fnmatch.fnmatchcase(name, pattern):
                yield RemotePath((self / name).url, Stat(int(details.get("size") or 0), tag_of(details)))

    def names_below(self) -> list[str]:
        """The names of all files in this folder and below it, relative to it, sorted."""
        system, path = self.system()
        try:
            with reaching(self.url):
                names: list[str] = [str(name) for name in system.find(path)]
        except NothingThere:
            return []
        paths = [PurePosixPath(name) for name in names if PurePosixPath(name) != PurePosixPath(path)]
        return sorted(below.relative_to(path).as_posix() for below in paths)

    def identify(self) -> str:
        """A digest of the content: of its size and the store's tag, or else of all bytes."""
        stat = self.stat() if self.listed is None else self.listed
        if stat.tag is not None:
            return hashlib.sha256(f"{stat.tag} {stat.st_size}".encode()).hexdigest()
        with self.open() as file:
            return hashlib.file_digest(cast("Any", file), "sha256").hexdigest()

    def write_bytes(self, blob: bytes) -> None:
        """Write the object as a whole, replacing any earlier one."""
        system, path = self.system()
        with reaching(self.url, writing=True):
            system.pipe_file(path, blob)

    def upload(self, file: Path) -> None:
        """Upload a whole local file, replacing any earlier object."""
        system, path = self.system()
        with reaching(self.url, writing=True):
            system.put_file(str(file), path)

    def unlink(self) -> None:
        """Remove a file, if it exists."""
        system, path = self.system()
        with reaching(self.url, writing=True), suppress(FileNotFoundError):
            system.rm_file(path)


AnyPath = Path | RemotePath  # the path of a file or folder on this machine, or at a URL


def as_path(path: "str | PathLike[str] | RemotePath") -> AnyPath:
    """A URL as a :class:`RemotePath`, anything else as a path."""
    if isinstance(path, RemotePath):
        return path
    text = fspath(path)
    return RemotePath(text) if isinstance(path, str) and is_url(text) else Path(text)


def is_url(source: str) -> bool:
    """Whether a text is a URL, not a path."""
    return _SCHEME.match(source) is not None


def refuse_url(path: object, name: str) -> None:
    """Refuse a URL where only a folder on this machine works."""
    text = str(path)
    collapsed = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:(?=/)", text)  # a Path keeps one of two slashes
    if isinstance(path, RemotePath) or is_url(text) or (collapsed and not Path(collapsed[0]).exists()):
        raise errors.UnsupportedOption(
            f"{name} is {text!r}, a URL; give a folder on a disk of this machine: files are renamed, locked "
            "and memory-mapped there, which object stores cannot do"
        )


def open_system(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it; listings are not cached, so that new files are seen."""
    scheme = url.partition("://")[0].rpartition("::")[2].lower()
    if scheme not in _STORES:
        with errors.needing("a URL"):
            import fsspec
    try:
        import fsspec.core

        core: Any = fsspec.core
        options = {"use_listings_cache": False, **_store_options(scheme)}
        if url.startswith(_SHARED):
            system = _shared_system(scheme, repr(sorted(options.items())), os.getpid())
            return system, str(system._strip_protocol(url))
        system, path = core.url_to_fs(url, **options)
    except ImportError as error:
        library, install = _STORES.get(scheme, (f"another library ({error})", "it"))
        cause = error.__cause__ or error  # fsspec adds a sentence of its own before it
        absent = str(getattr(cause, "name", None)).partition(".")[0]
        if scheme in _STORES and absent not in ("fsspec", library.split()[-1]):
            raise errors.MissingExtra(
                f"{url} needs {library}, which is installed but cannot be imported: {cause}; fix that, or "
                f"reinstall it: pip install --force-reinstall {install}"
            ) from error
        raise errors.MissingExtra(f"{url} needs {library}: pip install {install}") from error
    except ValueError as error:
        raise errors.UnreadableSource(
            f"{url} cannot be opened: {error}; give a path or a supported URL"
        ) from error
    return system, str(path)


@lru_cache(maxsize=16)
def _shared_system(scheme: str, _options_as_text: str, _process: int) -> Any:
    """The file system of a large store, shared by all threads: fsspec would open connections for each."""
    import fsspec

    spec: Any = fsspec
    return spec.filesystem(scheme, use_listings_cache=False, **_store_options(scheme))


def _store_options(scheme: str) -> dict[str, Any]:
    """Options of a store: local folders are created as needed, and S3 is asked more often than by default."""
    if scheme in ("file", "local"):
        return {"auto_mkdir": True}
    if scheme not in ("s3", "s3a"):
        return {}
    import fsspec.config

    config: Any = fsspec.config
    configured: dict[str, Any] = config.conf.get(scheme, {})
    tries = {"retries": {"total_max_attempts": S3_TRIES, "mode": "standard"}}
    return {**configured, "config_kwargs": {**tries, **configured.get("config_kwargs", {})}}


__all__ = ["AnyPath", "RemotePath", "as_path", "is_url", "refuse_url"]
