"""Ranks, gaps, uncertainty, priors and files of a fit, each against a definition of its own."""

import json
from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize
from tests.choices.test_fit import beats_graph, choices

import attomaton as at
from attomaton.base.errors import (
    CorruptRun,
    UncertifiedSolution,
    UndeterminedChoice,
    UnknownToken,
    UnsupportedOption,
    UnwritablePlace,
)


@given(choices(n_items=7, max_choices=9))
def test_the_table_is_the_board_and_ranks_count_who_is_ahead(drawn):
    winners, sets = drawn
    fit = at.fit_choices(winners, sets)
    reach = {item: nx.descendants(beats_graph(winners, sets), item) | {item} for item in fit.items}
    rows = fit.table().to_pylist()
    assert fit.table().equals(fit.board().table())
    assert sorted(row["item"] for row in rows) == sorted(fit.items)
    for row in rows:
        item = row["item"]
        tied = [one for one in reach[item] if item in reach[one]]
        peers = [one["item"] for one in rows if one["board"] == row["board"]]
        better = sum(item in reach[one] and one not in tied for one in peers)
        ahead = sum(fit.scores[one] > fit.scores[item] + 1e-5 for one in tied)
        assert row["rank"] == better + ahead + 1
    for row, after in pairwise(rows):
        one, other = row["item"], after["item"]
        if row["board"] != after["board"]:
            assert row["ahead"] is None
        elif other in reach[one] and one in reach[other]:
            assert row["ahead"] == pytest.approx(fit.scores[one] - fit.scores[other], abs=1e-12)
        else:
            assert one not in reach[other]  # the better never stands below
            assert row["ahead"] == (np.inf if other in reach[one] else None)


def test_ranks_of_more_items_than_have_standard_errors():
    """A ring of 2,100, its worst pair aside, one that never won and one that was never beaten."""
    ring = range(2_100)
    won, lost, counts = [*ring, "top", 5], [*ring[1:], 0, 7, "last"], [2] * 2_100 + [3, 4]
    fit = at.fit_choices([str(one) for one in won], losers=[str(one) for one in lost], counts=counts)
    table = fit.table().to_pylist()
    assert (table[0]["item"], table[0]["rank"], table[-1]["item"], table[-1]["rank"]) == (
        "top",
        1,
        "last",
        2_102,
    )
    assert {row["rank"] for row in table[1:-1]} == {2}
    assert table[0]["low"] == pytest.approx(np.log(0.05 ** (1 / 3) / (1 - 0.05 ** (1 / 3))))
    assert {row["standard_error"] for row in table} == {row["rank_high"] for row in table} == {None}
    assert "they need the covariance of all items, and there are more than 2,048 items" in str(fit)
    assert fit.board().next_comparisons()[0][:2] == ("top", "0")


def test_more_components_than_a_board_has():
    chain = range(2_100)
    fit = at.fit_choices([*chain, 0, 1], losers=[one + 1 for one in chain] + [1, 0])
    table = fit.table().to_pylist()
    assert {row["rank"] for row in table} == {row["board"] for row in table} == {None}
    assert [row["item"] for row in table] == list(range(2_101))
    assert table[0]["rating"] == pytest.approx(fit.scores[0])
    assert table[0]["ahead"] == pytest.approx(fit.difference(0, 1).value)
    assert table[2]["rating"] is None
    assert fit.table().schema.names == at.fit_choices(["a"], losers=["b"]).table().schema.names
    assert "no ranks or standard errors: there are more than 2,048 components" in str(fit)
    json.dumps(fit.to_dict(), allow_nan=False)
    with pytest.raises(UnsupportedOption, match="at most 2,048 components"):
        fit.board()


def test_wins_and_losses_are_counted():
    fit = at.fit_choices(["a", "b", "a"], [["a", "b", "c"], ["b", "a"], ["a", "c", "c"]], counts=[2, 3, 4])
    rows = {row["item"]: (row["wins"], row["losses"]) for row in fit.table().to_pylist()}
    assert rows == {"a": (6, 3), "b": (3, 2), "c": (0, 6)}


@given(choices(n_items=5, max_choices=20), st.sampled_from([0.0, 0.7]))
def test_covariance_has_the_standard_errors_on_its_diagonal(drawn, ridge):
    fit = at.fit_choices(*drawn, ridge=ridge)
    errors = np.array([fit.standard_errors[item] for item in fit.items])
    covariance = fit.covariance()
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), errors, rtol=1e-6, atol=1e-9)
    place = {item: number for number, members in enumerate(fit.components) for item in members}
    for (row, one), (column, other) in product(enumerate(fit.items), repeat=2):
        if place[one] != place[other]:
            assert np.isnan(covariance[row, column])
            continue
        gap = fit.difference(one, other)
        if np.isnan(fit.scores[one]):
            assert np.isnan(covariance[row, column])
            continue
        spread = covariance[row, row] + covariance[column, column] - 2 * covariance[row, column]
        assert gap.standard_error == pytest.approx(max(spread, 0.0) ** 0.5, abs=1e-9)
        assert gap.value == pytest.approx(fit.scores[one] - fit.scores[other])


def test_errors_of_differences_by_numerical_second_derivatives():
    rng = np.random.default_rng(1)
    sets = [rng.permutation(4)[: rng.integers(2, 5)].tolist() for _ in range(60)]
    winners = [int(rng.choice(one)) for one in sets]
    fit = at.fit_choices(winners, sets)
    assert fit.connected

    def loss(free):
        scores = np.append(free, 0.0)
        return -sum(
            scores[won] - np.log(np.exp(scores[one]).sum()) for won, one in zip(winners, sets, strict=True)
        )

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    step = 1e-4 * np.eye(3)
    hessian = np.array(
        [
            [
                (loss(best.x + a + b) - loss(best.x + a - b) - loss(best.x - a + b) + loss(best.x - a - b))
                / 4e-8
                for b in step
            ]
            for a in step
        ]
    )
    spread = np.linalg.inv(hessian)
    assert fit.log_likelihood == pytest.approx(-best.fun, abs=1e-6)
    assert fit.aic == pytest.approx(2 * 3 + 2 * best.fun, abs=1e-6)
    for item in range(3):
        gap = fit.difference(item, 3)
        assert gap.value == pytest.approx(best.x[item], abs=1e-4)
        assert gap.standard_error == pytest.approx(spread[item, item] ** 0.5, rel=1e-3)


def test_differences_that_have_no_number():
    fit = at.fit_choices(["a", "b", "c"], losers=["x", "x", "d"])
    assert fit.difference("a", "x").value == np.inf
    assert fit.difference("x", "a")[2:4] == (-np.inf, None)
    assert fit.difference("a", "a")[2:4] == (0.0, 0.0)
    low, high = fit.difference("a", "x").interval()
    assert (low, high) == (pytest.approx(np.log(0.05 / 0.95)), np.inf)  # one win of one
    with pytest.raises(UndeterminedChoice, match="neither is preferred"):
        fit.difference("a", "b")
    with pytest.raises(UnknownToken, match="'z' occurs in no choice"):
        fit.difference("a", "z")
    assert fit.aic == pytest.approx(2 * fit.n_parameters - 2 * fit.log_likelihood)  # of what is left open
    with pytest.raises(UnsupportedOption, match="a ridge or a prior"):
        at.fit_choices(["a", "b"], losers=["b", "a"], ridge=0.1).aic  # noqa: B018


def test_the_supremum_of_the_likelihood():
    """With c ever farther below, the likelihood of all choices rises to what the fit says."""
    won, lost = ["a", "b", "a", "a", "b"], ["b", "a", "b", "c", "c"]
    fit = at.fit_choices(won, losers=lost)

    def likelihood(depth):
        scores = {**fit.scores, "c": -depth}
        return -sum(np.log1p(np.exp(scores[x] - scores[w])) for w, x in zip(won, lost, strict=True))

    assert likelihood(3) < likelihood(10) < fit.log_likelihood
    assert likelihood(40) == pytest.approx(fit.log_likelihood, abs=1e-12)
    assert fit.n_parameters == 1


@given(choices(n_items=6, max_choices=8), st.sampled_from([0.5, 1.0, 3.0]))
def test_a_prior_is_the_penalised_likelihood_of_all_items(drawn, prior):
    winners, sets = drawn
    fit = at.fit_choices(winners, sets, prior=prior).expect()
    place = {item: number for number, item in enumerate(fit.items)}
    options = np.array([[one.count(item) for item in fit.items] for one in sets], float)
    chosen = [place[item] for item in winners]

    def loss(scores):
        total = np.log((options * np.exp(scores)).sum(axis=1)) - scores[chosen]
        return total.sum() + 0.5 / prior**2 * scores @ scores

    best = minimize(loss, np.zeros(len(place)), method="BFGS", options={"gtol": 1e-8})
    if len(fit.items) == 1:
        assert np.isnan(fit.scores[fit.items[0]])
        return
    np.testing.assert_allclose([fit.scores[item] for item in fit.items], best.x, atol=2e-5)
    assert fit.components == at.fit_choices(winners, sets).components or len(fit.components) > 0
    for one, other in product(fit.items[:3], repeat=2):
        if one != other:
            odds = 1 / (1 + np.exp(fit.scores[other] - fit.scores[one]))
            assert fit.probability(one, other) == pytest.approx(odds)
            assert fit.difference(one, other).standard_error > 0
    assert set(fit.board()["board"]) == {1}
    assert "prior: every score is normal about 0" in str(fit)


def test_a_prior_names_itself_and_keeps_what_the_data_say():
    won, lost = ["a", "b", "a"], ["b", "a", "c"]
    fit, plain = (at.fit_choices(won, losers=lost, prior=prior) for prior in (2.0, None))
    assert (fit.prior, fit.components, fit.order, fit.missing) == (
        2.0,
        plain.components,
        plain.order,
        plain.missing,
    )
    assert "2 components of the data, joined by the prior" in str(fit)
    assert not fit.connected
    for wrong in (0, -1, float("nan"), "1", 1e9):
        with pytest.raises(UnsupportedOption, match="prior, the standard deviation of a score"):
            at.fit_choices(won, losers=lost, prior=wrong)
    with pytest.raises(UnsupportedOption, match="cannot be combined"):
        at.fit_choices(won, losers=lost, prior=1.0, ridge=1.0)
    alone = at.fit_choices(["a", "b"], [["a"], ["b"]], prior=1.0)
    assert alone.scores == {"a": 0.0, "b": 0.0}
    assert at.fit_choices([], [], prior=1.0).items == ()


def test_tied_choices_under_a_prior_weigh_a_half():
    fit = at.fit_choices(["a", "a"], losers=["b", "b"], tied=[False, True], ties="half", prior=1.0)
    x = fit.scores["a"]  # x + 2/(1 + e^{−2x}) = 1.5
    assert x + 2 / (1 + np.exp(-2 * x)) == pytest.approx(1.5, abs=1e-7)


@pytest.mark.parametrize(
    "make",
    [
        lambda: at.fit_choices(["a", "b", "a", "c"], losers=["b", "a", "d", "d"]),
        lambda: at.fit_choices(["a", "b", "a"], losers=["b", "a", "c"], prior=0.5),
        lambda: at.fit_choices(["a", "a"], losers=["b", "b"], tied=[False, True], ties="half", ridge=0.5),
        lambda: at.fit_choices([(1, "x"), None, 2.5], [[(1, "x"), None], [None, (1, "x")], [2.5, True]]),
        lambda: at.fit_choices([1, 2, 2**70], [[1, 2], [2, 1], [2**70, 1]]),
        lambda: at.fit_choices(rankings=[["a", ["b", "c"], "d"], ["d", "a"]], counts=[3, 2]),
        lambda: at.fit_choices([], []),
    ],
)
def test_saved_and_loaded(make, tmp_path):
    fit = make()
    assert fit.save(tmp_path / "fit") == tmp_path / "fit"
    again = at.ChoiceFit.load(tmp_path / "fit")
    assert (again.items, again.components, again.order) == (fit.items, fit.components, fit.order)
    assert again.scores == pytest.approx(fit.scores, abs=0, nan_ok=True)
    assert again.standard_errors == pytest.approx(fit.standard_errors, abs=0, nan_ok=True)
    assert (again.prior, again.model.denominator, again.n_ties) == (
        fit.prior,
        fit.model.denominator,
        fit.n_ties,
    )
    assert str(again) == str(fit)
    assert again.log_likelihood == fit.log_likelihood
    with pytest.raises(UnwritablePlace, match="already contains a fit of choices"):
        fit.save(tmp_path / "fit")
    fit.save(tmp_path / "fit", overwrite=True)


def test_what_is_no_saved_fit_does_not_load(tmp_path):
    at.fit_choices(["a", "b"], losers=["b", "a"]).save(tmp_path / "fit")
    at.learn([0, 1, 0, 2, 0, 1]).save(tmp_path / "run")
    with pytest.raises(CorruptRun, match="of the kind 'run', not 'choices'"):
        at.ChoiceFit.load(tmp_path / "run")
    with pytest.raises(CorruptRun, match="of the kind 'choices', not 'run'"):
        at.Automaton.load(tmp_path / "fit")
    with pytest.raises(CorruptRun):
        at.ChoiceFit.load(tmp_path / "nowhere")
    (tmp_path / "fit" / "items.json").write_text('["a", "c"]')
    with pytest.raises(CorruptRun, match="altered"):
        at.ChoiceFit.load(tmp_path / "fit")
    with pytest.raises(UnsupportedOption, match="cannot be saved; use strings"):
        at.fit_choices([frozenset("a"), 1], [[frozenset("a"), 1]] * 2).save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_probability_of_one_against_another():
    fit = at.fit_choices(["team00", "team01", "team00"], losers=["team01", "team00", "team01"])
    assert fit.probability("team00", "team01") == pytest.approx(2 / 3)
    assert fit.probability("team00", ["team00", "team01"]) == pytest.approx(2 / 3)
    assert fit.probability("team01", np.array(["team00", "team01"])) == pytest.approx(1 / 3)
    with pytest.raises(UnknownToken, match="'team99' occurs in no choice"):
        fit.probability("team00", "team99")
    with pytest.raises(UnknownToken, match="occurs in no choice"):
        fit.probability(["team00"], "team01")
    with pytest.raises(UnknownToken, match="None occurs in no choice"):
        fit.probability("team00", None)
    letters = at.fit_choices(["a", "b"], losers=["b", "a"])
    with pytest.raises(UnknownToken, match="'ab' occurs in no choice"):
        letters.probability("a", "ab")
    tuples = at.fit_choices([(0, 1), (0, 2)], losers=[(0, 2), (0, 1)])
    assert tuples.probability((0, 1), (0, 2)) == pytest.approx(0.5)
    assert tuples.probability((0, 1), ((0, 1), (0, 2))) == pytest.approx(0.5)


@pytest.mark.slow  # a solver that must fail
def test_uncertified_scores_have_no_numbers_in_the_table():
    pairs = [(item, (item + 1) % 1_000) for item in range(1_000)]
    fit = at.fit_choices(range(1_000), pairs, counts=[10] * 999 + [1])
    table = fit.table()
    for name in ("rank", "rating", "standard_error", "ahead"):
        assert table.column(name).null_count == 1_000, name
    assert "scores uncertified" in str(fit)
    for ask in (lambda: fit.difference(0, 1), lambda: fit.covariance(), lambda: fit.log_likelihood):
        with pytest.raises(UncertifiedSolution):
            ask()
    assert fit.to_dict()["log_likelihood"] is None


def test_strange_items_are_shown_safely():
    fit = at.fit_choices(["\x1b[31mred", "b" * 500], losers=["b" * 500, "\x1b[31mred"])
    assert "\x1b" not in str(fit)
    assert max(map(len, str(fit).splitlines())) < 200
    mixed = at.fit_choices([1, "1"], [[1, "1"], [1, "1"]])
    assert mixed.table()["item"].to_pylist() == ["1", "'1'"]
    assert at.fit_choices([1, 2], [[1, 2]] * 2).to_pandas()["item"].tolist() == [1, 2]
    big = at.fit_choices([2**70, 1], [[2**70, 1]] * 2)
    assert big.table()["item"].to_pylist() == [str(2**70), "1"]
    odd = at.fit_choices(["\ud800", "b"], [["\ud800", "b"]] * 2)
    assert odd.board()["item"] == ["'\\ud800'", "'b'"]
