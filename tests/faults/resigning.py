"""Runs, traces and checkpoints that are altered and signed again: every digest fits, the contents do not."""

import hashlib
import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy

from attomaton.base.artifacts import digest_file, read_arrays, write_arrays

EVIL_NUMBERS = (-1, -2, 0, 1, 2**21, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63), 10**6)
EVIL_FLOATS = (float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 0.0, -1.0)
EVIL_VALUES = (
    None, -1, 0, float("nan"), float("inf"), 10**18, 2**63, 10**30, "", "x", "\ud800", [], {}, True, [[]],
    1.5, "../x", "a" * 10_000, [None], "\0", "[1]",
)  # fmt: skip


def sign_run(run: Path) -> None:
    """Give the manifest the digests of the files as they are, and its own: only here its form is known."""
    place = run / "manifest.json"
    manifest = json.loads(place.read_text(encoding="utf-8"))
    for name, entry in manifest["files"].items():
        if (run / name).is_file():
            blob = (run / name).read_bytes()
            entry.update(sha256=hashlib.sha256(blob).hexdigest(), bytes=len(blob))
            if "blocks" in entry:
                entry.update(blocks=_digest_blocks(blob), rows=pq.read_metadata(run / name).num_rows)
    _write_sealed(place, manifest)


def _digest_blocks(blob: bytes) -> str:
    pieces = [blob[start : start + (1 << 17)] for start in range(0, len(blob), 1 << 17)]
    return "".join(hashlib.sha256(piece).hexdigest()[:16] for piece in pieces)


def _write_sealed(place: Path, record) -> None:
    """Write a record with the digest of itself, as it should be."""
    if isinstance(record, dict):
        rest = {name: value for name, value in record.items() if name != "seal"}
        record = {**rest, "seal": hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}
    place.write_text(json.dumps(record), encoding="utf-8")


def change_record(run: Path, change) -> None:
    """Change what the manifest says besides its files: ``change`` takes the record and alters it."""
    place = run / "manifest.json"
    manifest = json.loads(place.read_text(encoding="utf-8"))
    change(manifest)
    place.write_text(json.dumps(manifest), encoding="utf-8")
    sign_run(run)


def set_value(run: Path, table: str, column: str, row: int, value) -> None:
    """Set one value of one table of a run, in parts or not, and sign it."""
    place = next(iter(sorted(run.glob(f"{table}-*.parquet"))), run / f"{table}.parquet")
    rows = pq.read_table(place)
    values = rows.column(column).to_pylist()
    values[row] = value
    pq.write_table(_with_column(rows, column, values), place)
    sign_run(run)


def set_array(run: Path, name: str, array) -> None:
    """Set one array of a run, and sign it."""
    place = run / "arrays.safetensors"
    arrays = safetensors.numpy.load(place.read_bytes()) if place.exists() else {}
    place.write_bytes(safetensors.numpy.save({**arrays, name: np.ascontiguousarray(array)}))
    change_record(run, lambda record: record["files"].setdefault(place.name, {}))


def alter_run(run: Path, rng: random.Random) -> str:
    """Alter one thing of a run folder, and sign it; says what."""
    kind = rng.choices(["table", "array", "record"], [70, 15, 15])[0]
    kind = "table" if kind == "array" and not (run / "arrays.safetensors").exists() else kind
    if kind == "table":
        place = rng.choice(sorted(run.glob("*.parquet")))
        told = _alter_table(place, rng)
    elif kind == "array":
        place = run / "arrays.safetensors"
        arrays = safetensors.numpy.load(place.read_bytes())
        told = _alter_arrays(arrays, rng)
        place.write_bytes(safetensors.numpy.save(arrays))
    else:
        place = rng.choice([run / "manifest.json", run / "vocabulary.json", run / "coverage.json"])
        if not place.is_file():
            place = run / "manifest.json"
        record = json.loads(place.read_text(encoding="utf-8"))
        told = _alter_json(record, rng, spared=("files", "format", "kind", "seal"))
        place.write_text(json.dumps(record), encoding="utf-8")
    sign_run(run)
    return f"{place.name}: {told}"


def alter_arrays_file(place: Path, rng: random.Random) -> str:
    """Alter one array, or one thing said about them, of a file that carries its own digest, and sign it."""
    arrays, about = read_arrays(place)
    if rng.random() < 0.25:
        name = rng.choice(sorted(about))
        told = f"{name} in what is said"
        about[name] = _alter_text(about[name], rng)
    else:
        told = _alter_arrays(arrays, rng)
    write_arrays(place, arrays, about)
    return f"{place.name}: {told}"


def find_checkpoints(run: Path) -> list[Path]:
    """The checkpoints of a training, finished or not."""
    return sorted(run.glob("training*/checkpoints/*.safetensors"))


def sign_checkpoints(run: Path) -> None:
    """Let every checkpoint name the digest of the one before it, as it is now."""
    previous = "none"
    for file in find_checkpoints(run):
        arrays, about = read_arrays(file)
        if "previous" in about:
            write_arrays(file, arrays, {**about, "previous": previous})
        previous = digest_file(file)


def _alter_table(place: Path, rng: random.Random) -> str:
    rows = pq.read_table(place)
    column = rng.choice(rows.column_names)
    kind = rng.choice(
        ["value"] * 8 + ["swap", "swap", "delete", "repeat", "shuffle", "cut", "null", "text", "drop"]
    )
    size = rows.num_rows
    at = rng.randrange(size) if size else 0
    order = list(range(size))
    if kind in ("value", "swap", "null", "text"):
        values = rows.column(column).to_pylist()
        if size and kind == "value":
            values[at] = _evil(values[at], rng, size)
        elif size and kind == "swap":
            other = rng.randrange(size)
            values[at], values[other] = values[other], values[at]
        elif size and kind == "null":
            values[at] = None
        if kind == "text":
            place_of = rows.column_names.index(column)
            rows = rows.set_column(place_of, column, pa.array([str(value) for value in values], pa.string()))
        else:
            rows = _with_column(rows, column, values)
    elif kind == "drop":
        rows = rows.drop_columns([column])
    else:
        if size:
            changed = {"delete": order[:at] + order[at + 1 :], "repeat": order[: at + 1] + order[at:]}
            shuffled = rng.sample(order, size)
            order = {**changed, "shuffle": shuffled, "cut": order[:at]}[kind]
        rows = rows.take(pa.array(order, pa.int64()))
    pq.write_table(rows, place)
    return f"{kind} in {column}, row {at}"


def _evil(value, rng: random.Random, size: int):
    if isinstance(value, list):
        return rng.choice(
            [[], [0], [-1, 2**31 - 1], value + value, value[:-1], [*value[:-1], 2**21], [*value, -1]]
        )
    if isinstance(value, float):
        return rng.choice(EVIL_FLOATS)
    return rng.choice([*EVIL_NUMBERS, size, size + 1, value + 1, value - 1])


def _with_column(rows: pa.Table, column: str, values: list) -> pa.Table:
    kind = rows.schema.field(column).type
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        values = [None if one is None else max(limits.min, min(limits.max, one)) for one in values]
    return rows.set_column(rows.column_names.index(column), rows.schema.field(column), pa.array(values, kind))


def _alter_arrays(arrays: dict, rng: random.Random) -> str:
    name = rng.choice(sorted(arrays))
    array = arrays[name].copy()
    flat = array.reshape(-1)
    kind = rng.choice(["value"] * 6 + ["shorter", "longer", "shape", "type", "shuffle", "drop"])
    if kind == "value" and len(flat):
        at = rng.randrange(len(flat))
        if array.dtype.kind == "f":
            flat[at] = rng.choice(EVIL_FLOATS)
        else:
            limits = np.iinfo(array.dtype)
            evil = rng.choice([*EVIL_NUMBERS, len(flat), len(flat) + 1, int(flat[at]) + 1])
            flat[at] = max(limits.min, min(limits.max, evil))
    elif kind == "shorter":
        array = array[: rng.randrange(len(array) + 1)] if array.ndim else array
    elif kind == "longer" and array.ndim:
        array = np.concatenate([array, array[:1]])
    elif kind == "shape":
        array = array.reshape(rng.choice([(-1,), (1, -1), (-1, 1), (1, 1, -1)])) if array.size else array
    elif kind == "type":
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice([np.int8, np.float32, np.uint64, np.float64, np.bool_]))
    elif kind == "shuffle":
        array = array[rng.sample(range(len(array)), len(array))] if array.ndim else array
    if kind == "drop":
        del arrays[name]
    else:
        arrays[name] = np.ascontiguousarray(array)
    return f"{kind} of {name}"


def _alter_text(text: str, rng: random.Random) -> str:
    try:
        record = json.loads(text)
    except ValueError:
        return rng.choice(["", "x", "-1", "99999999999", str(2**63)])
    if isinstance(record, dict | list) and record:
        _alter_json(record, rng)
        return json.dumps(record)
    return rng.choice(["", "null", "[]", "{}", "1e999", "[" * 3000, "-1", "true", '"x"'])


def _alter_json(record, rng: random.Random, spared: tuple[str, ...] = ()) -> str:
    paths = [path for path in _paths(record) if path and not set(path) & set(spared)]
    *way, last = rng.choice(paths)
    inside = record
    for step in way:
        inside = inside[step]
    if rng.random() < 0.15:
        del inside[last]
    elif isinstance(inside[last], int | float) and rng.random() < 0.4:
        inside[last] = inside[last] * rng.choice([-1, 10**6, 0.5, 1e300, 10**20]) + rng.choice([0, 1])
    else:
        inside[last] = rng.choice(EVIL_VALUES)
    return "/".join(map(str, [*way, last]))


def _paths(record, path=()):
    yield path
    entries = (
        record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    )
    for name, inside in list(entries)[:60]:
        yield from _paths(inside, (*path, name))


def sign_parts(folder: Path, column: str, value: int) -> None:
    """Set the first value of a column of edges in an engine's files, and sign them."""
    place = folder / "edges.json"
    record = json.loads(place.read_text(encoding="utf-8"))
    file = folder / record["files"][0]["name"]
    rows = pq.read_table(file)
    pq.write_table(_with_column(rows, column, [value, *rows.column(column).to_pylist()[1:]]), file)
    record["files"][0]["sha256"] = digest_file(file)
    _write_sealed(place, record)


def rename_step(file: Path, step: int) -> None:
    """Let a checkpoint be that of another step."""
    arrays, about = read_arrays(file)
    write_arrays(file.with_name(f"{step:012d}.safetensors"), arrays, {**about, "step": str(step)})
    file.unlink()
