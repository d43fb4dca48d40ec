"""The ladder: the share of a head's attention that each rung explains on held-out documents.

Explained share := 1 − KL(attention ‖ softmax(fitted scores)) / KL(attention ‖ uniform), summed over rows,
with attention on the keys of :mod:`attomaton.heads.audit.rows`. It is 1 for an exact prediction, 0 for one
that gives no information, and below 0 for one that misleads. A row in which a head attends to no key is left
out for that head. :func:`climb` fits and measures; ``Ladder.against`` adds random heads.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.printing import Block, Grid
from attomaton.base.progress import Advance, silent
from attomaton.base.tables import Bool, Float64, table_of
from attomaton.heads.audit import jackknife
from attomaton.heads.audit.explanations import LadderRung
from attomaton.heads.audit.features import Features, climb_head
from attomaton.heads.audit.fitting import divergence
from attomaton.heads.audit.jackknife import Estimates, NullDistribution
from attomaton.heads.audit.rows import ROWS_DIFFER, Rows
from attomaton.heads.model import Head

UNIFORM = 1e-12  # mean KL(attention ‖ uniform) over rows, in nats, up to which a head counts as uniform

SHARE_ROUNDING = 1e-9  # a loss of explained share up to which a rung does not harm a head


@dataclass(frozen=True, eq=False, repr=False)
class Ladder(Tabular):
    """The explained share of all ``heads`` after each rung, with intervals over documents.

    ``names`` are the rungs. If ``nested``, each is fitted together with those before it, otherwise alone.
    ``explained`` is the explained share of each rung, and ``added`` the increase over the rung before. Both
    are 0 for a head that attends uniformly, or to no key in nearly all documents. ``scales`` (n_rungs,
    n_heads) are the fitted β, NaN for free offsets and effects. ``null`` has the null distribution of each
    rung, if random heads were measured.
    """

    heads: tuple[Head, ...]
    names: tuple[str, ...]
    nested: bool
    explained: tuple[Estimates, ...]
    added: tuple[Estimates, ...]
    scales: Float64
    null: tuple[NullDistribution, ...] = ()

    def __repr__(self) -> str:
        n, rungs = len(self.heads), len(self.names)
        kind = "nested" if self.nested else "each alone"
        return f"Ladder({n:,} head{'s' * (n != 1)}, {rungs} rung{'s' * (rungs != 1)}, {kind})"

    @property
    def shares(self) -> Float64:
        """The explained share, shape (n_rungs, n_heads)."""
        return np.array([share.value for share in self.explained])

    def by_column(self, kind: str) -> dict[str, Estimates]:
        """The explained share of each rung, by the column of a table: the kind, and the name of the rung."""
        return dict(zip([name_column(kind, name) for name in self.names], self.explained, strict=True))

    @property
    def mean(self) -> Float64:
        """The mean explained share over heads, shape (n_rungs,)."""
        return self.shares.mean(1)

    @property
    def harm(self) -> list[str]:
        """How many heads each rung harms on held-out documents, with a note if this is more than half."""
        counts = [int((share.value < -SHARE_ROUNDING).sum()) for share in self.added]
        return [f"{n}, more than half" if 2 * n > len(self.heads) else str(n) for n in counts]

    @property
    def z(self) -> Float64:
        """z of what each rung adds, shape (n_rungs, n_heads).

        With random heads, z compares √(added share), with the sign of the scale, with random heads. Without
        them, z is the added share over its error: whether a rung helps on other documents, which is often
        true of random weights too.
        """
        if not self.null:
            return np.array([share.z for share in self.added])
        return np.array([null.z(self.heads, self._signed_root(rung)) for rung, null in enumerate(self.null)])

    @property
    def holds(self) -> Bool:
        """Where a rung adds more than the null, corrected over heads, shape (n_rungs, n_heads)."""
        return np.array([jackknife.above_null(row) for row in self.z])

    def against(self, random: Sequence["Ladder"], *, shared: bool = False) -> "Ladder":
        """The ladder with null distributions from random heads, which may share the rotations of a layer."""
        if any(ladder.names != self.names or ladder.nested != self.nested for ladder in random):
            raise MismatchedParts("random heads have a ladder of other rungs; use the same for all heads")
        nulls = list[NullDistribution]()
        for rung in range(len(self.names)):
            measured = [(ladder.heads, ladder._signed_root(rung)) for ladder in random]
            nulls.append(NullDistribution.of(measured, shared=shared))
        return replace(self, null=tuple(nulls))

    # √(added share) with the sign of its scale: nearly normal for random heads, unlike shares.
    def _signed_root(self, rung: int) -> Estimates:
        added = self.added[rung]
        scales = self.scales[rung]
        sign = np.where(np.isnan(scales), 1.0, np.sign(scales))  # free rungs have no scale
        roots = (sign * np.sqrt(np.maximum(values, 0.0)) for values in (added.value, added.without))
        return Estimates(*roots)

    def _table(self) -> pa.Table:
        columns: dict[str, Any] = {
            "head": [str(head) for head in self.heads] * len(self.names),
            "rung": [name for name in self.names for _ in self.heads],
        }
        for name, prefix, shares in (("explained", "", self.explained), ("added", "added_", self.added)):
            columns[name] = np.concatenate([share.value for share in shares])
            columns[f"{prefix}low"] = np.concatenate([share.low for share in shares])
            columns[f"{prefix}high"] = np.concatenate([share.high for share in shares])
        columns["z_documents"] = np.concatenate([share.z for share in self.added])
        columns |= {"z": self.z.ravel(), "holds": self.holds.ravel(), "scale": self.scales.ravel()}
        return table_of(columns)

    def _blocks(self) -> list[Block]:
        rows = [
            (str(head), *(f"{share.value[index]:.3f}" for share in self.explained))
            for index, head in enumerate(self.heads)
        ]
        rows.append(("mean", *(f"{share:.3f}" for share in self.mean)))
        rows.append(("heads it harms", *self.harm))
        first, *later = self.names
        headers = ["head", first, *(f"+ {name}" if self.nested else name for name in later)]
        return [repr(self), Grid("Explained share on held-out documents", headers, rows)]


def name_column(kind: str, name: str) -> str:
    """The name of a column about a rung: ``explained_induction_by_2``."""
    return kind + "_" + re.sub(r"\W+", "_", name)


def climb(
    fitted: Rows,
    scored: Rows,
    rungs: Sequence[LadderRung],
    *,
    nested: bool = True,
    progress: Advance = silent,
) -> Ladder:
    """Fit explanations (rungs) on some attention rows, and measure on other rows how much they explain.

    Parameters
    ----------
    fitted, scored : Rows
        Rows to fit on, and rows of other documents to measure, with the same heads and window.
    rungs : sequence of rungs
        The rungs, in the order of the ladder.
    nested : bool
        Whether each rung is fitted together with all rungs before it. Otherwise each is fitted alone.
    progress : callable
        Called with the number of finished heads and the number of all heads.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> from attomaton.heads.audit.explanations import KeyToken, Position
    >>> from attomaton.heads.audit.recording import record
    >>> rows = record(*example_audit(), window=8).rows
    >>> fitted, scored = rows.take(rows.documents < 12), rows.take(rows.documents >= 12)
    >>> climb(fitted, scored, [Position(), KeyToken()])
    Ladder(2 heads, 2 rungs, nested)
    """
    names = tuple(rung.name for rung in rungs)
    if not names or len({name_column("", name) for name in names}) < len(names):
        raise UnsupportedOption(f"rungs are named {list(names)}; give one or more, all with different names")
    if fitted.heads != scored.heads or fitted.window != scored.window:
        raise MismatchedParts(ROWS_DIFFER)
    features_fitted, features_scored = Features.of(rungs, fitted, scored)
    n_heads = len(scored.heads)
    unexplained = np.empty((len(rungs), len(scored), n_heads))
    scales = np.empty((len(rungs), n_heads))
    for index in range(n_heads):
        attention = scored.on_keys(index)
        fits = climb_head(features_fitted, features_scored, index, nested=nested)
        for number, fit in enumerate(fits):
            unexplained[number, :, index] = divergence(attention, fit.logs)
            scales[number, index] = fit.scale
        progress(index + 1, n_heads)
    shares = explain_rows(scored, unexplained)
    return Ladder(scored.heads, names, nested, tuple(shares), added_shares(shares, nested=nested), scales)


def added_shares(shares: Sequence[Estimates], *, nested: bool) -> tuple[Estimates, ...]:
    """The increase of each explained share over the one before; the share itself if rungs are not nested."""
    # Nothing is before the first rung.
    return tuple(share.minus(shares[i - 1]) if nested and i else share for i, share in enumerate(shares))


def explain_rows(scored: Rows, unexplained: Float64) -> list[Estimates]:
    """The explained share of each fit, from its KL(attention ‖ fit), shape (n_fits, n_rows, n_heads)."""
    drawn = jackknife.Resampled.over(scored.documents)
    n_keys = scored.window + 1
    logs_of_uniform = np.full((1, n_keys), -np.log(n_keys))
    explainable = np.empty(unexplained.shape[1:])  # KL(attention ‖ uniform)
    for index in range(len(scored.heads)):
        explainable[:, index] = divergence(scored.on_keys(index), logs_of_uniform)
    attends = drawn.sums(scored.attends.astype(np.float64)) > 0  # (n_documents, n_heads)
    # Uniform heads, and heads that attend in few documents, get the ratio 1 / 1, that is the share 0.
    is_empty = (explainable.mean(0) <= UNIFORM) | (attends.sum(0) < jackknife.FEWEST_DOCUMENTS)
    explainable[:, is_empty] = 1.0
    ratios = [drawn.ratio(np.where(is_empty, 1.0, fit), explainable) for fit in unexplained]
    return [Estimates(1.0 - ratio.value, 1.0 - ratio.without) for ratio in ratios]
