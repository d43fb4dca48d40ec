"""A difference that is infinite has an interval: from its bound to infinity; a probability has one, too."""

import copy
import pickle
from math import exp, inf, log

import numpy as np
import pytest

import attomaton as at

WINS = {  # tiny lost all 23
    "winner": ["large", "medium", "large", "medium", "small", "large", "medium", "small", "large", "small"],
    "loser": ["medium", "large", "small", "small", "medium", "tiny", "tiny", "tiny", "tiny", "large"],
    "count": [14, 9, 12, 11, 5, 8, 7, 6, 2, 3],
}


def test_the_bound_is_where_what_happened_has_a_probability_of_one_minus_the_level():
    for n_wins, level in ((1, 0.95), (8, 0.95), (20, 0.9)):
        fit = at.fit_choices(["a"], losers=["b"], counts=[n_wins])
        ends = (1 - level) ** (1 / n_wins), 1.0  # p^n = 1 - level
        low = log(ends[0] / (1 - ends[0]))
        assert fit.difference("a", "b").interval(level) == (pytest.approx(low), inf)
        assert fit.difference("b", "a").interval(level) == (-inf, pytest.approx(-low))
        assert fit.probability_interval("a", "b", level=level) == pytest.approx(ends)
        assert fit.probability_interval("b", "a", level=level) == (0.0, pytest.approx(1 - ends[0]))


@pytest.mark.parametrize("scale", ["log-odds", "elo"])
def test_it_is_the_bound_of_the_board(scale):
    fit = at.fit_choices(WINS, scale=scale)
    board = {row["item"]: row for row in fit.to_pandas().to_dict("records")}
    for item in ("large", "medium", "small"):
        gap = fit.difference(item, "tiny")
        assert (gap.value, gap.standard_error, gap.interval()[1]) == (inf, None, inf)
        assert gap.interval()[0] == pytest.approx(board[item]["rating"] - board["tiny"]["high"])
        assert fit.difference("tiny", item).interval() == (-inf, pytest.approx(-gap.interval()[0]))
        assert fit.probability(item, "tiny") == 1.0
        unit = 400 / log(10) if scale == "elo" else 1.0
        low = 1 / (1 + exp(-gap.interval()[0] / unit))
        assert fit.probability_interval(item, "tiny") == pytest.approx((low, 1.0))


def test_print_says_it():
    fit = at.fit_choices(WINS)
    text = "'small' minus 'tiny': +inf (at least +1.276 with confidence 95 %)"
    assert str(fit.difference("small", "tiny")) == text
    text = "'tiny' minus 'small': -inf (at most -1.276 with confidence 95 %)"
    assert str(fit.difference("tiny", "small")) == text


def test_a_higher_confidence_is_a_weaker_bound():
    gap = at.fit_choices(WINS).difference("small", "tiny")
    ends = [gap.interval(level)[0] for level in (0.5, 0.9, 0.95, 0.999)]
    assert ends == sorted(ends, reverse=True)
    with pytest.raises(at.AttomatonError, match="level"):
        gap.interval(1.0)


def test_a_finite_probability_has_the_interval_of_its_difference():
    fit = at.fit_choices(WINS)
    low, high = fit.probability_interval("large", "medium", level=0.9)
    assert low < fit.probability("large", "medium") < high
    ends = np.array(fit.difference("large", "medium").interval(0.9))
    assert (low, high) == pytest.approx(tuple(1 / (1 + np.exp(-ends))))


def test_where_a_tie_is_an_outcome_the_interval_contains_the_probability_of_a_win():
    games = {"first": [*"ababa"], "second": [*"babaz"], "won": [1, 1, 0.5, 0, 1]}
    fit = at.fit_choices(games, first="first", second="second", outcome="won")
    low, high = fit.probability_interval("a", "b")
    assert low < fit.outcomes("a", "b").win < high
    assert fit.probability_interval("a", "z")[1] == 1.0
    assert fit.probability_interval("z", "a")[0] == 0.0


def test_a_feature_that_is_infinite_leaves_the_bound():
    games = {
        "model_a": [*"abcabca"],
        "model_b": [*"bcababz"],
        "winner": [f"model_{side}" for side in "ababab"] + ["model_a"],
        "cited": [1, 0, 1, 0, 0, 0, 0],
    }
    fit = at.fit_choices(games, features=["cited"])
    assert fit.coefficients["cited"].value == inf
    low, high = fit.difference("c", "z").interval()
    assert np.isfinite(low)
    assert high == inf


@pytest.mark.parametrize("copied", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy])  # noqa: S301
def test_a_fit_that_was_asked_for_everything_can_be_pickled(copied):
    fit = at.fit_choices(WINS)
    gap = fit.difference("small", "tiny")
    answers = [fit.probability("large", "small"), fit.missing, fit.order, fit.direction, gap.interval()]
    again = copied(fit)
    other = again.difference("small", "tiny")
    assert answers == [
        again.probability("large", "small"),
        again.missing,
        again.order,
        again.direction,
        other.interval(),
    ]
    assert copied(gap).interval() == gap.interval()
    assert other == again.difference("small", "tiny")
