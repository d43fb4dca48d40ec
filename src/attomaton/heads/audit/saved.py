"""Saved audits: a table for readers, and beside it what its errors and z come from.

A file of one audit has the columns of ``HeadAudit.table()``, and lists: ``without_<column>``, the estimate
without each document in turn, and ``random_<column>`` and ``random_error_<column>``, the same measure of all
random heads of a layer, at the first of its heads. From these the audit is restored exactly.
"""

import json
from dataclasses import asdict, dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import is_parquet, write_target
from attomaton.base.errors import UnreadableSource
from attomaton.base.tables import arrow_parquet, read_parquet, write_parquet
from attomaton.heads.audit.causal import Causal
from attomaton.heads.audit.ceiling import Ceiling
from attomaton.heads.audit.jackknife import Estimates, NullDistribution
from attomaton.heads.audit.ladder import Ladder, name_column
from attomaton.heads.audit.rows import MEASURES
from attomaton.heads.audit.seeking import Seeking
from attomaton.heads.audit.types import TESTED
from attomaton.heads.model import Head

KEY = b"attomaton heads"
"""The metadata key in the file."""

SAID_OF_NULL = {
    "intact": "of random heads that read the trained residual stream",
    "inputs": "of random heads that share a rotation of what attention reads",
    "rotated": "with rotated heads in all layers",
    "given": "with random weights",
}
"""Descriptions of random heads, by the name of their null."""

NO_EVIDENCE = "Mean output alone is not evidence about where a head looks."

MOST_SAVED_BYTES, MOST_SAVED_ROWS = 1 << 28, 1 << 20
"""The largest file of heads that is read, and the largest number of rows."""

SEEKING = ("mass", "over_profile", "excess")
"""The measures of next-token seeking."""

SIZE_FIELDS = ("n_layers", "n_heads", "n_chosen")
"""Fields of an audit about the model and the heads to audit."""

TEXTS = ("head",)
NUMBER_COLUMNS = ("layer", "number", "inside", "first", "seeking_mass", "seeking_excess", "seeking_z")

_arrow: Any = pa

CONTEXTS = _arrow.list_(
    _arrow.struct(
        {
            "document": pa.int32(),
            "position": pa.int32(),
            "opening": pa.string(),  # the first token of the context
            "tokens": _arrow.list_(pa.string()),  # the window, the query last
            "label": pa.string(),
            "first": pa.uint8(),
            "attention": _arrow.list_(pa.uint8()),
        }
    )
)
"""Arrow's type for the contexts of one head; attention is in units of 1 / ``FULL``."""

FULL = 255
"""The whole attention of a query: on the window, on the first token and between them."""


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
        The number of draws of random heads, or of models with random heads, that z is relative to.
    null : str
        The kind of random heads: ``"intact"``, ``"inputs"``, ``"rotated"``, or ``"given"``.
    alone : tuple of str
        The rungs that were also measured alone.
    seeking_rows, seeking_documents : int
        The numbers of rows and documents behind next-token seeking.
    whole : tuple of float
        Loss and accuracy of the unchanged model; empty if causal value was not measured.
    left_out : str
        What was left out, and why.
    n_layers, n_heads : int
        The layers of the model, and the heads of each.
    n_chosen : int
        The number of heads to audit; the file has fewer if the audit was stopped.
    digest : str
        Identifies the scored rows.
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
        """What z is relative to, in a sentence."""
        if not self.n_random:
            return (
                "z is over documents alone, a test that many random heads pass too: no head is reported as "
                "seeking the next token."
            )
        kind = "draw" if self.null in ("intact", "inputs") else "model"
        many = f"{self.n_random} {kind}{'s' * (self.n_random != 1)}"
        return f"z compares heads with {many} {SAID_OF_NULL[self.null]}."


def mark(table: pa.Table, about: About) -> pa.Table:
    marked: Any = table
    return marked.replace_schema_metadata({KEY: json.dumps(asdict(about)).encode()})


def write_saved(table: pa.Table, path: str | PathLike[str]) -> Path:
    """Write a table as Parquet, in place of no file but an earlier one; return the path."""
    write_target(path, partial(write_parquet, table), is_ours=is_parquet)
    return Path(path)


def read_saved(path: str | PathLike[str]) -> tuple[pa.Table, About]:
    """A table written by :meth:`HeadAudit.save`, ``HeadCourse.save`` or ``attomaton heads --out``."""
    file, advice = Path(path), "give a file that attomaton heads --out wrote"
    try:
        blob = file.read_bytes() if file.stat().st_size <= MOST_SAVED_BYTES else b""
        source: Any = pa.BufferReader(blob)
        if not blob or arrow_parquet().ParquetFile(source).metadata.num_rows > MOST_SAVED_ROWS:
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
    entries: dict[str, Any] = {
        name: tuple(cast("list[Any]", entry)) if isinstance(entry, list) else entry
        for name, entry in cast("dict[str, Any]", record).items()
    }
    about: Any = About(**entries)
    names = ("n_documents", "n_rows", "n_random", "seeking_rows", "seeking_documents", *SIZE_FIELDS)
    whole = all(type(getattr(about, name)) is int and getattr(about, name) >= 0 for name in names)
    texts = all(isinstance(getattr(about, name), str) for name in ("model", "left_out", "digest"))
    lists = all(
        isinstance(of, tuple) and all(isinstance(entry, kind) for entry in cast("tuple[Any, ...]", of))
        for of, kind in ((about.rungs, str), (about.alone, str), (about.whole, float))
    )
    if not (whole and texts and lists and about.rungs and about.null in SAID_OF_NULL):
        raise TypeError("its metadata is incomplete")
    return about


def store(audit: Any) -> pa.Table:
    """The table of a :class:`~attomaton.heads.HeadAudit` with the lists behind it."""
    table: Any = audit.table()
    heads = {head: row for row, head in enumerate(audit.heads)}
    layers = np.array([head.layer for head in audit.heads])
    first = {layer: int((layers == layer).argmax()) for layer in audit.layers}

    def add(name: str, values: Any) -> None:
        nonlocal table
        table = table.append_column(name, _lists(values) if np.ndim(values) == 2 else pa.array(values))

    def add_null(name: str, null: NullDistribution | None) -> None:
        if null is None:
            return
        for kind, values in (("random", null.values), ("random_error", null.errors)):
            lists = [list[float]() for _ in heads]
            for layer, row in first.items():  # some layers have none
                lists[row] = values[null.layers == layer].tolist()
            nonlocal table
            table = table.append_column(f"{kind}_{name}", _arrow.array(lists, _arrow.list_(pa.float64())))

    for kind, ladder in (("explained", audit.ladder), ("alone", audit.alone)):
        for at, name in enumerate(ladder.names):
            column = name_column(kind, name)
            add(f"without_{column}", ladder.explained[at].without.T)
            add(f"scale_{column}", ladder.scales[at])
            add_null(column, ladder.null[at] if ladder.null else None)
    for name, null in zip(TESTED, audit.null_types, strict=bool(audit.null_types)):
        add_null(name_column("type", name), null)
    add("without_pairs", audit.ceiling.pairs.without.T)
    add("rank", audit.ceiling.ranks)
    if audit.contexts is not None:
        table = table.append_column("contexts", audit.contexts)
    seeking = audit.seeking
    add("seeking_over_profile", seeking.over_profile.value)
    for name in SEEKING:
        add(f"without_seeking_{name}", getattr(seeking, name).without.T)
    add_null("seeking_excess", seeking.null)
    if audit.causal is not None:
        rows = [heads[heads_of_set[0]] for heads_of_set in audit.causal.sets]
        for kind in ("pattern", "ablation"):
            rise, drop = getattr(audit.causal, kind), getattr(audit.causal, f"{kind}_drop")
            for name, values in ((f"{kind}_drop", drop), (f"without_{kind}_rise", rise.without.T)):
                whole = np.full((len(heads), *np.shape(values)[1:]), np.nan)
                whole[rows] = values
                add(name, whole)
    return mark(table, audit.about)


def restore(path: str | PathLike[str]) -> dict[str, Any]:
    """The fields of the :class:`~attomaton.heads.HeadAudit` that a file holds."""
    table, about = read_saved(path)
    try:
        return _Restored(table, about).fields()
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableSource(
            f"{path} does not hold one whole audit of heads ({error}); give a file that HeadAudit.save or "
            "attomaton heads --out wrote for one model"
        ) from error


class _Restored:
    """What the columns of a file stand for."""

    def __init__(self, table: Any, about: About) -> None:
        if "step" in table.column_names:
            raise ValueError("it holds several steps of a training")
        self.table, self.about = table, about
        self.heads = tuple(
            map(Head, *(self.column(name).astype(int).tolist() for name in ("layer", "number")))
        )
        if len(set(self.heads)) < len(self.heads) or min(map(min, self.heads)) < 0:
            raise ValueError("its heads are not those of one model")

    def fields(self) -> dict[str, Any]:
        about = self.about
        mass, over_profile, excess = (self.estimates(f"seeking_{name}") for name in SEEKING)
        sizes = (about.seeking_rows, about.seeking_documents)
        seeking = Seeking(self.heads, mass, over_profile, excess, *sizes, self.null("seeking_excess"))
        names = ("model", "n_documents", "n_rows", "n_random", "null", "left_out", *SIZE_FIELDS, "digest")
        return {
            "heads": self.heads,
            "ladder": self.ladder("explained", about.rungs, nested=True),
            "alone": self.ladder("alone", about.alone, nested=False),
            "seeking": seeking,
            "ceiling": Ceiling(self.estimates("pairs"), self.column("rank").astype(np.int64)),
            "contexts": self.contexts,
            "null_types": tuple(
                null for null in (self.null(name_column("type", name)) for name in TESTED) if null is not None
            ),
            "causal": self.causal() if about.whole else None,
            **{name: self.column(name) for name in MEASURES},
            "outside": self.column("rows_outside").astype(np.int64),
            **{name: getattr(about, name) for name in names},
        }

    @property
    def contexts(self) -> Any:
        """The contexts of each head, if there are any."""
        has_contexts = "contexts" in self.table.column_names
        return self.table.column("contexts").combine_chunks() if has_contexts else None

    def column(self, name: str) -> Any:
        """A column of numbers, NaN where it is null."""
        return np.asarray(self.table.column(name).to_numpy(), np.float64)

    def lists(self, name: str) -> Any:
        """A column of lists of numbers, shape (n_heads, n)."""
        return self.flat(name).reshape(len(self.heads), -1)

    def flat(self, name: str) -> Any:
        """The numbers in a column of lists, one list after the other."""
        values: Any = self.table.column(name).combine_chunks().flatten()
        return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)

    def estimates(self, name: str) -> Estimates:
        return Estimates(self.column(name), np.ascontiguousarray(self.lists(f"without_{name}").T))

    def null(self, name: str) -> NullDistribution | None:
        if not self.about.n_random or f"random_{name}" not in self.table.column_names:
            return None
        counts = self.table.column(f"random_{name}").combine_chunks().value_lengths().to_numpy()
        values, errors = (self.flat(f"{kind}_{name}") for kind in ("random", "random_error"))
        layers = np.repeat(np.array([head.layer for head in self.heads]), counts)
        if not len(layers) == len(values) == len(errors):
            raise ValueError("its random heads have different numbers of values and of errors")
        n_draws = self.about.n_random if self.about.null == "inputs" and len(values) else 0
        return NullDistribution(layers, values, errors, n_draws)

    def ladder(self, kind: str, names: tuple[str, ...], *, nested: bool) -> Ladder:
        columns = [name_column(kind, name) for name in names]
        shares = [self.estimates(column) for column in columns]
        added = [share.minus(shares[at - 1]) if nested and at else share for at, share in enumerate(shares)]
        scales = np.array([self.column(f"scale_{column}") for column in columns])
        nulls = tuple(null for null in map(self.null, columns) if null is not None)
        return Ladder(self.heads, names, nested, tuple(shares), tuple(added), scales, nulls)

    def causal(self) -> Causal:
        loss, accuracy = self.about.whole
        measured = np.flatnonzero(~np.isnan(self.column("pattern_drop")))
        pattern, ablation = (self.estimates(f"{kind}_rise") for kind in ("pattern", "ablation"))
        pattern, ablation = (
            Estimates(rise.value[measured], np.ascontiguousarray(rise.without[:, measured]))
            for rise in (pattern, ablation)
        )
        drops = [self.column(f"{kind}_drop")[measured] for kind in ("pattern", "ablation")]
        sets = tuple((self.heads[at],) for at in measured.tolist())
        return Causal(sets, loss, accuracy, pattern, ablation, drops[0], drops[1])


def _lists(values: Any) -> Any:
    """Rows of numbers as a column of lists."""
    arrow: Any = pa
    flat = arrow.array(np.ascontiguousarray(values, np.float64).ravel())
    offsets = arrow.array(np.arange(len(values) + 1) * np.shape(values)[1], arrow.int32())
    return arrow.ListArray.from_arrays(offsets, flat)


def _check_columns(table: Any, about: About) -> None:
    """Refuse a table with missing columns, columns of other types, or only one causal column."""
    kinds = {column.name: column.type for column in table.schema}
    if len(kinds) != len(table.schema) or not table.num_rows:
        raise ValueError("it has no rows, or two columns of the same name")
    rises = [name for name in ("pattern_rise", "ablation_rise") if name in kinds]
    if len(rises) == 1:
        raise ValueError("one of the two causal columns is missing")
    steps = ["step"] if "step" in kinds else []
    numeric = [
        *NUMBER_COLUMNS,
        *steps,
        *rises,
        *(name_column(kind, rung) for kind in ("explained", "z") for rung in about.rungs),
    ]
    for name in (*TEXTS, *numeric, "seeks"):
        if name not in kinds:
            raise ValueError(f"the column {name!r} is missing")
    types: Any = pa.types
    for name in numeric:
        if not (types.is_floating(kinds[name]) or types.is_integer(kinds[name])):
            raise ValueError(f"the column {name!r} does not hold numbers")
    if not types.is_string(kinds["head"]) or not types.is_boolean(kinds["seeks"]):
        raise ValueError("its columns of heads or of next-token seeking have other types")
    if kinds.get("contexts", CONTEXTS) != CONTEXTS:
        raise ValueError("its contexts have another type")
    if steps and not (types.is_integer(kinds["step"]) and table.column("step").null_count == 0):
        raise ValueError("its steps are not whole numbers")
