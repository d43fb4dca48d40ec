"""Errors of choices in clusters, also of few, through what users call."""

import numpy as np
import pytest
from tests.cli.inside import run_inside

import attomaton as at
from attomaton.base.errors import UnsupportedOption
from attomaton.choices import binary_logit, fit_logit
from attomaton.choices.logit.clusters import cross_squares, difference_cross_squares


def fit_judges(games):
    """The fit of games "a" or "b" by judge: {"judge": "aab", …}."""
    winner = [*"".join(games.values())]
    judge = [name for name, won in games.items() for _ in won]
    loser = ["b" if won == "a" else "a" for won in winner]
    return at.fit_choices({"winner": winner, "loser": loser, "judge": judge}, cluster="judge")


@pytest.mark.parametrize("games", [{"one": "ab"}, {"one": "aab"}, {"one": "ab", "two": "ab"}])
def test_one_or_two_clusters_have_no_error_and_say_so(games):
    """One cluster had the interval +0.347 to +0.347; two halves each ended in ZeroDivisionError."""
    fit = fit_judges(games)
    board = fit.board()
    assert board["standard_error"] == [None, None]
    assert board["low"] == board["high"] == [None, None]
    assert (board["rank_low"], board["rank_high"]) == ([1, 1], [2, 2])
    number = len(games)
    assert f"no standard errors: {number} cluster{'s' * (number > 1)}, but at least 3 are needed" in str(fit)
    assert fit.difference("a", "b").standard_error is None
    with pytest.raises(UnsupportedOption, match="more clusters"):
        fit.difference("a", "b").interval()
    assert board.next_comparisons() == ()
    assert str(board)


def test_scores_of_clusters_that_cancel_are_no_certainty():
    fit = fit_judges({str(judge): "ab" for judge in range(4)})
    assert fit.difference("a", "b").standard_error == pytest.approx(
        np.sqrt(0.5)
    )  # as if games were independent
    low, high = fit.difference("a", "b").interval()
    assert high == pytest.approx(3.182 * np.sqrt(0.5), abs=1e-3)  # Student's t with three degrees of freedom
    assert low == -high
    assert "4 clusters; intervals by Student's t with 3 degrees of freedom (CR2)" in str(fit)


def test_few_clusters_are_corrected():
    """By hand: λ = 1/3 for three equal judges, so the sandwich is 3/2 of the plain one, with t of 2."""
    fit = fit_judges({"one": "aaab", "two": "aabb", "three": "abbb"})
    assert fit.scores["a"] == pytest.approx(0, abs=1e-12)
    plain = (1**2 + 0**2 + 1**2) / 3**2  # residual scores 1, 0, −1; information 12/4
    assert fit.difference("a", "b").standard_error ** 2 == pytest.approx(1.5 * plain)
    assert fit.difference("a", "b").degrees == pytest.approx(2)


def test_what_depends_on_one_cluster_has_no_error():
    games = {
        "winner": ["a", "b"] * 4 + ["a", "c"],
        "loser": ["b", "a"] * 4 + ["c", "a"],
        "judge": [1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
    }
    fit = at.fit_choices(games, winner="winner", loser="loser", cluster="judge")
    assert fit.difference("a", "b").standard_error is not None
    assert fit.difference("a", "c").standard_error is None  # only judge 5 saw c
    assert "whose ratings depend too much on one cluster" in str(fit)


def test_bounds_count_all_choices_of_a_cluster_as_one():
    """One judge who says the same forty times is no forty judges."""
    games = {"winner": ["a"] * 40, "loser": ["b"] * 40}
    alone = at.fit_choices({**games, "judge": list(range(40))}, cluster="judge").board()
    same = at.fit_choices({**games, "judge": [number // 10 for number in range(40)]}, cluster="judge").board()
    four = at.fit_choices(["a"], losers=["b"], counts=[4]).board()
    forty = at.fit_choices(["a"], losers=["b"], counts=[40]).board()
    assert alone["high"][1] == pytest.approx(forty["high"][1], abs=1e-6)
    assert same["high"][1] == pytest.approx(four["high"][1], abs=1e-6)
    assert "bounds of infinite ratings count each cluster as one choice" in str(same)
    assert same["rank_high"] == [2, 2]


def test_features_have_the_errors_of_clusters():
    rng = np.random.default_rng(3)
    first = rng.integers(0, 3, 200)
    second, x = (first + rng.integers(1, 3, 200)) % 3, rng.normal(size=200)
    won = rng.random(200) < 1 / (1 + np.exp(-x))
    frame = {"first": first, "second": second, "won": np.where(won, "first", "second"), "x": x}
    columns = {"first": "first", "second": "second", "outcome": "won", "features": ["x"], "cluster": "judge"}
    few = at.fit_choices({**frame, "judge": rng.integers(0, 4, 200)}, **columns).coefficients["x"]
    many = at.fit_choices({**frame, "judge": np.arange(200)}, **columns).coefficients["x"]
    assert few.degrees < 4
    assert many.degrees > 50
    low, high = few.interval()
    assert high - low > 2 * 2.5 * few.standard_error


def test_counts_with_fractions_are_weights_and_say_so():
    """[100, 50] gave ±0.173 and [100.5, 50.5] ±1.414, without a word."""
    fit = at.fit_choices(["a", "b"], losers=["b", "a"], counts=[100.5, 50.5])
    assert fit.difference("a", "b").standard_error is None
    assert "counts with fractions are weights of rows, each of which is one choice" in str(fit)
    assert "give whole numbers as counts" in str(fit)
    rows = at.fit_choices(["a", "b"] * 20, losers=["b", "a"] * 20, counts=[1.5, 0.5] * 20)
    assert rows.difference("a", "b").degrees < 40
    assert "40 rows; intervals by Student's t" in str(rows)


def test_robust_covariance_needs_three_clusters():
    fit = fit_logit(binary_logit(np.ones((6, 1)), [0, 1, 1, 0, 1, 0]))
    assert fit.robust_covariance([0, 0, 1, 1, 2, 2]).shape == (1, 1)
    with pytest.raises(UnsupportedOption, match="at least 3 clusters, and there are 2"):
        fit.robust_covariance([0, 0, 1, 1, 1, 1])


def test_a_fit_with_clusters_is_the_same_when_read_again(tmp_path):
    for fit in (
        fit_judges({"one": "aaab", "two": "aabb", "three": "abbb"}),
        at.fit_choices(["a", "b"] * 3, losers=["b", "a"] * 3, counts=[1.5, 0.5] * 3),
        at.fit_choices(
            {"ranking": [["a", ["b", "c"]], ["b", "a", "c"], ["c", "a", "b"]] * 3, "judge": [*"xxxyyyzzz"]},
            ranking="ranking",
            cluster="judge",
        ),
    ):
        again = at.ChoiceFit.load(fit.save(tmp_path / "fit", overwrite=True))
        assert str(again) == str(fit)


def test_the_command_says_it_too(tmp_path):
    (tmp_path / "games.csv").write_text("winner,loser,judge\na,b,x\nb,a,x\n")
    shown = run_inside("choices", "games.csv", "--cluster", "judge", cwd=tmp_path).stdout
    assert "no standard errors: 1 cluster, but at least 3 are needed" in shown


CANCEL = {"winner": [*"aab"] * 6, "loser": [*"bba"] * 6, "judge": [number // 3 for number in range(18)]}


@pytest.mark.parametrize("last", [1, 1.001, 1.5])
def test_scores_of_clusters_that_cancel_are_no_certainty_with_weights_either(last):
    """One count of 1.001 gave ±0.000 from 18 games, and ranks that were sure."""
    fit = at.fit_choices({**CANCEL, "n": [1] * 17 + [last]}, cluster="judge", count="n")
    assert fit.difference("a", "b").standard_error == pytest.approx(0.5, abs=0.02)  # √(1 / (18 · 2/9))
    assert fit.board()["rank_high"] == [2, 2]


def test_scores_of_clusters_that_cancel_are_no_certainty_with_half_wins_either():
    """Two wins, a loss and a tie of each of six judges gave ±0.091."""
    games = {
        "one": [*"aaba"] * 6,
        "two": [*"bbab"] * 6,
        "won": (["one"] * 3 + ["tie"]) * 5 + ["one"] * 4,
        "judge": [number // 4 for number in range(24)],
    }
    columns = {"first": "one", "second": "two", "outcome": "won", "ties": "half"}
    clustered = at.fit_choices(games, **columns, cluster="judge").difference("a", "b").standard_error
    alone = at.fit_choices(games, **columns).difference("a", "b").standard_error
    assert clustered >= 0.95 * alone > 0.3


def test_bounds_count_rows_with_weights_as_one_choice_each():
    """A row of weight 40.5 had the bound of 40.5 choices, and made two ranks sure."""
    for rows in (1, 3):
        weighted = at.fit_choices(["a"] * rows, losers=["b"] * rows, counts=[40.5] * rows).board()
        plain = at.fit_choices(["a"], losers=["b"], counts=[rows]).board()
        assert weighted["high"][1] == pytest.approx(plain["high"][1], abs=1e-6)
        assert weighted["rank_high"] == [2, 2]
        assert "bounds of infinite ratings count each row as one choice" in str(weighted)


def test_tied_rankings_with_weights_are_fitted_by_category():
    """It was an IndexError; each category is fitted as it would be alone."""
    rankings = [["a", "b", "c"], ["a", ["b", "c"]], ["c", "b", "a"], ["b", "a", "c"], [["a", "c"], "b"]]
    table = {"ranking": rankings * 2, "n": [2.5] * 5 + [1.5, 2.5, 1.5, 3.5, 1.5], "by": [*"uuuuuvvvvv"]}
    both = at.fit_choices(table, ranking="ranking", count="n", by="by").by
    for name, rows in (("u", slice(5)), ("v", slice(5, 10))):
        alone = at.fit_choices({"ranking": rankings, "n": table["n"][rows]}, ranking="ranking", count="n")
        assert both[name].scores == pytest.approx(alone.scores)
        assert str(both[name].difference("a", "b")) == str(alone.difference("a", "b"))


@pytest.mark.parametrize("shape", [(4, 9, 3), (4, 2, 6)])
def test_squares_across_clusters_are_those_of_all_pairs(shape):
    rows = np.random.default_rng(0).normal(size=shape)
    for moved, found in [
        (rows, cross_squares(rows)),
        *zip((rows - row for row in rows), difference_cross_squares(rows), strict=True),
    ]:
        pairs = [
            sum(float(a @ b) ** 2 for k, a in enumerate(one) for j, b in enumerate(one) if j != k)
            for one in moved
        ]
        np.testing.assert_allclose(found, pairs, atol=1e-9)
