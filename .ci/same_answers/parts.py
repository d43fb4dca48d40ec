"""What a checkout's commands printed and wrote, as parts to compare: values, and sentences and pictures.

Everything is compared bit for bit, apart from what is named here:

- In JSON, also in that of the report's page, these keys are left out: ``seconds`` (a duration), ``versions``
  and ``written_by`` (of packages), ``seal`` (a digest over these too), ``bytes`` (the size of a file that is
  compared itself). The digests that a manifest lists are compared with its files, and these with their
  counterparts.
- Sentences are compared apart from values: the keys of ``PROSE``, Markdown, what is printed without --json,
  and the page around its data. Durations in them ("0.2 minutes") are left out.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file

DROPPED = {"seconds", "versions", "written_by", "seal", "bytes"}
PROSE = {"caption", "diagnosis", "headers", "meaning", "note", "notes", "reason", "rules", "title"}
PICTURES = {".pdf", ".png"}
WRITTEN = {".md", ".txt"}
DURATION = re.compile(r"\d[\d.,]*(?= ?(?:s|seconds|minutes)\b)")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
DATA = re.compile(r'(<script type="application/json"[^>]*>)(.*?)(</script>)', re.DOTALL)
DIGEST = re.compile(r"sha256-[\w+/=]+")
"""Of the page's own script and style."""


@dataclass(frozen=True)
class Part:
    """Something to compare: a file, or its sentences apart from the rest."""

    name: str
    content: bytes
    presentation: bool = False

    @property
    def numbers(self) -> list[str]:
        """The numbers in it, in any order, since a new sentence may turn them round."""
        if Path(self.name).suffix in PICTURES:
            return []
        return sorted(NUMBER.findall(self.content.decode()))


def read_parts(place: Path) -> dict[str, Part]:
    """All parts of all files below a folder, by name."""
    files = sorted(path for path in place.rglob("*") if path.is_file())
    found = (part for path in files for part in _split(path, path.relative_to(place).as_posix()))
    return {part.name: part for part in found}


def _split(path: Path, name: str) -> Iterator[Part]:
    content = path.read_bytes()
    if path.suffix in PICTURES:
        yield Part(name, content, presentation=True)
    elif path.suffix in WRITTEN:
        yield Part(name, DURATION.sub("TIME", content.decode()).encode(), presentation=True)
    elif path.suffix == ".json":
        yield from _split_json(path, name, content.decode())
    elif path.suffix == ".html":
        page = content.decode()
        around = DIGEST.sub("", DATA.sub(r"\1\3", page))
        yield Part(f"{name} around its data", around.encode(), presentation=True)
        for number, data in enumerate(DATA.findall(page)):
            yield from _split_json(path, f"{name} data {number}", data[1])
    else:
        yield Part(name, content)


def _split_json(path: Path, name: str, text: str) -> Iterator[Part]:
    """Its values, and its sentences; a text that is no JSON is a value."""
    try:
        record = json.loads(text)
    except ValueError:
        record = text
    prose: list[Any] = []
    values = json.dumps(_strip(record, path.parent, prose), indent=1, ensure_ascii=False)
    yield Part(name, values.encode())
    if prose:
        sentences = DURATION.sub("TIME", json.dumps(prose, indent=1, ensure_ascii=False))
        yield Part(f"{name} sentences", sentences.encode(), presentation=True)


def _strip(value: Any, folder: Path, prose: list[Any]) -> Any:
    """The value without what is dropped; sentences are put aside."""
    if isinstance(value, list):
        return [_strip(one, folder, prose) for one in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for key, one in value.items():
        if key in PROSE:
            prose.append([key, one])
        elif key == "files" and isinstance(one, dict):
            kept[key] = {name: _matches(folder / name, listed) for name, listed in one.items()}
        elif key not in DROPPED:
            kept[key] = _strip(one, folder, prose)
    return kept


def _matches(path: Path, listed: Any) -> Any:
    """Whether a file is what its manifest lists; what is listed if there is no such file here."""
    if not path.is_file() or not isinstance(listed, dict):
        return listed
    return hashlib.sha256(path.read_bytes()).hexdigest() == listed.get("sha256")


def judge(one: Part | None, other: Part | None) -> str:
    """``equal``, ``presentation`` (other words or lines, the same numbers) or ``DIFFERS``."""
    if one is None or other is None:
        return "DIFFERS"
    if one.content == other.content:
        return "equal"
    return "presentation" if one.presentation and one.numbers == other.numbers else "DIFFERS"


def describe(name: str, one: Path, other: Path) -> str:
    """How far apart two files are."""
    path = name.split(" ")[0]
    if not ((one / path).exists() and (other / path).exists()):
        return f"is only in {one.name if (one / path).exists() else other.name}"
    found = [_read_numbers(place / path) for place in (one, other)]
    if not len(found[0]) == len(found[1]) > 0:
        return f"holds {len(found[0]):,} and {len(found[1]):,} numbers"
    scale = np.maximum(np.abs(found[0]), np.abs(found[1]))
    apart = np.abs(found[0] - found[1]) / np.where(scale > 0, scale, 1)
    differ, most = int((apart > 0).sum()), float(np.nanmax(apart))
    return f"{differ:,} of {len(apart):,} numbers differ, by {most:.1e} at most, relative"


def _read_numbers(path: Path) -> np.ndarray[Any, Any]:
    """All numbers of a file."""
    if path.suffix == ".npy":
        arrays = [np.load(path)]
    elif path.suffix == ".safetensors":
        arrays = list(load_file(path).values())
    elif path.suffix == ".parquet":
        arrays = [_flatten(column) for column in pq.read_table(path).columns]
    elif path.suffix in PICTURES:
        arrays = []
    else:
        arrays = [np.array([float(text.replace(",", "")) for text in NUMBER.findall(path.read_text())])]
    return np.concatenate([np.zeros(0), *(array.ravel() for array in arrays if array.dtype.kind in "biuf")])


def _flatten(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    while pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
    return column.to_numpy()
