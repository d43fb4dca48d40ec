"""A run on disk: Parquet tables, safetensors arrays, JSON records, and a manifest with the digest of each.

A run that was cut short or altered does not load. Nothing is ever unpickled.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from attomaton.artifacts.files import explained, write_file
from attomaton.artifacts.folders import Building, build_folder, standing
from attomaton.artifacts.seals import FORMAT, MANIFEST, SEAL, is_sealed, json_writer, read_json
from attomaton.errors import CorruptRun
from attomaton.tables import read_parquet, write_parquet

RUN = "run"
ARRAYS = "arrays.safetensors"
PACKAGES = ("attomaton", "numpy", "scipy", "pyarrow", "numba")
TRIES = 5
"""How often a run is read anew that is replaced while it is read."""


@dataclass(frozen=True, eq=False)
class Run:
    """What a run folder holds."""

    tables: Mapping[str, pa.Table]
    arrays: Mapping[str, NDArray[Any]]
    records: Mapping[str, Any]
    manifest: Mapping[str, Any]


def write_run(folder: str | Path, run: Run, *, overwrite: bool = False) -> Path:
    """Write a run folder whole; an earlier run in the same place is replaced if ``overwrite`` says so.

    Tables become ``NAME.parquet``, records ``NAME.json``, arrays one safetensors file; ``run.manifest`` goes
    into the manifest beside versions and digests.
    """
    with build_folder(folder, RUN, overwrite=overwrite) as building:
        fill_run(building, run)
    return Path(folder)


def fill_run(building: Building, run: Run) -> None:
    """Write the files of a run into the folder that is being built, and its manifest."""
    place = building.folder
    digests: dict[str, dict[str, Any]] = {}
    with explained(place):
        for name, table in run.tables.items():
            digests[f"{name}.parquet"] = write_file(place / f"{name}.parquet", _parquet_writer(table))
        packed = {name: np.ascontiguousarray(array) for name, array in run.arrays.items()}
        blob = safetensors.numpy.save(packed)
        digests[ARRAYS] = write_file(place / ARRAYS, lambda path: path.write_bytes(blob))
        for name, record in run.records.items():
            digests[f"{name}.json"] = write_file(place / f"{name}.json", json_writer(record))
        versions = {package: version(package) for package in PACKAGES}
        building.finish({**run.manifest, "versions": versions}, digests)


def read_run(folder: str | Path) -> Run:
    """Read a run folder back, every file checked against the manifest's digest.

    A run that is replaced while it is read is read again: what comes back is the old one or the new one.
    """
    place = Path(folder)
    if not place.exists() and (found := standing(place.absolute())).exists():
        place = found
    manifest = read_manifest(place)
    for _ in range(TRIES):
        try:
            return _read_files(place, manifest)
        except CorruptRun:
            now = read_manifest(place)
            if now == manifest:
                raise
            manifest = now
    return _read_files(place, manifest)


def _read_files(place: Path, manifest: Mapping[str, Any]) -> Run:
    tables: dict[str, pa.Table] = {}
    arrays: dict[str, NDArray[Any]] = {}
    records: dict[str, Any] = {}
    for name, entry in _listed_files(place, manifest):
        blob = read_checked(place / name, entry)
        try:
            if name == ARRAYS:
                arrays = safetensors.numpy.load(blob)
            elif name.endswith(".parquet"):
                tables[name.removesuffix(".parquet")] = read_parquet(blob)
            else:
                records[name.removesuffix(".json")] = json.loads(blob)
        except (ValueError, safetensors.SafetensorError) as error:  # Arrow's errors are ValueErrors
            raise CorruptRun(
                f"{place / name} is not what its name says ({error}); write the run again"
            ) from error
    return Run(tables, arrays, records, manifest)


def read_manifest(place: Path, kind: str = RUN) -> dict[str, Any]:
    """The manifest of a folder that attomaton wrote, if it is whole and of this kind."""
    path = place / MANIFEST
    try:
        manifest = read_json(path)
    except FileNotFoundError as error:
        raise CorruptRun(
            f"{place} has no {MANIFEST}: there is no run, or it was cut short; write one with "
            f"`attomaton learn … --out {place}`"
        ) from error
    except NotADirectoryError as error:
        raise CorruptRun(f"{place} is a file; give the folder that `attomaton learn --out` wrote") from error
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptRun(f"{path} cannot be read ({error}); write the run again") from error
    if not isinstance(manifest, dict):
        raise CorruptRun(f"{path} holds no manifest; write the run again")
    found: dict[str, Any] = dict(manifest)  # pyright: ignore[reportUnknownArgumentType]
    if found.get("format") != FORMAT:
        raise CorruptRun(
            f"{place} is of format {found.get('format')}, not {FORMAT}; write it again with this version"
        )
    if not is_sealed(found):
        raise CorruptRun(f"{path} was altered after it was written; write the run again")
    if found.get("kind") != kind:
        raise CorruptRun(f"{place} is of the kind {found.get('kind')!r}, not {kind!r}; give another folder")
    del found[SEAL]
    return found


def _listed_files(place: Path, manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and digest of each file the manifest lists; names must be plain, so nothing outside is read."""
    try:
        listed = [(str(name), str(entry["sha256"])) for name, entry in manifest["files"].items()]
    except (AttributeError, KeyError, TypeError) as error:
        raise CorruptRun(f"{place / MANIFEST} lists its files wrongly; write the run again") from error
    outside = [name for name, _ in listed if Path(name).name != name]
    if outside:
        raise CorruptRun(
            f"{place / MANIFEST} lists {outside[0]!r}, which is not in the folder; do not trust this run"
        )
    return listed


def read_checked(path: Path, digest: str) -> bytes:
    """The bytes of a file that a manifest lists, if they are still what was written."""
    try:
        blob = path.read_bytes()
    except OSError as error:
        raise CorruptRun(
            f"{path} is listed in the manifest but cannot be read; write the run again"
        ) from error
    if hashlib.sha256(blob).hexdigest() != digest:
        raise CorruptRun(f"{path} was altered after the run was written; write the run again")
    return blob


def _parquet_writer(table: pa.Table) -> Callable[[Path], object]:
    return lambda path: write_parquet(table, str(path))
