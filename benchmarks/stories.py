"""What the benchmarks of heads share: the story model, its stories, and the rungs of its ladder."""

import json
import re
from collections.abc import Sequence

import numpy as np

import attomaton as at
from attomaton.corpora import Vocabulary
from attomaton.heads import (
    PMI,
    Bigram,
    Duplicate,
    Frequency,
    Induction,
    KeyToken,
    Position,
    find_closed_utility,
    first_looks,
    measure_utility,
    open_model,
    usefulness,
)
from attomaton.heads.audit.explanations import LadderRung, TokenCounts
from attomaton.heads.audit.rungs import learned_rungs
from attomaton.heads.model import HeadModel
from attomaton.heads.utility.closed import count_pairs
from timing import DATA

WINDOW = 32
"""Places of a row, and tokens of a context that the automaton is learned from."""


def open_stories() -> HeadModel:
    """stories260K: 5 layers of 8 heads, 512 tokens."""
    return open_model(DATA / "models" / "stories260K" / "hf")


def read_stories() -> list[np.ndarray]:
    """Token ids of the stories that are encoded well, in random order; the file is in none."""
    texts = json.loads((DATA / "tinystories" / "tinystories_1000.json").read_text(encoding="utf-8"))
    kept = [re.sub(r"\n+", "\n", text) for text in texts if "â" not in text and "Ã" not in text]
    vocabulary = Vocabulary.fixed(str(DATA / "models" / "stories260K" / "tok512.bin"))
    order = np.random.default_rng(0).permutation(len(kept))
    return [np.r_[1, vocabulary.encode(kept[place])] for place in order]


def cut_samples(documents: Sequence[np.ndarray], n_tokens: int) -> at.Samples:
    """All windows of documents, each with the token that follows."""
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in documents])])
    return at.Samples.from_windows(
        np.concatenate(documents), window=WINDOW, documents=offsets, n_tokens=n_tokens
    )


def make_rungs(model: HeadModel, documents: Sequence[np.ndarray]) -> list[LadderRung]:
    """Every rung, made from the documents to fit on."""
    n_tokens = model.shape.n_tokens
    counts = TokenCounts.of(documents, n_tokens=n_tokens)
    automaton, shrunk = learned_rungs(documents, n_tokens=n_tokens, window=WINDOW)
    pairs = count_pairs(cut_samples(documents, n_tokens))
    windows = np.array([ids[start : start + 65] for ids in documents for start in (0, 64) if len(ids) > 129])
    return [
        Position(),
        KeyToken(),
        Induction(),
        Duplicate(),
        shrunk,
        automaton,
        PMI(counts),
        Frequency(counts),
        Bigram(counts),
        first_looks(at.begin(documents, window=WINDOW)),
        usefulness(find_closed_utility(model, pairs), name="utility in closed form"),
        usefulness(measure_utility(model, windows, baseline="position"), name="utility"),
    ]
