"""Concepts: the leading directions of the centred support matrix.

Column j of W^mm for one-hot contexts is 1_{S_j} − (s_j/V)𝟙. Where embeddings are learned with vanishing
weight decay, words and contexts are reported to align with the singular vectors of this matrix (arXiv
2408.15417): each pair is a concept, with the words that it raises and the contexts that call for them.
Contexts with the same support have the same column, so no direction
tells them apart.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from scipy import sparse

from attomaton.base import Tabular
from attomaton.base.drawing import HOUSE_GREY, ONE_COLUMN, drawable, house_axes, white_outline
from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.base.options import whole_number
from attomaton.base.printing import Block, Grid
from attomaton.base.tables import Float64, Int64, make_table, rows_to_bytes
from attomaton.corpora import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.theories.decoder.supports import Supports

SHOWN = 6
"""Words and contexts that represent each side of a concept."""

DENSE = 64
"""Matrices whose smaller side is at most this are decomposed densely."""

PROVED = 1e-6
"""Tolerance for the residual A v − σ u, relative to the largest singular value."""

CONCEPTS = pa.schema(
    [
        ("concept", pa.int32()),
        ("value", pa.float64()),
        ("side", pa.string()),
        ("token", pa.int32()),
        ("weight", pa.float64()),
    ]
)
HEADERS = ["concept", "σ", "side", "words", "contexts"]
_sparse: Any = sparse


@dataclass(frozen=True, eq=False, repr=False)
class Concepts(Tabular):
    """The leading singular triples of the centred support matrix, the largest first.

    Attributes
    ----------
    values : float64 array, shape (count,)
        Singular values σ, descending.
    words : float64 array, shape (n_tokens, count)
        Left singular vectors: the words that each concept raises. The largest entry of each is positive.
    contexts : float64 array, shape (n_contexts, count)
        Right singular vectors: the contexts that call for it.
    supports : Supports
        The supports it was computed from.

    Examples
    --------
    >>> import attomaton as at
    >>> limit = at.learn_decoder(["a x b x a y b y c z c w"])
    >>> concepts = find_concepts(limit.supports, 2, vocabulary=limit.vocabulary)
    >>> concepts, concepts.values.round(3).tolist()
    (Concepts(2 of a matrix of 7 × 6), [1.928, 1.562])
    >>> concepts.leading_words(1, 2), concepts.leading_contexts(1, 2)
    (['z', 'w'], ['c', 'a'])
    >>> 0.0 < concepts.explained < 1.0, concepts.table().column_names[:3]
    (True, ['concept', 'value', 'side'])
    """

    values: Float64
    words: Float64
    contexts: Float64
    supports: Supports
    vocabulary: Vocabulary | None = None

    def __repr__(self) -> str:
        return f"Concepts({len(self.values):,} of a matrix of {len(self.words):,} × {len(self.contexts):,})"

    def __len__(self) -> int:
        return len(self.values)

    @property
    def explained(self) -> float:
        """The share of ‖W^mm‖² that these directions explain."""
        sizes = self.supports.sizes.astype(np.float64)
        whole = float((sizes * (self.supports.n_tokens - sizes)).sum()) / self.supports.n_tokens
        return float((self.values**2).sum()) / whole if whole > 0 else 0.0

    def leading_words(self, concept: int, count: int = SHOWN, *, lowered: bool = False) -> list[str]:
        """The words that a concept raises most, or lowers most."""
        order = self._order(self.words, concept, count, lowered)
        return [name_token(self.vocabulary, token) for token in order.tolist()]

    def leading_contexts(self, concept: int, count: int = SHOWN, *, lowered: bool = False) -> list[str]:
        """The contexts that call for a concept most, or for its opposite; ties by frequency."""
        order = self._order(self.contexts, concept, count, lowered)
        rows: list[list[int]] = self.supports.contexts[order].tolist()
        return [" ".join(name_token(self.vocabulary, token) for token in row) for row in rows]

    def _order(self, table: Float64, concept: int, count: int, lowered: bool) -> Int64:
        concept = whole_number(concept, "concept", most=len(self) - 1)
        column = table[:, concept] if lowered else -table[:, concept]
        often = np.bincount(self.supports.tokens, self.supports.counts, len(self.words))
        occurrences = often if table is self.words else self.supports.totals
        return np.lexsort((-occurrences, column.round(9)))[: whole_number(count, "count", least=1)]

    def _table(self) -> pa.Table:
        rows = [
            (concept, self.values[concept], "−" if lowered else "+", token, self.words[token, concept])
            for concept in range(len(self))
            for lowered in (False, True)
            for token in self._order(self.words, concept, SHOWN, lowered).tolist()
        ]
        columns = zip(*rows, strict=True)
        return make_table(CONCEPTS, dict(zip(CONCEPTS.names, map(list, columns), strict=True)))

    def _words(self) -> Vocabulary | None:
        return self.vocabulary

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Both sides of each concept as text: number, σ, side, words, contexts."""
        return [
            (
                str(concept),
                f"{self.values[concept]:.3g}",
                side,
                " ".join(self.leading_words(concept, lowered=side == "−")),
                ", ".join(self.leading_contexts(concept, lowered=side == "−")),
            )
            for concept in range(len(self))
            for side in ("+", "−")
        ]

    def plot(self, horizontal: int = 0, vertical: int = 1, ax: Any = None) -> Any:
        """Draw words by two concepts, the most extreme with labels; returns the matplotlib axes."""
        horizontal, vertical = (
            whole_number(number, "concept", most=len(self) - 1) for number in (horizontal, vertical)
        )
        with house_axes(ax, height=ONE_COLUMN) as axes:
            axes.plot(self.words[:, horizontal], self.words[:, vertical], ".", color=HOUSE_GREY, markersize=2)
            for token in self._apart(horizontal, vertical):
                name = drawable(name_token(self.vocabulary, token), 14)
                if len(name) == 1 and not name.isalnum():
                    name = f"“{name}”"  # a comma alone looks like a speck
                point = self.words[token, horizontal], self.words[token, vertical]
                axes.plot(*point, "o", color="C0", markersize=2.5)
                offset = {"xytext": (3, 2), "textcoords": "offset points", "fontsize": "x-small"}
                axes.annotate(name, point, parse_math=False, zorder=4, path_effects=white_outline(), **offset)
            axes.set_xlabel(f"concept {horizontal}")
            axes.set_ylabel(f"concept {vertical}")
        return axes

    def _apart(self, horizontal: int, vertical: int) -> list[int]:
        """The most extreme words of two concepts, without overlapping labels."""
        points = self.words[:, [horizontal, vertical]]
        reach = np.maximum(np.ptp(points, axis=0), 1e-300)
        chosen: list[int] = []
        for rank in range(SHOWN):
            for concept in (horizontal, vertical):
                for lowered in (False, True):
                    token = int(self._order(self.words, concept, SHOWN, lowered)[rank : rank + 1].sum())
                    gaps = np.abs(points[chosen] - points[token]) / reach
                    if not ((gaps[:, 0] < 0.12) & (gaps[:, 1] < 0.025)).any():
                        chosen.append(token)
        return chosen

    def _blocks(self) -> list[Block]:
        return [repr(self), Grid("Leading concepts", HEADERS, self.rows())]


class _Supported(Protocol):
    """A limit that has supports and may name its tokens."""

    @property
    def supports(self) -> Supports: ...

    @property
    def vocabulary(self) -> Vocabulary | None: ...


def find_concepts(
    supports: Supports | _Supported, count: int = 8, *, vocabulary: Vocabulary | None = None
) -> Concepts:
    """The leading directions of the centred support matrix; it is never formed, so V and m may be 10⁵.

    Parameters
    ----------
    supports : Supports, DecoderLimit or EmbeddedLimit
        The tokens that follow each context.
    count : int
        The number of directions; fewer than tokens and contexts.
    vocabulary : Vocabulary, optional
        Names of the tokens. None means those of the limit.

    Examples
    --------
    >>> import attomaton as at
    >>> find_concepts(at.learn_decoder(["a x b x a y b y"]), 1).values.round(4).tolist()
    [1.8151]
    """
    if not isinstance(supports, Supports):
        supports, vocabulary = supports.supports, vocabulary or supports.vocabulary
    count = whole_number(count, "count", least=1)
    if count >= min(supports.n_tokens, len(supports)):
        raise UnsupportedOption(
            f"count is {count:,}; give less than {min(supports.n_tokens, len(supports)):,}, the smaller of "
            "the numbers of tokens and contexts"
        )
    operator = _centred(supports)
    if min(operator.shape) <= DENSE:
        words, values, contexts = np.linalg.svd(define_matrix(supports), full_matrices=False)
    else:
        words, values, contexts = _decompose(operator, count)
    words, values, contexts = words[:, :count], values[:count], contexts[:count].T
    _check(operator, words, values, contexts)
    peaks = words[np.abs(words).argmax(axis=0), np.arange(count)]
    signs = np.where(peaks < 0, -1.0, 1.0)
    return Concepts(values, words * signs, contexts * signs, supports, vocabulary)


def define_matrix(supports: Supports) -> Float64:
    """1_{S_j} − (s_j/V)𝟙 as columns of a dense matrix, shape (n_tokens, n_contexts): the definition.

    Examples
    --------
    >>> from attomaton.theories import count_supports
    >>> define_matrix(count_supports([[0, 1, 0, 2, 0]], 1))[:, 0].round(4).tolist()
    [-0.6667, 0.3333, 0.3333]
    """
    matrix = np.zeros((supports.n_tokens, len(supports)))
    matrix[supports.tokens, supports.row] = 1.0
    return matrix - matrix.mean(axis=0)


def group_supports(supports: Supports) -> Int64:
    """A number per context, equal for contexts with the same support, shape (n_contexts,).

    Examples
    --------
    >>> from attomaton.theories import count_supports
    >>> group_supports(count_supports([[0, 3, 1, 3, 2, 0]], 1)).tolist()  # 0 and 1 are followed by 3 only
    [0, 0, 1, 2]
    """
    rows: Any = rows_to_bytes(supports.offsets, supports.tokens.astype(np.int32))
    return np.asarray(rows.dictionary_encode().indices, np.int64)


def _centred(supports: Supports) -> Any:
    """The matrix as a linear operator, from a sparse table and a rank-one term."""
    from scipy.sparse.linalg import LinearOperator

    shape = supports.n_tokens, len(supports)
    indicators = np.ones(len(supports.tokens))
    table = _sparse.csr_array((indicators, (supports.tokens, supports.row)), shape=shape)
    transposed, shares = table.T.tocsr(), supports.sizes / supports.n_tokens

    def times(vector: Float64) -> Float64:
        flat = vector.reshape(-1)
        return table @ flat - float(shares @ flat)

    def turned_times(vector: Float64) -> Float64:
        flat = vector.reshape(-1)
        return transposed @ flat - shares * float(flat.sum())

    operator_type: Any = LinearOperator
    return operator_type(shape, matvec=times, rmatvec=turned_times, dtype=np.float64)


def _decompose(operator: Any, count: int) -> tuple[Float64, Float64, Float64]:
    """The leading triples by Lanczos's method, from a fixed start, the largest first."""
    from scipy.sparse.linalg import svds

    start: Float64 = np.random.default_rng(0).normal(size=int(min(operator.shape)))
    solve: Any = svds
    words, values, contexts = solve(operator, k=count, v0=start, solver="arpack")
    order = np.argsort(-values, kind="stable")
    return words[:, order], values[order], contexts[order]


def _check(operator: Any, words: Float64, values: Float64, contexts: Float64) -> None:
    """Check that triples satisfy A v = σ u and Aᵀ u = σ v."""
    scale = max(float(values[0]), 1e-300)
    left = max(
        max(
            float(np.abs(operator.matvec(contexts[:, index]) - values[index] * words[:, index]).max()),
            float(np.abs(operator.rmatvec(words[:, index]) - values[index] * contexts[:, index]).max()),
        )
        for index in range(len(values))
    )
    if left > PROVED * scale:
        raise UncertifiedSolution(
            f"the directions have an error of {left:.1e}; choose a smaller or larger count"
        )
