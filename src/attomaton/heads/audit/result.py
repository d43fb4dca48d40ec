"""The result of an audit: ``HeadAudit``, with its table, its printed form, its page and its saved file.

The audit of each layer is a ``HeadAudit`` of its own; :func:`join_audits` makes the audit of the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base.frames import Tabular
from attomaton.base.pages import embed_page
from attomaton.base.printing import Block, Grid
from attomaton.base.tables import Float64, Int64, table_of
from attomaton.heads.audit.causal import Causal
from attomaton.heads.audit.ceiling import Ceiling
from attomaton.heads.audit.jackknife import NullDistribution
from attomaton.heads.audit.ladder import Ladder, name_column
from attomaton.heads.audit.page import render_audit, write_audit
from attomaton.heads.audit.pictures import draw_audit
from attomaton.heads.audit.rows import MEASURES
from attomaton.heads.audit.saved import COMMON_FIELDS, NO_EVIDENCE, About, mark, write_saved
from attomaton.heads.audit.seeking import YES_NO, Seeking
from attomaton.heads.audit.storage import restore, store
from attomaton.heads.audit.types import HeadType, type_heads
from attomaton.heads.model import Head

_arrow: Any = pa

NAMED_HEADS = 12  # heads that are named for each type in print, at most

SHOWN_HEADS = 40  # heads in the printed table, at most

# Columns about the type of a head, without the prefix ``type_``, and the fields of :class:`HeadType` in them.
TYPE_COLUMNS = {"share": "share", "share_error": "error", "share_low": "low", "share_high": "high", "z": "z"}

HEIGHT = 760  # pixels of the page in a notebook


class Rises(NamedTuple):
    """The rise in loss if a head gets its mean pattern or mean output, shape (n_heads,), or NaN."""

    pattern: Float64
    ablation: Float64


@dataclass(frozen=True, eq=False, repr=False)
class HeadAudit(Tabular):
    """The results of an audit of attention heads; arrays have one number per audited head.

    Attributes
    ----------
    model : str
        The name of the model.
    heads : tuple of Head
        The audited heads, in the order of all arrays.
    ladder, alone : Ladder
        The explained share of each rung: together with all rungs before it, and alone.
    seeking : Seeking
        How much the heads attend to the next token.
    ceiling : Ceiling
        How much of the attention pairs of query and token can explain.
    causal : Causal, optional
        The causal value of some or all heads.
    inside, first, withheld, entropy : float64 arrays
        Means over rows: the attention on the window, on the first token and on a learned sink, and the
        entropy of attention in nats.
    outside : int64 array
        The number of rows left out for a head, as it attends to neither the window nor the first token.
    n_documents, n_rows : int
        The numbers of scored documents and rows.
    n_random : int
        The number of draws of random heads.
    null : str
        How these are made: ``"intact"``, ``"inputs"`` (a layer shares one rotation) or ``"given"``.
    left_out : str
        Why causal value or random heads are missing.
    n_layers, n_heads, n_chosen : int
        The numbers of layers of the model, of heads in a layer, and of heads to audit.
    digest : str
        Identifies the scored rows: audits with the same digest are compared document by document.
    null_types : tuple of NullDistribution
        The share of each type among random heads.
    contexts : pyarrow array, optional
        A few held-out contexts of each head.

    Examples
    --------
    >>> from attomaton.heads import AuditSettings, audit_heads
    >>> from attomaton.heads.arrays import example_audit
    >>> audit_heads(*example_audit(), settings=AuditSettings(window=8))
    HeadAudit(2 heads, 200 rows of 10 documents)
    """

    model: str
    heads: tuple[Head, ...]
    ladder: Ladder
    alone: Ladder
    seeking: Seeking
    ceiling: Ceiling
    causal: Causal | None
    inside: Float64
    first: Float64
    withheld: Float64
    entropy: Float64
    outside: Int64
    n_documents: int
    n_rows: int
    n_random: int = 0
    null: str = "intact"
    left_out: str = ""
    n_layers: int = 0
    n_heads: int = 0
    n_chosen: int = 0
    digest: str = ""
    null_types: tuple[NullDistribution, ...] = ()
    contexts: Any = None

    def __repr__(self) -> str:
        n_layers = len(self.layers)
        partial = f" of {n_layers} of {self.n_layers} layers" if n_layers < self.n_layers else ""
        rows = f"{self.n_rows:,} rows of {self.n_documents:,} documents"
        return f"HeadAudit({len(self.heads)} heads{partial}, {rows})"

    @property
    def layers(self) -> list[int]:
        """The audited layers, ascending."""
        return sorted({head.layer for head in self.heads})

    @property
    def is_partial(self) -> bool:
        """Whether the audit was stopped before all heads were audited."""
        return len(self.heads) < self.n_chosen

    @property
    def rises(self) -> Rises | None:
        """The rise in loss if each head is replaced alone; None if no causal value was measured."""
        if self.causal is None:
            return None
        row_of_head = {heads[0]: row for row, heads in enumerate(self.causal.sets)}
        rows = [row_of_head.get(head, 0) for head in self.heads]  # 0 is not used: see ``measured``
        measured = np.array([head in row_of_head for head in self.heads])
        return Rises(
            pattern=np.where(measured, self.causal.pattern.value[rows], np.nan),
            ablation=np.where(measured, self.causal.ablation.value[rows], np.nan),
        )

    @cached_property
    def types(self) -> tuple[HeadType, ...]:
        """The type of each head; :mod:`attomaton.heads.audit.types` explains the rule."""
        outside = self.outside / self.n_rows
        return type_heads(self.ladder, self.seeking, self.ceiling, outside, self.null_types)

    @property
    def named(self) -> Float64:
        """The share of each head's attention that all rungs explain together, shape (n_heads,)."""
        return self.ladder.shares[-1]

    @property
    def contextual(self) -> Float64:
        """An upper estimate of the share of attention that pairs of tokens cannot explain, for each head."""
        return 1.0 - self.ceiling.pairs.value

    # One row per head; docs/heads.md explains the columns.
    def _table(self) -> pa.Table:
        columns = self._type_columns()
        columns |= {name: getattr(self, name) for name in MEASURES}
        columns |= {"effective_length": np.exp(self.entropy), "rows_outside": self.outside}
        for name, estimates in (("named", self.ladder.explained[-1]), ("pairs", self.ceiling.pairs)):
            columns[name] = estimates.value
            columns |= {f"{name}_{of}": getattr(estimates, of) for of in ("error", "low", "high")}
        columns |= {"contextual": self.contextual} | self._rung_columns()
        columns |= {
            "seeking_mass": self.seeking.mass.value,
            "seeking_excess": self.seeking.excess.value,
            "seeking_z": self.seeking.z,
            "seeking_z_documents": self.seeking.excess.z,
            "seeks": pa.array(self.seeking.judged, pa.bool_()),
        }
        if self.rises is not None:
            for kind, rise in self.rises._asdict().items():
                columns[f"{kind}_rise"] = pa.array(rise, pa.float64(), from_pandas=True)
        return mark(table_of(columns), self.about)

    # Arrow writes NaN as null if the values come ``from_pandas``.
    def _type_columns(self) -> dict[str, Any]:
        numbers = {
            f"type_{name}": [getattr(head_type, field) for head_type in self.types]
            for name, field in TYPE_COLUMNS.items()
        }
        return {
            "head": [str(head) for head in self.heads],
            "layer": [head.layer for head in self.heads],
            "number": [head.number for head in self.heads],
            "type": [head_type.name for head_type in self.types],
            **{name: pa.array(values, pa.float64(), from_pandas=True) for name, values in numbers.items()},
            "type_is_stable": [head_type.is_stable for head_type in self.types],
            "type_reason": [str(head_type) for head_type in self.types],
        }

    def _rung_columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        z = self.ladder.z
        for rung, name in enumerate(self.ladder.names):
            columns[name_column("explained", name)] = self.ladder.explained[rung].value
            columns[name_column("added", name)] = self.ladder.added[rung].value
            columns[name_column("z", name)] = z[rung]
        return columns | {name: share.value for name, share in self.alone.by_column("alone").items()}

    @property
    def about(self) -> About:
        """The metadata of a saved table."""
        return About(
            rungs=self.ladder.names,
            alone=self.alone.names,
            seeking_rows=self.seeking.n_rows,
            seeking_documents=self.seeking.n_documents,
            whole=() if self.causal is None else (self.causal.loss, self.causal.accuracy),
            **{name: getattr(self, name) for name in COMMON_FIELDS},
        )

    def _with_contexts(self) -> pa.Table:
        table: Any = self._table()
        return table if self.contexts is None else table.append_column("contexts", self.contexts)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the table, and the numbers behind its errors and z, as a Parquet file; return its path."""
        return write_saved(store(self), path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "HeadAudit":
        """Load an audit that :meth:`save` or ``attomaton heads --out`` wrote."""
        return cls(**restore(path))

    def page(self, path: str | PathLike[str] = "heads.html") -> Path:
        """Write an HTML page with a map of the heads, and their ladders and contexts; return its path."""
        return write_audit(self._with_contexts(), self.about, path)

    # The page in a frame; where a notebook is not trusted, only the table below it remains.
    def _repr_html_(self) -> str:
        page = embed_page(render_audit(self._with_contexts(), self.about), height=HEIGHT)
        return f"{page}<details><summary>Table</summary>{super()._repr_html_()}</details>"

    def plot(self, ax: Any = None) -> Any:
        """Draw a map of types, with a dot on heads of other types that seek the next token; return axes."""
        names = [head_type.name for head_type in self.types]
        return draw_audit(self.heads, names, self.seeking.holds, ax)

    @property
    def order(self) -> list[int]:
        """The indices of the heads: rare types first, and within each type the largest share first."""
        names = [head_type.name for head_type in self.types]
        ranks = [(names.count(head_type.name), head_type.name, -head_type.share) for head_type in self.types]
        return sorted(range(len(ranks)), key=ranks.__getitem__)

    def _blocks(self) -> list[Block]:
        blocks = [repr(self), self._grid_of_types(), self._grid_of_heads(), *self._notes()]
        return [*blocks, self._grid_of_rungs(), *([self.left_out] if self.left_out else [])]

    def _grid_of_types(self) -> Grid:
        heads_of: dict[str, list[str]] = {}
        for index in self.order:
            heads_of.setdefault(self.types[index].name, []).append(str(self.heads[index]))
        rows = [(name, str(len(heads)), _first_names(heads)) for name, heads in heads_of.items()]
        return Grid("", ["type", "heads", "which"], rows)

    def _grid_of_heads(self) -> Grid:
        headers = ["head", "type", "share", "z", "first", "named", "pairs", "seeks"]
        headers += [] if self.rises is None else ["own mean pattern", "mean output"]
        judged = self.seeking.judged
        rows = list[tuple[str, ...]]()
        for index in self.order[:SHOWN_HEADS]:
            head_type = self.types[index]
            row = [
                str(self.heads[index]),
                f"{head_type.name}{'' if head_type.is_stable else ' *'}",
                f"{head_type.share:.2f}",
                "" if np.isnan(head_type.z) else f"{head_type.z:+.1f}",
                f"{self.first[index]:.2f}",
                f"{self.named[index]:.2f}",
                f"{self.ceiling.pairs.value[index]:.2f}",
                YES_NO[judged[index]],
            ]
            if self.rises is not None:
                row += ["" if np.isnan(rise[index]) else f"{rise[index]:+.4f}" for rise in self.rises]
            rows.append(tuple(row))
        return Grid("", headers, rows)

    def _notes(self) -> list[str]:
        notes = list[str]()
        if len(self.heads) > SHOWN_HEADS:
            more = len(self.heads) - SHOWN_HEADS
            notes.append(f"{more} more heads: use --page or --out, or .table() in Python, to see all.")
        notes.append(self.about.said_of_z)
        if not all(head_type.is_stable for head_type in self.types):
            notes.append("* marks types that differ between the two halves of the documents.")
        if self.outside.any():
            worst: list[int] = np.argsort(-self.outside, kind="stable")[: (self.outside > 0).sum()].tolist()
            counts = _first_names([f"{self.heads[index]} ({self.outside[index]:,})" for index in worst])
            notes.append(
                f"In some of {self.n_rows:,} rows, these heads attend to neither the window nor the first "
                f"token, and the rows are left out for them: {counts}."
            )
        if self.is_partial:
            first, last = self.layers[0], self.layers[-1]
            is_range = self.layers == list(range(first, last + 1))
            layers = f"{first} to {last}" if is_range else ", ".join(map(str, self.layers))
            notes.append(f"The audit was stopped: it has layers {layers} of {self.n_layers} layers.")
        if self.causal is not None:
            notes.append(f"The last two columns show the rise in loss if the head is replaced. {NO_EVIDENCE}")
        return notes

    def _grid_of_rungs(self) -> Grid:
        alone = dict(zip(self.alone.names, self.alone.mean, strict=True))
        mean = self.ladder.mean
        added = np.diff(mean, prepend=0.0)
        rows = [
            (name, f"{mean[rung]:.3f}", f"{added[rung]:+.3f}", harm, f"{alone[name]:.3f}")
            for rung, (name, harm) in enumerate(zip(self.ladder.names, self.ladder.harm, strict=True))
        ]
        rows += [(name, "", "", "", f"{alone[name]:.3f}") for name in alone if name not in self.ladder.names]
        headers = ["rung", "cumulative share", "added", "heads it harms", "alone"]
        return Grid("Explained share of attention on held-out documents, mean over heads", headers, rows)


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_HEADS]) + ", …" * (len(names) > NAMED_HEADS)


def join_audits(items: Sequence[Any]) -> Any:
    """Join audits of different heads of one model on the same documents, or any field of such audits.

    Dataclasses are joined field by field. Heads are the last axis of every array.
    """
    items = [item for item in items if item is not None]  # causal value may be measured in some layers only
    if not items:
        return None
    first = items[0]
    if isinstance(first, str | int | float):  # the same in all audits
        return first
    if isinstance(first, np.ndarray):
        return np.concatenate(items, -1)
    if isinstance(first, pa.Array):
        return _arrow.concat_arrays(items)
    if isinstance(first, tuple):  # an entry for each rung or type, in all audits
        return tuple(join_audits(entries) for entries in zip(*items, strict=True))
    joined: dict[str, Any] = {}
    for name in (field.name for field in fields(first)):
        values = [getattr(item, name) for item in items]
        # Heads, and the sets of heads of causal value, follow one another.
        joined[name] = sum(values, ()) if name in ("heads", "sets") else join_audits(values)
    return type(first)(**joined)
