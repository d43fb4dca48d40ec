"""A layer fed its own output: fixed points, the flow and drawn texts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attomaton as at
from attomaton.automaton.generation import generate_by_definition
from attomaton.errors import AttomatonError
from attomaton.generation.chain import draw_counts
from attomaton.generation.flow import find_exponents, find_slopes, find_steady
from attomaton.generation.limits import judge_limit
from attomaton.generation.odds import read_odds


def draw_layer(seed: int, size: int) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(size=(size, size)))


@given(seed=st.integers(0, 10**9), size=st.integers(2, 5))
@settings(max_examples=25, deadline=None)
def test_a_certified_limit_is_a_fixed_point_of_the_chain_as_defined(seed: int, size: int) -> None:
    table = draw_layer(seed, size)
    found = at.winners(table, starts=0)
    for limit in found.limits:
        there = limit.winners
        chances = table[np.ix_(there, there)] * limit.shares[there]
        chances /= chances.sum(axis=1, keepdims=True)
        assert limit.shares[there] @ chances == pytest.approx(limit.shares[there], abs=1e-9)
        assert limit.shares.sum() == pytest.approx(1)
        if limit.certified:
            assert (limit.exponents[~there] < 1).all()


@given(seed=st.integers(0, 10**9))
@settings(max_examples=20, deadline=None)
def test_two_tokens_have_a_closed_form(seed: int) -> None:
    """x₁/x₂ = w₁₂(w₂₂ − w₂₁)/(w₂₁(w₁₁ − w₁₂)) where the signs agree; else the token that both prefer wins."""
    table = draw_layer(seed, 2)
    own, other = table[0, 0] - table[0, 1], table[1, 1] - table[1, 0]
    found = at.winners(table)
    if own < 0 and other < 0:
        ratio = table[0, 1] * other / (table[1, 0] * own)
        assert found.shares[0] / found.shares[1] == pytest.approx(ratio)
        assert found.certain
    elif own > 0 and other > 0:
        assert {tuple(one.shares.tolist()) for one in found.limits} == {(0.0, 1.0), (1.0, 0.0)}
        assert not found.certain
    else:
        assert found.shares.tolist() == [float(own > 0), float(own < 0)]


@given(seed=st.integers(0, 10**9), size=st.integers(2, 5))
@settings(max_examples=25, deadline=None)
def test_slopes_are_the_derivative_of_the_flow(seed: int, size: int) -> None:
    rng, table = np.random.default_rng(seed), draw_layer(seed, size)
    shares = rng.dirichlet(np.full(size, 5.0))
    along = rng.normal(size=size)
    along -= along.mean()
    ends = []
    for sign in (1, -1):
        chances = table * (shares + sign * 1e-6 * along)
        ends.append(find_steady(chances / chances.sum(axis=1, keepdims=True)))
    measured = (ends[0] - ends[1]) / 2e-6 - along
    assert find_slopes(table, shares) @ along == pytest.approx(measured, abs=1e-5)


def test_counts_are_those_of_the_text_that_the_layer_generates() -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        samples = at.synthetic.draw_ordered(rng, n_tokens=5, n_samples=30, window=4, n_queries=4, cyclic=True)
        auto = at.learn(samples)
        for layer in (auto, auto.at(step=10)):
            prompt = rng.integers(0, 5, 6).tolist()
            text = generate_by_definition(layer.predict_proba, prompt, 200, np.random.default_rng(9))
            tokens, counts = np.unique([*prompt, *text], return_counts=True)
            drawn = draw_counts(layer, prompt, lengths=[206], seed=9)
            assert np.array_equal(tokens, drawn.tokens)
            assert np.array_equal(counts, drawn.counts[0, 0])


def test_the_flow_predicts_shares_and_slopes_of_drawn_texts() -> None:
    """Losers begin with a thousandth of the winners, so that slopes are exponents from the start."""
    table = np.array([[0.2, 1.0, 0.4, 0.3], [1.0, 0.1, 0.5, 0.2], [1.0, 1.0, 0.2, 0.2], [1.0, 2.0, 1.0, 0.3]])
    found = at.winners(table)
    assert found.certain
    assert found.tokens == [0, 1]
    counts = np.maximum(100_000 * found.shares, 100).round().astype(int)
    prompt = np.repeat(np.arange(4), counts).tolist()
    drawn = draw_counts(table, prompt, lengths=[len(prompt), 3_000_000], runs=4)
    late = at.winners(table, prompt)
    assert drawn.slopes(len(prompt)) == pytest.approx(found.exponents, abs=0.05)
    assert drawn.slopes(len(prompt)) == pytest.approx(late.slopes_between(len(prompt), 3_000_000), abs=0.05)
    assert drawn.shares[-1] == pytest.approx(late.shares_at([3_000_000])[0], abs=0.01)


def test_equal_odds_leave_the_shares_to_chance() -> None:
    limit = at.winners(np.ones((3, 3)), starts=0).first
    assert limit.neutral
    assert not limit.certified
    assert limit.winners.all()


def test_an_unstable_fixed_point_is_no_limit() -> None:
    table = np.array([[4.0, 1.0], [1.0, 4.0]])
    middle = judge_limit(table, np.array([0.5, 0.5]))
    assert find_exponents(table, middle.shares).tolist() == [1.0, 1.0]
    assert middle.rate > 0
    assert not middle.certified


def test_closed_sets_of_an_automaton_are_several_ends() -> None:
    """0 leads to 1 and 2, which repeat themselves: chance decides."""
    found = at.winners([[0.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [1, 2, 0])
    assert found.n_classes == 2
    assert [one.shares.tolist() for one in found.limits] == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert not found.certain


def test_exponents_are_not_told_where_tokens_hold_each_other_up() -> None:
    table = [[1.0, 0.5, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    limit = at.winners(table, starts=0).first
    assert limit.shares.tolist() == [1.0, 0.0, 0.0]
    assert not limit.returns
    assert np.isnan(limit.exponents).tolist() == [False, False, True]


@pytest.mark.parametrize("layer", [[[1.0, 2.0]], [[-1.0]], "text", [[np.nan]], 3, [[1.0], [1.0, 2.0]]])
def test_a_layer_that_is_none_is_refused(layer: object) -> None:
    with pytest.raises(AttomatonError, match="odds"):
        at.winners(layer)


def test_large_vocabularies_need_a_prompt() -> None:
    samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1], n_tokens=2000)
    auto = at.learn(samples)
    with pytest.raises(AttomatonError, match="give a prompt"):
        at.winners(auto)
    assert at.winners(auto, [0, 1, 2]).n_classes == 1
    with pytest.raises(AttomatonError, match="shorter"):
        read_odds(auto, list(range(1500)))


@pytest.mark.parametrize("lengths", [[], [5, 5], [9, 7], [1]])
def test_lengths_must_rise_from_the_prompt_on(lengths: list[int]) -> None:
    with pytest.raises(AttomatonError):
        draw_counts(np.ones((2, 2)), [0, 1, 0], lengths=lengths)
