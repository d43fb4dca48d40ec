"""A layer fed its own output: fixed points, the flow and drawn texts."""

import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import attomaton as at
from attomaton.automaton.generation import generate_by_definition
from attomaton.automaton.repetition import limits
from attomaton.automaton.repetition.counts import draw_counts
from attomaton.automaton.repetition.flow import find_exponents, find_jacobian
from attomaton.automaton.repetition.limits import find_single_limits, judge_limit
from attomaton.automaton.repetition.odds import read_odds
from attomaton.automaton.repetition.winners import Winners
from attomaton.base.errors import AttomatonError, CorruptRun, UnsupportedOption
from attomaton.base.native import find_steady


def draw_layer(seed: int, size: int) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(size=(size, size)))


@given(seed=st.integers(0, 10**9), size=st.integers(2, 5))
def test_a_certified_limit_is_a_fixed_point_of_the_chain_as_defined(seed: int, size: int) -> None:
    table = draw_layer(seed, size)
    found = at.winners(table, starts=0)
    for limit in found.limits:
        there = limit.winners
        probabilities = table[np.ix_(there, there)] * limit.shares[there]
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        assert limit.shares[there] @ probabilities == pytest.approx(limit.shares[there], abs=1e-9)
        assert limit.shares.sum() == pytest.approx(1)
        if limit.certified:
            assert (limit.exponents[~there] < 1).all()


@given(seed=st.integers(0, 10**9))
@settings(max_examples=20)
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
def test_slopes_are_the_derivative_of_the_flow(seed: int, size: int) -> None:
    rng, table = np.random.default_rng(seed), draw_layer(seed, size)
    shares = rng.dirichlet(np.full(size, 5.0))
    along = rng.normal(size=size)
    along -= along.mean()
    ends = []
    for sign in (1, -1):
        probabilities = table * (shares + sign * 1e-6 * along)
        ends.append(find_steady(probabilities / probabilities.sum(axis=1, keepdims=True)))
    measured = (ends[0] - ends[1]) / 2e-6 - along
    assert find_jacobian(table, shares) @ along == pytest.approx(measured, abs=1e-5)


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


def test_equal_odds_leave_the_shares_to_probability() -> None:
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
    """0 leads to 1 and 2, which repeat themselves: a random draw decides."""
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


def test_a_tie_in_a_winners_row_is_decided_by_the_second_order() -> None:
    """dx₁/d ln t = −x₁²/(1 + x₁): only x₁ = 0 stands still, and x₁ falls like 1/ln t."""
    found = at.winners([[1.0, 1.0], [1.0, 0.0]], [0, 0, 1])
    assert found.certain
    assert found.shares.tolist() == [1.0, 0.0]
    assert found.tokens == [0]
    assert found.first.slow
    assert not found.first.neutral
    assert found.first.bend == pytest.approx(-1.0)
    assert "t / ln t" in str(found)
    assert "range" not in str(found)


def test_ties_in_a_winners_row_are_a_limit_of_one_token() -> None:
    """Beside token 1 the others' shares y follow A = [[−½, −1], [0, −½]]."""
    found = at.winners([[2.0, 2.0, 2.0], [1.0, 2.0, 2.0], [0.0, 2.0, 1.0]])
    assert found.shares.tolist() == [0.0, 1.0, 0.0]
    assert found.first.certified


def test_a_tie_that_grows_is_no_limit_however_near_the_start() -> None:
    """dx₁/d ln t = x₁² and more: from a ten-thousandth it takes beyond t = e^10000 to leave."""
    assert at.winners([[1.0, 1.0], [1.0, 2.0]]).shares.tolist() == [0.0, 1.0]
    found = at.winners([[1.0, 1.0], [1.0, 2.0]], [0] * 20_000 + [1])
    assert not found.settled
    assert [one.shares.tolist() for one in found.limits] == [[0.0, 1.0]]
    assert "the shares in the prompt is not known" in str(found)
    with pytest.raises(AttomatonError, match="no winner is known"):
        _ = found.tokens


@pytest.mark.parametrize("prompt", [None, [0, 1, 2, 3, 4, 2, 2, 1, 0, 1]])
def test_no_winner_is_named_for_a_prompt_between_two_limits(prompt: list[int] | None) -> None:
    """Every token prefers itself, and the likeliest two of the prompt are alike."""
    found = at.winners(1.0 + np.eye(5), prompt, starts=2)
    assert not found.settled
    assert not found.certain
    assert all(limit.certified for limit in found.limits)


def test_a_tie_beside_several_winners_is_decided_along_the_limits_that_move() -> None:
    """Tokens 0 and 1 alternate with token 2's odds such that ρ₂ = 1; shares of 10⁶ steps fall like 1/ln t."""
    table = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.5], [1.0, 1.0, 0.0]])
    limit = at.winners(table, starts=0).first
    assert limit.shares == pytest.approx([0.5, 0.5, 0.0])
    assert limit.certified
    assert limit.exponents[2] == pytest.approx(1.0)
    small = 1e-4  # q₂/x₂ − 1 by hand: 0 and 1 lead to 2 with the probability x₂/(1 − x₂/2 + x₂/2) each
    probabilities = table * [0.5 - small / 2, 0.5 - small / 2, small]
    steady = find_steady(probabilities / probabilities.sum(axis=1, keepdims=True))
    assert limit.bend == pytest.approx((steady[2] / small - 1) / small, rel=1e-3)


def test_a_layer_with_ties_ends_in_seconds_and_says_what_is_not_proved() -> None:
    begun = time.process_time()
    table = [[2, 2, 2, 0, 0], [0, 2, 2, 2, 1], [2, 0, 1, 1, 2], [0, 0, 0, 1, 1], [1, 2, 2, 0, 2]]
    found = at.winners(table)
    assert time.process_time() - begun < 12
    assert found.tokens == [4]
    assert not found.first.certified
    assert "not proved" in str(found)


@given(seed=st.integers(0, 10**9), size=st.integers(1, 30))
def test_the_stationary_law_is_that_of_the_definition(seed: int, size: int) -> None:
    """q = qP, of which some entries are 0, but none in the first column."""
    rng = np.random.default_rng(seed)
    odds = rng.random((size, size)) * (rng.random((size, size)) < 0.5)
    odds[:, 0] = 1.0
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    steady = find_steady(probabilities)
    assert steady.sum() == pytest.approx(1.0, rel=1e-12)
    assert steady @ probabilities == pytest.approx(steady, rel=1e-12)


def test_the_stationary_law_keeps_the_digits_of_its_smallest_entries() -> None:
    """0 → 1 → 2 → 3 with 1e-90, 1e-60 and 1e-30, and back: each is the product of those before."""
    probabilities = np.array([[1, 1e-90, 0, 0], [1, 0, 1e-60, 0], [1, 0, 0, 1e-30], [1.0, 0, 0, 0]])
    assert find_steady(probabilities) == pytest.approx([1.0, 1e-90, 1e-150, 1e-180], rel=1e-14)


def test_a_limit_is_called_a_range_only_where_a_line_stands_still() -> None:
    """Tokens 0 and 1 are the same token twice; token 2 fades."""
    table = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [1.0, 1.0, 0.5]])
    limit = at.winners(table, starts=0).first
    assert limit.neutral
    assert "one of a range of stationary shares" in str(limit)
    assert find_exponents(table, np.array([0.3, 0.7, 0.0]))[:2] == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("layer", [[[1.0, 2.0]], [[-1.0]], "text", [[np.nan]], 3, [[1.0], [1.0, 2.0]]])
def test_a_layer_that_is_none_is_refused(layer: object) -> None:
    with pytest.raises(AttomatonError, match="odds"):
        at.winners(layer)


def test_more_starts_than_evaluations_are_refused() -> None:
    with pytest.raises(UnsupportedOption, match="starts"):
        at.winners(np.ones((2, 2)), starts=60_001)


def test_the_work_on_limits_of_one_token_is_bounded(monkeypatch) -> None:
    judged: list[int] = []

    def judge(odds, shares):
        judged.append(int(shares.argmax()))
        return judge_limit(odds, shares)

    monkeypatch.setattr(limits, "judge_limit", judge)
    table = np.ones((4, 4))  # under each token, all tokens are tied: 4³ of work for each limit
    list(find_single_limits(table, np.arange(4)))
    assert judged == [0, 1, 2, 3]
    judged.clear()
    monkeypatch.setattr(limits, "MOST_BEND_WORK", 100)
    list(find_single_limits(table, np.arange(4)))
    assert judged == [0, 1]


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


def test_tokens_that_look_like_formulas_are_drawn_as_they_are():
    text = ["a $\\x$ a $\\x$ b a $\\x$", "b a b $\\x$ a b"]
    axes = at.winners(at.learn(text, window=6), "a $\\x$ b").plot()
    axes.figure.canvas.draw()
    assert "$\\x$" in [one.get_text() for one in axes.get_legend().get_texts()]


def test_winners_come_back_from_their_folder_with_unknown_words(tmp_path):
    auto = at.learn(["a b a c a b", "b a b c b a"])
    found = at.winners(auto, "a b zebra c")
    assert found.to_pandas()["token"].tolist() == ["a", "b", "c", "zebra"]
    back = Winners.load(found.save(tmp_path / "winners"))
    assert str(back) == str(found)
    assert back.to_pandas().equals(found.to_pandas())
    assert back.certain == found.certain
    with pytest.raises(CorruptRun):
        Winners.load(auto.save(tmp_path / "run"))


def test_the_table_has_no_exponent_where_the_text_says_none():
    for odds in ([[1.0, 1.0], [1.0, 1.0]], [[0.2, 0.8], [0.2, 0.8]], [[1.0, 1.0], [0.0, 1.0]]):
        found = at.winners(odds)
        frame = found.to_pandas()
        assert str(found).count("not determined") == frame["exponent"].isna().sum()
