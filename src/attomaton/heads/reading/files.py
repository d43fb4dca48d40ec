"""Safetensors files mapped into memory: weights are read from the disk as they are used."""

import json
import math
import mmap
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from os import fstat
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from attomaton.base.errors import UnreadableModel, UnreadableSource
from attomaton.corpora.budgets import open_regular, shown

HEADER_BYTES = 100_000_000
"""The longest header that the format allows."""

MOST_AXES = 8
"""Axes of a tensor; weights of transformers have one or two."""

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

UNREAD = {"F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "U32": 4, "U64": 8}
SIZES = {name: dtype.itemsize for name, dtype in TYPES.items()} | UNREAD
"""Types that a file may hold → bytes of a number."""


class Entry(NamedTuple):
    """One tensor: its type, its shape, and where its bytes begin and end after the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def parse_header(text: bytes, n_data: int) -> dict[str, Entry]:
    """The tensors of a header, if they fill ``n_data`` bytes without gap or overlap."""
    whole = parse_json(text, "the header")
    if not isinstance(whole, dict) or not text.startswith(b"{"):
        raise UnreadableModel("the header is no JSON object")
    found = cast("dict[str, Any]", whole)
    metadata: Any = found.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(
        isinstance(one, str) for one in cast("Any", metadata).values()
    ):
        raise UnreadableModel("its __metadata__ is no object of texts")
    entries = {name: _parse_entry(name, entry) for name, entry in found.items()}
    reached = 0
    for name, entry in sorted(entries.items(), key=lambda one: (one[1].begin, one[1].end)):
        if entry.begin != reached:
            kind = "overlaps the one before it" if entry.begin < reached else "leaves a gap before it"
            raise UnreadableModel(
                f"tensor {shown(name)!r} begins at byte {entry.begin}, not {reached}: it {kind}"
            )
        reached = entry.end
    if reached != n_data:
        raise UnreadableModel(f"its tensors end at byte {reached:,}, and the file has {n_data:,} of them")
    return entries


def parse_json(text: bytes, what: str) -> Any:
    """A JSON text without repeated names and without numbers that are not finite."""
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant)
    except RecursionError as error:
        raise UnreadableModel(f"{what} is nested too deeply") from error
    except ValueError as error:  # of UTF-8, of JSON, or of too many digits
        raise UnreadableModel(f"{what} is not JSON ({shown(str(error))})") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set[str]()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"{shown(twice)!r} is there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _parse_entry(name: str, given: Any) -> Entry:
    entry = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise UnreadableModel(f"tensor {shown(name)!r} has not just a dtype, a shape and data_offsets")
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or dtype not in SIZES:
        raise UnreadableModel(
            f"tensor {shown(name)!r} has the dtype {shown(str(dtype))!r}; known are {', '.join(SIZES)}"
        )
    shape = _whole_numbers(entry["shape"], f"the shape of {shown(name)!r}", MOST_AXES)
    if math.prod(max(one, 1) for one in shape) >= 1 << 48:  # which empty tensors of other sizes may have
        raise UnreadableModel(f"tensor {shown(name)!r} has shape {list(shape)}, as no weights have")
    offsets = _whole_numbers(entry["data_offsets"], f"data_offsets of {shown(name)!r}", 2)
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise UnreadableModel(f"data_offsets of {shown(name)!r} are not a begin and an end")
    size = math.prod(shape) * SIZES[dtype]
    if size != offsets[1] - offsets[0]:
        raise UnreadableModel(
            f"tensor {shown(name)!r} has shape {list(shape)} of {dtype}, hence {size} bytes, and is said to "
            f"have {offsets[1] - offsets[0]}"
        )
    return Entry(dtype, shape, *offsets)


def _whole_numbers(given: Any, what: str, most: int) -> tuple[int, ...]:
    numbers: list[Any] = cast("list[Any]", given) if isinstance(given, list) else [None]
    if len(numbers) > most or not all(type(number) is int and 0 <= number < 1 << 48 for number in numbers):
        raise UnreadableModel(f"{what} is not a list of at most {most} whole numbers from 0 to {2**48 - 1:,}")
    return tuple(int(number) for number in numbers)


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
        for name, entry in entries.items():
            if entry.dtype in UNREAD:
                raise UnreadableModel(
                    f"tensor {shown(name)!r} has the dtype {entry.dtype}; weights are F16, BF16, F32 or F64"
                )
        held = mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_COPY)
        return {
            name: _view(held, TYPES[entry.dtype], entry.shape, 8 + length + entry.begin)
            for name, entry in entries.items()
        }


def _view(held: mmap.mmap, dtype: torch.dtype, shape: tuple[int, ...], begin: int) -> Tensor:
    """The numbers where they lie; those that do not lie on a border of their size are copied."""
    count = math.prod(shape)
    if not count:
        return torch.zeros(shape, dtype=dtype)
    width = dtype.itemsize
    aligned = begin % width == 0
    source: Any = held if aligned else bytearray(held[begin : begin + count * width])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat = torch.frombuffer(source, dtype=dtype, count=count, offset=begin if aligned else 0)
    return flat.reshape(shape)


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
    wrong = [file for file in files.values() if not _is_plain(file)]
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
