"""The second theory on WikiText-2 train, window 32, 20 queries. Bars: 60 s, 4 GB."""

import time
from itertools import pairwise

import attomaton as at
from attomaton.theories import Rates, survey_samples
from timing import DATA, median_run, peak_gigabytes, report


def once() -> dict:
    stages = [("reading", time.perf_counter())]
    samples = at.read_corpus(DATA / "wikitext-2" / "train.articles-shuffled.txt").windows(32)
    survey = survey_samples(
        samples,
        Rates(decoder=1.0, attention=0.1),
        announce=lambda stage: stages.append((stage, time.perf_counter())),
    )
    stages.append(("done", time.perf_counter()))
    return {
        "total_s": round(stages[-1][1] - stages[0][1], 2),
        "stages_s": {stage: round(later - start, 2) for (stage, start), (_, later) in pairwise(stages)},
        "classes": len(survey.classes),
        "entries": len(survey.classes.tokens),
    }


if __name__ == "__main__":
    figures = {**median_run(once, "total_s", 3), "peak_gb": peak_gigabytes()}
    report(figures, {"under_60_s": figures["total_s"] < 60, "under_4_gb": figures["peak_gb"] < 4})
