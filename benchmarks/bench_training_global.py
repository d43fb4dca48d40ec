"""The global experiment of the first paper: training, both solvers and all curves, imports not counted.

Bars: 100 trials in at most 2.9 s (median of 5 runs), 1,000 in under 25 s (median of 3).
"""

from statistics import median

from attomaton_experiments.mechanics import measure_training
from attomaton_experiments.settings import read_settings
from timing import peak_gigabytes, report, timed

if __name__ == "__main__":
    few, some, many = (read_settings("mechanics-global", trials=trials) for trials in (2, 100, 1000))
    measure_training(few, judged=False)
    runs = [timed(lambda: measure_training(some, judged=False)) for _ in range(5)]
    longer = [timed(lambda: measure_training(many, judged=False))[1] for _ in range(3)]
    figures = {
        "seconds_100": median(seconds for _, seconds in runs),
        "seconds_1000": median(longer),
        "mean_least_most": runs[0][0].last(),
        "peak_gb": peak_gigabytes(),
    }
    report(
        figures, {"100_trials": figures["seconds_100"] <= 2.9, "1000_trials": figures["seconds_1000"] < 25}
    )
