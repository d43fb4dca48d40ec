"""The loop: steps against their definitions, trials that do not see each other, stops and callbacks."""

import numpy as np
import pytest
import torch

import attomaton as at
from attomaton.base.errors import UnsupportedOption
from attomaton.training.loop import Watch, train
from attomaton.training.models.attention import AttentionModel, combine_factors, lay_out
from attomaton.training.models.embeddings import EmbeddingTable, Orthonormal, RandomUnit
from attomaton.training.models.heads import Untied
from attomaton.training.models.losses import SquaredLoss
from attomaton.training.steps import Adam, GradientDescent
from tests.drawn import embeddings_for, paper_draw
from tests.trajectory.definition import descend_by_definition

STEPS = [
    GradientDescent(0.3),
    GradientDescent(0.05, normalized=True),
    GradientDescent(0.1, momentum=0.9),
    Adam(0.02),
]


def weights_of(trace):
    return trace.weights[-1]


@pytest.mark.parametrize("seed", range(4))
def test_gradient_descent_is_the_definition(seed):
    samples, table = paper_draw(seed, repeats=True), embeddings_for(seed, 6, 8)
    trace = train(
        samples,
        AttentionModel(EmbeddingTable(table)),
        GradientDescent(0.7),
        steps=300,
        watch=Watch(every=100),
    )
    assert trace.steps.tolist() == [0, 100, 200, 300]
    for step in trace.steps.tolist():
        expected = descend_by_definition(samples, table, step_size=0.7, n_steps=step)
        np.testing.assert_allclose(trace.at(step)[0], expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize(
    ("step", "optimizer"),
    [
        (GradientDescent(0.3), lambda one: torch.optim.SGD(one, 0.3)),
        (GradientDescent(0.1, momentum=0.9), lambda one: torch.optim.SGD(one, 0.1, momentum=0.9)),
        (Adam(0.02), lambda one: torch.optim.Adam(one, 0.02)),
        (Adam(0.1, (0.5, 0.9), 1e-3), lambda one: torch.optim.Adam(one, 0.1, (0.5, 0.9), 1e-3)),
    ],
)
def test_steps_are_those_of_torch(step, optimizer, rank):
    corpora = [
        paper_draw(seed, n_tokens=5, n_samples=3 + seed, window=2 + seed, repeats=True) for seed in range(3)
    ]
    model = AttentionModel(RandomUnit(6), start=1.0, rank=rank)
    trace = train(corpora, model, step, steps=60, watch=Watch(every=1))
    rngs = [np.random.default_rng([0, number]) for number in range(3)]
    tables = [model.embeddings.draw(5, rng) for rng in rngs]
    np.testing.assert_array_equal(trace.embeddings, np.stack(tables))
    starts = zip(*(model.draw_start(6, rng) for rng in rngs), strict=True)
    parameters = tuple(torch.tensor(np.stack(part), requires_grad=True) for part in starts)
    batch, own = lay_out(model, corpora, tables), optimizer(parameters)
    for weights in trace.weights:
        np.testing.assert_allclose(weights, combine_factors(parameters).detach().numpy(), atol=1e-11, rtol=0)
        own.zero_grad()
        batch.loss(combine_factors(parameters)).sum().backward()
        own.step()


@pytest.mark.parametrize("step", STEPS, ids=str)
@pytest.mark.parametrize(
    "model",
    [
        AttentionModel(RandomUnit(8), start=1.0),
        AttentionModel(RandomUnit(8), start=1.0, rank=2),
        AttentionModel(RandomUnit(8), Untied(1.0), SquaredLoss(), start=1.0),
    ],
    ids=["whole", "factored", "softmax head"],
)
def test_a_trial_is_the_same_alone_and_among_others(model, step):
    corpora = [paper_draw(seed, n_samples=5 + seed % 4, window=3 + seed % 2) for seed in range(12)]
    together = train(corpora, model, step, steps=200, watch=Watch(every=50))
    fewer = train(corpora[:5], model, step, steps=200, watch=Watch(every=50))
    np.testing.assert_allclose(together.weights[:, :5], fewer.weights, atol=1e-12, rtol=0)
    first = train(corpora[0], model, step, steps=200, watch=Watch(every=50))
    np.testing.assert_allclose(together.weights[:, :1], first.weights, atol=1e-12, rtol=0)
    np.testing.assert_allclose(together.losses[:, :1], first.losses, atol=1e-12, rtol=0)


def test_one_corpus_serves_many_trials_that_differ_by_their_draws():
    trace = train(
        paper_draw(0), AttentionModel(RandomUnit(8), start=1.0), GradientDescent(0.1), steps=5, trials=4
    )
    assert trace.weights.shape == (6, 4, 8, 8)
    assert len({weights.tobytes() for weights in trace.weights[0]}) == 4
    with pytest.raises(UnsupportedOption, match="2 corpora, but trials is 3"):
        train([paper_draw(0)] * 2, AttentionModel(), GradientDescent(0.1), steps=1, trials=3)


@pytest.mark.parametrize("rank", [None, 2])
def test_normalised_steps_have_the_length_of_the_step(rank):
    model = AttentionModel(RandomUnit(8), start=1.0, rank=rank)
    corpora = [paper_draw(seed) for seed in range(3)]
    tables, factors = [], []
    for number in range(3):
        rng = np.random.default_rng([0, number])
        tables.append(model.embeddings.draw(6, rng))
        factors.append(model.draw_start(8, rng))
    parameters = tuple(torch.tensor(np.stack(part)) for part in zip(*factors, strict=True))
    gradients = tuple(torch.randn_like(one) for one in parameters)
    moved, _ = GradientDescent(0.25, normalized=True).move(parameters, gradients, (), 0)
    length = sum(((new - old) ** 2).sum((1, 2)) for new, old in zip(moved, parameters, strict=True)).sqrt()
    np.testing.assert_allclose(length.numpy(), 0.25)
    trace = train(corpora, model, GradientDescent(0.25, normalized=True), steps=3, watch=Watch(every=1))
    if rank is None:
        steps = np.linalg.norm(np.diff(trace.weights, axis=0), axis=(2, 3))
        np.testing.assert_allclose(steps, 0.25)


def test_a_schedule_scales_each_step():
    corpus, model = paper_draw(3), AttentionModel(Orthonormal())
    halved = GradientDescent(1.0, normalized=True, schedule=lambda step: 0.5**step)
    trace = train(corpus, model, halved, steps=6, watch=Watch(every=1))
    lengths = np.linalg.norm(np.diff(trace.weights[:, 0], axis=0), axis=(1, 2))
    np.testing.assert_allclose(lengths, 0.5 ** np.arange(6))


def test_callbacks_see_every_record_and_stop_ends_the_run():
    seen = []
    watch = Watch(
        [lambda step, losses: seen.append((step, losses.tolist()))], lambda step, _: step >= 20, every=10
    )
    trace = train(paper_draw(0), AttentionModel(), GradientDescent(1.0), steps=100, watch=watch, trials=2)
    assert trace.steps.tolist() == [0, 10, 20]
    assert seen == [(step, losses.tolist()) for step, losses in zip(trace.steps, trace.losses, strict=True)]
    low = Watch(stop=lambda _, losses: bool(losses.max() < 0.05), every=1)
    easy = at.Samples.from_lists([[0, 1], [1, 0]], [0, 1])
    stopped = train(easy, AttentionModel(Orthonormal()), GradientDescent(1.0), steps=10_000, watch=low)
    assert stopped.losses[-1] < 0.05 <= stopped.losses[-2]
    assert stopped.steps[-1] < 100


def test_an_option_that_is_none_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'every'"):
        train(paper_draw(0), AttentionModel(), GradientDescent(1.0), steps=100, every=10)


def test_the_number_of_threads_is_as_before():
    before = torch.get_num_threads()
    inside = []
    watch = Watch([lambda *_: inside.append(torch.get_num_threads())])
    train(paper_draw(0), AttentionModel(), GradientDescent(1.0), steps=1, watch=watch)
    assert set(inside) == {1}
    assert torch.get_num_threads() == before


def test_normalised_steps_go_on_when_gradients_are_tiny():
    """Squares of e^−400 vanish; the direction of such a gradient does not."""
    trace = train(
        at.Samples.from_lists([[0, 1]], [0]),
        AttentionModel(Orthonormal()),
        GradientDescent(1.0, normalized=True),
        steps=400,
    )
    np.testing.assert_allclose(np.linalg.norm(trace.weights[-1, 0]), 400.0)
