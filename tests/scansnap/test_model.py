"""The Y/Z model: counts against sequences, steps against torch's own, training against the flow."""

import numpy as np
import pytest

from attomaton.scansnap.classes import draw_linear_classes
from attomaton.scansnap.draws import draw_counts, draw_sequences
from attomaton.scansnap.flow import solve_flow
from attomaton.scansnap.law import Rates
from attomaton.scansnap.reduced import Reduced

torch = pytest.importorskip("torch")

from attomaton.scansnap.model.descend import Setup  # noqa: E402
from attomaton.scansnap.model.forward import logits_of_counts, logits_of_sequences  # noqa: E402
from attomaton.scansnap.model.stack import train_stack  # noqa: E402
from attomaton.scansnap.model.steps import Adam, Momentum  # noqa: E402
from attomaton.scansnap.model.train import train_classes  # noqa: E402


@pytest.mark.parametrize("normalize", [True, False])
def test_counts_and_sequences_give_the_same_logits(normalize):
    rng = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 7, (5, 12), generator=rng)
    decoder, scores = torch.randn(2, 7, 7, generator=rng, dtype=torch.float64)
    slow = logits_of_sequences([decoder[None]], [scores[None]], tokens[None], normalize=normalize)[0]
    counts = torch.stack([torch.bincount(row[:-1], minlength=7) for row in tokens]).double()
    queries = tokens[None, :, -1]
    fast = logits_of_counts(decoder[None], scores[None], counts[None], queries, normalize=normalize)
    torch.testing.assert_close(fast[0], slow)


def test_layers_and_the_residual():
    """Two layers by hand on one sequence; the residual adds the query itself."""
    rng = torch.Generator().manual_seed(1)
    first, second, third, fourth = torch.randn(4, 4, 4, generator=rng, dtype=torch.float64)
    tokens = torch.tensor([[0, 2, 1]])

    def layer(hidden, scores, decoder, *, residual):
        rows = []
        for place in range(3):
            keys = hidden[: max(place, 1)]
            weights = torch.softmax(keys @ (hidden[place] @ scores), dim=0)
            mixed = weights @ keys + residual * hidden[place]
            rows.append(mixed / mixed.norm() @ decoder)
        return torch.stack(rows)

    for residual in (False, True):
        hidden = layer(torch.eye(4, dtype=torch.float64)[tokens[0]], first, second, residual=residual)
        wanted = layer(torch.relu(hidden), third, fourth, residual=residual)[-1]
        found = logits_of_sequences(
            [second[None], fourth[None]], [first[None], third[None]], tokens[None], residual=residual
        )
        torch.testing.assert_close(found[0, 0], wanted)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Momentum(0.9), lambda weights: torch.optim.SGD([weights], lr=0.3, momentum=0.9)),
        (Adam(), lambda weights: torch.optim.Adam([weights], lr=0.3)),
    ],
)
def test_steps_are_those_of_torch(ours, theirs):
    start = torch.randn(2, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    mine, other = start.clone(), start.clone().requires_grad_()
    state, optimiser = ours.start(mine), theirs(other)
    for _ in range(5):
        ours.move(mine, mine**3 - 1, torch.tensor(0.3, dtype=torch.float64), state)
        other.grad = other.detach() ** 3 - 1
        optimiser.step()
    torch.testing.assert_close(mine, other.detach())


def test_draws_follow_the_classes():
    reduced = Reduced(draw_linear_classes(2, classes_per_query=2))
    drawn = draw_counts(reduced, (4000,), 51, np.random.default_rng(0))
    assert (drawn.counts.sum(axis=1) == 50).all()
    for number in range(4):
        found = drawn.counts[drawn.classes == number].mean(axis=0) / 50
        np.testing.assert_allclose(found, reduced.law[number], atol=0.006)
        assert (found[reduced.law[number] == 0] == 0).all()


def test_a_trial_is_the_same_whatever_is_trained_beside_it():
    reduced, setup = Reduced(draw_linear_classes(2)), Setup(n_steps=5, batch_size=16, length=20)
    many = train_classes(reduced, np.array([[1.0, 1.0], [5.0, 1.0], [1.0, 3.0]]), setup, seed=4)
    few = train_classes(reduced, np.array([[1.0, 1.0], [5.0, 1.0]]), setup, seed=4)
    np.testing.assert_allclose(many.scores[:, :2], few.scores, rtol=1e-5, atol=1e-7)
    assert many.steps.tolist() == [0, 1, 2, 3, 4, 5]


def test_long_sequences_and_small_steps_follow_the_flow():
    reduced = Reduced(draw_linear_classes(2))
    setup = Setup(n_steps=200, batch_size=64, length=20_000, optimiser=Momentum(0.0), every=200)
    trained = train_classes(reduced, np.array([[0.1, 0.1]]), setup)
    told = solve_flow(reduced.classes, Rates(0.1, 0.1), [200.0])
    np.testing.assert_allclose(trained.losses[-1, 0], told.loss()[-1], rtol=0.05)
    np.testing.assert_allclose(trained.scores[-1, 0], told.scores[-1], atol=0.03 * told.scores[-1].max())


def test_a_random_start_has_the_width_of_a_linear_layer():
    reduced = Reduced(draw_linear_classes(2))
    setup = Setup(n_steps=1, batch_size=4, length=8, random_start=True)
    first = train_classes(reduced, np.ones((50, 2)), setup).scores[0]
    assert 0.95 / np.sqrt(34) < np.abs(first).max() <= 1 / np.sqrt(34)


def test_drawn_sequences_have_the_law_of_their_class():
    reduced = Reduced(draw_linear_classes(2, classes_per_query=2))
    number, tokens = draw_sequences(reduced, 4000, 51, np.random.default_rng(0))
    assert (tokens[:, -1] == reduced.classes.queries[number]).all()
    for one in range(4):
        found = np.bincount(tokens[number == one, :-1].ravel(), minlength=reduced.classes.n_tokens)
        np.testing.assert_allclose(found[reduced.used] / found.sum(), reduced.law[one], atol=0.006)


def test_one_layer_without_residual_trains_like_the_counts():
    """Other draws, so the same up to sampling; two layers with a residual learn too."""
    reduced = Reduced(draw_linear_classes(2, n_common=3, n_distinct=3))
    setup = Setup(n_steps=40, batch_size=64, length=24, random_start=True)
    rates = np.ones((6, 2))
    fast, slow = train_classes(reduced, rates, setup), train_stack(reduced, rates, setup)
    np.testing.assert_allclose(fast.losses[:5].mean(axis=1), slow.losses[:5].mean(axis=1), rtol=0.05)
    deep = train_stack(reduced, rates[:2], setup, n_layers=2, residual=True)
    assert deep.scores.shape == (41, 2, 2, 13, 13)
    assert deep.losses[-1].max() < 0.2 < deep.losses[0].min()
