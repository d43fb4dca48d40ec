"""Random supports, alone and many at once."""

import numpy as np

from attomaton.theories.decoder.supports import Supports


def draw_supports(rng, *, n_tokens=None, n_contexts=None, positions=None, even=False):
    """Contexts with random supports and counts; ``even`` keeps every probability above 1/(4 s)."""
    n_tokens = n_tokens or int(rng.integers(2, 12))
    n_contexts = n_contexts or int(rng.integers(1, 7))
    sizes = rng.integers(1, n_tokens if even else n_tokens + 1, n_contexts)
    tokens = np.concatenate([np.sort(rng.choice(n_tokens, size, replace=False)) for size in sizes])
    counts = rng.integers(1, 30, len(tokens))
    if positions is not None:
        counts = _share_out(rng, sizes, positions)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Supports(np.arange(n_contexts)[:, None] % n_tokens, offsets, tokens, counts, n_tokens)


def _share_out(rng, sizes, positions):
    """Counts that sum up to ``positions``, no context rare and probability 0 small."""
    shares = 0.5 / len(sizes) + 0.5 * rng.dirichlet(np.ones(len(sizes)))
    laws = [0.25 / size + 0.75 * rng.dirichlet(2 * np.ones(size)) for size in sizes]
    counts = np.concatenate(
        [np.rint(positions * share * law) for share, law in zip(shares, laws, strict=True)]
    )
    counts[np.argmax(counts)] += positions - counts.sum()
    return counts.astype(np.int64)


def join_supports(parts):
    """Many supports over one vocabulary as one; of equal positions, shares are divided by their number."""
    size = parts[0].n_tokens
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([part.sizes for part in parts]))])
    rows = np.arange(sum(map(len, parts)))[:, None] % size
    tokens, counts = (np.concatenate([getattr(one, name) for one in parts]) for name in ("tokens", "counts"))
    return Supports(rows, offsets, tokens, counts, size)
