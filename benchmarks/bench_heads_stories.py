"""The ladder of stories260K's 40 heads on TinyStories, every rung. Bar: 15 minutes on two cores.

Rungs are fitted on 400 stories and scored on 167 others. The expected means are those of a study made
before: position .449; key token, induction and same token on top .586; ``shrink`` on top .587.
"""

import time

import numpy as np

from attomaton.heads import climb
from attomaton.heads.audit.recording import record
from stories import make_rungs, open_stories, read_stories
from timing import peak_gigabytes, report

FITTED, SCORED = slice(0, 400), slice(750, None)


def main() -> None:
    begun = time.perf_counter()
    model, documents = open_stories(), read_stories()
    fitted = record(model, documents[FITTED], per_document=12, longest=255).rows
    scored = record(model, documents[SCORED], per_document=20, longest=255).rows
    watched = time.perf_counter()
    rungs = make_rungs(model, documents[FITTED])
    made = time.perf_counter()
    ladder = climb(fitted, scored, rungs)
    nested = time.perf_counter()
    alone = climb(fitted, scored, rungs, nested=False)
    ended = time.perf_counter()
    means = dict(zip(ladder.names, ladder.mean.round(3).tolist(), strict=True))
    gains = np.array([one.value for one in ladder.added])
    figures = {
        "heads": len(ladder.heads),
        "rows": [len(fitted), len(scored)],
        "explained": means,
        "alone": dict(zip(alone.names, alone.mean.round(3).tolist(), strict=True)),
        "heads_it_takes_from": dict(zip(ladder.names, (gains < 0).sum(1).tolist(), strict=True)),
        "watched_s": round(watched - begun, 1),
        "rungs_s": round(made - watched, 1),
        "nested_s": round(nested - made, 1),
        "alone_s": round(ended - nested, 1),
        "total_s": round(ended - begun, 1),
        "cpu_s": round(time.process_time(), 1),
        "peak_gb": peak_gigabytes(),
    }
    bars = {
        "under_15_minutes": ended - begun < 900,
        "position_near_449": abs(means["position"] - 0.449) < 0.02,
        "duplicate_near_586": abs(means["duplicate"] - 0.586) < 0.02,
        "shrink_near_587": abs(means["shrink"] - 0.587) < 0.02,
    }
    report(figures, bars)


if __name__ == "__main__":
    main()
