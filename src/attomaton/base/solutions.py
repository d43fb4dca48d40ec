"""The solution of a solver: scores by query and token, with a certificate of their accuracy."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa

from attomaton.base.borders import MEND, check_floats, check_table
from attomaton.base.errors import InvalidEmbeddings, MismatchedParts, UncertifiedSolution
from attomaton.base.frames import Tabular, first_rows
from attomaton.base.options import settle
from attomaton.base.printing import Block, Signal
from attomaton.base.ragged import group_borders
from attomaton.base.tables import Float64, column, make_table

if TYPE_CHECKING:
    from scipy.sparse import csc_array

SCORE_SCHEMA = pa.schema([("query", pa.int32()), ("token", pa.int32()), ("score", pa.float64())])


class Status(Enum):
    """The outcome of a solver; the value of a member states it in words.

    Examples
    --------
    >>> Status.CERTIFIED.value
    'the certificate proves the answer to within its tolerance'
    """

    CERTIFIED = "the certificate proves the answer to within its tolerance"
    UNCERTIFIED = "the solver stopped before its answer could be certified"


class Certificate(Protocol):
    """A proof of accuracy that attomaton derives from the scores, not from what a solver claims."""

    @property
    def certified(self) -> bool:
        """Whether the proof reaches its tolerance."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Tabular):
    """Scores under every query, with their certificate.

    ``scores`` has one row for each (query, token) of the components, sorted. ``weights`` is the matrix W,
    shape (dim, dim), with scores E W Eᵀ for embeddings E. Without embeddings, E is the identity, and W is the
    sparse score matrix, shape (n_tokens, n_tokens): rows are key tokens, columns are queries. ``certificate``
    proves how accurate the scores are.
    """

    scores: pa.Table
    weights: "Float64 | csc_array"
    certificate: Certificate

    # Sparse weights are built when they are first used: `trusted` makes solutions without this field, and
    # Python calls this method only for an attribute that is missing.
    def __getattr__(self, name: str) -> Any:
        if name != "weights" or "components" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        settle(self, weights=sparse_weights(self.scores, self.components.edges.n_tokens))
        return self.weights

    def __repr__(self) -> str:
        status = self.status.name.lower()
        return f"{type(self).__name__}({self.scores.num_rows:,} scores, {status}: {self.certificate})"

    def _table(self) -> pa.Table:
        return self.scores

    def _blocks(self) -> list[Block]:
        return [Signal(repr(self), self.status is Status.CERTIFIED), *first_rows(self.scores)]

    @property
    def embedded(self) -> bool:
        """Whether the problem had embeddings, so that weights have the shape (dim, dim)."""
        return isinstance(self.__dict__.get("weights"), np.ndarray)

    @property
    def status(self) -> Status:
        return Status.CERTIFIED if self.certificate.certified else Status.UNCERTIFIED

    def expect(self) -> Self:
        """Return the solution itself if it is certified; raise ``UncertifiedSolution`` if not."""
        if self.status is Status.CERTIFIED:
            return self
        raise UncertifiedSolution(
            f"{self.status.value} ({self.certificate}); increase rtol or atol, or allow more steps"
        )


def check_scores(scores: pa.Table, nodes: pa.Table, name: str) -> None:
    """Check that scores are finite, with a row for each (query, token) of ``nodes``, in this order."""
    check_table(scores, SCORE_SCHEMA, name)
    if not scores.select(["query", "token"]).equals(nodes.select(["query", "token"])):
        raise MismatchedParts(f"{name} must have one row for each query and token of the components; {MEND}")
    check_floats(column(scores, "score"), (None,), name)


def check_weights(weights: object, n_tokens: int, name: str) -> None:
    """Check that weights are a square array of finite numbers, or a valid sparse one by tokens."""
    from scipy.sparse import csc_array  # takes long to import, so only when needed

    if not isinstance(weights, csc_array):
        n_rows = len(check_floats(weights, (None, None), name))
        check_floats(weights, (n_rows, n_rows), name)
        return
    try:
        weights.check_format(full_check=True)
    except ValueError as error:
        raise MismatchedParts(f"{name} is not a valid sparse array ({error}); {MEND}") from error
    if weights.shape != (n_tokens, n_tokens):
        raise MismatchedParts(f"{name} has shape {weights.shape}, not {(n_tokens, n_tokens)}; {MEND}")


def score_table(nodes: pa.Table, scores: Float64) -> pa.Table:
    """The score of each node, a pair of query and token, as a table of :data:`SCORE_SCHEMA`."""
    columns = {"query": column(nodes, "query"), "token": column(nodes, "token"), "score": scores}
    return make_table(SCORE_SCHEMA, columns)


def sparse_weights(scores: pa.Table, n_tokens: int) -> "csc_array":
    """The scores as a sparse matrix: rows are key tokens, columns queries, shape (n_tokens, n_tokens)."""
    from scipy.sparse import csc_array  # takes long to import, so only when needed

    start = group_borders(column(scores, "query"), n_tokens)  # the table is sorted by query, then token
    return csc_array((column(scores, "score"), column(scores, "token"), start), shape=(n_tokens, n_tokens))


LARGEST_COORDINATE = 1e100  # of an embedding: products of three such numbers stay finite


def check_embeddings(embeddings: object, n_tokens: int) -> Float64:
    """The embeddings as floats, shape (n_tokens, dim), if they are finite."""
    try:
        table = np.asarray(embeddings, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidEmbeddings(f"embeddings are not numbers ({error}); give an array of floats") from error
    if table.ndim != 2 or len(table) != n_tokens:
        raise InvalidEmbeddings(
            f"embeddings have shape {table.shape}, not ({n_tokens}, dim); give one row for each token"
        )
    if not np.isfinite(table).all():
        token = int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0])
        raise InvalidEmbeddings(f"the embedding of token {token} is not finite; correct this row")
    largest = float(np.abs(table).max(initial=0.0))
    if largest and not 1 / LARGEST_COORDINATE < largest < LARGEST_COORDINATE:
        raise InvalidEmbeddings(f"the largest embedding entry is {largest:.1e}; scale embeddings to about 1")
    return table


def is_orthonormal(embeddings: Float64) -> bool:
    """Whether embeddings are the rows of the identity, so that each query can be solved alone."""
    n_tokens, dim = embeddings.shape
    # other orthonormal rows do not count: W would have other coordinates
    return n_tokens == dim and np.array_equal(embeddings, np.eye(dim))


def scale_rows(embeddings: Float64) -> tuple[Float64, float]:
    """The embeddings E divided by a scale c, and c; rows then have lengths of about 1, best for solvers.

    W for E is W for E/c divided by c²; scores do not change. c is a power of two, so no digit is lost.
    """
    # mean length = m √(mean over the rows e of Σ (e/m)²). The largest entry m keeps squares from overflow and
    # from vanishing. Without rows, or if all entries are zero, both factors are 1.
    largest = float(np.abs(embeddings).max(initial=0.0)) or 1.0
    squares: Float64 = np.sum((embeddings / largest) ** 2, axis=1)
    mean_length = largest * ((float(np.sqrt(squares.mean())) if len(squares) else 0.0) or 1.0)
    scale = 2.0 ** round(float(np.log2(mean_length)))
    return embeddings / scale, scale
