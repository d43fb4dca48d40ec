"""Ownership of a path: which files of a folder are ours, and which process is writing there.

The files that a folder's own sealed manifest lists, by exact name and kind, are ours; nothing else is ever
touched. A folder inside one of ours is ours if it has a manifest of its own, or if listed names are inside
it; a link never is.

One lock guards each target: a small file next to it, ``.NAME.attomaton-lock``, on which the operating system
holds an advisory lock while the owner is alive. The next writer takes over what a killed owner left, and
removes the folder that the owner was about to put in place or had just replaced: the lock file names it.
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
"""The record of a folder being built: its kind, the end of its name, and which files are ours."""

INNER = TRAINING.name  # the only folder of ours that another may contain: a training in a run
SIDE_RECORDS = frozenset(["verdicts.json"])  # sealed records that other commands leave in a run
LOCK = ".attomaton-lock"  # suffix of a lock's name; a lock may be inside the folder that it guards


@dataclass(frozen=True)
class Stock:
    """The content of a folder that attomaton wrote.

    ``files`` and ``folders`` are ours, in an order in which they can be removed: the manifest comes last.
    ``drafts`` are unfinished folders in it, being built or left by a killed writer; ``strangers`` are
    the names of everything else.
    """

    manifest: Mapping[str, Any]
    files: list[Path] = field(default_factory=list[Path])
    folders: list[Path] = field(default_factory=list[Path])
    drafts: list[Path] = field(default_factory=list[Path])
    strangers: list[str] = field(default_factory=list[str])

    @property
    def is_bare_run(self) -> bool:
        """Whether it is a run folder without a learned automaton: a training created it."""
        return self.manifest["kind"] == RUN.name and not listed_names(self.manifest)

    @property
    def missing(self) -> bool:
        """Whether a listed file is absent: a writer was killed while it moved files in."""
        present = {path.relative_to(self.folders[-1]).as_posix() for path in self.files}
        return not listed_names(self.manifest) <= present


def take_stock(folder: Path) -> Stock | None:
    """Take stock of a folder that attomaton wrote; None for any other folder."""
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
    """Sort everything in a folder into ``stock``."""
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
    """Refuse a path inside a folder that attomaton wrote; the message calls it ``target``."""
    around = next((folder for folder in place.parents if read_sealed(folder / MANIFEST) is not None), None)
    if around is not None:
        raise UnwritablePlace(
            f"{target} is inside {shown(around)}, which attomaton wrote; choose another path"
        )


def is_partial(folder: Path) -> bool:
    """Whether a folder is an unfinished one of ours: its own record repeats the end of its name."""
    record = read_sealed(folder / PARTIAL)
    return record is not None and folder.name.endswith(f".partial-{record.get('id')}")


def remove_ours(folder: Path, spare: Path) -> list[str]:
    """Remove our files in a folder, and the folder if nothing else is in it; return the names that stay.

    ``spare`` is the draft name of a lock that is held: the folder has that name when its manifest is removed,
    so that a kill leaves nothing that the next writer cannot identify.
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
    """Remove an unfinished folder, its record last; return the names of files that are not ours and stay.

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
    """A pattern for the names of our files in an unfinished folder, and of the folders that contain them.

    The folder's record lists them. ``#`` in a name stands for one digit; a name that ends in ``/**`` stands
    for a folder with everything in it.
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
    """Remove what is left under a lock's draft name: a file, or a folder with only a record."""
    if draft.is_dir() and not draft.is_symlink():
        for entry in list(draft.iterdir()):
            if entry.name in (MANIFEST, PARTIAL) or entry.name.endswith(DRAFT):
                entry.unlink()
        draft.rmdir()
    else:
        draft.unlink(missing_ok=True)


def tell_kept(folder: Path, names: list[str]) -> None:
    """Warn about files that are not ours in a folder that was to be removed, if there are any."""
    if names:
        warnings.warn(
            f"{shown(folder)} holds files that attomaton did not write ({few(names)}); they were left there",
            stacklevel=2,
        )


KIND = "lock of attomaton"
SWAP = ".swap"
PROCESSES = Path("/proc")  # where the system lists its processes by number, if it does
LONGEST = 24 * 3600  # seconds after which a lock is stale if its owner's state is unknown


@dataclass(frozen=True)
class Lock:
    """A lock file, and a draft next to it that its owner may write and the next owner removes."""

    path: Path
    draft: Path

    def swap(self, beside: Path) -> Path:
        """The temporary name of a folder while it is exchanged with the target; leftovers are removed."""
        return beside / self.draft.with_suffix(SWAP).name

    def remember(self) -> None:
        """Flush the lock file to disk, so that it says what to remove even after a power failure."""
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
        finally:  # if this is interrupted, the lock file stays and names what the next writer removes
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
    raise UnwritablePlace(f"{shown(target)} is constantly being written by other processes; write elsewhere")


def _make(path: Path, draft: str) -> FileIO | None:
    """A new lock file, complete and locked when it appears; None if there is another one."""
    about = {"kind": KIND, "pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    blob = json.dumps({**about, "draft": draft}).encode()
    if not REMOVES_OPEN:
        return _make_plainly(path, blob)
    file, name = _open_unnamed(path)
    try:
        file.write(blob)
        _lock(file)
        if name is None:  # the folder is ignored, but without one Python does not follow the link
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
    """A new lock file that is visible before it is complete."""
    try:
        file = _open(path, os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return None
    file.write(blob)
    _lock(file)
    return file


def _open_unnamed(path: Path) -> tuple[FileIO, Path | None]:
    """A new file without a name, or with a private one where the file system requires a name."""
    try:
        return FileIO(os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666), "r+"), None
    except (AttributeError, OSError) as error:
        unknown = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
        if isinstance(error, OSError) and error.errno not in unknown:
            raise
    name = path.with_name(draft_name())
    return _open(name, os.O_CREAT | os.O_EXCL), name


def _open(path: Path, flags: int = 0) -> FileIO:
    """Open a file to read and write; links are not followed."""
    return FileIO(open_itself(path, os.O_RDWR | flags), "r+")


def _remove_stale(path: Path, target: Path) -> None:
    """Remove a lock whose owner has ended, with its draft; raise an error if the lock is in use."""
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
    """Lock the file; return whether that succeeded.

    Without file locks, whether the owner's process has ended; if that is unknown, whether the lock is old.
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
    """The owner that a lock file names; None for a file that is not our lock."""
    try:
        owner = json.loads(file.read(4096) or b"")  # a pipe gives nothing
    except (OSError, ValueError):
        return None
    if not isinstance(owner, dict) or cast("dict[str, Any]", owner).get("kind") != KIND:
        return None
    return cast("dict[str, Any]", owner)


def _remove_left(name: str, beside: Path, target: Path) -> None:
    """Remove what an owner left under its draft name, next to the target or in it (a training in a run)."""
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
    return f"process {owner.get('pid')} on {owner.get('host')} (for {age})"


def _in_the_way(path: Path) -> UnwritablePlace:
    return UnwritablePlace(
        f"{shown(path)} is in the way and is not a lock of attomaton; move it, or write elsewhere"
    )
