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
from attomaton.base.printing import Block, Grid, Printed, count_noun
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
        records = count_noun(len(self.steps), "record")
        layers = count_noun(len(self.weights[0].attention), "layer")
        return f"Course({records} to step {self.steps[-1]:,} of size {self.step_size:g}, {layers})"

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
    step_size = real_number(step_size, "step_size", above=0)
    steps = whole_number(steps, "steps")
    n_layers = whole_number(n_layers, "n_layers", least=1)
    every = whole_number(every, "every", least=1)
    corpus = _check_sequences(sequences, whole_number(n_tokens, "n_tokens", least=1))
    table = np.zeros((n_layers, corpus.n_tokens, corpus.n_tokens))
    by_lag = np.zeros((n_layers, corpus.window))
    weights = CourseWeights(table, by_lag, values=table.copy(), output=table[0].copy())
    records = {0: weights}
    for step in range(1, steps + 1):
        weights = _take_step(corpus, weights, step_size)
        if step % every == 0 or step == steps:
            records[step] = weights
    return ForecastCourse(np.array(list(records), np.int64), step_size, tuple(records.values()))


@dataclass(frozen=True, eq=False)
class _Corpus:
    """A corpus as sequences, with tables by pairs of tokens and lookups in them by pairs of positions."""

    # An array by pairs of positions has the shape (n, window, window): sequence, query t, key u.

    tokens: Int64  # X as ids, shape (n, window)
    labels: Int64  # Y as ids: the token after each position, shape (n, window)
    n_tokens: int  # V

    @property
    def window(self) -> int:
        return self.tokens.shape[1]

    @cached_property
    def uniform(self) -> Float64:
        """A₀: uniform attention to all positions up to each one, shape (window, window)."""
        return np.tril(np.ones((self.window, self.window))) / np.arange(1, self.window + 1)[:, None]

    @cached_property
    def causal(self) -> Bool:
        # whether a key is not after its query, shape (window, window)
        return np.tril(np.ones((self.window, self.window), bool))

    @cached_property
    def lags(self) -> Int64:
        # the lag of each key (column) before each query (row); 0 for later keys, which are masked
        positions = np.arange(self.window)
        return np.maximum(positions[:, None] - positions, 0)

    @cached_property
    def pairs(self) -> Int64:
        """V · token at t + token at u, for each pair of positions t, u: an index into a flat table."""
        return self.tokens[:, :, None] * self.n_tokens + self.tokens[:, None, :]

    @cached_property
    def next_pairs(self) -> Int64:
        """V · next token of t + token at u, for each pair of positions."""
        return self.labels[:, :, None] * self.n_tokens + self.tokens[:, None, :]

    @cached_property
    def tables(self) -> "_Tables":
        # the tables, summed over batches of sequences
        size = self.n_tokens
        one_hot = np.eye(size)
        n_positions = self.tokens.size
        counts = np.zeros((size, size))
        nexts, currents, moments = (np.zeros((n_tables, size, size)) for n_tables in (2, 2, 3))
        batch = max(POSITIONS_IN_MEMORY // self.window, 1)
        for first in range(0, len(self.tokens), batch):
            tokens, labels = (one_hot[ids[first : first + batch]] for ids in (self.tokens, self.labels))
            smoothed = self.uniform @ tokens
            # as rows of all positions: x current token, y next token, s = A₀X and s2 = A₀²X
            x, y, s, s2 = (
                values.reshape(-1, size) for values in (tokens, labels, smoothed, self.uniform @ smoothed)
            )
            counts += x.T @ y / n_positions
            nexts += [s.T @ y / n_positions, s2.T @ y / n_positions]
            currents += [s.T @ x / n_positions, s2.T @ x / n_positions]
            moments += [s.T @ s / n_positions, s.T @ s2 / n_positions, s2.T @ s2 / n_positions]
        # Σ ds dsᵀ = Σ s sᵀ − Σ_x (mean of s at x) (sum of s at x)ᵀ, over positions with current token x
        shares = counts.sum(axis=1)
        means = currents / np.where(shares > 0, shares, 1.0)
        spread = [
            moments[0] - means[0] @ currents[0].T,
            moments[1] - means[0] @ currents[1].T,
            moments[2] - means[1] @ currents[1].T,
        ]
        return _Tables(counts, nexts, currents, np.stack(spread))

    def look_up(self, table: Float64) -> Float64:
        """X table Xᵀ by pairs of positions: the entry of the table for each pair of their tokens."""
        return table.ravel()[self.pairs]

    def mean_by_pair(self, values: Float64) -> Float64:
        """Xᵀ values X, a mean over positions: values by pairs of positions, summed by pairs of tokens."""
        size = self.n_tokens
        summed = np.bincount(self.pairs.ravel(), values.ravel(), size * size)
        return summed.reshape(size, size) / self.tokens.size


@dataclass(frozen=True, eq=False)
class _Tables:
    """Means over all positions, by pairs of tokens, with s = A₀X and s' = A₀²X."""

    counts: Float64  # XᵀY, shape (V, V)
    nexts: Float64  # sᵀY and s'ᵀY, shape (2, V, V)
    currents: Float64  # sᵀX and s'ᵀX
    spread: Float64  # dsᵀds, dsᵀds' and ds'ᵀds', with ds and ds' the deviations from the means below

    @cached_property
    def shares(self) -> Float64:
        # the share of the positions with each current token
        return self.counts.sum(axis=1)

    @cached_property
    def means(self) -> tuple[Float64, Float64]:
        """M̂ and M̂': the mean of s and s' over positions of each current token."""
        share = np.where(self.shares > 0, self.shares, 1.0)
        return self.currents[0].T / share[:, None], self.currents[1].T / share[:, None]


def _check_sequences(sequences: Integers, n_tokens: int) -> _Corpus:
    # rows of window + 1 ids: each token but the last is a current token, each but the first a next token
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
    """R = Y − p, with p_t ≈ p_x + (s_t − M̂_x) Ω J̄ + (s'_t − M̂'_x) Ω' J̄ at a position t of current token x."""

    corpus: _Corpus
    probabilities: Float64  # p_x, current × next token
    omega: Float64  # Ω, smoothed × next token: the logits by one layer
    omega_twice: Float64  # Ω' = (Σ_{k<l} V_k V_l) W_O: the logits by two layers
    jacobian: Float64  # J̄, next × next token

    @cached_property
    def derivatives(self) -> tuple[Float64, Float64]:
        """Ω J̄ and Ω' J̄: the change of p by s and by s'."""
        return self.omega @ self.jacobian, self.omega_twice @ self.jacobian

    def over_tokens(self) -> Float64:
        """XᵀR, a mean over all positions."""
        tables = self.corpus.tables
        return tables.counts - tables.shares[:, None] * self.probabilities

    def over_contexts(self) -> tuple[Float64, Float64]:
        # sᵀR and s'ᵀR, means over all positions
        tables = self.corpus.tables
        by_s, by_s2 = self.derivatives
        s_s, s_s2, s2_s2 = tables.spread
        around_mean = [tables.nexts[order] - tables.currents[order] @ self.probabilities for order in (0, 1)]
        from_s = around_mean[0] - s_s @ by_s - s_s2 @ by_s2
        from_s2 = around_mean[1] - s_s2.T @ by_s - s2_s2 @ by_s2
        return from_s, from_s2

    def look_up(self, table: Float64) -> Float64:
        """R table Xᵀ by pairs of positions, for a table of next token × token."""
        corpus = self.corpus
        uniform = corpus.uniform
        means = corpus.tables.means
        by_s = self.derivatives[0] @ table
        by_token = self.probabilities @ table - means[0] @ by_s
        values = table.ravel()[corpus.next_pairs] - uniform @ corpus.look_up(by_s)
        if self.omega_twice.any():
            by_s2 = self.derivatives[1] @ table
            by_token = by_token - means[1] @ by_s2
            values = values - uniform @ uniform @ corpus.look_up(by_s2)
        return values - corpus.look_up(by_token)


# The weights after a step: each changes by −∂L, to the computed order, times the step size.
def _take_step(corpus: _Corpus, weights: CourseWeights, step_size: float) -> CourseWeights:
    values = weights.values
    output = weights.output
    # for each layer, the sums of the values of earlier and of later layers
    before = np.stack([np.zeros_like(output), *accumulate(values[:-1])])
    total = values.sum(axis=0)
    after = total - before - values
    pairs = np.einsum("lij,ljk->ik", before, values, optimize=True)  # Σ V_k V_l over layers k < l
    shares = corpus.tables.shares  # of the current tokens x
    means = corpus.tables.means
    omega = total @ output
    omega_twice = pairs @ output
    probabilities = softmax(output + means[0] @ omega + means[1] @ omega_twice, axis=-1)  # p_x
    # J̄ = Σ_x share_x (diag p_x − p_x p_xᵀ)
    jacobian = np.diag(shares @ probabilities) - (probabilities * shares[:, None]).T @ probabilities
    residual = _Residual(corpus, probabilities, omega, omega_twice, jacobian)
    from_s, from_s2 = residual.over_contexts()
    # −∂L/∂V_l = sᵀR W_Oᵀ, and with two layers (Σ_{k<l} V_k)ᵀ s'ᵀR W_Oᵀ + s'ᵀR W_Oᵀ (Σ_{k>l} V_k)ᵀ
    direct, through_two = from_s @ output.T, from_s2 @ output.T
    value_changes = [
        direct + earlier.T @ through_two + through_two @ later.T
        for earlier, later in zip(before, after, strict=True)
    ]
    attention_changes = [
        _find_attention_change(residual, weights, layer, before[layer], after[layer])
        for layer in range(len(values))
    ]
    output_change = residual.over_tokens() + total.T @ from_s + pairs.T @ from_s2
    return CourseWeights(
        attention=weights.attention + step_size * np.stack([change for change, _ in attention_changes]),
        positions=weights.positions + step_size * np.stack([by_lag for _, by_lag in attention_changes]),
        values=values + step_size * np.stack(value_changes),
        output=output + step_size * output_change,
    )


# The changes of W and P of a layer; ``before`` and ``after`` are the sums of other layers' values.
def _find_attention_change(
    residual: _Residual, weights: CourseWeights, layer: int, before: Float64, after: Float64
) -> tuple[Float64, Float64]:
    corpus = residual.corpus
    uniform = corpus.uniform
    value = weights.values[layer]
    table = weights.attention[layer]
    readout = weights.output.T @ value.T  # next token × attended token
    gain = residual.look_up(readout)  # −∂L/∂A by pairs of positions: the gain of attending from t to u
    # the layer reads h ≈ X + A₀X Σ_{k<l} V_k, and later layers pass its output on by A₀ Σ_{k>l} V_k
    scores = corpus.look_up(table) + weights.positions[layer][corpus.lags]
    if after.any():
        gain = gain + uniform.T @ residual.look_up(weights.output.T @ after.T @ value.T)
    if before.any():
        gain = gain + residual.look_up(readout @ before.T) @ uniform.T
        scores = scores + uniform @ corpus.look_up(before @ table)
        scores = scores + corpus.look_up(table @ before.T) @ uniform.T
    attention = softmax(np.where(corpus.causal, scores, -np.inf), axis=-1)
    # −∂L/∂score = A ∘ (gain − A·gain)
    score_change = attention * (gain - (attention * gain).sum(axis=2, keepdims=True))
    change = corpus.mean_by_pair(score_change)
    if before.any():
        change = change + before.T @ corpus.mean_by_pair(uniform.T @ score_change)
        change = change + corpus.mean_by_pair(score_change @ uniform) @ before
    by_lag = np.bincount(corpus.lags[corpus.causal], score_change.sum(axis=0)[corpus.causal], corpus.window)
    return change, by_lag / corpus.tokens.size
