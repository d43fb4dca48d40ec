"""Steps beyond the edge of stability are said before a run starts."""

import time
import warnings

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import StepBeyondEdge
from attomaton.training.loop import Watch, describe_unstable, train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import EmbeddingTable, Orthonormal, RandomUnit
from attomaton.training.models.heads import Tied, Untied
from attomaton.training.models.losses import SquaredLoss
from attomaton.training.steps import Adam, GradientDescent
from attomaton.trajectory import sharpness
from tests.claims.campaign import draw_samples, find_curvature

TIES = at.Samples.from_lists([[0, 1, 2]] * 5, [0, 0, 0, 1, 1])
EASY = at.Samples.from_lists([[0, 1, 2]], [0])


def test_the_warning_comes_first_and_names_the_edge():
    seen = []
    watch = Watch([lambda step, _: seen.append(step)], stop=lambda *_: pytest.fail("it was not raised"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(StepBeyondEdge, match=r"step size 5 is beyond .* 4\.16667.*below 4\.16667"):
            train(TIES, AttentionModel(Orthonormal()), GradientDescent(5.0), steps=10, watch=watch)
    assert seen == []


def test_the_trial_with_the_lowest_edge_is_named():
    with pytest.warns(StepBeyondEdge, match=r"\(trial 1; 1 of 2 trials are beyond their edge\)"):
        train([EASY, TIES], AttentionModel(Orthonormal()), GradientDescent(5.0), steps=1)


@pytest.mark.parametrize("head", ["id", "tied"])
def test_both_sides_of_the_edge_of_drawn_problems(head):
    for number in range(12):
        rng = np.random.default_rng([5, number])
        samples = draw_samples(rng, cyclic=True)
        table = (
            rng.normal(size=(samples.n_tokens, samples.n_tokens + 2))
            if number % 3
            else np.eye(samples.n_tokens)
        )
        edge = 2.0 / find_curvature(samples, table)
        model = AttentionModel(EmbeddingTable(table), **({"head": Tied()} if head == "tied" else {}))
        told = [
            describe_unstable(model, GradientDescent(share * edge), [samples], [table])
            for share in (0.999, 1.001)
        ]
        assert told[0] == ""
        assert "beyond the edge" in told[1]


@pytest.mark.parametrize(
    ("model", "step"),
    [
        (AttentionModel(Orthonormal()), GradientDescent(4.1)),
        (AttentionModel(Orthonormal()), GradientDescent(50.0, normalized=True)),
        (AttentionModel(Orthonormal()), GradientDescent(50.0, momentum=0.5)),
        (AttentionModel(Orthonormal()), GradientDescent(50.0, schedule=lambda _: 0.01)),
        (AttentionModel(Orthonormal()), Adam(50.0)),
        (AttentionModel(Orthonormal(), loss=SquaredLoss()), GradientDescent(50.0)),
        (AttentionModel(Orthonormal(), head=Untied(1.0)), GradientDescent(50.0)),
        (AttentionModel(Orthonormal(), rank=2, start=1.0), GradientDescent(50.0)),
    ],
)
def test_what_has_no_known_edge_or_is_below_it_is_not_warned_of(model, step):
    assert describe_unstable(model, step, [TIES], [np.eye(3)]) == ""
    assert describe_unstable(AttentionModel(), GradientDescent(4.2), [TIES], [np.eye(3)])


def test_ordinary_runs_look_at_lengths_only(monkeypatch):
    def refuse(*_):
        raise AssertionError("the samples were looked at")

    monkeypatch.setattr(sharpness, "extract_edges", refuse)
    monkeypatch.setattr(sharpness, "training_loss", refuse)
    for embeddings, size in ((Orthonormal(), 3.99), (RandomUnit(5), 1.99)):
        train(TIES, AttentionModel(embeddings), GradientDescent(size), steps=1, trials=3)
    with pytest.raises(AssertionError, match="looked at"):
        train(TIES, AttentionModel(Orthonormal()), GradientDescent(4.01), steps=1)


@pytest.mark.timing
def test_a_thousand_trials_are_cleared_in_a_twentieth_of_a_second():
    tables = [np.random.default_rng(number).normal(size=(8, 8)) / 4 for number in range(1000)]
    begun = time.perf_counter()
    assert not list(sharpness.find_passed([TIES] * 1000, tables, 0.01))
    assert time.perf_counter() - begun < 0.05
