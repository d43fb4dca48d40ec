"""A folder written atomically: built next to its target, flushed, swapped in; the old one is removed last.

Until the swap the old folder is untouched, and on Linux the swap is one rename, so a command that fails or is
killed at any moment leaves either the old folder or the new one. The unfinished folder stays next to it, as
``NAME.partial-<id>``; the next writer resumes or removes it.
"""

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from secrets import token_hex
from typing import Any

from attomaton.base.artifacts import ownership
from attomaton.base.artifacts.files import (
    DRAFT,
    entry_of,
    exchange,
    explained,
    few,
    flush,
    flush_tree,
    link_or_copy,
    show_path,
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
        Names of all files that the folder may hold while it is built, except manifests and drafts, or
        patterns of these (``fnmatch``: ``NAME/*`` is everything in a folder). If the writer is killed, the
        next writer removes these and nothing else.
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
            if ownership.take_stock(target) is not None and _parent_of_partials(target) == target:
                raise UnwritablePlace(
                    f"{show_path(target)} cannot be replaced as a whole (it is your working directory, a "
                    "mount point, or its parent cannot be written); change directory, or give another folder"
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
            in_parent = os.access(target.parent, os.W_OK | os.X_OK) or not target.exists()
            lock = stack.enter_context(ownership.locked(target, target.parent if in_parent else target))
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
            raise UnwritablePlace(
                f"{show_path(target)} holds other files ({few(strangers)}); give a new folder"
            )
        return
    check_folder_kind(target, kind)
    if stock.strangers:
        raise UnwritablePlace(
            f"{show_path(target)} holds files that attomaton did not write ({few(stock.strangers)}); move "
            "them away, or give a new folder"
        )
    if overwrite or stock.is_bare_run:
        return
    has_training = (target / ownership.INNER).exists()
    within = " with a training run in it, which would be removed too" if has_training else ""
    raise UnwritablePlace(
        f"{show_path(target)} already holds {kind.phrase}{within}; give another folder, or replace it with "
        "--overwrite (in Python: overwrite=True)"
    )


def check_folder_kind(target: Path, kind: FolderKind) -> None:
    """Refuse a folder of ours that is of another kind."""
    stock = ownership.take_stock(target)
    if stock is not None and stock.manifest["kind"] != kind.name:
        raise UnwritablePlace(
            f"{show_path(target)} holds files of the kind {stock.manifest['kind']!r}, not {kind.phrase}; "
            "give another folder"
        )


def find_partials(target: Path) -> list[Path]:
    """Folders beside a place that have names of folders that are built for it."""
    pattern = escape(sibling(target.name, ".partial-" + "?" * ID_DIGITS)[:-ID_DIGITS]) + "?" * ID_DIGITS
    partials = (path for path in _parent_of_partials(target).glob(pattern) if not path.is_symlink())
    return sorted(path for path in partials if path.is_dir())


def drop_partial(folder: Path, lock: ownership.Lock) -> None:
    """Remove an unfinished folder; files that are not ours stay, and a warning says so."""
    draft = folder.with_name(lock.draft.name)
    folder.rename(draft)  # the next writer knows this name, whatever is left there
    ownership.remove_ours(draft, folder)


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
    draft.rename(folder)
    return folder


def _keep_training(folder: Path, target: Path) -> None:
    """Link what stands in a folder without a run, such as a training, into the run that takes its place."""
    stock = ownership.take_stock(target) if target.exists() else None
    if stock is None or not stock.is_bare_run:
        return
    unfinished = [path for draft in stock.drafts for path in draft.rglob("*") if path.is_file()]
    names = [file.relative_to(target).as_posix() for file in [*stock.files, *unfinished]]
    names.remove(MANIFEST)
    record = read_sealed(folder / ownership.PARTIAL) or {}
    # before they are there: a kill leaves them
    write_sealed(folder / ownership.PARTIAL, {**record, "records": names})
    for name in names:
        new = folder / name
        new.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(target / name, new)


def _install(folder: Path, target: Path, lock: ownership.Lock) -> None:
    flush_tree(folder)
    if folder.parent == target:  # an empty folder that must keep its place; the manifest is moved last
        for entry in sorted(folder.iterdir(), key=lambda path: path.name == MANIFEST):
            if entry.name != ownership.PARTIAL:
                entry.rename(target / entry.name)
        flush(target)
        drop_partial(folder, lock)
        return
    draft = folder.with_name(lock.draft.name)  # the next owner of the lock knows this name
    folder.rename(draft)
    (draft / ownership.PARTIAL).unlink()
    flush(draft)
    if ownership.take_stock(target) is not None:
        draft.chmod(target.stat().st_mode & 0o7777)
        exchange(draft, target, ownership.spare_of(draft))
        flush(target.parent)
        ownership.remove_ours(draft, folder)
    else:
        if target.exists():
            target.rmdir()
        draft.rename(target)
    flush(target.parent)


def _parent_of_partials(target: Path) -> Path:
    """Where a folder is built: beside its target, or in a target that cannot be renamed.

    A mount cannot, nor a folder around the working directory, nor one whose parent cannot be written.
    """
    if not target.exists():
        return target.parent
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        here = Path("/")
    is_fixed = os.path.ismount(target) or here.is_relative_to(target)
    return target.parent if not is_fixed and os.access(target.parent, os.W_OK | os.X_OK) else target
