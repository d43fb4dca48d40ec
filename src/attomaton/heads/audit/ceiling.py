"""The ceiling: how much of a head's attention any fixed score of query, token and lag could explain.

Three kinds of scores are fitted together: an offset per lag and an effect per token, as in the ladder; the
head's own scores of the mean input that each token gives to the layer, if weights are there; and a table of
low rank, Σ_r u_r(query) v_r(token). Its rank is chosen on documents that the table was not fitted on. What is
reached is a bound from below: another table may reach more.

What is left, the contextual share, is attention that depends on more than the two tokens and their distance.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax

from attomaton.base.options import make_rng
from attomaton.base.tables import Bool, Float64, Int64, Integers
from attomaton.heads.audit.explanations import Duplicate, KeyToken, Position
from attomaton.heads.audit.features import Features
from attomaton.heads.audit.fitting import divergence, fit_head
from attomaton.heads.audit.jackknife import Estimates
from attomaton.heads.audit.ladder import explain_rows
from attomaton.heads.audit.recording import MeanReads
from attomaton.heads.audit.rows import Rows
from attomaton.heads.model import LayeredModel

RANKS = (1, 2, 4, 8, 16)
"""Ranks of the pair table that are tried in turn, until one explains no more than the rank before."""

RIDGE = 1e-3
"""Half of it times the squares of the table's factors is added to the loss, in nats per row."""

MOST_TABLE_STEPS = 60
"""Iterations of L-BFGS per table."""

GAIN = 3e-3
"""The share of attention, on documents left out, that a larger rank must add to be tried further."""


@dataclass(frozen=True, eq=False)
class OwnScores:
    """A head's own scores of the mean inputs of tokens, by query, token and lag.

    A token without a mean input gets the mean of all.

    Attributes
    ----------
    model : LayeredModel
        The model.
    reads : MeanReads
        From the documents to fit on.
    """

    model: LayeredModel = field(repr=False)
    reads: MeanReads = field(repr=False)

    def score(self, rows: Rows) -> Float64:
        """The scores of the heads of ``rows``, shape (n_rows, n_heads, window + 2).

        The scores of the window come first. The last two are for the first token: the score that the token
        has elsewhere, and the mean score of the first position over all documents.
        """
        reads, n, window = self.reads, len(rows), rows.window
        named = _index_in(reads.tokens, np.concatenate([rows.tokens, rows.starts[:, None]], 1))
        keys = np.concatenate([named, np.full((n, 1), len(reads.tokens) + 1)], 1)
        window_lags = np.broadcast_to(np.arange(window), (n, window))
        lags = np.concatenate([window_lags, np.repeat(rows.positions[:, None], 2, 1)], 1).astype(np.int64)
        scores, texts = np.empty((n, len(rows.heads), window + 2)), rows.documents.astype(np.int64)
        for layer in sorted({head.layer for head in rows.heads}):
            means, first = (of[reads.layers.index(layer)] for of in (reads.means, reads.first))
            average = reads.counts @ means / reads.counts.sum()
            inputs = np.concatenate([means, average[None], first[None]])
            every = self.model.score_inputs(layer, inputs.astype(np.float32), keys, lags, texts)
            for index, head in enumerate(rows.heads):
                if head.layer == layer:
                    scores[:, index] = every[:, head.number]
        return scores


def _index_in(listed: Int64, tokens: Integers) -> Int64:
    """The index of each token in an ascending list; the length of the list if it lacks the token."""
    rows = np.minimum(np.searchsorted(listed, tokens), len(listed) - 1)
    return np.where(listed[rows] == tokens, rows, len(listed))


@dataclass(frozen=True, eq=False)
class Ceiling:
    """What fixed scores of query, token and lag explain of each head.

    Attributes
    ----------
    pairs : Estimates
        The explained share on held-out documents: a bound from below.
    ranks : int64 array, shape (n_heads,)
        The rank of the table; 0 if a table does not help.
    """

    pairs: Estimates
    ranks: Int64


def find_ceiling(fitted: Rows, scored: Rows, own_scores: OwnScores | None = None) -> Ceiling:
    """For every head, fit the best fixed scores of query, token and lag that the search finds."""
    rungs: list[Any] = [Position(), Duplicate(), KeyToken()]
    window = fitted.window
    if own_scores is not None:
        scores = {id(rows): own_scores.score(rows) for rows in (fitted, scored)}
        rungs[2:2] = [_Scores("own scores", scores, first=False), _Scores("own sink", scores, first=True)]
    sets = Features.of(rungs, fitted, scored)
    every, tokens = (np.unique(np.concatenate([fitted.past[:, :n], scored.past[:, :n]])) for n in (1, window))
    pairs = [
        RowPairs.of(
            np.searchsorted(every, features.rows.queries),
            len(every),
            np.concatenate(
                [features.tokens, _index_in(tokens.astype(np.int64), features.rows.starts)[:, None]], 1
            ),
            features.n_tokens,
        )
        for features in sets
    ]
    rng = make_rng(0)  # draws the documents on which ranks are compared, and the tables to start from
    documents = np.unique(fitted.documents)
    left_out = np.isin(fitted.documents, rng.permutation(documents)[: max(len(documents) // 4, 1)])
    unexplained, ranks = np.empty((1, len(scored), len(scored.heads))), np.zeros(len(scored.heads), np.int64)
    for index in range(len(scored.heads)):
        attends, features = fitted.attends[:, index], sets[0].attending(index)
        attention, spreads = features.rows.on_keys(index), features.spreads(index)
        designs = [rows.design(range(len(rungs)), index, spreads) for rows in (features, sets[1])]
        coefficients = fit_head(designs[0], attention) if len(attention) else np.zeros(designs[0].size)
        fixed, scores_held_out = (design.scores(coefficients) for design in designs)
        table = _choose_table(pairs[0].take(attends), fixed, attention, left_out[attends], rng)
        if table is not None:
            scores_held_out, ranks[index] = scores_held_out + pairs[1].scores(table), table.shape[1]
        unexplained[0, :, index] = divergence(scored.on_keys(index), log_softmax(scores_held_out, axis=-1))
    [share] = explain_rows(scored, unexplained)
    return Ceiling(share, ranks)


@dataclass(frozen=True, eq=False)
class _Scores:
    """Own scores as a rung: of the window and the first token, or what the first position adds to the last.

    Neither depends on a constant added to the scores of a row.
    """

    name: str
    of: dict[int, Float64]
    first: bool

    def scores(self, rows: Rows) -> Float64:
        """The scores of the same rows that they were computed for, shape (n_rows, n_heads, window + 1)."""
        scores = self.of[id(rows)]
        if not self.first:
            return scores[:, :, :-1]
        alone = np.zeros_like(scores[:, :, :-1])
        alone[:, :, -1] = scores[:, :, -1] - scores[:, :, -2]
        return alone


def _choose_table(
    pairs: "RowPairs", fixed: Float64, attention: Float64, left_out: Bool, rng: np.random.Generator
) -> Float64 | None:
    """The table fitted to all rows, of the rank that explains most of the documents left out; None for 0."""
    most, rank = None, 0
    if left_out.all() or not left_out.any():
        return None
    inner, outer = pairs.take(~left_out), pairs.take(left_out)
    uniform = np.full((1, fixed.shape[1]), -np.log(fixed.shape[1]))
    scale = max(divergence(attention[left_out], uniform).sum(), 1e-300)
    before = divergence(attention[left_out], log_softmax(fixed[left_out], axis=-1)).sum()
    for tried in RANKS:
        start = 0.1 * rng.normal(size=(pairs.n_queries + pairs.n_tokens, tried))
        table = inner.fit(fixed[~left_out], attention[~left_out], start)
        scores = fixed[left_out] + outer.scores(table)
        after = divergence(attention[left_out], log_softmax(scores, axis=-1)).sum()
        if before - after <= GAIN * scale:
            break
        most, rank, before = table, tried, after
    return None if most is None or not rank else pairs.fit(fixed, attention, most)


@dataclass(frozen=True, eq=False)
class RowPairs:
    """The queries (n_rows,) and tokens (n_rows, n_places + 1) of rows, and sums over those that are the same.

    The last place, the first token of a context, has two tokens: the number that all first tokens share, and
    its own. A table of rank r has shape (n_queries + n_tokens, r): factors of queries, then of tokens.
    """

    queries: Int64
    tokens: Int64
    by_query: Any
    by_token: Any

    @classmethod
    def of(cls, queries: Int64, n_queries: int, tokens: Int64, n_tokens: int) -> "RowPairs":
        n, n_places = len(tokens), tokens.shape[1] - 1
        position = np.r_[np.arange(n_places), n_places - 1]
        positions = np.arange(n)[:, None] * n_places + position
        by_token = _sums(tokens.ravel(), positions.ravel(), (n_tokens, n * n_places))
        return cls(queries, tokens, _sums(queries, np.arange(n), (n_queries, n)), by_token)

    @property
    def n_queries(self) -> int:
        """How many queries a table has factors for."""
        return self.by_query.shape[0]

    @property
    def n_tokens(self) -> int:
        """How many tokens a table has factors for."""
        return self.by_token.shape[0]

    @cached_property
    def of_token(self) -> Any:
        """Which tokens each place has, shape (n_rows · n_places, n_tokens)."""
        return self.by_token.T

    def take(self, chosen: Bool) -> "RowPairs":
        return RowPairs.of(self.queries[chosen], self.n_queries, self.tokens[chosen], self.n_tokens)

    def scores(self, table: Float64) -> Float64:
        """Σ_r u_r(query) v_r(token), shape (n_rows, n_places)."""
        of_queries, of_tokens = self._factors(table)
        return np.matmul(of_tokens, of_queries[:, :, None])[:, :, 0]

    def _factors(self, table: Float64) -> tuple[Float64, Float64]:
        """The factors of the query, shape (n_rows, r), and of every place, shape (n_rows, n_places, r)."""
        of_tokens = self.of_token @ table[self.n_queries :]
        return table[: self.n_queries][self.queries], of_tokens.reshape(len(self.queries), -1, table.shape[1])

    def loss(self, table: Float64, fixed: Float64, attention: Float64) -> tuple[float, Float64]:
        """Mean cross-entropy in nats plus the ridge, and its gradient."""
        of_queries, of_tokens = self._factors(table)
        scores = fixed + np.matmul(of_tokens, of_queries[:, :, None])[:, :, 0]
        logs: Float64 = log_softmax(scores, axis=-1)
        beyond = (np.exp(logs) - attention) / len(attention)
        slopes = np.concatenate(
            [
                self.by_query @ np.matmul(beyond[:, None], of_tokens)[:, 0],
                self.by_token @ (beyond[:, :, None] * of_queries[:, None]).reshape(-1, table.shape[1]),
            ]
        )
        value = -np.vdot(attention, logs) / len(attention) + 0.5 * RIDGE * np.vdot(table, table)
        return float(value), slopes + RIDGE * table

    def fit(self, fixed: Float64, attention: Float64, start: Float64) -> Float64:
        """The table that explains attention best beside fixed scores, from a start, by L-BFGS."""

        def value(flat: Float64) -> tuple[float, Float64]:
            loss, slopes = self.loss(flat.reshape(start.shape), fixed, attention)
            return loss, slopes.ravel()

        options: Any = {"maxiter": MOST_TABLE_STEPS, "maxcor": 8}
        find: Any = minimize
        result = find(value, start.ravel(), jac=True, method="L-BFGS-B", options=options)
        return result.x.reshape(start.shape)


def _sums(groups: Int64, entries: Int64, shape: tuple[int, int]) -> Any:
    """The matrix that sums entries by group, shape (n_groups, n_entries)."""
    return sparse.csr_matrix((np.ones(len(groups)), (groups, entries)), shape=shape)
