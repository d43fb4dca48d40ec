"""What has no score has none anywhere: NaN in scores, a bound on the board; and ranks by board."""

import json

import numpy as np
import pytest
from tests.cli.inside import run_inside

import attomaton as at

WON, LOST = ["x", "x", "a", "b"], ["a", "b", "b", "a"]


def test_somebody_unbeaten_has_no_score_and_no_error():
    """It was 0.0 ± 0.0: mid-table with perfect certainty."""
    fit = at.fit_choices(WON, losers=LOST)
    assert np.isnan([fit.scores["x"], fit.standard_errors["x"]]).all()
    assert np.isnan(fit.covariance()[:, 0]).all()
    assert fit.scores["a"] == pytest.approx(0.0, abs=1e-9)
    assert fit.covariance(["a", "b"]).round(3).tolist() == [[0.5, -0.5], [-0.5, 0.5]]
    assert fit.probability("x", "a") == 1.0
    assert fit.difference("x", "a")[2:4] == (np.inf, None)
    assert at.fit_choices(WON, losers=LOST, prior=1.0).scores["x"] > 0.5


def test_no_door_out_says_nan(tmp_path):
    fit = at.fit_choices(WON, losers=LOST)
    record = json.loads(json.dumps(fit.to_dict(), allow_nan=False))["standings"][0]
    assert (record["rating"], record["high"], record["standard_error"]) == ("infinite", "infinite", None)
    for text in (str(fit), fit._repr_html_(), str(fit.board()), fit.board()._repr_html_()):
        assert "nan" not in text.lower().replace("dominan", "")
    assert np.isinf(fit.to_pandas()["rating"]).tolist() == [True, False, False]
    loaded = at.ChoiceFit.load(fit.save(tmp_path / "fit"))
    assert str(loaded) == str(fit)
    assert np.isnan(loaded.scores["x"])
    (tmp_path / "games.csv").write_text(
        "winner,loser\n" + "\n".join(map(",".join, zip(WON, LOST, strict=True)))
    )
    shown = run_inside("choices", "games.csv", "--json", cwd=tmp_path).stdout
    assert json.loads(shown, parse_constant=pytest.fail)["standings"][0] == record


def test_an_item_without_a_score_is_drawn_without_one():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    axes = at.fit_choices([*WON, "p"], losers=[*LOST, "q"]).plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "a", "b", "p", "q"]
    matplotlib.pyplot.close("all")


def test_one_unconnected_pair_takes_no_rank_away():
    fit = at.fit_choices([*WON, "p"], losers=[*LOST, "q"])
    table = fit.table().to_pydict()
    assert table["item"] == ["x", "a", "b", "p", "q"]
    assert (table["board"], table["rank"]) == ([1, 1, 1, 2, 2], [1, 2, 2, 1, 2])
    assert [row["board"] for row in fit.to_dict()["standings"]] == [1, 1, 1, 2, 2]
    assert "items on different boards cannot be compared" in str(fit)
    assert at.fit_choices([*WON, "p"], losers=[*LOST, "q"], prior=1.0).board()["board"] == [1] * 5
    beside = at.fit_choices(["a", "b", "p"], losers=["c", "c", "q"])
    rows = {row["item"]: (row["board"], row["rank"]) for row in beside.table().to_pylist()}
    assert rows["c"] == (1, 3)
    assert {rows[item] for item in "ab"} == {(1, 1)}
    assert (rows["p"], rows["q"]) == ((2, 1), (2, 2))
