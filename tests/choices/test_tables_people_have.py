"""Tables in the shapes that people have: each gives the board of the same choices, plainly encoded."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.cli.inside import run_inside

import attomaton as at

WON, LOST = ["b", "a", "b", "a", "c"], ["a", "b", "c", "d", "b"]


def same(fit, other):
    """Both fits have the same components, order, scores and errors."""
    assert set(fit.items) == set(other.items)
    assert {frozenset(part) for part in fit.components} == {frozenset(part) for part in other.components}
    expected = {row["item"]: row for row in other.to_dict()["standings"]}
    for row in fit.to_dict()["standings"]:
        for name in ("rank", "rating", "standard_error", "games"):
            assert row[name] == pytest.approx(expected[row["item"]][name], abs=1e-8), (row, name)


PLAIN = at.fit_choices(WON, losers=LOST)


def test_libraries_of_frames():
    polars, narwhals = pytest.importorskip("polars"), pytest.importorskip("narwhals")
    data = {"winner": WON, "loser": LOST}
    frames = [
        narwhals.from_native(make(data))
        for make in (pd.DataFrame, polars.DataFrame, lambda columns: pa.table(columns))
    ]
    for frame in frames:
        same(at.fit_choices(frame), PLAIN)
        same(at.fit_choices(frame["winner"], losers=frame["loser"]), PLAIN)
    with pytest.raises(at.AttomatonError, match=r"give frame.collect\(\)"):
        at.fit_choices(frames[1].lazy())


def test_datasets():
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"winner": WON, "loser": LOST})
    one = datasets.DatasetDict({"train": data})
    for dataset in (data, data.shuffle(seed=1), data.to_iterable_dataset(), data.with_format("numpy"), one):
        same(at.fit_choices(dataset), PLAIN)
    same(at.fit_choices(data["winner"], losers=data["loser"]), PLAIN)
    with pytest.raises(at.AttomatonError, match=r"the splits 'train', 'test'; give .* dataset\['train'\]"):
        at.fit_choices(datasets.DatasetDict({"train": data, "test": data}))


TEXTS = {
    "string_view": lambda column: column.cast(pa.string_view()),
    "large_string": lambda column: column.cast(pa.large_string()),
    "dictionary": lambda column: column.dictionary_encode(),
    "dictionary of views": lambda column: column.cast(pa.dictionary(pa.int32(), pa.string_view())),
    "run-end encoded": pc.run_end_encode,
    "chunks": lambda column: pa.chunked_array(
        [column.cast(pa.string_view())[:2], column[2:].cast("string_view")]
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_types_of_arrow(name):
    encode = TEXTS[name]
    table = pa.table({"winner": encode(pa.array(WON)), "loser": encode(pa.array(LOST))})
    same(at.fit_choices(table), PLAIN)
    columns = {
        "one": encode(pa.array(WON)),
        "two": encode(pa.array(LOST)),
        "won": encode(pa.array(["one"] * 5)),
        "judge": encode(pa.array(list("xyzxy"))),
        "count": pa.array([1] * 5).cast(pa.decimal128(38, 0)),
    }
    named = {"first": "one", "second": "two", "outcome": "won", "cluster": "judge"}
    clustered = at.fit_choices({"winner": WON, "loser": LOST, "judge": list("xyzxy")}, cluster="judge")
    same(at.fit_choices(pa.table(columns), **named), clustered)


@pytest.mark.parametrize(
    "kind", [pa.list_view, pa.large_list_view, lambda of: pa.list_(of, 2), pa.large_list]
)
def test_lists_of_arrow(kind):
    sets = pa.array([list(pair) for pair in zip(WON, LOST, strict=True)], kind(pa.string_view()))
    table = pa.table({"winner": WON, "choice_set": sets})
    same(at.fit_choices(table), PLAIN)


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_missing_cells_of_pandas(backend):
    ranks = pd.DataFrame({"a": [1, 2, None], "b": [2, 1, 1], "c": [3, None, 2]}).convert_dtypes(
        dtype_backend=backend
    )
    plain = at.fit_choices(rankings=[["a", "b", "c"], ["b", "a"], ["b", "c"]])
    same(at.fit_choices(ranks, ranks=["a", "b", "c"]), plain)
    places = pd.DataFrame({"P1": ["a", "b", "b"], "P2": ["b", "a", "c"], "P3": ["c", None, " "]})
    places = places.convert_dtypes(dtype_backend=backend)
    same(at.fit_choices(places, ranking=["P1", "P2", "P3"]), plain)
    sets = at.fit_choices(["a", "b", "b"], [["a", "b", "c"], ["b", "a"], ["b", "c"]])
    same(at.fit_choices(places, winner="P1", choice_set=["P1", "P2", "P3"]), sets)
    battles = {"first": ["a", "b", "a"], "second": ["b", "a", "b"], "outcome": ["a", "tie", "b"]}
    moved = pd.DataFrame({**battles, "white": ["a", None, "a"]}).convert_dtypes(dtype_backend=backend)
    empty = at.fit_choices({**battles, "white": ["a", "", "a"]}, moved_first="white")
    same(at.fit_choices(moved, moved_first="white"), empty)


PAIRS = {
    "one": ["kim", "lee", "kim", "lee", "max", "max"],
    "two": ["lee", "kim", "max", "max", "lee", "kim"],
}
ENDS = [0, 1, 2, 0, 0, 1]  # the first of the pair wins, the second, a tie
NAMED = {"first": "one", "second": "two", "outcome": "end"}


def plain_outcomes(ends=ENDS):
    """Pairs as winners, losers and ties: the reference for all outcomes."""
    rows = list(zip(PAIRS["one"], PAIRS["two"], ends, strict=True))
    winners, losers = (
        [b if end == 1 else a for a, b, end in rows],
        [a if end == 1 else b for a, b, end in rows],
    )
    return at.fit_choices(winners, losers=losers, tied=[end == 2 for end in ends])


SPELLINGS = {
    "chess": ("1-0", "0-1", "1/2-1/2"),
    "chess with a fraction sign": ("1–0", "0–1", "½–½"),
    "goals": ("3-1", "0:2", "2 - 2"),
    "letters": ("A", "B", "tie"),
    "small letters": ("a", "b", "both_bad"),
    "both bad": ("A", "B", "bothbad"),
    "verdicts": ("W", "L", "D"),
    "words": ("win", "loss", "draw"),
    "sides": ("left", "right", "Both bad"),
    "models": ("Model A", "Model B", "Tie (both bad)"),
    "arena": ("model_a", "model_b", "both_bad"),
    "colours": ("White wins", "Black wins", "drawn"),
    "numbers": (1, 2, "tie"),
    "texts of numbers": ("1", "2", "X"),
    "players": ("Player 1", "Player 2", "draw"),
    "betting": ("H", "A", "D"),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_words_for_outcomes(name, tmp_path):
    frame = pd.DataFrame({**PAIRS, "end": [SPELLINGS[name][end] for end in ENDS]})
    same(at.fit_choices(frame, **NAMED), plain_outcomes())
    frame.to_csv(tmp_path / "table.csv", index=False)
    same_board("table.csv --first one --second two --outcome end", tmp_path, plain_outcomes())


def same_board(arguments, folder, other):
    """The command prints the board of the fit."""
    ended = run_inside("choices", *arguments.split(), "--json", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    record = json.loads(ended.stdout)
    expected = {row["item"]: row for row in other.to_dict()["standings"]}
    assert {row["item"] for row in record["standings"]} == expected.keys()
    for row in record["standings"]:
        assert row["rating"] == pytest.approx(expected[row["item"]]["rating"], abs=1e-8)
        assert row["games"] == expected[row["item"]]["games"]
    return record


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("white", "black"), ("white", "black", "draw")),
        (("HomeTeam", "AwayTeam"), ("H", "A", "D")),
        (("HomeTeam", "AwayTeam"), ("Home win", "Away win", "Draw")),
        (("home_team", "away_team"), ("home", "away", "draw")),
        (("answer_1", "answer_2"), ("1", "2", "tie")),
        (("model_b", "model_a"), ("B", "A", "tie")),
        (("Black", "White"), ("black", "white", "tie")),
        (("Black", "White"), ("B", "W", "D")),
        (("Red fighter", "Blue fighter"), ("R", "B", "draw")),
        (("left_answer", "right_answer"), ("L", "R", "tie")),
    ],
)
def test_outcomes_named_as_the_columns_are(names, words):
    frame = {names[0]: PAIRS["one"], names[1]: PAIRS["two"], "end": [words[end] for end in ENDS]}
    fit = at.fit_choices(frame, first=names[0], second=names[1], outcome="end")
    same(fit, plain_outcomes())
    assert words[0] == names[0] or f"a win of {names[0]!r}" in fit.to_dict()["remarks"][0]


@pytest.mark.parametrize(
    ("names", "words", "message"),
    [
        (("one", "two"), ["L"] * 6, "'l' in the column 'end' may be a win of 'one' or of 'two'"),
        (("white", "black"), ["L", "R", "W", "L", "R", "L"], "the outcome in row 0 is 'L'"),
        (("one", "two"), [0, 2, 1, 0, 2, 1], "the outcome in row 1 is 2"),
        (
            ("one", "two"),
            ["1-0", "*", "0-1", "1-0", "0-1", "1-0"],
            r"row 1 is '\*'.*leave such rows out with drop",
        ),
        (("one", "two"), ["Kim", "Lee", "tie", "Max", "Max", "Max"], "the outcome in row 0 is 'Kim'"),
        (("one", "two"), ["kim", None, "max", "max", "max", "max"], "the outcome in row 1 is missing"),
    ],
)
def test_ambiguous_outcomes_are_refused(names, words, message):
    frame = {names[0]: PAIRS["one"], names[1]: PAIRS["two"], "end": words}
    with pytest.raises(at.AttomatonError, match=message):
        at.fit_choices(frame, first=names[0], second=names[1], outcome="end")


def test_outcomes_in_a_column_for_each_side(tmp_path):
    goals = pd.DataFrame({**PAIRS, "a_goals": [2, 0, 1, 3, 1, 0], "b_goals": [1, 2, 1, 0, 0, 4]})
    hot = pd.get_dummies(pd.Series(ENDS)).set_axis(["won_one", "won_two", "neither"], axis=1)
    hot = pd.concat([pd.DataFrame(PAIRS), hot], axis=1)
    for frame, outcome in ((goals, ["a_goals", "b_goals"]), (hot, ["won_one", "won_two", "neither"])):
        same(at.fit_choices(frame, **{**NAMED, "outcome": outcome}), plain_outcomes())
        frame.to_csv(tmp_path / "table.csv", index=False)
        options = f"table.csv --first one --second two --outcome {','.join(outcome)}"
        same_board(options, tmp_path, plain_outcomes())
    reading = at.fit_choices(goals, **{**NAMED, "outcome": ["a_goals", "b_goals"]}).to_dict()["remarks"]
    assert (
        "'a_goals', 'b_goals' were read as the scores of 'one' and 'two': the higher one wins" in reading[0]
    )
    with pytest.raises(at.AttomatonError, match="row 1 does not mark exactly one of 'won_one', 'won_two'"):
        at.fit_choices(hot.assign(won_one=True), **{**NAMED, "outcome": ["won_one", "won_two", "neither"]})
    swapped = goals.rename(
        columns={"one": "home", "two": "away", "a_goals": "home_goals", "b_goals": "away_goals"}
    )
    with pytest.raises(at.AttomatonError, match="name that of 'home' before that of 'away'"):
        at.fit_choices(swapped, first="home", second="away", outcome=["away_goals", "home_goals"])


def test_counts_of_0(tmp_path):
    games = {"winner": ["a", "b", "a", "z"], "loser": ["b", "a", "c", "a"], "count": [3, 1, 2, 0]}
    plain = at.fit_choices(games["winner"][:3], losers=games["loser"][:3], counts=[3, 1, 2])
    same(at.fit_choices(games), plain)
    same(at.fit_choices(games["winner"], losers=games["loser"], counts=[3, 1, 2, 0]), plain)
    pd.DataFrame(games).to_csv(tmp_path / "games.csv", index=False)
    same_board("games.csv", tmp_path, plain)
    same(
        at.fit_choices(rankings=[["a", "b"], ["b", "a"], ["c", "a"]], counts=[2, 1, 0]),
        at.fit_choices(rankings=[["a", "b"], ["b", "a"]], counts=[2, 1]),
    )
    picked = {
        "best": ["a", "b", "b"],
        "worst": ["b", "c", "a"],
        "count": [1, 2, 0],
        "choice_set": [list("abc")] * 3,
    }
    same(at.fit_choices(picked), at.fit_choices({name: column[:2] for name, column in picked.items()}))
    judged = {**games, "judge": list("xyzw"), "topic": list("ppqr")}
    fewer = {name: column[:3] for name, column in judged.items()}
    same(at.fit_choices(judged, cluster="judge"), at.fit_choices(fewer, cluster="judge"))
    for wrong, message in (([0] * 4, "all counts are 0"), ([1, 1, -1, 0], "the count in row 2 is -1")):
        with pytest.raises(at.AttomatonError, match=message):
            at.fit_choices({**games, "count": wrong})


def test_lists_of_columns_on_the_command_line(tmp_path):
    (tmp_path / "places.csv").write_text("P1,P2,P3\nann,bob,cat\nbob,ann,\ncat,bob,ann\n")
    plain = at.fit_choices(rankings=[["ann", "bob", "cat"], ["bob", "ann"], ["cat", "bob", "ann"]])
    same_board("places.csv --ranking P1,P2,P3", tmp_path, plain)
    (tmp_path / "sets.csv").write_text("won,i,j,k\nx,x,y,z\ny,x,y,\nz,z,y,x\n")
    plain = at.fit_choices(["x", "y", "z"], [["x", "y", "z"], ["x", "y"], ["z", "y", "x"]])
    same_board("sets.csv --winner won --choice-set i,j,k", tmp_path, plain)


def test_a_comma_in_a_quoted_header_is_no_delimiter(tmp_path):
    (tmp_path / "games.csv").write_text('winner;loser;"place, time"\na;b;"Rome, 9"\nb;a;x\na;c;y\n')
    plain = at.fit_choices(["a", "b", "a"], losers=["b", "a", "c"])
    same(at.fit_choices(tmp_path / "games.csv"), plain)
    same_board("games.csv", tmp_path, plain)
    texts = at.read_corpus(tmp_path / "games.csv", reading=at.corpora.readers.Reading(column="place, time"))
    assert len(texts.offsets) == 4


def test_fields_of_structs():
    polars = pytest.importorskip("polars")
    lengths = [(3.0, 1), (2.0, 2), (1.0, 4), (5.0, 2), (1.0, 1), (2.0, 3)]
    records = [
        {
            "sum_a_tokens": a,
            "sum_b_tokens": b,
            "headers_a": {"h1": b},
            "headers_b": {"h1": a},
            "v0.1": {"ok": a > 1},
        }
        for a, b in lengths
    ]
    ends = [("model_a", "model_b", "tie")[end] for end in ENDS]
    data = {"model_a": PAIRS["one"], "model_b": PAIRS["two"], "winner": ends, "meta": records}
    flat = {name: data[name] for name in ("model_a", "model_b", "winner")}
    flat |= {
        "sum_a": [a for a, _ in lengths],
        "sum_b": [b for _, b in lengths],
        "ok": [a > 1 for a, _ in lengths],
    }
    plain = at.fit_choices(flat, features=["sum"])
    rows = [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
    for frame in (data, rows, pd.DataFrame(data), pa.table(data), polars.DataFrame(data)):
        fit = at.fit_choices(frame, features=["meta.sum_tokens"])
        assert fit.coefficients["meta.sum_tokens"].value == pytest.approx(
            plain.coefficients["sum"].value, abs=1e-8
        )
        both = {"sum": ("meta.sum_a_tokens", "meta.sum_b_tokens")}
        same(at.fit_choices(frame, features=both), plain)
        nested = at.fit_choices(frame, features=["meta.headers.h1"])
        assert nested.coefficients["meta.headers.h1"].value == pytest.approx(
            -plain.coefficients["sum"].value, abs=1e-8
        )
        parts = at.fit_choices(frame, by="meta.v0.1.ok").by
        for answer, part in at.fit_choices(flat, by="ok").by.items():
            same(parts[answer], part)
    with pytest.raises(at.AttomatonError, match=r"no column 'meta.nothing'"):
        at.fit_choices(pa.table(data), by="meta.nothing")
