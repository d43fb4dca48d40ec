"""Utility in closed form: its definition, what it drops, and what counts it takes."""

import numpy as np
import pytest
import torch

from attomaton.base.errors import MismatchedParts
from attomaton.corpora.samples import Samples
from attomaton.heads.model import Head
from attomaton.heads.utility.closed import (
    correct_copies,
    count_pairs,
    find_closed_utility,
    find_mean_field,
)
from attomaton.heads.utility.measured import measure_utility
from attomaton_experiments.head_study.audit import find_copy_utility
from attomaton_experiments.head_study.small import SmallConfig
from tests.experiments.head_study.test_small import drawn


def define_closed_utility(model, head, counts, probabilities):
    """Σ_y (P(y|k) − p(y|k))·ω_x(y), shape (n_tokens, n_tokens), not centred.

    ``probabilities`` is p(·|k), one row per query.
    """
    written = model.write_logits(head, np.arange(len(counts.shares)))
    seen = np.asarray(counts.labels.sum(axis=1)).ravel() > 0
    return np.where(seen[:, None], counts.labels.toarray() - probabilities, 0.0) @ written.T


TEXT = np.random.default_rng(2).zipf(1.5, 600) % 6
COUNTS = count_pairs(Samples.from_windows(TEXT, window=5, n_tokens=6))
CONFIG = SmallConfig(6, longest=5, width=8, n_heads=2)


def mean_field_probabilities(model):
    """p(·|k) where every head gives the mean of its values over the text, by what heads write."""
    config = model.config
    means = [
        np.einsum("x,xy->y", COUNTS.shares, model.write_logits(head, np.arange(6)))
        for head in config.shape.heads
    ]
    share = 1 / COUNTS.length
    logits = sum(
        share * model.write_logits(head, np.arange(6)) + (1 - share) * mean
        for head, mean in zip(config.shape.heads, means, strict=True)
    )
    own = model.watch(np.arange(6)[:, None], edit_outputs=lambda _, given: torch.zeros_like(given)).logits[
        :, 0
    ]
    return torch.softmax(own + torch.from_numpy(logits), -1).numpy()


@pytest.mark.parametrize("values", [True, False])
def test_in_one_layer_it_is_the_definition(values):
    """Σ_y (P(y|k) − p(y|k))·ω_x(y), by one backward pass and with no table over labels."""
    model = drawn(SmallConfig(6, longest=5, width=8, n_heads=2, values=values))
    field, probabilities = find_mean_field(model, COUNTS), mean_field_probabilities(model)
    for head in model.shape.heads:
        slow = define_closed_utility(model, head, COUNTS, probabilities)
        fast = field.slopes[0][:, head.number] @ field.values[0][:, head.number].T
        assert np.allclose(fast, slow, atol=1e-7)


def test_the_table_is_centred_by_what_a_context_gives():
    model = drawn(CONFIG)
    probabilities = mean_field_probabilities(model)
    for table in find_closed_utility(model, COUNTS):
        slow = define_closed_utility(model, table.head, COUNTS, probabilities)
        centred = (slow - slow @ COUNTS.shares[:, None]) * (1 - 1 / COUNTS.length)
        found = table.at(COUNTS.queries, COUNTS.tokens)
        assert np.allclose(found, centred[COUNTS.queries, COUNTS.tokens], atol=1e-7)


def test_repeating_a_token_changes_nothing_without_positions():
    model = drawn(CONFIG)
    once, often = (find_closed_utility(model, COUNTS, repeated=count) for count in (1, 4))
    assert np.allclose(once[1].dense(), often[1].dense())


def test_the_correction_for_copies_is_that_of_the_labels_which_it_assumes():
    model, head = drawn(CONFIG), Head(0, 1)
    written = model.write_logits(head, np.arange(6))
    found = correct_copies(model, head, COUNTS)
    labels = COUNTS.labels.toarray()
    for place, (query, token) in enumerate(zip(COUNTS.queries, COUNTS.tokens, strict=True)):
        plain = labels[query]
        rate = (COUNTS.copied_times[place] + plain[token]) / (COUNTS.times[place] + 1)
        assumed = plain * (1 - rate) / (1 - plain[token])
        assumed[token] = rate
        assert np.isclose(found[place], (assumed - plain) @ written[token])


def test_counts_are_those_of_the_samples():
    samples = Samples.from_windows(TEXT, window=5, n_tokens=6)
    for query, token, seen, copied in zip(
        COUNTS.queries, COUNTS.tokens, COUNTS.containing, COUNTS.copied, strict=True
    ):
        inside = [one for one in samples if one.context[-1] == query and token in one.context]
        assert (len(inside), sum(one.label == token for one in inside)) == (seen, copied)


def test_the_theorys_layer_has_its_utility_from_counts_alone():
    """All windows of the text at their last position, where the label is among them."""
    rows = np.lib.stride_tricks.sliding_window_view(TEXT, 6)
    inside = rows[(rows[:, :-1] == rows[:, -1:]).any(1)]
    samples = Samples.from_lists(inside[:, :-1].tolist(), inside[:, -1].tolist(), n_tokens=6)
    [measured] = measure_utility(drawn(SmallConfig(6, longest=5, one_hot=True)), inside, first=4)
    counted = find_copy_utility(count_pairs(samples))
    assert np.allclose(measured.dense(), counted.dense(), atol=1e-6)
    assert np.array_equal(measured.counts, counted.counts)


def test_another_vocabulary_is_refused():
    with pytest.raises(MismatchedParts, match="the model has 5 tokens, but the counted text has 6"):
        find_mean_field(drawn(SmallConfig(5, width=8)), COUNTS)
