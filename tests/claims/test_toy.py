"""The toy case of the authors' code: contexts of different lengths, one query, and a chosen W(0)."""

from dataclasses import dataclass

import numpy as np
import pytest

import attomaton as at
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import Orthonormal
from attomaton.training.steps import GradientDescent

SCORES = np.array([-1.5, 0.0, 1.5, 0.5, -0.5])
LEAST = np.array([-0.8, 0.2, 1.2, 0.2, -0.8])  # by hand: four margins are tight, and the sum is 0


@dataclass(frozen=True)
class ChosenStart(AttentionModel):
    """W(0) = start · Σ α_i e_i e_0ᵀ, e_i the unit vectors; negative if ``turned``."""

    turned: bool = False

    def draw_start(self, dim, _):
        return (np.outer((-1.0) ** self.turned * self.start * SCORES, np.eye(dim)[0]),)


@pytest.mark.parametrize(("start", "turned"), [(10.0, False), (0.7, False), (2.0, True)])
def test_descent_from_a_chosen_start_ends_along_the_graph_svm(start, turned):
    """The labels are those with the margins that the authors print; theirs are not in their contexts."""
    samples = at.Samples.from_lists([[1, 0], [2, 3, 0], [3, 4, 0]], [1, 2, 3])
    automaton = at.learn(samples)
    scores = {row["token"]: row["score"] for row in automaton.hard.scores.to_pylist()}
    np.testing.assert_allclose([scores[token] for token in range(5)], LEAST, atol=1e-9)
    margins = [SCORES[1] - SCORES[0], SCORES[2] - SCORES[3], SCORES[3] - SCORES[4], SCORES[3] - SCORES[0]]
    assert min(margins) >= 1.0
    model = ChosenStart(Orthonormal(), start=start, turned=turned)
    trace = at.train(samples, model, GradientDescent(0.02, normalized=True), steps=8000)
    np.testing.assert_allclose(trace.weights[0, 0, :, 0], (-1) ** turned * start * SCORES)
    reached = trace.weights[:, 0, :, 0]
    assert np.abs(trace.weights[..., 1:]).max() < 1e-12
    along = reached @ LEAST / np.linalg.norm(reached, axis=1) / np.linalg.norm(LEAST)
    assert along[-1] > 0.99
    assert along[-1] >= along[0]
