"""2,000 items, 100,000 pairs: a frame of names against lists of choice sets, both to certified scores.

Bars: a frame takes at most 1.2 times as long as lists of pairs do, whichever library it is of; the scores are
the same to 1e-9.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np
import pyarrow as pa

from attomaton.choices import ChoiceFit, fit_choices
from timing import report, timed

N_ITEMS, N_PAIRS = 2_000, 100_000


def draw(rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Winners and losers, by name, of contestants whose log odds are normal."""
    strength = rng.normal(size=N_ITEMS)
    one = rng.integers(0, N_ITEMS, N_PAIRS)
    other = (one + rng.integers(1, N_ITEMS, N_PAIRS)) % N_ITEMS
    wins = rng.random(N_PAIRS) < 1 / (1 + np.exp(strength[other] - strength[one]))
    names = np.array([f"team{number:04d}" for number in range(N_ITEMS)])
    return names[np.where(wins, one, other)].tolist(), names[np.where(wins, other, one)].tolist()


def doors(won: list[str], lost: list[str]) -> dict[str, Callable[[], ChoiceFit]]:
    """The same pairs in each form."""
    sets = [list(pair) for pair in zip(won, lost, strict=True)]
    table = pa.table({"winner": won, "loser": lost})
    frames = {"arrow": table, "pandas": table.to_pandas()}
    if find_spec("polars") is not None:  # an extra
        import polars as pl

        frames["polars"] = pl.from_arrow(table)
    found = {"lists": lambda: fit_choices(won, sets), "losers": lambda: fit_choices(won, losers=lost)}
    for name, frame in frames.items():
        found[name] = partial(fit_choices, frame, winner="winner", loser="loser")
    return found


def measure(ways: dict[str, Callable[[], ChoiceFit]], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of each way in each round; they take turns, so that all see the same machine."""
    seconds = {name: np.zeros(rounds) for name in ways}
    for turn in range(rounds):
        for name, way in ways.items():
            seconds[name][turn] = timed(lambda way=way: way().expect())[1]
    return seconds


if __name__ == "__main__":
    ways = doors(*draw(np.random.default_rng(0)))
    scores = np.array([list(way().scores.values()) for way in ways.values()])  # compiled, and to compare
    seconds = measure(ways, 11)
    figures = {f"{name}_s": round(float(np.median(found)), 3) for name, found in seconds.items()}
    times = {name: float(np.median(found / seconds["lists"])) for name, found in seconds.items()}
    figures["times_the_lists"] = round(max(times.values()), 2)
    figures["largest_difference"] = float(np.ptp(scores, axis=0).max())
    bars = {
        "at most 1.2 times the lists": figures["times_the_lists"] <= 1.2,
        "the same scores": figures["largest_difference"] <= 1e-9,
    }
    report(figures, bars)
