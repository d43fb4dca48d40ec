"""Proof for the Luce problem: how far the gradient is from zero at the returned scores."""

from dataclasses import dataclass

import numpy as np

from attomaton.soft.likelihood import LuceProblem
from attomaton.tables import Float64


@dataclass(frozen=True)
class SoftCertificate:
    """The gradient of the summed loss at the answer.

    Attributes
    ----------
    gradient_norm : float
        Largest absolute entry of the gradient. The loss is convex, so 0 means optimal.
    excess : float
        The same after taking off each entry what rounding alone may leave (8 units in the last place for each
        choice of its component), which matters from about ten million choices on.
    atol : float
        The excess asked for.
    """

    gradient_norm: float
    excess: float
    atol: float

    @property
    def certified(self) -> bool:
        """Whether the gradient is within tolerance."""
        return bool(self.excess <= self.atol)

    def __str__(self) -> str:
        return f"largest gradient entry {self.gradient_norm:.1e} (asked {self.atol:.0e} beyond rounding)"


def certify_scores(problem: LuceProblem, scores: Float64, *, atol: float) -> SoftCertificate:
    """The certificate of ``scores``, shape (n_alternatives,)."""
    gradient = np.abs(problem.gradient(scores))
    excess = gradient - problem.rounding()
    return SoftCertificate(float(np.max(gradient, initial=0.0)), float(np.max(excess, initial=0.0)), atol)


def certify_coordinates(
    problem: LuceProblem, features: Float64, coordinates: Float64, *, atol: float
) -> SoftCertificate:
    """The certificate of the scores features @ coordinates among all of that form."""
    gradient = np.abs(features.T @ problem.gradient(features @ coordinates))
    norm = float(np.max(gradient, initial=0.0))
    return SoftCertificate(norm, norm, atol)
