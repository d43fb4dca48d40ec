"""Choices in every form in which people have them give the fit that lists of choice sets give."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from tests.drawn import unroll_rankings

import attomaton as at
from attomaton.base.errors import InvalidSamples, UnreadableSource, UnsupportedOption
from attomaton.choices.columns import number_columns
from attomaton.choices.rankings import LARGEST_TIE, unroll

WON, LOST, MADE = ["b", "a", "b", "a", "c"], ["a", "b", "c", "d", "b"], [3, 1, 2, 1, 1]


def by_sets(won=WON, lost=LOST, made=MADE, **options):
    """The door that all others are held against."""
    return at.fit_choices(won, [[w, x] for w, x in zip(won, lost, strict=True)], counts=made, **options)


def same(one, other):
    assert one.items == other.items
    assert [set(part) for part in one.components] == [set(part) for part in other.components]
    assert one.order == other.order
    assert one.scores == pytest.approx(other.scores, abs=1e-9, nan_ok=True)
    assert one.standard_errors == pytest.approx(other.standard_errors, abs=1e-9, nan_ok=True)


def frames():
    data = {"winner": WON, "loser": LOST, "count": MADE}
    pandas = pd.DataFrame(data)
    yield "dict", data
    yield "records", [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
    yield "pandas", pandas
    yield "categorical", pandas.astype({"winner": "category", "loser": "category"})
    yield "odd index", pandas.set_axis([7, 7, 0, -1, 3])
    yield "float counts", pandas.astype({"count": float})
    yield "object", pandas.astype(object)
    yield "arrow-backed", pandas.convert_dtypes(dtype_backend="pyarrow")
    yield "arrow", pa.table(data)
    yield "arrow in chunks", pa.concat_tables([pa.table(data).slice(0, 2), pa.table(data).slice(2)])
    yield "record batch", pa.RecordBatch.from_pydict(data)


def test_every_frame_is_read():
    expected = by_sets()
    for _, frame in frames():
        same(at.fit_choices(frame, winner="winner", loser="loser", count="count"), expected)
        same(at.fit_choices(frame), expected)
        same(at.fit_choices(frame, winner="winner", loser="loser"), expected)


def test_a_named_count_comes_before_a_column_called_count():
    frame = {"winner": WON, "loser": LOST, "n": MADE, "count": [1] * len(MADE)}
    same(at.fit_choices(frame, winner="winner", loser="loser", count="n"), by_sets())
    same(at.fit_choices(frame, counts="n"), by_sets())


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.array,
        pd.Series,
        pa.array,
        lambda x: np.array(x, object),
        lambda x: pd.Series(x, dtype="category"),
    ],
)
def test_every_sequence_is_read(make):
    same(at.fit_choices(make(WON), losers=make(LOST), counts=MADE), by_sets())
    same(at.fit_choices(make(WON), make(LOST), counts=MADE), by_sets())
    same(at.fit_choices(winner=make(WON), loser=make(LOST), count=MADE), by_sets())
    sets = [[w, x] for w, x in zip(WON, LOST, strict=True)]
    same(at.fit_choices(make(WON), sets, counts=MADE), by_sets())


def test_pairs_lists_of_losers_and_lists_in_columns():
    same(at.fit_choices(list(zip(WON, LOST, strict=True)), counts=MADE), by_sets())
    same(at.fit_choices(WON, losers=[[x] for x in LOST], counts=MADE), by_sets())
    frame = pd.DataFrame({"won": WON, "options": [[w, x] for w, x in zip(WON, LOST, strict=True)]})
    for one in (frame, pa.Table.from_pandas(frame)):
        same(at.fit_choices(one, winner="won", choice_set="options"), by_sets(made=None))
    numbers = pd.DataFrame([[0, 1], [1, 0], [1, 2]])
    same(at.fit_choices(numbers, winner=0, loser=1), at.fit_choices([0, 1, 1], [[0, 1], [1, 0], [1, 2]]))


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    data = {"winner": WON, "loser": LOST, "count": MADE}
    for frame in (
        polars.DataFrame(data),
        polars.DataFrame(data, schema_overrides={"winner": polars.Categorical}),
    ):
        same(at.fit_choices(frame), by_sets())
        same(at.fit_choices(frame["winner"], losers=frame["loser"], counts=frame["count"]), by_sets())
        same(at.fit_choices(frame["winner"], frame["loser"], counts=frame["count"]), by_sets())
    lists = polars.DataFrame({"won": WON, "options": [[w, x] for w, x in zip(WON, LOST, strict=True)]})
    same(at.fit_choices(lists, winner="won", choice_set="options"), by_sets(made=None))
    with pytest.raises(InvalidSamples, match=r"collect it first: frame.collect\(\)"):
        at.fit_choices(polars.DataFrame({"winner": ["a"]}).lazy())
    assert at.fit_choices(lists, winner="won", choice_set="options").to_polars().shape == (4, 14)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 3)), min_size=1, max_size=12))
def test_columns_number_as_lists_do(rows):
    rows = [row for row in rows if row[0] != row[1]] or [(0, 1, 1)]
    for name in (int, str, lambda n: n + 0.5, lambda n: (n, "x")):
        won, lost = [name(row[0]) for row in rows], [name(row[1]) for row in rows]
        made = [row[2] for row in rows]
        same(at.fit_choices(won, losers=lost, counts=made), by_sets(won, lost, made))
        assert number_columns({"winner": won, "loser": lost})[0] == by_sets(won, lost, made).items


def test_files(tmp_path):
    expected = by_sets()
    frame = pd.DataFrame({"winner": WON, "loser": LOST, "count": MADE})
    frame.to_csv(tmp_path / "games.csv", index=False)
    frame.to_csv(tmp_path / "games.tsv", index=False, sep="\t")
    frame.to_csv(tmp_path / "games.csv.gz", index=False)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "games.parquet")
    frame.to_json(tmp_path / "games.jsonl", orient="records", lines=True)
    frame.to_json(tmp_path / "games.json", orient="records")
    for path in sorted(tmp_path.iterdir()):
        same(at.fit_choices(path), expected)
        same(at.fit_choices(str(path), winner="winner", loser="loser", count="count"), expected)
    (tmp_path / "ids.csv").write_text("\ufeffwinner,loser\n007,7\n")
    assert at.fit_choices(tmp_path / "ids.csv").items == ("007", "7")
    for name, text in {
        "a.csv": "",
        "b.csv": "winner,loser\na,b,c\n",
        "c.json": "{}",
        "d.jsonl": "[1]\n",
        "e.json": "[",
    }.items():
        (tmp_path / name).write_text(text)
        with pytest.raises((UnreadableSource, InvalidSamples)):
            at.fit_choices(tmp_path / name)
    with pytest.raises(UnreadableSource, match="is not supported; give a file"):
        at.fit_choices("team00")
    with pytest.raises(UnreadableSource, match="No such file"):
        at.fit_choices(tmp_path / "nowhere.csv")


def test_ties_are_half_a_win_each_way():
    fit = at.fit_choices(["a", "a", "b"], losers=["b", "b", "a"], tied=[False, True, False], ties="half")
    double = at.fit_choices(["a", "a", "b", "b"], losers=["b", "b", "a", "a"], counts=[2, 1, 1, 2])
    assert fit.scores == pytest.approx(double.scores, abs=1e-9)
    assert fit.log_likelihood == pytest.approx(double.log_likelihood / 2)
    assert (fit.n_ties, fit.model.denominator) == (1, 2)
    assert "ties: 1, each counted as half a win each way" in str(fit)
    assert "3 choices between 2 items" in str(fit)
    assert fit.board()["wins"] == [1.5, 1.5]
    pulled = at.fit_choices(["a", "a"], losers=["b", "b"], tied=[False, True], ties="half", ridge=1.0)
    # ½ ridge (s_a² + s_b²) with s_a = −s_b = x and 1.5 wins to 0.5: 2x = 1.5 − 2 / (1 + e^{−2x}) + 0.5 − …
    x = pulled.scores["a"]
    assert x + 2 / (1 + np.exp(-2 * x)) - 1.5 == pytest.approx(0.0, abs=1e-7)


def test_outcomes_as_arenas_write_them():
    won = ["model_a", "model_b", "tie", "tie (bothbad)", "model_a"]
    frame = pd.DataFrame({"model_a": list("xyxyx"), "model_b": list("yxyxz"), "winner": won})
    fit = at.fit_choices(frame, first="model_a", second="model_b", outcome="winner")
    pairs = at.fit_choices(list("xxxyx"), losers=list("yyyxz"), tied=[False, False, True, True, False])
    same(fit, pairs)
    for column in ([1, 0, 0.5, 0.5, 1], ["x", "x", "draw", "Tie", "x"], ["1", "0", "0.5", "tie", "1.0"]):
        frame["winner"] = column
        same(at.fit_choices(frame, first="model_a", second="model_b", outcome="winner"), pairs)
    frame["winner"] = [True, False, True, True, True]
    assert at.fit_choices(frame, first="model_a", second="model_b", outcome="winner").n_ties == 0
    for wrong in ("y?", None, float("nan"), "z"):
        frame["winner"] = pd.Series(["x", "x", wrong, "tie", "x"], dtype=object)
        with pytest.raises(InvalidSamples, match="outcome in row 2 is"):
            at.fit_choices(frame, first="model_a", second="model_b", outcome="winner")
    with pytest.raises(InvalidSamples, match="is also the name of an item"):
        at.fit_choices({"a": [1, 2], "b": [2, 3], "c": [1, 0]}, first="a", second="b", outcome="c")


@pytest.mark.parametrize(
    "column", [[0, 1, 0, 1, 1], list("01011"), [0.0, 1.0, 0.0, 1.0, 1.0], ["0", "1", "tie", "1", "1"]]
)
def test_a_winner_of_0_or_1_is_refused_where_it_may_be_an_index_or_a_score(column):
    frame = pd.DataFrame({"model_a": list("xyxyx"), "model_b": list("yxyxy"), "winner": column})
    pair = {"first": "model_a", "second": "model_b"}
    for name in ("winner", "Winner", "preferred", "choice", "pick", "vote", "victor"):
        renamed = frame.rename(columns={"winner": name})
        with pytest.raises(
            InvalidSamples, match=r"score of 'model_a' or the index of the winner; write 'model_a'"
        ):
            at.fit_choices(renamed, **pair, outcome=name)
    with pytest.raises(InvalidSamples, match="index of the winner"):
        at.fit_choices(frame)
    fits = [
        at.fit_choices(frame.rename(columns={"winner": name}), **pair, outcome=name)
        for name in ("score", "winner_model_a", "winner_is_a")
    ]
    names = frame.assign(
        winner=["tie" if one == "tie" else "model_a" if float(one) else "model_b" for one in column]
    )
    for fit in fits:
        same(fit, at.fit_choices(names))
        assert "was read as the score of 'model_a': 1 is a win, 0 is a loss" in fit.to_dict()["remarks"][0]


@pytest.mark.parametrize("column", [[1, 0, 1, 0, 0], [True, False, True, False, False], list("10100")])
@pytest.mark.parametrize("name", ["model_b_wins", "winner_model_b", "bWon"])
def test_a_column_that_says_when_the_second_wins_is_not_read_upside_down(name, column):
    frame = {"model_a": list("xyxyx"), "model_b": list("yxyxy"), name: column}
    with pytest.raises(InvalidSamples, match="mark wins of 'model_b', not of 'model_a'; exchange"):
        at.fit_choices(frame, first="model_a", second="model_b", outcome=name)
    swapped = at.fit_choices(frame, first="model_b", second="model_a", outcome=name)
    assert swapped.scores["y"] > swapped.scores["x"]


def test_how_scores_were_read_is_printed_and_saved(tmp_path):
    frame = {"white": list("xyx"), "black": list("yxy"), "result": [1, 0.5, 0], "season": [1, 1, 2]}
    fit = at.fit_choices(frame, first="white", second="black", outcome="result", by="season")
    reading = "'result' was read as the score of 'white': 1 is a win, 0 is a loss, 0.5 is a tie"
    assert (
        fit.reading
        == fit.by[1].reading
        == at.ChoiceFit.load(fit.save(tmp_path / "fit")).by[2].reading
        == reading
    )
    assert reading in str(fit).splitlines()
    assert reading not in str(
        at.fit_choices({**frame, "result": list("xyy")}, first="white", second="black", outcome="result")
    )


def average_over_orders(ranking):
    """The definition: every order of those who share a place, equally often."""
    from itertools import permutations, product
    from math import prod

    ways = [list(permutations(place)) if isinstance(place, list) else [(place,)] for place in ranking]
    size = prod(map(len, ways))
    orders = [[item for place in chosen for item in place] for chosen in product(*ways)]
    return orders, size


@pytest.mark.parametrize(
    "ranking", [["a", "b", "c"], ["a", ["b", "c"], "d"], [["a", "b", "c"], "d"], ["e", ["a", "b", "c", "d"]]]
)
def test_shared_places_are_the_average_over_orders(ranking):
    other = [list("dcbae"), list("bdeca"), list("ceadb")]
    fit = at.fit_choices(rankings=[ranking, *other])
    orders, size = average_over_orders(ranking)
    plain = at.fit_choices(rankings=[*orders, *other], counts=[1] * size + [size] * 3)
    assert fit.scores == pytest.approx(plain.scores, abs=1e-9)
    assert fit.log_likelihood == pytest.approx(plain.log_likelihood / size)
    found = unroll([ranking])
    assert sum(found.weights) <= found.denominator * sum(
        len(p) if isinstance(p, list) else 1 for p in ranking
    )


def test_rankings():
    rankings = [["a", "b", "c"], ["b", "c", "a"], ["c", "a"]]
    expected = at.fit_choices(*unroll_rankings(rankings))
    same(at.fit_choices(rankings=rankings), expected)
    frame = pd.DataFrame([*rankings[:2], ["c", "a", None]], columns=["first", "second", "third"])
    same(at.fit_choices(frame, ranking=["first", "second", "third"]), expected)
    same(at.fit_choices(rankings=frame), expected)
    same(at.fit_choices({"ranking": rankings}), expected)
    same(
        at.fit_choices(rankings=np.array([[0, 1, 2], [2, 1, 0]])),
        at.fit_choices(rankings=[[0, 1, 2], [2, 1, 0]]),
    )
    assert at.fit_choices(rankings=[["a"]]).items == ("a",)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: at.fit_choices(), "no choices given; give winners and losers"),
        (lambda: at.fit_choices(["a"]), "no losers or choice sets"),
        (lambda: at.fit_choices(["a", "b"], losers=["b"]), "2 winners, 1 losers"),
        (lambda: at.fit_choices(["a"], losers=["b"], tied=[True, False]), "2 tied"),
        (lambda: at.fit_choices(["a"], losers=["b"], tied=["perhaps"]), "tied is 'perhaps' in row 0"),
        (lambda: at.fit_choices("team00", losers="team01"), r"winners is the string 'team00'; give a list"),
        (lambda: at.fit_choices(["a"], losers="b"), r"losers is the string 'b'; give a list"),
        (lambda: at.fit_choices(["a"], ["ab"]), "'ab' may be a loser or a set of letters"),
        (lambda: at.fit_choices(["a", "b"], [["a", "b"], "ab"]), "choice set 1 is the string 'ab'"),
        (lambda: at.fit_choices(["a"], losers=["a"]), "row 0 compares 'a' with itself"),
        (lambda: at.fit_choices(["a", None], losers=["b", "a"]), "winner in row 1 is missing"),
        (lambda: at.fit_choices(["a", float("nan")], losers=["b", "a"]), "winner in row 1 is missing"),
        (lambda: at.fit_choices([1.0, np.nan], losers=[2, 3]), "winner in row 1 is missing"),
        (lambda: at.fit_choices(["a", ""], losers=["b", "a"]), "winner in row 1 is empty"),
        (lambda: at.fit_choices(pd.Series(["a", pd.NA]), losers=pd.Series(["b", "a"])), "row 1 is missing"),
        (lambda: at.fit_choices(pa.array([1.0, np.nan]), losers=[2, 3]), "row 1 is missing"),
        (
            lambda: at.fit_choices(["a", "b"], losers=[1, 2]),
            "winner contains text and loser contains numbers",
        ),
        (lambda: at.fit_choices(["a", 1], losers=["b", "a"]), "items have different types"),
        (lambda: at.fit_choices(["a", "a "], losers=["b", "b"]), "'a' and 'a ' look alike"),
        (lambda: at.fit_choices(["a b", "a  b"], losers=["b", "b"]), "'a b' and 'a  b' look alike"),
        (lambda: at.fit_choices([[1]], losers=[[2]]), "not hashable"),
        (lambda: at.fit_choices([float("nan")], [[float("nan"), 1.0]]), "an item is missing"),
        (lambda: at.fit_choices(["é"], losers=["e\u0301"]), "look alike"),
        (
            lambda: at.fit_choices(["a"], losers=[["a", "b"]]),
            "row 0: the winner 'a' is also among the losers",
        ),
        (lambda: at.fit_choices({"a", "b"}, losers=["b", "a"]), "winners is of type set, which has no order"),
        (lambda: at.fit_choices(["a"], {"a": 1}), "no order"),
        (lambda: at.fit_choices([True, 2], losers=[2, 1]), "different types, such as True and 2"),
        (lambda: at.fit_choices(rankings=[["a", ("b", "c")]]), "if the tuple is a tie"),
        (lambda: at.fit_choices(rankings=[["a", None]]), "contains a missing item"),
        (lambda: at.fit_choices(rankings=[["1", 1]]), "different types"),
        (lambda: at.fit_choices([(0, [1, 2])]), "a pair contains a list"),
        (lambda: at.fit_choices([], losers=[]), "no choices"),
        (lambda: at.fit_choices(iter("ab"), losers=["b", "a"]), "no length"),
        (lambda: at.fit_choices(["a"], losers=["b"], counts=[0]), "all counts are 0"),
        (lambda: at.fit_choices(["a"], losers=["b"], counts=[-1]), "at least 0"),
        (lambda: at.fit_choices(["a"], losers=["b"], counts=[np.nan]), "row 0 is missing"),
        (lambda: at.fit_choices(["a"], losers=["b"], counts=[np.inf]), "at least 0"),
        (lambda: at.fit_choices(["a"], losers=["b"], counts=[True]), "at least 0"),
        (lambda: at.fit_choices(["a"], losers=["b"], counts=["3"]), "at least 0"),
        (lambda: at.fit_choices(["a"], losers=["b"], counts=[2.0**60]), "add up to more than"),
        (lambda: at.fit_choices(["a"], losers=["b"], counts=[2**52], tied=[True], ridge=0.0), None),
        (
            lambda: at.fit_choices(["a"], losers=["b"], choice_sets=[["a", "b"]]),
            "losers= cannot be combined with choice_sets=",
        ),
        (lambda: at.fit_choices(["a"], losers=["b"], winner="w"), "the data are not a frame"),
        (
            lambda: at.fit_choices(pd.DataFrame({"a": ["x"], "b": ["y"]})),
            "contains the winner; name the columns",
        ),
        (lambda: at.fit_choices(pd.DataFrame({"winner": [], "loser": []})), "no choices"),
        (lambda: at.fit_choices(pd.DataFrame()), r"columns \(none\) contains"),
        (
            lambda: at.fit_choices({"winner": ["a"]}, winner="winner", loser="lose"),
            "no column 'lose' for the loser",
        ),
        (lambda: at.fit_choices({"winner": ["a"]}, winner="winner"), "no column 'loser' for the loser"),
        (
            lambda: at.fit_choices({"w": ["a"], "o": ["a|b"]}, winner="w", choice_set="o"),
            "contains no lists; split",
        ),
        (
            lambda: (
                at.fit_choices({"w": ["a"], "l": ["b"]}, "w", "l")
                if False
                else at.fit_choices({"w": ["a"]}, "w")
            ),
            "cannot be combined with a frame",
        ),
        (
            lambda: at.fit_choices({"w": ["a"], "l": ["b"]}, winner="w", loser="l", ranking="w"),
            "cannot be combined with",
        ),
        (
            lambda: at.fit_choices({"w": ["a"], "l": ["b"], "n": ["x"]}, winner="w", loser="l", count="n"),
            "at least 0",
        ),
        (lambda: at.fit_choices(rankings=["abc"]), "ranking 0 is the text 'abc'"),
        (lambda: at.fit_choices(rankings=[{"a": 1}]), "ranking 0 is not a list"),
        (lambda: at.fit_choices(rankings=[{"a", "b"}]), "a set, which has no order"),
        (lambda: at.fit_choices(rankings=[["a", "b", "a"]]), "contains 'a' more than once"),
        (lambda: at.fit_choices(rankings=[[]]), "ranking 0 ranks no item or contains an empty tie"),
        (lambda: at.fit_choices(rankings=[]), "no rankings"),
        (
            lambda: at.fit_choices(rankings=[["a", "b"]], counts=[1, 2]),
            "1 rankings, 2 counts\\); give one",
        ),
        (lambda: at.fit_choices(rankings=[[list(range(LARGEST_TIE + 1)), 99]]), "a tie of 7 items"),
        (lambda: at.fit_choices(["a"], rankings=[["a"]]), "give only one"),
        (
            lambda: at.fit_choices({"a": ["x"], "b": [None], "c": ["y"]}, ranking=["a", "b", "c"]),
            "has an empty cell before",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(call, message):
    if message is None:
        call()
        return
    with pytest.raises(InvalidSamples, match=message):
        call()


def test_series_whose_rows_do_not_belong_together_are_refused():
    frame = pd.DataFrame({"winner": WON, "loser": LOST})
    with pytest.raises(InvalidSamples, match="different indexes"):
        at.fit_choices(frame.winner, frame.loser.sort_values())
    frame.columns = ["x", "x"]
    with pytest.raises(InvalidSamples, match="two columns 'x'"):
        at.fit_choices(frame, winner="x", loser="x")
    with pytest.raises(UnsupportedOption, match="unknown option 'winer'; use one of winner, loser"):
        at.fit_choices(frame, winer="x")


def test_large_whole_numbers_keep_their_digits():
    big = 2**53
    fit = at.fit_choices([big, big + 1], losers=[big + 1, 1])
    assert fit.items == (1, big, big + 1)
    with pytest.raises(InvalidSamples, match="cannot represent"):
        at.fit_choices(np.array([big + 1, 3]), losers=np.array([0.5, 1.0]))
    assert at.fit_choices(np.array([1.0, 2.0]), losers=np.array([2, 3])).items == (1, 2, 3)
    assert at.fit_choices([2**70, 1], losers=[1, 5]).items == (2**70, 1, 5)


def test_texts_are_never_taken_apart():
    """Bytes and texts are items, also where other rows hold lists."""
    assert at.fit_choices([b"a", b"b"], losers=[b"b", b"a"]).items == (b"a", b"b")
    fit = at.fit_choices(["team1", "team2"], losers=[["team2", "team3"], "team1"])
    assert fit.items == ("team1", "team2", "team3")
    arrays = pd.Series([np.array(["a", "b"]), np.array(["b", "a"])])
    assert {type(item) for item in at.fit_choices(pd.Series(["a", "b"]), arrays).items} == {str}
    assert at.fit_choices(rankings=pd.DataFrame({"1": [1, 2], "2": [2, 1], "3": [3, None]})).items == (
        1,
        2,
        3,
    )
    assert fit.covariance("team1").shape == (1, 1)
    with pytest.raises(InvalidSamples, match="compared with itself"):
        fit.probability("team1", "team1")


def test_unused_categories_are_no_items():
    column = pd.Categorical(["a", "b"], categories=["z", "a", "b"])
    assert at.fit_choices(column, losers=["b", "a"]).items == ("a", "b")


def test_json_records(tmp_path):
    rows = [{"winner": "a", "loser": "b"}, {"loser": "a", "winner": "b", "note": "late"}]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert at.fit_choices(tmp_path / "x.jsonl").connected
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, [*rows, {"winner": "a"}])))
    with pytest.raises(InvalidSamples, match=r"loser in line 3 of .*x\.jsonl is missing"):
        at.fit_choices(tmp_path / "x.jsonl")


def test_a_column_of_counts_is_used_however_the_others_are_named():
    frame = {"won": WON, "lost": LOST, "count": MADE}
    same(at.fit_choices(frame, winner="won", loser="lost"), by_sets())
    same(at.fit_choices(frame, winner="won", loser="lost", counts=[1] * len(WON)), by_sets(made=None))
    renamed = {"won": WON, "count": LOST}  # the column of that name is another one
    same(at.fit_choices(renamed, winner="won", loser="count"), by_sets(made=None))
    same(at.fit_choices(frame, winner="won", loser="lost", count="count"), by_sets())
    same(at.fit_choices(frame, winner="won", loser="lost", counts="count"), by_sets())


WIDE = {"Ann": [1, 2, 1, 2], "Bob": [2, 1, 1, None], "Cat": [3, 3, 3, 1]}


def test_ranks_under_the_names_of_items():
    """``ranking=`` of such columns rated the numbers 1, 2 and 3."""
    expected = at.fit_choices(
        rankings=[["Ann", "Bob", "Cat"], ["Bob", "Ann", "Cat"], [["Ann", "Bob"], "Cat"], ["Cat", "Ann"]]
    )
    texts = {name: ["" if one is None else str(one) for one in column] for name, column in WIDE.items()}
    for frame in (WIDE, pd.DataFrame(WIDE), pa.table(WIDE), texts):
        same(at.fit_choices(frame, ranks=["Ann", "Bob", "Cat"]), expected)
        for call in ({"ranking": ["Ann", "Bob", "Cat"]}, {}):
            with pytest.raises(InvalidSamples, match="use ranks= instead"):
                at.fit_choices(**({"rankings": frame} if not call else {"winners": frame, **call}))
    counted = pd.DataFrame(WIDE).assign(count=[1, 2, 3, 4])
    assert at.fit_choices(counted, ranks=["Ann", "Bob", "Cat"]).n_ties == 3
    long = pd.DataFrame({"race": [1, 1, 2, 2], "driver": ["x", "y"] * 2, "place": [1, 2, 2, 1]})
    for alone in ("place", ["place"]):
        with pytest.raises(InvalidSamples, match="add situation= and alternative="):
            at.fit_choices(long, ranks=alone)
    wide = long.pivot(index="race", columns="driver", values="place")
    assert at.fit_choices(wide, ranks=["x", "y"]).components == (("x", "y"),)


@pytest.mark.parametrize("rank", [0, -1, "first", True])
def test_what_is_no_rank_is_refused(rank):
    with pytest.raises(InvalidSamples, match="row 1 gives 'b' the rank"):
        at.fit_choices({"a": [1, 2], "b": [2, rank]}, ranks=["a", "b"])


def test_ties_that_a_table_tells_are_not_overlooked():
    """A column of ties was ignored, and a winner called 'draw' was rated as one of the contestants."""
    frame = pd.DataFrame({"winner": ["a", "b", "a"], "loser": ["b", "a", "b"]})
    expected = at.fit_choices(frame.winner, frame.loser, tied=[False, True, False])
    for name in ("tie", "draw", "tied"):
        same(at.fit_choices(frame.assign(**{name: [0, 1, 0]})), expected)
        same(
            at.fit_choices(frame.assign(**{name: ["no", "yes", "no"]}), winner="winner", loser="loser"),
            expected,
        )
    for word in ("draw", "Tie", "tied"):
        with pytest.raises(InvalidSamples, match="if the row is a tie, use first="):
            at.fit_choices(["a", word], losers=["b", "a"])
