"""Training dynamics: one layer of attention under gradient flow on infinitely long sequences.

With attention c_n of class n, c_{l|n} ∝ P(l|n) e^{z_{ψ(n) l}}, and g_n = −∂L/∂c_n of the head
(:mod:`~attomaton.theories.scansnap.heads`), the scores z_m of query m follow

    ż_m = η_Z Σ_{n: ψ(n) = m} π_n c_n ∘ (g_n − c_n·g_n),

where π_n is the share of class n, ψ(n) its query, and P(l|n) the law of the tokens l before the query. The
default is the second paper's head, with f_n = c_n/‖c_n‖, the one-hot next token x_n, and a learned decoder Y,

    Ẏ   = η_Y Σ_n π_n f_n (x_n − α_n)ᵀ,            α_n = softmax(Yᵀ f_n)
    ż_m = η_Z Σ_{n: ψ(n) = m} π_n diag(f_n) (I − f_n f_nᵀ) Y (x_n − α_n)

from Y = Z = 0 (Equations 4 and 5 of the paper). The growth factor of class n follows Ḃ_n = ż_l / f_{nl}²,
with l the most probable distinct token of the class; without any it is NaN. Only rows of tokens that precede
a query ever move, and all columns of tokens that are never a label are equal, so one column is stored for
them. :func:`solve_flow` integrates :class:`FlowEquation` from 0, and returns a :class:`LayerFlow`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attomaton.base.errors import InvalidSamples, UncertifiedSolution, UnsupportedOption
from attomaton.base.options import real_number
from attomaton.base.tables import Float64, Int64
from attomaton.theories.scansnap.classes import CorpusClasses
from attomaton.theories.scansnap.heads import DecoderHead, LearnedHead, MassHead
from attomaton.theories.scansnap.law import Rates
from attomaton.theories.scansnap.reduced import ReducedCorpus

LEARNED = LearnedHead()

# Maximum size of the state: stiff steps need a square matrix of this size.
MAX_STATE = 20_000


def integrate_flow(
    slope: Callable[[Float64], Float64],
    size: int,
    times: ArrayLike,
    *,
    rtol: float,
    atol: float,
    most_slopes: int | None = None,
) -> Float64:
    """Solve ẋ = slope(x), x(0) = 0, by scipy's LSODA; return x at ascending times, shape (n_times, size)."""
    from scipy.integrate import solve_ivp

    if size > MAX_STATE:
        raise UnsupportedOption(
            f"Y and Z have {size:,} entries, more than the {MAX_STATE:,} that can be integrated; use fewer "
            "tokens, labels or queries"
        )
    grid = np.asarray(times, np.float64)
    n_slopes = count(1)

    def slope_at(_: float, state: Float64) -> Float64:
        if most_slopes is not None and next(n_slopes) > most_slopes:
            raise UncertifiedSolution(
                f"the flow did not reach t = {grid[-1]:g} in {most_slopes:,} evaluations; use learning rates "
                "whose ratio is nearer to 1"
            )
        return slope(state)

    span = (0.0, float(grid[-1]))
    solution: Any = solve_ivp(slope_at, span, np.zeros(size), "LSODA", grid, rtol=rtol, atol=atol)
    if not solution.success:
        raise UncertifiedSolution(f"the flow could not be integrated to t = {grid[-1]:g}: {solution.message}")
    return solution.y.T


class LayerSlope(NamedTuple):
    """The time derivatives of Y and Z, and the attention at which they were computed."""

    decoder: Float64  # Ẏ, with the shape of Y
    scores: Float64  # Ż, shape (n_queries, n_keys)
    attention: Float64  # c_n, shape (n_classes, n_keys)


def find_slope(
    reduced: ReducedCorpus, head: DecoderHead, rates: Rates, decoder: Float64, scores: Float64
) -> LayerSlope:
    """Compute Ẏ and Ż at Y (``decoder``) and Z (``scores``) by the equations above."""
    attention = reduced.attention(scores)
    of_head = head.slope(reduced, attention, decoder)
    centred_gain = of_head.gain - (attention * of_head.gain).sum(axis=1, keepdims=True)  # g_n − c_n·g_n
    score_slope = reduced.sum_by_query(reduced.classes.shares[:, None] * attention * centred_gain)
    return LayerSlope(rates.decoder * of_head.decoder, rates.attention * score_slope, attention)


@dataclass(frozen=True, eq=False)
class FlowEquation:
    """The differential equation of the state: Y, Z and B, flattened into one vector in this order."""

    reduced: ReducedCorpus
    head: DecoderHead
    rates: Rates
    followed: Int64  # the classes whose B is in the state, shape (n_followed,)
    leading: Int64  # the column, among the keys, of the most probable distinct token of each of these

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        # of Y and Z; Y has no columns if the head trains no decoder
        decoder, scores = self.reduced.shapes
        return decoder if self.head.trains_decoder else (decoder[0], 0), scores

    @property
    def size(self) -> int:
        return sum(rows * columns for rows, columns in self.shapes) + len(self.followed)

    def split(self, states: Float64) -> tuple[Float64, Float64, Float64]:
        """Y, Z and B of one state or of several, shape (..., size)."""
        (n_keys, n_columns), (n_queries, _) = self.shapes
        borders = np.cumsum([n_keys * n_columns, n_queries * n_keys])
        decoder, scores, growth = np.split(states, borders, axis=-1)
        before = states.shape[:-1]
        return decoder.reshape(*before, n_keys, n_columns), scores.reshape(*before, n_queries, n_keys), growth

    def slope(self, state: Float64) -> Float64:
        """The time derivative of one state, shape (size,)."""
        decoder, scores, _ = self.split(state)
        slope = find_slope(self.reduced, self.head, self.rates, decoder, scores)
        queries = self.reduced.query_index[self.followed]
        attention = slope.attention[self.followed]
        # Ḃ_n = ż_l / f_{nl}² with f_n = c_n/‖c_n‖, so Ḃ_n = ż_l ‖c_n‖² / c_{nl}², l the leading token
        squared_norm = (attention**2).sum(axis=1)
        on_leading = attention[np.arange(len(attention)), self.leading]
        growth_slope = slope.scores[queries, self.leading] * squared_norm / on_leading**2
        return np.concatenate([slope.decoder.ravel(), slope.scores.ravel(), growth_slope])


@dataclass(frozen=True, eq=False, repr=False)
class LayerFlow:
    """One layer of attention along its flow, at the recorded ``times``, shape (n_times,).

    The corpus is ``reduced`` to the tokens in use; ``rates`` are the learning rates, and ``head`` reads
    attention. ``decoder`` is Y, shape (n_times, n_keys, n_labels + 1), whose last column stands for all
    tokens that are not a label; a head without a decoder has no columns. ``scores`` is Z, shape (n_times,
    n_queries, n_keys). ``growth`` is B_n, shape (n_times, n_classes), NaN if it was not requested.
    """

    reduced: ReducedCorpus
    rates: Rates
    times: Float64
    decoder: Float64
    scores: Float64
    growth: Float64
    head: DecoderHead = LEARNED

    def __repr__(self) -> str:
        return f"LayerFlow({self.reduced.classes!r} to t = {self.times[-1]:,g})"

    def attention(self) -> Float64:
        """c_n along the flow, shape (n_times, n_classes, n_keys)."""
        return self.reduced.attention(self.scores)

    def entropy(self) -> Float64:
        """Entropy of attention on distinct tokens, averaged over classes that have any, shape (n_times,)."""
        return self.reduced.distinct_entropy(self.attention())

    def loss(self) -> Float64:
        """Mean loss of the head, −ln α at the correct token, shape (n_times,)."""
        moments = zip(self.attention(), self.decoder, strict=True)
        losses = [self.head.slope(self.reduced, weights, decoder).losses for weights, decoder in moments]
        return np.array(losses) @ self.reduced.classes.shares


def solve_flow(
    classes: CorpusClasses,
    rates: Rates,
    times: Sequence[float] | Float64,
    *,
    head: DecoderHead = LEARNED,
    growth: bool = True,
    rtol: float = 1e-8,
    atol: float = 1e-10,
    most_slopes: int | None = None,
) -> LayerFlow:
    """Integrate the training dynamics of one attention layer from zero decoder and scores.

    The solver is scipy's LSODA, which switches to stiff steps if necessary. The state is dense and should
    have at most a few thousand numbers.

    Parameters
    ----------
    classes : CorpusClasses
        The classes of sequences of the corpus.
    rates : Rates
        The learning rates of decoder and attention.
    times : ascending, positive
        The times to record.
    head : MassHead, LearnedHead or TiedHead
        The head that reads attention; by default the learned decoder of the second paper.
    growth : bool
        Whether to integrate the growth factor B as well, which is meaningless for classes of single contexts.
    rtol, atol : float
        The largest relative and absolute error of one step of the integration.
    most_slopes : int, optional
        The number of evaluations after which ``UncertifiedSolution`` is raised; stiff equations need many.

    Examples
    --------
    >>> from attomaton.theories import draw_linear_classes
    >>> flow = solve_flow(draw_linear_classes(2), Rates(decoder=10.0, attention=1.0), [1.0, 100.0])
    >>> flow.attention()[:, 0, [0, 19]].round(3).tolist()  # a common token, and the best distinct one
    [[0.064, 0.065], [0.057, 0.089]]
    """
    rtol = real_number(rtol, "rtol", least=1e-13)
    atol = real_number(atol, "atol", least=1e-20)
    reduced = ReducedCorpus(classes)
    if isinstance(head, MassHead):
        _check_labels_are_keys(classes)
    distinct_law = reduced.probabilities * reduced.is_distinct  # P(l | n) of distinct tokens, otherwise 0
    followed = np.flatnonzero(distinct_law.max(axis=1) > 0) if growth else np.empty(0, np.int64)
    leading = distinct_law[followed].argmax(axis=1)
    equation = FlowEquation(reduced, head, rates, followed, leading)
    grid = np.asarray(times, np.float64)
    states = integrate_flow(
        equation.slope, equation.size, grid, rtol=rtol, atol=atol, most_slopes=most_slopes
    )
    decoder, scores, growth_followed = equation.split(states)
    growth_by_class = np.full((len(grid), len(classes)), np.nan)
    growth_by_class[:, followed] = growth_followed
    return LayerFlow(reduced, rates, grid, decoder, scores, growth_by_class, head)


def _check_labels_are_keys(classes: CorpusClasses) -> None:
    # the entries of a class are its keys; of these, the entries whose token is the label of the class
    with_label = classes.rows[classes.tokens == classes.labels[classes.rows]]
    if len(np.unique(with_label)) < len(classes):
        raise InvalidSamples(
            "the label of a class is not among its keys, so no attention falls on it; keep only samples "
            "whose label is in the context"
        )
