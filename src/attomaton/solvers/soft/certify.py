"""Prove how far the scores of a Luce problem can be from the optimum.

Let g be the gradient at the scores s, λ the smallest eigenvalue of the Hessian there (over the directions in
which scores may move), and δ the step to the optimum. The third derivative of a log-sum-exp along δ is the
third central moment of δ under p, at most d times its variance, where d is the range of δ. So the curvature
along the step decays no faster than e^{−d t}, and since the slope at its end is 0,

    −g·δ ≥ δᵀHδ · (1 − e^{−d})/d,   hence   ‖δ‖ (1 − e^{−d})/d ≤ ‖g‖/λ.

With d ≤ κ‖δ‖ (κ = √2 for free scores: the range of a vector is at most √2 times its length) this gives

    ‖δ‖ ≤ −ln(1 − κ‖g‖/λ)/κ   where κ‖g‖/λ < 1.

Near the optimum, and without a ridge, entries of the gradient bound the error of each score more closely,
because rounding errors of different tokens do not add up: with v > 0 as in
:mod:`~attomaton.solvers.soft.curvature`, no score moves by more than max_i |g_i| / (L_r v)_i · max v (the
kernel proves it with the change of L_r on the way).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Float64
from attomaton.solvers.soft.curvature import measure_slopes
from attomaton.solvers.soft.likelihood import LuceProblem, Slopes

# Largest error of a score in a certified answer.
SCORES_WITHIN = 1e-6


@dataclass(frozen=True)
class SoftCertificate:
    """Gradient, curvature and the resulting error bound of the scores, for the worst of all components.

    ``gradient_norm`` is the largest absolute entry of the gradient of the summed loss, which is 0 at the
    optimum. ``excess`` is this entry minus its possible rounding error (8 units in the last place for each
    choice of its component), and ``atol`` the tolerance on the excess. ``curvature`` is a proved lower bound
    on the smallest eigenvalue of the Hessian over scores with mean zero in each component; None means that no
    component has two tokens. Every score is within ``error_bound`` of the optimum; None means that nothing
    was proved.
    """

    gradient_norm: float
    excess: float
    atol: float
    curvature: float | None
    error_bound: float | None

    @property
    def certified(self) -> bool:
        """Whether the gradient is within tolerance and score errors are proved to be at most 1e-6."""
        proven = self.error_bound is not None and self.error_bound <= SCORES_WITHIN
        return bool(self.excess <= self.atol) and proven

    def __str__(self) -> str:
        error = "not bounded" if self.error_bound is None else f"at most {self.error_bound:.1e}"
        return (
            f"error of a score {error} (tolerance {SCORES_WITHIN:.0e}), "
            f"largest gradient entry {self.gradient_norm:.1e} (tolerance {self.atol:.0e} beyond rounding)"
        )


def join_soft(certificates: Sequence[SoftCertificate]) -> SoftCertificate:
    """The worst certificate of separately solved partitions."""
    curvatures = [certificate.curvature for certificate in certificates if certificate.curvature is not None]
    bounds = [certificate.error_bound for certificate in certificates]
    proven = [bound for bound in bounds if bound is not None]
    return SoftCertificate(
        gradient_norm=max(certificate.gradient_norm for certificate in certificates),
        excess=max(certificate.excess for certificate in certificates),
        atol=max(certificate.atol for certificate in certificates),
        curvature=min(curvatures, default=None),
        error_bound=max(proven) if len(proven) == len(bounds) else None,
    )


def certify_scores(
    problem: LuceProblem, scores: Float64, *, atol: float, ridge: float = 0.0, threads: int | None = None
) -> SoftCertificate:
    """The certificate of ``scores``, shape (n_alternatives,), for the summed loss + ½ ridge Σ s²."""
    if not np.isfinite(scores).all():  # a solver gave up: nothing can be proven
        return SoftCertificate(np.inf, np.inf, atol, None, None)
    slopes = measure_slopes(problem, scores, ridge=ridge, threads=threads)
    return certify_slopes(slopes, problem.rounding(), atol=atol)


def certify_slopes(slopes: Slopes, rounding: Float64, *, atol: float) -> SoftCertificate:
    distance = bound_distance(slopes.gradient, slopes.curvature)
    return SoftCertificate(
        gradient_norm=float(np.max(slopes.largest, initial=0.0)),
        excess=float(np.max(slopes.largest - rounding, initial=0.0)),
        atol=atol,
        curvature=_finite_or_none(float(np.min(slopes.curvature, initial=np.inf))),
        error_bound=_finite_or_none(float(np.max(distance, initial=0.0))),
    )


def certify_coordinates(
    problem: LuceProblem, features: Float64, coordinates: Float64, *, atol: float
) -> SoftCertificate:
    """The certificate of the scores features @ coordinates among all scores of this form."""
    scores = features @ coordinates
    gradient = features.T @ problem.gradient(scores)
    norm = float(np.max(np.abs(gradient), initial=0.0))
    if not features.size:
        return SoftCertificate(norm, norm, atol, None, 0.0)
    rounding = np.abs(features).T @ problem.rounding()[problem.component]
    hessian = features.T @ problem.curvature_of(problem.probabilities(scores), features)
    slack = 8 * len(features) * np.finfo(np.float64).eps * float(np.linalg.norm(hessian))
    curvature = max(float(np.linalg.eigvalsh(hessian)[0]) - slack, 0.0)
    longest = float(np.linalg.norm(features, axis=1).max())
    steepest = np.array([float(np.linalg.norm(np.abs(gradient) + rounding))])
    distance = bound_distance(steepest, np.array([curvature]), reach=2 * longest)
    return SoftCertificate(norm, norm, atol, curvature, _finite_or_none(longest * float(distance[0])))


def bound_distance(gradient: Float64, curvature: Float64, *, reach: float = np.sqrt(2.0)) -> Float64:
    """−ln(1 − κ‖g‖/λ)/κ with κ = ``reach``, or infinity if that proves nothing."""
    ratio = np.divide(reach * gradient, curvature, out=np.ones_like(gradient), where=curvature > 0.0)
    return -np.log1p(-np.minimum(ratio, 1.0), out=np.full_like(ratio, -np.inf), where=ratio < 1.0) / reach


def _finite_or_none(bound: float) -> float | None:
    return bound if np.isfinite(bound) else None
