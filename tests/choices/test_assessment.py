"""Tests between fits, and whether a model fits, against definitions and other packages."""

import numpy as np
import pytest
from scipy.stats import binomtest, chi2, norm, t

import attomaton as at
from attomaton.base.errors import UnsupportedOption


@pytest.fixture
def rng():
    """Seeded numbers."""
    return np.random.default_rng(0)


def simulate(rng, n_items, n_games, spread=1.0, position=0.0):
    """Games of Bradley and Terry, as columns."""
    score = spread * rng.standard_normal(n_items)
    first = rng.integers(n_items, size=n_games)
    second = (first + rng.integers(1, n_items, n_games)) % n_items
    won = rng.random(n_games) < 1 / (1 + np.exp(score[second] - score[first] - position))
    first, second = (["abcdefgh"[item] for item in side.tolist()] for side in (first, second))
    return {"first": first, "second": second, "outcome": won.astype(int).tolist()}


def test_the_p_value_of_a_finite_difference_is_walds(rng):
    games = simulate(rng, 5, 80)
    fit = at.fit_choices(games)
    gap = fit.difference("a", "b")
    assert gap.p_value == pytest.approx(2 * norm.sf(abs(gap.value) / gap.standard_error))
    low, high = gap.interval(1 - gap.p_value)
    assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-9)
    assert fit.difference("a", "a").p_value == 1
    judged = at.fit_choices(games, cluster=(np.arange(80) % 7).tolist()).difference("a", "b")
    ratio = abs(judged.value) / judged.standard_error
    assert judged.p_value == pytest.approx(2 * t.sf(ratio, judged.degrees))


@pytest.mark.parametrize("n", [1, 2, 5, 8, 40])
def test_the_p_value_of_wins_alone_is_that_of_the_sign_test(n):
    fit = at.fit_choices(["a"], losers=["b"], counts=[n])
    assert fit.difference("a", "b").p_value == pytest.approx(binomtest(n, n).pvalue, rel=1e-6)
    assert fit.difference("b", "a").p_value == fit.difference("a", "b").p_value
    assert at.fit_choices(["a"], losers=["b"], counts=[99]).difference("a", "b").p_value == 2e-15


def test_the_p_value_of_an_infinite_difference_is_where_its_bound_is_0(rng):
    """Chains, sets and features: the bound with confidence 1 − p / 2 is 0."""
    seen = 0
    for _ in range(4):
        games = simulate(rng, 6, 30, spread=3.0)
        for more in ({}, {"moved_first": "first"}):
            fit = at.fit_choices(games, **more)
            for item in "bcdef":
                try:
                    gap = fit.difference("a", item)
                except at.AttomatonError:
                    continue
                if np.isinf(gap.value) and 1e-12 < gap.p_value < 1:
                    ends = gap.interval(1 - gap.p_value / 2)
                    assert ends[gap.value < 0] == pytest.approx(0, abs=1e-4)
                    seen += 1
    assert seen > 4


def test_likelihood_ratios_are_those_of_statsmodels(rng):
    statsmodels = pytest.importorskip("statsmodels.api")
    games = simulate(rng, 4, 200, position=0.4)
    games["length"] = rng.standard_normal(200).tolist()
    full = at.fit_choices(games, moved_first="first", features=["length"])
    nested = at.fit_choices(games)
    test = full.likelihood_ratio(nested)
    design = np.zeros((200, 6))
    design[np.arange(200), list(map("abcd".index, games["first"]))] += 1
    design[np.arange(200), list(map("abcd".index, games["second"]))] -= 1
    design[:, 4], design[:, 5] = 1, games["length"]
    larger, smaller = (
        statsmodels.Logit(games["outcome"], design[:, columns]).fit(disp=False)
        for columns in ([1, 2, 3, 4, 5], [1, 2, 3])
    )
    assert test.statistic == pytest.approx(2 * (larger.llf - smaller.llf), abs=1e-8)
    assert test[1:] == (2, False)
    assert test.p_value == pytest.approx(chi2.sf(test.statistic, 2))
    assert full.aic == pytest.approx(larger.aic)
    assert full.bic == pytest.approx(larger.bic)
    assert full.to_dict()["bic"] == full.bic
    middle = at.fit_choices(games, moved_first="first")
    steps = full.likelihood_ratio(middle).statistic + middle.likelihood_ratio(nested).statistic
    assert steps == pytest.approx(test.statistic)


def test_criteria_at_infinity_are_those_of_what_is_left_open():
    connected = at.fit_choices(["a", "b"], losers=["b", "a"], counts=[5, 3])
    winless = at.fit_choices(["a", "b", "a"], losers=["b", "a", "c"], counts=[5, 3, 4])
    assert winless.aic == pytest.approx(connected.aic)
    assert winless.bic - winless.aic == pytest.approx(np.log(12) - 2)
    assert winless.logit is None
    games = {"first": ["a", "b", "a"], "second": ["b", "a", "c"], "outcome": [1, 1, 1]}
    moved = at.fit_choices(games, counts=[5, 3, 4], moved_first="first")
    assert moved.likelihood_ratio(winless).infinite
    assert "an estimate is infinite" in str(moved.likelihood_ratio(winless))
    assert moved.logit.aic == pytest.approx(moved.aic)
    assert moved.logit.bic == pytest.approx(moved.bic)


def test_what_is_no_nested_fit_is_refused(rng):
    games = simulate(rng, 3, 30)
    fit, larger = at.fit_choices(games), at.fit_choices(games, moved_first="first")
    for full, nested, reason in (
        (fit, larger, "not a smaller one"),
        (fit, fit, "not a smaller one"),
        (larger, at.fit_choices(simulate(rng, 3, 31)), "not of the same choices"),
        (larger, at.fit_choices(games, prior=1.0), "a ridge or a prior"),
        (larger, at.fit_choices(games, cluster=[0, 1, 2] * 10), "one cluster"),
        (at.fit_choices({**games, "outcome": [0.5, 1, 0] * 10}, ties="half"), fit, "half a win"),
    ):
        with pytest.raises(UnsupportedOption, match=reason):
            full.likelihood_ratio(nested)
