"""How often all rank intervals of a board hold the true ranks: ``--runs N``, 600 by default; and its seconds.

Six worlds: 8 items and 800 games; the same with three sets of equal items; all 8 equal, where the confidence
is used up; 8 items and 60 games, where most runs have items that never win or never lose; 20 items and 300
games; Plackett–Luce rankings of 4 out of 8. An interval holds where it contains every rank that equal items
may have. Bars: all intervals of all boards jointly in 95 % of the runs (where all are equal, less two
standard errors of this count); 150 models with one undefeated and one winless in under 2 CPU s.
"""

import sys
import time

import numpy as np

import attomaton as at
from timing import report


def draw_pairs(rng, truth, n_games):
    """Winners and losers of random pairs."""
    first = rng.integers(0, len(truth), n_games)
    second = (first + rng.integers(1, len(truth), n_games)) % len(truth)
    won = rng.random(n_games) < 1 / (1 + np.exp(truth[second] - truth[first]))
    return np.where(won, first, second), np.where(won, second, first)


def draw_rankings(rng, truth, n_rankings):
    """The order of four random items, each best first."""
    shown = np.array([rng.permutation(len(truth))[:4] for _ in range(n_rankings)])
    utility = truth[shown] + rng.gumbel(size=shown.shape)
    return np.take_along_axis(shown, np.argsort(-utility, axis=1), axis=1).tolist()


def holds(board, truth):
    """Which items' intervals contain all their true ranks, and the widths of the intervals."""
    rows = board.table().to_pylist()
    inside, widths = [], []
    for row in rows:
        rivals = truth[[one["item"] for one in rows if one["board"] == row["board"]]]
        best = 1 + int((rivals > truth[row["item"]]).sum())
        worst = len(rivals) - int((rivals < truth[row["item"]]).sum())
        inside.append(row["rank_low"] <= best and worst <= row["rank_high"])
        widths.append(row["rank_high"] - row["rank_low"])
    return inside, widths


def cover(rng, truth, runs, n_games, *, rankings=False):
    """Shares of runs in which all intervals hold, and of intervals that do; mean width; infinite ratings."""
    joint, single, wide, infinite = [], [], [], []
    for _ in range(runs):
        if rankings:
            fit = at.fit_choices(rankings=draw_rankings(rng, truth, n_games))
        else:
            winners, losers = draw_pairs(rng, truth, n_games)
            fit = at.fit_choices(winners, losers=losers)
        board = fit.board()
        inside, widths = holds(board, truth)
        joint.append(all(inside))
        single += inside
        wide += widths
        infinite.append(not np.isfinite(board["rating"]).all())
    return {
        "all hold": round(float(np.mean(joint)), 4),
        "each holds": round(float(np.mean(single)), 4),
        "mean width": round(float(np.mean(wide)), 2),
        "runs with infinite ratings": int(np.sum(infinite)),
    }


def time_board(n_models=150, n_games=50_000):
    """CPU seconds of the board of an arena with an undefeated and a winless model, and of printing it."""
    rng = np.random.default_rng(1)
    winners, losers = draw_pairs(rng, 0.8 * rng.normal(size=n_models - 2), n_games)
    some = rng.choice(n_models - 2, 40)
    winners = np.concatenate([winners, np.full(40, n_models - 1), some])
    losers = np.concatenate([losers, some, np.full(40, n_models - 2)])
    fit = at.fit_choices(winners, losers=losers)
    start = time.process_time()
    board = fit.board(scale="elo")
    str(board)
    return round(time.process_time() - start, 3)


if __name__ == "__main__":
    runs = int(sys.argv[sys.argv.index("--runs") + 1]) if "--runs" in sys.argv else 600
    rng = np.random.default_rng(0)
    eight = np.linspace(1, -1, 8)
    figures = {
        "runs": runs,
        "8 items, 800 games": cover(rng, eight, runs, 800),
        "equal items": cover(rng, np.repeat([0.5, 0.0, -0.5], [3, 2, 3]), runs, 800),
        "all equal": cover(rng, np.zeros(8), runs, 800),
        "8 items, 60 games": cover(rng, 3 * eight, runs, 60),
        "20 items, 300 games": cover(rng, np.linspace(1.5, -1.5, 20), runs, 300),
        "rankings": cover(rng, eight, runs, 100, rankings=True),
    }
    slack = {"all equal": 2 * (0.95 * 0.05 / runs) ** 0.5}
    bars = {
        name: world["all hold"] >= 0.95 - slack.get(name, 0)
        for name, world in figures.items()
        if name != "runs"
    }
    figures["board of 150 models, CPU s"] = time_board()
    bars["150 models in 2 CPU s"] = figures["board of 150 models, CPU s"] < 2
    report(figures, bars)
