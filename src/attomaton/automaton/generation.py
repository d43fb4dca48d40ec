"""Generate text: draw the next token, append it to the context, and repeat."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.scoring import PROBABILITY_TIE
from attomaton.base.tables import Float64, Int32
from attomaton.corpora.prompts import Names

MOST_GENERATED = 10_000_000  # tokens at once: a few minutes
MOST_CACHED_ODDS = 10_000_000  # over all queries of a generation


@dataclass(frozen=True, repr=False)
class Generation:
    """The text generated after a prompt; ``prompt`` and ``tokens`` are ids.

    ``no_evidence`` counts the tokens drawn without evidence about the token before them: every position was
    equally likely or, with finite scores, had its background score. ``unknown`` are the words of the prompt
    outside the vocabulary, whose ids follow those of the vocabulary. ``name`` gives the text of a token id.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    no_evidence: int
    unknown: tuple[str, ...] = ()
    name: Names = field(default_factory=Names, compare=False)

    def __repr__(self) -> str:
        counts = f"{len(self.tokens):,} tokens, {self.no_evidence:,} without evidence"
        return f"Generation({str(self)!r}, {counts})"

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
    """A context that grows token by token; its odds are computed once per query and set of tokens."""

    def __init__(
        self, prompt: Sequence[int], predict: Callable[[Int32], BatchPrediction], window: int | None
    ) -> None:
        self._context = list(prompt)
        self._predict = predict
        self._window = window
        # generated tokens are in the prompt: counts and odds have one entry for each of its distinct tokens
        self._distinct: Int32 = np.unique(np.array(prompt, np.int32))
        self._index = {token: index for index, token in enumerate(self._distinct.tolist())}
        visible = self._context if window is None else self._context[-window:]
        indices = [self._index[token] for token in visible]
        self._counts = np.bincount(indices, minlength=len(self._distinct)).astype(np.float64)
        # by query and set of tokens in the window: the odds, and whether there is no evidence
        self._odds_of: dict[tuple[int, bytes], tuple[Float64, bool]] = {}

    def run(self, n: int, rng: np.random.Generator | None) -> tuple[tuple[int, ...], int]:
        """Append ``n`` tokens, drawn by ``rng`` or the most probable; count those without evidence."""
        n_without_evidence = 0
        for _ in range(n):
            odds, lacks_evidence = self._odds(self._context[-1])
            n_without_evidence += lacks_evidence
            self._append(choose(odds * self._counts, rng))
        return tuple(self._context[len(self._context) - n :]), n_without_evidence

    def _append(self, index: int) -> None:
        # append a distinct token; with a window, the oldest token in it leaves the counts
        self._context.append(int(self._distinct[index]))
        self._counts[index] += 1.0
        if self._window is not None and len(self._context) > self._window:
            self._counts[self._index[self._context[-self._window - 1]]] -= 1.0

    def _odds(self, query: int) -> tuple[Float64, bool]:
        # the odds of each distinct token if it occurs once, and whether there is no evidence; from the cache
        present = self._counts > 0
        key = query, present.tobytes() if self._window is not None else b""
        if key not in self._odds_of:
            if len(self._odds_of) * len(present) > MOST_CACHED_ODDS:
                self._odds_of.clear()
            # a context that has each token once, the query last: its probabilities are the odds
            others = self._distinct[present & (self._distinct != query)]
            prediction = self._predict(np.append(others, np.int32(query)).astype(np.int32))
            odds = np.zeros(len(present))
            odds[np.searchsorted(self._distinct, prediction.bags.token)] = prediction.probabilities
            self._odds_of[key] = odds, bool(prediction.no_evidence[0])
        return self._odds_of[key]


def choose(probabilities: Float64, rng: np.random.Generator | None) -> int:
    """The index of a drawn entry, or without ``rng`` the most probable one, the lowest in a tie."""
    if rng is None:
        return int(np.argmax(probabilities >= (1 - PROBABILITY_TIE) * probabilities.max()))
    cumulative: Float64 = np.cumsum(probabilities)  # need not sum to 1
    return int(np.searchsorted(cumulative / cumulative[-1], rng.random(), side="right"))


def generate_by_definition(
    predict_proba: Callable[[list[int]], Float64],
    prompt: Sequence[int],
    n: int,
    rng: np.random.Generator | None,
    window: int | None = None,
) -> tuple[int, ...]:
    # predict, draw, append, n times: a slow reference implementation of `GrowingContext`, for tests
    context = list(prompt)
    for _ in range(n):
        context.append(choose(predict_proba(context if window is None else context[-window:]), rng))
    return tuple(context[len(prompt) :])
