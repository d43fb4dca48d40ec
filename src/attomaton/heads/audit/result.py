"""The result of an audit: its table, its printed form, its page, and the file that it is saved in."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

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

NAMED_HEADS, SHOWN_HEADS = 12, 40  # heads that are named for each type, and shown in the table, at most

# Columns of numbers of a type, without ``type_``, and the fields of :class:`HeadType` that they show.
TYPE_COLUMNS = {"share": "share", "share_error": "error", "share_low": "low", "share_high": "high", "z": "z"}

HEIGHT = 760  # pixels of the page in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class HeadAudit(Tabular):
    """The results of an audit, for each of the ``heads`` of a ``model``.

    ``ladder`` has the explained share of each rung with all rungs before it, and ``alone`` of each rung
    alone. ``seeking`` is next-token seeking, and ``ceiling`` what pairs of query and token explain.
    ``causal`` is the causal value of some or all heads, or None.

    Four arrays (n_heads,) are means over rows. ``inside`` is the attention on the window, ``first`` the
    attention on the first token, ``withheld`` the attention that a learned sink takes, and ``entropy`` the
    entropy of attention in nats. ``outside`` (n_heads,) counts the rows in which the head attends to neither
    the window nor the first token; these rows are left out for that head.

    ``n_documents`` and ``n_rows`` count the scored documents and rows. ``n_layers`` counts the layers of the
    model, ``n_heads`` the heads in a layer, and ``n_chosen`` the heads to audit. ``n_random`` counts the
    draws of random heads, and ``null`` is their kind: ``"intact"``, ``"inputs"`` (those of a layer share a
    rotation) or ``"given"``. ``null_types`` has the distribution of each type's share among random heads.
    ``left_out`` says why causal value or random heads are missing. ``digest`` identifies the scored rows:
    audits with the same digest are compared document by document. ``contexts`` has a few held-out contexts of
    each head.

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
    def rises(self) -> tuple[Float64, Float64] | None:
        """The rise in loss with mean patterns and with mean outputs, NaN if not measured; None if all are."""
        if self.causal is None:
            return None
        rows = {heads[0]: row for row, heads in enumerate(self.causal.sets)}
        measured = np.array([head in rows for head in self.heads])
        chosen = [rows.get(head, 0) for head in self.heads]
        pattern, ablation = (
            np.where(measured, estimates.value[chosen], np.nan)
            for estimates in (self.causal.pattern, self.causal.ablation)
        )
        return pattern, ablation

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

    def _table(self) -> pa.Table:
        """One row per head; docs/heads.md explains the columns."""
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
            pattern, ablation = (pa.array(rise, pa.float64(), from_pandas=True) for rise in self.rises)
            columns |= {"pattern_rise": pattern, "ablation_rise": ablation}
        return mark(table_of(columns), self.about)

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

    def _repr_html_(self) -> str:
        """The page in a frame; where a notebook is not trusted, only the table below it remains."""
        page = embed_page(render_audit(self._with_contexts(), self.about), height=HEIGHT)
        return f"{page}<details><summary>Table</summary>{super()._repr_html_()}</details>"

    def plot(self, ax: Any = None) -> Any:
        """Draw a map of head types, with a dot on heads that seek the next token; return matplotlib axes."""
        names = [head_type.name for head_type in self.types]
        return draw_audit(self.heads, names, self.seeking.holds, ax)

    @property
    def order(self) -> list[int]:
        """The indices of the heads: rare types first, and within each type the largest share first."""
        names = [head_type.name for head_type in self.types]
        return sorted(
            range(len(names)),
            key=lambda index: (names.count(names[index]), names[index], -self.types[index].share),
        )

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
            worst = np.argsort(-self.outside, kind="stable")[: (self.outside > 0).sum()]
            counts = _first_names(
                [f"{self.heads[index]} ({self.outside[index]:,})" for index in worst.tolist()]
            )
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
    """Join audits of one model on the same documents, field by field.

    ``heads``, and the ``sets`` of causal value, follow one another; heads are the last axis of every array.
    """
    items = [item for item in items if item is not None]  # causal value may be measured in some layers only
    if not items or isinstance(items[0], str | int | float):
        return items[0] if items else None
    if isinstance(items[0], np.ndarray):
        return np.concatenate(items, -1)
    if isinstance(items[0], pa.Array):
        return _arrow.concat_arrays(items)
    if isinstance(items[0], tuple):
        return tuple(join_audits(entries) for entries in zip(*items, strict=True))
    joined: dict[str, Any] = {}
    for name in (field.name for field in fields(items[0])):
        values = [getattr(item, name) for item in items]
        joined[name] = sum(values, ()) if name in ("heads", "sets") else join_audits(values)
    return type(items[0])(**joined)
