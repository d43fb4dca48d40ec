"""Which files of a folder are ours: those that its own sealed manifest lists, by exact name and kind.

Nothing else is ever touched, whatever it is called. A folder inside one of ours is ours if it has a manifest
of its own, or if the names listed lead into it; a link never is.
"""

import os
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from attomaton.base.artifacts.files import DRAFT, DRAFT_NAME
from attomaton.base.artifacts.manifests import RUN, TRAINING
from attomaton.base.artifacts.naming import few, shown
from attomaton.base.artifacts.renaming import rename_new
from attomaton.base.artifacts.seals import MANIFEST, read_sealed

PARTIAL = "partial.json"
"""The record of a folder that is being built: its kind, the end of its name, and which files are ours."""

INNER = TRAINING.name
"""The one folder of ours that may stand in another: a training in a run."""

SIDE_RECORDS = frozenset(["verdicts.json"])
"""Sealed records that other commands leave in a run."""

LOCK = ".attomaton-lock"
"""Ends the name of a lock; one may stand in the folder that it guards."""


@dataclass(frozen=True)
class Stock:
    """What a folder of ours holds.

    Attributes
    ----------
    manifest : mapping
        What its manifest says.
    files, folders : list of Path
        What is ours, in the order in which it can be removed: the manifest comes last.
    drafts : list of Path
        Folders in it that are being built, or were when their writer was killed.
    strangers : list of str
        Names of everything else.
    """

    manifest: Mapping[str, Any]
    files: list[Path] = field(default_factory=list[Path])
    folders: list[Path] = field(default_factory=list[Path])
    drafts: list[Path] = field(default_factory=list[Path])
    strangers: list[str] = field(default_factory=list[str])

    @property
    def is_bare_run(self) -> bool:
        """Whether it is the folder of a run that has not been learned: a training began it."""
        return self.manifest["kind"] == RUN.name and not listed_names(self.manifest)

    @property
    def missing(self) -> bool:
        """Whether a listed file is not there: a writer was killed while it moved them in."""
        found = {path.relative_to(self.folders[-1]).as_posix() for path in self.files}
        return not listed_names(self.manifest) <= found


def take_stock(folder: Path) -> Stock | None:
    """What is ours in a folder; None if the folder itself is not."""
    manifest = read_sealed(folder / MANIFEST)
    if manifest is None or not isinstance(manifest.get("kind"), str):
        return None
    stock = Stock(manifest)
    _sort(folder, listed_names(manifest), stock)
    return stock


def listed_names(manifest: Mapping[str, Any]) -> set[str]:
    """The names in a manifest, relative to its folder."""
    found: set[str] = set()
    for part in ("files", "records"):
        names = manifest.get(part, ())
        if isinstance(names, Mapping | list | tuple):
            found.update(map(str, cast("Iterable[object]", names)))
    return found


def _sort(folder: Path, listed: set[str], stock: Stock) -> None:
    """Everything in a folder, told apart."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    manifest: list[Path] = []
    for entry in found:
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
        elif entry.name == INNER and (within := _inner_manifest(path)) is not None:
            _sort(path, listed_names(within), stock)
        else:
            stock.strangers.append(entry.name)
    stock.files.extend(manifest)
    stock.folders.append(folder)


def _inner_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder that belongs into one of ours: a training in a run, and nothing else."""
    manifest = read_sealed(folder / MANIFEST)
    return manifest if manifest is not None and manifest.get("kind") == INNER else None


def _is_side_record(path: Path) -> bool:
    if path.name not in SIDE_RECORDS:
        return False
    record = read_sealed(path)
    return record is not None and f"{record.get('kind')}.json" == path.name


def is_partial(folder: Path) -> bool:
    """Whether a folder is one that we are building, or were: its own record repeats the end of its name."""
    record = read_sealed(folder / PARTIAL)
    return record is not None and folder.name.endswith(f".partial-{record.get('id')}")


def remove_ours(folder: Path, spare: Path) -> list[str]:
    """Remove what is ours in a folder, and the folder if nothing else is in it; the names of what stays.

    ``spare`` is the draft of a lock that is held: the folder has that name when its manifest goes, so that
    a kill leaves nothing that the next writer does not know.
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
    """Remove a folder that was being built, its record last; the names of what is not ours, which stays.

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
    """What matches the names of our files in a folder that is being built, and of the folders around them.

    Its record lists them. ``#`` in a name stands for one digit; a name that ends in ``/**`` is that of a
    folder with everything in it.
    """
    found = [re.escape(PARTIAL), re.escape(MANIFEST), rf"(.*/)?{DRAFT_NAME.pattern}"]
    for name in listed_names(record):
        inner = name.removesuffix("/**")
        parts = re.escape(inner).replace(r"\#", "[0-9]").split("/")
        found += ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
        if name != inner:
            found.append(f"{'/'.join(parts)}/.*")
    return re.compile("|".join(found))


def _remove_last(folder: Path, spare: Path) -> None:
    rename_new(folder, spare)
    remove_draft(spare)


def remove_draft(draft: Path) -> None:
    """Remove what is left under the name of a lock's draft: a file, or a folder with a record and no more."""
    if draft.is_dir() and not draft.is_symlink():
        for entry in list(draft.iterdir()):
            if entry.name in (MANIFEST, PARTIAL) or entry.name.endswith(DRAFT):
                entry.unlink()
        draft.rmdir()
    else:
        draft.unlink(missing_ok=True)


def tell_kept(folder: Path, names: list[str]) -> None:
    """Warn of what is not ours in a folder that was to go, if anything is."""
    if names:
        warnings.warn(
            f"{shown(folder)} holds files that attomaton did not write ({few(names)}); they were left there",
            stacklevel=2,
        )
