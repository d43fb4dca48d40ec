"""The deep model against its definition, position by position, in plain loops."""

import numpy as np
import pytest
import torch

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.training.models import deep
from attomaton.training.models.deep import DeepModel, lay_out_sequences


def softmax(scores):
    raised = np.exp(np.array(scores) - max(scores))
    return raised / raised.sum()


def loss_by_definition(model, parameters, sequences, n_tokens):
    """Mean of −ln p over all positions of all sequences, one row of one layer at a time."""
    total, count = 0.0, 0
    for sequence in sequences:
        held = [np.eye(n_tokens)[token] for token in sequence[:-1]]
        rest = list(parameters)
        for _ in range(model.n_layers):
            added = [row.copy() for row in held]
            for _ in range(model.n_heads):
                weights = rest.pop(0)
                lags = rest.pop(0)[0] if model.positions else np.zeros(len(held))
                values = rest.pop(0)
                for t, query in enumerate(held):
                    share = softmax([query @ weights @ held[u] + lags[t - u] for u in range(t + 1)])
                    added[t] += sum(share[u] * (held[u] @ values) for u in range(t + 1))
            if model.hidden is not None:
                inner, outer = rest.pop(0), rest.pop(0)
                added = [row + np.maximum(row @ inner, 0) @ outer for row in added]
            held = added
        [output] = rest
        for row, label in zip(held, sequence[1:], strict=True):
            total -= np.log(softmax(row @ output)[label])
            count += 1
    return total / count


MODELS = [
    DeepModel(),
    DeepModel(n_layers=3),
    DeepModel(n_layers=2, n_heads=2),
    DeepModel(n_layers=2, hidden=4, positions=False),
    DeepModel(n_layers=2, n_heads=3, hidden=2),
]


def drawn(model, rng, trials=2, n_tokens=5, window=4):
    sequences = rng.integers(0, n_tokens, (trials, 3, window + 1))
    shapes = model.shapes(n_tokens, window)
    parameters = [rng.normal(0, 0.7, (trials, *shape)) for shape in shapes]
    return sequences, parameters


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_loss_and_gradient_are_those_of_the_definition(model):
    rng = np.random.default_rng(3)
    sequences, parameters = drawn(model, rng)
    gradients, find_losses = lay_out_sequences(model, sequences, 5).evaluate([*map(torch.tensor, parameters)])
    losses = find_losses()
    for trial in range(2):
        own = [one[trial] for one in parameters]
        assert abs(loss_by_definition(model, own, sequences[trial], 5) - float(losses[trial])) < 1e-12
        along = [rng.normal(size=one.shape) for one in own]
        ends = [
            loss_by_definition(
                model, [one + reach * move for one, move in zip(own, along, strict=True)], sequences[trial], 5
            )
            for reach in (1e-5, -1e-5)
        ]
        slope = sum((one[trial].numpy() * move).sum() for one, move in zip(gradients, along, strict=True))
        assert abs((ends[0] - ends[1]) / 2e-5 - slope) < 1e-7 * (1 + abs(slope))


def test_blocks_of_sequences_sum_to_the_whole(monkeypatch):
    model = DeepModel(n_layers=2)
    sequences, parameters = drawn(model, np.random.default_rng(5))
    trials, given = lay_out_sequences(model, sequences, 5), [*map(torch.tensor, parameters)]
    whole, losses = trials.evaluate(given)
    monkeypatch.setattr(deep, "BLOCK_NUMBERS", 1)
    parts, again = trials.evaluate(given)
    torch.testing.assert_close(again(), losses(), rtol=1e-13, atol=0)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-11, atol=1e-15)


def test_weights_are_unpacked_by_name():
    model = DeepModel(n_layers=2, n_heads=2, hidden=3)
    _, parameters = drawn(model, np.random.default_rng(7))
    flat = np.concatenate([one.reshape(2, -1) for one in parameters], axis=1)
    weights = model.unpack(flat, n_tokens=5, window=4)
    np.testing.assert_array_equal(weights.attention[:, 1, 1], parameters[8 + 3])
    np.testing.assert_array_equal(weights.positions[:, 0, 1], parameters[4][:, 0])
    np.testing.assert_array_equal(weights.values[:, 1, 0], parameters[8 + 2])
    np.testing.assert_array_equal(weights.output, parameters[-1])
    with pytest.raises(UnsupportedOption, match="this model has"):
        model.unpack(flat[:, 1:], n_tokens=5, window=4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([np.array([0, 1])], "array of whole numbers"),
        ([np.array([[0.5, 1.0]])], "array of whole numbers"),
        ([np.array([[0]])], "a query and a label"),
        ([np.array([[0, -1]])], "number tokens from 0"),
        ([np.array([[0, 7]])], "token 7, which is not in 0 … 2"),
        ([np.array([[0, 1]]), np.array([[0, 1], [1, 0]])], "different shapes"),
    ],
)
def test_wrong_sequences_are_refused(given, said):
    with pytest.raises(InvalidSamples, match=said):
        lay_out_sequences(DeepModel(), given, 3)
