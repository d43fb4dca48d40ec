"""Weights of many trials in coordinates, W = W_far + Σ coordinate · axis, and Newton's method in them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attomaton.base.tables import Float64
from attomaton.corpora.samples import Samples
from attomaton.training.models.attention import AttentionModel, Trials, lay_out

LOSS_NOISE = 1e-13
"""Differences of losses below this are rounding errors."""

NEGLIGIBLE_AXIS = 1e-9
"""Singular values below this, relative to the largest, count as zero."""

SMALLEST_FLOAT = float(np.finfo(np.float64).tiny)

_linalg: Any = torch.linalg
_torch: Any = torch

FLAT_CURVATURE = 1e-12
"""Curvatures below this count as zero."""


@dataclass(frozen=True, eq=False)
class TrialFrame:
    """Coordinates of all trials (b) along m axes of W.

    ``axes`` (b, m, d·d) are orthonormal rows, zero for coordinates without effect; ``far`` (b, d, d)
    is W at the origin of the coordinates.
    """

    batch: Trials
    axes: Tensor
    far: Tensor

    def weights(self, point: Tensor) -> Tensor:
        """W for coordinates of shape (b, m)."""
        return self.far + (point[:, None] @ self.axes).reshape(self.far.shape)

    def losses(self, point: Tensor) -> Tensor:
        """The loss of each trial, shape (b,)."""
        return self.batch.loss(self.weights(point))

    def slope(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """∇L along the axes, shape (b, m), and the losses, shape (b,)."""
        gradient, losses = self.batch.gradient(self.weights(point))
        return (self.axes @ gradient.flatten(1)[..., None])[..., 0], losses

    def curvature(self, point: Tensor) -> Tensor:
        """∇²L along the axes, shape (b, m, m)."""
        return self.batch.hessian(self.weights(point), self._moved)

    @cached_property
    def _moved(self) -> Tensor:
        return self.batch.score_changes(self.axes)


def find_frame(batch: Trials) -> TrialFrame:
    """Axes of all directions that training can move: attention is invariant to a shift of a context's scores.

    So gradients lie in the span of (x_t − x̄) x̄ᵀ over all contexts, for every head and loss.
    """
    b, _, _, d = batch.keys.shape
    moves = pad_sequence([_distinct_moves(batch, trial) for trial in range(b)], batch_first=True)
    _, sizes, axes = _linalg.svd(moves, full_matrices=False)
    rank = (sizes > NEGLIGIBLE_AXIS * sizes[:, :1]).sum(1)
    most = int(rank.max())
    spanned = torch.arange(most)[None] < rank[:, None]
    return TrialFrame(batch, axes[:, :most] * spanned[..., None], torch.zeros(b, d, d, dtype=moves.dtype))


def _distinct_moves(batch: Trials, trial: int) -> Tensor:
    """(x_t − x̄) x̄ᵀ of one trial, shape (r, d·d), each pair of a key and a query once."""
    keys, filled = batch.keys[trial], batch.filled[trial] & (batch.weight[trial] > 0)[:, None]
    vectors, number = _torch.unique(keys.flatten(0, 1), dim=0, return_inverse=True)
    number = number.reshape(filled.shape)
    pairs = _torch.unique(torch.stack([number, number[:, -1:].expand_as(number)], -1)[filled], dim=0)
    key, query = vectors[pairs[pairs[:, 0] != pairs[:, 1]]].unbind(1)
    return ((key - query)[..., None] * query[:, None]).flatten(1)


def solve_downhill(curvature: Tensor, slope: Tensor, floor: Tensor) -> Tensor:
    """Newton's step −|H|⁻¹ slope, shape (b, m): negative eigenvalues change sign, small ones are raised.

    If no eigenvalue is negative or small, this is −H⁻¹ slope, which needs no eigenvalues.
    """
    factor, failed = _linalg.cholesky_ex(curvature)
    if not bool(failed.any()) and bool((factor.diagonal(dim1=1, dim2=2).square() > floor).all()):
        return -_torch.cholesky_solve(slope[..., None], factor)[..., 0]
    values, vectors = _linalg.eigh(curvature)
    rotated = (vectors.transpose(1, 2) @ slope[..., None])[..., 0]
    return -(vectors @ (rotated / torch.maximum(values.abs(), floor))[..., None])[..., 0]


def limit_length(move: Tensor, longest: Tensor) -> Tensor:
    """Each trial's move, limited to this length, shape (b,)."""
    return move * torch.clamp(longest / norms(move).clamp_min(SMALLEST_FLOAT), max=1.0)[:, None]


def go_down(
    frame: TrialFrame,
    point: Tensor,
    move: Tensor,
    *,
    land: Callable[[Tensor], Tensor],
    steepness: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Halve each trial's move until its loss falls, or does not rise and its gradient shrinks.

    ``land`` projects coordinates to the feasible set, ``steepness(slope, point)`` measures how far from
    stationary a trial is, shape (b,). Returns the new coordinates and which trials moved.
    """
    slope, losses = frame.slope(point)
    steep, still = steepness(slope, point), (move == 0).all(-1)
    good, tried, share = still, point, torch.ones_like(losses)
    for _ in range(20):
        tried = land(point + share[:, None] * move)
        reached_slope, reached = frame.slope(tried)
        flatter = steepness(reached_slope, tried) < 0.9 * steep
        good = still | (reached < losses - LOSS_NOISE) | ((reached <= losses + LOSS_NOISE) & flatter)
        if bool(good.all()):
            break
        share = torch.where(good, share, 0.5 * share)
    return torch.where(good[:, None], tried, point), good & ~still


def descend(
    frame: TrialFrame,
    point: Tensor,
    find_move: Callable[[Tensor, Tensor], Tensor],
    *,
    land: Callable[[Tensor], Tensor],
    steepness: Callable[[Tensor, Tensor], Tensor],
    enough: float,
    max_steps: int,
) -> Tensor:
    """Newton's method for all trials at once, until each is at most ``enough`` steep or stops improving.

    ``find_move(point, slope)`` is the step of each trial, shape (b, m); ``land`` and ``steepness`` are those
    of :func:`go_down`.
    """
    busy = torch.ones(len(point), dtype=torch.bool)
    for _ in range(max_steps):
        slope, _ = frame.slope(point)
        busy = busy & (steepness(slope, point) > enough)
        if not bool(busy.any()):
            break
        move = find_move(point, slope) * busy[:, None]
        point, moved = go_down(frame, point, move, land=land, steepness=steepness)
        busy = busy & moved
    return point


def norms(rows: Tensor) -> Tensor:
    """The norm of each row, shape (b,)."""
    return (rows * rows).sum(1).sqrt()


def settle_within(
    samples: Sequence[Samples],
    model: AttentionModel,
    tables: Sequence[Float64],
    *,
    far: Float64,
    axes: Float64,
    start: Float64,
) -> Float64:
    """Minimise L(W_far + V) over V in the span of the axes, by Newton's method from ``start``.

    With W_far a large multiple of a Graph-SVM solution and the axes those of its cyclic subspace, V is the
    finite part: masses below the highest component are zero, and the loss on reduced data is left.
    """
    if not axes.shape[1]:
        return start
    with torch.no_grad():
        frame = TrialFrame(lay_out(model, samples, tables), torch.as_tensor(axes), torch.as_tensor(far))
        each = torch.ones(len(start), dtype=frame.far.dtype)
        point = descend(
            frame,
            torch.as_tensor(start),
            lambda point, slope: limit_length(
                solve_downhill(frame.curvature(point), slope, FLAT_CURVATURE * each[:, None]), each
            ),
            land=lambda reached: reached,
            steepness=lambda slope, _: norms(slope),
            enough=0.0,
            max_steps=100,
        )
    return np.asarray(point.numpy(), np.float64)
