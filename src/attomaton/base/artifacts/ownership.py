"""Ownership of a path: which files of a folder are ours, and which process is writing there.

The files that a folder's own sealed records list are ours; nothing else is ever touched. A training inside a
run is ours if it has a manifest of its own; a link never is.

One lock guards each target: a small file next to it, ``.NAME.attomaton-lock``, on which the operating system
holds an advisory lock while the owner is alive. It names a draft: what a killed owner left under that name,
about to be put in place or just replaced, the next owner removes.
"""

import errno
import json
import os
import socket
import stat
import time
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import Any, cast

from attomaton.base.artifacts.files import (
    DRAFT,
    draft_name,
    few,
    lock_file,
    open_itself,
    remove_locked,
    show_path,
    sibling,
)
from attomaton.base.artifacts.manifests import MANIFEST, RUN, TRAINING, read_sealed
from attomaton.base.errors import UnwritablePlace

PARTIAL = "partial.json"
"""The record of a folder being built: its kind, the end of its name, and patterns of the names in it."""

INNER = TRAINING.name  # the only folder of ours that another may contain: a training in a run
SIDE_RECORDS = frozenset(["verdicts.json"])  # sealed records that other commands leave in a run
LOCK = ".attomaton-lock"  # suffix of a lock's name; a lock may be inside the folder that it guards
DRAFTS = "." + 16 * "[0-9a-f]" + DRAFT  # the pattern of the names of drafts
LOCK_KIND, LOCK_SIZE = "lock of attomaton", 1024


@dataclass(frozen=True)
class Stock:
    """The content of a folder that attomaton wrote.

    ``listed`` are the names in its manifest, ``files`` those that are present, and the manifest. ``drafts``
    are unfinished folders in it; ``strangers`` are the names of everything else.
    """

    manifest: Mapping[str, Any]
    listed: set[str]
    files: list[Path] = field(default_factory=list[Path])
    drafts: list[Path] = field(default_factory=list[Path])
    strangers: list[str] = field(default_factory=list[str])

    @property
    def is_bare_run(self) -> bool:
        """Whether it is a run folder without a learned automaton: a training created it."""
        return self.manifest["kind"] == RUN.name and not self.listed


def take_stock(folder: Path) -> Stock | None:
    """Take stock of a folder that attomaton wrote; None for any other folder."""
    manifest = read_sealed(folder / MANIFEST)
    if manifest is None or not isinstance(manifest.get("kind"), str):
        return None
    stock = Stock(manifest, listed_names(manifest))
    inner, ours = read_sealed(folder / INNER / MANIFEST) or {}, {MANIFEST} | stock.listed
    if inner.get("kind") == INNER:
        ours |= {f"{INNER}/{name}" for name in {MANIFEST} | listed_names(inner)}
    around = {str(parent) for name in ours for parent in Path(name).parents}
    for subfolder, folders, files in os.walk(folder):
        for path in (Path(subfolder, name) for name in sorted(files)):
            is_ours = path.relative_to(folder).as_posix() in ours or _is_side_record(path)
            if is_ours and stat.S_ISREG(path.lstat().st_mode):
                stock.files.append(path)
            elif path.name != f".{path.parent.name}{LOCK}":
                stock.strangers.append(path.name)
        for path in (Path(subfolder, name) for name in sorted(folders)):
            if path.is_symlink() or str(path.relative_to(folder)) not in around:
                folders.remove(path.name)
                if not path.is_symlink() and is_partial(path):
                    stock.drafts.append(path)
                else:
                    stock.strangers.append(path.name)
    return stock


def listed_names(record: Mapping[str, Any]) -> set[str]:
    """The names in a manifest or in the record of an unfinished folder, relative to the folder."""
    listed: set[str] = set()
    for key in ("files", "records"):
        names = record.get(key, ())
        if isinstance(names, Mapping | list | tuple):
            listed.update(map(str, cast("Iterable[object]", names)))
    return listed


def _is_side_record(path: Path) -> bool:
    return path.name in SIDE_RECORDS and f"{(read_sealed(path) or {}).get('kind')}.json" == path.name


def refuse_inside(path: Path, target: object) -> None:
    """Refuse a path inside a folder that attomaton wrote; the message calls it ``target``."""
    for folder in path.parents:
        if (folder / MANIFEST).is_file() and read_sealed(folder / MANIFEST) is not None:
            raise UnwritablePlace(
                f"{target} is inside {show_path(folder)}, which attomaton wrote; choose another path"
            )


def is_partial(folder: Path) -> bool:
    """Whether a folder is an unfinished one of ours: its own record repeats the end of its name."""
    record = read_sealed(folder / PARTIAL)
    return record is not None and folder.name.endswith(f".partial-{record.get('id')}")


def remove_ours(folder: Path, leftover: Path) -> None:
    """Remove our files in a folder, its records last, and the folder if nothing else is in it.

    Other files stay, the folder that holds them is renamed to ``leftover``, and a warning says so. If this is
    interrupted, it can be called again.
    """
    try:
        for path in _our_files(folder):
            path.unlink(missing_ok=True)
        for subfolder, _, _ in os.walk(folder, topdown=False):
            if not os.listdir(subfolder):  # noqa: PTH208  a string
                Path(subfolder).rmdir()
        if not folder.exists():
            return
        folder.rename(leftover)
        foreign = sorted(path.name for path in leftover.rglob("*") if path.is_symlink() or not path.is_dir())
        reason = f"holds files that attomaton did not write ({few(foreign)}); they were left there"
    except OSError as error:
        reason = f"cannot be removed: {error.strerror}"
    warnings.warn(f"{show_path(leftover)} {reason}", stacklevel=2)


def _our_files(folder: Path) -> list[Path]:
    """Our files in a folder, its records last; in an unfinished folder its record has patterns of them."""
    stock, record = take_stock(folder), read_sealed(folder / PARTIAL)
    files = [] if stock is None else [*stock.files, *chain.from_iterable(map(_our_files, stock.drafts))]
    if stock is None or record is not None:
        patterns = [PARTIAL, MANIFEST, DRAFTS, f"*/{DRAFTS}", *listed_names(record or {})]
        for path in folder.rglob("*"):
            name = path.relative_to(folder).as_posix()
            is_listed = any(fnmatchcase(name, pattern) for pattern in patterns)
            if is_listed and path.is_file() and not path.is_symlink():
                files.append(path)
    records = folder / MANIFEST, folder / PARTIAL
    return sorted(files, key=lambda path: path in records)


@dataclass(frozen=True)
class Lock:
    """A lock that is held. Its owner may write ``draft``, a file or folder; the next owner removes it."""

    draft: Path


@contextmanager
def locked(target: Path, parent: Path) -> Generator[Lock]:
    """Lock ``target`` against other processes and threads; the lock file is in the folder ``parent``.

    On a file system without locks, nothing is locked.
    """
    path = parent / sibling("." + target.name, LOCK)
    with _open_locked(path, target) as file:
        left, draft = (_read_owner(file) or {}).get("draft"), draft_name()
        _recover(str(left), parent, target)
        if left is not None:
            _write_owner(file, draft)
        try:
            yield Lock(parent / draft)
        finally:  # if this is interrupted, the lock file stays and names what the next writer removes
            _recover(draft, parent, target)
            if "draft" in (_read_owner(file) or {}):  # an empty file of others stays
                remove_locked(path, file)


def _open_locked(path: Path, target: Path) -> FileIO:
    """A lock file, new or left by a killed owner, open and locked."""
    while True:
        with ExitStack() as stack:
            try:
                new = open_itself(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
                file = stack.enter_context(FileIO(new, "r+"))
                _write_owner(file, draft_name())
            except FileExistsError:
                try:
                    file = stack.enter_context(FileIO(open_itself(path, os.O_RDWR), "r+"))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                        raise
                    raise _in_the_way(path) from error
            is_free = True
            with suppress(OSError):  # a file system without locks
                is_free = lock_file(file)
            owner = _read_owner(file)
            if owner is None:
                raise _in_the_way(path)
            if not is_free:
                minutes = (time.time() - float(owner.get("since", 0.0))) / 60
                age = f"{minutes:.0f} minutes" if minutes >= 2 else f"{60 * minutes:.0f} seconds"
                raise UnwritablePlace(
                    f"{show_path(target)} is being written by process {owner.get('pid')} on "
                    f"{owner.get('host')} (for {age}); wait, or write elsewhere"
                )
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                    stack.pop_all()
                    return file


def _write_owner(file: FileIO, draft: str) -> None:
    """Write who holds the lock; every such record has the same length, so that one replaces another."""
    owner = {"kind": LOCK_KIND, "pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    file.seek(0)
    file.write(json.dumps({**owner, "draft": draft}).ljust(LOCK_SIZE).encode())


def _read_owner(file: FileIO) -> dict[str, Any] | None:
    """The owner that a lock file names, nobody if it is empty; None for a file that is not our lock."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return None
    file.seek(0)
    blob = file.read(LOCK_SIZE)
    try:
        owner = json.loads(blob) if blob else {"kind": LOCK_KIND}
    except ValueError:
        return None
    record = cast("dict[str, Any]", owner) if isinstance(owner, dict) else {}
    return record if record.get("kind") == LOCK_KIND else None


def _in_the_way(path: Path) -> UnwritablePlace:
    return UnwritablePlace(
        f"{show_path(path)} is in the way and is not a lock of attomaton; move it, or write elsewhere"
    )


def spare_of(draft: Path) -> Path:
    """The name of a folder between the renames of an exchange."""
    return draft.with_suffix(".old")


def _recover(name: str, parent: Path, target: Path) -> None:
    """Remove what an owner left under its draft name, next to the target or in it (a training in a run).

    An old folder that a kill between two renames left without its name gets it back.
    """
    for folder, goal in ((parent, target), (target, target / INNER)):
        if not fnmatchcase(name, DRAFTS) or not folder.is_dir():
            continue
        draft = folder / name
        if take_stock(spare_of(draft)) is not None and not goal.exists():
            spare_of(draft).rename(goal)
        for path in (draft, spare_of(draft)):
            if path.is_dir() and not path.is_symlink():
                remove_ours(path, path)
            else:
                path.unlink(missing_ok=True)
