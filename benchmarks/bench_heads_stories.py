"""The ladder of stories260K's 40 heads on TinyStories, every rung. Bar: 15 minutes on two cores.

Rungs are fitted on 400 stories and scored on 167 others. The expected means are those of a study made
before: position .449; key token, induction and same token on top .586; ``shrink`` on top .587.
"""

import json
import re
import time

import numpy as np

import attomaton as at
from attomaton.audit.explanations import (
    PMI,
    Bigram,
    Counts,
    Frequency,
    Induction,
    SameToken,
    first_looks,
    usefulness,
)
from attomaton.audit.heads import learned_rungs
from attomaton.audit.ladder import KeyToken, Position, climb
from attomaton.audit.rows import watch_rows
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.heads.opening import open_model
from attomaton.utility.closed import count_pairs, find_closed_utility
from attomaton.utility.measured import measure_utility
from timing import DATA, peak_gigabytes, report

FITTED, SCORED, WINDOW = slice(0, 400), slice(750, None), 32


def read_stories() -> list[np.ndarray]:
    """Token ids of the stories that are encoded well, in random order; the file is in none."""
    texts = json.loads((DATA / "tinystories" / "tinystories_1000.json").read_text(encoding="utf-8"))
    kept = [re.sub(r"\n+", "\n", text) for text in texts if "â" not in text and "Ã" not in text]
    vocabulary = Vocabulary.fixed(str(DATA / "models" / "stories260K" / "tok512.bin"))
    order = np.random.default_rng(0).permutation(len(kept))
    return [np.r_[1, vocabulary.encode(kept[place])] for place in order]


def make_rungs(model, documents):
    """Every rung, made from the documents to fit on."""
    n_tokens = model.shape.n_tokens
    counts = Counts.of(documents, n_tokens=n_tokens)
    automaton, shrunk = learned_rungs(documents, n_tokens=n_tokens, window=WINDOW)
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in documents])])
    samples = at.Samples.from_windows(
        np.concatenate(documents), window=WINDOW, documents=offsets, n_tokens=n_tokens
    )
    windows = np.array([ids[start : start + 65] for ids in documents for start in (0, 64) if len(ids) > 129])
    return [
        Position(),
        KeyToken(),
        Induction(),
        SameToken(),
        shrunk,
        automaton,
        PMI(counts),
        Frequency(counts),
        Bigram(counts),
        first_looks(at.begin(documents, window=WINDOW)),
        usefulness(find_closed_utility(model, count_pairs(samples)), name="utility in closed form"),
        usefulness(measure_utility(model, windows, baseline="position"), name="utility"),
    ]


def main() -> None:
    begun = time.perf_counter()
    model, documents = open_model(DATA / "models" / "stories260K" / "hf"), read_stories()
    fitted = watch_rows(model, documents[FITTED], per_document=12, longest=255)
    scored = watch_rows(model, documents[SCORED], per_document=20, longest=255)
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
        "same_token_near_586": abs(means["same token"] - 0.586) < 0.02,
        "shrink_near_587": abs(means["shrink"] - 0.587) < 0.02,
    }
    report(figures, bars)


if __name__ == "__main__":
    main()
