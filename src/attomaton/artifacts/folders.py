"""A folder written whole: built beside its place, flushed, then swapped in; the old one goes last.

Until the swap the old folder is untouched, and the swap is one rename, so a command that fails or is killed
at any moment leaves the old folder or the new one. What it was building stays beside, as
``NAME.partial-<id>``, and is taken up or removed by the next writer.
"""

import os
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from attomaton.artifacts.files import DRAFT, digest_file, explained, flush, flush_tree, write_file
from attomaton.artifacts.locks import Lock, locked
from attomaton.artifacts.naming import shown, sibling
from attomaton.artifacts.ownership import PARTIAL, Stock, is_partial, remove_ours, remove_partial, take_stock
from attomaton.artifacts.renaming import SPARE, exchange, rename_new
from attomaton.artifacts.seals import FORMAT, MANIFEST, read_sealed, sealed_writer
from attomaton.errors import UnwritablePlace

KINDS = {
    "run": "a run",
    "training": "a training",
    "tokens": "a tokenised corpus",
    "tables": "exported tables",
    "figures": "figures",
    "experiment": "an experiment",
    "survey": "what scan-snap wrote",
}
"""Kinds of folders, as sentences name them."""


@dataclass(frozen=True)
class Building:
    """A folder that is being built.

    Attributes
    ----------
    target : Path
        Where it will stand.
    folder : Path
        Where it is built: all that is in here is ours.
    kind : str
        One of :data:`KINDS`.
    """

    target: Path
    folder: Path
    kind: str

    def finish(
        self, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Write the manifest, which makes the folder whole: ``about``, and the digest of every file.

        ``files`` are those whose digests are known; if not given, every file in the folder is listed.
        """
        listed = self._digest_files() if files is None else dict(files)
        record = {**about, "kind": self.kind, "format": FORMAT, "files": listed}
        write_file(self.folder / MANIFEST, sealed_writer(record))
        return record

    def _digest_files(self) -> dict[str, dict[str, Any]]:
        found = sorted(path for path in self.folder.rglob("*") if path.is_file())
        names = {path.relative_to(self.folder).as_posix(): path for path in found}
        return {
            name: {"sha256": digest_file(path), "bytes": path.stat().st_size}
            for name, path in names.items()
            if name not in (MANIFEST, PARTIAL)
        }


@contextmanager
def build_folder(
    target: str | os.PathLike[str],
    kind: str,
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
    kind : str
        One of :data:`KINDS`.
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
    if held is not None:
        with _building(Path(target), kind, overwrite, _Making(held, resumable, about or {})) as building:
            yield building
        return
    place = find_place(target)
    with (
        hold(place) as lock,
        _building(place, kind, overwrite, _Making(lock, resumable, about or {})) as building,
    ):
        yield building


@contextmanager
def hold(place: Path) -> Generator[Lock]:
    """Hold the lock of a folder that :func:`find_place` found."""
    with explained(place):
        new = [one for one in (place.parent, *place.parent.parents) if not one.exists()]
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = locked(place, _beside(place))
        held = lock.__enter__()
    try:
        yield held
    finally:
        lock.__exit__(None, None, None)
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
        around = [one for one in place.parents if read_sealed(one / MANIFEST) is not None]
    if around:
        raise UnwritablePlace(
            f"{target} is inside {shown(around[0])}, which attomaton wrote; choose another place"
        )
    return place


def check_replaceable(place: Path, kind: str, *, overwrite: bool) -> None:
    """Refuse a place where something stands that may not be replaced."""
    if not place.exists():
        return
    stock = take_stock(place)
    if stock is None:
        strangers = sorted(entry.name for entry in place.iterdir() if not is_partial(entry))
        strangers = [name for name in strangers if not name.endswith(".attomaton-lock")]
        if strangers:
            raise UnwritablePlace(f"{shown(place)} holds other files ({_few(strangers)}); give a new folder")
        return
    _check_kind(place, stock, kind)
    if stock.strangers:
        raise UnwritablePlace(
            f"{shown(place)} holds files that attomaton did not write ({_few(stock.strangers)}); move them "
            "away, or give a new folder"
        )
    if not overwrite and not stock.missing:
        raise UnwritablePlace(
            f"{shown(place)} holds {KINDS[kind]} already; give another folder, or replace it with "
            "--overwrite (in Python: overwrite=True)"
        )


def check_kind(place: Path, kind: str) -> None:
    """Refuse a folder of ours that is of another kind."""
    stock = take_stock(place)
    if stock is not None:
        _check_kind(place, stock, kind)


def _check_kind(place: Path, stock: Stock, kind: str) -> None:
    found = str(stock.manifest["kind"])
    if found != kind:
        raise UnwritablePlace(
            f"{shown(place)} holds {KINDS.get(found, found)}, not {KINDS[kind]}; give another folder"
        )


def find_partials(place: Path, ending: str = "") -> list[Path]:
    """Folders beside a place that were being built for it, or were replaced by what was."""
    beside = _beside(place)
    start = sibling(place.name, ".partial-" + "0" * 8)[:-8]
    with os.scandir(beside) as entries:
        names = sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
    return [
        beside / name
        for name in names
        if name.startswith(start) and name.endswith(ending) and len(name) == len(start) + 8 + len(ending)
    ]


def remove_replaced(place: Path, lock: Lock) -> None:
    """Remove what a killed writer had replaced and did not come to remove."""
    for found in [*find_partials(place), *find_partials(place, SPARE)]:
        if not is_partial(found) and take_stock(found) is not None:
            _tell_kept(found, remove_ours(found, lock.draft))


def settle(place: Path) -> None:
    """Put a folder back that a kill between two renames left without its name."""
    if place.exists() or not place.parent.is_dir():
        return
    for spare in find_partials(place, SPARE):
        if take_stock(spare) is not None:
            spare.rename(place)
            return


@dataclass(frozen=True)
class _Making:
    """How a folder is built: under which lock, whether to be taken up, and what its record notes."""

    lock: Lock
    resumable: bool
    about: Mapping[str, Any]


@contextmanager
def _building(place: Path, kind: str, overwrite: bool, how: _Making) -> Generator[Building]:
    with explained(place):
        settle(place)
        if take_stock(place) is not None:
            _check_swappable(place)
        check_replaceable(place, kind, overwrite=overwrite)
        folder = _open_partial(place, kind, how)
    try:
        yield Building(place, folder, kind)
        with explained(place):
            _install(folder, place, how.lock)
    except BaseException:
        if is_partial(folder) and (not how.resumable or _is_bare(folder)):
            remove_partial(folder, how.lock.draft)
        raise


def _open_partial(place: Path, kind: str, how: _Making) -> Path:
    """The folder to build in: one that a killed writer left, or a new one; what else is left goes."""
    taken: Path | None = None
    remove_replaced(place, how.lock)
    for found in filter(is_partial, find_partials(place)):
        record = read_sealed(found / PARTIAL) or {}
        if how.resumable and taken is None and (record["kind"], record["about"]) == (kind, dict(how.about)):
            taken = found
        else:
            remove_partial(found, how.lock.draft)
    if taken is not None:
        for draft in taken.rglob(f".*{DRAFT}"):
            draft.unlink()
        return taken
    name = token_hex(4)
    folder = _beside(place) / sibling(place.name, f".partial-{name}")
    how.lock.draft.mkdir()  # it has its name only when it has its record: a kill leaves nothing unknown
    write_file(how.lock.draft / PARTIAL, sealed_writer({"kind": kind, "id": name, "about": dict(how.about)}))
    rename_new(how.lock.draft, folder)
    return folder


def _install(folder: Path, place: Path, lock: Lock) -> None:
    """Put a built folder in its place."""
    flush_tree(folder)
    if folder.parent == place:
        _move_in(folder, place, lock)
        return
    (folder / PARTIAL).unlink()
    flush(folder)
    if not place.exists():
        rename_new(folder, place)
    elif take_stock(place) is None:
        folder.rename(place)  # which must be empty
    else:
        exchange(folder, place)
        flush(place.parent)
        _tell_kept(folder, remove_ours(folder, lock.draft))
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
    here = Path.cwd()
    return (
        not place.is_mount()
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


def _tell_kept(folder: Path, names: list[str]) -> None:
    if names:
        warnings.warn(
            f"{shown(folder)} holds files that attomaton did not write ({_few(names)}); they were left there",
            stacklevel=2,
        )


def _few(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3:,} more"
