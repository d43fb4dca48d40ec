"""The weights at step t: what ``fast_forward`` and ``expand`` say, and their errors, against descent."""

import numpy as np

import attomaton as at
from attomaton.base.errors import AttomatonError
from tests.adversary.draws import describe, draw_corpus
from tests.adversary.finding import Finding, unjudged
from tests.adversary.reference.descent import curvatures_of

MARKS = (100, 1000, 1001, 3000, 10_000, 10_001, 30_000, 100_000, 100_001)
LATE = 1000
"""The expansion speaks of large steps."""


def draw_data(rng):
    """A corpus and embeddings (None: orthonormal), most of them with ties."""
    if rng.random() < 0.5:
        contexts, labels, n_tokens = _draw_tied(rng)
    else:
        contexts, labels, n_tokens = draw_corpus(rng, most_tokens=6, most_samples=7, most_length=5)
    if rng.random() < 0.4:
        return contexts, labels, n_tokens, None
    table = rng.normal(size=(n_tokens, n_tokens + int(rng.integers(0, 2))))
    if rng.random() < 0.5:
        table /= np.linalg.norm(table, axis=1, keepdims=True)
    if rng.random() < 0.4:
        table *= rng.permutation(np.geomspace(0.3, 3, n_tokens))[:, None]
    return contexts, labels, n_tokens, table


def _draw_tied(rng):
    """Two or three tokens that tie at the top, over losers that die slowly: up to 30 tokens."""
    n_tokens, tied = int(rng.integers(5, 31)), int(rng.integers(2, 4))
    contexts, labels = [], []
    for number in range(int(rng.integers(tied, 9))):
        losers = rng.integers(tied, n_tokens, int(rng.integers(1, n_tokens))).tolist()
        contexts.append([*range(tied), *losers * int(rng.integers(1, 4)), n_tokens - 1])
        labels.append(number if number < tied else int(rng.integers(tied)))
    return contexts, labels, n_tokens


def draw(rng):
    """Data and a step size from 10⁻³ to 3/λ, λ the curvature in the limit; a third at the edge 2/λ."""
    contexts, labels, n_tokens, table = draw_data(rng)
    layer, curved, first = curvatures_of(contexts, labels, np.eye(n_tokens) if table is None else table)
    largest = 3 / (curved if curved > 1e-9 else max(first, 1e-9))
    step_size = float(np.exp(rng.uniform(np.log(min(1e-3, largest / 3)), np.log(largest))))
    if curved > 1e-9 and rng.random() < 0.35:
        step_size = 2 / curved * (1 + float(rng.choice([-1, 1]) * 10 ** rng.uniform(-3.5, -1)))
    return contexts, labels, n_tokens, table, layer, step_size, step_size * curved / 2


def attack_fast_forward(rng) -> Finding:
    """``fast_forward``: its error at each of some steps over its estimate."""
    case = draw(rng)
    contexts, labels, n_tokens, table, _, step_size, _ = case
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    start = None
    if rng.random() < 0.15:
        dim = n_tokens if table is None else table.shape[1]
        start = rng.normal(size=(dim, dim)) * float(rng.choice([0.1, 1.0]))
    try:
        path = at.fast_forward(samples, embeddings=table, step_size=step_size, to=1e5, start=start)
    except AttomatonError as error:
        return unjudged(f"refused: {type(error).__name__}")
    return _compare(path, case, _marks(rng, case), start)


def attack_expansion(rng) -> Finding:
    """``expand``: the same for three terms."""
    case = draw(rng)
    contexts, labels, n_tokens, table, _, step_size, _ = case
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    try:
        auto = at.learn(samples, embeddings=table)
        path = at.expand(auto, samples, embeddings=table, step_size=step_size)
    except AttomatonError as error:
        return unjudged(f"refused: {type(error).__name__}")
    return _compare(path, case, [mark for mark in _marks(rng, case) if mark >= LATE])


def _marks(rng, case):
    """Usually 10⁵ steps; for one small corpus in twenty 10⁶."""
    small = len(case[0]) <= 3 and case[2] <= 4
    return (*MARKS, 1_000_000, 1_000_001) if small and rng.random() < 0.2 else MARKS


def _compare(path, case, marks, start=None) -> Finding:
    contexts, labels, n_tokens, table, layer, step_size, over = case
    estimates = [path.error_at(mark) for mark in marks]
    side = "below the edge" if over < 1 else "beyond the edge"
    if not np.isfinite(estimates).any():
        return unjudged("no estimate", side)
    weights = layer.descend(step_size, marks, start)
    worst, where = 0.0, ""
    for mark, exact, estimate in zip(marks, weights, estimates, strict=True):
        told = path.weights_at(mark)
        told = told.toarray() if hasattr(told, "toarray") else told
        rounding = 1e-9 * (1 + np.linalg.norm(exact))
        error = max(float(np.linalg.norm(told - exact)) - rounding, 0.0)
        used = error / estimate if estimate > 0 else np.inf if error > 0 else 0.0
        if not used <= worst:
            worst, where = used, f" at step {mark}: error {error:.2e}, estimate {estimate:.2e}"
    told = describe(contexts, labels, n_tokens, step_size=step_size, over_edge=over)
    for name, value in (("embeddings", table), ("start", start)):
        if value is not None:
            told[name] = value.tolist()
    return Finding(worst, 2.0, f"error over estimate{where}", len(contexts) * n_tokens, told, kind=side)
