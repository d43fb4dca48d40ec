"""Corpora and embeddings that are hard for the product, drawn from random numbers."""

import numpy as np

EMBEDDINGS = (
    *(f"condition 1e{power}" for power in range(7)),
    *(f"near 1e-{power}" for power in range(4, 15)),
    *(f"opposite 1e-{power}" for power in (6, 8, 10, 12)),
    *(f"nearly dependent 1e-{power}" for power in (6, 8, 10)),
    "float32",
    "not contiguous",
    "unequal rows 1e3",
    "unequal rows 1e8",
    "few dimensions",
    "a row twice",
    "a row of zeros",
)


def draw_corpus(rng, *, most_tokens=10, most_samples=20, most_length=6, unrealisable=0.0):
    """Contexts, labels, the number of tokens: ties, nearly in order, or in order; few queries or many."""
    n_tokens = int(rng.integers(2, most_tokens, endpoint=True))
    n_samples = int(rng.integers(1, most_samples, endpoint=True))
    kind, few = int(rng.integers(4)), bool(rng.random() < 0.6)
    contexts, labels = [], []
    for _ in range(n_samples):
        context = rng.integers(0, n_tokens, int(rng.integers(1, most_length, endpoint=True))).tolist()
        if few:
            context[-1] = int(rng.integers(0, min(2, n_tokens)))
        by_order = kind == 1 or (kind == 2 and rng.random() < 0.9) or (kind == 3 and rng.random() < 0.5)
        label = min(context) if by_order else int(rng.choice(context))
        if rng.random() < unrealisable:
            label = int(rng.integers(n_tokens))
        contexts.append(context)
        labels.append(label)
    return contexts, labels, n_tokens


def draw_embeddings(rng, n_tokens, kind):
    """A table of embeddings of one of the kinds in ``EMBEDDINGS``."""
    dim = n_tokens + int(rng.integers(0, 3))
    table = rng.normal(size=(n_tokens, dim))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    name, _, number = kind.rpartition(" ")
    if name == "condition":
        left, right = (np.linalg.qr(rng.normal(size=(size, size)))[0] for size in (n_tokens, dim))
        return left @ np.diag(np.geomspace(1, 1 / float(number), n_tokens)) @ right[:n_tokens]
    if name == "unequal rows":
        return table * rng.permutation(np.geomspace(1, float(number), n_tokens))[:, None]
    if kind == "float32":
        return table.astype(np.float32)
    if kind == "not contiguous":
        return np.asfortranarray(rng.normal(size=(2 * n_tokens, dim)))[::2]
    if kind == "few dimensions":
        return rng.normal(size=(n_tokens, int(rng.integers(1, n_tokens))))
    one, other, third = rng.permutation(n_tokens)[[0, 1, 2 % n_tokens]]
    if kind == "a row twice":
        table[other] = table[one]
    elif kind == "a row of zeros":
        table[one] = 0.0
    else:
        nearest = {"near": table[one], "opposite": -table[one]}.get(name, table[one] + table[third])
        table[other] = nearest + float(number) * rng.normal(size=dim)
    return table


def describe(contexts, labels, n_tokens, **more):
    """A corpus as a case that can be typed in again."""
    told = {"contexts": contexts, "labels": labels, "n_tokens": n_tokens}
    for name, value in more.items():
        told[name] = value.tolist() if isinstance(value, np.ndarray) else value
    return told
