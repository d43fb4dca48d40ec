"""Write a folder atomically: build it next to its target, flush it, swap it in, and remove the old one last.

Until the swap the old folder is untouched, and on Linux the swap is a single rename. So a command that fails
or is killed at any moment leaves either the old folder or the new one, and perhaps an unfinished folder next
to it, which the next writer resumes or removes. :func:`build_folder` is the entry. A folder has these names:

- ``NAME.partial-ID``, the *partial*: being built, with the record ``partial.json`` (:mod:`.partials`);
- the *draft*, a hidden name that the lock of the target names: about to be moved, or about to be removed;
- the *spare* (``.old``): the old folder, for a moment, on systems that cannot exchange two names at once.
"""

# A *run* is the folder of a learned automaton; its subfolder `training` (INNER) may contain the recorded
# *training* of a model. A *bare* run has a training only. A *sealed* record contains its own digest, which
# shows that attomaton wrote it; the *stock* of a folder lists our files in it, and all others.

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.base.artifacts import ownership
from attomaton.base.artifacts.files import entry_of, explained, list_first, show_path
from attomaton.base.artifacts.manifests import FORMAT, MANIFEST, FolderKind, read_sealed, write_sealed
from attomaton.base.artifacts.ownership import PARTIAL
from attomaton.base.artifacts.partials import drop_partial, open_partial, parent_of_partials
from attomaton.base.artifacts.systems import exchange_folders, flush, flush_tree, link_or_copy
from attomaton.base.errors import UnwritablePlace

PERMISSIONS = 0o7777  # the bits of a mode that chmod sets; the others are the kind of the file


@dataclass(frozen=True)
class Building:
    """A folder of this kind, built in ``folder`` to replace ``target``; every file in it is ours."""

    target: Path
    folder: Path
    kind: FolderKind

    def finish(
        self, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Write the manifest, which completes the folder: ``about``, and the entry of each file by name."""
        if files is None:  # then every file in the folder is listed
            present = sorted(path for path in self.folder.rglob("*") if path.is_file())
            files = self.digest_files(path for path in present if path.name not in (MANIFEST, PARTIAL))
        manifest = {**about, "kind": self.kind.name, "format": FORMAT, "files": dict(files)}
        write_sealed(self.folder / MANIFEST, manifest)
        return manifest

    def digest_files(self, files: Iterable[Path]) -> dict[str, dict[str, Any]]:
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
    """Build a folder and, if the block succeeds, move it to ``target``.

    ``files`` lists the names, or patterns (``NAME/*``), of all files that may be written except manifests and
    drafts; the next writer removes only these if this one is killed. A ``resumable`` writer continues the
    work of a killed one with the same ``kind``, ``files`` and ``about``. ``lock`` is the lock of the target,
    if the caller has it.
    """
    record = {"kind": kind.name, "about": dict(about or {}), "files": sorted(files)}
    target = resolve_target(target) if lock is None else Path(target)
    with lock_target(target) if lock is None else nullcontext(lock) as lock:
        with explained(target):
            _check_movable(target)
            check_replaceable(target, kind, overwrite=overwrite)
            partial = open_partial(target, kind, lock, record, resumable=resumable)
        try:
            yield Building(target, partial, kind)
            with explained(target):
                if not overwrite:
                    _keep_training(partial, target)
                _install(partial, target, lock)
        except BaseException:  # also Ctrl-C; a resumable folder with files is left for the next writer
            is_empty = not any(path.is_file() for path in partial.rglob("*") if path.name != PARTIAL)
            if ownership.is_partial(partial) and (is_empty or not resumable):
                drop_partial(partial, lock)
            raise


@contextmanager
def lock_target(target: Path) -> Generator[ownership.Lock]:
    """Lock a folder that :func:`resolve_target` returned; missing parents are created."""
    with ExitStack() as stack:
        with explained(target):
            # the deepest first, so that they can be removed in this order if they stay empty
            created = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
            target.parent.mkdir(parents=True, exist_ok=True)
            # the lock file is next to the target, or in it if its parent cannot be written
            in_parent = os.access(target.parent, os.W_OK | os.X_OK) or not target.exists()
            lock = stack.enter_context(ownership.locked(target, target.parent if in_parent else target))
        try:
            yield lock
        finally:
            stack.close()
            for folder in created:
                if not any(folder.iterdir()):
                    folder.rmdir()


def resolve_target(path: str | os.PathLike[str]) -> Path:
    """The folder to which a path leads, with links resolved; an error if it cannot be written."""
    if not os.fspath(path):
        raise UnwritablePlace("the path of the folder is empty; give the path of a folder")
    target = Path(os.path.realpath(path))
    with explained(target):
        if Path(path).is_symlink() and not target.exists():
            raise UnwritablePlace(f"{path} is a broken link; give the path of a folder")
        if target.exists() and not target.is_dir():
            raise UnwritablePlace(f"{path} is a file; give the path of a folder to write to")
        ownership.refuse_inside(target, path)
    return target


def check_replaceable(target: Path, kind: FolderKind, *, overwrite: bool) -> None:
    """Refuse a folder that may not be replaced by a folder of this kind."""
    if not target.exists():
        return
    stock = ownership.take_stock(target)
    if stock is None:
        _check_empty(target)
        return
    check_folder_kind(target, kind)
    if stock.foreign:
        raise UnwritablePlace(
            f"{show_path(target)} contains files that attomaton did not write "
            f"({list_first(stock.foreign)}); move them away, or give a new folder"
        )
    if overwrite or stock.is_bare_run:  # the training of a bare run is kept: see `_keep_training`
        return
    has_training = (target / ownership.INNER).exists()
    within = " and a training, which would be removed too" if has_training else ""
    raise UnwritablePlace(
        f"{show_path(target)} already contains {kind.phrase}{within}; give another folder, or replace it "
        "with --overwrite (in Python: overwrite=True)"
    )


# Refuse a folder with files, except unfinished folders and locks of ours.
def _check_empty(target: Path) -> None:
    names = sorted(entry.name for entry in target.iterdir() if not ownership.is_partial(entry))
    foreign = [name for name in names if not name.endswith(ownership.LOCK)]
    if foreign:
        raise UnwritablePlace(
            f"{show_path(target)} contains files ({list_first(foreign)}); give a new folder"
        )


def check_folder_kind(target: Path, kind: FolderKind) -> None:
    """Refuse a folder that attomaton wrote, but of another kind."""
    stock = ownership.take_stock(target)
    if stock is not None and stock.manifest["kind"] != kind.name:
        raise UnwritablePlace(
            f"{show_path(target)} is a folder of the kind {stock.manifest['kind']!r}, not {kind.phrase}; "
            "give another folder"
        )


# Refuse a folder of ours that would be replaced but cannot be renamed.
def _check_movable(target: Path) -> None:
    if ownership.take_stock(target) is not None and parent_of_partials(target) == target:
        raise UnwritablePlace(
            f"{show_path(target)} cannot be replaced, because it is your working directory, a mount point, "
            "or in a folder that cannot be written; change directory, or give another folder"
        )


# Link the training in a bare run into the folder that replaces the run; no other folder has one to keep.
def _keep_training(partial: Path, target: Path) -> None:
    stock = ownership.take_stock(target) if target.exists() else None
    if stock is None or not stock.is_bare_run:
        return
    unfinished = [path for folder in stock.unfinished for path in folder.rglob("*") if path.is_file()]
    names = [file.relative_to(target).as_posix() for file in [*stock.files, *unfinished]]
    names.remove(MANIFEST)  # the new folder has its own
    record = read_sealed(partial / PARTIAL) or {}
    # the names are recorded before the files exist, so that the next writer can remove them after a kill
    write_sealed(partial / PARTIAL, {**record, "records": names})
    for name in names:
        copy = partial / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(target / name, copy)


# Move a finished folder to its target, or, if that cannot be renamed, its entries.
def _install(partial: Path, target: Path, lock: ownership.Lock) -> None:
    flush_tree(partial)
    if partial.parent == target:  # the target cannot be renamed, so the folder was built in it
        _move_entries(partial, target)
        drop_partial(partial, lock)
        return
    draft = partial.with_name(lock.draft.name)  # the next owner of the lock removes a folder of this name
    partial.rename(draft)
    (draft / PARTIAL).unlink()
    flush(draft)
    if ownership.take_stock(target) is not None:
        draft.chmod(target.stat().st_mode & PERMISSIONS)
        exchange_folders(draft, target, ownership.spare_of(draft))
        replaced = draft  # after the exchange, the old folder has the name of the draft
        flush(target.parent)
        # files in it that are not ours stay, in a folder with the name of the partial
        ownership.remove_ours(replaced, partial)
    else:  # there is no folder, or an empty one
        if target.exists():
            target.rmdir()
        draft.rename(target)
    flush(target.parent)


def _move_entries(partial: Path, target: Path) -> None:  # the manifest last: it completes the folder
    for entry in sorted(partial.iterdir(), key=lambda path: path.name == MANIFEST):
        if entry.name != PARTIAL:
            entry.rename(target / entry.name)
    flush(target)
