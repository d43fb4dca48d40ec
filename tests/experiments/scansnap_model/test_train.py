"""The Y/Z model: counts against sequences, steps against torch's own, training against the flow."""

import numpy as np
import pytest

from attomaton.theories.scansnap.classes import draw_linear_classes
from attomaton.theories.scansnap.flow import solve_flow
from attomaton.theories.scansnap.law import Rates
from attomaton.theories.scansnap.reduced import ReducedCorpus
from attomaton_experiments.scansnap_model.draws import draw_counts

torch = pytest.importorskip("torch")

from attomaton.training.steps import Adam, GradientDescent  # noqa: E402
from attomaton_experiments.scansnap_model.forward import logits_of_counts, logits_of_sequences  # noqa: E402
from attomaton_experiments.scansnap_model.train import Setup, train_classes  # noqa: E402


@pytest.mark.parametrize("normalize", [True, False])
def test_counts_and_sequences_give_the_same_logits(normalize):
    rng = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 7, (5, 12), generator=rng)
    decoder, scores = torch.randn(2, 7, 7, generator=rng, dtype=torch.float64)
    slow = logits_of_sequences(decoder[None], scores[None], tokens[None], normalize=normalize)[0]
    counts = torch.stack([torch.bincount(row[:-1], minlength=7) for row in tokens]).double()
    queries = tokens[None, :, -1]
    fast = logits_of_counts(decoder[None], scores[None], counts[None], queries, normalize=normalize)
    torch.testing.assert_close(fast[0], slow)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (GradientDescent(1.0, momentum=0.9), lambda groups: torch.optim.SGD(groups, momentum=0.9)),
        (Adam(1.0), torch.optim.Adam),
    ],
)
def test_each_trial_takes_the_steps_of_torch_at_its_own_rates(ours, theirs):
    reduced, rates = ReducedCorpus(draw_linear_classes(2)), np.array([[0.3, 0.1], [0.02, 0.2]])
    setup = Setup(n_steps=6, batch_size=8, length=40, optimiser=ours, random_start=True)
    trained = train_classes(reduced, rates, setup, seed=5)
    for trial, child in enumerate(np.random.SeedSequence(5).spawn(2)):
        rng = np.random.default_rng(child)
        size = reduced.classes.n_tokens
        starts = [rng.uniform(-(size**-0.5), size**-0.5, one) for one in ((30, size), reduced.shapes[1])]
        weights = [torch.tensor(one[None], dtype=torch.float32, requires_grad=True) for one in starts]
        optimiser = theirs(
            [{"params": [one], "lr": rate} for one, rate in zip(weights, rates[trial], strict=True)]
        )
        for step in range(6):
            found = trained.scores[step, trial]
            np.testing.assert_allclose(found, weights[1].detach().numpy()[0], rtol=1e-4, atol=1e-6)
            drawn = draw_counts(reduced, (8,), 40, rng)
            counts = torch.tensor(drawn.counts[None], dtype=torch.float32)
            queries = torch.tensor(reduced.query_index[drawn.classes][None])
            labels = torch.tensor(reduced.classes.labels[drawn.classes].astype(np.int64))
            loss = torch.nn.functional.cross_entropy(logits_of_counts(*weights, counts, queries)[0], labels)
            np.testing.assert_allclose(trained.losses[step, trial], loss.item(), rtol=1e-5)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def test_draws_follow_the_classes():
    reduced = ReducedCorpus(draw_linear_classes(2, classes_per_query=2))
    drawn = draw_counts(reduced, (4000,), 51, np.random.default_rng(0))
    assert (drawn.counts.sum(axis=1) == 50).all()
    for number in range(4):
        found = drawn.counts[drawn.classes == number].mean(axis=0) / 50
        np.testing.assert_allclose(found, reduced.probabilities[number], atol=0.006)
        assert (found[reduced.probabilities[number] == 0] == 0).all()


def test_a_trial_is_the_same_whatever_is_trained_beside_it():
    reduced, setup = ReducedCorpus(draw_linear_classes(2)), Setup(n_steps=5, batch_size=16, length=20)
    many = train_classes(reduced, np.array([[1.0, 1.0], [5.0, 1.0], [1.0, 3.0]]), setup, seed=4)
    few = train_classes(reduced, np.array([[1.0, 1.0], [5.0, 1.0]]), setup, seed=4)
    np.testing.assert_allclose(many.scores[:, :2], few.scores, rtol=1e-5, atol=1e-7)
    assert many.steps.tolist() == [0, 1, 2, 3, 4, 5]


def test_long_sequences_and_small_steps_follow_the_flow():
    reduced = ReducedCorpus(draw_linear_classes(2))
    setup = Setup(n_steps=200, batch_size=64, length=20_000, optimiser=GradientDescent(1.0), every=200)
    trained = train_classes(reduced, np.array([[0.1, 0.1]]), setup)
    told = solve_flow(reduced.classes, Rates(0.1, 0.1), [200.0])
    np.testing.assert_allclose(trained.losses[-1, 0], told.loss()[-1], rtol=0.05)
    np.testing.assert_allclose(trained.scores[-1, 0], told.scores[-1], atol=0.03 * told.scores[-1].max())


def test_a_random_start_has_the_width_of_a_linear_layer():
    reduced = ReducedCorpus(draw_linear_classes(2))
    setup = Setup(n_steps=1, batch_size=4, length=8, random_start=True)
    first = train_classes(reduced, np.ones((50, 2)), setup).scores[0]
    assert 0.95 / np.sqrt(34) < np.abs(first).max() <= 1 / np.sqrt(34)
