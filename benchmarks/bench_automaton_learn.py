"""The whole path on WikiText-2 train, window 32, in memory. Bars: both sides certified, 90 s, 6 GB."""

import time
from itertools import pairwise

import attomaton as at
from timing import DATA, median_run, peak_gigabytes, report


def once() -> dict:
    stages: list[tuple[str, float]] = []
    auto = at.learn(
        DATA / "wikitext-2" / "train.articles-shuffled.txt",
        window=32,
        progress=lambda stage: stages.append((stage, time.perf_counter())),
    )
    stages.append(("done", time.perf_counter()))
    seconds = {stage: round(later - start, 2) for (stage, start), (_, later) in pairwise(stages)}
    return {
        "total_s": round(stages[-1][1] - stages[0][1], 2),
        "stages_s": seconds,
        "components": len(auto.components),
        "hard_gap": auto.hard.certificate.gap,
        "soft_gradient": auto.soft.certificate.gradient_norm,
        "certified": auto.hard.certificate.certified and auto.soft.certificate.certified,
    }


if __name__ == "__main__":
    figures = {**median_run(once, "total_s", 3), "peak_gb": peak_gigabytes()}
    bars = {
        "certified": figures["certified"],
        "under_90_s": figures["total_s"] < 90,
        "under_6_gb": figures["peak_gb"] < 6,
    }
    report(figures, bars)
