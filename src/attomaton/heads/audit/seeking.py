"""Next-token seeking: whether a head attends to the next token more than it would by habit.

For every row whose label is in the window and is not the query: the label's mass minus the mass that the head
gives to the same token from the same query at the same lags on other documents; and the same for another
token of the context with similar frequency. The difference of the two is the excess; its error comes from
leaving out documents.

Matching is mutual (``match_tokens``), and the more frequent token of a pair gets less weight where it is the
label, in proportion to how much more often it is the label. So if labels depend on frequency alone, the
expected excess is zero for every head, whatever its pattern and however wrong its estimated habits.

A habit is the mass that a head gives to a token at a lag from a query, whatever comes next. A random head
prefers some tokens, and some from some queries, on every text, and the label depends on the query: so by
accident it attends to labels more, or less, than to other tokens. Habits are measured on other documents.

No null is made by permuting tokens: such nulls call 20 to 50 % of random heads significant. An excess that
recurs on other documents does not show that a head seeks the next token: that of many random heads recurs.
Without random heads no head is reported as significant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from attomaton.base.errors import InvalidSamples, MismatchedParts
from attomaton.base.frames import Tabular
from attomaton.base.printing import Block, Grid
from attomaton.base.tables import Bool, Float64, Int32, Int64, table_of
from attomaton.graphs.grouping import find_rows, pack_pairs
from attomaton.heads.audit.explanations import TokenCounts
from attomaton.heads.audit.jackknife import Estimates, NullDistribution, Resampled, above_null
from attomaton.heads.audit.rows import Rows
from attomaton.heads.model import Head

PSEUDO_COUNTS = 5.0
"""Pseudo-counts of the shrinkage, in positions: of a token to the average, of a pair to its token."""


@dataclass(frozen=True, eq=False)
class Habits:
    """For each head the profile by lag, and factors for tokens and for pairs of a query and a token.

    A factor is the observed attention divided by the profile's attention on the same positions. The factor
    of a token is shrunk to 1, that of a pair to its token's.

    Attributes
    ----------
    profile : float64 array, shape (n_heads, window)
        The mean attention on each position.
    tokens : float64 array, shape (n_heads, n_tokens)
        The factor of each token.
    keys : int64 array, shape (n_pairs,)
        The pairs that were seen, packed and ascending.
    pairs : float64 array, shape (n_heads, n_pairs)
        The factor of each pair.
    """

    profile: Float64
    tokens: Float64
    keys: Int64
    pairs: Float64

    @classmethod
    def of(cls, rows: Rows) -> "Habits":
        """Estimate from the rows of some documents."""
        packed = _pack_rows(rows)
        keys, pair = np.unique(packed, return_inverse=True)
        pair, token = pair.ravel(), rows.tokens.ravel()
        of_key = np.empty(len(keys), np.int64)
        of_key[pair] = token
        profile, strength = rows.profile, PSEUDO_COUNTS / rows.window
        tokens, pairs = np.empty((len(profile), rows.n_tokens)), np.empty((len(profile), len(keys)))
        for head, of_head in enumerate(profile):
            attention, usual = rows.attention[:, head].ravel(), np.tile(of_head, len(rows))
            observed, base = (np.bincount(token, weights, rows.n_tokens) for weights in (attention, usual))
            tokens[head] = (observed + strength) / (base + strength)
            observed, base = (np.bincount(pair, weights, len(keys)) for weights in (attention, usual))
            pairs[head] = (observed + strength * tokens[head][of_key]) / (base + strength)
        return cls(profile, tokens, keys, pairs)

    def expect(self, rows: Rows, head: int) -> Float64:
        """The attention of one head by habit, shape (n_rows, window); every row sums to 1."""
        pair_rows, is_counted = find_rows(self.keys, _pack_rows(rows))
        factors = self.tokens[head][rows.tokens.ravel()]
        factors[is_counted] = self.pairs[head][pair_rows[is_counted]]
        expected = self.profile[head] * factors.reshape(rows.tokens.shape)
        return expected / expected.sum(1, keepdims=True)


def _pack_rows(rows: Rows) -> Int64:
    return pack_pairs(np.repeat(rows.queries, rows.window), rows.tokens.ravel())


YES_NO = {True: "yes", False: "no", None: "–"}
"""The words in tables for a head that seeks the next token, does not, or was not judged."""


@dataclass(frozen=True, eq=False, repr=False)
class Seeking(Tabular):
    """How much each head attends to the label beyond its habits and beyond a matched token.

    Attributes
    ----------
    heads : tuple of Head
        The heads.
    mass : Estimates
        The attention on the label's positions.
    over_profile : Estimates
        The mass minus that of the head's own position profile.
    excess : Estimates
        The test statistic: the mass minus the mass by habit, minus the same difference for a token of similar
        frequency; both tokens of such a pair have equal weight.
    n_rows, n_documents : int
        The number of rows whose window holds their label and a matched token, and of the documents they come
        from.
    null : NullDistribution, optional
        The null distribution of the excess, from random heads. With it, ``z`` is relative to random heads;
        without it, ``z`` is over documents alone and no head is reported as seeking the next token.
    """

    heads: tuple[Head, ...]
    mass: Estimates
    over_profile: Estimates
    excess: Estimates
    n_rows: int
    n_documents: int
    null: NullDistribution | None = None

    def __repr__(self) -> str:
        n = len(self.heads)
        heads = f"{n} heads, not judged" if self.null is None else f"{int(self.holds.sum())} of {n} heads"
        return f"Seeking({heads}, {self.n_rows:,} rows of {self.n_documents:,} documents)"

    def against(self, random: Sequence["Seeking"], *, shared: bool = False) -> "Seeking":
        """The same, compared with the excess of random heads, which may share rotations, on the same text."""
        measured = [(seeking.heads, seeking.excess) for seeking in random]
        return replace(self, null=NullDistribution.of(measured, shared=shared))

    @property
    def z(self) -> Float64:
        """z of the excess, shape (n_heads,).

        With random heads: the distance from their mean, relative to their spread and to the error of the
        excess. Without: the excess divided by its error over documents, a test that many random heads pass
        too.
        """
        return self.excess.z if self.null is None else self.null.z(self.heads, self.excess)

    @property
    def holds(self) -> Bool:
        """Which heads seek the next token, with a false discovery rate of at most 5 %, shape (n_heads,).

        None do without random heads; ``judged`` tells the cases apart.
        """
        return above_null(self.z) if self.null is not None else np.zeros(len(self.heads), bool)

    @property
    def judged(self) -> list[bool | None]:
        """The same for tables: None if there are no random heads for comparison."""
        return [None] * len(self.heads) if self.null is None else self.holds.tolist()

    def _table(self) -> pa.Table:
        return table_of(
            {
                "head": [str(head) for head in self.heads],
                "mass": self.mass.value,
                "over_profile": self.over_profile.value,
                "excess": self.excess.value,
                "low": self.excess.low,
                "high": self.excess.high,
                "z": self.z,
                "z_documents": self.excess.z,
                "holds": pa.array(self.judged, pa.bool_()),
            }
        )

    def _blocks(self) -> list[Block]:
        order: list[int] = np.argsort(-self.z, kind="stable").tolist()
        judged = self.judged
        rows = [
            (
                str(self.heads[at]),
                f"{self.mass.value[at]:.3f}",
                f"{self.over_profile.value[at]:+.3f}",
                f"{self.excess.value[at]:+.3f} [{self.excess.low[at]:+.3f}, {self.excess.high[at]:+.3f}]",
                f"{self.excess.z[at]:+.1f}",
                "–" if self.null is None else f"{self.z[at]:+.1f}",
                YES_NO[judged[at]],
            )
            for at in order
        ]
        z = ["z over documents", "z over random heads"]
        headers = ["head", "mass", "over profile", "excess", *z, "seeks"]
        return [repr(self), Grid("", headers, rows)]


def seek_labels(fitted: Rows, scored: Rows, counts: TokenCounts) -> Seeking:
    """Measure next-token seeking of every head.

    Parameters
    ----------
    fitted : Rows
        Rows from other documents, from which each head's profile and habits are estimated. A habit is the
        attention to a token at a lag from a query, whatever comes next.
    scored : Rows
        The rows to measure.
    counts : TokenCounts
        Token frequencies, for matching tokens.

    Examples
    --------
    >>> from attomaton.heads.audit.recording import record
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> rows = record(model, documents, window=8).rows
    >>> fitted, scored = rows.take(rows.documents < 12), rows.take(rows.documents >= 12)
    >>> seek_labels(fitted, scored, TokenCounts.of([rows.labels], n_tokens=6)).n_documents
    12
    """
    if fitted.heads != scored.heads or fitted.window != scored.window:
        raise MismatchedParts("the rows to fit on and the rows to score differ in heads or window")
    matched = match_tokens(scored, counts)
    is_matched = matched >= 0
    rows, matched = scored.take(is_matched), matched[is_matched]
    n_documents = len(np.unique(rows.documents))
    if n_documents < 2:
        raise InvalidSamples(
            f"only {n_documents} of the documents to score have a row whose window holds the query, the "
            "label and another token, but two such documents are needed; give a longer window, more rows "
            "or more documents"
        )
    label, partner = rows.tokens == rows.labels[:, None], rows.tokens == matched[:, None]
    frequency = counts.tokens + 0.5
    weight = (frequency[matched] / (frequency[matched] + frequency[rows.labels]))[:, None]
    habits, drawn = Habits.of(fitted), Resampled.over(scored.documents)
    drawn = replace(drawn, document=drawn.document[is_matched])
    mass = np.einsum("nhw,nw->nh", rows.attention, label.astype(np.float32)).astype(np.float64)
    apart = np.empty((len(rows), len(rows.heads)))
    for head in range(len(rows.heads)):
        beyond = rows.attention[:, head] - habits.expect(rows, head)
        apart[:, head] = (beyond * label).sum(1) - (beyond * partner).sum(1)
    return Seeking(
        scored.heads,
        drawn.mean(mass),
        drawn.mean(mass - label @ habits.profile.T),
        drawn.ratio(weight * apart, np.broadcast_to(weight, apart.shape)),
        len(rows),
        n_documents,
    )


def match_tokens(rows: Rows, counts: TokenCounts) -> Int32:
    """For each row the partner of its label among the tokens of its window, shape (n_rows,).

    The tokens of the window except the query, sorted by frequency and id, are paired: first and second, third
    and fourth, and so on. −1 if the label is the query, is not in the window, or is left over. Matching is
    mutual. With nearest tokens it would not be, and a head that prefers one token would seem to seek, or to
    avoid, labels that depend on nothing.
    """
    order = np.argsort(counts.tokens, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    label_ranks = rank[rows.labels][:, None]
    barred = rows.tokens == rows.queries[:, None]
    ranks = np.sort(np.where(barred, len(order), rank[rows.tokens]), 1)
    distinct = (ranks < len(order)) & (np.diff(ranks, axis=1, prepend=-1) > 0)
    ordinal = np.cumsum(distinct, 1) - 1
    of_label = ((ranks < label_ranks) & distinct).sum(1, keepdims=True)
    partner = distinct & (ordinal == of_label ^ 1)
    matched = partner.any(1) & (ranks == label_ranks).any(1)
    return np.where(matched, order[ranks[np.arange(len(rows)), partner.argmax(1)] % len(order)], -1).astype(
        np.int32
    )
