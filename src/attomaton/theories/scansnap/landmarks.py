"""Find the landmarks of a flow: the turn (largest gain), the snap (growth slows), and freezing."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attomaton.base.errors import UnsupportedOption
from attomaton.base.tables import Float64
from attomaton.theories.scansnap.flow import LayerFlow
from attomaton.theories.scansnap.heads import decode_attention

_numpy: Any = np


def measure_gain(flow: LayerFlow) -> Float64:
    """f_nᵀ Y (x_n − α_n), shape (n_times, n_classes): the gain back-propagated to class n of a flow."""
    if not flow.head.trains_decoder:
        raise UnsupportedOption(f"the gain needs a learned decoder, but {flow.head} has none")
    label_index = flow.reduced.label_index
    n_tokens = flow.reduced.classes.n_tokens
    moments = zip(flow.attention(), flow.decoder, strict=True)
    decoded = [decode_attention(weights, decoder, label_index, n_tokens) for weights, decoder in moments]
    return np.array([(output.features * output.returned).sum(axis=1) for output in decoded])


def find_turn(times: ArrayLike, gain: ArrayLike) -> float:
    """The time of the largest gain: vertex of a parabola through the largest value and its neighbours."""
    time = np.asarray(times, np.float64)
    value = np.asarray(gain, np.float64)
    top = int(value.argmax())
    if top in (0, len(value) - 1):
        raise UnsupportedOption("the gain is largest at the first or last time; give a wider range of times")
    near = slice(top - 1, top + 2)
    fitted: Float64 = _numpy.polyfit(time[near] - time[top], value[near], 2)
    return float(time[top] - fitted[1] / (2 * fitted[0]))


def find_snap(times: ArrayLike, growth: ArrayLike, turn: float) -> float:
    """The time when d ln B/d ln t has fallen to half its value at ``turn``/2; infinite if it never does."""
    log_times = np.log(np.asarray(times, np.float64))
    steepness: Float64 = _numpy.gradient(np.log(np.asarray(growth, np.float64)), log_times)
    half = float(_numpy.interp(np.log(turn / 2), log_times, steepness)) / 2
    below = np.flatnonzero((steepness < half) & (log_times > np.log(turn / 2)))
    if not len(below):
        return float("inf")
    crossing = int(below[0])
    around = slice(crossing - 1, crossing + 1)  # the records between which steepness falls below half
    # interp needs ascending abscissas, and steepness falls: hence the signs
    log_time: float = _numpy.interp(-half, -steepness[around], log_times[around])
    return float(np.exp(log_time))


def measure_freezing(flow: LayerFlow) -> Float64:
    """Share of the movement of attention since the start that falls into the last doubling of the time.

    It is ¾ while scores grow like t², and tends to 0 while they grow like ln² t: attention then looks frozen.
    """
    times = flow.times
    attention = flow.attention()
    start = flow.reduced.attention(np.zeros_like(flow.scores[:1]))
    # attention at half of each time, by linear interpolation between records, with a first record at t = 0
    times_from_0 = np.concatenate([[0.0], times])
    attention_from_0 = np.concatenate([start, attention])
    before = np.searchsorted(times_from_0, times / 2, side="right") - 1  # the last record up to t/2
    share = (times / 2 - times_from_0[before]) / (times_from_0[before + 1] - times_from_0[before])
    change = attention_from_0[before + 1] - attention_from_0[before]
    at_half = attention_from_0[before] + share[:, None, None] * change
    since_start = np.abs(attention - start).sum(axis=2)
    since_half = np.abs(attention - at_half).sum(axis=2)
    return (since_half / np.maximum(since_start, np.finfo(float).tiny)).mean(axis=1)
