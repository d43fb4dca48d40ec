"""Find the priorities that given embeddings can separate; the function to call is :func:`separate`.

With linearly dependent embeddings (always if dim < n_tokens) some priorities contradict each other: their
directions (e_i − e_j)e_kᵀ, with positive weights, sum to zero. Then no W ranks them all, and gradient descent
treats them as ties: they are "effectively cyclic". One linear program in D and u finds them all,

    max Σ u_c  subject to  ⟨D, (e_i − e_j)e_kᵀ⟩ ≥ u_c, 0 ≤ u_c ≤ 1, and ties kept equal;

u_c is 1 if priority c can be met, together with all others that can, and 0 if it cannot. The dual solution is
the proof (Farkas): positive weights on every priority that cannot be met, whose weighted sum vanishes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.ragged import sum_at
from attomaton.base.solutions import check_embeddings, scale_rows
from attomaton.base.tables import Bool, Float64, Integers, column
from attomaton.graphs.components import Components, find_ends, find_needed, find_ties, merge_components

# Bounds on squared singular values are powers 4⁻¹ … of the shortest row's square, down to this power.
FINEST = 13

ROUNDOFF = float(np.finfo(np.float64).eps)

# Above this many nodes the linear program is too large, and priorities are assumed to be separable.
MOST_SEPARATED = 4000

# Singular values below this, relative to the largest, may be zero up to rounding, and count as zero. Larger
# but still negligible ones leave separability undecided, and nothing is certified.
UNCLEAR_RATIO = 4e-15

# Singular values and directions smaller than this, relative to the largest, count as zero.
NEGLIGIBLE_RATIO = 1e-10

# Stands in for a divisor of zero; no length or singular value in use is as small.
SMALLEST_DIVISOR = 1e-300


def unit_rows(rows: Float64) -> Float64:
    """The rows, each scaled to length 1; zero rows stay zero."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)


def bound_singular(rows: Float64) -> float:
    """A lower bound on the smallest singular value, within a factor of 2; 0 if that is below about 1e-4."""
    # If R Rᵀ − μ has a Cholesky decomposition, no eigenvalue of R Rᵀ is below μ, up to rounding.
    if not len(rows) or len(rows) > rows.shape[1]:
        return 0.0
    gram = rows @ rows.T
    # Bounds the error of the product and of the decomposition, which grows with their size.
    rounding = 8.0 * ROUNDOFF * sum(rows.shape) * float(np.trace(gram))
    # Bisection of the power p in μ = 4⁻ᵖ min ‖row‖²: the decomposition fails at coarse and exists at fine.
    coarse, fine = 0, FINEST + 1
    while fine - coarse > 1:
        power = (coarse + fine) // 2
        level = 4.0**-power * float(np.diag(gram).min())
        try:
            np.linalg.cholesky(gram - level * np.eye(len(gram)))
            coarse, fine = (coarse, power) if level > 0 else (power, fine)
        except np.linalg.LinAlgError:
            coarse = power
    least = 4.0**-fine * float(np.diag(gram).min()) - rounding
    return float(np.sqrt(least)) if fine <= FINEST and least > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Separation:
    """The priorities that embeddings can meet and those that they cannot, with the proof.

    ``components`` are the given components after every priority that cannot be met became a tie; these
    priorities are marked in ``inseparable``, shape (n_order,). The ``multipliers``, shape (n_order,), are
    Farkas weights ≥ 0, positive on every inseparable edge that no longer path replaces. With free weights on
    ties they leave on each node the net weight ``forces``, shape (n_nodes,), and Σ forces e_token e_queryᵀ
    vanishes: ``residual`` is its norm relative to its terms. ``independent`` says whether the embeddings in
    use are linearly independent, so that every priority can be met. ``decided`` is False if there are too
    many nodes to decide.
    """

    components: Components
    inseparable: Bool
    multipliers: Float64
    forces: Float64
    residual: float
    independent: bool
    decided: bool = True

    @property
    def feasible(self) -> bool:
        """Whether every priority can be met; raises ``UncertifiedSolution`` if that is undecided."""
        if not self.decided:
            raise UncertifiedSolution(
                f"{self.components.nodes.num_rows:,} (query, token) pairs are too many to decide which "
                f"priorities dependent embeddings can meet (at most {MOST_SEPARATED:,}); use fewer queries"
            )
        return not self.inseparable.any()


def separate(components: Components, embeddings: object) -> Separation:
    """Find which priorities some W can meet together with given embeddings, and which no W can meet.

    ``embeddings`` has one row per token, shape (n_tokens, dim); the rows may be linearly dependent.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 0], [0, 1, 1]], [0, 0])  # 0 beats 1 under both queries
    >>> comps = at.find_components(at.extract_edges(samples))
    >>> separate(comps, [[1.0], [-1.0]]).feasible  # e_0 = −e_1: one query requires what the other forbids
    False
    """
    table = scale_rows(check_embeddings(embeddings, components.edges.n_tokens))[0]
    n_order = components.order.num_rows
    n_nodes = components.nodes.num_rows
    independent = _has_independent_rows(components, table)
    # The proof that every priority can be met: no inseparable edge, multiplier, force or residual.
    nothing = np.zeros(n_order, bool), np.zeros(n_order), np.zeros(n_nodes), 0.0
    if not n_order or n_nodes > MOST_SEPARATED or independent:
        return Separation(components, *nothing, independent, decided=independent or not n_order)
    basis, clear = _attainable_scores(components, table)
    multipliers = _find_contradictions(components, basis)
    if not multipliers.any():
        return Separation(components, *nothing, independent)
    forces = _balance_forces(components, basis, multipliers)
    merged, inseparable = _merge_tied(components, multipliers > 0)
    # residual = ‖Σ f e_token e_queryᵀ‖ / Σ |f| ‖e_token‖ ‖e_query‖, over the nodes with their forces f
    tokens = table[components.token_of_node]
    queries = table[components.query_of_node]
    total = float(np.abs(forces) @ (np.linalg.norm(tokens, axis=1) * np.linalg.norm(queries, axis=1)))
    norm = float(np.linalg.norm((tokens * forces[:, None]).T @ queries))
    residual = np.inf if not clear else norm / total if total > 0 else 0.0
    return Separation(merged, inseparable, multipliers, forces, residual, independent)


# Whether the tokens in use have linearly independent embeddings, up to rounding.
def _has_independent_rows(components: Components, table: Float64) -> bool:
    rows = table[np.unique(components.token_of_node)]
    unit = unit_rows(rows)
    if not len(rows):
        return True
    if len(rows) > rows.shape[1] or not unit.any(axis=1).all():
        return False
    if bound_singular(unit) > 0:
        return True
    singular = np.linalg.svd(unit, compute_uv=False)
    return bool(singular[-1] > UNCLEAR_RATIO * singular[0])


# A basis of the scores that any W gives the nodes, shape (n_nodes, rank), and if the rank is clear.
def _attainable_scores(components: Components, table: Float64) -> tuple[Float64, bool]:
    # The rank is clear if each omitted singular value is zero up to rounding.
    left, singular, _ = np.linalg.svd(node_features(components, table)[0], full_matrices=False)
    largest = singular.max(initial=0.0)
    clear_axes = singular > NEGLIGIBLE_RATIO * largest
    omitted = singular[~clear_axes] / max(largest, SMALLEST_DIVISOR)
    rows = table[np.unique(components.token_of_node)]
    of_rows = np.linalg.svd(rows, compute_uv=False)
    ratios = np.concatenate([omitted, of_rows / max(of_rows.max(initial=0.0), SMALLEST_DIVISOR)])
    unclear = bool(((ratios > UNCLEAR_RATIO) & (ratios <= NEGLIGIBLE_RATIO)).any())
    return left[:, clear_axes], not (unclear or _nearly_twice(rows))


# Whether two rows, or a row and the negative of another, differ only by rounding, but do differ.
def _nearly_twice(rows: Float64) -> bool:
    lengths = np.linalg.norm(rows, axis=1)
    # Only pairs of nearly the same direction are compared entry by entry; 1e-12 is far above rounding.
    cosines = np.abs(rows @ rows.T) / np.maximum(np.outer(lengths, lengths), SMALLEST_DIVISOR)
    first, second = np.nonzero(np.triu(cosines > 1.0 - 1e-12, 1))
    apart = np.minimum(
        np.abs(rows[first] - rows[second]).max(axis=1, initial=0.0),
        np.abs(rows[first] + rows[second]).max(axis=1, initial=0.0),
    )
    return bool(((apart > 0) & (apart <= NEGLIGIBLE_RATIO * lengths[first])).any())


def node_features(components: Components, table: Float64) -> tuple[Float64, tuple[Float64, Float64]]:
    """The scores of every node as a linear function of W, in as few coordinates as the embeddings need.

    Returns features, shape (n_nodes, r·q), and orthonormal rows L (r, dim) and R (q, dim): for X of shape (r,
    q), W = Lᵀ X R has ‖W‖ = ‖X‖ and gives the nodes the scores features @ X.ravel().
    """
    tokens, left = _coordinates(table, components.token_of_node)
    queries, right = _coordinates(table, components.query_of_node)
    features = tokens[:, :, None] * queries[:, None, :]
    return features.reshape(len(tokens), len(left) * len(right)), (left, right)


# The embeddings of ``tokens`` in as many coordinates as their rank r, (n, r), and the axes, (r, dim).
def _coordinates(table: Float64, tokens: Integers) -> tuple[Float64, Float64]:
    used, row = np.unique(tokens, return_inverse=True)
    left, singular, axes = np.linalg.svd(table[used], full_matrices=False)
    clear_axes = singular > NEGLIGIBLE_RATIO * singular.max(initial=0.0)
    return (left[:, clear_axes] * singular[clear_axes])[row], axes[clear_axes]


# Farkas weights of the needed edges that no scores in the basis meet, shape (n_order,); else zero.
def _find_contradictions(components: Components, basis: Float64) -> Float64:
    first, second = find_ties(components)
    free = basis
    if len(first):  # restrict the scores to those that are equal in ties: the null space of their differences
        _, singular, axes = np.linalg.svd(basis[first] - basis[second])
        rank = int((singular > NEGLIGIBLE_RATIO * singular.max(initial=0.0)).sum())
        free = basis @ axes[rank:].T
    rows = np.flatnonzero(find_needed(components))
    above, below = (end[rows] for end in find_ends(components))
    directions = free[above] - free[below]
    norms = np.linalg.norm(directions, axis=1)
    # Ties leave an edge without length no freedom; an infinite length makes its direction exactly zero.
    lengths = np.where(norms > NEGLIGIBLE_RATIO, norms, np.inf)
    weights = _stuck_weights(directions / lengths[:, None])
    multipliers = np.zeros(components.order.num_rows)
    multipliers[rows] = weights / np.where(np.isinf(lengths), 1.0, lengths)
    return multipliers


# Solve the linear program for unit rows d_c; weights of the rows with u_c = 0, else 0, (n_rows,).
def _stuck_weights(directions: Float64) -> Float64:
    from scipy.optimize import linprog  # takes long to import, so only when needed

    # The variables are (x, u): minimise −Σ u_c subject to u_c − d_c·x ≤ 0 and 0 ≤ u_c ≤ 1.
    n_rows, n_free = directions.shape
    program: Any = linprog(
        np.concatenate([np.zeros(n_free), -np.ones(n_rows)]),
        A_ub=np.hstack([-directions, np.eye(n_rows)]),
        b_ub=np.zeros(n_rows),
        bounds=[(None, None)] * n_free + [(0.0, 1.0)] * n_rows,
        method="highs",
    )
    if program.status != 0:
        raise UncertifiedSolution(f"the linear program of the separation was not solved: {program.message}")
    stuck = np.flatnonzero(program.x[n_free:] < 0.5)  # each u_c is 0 or 1, up to rounding
    weights = np.zeros(n_rows)
    # The dual solution sums to zero only up to the solver's tolerance: the least change makes the sum vanish.
    # The dual constraint of u_c makes each weight at least 1.
    rough = np.maximum(-program.ineqlin.marginals[stuck], 1.0)
    matrix = directions[stuck].T
    weights[stuck] = rough - np.linalg.lstsq(matrix, matrix @ rough, rcond=NEGLIGIBLE_RATIO)[0]
    return weights


# The net weight of the multipliers on each node, balanced by free weights on ties, shape (n_nodes,).
def _balance_forces(components: Components, basis: Float64, multipliers: Float64) -> Float64:
    above, below = find_ends(components)
    size = components.nodes.num_rows
    forces = sum_at(above, multipliers, size) - sum_at(below, multipliers, size)
    first, second = find_ties(components)
    # least squares: the weights of ties with which the forces are orthogonal to every attainable score
    ties = np.asarray(
        np.linalg.lstsq((basis[first] - basis[second]).T, -basis.T @ forces, rcond=NEGLIGIBLE_RATIO)[0],
        np.float64,
    )
    return forces + sum_at(first, ties, size) - sum_at(second, ties, size)


# The components with these edges as ties, and which edges of the order are now inside a component.
def _merge_tied(components: Components, joined: Bool) -> tuple[Components, Bool]:
    from scipy.sparse import csr_array  # takes long to import, so only when needed
    from scipy.sparse.csgraph import connected_components

    above, below = column(components.order, "above"), column(components.order, "below")
    size = len(components)
    links = csr_array((np.ones(int(joined.sum())), (above[joined], below[joined])), shape=(size, size))
    group = connected_components(links, directed=False)[1]
    return merge_components(components, group), group[above] == group[below]
