"""Very many features end, or are refused."""

import subprocess
import sys

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import InvalidSamples

WIDE = """
import sys
import numpy as np
import attomaton as at
from attomaton.base.errors import AttomatonError
n_games, n_features = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
items = np.array(list("abcdefghi"))
games = {"first": items[rng.integers(0, 5, n_games)], "second": items[rng.integers(5, 9, n_games)]}
games |= {"winner": np.where(rng.random(n_games) < 0.5, games["first"], games["second"])}
games |= {f"x{one}": rng.normal(size=n_games) for one in range(n_features)}
features = [f"x{one}" for one in range(n_features)]
try:
    print(at.fit_choices(games, first="first", second="second", outcome="winner", features=features))
except AttomatonError as error:
    print(error)
"""


def fit(n_games, n_features):
    """What is printed, by a process of its own that may take two minutes."""
    command = [sys.executable, "-W", "ignore", "-c", WIDE, str(n_games), str(n_features)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_twenty_thousand_features_are_refused():
    assert "there are 20,000 columns, and at most 2,000 are supported; drop columns" in fit(30, 20_000)


def test_features_that_follow_from_others_are_found_together():
    """900 features of 30 games: of all but 22, each took a fit of its own."""
    printed = fit(30, 900)
    assert "30 choices between 9 items" in printed
    assert printed.count("in all comparisons, so ") >= 870


def test_a_regression_with_more_columns_is_refused():
    values = np.random.default_rng(0).normal(size=(20, 2001))
    with pytest.raises(
        InvalidSamples, match=r"2,00[12] columns, and at most 2,000 are supported; drop columns"
    ):
        at.check_separation(values, [0, 1] * 10)
