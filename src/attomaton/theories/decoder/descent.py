"""Gradient descent of a softmax decoder, by definition: every step is taken, nothing is predicted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.options import real_number, whole_number
from attomaton.base.tables import Float64
from attomaton.theories.decoder.supports import Supports


@dataclass(frozen=True, eq=False, repr=False)
class DecoderTrace:
    """A decoder in training.

    Attributes
    ----------
    supports : Supports
        The training contexts and their next tokens.
    features : float64 array, shape (n_contexts, dim), optional
        h_j of each context; None means one-hot.
    step_size : float
        η.
    steps : tuple of int
        The recorded steps, ascending.
    weights : float64 array, shape (n_steps, n_tokens, dim)
        W at each of them; dim is the number of contexts if they are one-hot.
    excesses : float64 array, shape (n_steps,)
        CE − H at each.

    Examples
    --------
    >>> from attomaton.theories.decoder.supports import count_supports
    >>> trace = train_decoder(count_supports([[0, 1, 0, 2]], 1), [1, 10], 0.5)
    >>> trace, trace.excesses.round(4).tolist()
    (DecoderTrace(10 steps of size 0.5, 2 records), [0.5655, 0.2485])
    >>> trace.logits(-1)[0].round(3).tolist()  # of context 0
    [-0.744, 0.372, 0.372]
    """

    supports: Supports
    features: Float64 | None
    step_size: float
    steps: tuple[int, ...]
    weights: Float64
    excesses: Float64

    def __repr__(self) -> str:
        return (
            f"DecoderTrace({self.steps[-1]:,} steps of size {self.step_size:g}, {len(self.steps):,} records)"
        )

    def logits(self, record: int) -> Float64:
        """The logits of all contexts at a record, shape (n_contexts, n_tokens)."""
        return _logits(self.weights[record], self.features)


def train_decoder(
    supports: Supports, steps: Sequence[int], step_size: float = 1.0, *, features: object = None
) -> DecoderTrace:
    """Train a decoder by full-batch gradient descent on its mean cross-entropy, from W = 0.

    Parameters
    ----------
    supports : Supports
        The next tokens of each context.
    steps : sequence of int
        The steps to record, ascending; the last is the length of the run.
    step_size : float
        η.
    features : float array, shape (n_contexts, dim), optional
        h_j of each context; one-hot by default.

    Examples
    --------
    >>> from attomaton.theories.decoder.supports import count_supports
    >>> supports = count_supports([[0, 1, 0, 2]], 1)
    >>> train_decoder(supports, [100], features=[[1.0, 0.0], [1.0, 1.0]]).weights.shape
    (1, 3, 2)
    """
    records = tuple(whole_number(step, "a step", least=0) for step in steps)
    if not records or list(records) != sorted(set(records)):
        raise UnsupportedOption("the steps to record do not increase; give at least one, in ascending order")
    step_size = real_number(step_size, "step_size", above=0)
    table = None if features is None else check_features(features, len(supports))
    law = law_of(supports)
    weights = np.zeros((supports.n_tokens, len(supports) if table is None else table.shape[1]))
    rates, kept, now = step_size * supports.shares[:, None], list[Float64](), 0
    for step in records:
        for _ in range(step - now):
            pull = (rates * (law - softmax(_logits(weights, table), axis=1))).T
            weights = weights + (pull if table is None else pull @ table)
        kept.append(weights)
        now = step
    excesses = [find_excess(supports, _logits(one, table)) for one in kept]
    return DecoderTrace(supports, table, step_size, records, np.array(kept), np.array(excesses))


def check_features(features: object, n_rows: int, what: str = "contexts") -> Float64:
    """Check that features are a table of finite numbers with one row per context or label."""
    table = np.asarray(features)
    if table.ndim != 2 or table.dtype.kind not in "fiu" or not table.shape[1]:
        raise UnsupportedOption("features is not a table of numbers; give an array with one row each")
    if len(table) != n_rows:
        raise MismatchedParts(
            f"features has {len(table):,} rows, but there are {n_rows:,} {what}; give one row each"
        )
    table = table.astype(np.float64)
    if not np.isfinite(table).all():
        raise UnsupportedOption("features has values that are not finite; give finite ones")
    return table


def law_of(supports: Supports) -> Float64:
    """p_jz as a dense table, shape (n_contexts, n_tokens)."""
    law = np.zeros((len(supports), supports.n_tokens))
    law[supports.row, supports.tokens] = supports.probabilities
    return law


def find_excess(supports: Supports, logits: Float64) -> float:
    """CE − H of logits, shape (n_contexts, n_tokens): the mean over positions of Σ p ln(p/q)."""
    top = logits.max(axis=1)
    sums = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    logs = logits[supports.row, supports.tokens] - sums[supports.row]
    return float(supports.counts @ (np.log(supports.probabilities) - logs)) / supports.n_positions


def _logits(weights: Float64, features: Float64 | None) -> Float64:
    return weights.T if features is None else features @ weights.T
