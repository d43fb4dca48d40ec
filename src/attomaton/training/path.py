"""The regularisation path: W_R, the weights of least loss with norm at most R, for increasing R.

While the loss can still fall along some ray, W_R lies on the sphere ‖W‖ = R. There, Newton's method runs
along the sphere for all trials at once, starting from the result of the previous radius. Points are
coordinates of W in a :class:`~attomaton.training.frames.TrialFrame`, in which ‖W‖ is the length of the point.
"""

# `trace_path` is the entry. Sizes are b trials and m coordinates. `slope` is ∇L in coordinates, (b, m). With
# u = W/R, P = 1 − u uᵀ projects onto the directions along the sphere. How far W is from stationary is
# measured by ‖P∇L‖/‖∇L‖, the *tangential share* of the slope, which is 0 at W_R.

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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
    find_newton_step,
    limit_length,
    norms,
)
from attomaton.training.models.attention import AttentionModel, lay_out
from attomaton.training.models.losses import LogLoss

MOST_PATH_DIMENSIONS = 64  # largest dim: axes are dense, with dim² numbers each
LONGEST_MOVE = 0.5  # longest step of Newton's method, relative to the radius: a line for an arc
LEAST_CURVATURE = 1e-10  # least curvature along the sphere, relative to ‖∇L‖/R: keeps steps finite


@dataclass(frozen=True, eq=False, repr=False)
class WeightsByRadius:
    """W_R of every trial, by radius R.

    All are float64 arrays: ``radii`` (n_radii, n_trials), ascending; ``weights`` (n_radii, n_trials, dim,
    dim); ``losses`` (n_radii, n_trials); and ``left`` (n_radii, n_trials), the tangential share of ∇L: its
    component along the sphere ‖W‖ = R relative to ‖∇L‖, which is 0 at a stationary point.
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
    """Find the regularisation path: the weights of least loss with ‖W‖ ≤ R, for each R.

    For log-loss with a linear readout the minimum is global; with another readout it is the local minimum
    followed from W = 0. For other losses it is the better of two: followed from W = 0, or started from the
    minimum for log-loss.

    Parameters
    ----------
    samples : sequence of Samples
        The corpus of each trial.
    model : AttentionModel
        Readout and loss; the loss must be decreasing.
    tables : sequence of float arrays, shape (n_tokens, dim)
        The embeddings of each trial.
    radii : sequence of float, or float array, shape (n_radii, n_trials)
        R, ascending: shared by all trials, or one column per trial. Once the attention masses have converged
        up to e^-30, larger R give no information.
    rtol, max_steps : float, int
        Tolerance for the component of ∇L along the sphere, relative to ‖∇L‖; most Newton steps per radius.

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
            f"the embeddings have {dim} dimensions, too many for the regularisation path; give embeddings of "
            f"at most {MOST_PATH_DIMENSIONS} dimensions"
        )
    other_starts: Sequence[Tensor | None] = [None] * len(levels)
    with torch.no_grad():
        frame = find_frame(lay_out(model, samples, tables))
        if not isinstance(model.loss, LogLoss):  # the minimum for log-loss is another start at each radius
            convex = replace(frame, batch=lay_out(replace(model, loss=LogLoss()), samples, tables))
            minima = _follow_radii(convex, levels, rtol, max_steps, other_starts)
            other_starts = [minimum.point for minimum in minima]
        minima = _follow_radii(frame, levels, rtol, max_steps, other_starts)
        weights = np.stack([frame.weights(minimum.point).numpy() for minimum in minima])
    losses = np.stack([minimum.losses.numpy() for minimum in minima])
    tangential_shares = np.stack([minimum.tangential_share.numpy() for minimum in minima])
    return WeightsByRadius(levels, weights, losses, left=tangential_shares)


# The radii as an array (n_radii, n_trials), if they are positive and ascend.
def _check_radii(radii: Sequence[float] | Float64, n_trials: int) -> Float64:
    levels = np.asarray(radii, np.float64)
    if levels.ndim == 1:
        levels = np.repeat(levels[:, None], n_trials, axis=1)
    if levels.shape != (len(levels), n_trials) or not levels.size or not np.isfinite(levels).all():
        raise UnsupportedOption(
            f"radii have shape {levels.shape}; give finite numbers, one for each radius, or for each "
            "radius one per trial"
        )
    if not ((levels[0] > 0).all() and (np.diff(levels, axis=0) > 0).all()):
        raise UnsupportedOption("radii do not ascend from above 0; give positive radii in ascending order")
    return levels


class _Minimum(NamedTuple):
    """The weights of least loss on the sphere of one radius, for b trials."""

    point: Tensor  # (b, m): coordinates
    losses: Tensor  # (b,)
    tangential_share: Tensor  # (b,): ‖P∇L‖/‖∇L‖


# The minimum for each radius, from the minimum of the radius before, or the better of two starts.
def _follow_radii(
    frame: TrialFrame, radii: Float64, rtol: float, max_steps: int, other_starts: Sequence[Tensor | None]
) -> list[_Minimum]:
    # Near W = 0 the path runs along −∇L(0); the first radius rescales it.
    slope, _ = frame.slope(torch.zeros(frame.axes.shape[:2], dtype=frame.axes.dtype))
    point = -slope
    minima: list[_Minimum] = []
    for radii_of_trials, other_start in zip(radii, other_starts, strict=True):
        radius = torch.as_tensor(radii_of_trials)
        point = _descend(frame, _rescale(point, radius), radius, rtol, max_steps)
        if other_start is not None:
            restarted = _descend(frame, other_start, radius, rtol, max_steps)
            is_better = frame.losses(restarted) < frame.losses(point)
            point = torch.where(is_better[:, None], restarted, point)
        slope, losses = frame.slope(point)
        minima.append(_Minimum(point, losses, _tangential_share(slope, point)))
    return minima


# Newton steps on the sphere until every trial converges or stops improving.
def _descend(frame: TrialFrame, point: Tensor, radius: Tensor, rtol: float, max_steps: int) -> Tensor:
    return descend(
        frame,
        point,
        lambda point, slope: _newton_move(frame, point, slope, radius),
        project=lambda point: _rescale(point, radius),
        steepness=_tangential_share,
        tolerance=rtol,
        max_steps=max_steps,
    )


# Newton's step along the sphere, where the curvature is P(∇²L + μ)P with μ = −⟨∇L, W⟩/R².
def _newton_move(frame: TrialFrame, point: Tensor, slope: Tensor, radius: Tensor) -> Tensor:
    # A minimum on ‖W‖ = R is stationary for L + ½ μ (‖W‖² − R²), so ∇L + μ W = 0 and μ = −⟨∇L, W⟩/R². Along
    # the sphere the second derivatives of this function, ∇²L + μ, are the curvature.
    multiplier = -(slope * point).sum(1) / radius**2
    unit = point / radius[:, None]
    curvature = _project(frame.curvature(point), unit)
    # P∇²LP + μ instead of P(∇²L + μ)P: they differ by μ u uᵀ, and the slope P∇L has no component along u. If
    # μ > 0, this also makes the matrix positive definite along u, where it would be 0.
    curvature.diagonal(dim1=1, dim2=2).add_(multiplier[:, None])
    floor = (LEAST_CURVATURE * norms(slope) / radius)[:, None]
    return limit_length(find_newton_step(curvature, _along_sphere(slope, unit), floor), LONGEST_MOVE * radius)


# P H P with P = 1 − u uᵀ for each trial, without products of matrices.
def _project(curvature: Tensor, unit: Tensor) -> Tensor:
    # P H P = H − w uᵀ − u wᵀ with w = H u − ½ (uᵀ H u) u
    image = (curvature @ unit[..., None])[..., 0]
    shared = image - 0.5 * (image * unit).sum(1, keepdim=True) * unit
    outer = shared[:, :, None] * unit[:, None, :]
    return curvature - outer - outer.transpose(1, 2)


# The component of the slope along the sphere, P∇L.
def _along_sphere(slope: Tensor, unit: Tensor) -> Tensor:
    return slope - (slope * unit).sum(1, keepdim=True) * unit


# ‖P∇L‖/‖∇L‖, shape (b,): 0 at a stationary point of the loss on the sphere.
def _tangential_share(slope: Tensor, point: Tensor) -> Tensor:
    unit = point / norms(point)[:, None].clamp_min(SMALLEST_FLOAT)
    return norms(_along_sphere(slope, unit)) / norms(slope).clamp_min(SMALLEST_FLOAT)


# The nearest point of the sphere of each trial's radius (b,).
def _rescale(point: Tensor, radius: Tensor) -> Tensor:
    return point * (radius / norms(point).clamp_min(SMALLEST_FLOAT))[:, None]
