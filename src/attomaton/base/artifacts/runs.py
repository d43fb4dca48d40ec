"""Store a run: Parquet tables, safetensors arrays, JSON records, and a manifest with the digest of each file.

A truncated or altered run does not load. Nothing is ever unpickled.
"""

# `write_run` and `read_run` are inverse to each other for a `Run`; `fill_run` is the first without the
# folder, for writers that add files of their own. `load_run` and `explained_run` make an object from a run
# that was read. A *partition* is one of several Parquet files of a large table, which is read on demand
# (`parted`).

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from attomaton.base.artifacts import manifests
from attomaton.base.artifacts.files import explained, write_file
from attomaton.base.artifacts.folders import Building, build_folder
from attomaton.base.errors import CorruptRun
from attomaton.base.options import given_path
from attomaton.base.remote import AnyPath, as_path
from attomaton.base.tables import read_parquet, write_parquet

Stored = TypeVar("Stored")

ARRAYS_FILE = "arrays.safetensors"
RECORDED_PACKAGES = ("attomaton", "numpy", "scipy", "pyarrow")
TRIES = 5  # attempts to read a run that is replaced while it is read


@dataclass(frozen=True, eq=False)
class Run:
    """The content of a run folder: tables, arrays and JSON records by name, and entries of its manifest.

    ``partitions`` has the manifest entries of the files of partitioned tables, which are read and written
    separately. ``folder`` is the folder from which the run was read.
    """

    tables: Mapping[str, pa.Table]
    arrays: Mapping[str, NDArray[Any]]
    records: Mapping[str, Any]
    manifest: Mapping[str, Any]
    partitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    folder: AnyPath | None = None


def write_run(
    folder: str | PathLike[str],
    run: Run,
    kind: manifests.FolderKind = manifests.RUN,
    *,
    overwrite: bool = False,
) -> Path:
    """Write a folder of this kind atomically; an earlier folder is replaced only with ``overwrite``.

    Tables become ``NAME.parquet``, records ``NAME.json``, and arrays one safetensors file. The manifest gets
    ``run.manifest``, versions and digests.
    """
    path = given_path(folder, "path")
    files = [*(f"{name}.parquet" for name in run.tables), *(f"{name}.json" for name in run.records)]
    with build_folder(path, kind, [*files, ARRAYS_FILE], overwrite=overwrite) as building:
        fill_run(building, run)
    return path


@contextmanager
def explained_run(
    folder: object, content: str = "automaton", cure: str = "write the run again"
) -> Generator[None]:
    """Turn errors in the content of a folder into ``CorruptRun``, which names the folder."""
    try:
        yield
    except CorruptRun:
        raise
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:  # or MismatchedParts
        reason = str(error).partition(";")[0]
        raise CorruptRun(f"{folder} does not contain a complete {content} ({reason}); {cure}") from error


def load_run(
    folder: str | PathLike[str], kind: manifests.FolderKind, assemble: Callable[[Run], Stored]
) -> Stored:
    """Load a folder of this kind with ``assemble``, if it is intact."""
    path = given_path(folder, "path")
    run = read_run(path, kind)
    with explained_run(path, kind.noun, "save it again"):
        return assemble(run)


def fill_run(building: Building, run: Run) -> None:
    """Write the files of a run to a folder that is being built, and then its manifest."""
    folder = building.folder
    digests: dict[str, dict[str, Any]] = {}
    with explained(folder):
        for name, table in run.tables.items():
            file = folder / f"{name}.parquet"
            digests[file.name] = write_file(file, partial(write_parquet, table))
        packed = {name: np.ascontiguousarray(array) for name, array in run.arrays.items()}
        if packed:
            blob = safetensors.numpy.save(packed)
            digests[ARRAYS_FILE] = write_file(folder / ARRAYS_FILE, lambda path: path.write_bytes(blob))
        for name, record in run.records.items():
            digests[f"{name}.json"] = write_file(folder / f"{name}.json", manifests.json_writer(record))
        versions = {package: version(package) for package in RECORDED_PACKAGES}
        building.finish({**run.manifest, "versions": versions}, {**run.partitions, **digests})


def read_run(folder: str | AnyPath, kind: manifests.FolderKind = manifests.RUN) -> Run:
    """Read a folder of this kind, and check every file against its digest in the manifest."""
    path = as_path(folder)
    manifest = manifests.read_manifest(path, kind)
    for tries in range(TRIES + 1):  # the last one raises its error
        try:
            return _read_files(path, manifest)
        except CorruptRun:
            # corrupt, unless the manifest shows that the run was replaced meanwhile: then it is read again
            earlier = manifest
            manifest = manifests.read_manifest(path, kind)
            if tries == TRIES or earlier == manifest:
                raise
    raise AssertionError  # the last try returns or raises


# The files that a manifest lists, checked. The suffix of a file says what it contains; files with `blocks` in
# their entry are partitions, which are read on demand.
def _read_files(folder: AnyPath, manifest: Mapping[str, Any]) -> Run:
    tables: dict[str, pa.Table] = {}
    arrays: dict[str, NDArray[Any]] = {}
    records: dict[str, Any] = {}
    digests = manifests.list_digests(folder, manifest.get("files"))
    partitions = {name: entry for name, entry in manifest.get("files", {}).items() if "blocks" in entry}
    for name, digest in digests.items():
        if name in partitions:  # its bytes are checked as they are read
            check_file_size(folder / name, partitions[name])
            continue
        blob = manifests.read_checked(folder / name, digest)
        try:
            if name == ARRAYS_FILE:
                arrays = safetensors.numpy.load(blob)
            elif name.endswith(".parquet"):
                tables[name.removesuffix(".parquet")] = read_parquet(blob)
            else:
                records[name.removesuffix(".json")] = json.loads(blob)
        except (ValueError, safetensors.SafetensorError) as error:  # Arrow's errors are ValueErrors
            raise CorruptRun(
                f"{folder / name} does not have the format of its suffix ({error}); write the run again"
            ) from error
    return Run(tables, arrays, records, manifest, partitions, folder)


def check_file_size(path: AnyPath, entry: Mapping[str, Any]) -> None:
    """Refuse a file that is missing, or whose size differs from its manifest entry."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise CorruptRun(f"{path} is in the manifest, but cannot be read; write the run again") from error
    if size != entry.get("bytes"):
        raise CorruptRun(f"{path} was altered after it was written; write the run again")
