"""An audit as the table of a saved file (``store``), and back (``restore``).

The table has the columns of ``HeadAudit.table()``, and lists from which the audit is restored:
``without_<column>``, the estimate without each document in turn; and ``random_<column>`` and
``random_error_<column>``, the measure of all random heads of a layer, in the row of its first head.
"""

from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.errors import UnreadableSource
from attomaton.heads.audit.causal import Causal
from attomaton.heads.audit.ceiling import Ceiling
from attomaton.heads.audit.jackknife import Estimates, NullDistribution
from attomaton.heads.audit.ladder import Ladder, added_shares, name_column
from attomaton.heads.audit.replacing import KINDS
from attomaton.heads.audit.rows import MEASURES
from attomaton.heads.audit.saved import COMMON_FIELDS, About, mark, read_saved
from attomaton.heads.audit.seeking import Seeking
from attomaton.heads.audit.types import TESTED
from attomaton.heads.model import Head

SEEKING = ("mass", "over_profile", "excess")  # the measures of next-token seeking

_arrow: Any = pa


def store(audit: Any) -> pa.Table:
    """The table of an audit, with the columns from which it is restored and its metadata."""
    # The type is ``HeadAudit``, whose file imports this one.
    columns: dict[str, Any] = {}
    for kind, ladder in (("explained", audit.ladder), ("alone", audit.alone)):
        for rung, name in enumerate(ladder.names):
            column = name_column(kind, name)
            columns[f"without_{column}"] = _as_lists(ladder.explained[rung].without.T)
            columns[f"scale_{column}"] = pa.array(ladder.scales[rung])
            if ladder.null:
                columns |= _null_columns(audit.heads, column, ladder.null[rung])
    for name, null in zip(TESTED, audit.null_types, strict=bool(audit.null_types)):
        columns |= _null_columns(audit.heads, name_column("type", name), null)
    columns["without_pairs"] = _as_lists(audit.ceiling.pairs.without.T)
    columns["rank"] = pa.array(audit.ceiling.ranks)
    if audit.contexts is not None:
        columns["contexts"] = audit.contexts
    columns["seeking_over_profile"] = pa.array(audit.seeking.over_profile.value)
    for name in SEEKING:
        columns[f"without_seeking_{name}"] = _as_lists(getattr(audit.seeking, name).without.T)
    if audit.seeking.null is not None:
        columns |= _null_columns(audit.heads, "seeking_excess", audit.seeking.null)
    if audit.causal is not None:
        columns |= _causal_columns(audit.heads, audit.causal)
    table: Any = audit.table()
    for name, values in columns.items():
        table = table.append_column(name, values)
    return mark(table, audit.about)


# Lists with all random heads of a layer in the row of its first head; a layer may have none.
def _null_columns(heads: tuple[Head, ...], column: str, null: NullDistribution) -> dict[str, Any]:
    layers = [head.layer for head in heads]
    columns: dict[str, Any] = {}
    for name, values in ((f"random_{column}", null.values), (f"random_error_{column}", null.errors)):
        lists: list[Any] = [
            [] if layer in layers[:row] else values[null.layers == layer].tolist()
            for row, layer in enumerate(layers)
        ]
        columns[name] = _arrow.array(lists, _arrow.list_(pa.float64()))
    return columns


# What the table of an audit lacks of causal value; NaN in the rows of heads that were not replaced.
def _causal_columns(heads: tuple[Head, ...], causal: Causal) -> dict[str, Any]:
    rows = [heads.index(heads_of_set[0]) for heads_of_set in causal.sets]

    def fill(values: Any) -> Any:
        filled = np.full((len(heads), *values.shape[1:]), np.nan)
        filled[rows] = values
        return filled

    columns: dict[str, Any] = {}
    for kind in KINDS:
        columns[f"{kind}_drop"] = pa.array(fill(getattr(causal, f"{kind}_drop")))
        columns[f"without_{kind}_rise"] = _as_lists(fill(getattr(causal, kind).without.T))
    return columns


# An array (n_heads, n) as a column of lists.
def _as_lists(values: Any) -> Any:
    flat = _arrow.array(np.ascontiguousarray(values, np.float64).ravel())
    offsets = _arrow.array(np.arange(len(values) + 1) * values.shape[1], _arrow.int32())
    return _arrow.ListArray.from_arrays(offsets, flat)


def restore(path: str | PathLike[str]) -> dict[str, Any]:
    """The fields of the ``HeadAudit`` in a file."""
    table, about = read_saved(path)
    try:
        return _SavedTable(table, about).audit_fields()
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableSource(
            f"{path} does not contain one whole audit of heads ({error}); give a file that HeadAudit.save or "
            "attomaton heads --out wrote for one model"
        ) from error


class _SavedTable:
    """A table that :func:`store` made; each method restores what it is named after from some columns."""

    def __init__(self, table: Any, about: About) -> None:
        self.table = table
        self.about = about
        self.names = frozenset(table.column_names)
        if "step" in self.names:
            raise ValueError("it contains several steps of a training")
        layers, numbers = (self.column(name).astype(int).tolist() for name in ("layer", "number"))
        self.heads = tuple(map(Head, layers, numbers))
        if len(set(self.heads)) < len(self.heads) or min(map(min, self.heads)) < 0:
            raise ValueError("a head occurs twice, or has a negative layer or number")

    def audit_fields(self) -> dict[str, Any]:
        about = self.about
        type_nulls = [self.null(name_column("type", name)) for name in TESTED]
        return {
            **{name: getattr(about, name) for name in COMMON_FIELDS},
            "heads": self.heads,
            "ladder": self.ladder("explained", about.rungs, nested=True),
            "alone": self.ladder("alone", about.alone, nested=False),
            "seeking": Seeking(
                self.heads,
                *(self.estimates(f"seeking_{name}") for name in SEEKING),
                n_rows=about.seeking_rows,
                n_documents=about.seeking_documents,
                null=self.null("seeking_excess"),
            ),
            "ceiling": Ceiling(self.estimates("pairs"), self.column("rank").astype(np.int64)),
            "causal": self.causal() if about.whole else None,
            **{name: self.column(name) for name in MEASURES},
            "outside": self.column("rows_outside").astype(np.int64),
            "null_types": tuple(null for null in type_nulls if null is not None),
            "contexts": self.table.column("contexts").combine_chunks() if "contexts" in self.names else None,
        }

    def column(self, name: str) -> Any:
        """A column of numbers, NaN where it is null."""
        return np.asarray(self.table.column(name).to_numpy(), np.float64)

    def flat(self, name: str) -> Any:
        """The numbers in a column of lists, one list after the other."""
        values: Any = self.table.column(name).combine_chunks().flatten()
        return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)

    def estimates(self, name: str) -> Estimates:
        """A list has the estimates of one head without each document; ``Estimates`` has heads last."""
        without = self.flat(f"without_{name}").reshape(len(self.heads), -1)
        return Estimates(self.column(name), np.ascontiguousarray(without.T))

    def null(self, name: str) -> NullDistribution | None:
        if not self.about.n_random or f"random_{name}" not in self.names:
            return None
        counts = self.table.column(f"random_{name}").combine_chunks().value_lengths().to_numpy()
        values = self.flat(f"random_{name}")
        errors = self.flat(f"random_error_{name}")
        layers = np.repeat(np.array([head.layer for head in self.heads]), counts)
        if not len(layers) == len(values) == len(errors):
            raise ValueError("its random heads have more values than errors, or fewer")
        n_draws = self.about.n_random if self.about.null == "inputs" and len(values) else 0
        return NullDistribution(layers, values, errors, n_draws)

    def ladder(self, kind: str, names: tuple[str, ...], *, nested: bool) -> Ladder:
        columns = [name_column(kind, name) for name in names]
        shares = tuple(map(self.estimates, columns))
        scales = np.array([self.column(f"scale_{column}") for column in columns])
        nulls = tuple(null for null in map(self.null, columns) if null is not None)
        return Ladder(self.heads, names, nested, shares, added_shares(shares, nested=nested), scales, nulls)

    def causal(self) -> Causal:
        loss, accuracy = self.about.whole
        measured = np.flatnonzero(~np.isnan(self.column("pattern_drop")))
        rises = [self.estimates(f"{kind}_rise") for kind in KINDS]
        pattern, ablation = (
            Estimates(rise.value[measured], np.ascontiguousarray(rise.without[:, measured])) for rise in rises
        )
        drops = [self.column(f"{kind}_drop")[measured] for kind in KINDS]
        sets = tuple((self.heads[row],) for row in measured.tolist())
        return Causal(sets, loss, accuracy, pattern, ablation, *drops)
