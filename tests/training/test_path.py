import numpy as np
import pytest
import torch

import attomaton as at
from attomaton.training.frames import minimise_in_span
from attomaton.training.models.attention import AttentionModel, lay_out
from attomaton.training.models.heads import Tied, TokenId, Untied
from attomaton.training.models.losses import CorrelationLoss, LogLoss, SquaredLoss
from attomaton.training.path import trace_path
from tests.drawn import embeddings_for, learn_parts

TRIALS = range(4)
LEVELS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])


def draws(draw):
    corpora = [draw(np.random.default_rng([1, trial])) for trial in TRIALS]
    tables = [embeddings_for(trial, 6, 8) for trial in TRIALS]
    return corpora, tables, [learn_parts(*pair)[1:] for pair in zip(corpora, tables, strict=True)]


def tangents(weights, direction):
    along = np.sum(weights * direction, axis=(2, 3)) / np.linalg.norm(direction, axis=(1, 2))
    return np.sqrt(np.maximum(np.linalg.norm(weights, axis=(2, 3)) ** 2 - along**2, 0.0)) / along


@pytest.mark.parametrize("loss", [LogLoss(), SquaredLoss(), CorrelationLoss()])
def test_direction_tends_to_the_graph_svm_for_every_decreasing_loss_on_acyclic_data(loss):
    corpora, tables, parts = draws(at.synthetic.draw_acyclic)
    hard = np.stack([part[0].weights for part in parts])
    radii = LEVELS[:, None] * np.linalg.norm(hard, axis=(1, 2))
    path = trace_path(corpora, AttentionModel(loss=loss), tables, radii=radii)
    angle = tangents(path.weights, hard)
    assert (angle[-1] < 0.12).all()
    assert (angle[-1] < 0.75 * angle[-2]).all()
    np.testing.assert_allclose(np.linalg.norm(path.weights, axis=(2, 3)), radii)
    assert (path.left < 1e-5).all()


def test_with_cycles_only_log_loss_keeps_the_direction():
    corpora, tables, parts = draws(at.synthetic.draw_cyclic)
    hard = np.stack([part[0].weights for part in parts])
    radii = LEVELS[:, None] * np.linalg.norm(hard, axis=(1, 2))
    convex = tangents(trace_path(corpora, AttentionModel(), tables, radii=radii).weights, hard)
    assert (convex[-1] < 0.15).all()
    other = trace_path(corpora, AttentionModel(loss=CorrelationLoss()), tables, radii=radii)
    assert (tangents(other.weights, hard)[-1] > 0.15).any()


def test_no_point_of_the_ball_is_better():
    corpora, tables, _ = draws(at.synthetic.draw_cyclic)
    path = trace_path(corpora, AttentionModel(), tables, radii=[3.0])
    batch = lay_out(AttentionModel(), corpora, tables)
    rng = np.random.default_rng(0)
    for size in (0.01, 0.3, 3.0):
        tried = path.weights[0] + size * rng.normal(size=path.weights[0].shape)
        tried *= 3.0 / np.linalg.norm(tried, axis=(1, 2), keepdims=True)
        assert (batch.loss(torch.as_tensor(tried)).numpy() >= path.losses[0] - 1e-12).all()


@pytest.mark.parametrize("radii", [[], [0.0], [2.0, 1.0], [1.0, np.inf]])
def test_radii_must_rise(radii):
    corpora, tables, _ = draws(at.synthetic.draw_cyclic)
    with pytest.raises(at.AttomatonError, match="radii"):
        trace_path(corpora, AttentionModel(), tables, radii=radii)


@pytest.mark.parametrize("head", [TokenId(), Tied(), Untied(), Untied(0.7)])
@pytest.mark.parametrize("loss", [LogLoss(), SquaredLoss(), CorrelationLoss()])
def test_curvature_is_the_derivative_of_the_gradient(head, loss):
    corpora, tables, _ = draws(at.synthetic.draw_random)
    if isinstance(loss, LogLoss) and head == Untied():
        loss = SquaredLoss()  # e_y·f may be negative
    batch = lay_out(AttentionModel(head=head, loss=loss), corpora, tables)
    rng = np.random.default_rng(0)
    weights, move = (torch.as_tensor(rng.normal(size=(len(corpora), 8, 8))) for _ in range(2))
    bent = (batch.hessian(weights) @ move.flatten(1)[..., None])[..., 0]
    around = [batch.gradient(weights + sign * 1e-5 * move)[0].flatten(1) for sign in (1, -1)]
    np.testing.assert_allclose(bent, (around[0] - around[1]) / 2e-5, atol=1e-8)


def test_gradients_keep_their_digits_where_attention_is_all_on_one_token():
    """1 − p = e^−200 is far below rounding; its share of the gradient is not lost."""
    batch = lay_out(AttentionModel(), [at.Samples.from_lists([[0, 1]], [0])], [np.eye(2)])
    weights = torch.tensor([[[0.0, 100.0], [0.0, -100.0]]], dtype=torch.float64)
    gradient = batch.gradient(weights)[0][0].numpy()
    np.testing.assert_allclose(gradient[:, 1], [-np.exp(-200.0), np.exp(-200.0)], rtol=1e-12)


def test_the_finite_part_of_log_loss_is_the_luce_choice():
    from attomaton.trajectory.basis import find_basis

    corpora, tables, parts = draws(at.synthetic.draw_cyclic)
    for corpus, table, (hard, soft) in zip(corpora, tables, parts, strict=True):
        basis = find_basis(hard.components, table)
        axes = np.stack([basis.weights(one).ravel() for one in np.eye(len(basis.axes))])[: basis.n_cyclic]
        axes *= basis.scale**2
        place = minimise_in_span(
            [corpus],
            AttentionModel(),
            [table],
            far=30.0 * hard.weights[None],
            axes=axes[None],
            start=np.zeros((1, len(axes))),
        )
        np.testing.assert_allclose(place[0] @ axes, soft.weights.ravel(), atol=1e-7)
