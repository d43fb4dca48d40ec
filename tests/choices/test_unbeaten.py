"""What has no score has none anywhere: NaN in Python, null in JSON, a dash in print; and ranks by group."""

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
    assert fit.difference("x", "a")[2:] == (np.inf, None)
    assert at.fit_choices(WON, losers=LOST, prior=1.0).scores["x"] > 0.5


def test_no_door_out_says_nan(tmp_path):
    fit = at.fit_choices(WON, losers=LOST)
    record = json.dumps(fit.to_dict(), allow_nan=False)
    assert (
        json.loads(record)["standings"][0] | {"score": None, "standard_error": None}
        == fit.to_dict()["standings"][0]
    )
    for text in (str(fit), fit._repr_html_(), str(fit.standings), fit.standings._repr_html_()):
        assert "nan" not in text.lower().replace("dominan", "")
    assert fit.to_pandas()["score"].isna().tolist() == [True, False, False]
    loaded = at.ChoiceFit.load(fit.save(tmp_path / "fit"))
    assert str(loaded) == str(fit)
    assert np.isnan(loaded.scores["x"])
    (tmp_path / "games.csv").write_text(
        "winner,loser\n" + "\n".join(map(",".join, zip(WON, LOST, strict=True)))
    )
    shown = run_inside("choices", "games.csv", "--json", cwd=tmp_path).stdout
    assert json.loads(shown, parse_constant=pytest.fail)["standings"][0]["score"] is None


def test_an_item_without_a_score_is_drawn_without_one():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    axes = at.fit_choices([*WON, "p"], losers=[*LOST, "q"]).plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x  1", "a  2", "b  2", "p  1", "q  2"]
    assert [text.get_text() for text in axes.texts] == [
        "above: infinitely far ahead",
        "not compared",
        "above: infinitely far ahead",
    ]
    matplotlib.pyplot.close("all")


def test_one_unconnected_pair_takes_no_rank_away():
    fit = at.fit_choices([*WON, "p"], losers=[*LOST, "q"])
    table = fit.standings
    assert table["item"] == ["x", "a", "b", "p", "q"]
    assert (table["group"], table["rank"]) == ([1, 1, 1, 2, 2], [1, 2, 2, 1, 2])
    assert [row["group"] for row in fit.to_dict()["standings"]] == [1, 1, 1, 2, 2]
    assert "no choice compares items of different groups, so each group is ranked separately" in str(fit)
    assert None not in at.fit_choices([*WON, "p"], losers=[*LOST, "q"], prior=1.0).standings["rank"]
    beside = at.fit_choices(["a", "b", "p"], losers=["c", "c", "q"])
    assert dict(zip(beside.standings["item"], beside.standings["rank"], strict=True)) == {
        "a": None,
        "b": None,
        "c": 3,
        "p": 1,
        "q": 2,
    }
    assert "with all others of their group" in str(beside)
