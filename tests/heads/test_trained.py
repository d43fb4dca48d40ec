"""attomaton's own models are watched with the weights that training left."""

import numpy as np
import pytest
import torch

import attomaton as at
from attomaton.base.errors import MismatchedParts, UnknownToken, UnreadableModel, UnsupportedOption
from attomaton.heads.model import Head
from attomaton.heads.opening import open_model
from attomaton.heads.trained import watch_deep, watch_layer, watch_trace
from attomaton.training.models.attention import lay_out
from attomaton.training.models.deep import lay_out_sequences
from attomaton.training.models.heads import Untied


@pytest.mark.parametrize("head", ["token-id", "tied", "untied", "softmax"])
def test_the_theory_s_layer_attends_and_answers_as_it_was_trained(head):
    rng = np.random.default_rng(0)
    contexts = [list(rng.integers(0, 5, 6)) for _ in range(12)]
    samples = at.Samples.from_lists(contexts, [int(one[rng.integers(0, 6)]) for one in contexts], n_tokens=5)
    chosen = Untied(0.5) if head == "softmax" else head
    model = at.AttentionModel(np.eye(5) + 0.1, head=chosen)
    trace = at.train(samples, model, at.GradientDescent(0.5), steps=20)
    layer = watch_trace(trace)
    ids = np.array(contexts)
    seen = layer.watch(ids)
    trials = lay_out(trace.model, [samples], list(trace.embeddings))
    theirs = trials.attention(torch.as_tensor(trace.weights[-1]))[0]
    torch.testing.assert_close(seen.patterns[0][:, 0, -1], theirs)
    labels = torch.as_tensor(np.asarray(samples.labels, np.int64))
    right = seen.logits[:, -1].gather(1, labels[:, None])
    loss = -(right - (seen.logits[:, -1].logsumexp(-1, keepdim=True) if head == "softmax" else 0)).mean()
    assert abs(float(loss) - float(trace.losses[-1, 0])) < 1e-9
    scores = layer.score_tokens(Head(0, 0), np.arange(5), np.arange(5))
    np.testing.assert_allclose(scores, trace.embeddings[0] @ trace.weights[-1, 0] @ trace.embeddings[0].T)


@pytest.mark.parametrize("hidden", [None, 3])
@pytest.mark.parametrize("positions", [True, False])
def test_a_deep_model_is_watched_as_it_runs(hidden, positions):
    rng = np.random.default_rng(0)
    model = at.DeepModel(n_layers=2, n_heads=2, hidden=hidden, positions=positions, start=0.5)
    parameters = model.draw_start(4, 5, rng)
    watched = watch_deep(model, np.concatenate([one.ravel() for one in parameters]), 4, window=5)
    ids = rng.integers(0, 4, (3, 5))
    tensors = [torch.as_tensor(one)[None] for one in parameters]
    trials = lay_out_sequences(model, [rng.integers(0, 4, (3, 6))], n_tokens=4)
    held = trials.run(tensors, torch.as_tensor(ids)[None])[0]
    torch.testing.assert_close(watched.watch(ids).logits, held @ tensors[-1][0])


SEQUENCES = [np.array([[0, 1, 2, 1]]), np.array([[2, 1, 1, 0]])]
"""Of two trials."""


def test_traces_are_opened_at_any_recorded_step():
    trace = at.train_deep(SEQUENCES, at.DeepModel(n_layers=2), 0.5, steps=4)
    model = open_model(trace)
    assert model.name == "DeepModel, trial 0 at step 4"
    weights = trace.at(2)
    first = watch_trace(trace, step=2, trial=1)
    np.testing.assert_array_equal(
        first.score_tokens(Head(1, 0), np.arange(3), np.arange(3), lag=1),
        weights.attention[1, 1, 0].T + weights.positions[1, 1, 0, 1],
    )
    with pytest.raises(UnsupportedOption, match="trial is 2"):
        watch_trace(trace, trial=2)
    with pytest.raises((UnknownToken, UnsupportedOption)):
        watch_trace(trace, step=77)


def test_what_is_no_model_is_named():
    for given in (3, [1, 2], object()):
        with pytest.raises(UnreadableModel, match="cannot be read as a model"):
            open_model(given)
    with pytest.raises(UnsupportedOption, match="dtype"):
        open_model("x", dtype="int8")
    with pytest.raises(UnreadableModel, match="does not exist"):
        open_model("./a/b/c")
    with pytest.raises(MismatchedParts, match=r"give embeddings of shape .n_tokens, dim."):
        watch_layer(np.eye(3), np.eye(2))
    layer = watch_layer(np.eye(3), np.eye(3))
    assert open_model(layer) is layer
