"""The fit of softmax scores to the attention rows of one head, by damped Newton steps: a convex problem.

The score of key j in row i is c_j + e_token(i, j) + Σ_f β_f x_f(i, j): an offset c for each key, an effect e
for each token, and scales β of given features x. Offsets and effects are optional. The loss is the mean
cross-entropy of attention and softmax(scores), plus a ridge. Without effects there are few coefficients, and
the Hessian is factored; with effects, conjugate gradients are used. :func:`fit_head` fits a :class:`Design`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_softmax

from attomaton.base.tables import Float64, Int64
from attomaton.heads.audit.rows import LEAST_ATTENTION

TINY = 1e-6  # ridge of offsets and scales: it only chooses among equal fits and bounds divergent coefficients

# The largest gradient entry at which a fit stops, in nats, for a head one nat away from uniform.
#
# It is far below ``TINY``, which alone bounds the offsets of positions that a sharp head never attends to. It
# is scaled by the root of the distance to uniform, so that the share is equally exact for all heads.
GRADIENT_TOLERANCE = 1e-8

LOSS_ROUNDING = 1e-14  # by how much rounding may raise a loss

SUFFICIENT_DECREASE = 1e-4  # the part of the decrease by the slope that a step must achieve (Armijo)

SHORTEST_STEP = 1e-6  # the part of a Newton step below which it is not halved again

MOST_NEWTON_STEPS = 60  # steps of a fit

MOST_CONJUGATE_STEPS = 60  # iterations of conjugate gradients in each step


@dataclass(frozen=True, eq=False)
class Design:
    """The regressors for the attention rows of one head.

    The coefficients are in the order of the fields: offsets c, effects e, scales β.
    """

    profile: bool  # whether keys have offsets
    tokens: Int64 | None  # (n_rows, n_keys): the number of the token at each key; None for no effects
    n_tokens: int
    features: Float64  # (n_features, n_rows, n_keys)
    ridge: float = 1e-3  # of effects

    @property
    def borders(self) -> tuple[int, int]:
        """Where offsets end and where effects end among the coefficients."""
        n_offsets = self.features.shape[2] if self.profile else 0
        return n_offsets, n_offsets + (0 if self.tokens is None else self.n_tokens)

    @property
    def size(self) -> int:
        """The number of coefficients."""
        return self.borders[1] + len(self.features)

    @cached_property
    def penalty(self) -> Float64:
        """The ridge: ½ Σ penalty · coefficient² is added to the loss; shape (size,)."""
        offsets_end, effects_end = self.borders
        penalty = np.full(self.size, TINY)
        penalty[offsets_end:effects_end] = 2.0 * self.ridge
        return penalty

    # Which token each key has, as a sparse matrix of shape (n_rows · n_keys, n_tokens).
    @cached_property
    def _occurrences(self) -> Any:
        tokens = np.empty(0, np.int64) if self.tokens is None else self.tokens.ravel()
        # Compressed rows with one entry each: the entry of row i is at i.
        entries = (np.ones(len(tokens)), tokens, np.arange(len(tokens) + 1))
        return sparse.csr_matrix(entries, shape=(len(tokens), self.n_tokens))

    def scores(self, coefficients: Float64) -> Float64:
        """The scores with these coefficients (size,), shape (n_rows, n_keys)."""
        offsets_end, effects_end = self.borders
        total = np.tensordot(coefficients[effects_end:], self.features, 1)
        if offsets_end:
            total += coefficients[:offsets_end]
        if self.tokens is not None:
            total += (self._occurrences @ coefficients[offsets_end:effects_end]).reshape(total.shape)
        return total

    def collect(self, weights: Float64) -> Float64:
        """The adjoint of :meth:`scores`: sums of weights (n_rows, n_keys) by coefficient, shape (size,)."""
        sums = [weights.sum(0)] if self.profile else []
        if self.tokens is not None:
            sums.append(self._occurrences.T @ weights.ravel())
        sums.append(self.features.reshape(len(self.features), weights.size) @ weights.ravel())
        return np.concatenate(sums)

    def collect_squares(self, weights: Float64) -> Float64:
        """Sums of weights times squared regressors by coefficient, shape (size,)."""
        sums = self.collect(weights)
        sums[self.borders[1] :] = np.einsum("fnw,fnw,nw->f", self.features, self.features, weights)
        return sums

    def evaluate(self, coefficients: Float64, attention: Float64) -> tuple[float, Float64]:
        """The loss, and the logarithms of the fitted attention, shape (n_rows, n_keys)."""
        logs = log_softmax(self.scores(coefficients), axis=-1)
        loss = -np.vdot(attention, logs) / len(attention) + 0.5 * np.vdot(self.penalty, coefficients**2)
        return float(loss), logs


def fit_head(design: Design, attention: Float64, start: Float64 | None = None) -> Float64:
    """The coefficients with the smallest loss on attention (n_rows, n_keys), by damped Newton steps."""
    n, n_keys = attention.shape
    coefficients = np.zeros(design.size) if start is None else start.copy()
    loss, logs = design.evaluate(coefficients, attention)
    logs_of_uniform = np.full((1, n_keys), -np.log(n_keys))
    distance = np.clip(divergence(attention, logs_of_uniform).mean(), 1e-12, 1.0)
    tolerance = GRADIENT_TOLERANCE * np.sqrt(distance)
    find_step = _newton_step if design.tokens is None else _conjugate_step
    for _ in range(MOST_NEWTON_STEPS):
        probabilities = np.exp(logs)
        gradient = design.collect((probabilities - attention) / n) + design.penalty * coefficients
        if np.abs(gradient).max(initial=0.0) <= tolerance:
            break
        step = find_step(design, probabilities, gradient)
        slope = np.vdot(gradient, step)
        size = 1.0
        while True:
            moved = coefficients + size * step
            new_loss, logs = design.evaluate(moved, attention)
            if new_loss <= loss + SUFFICIENT_DECREASE * size * slope + LOSS_ROUNDING or size < SHORTEST_STEP:
                break
            size *= 0.5
        coefficients, loss = moved, new_loss
    return coefficients


# −H⁻¹ g by Cholesky's factorisation of the Hessian H, without effects of tokens.
def _newton_step(design: Design, probabilities: Float64, gradient: Float64) -> Float64:
    # H is the covariance of the regressors under the fitted probabilities p, averaged over rows, plus the
    # ridge: between features f and g, Σ_ij p_ij f_ij g_ij − Σ_i (Σ_j p_ij f_ij)(Σ_j p_ij g_ij), over n.
    n_offsets, _ = design.borders
    weighted = design.features * probabilities
    means = weighted.sum(2)  # (n_features, n_rows)
    products = np.tensordot(weighted, design.features, ((1, 2), (1, 2)))
    hessian = np.empty((design.size, design.size))
    hessian[n_offsets:, n_offsets:] = products - means @ means.T
    if n_offsets:
        hessian[:n_offsets, :n_offsets] = np.diag(probabilities.sum(0)) - probabilities.T @ probabilities
        hessian[n_offsets:, :n_offsets] = weighted.sum(1) - means @ probabilities
        hessian[:n_offsets, n_offsets:] = hessian[n_offsets:, :n_offsets].T
    hessian /= len(probabilities)
    hessian[np.diag_indices(design.size)] += design.penalty
    return -cho_solve(cho_factor(hessian), gradient)


# −H⁻¹ g by conjugate gradients, preconditioned by about the diagonal of the Hessian H.
def _conjugate_step(design: Design, probabilities: Float64, gradient: Float64) -> Float64:
    n = len(probabilities)
    diagonal = design.collect_squares(probabilities / n) + design.penalty  # without squares of means
    step = np.zeros(len(gradient))
    residual = -gradient
    scaled = residual / diagonal
    direction = scaled.copy()
    product = np.vdot(residual, scaled)
    tolerance = min(0.1, np.sqrt(product)) * np.sqrt(product)  # exact steps only near the minimum
    for _ in range(MOST_CONJUGATE_STEPS):
        # H · direction: the change of the scores, minus its mean in each row under the probabilities.
        change = design.scores(direction)
        change -= np.einsum("nw,nw->n", probabilities, change)[:, None]
        hessian_direction = design.collect(probabilities * change / n) + design.penalty * direction
        size = product / np.vdot(direction, hessian_direction)
        step += size * direction
        residual = residual - size * hessian_direction
        scaled = residual / diagonal
        old_product = product
        product = np.vdot(residual, scaled)
        if np.sqrt(product) <= tolerance:
            break
        direction = scaled + (product / old_product) * direction
    return step


def divergence(attention: Float64, logs: Float64) -> Float64:
    """KL(attention ‖ exp(logs)) of each row, in nats, shape (n_rows,)."""
    logs_of_attention = np.log(np.maximum(attention, LEAST_ATTENTION))
    negative_entropy = np.where(attention > 0, attention * logs_of_attention, 0.0)
    return (negative_entropy - attention * logs).sum(-1)
