"""The ceiling: how much of a head's attention any fixed score of query, token and lag could explain.

Three kinds of scores are fitted together: an offset per lag and an effect per token, as in the ladder; the
head's own scores of the mean input of each token, if weights are there; and a pair table of low rank, Σ_r
u_r(query) v_r(token), whose rank is chosen on documents left out of its fit. The explained share is a lower
estimate of the ceiling. Attention above the ceiling is contextual: it depends on more than the two tokens and
their distance. :func:`find_ceiling` fits the first two kinds, then the pair table on top of them.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax

from attomaton.base.options import make_rng
from attomaton.base.tables import Bool, Float64, Int64, Integers
from attomaton.heads.audit.explanations import Duplicate, KeyToken, LadderRung, Position
from attomaton.heads.audit.features import Features
from attomaton.heads.audit.fitting import divergence, fit_head
from attomaton.heads.audit.jackknife import Estimates
from attomaton.heads.audit.ladder import explain_rows
from attomaton.heads.audit.recording import MeanReads
from attomaton.heads.audit.rows import Rows
from attomaton.heads.model import LayeredModel

RANKS = (1, 2, 4, 8, 16)  # ranks of the pair table that are tried in turn, until one adds less than ``GAIN``

RIDGE = 1e-3  # half of it times the squares of the table's factors is added to the loss, in nats per row

MOST_TABLE_STEPS = 60  # iterations of L-BFGS per table


GAIN = 3e-3  # the share of attention, on documents left out of the fit, that a larger rank must add


@dataclass(frozen=True, eq=False)
class OwnScores:
    """Scores that heads give to mean inputs of tokens; a token without mean input gets the mean of all."""

    model: LayeredModel = field(repr=False)
    reads: MeanReads = field(repr=False)

    def score(self, rows: Rows) -> Float64:
        """Score ``rows``, shape (n_rows, n_heads, window + 2): the window, then the first token in two ways.

        These are the score that this token has elsewhere, and the mean score of the first position.
        """
        n = len(rows)
        window = rows.window
        reads = self.reads
        # Which row of ``inputs`` each key reads: a token, the mean of all tokens, or the first position.
        tokens = _find_indices(reads.tokens, np.concatenate([rows.tokens, rows.starts[:, None]], 1))
        first_position = np.full((n, 1), len(reads.tokens) + 1)
        keys = np.concatenate([tokens, first_position], 1)
        window_lags = np.broadcast_to(np.arange(window), (n, window))
        lags = np.concatenate([window_lags, np.repeat(rows.positions[:, None], 2, 1)], 1).astype(np.int64)
        texts = rows.documents.astype(np.int64)
        scores = np.empty((n, len(rows.heads), window + 2))
        for layer in sorted({head.layer for head in rows.heads}):
            means = reads.means[reads.layers.index(layer)]
            first = reads.first[reads.layers.index(layer)]
            average = reads.counts @ means / reads.counts.sum()
            inputs = np.concatenate([means, average[None], first[None]])
            of_layer = self.model.score_inputs(layer, inputs.astype(np.float32), keys, lags, texts)
            for index, head in enumerate(rows.heads):
                if head.layer == layer:
                    scores[:, index] = of_layer[:, head.number]
        return scores


@dataclass(frozen=True, eq=False)
class Ceiling:
    """The share of attention that fixed scores of query, token and lag explain on held-out documents.

    ``pairs`` are lower estimates; ``ranks`` (n_heads,) are those of the pair tables, 0 where no table helps.
    """

    pairs: Estimates
    ranks: Int64


def find_ceiling(fitted: Rows, scored: Rows, own_scores: OwnScores | None = None) -> Ceiling:
    """Fit the scores of every head on some rows, and measure how much they explain on others."""
    rungs: list[LadderRung] = [Position(), Duplicate(), KeyToken()]
    if own_scores is not None:
        scores_of = {id(rows): own_scores.score(rows) for rows in (fitted, scored)}
        rungs = [Position(), Duplicate(), _WindowScores(scores_of), _SinkScores(scores_of), KeyToken()]
    features_fitted, features_scored = Features.of(rungs, fitted, scored)
    pairs_fitted, pairs_scored = _number_pairs(features_fitted, features_scored)
    rng = make_rng(0)  # draws the documents on which ranks are compared, and the tables to start from
    documents = np.unique(fitted.documents)
    left_out = np.isin(fitted.documents, rng.permutation(documents)[: max(len(documents) // 4, 1)])
    unexplained = np.empty((1, len(scored), len(scored.heads)))
    ranks = np.zeros(len(scored.heads), np.int64)
    for index in range(len(scored.heads)):
        # Without the rows in which the head attends to no key.
        attends = fitted.attends[:, index]
        features = features_fitted.attending(index)
        attention = features.rows.on_keys(index)
        # The rungs alone.
        spreads = features.spreads(index)
        design = features.design(range(len(rungs)), index, spreads)
        coefficients = fit_head(design, attention) if len(attention) else np.zeros(design.size)
        scores = features_scored.design(range(len(rungs)), index, spreads).scores(coefficients)
        # A pair table on top of them.
        fixed = design.scores(coefficients)
        table = _choose_table(pairs_fitted.take(attends), fixed, attention, left_out[attends], rng)
        if table is not None:
            scores = scores + pairs_scored.scores(table)
            ranks[index] = table.shape[1]
        unexplained[0, :, index] = divergence(scored.on_keys(index), log_softmax(scores, axis=-1))
    [share] = explain_rows(scored, unexplained)
    return Ceiling(share, ranks)


@dataclass(frozen=True, eq=False)
class _WindowScores:
    """Own scores of the window as a rung; ``scores_of`` has :meth:`OwnScores.score` by ``id`` of rows."""

    scores_of: dict[int, Float64]
    name: str = "own scores"

    def scores(self, rows: Rows) -> Float64:
        return self.scores_of[id(rows)][:, :, :-1]


@dataclass(frozen=True, eq=False)
class _SinkScores:
    """As a rung, what the first position adds to the own score of its token."""

    scores_of: dict[int, Float64]
    name: str = "own sink"

    def scores(self, rows: Rows) -> Float64:
        scores = self.scores_of[id(rows)]
        sink = np.zeros_like(scores[:, :, :-1])
        sink[:, :, -1] = scores[:, :, -1] - scores[:, :, -2]
        return sink


# The queries and tokens of several sets of rows, by numbers that are the same in all sets.
def _number_pairs(*sets: Features) -> "list[RowPairs]":
    queries = np.unique(np.concatenate([features.rows.queries for features in sets]))
    tokens = np.unique(np.concatenate([features.rows.tokens.ravel() for features in sets])).astype(np.int64)
    pairs = list[RowPairs]()
    for features in sets:
        starts = _find_indices(tokens, features.rows.starts)[:, None]
        query_numbers = np.searchsorted(queries, features.rows.queries)
        token_numbers = np.concatenate([features.tokens, starts], 1)
        pairs.append(RowPairs.of(query_numbers, len(queries), token_numbers, features.n_tokens))
    return pairs


# The index of each token in an ascending list; the length of the list if it lacks the token.
def _find_indices(ascending: Int64, tokens: Integers) -> Int64:
    indices = np.minimum(np.searchsorted(ascending, tokens), len(ascending) - 1)
    return np.where(ascending[indices] == tokens, indices, len(ascending))


# The pair table of the best rank beside fixed ``scores``, by ``left_out`` rows; None if none helps.
def _choose_table(
    pairs: "RowPairs", scores: Float64, attention: Float64, left_out: Bool, rng: np.random.Generator
) -> Float64 | None:
    if left_out.all() or not left_out.any():
        return None
    fitted_on = pairs.take(~left_out)
    held_out = pairs.take(left_out)
    attention_held_out = attention[left_out]
    uniform = np.full((1, scores.shape[1]), -np.log(scores.shape[1]))
    explainable = max(divergence(attention_held_out, uniform).sum(), 1e-300)  # not 0
    unexplained = divergence(attention_held_out, log_softmax(scores[left_out], axis=-1)).sum()
    best = None
    for rank in RANKS:
        # Small, but not 0, which is a saddle.
        start = 0.1 * rng.normal(size=(pairs.n_queries + pairs.n_tokens, rank))
        table = fitted_on.fit(scores[~left_out], attention[~left_out], start)
        logs = log_softmax(scores[left_out] + held_out.scores(table), axis=-1)
        remaining = divergence(attention_held_out, logs).sum()
        if unexplained - remaining <= GAIN * explainable:
            break
        best, unexplained = table, remaining
    return None if best is None else pairs.fit(scores, attention, best)


@dataclass(frozen=True, eq=False)
class RowPairs:
    """The queries and tokens of rows, by number, for the scores Σ_r u_r(query) v_r(token) of a pair table.

    A pair table of rank r has shape (n_queries + n_tokens, r): factors u of queries, then v of tokens.
    """

    queries: Int64  # (n_rows,)
    # (n_rows, n_keys + 1): the last key, which is the first position, has two tokens whose factors are added,
    # the number that all first tokens share and that of its own token.
    tokens: Int64
    by_query: Any  # a sparse matrix (n_queries, n_rows), which sums over the rows of a query
    by_token: Any  # a sparse matrix (n_tokens, n_rows · n_keys), which sums over the keys with a token

    @classmethod
    def of(cls, queries: Int64, n_queries: int, tokens: Int64, n_tokens: int) -> "RowPairs":
        n = len(tokens)
        n_keys = tokens.shape[1] - 1
        key_of_token = np.r_[np.arange(n_keys), n_keys - 1]
        keys = np.arange(n)[:, None] * n_keys + key_of_token  # among the keys of all rows
        by_query = _sum_matrix(queries, np.arange(n), (n_queries, n))
        by_token = _sum_matrix(tokens.ravel(), keys.ravel(), (n_tokens, n * n_keys))
        return cls(queries, tokens, by_query, by_token)

    @property
    def n_queries(self) -> int:
        return self.by_query.shape[0]

    @property
    def n_tokens(self) -> int:
        return self.by_token.shape[0]

    def take(self, rows: Bool) -> "RowPairs":
        """Some of the rows; numbers stay."""
        return RowPairs.of(self.queries[rows], self.n_queries, self.tokens[rows], self.n_tokens)

    def scores(self, table: Float64) -> Float64:
        """Σ_r u_r(query) v_r(token), shape (n_rows, n_keys)."""
        of_queries, of_tokens = self._factors(table)
        return np.matmul(of_tokens, of_queries[:, :, None])[:, :, 0]

    # The factors u of the queries, shape (n_rows, r), and v of all keys, shape (n_rows, n_keys, r).
    def _factors(self, table: Float64) -> tuple[Float64, Float64]:
        of_tokens = self.by_token.T @ table[self.n_queries :]  # adds the factors of the tokens of each key
        return table[: self.n_queries][self.queries], of_tokens.reshape(len(self.queries), -1, table.shape[1])

    def loss(self, table: Float64, fixed: Float64, attention: Float64) -> tuple[float, Float64]:
        """The loss of softmax(``fixed`` + scores of the table), and its gradient by the table."""
        n = len(attention)
        of_queries, of_tokens = self._factors(table)
        scores = fixed + np.matmul(of_tokens, of_queries[:, :, None])[:, :, 0]
        logs: Float64 = log_softmax(scores, axis=-1)
        slopes = (np.exp(logs) - attention) / n  # of the loss by the scores, shape (n_rows, n_keys)
        by_factors_of_queries = np.matmul(slopes[:, None], of_tokens)[:, 0]
        by_factors_of_keys = (slopes[:, :, None] * of_queries[:, None]).reshape(-1, table.shape[1])
        gradient = np.concatenate([self.by_query @ by_factors_of_queries, self.by_token @ by_factors_of_keys])
        loss = -np.vdot(attention, logs) / n + 0.5 * RIDGE * np.vdot(table, table)
        return float(loss), gradient + RIDGE * table

    def fit(self, fixed: Float64, attention: Float64, start: Float64) -> Float64:
        """The table that explains attention best beside fixed scores, from a start, by L-BFGS."""

        def evaluate(flat: Float64) -> tuple[float, Float64]:
            loss, gradient = self.loss(flat.reshape(start.shape), fixed, attention)
            return loss, gradient.ravel()

        # The curvature is estimated from the last 8 iterations.
        options: Any = {"maxiter": MOST_TABLE_STEPS, "maxcor": 8}
        result: Any = minimize(evaluate, start.ravel(), jac=True, method="L-BFGS-B", options=options)
        return result.x.reshape(start.shape)


# The matrix that sums entries by group, shape (n_groups, n_entries).
def _sum_matrix(groups: Int64, entries: Int64, shape: tuple[int, int]) -> Any:
    return sparse.csr_matrix((np.ones(len(groups)), (groups, entries)), shape=shape)
