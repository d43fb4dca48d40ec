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
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from safetensors.numpy import load_file

Numbers = np.ndarray[Any, Any]

DROPPED = {"seconds", "versions", "written_by", "seal", "bytes"}
PROSE = {"caption", "diagnosis", "headers", "meaning", "note", "notes", "reason", "rules", "title"}
PICTURES = {".pdf", ".png"}
WRITTEN = {".md", ".txt"}
DURATION = re.compile(r"\d[\d.,]*(?= ?(?:s|seconds|minutes)\b)")
FONTS = re.compile(r".*building the font cache.*\n")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
DATA = re.compile(r'(<script type="application/json"[^>]*>)(.*?)(</script>)', re.DOTALL)
DIGEST = re.compile(r"sha256-[\w+/=]+")
"""Of the page's own script and style."""


@dataclass(frozen=True)
class Part:
    """Something to compare.

    Attributes
    ----------
    name : str
        The path of its file, and which part of the file it is.
    content : str
        Its text; of a file that is compared as it is, the SHA-256.
    presentation : bool
        Whether it is sentences or a picture.
    """

    name: str
    content: str
    presentation: bool = False

    @property
    def numbers(self) -> list[str]:
        """The numbers of a text, in any order, since a new sentence may turn them round."""
        return [] if Path(self.name).suffix in PICTURES else sorted(NUMBER.findall(self.content))


def read_parts(place: Path) -> dict[str, Part]:
    """All parts of all files below a folder, by name."""
    files = sorted(path for path in place.rglob("*") if path.is_file())
    found = (part for path in files for part in _split(path, path.relative_to(place).as_posix()))
    return {part.name: part for part in found}


def _split(path: Path, name: str) -> Iterator[Part]:
    if path.suffix in WRITTEN:
        yield Part(name, _read_sentences(path.read_text(encoding="utf-8")), presentation=True)
    elif path.suffix == ".json":
        yield from _split_json(path, name, path.read_text(encoding="utf-8"))
    elif path.suffix == ".html":
        page = path.read_text(encoding="utf-8")
        around = DIGEST.sub("", DATA.sub(r"\1\3", page))
        yield Part(f"{name} around its data", around, presentation=True)
        for number, data in enumerate(DATA.findall(page)):
            yield from _split_json(path, f"{name} data {number}", data[1])
    else:
        yield Part(name, _digest(path), presentation=path.suffix in PICTURES)


def _split_json(path: Path, name: str, text: str) -> Iterator[Part]:
    """Its values, and its sentences; a text that is no JSON is a value."""
    try:
        record = json.loads(text)
    except ValueError:
        record = text
    prose: list[Any] = []
    values = json.dumps(_strip(record, path.parent, prose), indent=1, ensure_ascii=False)
    yield Part(name, values)
    if prose:
        sentences = _read_sentences(json.dumps(prose, indent=1, ensure_ascii=False))
        yield Part(f"{name} sentences", sentences, presentation=True)


def _read_sentences(text: str) -> str:
    """A text without durations, and without what matplotlib says when it looks for fonts the first time."""
    return DURATION.sub("TIME", FONTS.sub("", text))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    return _digest(path) == listed.get("sha256")


def judge(one: Part | None, other: Part | None) -> str:
    """``equal``, ``presentation`` (other words or lines, the same numbers) or ``DIFFERS``."""
    if one is None or other is None:
        return "DIFFERS"
    if one.content == other.content:
        return "equal"
    return "presentation" if one.presentation and one.numbers == other.numbers else "DIFFERS"


def find_broken(parts: dict[str, Part]) -> list[str]:
    """The commands that did not answer: an exit code beyond 0 and 1, or a traceback."""
    said = {name: part.content for name, part in parts.items() if name.endswith((".exit", ".stderr.txt"))}
    fine = {hashlib.sha256(code).hexdigest() for code in (b"0\n", b"1\n")}
    return [
        name
        for name, content in said.items()
        if (name.endswith(".exit") and content not in fine) or "Traceback (most recent" in content
    ]


def describe(one: Part | None, other: Part | None, places: tuple[Path, Path]) -> str:
    """How two parts differ: how far apart numbers are, or the first lines that are not the same."""
    if one is None or other is None:
        return f"it is only in {places[0 if other is None else 1].name}"
    path = Path(one.name)
    if path.suffix in READERS:
        return _measure(*(_read_numbers(place / path) for place in places))
    lines = zip_longest(one.content.splitlines(), other.content.splitlines(), fillvalue="")
    first, second = next((pair for pair in lines if pair[0] != pair[1]), ("", ""))
    return f"{first.strip()[:90]!r} became {second.strip()[:90]!r}"


def _measure(one: Numbers, other: Numbers) -> str:
    """How many of two files' numbers differ, and by how much, relative to the larger."""
    if len(one) != len(other):
        return f"there are {len(one):,} and {len(other):,} numbers"
    differ = ~((one == other) | (np.isnan(one) & np.isnan(other)))
    a, b = one[differ], other[differ]
    most = np.max(np.abs(a - b) / np.maximum(np.abs(a), np.abs(b)), initial=0.0)
    return f"{differ.sum():,} of {len(one):,} numbers differ, by {most:.1e} at most"


def _read_numbers(path: Path) -> Numbers:
    """All numbers of a file of arrays or of a table."""
    arrays = [array for array in READERS[path.suffix](path) if array.dtype.kind in "biuf"]
    return np.concatenate([np.zeros(0), *(array.ravel() for array in arrays)])


def _read_table(path: Path) -> list[Numbers]:
    """The columns of a table; of a column of lists, the numbers in them."""
    columns = pq.read_table(path).columns
    lists = [pa.types.is_list(one.type) or pa.types.is_large_list(one.type) for one in columns]
    return [
        (pc.list_flatten(one) if nested else one).to_numpy()
        for one, nested in zip(columns, lists, strict=True)
    ]


READERS = {
    ".npy": lambda path: [np.load(path)],
    ".safetensors": lambda path: list(load_file(path).values()),
    ".parquet": _read_table,
}
"""How the numbers of a file are read."""
