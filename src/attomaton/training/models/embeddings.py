"""Embedding tables for training, drawn from a random generator."""

from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np

from attomaton.base.errors import InvalidEmbeddings
from attomaton.base.options import Checked, checked, real_number, show, whole_number
from attomaton.base.solutions import check_embeddings
from attomaton.base.tables import Float64


class Embeddings(Protocol):
    """Draws the embedding table of a trial."""

    def draw(self, n_tokens: int, rng: np.random.Generator) -> Float64:
        """A table, shape (n_tokens, dim)."""
        ...


@dataclass(frozen=True)
class Orthonormal(Checked):
    """Use the first ``n_tokens`` rows of the identity; ``dim`` None means ``n_tokens`` dimensions.

    Examples
    --------
    >>> Orthonormal().draw(3, np.random.default_rng(0)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    dim: int | None = field(default=None, metadata=checked(whole_number, least=1))

    def draw(self, n_tokens: int, rng: np.random.Generator) -> Float64:  # noqa: ARG002  the same for every draw
        """A table, shape (n_tokens, dim)."""
        dim = n_tokens if self.dim is None else self.dim
        if dim < n_tokens:
            raise InvalidEmbeddings(
                f"{n_tokens} orthonormal rows do not fit into {dim} dimensions; give dim={n_tokens} or more, "
                "or RandomUnit(dim)"
            )
        return np.eye(n_tokens, dim)


@dataclass(frozen=True)
class RandomUnit(Checked):
    """Draw each row uniformly from the unit sphere in ``dim`` dimensions.

    If ``dim`` < ``n_tokens``, the rows are linearly dependent.

    Examples
    --------
    >>> table = RandomUnit(8).draw(1000, np.random.default_rng(0))
    >>> table.shape, np.linalg.norm(table, axis=1).round(6).min().item()
    ((1000, 8), 1.0)
    """

    dim: int = field(metadata=checked(whole_number, least=1))

    def draw(self, n_tokens: int, rng: np.random.Generator) -> Float64:
        """A table, shape (n_tokens, dim)."""
        table = rng.normal(size=(n_tokens, self.dim))
        return table / np.linalg.norm(table, axis=1, keepdims=True)


@dataclass(frozen=True)
class Equicorrelated(Checked):
    """Draw unit rows of length ``dim`` ≥ n_tokens, any two with the inner product ``correlation``.

    Examples
    --------
    >>> table = Equicorrelated(4, correlation=0.5).draw(3, np.random.default_rng(0))
    >>> (table @ table.T).round(6).tolist()
    [[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]]
    """

    dim: int = field(metadata=checked(whole_number, least=1))
    correlation: float = field(metadata=checked(real_number, above=-1, below=1))

    def draw(self, n_tokens: int, rng: np.random.Generator) -> Float64:
        """A table, shape (n_tokens, dim)."""
        if self.dim < n_tokens or not -1.0 / max(n_tokens - 1, 1) < self.correlation < 1.0:
            raise InvalidEmbeddings(
                f"{n_tokens} unit rows with inner products of {self.correlation} do not fit into {self.dim} "
                f"dimensions; give dim ≥ {n_tokens} and a correlation above −1/(n_tokens − 1) and below 1"
            )
        gram = np.full((n_tokens, n_tokens), self.correlation) + (1.0 - self.correlation) * np.eye(n_tokens)
        frame, _ = np.linalg.qr(rng.normal(size=(self.dim, n_tokens)))
        return np.asarray(np.linalg.cholesky(gram) @ frame.T, np.float64)


def as_embeddings(value: object) -> Embeddings:
    """The value itself if it draws tables, a table of numbers as such an object, or ``Orthonormal()``."""
    if value is None or (isinstance(value, str) and value.lower() == "orthonormal"):
        return Orthonormal()
    if not isinstance(value, type) and callable(getattr(value, "draw", None)):
        return cast("Embeddings", value)
    source: Any = value
    table: Any = source.detach().cpu().numpy() if hasattr(source, "detach") else source
    if not isinstance(value, str | type) and np.ndim(table) == 2:
        return EmbeddingTable(check_embeddings(table, len(table)))
    shown = f"of shape {np.shape(table)}" if np.ndim(table) else show(value)
    raise InvalidEmbeddings(
        f"embeddings is {shown}; give a table with one row per token, 'orthonormal', RandomUnit(8), or "
        "another object with the method draw"
    )


@dataclass(frozen=True, eq=False)
class EmbeddingTable:
    """Use a table of your own, shape (n_tokens, dim), in every trial.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> EmbeddingTable(np.array([[1.0, 0.0], [0.6, 0.8]])).draw(2, rng).tolist()
    [[1.0, 0.0], [0.6, 0.8]]
    """

    table: Float64

    def draw(self, n_tokens: int, rng: np.random.Generator) -> Float64:  # noqa: ARG002  the same for every draw
        """The table itself."""
        return check_embeddings(self.table, n_tokens)


EMBEDDINGS = (Orthonormal, RandomUnit, Equicorrelated, EmbeddingTable)  # those that a stored run can name
