"""The training dynamics themselves: one layer of attention under gradient flow on infinitely long sequences.

With b → c_n (the limit of long sequences), c_{l|n} ∝ P(l|n) e^{z_{ψ(n) l}}, and g_n = −∂L/∂c_n of the head
(:mod:`.heads`),

    ż_m = η_Z Σ_{n: ψ(n) = m} π_n c_n ∘ (g_n − c_n·g_n).

The default is the second paper's head, with f_n = c_n/‖c_n‖ and a learned decoder,

    Ẏ   = η_Y Σ_n π_n f_n (x_n − α_n)ᵀ,            α_n = softmax(Yᵀ f_n)
    ż_m = η_Z Σ_{n: ψ(n) = m} π_n diag(f_n) (I − f_n f_nᵀ) Y (x_n − α_n)

from Y = Z = 0 (Equations 4 and 5 of the paper). Only rows of tokens that precede a query ever move, and all
columns of tokens that are never a label are equal, so one is stored: the state has n_keys × (n_labels + 1) +
n_queries × n_keys numbers, whatever the vocabulary. This is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.options import real_number
from attomaton.base.tables import Float64
from attomaton.theories.scansnap.classes import CorpusClasses
from attomaton.theories.scansnap.heads import DecoderHead, LearnedHead, MassHead, decode_attention
from attomaton.theories.scansnap.law import Rates, integrate_flow
from attomaton.theories.scansnap.reduced import ReducedCorpus

LEARNED = LearnedHead()


def find_slope(
    reduced: ReducedCorpus, head: DecoderHead, rates: Rates, decoder: Float64, scores: Float64
) -> tuple[Float64, Float64, Float64]:
    """Ẏ, Ż, and c_n, of shape (n_classes, n_keys)."""
    attention = reduced.attention(scores)
    _, gain, moved = head.slope(reduced, attention, decoder)
    gain = gain - (attention * gain).sum(axis=1, keepdims=True)
    lifted = reduced.sum_by_query(reduced.classes.shares[:, None] * attention * gain)
    return rates.decoder * moved, rates.attention * lifted, attention


@dataclass(frozen=True, eq=False, repr=False)
class LayerFlow:
    """One layer of attention along its flow.

    Attributes
    ----------
    reduced : ReducedCorpus
        The corpus on the tokens and labels in use.
    rates : Rates
        Learning rates.
    times : float64 array, shape (n_times,)
        The recorded times.
    decoder : float64 array, shape (n_times, n_keys, n_labels + 1)
        Y; the last column is that of every token that is not a label. No columns if the head has no decoder.
    scores : float64 array, shape (n_times, n_queries, n_keys)
        Z.
    growth : float64 array, shape (n_times, n_classes)
        B_n, the integral of ż_l / f_{nl}² for the most probable distinct token l of class n; NaN if there is
        none, or if it was not requested.
    head : MassHead, LearnedHead or TiedHead
        The head that reads attention.
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
        """Entropy of attention on distinct tokens, mean over the classes that have any, shape (n_times,)."""
        return self.reduced.distinct_entropy(self.attention())

    def loss(self) -> Float64:
        """Mean loss of the head, −ln α at the correct token, shape (n_times,)."""
        moments = zip(self.attention(), self.decoder, strict=True)
        losses = [self.head.slope(self.reduced, weights, decoder)[0] for weights, decoder in moments]
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
    """Integrate the flow from Y = Z = 0 by scipy's LSODA, which switches to stiff steps where needed.

    Parameters
    ----------
    classes : CorpusClasses
        The corpus. The state is dense, so it should have at most a few thousand numbers.
    rates : Rates
        η_Y and η_Z.
    times : ascending, positive
        The times to record.
    head : MassHead, LearnedHead or TiedHead
        The head that reads attention; by default the learned decoder of the second paper.
    growth : bool
        Whether to integrate B as well; it means little for classes that are single contexts.
    rtol, atol : float
        Largest errors of one step of the integration, relative and absolute.
    most_slopes : int, optional
        Number of evaluations after which to give up (``UncertifiedSolution``); a stiff flow may need many.

    Examples
    --------
    >>> from attomaton.theories.scansnap.classes import draw_linear_classes
    >>> flow = solve_flow(draw_linear_classes(2), Rates(decoder=10.0, attention=1.0), [1.0, 100.0])
    >>> flow.attention()[:, 0, [0, 19]].round(3).tolist()  # a common token, and the best distinct one
    [[0.064, 0.065], [0.057, 0.089]]
    """
    rtol, atol = real_number(rtol, "rtol", least=1e-13), real_number(atol, "atol", least=1e-20)
    reduced = ReducedCorpus(classes)
    if isinstance(head, MassHead):
        labelled = classes.rows[classes.tokens == classes.labels[classes.rows]]
        if len(np.unique(labelled)) < len(classes):
            raise InvalidSamples(
                "the label of a class is not among its keys, so no attention falls on it; keep realisable "
                "samples only"
            )
    distinct = reduced.probabilities * reduced.is_distinct
    # classes with a distinct token, and the most probable such token of each
    rows = np.flatnonzero(distinct.max(axis=1) > 0) if growth else np.empty(0, np.int64)
    leading = distinct[rows].argmax(axis=1)
    shape_y, shape_z = reduced.shapes
    shape_y = shape_y if head.trains_decoder else (shape_y[0], 0)
    cuts = np.cumsum([shape_y[0] * shape_y[1], shape_z[0] * shape_z[1]])

    def split(states: Float64) -> tuple[Float64, Float64, Float64]:
        """Y, which is empty if it is not trained, Z and B of states of shape (..., size)."""
        lead = states.shape[:-1]
        decoder, scores, grown = np.split(states, cuts, axis=-1)
        return decoder.reshape(*lead, *shape_y), scores.reshape(*lead, *shape_z), grown

    def slope(state: Float64) -> Float64:
        decoder, scores, _ = split(state)
        moved, lifted, attention = find_slope(reduced, head, rates, decoder, scores)
        squares = (attention[rows] ** 2).sum(axis=1)
        grown = lifted[reduced.query_index[rows], leading] * squares / attention[rows, leading] ** 2
        return np.concatenate([moved.ravel(), lifted.ravel(), grown])

    grid = np.asarray(times, np.float64)
    states = integrate_flow(
        slope, int(cuts[-1]) + len(rows), grid, rtol=rtol, atol=atol, most_slopes=most_slopes
    )
    decoder, scores, grown = split(states)
    growth_of_class = np.full((len(grid), len(classes)), np.nan)
    growth_of_class[:, rows] = grown
    return LayerFlow(reduced, rates, grid, decoder, scores, growth_of_class, head)


_numpy: Any = np


def measure_gain(flow: LayerFlow) -> Float64:
    """f_nᵀ Y (x_n − α_n) along a flow, shape (n_times, n_classes): the gain back-propagated to class n.

    For orthogonal classes it is γ M/(M − 1).
    """
    if not flow.head.trains_decoder:
        raise UnsupportedOption(f"the gain needs a learned decoder, and {flow.head} has none")
    label_index, n_tokens = flow.reduced.label_index, flow.reduced.classes.n_tokens
    moments = zip(flow.attention(), flow.decoder, strict=True)
    decoded = [decode_attention(weights, decoder, label_index, n_tokens) for weights, decoder in moments]
    return np.array([(output.features * output.returned).sum(axis=1) for output in decoded])


def find_turn(times: ArrayLike, gain: ArrayLike) -> float:
    """The turn, where the gain is largest: vertex of a parabola through that value and its neighbours."""
    time, value = np.asarray(times, np.float64), np.asarray(gain, np.float64)
    top = int(value.argmax())
    if top in (0, len(value) - 1):
        raise UnsupportedOption("the gain is largest at the first or last time; give a wider range")
    near = slice(top - 1, top + 2)
    fitted: Float64 = _numpy.polyfit(time[near] - time[top], value[near], 2)
    return float(time[top] - fitted[1] / (2 * fitted[0]))


def find_snap(times: ArrayLike, growth: ArrayLike, turn: float) -> float:
    """The snap, where d ln B/d ln t has fallen to half its value at ``turn``/2; infinite if it never does."""
    clock = np.log(np.asarray(times, np.float64))
    steepness: Float64 = _numpy.gradient(np.log(np.asarray(growth, np.float64)), clock)
    half = float(_numpy.interp(np.log(turn / 2), clock, steepness)) / 2
    below = np.flatnonzero((steepness < half) & (clock > np.log(turn / 2)))
    if not len(below):
        return float("inf")
    crossing = int(below[0])
    around = slice(crossing - 1, crossing + 1)
    log_time: float = _numpy.interp(-half, -steepness[around], clock[around])
    return float(np.exp(log_time))


def fit_power(times: ArrayLike, values: ArrayLike) -> float:
    """Slope of ln(values) over ln(times), by least squares.

    Examples
    --------
    >>> round(fit_power([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(_numpy.polyfit(np.log(np.asarray(times)), np.log(np.asarray(values)), 1)[0])
