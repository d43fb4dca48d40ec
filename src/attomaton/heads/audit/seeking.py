"""Label seeking: whether a head looks at the token that comes next, more than it would by habit.

Of every row whose label stands in the window and is not the query, the label's mass minus what the head
gives to the same token from the same query at the same lags on other documents, and the same of another token
of the same context that is about as frequent. Their difference is the excess; its error comes from leaving
out documents.

Matching is mutual (``match_tokens``), and the more frequent token of a pair counts less where it is the
label, by as much as it is the label more often. So where labels depend on nothing but frequency, the expected
excess is zero for every head, however it looks and whatever is wrong with its habits.

Habits are what a head gives to a token at a lag from a query, whatever comes next. A head of random weights
likes some tokens, and some from some queries, on every text, and the label depends on the query: by accident
it looks at labels more, or less, than at other tokens. So habits are measured on other documents.

No null is made by permuting tokens: such nulls call 20 to 50 % of random heads significant. Nor does a head
seek the label because its excess comes up again on other documents: that of many a random head does. Without
random heads nothing is said to hold.
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
from attomaton.heads.audit.jackknife import Estimates, Probability, Resampled, above_chance
from attomaton.heads.audit.rows import Rows
from attomaton.heads.model import Head

STRENGTH = 5.0
"""Places under uniform attention that count for the rule: a token as any other, a pair as its token."""


@dataclass(frozen=True, eq=False)
class Habits:
    """Of each head the profile by lag, and factors for tokens and for pairs of a query and a token.

    A factor is the attention that the head gave, by what its profile gives to the same places. That of a
    token is shrunk to 1, that of a pair to its token's.

    Attributes
    ----------
    profile : float64 array, shape (n_heads, window)
        The mean attention on each place.
    tokens : float64 array, shape (n_heads, n_tokens)
        The factor of each token.
    keys : int64 array, shape (n_pairs,)
        The pairs that were seen, packed and rising.
    pairs : float64 array, shape (n_heads, n_pairs)
        The factor of each.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import example_rows
    >>> Habits.of(example_rows()).expect(example_rows(), 0).round(3).tolist()
    [[0.333, 0.333, 0.333]]
    """

    profile: Float64
    tokens: Float64
    keys: Int64
    pairs: Float64

    @classmethod
    def of(cls, rows: Rows) -> "Habits":
        """From the rows of some documents."""
        packed = _pack(rows)
        keys, place = np.unique(packed, return_inverse=True)
        place, token = place.ravel(), rows.tokens.ravel()
        of_key = np.empty(len(keys), np.int64)
        of_key[place] = token
        profile, strength = rows.profile, STRENGTH / rows.window
        tokens, pairs = np.empty((len(profile), rows.n_tokens)), np.empty((len(profile), len(keys)))
        for head, own in enumerate(profile):
            attention, usual = rows.attention[:, head].ravel(), np.tile(own, len(rows))
            one, base = (np.bincount(token, part, rows.n_tokens) for part in (attention, usual))
            tokens[head] = (one + strength) / (base + strength)
            one, base = (np.bincount(place, part, len(keys)) for part in (attention, usual))
            pairs[head] = (one + strength * tokens[head][of_key]) / (base + strength)
        return cls(profile, tokens, keys, pairs)

    def expect(self, rows: Rows, head: int) -> Float64:
        """What one head gives to each place by habit, shape (n_rows, window); every row sums to 1."""
        places, there = find_rows(self.keys, _pack(rows))
        factors = self.tokens[head][rows.tokens.ravel()]
        factors[there] = self.pairs[head][places[there]]
        expected = self.profile[head] * factors.reshape(rows.tokens.shape)
        return expected / expected.sum(1, keepdims=True)


def _pack(rows: Rows) -> Int64:
    return pack_pairs(np.repeat(rows.queries, rows.window), rows.tokens.ravel())


def expect_by_definition(fitted: Rows, row: Rows, head: int) -> Float64:
    """The same for the first of some rows, place by place."""
    profile, strength = fitted.profile[head], STRENGTH / fitted.window
    attention = fitted.attention[:, head].astype(np.float64)
    usual = np.broadcast_to(profile, attention.shape)
    expected = np.empty(fitted.window)
    for place, token in enumerate(row.tokens[0].tolist()):
        mine = fitted.tokens == token
        factor = (attention[mine].sum() + strength) / (usual[mine].sum() + strength)
        both = mine & (fitted.queries == row.queries[0])[:, None]
        factor = (attention[both].sum() + strength * factor) / (usual[both].sum() + strength)
        expected[place] = profile[place] * factor
    return expected / expected.sum()


SAID = {True: "yes", False: "no", None: "–"}
"""What tables say of a head that seeks the label, does not, or was not judged."""


@dataclass(frozen=True, eq=False, repr=False)
class Seeking(Tabular):
    """How much each head looks at the label beyond its habits and beyond a matched token.

    Attributes
    ----------
    mass : Estimates
        The attention on the label's places.
    over_profile : Estimates
        The same minus what the head's own position profile puts there.
    excess : Estimates
        The mass minus what the head gives by habit, minus the same of a token of like frequency, both of a
        pair counting alike: what the test is about.
    n_rows, n_documents : int
        How many rows have their label and a matched token in the window, and of how many documents.
    probability : Probability, optional
        The excess of random heads. With it ``z`` is held against them, otherwise against documents alone, and
        no head is said to seek the label.

    Examples
    --------
    >>> from attomaton.heads.audit.jackknife import Estimates
    >>> one = Estimates(np.array([0.5]), np.array([[0.4], [0.5], [0.6]]))
    >>> seeking = Seeking((Head(0, 0),), one, one, one, 90, 9)
    >>> seeking, seeking.z.round(1).tolist(), seeking.holds.tolist()
    (Seeking(1 heads, not judged, 90 rows of 9 documents), [2.0], [False])
    >>> seeking.against([seeking])
    Seeking(0 of 1 heads, 90 rows of 9 documents)
    """

    heads: tuple[Head, ...]
    mass: Estimates
    over_profile: Estimates
    excess: Estimates
    n_rows: int
    n_documents: int
    probability: Probability | None = None

    def __repr__(self) -> str:
        n = len(self.heads)
        heads = (
            f"{n} heads, not judged" if self.probability is None else f"{int(self.holds.sum())} of {n} heads"
        )
        return f"Seeking({heads}, {self.n_rows:,} rows of {self.n_documents:,} documents)"

    def against(self, random: Sequence["Seeking"]) -> "Seeking":
        """The same, held against the excess of heads with random weights, measured on the same text."""
        return replace(self, probability=Probability.of([(one.heads, one.excess) for one in random]))

    @property
    def z(self) -> Float64:
        """The excess against probability, shape (n_heads,).

        With random heads: beyond their mean, by its own error and their spread. Without: by its error over
        documents, which many a random head passes too.
        """
        return self.excess.z if self.probability is None else self.probability.z(self.heads, self.excess)

    @property
    def holds(self) -> Bool:
        """Which heads seek the label, at most one in twenty of them wrongly, shape (n_heads,).

        None without random heads: ``judged`` says so.
        """
        return above_chance(self.z) if self.probability is not None else np.zeros(len(self.heads), bool)

    @property
    def judged(self) -> list[bool | None]:
        """The same for tables: None where there are no random heads to hold heads against."""
        return [None] * len(self.heads) if self.probability is None else self.holds.tolist()

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
                "–" if self.probability is None else f"{self.z[at]:+.1f}",
                SAID[judged[at]],
            )
            for at in order
        ]
        z = ["z over documents", "z over random heads"]
        headers = ["head", "mass", "over profile", "excess", *z, "seeks"]
        return [repr(self), Grid("", headers, rows)]


def seek_labels(fitted: Rows, scored: Rows, counts: TokenCounts) -> Seeking:
    """Measure label seeking of every head.

    Parameters
    ----------
    fitted : Rows
        Rows of other documents, which give each head its profile and its habits.
    scored : Rows
        The rows that are measured.
    counts : TokenCounts
        Token frequencies, by which tokens are matched.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import watch_rows
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> rows = watch_rows(model, documents, window=8)
    >>> fitted, scored = rows.take(rows.documents < 12), rows.take(rows.documents >= 12)
    >>> seek_labels(fitted, scored, TokenCounts.of([rows.labels], n_tokens=6)).n_documents
    12
    """
    if fitted.heads != scored.heads or fitted.window != scored.window:
        raise MismatchedParts("the rows of the profile and those to score are of other heads or windows")
    matched = match_tokens(scored, counts)
    kept = matched >= 0
    rows, matched = scored.take(kept), matched[kept]
    n_documents = len(np.unique(rows.documents))
    if n_documents < 2:
        raise InvalidSamples(
            f"in {n_documents} of the documents to score a row has its label in the window, beside the query "
            "and another token, and two are needed; take a longer window, more rows or more documents"
        )
    label, other = rows.tokens == rows.labels[:, None], rows.tokens == matched[:, None]
    frequency = counts.tokens + 0.5
    weight = (frequency[matched] / (frequency[matched] + frequency[rows.labels]))[:, None]
    habits, drawn = Habits.of(fitted), Resampled.over(scored.documents)
    drawn = replace(drawn, document=drawn.document[kept])
    mass = np.einsum("nhw,nw->nh", rows.attention, label.astype(np.float32)).astype(np.float64)
    apart = np.empty((len(rows), len(rows.heads)))
    for head in range(len(rows.heads)):
        beyond = rows.attention[:, head] - habits.expect(rows, head)
        apart[:, head] = (beyond * label).sum(1) - (beyond * other).sum(1)
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

    The tokens of the window but the query, sorted by frequency and id, are paired: first and second, third
    and fourth, and so on. −1 where the label is the query, is not in the window, or is left over. A token's
    partner has it as partner: nearest tokens would not, so that a head that likes one token would seem to
    seek, or to shun, labels that depend on nothing.
    """
    order = np.argsort(counts.tokens, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    own = rank[rows.labels][:, None]
    barred = rows.tokens == rows.queries[:, None]
    ranks = np.sort(np.where(barred, len(order), rank[rows.tokens]), 1)
    distinct = (ranks < len(order)) & (np.diff(ranks, axis=1, prepend=-1) > 0)
    place = np.cumsum(distinct, 1) - 1
    of_label = ((ranks < own) & distinct).sum(1, keepdims=True)
    partner = distinct & (place == of_label ^ 1)
    matched = partner.any(1) & (ranks == own).any(1)
    return np.where(matched, order[ranks[np.arange(len(rows)), partner.argmax(1)] % len(order)], -1).astype(
        np.int32
    )


def match_by_definition(rows: Rows, counts: TokenCounts) -> Int64:
    """The same, row by row."""
    matched = list[int]()
    for tokens, label in zip(rows.tokens.tolist(), rows.labels.tolist(), strict=True):
        others = sorted(set(tokens) - {tokens[0]}, key=lambda one: (counts.tokens[one], one))
        partner = others.index(label) ^ 1 if label in others else len(others)
        matched.append(others[partner] if partner < len(others) else -1)
    return np.array(matched, np.int64)
