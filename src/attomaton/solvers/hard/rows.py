"""Write the constraints of the Graph-SVM with the rows of the embeddings, and prove answers from these.

Every tie and every priority is about a difference of two rows, (e_i − e_j)ᵀ W e_k. If two rows nearly
coincide, this difference is lost in a Gram matrix. So :func:`certify_answer` bounds the rounding errors of
sums (:class:`_Plain`). If the bounds are too wide, differences are computed exactly, and summed in
double-double arithmetic, in which a number is the sum of a pair of float64 (:class:`_Paired`).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attomaton.base.borders import check_floats, check_ids, check_int64, check_lengths
from attomaton.base.errors import MismatchedParts
from attomaton.base.native import press_ropes, stretch_ropes
from attomaton.base.options import settle
from attomaton.base.tables import Bool, Float64, Int64, column
from attomaton.graphs.components import Components
from attomaton.graphs.separation import bound_singular, unit_rows
from attomaton.solvers.hard.certify import DIVERGED, FEASIBLE_VIOLATION, HardCertificate

# Rounding error of double-double sums, relative to the sum of absolute terms; a bound for any dimension.
PAIRED = 2.0**-95

# Allowance for the rounding of the few subsequent float64 operations.
FLOAT_ALLOWANCE = 1e-13

# Singular values at most UNCLEAR, relative to the largest, are zero up to rounding, and those above CLEAR are
# not zero. Values between leave it undecided whether ties are dependent.
UNCLEAR, CLEAR = 1.5e-15, 1e-7

# Most numbers in the directions of dependent ties that are decomposed (40 MB).
MOST_DIRECTION_ENTRIES = 5_000_000

# Twice the largest relative rounding error of one float64 operation.
UNIT_ROUNDOFF = float(np.finfo(np.float64).eps)

# Most products in double-double sums: seconds, not minutes.
MOST_PAIRED_PRODUCTS = 200_000_000

# Rows closer than this, relative to their lengths, are reported if an answer is not certified.
NEAR_ROWS = 1e-6


@dataclass(frozen=True, eq=False)
class RowConstraints:
    """All ties and priorities as differences of rows, sorted by query: (e_plus − e_minus) e_queryᵀ.

    Within a component every token except the first is tied to the first; a priority joins the first tokens of
    two components.
    """

    keys: Float64  # (n_tokens_used, dim): the embeddings of the tokens in use
    queries: Float64  # (n_queries, dim): the embeddings of the queries
    plus: Int64  # (n_constraints,): a row of ``keys``
    minus: Int64  # (n_constraints,): a row of ``keys``
    query: Int64  # (n_constraints,): a row of ``queries``
    number: Int64  # (n_constraints,): of a priority its row in the order, of a tie the node of ``plus``
    tie: Bool  # (n_constraints,): whether the constraint is a tie
    tokens: Int64  # (n_tokens_used,): the token of each row of ``keys``

    def __post_init__(self) -> None:
        keys, queries = (check_floats(table, (None, None), "rows of embeddings") for table in self.tables)
        check_floats(queries, (None, keys.shape[1]), "rows of queries")
        ends = dict(zip(("plus", "minus", "query"), self.ends, strict=True))
        rows = {name: check_int64(end, name) for name, end in ends.items()}
        number = check_int64(self.number, "number")
        tokens = check_int64(self.tokens, "tokens")
        tie = self.tie
        if tie.dtype != np.bool_ or tie.ndim != 1:
            raise MismatchedParts(f"tie is {tie.dtype} of shape {tie.shape}; give one boolean for each row")
        check_lengths("the columns of row constraints", number=number, tie=tie, **rows)
        check_lengths("rows of embeddings and their tokens", keys=keys, tokens=tokens)
        for name, row in rows.items():
            check_ids(row, len(queries if name == "query" else keys), f"{name} of a constraint")
        settle(self, keys=keys, queries=queries, number=number, tokens=tokens, **rows)

    @cached_property
    def ties(self) -> "RowConstraints":
        """The ties alone; the object itself if there are no priorities."""
        if self.tie.all():
            return self
        ends = {name: getattr(self, name)[self.tie] for name in ("plus", "minus", "query", "number", "tie")}
        return replace(self, **ends)

    @property
    def ends(self) -> tuple[Int64, Int64, Int64]:
        """The rows of each constraint, and the tables of these rows: the form that kernels take."""
        return self.plus, self.minus, self.query

    @property
    def tables(self) -> tuple[Float64, Float64]:
        return self.keys, self.queries

    @cached_property
    def lengths(self) -> Float64:
        """‖e_plus − e_minus‖ ‖e_query‖, shape (n_constraints,), from exact differences."""
        lengths = np.linalg.norm(self.keys[self.plus] - self.keys[self.minus], axis=1)
        return lengths * np.linalg.norm(self.queries, axis=1)[self.query]

    @property
    def n_products(self) -> int:
        """Products of numbers in W e_query for all queries."""
        return len(self.queries) * self.keys.shape[1] ** 2

    def press(self, weights: Float64) -> Float64:
        """Σ weight (e_plus − e_minus) e_queryᵀ as pairs of float64, shape (dim, dim, 2)."""
        weights = check_floats(weights, (len(self.plus), 2), "weights of constraints")
        return press_ropes(self.tables, self.ends, weights)

    def scores_at(self, weights: Float64, token: Int64, query: Int64) -> Float64:
        """e_tokenᵀ W e_query for rows of ``keys`` and ``queries``, sorted by query; W as pairs of float64."""
        # Constraints whose minus row is zero have these scores as their differences.
        keys = np.vstack([self.keys, np.zeros((1, self.keys.shape[1]))])
        zero_row = np.full(len(token), len(self.keys))
        ends = {"plus": token, "minus": zero_row, "query": query, "number": token, "tie": token < 0}
        single = replace(self, keys=keys, tokens=np.append(self.tokens, -1), **ends)
        return single.differences(weights).sum(axis=1)

    def differences(self, weights: Float64) -> Float64:
        """(e_plus − e_minus)ᵀ W e_query as pairs of float64, shape (n_constraints, 2), from W in pairs."""
        dim = self.keys.shape[1]
        return stretch_ropes(self.tables, self.ends, check_floats(weights, (dim, dim, 2), "weights in pairs"))

    # e_plus − e_minus of each tie between different rows, (n, dim), and the row of its query, (n,).
    @cached_property
    def _tie_differences(self) -> tuple[Float64, Int64]:
        differ = self.ties.lengths > 0
        return (self.keys[self.ties.plus] - self.keys[self.ties.minus])[differ], self.ties.query[differ]

    @cached_property
    def rough_least_singular(self) -> float:
        """A cheaper lower bound on :attr:`least_singular`, from singular values of tokens and queries."""
        differences, query = self._tie_differences
        if not len(query):
            return np.inf
        queries = bound_singular(unit_rows(self.queries[np.unique(query)]))
        return queries * bound_singular(self.keys) / float(np.linalg.norm(differences, axis=1).max())

    @cached_property
    def least_singular(self) -> float:
        """A lower bound on the smallest singular value of the ties' unit directions; 0 if undecided."""
        differences, query = self._tie_differences
        if not len(query):
            return np.inf
        used = np.unique(query)
        queries = _smallest(self.queries[used])
        by_query = min(_smallest(differences[query == row]) for row in used) if queries else 0.0
        # The product of the smallest singular values of the queries and of the differences under any one
        # query; if these are linearly dependent, the smallest singular value that is not zero.
        return queries * by_query or _smallest_clear(differences, self.queries[query])

    def closest(self) -> str:
        """A sentence about two rows that nearly coincide but must differ; empty if there are none."""
        norms = np.linalg.norm(self.keys, axis=1)
        distances = np.linalg.norm(self.keys[self.plus] - self.keys[self.minus], axis=1)
        sizes = np.maximum(norms[self.plus], norms[self.minus])
        near = np.divide(distances, sizes, out=np.full_like(distances, np.inf), where=sizes > 0)
        if not len(near) or near.min() > NEAR_ROWS:
            return ""
        row = int(near.argmin())
        first, second = self.tokens[self.plus[row]], self.tokens[self.minus[row]]
        return f"the embeddings of tokens {first} and {second} differ by only {near[row]:.1e} of their length"


# A lower bound on the smallest singular value of the rows, each scaled to length 1.
def _smallest(rows: Float64) -> float:
    if len(rows) > rows.shape[1]:  # then the rows are linearly dependent
        return 0.0
    singular = np.linalg.svd(unit_rows(rows), compute_uv=False)
    return max(float(singular[-1] - FLOAT_ALLOWANCE * singular[0]), 0.0)


# The smallest nonzero singular value of the directions difference ⊗ query, if zeros are clearly zero.
def _smallest_clear(differences: Float64, queries: Float64) -> float:
    if len(differences) * differences.shape[1] * queries.shape[1] > MOST_DIRECTION_ENTRIES:
        return 0.0
    directions = unit_rows((differences[:, :, None] * queries[:, None, :]).reshape(len(differences), -1))
    singular = np.linalg.svd(directions, compute_uv=False)
    nonzero = singular[singular > UNCLEAR * singular[0]]
    is_clear = len(nonzero) == len(directions) or nonzero[-1] > CLEAR * singular[0]
    return max(float(nonzero[-1] - FLOAT_ALLOWANCE * singular[0]), 0.0) if is_clear else 0.0


def in_pairs(values: Float64) -> Float64:
    """Numbers (…) as pairs of float64 (…, 2) with nothing in the second."""
    return np.stack([values, np.zeros_like(values)], axis=-1)


def row_constraints(components: Components, embeddings: Float64) -> RowConstraints:
    """The ties and priorities of components, from embeddings of shape (n_tokens, dim)."""
    tokens, token = np.unique(components.token_of_node, return_inverse=True)
    queries, query = np.unique(components.query_of_node, return_inverse=True)
    component = components.component_of_node
    # The first node of each component: assigned last, since NumPy assigns repeated indices in order.
    first = np.zeros(len(components), np.int64)
    first[component[::-1]] = np.arange(len(component))[::-1]
    tied = np.flatnonzero(first[component] != np.arange(len(component)))
    above, below = (first[column(components.order, name)] for name in ("above", "below"))
    # `plus` and `minus` are nodes here, and become rows of ``keys`` in the result.
    plus = np.concatenate([tied, above])
    minus = np.concatenate([first[component[tied]], below])
    number = np.concatenate([tied, np.arange(len(above))])
    tie = np.arange(len(plus)) < len(tied)
    order = np.lexsort((~tie, query[plus]))  # by query, ties before priorities
    return RowConstraints(
        np.ascontiguousarray(embeddings[tokens]),
        np.ascontiguousarray(embeddings[queries]),
        token[plus[order]],
        token[minus[order]],
        query[plus[order]],
        number[order],
        tie[order],
        tokens.astype(np.int64),
    )


@dataclass(frozen=True, eq=False)
class RowProof:
    """A point and multipliers that certify each other."""

    weights: Float64  # (dim, dim, 2): W, and a correction with which ties hold more exactly
    multipliers: Float64  # (n_constraints,): those of ties are free


def certify_answer(constraints: RowConstraints, answer: RowProof, *, rtol: float) -> HardCertificate:
    """Bounds on ‖W_svm‖² that include rounding errors, from sums that are more precise if necessary."""
    dim = constraints.keys.shape[1]
    check_floats(answer.weights, (dim, dim, 2), "weights in pairs", finite=False)
    check_floats(answer.multipliers, (len(constraints.plus),), "multipliers of constraints", finite=False)
    sizes = [float(np.max(np.abs(values), initial=0.0)) for values in (answer.weights, answer.multipliers)]
    if not max(sizes) < DIVERGED:  # also if one is NaN
        return HardCertificate(0.0, np.inf, np.inf, np.inf, rtol, closest=constraints.closest())
    # From cheap to expensive: both the bound on the singular value and the sums become tighter.
    certificate = _bound(_Plain(constraints), answer, rtol, constraints.rough_least_singular)
    if not certificate.certified:
        certificate = _bound(_Plain(constraints), answer, rtol, constraints.least_singular)
    if not certificate.certified and constraints.n_products <= MOST_PAIRED_PRODUCTS:
        certificate = _bound(_Paired(constraints), answer, rtol, constraints.least_singular)
    return certificate if certificate.certified else replace(certificate, closest=constraints.closest())


@dataclass(frozen=True)
class _Plain:
    """Sums in float64, row by row, with bounds on their rounding errors."""

    constraints: RowConstraints

    @cached_property
    def sizes(self) -> Float64:
        """(‖e_plus‖ + ‖e_minus‖) ‖e_query‖, to which rounding errors are relative."""
        keys, queries = (np.linalg.norm(table, axis=1) for table in self.constraints.tables)
        return (keys[self.constraints.plus] + keys[self.constraints.minus]) * queries[self.constraints.query]

    def differences(self, weights: Float64) -> tuple[Float64, Float64]:
        """(e_plus − e_minus)ᵀ W e_query of each constraint, and a bound on its error."""
        (keys, queries), (plus, minus, query) = self.constraints.tables, self.constraints.ends
        plain = weights.sum(axis=2)
        scores = keys @ (plain @ queries.T)
        error = UNIT_ROUNDOFF * (2 * keys.shape[1] + 8) * float(np.linalg.norm(plain))
        return scores[plus, query] - scores[minus, query], error * self.sizes

    def press(self, multipliers: Float64) -> tuple[float, float]:
        """‖Σ multiplier (e_plus − e_minus) e_queryᵀ‖, and a bound on its error."""
        (keys, queries), (plus, minus, query) = self.constraints.tables, self.constraints.ends
        combined = np.zeros((len(queries), len(keys)))  # the coefficient of e_token e_queryᵀ
        np.add.at(combined, (query, plus), multipliers)
        np.subtract.at(combined, (query, minus), multipliers)
        terms = sum(combined.shape) + int(np.bincount(query).max(initial=0)) + 8
        error = UNIT_ROUNDOFF * terms * float(np.abs(multipliers) @ self.sizes)
        return float(np.linalg.norm((combined @ keys).T @ queries)), error


@dataclass(frozen=True)
class _Paired:
    """The sums of :class:`_Plain` in double-double, with differences taken first."""

    constraints: RowConstraints

    @property
    def sizes(self) -> Float64:
        return self.constraints.lengths  # errors are relative to the length of the difference itself

    def differences(self, weights: Float64) -> tuple[Float64, Float64]:
        error = PAIRED * self.constraints.keys.shape[1] * float(np.linalg.norm(weights[..., 0]))
        return self.constraints.differences(weights).sum(axis=1), error * self.sizes

    def press(self, multipliers: Float64) -> tuple[float, float]:
        error = PAIRED * self.constraints.keys.shape[1] * float(np.abs(multipliers) @ self.sizes)
        return float(np.linalg.norm(self.constraints.press(in_pairs(multipliers)).sum(axis=2))), error


# Bounds with one kind of sums, given a lower bound on the ties' smallest singular value.
def _bound(sums: _Plain | _Paired, answer: RowProof, rtol: float, least_singular: float) -> HardCertificate:
    tie = sums.constraints.tie
    upper, violation = _bound_above(sums, answer.weights, least_singular)
    # Weak duality: ‖W_svm‖² ≥ (Σf)² / ‖Σ f (e_i − e_j)e_kᵀ + ties‖² for any f ≥ 0. The sum is rounded down,
    # the norm up.
    multipliers = np.where(tie, answer.multipliers, np.maximum(answer.multipliers, 0.0))
    total = float(np.sum(multipliers[~tie])) * (1.0 - UNIT_ROUNDOFF * len(tie))
    norm, error = sums.press(multipliers)
    norm = norm * (1.0 + FLOAT_ALLOWANCE) + error
    lower = (total / norm) ** 2 * (1.0 - FLOAT_ALLOWANCE) if norm > 0 else 0.0
    gap = (upper - lower) / upper if 0 < upper < np.inf else upper
    return HardCertificate(lower, upper, gap, violation, rtol)


# An upper bound, or infinity, and the largest violation by W without the correction.
def _bound_above(sums: _Plain | _Paired, weights: Float64, least_singular: float) -> tuple[float, float]:
    # The bound is the norm of W after a move to where all ties hold, and scaling to a smallest margin of 1.
    tie = sums.constraints.tie
    move = 0.0  # an upper bound on the length of the move: violation of ties / least_singular
    norm = float(np.linalg.norm(weights.sum(axis=2))) * (1.0 + FLOAT_ALLOWANCE)
    differences, error = sums.differences(weights)
    if tie.any():
        broken = np.abs(differences[tie]) + error[tie]
        lengths = sums.constraints.ties.lengths
        relative = np.divide(broken, lengths, out=np.zeros_like(broken), where=lengths > 0)
        move = float(np.linalg.norm(relative)) / least_singular if least_singular > 0 else np.inf
    margins = differences[~tie] * (1.0 - FLOAT_ALLOWANCE) - error[~tie] - move * sums.sizes[~tie]
    least_margin = float(margins.min(initial=np.inf))
    # The violation that a user of the float64 weights will see.
    plain = sums.differences(in_pairs(weights[..., 0]))[0] if weights[..., 1].any() else differences
    violation = float(max(np.abs(plain[tie]).max(initial=0.0), (1.0 - plain[~tie]).max(initial=0.0)))
    if tie.all():
        return 0.0, violation
    if not (least_margin > 0 and violation <= FEASIBLE_VIOLATION):
        return np.inf, violation
    return ((norm + move) / min(least_margin, 1.0)) ** 2 * (1.0 + FLOAT_ALLOWANCE), violation
