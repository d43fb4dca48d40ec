"""A folder written atomically: built next to its target, flushed, swapped in; the old one is removed last.

Until the swap the old folder is untouched, and the swap is one rename, so a command that fails or is killed
at any moment leaves either the old folder or the new one. The unfinished folder stays next to it, as
``NAME.partial-<id>``; the next writer resumes or removes it.
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
    """A folder of this kind, being built for ``target`` in ``folder``, where every file is ours."""

    target: Path
    folder: Path
    kind: FolderKind

    def finish(
        self, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Write the manifest, which completes the folder: ``about``, and the digest of every file.

        ``files`` are those with known digests; by default every file in the folder is listed.
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
        """Digest and size of files in the folder, by their names relative to it."""
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
    """Build a folder and, if that succeeds, put it at ``target``, replacing an old one that attomaton wrote.

    Parameters
    ----------
    target : path
        A new or empty folder, or one that attomaton wrote, of the same kind.
    kind : FolderKind
        The kind of folder to build.
    files : iterable of str
        Names of all files that the folder may hold while it is built, except manifests and drafts; ``#``
        stands for one digit, and ``NAME/**`` for everything in a folder. If the writer is killed, the next
        writer removes these and nothing else.
    overwrite : bool
        Whether to replace a finished folder that attomaton wrote.
    resumable : bool
        Resume what a killed writer left, and keep the finished parts if this one fails.
    held : Lock, optional
        The lock of the target, if the caller already holds it.
    about : mapping, optional
        Extra entries for the record of the unfinished folder.
    """
    record = {"kind": kind.name, "about": dict(about or {}), "files": sorted(files)}
    place = find_place(target) if held is None else Path(target)
    with hold(place) if held is None else nullcontext(held) as lock:
        with explained(place):
            settle(place)
            if ownership.take_stock(place) is not None and not _can_be_renamed(place):
                raise UnwritablePlace(
                    f"{shown(place)} cannot be replaced as a whole (it is your working directory, or a mount "
                    "point, or its parent cannot be written); change directory, or give another folder"
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
        for folder in new:  # created in vain
            if not any(folder.iterdir()):
                folder.rmdir()


def find_place(target: str | os.PathLike[str]) -> Path:
    """Resolve a path to a folder; links are followed, a broken link is refused."""
    if not os.fspath(target):
        raise UnwritablePlace("the path of the folder is empty; give a name")
    place = Path(os.path.realpath(target))
    with explained(place):
        if Path(target).is_symlink() and not place.exists():
            raise UnwritablePlace(f"{target} is a broken link; give the path of a folder")
        if place.exists() and not place.is_dir():
            raise UnwritablePlace(f"{target} is a file; give the path of a folder to write to")
        ownership.refuse_inside(place, target)
    return place


def check_replaceable(place: Path, kind: FolderKind, *, overwrite: bool) -> None:
    """Refuse a target that holds something that must not be replaced."""
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
            "elsewhere, or give a new folder"
        )
    trained = (place / ownership.INNER).exists()
    inside = [path.name for path in stock.drafts if path.parent == place]
    moving = not trained and any(name.startswith(f"{place.name}.partial-") for name in inside)
    if not overwrite and not stock.is_bare_run and not (stock.missing and moving):  # a killed writer's moves
        within = " with a training run in it, which would be removed too" if trained else ""
        raise UnwritablePlace(
            f"{shown(place)} already holds {kind.phrase}{within}; give another folder, or replace it with "
            "--overwrite (in Python: overwrite=True)"
        )


def check_kind(place: Path, kind: FolderKind) -> None:
    """Refuse a folder that attomaton wrote but that is of another kind."""
    stock = ownership.take_stock(place)
    if stock is not None and stock.manifest["kind"] != kind.name:
        raise UnwritablePlace(
            f"{shown(place)} holds files of the kind {stock.manifest['kind']!r}, not {kind.phrase}; give "
            "another folder"
        )


def find_partials(place: Path, ending: str = "") -> list[Path]:
    """Unfinished folders next to a target that were being built for it."""
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
    """Remove an unfinished folder; files that are not ours stay, and a warning says so."""
    ownership.tell_kept(folder, ownership.remove_partial(folder, lock.draft))


def _remove_old(folder: Path, visible: Path, lock: ownership.Lock) -> None:
    """Remove a folder that was replaced; if that fails, the new one is still in place.

    If it holds files that are not ours, it stays, under a visible name.
    """
    try:
        kept = ownership.remove_ours(folder, lock.draft)
        if kept:
            rename_new(folder, visible)
            ownership.tell_kept(visible, kept)
    except OSError as error:
        warnings.warn(f"{shown(folder)} was replaced but cannot be removed: {error.strerror}", stacklevel=2)


def standing(place: Path) -> Path:
    """Where to read a folder: at its own path, or under the name that it has between two renames."""
    if place.exists() or not place.parent.is_dir():
        return place
    return next(
        (path for path in find_partials(place, SPARE) if ownership.take_stock(path) is not None), place
    )


def settle(place: Path) -> None:
    """Restore the name of a folder whose writer was killed between two renames."""
    actual = standing(place)
    if actual != place:
        actual.rename(place)


def _open_partial(
    place: Path, kind: FolderKind, lock: ownership.Lock, record: Mapping[str, Any], *, resumable: bool
) -> Path:
    """The folder to build in: one that a killed writer left, or a new one; other leftovers are removed.

    Drafts are removed from an unfinished folder, and everything except its work from a run.
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
    draft.mkdir()  # renamed only once it has its record, so that a kill leaves nothing unidentified
    write_sealed(draft / ownership.PARTIAL, {**record, "id": name})
    rename_new(draft, folder)
    return folder


def _keep_training(folder: Path, place: Path) -> None:
    """Link the content of a folder without a run, such as a training, into the run that replaces it."""
    stock = ownership.take_stock(place) if place.exists() else None
    if stock is None or not stock.is_bare_run:
        return
    unfinished = [path for draft in stock.drafts for path in draft.rglob("*") if path.is_file()]
    names = [file.relative_to(place).as_posix() for file in [*stock.files[:-1], *unfinished]]
    record = read_sealed(folder / ownership.PARTIAL) or {}
    write_sealed(
        folder / ownership.PARTIAL, {**record, "records": names}
    )  # before they are moved: a kill leaves them
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
    swap = lock.swap(folder.parent)  # the next owner of the lock knows this name, and that it is ours
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
    """Fill an empty folder that cannot be replaced; the manifest goes first and lists the files to come."""
    for entry in sorted(folder.iterdir(), key=lambda path: path.name != MANIFEST):
        if entry.name != ownership.PARTIAL:
            rename_new(entry, place / entry.name)
    flush(place)
    ownership.remove_partial(folder, lock.draft)


def _beside(place: Path) -> Path:
    """Where the lock and unfinished folder of a target go: next to it, or inside if it cannot be renamed."""
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
