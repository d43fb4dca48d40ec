"""Random corpora for the tests of the beginning."""

import numpy as np


def draw_documents(rng):
    """Documents over a few tokens, some too short for a sequence, and a window that fits at least one."""
    n_tokens = int(rng.choice([1, 2, 5, 12, 40]))
    window = int(rng.choice([1, 2, 3, 7, 12]))
    lengths = [window + 1, *rng.integers(0, 4 * window + 3, int(rng.integers(0, 9))).tolist()]
    weights = rng.dirichlet(np.full(n_tokens, 0.5))
    documents = [rng.choice(n_tokens, length, p=weights).tolist() for length in rng.permutation(lengths)]
    documents[0] = documents[0] or [n_tokens - 1]
    return documents, n_tokens, window


def cut_plainly(documents, window):
    """The sequences with their last next token, as the page says it."""
    sequences = []
    for document in documents:
        rest = list(document)
        while len(rest) > window:
            sequences.append(rest[: window + 1])
            rest = rest[window:]
    return sequences


def draw_bigrams(rng, *, n_tokens, window, n_sequences, copies=0.3):
    """Sequences of ``window + 1`` tokens by random bigrams; a share of the tokens is copied from before."""
    moves = np.cumsum(rng.dirichlet(np.full(n_tokens, 0.1), n_tokens), axis=1)
    tokens = rng.integers(0, n_tokens, (n_sequences, window + 1))
    for place in range(1, window + 1):
        drawn = (rng.random((n_sequences, 1)) > moves[tokens[:, place - 1]]).sum(axis=1)
        copied = tokens[np.arange(n_sequences), rng.integers(0, place, n_sequences)]
        chosen = np.where(rng.random(n_sequences) < copies, copied, drawn)
        tokens[:, place] = np.minimum(chosen, n_tokens - 1)
    return tokens
