"""Compute the weights of a deep model beyond the first steps from tables of its corpus, without training.

The theorem's forecast is the first order of each weight, with uniform attention and all next tokens equally
likely. It ends when the decoder has learned bigrams: the residual is then no longer R = Y − 1/V. Here the
residual of a position t with current token x is expanded to first order around the prediction from x alone,

    p_t ≈ p_x + (s_t − M̂_x) Ω J̄,    p_x = softmax(W_O[x] + M̂_x Ω),    Ω = (Σ_l V_l) W_O,

with s_t the smoothed context A₀X at t, M̂_x its mean where the current token is x, and J̄ the mean Jacobian
of the softmax. Earlier layers affect a layer at second order, hᴸ ≈ X + A₀X ΣV + A₀²X Σ_{k<l} V_k V_l. So
every gradient consists of tables of pairs of tokens, and of lookups in them by pairs of positions. A step
costs O(V³ + N T³) per layer, a training step O(N T V²).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from scipy.special import softmax

from attomaton.base.errors import InvalidSamples, UnknownToken
from attomaton.base.options import real_number, whole_number
from attomaton.base.printing import Block, Grid, Printed
from attomaton.base.tables import Bool, Float64, Int64, Integers

# Number of positions whose smoothed contexts are in memory at once.
POSITIONS_IN_MEMORY = 4_096


@dataclass(frozen=True, eq=False)
class CourseWeights:
    """The forecast weights at one step.

    ``attention`` is W of each layer, query × key, shape (n_layers, n_tokens, n_tokens). ``positions`` is P of
    each layer, by lag, shape (n_layers, window). ``values`` is V of each layer, token read × token written,
    with the shape of W. ``output`` is W_O, token × next token.
    """

    attention: Float64
    positions: Float64
    values: Float64
    output: Float64


@dataclass(frozen=True, eq=False, repr=False)
class ForecastCourse(Printed):
    """The forecast ``weights`` after each of the ``steps``, shape (n_records,), of size ``step_size``."""

    steps: Int64
    step_size: float
    weights: tuple[CourseWeights, ...]

    def __repr__(self) -> str:
        layers = len(self.weights[0].attention)
        size = f"step {self.steps[-1]:,} of size {self.step_size:g}"
        return f"Course({len(self.steps):,} records to {size}, {layers:,} layers)"

    def at(self, step: int) -> CourseWeights:
        """The weights after a recorded ``step``."""
        steps: list[int] = self.steps.tolist()
        if step not in steps:
            raise UnknownToken(f"step {step} was not recorded; course.steps lists the records")
        return self.weights[steps.index(step)]

    def _blocks(self) -> list[Block]:
        last = self.weights[-1]
        rows = [
            [f"{layer + 1}", f"{np.linalg.norm(attention):.3g}", f"{np.linalg.norm(values):.3g}"]
            for layer, (attention, values) in enumerate(zip(last.attention, last.values, strict=True))
        ]
        return [repr(self), Grid("Norms at the end", ["layer", "W", "V"], rows)]


def follow_course(
    sequences: Integers, n_tokens: int, *, step_size: float, steps: int, n_layers: int = 1, every: int = 1
) -> ForecastCourse:
    """Compute the weights of a deep model under plain gradient descent from zero, without training it.

    ``sequences`` are rows of window + 1 token ids below ``n_tokens``. The model has ``n_layers`` layers and
    is followed for ``steps`` steps of size ``step_size``, with a record of the weights every ``every`` steps.

    Examples
    --------
    >>> corpus = np.random.default_rng(0).integers(0, 5, (30, 9))
    >>> follow_course(corpus, 5, step_size=1.0, steps=30, n_layers=2)
    Course(31 records to step 30 of size 1, 2 layers)
    """
    step_size, steps = real_number(step_size, "step_size", above=0), whole_number(steps, "steps")
    n_layers, every = whole_number(n_layers, "n_layers", least=1), whole_number(every, "every", least=1)
    corpus = _check_sequences(sequences, whole_number(n_tokens, "n_tokens", least=1))
    square = (n_layers, corpus.n_tokens, corpus.n_tokens)
    zeros = (np.zeros(square), np.zeros((n_layers, corpus.window)), np.zeros(square), np.zeros(square[1:]))
    weights = CourseWeights(*zeros)
    recorded, records = [0], [weights]
    for step in range(1, steps + 1):
        changes = _find_changes(corpus, weights)
        weights = CourseWeights(
            *(
                getattr(weights, name) + step_size * getattr(changes, name)
                for name in ("attention", "positions", "values", "output")
            )
        )
        if step % every == 0 or step == steps:
            recorded.append(step)
            records.append(weights)
    return ForecastCourse(np.array(recorded, np.int64), step_size, tuple(records))


@dataclass(frozen=True, eq=False)
class _Corpus:
    """Tokens and next tokens at each position, shape (n, t), and lookups by pairs of positions, (n, t, t)."""

    tokens: Int64
    labels: Int64
    n_tokens: int

    @property
    def window(self) -> int:
        return self.tokens.shape[1]

    @cached_property
    def uniform(self) -> Float64:
        return np.tril(np.ones((self.window, self.window))) / np.arange(1, self.window + 1)[:, None]

    @cached_property
    def causal(self) -> Bool:
        return np.tril(np.ones((self.window, self.window), bool))

    @cached_property
    def lags(self) -> Int64:
        """The lag of a key before the query; 0 for later keys, which are masked."""
        positions = np.arange(self.window)
        return np.maximum(positions[:, None] - positions, 0)

    @cached_property
    def pairs(self) -> Int64:
        """The key of (token at t, token at u)."""
        return self.tokens[:, :, None] * self.n_tokens + self.tokens[:, None, :]

    @cached_property
    def next_pairs(self) -> Int64:
        """The key of (next token of t, token at u)."""
        return self.labels[:, :, None] * self.n_tokens + self.tokens[:, None, :]

    @cached_property
    def tables(self) -> "_Tables":
        """The tables, summed over batches of sequences."""
        size, eye = self.n_tokens, np.eye(self.n_tokens)
        counts = np.zeros((size, size))
        nexts, currents, moments = (np.zeros((n_tables, size, size)) for n_tables in (2, 2, 3))
        batch = max(POSITIONS_IN_MEMORY // self.window, 1)
        for first in range(0, len(self.tokens), batch):
            tokens, labels = (eye[ids[first : first + batch]] for ids in (self.tokens, self.labels))
            smoothed = self.uniform @ tokens
            x, y, s, s2 = (
                values.reshape(-1, size) for values in (tokens, labels, smoothed, self.uniform @ smoothed)
            )
            counts += x.T @ y / self.tokens.size
            nexts += [s.T @ y / self.tokens.size, s2.T @ y / self.tokens.size]
            currents += [s.T @ x / self.tokens.size, s2.T @ x / self.tokens.size]
            moments += [left.T @ right / self.tokens.size for left, right in ((s, s), (s, s2), (s2, s2))]
        shares = counts.sum(axis=1)
        means = currents / np.where(shares > 0, shares, 1.0)
        spread = [
            moments[0] - means[0] @ currents[0].T,
            moments[1] - means[0] @ currents[1].T,
            moments[2] - means[1] @ currents[1].T,
        ]
        return _Tables(counts, nexts, currents, np.stack(spread))

    def look_up(self, table: Float64) -> Float64:
        """X table Xᵀ of every sequence."""
        return table.ravel()[self.pairs]

    def mean_by_pair(self, values: Float64) -> Float64:
        """The mean over positions of Xᵀ values X: values of pairs of positions, summed by pair of tokens."""
        size = self.n_tokens
        summed = np.bincount(self.pairs.ravel(), values.ravel(), size * size)
        return summed.reshape(size, size) / self.tokens.size


@dataclass(frozen=True, eq=False)
class _Tables:
    """Means over all positions, by pairs of tokens, with s = A₀X and s' = A₀²X.

    ``counts`` = XᵀY, ``nexts`` = (sᵀY, s'ᵀY), ``currents`` = (sᵀX, s'ᵀX) and ``spread`` = (dsᵀds, dsᵀds',
    ds'ᵀds'), with ds and ds' the deviations from the mean at positions with the same current token.
    """

    counts: Float64
    nexts: Float64
    currents: Float64
    spread: Float64

    @cached_property
    def shares(self) -> Float64:
        return self.counts.sum(axis=1)

    @cached_property
    def means(self) -> tuple[Float64, Float64]:
        """M̂ and M̂': the mean of s and s' over positions of each current token."""
        share = np.where(self.shares > 0, self.shares, 1.0)
        return self.currents[0].T / share[:, None], self.currents[1].T / share[:, None]


def _check_sequences(sequences: Integers, n_tokens: int) -> _Corpus:
    table = np.asarray(sequences)
    is_table = np.issubdtype(table.dtype, np.integer) and table.ndim == 2 and len(table) > 0
    if not is_table or table.shape[1] < 2 or table.min() < 0 or table.max() >= n_tokens:
        raise InvalidSamples(
            f"sequences must be whole numbers from 0 to {n_tokens - 1}, shape (n_sequences, window + 1)"
        )
    ids = table.astype(np.int64)
    return _Corpus(ids[:, :-1], ids[:, 1:], n_tokens)


@dataclass(frozen=True, eq=False)
class _Residual:
    """R = Y − p, to first order around the predictions p_x (``probabilities``) from the current token."""

    corpus: _Corpus
    probabilities: Float64
    omega: Float64
    omega_twice: Float64
    jacobian: Float64

    @cached_property
    def derivatives(self) -> tuple[Float64, Float64]:
        return self.omega @ self.jacobian, self.omega_twice @ self.jacobian

    def over_tokens(self) -> Float64:
        tables = self.corpus.tables
        return tables.counts - tables.shares[:, None] * self.probabilities

    def over_contexts(self) -> tuple[Float64, Float64]:
        """sᵀR and s'ᵀR."""
        tables, (by_s, by_s2) = self.corpus.tables, self.derivatives
        s_s, s_s2, s2_s2 = tables.spread
        around_mean = [tables.nexts[order] - tables.currents[order] @ self.probabilities for order in (0, 1)]
        return (
            around_mean[0] - s_s @ by_s - s_s2 @ by_s2,
            around_mean[1] - s_s2.T @ by_s - s2_s2 @ by_s2,
        )

    def look_up(self, table: Float64) -> Float64:
        """R table Xᵀ of every sequence, for a table of next token × token."""
        corpus, uniform, means = self.corpus, self.corpus.uniform, self.corpus.tables.means
        by_s = self.derivatives[0] @ table
        by_token = self.probabilities @ table - means[0] @ by_s
        values = table.ravel()[corpus.next_pairs] - uniform @ corpus.look_up(by_s)
        if self.omega_twice.any():
            by_s2 = self.derivatives[1] @ table
            by_token = by_token - means[1] @ by_s2
            values = values - uniform @ uniform @ corpus.look_up(by_s2)
        return values - corpus.look_up(by_token)


def _find_changes(corpus: _Corpus, weights: CourseWeights) -> CourseWeights:
    """The change of each weight in a step of size 1: minus the gradient, to the computed order."""
    values, output = weights.values, weights.output
    # for each layer, the sums of the values of earlier and of later layers
    before = np.stack([np.zeros_like(output), *accumulate(values[:-1])])
    total = values.sum(axis=0)
    after = total - before - values
    pairs = np.einsum("lij,ljk->ik", before, values, optimize=True)  # Σ V_k V_l over layers k < l
    means, shares = corpus.tables.means, corpus.tables.shares
    omega, omega_twice = total @ output, pairs @ output
    probabilities = softmax(output + means[0] @ omega + means[1] @ omega_twice, axis=-1)
    jacobian = np.diag(shares @ probabilities) - (probabilities * shares[:, None]).T @ probabilities
    residual = _Residual(corpus, probabilities, omega, omega_twice, jacobian)
    from_s, from_s2 = residual.over_contexts()
    direct, through_two = from_s @ output.T, from_s2 @ output.T
    value_changes = [
        direct + earlier.T @ through_two + through_two @ later.T
        for earlier, later in zip(before, after, strict=True)
    ]
    attention_changes = [
        _find_attention_change(residual, weights, layer, before[layer], after[layer])
        for layer in range(len(values))
    ]
    return CourseWeights(
        np.stack([attention for attention, _ in attention_changes]),
        np.stack([positions for _, positions in attention_changes]),
        np.stack(value_changes),
        residual.over_tokens() + total.T @ from_s + pairs.T @ from_s2,
    )


def _find_attention_change(
    residual: _Residual, weights: CourseWeights, layer: int, before: Float64, after: Float64
) -> tuple[Float64, Float64]:
    """The changes of W and P of a layer; ``before`` and ``after`` are the sums of other layers' values."""
    corpus, uniform = residual.corpus, residual.corpus.uniform
    value, table = weights.values[layer], weights.attention[layer]
    readout = weights.output.T @ value.T
    gain = residual.look_up(readout)  # by attending from one position to another
    scores = corpus.look_up(table) + weights.positions[layer][corpus.lags]
    if after.any():
        gain = gain + uniform.T @ residual.look_up(weights.output.T @ after.T @ value.T)
    if before.any():
        gain = gain + residual.look_up(readout @ before.T) @ uniform.T
        scores = (
            scores + uniform @ corpus.look_up(before @ table) + corpus.look_up(table @ before.T) @ uniform.T
        )
    attention = softmax(np.where(corpus.causal, scores, -np.inf), axis=-1)
    score_change = attention * (gain - (attention * gain).sum(axis=2, keepdims=True))
    change = corpus.mean_by_pair(score_change)
    if before.any():
        change = (
            change
            + before.T @ corpus.mean_by_pair(uniform.T @ score_change)
            + corpus.mean_by_pair(score_change @ uniform) @ before
        )
    by_lag = np.bincount(corpus.lags[corpus.causal], score_change.sum(axis=0)[corpus.causal], corpus.window)
    return change, by_lag / corpus.tokens.size
