"""A folder written whole: built beside its place, flushed, then swapped in; the old one goes last.

Until the swap the old folder is untouched, and the swap is one rename, so a command that fails or is killed
at any moment leaves the old folder or the new one. What it was building stays beside, as
``NAME.partial-<id>``, and is taken up or removed by the next writer.
"""

import os
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from attomaton.base.artifacts import ownership
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
from attomaton.base.errors import UnwritablePlace


@dataclass(frozen=True)
class Building:
    """A folder of this kind that is being built in ``folder``, where everything is ours, for ``target``."""

    target: Path
    folder: Path
    kind: FolderKind

    def finish(
        self, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Write the manifest, which makes the folder whole: ``about``, and the digest of every file.

        ``files`` are those whose digests are known; if not given, every file in the folder is listed.
        """
        if files is None:
            written = sorted(path for path in self.folder.rglob("*") if path.is_file())
            files = self.digest_files(
                path for path in written if path.name not in (MANIFEST, ownership.PARTIAL)
            )
        record = {**about, "kind": self.kind.name, "format": FORMAT, "files": dict(files)}
        write_sealed(self.folder / MANIFEST, record)
        return record

    def digest_files(self, files: Iterable[Path]) -> dict[str, dict[str, Any]]:
        """Digest and size of files in the folder, by their names from there."""
        return {path.relative_to(self.folder).as_posix(): entry_of(path) for path in files}


@contextmanager
def build_folder(
    target: str | os.PathLike[str],
    kind: FolderKind,
    files: Iterable[str],
    *,
    overwrite: bool,
    resumable: bool = False,
    held: ownership.Lock | None = None,
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
        The lock of the target, if the caller has it already.
    about : mapping, optional
        What to note in the record of the unfinished folder.
    """
    record = {"kind": kind.name, "about": dict(about or {}), "files": sorted(files)}
    place = find_place(target) if held is None else Path(target)
    with hold(place) if held is None else nullcontext(held) as lock:
        with explained(place):
            settle(place)
            if ownership.take_stock(place) is not None and not _can_be_renamed(place):
                raise UnwritablePlace(
                    f"{shown(place)} cannot be replaced as a whole (you are in it, or it is a mount, or the "
                    "folder around it cannot be written); go elsewhere, or give another folder"
                )
            check_replaceable(place, kind, overwrite=overwrite)
            folder = _open_partial(place, kind, lock, record, resumable=resumable)
        try:
            yield Building(place, folder, kind)
            with explained(place):
                if not overwrite:
                    _keep_training(folder, place)
                _install(folder, place, lock)
        except BaseException:
            bare = not any(path.is_file() for path in folder.rglob("*") if path.name != ownership.PARTIAL)
            if ownership.is_partial(folder) and (bare or not resumable):
                drop_partial(folder, lock)
            raise


@contextmanager
def hold(place: Path) -> Generator[ownership.Lock]:
    """Hold the lock of a folder that :func:`find_place` found."""
    with explained(place):
        new = [folder for folder in (place.parent, *place.parent.parents) if not folder.exists()]
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = os.access(place.parent, os.W_OK | os.X_OK) or not place.exists()
        guard = ownership.locked(place, place.parent if beside else place)
        lock = guard.__enter__()
    try:
        yield lock
    finally:
        guard.__exit__(None, None, None)
        for folder in new:  # made for nothing
            if not any(folder.iterdir()):
                folder.rmdir()


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
        ownership.refuse_inside(place, target)
    return place


def check_replaceable(place: Path, kind: FolderKind, *, overwrite: bool) -> None:
    """Refuse a place where something stands that may not be replaced."""
    if not place.exists():
        return
    stock = ownership.take_stock(place)
    if stock is None:
        strangers = sorted(entry.name for entry in place.iterdir() if not ownership.is_partial(entry))
        strangers = [name for name in strangers if not name.endswith(".attomaton-lock")]
        if strangers:
            raise UnwritablePlace(f"{shown(place)} holds other files ({few(strangers)}); give a new folder")
        return
    check_kind(place, kind)
    if stock.strangers:
        raise UnwritablePlace(
            f"{shown(place)} holds files that attomaton did not write ({few(stock.strangers)}); move them "
            "away, or give a new folder"
        )
    trained = (place / ownership.INNER).exists()
    inside = [path.name for path in stock.drafts if path.parent == place]
    moving = not trained and any(name.startswith(f"{place.name}.partial-") for name in inside)
    if not overwrite and not stock.is_bare_run and not (stock.missing and moving):  # a killed writer's moves
        within = " with a training in it, which would be removed, too" if trained else ""
        raise UnwritablePlace(
            f"{shown(place)} holds {kind.phrase} already{within}; give another folder, or replace it with "
            "--overwrite (in Python: overwrite=True)"
        )


def check_kind(place: Path, kind: FolderKind) -> None:
    """Refuse a folder of ours that is of another kind."""
    stock = ownership.take_stock(place)
    if stock is not None and stock.manifest["kind"] != kind.name:
        raise UnwritablePlace(
            f"{shown(place)} holds files of the kind {stock.manifest['kind']!r}, not {kind.phrase}; give "
            "another folder"
        )


def find_partials(place: Path, ending: str = "") -> list[Path]:
    """Folders beside a place that were being built for it."""
    beside = _beside(place)
    start = sibling(place.name, ".partial-" + "0" * 8)[:-8]
    with os.scandir(beside) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return [
        beside / name
        for name in names
        if name.startswith(start) and name.endswith(ending) and len(name) == len(start) + 8 + len(ending)
    ]


def drop_partial(folder: Path, lock: ownership.Lock) -> None:
    """Remove an unfinished folder; what is not ours in it stays, and a warning says so."""
    ownership.tell_kept(folder, ownership.remove_partial(folder, lock.draft))


def _remove_old(folder: Path, visible: Path, lock: ownership.Lock) -> None:
    """Remove a folder that was replaced; if that fails, the new one stands all the same.

    Where somebody else's files are in it, it stays, under a name that can be seen.
    """
    try:
        kept = ownership.remove_ours(folder, lock.draft)
        if kept:
            rename_new(folder, visible)
            ownership.tell_kept(visible, kept)
    except OSError as error:
        warnings.warn(
            f"{shown(folder)}, which was replaced, cannot be removed: {error.strerror}", stacklevel=2
        )


def standing(place: Path) -> Path:
    """Where a folder is to be read: at its place, or under the name that it has between two renames."""
    if place.exists() or not place.parent.is_dir():
        return place
    return next(
        (path for path in find_partials(place, SPARE) if ownership.take_stock(path) is not None), place
    )


def settle(place: Path) -> None:
    """Put a folder back that a kill between two renames left without its name."""
    actual = standing(place)
    if actual != place:
        actual.rename(place)


def _open_partial(
    place: Path, kind: FolderKind, lock: ownership.Lock, record: Mapping[str, Any], *, resumable: bool
) -> Path:
    """The folder to build in: one that a killed writer left, or a new one; what else is left goes.

    Of an unfinished folder the drafts go, and of a run all but its work.
    """
    earlier: Path | None = None
    for partial in filter(ownership.is_partial, find_partials(place)):
        own = read_sealed(partial / ownership.PARTIAL) or {}
        same = all(own.get(name) == value for name, value in record.items())
        if resumable and earlier is None and same:
            earlier = partial
        else:
            drop_partial(partial, lock)
    if earlier is not None:
        for draft in earlier.rglob(f".*{DRAFT}"):
            draft.unlink()
        for file in list(earlier.iterdir()) if kind == RUN else ():
            if file.is_file() and file.name != ownership.PARTIAL:
                file.unlink()
        return earlier
    name = token_hex(4)
    folder = _beside(place) / sibling(place.name, f".partial-{name}")
    draft = folder.with_name(lock.draft.name)
    draft.mkdir()  # it has its name only when it has its record: a kill leaves nothing unknown
    write_sealed(draft / ownership.PARTIAL, {**record, "id": name})
    rename_new(draft, folder)
    return folder


def _keep_training(folder: Path, place: Path) -> None:
    """Link what stands in a folder without a run, such as a training, into the run that takes its place."""
    stock = ownership.take_stock(place) if place.exists() else None
    if stock is None or not stock.is_bare_run:
        return
    unfinished = [path for draft in stock.drafts for path in draft.rglob("*") if path.is_file()]
    names = [file.relative_to(place).as_posix() for file in [*stock.files[:-1], *unfinished]]
    record = read_sealed(folder / ownership.PARTIAL) or {}
    write_sealed(
        folder / ownership.PARTIAL, {**record, "records": names}
    )  # before they are there: a kill leaves them
    for name in names:
        new = folder / name
        new.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(place / name, new)


def _install(folder: Path, place: Path, lock: ownership.Lock) -> None:
    """Put a built folder in its place."""
    flush_tree(folder)
    if folder.parent == place:
        _move_in(folder, place, lock)
        return
    swap = lock.swap(folder.parent)  # whoever takes over the lock knows this name, and that it is ours
    lock.remember()
    rename_new(folder, swap)
    (swap / ownership.PARTIAL).unlink()
    flush(swap)
    if not place.exists():
        rename_new(swap, place)
    elif ownership.take_stock(place) is None:
        replace_empty(swap, place)
    else:
        swap.chmod(place.stat().st_mode & 0o7777)
        exchange(swap, place, folder.with_name(folder.name + SPARE))
        flush(place.parent)
        _remove_old(swap, folder, lock)
    flush(place.parent)


def _move_in(folder: Path, place: Path, lock: ownership.Lock) -> None:
    """Fill an empty folder that must keep its place; the manifest first, which says what is still to come."""
    for entry in sorted(folder.iterdir(), key=lambda path: path.name != MANIFEST):
        if entry.name != ownership.PARTIAL:
            rename_new(entry, place / entry.name)
    flush(place)
    ownership.remove_partial(folder, lock.draft)


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
