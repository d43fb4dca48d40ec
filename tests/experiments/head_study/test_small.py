"""Small models: their parts, the theory's layer, and a head that is made of W_svm."""

import numpy as np
import pytest
import torch

import attomaton as at
from attomaton.base.errors import UnsupportedOption
from attomaton.heads.model import Head
from attomaton_experiments.head_study.measures import share_obeyed
from attomaton_experiments.head_study.small import SmallConfig, SmallModel

PARTS = [
    SmallConfig(6, longest=5, one_hot=True),
    SmallConfig(6, longest=5, width=8, values=False, residual=False),
    SmallConfig(6, longest=5, width=8, n_heads=2, values=False),
    SmallConfig(6, longest=5, width=8, n_heads=2, positions=True),
    SmallConfig(6, longest=5, width=8, n_heads=4, n_layers=2, positions=True, mlp=True),
]
ROWS = np.random.default_rng(0).integers(0, 6, (7, 6))


def drawn(config, seed=0):
    """A model with no table at its start."""
    model = SmallModel(config, seed=seed).double()
    generator = torch.Generator().manual_seed(seed)
    for table in model.parameters():
        table.data += torch.randn(table.shape, generator=generator, dtype=torch.float64) / 3
    return model


@pytest.mark.parametrize("config", PARTS)
def test_patterns_are_causal_and_the_loss_is_that_of_the_logits(config):
    model = drawn(config)
    seen = model.watch(ROWS[:, :-1])
    assert len(seen.patterns) == config.n_layers
    for pattern in seen.patterns:
        assert torch.allclose(pattern.sum(-1), torch.ones(()).double())
        assert pattern.triu(1).abs().max() == 0
    probability = torch.log_softmax(seen.logits, -1).gather(2, torch.from_numpy(ROWS)[:, 1:, None])[..., 0]
    if config.one_hot:  # where the label is not in the context its probability is held above zero
        probability = probability.clamp_min(np.log(1e-9))
    assert torch.allclose(model.loss(torch.from_numpy(ROWS)), -probability, atol=1e-6)


@pytest.mark.parametrize("config", PARTS)
def test_edits_that_change_nothing_change_nothing(config):
    model = drawn(config)
    plain = model.watch(ROWS[:, :-1])
    edited = model.watch(
        ROWS[:, :-1],
        edit_patterns=lambda _, pattern: pattern,
        edit_outputs=lambda _, given: given,
    )
    assert torch.equal(plain.logits, edited.logits)
    assert not edited.logits.requires_grad


@pytest.mark.parametrize("config", PARTS[:4])
def test_scores_and_written_logits_are_those_of_the_run(config):
    """The last position of one layer: scores give the pattern, written logits what looking elsewhere adds."""
    model = drawn(config)
    context = ROWS[0, :-1]
    seen = model.watch(context[None])
    for head in config.shape.heads:
        columns = [
            model.score_tokens(head, context[-1:], context[[place]], lag=4 - place)[0, 0]
            for place in range(5)
        ]
        pattern = torch.softmax(torch.tensor(np.array(columns)), 0)
        assert torch.allclose(pattern, seen.patterns[0][0, head.number, -1], atol=1e-9)
        if config.one_hot or config.positions:
            continue
        first, last = (
            model.watch(context[None], edit_patterns=look_at(head.number, place)).logits[0, -1]
            for place in (0, 3)
        )
        written = model.write_logits(head, context[[0, 3]])
        assert np.allclose((first - last).numpy(), written[0] - written[1], atol=1e-9)


def look_at(number, place):
    def edit(layer, pattern):
        changed = pattern.clone()
        changed[:, number, -1] = 0.0
        changed[:, number, -1, place] = 1.0
        return changed

    return edit


def test_a_head_made_of_w_svm_obeys_every_edge():
    """Embeddings of width d ≥ K, orthonormal; W_Q and W_K so that scores are those of W_svm."""
    rng = np.random.default_rng(3)
    samples = at.Samples.from_windows(rng.zipf(1.6, 4000) % 9, window=6, n_tokens=9)
    automaton = at.learn(samples)
    model = SmallModel(SmallConfig(9, longest=6, width=12)).double()
    basis = np.linalg.qr(rng.normal(size=(12, 9)))[0].T
    weights = np.zeros((9, 9))
    scores = automaton.hard.scores
    weights[scores["token"].to_numpy(), scores["query"].to_numpy()] = scores["score"].to_numpy()
    model.tables["embedding"].data = torch.from_numpy(basis)
    model.tables["key_0"].data = torch.eye(12).double()
    model.tables["query_0"].data = torch.from_numpy(basis.T @ weights.T @ basis)
    found = model.score_tokens(Head(0, 0), np.arange(9), np.arange(9))
    assert np.allclose(found, weights * 12**0.5, atol=1e-3)
    assert share_obeyed(automaton.components, found) == 1.0


def test_what_cannot_be_is_refused():
    with pytest.raises(UnsupportedOption, match="the width 8 is not a multiple of 3 heads"):
        SmallConfig(5, width=8, n_heads=3)
    with pytest.raises(UnsupportedOption, match="one head"):
        SmallConfig(5, one_hot=True, n_heads=4)
