"""A head's habits: what it gives to a token at a lag from a query, whatever comes next.

A head of random weights likes some tokens, and some tokens from some queries, on every text. The label of a
row depends on its query too, so by accident such a head looks at labels more, or less, than at other tokens.
Habits are what is subtracted for this: they are told from other documents, where the same token was seen from
the same query, mostly as no label.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Float64, Int64
from attomaton.graphs.grouping import find_rows, pack_pairs
from attomaton.heads.audit.rows import Rows

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
        wanted = _pack(rows)
        keys, place = np.unique(wanted, return_inverse=True)
        place, token = place.ravel(), rows.tokens.ravel()
        of_key = np.empty(len(keys), np.int64)
        of_key[place] = token
        profile, strength = rows.profile, STRENGTH / rows.window
        tokens, pairs = np.empty((len(profile), rows.n_tokens)), np.empty((len(profile), len(keys)))
        for head, own in enumerate(profile):
            given, usual = rows.attention[:, head].ravel(), np.tile(own, len(rows))
            one, base = (np.bincount(token, part, rows.n_tokens) for part in (given, usual))
            tokens[head] = (one + strength) / (base + strength)
            one, base = (np.bincount(place, part, len(keys)) for part in (given, usual))
            pairs[head] = (one + strength * tokens[head][of_key]) / (base + strength)
        return cls(profile, tokens, keys, pairs)

    def expect(self, rows: Rows, head: int) -> Float64:
        """What one head gives to each place by habit, shape (n_rows, window); every row sums to 1."""
        found, there = find_rows(self.keys, _pack(rows))
        factors = self.tokens[head][rows.tokens.ravel()]
        factors[there] = self.pairs[head][found[there]]
        expected = self.profile[head] * factors.reshape(rows.tokens.shape)
        return expected / expected.sum(1, keepdims=True)


def _pack(rows: Rows) -> Int64:
    return pack_pairs(np.repeat(rows.queries, rows.window), rows.tokens.ravel())


def expect_by_definition(fitted: Rows, row: Rows, head: int) -> Float64:
    """The same for the first of some rows, place by place."""
    profile, strength = fitted.profile[head], STRENGTH / fitted.window
    given = fitted.attention[:, head].astype(np.float64)
    usual = np.broadcast_to(profile, given.shape)
    expected = np.empty(fitted.window)
    for place, token in enumerate(row.tokens[0].tolist()):
        mine = fitted.tokens == token
        factor = (given[mine].sum() + strength) / (usual[mine].sum() + strength)
        both = mine & (fitted.queries == row.queries[0])[:, None]
        factor = (given[both].sum() + strength * factor) / (usual[both].sum() + strength)
        expected[place] = profile[place] * factor
    return expected / expected.sum()
