"""Weights of many trials in coordinates, W = W_far + Σ coordinate · axis, and Newton's method in them.

The regularisation path (``training/path.py``) calls :func:`find_frame` and :func:`descend`; claims about the
finite part of the weights call :func:`minimise_in_span`. Sizes are b trials, m axes and d dimensions.
"""

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

LOSS_NOISE = 1e-13  # differences of losses below this are rounding errors
NEGLIGIBLE_AXIS = 1e-9  # singular values below this, relative to the largest, count as zero

SMALLEST_FLOAT = float(np.finfo(np.float64).tiny)

_linalg: Any = torch.linalg
_torch: Any = torch

FLAT_CURVATURE = 1e-12  # curvatures below this count as zero
MOST_HALVINGS = 20  # after this many halvings of a step, 1e-6 of it, Newton's method has nothing to gain


@dataclass(frozen=True, eq=False)
class TrialFrame:
    """Coordinates of the weights of all trials along m axes; a point has shape (b, m)."""

    batch: Trials
    axes: Tensor  # (b, m, d·d): orthonormal rows, zero for coordinates without effect
    far: Tensor  # (b, d, d): W at the origin of the coordinates

    def weights(self, point: Tensor) -> Tensor:
        """W, shape (b, d, d)."""
        return self.far + (point[:, None] @ self.axes).reshape(self.far.shape)

    def losses(self, point: Tensor) -> Tensor:
        """The mean losses, shape (b,)."""
        return self.batch.loss(self.weights(point))

    def slope(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """∇L along the axes, shape (b, m), and the losses, shape (b,)."""
        gradient, losses = self.batch.gradient(self.weights(point))
        return (self.axes @ gradient.flatten(1)[..., None])[..., 0], losses

    def curvature(self, point: Tensor) -> Tensor:
        """∇²L along the axes, shape (b, m, m)."""
        return self.batch.hessian(self.weights(point), self._score_changes)

    @cached_property
    def _score_changes(self) -> Tensor:
        return self.batch.score_changes(self.axes)


def find_frame(batch: Trials) -> TrialFrame:
    """Coordinates along all directions in which training can move W, from W = 0."""
    # Attention does not change if all scores of a context are shifted. So for every readout and loss,
    # gradients are in the span of (x_t − x̄) x̄ᵀ over all contexts.
    b, _, _, d = batch.keys.shape
    # Trials have different numbers of directions; rows of zeros add no axis.
    directions = pad_sequence([_find_directions(batch, trial) for trial in range(b)], batch_first=True)
    _, sizes, axes = _linalg.svd(directions, full_matrices=False)
    rank = (sizes > NEGLIGIBLE_AXIS * sizes[:, :1]).sum(1)
    largest_rank = int(rank.max())
    is_spanned = torch.arange(largest_rank)[None] < rank[:, None]
    far = torch.zeros(b, d, d, dtype=directions.dtype)
    return TrialFrame(batch, axes[:, :largest_rank] * is_spanned[..., None], far)


# (x_t − x̄) x̄ᵀ of one trial, shape (r, d·d), for each distinct pair of a key and a query.
def _find_directions(batch: Trials, trial: int) -> Tensor:
    is_filled = batch.filled[trial] & (batch.weight[trial] > 0)[:, None]  # (n, t)
    vectors, index = _torch.unique(batch.keys[trial].flatten(0, 1), dim=0, return_inverse=True)
    index = index.reshape(is_filled.shape)  # row of `vectors` at each position; the last is the query
    pairs = _torch.unique(torch.stack([index, index[:, -1:].expand_as(index)], -1)[is_filled], dim=0)
    key, query = vectors[pairs[pairs[:, 0] != pairs[:, 1]]].unbind(1)
    return ((key - query)[..., None] * query[:, None]).flatten(1)


def find_newton_step(curvature: Tensor, slope: Tensor, floor: Tensor) -> Tensor:
    """−|H|⁻¹ slope, shape (b, m): negative eigenvalues of H change sign, small ones are raised."""
    # If no eigenvalue is negative or below the floor, this is −H⁻¹ slope, which needs no eigenvalues.
    factor, failed = _linalg.cholesky_ex(curvature)
    # The pivots of H, which are the squares of the factor's diagonal, are compared in place of eigenvalues.
    if not bool(failed.any()) and bool((factor.diagonal(dim1=1, dim2=2).square() > floor).all()):
        return -_torch.cholesky_solve(slope[..., None], factor)[..., 0]
    values, vectors = _linalg.eigh(curvature)
    rotated = (vectors.transpose(1, 2) @ slope[..., None])[..., 0]
    return -(vectors @ (rotated / torch.maximum(values.abs(), floor))[..., None])[..., 0]


def limit_length(move: Tensor, longest: Tensor) -> Tensor:
    """Moves (b, m), shortened to the ``longest`` length of each trial (b,)."""
    return move * torch.clamp(longest / norms(move).clamp_min(SMALLEST_FLOAT), max=1.0)[:, None]


def search_line(
    frame: TrialFrame,
    point: Tensor,
    move: Tensor,
    *,
    project: Callable[[Tensor], Tensor],  # maps coordinates to the feasible set
    steepness: Callable[[Tensor, Tensor], Tensor],  # (slope, point) → distance from stationarity, (b,)
) -> tuple[Tensor, Tensor]:
    """Halve each trial's move until its loss falls, or does not rise and its gradient shrinks."""
    slope, losses = frame.slope(point)
    start_steepness = steepness(slope, point)
    at_rest = (move == 0).all(-1)  # trials that have ended have no move
    accepted, candidate = at_rest, point
    fraction = torch.ones_like(losses)  # of each trial's move
    for _ in range(MOST_HALVINGS):
        candidate = project(point + fraction[:, None] * move)
        new_slope, new_losses = frame.slope(candidate)
        # By a tenth, so that a loss that stays equal up to rounding does not hide endless moves.
        is_flatter = steepness(new_slope, candidate) < 0.9 * start_steepness
        falls = new_losses < losses - LOSS_NOISE
        stays = new_losses <= losses + LOSS_NOISE
        accepted = at_rest | falls | (stays & is_flatter)
        if bool(accepted.all()):
            break
        fraction = torch.where(accepted, fraction, 0.5 * fraction)
    # The new coordinates, and which trials moved.
    return torch.where(accepted[:, None], candidate, point), accepted & ~at_rest


def descend(
    frame: TrialFrame,
    point: Tensor,
    find_move: Callable[[Tensor, Tensor], Tensor],  # (point, slope) → the step of each trial, (b, m)
    *,
    project: Callable[[Tensor], Tensor],  # as in `search_line`
    steepness: Callable[[Tensor, Tensor], Tensor],
    tolerance: float,
    max_steps: int,
) -> Tensor:
    """Newton's method for all trials at once, until the steepness of each is at most ``tolerance``."""
    active = torch.ones(len(point), dtype=torch.bool)
    for _ in range(max_steps):
        slope, _ = frame.slope(point)
        active = active & (steepness(slope, point) > tolerance)
        if not bool(active.any()):
            break
        move = find_move(point, slope) * active[:, None]
        point, has_moved = search_line(frame, point, move, project=project, steepness=steepness)
        # A trial ends, too, if no fraction of its move is an improvement.
        active = active & has_moved
    return point


def norms(rows: Tensor) -> Tensor:
    """The length of each row, (b, m) → (b,)."""
    return (rows * rows).sum(1).sqrt()


def minimise_in_span(
    samples: Sequence[Samples],
    model: AttentionModel,
    tables: Sequence[Float64],
    *,
    far: Float64,
    axes: Float64,
    start: Float64,
) -> Float64:
    """Minimise L(W_far + V) over V in the span of the axes (b, m, d·d), by Newton's method from ``start``.

    Returns the coordinates of V, shape (b, m).
    """
    # If W_far is a large multiple of a Graph-SVM solution and the axes span the cyclic subspace of the
    # components, then V is the finite part: only the loss on reduced data is left.
    if not axes.shape[1]:
        return start
    with torch.no_grad():
        frame = TrialFrame(lay_out(model, samples, tables), torch.as_tensor(axes), torch.as_tensor(far))
        ones = torch.ones(len(start), dtype=frame.far.dtype)

        def find_move(point: Tensor, slope: Tensor) -> Tensor:
            step = find_newton_step(frame.curvature(point), slope, FLAT_CURVATURE * ones[:, None])
            return limit_length(step, ones)

        point = descend(
            frame,
            torch.as_tensor(start),
            find_move,
            project=lambda point: point,
            steepness=lambda slope, _: norms(slope),
            tolerance=0.0,
            max_steps=100,
        )
    return np.asarray(point.numpy(), np.float64)
