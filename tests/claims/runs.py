"""Training runs of the published settings, small, each made once."""

from functools import cache

import numpy as np

import attomaton as at
from attomaton.training.loop import train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import Orthonormal, RandomUnit
from attomaton.training.models.heads import Untied
from attomaton.training.models.losses import SquaredLoss
from attomaton.training.steps import GradientDescent


def draws(n_trials, *, seed=1, draw=at.synthetic.draw_cyclic):
    """Corpora of six samples over six tokens, contexts of four."""
    return [draw(np.random.default_rng([seed, trial])) for trial in range(n_trials)]


@cache
def global_run(n_trials=5):
    """Published: log-loss, token-id head, normalised steps of 0.01."""
    model = AttentionModel(RandomUnit(8), start=1.0)
    return train(draws(n_trials), model, GradientDescent(0.01, normalized=True), steps=4000)


@cache
def local_run(n_trials=10):
    """Published: squared loss of a softmax head C = E, normalised steps of 0.1."""
    model = AttentionModel(RandomUnit(8), head=Untied(1.0), loss=SquaredLoss(), start=1.0)
    return train(
        draws(n_trials, draw=at.synthetic.draw_random),
        model,
        GradientDescent(0.1, normalized=True),
        steps=2000,
    )


@cache
def plain_run():
    """Plain descent from zero, orthonormal embeddings."""
    return train(draws(4), AttentionModel(Orthonormal()), GradientDescent(1.0), steps=20_000)
