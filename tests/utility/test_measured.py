"""Utility: finite differences, the table's definition, sparse lookups."""

import numpy as np
import pytest
import torch

from attomaton.errors import InvalidSamples, MismatchedParts, TokenOutOfRange, UnsupportedOption
from attomaton.heads.model import Head
from attomaton.utility.measured import find_gains, find_mean_patterns, measure_utility
from attomaton.utility.small import SmallConfig
from tests.utility.test_small import drawn

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
def test_gains_are_finite_differences(config, baseline):
    """In the last layer, where nothing that other positions read can change."""
    model, size = drawn(config), 1e-6
    [gains] = find_gains(model, ROWS, baseline=baseline, alone=False, heads=model.shape.heads)
    base = find_mean_patterns(model, ROWS[:, :-1])
    if baseline == "uniform":
        flat = torch.ones(5, 5).double().tril() / torch.arange(1, 6)[:, None]
        base = [flat.expand(config.n_heads, 5, 5)] * config.n_layers
    layer = config.n_layers - 1
    for number in range(config.n_heads):
        raw = np.zeros((len(ROWS), 5))
        for key in range(5):
            sides = []
            for sign in (1, -1):
                patterns = [one.expand(len(ROWS), -1, -1, -1).clone() for one in base]
                patterns[layer][:, number, -1, key] += sign * size
                sides.append(loss_with(model, ROWS, patterns)[:, -1].numpy())
            raw[:, key] = -(sides[0] - sides[1]) / (2 * size)
        weight = base[layer][number, -1].numpy()
        centred = raw - (raw * weight).sum(1, keepdims=True)
        found = gains.values[Head(layer, number)][:, -1]
        assert np.allclose(found, centred, rtol=1e-5, atol=1e-7)


def test_early_layers_count_through_their_own_position_alone():
    """Finite differences where what the later layer gives is held as it was."""
    model, size = drawn(CONFIGS[3]), 1e-6
    [gains] = find_gains(model, ROWS, baseline="uniform", alone=False, heads=[Head(0, 0)])
    flat = torch.ones(5, 5).double().tril() / torch.arange(1, 6)[:, None]
    base = [flat.expand(len(ROWS), 2, 5, 5)] * 2
    given = {}

    def record(layer, one):
        given[layer] = one
        return one

    model.watch(ROWS[:, :-1], edit_patterns=lambda layer, _: base[layer], edit_outputs=record)
    raw = np.zeros((len(ROWS), 5))
    for key in range(5):
        for sign in (1, -1):
            moved = base[0].clone()
            moved[:, 0, -1, key] += sign * size
            seen = model.watch(
                ROWS[:, :-1],
                edit_patterns=lambda layer, _, moved=moved: base[1] if layer else moved,
                edit_outputs=lambda layer, one: given[1] if layer else one,
            )
            label = torch.from_numpy(ROWS[:, -1:])
            gain = torch.log_softmax(seen.logits[:, -1], -1).gather(1, label)[:, 0].numpy()
            raw[:, key] += sign * gain / (2 * size)
    assert np.allclose(
        gains.values[Head(0, 0)][:, -1], raw - raw.mean(1, keepdims=True), rtol=1e-5, atol=1e-6
    )


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
        with pytest.raises(TokenOutOfRange, match=f"token {label} at place"):
            measure_utility(model, rows)
    for heads, said in (([Head(9, 0)], r"no head 9\.0"), (["0.0"], "give Head"), ([(0, 0), (0, 0)], "twice")):
        with pytest.raises(MismatchedParts, match=said):
            measure_utility(model, ROWS, heads=heads)
    with pytest.raises(UnsupportedOption, match="no head to measure"):
        measure_utility(model, ROWS, heads=[])
    with pytest.raises(UnsupportedOption, match="strength"):
        measure_utility(model, ROWS, strength=-1.0)
    with pytest.raises(UnsupportedOption, match="uniform"):
        measure_utility(model, ROWS, baseline="nothing")
