"""What a safetensors file says of itself, checked before any of it is believed.

The file is eight bytes of length, a JSON header of that length, and the numbers of all tensors without gaps.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import shown

HEADER_BYTES = 100_000_000
"""The longest header that the format allows."""

MOST_AXES = 8
"""Axes of a tensor; weights of transformers have one or two."""

SIZES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
}
"""Types that a file may hold → bytes of a number. Which of them are read is said in ``files``."""


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
    _check_metadata(found.pop("__metadata__", {}))
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


def _check_metadata(given: Any) -> None:
    texts = cast("Mapping[Any, Any]", given) if isinstance(given, dict) else {None: None}
    if not all(isinstance(one, str) for one in texts.values()):
        raise UnreadableModel("its __metadata__ is no object of texts")


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
    if len(numbers) > most or not all(type(one) is int and 0 <= one < 1 << 48 for one in numbers):
        raise UnreadableModel(f"{what} is not a list of at most {most} whole numbers from 0 to {2**48 - 1:,}")
    return tuple(int(one) for one in numbers)
