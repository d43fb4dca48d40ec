"""The board: ranks, bounds, rank intervals and next comparisons, each against a definition of its own."""

import json
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import brentq
from scipy.stats import norm, studentized_range
from tests.choices.test_fit import choices

import attomaton as at
from attomaton.base.errors import InvalidSamples, UndeterminedChoice, UnknownToken, UnsupportedOption
from attomaton.choices import simulate_arena
from attomaton.choices.gaps import Gaps, lost_in_logit
from attomaton.choices.proposals import add_comparison, information
from attomaton.choices.ranks import critical_value, transitive_closure
from attomaton.choices.ratings import outcome_probabilities
from attomaton.report import draw_board, write_board

MAIN = [("a", "b", 30), ("b", "a", 20), ("b", "c", 25), ("c", "b", 15), ("a", "c", 30), ("c", "a", 10)]


def board_of(games, **options):
    winners, losers, counts = zip(*games, strict=True)
    return at.fit_choices(winners, losers=losers, counts=counts).board(**options)


def rows_of(board):
    return {row["item"]: row for row in board.table().to_pylist()}


def test_undefeated_winless_and_unconnected_items_take_no_rank_away():
    plain = rows_of(board_of(MAIN))
    games = [*MAIN, ("top", "a", 5), ("top", "b", 5), ("c", "last", 8), ("p", "q", 2)]
    board = board_of(games)
    rows = rows_of(board)
    assert board["item"] == ["top", "a", "b", "c", "last", "p", "q"]
    assert [rows[item]["rank"] for item in board["item"]] == [1, 2, 3, 4, 5, 1, 2]
    assert board["board"] == [1] * 5 + [2] * 2
    for item in "abc":
        for name in ("rating", "standard_error", "low", "high"):
            assert rows[item][name] == pytest.approx(plain[item][name], abs=1e-9)
    assert (rows["top"]["rating"], rows["top"]["high"]) == (np.inf, np.inf)
    assert rows["top"]["standard_error"] is None
    bound = brentq(
        lambda gap: (
            sum(
                5 * np.log1p(np.exp(rows[item]["rating"] - gap))
                for item in "ab"  # all ten games are won
            )
            + np.log(0.05)
        ),
        -30,
        30,
    )
    assert rows["top"]["low"] == pytest.approx(bound, abs=1e-6)
    lost = rows["c"]["rating"] - np.log(0.05**0.125 / (1 - 0.05**0.125))  # 8–0: 0.789
    assert rows["last"]["high"] == pytest.approx(lost, abs=1e-6)
    assert rows["c"]["ahead"] == np.inf
    assert rows["last"]["ahead"] is None
    assert "≥" in str(board)
    assert "items on different boards cannot be compared" in str(board)


def test_who_beat_only_the_winless_has_a_board_of_its_own():
    """Nothing decides between this item and the others, and all 3 had lost their ranks to it."""
    board = board_of([*MAIN, ("c", "last", 3), ("new", "last", 1)])
    assert dict(zip(board["item"], board["board"], strict=True))["new"] == 2
    assert rows_of(board)["new"]["rank"] == 1
    assert [rows_of(board)[item]["rank"] for item in ("a", "b", "c", "last")] == [1, 2, 3, 4]
    assert board.probability("new", "last") == 1.0
    with pytest.raises(UndeterminedChoice, match=r"see \.next_comparisons"):
        board.probability("new", "a")


def test_two_undefeated_items_that_never_met_share_a_rank():
    rows = rows_of(board_of([*MAIN, ("x", "a", 9), ("y", "b", 9)]))
    assert [rows[item]["rank"] for item in "xyabc"] == [1, 1, 3, 4, 5]
    assert [rows[item]["rank_low"] for item in "xy"] == [1, 1]
    assert min(rows[item]["rank_high"] for item in "xy") >= 2


def test_small_boards():
    one = at.fit_choices(["a"], [["a"]]).board()
    assert (one["rank"], one["rank_high"], one["rating"], one["low"]) == ([1], [1], [0.0], [None])
    two = board_of([("a", "b", 100), ("b", "a", 20)])
    assert (two["rank_low"], two["rank_high"]) == ([1, 2], [1, 2])
    even = board_of([("a", "b", 5), ("b", "a", 5)])
    assert (even["rank"], even["rank_high"], even["ahead"]) == ([1, 1], [2, 2], [pytest.approx(0.0), None])
    once = board_of([("a", "b", 1)])
    assert (once["rank"], once["rank_high"]) == ([1, 2], [2, 2])
    assert once["high"][1] == pytest.approx(np.log(19))
    none = at.fit_choices([], []).board()
    assert (len(none), none.next_comparisons()) == (0, ())
    joined = at.fit_choices(["a", "b", "p"], losers=["b", "a", "q"], prior=1.0).board()
    assert joined["board"] == [1] * 4
    assert np.isfinite(joined["rating"]).all()


@given(choices(n_items=7, max_choices=12))
@settings(deadline=None)
def test_every_item_has_a_rank_inside_its_interval_and_boards_are_of_comparable_items(drawn):
    fit = at.fit_choices(*drawn)
    board = fit.board()
    rows = rows_of(board)
    assert set(rows) == set(fit.items)

    def gap(one, other):
        try:
            return fit.difference(one, other).value
        except UndeterminedChoice:
            return np.nan

    for item, row in rows.items():
        peers = [one for one in rows if rows[one]["board"] == row["board"]]
        assert row["rank"] == 1 + sum(gap(one, item) > 2e-6 for one in peers)
        assert 1 <= row["rank_low"] <= row["rank"] <= row["rank_high"] <= len(peers)
        assert row["games"] == row["wins"] + row["losses"]
        anchor = [one for one in peers if np.isfinite(rows[one]["rating"])]
        assert all(not np.isnan(gap(item, one)) for one in anchor)  # also where it has a bound
        assert (row["rating"] == np.inf) == any(gap(item, one) == np.inf for one in anchor)
        for one in rows:
            if one != item and not np.isnan(gap(item, one)):
                assert board.probability(item, one) == pytest.approx(fit.probability(item, one), abs=1e-9)
    json.dumps(board.to_dict(), allow_nan=False)
    assert "nan" not in str(board).lower()


@given(choices(n_items=6, max_choices=10))
@settings(deadline=None)
def test_bounds_are_those_of_the_conditional_logit(drawn):
    """Direct games and chains against the general engine, with choices between two items."""
    winners, sets = drawn
    games = [
        (won, other) for won, members in zip(winners, sets, strict=True) for other in members if other != won
    ]
    if not games:
        return
    won, lost = zip(*games, strict=True)
    fit = at.fit_choices(won, losers=lost)
    logit = at.fit_choices(won, losers=lost, cluster=list(range(len(won)))).logit
    gaps = fit._ratings.gaps
    heads = [members[0] for members in fit.components]
    number = {item: number for number, members in enumerate(fit.components) for item in members}
    item_of = {str(item): item for item in fit.items}
    names = [item_of[name] for name in logit.problem.names if name in item_of]
    component = np.array([number[item] for item in names])
    score = np.nan_to_num([fit.scores[item] for item in names])
    lost = lost_in_logit(logit, component, score, len(heads), None)
    same = Gaps(lost, gaps.above, gaps.below, len(heads))
    for above, below in combinations(range(len(heads)), 2):
        contrast = logit.contrast(heads[above], heads[below])
        assert (contrast.kind.value == "+inf") == gaps.precedes[above, below]
        if gaps.precedes[above, below]:
            least = gaps.bound(above, below, 0.95)
            lead = np.nan_to_num(fit.scores[heads[above]]) - np.nan_to_num(fit.scores[heads[below]])
            assert least == pytest.approx(contrast.bound - lead, abs=1e-5)
            assert least == pytest.approx(same.bound(above, below, 0.95), abs=1e-5)
    assert gaps.pair_bounds(0.95) == pytest.approx(same.pair_bounds(0.95), abs=1e-9)


def test_long_chains_have_a_bound_and_say_that_it_is_a_sum():
    names = [f"p{number:02}" for number in range(30)]
    fit = at.fit_choices(names[:-1], losers=names[1:], counts=[8] * 29)
    chain = fit.board().ratings.gaps
    eight = np.log(0.05**0.125 / (1 - 0.05**0.125))
    assert chain.bound(0, 29, 0.95) == pytest.approx(29 * eight)
    assert chain.bound(0, 1, 0.95) == pytest.approx(eight)
    assert chain.bound(0, 2, 0.95) > 2 * eight  # both at once are less probable
    assert chain.precedes.sum() == 29 * 30 // 2
    assert "a bound across more than 20 components is a sum of bounds" in str(fit)
    assert "bounds across" not in str(at.fit_choices(names[:19], losers=names[1:20], counts=[8] * 19))


def test_the_critical_value():
    pair = np.array([[0.3, -0.3], [-0.3, 0.3]])
    assert critical_value(pair, np.zeros(2, int), 0.05) == pytest.approx(norm.ppf(0.975), abs=0.05)
    for size in (5, 30):
        exact = studentized_range.ppf(0.95, size, np.inf) / np.sqrt(2)
        found = critical_value(np.eye(size), np.zeros(size, int), 0.05)
        assert found == pytest.approx(exact, abs=0.05)
    n_pairs = 500 * 499 / 2
    assert critical_value(np.eye(500), np.zeros(500, int), 0.05) == pytest.approx(
        norm.ppf(1 - 0.025 / n_pairs)
    )
    several = np.kron(np.eye(2), pair)
    both = critical_value(several, np.array([0, 0, 1, 1]), 0.05)
    assert both == pytest.approx(norm.ppf(0.5 + 0.95**0.5 / 2), abs=0.06)


def test_rank_intervals_by_definition():
    rng = np.random.default_rng(3)
    truth = np.linspace(1.5, -1.5, 7)
    first = rng.integers(0, 7, 500)
    second = (first + rng.integers(1, 7, 500)) % 7
    won = rng.random(500) < 1 / (1 + np.exp(truth[second] - truth[first]))
    fit = at.fit_choices(np.where(won, first, second), losers=np.where(won, second, first))
    covariance = fit.covariance()
    critical = critical_value(covariance, np.zeros(7, int), 0.05)
    sure = {
        (one, other)
        for one, other in permutations(fit.items, 2)
        if fit.difference(one, other).value > critical * fit.difference(one, other).standard_error
    }
    for item, row in rows_of(fit.board()).items():
        assert row["rank_low"] == 1 + sum((one, item) in sure for one in fit.items)
        assert row["rank_high"] == 7 - sum((item, one) in sure for one in fit.items)


def test_what_is_sure_of_two_steps_is_sure_of_both():
    relation = np.zeros((4, 4), bool)
    relation[0, 1] = relation[1, 2] = relation[2, 3] = True
    assert transitive_closure(relation).sum() == 6


@given(st.integers(2, 6), st.integers(0, 1000), st.sampled_from([-np.inf, 0.3]))
@settings(deadline=None)
def test_the_gain_of_a_comparison_by_adding_its_information(size, seed, tie):
    rng = np.random.default_rng(seed)
    score = np.sort(rng.normal(size=size))[::-1]
    contrasts = np.array([np.eye(size)[a] - np.eye(size)[b] for a, b in combinations(range(size), 2)])
    known = contrasts.T @ (rng.uniform(1, 9, len(contrasts))[:, None] * contrasts)
    covariance = np.linalg.pinv(known)
    for times, (a, b) in enumerate(combinations(range(size), 2), 1):
        d = np.eye(size)[a] - np.eye(size)[b]
        after = np.linalg.pinv(known + times * information(score[a] - score[b], tie) * np.outer(d, d))
        np.testing.assert_allclose(add_comparison(covariance, score, tie, a, b, times), after, atol=1e-9)


@pytest.mark.parametrize("tie", [-np.inf, 0.4])
def test_information_is_the_second_derivative_of_the_log_likelihood(tie):
    def outcomes(gap):
        odds = np.exp([gap / 2, -gap / 2, tie])
        return odds / odds.sum()

    for gap in (-2.0, 0.0, 0.7):
        first, second = outcome_probabilities(np.array(gap), tie)
        assert (first, second) == pytest.approx(tuple(outcomes(gap)[:2]))
        step = 1e-3
        bend = [np.log(outcomes(gap + shift)[:2]) for shift in (-step, 0, step)]
        curved = -(bend[0] - 2 * bend[1] + bend[2])[0] / step**2  # the same for every outcome
        assert information(np.array(gap), tie) == pytest.approx(curved, rel=1e-4)


def test_next_comparisons():
    board = board_of([*MAIN, ("top", "a", 5), ("c", "last", 8), ("p", "q", 2)])
    connecting, top, last, *_ = board.next_comparisons()
    assert {connecting.first, connecting.second} <= {"p", "q", "a", "b", "c"}
    assert connecting.reason == f"connects {connecting.first!r} to board 1"
    assert (top[:2], last[:2]) == (("top", "a"), ("last", "c"))
    deciding = [each for each in board.next_comparisons() if each.gain is not None]
    assert [{each.first, each.second} for each in deciding] == [{"b", "c"}, {"a", "b"}]  # a is surely above c
    assert all(0 < each.gain < 1 and each.times == 14 for each in deciding)
    assert len(board.next_comparisons(1)) == 3
    for wrong in ({"limit": 0}, {"batch": 0}):
        with pytest.raises(UnsupportedOption, match=next(iter(wrong))):
            board.next_comparisons(**wrong)
    for pair in (connecting[:2], connecting[1::-1]):
        joined = board_of([*MAIN, ("top", "a", 5), ("c", "last", 8), ("p", "q", 2), (*pair, 1)])
        assert rows_of(joined)[connecting.first]["board"] == rows_of(joined)["a"]["board"]


def test_what_is_certain_is_not_asked():
    """Ranks that are known are not asked for, and neither is a rating that may stay infinite."""
    settled = board_of([("a", "b", 900), ("b", "a", 300), ("b", "last", 80)])
    assert settled["rank_low"] == settled["rank_high"] == [1, 2, 3]
    assert settled.next_comparisons() == ()
    assert "compare next" not in str(settled)


@pytest.mark.parametrize("batch", [15, 150])
def test_the_gain_is_how_often_a_batch_decides(batch):
    board, rng = board_of(MAIN), np.random.default_rng(0)
    pair = board.next_comparisons(1, batch=batch)[0]
    first, second = ("abc".index(item) for item in pair[:2])
    truth = rng.multivariate_normal(board.ratings.score, board.ratings.covariance, 300)
    gap, decided = truth[:, first] - truth[:, second], 0
    for wins in rng.binomial(batch, 1 / (1 + np.exp(-gap))).tolist():
        games = [*MAIN, (*pair[:2], wins), (*pair[1::-1], batch - wins)]
        rows = rows_of(board_of([game for game in games if game[2]]))
        one, other = sorted((rows[item] for item in pair[:2]), key=lambda row: row["rank"])
        decided += one["rank_high"] < other["rank_low"]
    assert decided / 300 == pytest.approx(pair.gain, abs=0.08)
    assert pair.reason == f"decides which is ahead with probability {100 * pair.gain:.2g} %"


def test_the_elo_scale():
    plain, elo = rows_of(board_of(MAIN)), rows_of(board_of(MAIN, scale="elo"))
    moved = rows_of(board_of(MAIN, scale="elo", centre=1500))
    for item, row in plain.items():
        unit = 400 / np.log(10)
        assert elo[item]["rating"] == pytest.approx(1000 + unit * row["rating"])
        assert moved[item]["low"] == pytest.approx(1500 + unit * row["low"])
        assert elo[item]["standard_error"] == pytest.approx(unit * row["standard_error"])
        assert elo[item]["rank_high"] == row["rank_high"]
    assert np.mean([row["rating"] for row in elo.values()]) == pytest.approx(1000)


def test_wrong_questions():
    board = board_of(MAIN)
    for wrong in ({"scale": "Elo"}, {"centre": "middle"}, {"level": 1.0}):
        with pytest.raises(UnsupportedOption, match=next(iter(wrong))):
            board_of(MAIN, **wrong)
    with pytest.raises(UnknownToken, match="'z' is not on the board"):
        board.probability("a", "z")
    with pytest.raises(UnknownToken, match="not on the board"):
        board.probability(["a"], "b")
    with pytest.raises(InvalidSamples, match="compared with itself"):
        board.probability("a", "a")
    with pytest.raises(UnknownToken, match="the columns are board, rank"):
        board["score"]
    with pytest.raises(UnsupportedOption, match="ax is of type int"):
        board.plot(1)


@pytest.mark.parametrize("ties", ["davidson", "half"])
def test_the_board_of_a_fit_with_ties_and_position(ties):
    rng = np.random.default_rng(0)
    truth = np.array([0.8, 0.2, 0.0, -0.7])
    first = rng.integers(0, 4, 400)
    second = (first + rng.integers(1, 4, 400)) % 4
    half = 0.5 * (truth[first] - truth[second] + 0.2)
    utility = np.stack([half, -half, np.full(400, -0.3)], axis=1) + rng.gumbel(size=(400, 3))
    names = np.array([*"abcd", "top", "lone", "pair"])
    outcome = np.append(np.array([1.0, 0.0, 0.5])[utility.argmax(axis=1)], [1.0] * 9 + [0.5] * 3)
    games = {
        "one": [*names[first], *["top"] * 9, *["lone"] * 3],
        "other": [*names[second], *"abcabcabc", *["pair"] * 3],
        "outcome": outcome,
    }
    fit = at.fit_choices(
        games, first="one", second="other", outcome="outcome", moved_first="one", ties=ties, scale="elo"
    )
    board = fit.board(scale="log-odds")
    rows = rows_of(board)
    assert (board["item"][:2], rows["lone"]["board"]) == (["top", "a"], 2)
    bound = fit.logit.contrast("top", "a").bound
    assert rows["top"]["low"] - rows["a"]["rating"] == pytest.approx(bound)
    assert rows["a"]["rating"] - rows["d"]["rating"] == pytest.approx(fit.logit.contrast("a", "d").value)
    assert board.probability("a", "d") == pytest.approx(fit.probability("a", "d"))
    assert board.next_comparisons()[1][:2] == ("top", "a")
    assert fit.board()["rating"][1] == pytest.approx(fit.scores["a"])  # the scale of the fit


@pytest.mark.parametrize("seed", range(12))
def test_bounds_from_the_way_between_components_are_those_of_contrasts(seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 7, 14)
    second = (first + rng.integers(1, 7, 14)) % 7
    outcome = np.where(rng.random(14) < 0.85, first < second, rng.choice([0.0, 0.5, 1.0], 14))
    name = np.array([*"abcdefg"])
    games = {"one": name[first], "other": name[second], "outcome": outcome, "x": rng.normal(size=14)}
    features = ["x"] if seed % 3 == 0 else None
    fit = at.fit_choices(
        games, first="one", second="other", outcome="outcome", moved_first="one", features=features
    )
    gaps, item = fit.board().ratings.gaps, [members[0] for members in fit.components]
    means = [np.mean([fit.model.values[fit.items.index(one)] for one in part]) for part in fit.components]
    assert np.allclose(means, 0, atol=1e-9)
    for above, below in zip(gaps.above.tolist(), gaps.below.tolist(), strict=True):
        pair = [fit.logit.problem.names[fit.items.index(item[number])] for number in (above, below)]
        values = [fit.model.values[fit.items.index(item[number])] for number in (above, below)]
        bound = fit.logit.contrast(*pair).bound
        assert gaps.bound(above, below, 0.95) == pytest.approx(bound - (values[0] - values[1]), abs=1e-5)


def test_many_boards_are_printed_in_part():
    fit = at.fit_choices([f"a{one}" for one in range(15)], losers=[f"b{one}" for one in range(15)])
    assert "and 3 more boards, with 6 items; .table() lists all" in str(fit)


def test_the_figure_and_the_page(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    board = board_of([*MAIN, ("<b>top</b>", "a", 5), ("c", "$last$", 8), ("p", "q", 2)], scale="elo")
    axes = board.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == board["item"]
    words = [text.get_text() for text in axes.texts]
    assert {"board 1", "board 2", "ranks"} <= set(words)
    assert axes.get_xlabel() == "Elo rating"
    assert len(board.plot(limit=1).get_yticklabels()) == 2
    matplotlib.pyplot.close("all")
    for kind in ("png", "pdf", "svg"):
        path = draw_board(board, tmp_path / f"board.{kind}")
        before = path.read_bytes()
        assert draw_board(board, path).read_bytes() == before  # its own figure may be replaced
    with pytest.raises(UnsupportedOption, match=r"end the name in \.pdf, \.png or \.svg"):
        draw_board(board, tmp_path / "board.gif")
    assert not matplotlib.pyplot.get_fignums()
    games = {"winner": [*"abab", "a", "c"], "loser": [*"baba", "c", "a"], "month": [3, 3, 1, 1, 1, 1]}
    fit = at.fit_choices(games, by="month")
    axes = fit.plot()
    drawn = {line.get_label(): line.get_ydata().tolist() for line in axes.get_lines()}
    months = [
        dict(zip(board["item"], board["rating"], strict=True))
        for board in (fit.by[1].board(), fit.by[3].board())
    ]
    assert drawn == {item: [month[item] for month in months if item in month] for item in "abc"}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "3"]
    assert len(fit.plot(limit=1).get_lines()) == 1
    matplotlib.pyplot.close("all")
    assert draw_board(fit, tmp_path / "lines.svg").exists()
    page = write_board(board, tmp_path / "board.html", title="A & B").read_text(encoding="utf-8")
    assert "<h1>A &amp; B</h1>" in page
    assert "&lt;b&gt;top&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("<tr>") == len(board) + 2
    write_board(board, tmp_path / "board.html")  # its own page may be replaced


def test_the_page_and_the_printed_board_state_the_conditions_of_the_ratings(tmp_path):
    battles = simulate_arena(1_000)
    named = {"moved_first": "model_a", "features": ["length"], "cluster": "judge"}
    fit = at.fit_choices(battles, **named)
    for scale, unit in (("log-odds", 1.0), ("elo", 400 / np.log(10))):
        board = fit.board(scale=scale)
        page = write_board(board, tmp_path / f"{scale}.html").read_text(encoding="utf-8")
        for text in (page, str(board)):
            assert "at equal position and length" in text
            assert "an outcome of their own (Davidson)" in text
            assert "standard errors: clustered, 10 clusters" in text
            for name, one in fit.coefficients.items():
                digits = 3 if scale == "log-odds" else 1
                assert f"{unit * one.value:+.{digits}f}" in text
                assert name in text
        record = board.to_dict()
        assert record["coefficients"][1]["estimate"] == pytest.approx(unit * fit.coefficients["length"].value)
        assert record["remarks"] == fit.to_dict()["remarks"]
    plain = at.fit_choices(battles, ties="half", scale="elo").board()
    assert "each counted as half a win" in str(plain)
    page = write_board(plain, tmp_path / "plain.html").read_text(encoding="utf-8")
    assert "half a win" in page
    assert "at equal" not in page
    assert "Coefficients" not in page
    frame = {"white": list("xyx"), "black": list("yxy"), "result": [1, 0, 0]}
    scores = at.fit_choices(frame, first="white", second="black", outcome="result")
    assert "read as the score of &#x27;white&#x27;" in write_board(
        scores.board(), tmp_path / "scores.html"
    ).read_text(encoding="utf-8")


SETS = [
    ["a", "b", "c"],
    ["b", "c", "d"],
    ["a", "b", "c", "d"],
    ["a", "d"],
    ["a", "b", "c"],
    ["c", "d"],
    ["a", "b"],
]
PICKED, WORST, TIMES = list("abcdcdb"), list("cdaaaca"), [3, 1, 2, 1, 4, 1, 2]


def test_games_are_the_choices_that_included_the_item():
    offered = [(PICKED[row], set(SETS[row]), TIMES[row]) for row in range(len(SETS))]
    long = {"situation": [], "alternative": [], "chosen": []}
    for row, members in enumerate(SETS):  # every item twice, as two offers of one brand
        long["situation"] += [row] * 2 * len(members)
        long["alternative"] += [*members, *members]
        long["chosen"] += [TIMES[row] * (item == PICKED[row]) for item in members] + [0] * len(members)
    rankings = [*SETS, list("dcba")]
    steps = [(one[k], set(one[k:]), 1) for one in rankings for k in range(len(one) - 1)]
    pairs = [(one, {one, other}, 1) for one, other in zip(PICKED, WORST, strict=True)]
    best_worst = {"best": PICKED, "worst": WORST, "choice_set": SETS, "count": TIMES}
    judges = {"cluster": list("uvwuvwu")}
    for data, fit in (
        (offered, at.fit_choices(PICKED, SETS, counts=TIMES)),
        (offered, at.fit_choices(PICKED, SETS, counts=TIMES, **judges)),
        (offered, at.fit_choices(PICKED, [[*one, one[0]] for one in SETS], counts=TIMES)),
        (offered, at.fit_choices(best_worst)),
        (offered, at.fit_choices(long)),
        (steps, at.fit_choices(rankings=rankings)),
        (steps, at.fit_choices(rankings=rankings, cluster=list("uvwuvwuv"))),
        (pairs, at.fit_choices(PICKED, losers=WORST)),
        (pairs, at.fit_choices(PICKED, losers=WORST, **judges)),
    ):
        for row in fit.board().table().to_pylist():
            games = sum(count for _, members, count in data if row["item"] in members)
            wins = sum(count for item, _, count in data if row["item"] == item)
            assert (row["wins"], row["losses"], row["games"]) == (wins, games - wins, games)
