"""What a flow shows: the gain, when it turns, when growth slows, and by which powers of time."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attomaton.base.errors import UnsupportedOption
from attomaton.base.tables import Float64
from attomaton.theories.scansnap.flow import LayerFlow
from attomaton.theories.scansnap.heads import decode

_numpy: Any = np


def measure_gain(flow: LayerFlow) -> Float64:
    """f_nᵀ Y (x_n − α_n) along a flow, shape (n_times, n_classes): what the decoder gives back to class n.

    For orthogonal classes that is γ M/(M − 1).

    Examples
    --------
    >>> from attomaton.theories.scansnap.classes import make_star
    >>> from attomaton.theories.scansnap.flow import solve_flow
    >>> from attomaton.theories.scansnap.law import Rates
    >>> flow = solve_flow(make_star(10, 1000, common=0.05), Rates(5.0, 0.5), [1.0, 15.0, 300.0])
    >>> measure_gain(flow)[:, 0].round(2).tolist()  # it rises, turns near K ln M/η_Y = 13.8, and falls
    [0.5, 3.7, 0.08]
    """
    if not flow.head.trains_decoder:
        raise UnsupportedOption(f"the gain is that of a learned decoder, and {flow.head} has none")
    answer, n_tokens = flow.reduced.label_of, flow.reduced.classes.n_tokens
    along = zip(flow.attention(), flow.decoder, strict=True)
    decoded = [decode(weights, decoder, answer, n_tokens) for weights, decoder in along]
    return np.array([(one.features * one.returned).sum(axis=1) for one in decoded])


def find_turn(times: ArrayLike, gain: ArrayLike) -> float:
    """t₀', where the gain is largest: the top of the parabola through the largest value and its neighbours.

    Examples
    --------
    >>> round(find_turn([1.0, 2.0, 3.0, 4.0], [0.0, 3.0, 4.0, 3.0]), 6)
    3.0
    """
    place, value = np.asarray(times, np.float64), np.asarray(gain, np.float64)
    top = int(value.argmax())
    if top in (0, len(value) - 1):
        raise UnsupportedOption("the gain is largest at an end of the times given; look further")
    near = slice(top - 1, top + 2)
    fitted: Float64 = _numpy.polyfit(place[near] - place[top], value[near], 2)
    return float(place[top] - fitted[1] / (2 * fitted[0]))


def find_snap(times: ArrayLike, growth: ArrayLike, turn: float) -> float:
    """t₀, where d ln B/d ln t has fallen to half its value at ``turn``/2.

    Parameters
    ----------
    times, growth : arrays, shape (n_times,)
        Rising times, and B there.
    turn : float
        t₀', as :func:`find_turn` gives it.

    Examples
    --------
    >>> times = np.geomspace(0.01, 100, 4001)
    >>> round(find_snap(times, np.log1p(times), 1e-1), 1)  # t/((1 + t) ln(1 + t)) halves there
    4.3
    """
    clock = np.log(np.asarray(times, np.float64))
    steepness: Float64 = _numpy.gradient(np.log(np.asarray(growth, np.float64)), clock)
    half = float(_numpy.interp(np.log(turn / 2), clock, steepness)) / 2
    below = np.flatnonzero((steepness < half) & (clock > np.log(turn / 2)))
    if not len(below):
        raise UnsupportedOption("growth has not slowed to half within the times given; look further")
    last = int(below[0])
    around = slice(last - 1, last + 1)
    place: float = _numpy.interp(-half, -steepness[around], clock[around])
    return float(np.exp(place))


def fit_power(times: ArrayLike, values: ArrayLike) -> float:
    """Slope of ln(values) over ln(times), by least squares.

    Examples
    --------
    >>> round(fit_power([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(_numpy.polyfit(np.log(np.asarray(times)), np.log(np.asarray(values)), 1)[0])
