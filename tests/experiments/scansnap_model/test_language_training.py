"""Training the language model: batches, what is measured of attention, seeds."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton_experiments.scansnap_model.language_model import LanguageLayer, LanguageModel
from attomaton_experiments.scansnap_model.language_training import (
    LanguageRun,
    LanguageTraining,
    cut_windows,
    measure_attention,
    row_entropies,
    run_all,
)

TRAINING = LanguageTraining(LanguageModel(n_tokens=9, width=8, hidden=6, window=5), rate=1.0, batch_size=4)
TEXT = np.tile(np.arange(9), 60)
"""Each token says the next."""
WINDOWS = cut_windows(TEXT, 5, 20)


@pytest.fixture(scope="module")
def records():
    return TRAINING.run(TEXT, WINDOWS, records=(0, 3, 150), n_shown=2)


def test_uniform_rows_have_the_entropy_of_their_position():
    rows = torch.ones(6, 6).tril() / torch.arange(1, 7)[:, None]
    torch.testing.assert_close(row_entropies(rows), torch.arange(1, 7).log())


def test_untaught_queries_attend_uniformly():
    layer = LanguageLayer(TRAINING.model)
    torch.nn.init.zeros_(layer.self_attn.in_proj_weight)
    found = measure_attention(layer, torch.as_tensor(WINDOWS))
    np.testing.assert_allclose(found.entropy, np.log(np.arange(1, 6)), atol=1e-6)
    assert found.largest == pytest.approx(np.mean(1 / np.arange(1, 6)))
    assert found.by_distance[0] == pytest.approx(found.largest)


def test_a_text_that_says_the_next_token_is_learned(records):
    assert [one.step for one in records] == [0, 3, 150]
    assert records[-1].loss < 0.5 < records[0].loss
    for one in records:
        assert one.by_distance.sum() == pytest.approx(1.0)
        assert one.received.sum() == pytest.approx(20 * 5)
        assert one.shown.shape == (2, 5, 5)
        assert one.mean_entropy == pytest.approx(one.entropy.mean())


def test_the_seed_decides(records):
    torch.manual_seed(5)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    again = TRAINING.run(TEXT, WINDOWS, records=(0, 3, 150), n_shown=2)
    assert torch.equal(torch.rand(3), drawn)  # other random numbers go on as if nothing had been drawn
    assert all(
        np.array_equal(a.shown, b.shown) and a.loss == b.loss for a, b in zip(again, records, strict=True)
    )
    other = replace(TRAINING, seed=1).run(TEXT, WINDOWS, records=(3,))
    assert other[0].loss != records[1].loss


def test_measuring_does_not_change_training(records):
    once = TRAINING.run(TEXT, WINDOWS, records=(150,))
    assert once[0].loss == records[-1].loss


def test_fast_layers_have_a_rate_of_their_own():
    runs = [
        replace(TRAINING, fast=fast, fast_rate=rate).run(TEXT, WINDOWS, records=(5,))[0].loss
        for fast, rate in [((), 7.0), (("linear1",), 1.0), (("linear1",), 0.0), (("linear1", "linear2"), 0.0)]
    ]
    assert runs[0] == pytest.approx(runs[1])
    assert len({round(one, 6) for one in runs[1:]}) == 3


def test_streams_are_read_in_order_and_again():
    batches = [one.numpy() for one in islice(TRAINING.batches(np.arange(48)), 4)]
    assert batches[0][:, 0].tolist() == [0, 12, 24, 36]
    assert batches[1][0].tolist() == [5, 6, 7, 8, 9, 10]
    np.testing.assert_array_equal(batches[2], batches[0])


def test_every_step_is_told():
    told = []
    TRAINING.run(TEXT, WINDOWS, records=(0, 3), progress=lambda *one: told.append(one))
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.slow  # processes
def test_runs_in_processes_give_the_same_numbers():
    runs = [LanguageRun(replace(TRAINING, seed=seed), TEXT, WINDOWS, (0, 4)) for seed in (0, 1, 2)]
    told = []
    one, two = (
        run_all(runs, workers=workers, progress=lambda done, total: told.append((done, total)))
        for workers in (1, 2)
    )
    assert [[a.loss for a in records] for records in one] == [[b.loss for b in records] for records in two]
    assert told == [(done, 12) for done in range(1, 13)] + [(4, 12), (8, 12), (12, 12)]


def test_too_little_text_is_refused():
    with pytest.raises(InvalidSamples, match="give more text"):
        TRAINING.run(np.arange(9), WINDOWS, records=(1,))
    with pytest.raises(InvalidSamples, match="choose fewer"):
        cut_windows(np.arange(9), 5, 2)
    with pytest.raises(UnsupportedOption, match="ascending"):
        TRAINING.run(TEXT, WINDOWS, records=(3, 1))
