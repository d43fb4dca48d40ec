"""What a choice modeller tried first and what then failed, and the first hour whole."""

import numpy as np
import pandas as pd
import pytest

import attomaton as at
from tests.first_touch import choice_modeller

GAMES = pd.DataFrame(
    {
        "winner": ["team00", "team01", "team00", "team02", "team00"],
        "loser": ["team01", "team00", "team01", "team03", "team02"],
    }
)


@pytest.mark.slow  # an hour of a choice modeller
@pytest.mark.parametrize("step", choice_modeller.STEPS, ids=lambda step: step.__name__)
def test_the_first_hour_of_a_choice_modeller(step, tmp_path):
    step(tmp_path)


def test_two_columns_of_a_frame():
    """``fit_choices(df.winner, df.loser)`` failed."""
    assert at.fit_choices(GAMES.winner, GAMES.loser).components[0] == ("team00", "team01")


def test_frames():
    """Frames failed."""
    assert at.fit_choices(GAMES, winner="winner", loser="loser").components[0] == ("team00", "team01")


def test_probability_reads_no_characters():
    """``fit.probability("team00", "team01")`` read characters."""
    fit = at.fit_choices(GAMES.winner.tolist(), GAMES.to_numpy().tolist())
    assert fit.probability("team00", "team01") == pytest.approx(2 / 3)


def test_a_ranked_table():
    """There was none; and none is made up where there is no order."""
    assert at.fit_choices(GAMES).board()["rank"] == [1, 2, 3, 4]
    apart = at.fit_choices(GAMES[:4]).board()
    assert (apart["board"], apart["rank"]) == ([1, 1, 2, 2], [1, 2, 1, 2])
    assert apart["ahead"][0] > 0
    assert apart["ahead"][1:] == [None, float("inf"), None]


def test_a_plot():
    """There was none."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    axes = at.fit_choices(GAMES).plot()
    assert [label.get_text().split()[0] for label in axes.get_yticklabels()][:2] == ["team00", "team01"]
    assert axes.spines["top"].get_visible() is False
    _, given = plt.subplots()
    assert at.fit_choices(GAMES, prior=1.0).plot(given, limit=2) is given
    assert len(given.get_yticklabels()) == 2
    plt.close("all")


def test_covariance_likelihood_and_files(tmp_path):
    """There were none."""
    fit = at.fit_choices(GAMES)
    assert fit.covariance().shape == (4, 4)
    assert fit.log_likelihood == pytest.approx(2 * np.log(2 / 3) + np.log(1 / 3))
    loaded = at.ChoiceFit.load(fit.save(tmp_path / "fit"))
    assert loaded.scores == pytest.approx(fit.scores, abs=0, nan_ok=True)


def test_a_table_in_a_file(tmp_path):
    """There was no command for choices."""
    from tests.cli.inside import run_inside

    GAMES.to_csv(tmp_path / "games.csv", index=False)
    shown = run_inside("choices", "games.csv", cwd=tmp_path)
    assert shown.returncode == 0
    assert "team00" in shown.stdout
