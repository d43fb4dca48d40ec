"""Samples labelled with what was most useful: by trying every place, and where labels must stay."""

import numpy as np
import pytest
import torch

import attomaton as at
from attomaton.base.errors import InvalidSamples
from attomaton_experiments.head_study.relabelled import relabel_by_utility
from attomaton_experiments.head_study.small import SmallConfig
from tests.experiments.head_study.test_small import drawn
from tests.heads.utility.test_measured import CONFIGS, ROWS, loss_with


@pytest.mark.parametrize("config", CONFIGS[:3])
def test_labels_are_where_a_little_more_attention_helps_most(config):
    model, size = drawn(config), 1e-5
    flat = torch.ones(5, 5).double().tril() / torch.arange(1, 6)[:, None]
    found = relabel_by_utility(model, ROWS, first=4)
    for number, samples in enumerate(found):
        losses = []
        for key in range(5):
            pattern = flat.expand(len(ROWS), config.n_heads, 5, 5).clone()
            pattern[:, number, -1] *= 1 - size
            pattern[:, number, -1, key] += size
            losses.append(loss_with(model, ROWS, [pattern])[:, -1].numpy())
        best = ROWS[np.arange(len(ROWS)), np.argmin(losses, axis=0)]
        assert samples.labels.tolist() == best.tolist()
        assert [list(one.context) for one in samples] == ROWS[:, :-1].tolist()


def test_the_theorys_layer_keeps_its_labels_and_its_automaton():
    rows = np.random.default_rng(2).integers(0, 5, (40, 7))
    layer = drawn(SmallConfig(5, longest=6, one_hot=True))
    [relabelled] = relabel_by_utility(layer, rows, first=2, copies=True)
    plain = [
        (row[: last + 1], row[last + 1])
        for row in rows.tolist()
        for last in range(2, 6)
        if row[last + 1] in row[: last + 1]
    ]
    assert [(list(one.context), one.label) for one in relabelled] == plain
    samples = at.Samples.from_lists([one for one, _ in plain], [label for _, label in plain], n_tokens=5)
    assert at.learn(relabelled).table().equals(at.learn(samples).table())


def test_a_text_in_which_no_position_counts_is_refused():
    with pytest.raises(InvalidSamples, match="no position counts"):
        relabel_by_utility(drawn(CONFIGS[0]), ROWS, first=9)
