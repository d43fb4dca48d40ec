"""How often the rule for labels is right: heads built for each label, random heads, and the ceiling.

1. Models of 2 and of 12 layers with heads built for every label (``tests/heads/audit/built.py``): random
   strengths, Gaussian noise of size .5 on the score of every pair of tokens, and text with sentences, commas
   and passages that come again. Bar: of at least 200 heads, 95 % get the label that they were built for.
2. Random heads: models whose weights are all drawn, from a normal distribution and from Student's with three
   degrees of freedom, on chains and on sentences; and built models with all heads rotated. Bar: at most 5 %
   are called previous token, induction, duplicate or label seeking.
3. The ceiling where it is known. Bar: within .03.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.heads import Audit, HeadAudit, HeadModel, audit_heads, plain_rungs, rotate_beside, rotate_heads
from timing import peak_gigabytes, report

sys.path.insert(0, str(Path(__file__).parents[1]))  # the built heads of the tests

from tests.heads.audit.built import (
    TEXTS,
    build_labelled,
    build_seekers,
    draw_chains,
    draw_deep,
    draw_sentences,
    measure_ceilings,
)

SPECIFIC = {"previous token", "induction", "duplicate", "label seeking"}
"""Labels that random heads should not get."""


def audit(model: Any, documents: Sequence[Any], random: int | Sequence[HeadModel] = 2) -> HeadAudit:
    """An audit with the usual rungs and small sizes."""
    how = Audit(window=16, per_document=10)
    return audit_heads(model, documents, rungs=plain_rungs(TEXTS), random=random, how=how)


def label_built() -> Counter[tuple[str, str]]:
    """How many heads built for a label get which."""
    pairs: Counter[tuple[str, str]] = Counter()
    for n_layers, seeds in ((2, 4), (12, 1)):
        for seed in range(seeds):
            rng = np.random.default_rng([n_layers, seed])
            model, labels = build_labelled(rng, n_layers=n_layers)
            found = audit(model, draw_sentences(rng)).labels
            pairs.update(zip(labels, (one.name for one in found), strict=True))
    for n_layers, n_heads in ((2, 9), (12, 2)):
        rng = np.random.default_rng([n_layers, 99])
        seeker, model, labels = build_seekers(rng, n_layers=n_layers, n_heads=n_heads)
        random = [rotate_beside(model, seed=seed) for seed in range(2)]
        found = audit(seeker, draw_sentences(rng), random).labels
        pairs.update(zip(labels, (one.name for one in found), strict=True))
    return pairs


def label_random() -> Counter[str]:
    """How many random heads get which label."""
    found: Counter[str] = Counter()
    for number, heavy in enumerate((False, True)):
        rng = np.random.default_rng(number)
        for documents in (draw_chains(rng, 60), draw_sentences(rng)):
            model = draw_deep(rng, n_layers=3, heavy=heavy)
            found.update(one.name for one in audit(model, documents).labels)
        model, _ = build_labelled(rng, n_layers=2)
        found.update(one.name for one in audit(rotate_heads(model, seed=9), draw_sentences(rng)).labels)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="end with 1 if a bar is missed")
    parser.parse_args()
    built, random = label_built(), label_random()
    n, right = built.total(), sum(count for (label, found), count in built.items() if label == found)
    wrong = sum(count for name, count in random.items() if name in SPECIFIC)
    ceilings = measure_ceilings(np.random.default_rng(0))
    off = {name: float(np.abs(found - truth).max()) for name, (found, truth) in ceilings.items()}
    of_kind = Counter(label for label, _ in built.elements())
    figures = {
        "built_heads": n,
        "right": round(right / n, 4),
        "right_by_label": {kind: f"{built[kind, kind]} of {total}" for kind, total in of_kind.items()},
        "confused": {f"{label} → {got}": count for (label, got), count in built.items() if label != got},
        "random_heads": random.total(),
        "random_labels": dict(random.most_common()),
        "random_specific": round(wrong / random.total(), 4),
        "ceiling_off_by": {name: round(one, 4) for name, one in off.items()},
        "cpu_s": round(time.process_time(), 1),
        "peak_gb": peak_gigabytes(),
    }
    bars = {
        "200_built_heads": n >= 200,
        "95_percent_right": right >= 0.95 * n,
        "5_percent_of_random_heads": wrong <= 0.05 * random.total(),
        "ceilings_within_3_percent": max(off.values()) <= 0.03,
        "under_3_cpu_minutes": time.process_time() < 180,
    }
    report(figures, bars)


if __name__ == "__main__":
    main()
