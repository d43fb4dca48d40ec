"""Weights as a function of the step, and the curves derived from them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csc_array

from attomaton.base.errors import MismatchedParts
from attomaton.base.frames import Tabular
from attomaton.base.options import real_number
from attomaton.base.tables import Float64, column, make_table
from attomaton.trajectory.loss import TrainingLoss

CURVES = ("step", "norm", "correlation", "loss", "error")
PATH_SCHEMA = pa.schema([(name, pa.float64()) for name in CURVES])


class WeightPath(Tabular, ABC):
    """The weights W(t) at every step t of plain gradient descent, with curves derived from them."""

    loss: TrainingLoss

    @abstractmethod
    def weights_at(self, step: float) -> Float64 | csc_array:
        """W(t), shape (dim, dim); with orthonormal embeddings the scores, sparse, key tokens × queries."""

    @abstractmethod
    def scores_at(self, step: float) -> pa.Table:
        """The table (query, token, score) of all pairs that training sees."""

    @abstractmethod
    def error_at(self, step: float) -> float:
        """Estimated ‖error‖ of W(t), Frobenius norm."""

    def loss_at(self, step: float) -> float:
        """The training loss at W(t), the mean over samples."""
        return self.loss.at(column(self.scores_at(step), "score"))

    def curves(self, steps: Sequence[float], direction: Float64 | csc_array) -> pa.Table:
        """Norm, correlation with a direction (such as ``hard.weights``), loss and expected error by step.

        Returns a table with the columns step, norm, correlation, loss and error, all float64.
        """
        rows = [self._measure(real_number(step, "step"), direction) for step in steps]
        columns = np.array(rows).reshape(-1, len(CURVES)).T
        return make_table(PATH_SCHEMA, dict(zip(CURVES, columns, strict=True)))

    def _measure(self, step: float, direction: Float64 | csc_array) -> tuple[float, ...]:
        weights = self.weights_at(step)
        if weights.shape != direction.shape:
            raise MismatchedParts(
                f"the direction has shape {direction.shape}, but the weights have shape {weights.shape}; "
                "give hard.weights, solved with the same embeddings"
            )
        norm, length = inner(weights, weights) ** 0.5, inner(direction, direction) ** 0.5
        correlation = inner(weights, direction) / (norm * length) if norm * length > 0 else 0.0
        return step, norm, correlation, self.loss_at(step), self.error_at(step)


def inner(left: Float64 | csc_array, right: Float64 | csc_array) -> float:
    """⟨A, B⟩ = Σ A_ij B_ij of two arrays, both dense or both sparse."""
    product: Any = left.multiply(right) if isinstance(left, csc_array) else left * right
    return float(product.sum())
