"""Two audits head by head: a base model and a tuned one, two checkpoints, two corpora."""

from dataclasses import dataclass
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
from attomaton.heads.audit.ladder import name_column
from attomaton.heads.audit.result import HeadAudit
from attomaton.heads.model import Head

PRINTED_HEADS = 10
"""Heads that are printed for each measure: those with the largest |z|."""


@dataclass(frozen=True, eq=False, repr=False)
class AuditDifference(Tabular):
    """How the heads of two audits differ: the second minus the first.

    Attributes
    ----------
    models : tuple of str
        The names of both models.
    heads : tuple of Head
        The heads that both audits have.
    names : tuple of str
        The measures, named like the columns of ``HeadAudit.table()``.
    difference, error, z : float64 array, shape (n_measures, n_heads)
        The differences, their standard errors over documents, and z by Student's distribution.
    is_paired : bool
        Whether both audits scored the same rows: errors are then those of differences within documents.
        Otherwise the two audits count as independent.
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
        """Where heads differ, in either direction, shape (n_measures, n_heads).

        For each measure the false discovery rate over heads is at most 5 % (Benjamini and Hochberg).
        """
        from scipy.stats import false_discovery_control

        tails = 2.0 * ndtr(-np.abs(np.nan_to_num(self.z)))
        return np.array([false_discovery_control(np.minimum(tail, 1.0)) <= 0.05 for tail in tails])

    def _table(self) -> pa.Table:
        """One row per head: ``difference``, ``error``, ``z`` and ``holds`` of each measure."""
        columns: dict[str, Any] = {
            "head": [str(head) for head in self.heads],
            "layer": [head.layer for head in self.heads],
            "number": [head.number for head in self.heads],
        }
        holds = self.holds
        for at, name in enumerate(self.names):
            columns[f"difference_{name}"], columns[f"error_{name}"] = self.difference[at], self.error[at]
            columns[f"z_{name}"], columns[f"holds_{name}"] = self.z[at], holds[at]
        return table_of(columns)

    def _blocks(self) -> list[Block]:
        holds = self.holds
        rows = [
            (name, f"{self.difference[at].mean():+.4f}", str(int(holds[at].sum())), self._largest(at))
            for at, name in enumerate(self.names)
        ]
        headers = ["measure", "mean difference", "heads that differ", "largest |z|"]
        return [repr(self), f"{self.models[1]} minus {self.models[0]}", Grid("", headers, rows)]

    def _largest(self, at: int) -> str:
        """The heads with the largest |z| among those that differ in a measure."""
        order = np.argsort(-np.abs(self.z[at]), kind="stable")
        differing = [index for index in order.tolist() if self.holds[at, index]][:PRINTED_HEADS]
        return ", ".join(f"{self.heads[index]} {self.difference[at, index]:+.3f}" for index in differing)


def compare_audits(
    first: HeadAudit | str | PathLike[str], second: HeadAudit | str | PathLike[str]
) -> AuditDifference:
    """Compare two audits head by head, measure by measure.

    Parameters
    ----------
    first, second : HeadAudit or path
        Audits, or saved ones, of models with the same heads: a base and a tuned model, two checkpoints, or
        one model on two corpora. Where both scored the same rows, documents are paired, which makes errors
        smaller.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> from attomaton.heads.audit.heads import audit_heads
    >>> from attomaton.heads.audit.planning import AuditSettings
    >>> audit = audit_heads(*example_audit(), settings=AuditSettings(window=8))
    >>> compare_audits(audit, audit).difference.any()
    np.False_
    """
    first, second = (
        audit if isinstance(audit, HeadAudit) else HeadAudit.load(audit) for audit in (first, second)
    )
    heads = tuple(head for head in first.heads if head in set(second.heads))
    if not heads:
        raise MismatchedParts(
            "the audits have no head in common; audit the same heads= or layers= of both models"
        )
    sizes = [(audit.n_layers, audit.n_heads) for audit in (first, second)]
    if sizes[0] != sizes[1]:
        shapes = " and ".join(f"{layers} layers of {heads} heads" for layers, heads in sizes)
        raise MismatchedParts(f"the models have {shapes}; give audits of models of one shape")
    pairs = enumerate(zip(first.ladder.names, second.ladder.names, strict=False))
    least = min(len(first.ladder.names), len(second.ladder.names))
    rungs = next(
        (at for at, (name, second_name) in pairs if name != second_name), least
    )  # then shares mean other things
    measures = [_measures(audit, heads, rungs) for audit in (first, second)]
    names = tuple(name for name in measures[0] if name in measures[1])
    is_paired = bool(first.digest) and first.digest == second.digest
    differences = [_subtract(measures[1][name], measures[0][name], is_paired=is_paired) for name in names]
    difference, error, z = (np.array(column) for column in zip(*differences, strict=True))
    return AuditDifference((first.model, second.model), heads, names, difference, error, z, is_paired)


def _measures(audit: HeadAudit, heads: tuple[Head, ...], rungs: int) -> dict[str, Estimates]:
    """The measures of some heads by the names of their columns; the first rungs of the ladder."""
    ladders = [
        ("explained", audit.ladder, audit.ladder.names[:rungs]),
        ("alone", audit.alone, audit.alone.names),
    ]
    named = {
        name_column(kind, name): ladder.explained[at]
        for kind, ladder, names in ladders
        for at, name in enumerate(names)
    }
    named |= {"seeking_mass": audit.seeking.mass, "seeking_excess": audit.seeking.excess}
    indices = [audit.heads.index(head) for head in heads]
    return {
        name: Estimates(estimates.value[indices], estimates.without[:, indices])
        for name, estimates in named.items()
    }


def _subtract(
    minuend: Estimates, subtrahend: Estimates, *, is_paired: bool
) -> tuple[Float64, Float64, Float64]:
    """The differences of measures, their errors and z."""
    if is_paired:
        apart = minuend.minus(subtrahend)
        return apart.value, apart.error, apart.z
    value, error = minuend.value - subtrahend.value, np.hypot(minuend.error, subtrahend.error)
    terms = [each.error**4 / (len(each.without) - 1) for each in (minuend, subtrahend)]
    freedom = np.maximum(divide(error**4, terms[0] + terms[1]), 1.0)  # Welch and Satterthwaite
    return value, error, as_rare(divide(value, error), np.where(np.isfinite(freedom), freedom, 1.0))
