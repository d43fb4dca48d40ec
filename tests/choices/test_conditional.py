"""Ties as outcomes, position, features, clusters and categories, in every method of a fit."""

import json
from itertools import permutations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from tests.cli.inside import run_inside

import attomaton as at
from attomaton.base.errors import InvalidSamples, UndeterminedChoice, UnsupportedOption
from attomaton.choices.logit import ContrastKind
from attomaton.choices.precedence import order_by_contrasts


def draw_battles(rng, strength, n_battles, *, tie=-np.inf, moved_first=0.0, effect=()):
    """First and second item, features of the first less the second, and 0, 1 or 2 (a tie)."""
    size = len(strength)
    first = rng.integers(0, size, n_battles)
    second = (first + rng.integers(1, size, n_battles)) % size
    features = rng.normal(size=(n_battles, len(effect)))
    half = 0.5 * (strength[first] - strength[second] + moved_first + features @ np.asarray(effect))
    utility = np.stack([half, -half, np.full(n_battles, tie)], axis=1)
    outcome = (utility + rng.gumbel(size=(n_battles, 3))).argmax(axis=1)
    return first, second, features, outcome


def frame_of(first, second, outcome):
    words = np.array(["model_a", "model_b", "tie"])
    return pd.DataFrame({"model_a": first, "model_b": second, "winner": words[outcome]})


ARENA = {"first": "model_a", "second": "model_b", "outcome": "winner"}


def same_fit(one, other, digits=1e-9):
    assert one.items == other.items
    assert set(map(frozenset, one.components)) == set(map(frozenset, other.components))
    named = [
        {(frozenset(fit.components[a]), frozenset(fit.components[b])) for a, b in fit.order}
        for fit in (one, other)
    ]
    assert named[0] == named[1]
    assert one.scores == pytest.approx(other.scores, abs=digits, nan_ok=True)


def random_table(seed):
    """Pairs, sets or rankings of few items, often unconnected, with or without ties as half wins."""
    rng = np.random.default_rng(seed)
    size, n_rows, kind = int(rng.integers(2, 8)), int(rng.integers(1, 25)), seed % 4
    counts = rng.integers(1, 4, n_rows)
    if kind < 2:
        won = rng.integers(0, size, n_rows)
        lost = (won + rng.integers(1, size, n_rows)) % size
        tied = (rng.random(n_rows) < 0.25) & (kind == 1)
        return {"winners": won, "losers": lost, "tied": tied, "counts": counts, "ties": "half"}
    orders = [rng.permutation(size)[: rng.integers(2, size + 1)].tolist() for _ in range(n_rows)]
    if kind == 2:
        won = [int(rng.choice(order)) for order in orders]
        return {"winners": won, "choice_sets": [[*order, order[0]] for order in orders], "counts": counts}
    return {"rankings": orders, "counts": counts}


def check_random_table(seed):
    table = random_table(seed)
    luce = at.fit_choices(**table)
    logit = at.fit_choices(**table, cluster=np.arange(len(table["counts"])))
    assert luce.logit is None
    assert logit.soft is None
    same_fit(logit, luce)
    assert logit.log_likelihood == pytest.approx(luce.log_likelihood, abs=1e-8)
    one, other = (fit.to_pandas().set_index("item")[["wins", "losses"]] for fit in (logit, luce))
    np.testing.assert_allclose(one.loc[[*luce.items]], other.loc[[*luce.items]])
    assert logit.n_ties == luce.n_ties


def test_the_conditional_logit_is_the_luce_model_where_both_apply():
    for seed in range(40):
        check_random_table(seed)


@pytest.mark.slow  # a thousand tables
def test_the_conditional_logit_is_the_luce_model_on_a_thousand_tables():
    for seed in range(40, 1040):
        check_random_table(seed)


def random_features(seed):
    """A small arena with ties, position and features, some of which separate."""
    rng = np.random.default_rng(seed)
    size, n_battles = int(rng.integers(2, 6)), int(rng.integers(3, 40))
    first, second, features, outcome = draw_battles(
        rng, rng.normal(size=size), n_battles, tie=-0.5, effect=[0.5]
    )
    frame = frame_of(first, second, outcome)
    frame["x"] = np.round(features[:, 0], 1)
    frame["flag"] = (rng.random(n_battles) < 0.2) * 1.0
    return frame


@pytest.mark.parametrize("seed", range(30))
def test_the_order_is_that_of_all_differences(seed):
    """The definition: the class of every difference of two items."""
    options = [
        {},
        {"moved_first": "model_a"},
        {"features": ["x"]},
        {"moved_first": "model_a", "features": ["x", "flag"]},
    ]
    fit = at.fit_choices(random_features(seed), **ARENA, **options[seed % 4], cluster=None)
    if fit.logit is None:
        return
    place = {item: number for number, part in enumerate(fit.components) for item in part}
    reach = np.eye(len(fit.components), dtype=bool)
    for above, below in sorted(fit.order, reverse=True):
        reach[above] |= reach[below]
    for one, a in enumerate(fit.items):
        for other, b in enumerate(fit.items):
            contrast = np.zeros(len(fit.logit.problem.names))
            contrast[one] += 1
            contrast[other] -= 1
            kind = fit.logit.classify(contrast[None])[0]
            assert (kind is ContrastKind.FINITE) == (place[a] == place[b])
            assert (kind is ContrastKind.PLUS) == (place[a] != place[b] and reach[place[a], place[b]])
            if kind is ContrastKind.FINITE and a != b:
                value = float(contrast @ (fit.logit.evidence.beta / fit.logit.problem.scale))
                assert fit.difference(a, b).value == pytest.approx(value, abs=1e-9)
            elif kind in (ContrastKind.UNDECIDED, ContrastKind.UNIDENTIFIED):
                with pytest.raises(UndeterminedChoice, match="leave the difference"):
                    fit.difference(a, b)
    slow = order_by_contrasts(fit.logit, len(fit.items), None)
    np.testing.assert_array_equal(slow.component_of_node, fit.graph.component_of_node)
    ends = [
        zip(*(one.order[name].to_pylist() for name in ("above", "below")), strict=True)
        for one in (slow, fit.graph)
    ]
    assert set(ends[0]) >= set(ends[1])


@pytest.mark.parametrize(("tie", "share", "half_gap"), [(-0.323, 0.19, 1.42), (1.007, 0.47, 0.84)])
def test_a_gap_of_two_is_recovered_whatever_the_ties(tie, share, half_gap):
    rng = np.random.default_rng(0)
    first, second, _, outcome = draw_battles(rng, np.array([2.0, 0.0]), 40_000, tie=tie)
    assert (outcome == 2).mean() == pytest.approx(share, abs=0.01)
    frame = frame_of(first, second, outcome)
    gap = at.fit_choices(frame, **ARENA).difference(0, 1)
    assert abs(gap.value - 2.0) < 4 * gap.standard_error < 0.15
    half = at.fit_choices(frame, **ARENA, ties="half")
    assert half.difference(0, 1).value == pytest.approx(half_gap, abs=0.05)
    assert "scores give the expected score of a pair, not the odds of a win" in str(half)


def test_the_probabilities_of_a_pair_are_the_shares_of_its_outcomes():
    """With two items and no features the model is saturated."""
    frame = frame_of([0] * 100, [1] * 100, np.repeat([0, 1, 2], [50, 20, 30]))
    fit = at.fit_choices(frame, **ARENA)
    assert fit.outcomes(0, 1) == pytest.approx((0.5, 0.3, 0.2), abs=1e-9)
    assert fit.outcomes(1, 0) == pytest.approx((0.2, 0.3, 0.5), abs=1e-9)
    assert fit.probability(0, 1) == pytest.approx(0.5)
    assert fit.probability(0, [0, 1]) == pytest.approx(0.5)
    assert fit.log_likelihood == pytest.approx(50 * np.log(0.5) + 20 * np.log(0.2) + 30 * np.log(0.3))
    assert fit.aic == pytest.approx(4 - 2 * fit.log_likelihood)
    assert (fit.n_ties, fit.n_parameters) == (30, 2)
    with pytest.raises(UnsupportedOption, match=r"need pairs|are for pairs"):
        fit.probability(0, [0, 0])
    with pytest.raises(UnsupportedOption, match="fit with moved_first="):
        fit.outcomes(0, 1, moved_first=0)


def test_wins_and_ties_alone_leave_their_odds_finite():
    """Gap and tie parameter are both infinite, and the odds of a win against a tie are 3."""
    fit = at.fit_choices(frame_of([0] * 4, [1] * 4, np.array([0, 0, 0, 2])), **ARENA)
    assert fit.difference(0, 1).value == np.inf
    assert fit.coefficients["tie"].kind is ContrastKind.PLUS
    assert fit.outcomes(0, 1) == pytest.approx((0.75, 0.25, 0.0))
    assert fit.outcomes(1, 0) == pytest.approx((0.0, 0.25, 0.75))


def test_position_and_features_are_recovered_and_named():
    rng = np.random.default_rng(1)
    strength = np.array([0.0, 0.5, 1.0, 1.5])
    first, second, features, outcome = draw_battles(
        rng, strength, 8000, tie=-0.3, moved_first=0.4, effect=[0.5, -0.3]
    )
    frame = frame_of(first, second, outcome)
    frame["length_a"], frame["length_b"] = 3 + features[:, 0], 3.0
    frame["style"] = features[:, 1]
    fit = at.fit_choices(frame, **ARENA, moved_first="model_a", features=["length", "style"])
    truth = {"moved_first": 0.4, "length": 0.5, "style": -0.3, "tie": -0.3}
    assert set(fit.coefficients) == set(truth)
    for name, value in truth.items():
        one = fit.coefficients[name]
        assert abs(one.value - value) < 4 * one.standard_error
        assert name in str(fit)
    for item in range(3):
        gap = fit.difference(item + 1, item)
        assert abs(gap.value - 0.5) < 4 * gap.standard_error
    other = at.fit_choices(
        frame[["model_a", "model_b", "winner"]],
        **ARENA,
        moved_first=frame["model_a"],
        features={"length": (frame["length_a"], [3.0] * len(frame)), "style": features[:, 1]},
    )
    assert other.scores == pytest.approx(fit.scores)
    ahead, behind = fit.outcomes(3, 0, moved_first=3), fit.outcomes(3, 0, moved_first=0)
    assert ahead.win > fit.outcomes(3, 0).win > behind.win
    elo = at.fit_choices(frame, **ARENA, moved_first="model_a", features=["length", "style"], scale="elo")
    unit = 400 / np.log(10)
    assert elo.scores[3] == pytest.approx(1000 + unit * fit.scores[3])
    assert elo.difference(3, 0).standard_error == pytest.approx(unit * fit.difference(3, 0).standard_error)
    assert elo.coefficients["length"].value == pytest.approx(unit * fit.coefficients["length"].value)
    np.testing.assert_allclose(elo.covariance(), unit**2 * fit.covariance())
    assert elo.probability(3, 0) == fit.probability(3, 0)


def test_who_moved_first_may_be_any_column_and_empty():
    won, lost = list("abab" * 3), list("baba" * 3)
    first = [*"aabb", "a", "b", None, None, "a", "b", "b", "a"]
    fit = at.fit_choices(won, losers=lost, moved_first=first)
    position = [1 if f == w else 0 if f is None else -1 for w, f in zip(won, first, strict=True)]
    other = at.fit_choices(won, losers=lost, features={"moved": position})
    assert fit.coefficients["moved_first"].value == pytest.approx(other.coefficients["moved"].value)
    with pytest.raises(InvalidSamples, match="moved_first is 'c' in row 1, which is not an item of the pair"):
        at.fit_choices(["a", "b"], losers=["b", "a"], moved_first=["a", "c"])


def test_a_feature_of_items_is_named_as_part_of_the_scores():
    first, second, _, outcome = draw_battles(np.random.default_rng(2), np.array([0.0, 0.5, 1.0]), 200, tie=-1)
    frame = frame_of(first, second, outcome)
    plain = at.fit_choices(frame, **ARENA)
    fit = at.fit_choices(frame, **ARENA, features={"size": {0: 7.0, 1: 13.0, 2: 70.0}, "same": [0.0] * 200})
    assert fit.scores == pytest.approx(plain.scores)
    assert fit.coefficients["size"].kind is ContrastKind.UNIDENTIFIED
    assert "size = " in str(fit)
    assert "scores already include its effect" in str(fit)
    assert "same" in str(fit)
    assert "never differs" in str(fit)
    assert set(fit.coefficients) == {"tie", "size", "same"}


def test_one_unbeaten_and_one_unconnected_item_take_no_score_away():
    first, second, features, outcome = draw_battles(
        np.random.default_rng(3), np.array([0.0, 0.5, 1.0]), 300, tie=-1, effect=[0.3]
    )
    frame = frame_of(first, second, outcome).assign(x=features[:, 0])
    options = {**ARENA, "features": ["x"], "moved_first": "model_a"}
    plain = at.fit_choices(frame, **options)
    extra = pd.DataFrame(
        {"model_a": [9, 1, 20], "model_b": [0, 9, 21], "winner": ["model_a", "model_b", "tie"]}
    )
    fit = at.fit_choices(pd.concat([frame, extra.assign(x=0.0)], ignore_index=True), **options)
    assert [fit.scores[item] for item in range(3)] == pytest.approx(
        [plain.scores[k] for k in range(3)], abs=0.02
    )
    assert fit.difference(9, 2).value == np.inf
    assert np.isnan(fit.scores[9])
    with pytest.raises(UndeterminedChoice):
        fit.difference(20, 0)
    assert fit.outcomes(9, 0) == pytest.approx((1.0, 0.0, 0.0))


def test_a_flag_that_always_loses_is_minus_infinity_with_its_bound():
    first, second, _, outcome = draw_battles(np.random.default_rng(4), np.array([0.0, 0.5, 1.0]), 300, tie=-1)
    refused = np.zeros(300)
    refused[::10] = 1
    outcome[::10] = 1
    fit = at.fit_choices(
        frame_of(first, second, outcome).assign(refused=refused), **ARENA, features="refused"
    )
    one = fit.coefficients["refused"]
    assert (one.kind, one.value, one.comparisons) == (ContrastKind.MINUS, -np.inf, 30)
    assert "refused" in str(fit)
    assert "30 comparisons: -" in str(fit)
    record = next(row for row in fit.to_dict()["coefficients"] if row["name"] == "refused")
    assert (record["kind"], record["estimate"]) == ("-inf", None)
    json.dumps(fit.to_dict(), allow_nan=False)
    assert fit.connected


def test_clusters_are_the_errors_shown():
    rng = np.random.default_rng(5)
    first, second, _, outcome = draw_battles(rng, np.array([0.0, 0.5, 1.0]), 300, tie=-1)
    frame = frame_of(first, second, outcome).assign(judge=rng.integers(0, 30, 300))
    plain, fit = (at.fit_choices(frame, **ARENA, cluster=name) for name in (None, "judge"))
    assert fit.scores == pytest.approx(plain.scores, abs=1e-9)
    expected = fit.logit.robust_covariance(frame["judge"].to_numpy())
    gap = expected[0, 0] + expected[1, 1] - 2 * expected[0, 1]
    assert fit.difference(0, 1).standard_error == pytest.approx(gap**0.5)
    assert fit.difference(0, 1).standard_error != pytest.approx(plain.difference(0, 1).standard_error)
    assert fit.coefficients["tie"].standard_error == pytest.approx(expected[-1, -1] ** 0.5)
    assert "standard errors: clustered, 30 clusters" in str(fit)
    twice = pd.concat([frame, frame], ignore_index=True)  # each judge says all again: nothing new
    again = at.fit_choices(twice, **ARENA, cluster="judge")
    assert again.difference(0, 1).standard_error == pytest.approx(fit.difference(0, 1).standard_error)


def test_counts_may_be_fractions():
    won, lost, weight = list("abacbc"), list("bacaab"), np.array([3.0, 1, 2, 1, 0.5, 2.5])
    fit = at.fit_choices(won, losers=lost, counts=weight)
    whole = at.fit_choices(won, losers=lost, counts=(2 * weight).astype(int))
    same_fit(fit, whole)
    double = at.fit_choices(won, losers=lost, counts=3.5 * weight)
    assert double.standard_errors == pytest.approx(fit.standard_errors)  # weights have no unit
    assert "standard errors: counts with fractions are weights of rows, each of which is one choice" in str(
        fit
    )
    assert fit.to_dict()["choices"] == 10
    with pytest.raises(UnsupportedOption, match="fractions of choices have no likelihood"):
        fit.aic  # noqa: B018
    sets = at.fit_choices(["a", "b"], [["a", "b", "c"], ["b", "a", "a"]], counts=[0.5, 1.5])
    ranked = at.fit_choices(rankings=[["a", ["b", "c"]], ["c", "a"]], counts=[0.5, 1.5])
    assert sets.logit is not None
    same_fit(ranked, at.fit_choices(rankings=[["a", ["b", "c"]], ["c", "a"]], counts=[1, 3]))
    same_fit(sets, at.fit_choices(["a", "b"], [["a", "b", "c"], ["b", "a", "a"]], counts=[1, 3]))


def test_categories_are_fitted_each_by_itself(tmp_path):
    first, second, _, outcome = draw_battles(np.random.default_rng(6), np.array([0.0, 0.5, 1.0]), 400, tie=-1)
    frame = frame_of(first, second, outcome).assign(topic=np.where(np.arange(400) % 4 == 0, "code", "prose"))
    for options in ({}, {"ties": "half"}, {"moved_first": "model_a"}):
        fit = at.fit_choices(frame, **ARENA, by="topic", **options)
        assert list(fit.by) == ["code", "prose"]
        for topic, part in fit.by.items():
            alone = at.fit_choices(frame[frame.topic == topic].reset_index(drop=True), **ARENA, **options)
            same_fit(part, alone)
            assert part.to_dict() == alone.to_dict()
        assert "code (100), prose (300)" in str(fit)
        again = at.ChoiceFit.load(fit.save(tmp_path / "fit", overwrite=True))
        assert again.to_dict() == fit.to_dict()
    rankings = at.fit_choices(rankings=[["a", ["b", "c"]], ["c", "d"], ["b", "a"]], by=["x", "y", "x"])
    assert rankings.by["y"].items == ("c", "d")
    assert rankings.by["x"].n_ties == 1
    assert at.fit_choices(list("ab"), [["a", "b"]] * 2, by=[1, 2]).by[2].components == (("b",), ("a",))


def test_the_long_format_is_that_of_sets():
    winners, sets = ["a", "b", "a", "c"], [["a", "b", "c"], ["b", "a"], ["a", "c"], ["c", "b", "a"]]
    rows = [
        {"trip": number, "mode": item, "taken": int(item == winner)}
        for number, (winner, members) in enumerate(zip(winners, sets, strict=True))
        for item in members
    ]
    names = {"situation": "trip", "alternative": "mode", "chosen": "taken"}
    frame = pd.DataFrame(rows).sample(frac=1, random_state=0)
    fit = at.fit_choices(frame, **names)
    plain = at.fit_choices(winners, sets)
    assert fit.components == plain.components
    assert fit.scores == pytest.approx(
        {item: plain.scores[item] for item in fit.items}, abs=1e-9, nan_ok=True
    )
    assert fit.to_pandas().set_index("item").wins.to_dict() == {"a": 2, "b": 1, "c": 1}
    frame["price"] = np.random.default_rng(0).normal(size=len(frame))
    priced = at.fit_choices(frame, **names, features=["price"], cluster="trip")
    assert "price" in priced.coefficients
    assert at.fit_choices(frame.replace({"taken": {1: "yes", 0: "no"}}), **names).scores == fit.scores
    assert at.fit_choices(frame.assign(kind="x"), **names, by="kind").by["x"].scores == fit.scores
    with pytest.raises(InvalidSamples, match="chosen is negative \\(-1\\) in row 0"):
        at.fit_choices(frame.assign(taken=-1), **names)
    with pytest.raises(InvalidSamples, match="cluster has different values inside the situation of row"):
        at.fit_choices(frame, **names, cluster="mode")
    with pytest.raises(InvalidSamples, match="leave counts and tied out"):
        at.fit_choices(frame, **names, counts=[1] * len(frame))


def test_best_and_worst():
    rng = np.random.default_rng(7)
    drawn = [rng.permutation(5)[:3] for _ in range(60)]
    sets = [[f"item {k}" for k in row] for row in drawn]
    best, worst = [row[0] for row in sets], [row[2] for row in sets]

    def loss(scores):  # the pair of best and worst, among all ordered pairs of the set
        score = np.append(scores, 0.0)[np.array(drawn)]
        pairs = np.stack([score[:, i] - score[:, j] for i, j in permutations(range(3), 2)], axis=1)
        return np.sum(logsumexp(pairs, axis=1) - (score[:, 0] - score[:, 2]))

    expected = minimize(loss, np.zeros(4), tol=1e-10).x
    shuffled = [sorted(row) for row in sets]
    lists = {"best": best, "worst": worst, "choice_set": shuffled}
    wide = {"best": best, "worst": worst, **{f"o{k}": [row[k] for row in shuffled] for k in range(3)}}
    for fit in (
        at.fit_choices(lists),
        at.fit_choices(**lists),
        at.fit_choices(pa.table(lists)),
        at.fit_choices(wide, best="best", worst="worst", choice_set=["o0", "o1", "o2"]),
    ):
        gap = fit.difference("item 0", "item 1")
        assert gap.value == pytest.approx(expected[0] - expected[1], abs=1e-5)
    assert (sum(fit.board()["wins"]), sum(fit.board()["losses"])) == (60, 120)
    with pytest.raises(InvalidSamples, match="the same item in row 0"):
        at.fit_choices({"best": ["a"], "worst": ["a"], "choice_set": [["a", "b"]]})


def test_every_fit_is_saved_and_loaded(tmp_path):
    first, second, features, outcome = draw_battles(
        np.random.default_rng(8), np.array([0.0, 0.5, 1.0]), 60, tie=-1, effect=[0.2]
    )
    frame = frame_of(first, second, outcome).assign(x=features[:, 0], judge=np.arange(60) // 6)
    best = {"best": ["a", "b"], "worst": ["c", "a"], "choice_set": [["a", "b", "c"]] * 2}
    for fit in (
        at.fit_choices(frame, **ARENA),
        at.fit_choices(frame, **ARENA, features=["x", "judge"], moved_first="model_a", scale="elo"),
        at.fit_choices(frame, **ARENA, ties="half", features=["x"]),
        at.fit_choices(frame, **ARENA, cluster="judge"),
        at.fit_choices(frame[frame.winner == "model_a"].assign(same=0.0), **ARENA, features=["x", "same"]),
        at.fit_choices(best),
    ):
        again = at.ChoiceFit.load(fit.save(tmp_path / "fit", overwrite=True))
        assert str(again) == str(fit)
        assert again.to_dict() == fit.to_dict()
        np.testing.assert_array_equal(again.covariance(), fit.covariance())


def test_every_frame_has_features():
    first, second, features, outcome = draw_battles(
        np.random.default_rng(9), np.array([0.0, 0.5, 1.0]), 80, tie=-1, effect=[0.2]
    )
    frame = frame_of(first, second, outcome).assign(x_a=features[:, 0], x_b=0.0, judge=np.arange(80) % 8)
    options = {**ARENA, "features": ["x"], "moved_first": "model_a", "cluster": "judge"}
    expected = at.fit_choices(frame, **options).to_dict()
    import duckdb
    import polars as pl

    for one in (
        pa.Table.from_pandas(frame),
        pl.from_pandas(frame),
        duckdb.from_df(frame),
        frame.to_dict("list"),
        frame.to_dict("records"),
        frame.convert_dtypes(dtype_backend="pyarrow"),
    ):
        assert at.fit_choices(one, **options).to_dict() == expected


GAMES = {"model_a": list("xyx"), "model_b": list("yxy"), "winner": ["model_a", "tie", "model_b"]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ties": "thirds"}, "ties is 'thirds'; give 'davidson' or 'half'"),
        ({"scale": "points"}, "scale is 'points'; give 'log-odds' or 'elo'"),
        ({"prior": 1.0}, 'ties="half"'),
        ({"ridge": 1.0}, 'ties="half"'),
        (
            {"prior": 1.0, "ties": "half", "features": {"z": [1, 2, 3]}},
            "with features; leave prior out",
        ),
        ({"features": ["length"]}, "no columns 'length_a' and 'length_b'; name the two columns"),
        ({"features": {"z": [1, 2]}}, "'z' is not a column of 3 numbers"),
        ({"features": {"z": [1, "two", 3]}}, "'z' is not a column of 3 numbers"),
        ({"features": {"z": ["1", "two", "3"]}}, "'z' is 'two' in row 1; write a finite number"),
        ({"features": {"z": [1, None, 3]}}, "'z' is missing in row 1"),
        ({"features": {"z": {"x": 1}}}, "'z' has no value for the item 'y'"),
        ({"features": {"tie": [1, 2, 3]}}, "two coefficients would have the name 'tie'; rename"),
        ({"cluster": [1, 2]}, "cluster has 2 entries, but there are 3 rows"),
        ({"cluster": ["a", None, "b"]}, "cluster is missing in row 1"),
        ({"by": "topic"}, "no column 'topic' for the by"),
        ({"moved_first": [1, 2]}, "moved_first has 2 entries, but there are 3 pairs"),
        ({"ranking": ["model_a"]}, "ranking= cannot be combined"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, words):
    with pytest.raises((InvalidSamples, UnsupportedOption)) as caught:
        at.fit_choices(GAMES, **ARENA, **options)
    assert words in str(caught.value)


def test_what_other_forms_do_not_take_is_refused():
    with pytest.raises(UnsupportedOption, match="situation=, alternative=, chosen= and features="):
        at.fit_choices(rankings=[["a", "b"]], features={"z": [1]})
    with pytest.raises(UnsupportedOption, match='give ties="half" for rankings with ties'):
        at.fit_choices(rankings=[["a", ["b", "c"]]], ties="davidson")
    long = {"situation": [1, 1], "alternative": ["a", "b"], "chosen": [1, 0]}
    with pytest.raises(UnsupportedOption, match="shown first, and name the column in features="):
        at.fit_choices(long, moved_first=["a", "a"])
    with pytest.raises(UnsupportedOption, match="leave prior out"):
        at.fit_choices(long, prior=1.0)


def test_outcomes_may_be_dropped():
    frame = pd.DataFrame(GAMES)
    bad = pd.DataFrame({"model_a": ["x", "z"], "model_b": ["y", "x"], "winner": ["tie (bothbad)", "skipped"]})
    fit = at.fit_choices(
        pd.concat([frame, bad], ignore_index=True).assign(judge=[1, 2, 3, 4, 5]),
        **ARENA,
        drop=["tie (bothbad)", "skipped"],
        cluster="judge",
        moved_first="model_a",
    )
    plain = at.fit_choices(frame.assign(judge=[1, 2, 3]), **ARENA, cluster="judge", moved_first="model_a")
    assert fit.to_dict() == plain.to_dict()
    assert at.fit_choices(pd.concat([frame, bad[:1]]), **ARENA, drop="tie (bothbad)").n_ties == 1


def test_the_command_line_has_the_same_names(tmp_path):
    first, second, features, outcome = draw_battles(
        np.random.default_rng(10), np.array([0.0, 0.5, 1.0]), 80, tie=-1, effect=[0.2]
    )
    frame = frame_of(first, second, outcome).assign(
        len_a=features[:, 0].round(3),
        len_b=0.0,
        judge=np.arange(80) % 8,
        topic=np.where(np.arange(80) % 2, "x", "y"),
    )
    frame["model_a"], frame["model_b"] = "m" + frame.model_a.astype(str), "m" + frame.model_b.astype(str)
    frame.loc[len(frame)] = ["m0", "m1", "tie (bothbad)", 0.0, 0.0, 1, "x"]
    frame.to_csv(tmp_path / "a.csv", sep=";", index=False)
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    options = {
        "moved_first": "model_a",
        "cluster": "judge",
        "by": "topic",
        "scale": "elo",
        "drop": "tie (bothbad)",
    }
    expected = at.fit_choices(frame, **ARENA, features=["len"], **options).to_dict()
    words = [
        word
        for name, value in {**ARENA, **options, "features": "len"}.items()
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    for name in ("a.csv", "a.jsonl"):
        record = json.loads(run_inside("choices", name, *words, "--json", cwd=tmp_path).stdout)
        assert record["standings"] == expected["standings"]
        assert record["by"].keys() == {"x", "y"}
        assert record["coefficients"] == expected["coefficients"]
    shown = run_inside("choices", "a.csv", *words, cwd=tmp_path)
    assert shown.returncode == 0
    assert "moved_first" in shown.stdout
    assert shown.stdout.count("rank  ranks  item") == 3
    refused = run_inside("choices", "a.csv", *words, "--ties", "thirds", cwd=tmp_path)
    assert refused.returncode == 2
    assert "give 'davidson' or 'half'" in refused.stderr


@pytest.mark.slow  # simulation
@pytest.mark.parametrize("tie", [-np.inf, -0.85, 0.6])
def test_intervals_of_davidson_cover(tie):
    """95 % intervals of all differences and of the tie parameter, pooled, in 400 samples."""
    rng, strength, hits, total = np.random.default_rng(11), np.array([0.0, 0.4, 0.8, 1.2]), 0, 0
    for _ in range(400):
        first, second, _, outcome = draw_battles(rng, strength, 300, tie=tie, moved_first=0.3)
        fit = at.fit_choices(frame_of(first, second, outcome), **ARENA, moved_first="model_a")
        for a in range(4):
            for b in range(a):
                low, high = fit.difference(a, b).interval()
                hits, total = hits + (low <= strength[a] - strength[b] <= high), total + 1
        for name, truth in (("moved_first", 0.3), ("tie", tie)):
            if np.isfinite(truth):
                low, high = fit.coefficients[name].interval()
                hits, total = hits + (low <= truth <= high), total + 1
    assert 0.93 < hits / total < 0.97
