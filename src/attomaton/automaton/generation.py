"""Text generation: draw the next token, append it to the context, and repeat.

Attention points at tokens of its context, so the text contains no token that the prompt does not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.scoring import PROBABILITY_TIE
from attomaton.base.tables import Float64, Int32
from attomaton.corpora.prompts import Names

MOST_GENERATED = 10_000_000
"""Maximum number of tokens generated at once: a few minutes."""

MOST_KEPT = 10_000_000
"""Maximum number of cached probabilities, over all rows."""


@dataclass(frozen=True, repr=False)
class Generation:
    """The text generated after a prompt.

    Attributes
    ----------
    prompt : tuple of int
        The ids of the prompt; words outside the vocabulary are numbered after it.
    tokens : tuple of int
        The ids of the generated tokens; each is one of the prompt's.
    no_evidence : int
        The number of draws without evidence: nothing is known about the token before them, so every position
        was equally likely (or, with finite scores, had its background score).
    unknown : tuple of str
        Words of the prompt that are not in the vocabulary.
    name : Names
        The text of each token id.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    no_evidence: int
    unknown: tuple[str, ...] = ()
    name: Names = field(default_factory=Names, compare=False)

    def __repr__(self) -> str:
        return (
            f"Generation({str(self)!r}, {len(self.tokens):,} tokens, {self.no_evidence:,} without evidence)"
        )

    def __str__(self) -> str:
        return self.name.join([*self.prompt, *self.tokens])

    @property
    def text(self) -> str:
        """The generated text, without the prompt."""
        return self.name.join(self.tokens)

    @property
    def words(self) -> tuple[str, ...]:
        """The text of each generated token."""
        return tuple(map(self.name, self.tokens))


class GrowingContext:
    """A context that grows by one token at a time; only the multiplicities of its tokens change.

    The probabilities of a context are m_j a_kj, with multiplicities m_j; a_kj depends only on the query k and
    the set of distinct tokens, so it is computed once for each. :func:`generate_by_definition` computes it at
    each step.
    """

    def __init__(
        self, prompt: Sequence[int], answer: Callable[[Int32], BatchPrediction], window: int | None
    ) -> None:
        self._context = list(prompt)
        self._answer, self._window = answer, window
        self._distinct: Int32 = np.unique(np.array(prompt, np.int32))
        self._index = {token: index for index, token in enumerate(self._distinct.tolist())}
        visible = self._context if window is None else self._context[-window:]
        indices = [self._index[token] for token in visible]
        self._counts = np.bincount(indices, minlength=len(self._distinct)).astype(np.float64)
        self._odds_of: dict[tuple[int, bytes], tuple[Float64, bool]] = {}

    def run(self, n: int, rng: np.random.Generator | None) -> tuple[tuple[int, ...], int]:
        """The next n tokens, drawn by ``rng`` or the most probable, and how many had no evidence."""
        first, no_evidence = len(self._context), 0
        for _ in range(n):
            odds, backed = self._odds(self._context[-1])
            chosen = choose(odds * self._counts, rng)
            no_evidence += backed
            self._append(int(self._distinct[chosen]), chosen)
        return tuple(self._context[first:]), no_evidence

    def _append(self, token: int, index: int) -> None:
        self._context.append(token)
        self._counts[index] += 1.0
        if self._window is not None and len(self._context) > self._window:
            self._counts[self._index[self._context[-self._window - 1]]] -= 1.0

    def _odds(self, query: int) -> tuple[Float64, bool]:
        """The probabilities if each distinct token occurred once, and whether they lack evidence."""
        present = self._counts > 0
        key = query, present.tobytes() if self._window is not None else b""
        if key not in self._odds_of:
            if len(self._odds_of) * len(present) > MOST_KEPT:
                self._odds_of.clear()
            before = self._distinct[present & (self._distinct != query)]
            answer = self._answer(np.append(before, np.int32(query)).astype(np.int32))
            odds = np.zeros(len(present))
            odds[np.searchsorted(self._distinct, answer.bags.token)] = answer.probabilities
            self._odds_of[key] = odds, bool(answer.no_evidence[0])
        return self._odds_of[key]


def choose(probabilities: Float64, rng: np.random.Generator | None) -> int:
    """An index drawn with these probabilities, or without ``rng`` the first most probable one."""
    if rng is None:
        return int(np.argmax(probabilities >= (1 - PROBABILITY_TIE) * probabilities.max()))
    below: Float64 = np.cumsum(probabilities)
    return int(np.searchsorted(below / below[-1], rng.random(), side="right"))
