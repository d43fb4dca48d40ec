"""Next-token seeking: whether a head attends to the next token more than it would by habit.

A row counts if its label (the next token) is in the window and is not the query. The excess is the attention
on the label minus the attention expected by habit, minus the same difference for a partner: another token of
the window with similar frequency. Its error comes from leaving out documents. A habit is the attention that a
head gives on other documents to the same token from the same query, whatever comes next.

Matching is mutual (``match_tokens``), and the more frequent token of a pair gets less weight where it is the
label, in proportion to how much more often it is the label. So if labels depend on frequency alone, the
expected excess is zero for every head, however wrong its estimated habits.

An excess that recurs on other documents does not show that a head seeks the next token, since that of many
random heads recurs: without random heads no head is reported as seeking. Permuted tokens are no substitute:
with such nulls, 20 to 50 % of random heads are significant. :func:`seek_labels` measures; ``against`` adds
the random heads.
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
from attomaton.heads.audit.rows import ROWS_DIFFER, Rows
from attomaton.heads.model import Head

# Pseudo-counts of the shrinkage, in positions of average attention: of tokens to 1, of pairs to their token.
PSEUDO_COUNTS = 5.0


@dataclass(frozen=True, eq=False)
class Habits:
    """The expected attention of each head, estimated on other documents: profile × factor.

    A factor is observed attention divided by the attention that the profile gives in the same positions.
    """

    profile: Float64  # (n_heads, window): the mean attention on each position
    tokens: Float64  # (n_heads, n_tokens): the factor of each token, shrunk to 1
    keys: Int64  # (n_pairs,): pairs of query and token, packed into one number each, ascending
    pairs: Float64  # (n_heads, n_pairs): the factor of each pair, shrunk to the factor of its token

    @classmethod
    def of(cls, rows: Rows) -> "Habits":
        """Estimate the habits of all heads of some rows."""
        # By position of all rows, one row after the other: its token, and its pair as an index into ``keys``.
        token_ids = rows.tokens.ravel()
        keys, pair_indices = np.unique(_pack_rows(rows), return_inverse=True)
        pair_indices = pair_indices.ravel()
        token_of_pair = np.empty(len(keys), np.int64)
        token_of_pair[pair_indices] = token_ids
        profile = rows.profile
        strength = PSEUDO_COUNTS / rows.window  # a position has 1 / window of the attention on average
        tokens = np.empty((len(profile), rows.n_tokens))
        pairs = np.empty((len(profile), len(keys)))
        for head, profile_of_head in enumerate(profile):
            masses = (rows.attention[:, head].ravel(), np.tile(profile_of_head, len(rows)))
            observed, expected = (np.bincount(token_ids, mass, rows.n_tokens) for mass in masses)
            tokens[head] = (observed + strength) / (expected + strength)
            observed, expected = (np.bincount(pair_indices, mass, len(keys)) for mass in masses)
            pairs[head] = (observed + strength * tokens[head][token_of_pair]) / (expected + strength)
        return cls(profile, tokens, keys, pairs)

    def expect(self, rows: Rows, head: int) -> Float64:
        """The attention of one head by habit, shape (n_rows, window); every row sums to 1."""
        indices, occurs = find_rows(self.keys, _pack_rows(rows))
        factors = self.tokens[head][rows.tokens.ravel()]  # of the token, where the pair is new
        factors[occurs] = self.pairs[head][indices[occurs]]
        expected = self.profile[head] * factors.reshape(rows.tokens.shape)
        return expected / expected.sum(1, keepdims=True)


# The pair of query and token at each position, row after row, shape (n_rows · window,).
def _pack_rows(rows: Rows) -> Int64:
    return pack_pairs(np.repeat(rows.queries, rows.window), rows.tokens.ravel())


# The words in tables for a head that seeks the next token, does not, or was not judged.
YES_NO = {True: "yes", False: "no", None: "–"}


@dataclass(frozen=True, eq=False, repr=False)
class Seeking(Tabular):
    """How much each of ``heads`` attends to the label beyond its habits and beyond a matched token.

    ``mass`` is the attention on the label, and ``over_profile`` the mass minus that of the head's own
    position profile. ``excess`` is the test statistic of :mod:`attomaton.heads.audit.seeking`. ``n_rows`` and
    ``n_documents`` count the rows with a label and a partner in their window, and their documents. ``null``
    is the distribution of the excess among random heads; without it, no head counts as seeking.
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
        """Seeking with a null distribution from random heads, which may share the rotations of a layer."""
        measured = [(seeking.heads, seeking.excess) for seeking in random]
        return replace(self, null=NullDistribution.of(measured, shared=shared))

    @property
    def z(self) -> Float64:
        """z of the excess, shape (n_heads,), over random heads; without them over documents alone."""
        return self.excess.z if self.null is None else self.null.z(self.heads, self.excess)

    @property
    def holds(self) -> Bool:
        """Which heads seek the next token, at a false discovery rate of 5 %; none without a null."""
        return above_null(self.z) if self.null is not None else np.zeros(len(self.heads), bool)

    @property
    def judged(self) -> list[bool | None]:
        """Which heads seek the next token; None for all of them without random heads."""
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
        excess, judged = self.excess, self.judged
        rows = [
            (
                str(self.heads[head]),
                f"{self.mass.value[head]:.3f}",
                f"{self.over_profile.value[head]:+.3f}",
                f"{excess.value[head]:+.3f} [{excess.low[head]:+.3f}, {excess.high[head]:+.3f}]",
                f"{excess.z[head]:+.1f}",
                "–" if self.null is None else f"{self.z[head]:+.1f}",
                YES_NO[judged[head]],
            )
            for head in order
        ]
        z = ["z over documents", "z over random heads"]
        headers = ["head", "mass", "over profile", "excess", *z, "seeks"]
        return [repr(self), Grid("", headers, rows)]


def seek_labels(fitted: Rows, scored: Rows, counts: TokenCounts) -> Seeking:
    """Measure how much each head attends to the next token, beyond its habits and beyond a matched token.

    Parameters
    ----------
    fitted : Rows
        The rows on which the habits of heads are estimated.
    scored : Rows
        The rows to measure, of other documents and the same heads.
    counts : TokenCounts
        Token counts, by which each next token is matched with a token of similar frequency.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> from attomaton.heads.audit.recording import record
    >>> rows = record(*example_audit(), window=8).rows
    >>> fitted, scored = rows.take(rows.documents < 12), rows.take(rows.documents >= 12)
    >>> seek_labels(fitted, scored, TokenCounts.of([rows.labels], n_tokens=6)).n_documents
    12
    """
    if fitted.heads != scored.heads or fitted.window != scored.window:
        raise MismatchedParts(ROWS_DIFFER)
    partners = match_tokens(scored, counts)
    is_matched = partners >= 0
    rows, partners = scored.take(is_matched), partners[is_matched]
    n_documents = len(np.unique(rows.documents))
    if n_documents < 2:
        raise InvalidSamples(
            "next-token seeking needs two documents with a row whose window contains the next token and "
            f"another token to compare with, but only {n_documents} of the documents to score have such a "
            "row; give a longer window or more documents"
        )
    is_label = rows.tokens == rows.labels[:, None]
    is_partner = rows.tokens == partners[:, None]
    mass = np.einsum("nhw,nw->nh", rows.attention, is_label.astype(np.float32)).astype(np.float64)
    # Label and partner change roles in other rows: the weights balance how often each is the label.
    frequency = counts.tokens + 0.5
    weight = (frequency[partners] / (frequency[partners] + frequency[rows.labels]))[:, None]
    habits = Habits.of(fitted)
    difference = np.empty((len(rows), len(rows.heads)))
    for head in range(len(rows.heads)):
        beyond_habit = rows.attention[:, head] - habits.expect(rows, head)
        difference[:, head] = (beyond_habit * is_label).sum(1) - (beyond_habit * is_partner).sum(1)
    # Documents without a matched row stay among those that are left out one by one.
    resampled = Resampled.over(scored.documents)
    drawn = replace(resampled, document=resampled.document[is_matched])
    return Seeking(
        scored.heads,
        mass=drawn.mean(mass),
        over_profile=drawn.mean(mass - is_label @ habits.profile.T),
        excess=drawn.ratio(weight * difference, np.broadcast_to(weight, difference.shape)),
        n_rows=len(rows),
        n_documents=n_documents,
    )


def match_tokens(rows: Rows, counts: TokenCounts) -> Int32:
    """The partner of each row's label among the tokens of its window, (n_rows,); −1 if there is none."""
    # The tokens of the window except the query, sorted by frequency and id, are paired: first and second,
    # third and fourth, and so on. With nearest tokens instead, a head that prefers one token would seem to
    # seek, or to avoid, labels that depend on nothing.
    # The rank of a token is its place when all tokens of the vocabulary are sorted by frequency and id.
    n_tokens = len(counts.tokens)
    by_frequency = np.argsort(counts.tokens, kind="stable")
    rank = np.empty(n_tokens, np.int64)
    rank[by_frequency] = np.arange(n_tokens)
    label_ranks = rank[rows.labels][:, None]

    # The ranks in each window, ascending; the query gets the rank ``n_tokens``, after all others.
    is_query = rows.tokens == rows.queries[:, None]
    ranks = np.sort(np.where(is_query, n_tokens, rank[rows.tokens]), 1)

    # The distinct tokens of a window are numbered 0, 1, 2, …; number ^ 1 is the other of a pair.
    is_first = (ranks < n_tokens) & (np.diff(ranks, axis=1, prepend=-1) > 0)  # of equal tokens
    number = np.cumsum(is_first, 1) - 1
    number_of_label = ((ranks < label_ranks) & is_first).sum(1, keepdims=True)
    is_partner = is_first & (number == number_of_label ^ 1)

    # A label that is not in the window, or is the last of an odd number of tokens, has no partner.
    is_matched = is_partner.any(1) & (ranks == label_ranks).any(1)
    partner_ranks = ranks[np.arange(len(rows)), is_partner.argmax(1)]
    # Where there is no partner, ``argmax`` is 0 and the rank may be ``n_tokens``, which % keeps in range.
    return np.where(is_matched, by_frequency[partner_ranks % n_tokens], -1).astype(np.int32)
