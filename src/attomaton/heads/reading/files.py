"""Safetensors files mapped into memory: weights are read from disk on demand."""

# A model folder is read in this order: `read_json` reads its config.json and, if there is one, its index;
# `parse_index` checks the map from tensors to files; `map_shards` maps these files, `map_file` a single one.

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import safetensors
from torch import Tensor

from attomaton.base.errors import UnreadableModel, UnreadableSource
from attomaton.corpora.budgets import brief, open_regular

# Supported types. Integers are masks in old files; weights have one of the first four types.
READ_TYPES = ("F16", "BF16", "F32", "F64", "BOOL", "U8", "I8", "I16", "I32", "I64")

CONFIG_BYTES = 1 << 24  # 16 MB for a config.json or an index; the largest index in use has about one

RESTORE = "restore the file, or give another model"

_open: Any = safetensors.safe_open


def map_file(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, mapped into memory and read on demand."""
    # safetensors opens the path itself, and would wait for ever at a named pipe: `open_regular` refuses
    # everything that is not a regular file, and its stream is not read.
    with adding_path(path, "is not a safetensors file"), open_regular(path):
        try:
            with _open(str(path), "pt") as file:
                for name in file.keys():  # noqa: SIM118  no mapping
                    dtype = file.get_slice(name).get_dtype()
                    if dtype not in READ_TYPES:
                        raise UnreadableModel(
                            f"tensor {brief(name)!r} has dtype {dtype}; weights must be F16, BF16, F32 or F64"
                        )
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except safetensors.SafetensorError as error:
            raise UnreadableModel(brief(str(error))) from error


def parse_json(stream: BinaryIO, most: int) -> Any:
    # the value in a file of at most this number of bytes
    text = stream.read(most + 1)
    if len(text) > most:
        raise UnreadableModel(f"it has more than {most:,} bytes, too many for a JSON file of a model")
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant)
    except RecursionError as error:
        raise UnreadableModel("it is nested too deeply") from error
    except ValueError as error:  # from UTF-8, JSON, or too many digits
        raise UnreadableModel(f"it is not JSON ({brief(str(error))})") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # a JSON object, unless a key occurs twice, of which readers would use different values
    record = dict(pairs)
    if len(record) < len(pairs):
        names = set[str]()
        repeated = next(name for name, _ in pairs if name in names or names.add(name))
        raise ValueError(f"{brief(repeated)!r} occurs twice")
    return record


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def read_json(path: Path) -> dict[str, Any]:
    with adding_path(path, "cannot be used"), open_regular(path) as stream:
        record = parse_json(stream, CONFIG_BYTES)
        if not isinstance(record, dict):
            raise UnreadableModel("it is not a JSON object")
        return cast("dict[str, Any]", record)


def map_shards(folder: Path, weight_map: Mapping[str, str]) -> dict[str, Tensor]:
    """The tensors of several files, which must be those of the index (tensor → file)."""
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(weight_map.values())):
        shard = map_file(folder / name)
        listed = {tensor for tensor, file in weight_map.items() if file == name}
        if shard.keys() != listed:
            wrong = brief(min(shard.keys() ^ listed))
            raise UnreadableModel(
                f"{folder / name} and the index of its folder disagree about tensor {wrong!r}; {RESTORE}"
            )
        tensors.update(shard)
    return tensors


def parse_index(index: Mapping[str, Any], index_file: Path) -> dict[str, str]:
    """The map tensor → file in an index, if all files are safetensors files in the folder of the index."""
    weight_map = index.get("weight_map")
    files = cast("dict[str, Any]", weight_map) if isinstance(weight_map, dict) else {}
    wrong = [file for file in files.values() if not _is_plain(file)]
    if not files or wrong:
        fault = f": it names {brief(str(wrong[0]))!r}" if wrong else ""
        raise UnreadableModel(
            f"{index_file} has no weight_map to safetensors files in its folder{fault}; {RESTORE}"
        )
    return files


def _is_plain(name: Any) -> bool:
    # a safetensors file in the folder itself: no separator, no drive, no hidden file, on any system
    return (
        isinstance(name, str)
        and name.endswith(".safetensors")
        and name.isprintable()
        and not set(name) & set('/\\:*?"<>|')
        and not name.startswith(".")
        and len(name) < 200
    )


@contextmanager
def adding_path(path: Path, problem: str) -> Generator[None]:
    """Errors in the block begin with the path and the problem, and end with what can be done."""
    try:
        yield
    except UnreadableModel as error:
        raise UnreadableModel(f"{path} {problem}: {error}; {RESTORE}") from error
    except UnreadableSource:  # of `open_regular`: its message already has the path and what can be done
        raise
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or brief(str(error))
        raise UnreadableModel(f"{path} cannot be read: {reason}; {RESTORE}") from error
