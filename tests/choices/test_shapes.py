"""Tables that are rewritten before they are read: each gives the fit of the same choices, plainly encoded."""

from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.choices.test_tables_people_have import same
from tests.cli.inside import run_inside

import attomaton as at
from attomaton.base import AttomatonError

GAMES = """[Event "?"]
[White "Ann"]
[Black "Bob"]
[Result "1-0"]

1. e4 {[%clk 0:01:00]} e5 2. Qh5 1-0

[White "Bob"]
[Black "Ann"]
[Result "1/2-1/2"]
[Event "x \\"y\\""]

1/2-1/2
[White "Ann"]
[Black "Bob"]
[Result "*"]

*

[White "Bob"]
[Black "Cid"]
[Result "0-1"]

0-1
[White "Cid"]
[Black "Ann"]
[Result "0-1"]
"""


def test_games_of_chess(tmp_path):
    (tmp_path / "games.pgn").write_text(GAMES)
    plain = {
        "first": ["Ann", "Bob", "Bob", "Cid"],
        "second": ["Bob", "Ann", "Cid", "Ann"],
        "outcome": [1, 0.5, 0, 0],
    }
    fit = at.fit_choices(tmp_path / "games.pgn")
    same(fit, at.fit_choices(plain))
    moved = at.fit_choices(tmp_path / "games.pgn", moved_first="White")
    same(moved, at.fit_choices(plain, moved_first=plain["first"]))
    frame = pd.DataFrame(
        {"White": plain["first"], "Black": plain["second"], "Result": ["1-0", "1/2-1/2", "0-1", "0-1"]}
    )
    same(at.fit_choices(frame), fit)
    (tmp_path / "bad.pgn").write_text(GAMES.replace('"0-1"', '"zebra"', 1))
    with pytest.raises(AttomatonError, match=r"the game that begins in line 20 .* is 'zebra'"):
        at.fit_choices(tmp_path / "bad.pgn")
    assert "Ann" in run_inside("choices", "games.pgn", "--moved-first", "White", cwd=tmp_path).stdout
    for encoding in ("utf-8", "iso-8859-1"):  # the standard of PGN says the second
        named = GAMES.replace('"Ann"', '"Müller"').replace('"Bob"', '"Möller"')
        (tmp_path / "games.pgn").write_text(named, encoding=encoding)
        assert set(at.fit_choices(tmp_path / "games.pgn").items) == {"Müller", "Möller", "Cid"}


def test_decimal_commas_are_draws():
    points = {"first": list("abca"), "second": list("bcab"), "outcome": ["1", "0,5", "0", "0,5"]}
    same(at.fit_choices(points), at.fit_choices({**points, "outcome": [1, 0.5, 0, 0.5]}))


def test_categories_are_sorted_as_numbers():
    games = {
        "winner": list("abababab"),
        "loser": list("babababa"),
        "round": ["8", "8", "5", "5", "13", "13", "20", "20"],
    }
    assert list(at.fit_choices(games, by="round").by) == ["5", "8", "13", "20"]
    games["round"] = ["b", "b", "a", "a", "5", "5", "c", "c"]
    assert list(at.fit_choices(games, by="round").by) == ["5", "a", "b", "c"]


def test_a_test_that_does_not_apply_leaves_the_board(tmp_path):
    (tmp_path / "games.csv").write_text("winner,loser,worker\n" + "a,b,1\nb,a,2\na,c,3\nc,a,1\nb,c,2\n" * 3)
    options = ["--cluster", "worker", "--tests", "goodness_of_fit,cross_validate", "--out", "fit"]
    ran = run_inside("choices", "games.csv", *options, cwd=tmp_path)
    assert "rank" in ran.stdout
    assert "cross_validate" in ran.stdout
    assert (tmp_path / "fit").is_dir()
    assert ran.returncode == 2
    assert "goodness_of_fit: choices of one cluster are not independent; fit without --cluster" in ran.stderr


def test_an_empty_worst_item_is_named():
    table = {"best": list("abc"), "worst": ["b", "", "a"], "set": [list("abc")] * 3}
    with pytest.raises(AttomatonError, match=r"the worst item in .* is missing"):
        at.fit_choices(table, best="best", worst="worst", choice_set="set")


def test_matrices_of_wins():
    won, lost = ["a", "b", "a", "c", "b", "a"], ["b", "a", "c", "a", "c", "d"]
    plain = at.fit_choices(won, losers=lost)
    cross = pd.crosstab(pd.Series(won, name="won"), pd.Series(lost, name="lost"))
    same(at.fit_choices(cross), plain)
    square = cross.reindex(index=list("abcd"), columns=list("abcd"), fill_value=0)
    same(at.fit_choices(square), plain)
    numbered = at.fit_choices(square.to_numpy())
    assert numbered.items == (0, 1, 2, 3)
    assert numbered.log_likelihood == pytest.approx(plain.log_likelihood)
    same(at.fit_choices(pd.DataFrame(square.to_numpy())), numbered)
    same(at.fit_choices(np.array([[0, 1], [1, 0]])), at.fit_choices([(0, 1), (1, 0)]))  # two pairs


SCORES = pd.DataFrame(
    {"judge": list("xyz"), "a": [9, 7, 5], "b": [8, 7, np.nan], "c": [2, 9, 1], "kind": list("uvu")}
)


def plain_scores():
    rows = []
    for _, row in SCORES.iterrows():
        present = [name for name in "abc" if not np.isnan(row[name])]
        for one, two in combinations(present, 2):
            rows.append((one, two, (1 + np.sign(row[one] - row[two])) / 2, row["judge"], row["kind"]))
    return pd.DataFrame(rows, columns=["first", "second", "outcome", "judge", "kind"])


def test_scores_of_judges(tmp_path):
    pairs = plain_scores()
    plain = at.fit_choices(pairs, cluster="judge")
    same(at.fit_choices(SCORES, scores=["a", "b", "c"]), plain)
    same(
        at.fit_choices(SCORES, scores=["a", "b", "c"], cluster="kind"), at.fit_choices(pairs, cluster="kind")
    )
    by = at.fit_choices(SCORES, scores=["a", "b", "c"], by="kind").by
    same(by["v"], at.fit_choices(pairs, cluster="judge", by="kind").by["v"])
    long = SCORES.melt(["judge", "kind"], ["a", "b", "c"], "item", "score").sort_values("judge")
    named = {"situation": "judge", "alternative": "item", "scores": "score"}
    same(at.fit_choices(long, **named), plain)
    long["length"] = [3.0, 1.0, 2.0] * 3
    fit = at.fit_choices(long, **named, features=["length"])
    length = {"a": 3.0, "b": 1.0, "c": 2.0}
    difference = pairs["first"].map(length) - pairs["second"].map(length)
    same(fit, at.fit_choices(pairs, cluster="judge", features={"length": difference}))
    SCORES.to_csv(tmp_path / "scores.csv", index=False)
    assert run_inside("choices", "scores.csv", "--scores", "a,b,c", cwd=tmp_path).returncode == 0
    with pytest.raises(AttomatonError, match="the score in row 1 is not a number"):
        at.fit_choices({"a": [1, "good"], "b": [2, 1]}, scores=["a", "b"])
    with pytest.raises(AttomatonError, match="no judge scored two items"):
        at.fit_choices({"a": [1, None], "b": [None, 1]}, scores=["a", "b"])


def test_wide_surveys(tmp_path):
    rng = np.random.default_rng(3)
    modes, size = ["train", "bus", "car"], 60
    wide = pd.DataFrame({f"{mode}_time": rng.uniform(1, 5, size) for mode in modes})
    wide["car_av"] = rng.integers(0, 2, size)
    wide["one"] = 1
    wide["who"] = rng.integers(0, 9, size)
    wide["choice"] = [int(rng.integers(1, 4 if has else 3)) for has in wide["car_av"]]
    rows = [
        (k, mode, row[f"{mode}_time"], int(row["choice"] == number), row["who"])
        for k, row in wide.iterrows()
        for number, mode in enumerate(modes, 1)
        if mode != "car" or row["car_av"]
    ]
    long = pd.DataFrame(rows, columns=["situation", "alternative", "time", "chosen", "who"])
    plain = at.fit_choices(long, features=["time"], cluster="who")
    times = {"time": [f"{mode}_time" for mode in modes]}
    options = {
        "alternative": modes,
        "chosen": "choice",
        "available": ["one", "one", "car_av"],
        "cluster": "who",
    }
    fit = at.fit_choices(wide, **options, features=times)
    same(fit, plain)
    assert fit.coefficients["time"].value == pytest.approx(plain.coefficients["time"].value, abs=1e-9)
    words = wide.assign(choice=[modes[k - 1] for k in wide["choice"]])
    same(at.fit_choices(words, **options, features=times), plain)
    wide.to_csv(tmp_path / "wide.csv", index=False)
    line = "wide.csv --alternative train,bus,car --chosen choice --available one,one,car_av --cluster who"
    run = run_inside(
        "choices", *line.split(), "--features", "time=train_time:bus_time:car_time", cwd=tmp_path
    )
    assert "time" in run.stdout
    assert run.returncode == 0
    with pytest.raises(AttomatonError, match=r"chosen is 7 in row 0; write 'train', …, 'car', or 1 to 3"):
        at.fit_choices(wide.assign(choice=7), **options)
    with pytest.raises(AttomatonError, match=r"chosen alternative in .* was not available"):
        at.fit_choices(wide.assign(choice=3), **options)
    with pytest.raises(AttomatonError, match="must name one column per alternative"):
        at.fit_choices(wide, **options, features=["who"])
    with pytest.raises(AttomatonError, match="2 columns for 3 alternatives"):
        at.fit_choices(wide, **options, features={"time": ["train_time", "bus_time"]})


def arena(size=400):
    rng = np.random.default_rng(8)
    models = np.array(["m1", "m2", "m3", "m4"])
    first = rng.choice(4, size, p=[0.6, 0.2, 0.1, 0.1])
    second = (first + rng.integers(1, 4, size)) % 4
    metadata = [
        {
            "sum_assistant_a_tokens": int(rng.integers(0, 900)),
            "sum_assistant_b_tokens": int(rng.integers(0, 900)),
            **{
                f"header_count_{side}": {"h1": int(rng.integers(0, 2)), "h2": int(rng.integers(0, 3))}
                for side in "ab"
            },
            **{f"list_count_{side}": {"ordered": int(rng.integers(0, 4)), "unordered": 0} for side in "ab"},
            **{f"bold_count_{side}": {"**": int(rng.integers(0, 2)), "__": 0} for side in "ab"},
        }
        for _ in range(size)
    ]
    return {
        "model_a": models[first].tolist(),
        "model_b": models[second].tolist(),
        "winner": rng.choice(["model_a", "model_b", "tie", "both_bad"], size).tolist(),
        "conv_metadata": metadata,
    }


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pa.table])
def test_the_style_control_of_arenas(make):
    battles = arena()
    fit = at.fit_choices(make(battles), style="arena")
    plain = dict[str, np.ndarray]()
    for name in ("sum_assistant_tokens", "header_count", "list_count", "bold_count"):
        sides = []
        for side in "ab":
            key = f"sum_assistant_{side}_tokens" if name.startswith("sum") else f"{name}_{side}"
            cells = [row[key] for row in battles["conv_metadata"]]
            sides.append(
                np.array([sum(cell.values()) if isinstance(cell, dict) else cell for cell in cells], float)
            )
        total = sides[0] + sides[1]
        share = (sides[0] - sides[1]) / np.where(total == 0, 1, total)
        plain[name] = (share - share.mean()) / share.std()
    columns = {name: battles[name] for name in ("model_a", "model_b", "winner")}
    expected = at.fit_choices(columns, features={name: list(values) for name, values in plain.items()})
    same(fit, expected)
    for name in plain:
        assert fit.coefficients[f"{name} (relative)"].value == pytest.approx(
            expected.coefficients[name].value
        )
    alone = at.fit_choices(make(battles), style=["conv_metadata.header_count"])
    assert set(alone.coefficients) == {"header_count (relative)", "tie"}
    with pytest.raises(AttomatonError, match="style= needs pairs"):
        at.fit_choices({"situation": [1, 1], "alternative": ["a", "b"], "chosen": [1, 0]}, style=["x"])


def test_pairs_that_met_often_can_count_less():
    battles = {name: values for name, values in arena().items() if name != "conv_metadata"}
    pair = [frozenset(ends) for ends in zip(battles["model_a"], battles["model_b"], strict=True)]
    weights = [min(1.0, 50 / pair.count(ends)) for ends in pair]
    assert min(weights) < 0.5
    fit = at.fit_choices(battles, most_per_pair=50)
    same(fit, at.fit_choices(battles, counts=weights))
    same(at.fit_choices(battles, most_per_pair=10_000), at.fit_choices(battles))
    doubled = at.fit_choices({**battles, "count": [2] * 400}, most_per_pair=100)
    same_scores = {item: pytest.approx(score, abs=1e-9) for item, score in fit.scores.items()}
    assert doubled.scores == same_scores
    with pytest.raises(AttomatonError, match="most_per_pair= needs pairs"):
        at.fit_choices(rankings=[["a", "b"], ["b", "a"]], most_per_pair=5)
