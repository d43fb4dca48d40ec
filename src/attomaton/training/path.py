"""The regularisation path: W_R, the weights of least loss with norm at most R, for increasing R.

While the loss can still fall along some ray, W_R lies on the sphere ‖W‖ = R. There, Newton's method runs
along the sphere for all trials at once, starting from the result of the previous radius.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import real_number, whole_number
from attomaton.base.tables import Float64
from attomaton.corpora.samples import Samples
from attomaton.training.frames import (
    SMALLEST_FLOAT,
    TrialFrame,
    descend,
    find_frame,
    limit_length,
    norms,
    solve_downhill,
)
from attomaton.training.models.attention import AttentionModel, lay_out
from attomaton.training.models.losses import LogLoss

MOST_PATH_DIMENSIONS = 64
"""Limit of dimensions: axes are dense, with dim² numbers each."""

LONGEST_MOVE = 0.5
"""Longest step, relative to the radius."""


@dataclass(frozen=True, eq=False, repr=False)
class WeightsByRadius:
    """W_R of every trial.

    Attributes
    ----------
    radii : float64 array, shape (n_radii, n_trials)
        R, ascending.
    weights : float64 array, shape (n_radii, n_trials, dim, dim)
        W_R.
    losses : float64 array, shape (n_radii, n_trials)
        L(W_R).
    left : float64 array, shape (n_radii, n_trials)
        The part of ∇L along the sphere, relative to ‖∇L‖: 0 at a stationary point.
    """

    radii: Float64
    weights: Float64
    losses: Float64
    left: Float64

    def __repr__(self) -> str:
        n_radii, n_trials = self.losses.shape
        return f"WeightsByRadius({n_trials:,} trials, {n_radii:,} radii to {self.radii.max():.3g})"


def trace_path(
    samples: Sequence[Samples],
    model: AttentionModel,
    tables: Sequence[Float64],
    *,
    radii: Sequence[float] | Float64,
    rtol: float = 1e-8,
    max_steps: int = 50,
) -> WeightsByRadius:
    """Minimise the loss over ‖W‖ ≤ R for each R, warm-started.

    Parameters
    ----------
    samples : sequence of Samples
        The corpus of each trial.
    model : AttentionModel
        Head and loss; the loss must be decreasing. For log-loss with a linear head the minimum is global;
        for log-loss with another head it is the local one followed from W = 0. For other losses it is the
        better of two local ones: followed from W = 0, or started from the minimum for log-loss.
    tables : sequence of float arrays, shape (n_tokens, dim)
        The embeddings of each trial.
    radii : sequence of float, or float array, shape (n_radii, n_trials)
        R, ascending: shared by all trials, or one column per trial. Once the attention masses have converged
        up to e^-30, larger R give no information.
    rtol : float
        Tolerance for the part of ∇L along the sphere, relative to ‖∇L‖.
    max_steps : int
        Newton steps per radius, at most.

    Examples
    --------
    >>> corpus = Samples.from_lists([[0, 1]], [0])
    >>> path = trace_path([corpus], AttentionModel(), [np.eye(2)], radii=[1.0, 10.0])
    >>> path.weights[:, 0, :, 1].round(3).tolist()
    [[0.707, -0.707], [7.071, -7.071]]
    """
    rtol, max_steps = real_number(rtol, "rtol", least=0), whole_number(max_steps, "max_steps", least=1)
    levels = _check_radii(radii, len(samples))
    dim = tables[0].shape[1]
    if dim > MOST_PATH_DIMENSIONS:
        raise UnsupportedOption(
            f"{dim} dimensions are too many for the path, which needs dense axes of dim² numbers; "
            f"give embeddings of at most {MOST_PATH_DIMENSIONS}"
        )
    rivals: Sequence[Tensor | None] = [None] * len(levels)
    with torch.no_grad():
        frame = find_frame(lay_out(model, samples, tables))
        if not isinstance(model.loss, LogLoss):
            convex = replace(frame, batch=lay_out(replace(model, loss=LogLoss()), samples, tables))
            rivals = [point for point, _, _ in _follow_radii(convex, levels, rtol, max_steps, rivals)]
        points, losses, left = zip(*_follow_radii(frame, levels, rtol, max_steps, rivals), strict=True)
        weights = np.stack([frame.weights(point).numpy() for point in points])
    losses, left = (np.stack([values.numpy() for values in columns]) for columns in (losses, left))
    return WeightsByRadius(levels, weights, losses, left)


def _check_radii(radii: Sequence[float] | Float64, n_trials: int) -> Float64:
    """Shape (n_radii, n_trials)."""
    levels = np.asarray(radii, np.float64)
    if levels.ndim == 1:
        levels = np.repeat(levels[:, None], n_trials, axis=1)
    if levels.shape != (len(levels), n_trials) or not levels.size or not np.isfinite(levels).all():
        raise UnsupportedOption(f"radii have shape {levels.shape}; give finite numbers, one or one per trial")
    if not ((levels[0] > 0).all() and (np.diff(levels, axis=0) > 0).all()):
        raise UnsupportedOption(
            "radii are not positive and ascending; give positive radii in ascending order"
        )
    return levels


def _follow_radii(
    frame: TrialFrame, radii: Float64, rtol: float, max_steps: int, rivals: Sequence[Tensor | None]
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Coordinates, losses and remaining slope for each radius; rivals are other starting points."""
    point = -frame.slope(torch.zeros(frame.axes.shape[:2], dtype=frame.axes.dtype))[0]
    points: list[tuple[Tensor, Tensor, Tensor]] = []
    for row, rival in zip(radii, rivals, strict=True):
        radius = torch.as_tensor(row)
        point = _descend(frame, _rescale(point, radius), radius, rtol, max_steps)
        if rival is not None:
            restarted = _descend(frame, rival, radius, rtol, max_steps)
            better = frame.losses(restarted) < frame.losses(point)
            point = torch.where(better[:, None], restarted, point)
        slope, losses = frame.slope(point)
        points.append((point, losses, _tangential(slope, point)))
    return points


def _descend(frame: TrialFrame, point: Tensor, radius: Tensor, rtol: float, max_steps: int) -> Tensor:
    """Newton steps on the sphere until every trial converges or stops improving."""
    return descend(
        frame,
        point,
        lambda point, slope: _newton_move(frame, point, slope, radius),
        land=lambda reached: _rescale(reached, radius),
        steepness=_tangential,
        enough=rtol,
        max_steps=max_steps,
    )


def _newton_move(frame: TrialFrame, point: Tensor, slope: Tensor, radius: Tensor) -> Tensor:
    """Newton's step along the sphere, where the curvature is P(∇²L + μ)P with μ = −⟨∇L, W⟩/R².

    μ is added across the sphere too: the slope has no component there, and positive curvature stays positive.
    """
    inward = -(slope * point).sum(1) / radius**2
    unit = point / radius[:, None]
    bent = _project(frame.curvature(point), unit)
    bent.diagonal(dim1=1, dim2=2).add_(inward[:, None])
    tangent = slope - (slope * unit).sum(1, keepdim=True) * unit
    floor = (1e-10 * norms(slope) / radius)[:, None]
    return limit_length(solve_downhill(bent, tangent, floor), LONGEST_MOVE * radius)


def _project(curvature: Tensor, unit: Tensor) -> Tensor:
    """P H P with P = 1 − u uᵀ for each trial, without products of matrices."""
    image = (curvature @ unit[..., None])[..., 0]
    shared = image - 0.5 * (image * unit).sum(1, keepdim=True) * unit
    outer = shared[:, :, None] * unit[:, None, :]
    return curvature - outer - outer.transpose(1, 2)


def _tangential(slope: Tensor, point: Tensor) -> Tensor:
    """‖P∇L‖/‖∇L‖, shape (b,)."""
    unit = point / norms(point)[:, None].clamp_min(SMALLEST_FLOAT)
    tangent = slope - (slope * unit).sum(1, keepdim=True) * unit
    return norms(tangent) / norms(slope).clamp_min(SMALLEST_FLOAT)


def _rescale(point: Tensor, radius: Tensor) -> Tensor:
    return point * (radius / norms(point).clamp_min(SMALLEST_FLOAT))[:, None]
