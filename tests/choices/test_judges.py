"""Judges compared, choices left out, and what to compare next, against definitions and simulation."""

from itertools import permutations

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import UnsupportedOption
from attomaton.choices import compare_judges

ITEMS, JUDGES = "abc", "vwxyz"


@pytest.fixture
def rng():
    """Seeded numbers."""
    return np.random.default_rng(0)


def draw_votes(rng, n=60, n_tasks=4):
    """Votes of judges on tasks, some of them several times, with ties."""
    pairs = np.array(list(permutations(range(3), 2)))[rng.integers(6, size=n)]
    return {
        "first": [ITEMS[a] for a, _ in pairs.tolist()],
        "second": [ITEMS[b] for _, b in pairs.tolist()],
        "outcome": rng.choice([0.0, 0.5, 1.0], n).tolist(),
        "judge": [JUDGES[k] for k in rng.integers(5, size=n).tolist()],
        "task": rng.integers(n_tasks, size=n).tolist(),
        "n": rng.integers(1, 3, n).tolist(),
    }


def list_votes(votes):
    """Task and pair, judge, score of the alphabetically first, and whether that stood first; with repeats."""
    for row in zip(*votes.values(), strict=True):
        first, second, outcome, judge, task, n = row
        ahead = first < second
        unit = (task, min(first, second), max(first, second))
        yield from [(unit, judge, outcome if ahead else 1 - outcome, ahead)] * n


@pytest.mark.parametrize("seed", range(4))
def test_alpha_and_agreement_by_definition(seed):
    votes = draw_votes(np.random.default_rng(seed))
    result = compare_judges(votes, cluster="judge", task="task", count="n")
    rows, coincidences, alike = list(list_votes(votes)), np.zeros((3, 3)), dict.fromkeys(JUDGES, (0, 0))
    for unit, judge, score, _ in rows:
        others = [(one, s) for u, one, s, _ in rows if u == unit and one != judge]
        for _, s in others:
            for low, high in ((score, s), (1 - score, 1 - s)):
                coincidences[int(2 * low), int(2 * high)] += 0.5 / len(others)
            alike[judge] = alike[judge][0] + (s == score), alike[judge][1] + 1
    apart = np.square(np.subtract.outer([0, 0.5, 1], [0, 0.5, 1]))
    margin, n = coincidences.sum(axis=1), coincidences.sum()
    expected = np.outer(margin, margin) / (n * (n - 1))
    assert result.alpha == pytest.approx(1 - (coincidences * apart).sum() / n / (expected * apart).sum())
    found = {row["judge"]: row["agreement"] for row in result.table().to_pylist()}
    assert found == pytest.approx({judge: one / all_ for judge, (one, all_) in alike.items()})


@pytest.mark.parametrize("seed", range(3))
def test_swapped_positions_by_definition(seed):
    votes = draw_votes(np.random.default_rng(seed), n=120)
    result = compare_judges(votes, cluster="judge", task="task", count="n", moved_first="first")
    cells = {}
    for unit, judge, score, ahead in list_votes(votes):
        cells.setdefault((unit, judge), ([], []))[not ahead].append(score)
    cells = [cell for cell in cells.values() if all(cell)]
    shares = [
        [np.mean([rule(x, y) for x in before for y in after]) for before, after in cells]
        for rule in (
            lambda x, y: x == y,
            lambda x, y: (x, y) == (1, 0),
            lambda x, y: (x, y) == (0, 1),
        )
    ]
    assert result.n_swapped == len(cells)
    assert (result.alike, result.always_first, result.always_second) == pytest.approx(np.mean(shares, axis=1))
    assert "seen in both orders by one judge" in str(result)


def test_the_influence_of_a_judge_is_the_fit_without(rng):
    votes = draw_votes(rng, n=400)
    result = compare_judges(votes, cluster="judge", task="task", count="n", scale="elo")
    full = at.fit_choices(votes, cluster="judge", count="n", scale="elo")
    shifts = []
    for row in result.table().to_pylist():
        keep = [judge != row["judge"] for judge in votes["judge"]]
        rest = {
            name: [cell for cell, use in zip(column, keep, strict=True) if use]
            for name, column in votes.items()
        }
        part = at.fit_choices(rest, count="n", scale="elo")
        moved = {item: part.scores[item] - full.scores[item] for item in ITEMS}
        ratio = {item: abs(moved[item]) / full.standard_errors[item] for item in ITEMS}
        assert row["item"] == max(ratio, key=ratio.get)
        assert row["shift"] == pytest.approx(moved[row["item"]], abs=1e-6)
        assert abs(row["shift_in_errors"]) == pytest.approx(ratio[row["item"]], abs=1e-6)
        shifts.append(abs(row["shift_in_errors"]))
    assert shifts == sorted(shifts, reverse=True)
    assert sum(result.table().column("choices").to_pylist()) == sum(votes["n"])
    assert result.to_dict()["judges"] == result.table().to_pylist()


def test_without_a_judge_a_rating_may_be_infinite():
    votes = {"winner": list("abab"), "loser": list("baba"), "judge": list("xxyz")}
    votes |= {"winner": [*votes["winner"], "c", "a"], "loser": [*votes["loser"], "a", "c"]}
    votes["judge"] = [*votes["judge"], "z", "y"]
    first = compare_judges(votes, cluster="judge").table().to_pylist()[0]
    assert (first["judge"], first["item"], first["shift"]) == ("y", "c", None)


def test_what_judges_are_not_compared_on():
    sets = {"winner": ["a", "b"], "choice_set": [["a", "b", "c"]] * 2, "judge": ["x", "y"]}
    with pytest.raises(UnsupportedOption, match="compared on pairs"):
        compare_judges(sets, cluster="judge", choice_set="choice_set")
    many = {"winner": ["a"] * 1_001, "loser": ["b"] * 1_001, "judge": list(range(1_001))}
    with pytest.raises(UnsupportedOption, match=r"1,001 judges"):
        compare_judges(many, cluster="judge")


def draw_games(rng, n_games, truth, position=0.0):
    """Games of Bradley and Terry, one row each."""
    first = rng.integers(len(truth), size=n_games)
    second = (first + rng.integers(1, len(truth), n_games)) % len(truth)
    won = rng.random(n_games) < 1 / (1 + np.exp(truth[second] - truth[first] - position))
    names = [["abcdefgh"[item] for item in side.tolist()] for side in (first, second)]
    return {"first": names[0], "second": names[1], "outcome": won.astype(int).tolist()}


def fold_by_definition(fit, rows, refit, n_folds, group):
    """The log loss of the choices of each fold, and how often they were impossible or open."""
    fold = (np.random.default_rng(0).permutation(group.max() + 1) % n_folds)[group]
    loss, impossible, unknown = 0.0, 0, 0
    for number in range(n_folds):
        part = refit([row for row, k in zip(rows, fold, strict=True) if k != number])
        for (first, second, outcome), k in zip(rows, fold, strict=True):
            if k == number:
                try:
                    p = part.probability(*((first, second) if outcome else (second, first)))
                except at.AttomatonError:
                    unknown += 1
                    continue
                impossible += p == 0
                loss -= np.log(p) if p else np.inf
    return loss / (len(rows) - unknown), impossible, unknown


@pytest.mark.parametrize("penalty", [None, "firth"])
@pytest.mark.parametrize("n_games", [20, 200])
def test_log_loss_by_definition(rng, penalty, n_games):
    games = draw_games(rng, n_games, np.linspace(1, -1, 5))
    rows = sorted(zip(*games.values(), strict=True), key=lambda row: (sorted(row[:2]), row))

    def refit(some):
        return at.fit_choices(
            dict(zip(games, map(list, zip(*some, strict=True)), strict=True)), penalty=penalty
        )

    fit = refit(rows)
    test = fit.cross_validate(n_folds=4)
    fitted = fit.cross_validate(n_folds=10**9)  # each choice by itself: no matter in which order
    alone = fold_by_definition(fit, rows, refit, len(rows), np.arange(len(rows)))
    assert fitted.n_folds == len(rows)
    assert (fitted.log_loss, fitted.n_impossible, fitted.n_open) == pytest.approx(alone)
    assert test.fitted == pytest.approx(-fit.log_likelihood / n_games)
    assert test.even == pytest.approx(np.log(2))
    table = test.to_pandas()
    assert table.alternatives.sum() == 2 * (n_games - test.n_open)
    assert (table.happened * table.alternatives).sum() == pytest.approx(n_games - test.n_open)


def test_log_loss_with_ties_features_and_clusters(rng):
    """Whole clusters are left out, and probabilities are those of ``predict_proba``."""
    games = draw_games(rng, 240, np.linspace(1, -1, 4), position=0.5)
    games["outcome"] = [0.5 if rng.random() < 0.3 else one for one in games["outcome"]]
    games |= {"length": rng.standard_normal(240).tolist(), "judge": rng.integers(6, size=240).tolist()}
    options = {"moved_first": "first", "features": ["length"]}
    test = at.fit_choices(games, cluster="judge", **options).cross_validate(n_folds=6)
    loss, judges = 0.0, np.array(games["judge"])
    for judge in range(6):
        parts = [
            {name: [column[k] for k in np.flatnonzero(use).tolist()] for name, column in games.items()}
            for use in (judges != judge, judges == judge)
        ]
        p = at.fit_choices(parts[0], **options).predict_proba(parts[1], **options)
        happened = [[1, 0.5, 0].index(one) for one in parts[1]["outcome"]]
        loss -= np.log(p[np.arange(len(p)), happened]).sum()
    assert (test.n_folds, test.even) == (6, pytest.approx(np.log(3)))
    assert test.log_loss == pytest.approx(loss / 240)


def test_log_loss_of_sets_with_repeated_items(rng):
    sets = [[*rng.integers(4, size=3).tolist(), 9] for _ in range(80)]
    winners = [one[rng.integers(3)] for one in sets]
    fit = at.fit_choices(winners, sets)
    test = fit.cross_validate(n_folds=80)
    loss = 0.0
    for left_out, (winner, choice_set) in enumerate(zip(winners, sets, strict=True)):
        use = [k for k in range(80) if k != left_out]
        part = at.fit_choices([winners[k] for k in use], [sets[k] for k in use])
        loss -= np.log(part.probability(winner, choice_set))
    assert test.log_loss == pytest.approx(loss / 80)


def test_choices_that_cannot_be_left_out(rng):
    games = draw_games(rng, 30, np.zeros(3))
    for options, reason in (
        ({"prior": 1.0}, "a ridge or a prior"),
        ({"counts": [0.5] * 30}, "fractions of choices"),
    ):
        with pytest.raises(UnsupportedOption, match=reason):
            at.fit_choices(games, **options).cross_validate()
    with pytest.raises(UnsupportedOption, match="at least two clusters"):
        at.fit_choices(games, cluster=[1] * 30).cross_validate()
    with pytest.raises(UnsupportedOption, match="n_folds"):
        at.fit_choices(games).cross_validate(n_folds=1)
