"""A text to be judged: every token is a label, with its preceding tokens as context."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.tables import Int64
from attomaton.corpora import Samples

VALUES_AT_ONCE = 1 << 22
"""Tokens of contexts that are processed at once."""


@dataclass(frozen=True, eq=False)
class MixtureText:
    """A text whose every token is to be predicted.

    Attributes
    ----------
    text : int64 array, shape (n,)
        Token ids.
    before : int
        The token that precedes the text, repeated as often as a context needs.

    Examples
    --------
    >>> reading = MixtureText(np.array([1, 2, 1]), before=0, n_tokens=3)
    >>> reading.contexts(2).tolist()
    [[0, 0], [0, 1], [1, 2]]
    >>> [list(samples) for samples in reading.samples(2)]
    [[Sample(context=(0,), label=1), Sample(context=(0, 1), label=2), Sample(context=(1, 2), label=1)]]
    >>> len(reading), len(reading.all_samples(2)), reading.stream.tolist()
    (3, 3, [0, 1, 2, 1])
    """

    text: Int64
    before: int
    n_tokens: int

    def __len__(self) -> int:
        return len(self.text)

    @cached_property
    def stream(self) -> Int64:
        """The text with the token before it, shape (n + 1,)."""
        return np.concatenate([[self.before], self.text])

    def contexts(self, width: int) -> Int64:
        """The ``width`` tokens before each token, shape (n, width)."""
        padded = np.concatenate([np.full(width, self.before), self.text])
        indices = np.arange(len(self))[:, None] + np.arange(width)
        return padded[indices]

    def samples(self, window: int) -> Iterator[Samples]:
        """Each token with up to ``window`` tokens before it, in chunks that fit in memory."""
        yield from self.all_samples(window).chunks(VALUES_AT_ONCE)

    def all_samples(self, window: int) -> Samples:
        """The same as one object."""
        return Samples.from_windows(self.stream, window=window, n_tokens=self.n_tokens)
