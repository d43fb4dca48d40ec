"""The decoder's limit of WikiText-2 train: bigrams, the loss at five steps, and 8 concepts. Bar: 20 s."""

import time

import numpy as np

import attomaton as at
from attomaton.theories.decoder.supports import Supports
from attomaton_experiments.concepts import find_concepts
from timing import DATA, median_run, peak_gigabytes, report

STEPS = [10**3, 10**5, 10**7, 10**9, 10**11]


def once() -> dict:
    begun = time.perf_counter()
    limit = at.learn_decoder(DATA / "wikitext-2" / "train.articles-shuffled.txt", engine="memory")
    counted = time.perf_counter()
    losses = limit.losses_at(STEPS)
    foretold = time.perf_counter()
    concepts = find_concepts(limit.supports, 8, vocabulary=limit.vocabulary)
    ended = time.perf_counter()
    return {
        "total_s": round(foretold - begun, 2),
        "counting_s": round(counted - begun, 2),
        "losses_s": round(foretold - counted, 2),
        "concepts_s": round(ended - foretold, 2),
        "contexts": len(limit.supports),
        "pairs": len(limit.supports.tokens),
        "entropy": round(limit.entropy, 4),
        "losses": losses.round(4).tolist(),
        "rate_at_the_end": round(float(STEPS[-1] * (losses[-1] - limit.entropy) / limit.squared_norm), 4),
        "singular_values": concepts.values.round(2).tolist(),
    }


def large(size: int = 100_000, pairs: int = 2_000_000) -> dict:
    """Concepts of a random matrix of 10⁵ words by 10⁵ contexts."""
    rng = np.random.default_rng(0)
    tokens = (size * rng.random(pairs) ** 4).astype(np.int64)
    keys = np.unique(
        np.concatenate([rng.integers(0, size, pairs), np.arange(size)]) * size
        + np.concatenate([tokens, np.arange(size)])
    )
    context, token = np.divmod(keys, size)
    offsets = np.searchsorted(context, np.arange(size + 1))
    supports = Supports(np.arange(size)[:, None], offsets, token, np.ones(len(keys), np.int64), size)
    begun = time.perf_counter()
    find_concepts(supports, 8)
    return {"large_concepts_s": round(time.perf_counter() - begun, 2), "large_pairs": len(keys)}


if __name__ == "__main__":
    figures = {**median_run(once, "total_s", 3), **large(), "peak_gb": peak_gigabytes()}
    report(
        figures,
        {"under_20_s": figures["total_s"] < 20, "concepts_under_60_s": figures["large_concepts_s"] < 60},
    )
