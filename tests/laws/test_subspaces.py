"""Definitions 3 to 5 and Lemma 6 of the first paper's supplement: where directions and gradients lie.

S is the span of (e_i − e_j) e_kᵀ over the edges, the cyclic subspace S_fin that over the ties, and the SVM
subspace the orthogonal complement of S_fin within S.
"""

import numpy as np
import pytest

import attomaton as at
from attomaton.claims.limits import dense, solve_trial
from attomaton.training.models.attention import AttentionModel, measure_curvatures
from attomaton.training.models.embeddings import EmbeddingTable
from attomaton.trajectory.basis import find_basis
from tests.drawn import embeddings_for, paper_draw


def span_of(rows):
    """The orthogonal projection onto the span of some matrices."""
    if not rows:
        return None
    rows = np.array(rows).reshape(len(rows), -1)
    _, singular, axes = np.linalg.svd(rows, full_matrices=False)
    axes = axes[singular > 1e-10]
    return axes.T @ axes


def subspaces(components, table):
    """The projections onto S and S_fin, edge by edge and tie by tie."""
    edges = components.edges.rows.to_pylist()
    own = {(row["query"], row["token"]): row["component"] for row in components.nodes.to_pylist()}
    along = [np.outer(table[row["winner"]] - table[row["loser"]], table[row["query"]]) for row in edges]
    ties = [
        np.outer(table[i] - table[j], table[k])
        for k, i in own
        for other, j in own
        if k == other and i < j and own[k, i] == own[k, j]
    ]
    return span_of(along), span_of(ties)


def gradient_of(samples, table, weights, step=1e-6):
    """∇L by central differences of the mean log-loss of the attention mass."""

    def loss(weights):
        total = 0.0
        for context, label in samples:
            scores = table[list(context)] @ weights @ table[context[-1]]
            odds = np.exp(scores - scores.max())
            total -= np.log(odds[np.array(context) == label].sum() / odds.sum())
        return total / len(samples)

    found = np.zeros_like(weights)
    for place in np.ndindex(*weights.shape):
        moved = np.zeros_like(weights)
        moved[place] = step
        found[place] = (loss(weights + moved) - loss(weights - moved)) / (2 * step)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_the_direction_and_the_gradient_lie_where_lemma_6_says(seed):
    samples, table = paper_draw(seed), embeddings_for(seed, 6, 7)
    solved = solve_trial(samples, table)
    whole, cyclic = subspaces(solved.components, table)
    direction, finite = (dense(each.weights).ravel() for each in (solved.hard, solved.soft))
    scale = max(np.linalg.norm(direction), 1.0)
    np.testing.assert_allclose(whole @ direction, direction, atol=1e-6 * scale)  # (i): W_svm in S ...
    if cyclic is not None:
        np.testing.assert_allclose(cyclic @ direction, 0, atol=1e-6 * scale)  # ... and orthogonal to S_fin
        np.testing.assert_allclose(cyclic @ finite, finite, atol=1e-7)
    slope = gradient_of(samples, table, np.random.default_rng(seed).normal(size=(7, 7))).ravel()
    np.testing.assert_allclose(whole @ slope, slope, atol=1e-8)  # (ii): the gradient in S, at any W
    basis = find_basis(solved.components, table)
    scaled = basis.axes @ np.kron(basis.left, basis.right)
    np.testing.assert_allclose(scaled.T @ scaled, whole, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_the_hessian_is_a_covariance_so_the_loss_is_convex_and_strictly_so_on_s(seed):
    """At any W: Σ p (φ − φ̄)(φ − φ̄)ᵀ, φ = e_x e_kᵀ, has no negative eigenvalue, on S only positive ones."""
    samples, table = paper_draw(seed), embeddings_for(seed, 6, 7)
    weights = np.random.default_rng(seed).normal(size=(1, 7, 7))
    model = AttentionModel(EmbeddingTable(table))
    (measured,) = measure_curvatures(model, [samples], [table], weights)
    covariance = np.zeros((49, 49))
    for context, _ in samples:
        features = np.array([np.outer(table[x], table[context[-1]]).ravel() for x in context])
        odds = np.exp(features @ weights.ravel())
        odds /= odds.sum()
        features = features - odds @ features
        covariance += (features.T * odds) @ features / len(samples)
    np.testing.assert_allclose(measured, covariance, atol=1e-10)
    whole, _ = subspaces(at.learn(samples, embeddings=table).components, table)
    values, vectors = np.linalg.eigh(whole)
    axes = vectors[:, values > 0.5].T
    assert np.linalg.eigvalsh(axes @ covariance @ axes.T)[0] > 0
