"""Two audits head by head (``compare_audits``): a base and a tuned model, two steps, or two corpora."""

from dataclasses import dataclass
from itertools import takewhile
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import ndtr

from attomaton.base.errors import MismatchedParts
from attomaton.base.frames import Tabular
from attomaton.base.printing import Block, Grid
from attomaton.base.tables import Bool, Float64, table_of
from attomaton.heads.audit.jackknife import Estimates, as_rare, divide
from attomaton.heads.audit.result import HeadAudit
from attomaton.heads.model import Head

PRINTED_HEADS = 10  # heads that are printed for each measure: those with the largest |z|


@dataclass(frozen=True, eq=False, repr=False)
class AuditDifference(Tabular):
    """How the heads of two audits differ: the second audit minus the first.

    ``models`` are the names of the models, ``heads`` the heads in both audits, and ``names`` the measures, as
    in the columns of ``HeadAudit.table()``. ``difference``, its standard ``error`` over documents and ``z``
    have shape (n_measures, n_heads). If ``is_paired``, both audits scored the same rows, and errors are those
    of differences within documents; otherwise the audits count as independent.
    """

    models: tuple[str, str]
    heads: tuple[Head, ...]
    names: tuple[str, ...]
    difference: Float64
    error: Float64
    z: Float64
    is_paired: bool

    def __repr__(self) -> str:
        how = "paired by document" if self.is_paired else "as independent samples"
        return f"AuditDifference({len(self.heads)} heads, {len(self.names)} measures, {how})"

    @property
    def holds(self) -> Bool:
        """Which heads differ in which measures, (n_measures, n_heads), at a false discovery rate of 5 %."""
        from scipy.stats import false_discovery_control

        tails = np.minimum(2.0 * ndtr(-np.abs(np.nan_to_num(self.z))), 1.0)
        return np.array([false_discovery_control(tail) <= 0.05 for tail in tails])

    # One row per head: ``difference``, ``error``, ``z`` and ``holds`` of each measure.
    def _table(self) -> pa.Table:
        columns: dict[str, Any] = {
            "head": [str(head) for head in self.heads],
            "layer": [head.layer for head in self.heads],
            "number": [head.number for head in self.heads],
        }
        measured = {"difference": self.difference, "error": self.error, "z": self.z, "holds": self.holds}
        for row, name in enumerate(self.names):
            columns |= {f"{kind}_{name}": values[row] for kind, values in measured.items()}
        return table_of(columns)

    def _blocks(self) -> list[Block]:
        holds = self.holds
        rows = [
            (name, f"{self.difference[row].mean():+.4f}", str(int(holds[row].sum())), self._largest(row))
            for row, name in enumerate(self.names)
        ]
        headers = ["measure", "mean difference", "heads that differ", "largest |z|"]
        return [repr(self), f"{self.models[1]} minus {self.models[0]}", Grid("", headers, rows)]

    # The heads that differ in a measure, those with the largest |z| first.
    def _largest(self, row: int) -> str:
        order: list[int] = np.argsort(-np.abs(self.z[row]), kind="stable").tolist()
        differing = [head for head in order if self.holds[row, head]][:PRINTED_HEADS]
        return ", ".join(f"{self.heads[head]} {self.difference[row, head]:+.3f}" for head in differing)


def compare_audits(
    first: HeadAudit | str | PathLike[str], second: HeadAudit | str | PathLike[str]
) -> AuditDifference:
    """Compare two audits head by head, measure by measure.

    ``first`` and ``second`` are audits, or paths of saved audits, of models with the same layers and heads,
    such as a base model and a tuned one. If both audits scored the same rows, their documents are paired,
    which makes standard errors smaller.

    Examples
    --------
    >>> from attomaton.heads import AuditSettings, audit_heads
    >>> from attomaton.heads.arrays import example_audit
    >>> audit = audit_heads(*example_audit(), settings=AuditSettings(window=8))
    >>> compare_audits(audit, audit).difference.any()
    np.False_
    """
    first = first if isinstance(first, HeadAudit) else HeadAudit.load(first)
    second = second if isinstance(second, HeadAudit) else HeadAudit.load(second)
    heads = tuple(head for head in first.heads if head in set(second.heads))
    if not heads:
        raise MismatchedParts("the two audits have no head in common; audit the same heads of both models")
    sizes = [(audit.n_layers, audit.n_heads) for audit in (first, second)]
    if sizes[0] != sizes[1]:
        shapes = " and ".join(f"{layers} layers of {heads} heads" for layers, heads in sizes)
        raise MismatchedParts(f"the models have {shapes}; compare models with equally many heads")
    # The share of a rung is with all rungs before it, so it can be compared up to the first other rung.
    pairs = zip(first.ladder.names, second.ladder.names, strict=False)
    n_rungs = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    measures = [_measures(audit, heads, n_rungs) for audit in (first, second)]
    names = tuple(name for name in measures[0] if name in measures[1])
    is_paired = bool(first.digest) and first.digest == second.digest
    differences = [_subtract(measures[1][name], measures[0][name], is_paired=is_paired) for name in names]
    difference, error, z = (np.array(column) for column in zip(*differences, strict=True))
    return AuditDifference((first.model, second.model), heads, names, difference, error, z, is_paired)


# The measures of some heads, by column, with the first rungs of the ladder only.
def _measures(audit: HeadAudit, heads: tuple[Head, ...], n_rungs: int) -> dict[str, Estimates]:
    ladder = audit.ladder.by_column("explained")
    measures = {
        **dict(list(ladder.items())[:n_rungs]),
        **audit.alone.by_column("alone"),
        "seeking_mass": audit.seeking.mass,
        "seeking_excess": audit.seeking.excess,
    }
    indices = [audit.heads.index(head) for head in heads]
    return {
        name: Estimates(estimates.value[indices], estimates.without[:, indices])
        for name, estimates in measures.items()
    }


# The difference of one measure in each head, its error and its z, each of shape (n_heads,).
def _subtract(
    minuend: Estimates, subtrahend: Estimates, *, is_paired: bool
) -> tuple[Float64, Float64, Float64]:
    if is_paired:
        difference = minuend.minus(subtrahend)
        return difference.value, difference.error, difference.z
    value = minuend.value - subtrahend.value
    error = np.hypot(minuend.error, subtrahend.error)
    # Degrees of freedom by Welch and Satterthwaite: (s₁² + s₂²)² / Σ sᵢ⁴ / (nᵢ − 1), with errors s.
    terms = [term.error**4 / (len(term.without) - 1) for term in (minuend, subtrahend)]
    freedom = np.maximum(divide(error**4, terms[0] + terms[1]), 1.0)
    return value, error, as_rare(divide(value, error), np.where(np.isfinite(freedom), freedom, 1.0))
