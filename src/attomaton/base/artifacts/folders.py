"""A folder written whole: built beside its place, flushed, then swapped in; the old one goes last.

Until the swap the old folder is untouched, and the swap is one rename, so a command that fails or is killed
at any moment leaves the old folder or the new one. What it was building stays beside, as
``NAME.partial-<id>``, and is taken up or removed by the next writer.
"""

import os
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from attomaton.base.artifacts.files import (
    DRAFT,
    SPARE,
    entry_of,
    exchange,
    explained,
    few,
    flush,
    flush_tree,
    link_or_copy,
    rename_new,
    replace_empty,
    shown,
    sibling,
)
from attomaton.base.artifacts.manifests import FORMAT, MANIFEST, RUN, FolderKind, read_sealed, write_sealed
from attomaton.base.artifacts.ownership import (
    INNER,
    PARTIAL,
    Lock,
    Stock,
    is_partial,
    locked,
    remove_ours,
    remove_partial,
    take_stock,
    tell_kept,
)
from attomaton.base.errors import UnwritablePlace


@dataclass(frozen=True)
class Building:
    """A folder that is being built.

    Attributes
    ----------
    target : Path
        Where it will stand.
    folder : Path
        Where it is built; everything in this folder is ours.
    kind : FolderKind
        What it will hold.
    """

    target: Path
    folder: Path
    kind: FolderKind

    def finish(
        self, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Write the manifest, which makes the folder whole: ``about``, and the digest of every file.

        ``files`` are those whose digests are known; if not given, every file in the folder is listed.
        """
        listed = self.digest_files(self._written()) if files is None else dict(files)
        record = {**about, "kind": self.kind.name, "format": FORMAT, "files": listed}
        write_sealed(self.folder / MANIFEST, record)
        return record

    def digest_files(self, files: Iterable[Path]) -> dict[str, dict[str, Any]]:
        """Digest and size of files in the folder, by their names from there."""
        return {path.relative_to(self.folder).as_posix(): entry_of(path) for path in files}

    def _written(self) -> list[Path]:
        found = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return [path for path in found if path.name not in (MANIFEST, PARTIAL)]


@contextmanager
def build_folder(
    target: str | os.PathLike[str],
    kind: FolderKind,
    files: Iterable[str],
    *,
    overwrite: bool,
    resumable: bool = False,
    held: Lock | None = None,
    about: Mapping[str, Any] | None = None,
) -> Generator[Building]:
    """Build a folder and put it in place of an old one of ours, if all goes well.

    Parameters
    ----------
    target : path
        A new or empty folder, or one that attomaton wrote, of the same kind.
    kind : FolderKind
        What the folder will hold.
    files : iterable of str
        Names of all files that the folder may hold while it is built, but for manifests and drafts; ``#``
        stands for one digit, and ``NAME/**`` for everything in a folder. If the writer is killed, the next
        one removes these and nothing else.
    overwrite : bool
        Whether a finished folder of ours may be replaced.
    resumable : bool
        Take up what a killed writer left, and leave what was done if this one fails.
    held : Lock, optional
        The lock that guards the target, if it is held already.
    about : mapping, optional
        What to note in the record of the unfinished folder.

    Raises
    ------
    UnwritablePlace
        If the target may not be written, before anything is; or if somebody else writes there.
    """
    record = {"kind": kind.name, "about": dict(about or {}), "files": sorted(files)}
    if held is not None:
        with _building(Path(target), kind, overwrite, _Making(held, resumable, record)) as building:
            yield building
        return
    place = find_place(target)
    with (
        hold(place) as lock,
        _building(place, kind, overwrite, _Making(lock, resumable, record)) as building,
    ):
        yield building


@contextmanager
def hold(place: Path) -> Generator[Lock]:
    """Hold the lock of a folder that :func:`find_place` found."""
    with explained(place):
        new = [one for one in (place.parent, *place.parent.parents) if not one.exists()]
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = locked(place, _lock_folder(place))
        held = lock.__enter__()
    try:
        yield held
    finally:
        lock.__exit__(None, None, None)
        for folder in new:  # made for nothing
            if not any(folder.iterdir()):
                folder.rmdir()


def _lock_folder(place: Path) -> Path:
    """Where the lock of a place stands, whoever asks: beside it, or inside where that cannot be written."""
    return place.parent if os.access(place.parent, os.W_OK | os.X_OK) or not place.exists() else place


def find_place(target: str | os.PathLike[str]) -> Path:
    """The folder that a path means; links on the way are followed, a link to nothing is refused."""
    if not os.fspath(target):
        raise UnwritablePlace("the path of the folder is empty; give a name")
    place = Path(os.path.realpath(target))
    with explained(place):
        if Path(target).is_symlink() and not place.exists():
            raise UnwritablePlace(f"{target} is a link to nothing; give the path of a folder")
        if place.exists() and not place.is_dir():
            raise UnwritablePlace(f"{target} is a file; give the path of a folder to write to")
        around = [one for one in place.parents if read_sealed(one / MANIFEST) is not None]
    if around:
        raise UnwritablePlace(
            f"{target} is inside {shown(around[0])}, which attomaton wrote; choose another place"
        )
    return place


def check_replaceable(place: Path, kind: FolderKind, *, overwrite: bool) -> None:
    """Refuse a place where something stands that may not be replaced."""
    if not place.exists():
        return
    stock = take_stock(place)
    if stock is None:
        strangers = sorted(entry.name for entry in place.iterdir() if not is_partial(entry))
        strangers = [name for name in strangers if not name.endswith(".attomaton-lock")]
        if strangers:
            raise UnwritablePlace(f"{shown(place)} holds other files ({few(strangers)}); give a new folder")
        return
    _check_kind(place, stock, kind)
    if stock.strangers:
        raise UnwritablePlace(
            f"{shown(place)} holds files that attomaton did not write ({few(stock.strangers)}); move them "
            "away, or give a new folder"
        )
    if not overwrite and not stock.is_bare_run and not (stock.missing and _is_filling(place, stock)):
        within = " with a training in it, which would be removed, too" if (place / INNER).exists() else ""
        raise UnwritablePlace(
            f"{shown(place)} holds {kind.phrase} already{within}; give another folder, or replace it with "
            "--overwrite (in Python: overwrite=True)"
        )


def _is_filling(place: Path, stock: Stock) -> bool:
    """Whether files were being moved in when their writer was killed: what is missing is still in there."""
    inside = [
        one for one in stock.drafts if one.parent == place and one.name.startswith(f"{place.name}.partial-")
    ]
    return bool(inside) and not (place / INNER).exists()


def check_kind(place: Path, kind: FolderKind) -> None:
    """Refuse a folder of ours that is of another kind."""
    stock = take_stock(place)
    if stock is not None:
        _check_kind(place, stock, kind)


def _check_kind(place: Path, stock: Stock, kind: FolderKind) -> None:
    found = str(stock.manifest["kind"])
    if found != kind.name:
        raise UnwritablePlace(
            f"{shown(place)} holds files of the kind {found!r}, not {kind.phrase}; give another folder"
        )


def find_partials(place: Path, ending: str = "") -> list[Path]:
    """Folders beside a place that were being built for it."""
    beside = _beside(place)
    start = sibling(place.name, ".partial-" + "0" * 8)[:-8]
    with os.scandir(beside) as entries:
        names = sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
    return [
        beside / name
        for name in names
        if name.startswith(start) and name.endswith(ending) and len(name) == len(start) + 8 + len(ending)
    ]


def drop_partial(folder: Path, lock: Lock) -> None:
    """Remove an unfinished folder; what is not ours in it stays, and a warning says so."""
    tell_kept(folder, remove_partial(folder, lock.draft))


def _remove_old(folder: Path, visible: Path, lock: Lock) -> None:
    """Remove a folder that was replaced; if that fails, the new one stands all the same.

    Where somebody else's files are in it, it stays, under a name that can be seen.
    """
    try:
        kept = remove_ours(folder, lock.draft)
        if kept:
            rename_new(folder, visible)
            tell_kept(visible, kept)
    except OSError as error:
        warnings.warn(
            f"{shown(folder)}, which was replaced, cannot be removed: {error.strerror}", stacklevel=2
        )


def standing(place: Path) -> Path:
    """Where a folder is to be read: at its place, or under the name that it has between two renames."""
    if place.exists() or not place.parent.is_dir():
        return place
    return next((one for one in find_partials(place, SPARE) if take_stock(one) is not None), place)


def settle(place: Path) -> None:
    """Put a folder back that a kill between two renames left without its name."""
    found = standing(place)
    if found != place:
        found.rename(place)


@dataclass(frozen=True)
class _Making:
    """How a folder is built: under which lock, whether to be taken up, and its record but for its name."""

    lock: Lock
    resumable: bool
    record: Mapping[str, Any]


@contextmanager
def _building(place: Path, kind: FolderKind, overwrite: bool, how: _Making) -> Generator[Building]:
    with explained(place):
        settle(place)
        if take_stock(place) is not None:
            _check_swappable(place)
        check_replaceable(place, kind, overwrite=overwrite)
        folder = _open_partial(place, kind, how)
    try:
        yield Building(place, folder, kind)
        with explained(place):
            if not overwrite:
                _keep_training(folder, place)
            _install(folder, place, how.lock)
    except BaseException:
        if is_partial(folder) and (not how.resumable or _is_bare(folder)):
            drop_partial(folder, how.lock)
        raise


def _open_partial(place: Path, kind: FolderKind, how: _Making) -> Path:
    """The folder to build in: one that a killed writer left, or a new one; what else is left goes."""
    taken: Path | None = None
    for found in filter(is_partial, find_partials(place)):
        record = read_sealed(found / PARTIAL) or {}
        same = all(record.get(name) == value for name, value in how.record.items())
        if how.resumable and taken is None and same:
            taken = found
        else:
            drop_partial(found, how.lock)
    if taken is not None:
        _tidy(taken, kind)
        return taken
    name = token_hex(4)
    folder = _beside(place) / sibling(place.name, f".partial-{name}")
    draft = folder.with_name(how.lock.draft.name)
    draft.mkdir()  # it has its name only when it has its record: a kill leaves nothing unknown
    write_sealed(draft / PARTIAL, {**how.record, "id": name})
    rename_new(draft, folder)
    return folder


def _tidy(folder: Path, kind: FolderKind) -> None:
    """Leave of an unfinished folder what can be taken up: no drafts, and of a run only its work."""
    for draft in folder.rglob(f".*{DRAFT}"):
        draft.unlink()
    if kind == RUN:
        for file in [path for path in folder.iterdir() if path.is_file() and path.name != PARTIAL]:
            file.unlink()


def _keep_training(folder: Path, place: Path) -> None:
    """Link what stands in a folder without a run, such as a training, into the run that takes its place."""
    stock = take_stock(place) if place.exists() else None
    if stock is None or not stock.is_bare_run:
        return
    unfinished = [path for draft in stock.drafts for path in draft.rglob("*") if path.is_file()]
    names = [file.relative_to(place).as_posix() for file in [*stock.files[:-1], *unfinished]]
    record = read_sealed(folder / PARTIAL) or {}
    write_sealed(folder / PARTIAL, {**record, "records": names})  # before they are there: a kill leaves them
    for name in names:
        new = folder / name
        new.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(place / name, new)


def _install(folder: Path, place: Path, lock: Lock) -> None:
    """Put a built folder in its place."""
    flush_tree(folder)
    if folder.parent == place:
        _move_in(folder, place, lock)
        return
    swap = lock.swap(folder.parent)  # whoever takes over the lock knows this name, and that it is ours
    lock.remember()
    rename_new(folder, swap)
    (swap / PARTIAL).unlink()
    flush(swap)
    if not place.exists():
        rename_new(swap, place)
    elif take_stock(place) is None:
        replace_empty(swap, place)
    else:
        swap.chmod(place.stat().st_mode & 0o7777)
        exchange(swap, place, folder.with_name(folder.name + SPARE))
        flush(place.parent)
        _remove_old(swap, folder, lock)
    flush(place.parent)


def _move_in(folder: Path, place: Path, lock: Lock) -> None:
    """Fill an empty folder that must keep its place; the manifest first, which says what is still to come."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name != MANIFEST):
        if entry.name != PARTIAL:
            rename_new(entry, place / entry.name)
    flush(place)
    remove_partial(folder, lock.draft)


def _beside(place: Path) -> Path:
    """Where lock and unfinished folder of a place stand: beside it, or inside if it cannot be renamed."""
    return place.parent if _can_be_renamed(place) else place


def _can_be_renamed(place: Path) -> bool:
    if not place.exists():
        return True
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        here = Path("/")
    return (
        not os.path.ismount(place)
        and place != here
        and place not in here.parents
        and os.access(place.parent, os.W_OK | os.X_OK)
    )


def _check_swappable(place: Path) -> None:
    if not _can_be_renamed(place):
        raise UnwritablePlace(
            f"{shown(place)} cannot be replaced as a whole (you are in it, or it is a mount, or the folder "
            "around it cannot be written); go elsewhere, or give another folder"
        )


def _is_bare(folder: Path) -> bool:
    return not any(path.is_file() for path in folder.rglob("*") if path.name != PARTIAL)
