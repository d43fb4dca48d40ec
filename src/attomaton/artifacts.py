"""A run on disk: Parquet tables, safetensors arrays, JSON records, and a manifest written last.

Every file is written beside its place, flushed to disk, renamed and read back; the manifest lists the digest
of each, so a run that was cut short or altered does not load. Nothing is ever unpickled.
"""

import hashlib
import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from attomaton.errors import AttomatonError, CorruptRun, UnwritablePlace
from attomaton.tables import read_parquet, write_parquet

_open_safetensors: Any = safetensors.safe_open
FORMAT = 1
MANIFEST = "manifest.json"
ARRAYS = "arrays.safetensors"
DIGEST = "sha256"
MEND = "delete it, or restore it from a copy"
PACKAGES = ("attomaton", "numpy", "scipy", "pyarrow", "numba")
RUN_NAMES = frozenset(
    [
        "manifest",
        "vocabulary",
        "coverage",
        "edges",
        "components",
        "order",
        "hard",
        "soft",
        "choices",
        "arrays",
        "training",
        "verdicts",
        "report",
    ]
)
"""Everything that a run folder may hold, without endings."""


@dataclass(frozen=True, eq=False)
class Run:
    """What a run folder holds."""

    tables: Mapping[str, pa.Table]
    arrays: Mapping[str, NDArray[Any]]
    records: Mapping[str, Any]
    manifest: Mapping[str, Any]


def write_run(
    folder: str | Path,
    *,
    tables: Mapping[str, pa.Table],
    arrays: Mapping[str, NDArray[Any]],
    records: Mapping[str, Any],
    about: Mapping[str, Any],
) -> Path:
    """Write a run folder; an earlier run in the same place stops being loadable before it is overwritten.

    ``tables`` become ``NAME.parquet``, ``records`` ``NAME.json``, ``arrays`` one safetensors file; ``about``
    goes into the manifest beside versions and digests.
    """
    place = prepare_folder(folder)
    try:
        return _write_files(place, tables, arrays, records, about)
    except AttomatonError:
        raise
    except OSError as error:
        raise UnwritablePlace(
            f"{place} cannot be written: {error.strerror}; the run in it is unusable"
        ) from error


def prepare_folder(folder: str | Path) -> Path:
    """Say at once why a run cannot be written to this folder: before the work, not after."""
    place = Path(folder)
    try:
        new = not place.exists()
        place.mkdir(parents=True, exist_ok=True)
        strangers = sorted(path.name for path in place.iterdir() if not _is_run_file(path))
        probe = place / ".probe.draft"
        probe.touch()
        probe.unlink()
        if new:
            place.rmdir()
    except FileExistsError as error:
        raise UnwritablePlace(f"{place} is a file; give the path of a folder to write the run to") from error
    except OSError as error:
        raise UnwritablePlace(
            f"{place} cannot be written: {error.strerror}; choose another folder"
        ) from error
    if strangers:
        raise UnwritablePlace(
            f"{place} holds other files ({strangers[0]!r}); give a new folder, or an old run's"
        )
    return place


def _write_files(
    place: Path,
    tables: Mapping[str, pa.Table],
    arrays: Mapping[str, NDArray[Any]],
    records: Mapping[str, Any],
    about: Mapping[str, Any],
) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / MANIFEST).unlink(missing_ok=True)
    for leftover in [path for path in place.iterdir() if path.is_file() and _is_run_file(path)]:
        leftover.unlink()
    digests: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        digests[f"{name}.parquet"] = write_file(place / f"{name}.parquet", _parquet_writer(table))
    packed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    digests[ARRAYS] = write_file(
        place / ARRAYS, lambda path: path.write_bytes(safetensors.numpy.save(packed))
    )
    for name, record in records.items():
        digests[f"{name}.json"] = write_file(place / f"{name}.json", json_writer(record))
    versions = {package: version(package) for package in PACKAGES}
    write_file(
        place / MANIFEST, json_writer({**about, "format": FORMAT, "versions": versions, "files": digests})
    )
    return place


def read_run(folder: str | Path) -> Run:
    """Read a run folder back, every file checked against the manifest's digest."""
    place = Path(folder)
    manifest = read_manifest(place)
    tables: dict[str, pa.Table] = {}
    arrays: dict[str, NDArray[Any]] = {}
    records: dict[str, Any] = {}
    for name, entry in _listed_files(place, manifest):
        blob = _read_checked(place / name, entry)
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


def _is_run_file(path: Path) -> bool:
    return path.stem in RUN_NAMES or path.suffix == ".draft"


def digest_arrays(*arrays: NDArray[Any]) -> str:
    """The SHA-256 of arrays with their types and shapes, in hexadecimal."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def digest_file(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_arrays(path: str | Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str]) -> Path:
    """One safetensors file that carries the digest of its arrays and of ``about``; written atomically."""
    place = Path(path)
    packed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    blob = safetensors.numpy.save(packed, {**about, DIGEST: _digest_all(packed, about)})
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_file(place, lambda draft: draft.write_bytes(blob))
    except CorruptRun:
        raise
    except OSError as error:
        raise UnwritablePlace(f"{place} cannot be written: {error.strerror}; choose another place") from error
    return place


def read_arrays(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """What :func:`write_arrays` wrote, if it is whole."""
    try:
        with _open_safetensors(str(path), "numpy") as file:
            about: dict[str, str] = dict(file.metadata() or {})
            arrays: dict[str, NDArray[Any]] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  no mapping
    except FileNotFoundError as error:
        raise CorruptRun(f"{path} does not exist; give the path of a file that was saved") from error
    except (OSError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise CorruptRun(f"{path} was cut short or altered ({error}); {MEND}") from error
    if about.pop(DIGEST, None) != _digest_all(arrays, about):
        raise CorruptRun(f"{path} was altered after it was written; {MEND}")
    return arrays, about


def _digest_all(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str]) -> str:
    names = sorted(arrays)
    told = json.dumps([names, sorted(about.items())])
    return hashlib.sha256(f"{told}{digest_arrays(*map(arrays.__getitem__, names))}".encode()).hexdigest()


def read_manifest(place: Path) -> dict[str, Any]:
    """The manifest of a run folder."""
    try:
        manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CorruptRun(
            f"{place} has no {MANIFEST}: there is no run, or it was cut short; write one with "
            f"`attomaton learn … --out {place}`"
        ) from error
    except NotADirectoryError as error:
        raise CorruptRun(f"{place} is a file; give the folder that `attomaton learn --out` wrote") from error
    except (OSError, ValueError) as error:
        raise CorruptRun(f"{place / MANIFEST} cannot be read ({error}); write the run again") from error
    if not isinstance(manifest, dict):
        raise CorruptRun(f"{place / MANIFEST} holds no manifest; write the run again")
    manifest = cast("dict[str, Any]", manifest)
    if manifest.get("format") != FORMAT:
        raise CorruptRun(
            f"{place} is a run of format {manifest.get('format')}, not {FORMAT}; write the run again"
        )
    return manifest


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


def _read_checked(path: Path, digest: str) -> bytes:
    try:
        blob = path.read_bytes()
    except OSError as error:
        raise CorruptRun(
            f"{path} is listed in the manifest but cannot be read; write the run again"
        ) from error
    if hashlib.sha256(blob).hexdigest() != digest:
        raise CorruptRun(f"{path} was altered after the run was written; write the run again")
    return blob


def write_file(path: Path, write: Callable[[Path], object]) -> dict[str, Any]:
    """Write beside ``path``, flush, rename, read back; the digest and size of what is there."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        write(draft)
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        digest = digest_file(draft)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if digest_file(path) != digest:
        raise CorruptRun(f"{path} reads back differently than it was written; check the disk")
    return {"sha256": digest, "bytes": path.stat().st_size}


@contextmanager
def explained(folder: Path) -> Generator[None]:
    """Whatever the disk refuses becomes an error that says where and what to do."""
    try:
        yield
    except AttomatonError:
        raise
    except OSError as error:
        raise UnwritablePlace(
            f"{folder} cannot be written: {error.strerror or error}; make room there, or work elsewhere"
        ) from error


def _parquet_writer(table: pa.Table) -> Callable[[Path], object]:
    return lambda path: write_parquet(table, str(path))


def json_writer(record: Any) -> Callable[[Path], object]:
    """What writes a record as JSON, for :func:`write_file`."""
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False)
    return lambda path: path.write_text(text + "\n", encoding="utf-8")
