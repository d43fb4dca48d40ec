"""Utility: finite differences, the table's definition, sparse lookups."""

import numpy as np
import pytest
import torch

from attomaton.base.errors import InvalidSamples, MismatchedParts, TokenOutOfRange, UnsupportedOption
from attomaton.heads.model import Head
from attomaton.heads.utility.measured import find_gains, find_mean_patterns, measure_utility
from attomaton_experiments.head_study.small import SmallConfig
from tests.experiments.head_study.test_small import drawn

ROWS = np.random.default_rng(1).integers(0, 6, (9, 6))
CONFIGS = [
    SmallConfig(6, longest=5, width=8, values=False, residual=False),
    SmallConfig(6, longest=5, width=8, n_heads=2, positions=True),
    SmallConfig(6, longest=5, width=8, n_heads=2, mlp=True),
    SmallConfig(6, longest=5, width=8, n_heads=2, n_layers=2, mlp=True),
]


def loss_with(model, rows, patterns):
    """The loss of every position where layers attend by given patterns, shape (n, length)."""
    logits = model.watch(rows[:, :-1], edit_patterns=lambda layer, _: patterns[layer]).logits
    label = torch.from_numpy(rows)[:, 1:]
    return -torch.log_softmax(logits, -1).gather(2, label[..., None])[..., 0]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("baseline", ["uniform", "position"])
@pytest.mark.parametrize("alone", [False, True])
def test_gains_are_finite_differences(config, baseline, alone):
    """Of the loss of the whole window: in the first layer also by what later positions read."""
    model, size, layer, number = drawn(config), 1e-6, 0, config.n_heads - 1
    [gains] = find_gains(model, ROWS, baseline=baseline, alone=alone, heads=model.shape.heads)
    base = find_mean_patterns(model, ROWS[:, :-1])[layer]
    if baseline == "uniform":
        base = (torch.ones(5, 5).double().tril() / torch.arange(1, 6)[:, None]).expand(config.n_heads, 5, 5)
    every = find_mean_patterns(model, ROWS[:, :-1]) if baseline == "position" else [base] * config.n_layers

    def loss(moved):
        """Of each window where one pattern is moved, and the others attend by the baseline or as trained."""

        def edit(here, pattern):
            given = pattern.clone() if alone else every[here].expand(pattern.shape).clone()
            if here == layer:
                given[:, number] = moved
            return given

        logits = model.watch(ROWS[:, :-1], edit_patterns=edit).logits
        label = torch.from_numpy(ROWS)[:, 1:, None]
        return -torch.log_softmax(logits, -1).gather(2, label).sum((1, 2)).numpy()

    raw = np.zeros((len(ROWS), 5, 5))
    for query in range(5):
        for key in range(query + 1):
            step = torch.zeros(5, 5).double()
            step[query, key] = size
            raw[:, query, key] = (loss(base[number] - step) - loss(base[number] + step)) / (2 * size)
    centred = np.tril(raw - (raw * base[number].numpy()).sum(2, keepdims=True))
    assert np.allclose(gains.values[Head(layer, number)], centred, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("alone", "copies"), [(False, False), (True, False), (False, True)])
def test_the_table_is_its_definition(alone, copies):
    model = drawn(CONFIGS[1])
    tables = measure_utility(model, ROWS, alone=alone, first=2, strength=3.0, copies=copies)
    [gains] = find_gains(model, ROWS, baseline="uniform", alone=alone, heads=model.shape.heads)
    for table in tables:
        held = {}
        for row in range(len(ROWS)):
            for query in range(2, 5):
                if copies and ROWS[row, query + 1] not in ROWS[row, : query + 1]:
                    continue
                for key in range(query + 1):
                    pair = ROWS[row, query], ROWS[row, key]
                    held.setdefault(pair, []).append(gains.values[table.head][row, query, key])
        for token in range(6):
            every = [gain for pair, some in held.items() for gain in some if pair[1] == token]
            mean = np.mean(every) if every else 0.0
            assert np.isclose(table.background[token], mean)
            for query in range(6):
                some = held.get((query, token), [])
                expected = (sum(some) + 3 * mean) / (len(some) + 3)
                assert np.isclose(table.dense()[query, token], expected)
        assert table.scores.num_rows == len(held)
        assert table.counts.sum() == sum(map(len, held.values()))


def test_what_cannot_be_measured_is_refused():
    model = drawn(CONFIGS[0])
    with pytest.raises(MismatchedParts, match="shape"):
        measure_utility(model, np.zeros((4, 2), np.int64))
    for rows in (np.zeros(4, np.int64), ROWS + 0.5, [[0, 1, 2], [0, 1]], ROWS[:0]):
        with pytest.raises(InvalidSamples, match="give whole numbers"):
            measure_utility(model, rows)
    for label in (-100, model.shape.n_tokens):  # the first is what PyTorch would leave out without a word
        rows = ROWS.copy()
        rows[0, -1] = label
        with pytest.raises(TokenOutOfRange, match=f"token {label} at position"):
            measure_utility(model, rows)
    wrong = (([Head(9, 0)], r"no head 9\.0"), (["first"], "such as 4.0 or L4H0"), ([(0, 0), (0, 0)], "twice"))
    for heads, said in wrong:
        with pytest.raises(MismatchedParts, match=said):
            measure_utility(model, ROWS, heads=heads)
    with pytest.raises(UnsupportedOption, match="heads is empty"):
        measure_utility(model, ROWS, heads=[])
    with pytest.raises(UnsupportedOption, match="strength"):
        measure_utility(model, ROWS, strength=-1.0)
    with pytest.raises(UnsupportedOption, match="uniform"):
        measure_utility(model, ROWS, baseline="nothing")
