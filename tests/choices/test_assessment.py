"""Tests between fits, and whether a model fits, against definitions and other packages."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest, chi2, norm, t

import attomaton as at
from attomaton.base.errors import UnsupportedOption
from attomaton.choices import simulation
from attomaton.choices.simulation import read_fitted


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
    for _ in range(2):
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
    assert seen > 2


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
        (fit, larger, "does not have fewer"),
        (fit, fit, "does not have fewer"),
        (larger, at.fit_choices(simulate(rng, 3, 31)), "not of the same choices"),
        (larger, at.fit_choices(games, prior=1.0), "a ridge or a prior"),
        (larger, at.fit_choices(games, cluster=[0, 1, 2] * 10), "one cluster"),
        (at.fit_choices({**games, "outcome": [0.5, 1, 0] * 10}, ties="half"), fit, "half a win"),
    ):
        with pytest.raises(UnsupportedOption, match=reason):
            full.likelihood_ratio(nested)


def draw_sets(rng, n_choices=60, n_items=6):
    """Choices from sets of 2 to 4, some repeated items, not always connected."""
    sets = [rng.choice(n_items, rng.integers(2, 5)).tolist() for _ in range(n_choices)]
    sets = [one for one in sets if len(set(one)) > 1]
    return [max(one) if rng.random() < 0.8 else one[0] for one in sets], sets


@pytest.mark.parametrize("seed", range(4))
def test_the_choices_behind_a_model_have_its_likelihood(seed):
    """What is drawn again are the choices that were fitted, whole sets among them."""
    rng = np.random.default_rng(seed)
    sets = draw_sets(rng)
    games = simulate(rng, 5, 40, spread=2.0)
    tied = {**games, "outcome": rng.choice([0, 0.5, 1], 40).tolist()}
    for fit in (at.fit_choices(*sets), at.fit_choices(games), at.fit_choices(tied, moved_first="first")):
        fitted = read_fitted(fit.model, len(fit.items))
        assert fitted.problem.n_choices == fit.model.tally.n_choices
        assert fitted.fit.log_likelihood == pytest.approx(fit.log_likelihood, abs=1e-8)
        assert fitted.fit.n_parameters == fit.n_parameters
        wins = np.bincount(fitted.members[fitted.members >= 0], fitted.problem.counts[fitted.members >= 0])
        assert (wins <= fit.model.tally.wins).all()  # which has half of each tie


def test_the_deviance_is_what_a_free_probability_for_each_pair_gains(rng):
    games = simulate(rng, 4, 600)
    fit = at.fit_choices(games)
    test, free = fit.goodness_of_fit(), 0.0
    for pair in test.to_pandas().itertuples():
        free += sum(n * np.log(n / pair.games) for n in (pair.wins, pair.losses) if n)
        win = fit.probability(pair.first, pair.second)
        assert pair.expected_wins == pytest.approx(pair.games * win)
        spread = np.sqrt(pair.games * win * (1 - win))
        assert pair.residual == pytest.approx((pair.wins - pair.games * win) / spread)
    assert test.deviance == pytest.approx(2 * (free - fit.log_likelihood))
    assert test.degrees == 6 - 3
    assert test.method == "chi-square"
    assert test.p_value == pytest.approx(chi2.sf(test.deviance, 3))
    assert test.pearson == pytest.approx((test.to_pandas().residual ** 2).sum())
    again = fit.goodness_of_fit(method="bootstrap", n_draws=299)
    assert again.p_value == pytest.approx(test.p_value, abs=0.12)
    assert again.method == "parametric bootstrap, 299 draws"
    few = at.fit_choices(simulate(rng, 4, 12)).goodness_of_fit(n_draws=9)
    assert few.method == "parametric bootstrap, 9 draws"
    assert at.fit_choices(games, moved_first="first").goodness_of_fit(n_draws=9).method == few.method


def test_a_wrong_model_is_found():
    """Rock, paper, scissors among nine."""
    items = list("abcdefghi")
    rows = [(a, b) for a in range(9) for b in range(a)]
    wins = [8 if (b - a) % 3 == 1 else 2 if (b - a) % 3 == 2 else 5 for a, b in rows]
    table = {
        "winner": [items[a] for a, _ in rows] + [items[b] for _, b in rows],
        "loser": [items[b] for _, b in rows] + [items[a] for a, _ in rows],
        "count": wins + [10 - n for n in wins],
    }
    fit = at.fit_choices(table)
    assert fit.goodness_of_fit(method="bootstrap", n_draws=99).p_value == 0.01
    cycles = fit.intransitivity(n_draws=99)
    assert cycles.p_value == 0.01
    assert cycles.cyclic > cycles.expected + 10
    assert len(cycles.to_pandas()) == cycles.cyclic


def test_cycles_by_definition(rng):
    games = simulate(rng, 7, 90, spread=0.5)
    fit = at.fit_choices(games)
    net = np.zeros((7, 7))
    number = {item: place for place, item in enumerate(fit.items)}
    for one, other, won in zip(games["first"], games["second"], games["outcome"], strict=True):
        a, b = (number[one], number[other]) if won else (number[other], number[one])
        net[a, b], net[b, a] = net[a, b] + 1, net[b, a] - 1
    found = [
        (fit.items[a], fit.items[b], fit.items[c], min(net[a, b], net[b, c], net[c, a]))
        for a in range(7)
        for b in range(a + 1, 7)
        for c in range(a + 1, 7)
        if b != c and net[a, b] > 0 and net[b, c] > 0 and net[c, a] > 0
    ]
    decided = sum(
        net[a, b] != 0 and net[b, c] != 0 and net[a, c] != 0
        for a in range(7)
        for b in range(a)
        for c in range(b)
    )
    test = fit.intransitivity(n_draws=19)
    assert (test.cyclic, test.triads) == (len(found), decided)
    assert sorted(test.to_pandas().itertuples(index=False, name=None)) == sorted(found)


def test_draws_keep_totals_and_have_the_probabilities(rng):
    fit = at.fit_choices(*draw_sets(rng))
    fitted = read_fitted(fit.model, len(fit.items))
    drawn = fitted.draw(4_000, rng)
    situations = fitted.problem.situations
    assert all(np.array_equal(situations.sum(counts), fitted.problem.totals) for counts in drawn[:20])
    share = drawn.mean(axis=0) / situations.spread(fitted.problem.totals)
    np.testing.assert_allclose(share, fitted.source[1], atol=0.05)


@pytest.mark.parametrize("penalty", [None, "firth"])
def test_probabilities_of_pairs_are_those_of_outcomes(rng, penalty):
    games = simulate(rng, 6, 25, spread=2.0)
    tied = {**games, "outcome": rng.choice([0, 0.5, 1], 25).tolist()}
    apart = {"first": ["a", "b", "x", "y"], "second": ["b", "a", "y", "x"], "outcome": [1, 1, 1, 0]}
    for table in (games, tied, apart):
        fit = at.fit_choices(table, penalty=penalty)
        matrix = fit.win_probabilities()
        for a, one in enumerate(fit.items):
            for b, other in enumerate(fit.items):
                try:
                    right = fit.probability(one, other)
                except at.AttomatonError:
                    right = np.nan
                np.testing.assert_allclose(matrix[a, b], right, atol=1e-12)


def test_new_pairs_with_position_and_features(rng):
    games = simulate(rng, 4, 80)
    games |= {"length_first": rng.standard_normal(80).tolist(), "length_second": rng.random(80).tolist()}
    names = {"moved_first": "first", "features": ["length"]}
    fit = at.fit_choices(games, **names)
    new = {name: column[:9] for name, column in games.items()}
    probability = fit.predict_proba(new, **names)
    assert probability.shape == (9, 3)
    beta = {name: contrast.value for name, contrast in fit.coefficients.items()}
    for row in range(9):
        gap = fit.difference(new["first"][row], new["second"][row]).value + beta["moved_first"]
        gap += beta["length"] * (new["length_first"][row] - new["length_second"][row])
        assert probability[row] == pytest.approx([1 / (1 + np.exp(-gap)), 0, 1 / (1 + np.exp(gap))])
    nobody = fit.predict_proba(new, features={"length": dict.fromkeys("abcd", 0.0)})
    plain = [fit.probability(one, other) for one, other in zip(new["first"], new["second"], strict=True)]
    assert nobody[:, 0] == pytest.approx(plain)
    renamed = {"x": new["first"], "y": new["second"]}
    same = at.fit_choices(games).predict_proba(renamed, first="x", second="y")
    assert same == pytest.approx(at.fit_choices(games).predict_proba(new))
    for half in ({"first": "first"}, {"second": "second"}):
        with pytest.raises(UnsupportedOption, match="give both, or neither"):
            fit.predict_proba(new, **half)
    with pytest.raises(UnsupportedOption, match="has no coefficient moved_first"):
        at.fit_choices(games).predict_proba(new, moved_first="first")
    with pytest.raises(UnsupportedOption, match="no such feature"):
        at.fit_choices(games).predict_proba(new, features=["length"])
    with pytest.raises(at.AttomatonError, match="'z' occurs in no choice"):
        fit.predict_proba({"first": ["z"], "second": ["a"]})


def test_new_pairs_need_style_on_the_scale_of_the_fit():
    games = {"model_a": list("abab"), "model_b": list("baba"), "winner": ["model_a"] * 3 + ["model_b"]}
    games |= {"length_a": [9, 5, 7, 3], "length_b": [4, 6, 2, 8]}
    fit, name = at.fit_choices(games, style="length"), "length (relative)"
    with pytest.raises(UnsupportedOption, match="standardised over the pairs of the fit"):
        fit.predict_proba(games)
    probability = fit.predict_proba(games | {"level": [0.0] * 4}, features={name: "level"})
    assert probability[0, 0] == pytest.approx(fit.outcomes("a", "b").win)


def test_what_is_not_drawn_again(rng):
    games = simulate(rng, 3, 30)
    for fit, reason in (
        (at.fit_choices(games, cluster=[0, 1, 2] * 10), "one cluster"),
        (at.fit_choices({**games, "outcome": [0.5, 1, 0] * 10}, ties="half"), "half a win"),
        (at.fit_choices(games, counts=[0.5] * 30), "fractions of choices"),
    ):
        with pytest.raises(UnsupportedOption, match=reason):
            fit.goodness_of_fit()
        with pytest.raises(UnsupportedOption, match=reason):
            fit.intransitivity()
    with pytest.raises(UnsupportedOption, match="give 'chi-square'"):
        at.fit_choices(games).goodness_of_fit(method="exact")
    table = {"best": list("abc"), "worst": list("bca"), "set": [list("abc")] * 3}
    with pytest.raises(UnsupportedOption, match="best and worst"):
        at.fit_choices(table, best="best", worst="worst", choice_set="set").goodness_of_fit()


@pytest.mark.parametrize("seed", range(3))
def test_maxima_of_draws_found_together_are_those_found_alone(seed, monkeypatch):
    """Sets of several sizes, ties and a position; draws are often separated."""
    rng = np.random.default_rng(seed)
    games = simulate(rng, 5, 40, spread=2.0)
    tied = {**games, "outcome": rng.choice([0, 0.5, 1], 40).tolist()}
    fits = at.fit_choices(*draw_sets(rng)), at.fit_choices(games), at.fit_choices(tied, moved_first="first")
    for fit in fits:
        fitted = read_fitted(fit.model, len(fit.items))
        drawn = fitted.draw(20, rng)
        with monkeypatch.context() as patch:
            together = fitted.expect_again(drawn)
            patch.setattr(simulation, "NUMBERS_AT_ONCE", -1)
            np.testing.assert_allclose(together, fitted.expect_again(drawn), atol=1e-5)


@pytest.mark.parametrize(
    "name", ["profile interval, few, close", "likelihood ratio, many", "bootstrap, few, close", "cycles, few"]
)
def test_a_few_of_the_simulations(name, monkeypatch):
    """80 runs of the benchmark, within four standard errors of the nominal share."""
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(folder)
    nominal, share_of, *settings = runpy.run_path(str(folder / "bench_choices_tests.py"))["SIMULATIONS"][name]
    share = share_of(np.random.default_rng(0), 80, *settings)
    assert share == pytest.approx(nominal, abs=4 * (0.05 * 0.95 / 80) ** 0.5)


@pytest.mark.parametrize("seed", range(3))
def test_degrees_of_freedom_do_not_depend_on_which_item_stands_first(seed):
    # with ties, a pair that met in both orders was once counted as two sets, and right models were rejected
    rng = np.random.default_rng(seed)
    games = simulate(rng, 5, 400)
    games["outcome"] = np.where(rng.random(400) < 0.2, 0.5, games["outcome"]).tolist()
    flipped = rng.random(400) < 0.5
    first, second, outcome = map(np.array, games.values())
    swapped = {
        "first": np.where(flipped, second, first).tolist(),
        "second": np.where(flipped, first, second).tolist(),
        "outcome": np.where(flipped, 1 - outcome, outcome).tolist(),
    }
    one, other = (at.fit_choices(table).goodness_of_fit(method="chi-square") for table in (games, swapped))
    assert one.degrees == other.degrees == 10 * 2 - 4 - 1  # pairs × 2, less parameters
    assert one.p_value == pytest.approx(other.p_value)
    sets = [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"], ["a", "b"], ["b", "a"]]
    chosen = ["a", "c", "b", "b", "a"] * 9
    assert at.fit_choices(chosen, sets * 9).goodness_of_fit().degrees == 2 + 1 - 2
