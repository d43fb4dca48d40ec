"""Tables in the shapes that people have: each gives the board of the same choices, plainly encoded."""

import json
from itertools import zip_longest

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
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
    with pytest.raises(at.AttomatonError, match=r"collect it first: frame.collect\(\)"):
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
    for named in ("ranking", "choice_set"):  # inside lists
        frame = pd.DataFrame({"winner": ["a", "b"], named: [["a", "b"], ["b", "a", pd.NA]]})
        with pytest.raises(at.AttomatonError, match=r"(an item is missing|contains a missing item) \(<NA>"):
            at.fit_choices(frame[[named]] if named == "ranking" else frame)
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
    "grounds": ("home", "away", "bothbad"),
    "grounds in capitals": ("HOME", "AWAY", "BOTHBAD"),
    "grounds in mixed case": ("Home", "aWay", "BothBad"),
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
        (("away_team", "home_team"), ("away", "home", "bothbad")),
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
        (("one", "two"), [1, -1, 0, 1, 1, -1], "the outcome in row 1 is -1"),
        (("one", "two"), ["1", "-1", "tie", "1", "1", "-1"], "the outcome in row 1 is '-1'"),
        (
            ("one", "two"),
            ["1-0", "*", "0-1", "1-0", "0-1", "1-0"],
            r"row 1 is '\*'.*drop such rows: drop=\['\*'\]$",
        ),
        (("one", "two"), ["Kim", "Lee", "tie", "Max", "Max", "Max"], "the outcome in row 0 is 'Kim'"),
        (("one", "two"), ["W", "L", "abandoned", "D", "W", "L"], "the outcome in row 2 is 'abandoned'"),
        (
            ("one", "two"),
            ["home", "guest", "bothbad", "home", "home", "away"],
            "row 1 is 'guest'.*words of one kind .*, 'tie', or the score of 'one'",
        ),
        (
            ("one", "two"),
            ["home", "left", "tie", "home", "home", "away"],
            "row 0 is 'home'.*words of one kind",
        ),
        (("one", "two"), ["2020-01", "2021-05", "1-0", "1-0", "1-0", "1-0"], "row 0 is '2020-01'"),
        (
            ("one", "two"),
            [["A"], "B", "A", "B", "A", "B"],
            r"a column contains \['A'\]; name a column of text",
        ),
        (("one", "two"), ["kim", None, "max", "max", "max", "max"], "the outcome in row 1 is missing"),
    ],
)
def test_ambiguous_outcomes_are_refused(names, words, message):
    frame = {names[0]: PAIRS["one"], names[1]: PAIRS["two"], "end": words}
    with pytest.raises(at.AttomatonError, match=message):
        at.fit_choices(frame, first=names[0], second=names[1], outcome="end")


def test_an_outcome_that_is_dropped_but_not_there_is_remarked():
    frame = {**PAIRS, "end": ["A", "B", "tie", "A", "A", "B"]}
    fit = at.fit_choices(frame, **NAMED, drop=["Tie", "skipped"])
    same(fit, plain_outcomes())
    assert "no row has the outcome 'Tie' or 'skipped', which drop= names" in fit.to_dict()["remarks"][0]


def test_an_item_called_as_a_tie_is_refused():
    frame = {"one": ["Both bad", "kim"], "two": ["kim", "lee"], "end": ["Both bad", "lee"]}
    with pytest.raises(at.AttomatonError, match="'Both bad' is also the name of an item"):
        at.fit_choices(frame, **NAMED)


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
        "'a_goals', 'b_goals' were read as the scores of 'one' and 'two': the higher score wins" in reading[0]
    )
    with pytest.raises(
        at.AttomatonError, match="row 1 does not mark exactly one of the columns 'won_one', 'won_two'"
    ):
        at.fit_choices(hot.assign(won_one=True), **{**NAMED, "outcome": ["won_one", "won_two", "neither"]})
    swapped = goals.rename(
        columns={"one": "home", "two": "away", "a_goals": "home_goals", "b_goals": "away_goals"}
    )
    with pytest.raises(at.AttomatonError, match="name the column of 'home' before the column of 'away'"):
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
    assert at.fit_choices(judged, by="topic").by.keys() == {"p", "q"}  # nobody chose in r
    assert at.fit_choices(judged, by="topic", cluster="judge").by.keys() == {"p", "q"}
    for wrong, message in (([0] * 4, "all counts are 0"), ([1, 1, -1, 0], "the count in row 2 is -1")):
        with pytest.raises(at.AttomatonError, match=message):
            at.fit_choices({**games, "count": wrong})


def test_columns_of_different_lengths_are_refused():
    frame = {"race": [1, 1], "a": [1, 2], "b": [2], "w": ["a", "b"]}
    for named in (
        {"ranks": ["a", "b"]},
        {"winner": "w", "loser": ["a", "b"]},
        {"situation": "race", "alternative": "w", "ranks": "b"},
        {"winner": "w", "choice_set": ["a", "b"]},
    ):
        with pytest.raises(at.AttomatonError, match="the columns have different lengths"):
            at.fit_choices(frame, **named)
    with pytest.raises(at.AttomatonError, match="loser= is an empty list"):
        at.fit_choices(frame, winner="w", loser=[])


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


BAD_ROWS = {
    "games.csv": (
        'winner,loser,note\na,b,"two\nlines"\n\nb,a,x\n,a,y\na,c,z\n a b,c,w\nc,c,v\n',
        ["the winner in line 6 of games.csv is empty", "line 9 of games.csv compares 'c' with itself"],
    ),
    "semicolons.csv": (
        "sep=;\nwinner;loser\na;b\nb;a\na; \n",
        ["the loser in line 5 of semicolons.csv is empty"],
    ),
    "games.tsv": ("winner\tloser\na\tb\nb\ta\n\tb\n", ["the winner in line 4 of games.tsv is empty"]),
    "games.jsonl": (
        '{"winner": "a", "loser": "b"}\n\n{"winner": "b", "loser": "a"}\n{"winner": "a"}\n',
        ["the loser in line 4 of games.jsonl is missing"],
    ),
    "games.json": (
        '[{"winner": "a", "loser": "b"}, {"winner": "b", "loser": "a"}, {"winner": null, "loser": "b"}]',
        ["the winner in row 2 of games.json is missing"],
    ),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_are_named_as_in_the_file_and_may_be_skipped(name, tmp_path):
    text, messages = BAD_ROWS[name]
    (tmp_path / name).write_text(text)
    refused = run_inside("choices", name, cwd=tmp_path)
    assert refused.returncode == 2
    assert messages[0] in refused.stderr
    with pytest.raises(at.AttomatonError, match=f"{messages[0].split(' of ')[0]} of .*{name}"):
        at.fit_choices(tmp_path / name)
    ended = run_inside("choices", name, "--skip-bad", "--json", cwd=tmp_path)
    record = json.loads(ended.stdout)
    assert record["skipped"] == len(messages)
    assert messages[0] in record["first_skipped"]
    assert messages[0] in ended.stderr
    assert record["choices"] == 2 + 2 * (name == "games.csv")


def test_a_line_that_is_not_json_is_named(tmp_path):
    path = tmp_path / "games.jsonl"
    path.write_text('{"winner": "a", "loser": "b"}\n\n{"winner": "b", "lo')
    with pytest.raises(at.AttomatonError, match=r"games\.jsonl, line 3, is not JSON"):
        at.fit_choices(path)


SKIPPED = {
    "first,second,result,judge,language\n": (
        ["a,b,1-0,x,en", "b,a,*,x,en", "b,a,1-0,,en", "a,c,1/2-1/2,y,", "c,a,0-1,y,de", "a,b,,z,de"],
        ["--first first --second second --outcome result", "--by language", "--cluster judge"],
        [2, 3, 3],
    ),
    "P1,P2,P3\n": (["a,b,c", ",,", "b,,a", "b,a,", "c,c,a"], ["--ranking P1,P2,P3"], [3]),
    "a,b,c\n": (["1,2,3", ",,", "2,x,1", "2,1,"], ["--ranks a,b,c"], [2]),
    "menu,dish\n": (
        ["soup|fish,soup", ",soup", "fish|soup,fish", "soup|fish,cake"],
        ["--winner dish --choice-set menu --split |"],
        [2],
    ),
    "home,away,hg,ag\n": (
        ["a,b,2,1", "b,a,,", "b,a,3,0"],
        ["--first home --second away --outcome hg,ag"],
        [1],
    ),
}


@pytest.mark.parametrize("header", SKIPPED)
def test_rows_without_what_is_needed_are_skipped(header, tmp_path):
    rows, options, skipped = SKIPPED[header]
    (tmp_path / "table.csv").write_text(header + "\n".join(rows) + "\n")
    base = f"choices table.csv {options[0]}".split()
    for more, count in zip(["", *options[1:]], skipped, strict=True):
        arguments = [*base, *more.split()]
        refused = run_inside(*arguments, cwd=tmp_path)
        assert refused.returncode == 2
        assert " of table.csv" in refused.stderr
        assert "Traceback" not in refused.stderr
        ended = run_inside(*arguments, "--skip-bad", "--json", cwd=tmp_path)
        assert json.loads(ended.stdout)["skipped"] == count, ended.stderr
    (tmp_path / "bad.csv").write_text("winner,loser\n,a\n,b\n")
    assert run_inside("choices", "bad.csv", "--skip-bad", cwd=tmp_path).returncode == 2


def fit_logit(choices, n_columns):
    """The reference: Newton's method for choices (rows of the alternatives, index of the chosen)."""
    beta = np.zeros(n_columns)
    for _ in range(60):
        gradient, curvature = np.zeros(n_columns), np.zeros((n_columns, n_columns))
        for rows, chosen in choices:
            shares = np.exp(rows @ beta - (rows @ beta).max())
            shares /= shares.sum()
            gradient += rows[chosen] - shares @ rows
            curvature += rows.T @ (shares[:, None] * rows) - np.outer(shares @ rows, shares @ rows)
        step = np.linalg.pinv(curvature) @ gradient
        beta += step / max(1.0, np.abs(step).max())
    assert np.abs(gradient).max() < 1e-9
    return beta


def unit(items, item, *more):
    return np.array([1.0 * (item == other) for other in items] + list(more))


def davidson(items, battles):
    """Pairs (first, second, end, features of the first less the second): ratings, the tie, coefficients."""
    choices = []
    for one, two, end, *difference in battles:
        a, b = unit(items, one, 0.0, *difference), unit(items, two, 0.0, *[0.0] * len(difference))
        tie = (a + b) / 2
        tie[len(items)] = 1.0
        choices.append((np.array([a, b, tie]), end))
    if any(end == 2 for _, _, end, *_ in battles):
        return fit_logit(choices, len(choices[0][0][0]))
    return fit_logit([(rows[:2], end) for rows, end in choices], len(choices[0][0][0]))


def plackett_luce(items, rankings):
    steps = [ranking[k:] for ranking in rankings for k in range(len(ranking) - 1)]
    return fit_logit([(np.array([unit(items, item) for item in step]), 0) for step in steps], len(items))


def best_worst(items, tasks):
    choices = []
    for shown, best, worst in tasks:
        pairs = [(one, two) for one in shown for two in shown if one != two]
        rows = np.array([unit(items, one) - unit(items, two) for one, two in pairs])
        choices.append((rows, pairs.index((best, worst))))
    return fit_logit(choices, len(items))


TEAMS = ["ant", "bee", "cat", "dog", "elk"]


def play(size, seed=0):
    """Battles (first, second, end) in which everybody sometimes wins."""
    rng = np.random.default_rng(seed)
    battles = []
    for _ in range(size):
        first, second = rng.choice(len(TEAMS), 2, replace=False)
        ends = np.exp([(second - first) / 4, (first - second) / 4, -0.5])
        battles.append((TEAMS[first], TEAMS[second], int(rng.choice(3, p=ends / ends.sum()))))
    return battles


def has_ratings(fit, items, beta):
    """The board has the ratings of the reference, and nothing infinite."""
    standings = fit if isinstance(fit, list) else fit.to_dict()["standings"]
    expected = dict(zip(items, beta[: len(items)] - beta[: len(items)].mean(), strict=True))
    assert {row["item"]: row["rating"] for row in standings} == pytest.approx(expected, abs=1e-6)
    ratings = [row["rating"] for row in standings]
    assert ratings == sorted(ratings, reverse=True)


def prints(arguments, folder, beta, items=TEAMS):
    """The command prints the ratings of the reference."""
    ended = run_inside("choices", *arguments.split(), "--json", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    record = json.loads(ended.stdout)
    has_ratings(record["standings"], items, beta)
    return record


def test_lmarena_140k(tmp_path):
    rng = np.random.default_rng(1)
    battles = [(*battle, float(rng.normal())) for battle in play(150)]
    rows = [
        {
            "id": f"id-{number}",
            "model_a": one,
            "model_b": two,
            "winner": ["model_a", "model_b", "both_bad" if number % 2 else "tie"][end],
            "evaluation_order": 1,
            "conversation_a": [{"role": "user", "content": [{"type": "text", "text": "hi, you"}]}],
            "conv_metadata": {
                "sum_assistant_a_tokens": 700 + 100 * difference,
                "sum_assistant_b_tokens": 700.0,
                "header_count_a": {"h1": 1, "h2": number},
                "header_count_b": {"h1": 2, "h2": 0},
                "turns": 1,
            },
            "category_tag": {"criteria_v0.1": {"complexity": number % 3 == 0}},
            "language": "en",
            "is_code": False,
        }
        for number, (one, two, end, difference) in enumerate(battles)
    ]
    beta = davidson(TEAMS, [(*battle[:3], 100 * battle[3]) for battle in battles])
    plain = davidson(TEAMS, [battle[:3] for battle in battles])
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "arena.parquet")
    name = "conv_metadata.sum_assistant_tokens"
    for frame in (table, table.to_pandas(), rows, tmp_path / "arena.parquet"):
        has_ratings(at.fit_choices(frame), TEAMS, plain)
        fit = at.fit_choices(frame, features=[name])
        has_ratings(fit, TEAMS, beta)
        assert fit.coefficients[name].value == pytest.approx(beta[-1], abs=1e-8)
    prints("arena.parquet", tmp_path, plain)
    record = prints(f"arena.parquet --features {name}", tmp_path, beta)
    assert record["coefficients"][0]["estimate"] == pytest.approx(beta[-1], abs=1e-8)
    some = davidson(TEAMS, [battle[:3] for number, battle in enumerate(battles) if number % 3 == 0])
    parts = at.fit_choices(table, by="category_tag.criteria_v0.1.complexity").by
    has_ratings(parts[True], TEAMS, some)


def test_arena_of_kaggle(tmp_path):
    battles = play(120, seed=2)
    frame = pd.DataFrame(
        {
            "id": range(120),
            "model_a": [one for one, _, _ in battles],
            "model_b": [two for _, two, _ in battles],
            "prompt": '["a, b", "c"]',
            "winner_model_a": [int(end == 0) for _, _, end in battles],
            "winner_model_b": [int(end == 1) for _, _, end in battles],
            "winner_tie": [int(end == 2) for _, _, end in battles],
        }
    )
    frame.to_csv(tmp_path / "train.csv", index=False)
    has_ratings(at.fit_choices(frame), TEAMS, davidson(TEAMS, battles))
    prints("train.csv", tmp_path, davidson(TEAMS, battles))


def test_games_of_chess(tmp_path):
    battles = play(120, seed=3)
    frame = pd.DataFrame(
        {
            "Event": "Rated, blitz",
            "White": [one for one, _, _ in battles],
            "Black": [two for _, two, _ in battles],
            "Result": [("1-0", "0-1", "1/2-1/2")[end] for _, _, end in battles],
            "WhiteElo": 1500,
        }
    )
    frame.to_csv(tmp_path / "games.csv", index=False)
    named = {"first": "White", "second": "Black", "outcome": "Result"}
    options = "games.csv --first White --second Black --outcome Result"
    has_ratings(at.fit_choices(frame, **named), TEAMS, davidson(TEAMS, battles))
    prints(options, tmp_path, davidson(TEAMS, battles))
    beta = davidson(TEAMS, [(*battle, 1.0) for battle in battles])
    has_ratings(at.fit_choices(frame, **named, moved_first="White"), TEAMS, beta)
    prints(f"{options} --moved-first White", tmp_path, beta)


def test_a_football_league(tmp_path):
    battles = play(120, seed=4)
    goals = [((2, 0), (1, 3), (1, 1))[end] for _, _, end in battles]
    frame = pd.DataFrame(
        {
            "Div": "E0",
            "Date": "13/08/2022",
            "HomeTeam": [one for one, _, _ in battles],
            "AwayTeam": [two for _, two, _ in battles],
            "FTHG": [home for home, _ in goals],
            "FTAG": [away for _, away in goals],
            "FTR": ["HAD"[end] for _, _, end in battles],
            "HomeResult": ["WLD"[end] for _, _, end in battles],
            "Score": [f"{home}-{away}" for home, away in goals],
        }
    )
    frame.to_csv(tmp_path / "E0.csv", index=False, sep=";")
    beta = davidson(TEAMS, battles)
    for outcome in ("FTR", ["FTHG", "FTAG"], "HomeResult", "Score"):
        fit = at.fit_choices(frame, first="HomeTeam", second="AwayTeam", outcome=outcome)
        has_ratings(fit, TEAMS, beta)
        name = outcome if isinstance(outcome, str) else ",".join(outcome)
        prints(f"E0.csv --first HomeTeam --second AwayTeam --outcome {name}", tmp_path, beta)


def test_a_survey_with_best_and_worst(tmp_path):
    rng = np.random.default_rng(5)
    tasks = []
    for _ in range(60):
        shown = [TEAMS[k] for k in rng.choice(len(TEAMS), 4, replace=False)]
        best, worst = rng.choice(shown, 2, replace=False)
        tasks.append((shown, str(best), str(worst)))
    items = {f"item{k + 1}": [shown[k] for shown, _, _ in tasks] for k in range(4)}
    frame = pd.DataFrame({"respondent": range(60), **items})
    frame = frame.assign(Best=[best for _, best, _ in tasks], Worst=[worst for _, _, worst in tasks])
    frame.to_csv(tmp_path / "survey.csv", index=False)
    beta = best_worst(TEAMS, tasks)
    has_ratings(at.fit_choices(frame, best="Best", worst="Worst", choice_set=list(items)), TEAMS, beta)
    prints(f"survey.csv --best Best --worst Worst --choice-set {','.join(items)}", tmp_path, beta)


def rankings(seed=6):
    rng = np.random.default_rng(seed)
    return [[TEAMS[k] for k in rng.permutation(5)[: rng.integers(3, 6)]] for _ in range(24)]


def test_a_season_of_races(tmp_path):
    season = rankings()
    beta = plackett_luce(TEAMS, season)
    wide = pd.DataFrame([{name: place for place, name in enumerate(race, 1)} for race in season])[TEAMS]
    wide.insert(0, "Grand Prix", [f"race {number}" for number in range(len(season))])
    wide.to_csv(tmp_path / "season.csv", index=False)
    has_ratings(at.fit_choices(wide, ranks=TEAMS), TEAMS, beta)
    prints(f"season.csv --ranks {','.join(TEAMS)}", tmp_path, beta)
    long = wide.melt("Grand Prix", var_name="driver", value_name="position").sample(frac=1, random_state=1)
    long.loc[len(long)] = ["rained out", "ant", None]
    long.to_csv(tmp_path / "results.csv", index=False)
    named = {"situation": "Grand Prix", "alternative": "driver", "ranks": "position"}
    has_ratings(at.fit_choices(long, **named), TEAMS, beta)
    long.columns = ["race", "driver", "position"]
    long.to_csv(tmp_path / "results.csv", index=False)
    options = ["--situation", "race", "--alternative", "driver", "--ranks", "position"]
    prints(f"results.csv {' '.join(options)}", tmp_path, beta)
    (tmp_path / "bad.csv").write_text("race,driver,position\n1,a,1\n1,b,2\n1,c,DNF\n2,b,1\n2,a,2\n2,c,3\n")
    refused = run_inside("choices", "bad.csv", *options, cwd=tmp_path)
    assert "line 4 of bad.csv gives 'c' the rank 'DNF'" in refused.stderr
    plain = at.fit_choices(rankings=[["a", "b"], ["b", "a", "c"]])
    same_board(f"bad.csv --skip-bad {' '.join(options)}", tmp_path, plain)
    (tmp_path / "twice.csv").write_text("race,driver,position\n1,a,1\n1,b,2\n2,a,1\n2,a,2\n")
    refused = run_inside("choices", "twice.csv", *options, cwd=tmp_path)
    assert "the ranking of line 4 of twice.csv contains 'a' more than once" in refused.stderr
    for wrong, message in (
        ({"count": "position"}, "cannot be combined"),
        ({"by": "race"}, "one row for each"),
    ):
        with pytest.raises(at.AttomatonError, match=message):
            at.fit_choices(long, **{**named, "situation": "race"}, **wrong)


def test_a_table_of_wins(tmp_path):
    battles = [battle for battle in play(120, seed=7) if battle[2] < 2]
    won = pd.Series([battle[battle[2]] for battle in battles], name="team")
    lost = pd.Series([battle[1 - battle[2]] for battle in battles])
    table = pd.crosstab(won, lost).reset_index()
    beta = davidson(TEAMS, battles)
    has_ratings(at.fit_choices(table, winner="team", loser=TEAMS), TEAMS, beta)
    assert (table[TEAMS] == 0).to_numpy().any()
    table.to_csv(tmp_path / "wins.csv", index=False)
    prints(f"wins.csv --winner team --loser {','.join(TEAMS)}", tmp_path, beta)
    cells = table.astype(object)
    for row in range(len(cells)):
        cells.loc[row, cells.loc[row, "team"]] = "–"  # the diagonal
    cells.replace(0, None).to_csv(tmp_path / "wins.csv", index=False)
    prints(f"wins.csv --winner team --loser {','.join(TEAMS)}", tmp_path, beta)
    (tmp_path / "bad.csv").write_text("team,ant,bee\nant,,x\nbee,2,\n")
    with pytest.raises(at.AttomatonError, match="the number of wins against 'bee' is 'x' in line 2 of"):
        at.fit_choices(tmp_path / "bad.csv", winner="team", loser=["ant", "bee"])
    totals = pd.crosstab(won, lost, margins=True).reset_index()
    with pytest.raises(at.AttomatonError, match="row 5 is the sum of the other rows; remove"):
        at.fit_choices(totals, winner="team", loser=TEAMS)
    totals.to_csv(tmp_path / "totals.csv", index=False)
    prints(f"totals.csv --winner team --loser {','.join(TEAMS)} --skip-bad", tmp_path, beta)
    with pytest.raises(at.AttomatonError, match="by= needs a table with one row for each pair"):
        at.fit_choices(table, winner="team", loser=TEAMS, by="team")
    with pytest.raises(at.AttomatonError, match="count= cannot be combined with"):
        at.fit_choices(table, winner="team", loser=TEAMS, count="ant")
    has_ratings(at.fit_choices(table.assign(count=0), winner="team", loser=TEAMS), TEAMS, beta)


def test_a_frame_of_polars(tmp_path):
    polars = pytest.importorskip("polars")
    battles = play(120, seed=8)
    frame = polars.DataFrame(
        {
            "model_a": [one for one, _, _ in battles],
            "model_b": [two for _, two, _ in battles],
            "winner": [("model_a", "model_b", "tie")[end] for _, _, end in battles],
            "meta": [{"length_a": number % 7, "length_b": 3} for number in range(len(battles))],
        },
        schema_overrides={"winner": polars.Categorical},
    )
    beta = davidson(TEAMS, [(*battle, number % 7 - 3) for number, battle in enumerate(battles)])
    has_ratings(at.fit_choices(frame, features=["meta.length"]), TEAMS, beta)
    frame.write_parquet(tmp_path / "arena.parquet")
    prints("arena.parquet --features meta.length", tmp_path, beta)


def test_a_frame_of_pandas_with_nullable_types(tmp_path):
    season = rankings(seed=9)
    beta = plackett_luce(TEAMS, season)
    wide = pd.DataFrame([{name: place for place, name in enumerate(race, 1)} for race in season])
    places = pd.DataFrame(zip_longest(*season)).T.rename(columns="place{}".format)
    for frame in (wide.convert_dtypes(), wide.convert_dtypes(dtype_backend="pyarrow")):
        assert frame.isna().to_numpy().any()
        has_ratings(at.fit_choices(frame, ranks=TEAMS), TEAMS, beta)
        frame.to_parquet(tmp_path / "season.parquet")
        prints(f"season.parquet --ranks {','.join(TEAMS)}", tmp_path, beta)
    names = list(places)
    for frame in (places.convert_dtypes(), places.convert_dtypes(dtype_backend="pyarrow")):
        has_ratings(at.fit_choices(frame, ranking=names), TEAMS, beta)
        frame.to_parquet(tmp_path / "places.parquet")
        prints(f"places.parquet --ranking {','.join(names)}", tmp_path, beta)


def test_a_dataset(tmp_path):
    datasets = pytest.importorskip("datasets")
    battles = [battle for battle in play(120, seed=10) if battle[2] < 2]
    dataset = datasets.Dataset.from_dict(
        {
            "prompt": ["why?"] * len(battles),
            "chosen_model": [battle[battle[2]] for battle in battles],
            "rejected_model": [battle[1 - battle[2]] for battle in battles],
        }
    )
    beta = davidson(TEAMS, battles)
    named = {"winner": "chosen_model", "loser": "rejected_model"}
    for shape in (dataset, datasets.DatasetDict({"train": dataset}), dataset.to_iterable_dataset()):
        has_ratings(at.fit_choices(shape, **named), TEAMS, beta)
    dataset.to_parquet(tmp_path / "votes.parquet")
    prints("votes.parquet --winner chosen_model --loser rejected_model", tmp_path, beta)


def test_roles_that_are_names_of_columns_need_not_be_given(tmp_path):
    tasks = pd.DataFrame(
        {
            "i": ["ann", "bob"],
            "j": ["bob", "cat"],
            "k": ["cat", "ann"],
            "best": ["ann"] * 2,
            "worst": ["cat"] * 2,
        }
    )
    shown, best_worst = ["i", "j", "k"], {"best": "best", "worst": "worst"}
    same(at.fit_choices(tasks, choice_set=shown), at.fit_choices(tasks, **best_worst, choice_set=shown))
    tasks.to_csv(tmp_path / "tasks.csv", index=False)
    same_board(
        "tasks.csv --choice-set i,j,k", tmp_path, at.fit_choices(tasks, **best_worst, choice_set=shown)
    )
    sets = pd.DataFrame({"won": ["a", "b"], "choice_set": [["a", "b"], ["a", "b"]]})
    same(at.fit_choices(sets, winner="won"), at.fit_choices(["a", "b"], losers=["b", "a"]))
    races = {"race": [1, 1, 2, 2], "car": list("abab"), "ranks": [1, 2, 2, 1]}
    same(
        at.fit_choices(races, situation="race", alternative="car"),
        at.fit_choices(["a", "b"], losers=["b", "a"]),
    )


def test_situations_without_a_choice_are_refused():
    frame = {"situation": [1, 1, 2, 2], "alternative": list("abab"), "chosen": [0] * 4}
    with pytest.raises(at.AttomatonError, match="chosen is 0 in every row; write 1"):
        at.fit_choices(frame)


@pytest.mark.parametrize("total", [1, 100])
def test_shares_of_games_are_refused(total):
    shares = pd.DataFrame({"team": TEAMS[:3], TEAMS[0]: [np.nan, 0.3, 0.444], TEAMS[1]: [0.7, np.nan, 0.8]})
    shares[TEAMS[2]] = [0.556, 0.2, np.nan]
    shares[TEAMS[:3]] *= total
    with pytest.raises(at.AttomatonError, match=f"add up to {total}, so they look like shares; give numbers"):
        at.fit_choices(shares, winner="team", loser=TEAMS[:3])
    halves = pd.DataFrame({"team": ["a", "b", "c"], "a": [0, 0.5, 0], "b": [0.5, 0, 1], "c": [1, 0, 0]})
    assert len(at.fit_choices(halves, winner="team", loser=["a", "b", "c"]).items) == 3  # of a tournament


def test_a_rank_that_is_a_word_is_refused_with_a_cure(tmp_path):
    (tmp_path / "season.csv").write_text("race,driver,rank\n1,ann,1\n1,bob,2\n1,cat,DNF\n2,bob,1\n2,ann,2\n")
    named = {"situation": "race", "alternative": "driver", "ranks": "rank"}
    message = r"line 4 of .* 'cat' the rank 'DNF'; write a number .*, the last rank .*, or nothing"
    with pytest.raises(at.AttomatonError, match=message):
        at.fit_choices(tmp_path / "season.csv", **named)
    plain = at.fit_choices(rankings=[["ann", "bob"], ["bob", "ann"]])
    options = "season.csv --situation race --alternative driver --ranks rank --skip-bad"
    same_board(options, tmp_path, plain)
