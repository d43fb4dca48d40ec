"""Do orders of tokens say anything about meaning? Words of one kind against words as frequent, WikiText-2.

Each word has a rank (0 to 1) under every query whose graph contains it. The distance of two words is the
mean difference of their ranks over the queries that they share. Words of one kind (months, colours, …; the
lists were written before anything was measured) are compared with draws in which each word is replaced by one
as frequent. The same is done with orders learned after labels were drawn again from their contexts: what is
left then is due to which words stand in the same windows, not to the order.

    python benchmarks/bench_automaton_meaning.py [--quick]
"""

import sys

import numpy as np
from scipy.sparse import csr_array

import attomaton as at
from attomaton.graphs.bags import find_realisable
from timing import peak_gigabytes, read_wikitext, report, timed

WINDOW, FEWEST, NEAREST, DRAWS = 32, 20, 40, 1000  # FEWEST: nodes of a query, and queries that a pair shares
KINDS = {
    "months": "January February March April May June July August September October November December",
    "weekdays": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "numbers": "two three four five six seven eight nine ten",
    "directions": "north south east west northern southern eastern western",
    "colours": "red blue green black white yellow brown orange purple grey",
    "family": "father mother brother sister son daughter husband wife",
    "countries": "England France Germany Spain Italy Russia China Japan India Canada Australia Ireland",
    "pronouns": "he she him his her they their them",
}


def find_ranks(scores, n_tokens: int) -> csr_array:
    """The rank of each token's hard score among its query's nodes, ties shared: (token, query), above 0."""
    query, token, score = (scores.column(name).to_numpy() for name in ("query", "token", "score"))
    order = np.lexsort((score, query))
    query, token, score = query[order], token[order], np.round(score[order], 9)
    first = np.flatnonzero(np.r_[True, (np.diff(query) != 0) | (np.diff(score) != 0)])
    size = np.diff(np.r_[first, len(query)])
    begins = np.searchsorted(query, query)
    rank = np.repeat(first + (size - 1) / 2, size) - begins + 0.5
    counts = np.bincount(query, minlength=n_tokens)[query]
    large = counts >= FEWEST
    return csr_array(
        ((rank / counts)[large], (token[large], query[large])), shape=(n_tokens, n_tokens), dtype=float
    )


def measure_pair(ranks: csr_array, one: int, other: int) -> float:
    """The mean difference of two tokens' ranks over shared queries, NaN if they share too few."""
    left, right = (slice(*ranks.indptr[token : token + 2]) for token in (one, other))
    _, mine, yours = np.intersect1d(
        ranks.indices[left], ranks.indices[right], assume_unique=True, return_indices=True
    )
    if len(mine) < FEWEST:
        return np.nan
    return float(np.abs(ranks.data[left][mine] - ranks.data[right][yours]).mean())


def measure_kinds(ranks: csr_array, kinds: list[list[int]], known: dict) -> np.ndarray:
    """The mean distance within each kind; ``known`` keeps distances between calls."""
    means = []
    for tokens in kinds:
        pairs = [(a, b) for place, a in enumerate(tokens) for b in tokens[place + 1 :] if a != b]
        for pair in pairs:
            if pair not in known:
                known[pair] = measure_pair(ranks, *pair)
        distances = np.array([known[pair] for pair in pairs])
        means.append(distances[~np.isnan(distances)].mean() if (distances >= 0).any() else np.nan)
    return np.array(means)


def compare(ranks: csr_array, kinds: list[list[int]], counts: np.ndarray, draws: int, seed: int = 0) -> dict:
    """Distances within kinds, those of words as frequent, and the share of draws that are as close."""
    rng, known = np.random.default_rng(seed), {}
    named = np.unique(np.concatenate(kinds))
    by_count = np.argsort(-counts, kind="stable")
    by_count = by_count[(counts[by_count] > 0) & ~np.isin(by_count, named)]
    position = np.searchsorted(-counts[by_count], -counts)
    found = measure_kinds(ranks, kinds, known)
    drawn = []
    for _ in range(draws):
        others = [
            [
                int(
                    by_count[np.clip(position[token] + rng.integers(-NEAREST, NEAREST), 0, len(by_count) - 1)]
                )
                for token in tokens
            ]
            for tokens in kinds
        ]
        drawn.append(measure_kinds(ranks, others, known))
    drawn = np.array(drawn)
    closer = (1 + (drawn <= found).sum(axis=0)) / (1 + draws)
    whole, others = np.nanmean(found), np.nanmean(drawn, axis=1)
    overall = (1 + (others <= whole).sum()) / (1 + draws)
    return {
        "within": found.round(4).tolist(),
        "as_frequent": np.nanmean(drawn, axis=0).round(4).tolist(),
        "p": closer.round(4).tolist(),
        "all": [round(float(value), 4) for value in (whole, others.mean(), overall)],
    }


def redraw_labels(samples: at.Samples, rng: np.random.Generator) -> at.Samples:
    """The samples with a label drawn from the positions of each context."""
    chosen = samples.starts + (rng.random(len(samples)) * (samples.stops - samples.starts)).astype(np.int64)
    return at.Samples(samples.values, samples.starts, samples.stops, samples.values[chosen], samples.n_tokens)


def measure(*, quick: bool) -> dict:
    text = read_wikitext("valid") if quick else read_wikitext("train.articles-shuffled")
    words, ids = at.Vocabulary.from_text(text)
    samples = at.Samples.from_windows(ids, window=WINDOW, n_tokens=len(words))
    samples = samples.take(find_realisable(samples))
    number = {word: place for place, word in enumerate(words.tokens)}
    kinds = [[number[word] for word in names.split() if word in number] for names in KINDS.values()]
    counts = np.bincount(ids, minlength=len(words))
    rows = {}
    for name in ("order", "labels drawn again"):
        some = samples if name == "order" else redraw_labels(samples, np.random.default_rng(0))
        ranks = find_ranks(at.learn(some).hard.scores, len(words))
        rows[name] = compare(ranks, kinds, counts, 100 if quick else DRAWS)
    return {"kinds": {name: len(tokens) for name, tokens in zip(KINDS, kinds, strict=True)}, **rows}


if __name__ == "__main__":
    figures, seconds = timed(lambda: measure(quick="--quick" in sys.argv))
    report({**figures, "seconds": seconds, "gigabytes": peak_gigabytes()}, {})
