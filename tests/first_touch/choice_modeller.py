"""The first hour of somebody who fits choice models: natural calls, one after the other.

``python choice_modeller.py FOLDER`` runs every step with nothing but attomaton, scipy and pandas, prints
what a person would see, and ends with 1 if a step raises what is no AttomatonError or answers otherwise than
an independent fit does. It writes into FOLDER and imports nothing of the tests, so that it runs from a wheel.
"""

import json
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize

import attomaton as at

NAMES = [f"team{number:02d}" for number in range(6)]


def season(n_games=400, seed=0):
    """Games between six teams; team05 never wins."""
    rng = np.random.default_rng(seed)
    strength = np.array([1.0, 0.6, 0.2, -0.3, -0.8, -50.0])
    rows = []
    while len(rows) < n_games:
        one, other = rng.choice(6, 2, replace=False)
        wins = rng.random() < 1 / (1 + np.exp(strength[other] - strength[one]))
        pair = (one, other) if wins else (other, one)
        rows.append((NAMES[pair[0]], NAMES[pair[1]]))
    return pd.DataFrame(rows, columns=["winner", "loser"])


def plain_fit(games, names):
    """Bradley–Terry by scipy, from the likelihood as books write it: scores with mean zero, and −ln L."""
    place = {name: number for number, name in enumerate(names)}
    kept = games[games.winner.isin(names) & games.loser.isin(names)]
    won, lost = kept.winner.map(place).to_numpy(), kept.loser.map(place).to_numpy()

    def loss(scores):
        return np.log1p(np.exp(scores[lost] - scores[won])).sum()

    best = minimize(loss, np.zeros(len(names)), method="BFGS", options={"gtol": 1e-8})
    return best.x - best.x.mean(), best.fun


def close(one, other, within=1e-4):
    """Numbers agree."""
    assert np.allclose(one, other, atol=within), (one, other)


def refused(call, *words):
    """An error of attomaton that says these words."""
    try:
        call()
    except at.AttomatonError as error:
        told = str(error)
        assert all(word in told for word in words), told
        print(f"  refused: {type(error).__name__}: {told}")
    else:
        raise AssertionError("this should have been refused")


def two_columns(folder):
    """``fit_choices(df.winner, df.loser)``."""
    games = season()
    for fit in (at.fit_choices(games.winner, games.loser), at.fit_choices(games.winner, losers=games.loser)):
        scores, loss = plain_fit(games, NAMES[:5])
        close([fit.scores[name] for name in NAMES[:5]], scores)
        close(fit.log_likelihood, -loss)
    print(fit)


def frame(folder):
    """A frame with the names of its columns, and with counts."""
    games = season().rename(columns={"winner": "home", "loser": "guest"})
    fit = at.fit_choices(games, winner="home", loser="guest")
    counted = games.value_counts().reset_index(name="n")
    again = at.fit_choices(counted, winner="home", loser="guest", count="n")
    close([fit.scores[name] for name in NAMES[:5]], [again.scores[name] for name in NAMES[:5]], 1e-9)
    assert np.isnan([fit.scores["team05"], again.scores["team05"]]).all()
    refused(lambda: at.fit_choices(games), "name them")
    refused(lambda: at.fit_choices(games, winner="home", loser="gast"), "'gast'", "'guest'")


def one_against_another(folder):
    """``fit.probability("team00", "team01")``, and the differences behind it."""
    games = season()
    fit = at.fit_choices(games)
    scores, _ = plain_fit(games, NAMES[:5])
    close(fit.probability("team00", "team01"), 1 / (1 + np.exp(scores[1] - scores[0])))
    assert fit.probability("team05", "team04") == 0.0
    gap = fit.difference("team00", "team01")
    close(gap.value, scores[0] - scores[1])
    assert fit.difference("team04", "team05").value == np.inf
    print(" ", gap, gap.interval())
    refused(lambda: fit.probability("team00", "team99"), "'team99'")


def standard_errors(folder):
    """Standard errors of differences against the inverse of a Hessian by differences, and the likelihood."""
    games = season()
    games = games[(games.winner != "team05") & (games.loser != "team05")]
    fit = at.fit_choices(games)
    scores, loss = plain_fit(games, NAMES[:5])
    hessian = np.zeros((5, 5))
    place = {name: number for number, name in enumerate(NAMES)}
    for winner, loser in games.itertuples(index=False):
        one, other = place[winner], place[loser]
        probability = 1 / (1 + np.exp(scores[other] - scores[one]))
        arrow = np.eye(5)[one] - np.eye(5)[other]
        hessian += probability * (1 - probability) * np.outer(arrow, arrow)
    spread = np.linalg.pinv(hessian)
    for one in range(5):
        for other in range(one):
            expected = spread[one, one] + spread[other, other] - 2 * spread[one, other]
            close(fit.difference(NAMES[one], NAMES[other]).standard_error, expected**0.5)
    order = [fit.items.index(name) for name in NAMES[:5]]
    close(fit.covariance()[np.ix_(order, order)], spread)
    close(fit.aic, 2 * 4 + 2 * loss)
    print(f"  log-likelihood {fit.log_likelihood:.2f}, AIC {fit.aic:.2f}")


def leaderboard(folder):
    """A ranked table in which the team that never won is last, and infinitely far."""
    fit = at.fit_choices(season())
    table = fit.to_pandas()
    assert table["rank"].tolist() == [1, 2, 3, 4, 5, 6]
    assert table["item"].iloc[-1] == "team05"
    assert np.isinf(table["ahead"].iloc[-2])
    assert table["rating"].iloc[-1] == -np.inf
    print(fit.board())


def two_leagues(folder):
    """Teams that never met have no rank between them: each league has its own."""
    games = pd.DataFrame({"winner": list("abxy"), "loser": list("bayx")})
    fit = at.fit_choices(games)
    assert fit.to_pandas()[["board", "rank"]].to_numpy().tolist() == [[1, 1], [1, 1], [2, 1], [2, 1]]
    refused(lambda: fit.probability("a", "x"), "neither is preferred")
    refused(lambda: fit.difference("a", "x"), "neither is preferred")
    print(f"  log-likelihood {fit.log_likelihood:.2f}, AIC {fit.aic:.2f}")
    print(fit)


def prior(folder):
    """One list of all teams by a prior, which is named."""
    games = season()
    fit = at.fit_choices(games, prior=1.0)
    place = {name: number for number, name in enumerate(NAMES)}
    won, lost = games.winner.map(place).to_numpy(), games.loser.map(place).to_numpy()

    def loss(scores):
        return np.log1p(np.exp(scores[lost] - scores[won])).sum() + 0.5 * scores @ scores

    best = minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-8}).x
    close([fit.scores[name] for name in NAMES], best)
    assert "joined by the prior" in str(fit)


def rankings(folder):
    """Rankings, whole and partial, against the likelihood of Plackett and Luce."""
    rng = np.random.default_rng(3)
    given = [rng.permutation(5)[: rng.integers(2, 6)].tolist() for _ in range(60)]
    fit = at.fit_choices(rankings=given)

    def loss(scores):
        return -sum(
            scores[one[place]] - np.log(np.exp(scores[one[place:]]).sum())
            for one in given
            for place in range(len(one) - 1)
        )

    best = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-8})
    close([fit.scores[item] for item in range(5)], best.x - best.x.mean())
    close(fit.log_likelihood, -best.fun)
    refused(lambda: at.fit_choices(rankings=["abc"]), "'abc'")


def ties(folder):
    """The table of an arena: ties as outcomes, or half a win each way, named."""
    arena = pd.DataFrame(
        {"model_a": list("xyxy"), "model_b": list("yxyx"), "winner": ["model_a", "tie", "x", "model_a"]}
    )
    close(at.fit_choices(arena).probability("x", "y"), 2 / 4)
    fit = at.fit_choices(arena, ties="half")
    close(fit.probability("x", "y"), 2.5 / 4)
    assert "half a win each way" in str(fit)
    print(fit)


def pictures_and_files(folder):
    """``fit.plot()``, ``save`` and ``load``."""
    fit = at.fit_choices(season())
    try:
        fit.plot().figure.savefig(folder / "ratings.png")
    except at.AttomatonError as error:  # matplotlib is an extra
        if "pip install" not in str(error):
            raise
    fit.save(folder / "ratings")
    again = at.ChoiceFit.load(folder / "ratings")
    assert np.array_equal(list(again.scores.values()), list(fit.scores.values()), equal_nan=True)
    assert str(again) == str(fit)


def command_line(folder):
    """``attomaton choices games.csv``, and with --json."""
    season().to_csv(folder / "games.csv", index=False)
    command = [sys.executable, "-m", "attomaton", "choices", "games.csv"]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    record = json.loads(
        subprocess.run([*command, "--json"], cwd=folder, capture_output=True, text=True, check=True).stdout
    )
    assert record["standings"][-1]["item"] == "team05"
    assert record["standings"][-2]["ahead"] == "infinite"
    print(shown)


def mistakes(folder):
    """What goes wrong in a first hour is said in a sentence."""
    games = season(20)
    refused(lambda: at.fit_choices("nowhere.csv"), "nowhere.csv", "No such file")
    refused(lambda: at.fit_choices("team00", losers="team01"), "give a list")
    refused(lambda: at.fit_choices(games.winner), "only winners")
    refused(lambda: at.fit_choices(games.winner, losers=games.loser[:-1]), "indexes")
    refused(
        lambda: at.fit_choices(games.winner.tolist(), losers=games.loser.tolist()[:-1]),
        "20 winners, 19 losers",
    )
    refused(lambda: at.fit_choices(games.assign(loser=games.winner)), "with itself")
    refused(lambda: at.fit_choices(games.assign(loser=None)), "loser in row 0 is missing")
    refused(lambda: at.fit_choices(games.assign(count=0)), "numbers above 0")
    refused(lambda: at.fit_choices(games.iloc[:0]), "no choices")


STEPS = (
    two_columns,
    frame,
    one_against_another,
    standard_errors,
    leaderboard,
    two_leagues,
    prior,
    rankings,
    ties,
    pictures_and_files,
    command_line,
    mistakes,
)


def main(folder):
    """Run all steps; the number of those that failed."""
    failed = 0
    for step in STEPS:
        print(f"== {step.__name__}: {step.__doc__.splitlines()[0]}")
        try:
            step(folder)
        except Exception:  # whatever it is, it is what this hour is about
            failed += 1
            traceback.print_exc()
    print(f"{len(STEPS) - failed} of {len(STEPS)} steps went well")
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(Path(sys.argv[1]))))
