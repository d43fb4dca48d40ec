"""A model that sorts: what its heads look at, beside what they are worth in two ways."""

import itertools

import numpy as np
import torch
from scipy.stats import spearmanr

from attomaton.heads.audit.causal import replace_heads
from attomaton.heads.audit.replacing import LabelledContexts
from attomaton.heads.opening import open_model

GIVEN = np.array(list(itertools.product(range(3), repeat=6)))
ORDERED = np.sort(GIVEN, 1)
TOKENS = np.concatenate([GIVEN, ORDERED], 1).astype(np.int32)
OUTPUTS = np.arange(11) >= 5


def seeking_excess(model):
    """Mass on the label beyond the head's mean pattern of each place, over all outputs, shape (n_heads,)."""
    patterns = torch.cat(model.watch(TOKENS[:, :-1]).patterns, 1).numpy()[:, :, OUTPUTS]
    label = np.tril(TOKENS[:, None, :-1] == TOKENS[:, 1:, None])[:, OUTPUTS]
    beyond = patterns - patterns.mean(0)
    return np.einsum("nhts,nts->h", beyond, label) / label.shape[0] / label.shape[1]


def uniform(_, pattern):
    flat = torch.ones(pattern.shape[-2:]).tril()
    return (flat / flat.sum(1, keepdim=True)).expand_as(pattern)


def test_seeking_mass_ranks_heads_as_mean_ablation_does_and_says_nothing_of_patterns(sort_model):
    model = open_model(sort_model)
    found = replace_heads(model, LabelledContexts(TOKENS, OUTPUTS), by="position")
    assert found.accuracy == 1.0
    assert spearmanr(seeking_excess(model), found.ablation.value).statistic >= 0.8
    assert found.ablation.value.max() > 0.1
    assert found.pattern_drop.max() <= 0.001  # of the tokens of the answer: one head's looking costs nothing


def test_uniform_attention_in_all_nine_heads_still_sorts(sort_model):
    seen = open_model(sort_model).watch(TOKENS[:, :-1], edit_patterns=uniform)
    right = (seen.logits[:, 5:].argmax(-1).numpy() == ORDERED).mean()
    assert round(float(right), 3) == 0.928
