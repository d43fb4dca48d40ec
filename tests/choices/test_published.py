"""Our figures are the published ones to their digits: LLMFAO, baseball, NASCAR, hockey, endometrial."""

import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import attomaton as at

DATA = Path(__file__).parents[2] / "docs" / "data"


@pytest.fixture
def published(request):
    """A table that `benchmarks/fetch_published.py` fetches; the R packages that hold it are under the GPL."""
    path = Path(os.environ.get("ATTOMATON_PUBLISHED", "nowhere")) / f"{request.param}.csv"
    if not path.exists():
        pytest.skip(f"ATTOMATON_PUBLISHED names no folder with {path.name}")
    return pd.read_csv(path)


LLMFAO = {
    "GPT 4": 0.041215,
    "Platypus-2 Instruct (70B)": 0.029233,
    "command": 0.028852,
    "ReMM SLERP L2 13B": 0.027150,
    "LLaMA-2-Chat (70B)": 0.026384,
    "Claude v1": 0.026259,
    "GPT 3.5 Turbo": 0.025871,
    "Jurassic 2 Mid": 0.025849,
    "Jurassic 2 Ultra": 0.025310,
    "command-nightly": 0.025225,
    "Mythalion 13B": 0.024030,
    "GPT 3.5 Turbo (16k)": 0.023981,
    "Falcon Instruct (40B)": 0.023752,
    "GPT-NeoXT-Chat-Base (20B)": 0.023268,
    "Chronos Hermes (13B)": 0.023229,
    "Claude v2": 0.022926,
    "Claude Instant v1": 0.022809,
    "MPT-Chat (7B)": 0.022213,
    "LLaMA-2-Chat (7B)": 0.021364,
    "LLaMA 2 SFT v10 (70B)": 0.020693,
}
"""Scores of the human leaderboard of LLMFAO (leaderboard.ipynb), from evalica with ties as half wins."""


def test_the_leaderboard_of_llmfao():
    votes = files("attomaton.choices") / "llmfao.csv.gz"
    fit = at.fit_choices(votes, first="left", second="right", outcome="winner", ties="half").expect()
    total = sum(np.exp(list(fit.scores.values())))
    scores = {name: np.exp(fit.scores[name]) / total for name in LLMFAO}
    assert len(fit.items) == 59
    assert (
        round(scores.pop("GPT 4"), 6) == 0.041218
    )  # published as 0.041215, where evalica's iteration stopped
    assert all(abs(score - LLMFAO[name]) < 1.5e-6 for name, score in scores.items())
    assert sorted(LLMFAO, key=LLMFAO.get, reverse=True) == [
        row["item"] for row in fit.board().table().to_pylist()[:20]
    ]


@pytest.mark.parametrize("published", ["baseball"], indirect=True)
def test_baseball_of_agresti(published):
    won = [
        published.assign(won=won, count=published[f"{side}.wins"]) for won, side in ((1, "home"), (0, "away"))
    ]
    names = {"first": "home.team", "second": "away.team", "outcome": "won"}
    plain = at.fit_choices(pd.concat(won), **names)
    gaps = {team: plain.difference(team, "Baltimore") for team in plain.items if team != "Baltimore"}
    assert sorted(round(gap.value, 2) for gap in gaps.values()) == [0.68, 1.11, 1.25, 1.29, 1.44, 1.58]
    assert {round(gap.standard_error, 1) for gap in gaps.values()} == {0.3}
    home = at.fit_choices(pd.concat(won), moved_first="home.team", **names)
    shares = np.exp(list(home.scores.values()))
    assert sorted((shares / shares.sum()).round(3)) == [0.044, 0.088, 0.137, 0.157, 0.164, 0.190, 0.220]
    assert round(home.coefficients["moved_first"].value, 3) == 0.302


@pytest.mark.parametrize("published", ["nascar"], indirect=True)
def test_nascar_of_hunter(published):
    fit = at.fit_choices(published, ranking=list(published))
    assert [len(component) for component in fit.components] == [83, 1, 1, 1, 1]  # who never beat anybody
    places = published.to_numpy()
    average = {driver: 1 + np.nonzero(places == driver)[1].mean() for driver in range(1, 84)}
    order = sorted(average, key=average.get)
    table = [round(fit.difference(driver, 1).value, 2) for driver in order if driver != 1]
    assert table[:3] == [4.15, 3.62, 2.08]  # P. J. Jones, Scott Pruett, Mark Martin
    assert {0.03, -0.31, -0.15} <= set(table[-4:])


@pytest.mark.parametrize("published", ["icehockey"], indirect=True)
def test_college_hockey_is_rated_as_krach_defines_it(published):
    """No digits are published with the data; KRACH is defined by expected points being the points won."""
    fit = at.fit_choices(published, first="visitor", second="opponent", outcome="result", ties="half")
    ratings = {team: np.exp(score) for team, score in fit.scores.items()}
    points = dict.fromkeys(ratings, 0.0)
    for visitor, opponent, result in published[["visitor", "opponent", "result"]].itertuples(index=False):
        chance = ratings[visitor] / (ratings[visitor] + ratings[opponent])
        points[visitor] += result - chance
        points[opponent] -= result - chance
    assert max(map(abs, points.values())) < 1e-9
    assert sorted(ratings, key=ratings.get)[::-1][:4] == ["Denver", "Miami", "Wisconsin", "North Dakota"]
    home = at.fit_choices(
        published.assign(home=published["opponent"].where(published["home.ice"], "")),
        first="visitor",
        second="opponent",
        outcome="result",
        ties="half",
        moved_first="home",
    )
    assert home.coefficients["moved_first"].value > 3 * home.coefficients["moved_first"].standard_error


ENDOMETRIAL = {
    "intercept": (3.77455951, 1.48869),
    "NV": (2.92927330, 1.55076),
    "PI": (-0.03475175, 0.03958),
    "EH": (-2.60416387, 0.77602),
}
"""Firth's estimates and errors as brglm2 publishes them for the 79 patients of Heinze and Schemper (2002)."""


def test_the_endometrial_patients():
    patients = pd.read_csv(DATA / "endometrial.csv")
    answer = at.check_separation(patients[["NV", "PI", "EH"]], patients["HG"])
    assert answer.kinds["NV"] == "+inf"
    for one in answer.firth().contrasts:
        value, error = ENDOMETRIAL[one.label]
        assert one.value == pytest.approx(value, abs=1e-5)
        assert one.standard_error == pytest.approx(error, abs=1e-5)
