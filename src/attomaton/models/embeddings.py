"""Embedding tables to train with, drawn from a random generator."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from attomaton.errors import InvalidEmbeddings
from attomaton.solutions import check_embeddings
from attomaton.tables import Float64


class Embeddings(Protocol):
    """What draws a table."""

    def draw(self, n_tokens: int, rng: np.random.Generator) -> Float64:
        """A table, shape (n_tokens, dim)."""
        ...


@dataclass(frozen=True)
class Orthonormal:
    """The first ``n_tokens`` rows of the identity; ``dim`` is ``n_tokens`` if None."""

    dim: int | None = None

    def draw(self, n_tokens: int, rng: np.random.Generator) -> Float64:  # noqa: ARG002  the same for every draw
        """A table, shape (n_tokens, dim)."""
        dim = n_tokens if self.dim is None else self.dim
        if dim < n_tokens:
            raise InvalidEmbeddings(
                f"{n_tokens} orthonormal rows do not fit into {dim} dimensions; give more, or RandomUnit"
            )
        return np.eye(n_tokens, dim)


@dataclass(frozen=True)
class RandomUnit:
    """Rows drawn uniformly from the unit sphere."""

    dim: int

    def draw(self, n_tokens: int, rng: np.random.Generator) -> Float64:
        """A table, shape (n_tokens, dim)."""
        table = rng.normal(size=(n_tokens, self.dim))
        return table / np.linalg.norm(table, axis=1, keepdims=True)


@dataclass(frozen=True)
class Equicorrelated:
    """Unit rows with the same inner product, turned at random."""

    dim: int
    correlation: float

    def draw(self, n_tokens: int, rng: np.random.Generator) -> Float64:
        """A table, shape (n_tokens, dim)."""
        if self.dim < n_tokens or not -1.0 / max(n_tokens - 1, 1) < self.correlation < 1.0:
            raise InvalidEmbeddings(
                f"{n_tokens} unit rows with inner products of {self.correlation} do not fit into {self.dim} "
                f"dimensions; give at least {n_tokens} and a correlation above −1/(n_tokens − 1) and below 1"
            )
        gram = np.full((n_tokens, n_tokens), self.correlation) + (1.0 - self.correlation) * np.eye(n_tokens)
        turn, _ = np.linalg.qr(rng.normal(size=(self.dim, n_tokens)))
        return np.asarray(np.linalg.cholesky(gram) @ turn.T, np.float64)


@dataclass(frozen=True, eq=False)
class Given:
    """A table of your own, shape (n_tokens, dim)."""

    table: Float64

    def draw(self, n_tokens: int, rng: np.random.Generator) -> Float64:  # noqa: ARG002  the same for every draw
        """The table itself."""
        return check_embeddings(self.table, n_tokens)
