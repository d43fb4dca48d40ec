"""The edge of stability: where it is, and that nothing is promised beyond it."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.strategies import realisable_sets, vectors

import attomaton as at
from attomaton.trajectory.loss import training_loss
from attomaton.trajectory.sharpness import (
    bound_curvatures,
    bound_sharpness,
    find_edge,
)


def descend(contexts, labels, table, step_size, n_steps):
    """Plain gradient descent by its definition, and the iterate before the last; nothing of ours in it."""
    weights = np.zeros((table.shape[1],) * 2)
    before = weights
    for _ in range(n_steps):
        slope = np.zeros_like(weights)
        for context, label in zip(contexts, labels, strict=True):
            keys, query = table[context], table[context[-1]]
            odds = np.exp(keys @ weights @ query - (keys @ weights @ query).max())
            chosen = odds * (np.array(context) == label)
            slope += np.outer((odds / odds.sum() - chosen / chosen.sum()) @ keys, query)
        before, weights = weights, weights - step_size / len(labels) * slope
    return weights, before


TIED = [[0, 1, 2]] * 5, [0, 0, 0, 1, 1]
"""0 and 1 tie, three to two: λ = 2 · 0.6 · 0.4, and the edge is 25/6."""

LATE = [[0, 1, 2], [0, 1, 2, 2]], [0, 1]


@pytest.mark.parametrize("step_size", [4.2, 5.0])
def test_the_expansion_promises_nothing_beyond_the_edge(step_size):
    contexts, labels = TIED
    samples = at.Samples.from_lists(contexts, labels)
    expansion = at.expand(at.learn(samples), samples, step_size=step_size)
    assert expansion.edge.largest == pytest.approx(25 / 6, rel=1e-9)
    last, before = descend(contexts, labels, np.eye(3), step_size, 3000)
    assert np.linalg.norm(last - before) > 0.1  # descent jumps to and fro
    assert expansion.error_at(1e5) == np.inf
    assert "beyond the edge of stability" in expansion.caveat


def test_with_longer_embeddings_the_edge_comes_earlier():
    contexts, labels = TIED
    samples, table = at.Samples.from_lists(contexts, labels), 2 * np.eye(3)
    auto = at.learn(samples, embeddings=table)
    assert at.expand(auto, samples, step_size=0.25, embeddings=table).edge.largest == pytest.approx(25 / 96)
    assert np.isfinite(at.expand(auto, samples, step_size=0.25, embeddings=table).error_at(1e5))
    assert at.expand(auto, samples, step_size=0.2612, embeddings=table).error_at(1e5) == np.inf
    assert at.fast_forward(samples, step_size=0.2612, embeddings=table, to=1e5).error_at(1e5) == np.inf


def test_instability_that_begins_after_the_warm_up_is_seen():
    contexts, labels = LATE
    samples = at.Samples.from_lists(contexts, labels)
    trajectory = at.fast_forward(samples, step_size=4.04, to=1e5)
    last, before = descend(contexts, labels, np.eye(3), 4.04, 30_000)
    assert np.linalg.norm(last - before) > 0.1
    assert trajectory.error_at(30_000) == np.inf
    assert trajectory.edge.passed
    assert "beyond the edge" in trajectory.caveat


@pytest.mark.slow  # campaign
def test_below_the_edge_the_error_covers():
    contexts, labels = LATE
    samples = at.Samples.from_lists(contexts, labels)
    for step_size in (0.01, 1.0, 3.9, 3.99):
        trajectory = at.fast_forward(samples, step_size=step_size, to=1e5)
        expansion = at.expand(at.learn(samples), samples, step_size=step_size)
        last, _ = descend(contexts, labels, np.eye(3), step_size, 20_000)
        for path in (trajectory, expansion):
            missed = np.linalg.norm(path.weights_at(20_000).toarray() - last)
            assert missed <= path.error_at(20_000) + 1e-9, (step_size, path)
        assert trajectory.caveat == ""
        assert trajectory.error_at(20_000) < 1e-2


@given(realisable_sets(), vectors(36), st.floats(0.1, 3.0))
def test_curvature_is_that_of_its_definition(samples, drawn, spread):
    """Bounds are above the largest eigenvalue, exact where asked, and the rough one above all."""
    loss = training_loss(samples, at.find_components(at.extract_edges(samples)))
    problem = loss.problem
    scores = spread * drawn[: problem.n_alternatives]
    probabilities = problem.probabilities(scores)
    found = bound_curvatures(problem, probabilities, problem.component, enough=0.0)
    rough = bound_curvatures(problem, probabilities, problem.component, enough=np.inf)
    for block in range(problem.n_components):
        rows = np.flatnonzero(problem.component == block)
        dense = problem.curvature_of(probabilities, np.eye(problem.n_alternatives)[:, rows])[rows]
        largest = np.linalg.eigvalsh(dense)[-1] if len(rows) else 0.0
        assert found[block] == pytest.approx(largest, abs=1e-9 * problem.count.sum())
        assert rough[block] >= largest - 1e-9
    assert bound_sharpness(loss) * loss.n_samples >= found.max(initial=0.0) - 1e-9


@given(realisable_sets())
def test_the_edge_is_the_same_with_the_identity_as_embeddings(samples):
    auto = at.learn(samples)
    plain = at.fast_forward(samples, to=1.0).edge
    given_ = at.fast_forward(samples, embeddings=np.eye(samples.n_tokens), to=1.0).edge
    assert plain.sharpness == pytest.approx(given_.sharpness, rel=1e-6, abs=1e-12)
    soft = auto.soft.scores.column("score").to_numpy()
    known = find_edge(training_loss(samples, auto.components), 1.0, finite=soft)
    assert known.sharpness == pytest.approx(plain.sharpness, rel=1e-6, abs=1e-12)


def test_large_blocks_are_probed(monkeypatch):
    rng = np.random.default_rng(3)
    contexts = [[*rng.choice(40, 5, replace=False).tolist(), 0] for _ in range(200)]
    samples = at.Samples.from_lists(contexts, [context[rng.integers(5)] for context in contexts], n_tokens=40)
    loss = training_loss(samples, at.find_components(at.extract_edges(samples)))
    exact = find_edge(loss, 1.0).sharpness
    monkeypatch.setattr("attomaton.trajectory.sharpness.DENSE_ALTERNATIVES", 3)
    probed = find_edge(loss, 1.0).sharpness
    assert exact <= probed * (1 + 1e-9)
    assert probed == pytest.approx(exact, rel=1e-4)
