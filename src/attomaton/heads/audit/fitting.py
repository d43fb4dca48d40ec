"""The fit of attention by scores: a convex problem for each head, solved by Newton steps.

softmax(c_lag + e_token + Σ_f β_f x_f) is fitted to attention rows by their mean cross-entropy. The lags'
offsets c are the position profile, the tokens' effects e the key tokens; either may be left out.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from attomaton.base.tables import Float64, Int32
from attomaton.heads.audit.rows import NOTHING

TINY = 1e-6
"""Ridge of offsets and scales, which only chooses among equals, and keeps what runs away within bounds."""

ENOUGH = 1e-8
"""The largest entry of the gradient that is left, of a loss in nats, for a head that is a nat from uniform.

It is far below ``TINY``, which alone holds the offsets of places that a sharp head never looked at, and less
by the root where a head is nearer to uniform, so that the share is found as exactly.
"""

ROUNDING = 1e-14
"""What a loss may rise by rounding."""

MOST_STEPS = 60
MOST_TURNS = 60
"""Newton steps of a fit, and turns of the conjugate gradients of each."""


@dataclass(frozen=True, eq=False)
class Design:
    """What attention rows of one head are explained by.

    Attributes
    ----------
    profile : bool
        Whether every lag has an offset of its own.
    tokens : int32 array, shape (n_rows, window), optional
        The tokens, where every token has an effect of its own.
    n_tokens : int
        Size of the vocabulary.
    features : float64 array, shape (n_features, n_rows, window)
        The scores of rungs.
    ridge : float
        Of the tokens' effects.
    """

    profile: bool
    tokens: Int32 | None
    n_tokens: int
    features: Float64
    ridge: float = 1e-3

    @property
    def borders(self) -> tuple[int, int]:
        """Where offsets end and effects end, among the coefficients; the scales β stand behind."""
        lags = self.features.shape[2] if self.profile else 0
        return lags, lags + (0 if self.tokens is None else self.n_tokens)

    @property
    def size(self) -> int:
        """How many coefficients there are."""
        return self.borders[1] + len(self.features)

    @property
    def penalty(self) -> Float64:
        """The ridge of each coefficient, shape (size,)."""
        lags, tokens = self.borders
        penalty = np.full(self.size, TINY)
        penalty[lags:tokens] = 2.0 * self.ridge
        return penalty

    def scores(self, coefficients: Float64) -> Float64:
        """The scores of all places, shape (n_rows, window)."""
        lags, tokens = self.borders
        total = np.zeros(self.features.shape[1:])
        if lags:
            total += coefficients[:lags]
        if self.tokens is not None:
            total += coefficients[lags:tokens][self.tokens]
        for scale, feature in zip(coefficients[tokens:], self.features, strict=True):
            total += scale * feature
        return total

    def collect(self, weights: Float64) -> Float64:
        """The adjoint of :meth:`scores`: sums of place weights by coefficient, shape (size,)."""
        parts = [weights.sum(0)] if self.profile else []
        if self.tokens is not None:
            parts.append(np.bincount(self.tokens.ravel(), weights.ravel(), minlength=self.n_tokens))
        parts.append(np.einsum("fnw,nw->f", self.features, weights))
        return np.concatenate(parts)

    def squares(self, weights: Float64) -> Float64:
        """Sums of place weights times squared entries, by coefficient, shape (size,)."""
        own = self.collect(weights)
        own[self.borders[1] :] = np.einsum("fnw,fnw,nw->f", self.features, self.features, weights)
        return own


def fit_head(design: Design, attention: Float64, start: Float64 | None = None) -> Float64:
    """The coefficients that explain attention rows of shape (n_rows, window) best, shape (size,).

    The loss is convex: mean cross-entropy in nats plus half the penalties. Damped Newton steps, by conjugate
    gradients on the curvature of the loss; it ends when no entry of the gradient is above ``ENOUGH``
    times the root of the mean KL(attention ‖ uniform).
    """
    penalty, n = design.penalty, len(attention)
    found = np.zeros(design.size) if start is None else start.copy()
    logs = log_softmax(design.scores(found), axis=-1)
    value = -np.vdot(attention, logs) / n + 0.5 * np.vdot(penalty, found**2)
    flat = np.full((1, attention.shape[1]), -np.log(attention.shape[1]))
    enough = ENOUGH * np.sqrt(np.clip(divergence(attention, flat).mean(), 1e-12, 1.0))
    for _ in range(MOST_STEPS):
        chances = np.exp(logs)
        gradient = design.collect((chances - attention) / n) + penalty * found
        if np.abs(gradient).max(initial=0.0) <= enough:
            break
        step = _newton_step(design, chances, penalty, gradient)
        slope, size = np.vdot(gradient, step), 1.0
        while True:
            tried = found + size * step
            logs = log_softmax(design.scores(tried), axis=-1)
            new = -np.vdot(attention, logs) / n + 0.5 * np.vdot(penalty, tried**2)
            if new <= value + 1e-4 * size * slope + ROUNDING or size < 1e-6:
                break
            size *= 0.5
        found, value = tried, new
    return found


def _newton_step(design: Design, chances: Float64, penalty: Float64, gradient: Float64) -> Float64:
    """−H⁻¹ g by conjugate gradients with the diagonal of H as preconditioner."""
    n = len(chances)
    diagonal = design.squares(chances / n) + penalty
    step, left = np.zeros(len(gradient)), -gradient
    scaled = left / diagonal
    way, product = scaled.copy(), np.vdot(left, scaled)
    enough = min(0.1, np.sqrt(product)) * np.sqrt(product)
    for _ in range(MOST_TURNS):
        along = design.scores(way)
        along -= np.einsum("nw,nw->n", chances, along)[:, None]
        bent = design.collect(chances * along / n) + penalty * way
        size = product / np.vdot(way, bent)
        step += size * way
        left = left - size * bent
        scaled = left / diagonal
        product, old = np.vdot(left, scaled), product
        if np.sqrt(product) <= enough:
            break
        way = scaled + (product / old) * way
    return step


def divergence(attention: Float64, logs: Float64) -> Float64:
    """KL(attention ‖ exp(logs)) of each row, in nats, shape (n_rows,)."""
    own = np.where(attention > 0, attention * np.log(np.maximum(attention, NOTHING)), 0.0)
    return (own - attention * logs).sum(-1)
