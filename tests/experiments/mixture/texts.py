"""Small texts in which tokens follow and repeat each other."""

import numpy as np

from attomaton_experiments.mixture.reading import MixtureText


def draw_text(seed: int, length: int = 600, n_tokens: int = 12) -> np.ndarray:
    """Half of the tokens are copied from the last eight, the others come from a bigram law."""
    rng = np.random.default_rng(seed)
    laws = np.random.default_rng(7).dirichlet(np.full(n_tokens, 0.2), n_tokens)
    text = [0]
    for _ in range(length):
        copied = rng.random() < 0.5
        text.append(int(rng.choice(text[-8:]) if copied else rng.choice(n_tokens, p=laws[text[-1]])))
    return np.array(text[1:])


def draw_readings(seed: int, n_tokens: int = 13) -> tuple[MixtureText, MixtureText]:
    """A text to learn from and one held back; the last token of the vocabulary occurs in neither."""
    return tuple(
        MixtureText(draw_text(one, size), 0, n_tokens) for one, size in ((seed, 600), (seed + 1, 200))
    )
