"""Paths at URLs: the files and folders of object stores, web servers and whatever else fsspec reaches."""

import fnmatch
import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import check_path
from attomaton.base.ranges import RangeReader
from attomaton.base.stores import NothingThere, open_system, reaching, replaced_error

READ_AHEAD = 1 << 20  # bytes read at once where a file is read sequentially
# A URL may chain schemes, such as `simplecache::s3://`. One letter is not a scheme, but a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(::[A-Za-z][A-Za-z0-9+.-]+)*://")
_WEB = frozenset(["http", "https"])


class Stat(NamedTuple):
    """The size of a file, and a tag that changes with its content, if the store has tags."""

    st_size: int
    tag: str | None


def stat_of(details: dict[str, Any]) -> Stat:  # from what fsspec says about a file
    tag = details.get("ETag") or details.get("etag")
    return Stat(int(details.get("size") or 0), str(tag).strip('"') if tag else None)


class RemoteFile(RangeReader):
    """The bytes of a file at a URL, which must have the ``tag`` of an earlier listing."""

    def __init__(self, system: Any, path: str, url: str, tag: str | None) -> None:
        with reaching(url):
            file = system.open(path, "rb", cache_type="none")  # BufferedReader buffers instead
        details: Any = getattr(file, "details", None)
        current = stat_of(cast("dict[str, Any]", details)).tag if isinstance(details, dict) else None
        if None not in (current, tag) and current != tag:
            raise replaced_error(url)
        super().__init__(file, url, getattr(file, "size", None))

    def read_range(self, length: int) -> bytes:
        with reaching(self.name):
            if self.size is not None:  # otherwise the file is read sequentially, and is at this position
                self.file.seek(self.position)
            return self.file.read(length)


@dataclass(frozen=True, order=True)
class RemotePath:
    """A file or folder at a ``url`` such as ``s3://bucket/folder``, with methods of ``pathlib.Path``.

    ``listed`` has the size and the tag of the file in a listing of its folder. The error for a missing file
    is also a ``FileNotFoundError``.
    """

    url: str
    listed: Stat | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(f"{self.url.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        return PurePosixPath(self.url.partition("://")[2]).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def is_web(self) -> bool:
        return self.url.partition("://")[0].lower() in _WEB

    def system(self) -> tuple[Any, str]:
        """The file system of fsspec, and the path in it."""
        return open_system(self.url)

    def open(self, mode: str = "rb", ahead: int = READ_AHEAD) -> BinaryIO:
        """Open the file for reading, with seeking; each read fetches at least ``ahead`` bytes."""
        if mode != "rb":
            raise UnsupportedOption(f"{self.url} cannot be opened in mode {mode!r}; use 'rb'")
        system, path = self.system()
        tag = None if self.listed is None else self.listed.tag
        return io.BufferedReader(RemoteFile(system, path, self.url, tag), ahead)

    def read_bytes(self) -> bytes:
        """Read the whole file."""
        with self.open() as file:
            return file.read()

    def stat(self) -> Stat:
        """The current size and tag."""
        system, path = self.system()
        with reaching(self.url):
            details = system.info(path)
        if details.get("type") == "directory":
            raise NothingThere(f"{self.url} is a folder; give the URL of a file")
        return stat_of(details)

    def is_file(self) -> bool:
        """Whether there is a file of this name."""
        try:
            self.stat()
        except NothingThere:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether there is a folder of this name; a web server has no folders."""
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
                yield RemotePath((self / name).url, stat_of(details))

    def names_below(self) -> list[str]:
        """The names of all files in this folder and its subfolders, relative to it, sorted."""
        system, path = self.system()
        try:
            with reaching(self.url):
                names: list[str] = [str(name) for name in system.find(path)]
        except NothingThere:
            return []
        paths = [PurePosixPath(name) for name in names if PurePosixPath(name) != PurePosixPath(path)]
        return sorted(below.relative_to(path).as_posix() for below in paths)

    def identify(self) -> str:
        """A digest of the size and the tag of the store, or else of the content."""
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
        """Upload a local file, replacing any earlier object."""
        system, path = self.system()
        with reaching(self.url, writing=True):
            system.put_file(str(file), path)

    def unlink(self) -> None:
        """Remove the file, if it exists."""
        system, path = self.system()
        with reaching(self.url, writing=True), suppress(FileNotFoundError):
            system.rm_file(path)


AnyPath = Path | RemotePath  # the path of a file or folder on this machine, or at a URL


def as_path(path: "str | PathLike[str] | RemotePath") -> AnyPath:
    """A URL as a :class:`RemotePath`, anything else as a path."""
    if isinstance(path, RemotePath):
        return path
    text = check_path(path, "path")
    return RemotePath(text) if isinstance(path, str) and is_url(text) else Path(text)


def is_url(source: str) -> bool:
    return _SCHEME.match(source) is not None


def refuse_url(path: object, name: str) -> None:
    """Refuse a URL where only a folder on this machine works."""
    text = str(path)
    collapsed = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:(?=/)", text)  # a Path keeps one of two slashes
    if isinstance(path, RemotePath) or is_url(text) or (collapsed and not Path(collapsed[0]).exists()):
        raise UnsupportedOption(
            f"{name} is the URL {text!r}, but files there must be renamed, locked and memory-mapped, which "
            "object stores cannot do; give a folder on a disk of this machine"
        )
