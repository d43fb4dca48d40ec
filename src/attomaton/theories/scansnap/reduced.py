"""A corpus on the tokens, labels and queries that it uses, for the flow and the model.

Only rows of tokens that precede a query ever move, and the columns of all tokens that are never a label stay
equal to each other; so neither has to be stored for the whole vocabulary.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.ragged import run_starts
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.graphs.grouping import distinct_keys, find_keys
from attomaton.theories.scansnap.classes import CorpusClasses


@dataclass(frozen=True, eq=False)
class Reduced:
    """The numbers of a corpus that the flow needs, on the tokens and labels in use.

    Attributes
    ----------
    classes : CorpusClasses
        The corpus.
    """

    classes: CorpusClasses

    @cached_property
    def used(self) -> Int64:
        """Tokens that precede a query."""
        return distinct_keys(self.classes.tokens.astype(np.int64))

    @cached_property
    def tokens(self) -> Int64:
        """Tokens that precede a query or are a label."""
        return distinct_keys(np.concatenate([self.used, self.labels]))

    @cached_property
    def labels(self) -> Int64:
        """Tokens that are a label."""
        return distinct_keys(self.classes.labels.astype(np.int64))

    @cached_property
    def queries(self) -> Int64:
        """Tokens that are a query."""
        return distinct_keys(self.classes.queries.astype(np.int64))

    @cached_property
    def law(self) -> Float64:
        """P(l | n) on the used tokens, shape (n_classes, n_used)."""
        table = np.zeros((len(self.classes), len(self.used)))
        table[self.classes.rows, find_keys(self.used, self.classes.tokens.astype(np.int64))] = (
            self.classes.probabilities
        )
        return table

    @cached_property
    def padded(self) -> tuple[Int64, Float64]:
        """Positions and probabilities of each class's tokens, both as wide as the widest class.

        Rows are padded with tokens that the class lacks, at probability 0.
        """
        width = int(np.diff(self.classes.offsets).max())
        order = np.argsort(-self.law, axis=1, kind="stable")[:, :width]
        law = np.take_along_axis(self.law, order, axis=1)
        return order, law / law.sum(axis=1, keepdims=True)

    @cached_property
    def query_of(self) -> Int64:
        """Position of each class's query among the queries."""
        return find_keys(self.queries, self.classes.queries.astype(np.int64))

    @cached_property
    def label_of(self) -> Int64:
        """Position of each class's label among the labels."""
        return find_keys(self.labels, self.classes.labels.astype(np.int64))

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shapes of Y and Z here."""
        return (len(self.used), len(self.labels) + 1), (len(self.queries), len(self.used))

    def attention(self, scores: Float64) -> Float64:
        """c_n ∝ P(l | n) e^z for scores of shape (..., n_queries, n_used); shape (..., n_classes, n_used)."""
        raised = self.law * np.exp(scores - scores.max(axis=-1, keepdims=True))[..., self.query_of, :]
        return raised / raised.sum(axis=-1, keepdims=True)

    def sum_by_query(self, rows: Float64) -> Float64:
        """Sums over the classes of each query, of rows (n_classes, n); shape (n_queries, n)."""
        order = np.argsort(self.query_of, kind="stable")
        return np.add.reduceat(rows[order], run_starts(self.query_of[order]), axis=0)

    def distinct_entropy(self, attention: Float64) -> Float64:
        """Entropy of c_n on the distinct tokens of n, in nats, mean over the classes that have any.

        ``attention`` has the shape (..., n_classes, n_used).
        """
        has_distinct = self.is_own.any(axis=1)
        distinct = attention[..., has_distinct, :] * self.is_own[has_distinct]
        shares = distinct / distinct.sum(axis=-1, keepdims=True)
        logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
        return -(shares * logs).sum(axis=-1).mean(axis=-1)

    @cached_property
    def is_own(self) -> Bool:
        """Whether each used token is a distinct token of each class, shape (n_classes, n_used)."""
        return (self.law > 0) & ((self.law > 0).sum(axis=0) == 1)
