"""What deep attention learns first: WikiText-2 train, 5,000 words and the rest, T = 32. Bars: 60 s, 4 GB."""

import time
from itertools import pairwise

import attomaton as at
from timing import DATA, median_run, peak_gigabytes, report


def once() -> dict:
    stages = []
    beginning = at.begin(
        DATA / "wikitext-2" / "train.articles-shuffled.txt",
        window=32,
        most_frequent=5000,
        engine="memory",
        progress=lambda stage: stages.append((stage, time.perf_counter())),
    )
    stages.append(("done", time.perf_counter()))
    found = beginning.statistics
    return {
        "total_s": round(stages[-1][1] - stages[0][1], 2),
        "stages_s": {stage: round(later - start, 2) for (stage, start), (_, later) in pairwise(stages)},
        "sequences": found.n_sequences,
        "bigrams": found.counts.nnz,
        "contexts": found.smoothed.nnz,
        "looks": found.looks.nnz,
    }


if __name__ == "__main__":
    figures = {**median_run(once, "total_s", 3), "peak_gb": peak_gigabytes()}
    report(figures, {"under_60_s": figures["total_s"] < 60, "under_4_gb": figures["peak_gb"] < 4})
