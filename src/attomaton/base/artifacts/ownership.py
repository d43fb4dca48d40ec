"""Whose a place is: which files of a folder are ours, and who writes there now.

Ours are the files that a folder's own sealed manifest lists, by exact name and kind; nothing else is ever
touched. A folder inside one of ours is ours if it has a manifest of its own, or if the names listed lead
into it; a link never is.

One lock guards each target: a small file beside it, ``.NAME.attomaton-lock``, on which the operating system
holds an advisory lock while its owner lives. The next writer takes over what a killed owner left, and
removes what the owner was about to put in place or had just replaced: the lock file names it.
"""

import errno
import json
import os
import re
import socket
import time
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, cast

from attomaton.base.artifacts.files import (
    DRAFT,
    DRAFT_NAME,
    REMOVES_OPEN,
    UNLINKABLE,
    draft_name,
    few,
    flush,
    lock_file,
    open_itself,
    remove_open,
    rename_new,
    shown,
    sibling,
)
from attomaton.base.artifacts.manifests import MANIFEST, RUN, TRAINING, read_sealed
from attomaton.base.errors import UnwritablePlace

PARTIAL = "partial.json"
"""The record of a folder that is being built: its kind, the end of its name, and which files are ours."""

INNER = TRAINING.name  # the one folder of ours that may stand in another: a training in a run
SIDE_RECORDS = frozenset(["verdicts.json"])  # sealed records that other commands leave in a run
LOCK = ".attomaton-lock"  # ends the name of a lock; one may stand in the folder that it guards


@dataclass(frozen=True)
class Stock:
    """What a folder of ours holds.

    ``files`` and ``folders`` are ours, in the order in which they can be removed: the manifest comes last.
    ``drafts`` are folders in it that are being built, or were when their writer was killed; ``strangers`` are
    the names of everything else.
    """

    manifest: Mapping[str, Any]
    files: list[Path] = field(default_factory=list[Path])
    folders: list[Path] = field(default_factory=list[Path])
    drafts: list[Path] = field(default_factory=list[Path])
    strangers: list[str] = field(default_factory=list[str])

    @property
    def is_bare_run(self) -> bool:
        """Whether it is the folder of a run that has not been learned: a training began it."""
        return self.manifest["kind"] == RUN.name and not listed_names(self.manifest)

    @property
    def missing(self) -> bool:
        """Whether a listed file is not there: a writer was killed while it moved them in."""
        present = {path.relative_to(self.folders[-1]).as_posix() for path in self.files}
        return not listed_names(self.manifest) <= present


def take_stock(folder: Path) -> Stock | None:
    """What is ours in a folder; None if the folder itself is not."""
    manifest = read_sealed(folder / MANIFEST)
    if manifest is None or not isinstance(manifest.get("kind"), str):
        return None
    stock = Stock(manifest)
    _sort(folder, listed_names(manifest), stock)
    return stock


def listed_names(manifest: Mapping[str, Any]) -> set[str]:
    """The names in a manifest, relative to its folder."""
    listed: set[str] = set()
    for part in ("files", "records"):
        names = manifest.get(part, ())
        if isinstance(names, Mapping | list | tuple):
            listed.update(map(str, cast("Iterable[object]", names)))
    return listed


def _sort(folder: Path, listed: set[str], stock: Stock) -> None:
    """Everything in a folder, told apart."""
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    manifest: list[Path] = []
    for entry in ordered:
        path = Path(entry.path)
        inner = {name.split("/", 1)[1] for name in listed if name.startswith(f"{entry.name}/")}
        if entry.is_file(follow_symlinks=False):
            if entry.name == MANIFEST:
                manifest.append(path)
            elif entry.name == f".{folder.name}{LOCK}":
                continue
            elif entry.name in listed or _is_side_record(path):
                stock.files.append(path)
            else:
                stock.strangers.append(entry.name)
        elif not entry.is_dir(follow_symlinks=False):
            stock.strangers.append(entry.name)
        elif is_partial(path):
            stock.drafts.append(path)
        elif inner:
            _sort(path, inner, stock)
        elif entry.name == INNER and (record := read_sealed(path / MANIFEST) or {}).get("kind") == INNER:
            _sort(path, listed_names(record), stock)
        else:
            stock.strangers.append(entry.name)
    stock.files.extend(manifest)
    stock.folders.append(folder)


def _is_side_record(path: Path) -> bool:
    return path.name in SIDE_RECORDS and f"{(read_sealed(path) or {}).get('kind')}.json" == path.name


def refuse_inside(place: Path, target: object) -> None:
    """Refuse a place inside a folder that attomaton wrote; a sentence calls it ``target``."""
    around = next((folder for folder in place.parents if read_sealed(folder / MANIFEST) is not None), None)
    if around is not None:
        raise UnwritablePlace(
            f"{target} is inside {shown(around)}, which attomaton wrote; choose another place"
        )


def is_partial(folder: Path) -> bool:
    """Whether a folder is one that we are building, or were: its own record repeats the end of its name."""
    record = read_sealed(folder / PARTIAL)
    return record is not None and folder.name.endswith(f".partial-{record.get('id')}")


def remove_ours(folder: Path, spare: Path) -> list[str]:
    """Remove what is ours in a folder, and the folder if nothing else is in it; the names of what stays.

    ``spare`` is the draft of a lock that is held: the folder has that name when its manifest goes, so that
    a kill leaves nothing that the next writer does not know.
    """
    stock = take_stock(folder)
    if stock is None:
        return [folder.name]
    for draft in stock.drafts:
        remove_partial(draft, spare)
    for file in stock.files[:-1]:
        file.unlink(missing_ok=True)
    for inner in stock.folders[:-1]:
        if not any(inner.iterdir()):
            inner.rmdir()
    others = [name for name in stock.strangers if name != PARTIAL]
    if not others:
        _remove_last(folder, spare)
    return others


def remove_partial(folder: Path, spare: Path) -> list[str]:
    """Remove a folder that was being built, its record last; the names of what is not ours, which stays.

    ``spare`` as for :func:`remove_ours`.
    """
    strangers: list[str] = []
    owned = _owned_names(read_sealed(folder / PARTIAL) or {})
    for place, folders, files in os.walk(folder, topdown=False):
        for name in [*files, *folders]:
            path = Path(place, name)
            if not owned.fullmatch(path.relative_to(folder).as_posix()) or path.is_symlink():
                strangers.append(name)
            elif name in folders:
                if not any(path.iterdir()):
                    path.rmdir()
            elif path != folder / PARTIAL:
                path.unlink(missing_ok=True)
    if strangers:
        (folder / PARTIAL).unlink(missing_ok=True)
    else:
        _remove_last(folder, spare)
    return strangers


def _owned_names(record: Mapping[str, Any]) -> re.Pattern[str]:
    """What matches the names of our files in a folder that is being built, and of the folders around them.

    Its record lists them. ``#`` in a name stands for one digit; a name that ends in ``/**`` is that of a
    folder with everything in it.
    """
    patterns = [re.escape(PARTIAL), re.escape(MANIFEST), rf"(.*/)?{DRAFT_NAME.pattern}"]
    for name in listed_names(record):
        inner = name.removesuffix("/**")
        parts = re.escape(inner).replace(r"\#", "[0-9]").split("/")
        patterns += ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
        if name != inner:
            patterns.append(f"{'/'.join(parts)}/.*")
    return re.compile("|".join(patterns))


def _remove_last(folder: Path, spare: Path) -> None:
    rename_new(folder, spare)
    remove_draft(spare)


def remove_draft(draft: Path) -> None:
    """Remove what is left under the name of a lock's draft: a file, or a folder with a record and no more."""
    if draft.is_dir() and not draft.is_symlink():
        for entry in list(draft.iterdir()):
            if entry.name in (MANIFEST, PARTIAL) or entry.name.endswith(DRAFT):
                entry.unlink()
        draft.rmdir()
    else:
        draft.unlink(missing_ok=True)


def tell_kept(folder: Path, names: list[str]) -> None:
    """Warn of what is not ours in a folder that was to go, if anything is."""
    if names:
        warnings.warn(
            f"{shown(folder)} holds files that attomaton did not write ({few(names)}); they were left there",
            stacklevel=2,
        )


KIND = "lock of attomaton"
SWAP = ".swap"
PROCESSES = Path("/proc")  # where a system lists its processes by number, if it does
LONGEST = 24 * 3600  # seconds after which a lock is stale where nobody can say whether its owner lives


@dataclass(frozen=True)
class Lock:
    """A lock file, and a draft beside it that its owner may write and that the next owner removes."""

    path: Path
    draft: Path

    def swap(self, beside: Path) -> Path:
        """The name of a folder while it changes places with the target; what is left of it is removed."""
        return beside / self.draft.with_suffix(SWAP).name

    def remember(self) -> None:
        """Have the lock file on the disk, so that it tells even after a loss of power what to remove."""
        flush(self.path)
        flush(self.path.parent)


@contextmanager
def locked(target: Path, beside: Path) -> Generator[Lock]:
    """Lock ``target`` against other processes and threads; the lock file is in the folder ``beside``."""
    path = beside / sibling("." + target.name, LOCK)
    file, draft = _take(path, target)
    with file:
        try:
            yield Lock(path, beside / draft)
        finally:  # if this is interrupted, the lock file stays and tells the next writer what to remove
            _remove_left(draft, beside, target)
            remove_open(path, file)


def _take(path: Path, target: Path) -> tuple[FileIO, str]:
    """A lock file of ours, open, and the name of its draft."""
    for _ in range(1000):
        _remove_stale(path, target)
        draft = draft_name()
        file = _make(path, draft)
        if file is not None:
            return file, draft
    raise UnwritablePlace(f"{shown(target)} is being written by others all the time; write to another place")


def _make(path: Path, draft: str) -> FileIO | None:
    """A new lock file that is whole and locked when it appears; None if another one is there."""
    about = {"kind": KIND, "pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    blob = json.dumps({**about, "draft": draft}).encode()
    if not REMOVES_OPEN:
        return _make_plainly(path, blob)
    file, name = _open_unnamed(path)
    try:
        file.write(blob)
        _lock(file)
        if name is None:  # the folder is not looked at, but without one Python does not follow the link
            os.link(f"/proc/self/fd/{file.fileno()}", path, src_dir_fd=file.fileno())
        else:
            os.link(name, path)
    except BaseException as error:
        file.close()
        if isinstance(error, FileExistsError):
            return None
        if isinstance(error, OSError) and error.errno in UNLINKABLE:  # a file system without hard links
            return _make_plainly(path, blob)
        raise
    finally:
        if name is not None:
            name.unlink(missing_ok=True)
    return file


def _make_plainly(path: Path, blob: bytes) -> FileIO | None:
    """A new lock file that has its name before it is whole."""
    try:
        file = _open(path, os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return None
    file.write(blob)
    _lock(file)
    return file


def _open_unnamed(path: Path) -> tuple[FileIO, Path | None]:
    """A new file without a name, or with a private one where the file system asks for one."""
    try:
        return FileIO(os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666), "r+"), None
    except (AttributeError, OSError) as error:
        unknown = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
        if isinstance(error, OSError) and error.errno not in unknown:
            raise
    name = path.with_name(draft_name())
    return _open(name, os.O_CREAT | os.O_EXCL), name


def _open(path: Path, flags: int = 0) -> FileIO:
    """A file to read and write; no link is followed."""
    return FileIO(open_itself(path, os.O_RDWR | flags), "r+")


def _remove_stale(path: Path, target: Path) -> None:
    """Remove a lock whose owner is gone, with its draft; say who holds one that is in use."""
    try:
        file = _open(path)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise _in_the_way(path) from error
    with file:
        owner = _read(file)
        if owner is None:
            raise _in_the_way(path)
        if not _lock(file, owner):
            raise UnwritablePlace(
                f"{shown(target)} is being written by {_describe(owner)}; wait, or write elsewhere"
            )
        try:
            same = os.path.samestat(os.fstat(file.fileno()), path.lstat())
        except FileNotFoundError:
            return
        if same:
            _remove_left(str(owner.get("draft")), path.parent, target)
            remove_open(path, file)


def _lock(file: FileIO, owner: dict[str, Any] | None = None) -> bool:
    """Whether the file could be locked.

    Where none can, whether its owner's process is gone; where that cannot be seen, whether the lock is old.
    """
    try:
        return lock_file(file)
    except OSError:  # a file system without locks
        if owner is None:
            return True
    if owner.get("host") != socket.gethostname() or not PROCESSES.is_dir():
        return time.time() - float(owner.get("since", 0.0)) >= LONGEST
    return not (PROCESSES / str(owner.get("pid"))).exists()


def _read(file: FileIO) -> dict[str, Any] | None:
    """Who a lock file says its owner is; None for a file that is no lock of ours."""
    try:
        owner = json.loads(file.read(4096) or b"")  # a pipe gives nothing
    except (OSError, ValueError):
        return None
    if not isinstance(owner, dict) or cast("dict[str, Any]", owner).get("kind") != KIND:
        return None
    return cast("dict[str, Any]", owner)


def _remove_left(name: str, beside: Path, target: Path) -> None:
    """Remove what an owner left under its draft's name, beside the target or in it (a training in a run)."""
    if not DRAFT_NAME.fullmatch(name):
        return
    for folder in (beside, target):
        if not folder.is_dir():
            continue
        draft = folder / name
        swap = draft.with_suffix(SWAP)
        others = remove_ours(swap, draft) if swap.is_dir() and not swap.is_symlink() else []
        remove_draft(draft)
        tell_kept(swap, others)


def _describe(owner: dict[str, Any]) -> str:
    minutes = (time.time() - float(owner.get("since", 0.0))) / 60
    age = f"{minutes:.0f} minutes" if minutes >= 2 else f"{60 * minutes:.0f} seconds"
    return f"process {owner.get('pid')} on {owner.get('host')}, for {age} now"


def _in_the_way(path: Path) -> UnwritablePlace:
    return UnwritablePlace(
        f"{shown(path)} is in the way and no lock of attomaton; move it away, or write elsewhere"
    )
