"""Metadata of a saved table of heads, so that readers of the file know what its z are relative to."""

import json
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from attomaton.base.errors import UnreadableSource
from attomaton.base.tables import arrow_parquet, read_parquet

KEY = b"attomaton heads"
"""The metadata key in the file."""

SAID_OF_NULL = {
    "intact": "of random heads that read the trained residual stream",
    "rotated": "with rotated heads in all layers",
    "given": "with random weights",
}
"""Descriptions of random heads, by the name of their null."""

NO_EVIDENCE = "Mean output alone is not evidence about where a head looks."

MOST_BYTES, MOST_ROWS = 1 << 28, 1 << 20
"""The largest file of heads that is read, and the largest number of rows."""

TEXTS = ("head",)
NUMBERS = ("layer", "number", "inside", "first", "label_mass", "label_excess", "label_z")


@dataclass(frozen=True)
class About:
    """Metadata of a table of heads.

    Attributes
    ----------
    model : str
        The model's name.
    rungs : tuple of str
        The rungs, nested.
    n_documents, n_rows : int
        The numbers of scored documents and rows.
    n_random : int
        How many draws of random heads, or models with them, z is relative to.
    null : str
        Their kind: ``"intact"``, ``"rotated"``, or ``"given"``.

    Examples
    --------
    >>> About("arrays", ("position",), 10, 200, 2, "intact").said_of_z
    'z compares heads with 2 draws of random heads that read the trained residual stream.'
    """

    model: str
    rungs: tuple[str, ...]
    n_documents: int
    n_rows: int
    n_random: int
    null: str = "intact"

    @property
    def said_of_z(self) -> str:
        """What z is relative to, in a sentence."""
        if not self.n_random:
            return (
                "z is over documents alone, a test that many random heads pass too: no head is reported as "
                "seeking the label."
            )
        many = f"{self.n_random} {'draw' if self.null == 'intact' else 'model'}{'s' * (self.n_random != 1)}"
        return f"z compares heads with {many} {SAID_OF_NULL[self.null]}."


def mark(table: pa.Table, about: About) -> pa.Table:
    """The table with its metadata."""
    marked: Any = table
    return marked.replace_schema_metadata({KEY: json.dumps(asdict(about)).encode()})


def read_saved(path: str | PathLike[str]) -> tuple[pa.Table, About]:
    """A table written by :meth:`HeadAudit.save`, ``HeadCourse.save`` or ``attomaton heads --out``.

    Examples
    --------
    >>> read_saved("nowhere.parquet")
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnreadableSource: nowhere.parquet cannot be read (No such file or directory); give a
    file that attomaton heads --out wrote
    """
    place, advice = Path(path), "give a file that attomaton heads --out wrote"
    try:
        blob = place.read_bytes() if place.stat().st_size <= MOST_BYTES else b""
        source: Any = pa.BufferReader(blob)
        if not blob or arrow_parquet().ParquetFile(source).metadata.num_rows > MOST_ROWS:
            raise ValueError
        table: Any = read_parquet(blob)
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or "it is not a Parquet file of heads"
        raise UnreadableSource(f"{path} cannot be read ({reason}); {advice}") from error
    try:
        metadata: dict[bytes, bytes] = table.schema.metadata or {}
        about = _about(json.loads(metadata[KEY]))
        _check_columns(table, about)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UnreadableSource(f"{path} does not hold an audit of heads ({error}); {advice}") from error
    return table, about


def _about(record: Any) -> About:
    if not isinstance(record, dict):
        raise TypeError("its metadata is not an object")
    fields = cast("dict[str, Any]", record)
    n_documents, n_rows, n_random = (fields[name] for name in ("n_documents", "n_rows", "n_random"))
    rungs, null = fields["rungs"], fields["null"]
    whole = all(type(one) is int and one >= 0 for one in (n_documents, n_rows, n_random))
    texts = isinstance(rungs, list) and all(isinstance(one, str) for one in cast("list[Any]", rungs))
    if not (whole and texts and rungs and isinstance(fields["model"], str) and null in SAID_OF_NULL):
        raise TypeError("its metadata is incomplete")
    return About(fields["model"], tuple(cast("list[str]", rungs)), n_documents, n_rows, n_random, null)


def _check_columns(table: Any, about: About) -> None:
    """Refuse a table with missing columns, columns of other types, or only one causal column."""
    kinds = {one.name: one.type for one in table.schema}
    if len(kinds) != len(table.schema) or not table.num_rows:
        raise ValueError("it has no rows, or two columns of the same name")
    rises = [name for name in ("pattern_rise", "ablation_rise") if name in kinds]
    if len(rises) == 1:
        raise ValueError("one of the two causal columns is missing")
    steps = ["step"] if "step" in kinds else []
    numeric = [
        *NUMBERS,
        *steps,
        *rises,
        *(f"{kind} {rung}" for kind in ("explained", "z") for rung in about.rungs),
    ]
    for name in (*TEXTS, *numeric, "seeks"):
        if name not in kinds:
            raise ValueError(f"the column {name!r} is missing")
    types: Any = pa.types
    for name in numeric:
        if not (types.is_floating(kinds[name]) or types.is_integer(kinds[name])):
            raise ValueError(f"the column {name!r} does not hold numbers")
    if not types.is_string(kinds["head"]) or not types.is_boolean(kinds["seeks"]):
        raise ValueError("its columns of heads or of label seeking have other types")
    if steps and not (types.is_integer(kinds["step"]) and table.column("step").null_count == 0):
        raise ValueError("its steps are not whole numbers")
