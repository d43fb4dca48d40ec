"""Training with looked-up scores: the same path as the batched loop, records, mini-batches."""

from itertools import count

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import UnsupportedOption
from attomaton.graphs.bags import count_tokens
from attomaton.training.loop import Watch, train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import Orthonormal
from attomaton.training.steps import Adam, GradientDescent
from attomaton_experiments.lookup.lookup import find_pairs
from attomaton_experiments.lookup.parametrisations import Dense, Factored, PerQuery, Shared
from attomaton_experiments.lookup.training import AtSeconds, AtSteps, LookupTraining
from tests.drawn import paper_draw

STEPS = [GradientDescent(0.5), GradientDescent(0.1, normalized=True, momentum=0.5), Adam(0.05)]


def run(training, samples, records):
    """The records, with the scores as numbers by pair."""
    bags = count_tokens(samples)
    held = []
    moments = training.run(
        bags,
        find_pairs([bags]),
        records=records,
        measure=lambda s: held.append(s.copy()) or {"most": s.max()},
    )
    return moments, np.array(held)


@pytest.mark.parametrize("step", STEPS, ids=str)
@pytest.mark.parametrize("parametrisation", [Dense(), PerQuery()], ids=str)
def test_the_path_is_that_of_the_batched_loop(parametrisation, step):
    samples = paper_draw(3, n_tokens=5, n_samples=12, repeats=True)
    moments, scores = run(LookupTraining(parametrisation, step), samples, AtSteps((0, 1, 40)))
    trace = train(samples, AttentionModel(Orthonormal()), step, steps=40, watch=Watch(every=1))
    pairs = find_pairs([count_tokens(samples)])
    for moment, found in zip(moments, scores, strict=True):
        np.testing.assert_allclose(found, trace.at(moment.step)[0][pairs.token, pairs.query], atol=1e-10)


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_single_precision_takes_the_same_path(step):
    samples = paper_draw(3, n_tokens=5, n_samples=12, repeats=True)
    _, double = run(LookupTraining(PerQuery(), step), samples, AtSteps((0, 1, 40)))
    _, single = run(LookupTraining(PerQuery(), step, single=True), samples, AtSteps((0, 1, 40)))
    np.testing.assert_allclose(single, double, atol=1e-4)


@pytest.mark.parametrize("parametrisation", [Dense(), PerQuery(), Shared(), Factored(3)], ids=str)
def test_mini_batches_learn_and_the_seed_decides(parametrisation):
    samples = at.synthetic.draw_cyclic(np.random.default_rng(1), n_tokens=6, n_samples=40, window=4)
    bags = count_tokens(samples)
    pairs = find_pairs([bags])
    runs = [
        run(LookupTraining(parametrisation, Adam(0.1), 16, seed=seed), samples, AtSteps((0, 3, 90)))
        for seed in (0, 0, 1)
    ]
    assert [one.step for one in runs[0][0]] == [0, 3, 90]
    assert runs[0][0][1].epochs == 1.0  # 16 + 16 + 8 samples
    assert np.array_equal(runs[0][1], runs[1][1])
    assert not np.array_equal(runs[0][1][-1], runs[2][1][-1])
    place = pairs.find(bags)
    own = bags.token == bags.samples.labels[bags.sample]
    first, last = (one[place][own].mean() - one[place].mean() for one in (runs[0][1][0], runs[0][1][-1]))
    assert last > first + 0.5  # labels have gained on the rest


def test_records_by_time_leave_measuring_out():
    ticks = count()
    training = LookupTraining(PerQuery(), GradientDescent(1.0), clock=lambda: float(next(ticks)))
    moments, _ = run(training, paper_draw(0), AtSeconds((0.0, 5.0, 20.0)))
    assert len(moments) == 3
    assert [one.seconds >= due for one, due in zip(moments, (0.0, 5.0, 20.0), strict=True)] == [True] * 3
    assert moments[-1].seconds < 24.0
    assert moments[-1].measured["most"] > 0


def test_a_step_longer_than_the_wait_is_recorded_once():
    ticks = count(step=10)
    training = LookupTraining(PerQuery(), GradientDescent(1.0), clock=lambda: float(next(ticks)))
    moments, held = run(training, paper_draw(0), AtSeconds((0.0, 1.0, 2.0, 3.0)))
    assert len(moments) == len(held) <= 2


def test_an_empty_batch_is_refused():
    with pytest.raises(UnsupportedOption, match="batch_size"):
        LookupTraining(PerQuery(), Adam(0.1), 0)
