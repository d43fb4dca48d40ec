"""The beginning of training: statistics in fractions, first weights against descent by autograd."""

from fractions import Fraction

import numpy as np
import torch

import attomaton as at
from attomaton.base.errors import AttomatonError
from tests.adversary.finding import Finding, worst_of

STEP = 2e-3
"""η of the descent; another at half of it takes the next order away."""


def draw(rng):
    """Documents of up to seven tokens, some too short: random, periodic, constant or skewed."""
    n_tokens = int(rng.integers(1, 8))
    kind = str(rng.choice(["random", "periodic", "constant", "skewed"]))
    documents = []
    for _ in range(int(rng.integers(1, 6))):
        size = int(rng.integers(1, 20))
        if kind == "random":
            text = rng.integers(0, n_tokens, size)
        elif kind == "periodic":
            text = np.resize(rng.permutation(n_tokens), size)
        elif kind == "constant":
            text = np.full(size, int(rng.integers(n_tokens)))
        else:
            text = np.minimum(rng.geometric(0.7, size) - 1, n_tokens - 1)
        documents.append(text.tolist())
    return documents, kind


def cut(documents, window):
    """Sequences of window + 1 tokens; each begins with the last token of the one before."""
    return [
        text[first : first + window + 1]
        for text in documents
        for first in range(0, len(text) - window, window)
    ]


def exact_statistics(sequences, n_tokens):
    """B̄, Φ̄, Q̄ and Δ in fractions, by loops over their definitions."""
    window = len(sequences[0]) - 1
    total = Fraction(1, len(sequences) * window)
    tokens = range(n_tokens)

    def residual(one, t, v):
        return (one[t + 1] == v) - Fraction(1, n_tokens)

    bigrams = [[Fraction(0)] * n_tokens for _ in tokens]
    contexts = [[Fraction(0)] * n_tokens for _ in tokens]
    for one in sequences:
        for t in range(window):
            for v in tokens:
                bigrams[one[t]][v] += total * residual(one, t, v)
                for u in range(t + 1):
                    contexts[v][one[u]] += total * residual(one, t, v) / (t + 1)
    square = [[sum(bigrams[k][i] * bigrams[k][j] for k in tokens) for j in tokens] for i in tokens]
    gain = [[sum(square[i][k] * contexts[k][j] for k in tokens) for j in tokens] for i in tokens]
    looks = [[Fraction(0)] * n_tokens for _ in tokens]
    lags = [Fraction(0)] * window
    for one in sequences:
        for t in range(window):
            row = [sum(residual(one, t, v) * gain[v][one[u]] for v in tokens) for u in range(t + 1)]
            mean = sum(row) / (t + 1)
            for u in range(t + 1):
                slope = total * (row[u] - mean) / (t + 1)
                looks[one[t]][one[u]] += slope
                lags[t - u] += slope
    return [np.array(one, dtype=float) for one in (bigrams, contexts, looks, lags)]


def descend(sequences, n_tokens, n_layers, size, steps):
    """After plain descent from zero: attention, positions and values of each layer, and the output."""
    ids = torch.tensor(sequences)
    window = ids.shape[1] - 1
    inputs = torch.nn.functional.one_hot(ids[:, :-1], n_tokens).double()
    lag = torch.arange(window)[:, None] - torch.arange(window)

    def zeros(*shape):
        return torch.zeros(*shape, dtype=torch.float64, requires_grad=True)

    layers = [(zeros(n_tokens, n_tokens), zeros(window), zeros(n_tokens, n_tokens)) for _ in range(n_layers)]
    output = zeros(n_tokens, n_tokens)
    weights = [one for layer in layers for one in layer] + [output]
    for _ in range(steps):
        stream = inputs
        for attention, positions, values in layers:
            scores = stream @ attention @ stream.transpose(1, 2) + positions[lag.clamp(min=0)]
            stream = stream + scores.masked_fill(lag < 0, -torch.inf).softmax(-1) @ stream @ values
        loss = torch.nn.functional.cross_entropy((stream @ output).flatten(0, 1), ids[:, 1:].flatten())
        slopes = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight -= size * slope
    return [one.detach().numpy() for one in weights]


def attack(rng) -> Finding:
    """``begin``: the statistics, and the leading order of what descent makes of every layer."""
    documents, kind = draw(rng)
    window, n_layers, steps = int(rng.integers(1, 7)), int(rng.integers(1, 4)), int(rng.integers(3, 6))
    dtype = str(rng.choice(["list", "int64", "uint8", "float32"]))
    given = documents if dtype == "list" else [np.array(text, dtype) for text in documents]
    case = {"documents": documents, "window": window, "n_layers": n_layers, "steps": steps, "dtype": dtype}
    sequences = cut(documents, window)
    try:
        told = at.begin(given, window=window)
    except AttomatonError as error:
        wrong = bool(sequences) and dtype != "float32"
        return Finding(float(wrong), 0.0, f"refused: {str(error)[:100]}", len(documents), case, kind=kind)
    if not sequences:
        return Finding(1.0, 0.0, "an answer without a sequence", len(documents), case)
    n_tokens = 1 + max(x for text in documents for x in text)
    names = ("bigrams", "contexts", "look_table", "lags")
    found = [getattr(told.statistics, name) for name in names]
    exact = exact_statistics(sequences, n_tokens)
    checks = [
        (name, float(np.abs(a - b).max()), 1e-14) for name, a, b in zip(names, found, exact, strict=True)
    ]
    checks.append(("sequences", float(told.statistics.n_sequences != len(sequences)), 0.0))
    weights = told.weights_at(steps, step_size=STEP, n_layers=n_layers)
    whole, half = (descend(sequences, n_tokens, n_layers, size, steps) for size in (STEP, STEP / 2))
    kinds = [("attention", 4), ("positions", 4), ("values", 2)] * n_layers + [("output", 1)]
    for (name, power), one, other in zip(kinds, whole, half, strict=True):
        leading = 2 * 2**power * other - one  # what is of the next power in η cancels
        told_weight = getattr(weights, name)
        apart, scale = (float(np.abs(x).max()) / STEP**power for x in (leading - told_weight, told_weight))
        checks.append((f"{name} to leading order", apart, 0.01 * scale + 1e-5))
    return worst_of(checks, len(documents), case, kind=kind)
