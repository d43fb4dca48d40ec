"""A folder written atomically: built next to its target, flushed, swapped in; the old one is removed last.

Until the swap the old folder is untouched, and the swap is one rename, so a command that fails or is killed
at any moment leaves either the old folder or the new one. The unfinished folder stays next to it, as
``NAME.partial-<id>``; the next writer resumes or removes it.
"""

import os
import re
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
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

ID_DIGITS = 8  # of the random id that ends the name of an unfinished folder


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
    lock: ownership.Lock | None = None,
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
        Take up what a killed writer left, and leave what was done if this one fails.
    lock : Lock, optional
        The lock of the target, if the caller has it already.
    about : mapping, optional
        Extra entries for the record of the unfinished folder.
    """
    record = {"kind": kind.name, "about": dict(about or {}), "files": sorted(files)}
    target = resolve_target(target) if lock is None else Path(target)
    with lock_target(target) if lock is None else nullcontext(lock) as lock:
        with explained(target):
            restore_spare(target)
            if ownership.take_stock(target) is not None and not _can_be_renamed(target):
                raise UnwritablePlace(
                    f"{shown(target)} cannot be replaced as a whole (it is your working directory, a mount "
                    "point, or its parent cannot be written); change directory, or give another folder"
                )
            check_replaceable(target, kind, overwrite=overwrite)
            folder = _open_partial(target, kind, lock, record, resumable=resumable)
        try:
            yield Building(target, folder, kind)
            with explained(target):
                if not overwrite:
                    _keep_training(folder, target)
                _install(folder, target, lock)
        except BaseException:
            is_empty = not any(path.is_file() for path in folder.rglob("*") if path.name != ownership.PARTIAL)
            if ownership.is_partial(folder) and (is_empty or not resumable):
                drop_partial(folder, lock)
            raise


@contextmanager
def lock_target(target: Path) -> Generator[ownership.Lock]:
    """Hold the lock of a folder that :func:`resolve_target` found."""
    with ExitStack() as stack:
        with explained(target):
            new = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
            target.parent.mkdir(parents=True, exist_ok=True)
            beside = os.access(target.parent, os.W_OK | os.X_OK) or not target.exists()
            lock = stack.enter_context(ownership.locked(target, target.parent if beside else target))
        try:
            yield lock
        finally:
            stack.close()
            for folder in new:  # made for nothing
                if not any(folder.iterdir()):
                    folder.rmdir()


def resolve_target(path: str | os.PathLike[str]) -> Path:
    """The folder that a path means; links on the way are followed, a link to nothing is refused."""
    if not os.fspath(path):
        raise UnwritablePlace("the path of the folder is empty; give a name")
    target = Path(os.path.realpath(path))
    with explained(target):
        if Path(path).is_symlink() and not target.exists():
            raise UnwritablePlace(f"{path} is a broken link; give the path of a folder")
        if target.exists() and not target.is_dir():
            raise UnwritablePlace(f"{path} is a file; give the path of a folder to write to")
        ownership.refuse_inside(target, path)
    return target


def check_replaceable(target: Path, kind: FolderKind, *, overwrite: bool) -> None:
    """Refuse a place where something stands that may not be replaced."""
    if not target.exists():
        return
    stock = ownership.take_stock(target)
    if stock is None:
        strangers = sorted(entry.name for entry in target.iterdir() if not ownership.is_partial(entry))
        strangers = [name for name in strangers if not name.endswith(ownership.LOCK)]
        if strangers:
            raise UnwritablePlace(f"{shown(target)} holds other files ({few(strangers)}); give a new folder")
        return
    check_kind(target, kind)
    if stock.strangers:
        raise UnwritablePlace(
            f"{shown(target)} holds files that attomaton did not write ({few(stock.strangers)}); move them "
            "away, or give a new folder"
        )
    has_training = (target / ownership.INNER).exists()
    moves = [path for path in stock.drafts if path.parent == target]
    moves = [path for path in moves if path.name.startswith(f"{target.name}.partial-")]
    was_cut_short = stock.missing and not has_training and bool(moves)  # a writer was killed in _move_in
    if overwrite or stock.is_bare_run or was_cut_short:
        return
    within = " with a training run in it, which would be removed too" if has_training else ""
    raise UnwritablePlace(
        f"{shown(target)} already holds {kind.phrase}{within}; give another folder, or replace it with "
        "--overwrite (in Python: overwrite=True)"
    )


def check_kind(target: Path, kind: FolderKind) -> None:
    """Refuse a folder of ours that is of another kind."""
    stock = ownership.take_stock(target)
    if stock is not None and stock.manifest["kind"] != kind.name:
        raise UnwritablePlace(
            f"{shown(target)} holds files of the kind {stock.manifest['kind']!r}, not {kind.phrase}; give "
            "another folder"
        )


def find_partials(target: Path, ending: str = "") -> list[Path]:
    """Folders beside a place that were being built for it."""
    parent = _parent_of_partials(target)
    start = sibling(target.name, ".partial-" + "0" * ID_DIGITS)[:-ID_DIGITS]
    partial = re.compile(f"{re.escape(start)}.{{{ID_DIGITS}}}{re.escape(ending)}", re.DOTALL)
    with os.scandir(parent) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return [parent / name for name in names if partial.fullmatch(name)]


def drop_partial(folder: Path, lock: ownership.Lock) -> None:
    """Remove an unfinished folder; files that are not ours stay, and a warning says so."""
    ownership.tell_kept(folder, ownership.remove_partial(folder, lock.draft))


def _remove_old(folder: Path, visible: Path, lock: ownership.Lock) -> None:
    """Remove a folder that was replaced; if that fails, the new one is still in place.

    If it holds files that are not ours, it stays, under a visible name.
    """
    try:
        strangers = ownership.remove_ours(folder, lock.draft)
        if strangers:
            rename_new(folder, visible)
            ownership.tell_kept(visible, strangers)
    except OSError as error:
        warnings.warn(f"{shown(folder)} was replaced but cannot be removed: {error.strerror}", stacklevel=2)


def find_current(target: Path) -> Path:
    """Where a folder is to be read: at its place, or under the name that it has between two renames."""
    if target.exists() or not target.parent.is_dir():
        return target
    return next(
        (path for path in find_partials(target, SPARE) if ownership.take_stock(path) is not None), target
    )


def restore_spare(target: Path) -> None:
    """Put a folder back that a kill between two renames left without its name."""
    current = find_current(target)
    if current != target:
        current.rename(target)


def _open_partial(
    target: Path, kind: FolderKind, lock: ownership.Lock, record: Mapping[str, Any], *, resumable: bool
) -> Path:
    """The folder to build in: one that a killed writer left, or a new one; other leftovers are removed.

    Drafts are removed from an unfinished folder, and everything except its work from a run.
    """
    earlier: Path | None = None
    for partial in filter(ownership.is_partial, find_partials(target)):
        earlier_record = read_sealed(partial / ownership.PARTIAL) or {}
        is_same = all(earlier_record.get(name) == value for name, value in record.items())
        if resumable and earlier is None and is_same:
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
    unique = token_hex(ID_DIGITS // 2)
    folder = _parent_of_partials(target) / sibling(target.name, f".partial-{unique}")
    draft = folder.with_name(lock.draft.name)
    draft.mkdir()  # it has its name only when it has its record: a kill leaves nothing unknown
    write_sealed(draft / ownership.PARTIAL, {**record, "id": unique})
    rename_new(draft, folder)
    return folder


def _keep_training(folder: Path, target: Path) -> None:
    """Link what stands in a folder without a run, such as a training, into the run that takes its place."""
    stock = ownership.take_stock(target) if target.exists() else None
    if stock is None or not stock.is_bare_run:
        return
    unfinished = [path for draft in stock.drafts for path in draft.rglob("*") if path.is_file()]
    listed = stock.files[:-1]  # all but the manifest
    names = [file.relative_to(target).as_posix() for file in [*listed, *unfinished]]
    record = read_sealed(folder / ownership.PARTIAL) or {}
    # before they are there: a kill leaves them
    write_sealed(folder / ownership.PARTIAL, {**record, "records": names})
    for name in names:
        new = folder / name
        new.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(target / name, new)


def _install(folder: Path, target: Path, lock: ownership.Lock) -> None:
    """Put a built folder in its place."""
    flush_tree(folder)
    if folder.parent == target:
        _move_in(folder, target, lock)
        return
    swap = lock.swap(folder.parent)  # the next owner of the lock knows this name, and that it is ours
    lock.remember()
    rename_new(folder, swap)
    (swap / ownership.PARTIAL).unlink()
    flush(swap)
    if not target.exists():
        rename_new(swap, target)
    elif ownership.take_stock(target) is None:
        replace_empty(swap, target)
    else:
        swap.chmod(target.stat().st_mode & 0o7777)
        exchange(swap, target, folder.with_name(folder.name + SPARE))
        flush(target.parent)
        _remove_old(swap, folder, lock)
    flush(target.parent)


def _move_in(folder: Path, target: Path, lock: ownership.Lock) -> None:
    """Fill an empty folder that must keep its place; the manifest first, which says what is still to come."""
    for entry in sorted(folder.iterdir(), key=lambda path: path.name != MANIFEST):
        if entry.name != ownership.PARTIAL:
            rename_new(entry, target / entry.name)
    flush(target)
    ownership.remove_partial(folder, lock.draft)


def _parent_of_partials(target: Path) -> Path:
    """Where unfinished folders of a target stand: beside it, or inside if it cannot be renamed."""
    return target.parent if _can_be_renamed(target) else target


def _can_be_renamed(target: Path) -> bool:
    """Whether a folder could be swapped: no mount, not around us, and its parent can be written."""
    if not target.exists():
        return True
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        here = Path("/")
    return (
        not os.path.ismount(target)
        and target != here
        and target not in here.parents
        and os.access(target.parent, os.W_OK | os.X_OK)
    )
