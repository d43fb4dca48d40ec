"""Ownership of a path: which files of a folder are ours, and which process is writing there.

The files in the sealed records of a folder are ours; nothing else is ever touched. A training inside a run is
ours if it has its own manifest; a link never is.

One lock guards each target: a small file next to it, ``.NAME.attomaton-lock``. It names a draft: the file or
folder that its owner is about to move into place, or has just replaced. If the owner is killed, the next
owner removes the draft.
"""

# `locked` guards a target, `take_stock` says which files in it are ours, and `remove_ours` removes these.
# Folders are called as in `folders.py`: a *partial* is being built, a *draft* about to be moved or removed,
# and a *spare* is the old folder between two renames. A *record* is a sealed JSON file, and a *run* the
# folder of a learned automaton, in which there may be a *training*.

import os
import stat
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any, cast

from attomaton.base.artifacts.files import DRAFT, draft_name, list_first, show_path, suffixed_name
from attomaton.base.artifacts.locks import open_locked, read_owner, write_owner
from attomaton.base.artifacts.manifests import MANIFEST, RUN, TRAINING, read_sealed
from attomaton.base.artifacts.systems import remove_locked
from attomaton.base.errors import UnwritablePlace

# The record of a folder being built: its kind, the end of its name, and patterns of the names in it.
PARTIAL = "partial.json"

INNER = TRAINING.name  # the only folder of ours that another may contain: a training in a run
SIDE_RECORDS = frozenset(["verdicts.json"])  # sealed records that other commands leave in a run
LOCK = ".attomaton-lock"  # suffix of a lock's name; a lock may be inside the folder that it guards
DRAFT_PATTERN = "." + 16 * "[0-9a-f]" + DRAFT  # of the names of drafts


@dataclass(frozen=True)
class Stock:
    """The content of a folder that attomaton wrote.

    ``listed`` are the names in its manifest, ``files`` the manifest and the listed files that exist,
    ``unfinished`` the folders that are being built in it, and ``foreign`` the names of everything else.
    """

    manifest: Mapping[str, Any]
    listed: set[str]
    files: list[Path] = field(default_factory=list[Path])
    unfinished: list[Path] = field(default_factory=list[Path])
    foreign: list[str] = field(default_factory=list[str])

    @property
    def is_bare_run(self) -> bool:
        """Whether it is a run folder with a training, but without a learned automaton."""
        return self.manifest["kind"] == RUN.name and not self.listed


def take_stock(folder: Path) -> Stock | None:
    """List the content of a folder that attomaton wrote; None for any other folder."""
    manifest = read_sealed(folder / MANIFEST)
    if manifest is None or not isinstance(manifest.get("kind"), str):
        return None
    stock = Stock(manifest, listed_names(manifest))
    ours = {MANIFEST} | stock.listed | _names_of_training(folder)  # names relative to the folder
    parents_of_ours = {str(parent) for name in ours for parent in Path(name).parents}
    for root, subfolders, names in os.walk(folder):
        for path in (Path(root, name) for name in sorted(names)):
            is_ours = path.relative_to(folder).as_posix() in ours or _is_side_record(path)
            if is_ours and stat.S_ISREG(path.lstat().st_mode):
                stock.files.append(path)
            elif path.name != f".{path.parent.name}{LOCK}":  # the lock of the folder that contains it
                stock.foreign.append(path.name)
        for path in (Path(root, name) for name in sorted(subfolders)):
            if not path.is_symlink() and str(path.relative_to(folder)) in parents_of_ours:
                continue  # os.walk enters it
            subfolders.remove(path.name)  # so os.walk does not enter it
            if not path.is_symlink() and is_partial(path):
                stock.unfinished.append(path)
            else:
                stock.foreign.append(path.name)
    return stock


# The names of the files of the training in a run, relative to the run; none if it has no training of ours.
def _names_of_training(run: Path) -> set[str]:
    manifest = read_sealed(run / INNER / MANIFEST) or {}
    if manifest.get("kind") != INNER:
        return set()
    return {f"{INNER}/{name}" for name in {MANIFEST} | listed_names(manifest)}


def listed_names(record: Mapping[str, Any]) -> set[str]:
    """The names in a manifest, or in the record of an unfinished folder, relative to the folder."""
    listed: set[str] = set()
    for key in ("files", "records"):
        names = record.get(key, ())
        if isinstance(names, Mapping | list | tuple):
            listed.update(map(str, cast("Iterable[object]", names)))
    return listed


# Whether a file is one of SIDE_RECORDS: sealed, and of the kind that its name says.
def _is_side_record(path: Path) -> bool:
    return path.name in SIDE_RECORDS and f"{(read_sealed(path) or {}).get('kind')}.json" == path.name


def refuse_inside(path: Path, target: object) -> None:
    """Refuse a path inside a folder that attomaton wrote; the message calls the path ``target``."""
    for folder in path.parents:
        if (folder / MANIFEST).is_file() and read_sealed(folder / MANIFEST) is not None:
            raise UnwritablePlace(f"{target} is in {show_path(folder)}, an attomaton folder; write elsewhere")


def is_partial(folder: Path) -> bool:
    """Whether a folder is an unfinished one of ours: its record repeats the end of its name."""
    record = read_sealed(folder / PARTIAL)
    return record is not None and folder.name.endswith(f".partial-{record.get('id')}")


def remove_ours(folder: Path, leftover: Path) -> None:
    """Remove our files in a folder, its records last, and the folder if nothing else is in it.

    If other files are in it, the folder is renamed to ``leftover``, and a warning says so. After an
    interruption, this function can be called again.
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
        reason = f"contains files that attomaton did not write ({list_first(foreign)}), which remain"
    except OSError as error:
        reason = f"cannot be removed: {error.strerror}"
    warnings.warn(f"{show_path(leftover)} {reason}", stacklevel=2)


# Our files in a folder, its records last; the record of an unfinished folder has patterns of names.
def _our_files(folder: Path) -> list[Path]:
    stock = take_stock(folder)
    record = read_sealed(folder / PARTIAL)
    files = [] if stock is None else [*stock.files, *chain.from_iterable(map(_our_files, stock.unfinished))]
    if stock is None or record is not None:
        patterns = [PARTIAL, MANIFEST, DRAFT_PATTERN, f"*/{DRAFT_PATTERN}", *listed_names(record or {})]
        for path in folder.rglob("*"):
            name = path.relative_to(folder).as_posix()
            is_listed = any(fnmatchcase(name, pattern) for pattern in patterns)
            if is_listed and path.is_file() and not path.is_symlink():
                files.append(path)
    records = (folder / MANIFEST, folder / PARTIAL)
    return sorted(files, key=lambda path: path in records)  # False is sorted before True


@dataclass(frozen=True)
class Lock:
    """A lock. Its owner may write ``draft``, a file or folder, which the next owner removes."""

    draft: Path


@contextmanager
def locked(target: Path, parent: Path) -> Generator[Lock]:
    """Lock ``target`` against other processes and threads; the lock file is in the folder ``parent``."""
    path = parent / suffixed_name("." + target.name, LOCK)
    with open_locked(path, target) as file:
        earlier = (read_owner(file) or {}).get("draft")
        draft = draft_name()
        _recover(str(earlier), parent, target)  # "None", without an earlier owner, is no name of a draft
        if earlier is not None:  # None: the lock file was empty, so it is not ours
            write_owner(file, draft)
        try:
            yield Lock(parent / draft)
        finally:  # if this is interrupted, the lock file stays and names what the next writer removes
            _recover(draft, parent, target)
            if "draft" in (read_owner(file) or {}):  # an empty file of somebody else stays
                remove_locked(path, file)


def spare_of(draft: Path) -> Path:  # the name of a folder between the renames of an exchange
    return draft.with_suffix(".old")


# Remove the draft that an owner left next to the target, or in it (for a training in a run).
# If a kill between two renames left an old folder without its name, it gets the name back.
def _recover(name: str, parent: Path, target: Path) -> None:
    for folder, goal in ((parent, target), (target, target / INNER)):
        if not fnmatchcase(name, DRAFT_PATTERN) or not folder.is_dir():
            continue
        draft = folder / name
        if take_stock(spare_of(draft)) is not None and not goal.exists():
            spare_of(draft).rename(goal)
        for path in (draft, spare_of(draft)):
            if path.is_dir() and not path.is_symlink():
                remove_ours(path, path)
            else:
                path.unlink(missing_ok=True)
