"""Reduce a corpus to the tokens, labels and queries in use, for the flow and the trained model."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.ragged import run_starts
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.graphs.grouping import distinct_keys, find_keys
from attomaton.theories.scansnap.classes import CorpusClasses


# A key is a token that precedes a query. The rows and columns of all tables count keys, labels, queries and
# classes from 0; `keys`, `labels` and `queries` have the token ids of these rows and columns.
@dataclass(frozen=True, eq=False)
class ReducedCorpus:
    """The tables of a corpus that the flow needs, on the tokens, labels and queries in use."""

    classes: CorpusClasses

    @cached_property
    def keys(self) -> Int64:
        """The ids of the tokens that precede a query, ascending, shape (n_keys,)."""
        return distinct_keys(self.classes.tokens.astype(np.int64))

    @cached_property
    def tokens(self) -> Int64:
        """The ids of keys and labels together, ascending."""
        return distinct_keys(np.concatenate([self.keys, self.labels]))

    @cached_property
    def labels(self) -> Int64:
        return distinct_keys(self.classes.labels.astype(np.int64))

    @cached_property
    def queries(self) -> Int64:
        return distinct_keys(self.classes.queries.astype(np.int64))

    @cached_property
    def probabilities(self) -> Float64:
        """P(l | n) on the keys, shape (n_classes, n_keys)."""
        table = np.zeros((len(self.classes), len(self.keys)))
        columns = find_keys(self.keys, self.classes.tokens.astype(np.int64))
        table[self.classes.rows, columns] = self.classes.probabilities
        return table

    @cached_property
    def padded_law(self) -> tuple[Int64, Float64]:
        """The keys of each class and P(l | n), shape (n_classes, width), padded with 0 to equal width."""
        width = int(np.diff(self.classes.offsets).max())
        # the most probable keys first, so that the first `width` columns have all keys of each class
        positions = np.argsort(-self.probabilities, axis=1, kind="stable")[:, :width]
        law = np.take_along_axis(self.probabilities, positions, axis=1)
        return positions, law / law.sum(axis=1, keepdims=True)

    @cached_property
    def query_index(self) -> Int64:
        """The row in ``queries`` of the query of each class, shape (n_classes,)."""
        return find_keys(self.queries, self.classes.queries.astype(np.int64))

    @cached_property
    def label_index(self) -> Int64:
        """The row in ``labels`` of the label of each class, shape (n_classes,)."""
        return find_keys(self.labels, self.classes.labels.astype(np.int64))

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shapes of Y (keys × labels, and a last column for all other tokens) and Z (queries × keys)."""
        return (len(self.keys), len(self.labels) + 1), (len(self.queries), len(self.keys))

    def attention(self, scores: Float64) -> Float64:
        """c_n ∝ P(l | n) e^z for scores of shape (..., n_queries, n_keys); shape (..., n_classes, n_keys)."""
        odds = np.exp(scores - scores.max(axis=-1, keepdims=True))  # at most 1
        masses = self.probabilities * odds[..., self.query_index, :]
        return masses / masses.sum(axis=-1, keepdims=True)

    def sum_by_query(self, rows: Float64) -> Float64:
        """Sum rows, shape (n_classes, n), over the classes of each query; shape (n_queries, n)."""
        order = np.argsort(self.query_index, kind="stable")  # classes of one query become neighbours
        return np.add.reduceat(rows[order], run_starts(self.query_index[order]), axis=0)

    @cached_property
    def is_distinct(self) -> Bool:
        """Whether each key is a distinct token of each class, shape (n_classes, n_keys)."""
        return (self.probabilities > 0) & ((self.probabilities > 0).sum(axis=0) == 1)

    def distinct_entropy(self, attention: Float64) -> Float64:
        """Entropy of attention on distinct tokens in nats, averaged over the classes that have any."""
        has_distinct = self.is_distinct.any(axis=1)
        distinct = attention[..., has_distinct, :] * self.is_distinct[has_distinct]
        shares = distinct / distinct.sum(axis=-1, keepdims=True)
        logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
        return -(shares * logs).sum(axis=-1).mean(axis=-1)
