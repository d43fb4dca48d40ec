"""Heads that write something else than they read: probabilities, successors and scores by definition."""

from collections import Counter

import numpy as np

import attomaton as at
from tests.adversary.draws import describe, draw_corpus
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.prediction import PROBABILITY
from tests.adversary.reference.automaton import Limit

CONTEXTS = 5


def draw(rng):
    """Contexts, labels, number of tokens, and what to ask for as ``writes``."""
    kind = str(rng.choice(["permutation", "map", "successor", "identity+successor"]))
    if kind in ("permutation", "map"):
        contexts, read, n_tokens = draw_corpus(rng, most_tokens=6, most_samples=10, most_length=5)
        table = rng.permutation(n_tokens) if kind == "permutation" else rng.integers(0, n_tokens, n_tokens)
        labels = [int(table[x]) if rng.random() < 0.9 else int(rng.integers(n_tokens)) for x in read]
        return contexts, labels, n_tokens, table, kind
    n_tokens, window = int(rng.integers(2, 7)), int(rng.integers(1, 5))
    contexts, labels = [], []
    for _ in range(int(rng.integers(1, 4))):
        text = rng.integers(0, n_tokens, int(rng.integers(2, 12))).tolist()
        for place in range(1, len(text)):
            contexts.append(text[max(0, place - window) : place])
            labels.append(text[place])
    return contexts, labels, n_tokens, kind, kind


def most_frequent(contexts, labels, n_tokens):
    """For each token the labels that follow it most often, of which any may be its successor."""
    counts = [Counter() for _ in range(n_tokens)]
    for context, label in zip(contexts, labels, strict=True):
        counts[context[-1]][label] += 1
    return [{x for x, n in one.items() if n == max(one.values())} or {t} for t, one in enumerate(counts)]


def keys_of(context, table):
    """What a context offers to read, the query's first way last; no way that writes what an earlier does."""
    size, keys = table.shape[1], []
    for token in context:
        ways = [way for way in range(len(table)) if table[way, token] not in table[:way, token]]
        keys += [way * size + token for way in reversed(ways)]
    return keys


def attack(rng) -> Finding:
    """``learn(writes=)`` against the limit over keys, where one key alone writes every label."""
    contexts, labels, n_tokens, writes, kind = draw(rng)
    case = describe(contexts, labels, n_tokens, writes=writes)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    auto = at.automaton.learn_writing(samples, writes=writes)
    table = np.atleast_2d(auto.writing.table)
    own = np.arange(n_tokens)
    ways = {"successor": table[:1], "identity+successor": table[1:]}
    checks = []
    if kind in ways:
        allowed = most_frequent(contexts, labels, n_tokens)
        wrong = sum(int(ways[kind][0, token]) not in allowed[token] for token in range(n_tokens))
        same = len(table) == 1 or np.array_equal(table[0], own)
        checks.append(("successors", float(wrong + (not same)), 0.0))
    else:
        checks.append(("the map", float(not np.array_equal(table, writes[None])), 0.0))
    written = table.ravel()
    read = [keys_of(context, table) for context in contexts]
    writers = [{x for x in keys if written[x] == y} for keys, y in zip(read, labels, strict=True)]
    asked = [rng.integers(0, n_tokens, int(rng.integers(1, 6))).tolist() for _ in range(CONTEXTS)]
    told = [auto.predict_proba(context) for context in asked]
    checks.append(("probabilities sum to 1", max(abs(float(one.sum()) - 1) for one in told), 1e-9))
    reach = sum(map(bool, writers)) / len(writers)
    checks.append(("the share that is written", abs(auto.coverage.realisable - reach), 1e-12))
    several = sum(len(one) > 1 for one in writers)
    checks.append(("labels with several writers", float(abs(auto.settling.n_several - several)), 0.0))
    solved = auto.reads.hard.status is auto.reads.soft.status is at.base.Status.CERTIFIED
    if several or not solved:  # a local optimum, which is not certified
        worst = worst_of(checks, len(contexts), case, kind=kind)
        return worst if worst.violated else unjudged("a choice had to be made", kind)
    kept = [(keys, *one) for keys, one in zip(read, writers, strict=True) if one]
    limit = Limit([keys for keys, _ in kept], [key for _, key in kept], table.size)
    exact = [limit.probabilities(keys_of(context, table)) for context in asked]
    sums = [np.bincount(written, one, minlength=n_tokens) for one in exact]
    checks.append(
        ("probability", max(float(np.abs(a - b).max()) for a, b in zip(told, sums, strict=True)), PROBABILITY)
    )
    checks += _check_score(auto, limit, table, asked, rng)
    return worst_of(checks, len(contexts), case, kind=kind)


def _check_score(auto, limit, table, asked, rng):
    """Log-loss of the mixture with uniform reading, over labels that some key writes."""
    written, losses, epsilon = table.ravel(), [], float(rng.choice([0.1, 0.5]))
    labels = [int(rng.integers(table.shape[1])) for _ in asked]
    for context, label in zip(asked, labels, strict=True):
        keys = np.array(keys_of(context, table))
        if (written[keys] == label).any():
            probability = limit.probabilities(keys.tolist())[written == label].sum()
            losses.append(-np.log((1 - epsilon) * probability + epsilon * np.mean(written[keys] == label)))
    if not losses:
        return []
    held = at.Samples.from_lists(asked, labels, n_tokens=table.shape[1])
    return [
        ("log-loss", abs(auto.score(held, epsilon=epsilon).log_loss - np.mean(losses)), PROBABILITY / epsilon)
    ]
