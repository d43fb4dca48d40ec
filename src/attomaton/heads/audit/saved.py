"""The table of an audit of heads in a Parquet file, with metadata about the audit: ``About``."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from attomaton.base.artifacts import check_target, is_parquet, write_target
from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.base.tables import arrow_parquet, read_parquet, write_parquet
from attomaton.heads.audit.excerpts import CONTEXTS
from attomaton.heads.audit.ladder import name_column

KEY = b"attomaton heads"  # the metadata key in the file

# Descriptions of random heads, by the name of their null.
NULLS = {
    "intact": "of random heads that read the trained residual stream",
    "inputs": "of random heads that share one rotation per layer",
    "given": "with random weights",
}

NO_EVIDENCE = "Mean output alone is not evidence about where a head looks."

MOST_SAVED_BYTES = 1 << 28  # the largest file of heads that is read

MOST_SAVED_ROWS = 1 << 20  # the most heads in such a file

# Fields of an audit that are metadata of the saved table too.
COMMON_FIELDS = (
    *("model", "n_documents", "n_rows", "n_random", "null", "left_out"),
    *("n_layers", "n_heads", "n_chosen", "digest"),
)

# Fields of metadata that are texts, and lists of texts or numbers; all others are whole numbers.
TEXT_FIELDS = ("model", "null", "left_out", "digest")
LIST_FIELDS = {"rungs": str, "alone": str, "whole": float}

# Columns of numbers that every table of heads has.
NUMBER_COLUMNS = ("layer", "number", "inside", "first", "seeking_mass", "seeking_excess", "seeking_z")


@dataclass(frozen=True)
class About:
    """Metadata of a table of heads; most fields are those of :class:`~attomaton.heads.HeadAudit`.

    These are ``model``, ``n_documents``, ``n_rows``, ``n_random``, ``null``, ``left_out``, ``n_layers``,
    ``n_heads``, ``n_chosen`` and ``digest``. ``rungs`` and ``alone`` are names of rungs. ``seeking_rows`` and
    ``seeking_documents`` count the rows and documents behind next-token seeking. ``whole`` has the loss and
    accuracy of the unchanged model, if causal value was measured.
    """

    model: str
    rungs: tuple[str, ...]
    n_documents: int
    n_rows: int
    n_random: int
    null: str = "intact"
    alone: tuple[str, ...] = ()
    seeking_rows: int = 0
    seeking_documents: int = 0
    whole: tuple[float, ...] = ()
    left_out: str = ""
    n_layers: int = 0
    n_heads: int = 0
    n_chosen: int = 0
    digest: str = ""

    @property
    def said_of_z(self) -> str:
        """The sentence below tables that says what z compares."""
        if not self.n_random:
            return (
                "There are no random heads to compare with, so z only tests whether a result recurs across "
                "documents, and no head is reported as seeking the next token."
            )
        kind = "draw" if self.null in ("intact", "inputs") else "model"
        many = f"{self.n_random} {kind}{'s' * (self.n_random != 1)}"
        return f"z compares heads with {many} {NULLS[self.null]}."


def mark(table: pa.Table, about: About) -> pa.Table:
    """The table with its metadata; without other metadata."""
    return cast("Any", table).replace_schema_metadata({KEY: json.dumps(asdict(about)).encode()})


def check_saved(path: str | PathLike[str]) -> None:
    """Refuse a path that cannot become a Parquet file with this name, before a long audit."""
    if check_target(path, is_ours=is_parquet).suffix not in (".parquet", "") and str(path) != "-":
        raise UnsupportedOption(
            f"{path} would be a Parquet file; end its name in .parquet (for CSV: audit.to_pandas().to_csv(…))"
        )


def write_saved(table: pa.Table, path: str | PathLike[str]) -> Path:
    """Write a marked table, and return the path; only Parquet files are overwritten."""
    check_saved(path)
    write_target(path, partial(write_parquet, table), is_ours=is_parquet)
    return Path(path)


def read_saved(path: str | PathLike[str]) -> tuple[pa.Table, About]:
    """Read a table that ``HeadAudit.save``, ``HeadCourse.save`` or ``attomaton heads --out`` wrote."""
    file = Path(path)
    remedy = "give a file that attomaton heads --out wrote"
    try:
        blob = file.read_bytes() if file.stat().st_size <= MOST_SAVED_BYTES else b""
        source: Any = pa.BufferReader(blob)
        if not blob or arrow_parquet().ParquetFile(source).metadata.num_rows > MOST_SAVED_ROWS:
            raise ValueError
        table: Any = read_parquet(blob)
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or "it is not a Parquet file of heads"
        raise UnreadableSource(f"{path} cannot be read ({reason}); {remedy}") from error
    try:
        metadata: dict[bytes, bytes] = table.schema.metadata or {}
        about = _parse_about(json.loads(metadata[KEY]))
        _check_columns(table, about)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UnreadableSource(f"{path} is not an audit of heads ({error}); {remedy}") from error
    return table, about


# The metadata from its JSON object, with the types of all fields checked.
def _parse_about(record: Any) -> About:
    if not isinstance(record, dict):
        raise TypeError("its metadata is not an object")
    entries: dict[str, Any] = {
        name: tuple(cast("list[Any]", entry)) if isinstance(entry, list) else entry
        for name, entry in cast("dict[str, Any]", record).items()
    }
    about = About(**entries)
    is_valid = bool(about.rungs) and about.null in NULLS
    for name, value in vars(about).items():
        if name in LIST_FIELDS:
            is_valid &= isinstance(value, tuple)
            is_valid &= all(isinstance(entry, LIST_FIELDS[name]) for entry in cast("Iterable[Any]", value))
        elif name in TEXT_FIELDS:
            is_valid &= isinstance(value, str)
        else:
            is_valid &= type(value) is int and value >= 0
    if not is_valid:
        raise TypeError("its metadata is incomplete")
    return about


# Refuse a table with missing columns, columns of other types, or only one causal column.
def _check_columns(table: Any, about: About) -> None:
    types: Any = pa.types
    kinds = {column.name: column.type for column in table.schema}
    if len(kinds) != len(table.schema) or not table.num_rows:
        raise ValueError("it has no rows, or two columns of the same name")
    rises = [name for name in ("pattern_rise", "ablation_rise") if name in kinds]
    if len(rises) == 1:
        raise ValueError("it has only one of the columns pattern_rise and ablation_rise")
    steps = ["step"] if "step" in kinds else []
    of_rungs = [name_column(kind, rung) for kind in ("explained", "z") for rung in about.rungs]
    numeric = [*NUMBER_COLUMNS, *steps, *rises, *of_rungs]
    for name in ("head", *numeric, "seeks"):
        if name not in kinds:
            raise ValueError(f"the column {name!r} is missing")
    for name in numeric:
        if not (types.is_floating(kinds[name]) or types.is_integer(kinds[name])):
            raise ValueError(f"the column {name!r} does not contain numbers")
    if not types.is_string(kinds["head"]) or not types.is_boolean(kinds["seeks"]):
        raise ValueError("the column 'head' is not text, or 'seeks' is not true or false")
    if kinds.get("contexts", CONTEXTS) != CONTEXTS:
        raise ValueError("the column 'contexts' has a wrong type")
    if steps and not (types.is_integer(kinds["step"]) and table.column("step").null_count == 0):
        raise ValueError("the column 'step' does not contain whole numbers")
