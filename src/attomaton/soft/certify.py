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
    atol : float
        The norm asked for.
    """

    gradient_norm: float
    atol: float

    @property
    def certified(self) -> bool:
        """Whether the gradient is within tolerance."""
        return bool(self.gradient_norm <= self.atol)

    def __str__(self) -> str:
        return f"largest gradient entry {self.gradient_norm:.1e} (asked {self.atol:.0e})"


def certify_scores(problem: LuceProblem, scores: Float64, *, atol: float) -> SoftCertificate:
    """The certificate of ``scores``, shape (n_alternatives,)."""
    return SoftCertificate(float(np.abs(problem.gradient(scores)).max(initial=0.0)), atol)
