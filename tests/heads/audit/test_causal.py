"""Mean patterns, mean outputs, and Shapley values."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from attomaton.base.errors import InvalidSamples, MismatchedParts, UnsupportedOption
from attomaton.heads.audit.causal import replace_heads, share_out
from attomaton.heads.audit.recording import record
from attomaton.heads.audit.replacing import LabelledContexts, measure_means, run_all, run_edited
from attomaton.heads.model import Head, Watched
from tests.heads.audit.standin import StandIn, draw_documents

MODEL = StandIn(n_layers=2, n_heads=2)
CONTEXTS = LabelledContexts.of(draw_documents(12, length=9), length=8, n_tokens=12)


def test_means_by_place_are_means():
    means = measure_means(MODEL, CONTEXTS, by="position")
    seen = MODEL.watch(CONTEXTS.tokens[:, :-1]).patterns
    for mine, patterns in zip(means.patterns, seen, strict=True):
        torch.testing.assert_close(mine, patterns.mean(0))


@given(st.integers(0, 50))
@settings(max_examples=10)
def test_means_by_lag_follow_their_definition(seed):
    model = StandIn(n_layers=1, n_heads=1, seed=seed, slope=0.2)
    mean = model.watch(CONTEXTS.tokens[:, :-1]).patterns[0].mean(0)[0].numpy()
    found = measure_means(model, CONTEXTS).patterns[0][0].numpy()
    length = len(mean)
    first = mean[1:, 0].mean()
    lags = [np.mean([mean[row, row - lag] for row in range(lag + 1, length)]) for lag in range(length - 1)]
    expected = np.zeros((length, length))
    expected[0, 0] = 1.0
    for row in range(1, length):
        weights = np.array([lags[row - place] for place in range(1, row + 1)])
        expected[row, 0] = first
        expected[row, 1 : row + 1] = (1 - first) * weights / weights.sum()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_head_without_content_loses_nothing_by_its_mean_pattern():
    model = StandIn(n_layers=2, n_heads=2, slope=0.3)
    model.qk[1, 1] = 0.0  # it looks by place alone
    causal = replace_heads(model, CONTEXTS, by="position")
    assert abs(causal.pattern.value[3]) < 1e-12
    assert abs(causal.ablation.value[3]) > 1e-4
    assert causal.names == ["0.0", "0.1", "1.0", "1.1"]
    assert causal.table().num_rows == 4
    assert "mean pattern" in str(causal)


def test_means_of_other_contexts_can_be_given():
    other = LabelledContexts.of(draw_documents(9, length=9, seed=5), length=8, n_tokens=12)
    one = replace_heads(MODEL, CONTEXTS, sets=[[Head(0, 0), Head(1, 0)]], means_from=other)
    two = replace_heads(MODEL, CONTEXTS, sets=[[Head(0, 0), Head(1, 0)]])
    assert one.loss == two.loss
    assert one.pattern.value[0] != two.pattern.value[0]


@pytest.mark.parametrize("by", ["lag", "position"])
def test_exact_shapley_values_are_means_over_all_orders(by):
    heads = MODEL.shape.heads[:3]
    shapley = share_out(MODEL, CONTEXTS, heads, by=by)
    means = measure_means(MODEL, CONTEXTS, by=by)
    for kind in ("pattern", "ablation"):
        gains = np.zeros(3)
        for order in permutations(range(3)):
            for at, head in enumerate(order):
                held = [heads[one] for one in order[:at]]
                after = run_edited(MODEL, CONTEXTS, means, [*held, heads[head]], kind)[0].mean()
                gains[head] += (after - run_edited(MODEL, CONTEXTS, means, held, kind)[0].mean()) / 6
        np.testing.assert_allclose(getattr(shapley, kind), gains, atol=1e-12)


def test_drawn_shapley_values_add_up_and_have_errors():
    model = StandIn(n_layers=2, n_heads=4)
    shapley = share_out(model, CONTEXTS, model.shape.heads, orders=6)
    joint = replace_heads(model, CONTEXTS, sets=[model.shape.heads])
    np.testing.assert_allclose(shapley.pattern.sum(), joint.pattern.value[0], atol=1e-9)
    np.testing.assert_allclose(shapley.ablation.sum(), joint.ablation.value[0], atol=1e-9)
    assert (shapley.pattern_error > 0).all()
    assert shapley.table().num_rows == 8


def test_wrong_asking_is_refused():
    with pytest.raises(UnsupportedOption, match="choose lag or position"):
        measure_means(MODEL, CONTEXTS, by="token")
    with pytest.raises(InvalidSamples, match="no document has"):
        LabelledContexts.of([[0, 1]], length=8, n_tokens=12)
    for scored in (np.ones(3, bool), np.zeros(8, bool)):
        with pytest.raises(MismatchedParts, match="for each of 8 positions"):
            LabelledContexts.of(draw_documents(9), length=8, n_tokens=12, scored=scored)
    with pytest.raises(MismatchedParts, match="different lengths"):
        replace_heads(
            MODEL, CONTEXTS, means_from=LabelledContexts.of(draw_documents(9), length=5, n_tokens=12)
        )


def test_heads_that_are_not_there_are_refused_and_not_said_to_be_worth_nothing():
    for head in (Head(7, 0), Head(0, -1), Head(0, 7), Head(0.5, 0), "first"):
        with pytest.raises(MismatchedParts, match=r"is not a head|there is no head"):
            replace_heads(MODEL, CONTEXTS, sets=[[head]])
        with pytest.raises(MismatchedParts, match=r"is not a head|there is no head"):
            share_out(MODEL, CONTEXTS, [head])
    with pytest.raises(MismatchedParts, match=r"head 0\.1 is given twice"):
        share_out(MODEL, CONTEXTS, [Head(0, 1), Head(0, 0), Head(0, 1)])


def test_heads_may_be_named_without_a_set_around_them():
    one = replace_heads(MODEL, CONTEXTS, sets=[Head(0, 1), (Head(0, 0), Head(1, 0))])
    other = replace_heads(MODEL, CONTEXTS, sets=[[Head(0, 1)], [Head(0, 0), Head(1, 0)]])
    assert one.table().equals(other.table())


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "gpt2", "olmo2"])
def test_runs_that_begin_at_the_edited_layer_are_whole_runs(family):
    from attomaton.heads.opening import open_model
    from tests.heads import made

    model = open_model(made.make(family), dtype="float64")
    n = model.shape.n_tokens
    documents = [np.random.default_rng(one).integers(0, n, 11) for one in range(9)]
    scored = np.arange(10) % 3 > 0
    contexts = LabelledContexts.of(documents, length=10, n_tokens=n, scored=scored)
    means = measure_means(model, contexts)
    first, *_, last = model.shape.heads
    runs = [
        (heads, kind) for heads in ((), (last,), (first,), (last, first)) for kind in ("pattern", "ablation")
    ]
    losses, hits = run_all(model, contexts, means, runs)
    for run, loss, hit in zip(runs, losses, hits, strict=True):
        whole = run_edited(model, contexts, means, *run)
        np.testing.assert_allclose(loss, whole[0], rtol=1e-10)
        np.testing.assert_array_equal(hit, whole[1])


def test_contexts_are_capped_evenly():
    documents = [np.full(9, number) for number in range(12)]
    capped = LabelledContexts.of(documents, length=8, n_tokens=12, most=4)
    assert capped.tokens[:, 0].tolist() == [0, 4, 7, 11]


class Withholding(StandIn):
    """A stand-in whose softmax has a learned sink: rows sum to less than 1."""

    def watch(self, tokens, *, edit_patterns=None, edit_outputs=None):
        shares = torch.linspace(0.2, 0.9, np.shape(tokens)[1])[:, None].double()
        seen = super().watch(
            tokens,
            edit_patterns=lambda layer, one: (edit_patterns or (lambda _, own: own))(layer, one * shares),
            edit_outputs=edit_outputs,
        )
        return Watched(seen.logits, tuple(pattern * shares for pattern in seen.patterns))


def test_mean_patterns_of_models_with_sinks_sum_to_what_their_rows_do():
    model = Withholding(n_layers=1, n_heads=2, slope=0.3)
    mean = model.watch(CONTEXTS.tokens[:, :-1]).patterns[0].mean(0)
    found = measure_means(model, CONTEXTS).patterns[0]
    torch.testing.assert_close(found.sum(2), mean.sum(2))
    assert float(found[:, 0].sum(1).max()) < 0.21
    model.qk[:] = 0.0  # it looks by place alone, so its mean pattern by place is its pattern
    causal = replace_heads(model, CONTEXTS, by="position")
    assert np.abs(causal.pattern.value).max() < 1e-12


def test_rows_tell_what_no_position_gets_and_how_spread_the_rest_is():
    documents = draw_documents(12, length=9)
    plain, less = (
        record(kind(n_layers=1, slope=0.3), documents, window=3).rows for kind in (StandIn, Withholding)
    )
    np.testing.assert_allclose(plain.withheld, 0.0, atol=1e-6)
    shares = np.linspace(0.2, 0.9, 8)[less.positions]
    np.testing.assert_allclose(less.withheld, np.repeat(1 - shares[:, None], 2, 1), atol=1e-6)
    np.testing.assert_allclose(less.entropy, plain.entropy, atol=1e-6)
    pattern = StandIn(n_layers=1, slope=0.3).watch(documents[plain.documents[0]][None, :-1]).patterns[0]
    row = pattern[0, :, int(plain.positions[0]), : int(plain.positions[0]) + 1].numpy()
    np.testing.assert_allclose(plain.entropy[0], -(row * np.log(row)).sum(1), atol=1e-6)
