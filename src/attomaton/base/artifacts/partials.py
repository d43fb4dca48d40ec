"""Unfinished folders: a folder is built as ``NAME.partial-ID`` next to its target, where a kill leaves it."""

import os
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from secrets import token_hex
from typing import Any

from attomaton.base.artifacts.files import DRAFT, suffixed_name
from attomaton.base.artifacts.manifests import RUN, FolderKind, read_sealed, write_sealed
from attomaton.base.artifacts.ownership import PARTIAL, Lock, is_partial, remove_ours

ID_DIGITS = 8  # of the random id that ends the name of an unfinished folder


def open_partial(
    target: Path, kind: FolderKind, lock: Lock, record: Mapping[str, Any], *, resumable: bool
) -> Path:
    """The folder to build in: new, or left by a killed writer with an equal record; others are removed."""
    resumed: Path | None = None
    for partial in filter(is_partial, find_partials(target)):
        earlier = read_sealed(partial / PARTIAL) or {}
        is_same = all(earlier.get(name) == value for name, value in record.items())
        if resumable and resumed is None and is_same:
            resumed = partial
        else:
            drop_partial(partial, lock)
    if resumed is None:
        return _new_partial(target, lock, record)
    _clean_partial(resumed, kind)
    return resumed


def find_partials(target: Path) -> list[Path]:
    """The folders next to a target, or in it, that have the name of an unfinished folder for it."""
    any_id = "?" * ID_DIGITS
    # the name of the target may contain characters that glob would interpret
    pattern = escape(suffixed_name(target.name, f".partial-{any_id}").removesuffix(any_id)) + any_id
    partials = (path for path in parent_of_partials(target).glob(pattern) if not path.is_symlink())
    return sorted(path for path in partials if path.is_dir())


def drop_partial(partial: Path, lock: Lock) -> None:
    """Remove an unfinished folder; files that are not ours stay, and a warning says so."""
    draft = partial.with_name(lock.draft.name)
    partial.rename(draft)  # if this is interrupted, the next writer finds the rest under this name
    remove_ours(draft, partial)


def parent_of_partials(target: Path) -> Path:
    """The folder in which a target is built: its parent, or the target itself if it cannot be renamed."""
    if not target.exists():
        return target.parent
    try:
        working_directory = Path.cwd()
    except FileNotFoundError:  # it was removed
        working_directory = Path("/")
    # a mount and a folder around the working directory cannot be renamed, nor if the parent is not writable
    is_fixed = os.path.ismount(target) or working_directory.is_relative_to(target)
    return target.parent if not is_fixed and os.access(target.parent, os.W_OK | os.X_OK) else target


# A new folder with its record; it gets its name last, so that a kill leaves nothing unknown.
def _new_partial(target: Path, lock: Lock, record: Mapping[str, Any]) -> Path:
    unique = token_hex(ID_DIGITS // 2)  # two digits for each byte
    partial = parent_of_partials(target) / suffixed_name(target.name, f".partial-{unique}")
    draft = partial.with_name(lock.draft.name)
    draft.mkdir()
    write_sealed(draft / PARTIAL, {**record, "id": unique})
    draft.rename(partial)
    return partial


# Remove drafts from a folder that is resumed; in a run, only the subfolders are resumed.
def _clean_partial(partial: Path, kind: FolderKind) -> None:
    for draft in partial.rglob(f".*{DRAFT}"):
        draft.unlink()
    for file in list(partial.iterdir()) if kind == RUN else ():
        if file.is_file() and file.name != PARTIAL:
            file.unlink()
