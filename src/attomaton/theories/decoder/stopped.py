"""A decoder with one-hot contexts, stopped after some steps of gradient descent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.borders import check_ids, check_int64, check_lengths
from attomaton.base.errors import TokenOutOfRange
from attomaton.base.ragged import rows_of
from attomaton.base.tables import Float64, Int64
from attomaton.theories.decoder.course import Moment, follow, list_levels
from attomaton.theories.decoder.supports import Supports


@dataclass(frozen=True, eq=False, repr=False)
class StoppedDecoder:
    """Every context's logits at one step: inside its support, and one for all tokens outside.

    Attributes
    ----------
    supports : Supports
        What follows each context.
    moment : Moment
        The levels at that step.
    level : int64 array, shape (n_pairs,)
        The level of each pair.
    step_size : float
        η.

    Examples
    --------
    >>> import attomaton as at
    >>> stopped = at.learn_decoder([[0, 1, 0, 2, 0, 1, 0, 1]]).at(1000)
    >>> stopped, round(stopped.loss, 4), stopped.weights.shape
    (StoppedDecoder(step 1,000 of size 1), 0.3234, (3, 3))
    >>> stopped.column(0).round(3).tolist()
    [-3.943, 2.521, 1.421]
    >>> logs = stopped.log_chances(np.array([[0], [0], [2]]), np.array([1, 0, 2]))
    >>> np.exp(logs).round(4).tolist()  # of 1 and 0 after 0, and of 2 after 2
    [0.7494, 0.0012, 0.0024]
    """

    supports: Supports
    moment: Moment
    level: Int64
    step_size: float

    def __repr__(self) -> str:
        return f"StoppedDecoder(step {self.moment.step:,} of size {self.step_size:g})"

    @property
    def loss(self) -> float:
        """The mean cross-entropy, in nats by position."""
        return self.supports.entropy + self.moment.excess

    @property
    def inside(self) -> Float64:
        """The logit of each pair, shape (n_pairs,)."""
        return self.moment.logits[self.level]

    @property
    def outside(self) -> Float64:
        """The logit of all tokens outside each support, shape (n_contexts,)."""
        return self.moment.logits[self.moment.levels.offsets[1:] - 1]

    @property
    def weights(self) -> Float64:
        """W, a column for each context, shape (n_tokens, n_contexts)."""
        table = np.repeat(self.outside[None], self.supports.n_tokens, axis=0)
        table[self.supports.tokens, self.supports.row] = self.inside
        return table

    def column(self, number: int) -> Float64:
        """The logits of one context, by its number, shape (n_tokens,)."""
        pairs = self.supports.pairs_of(number)
        logits = np.full(self.supports.n_tokens, self.outside[number])
        logits[self.supports.tokens[pairs]] = self.moment.logits[self.level[pairs]]
        return logits

    def log_chances(self, contexts: Any, labels: Any) -> Float64:
        """The logarithms of the chances of labels after contexts of token ids, shape (n,).

        Parameters
        ----------
        contexts : int array, shape (n, width)
            A context that never occurs gives every token the chance 1/V.
        labels : int array, shape (n,)
            One next token each.
        """
        held = self.supports
        wanted = check_int64(labels, "labels")
        width = held.contexts.shape[1]
        given = check_int64(np.ravel(contexts), "contexts").reshape(-1, width)
        check_lengths("contexts and labels", contexts=given, labels=wanted)
        check_ids(wanted, held.n_tokens, "a label", error=TokenOutOfRange)
        number, known = held.number_all(given)
        keys = held.row * held.n_tokens + held.tokens
        asked = number * held.n_tokens + wanted
        place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        logits = np.where(keys[place] == asked, self.inside[place], self.outside[number])
        return np.where(known, logits - self._log_sums[number], -np.log(held.n_tokens))

    @property
    def _log_sums(self) -> Float64:
        levels, logits = self.moment.levels, self.moment.logits
        starts = levels.offsets[:-1]
        top = np.maximum.reduceat(logits, starts)
        raised = levels.tokens * np.exp(logits - top[rows_of(levels.offsets)])
        return top + np.log(np.add.reduceat(raised, starts))


def follow_decoder(supports: Supports, steps: Sequence[int], step_size: float) -> Iterator[StoppedDecoder]:
    """All contexts after each of these rising steps."""
    levels, level = list_levels(supports)
    for moment in follow(levels, steps, step_size):
        yield StoppedDecoder(supports, moment, level, step_size)


def logits_of(supports: Supports, number: int, step: int, step_size: float) -> Float64:
    """The logits of one context after so many steps, without the others, shape (n_tokens,)."""
    levels, level = list_levels(supports, number)
    (moment,) = follow(levels, [step], step_size)
    logits = np.full(supports.n_tokens, moment.logits[-1])
    logits[supports.tokens[supports.pairs_of(number)]] = moment.logits[level]
    return logits
