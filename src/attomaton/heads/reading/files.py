"""Safetensors files mapped into memory: weights are read from the disk as they are used."""

import mmap
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from os import fstat
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from attomaton.base.errors import UnreadableModel, UnreadableSource
from attomaton.corpora.budgets import shown
from attomaton.corpora.regular import open_regular
from attomaton.heads.reading.headers import HEADER_BYTES, parse_header, parse_json

TYPES = {
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
}
"""Types that are read. Whole numbers are masks that old files carry; weights are one of the first four."""

CONFIG_BYTES = 1 << 24
"""Bytes of a config.json or of an index: 16 MB. The largest index in use has about one."""

RESTORE = "restore the file, or give another model"


def map_file(path: Path) -> dict[str, Tensor]:
    r"""The tensors of a safetensors file by name, mapped into memory, once all that it says is checked."""
    with named(path, "is no safetensors file"), open_regular(path) as stream:
        size = fstat(stream.fileno()).st_size
        if size < 10:
            raise UnreadableModel(f"it has {size} bytes")
        length = int.from_bytes(stream.read(8), "little")
        if length > min(HEADER_BYTES, size - 8):
            raise UnreadableModel(
                f"it says that its header has {length:,} bytes, and it has {size:,} itself; a header has "
                f"{HEADER_BYTES:,} at most"
            )
        entries = parse_header(stream.read(length), size - 8 - length)
        held = mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_COPY)
        return {
            name: _view(held, TYPES[entry.dtype], entry.shape, 8 + length + entry.begin)
            for name, entry in entries.items()
            if entry.dtype in TYPES or _refuse_dtype(name, entry.dtype)
        }


def _view(held: mmap.mmap, dtype: torch.dtype, shape: tuple[int, ...], begin: int) -> Tensor:
    """The numbers where they lie; those that do not lie on a border of their size are copied."""
    count = 1
    for size in shape:
        count *= size
    if not count:
        return torch.zeros(shape, dtype=dtype)
    width = dtype.itemsize
    aligned = begin % width == 0
    source: Any = held if aligned else bytearray(held[begin : begin + count * width])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat = torch.frombuffer(source, dtype=dtype, count=count, offset=begin if aligned else 0)
    return flat.reshape(shape)


def _refuse_dtype(name: str, dtype: str) -> bool:
    raise UnreadableModel(
        f"tensor {shown(name)!r} has the dtype {dtype}; weights are read as F16, BF16, F32 or F64"
    )


def read_json(path: Path) -> dict[str, Any]:
    """The object of a JSON file."""
    with named(path, "cannot be used"), open_regular(path) as stream:
        text = stream.read(CONFIG_BYTES + 1)
        if len(text) > CONFIG_BYTES:
            raise UnreadableModel(f"it has more than {CONFIG_BYTES:,} bytes, as no configuration has")
        found = parse_json(text, "it")
        if not isinstance(found, dict):
            raise UnreadableModel("it is no JSON object")
        return cast("dict[str, Any]", found)


def map_shards(folder: Path, weight_map: Mapping[str, str]) -> dict[str, Tensor]:
    """The tensors of several files, by an index that says which file holds which; both must agree."""
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(weight_map.values())):
        found = map_file(folder / name)
        wanted = {tensor for tensor, file in weight_map.items() if file == name}
        if found.keys() != wanted:
            wrong = shown(min(found.keys() ^ wanted))
            raise UnreadableModel(
                f"{folder / name} and the index of its folder do not agree about tensor {wrong!r}; {RESTORE}"
            )
        tensors.update(found)
    return tensors


def parse_index(found: Mapping[str, Any], place: Path) -> dict[str, str]:
    """Tensor → file of an index, if all files are safetensors files beside it."""
    given = found.get("weight_map")
    files = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    wrong = [one for one in files.values() if not _is_plain(one)]
    if not files or wrong:
        said = f": it names {shown(str(wrong[0]))!r}" if wrong else ""
        raise UnreadableModel(
            f"{place} has no weight_map of tensors and safetensors files beside it{said}; {RESTORE}"
        )
    return files


def _is_plain(name: Any) -> bool:
    """Whether it is the name of a safetensors file in the same folder."""
    return (
        isinstance(name, str)
        and name.endswith(".safetensors")
        and name.isprintable()
        and not set(name) & set('/\\:*?"<>|')
        and not name.startswith(".")
        and len(name) < 200
    )


@contextmanager
def named(path: Path, what: str) -> Generator[None]:
    """Errors about a file, with its name and what to do."""
    try:
        yield
    except UnreadableModel as error:
        raise UnreadableModel(f"{path} {what}: {error}; {RESTORE}") from error
    except UnreadableSource:
        raise
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or shown(str(error))
        raise UnreadableModel(f"{path} cannot be read: {reason}; {RESTORE}") from error
