"""Bounds of infinite ratings and rank intervals of equal items, by hand and by enumeration."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq

import attomaton as at


def test_best_and_worst_move_up_to_four_components_at_once():
    """c was at most −4.186; by hand, for a over b over c at 0, −x, −2x: the six orders of one task."""
    frame = {"B": ["a"], "W": ["c"], "S": [["a", "b", "c"]], "n": [10]}
    fit = at.fit_choices(frame, best="B", worst="W", choice_set="S", count="n")
    odds = np.exp([1, 0.5, 0.5, -0.5, -0.5, -1])  # a−c, a−b, b−c, c−b, b−a, c−a in units of the gap

    def log_probability(gap):
        return 10 * np.log(odds[0] ** gap / (odds**gap).sum())

    right = brentq(lambda gap: log_probability(gap) - np.log(0.05), 0, 20)  # b is half-way by symmetry
    rows = {row["item"]: row for row in fit.board().table().to_pylist()}
    assert rows["c"]["high"] == pytest.approx(-right, abs=1e-5)
    assert rows["c"]["high"] == pytest.approx(-3.551, abs=1e-3)
    assert fit.logit.contrast("a", "c").bound == pytest.approx(-rows["c"]["high"], abs=1e-5)


def test_one_choice_from_a_large_set_is_one_choice():
    """The bound was −0.550: the share of w was averaged over all choices that it won."""
    known = [(a, b) for a in ("c1", "c2", "c3") for b in ("c1", "c2", "c3") if a != b]
    winners = ["w", *[a for a, _ in known]]
    sets = [["w", "c1", "c2", "c3"], *[[a, b] for a, b in known]]
    luce = at.fit_choices(winners, sets, counts=[1, *[500] * len(known)])
    rows = {row["item"]: row for row in luce.board().table().to_pylist()}
    right = np.log(3 * 0.05 / 0.95)  # e^w / (e^w + 3) = 0.05
    assert rows["w"]["low"] == pytest.approx(right, abs=1e-4)
    assert rows["w"]["low"] == pytest.approx(-1.846, abs=1e-3)
    conditional = at.fit_choices(
        winners, sets, counts=[1, *[500] * len(known)], cluster=np.arange(len(winners))
    )
    assert conditional.board()["low"][0] == pytest.approx(right, abs=1e-4)


def test_many_losers_of_one_choice_are_one_choice():
    """With forty others in the set the bound was 2.427; right is 0.744 with these."""
    names = [f"c{number}" for number in range(40)]
    winners = [*names, *names, "w"]
    sets = [
        *[[a, b] for a, b in zip(names, names[1:] + names[:1], strict=True)],
        *[[a, b] for a, b in zip(names, names[-1:] + names[:-1], strict=True)],
        ["w", *names],
    ]
    board = at.fit_choices(winners, sets).board()
    assert board["item"][0] == "w"
    assert board["low"][0] == pytest.approx(np.log(40 * 0.05 / 0.95), abs=1e-4)


def test_a_fit_with_choices_between_components_is_the_same_when_read_again(tmp_path):
    fit = at.fit_choices(["w", "a", "b"], [["w", "a", "b"], ["a", "b"], ["b", "a"]])
    again = at.ChoiceFit.load(fit.save(tmp_path / "fit"))
    assert str(again) == str(fit)


@pytest.mark.parametrize("n_games", range(1, 11))
def test_ranks_of_two_equal_items_are_wrong_in_5_percent_of_all_outcomes_at_most(n_games):
    """Five games: 5:0 and 0:5 have 6.25 %, and both said that ranks 1 and 2 were sure."""
    wrong = 0.0
    for wins in range(n_games + 1):
        games = [("a", "b", wins), ("b", "a", n_games - wins)]
        won, lost, counts = zip(*[game for game in games if game[2]], strict=True)
        board = at.fit_choices(won, losers=lost, counts=counts).board()
        chance = sum(1 for outcome in product((0, 1), repeat=n_games) if sum(outcome) == wins) / 2**n_games
        wrong += chance * (board["rank_high"][0] == 1)
    assert wrong <= 0.05
