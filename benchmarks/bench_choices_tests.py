"""Coverage and level of the intervals and tests of a fit by simulation: ``--runs N``, 2,000 by default.

Bradley and Terry's model; the scores of 6 items are equally far apart, from 0.5 to −0.5 (*close*) or from 2
to −2 (*far*). *Many*: 30 games of each pair; *few*: 4 of each pair. Nominal are 95 % for intervals and 5 %
for tests; a bootstrap draws 39 times. Bars: within 1.5 points, but for rows without a nominal value, which
show what an approximation costs with few games: Wald's intervals, and the chi-square distribution of goodness
of fit. Where the maximum is infinite Firth's bias is finite; over all tables its median bias is smaller.
"""

import sys
from time import process_time

import numpy as np

import attomaton as at
from timing import report

ITEMS, N_DRAWS, QUANTILE = "abcdef", 39, 1.959963984540054**2
MANY, FEW, CLOSE, FAR, TIE = 30, 4, 0.5, 2.0, -0.5


def draw_games(rng, n_games, reach, tie=-np.inf, position=0.0):
    """n_games of each pair, half of them with each side first; scores from ``reach`` to ``-reach``."""
    truth = np.linspace(reach, -reach, len(ITEMS))
    first, second = np.nonzero(~np.eye(len(ITEMS), dtype=bool))
    gap = truth[first] - truth[second] + position
    odds = np.exp(np.stack([gap, gap / 2 + tie, 0 * gap], axis=1))
    counts = rng.multinomial(n_games // 2, odds / odds.sum(axis=1, keepdims=True))
    pair, outcome = np.nonzero(counts)
    names = np.array(list(ITEMS))
    return {
        "first": names[first[pair]].tolist(),
        "second": names[second[pair]].tolist(),
        "outcome": (1.0 - outcome / 2).tolist(),
        "count": counts[pair, outcome].tolist(),
    }


def cover_differences(rng, runs, n_games, reach, penalty=None):
    """How often the intervals of a less b and of a less f hold the truth."""
    inside = []
    for _ in range(runs):
        fit = at.fit_choices(draw_games(rng, n_games, reach), penalty=penalty)
        for other in "bf":
            truth, gap = 2 * reach * ITEMS.index(other) / (len(ITEMS) - 1), fit.difference("a", other)
            if penalty is None:
                low, high = gap.interval()
                inside.append(low <= truth <= high)
            else:  # where the profile falls by less than the quantile, without a search for the ends
                profile = gap.limits.profile
                inside.append(profile.drop((truth - gap.value) / profile.error) <= QUANTILE)
    return float(np.mean(inside))


def reject_position(rng, runs, n_games, tie):
    """Likelihood-ratio test of a position that is worth nothing."""
    found = []
    for _ in range(runs):
        games = draw_games(rng, n_games, CLOSE, tie)
        larger, smaller = at.fit_choices(games, moved_first="first"), at.fit_choices(games)
        found.append(larger.likelihood_ratio(smaller).p_value <= 0.05)
    return float(np.mean(found))


def reject_fit(rng, runs, method, n_games, reach, tie=-np.inf, position=None):
    """Goodness of fit of a model that is right."""
    found = []
    for seed in range(runs):
        games = draw_games(rng, n_games, reach, tie, position or 0.0)
        fit = at.fit_choices(games, **({} if position is None else {"moved_first": "first"}))
        test = fit.goodness_of_fit(n_draws=N_DRAWS, seed=seed, method=method)
        found.append(test.p_value <= 0.05)
    return float(np.mean(found))


def reject_transitivity(rng, runs, n_games, reach):
    """More cycles than the model leads one to expect, where there is no reason for any."""
    found = []
    for seed in range(runs):
        fit = at.fit_choices(draw_games(rng, n_games, reach))
        found.append(fit.intransitivity(n_draws=N_DRAWS, seed=seed).p_value <= 0.05)
    return float(np.mean(found))


def compare_bias(rng, runs):
    """The bias of a less f on few games: of Firth's estimate, and of the maximum, which may be infinite."""
    firth, maximum = [], []
    for _ in range(runs):
        gap = at.fit_choices(draw_games(rng, FEW, FAR), penalty="firth").difference("a", "f")
        firth.append(gap.value - 2 * FAR)
        maximum.append(gap.maximum - 2 * FAR)
    firth, maximum = np.array(firth), np.array(maximum)
    infinite = np.isinf(maximum)
    return {
        "share separated": float(infinite.mean()),
        "firth": float(firth.mean()),
        "firth, separated": float(firth[infinite].mean()),
        "firth, median": float(np.median(firth)),
        "maximum, median": float(np.median(maximum)),
        "firth, where the maximum is finite": float(firth[~infinite].mean()),
        "maximum, where finite": float(maximum[~infinite].mean()),
    }


SIMULATIONS = {
    "interval, many": (0.95, cover_differences, MANY, CLOSE),
    "interval, few, close": (None, cover_differences, FEW, CLOSE),
    "interval, few, far": (None, cover_differences, FEW, FAR),
    "profile interval, many": (0.95, cover_differences, MANY, CLOSE, "firth"),
    "profile interval, few, close": (0.95, cover_differences, FEW, CLOSE, "firth"),
    "profile interval, few, far": (0.95, cover_differences, FEW, FAR, "firth"),
    "likelihood ratio, many": (0.05, reject_position, MANY, -np.inf),
    "likelihood ratio, few": (0.05, reject_position, FEW, -np.inf),
    "likelihood ratio, ties": (0.05, reject_position, MANY, TIE),
    "chi-square, many": (0.05, reject_fit, None, MANY, CLOSE),
    "chi-square, few": (None, reject_fit, "chi-square", FEW, CLOSE),
    "bootstrap, many": (0.05, reject_fit, "bootstrap", MANY, CLOSE),
    "bootstrap, few, close": (0.05, reject_fit, None, FEW, CLOSE),
    "bootstrap, few, far": (0.05, reject_fit, None, FEW, FAR),
    "bootstrap, ties": (0.05, reject_fit, None, FEW, CLOSE, TIE),
    "bootstrap, position": (0.05, reject_fit, None, MANY, CLOSE, -np.inf, 0.3),
    "cycles, many": (0.05, reject_transitivity, MANY, CLOSE),
    "cycles, few": (0.05, reject_transitivity, FEW, CLOSE),
}


if __name__ == "__main__":
    runs = int(sys.argv[sys.argv.index("--runs") + 1]) if "--runs" in sys.argv else 2_000
    start, figures, bars = process_time(), {"runs": runs}, {}
    for number, (name, (nominal, simulate, *settings)) in enumerate(SIMULATIONS.items()):
        figures[name] = simulate(np.random.default_rng(number), runs, *settings)
        if nominal is not None:
            bars[name] = abs(figures[name] - nominal) <= 0.015
    figures["bias"] = bias = compare_bias(np.random.default_rng(99), runs)
    bars["bias"] = abs(bias["firth, separated"]) < np.inf and abs(bias["firth, median"]) < abs(
        bias["maximum, median"]
    )
    report(figures | {"cpu_seconds": round(process_time() - start, 1)}, bars)
