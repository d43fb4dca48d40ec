"""The finite part of any loss: its least value over W_far + a subspace, near a start, for many trials."""

from collections.abc import Sequence

import numpy as np
import torch

from attomaton.base.options import whole_number
from attomaton.base.tables import Float64
from attomaton.corpora.samples import Samples
from attomaton.training.frames import TrialFrame, descend, norms, shorten, solve_downhill
from attomaton.training.models.attention import AttentionModel, lay_out

FLAT = 1e-12
"""Curvatures below this are none."""


def settle_within(
    samples: Sequence[Samples],
    model: AttentionModel,
    tables: Sequence[Float64],
    *,
    far: Float64,
    axes: Float64,
    start: Float64,
    max_steps: int = 100,
) -> Float64:
    """Minimise L(W_far + V) over V in the span of the axes, by Newton's method from ``start``.

    With W_far a large multiple of a Graph-SVM solution and the axes those of its cyclic subspace, V is the
    finite part: masses below the highest component are gone, and what is left is the loss on reduced data.
    """
    max_steps = whole_number(max_steps, "max_steps", least=1)
    if not axes.shape[1]:
        return start
    with torch.no_grad():
        frame = TrialFrame(lay_out(model, samples, tables), torch.as_tensor(axes), torch.as_tensor(far))
        each = torch.ones(len(start), dtype=frame.far.dtype)
        place = descend(
            frame,
            torch.as_tensor(start),
            lambda place, slope: shorten(
                solve_downhill(frame.curvature(place), slope, FLAT * each[:, None]), each
            ),
            land=lambda reached: reached,
            steepness=lambda slope, _: norms(slope),
            enough=0.0,
            max_steps=max_steps,
        )
    return np.asarray(place.numpy(), np.float64)
