"""The proof of a fit, recomputed from its vectors by :func:`certify` and never taken from a solver.

A pair with difference d is proved to die by a direction v with d·v > 0 there and d·v = 0 on the pairs that
survive. These are proved by λ > 0 with Σ λ d = 0: either the weights n p (1 + (x − x̄)·u) of a Newton step u
at some point, the *witness*, or stored *multipliers*. Both proofs have margins of order 1, so that a rounding
error r is harmless if ‖r‖ / σ_min⁺(D₀) is below the margin, for the matrix D₀ of the surviving differences.
Only the rank of D₀ is ill-posed, and the certificate states its numbers. The finite part is proved by the
decrement g·u, with the gradient g and Newton's step u. S is the span of D₀, and R that of all differences.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from attomaton.base.printing import tell_accuracy
from attomaton.base.tables import Bool, Float64
from attomaton.choices.logit.curvature import root_diagonal
from attomaton.choices.logit.exact import has_rank
from attomaton.choices.logit.face import distinct_directions, find_balance
from attomaton.choices.logit.newton import LARGEST_FALL, LEAST_PROBABILITY, measure_fall
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.spans import CUT, SPAN_ROUNDING, Span
from attomaton.choices.logit.untyped import linalg

# The decrement g·u at which a fit counts as converged; the error of its contrasts in s.e. is its root.
CONVERGED = 1e-10

# The smallest eigenvalue of the scaled information on S, as a share of the largest, that is not rounding.
LEAST_INFORMATION = 1e-13

# The smallest share for singular values of the weighted rows instead: standard errors have seven digits.
LEAST_SINGULAR = 1e-9

# Above this share of the largest, the smallest eigenvalue of the information on S needs no other scale.
WELL_POSED = 1e-10

# Distinct pairs up to which multipliers are computed where a Newton step proves nothing.
MOST_MULTIPLIERS = 20_000


class LogitState(Enum):
    """How well a fit is proved; the value of a member is the printed sentence."""

    CERTIFIED = "every finite and every infinite estimate is proved"
    EQUAL = "feature values that differ by less than 1e-9 of the feature's scale are treated as equal"
    UNCERTIFIED = "the fit could not be proved"


class LogitEvidence(NamedTuple):
    """The vectors that a certificate is computed from, shape (n_parameters,) in scaled coordinates."""

    dying: Bool  # (n_rows,), the rows whose pairs die
    beta: Float64  # β*, the maximum on the other rows
    direction: Float64  # v
    witness: Float64  # where a Newton step proves that the other pairs survive
    multipliers: Float64 | None  # λ of the distinct surviving directions, if no step proves survival


@dataclass(frozen=True)
class LogitCertificate:
    """The numbers of the proof of a :class:`~attomaton.choices.LogitFit`.

    Pairs that die: ``rise`` is min d·v / ‖d‖ over them, less a bound on rounding (inf if none dies), and
    ``leak`` is max |d·v| / ‖d‖ over the others. ``survival`` names the proof of these: "Newton step",
    "multipliers", "fractions", or "" without one. ``fall`` is how far the step of the witness lowers an
    alternative, with its error bound; a proof needs less than ½. ``least_multiplier`` is the smallest
    multiplier, with the error ``multiplier_error``.

    The finite part: ``decrement`` is g·u at β, the squared error in standard errors. ``least_information`` is
    the smallest eigenvalue of the scaled information on S as a share of the largest, or its root.

    Ranks: ``rank`` is dim S, ``identified`` is dim R, and ``n_parameters`` the number of columns.
    ``least_kept`` and ``largest_dropped`` are the singular values of D₀ next to the cut, as shares of the
    largest, and ``outside`` is the largest component of a difference outside its span. ``exact`` says whether
    fractions have proved which pairs die.
    """

    rise: float
    leak: float
    survival: str
    fall: float
    least_multiplier: float
    multiplier_error: float
    decrement: float
    least_information: float
    rank: int
    identified: int
    least_kept: float
    largest_dropped: float
    outside: float
    n_parameters: int
    exact: bool = False

    @property
    def state(self) -> LogitState:
        """What the numbers prove."""
        if not (self.rise > 0 and self.survival and self.converged):
            return LogitState.UNCERTIFIED
        if self.exact or self.outside <= SPAN_ROUNDING * max(self.n_parameters, 1) ** 0.5:
            return LogitState.CERTIFIED
        return LogitState.EQUAL if self.outside <= 10 * CUT else LogitState.UNCERTIFIED

    @property
    def converged(self) -> bool:
        return self.decrement < CONVERGED and self.least_information > LEAST_INFORMATION

    @property
    def certified(self) -> bool:
        return self.state is LogitState.CERTIFIED

    @property
    def verdict(self) -> str:
        """The proof in a sentence for users."""
        if not self.certified:
            return f"not certified: {self.details}"
        distance = f"{CONVERGED**0.5:.0e} standard errors"
        return tell_accuracy("estimate", distance, infinite=self.rank < self.identified)

    def __str__(self) -> str:
        return f"{self.state.name.lower()}: {self.details}"

    @property
    def details(self) -> str:
        """The numbers of the proof in words."""
        dying = f"dying pairs rise by {self.rise:.2g} or more, others by {self.leak:.1g} at most"
        surviving = {
            "Newton step": f"survival by a Newton step (fall {self.fall:.2g} < {LARGEST_FALL})",
            "multipliers": f"survival by multipliers (least {self.least_multiplier:.2g}, "
            f"error {self.multiplier_error:.1g})",
            "fractions": "survival by fractions",
            "": "survival not proved",
        }
        cut = f"cut between {self.least_kept:.1g} and {self.largest_dropped:.1g}"
        phrases = [dying] if self.rise < np.inf else []
        phrases += [surviving[self.survival], f"decrement {self.decrement:.1g}"]
        return "; ".join([*phrases, f"rank {self.rank} of {self.identified} ({cut})"])


def certify(
    problem: ChoiceProblem, evidence: LogitEvidence, finite: Span, identified: Span, *, exact: bool = False
) -> tuple[LogitCertificate, Float64 | None]:
    """Compute the proof of a fit from its vectors, and S (SᵀHS)⁻¹ Sᵀ at β with the information H.

    The matrix is None on a graph. ``exact`` says that fractions have proved which pairs die.
    """
    face = ~evidence.dying if evidence.dying.any() else None
    rise, leak = measure_direction(problem, evidence.dying, evidence.direction, finite)
    at_beta = prove_by_step(problem, face, evidence.beta, finite)
    at_witness = at_beta
    if not np.array_equal(evidence.beta, evidence.witness):
        at_witness = prove_by_step(problem, face, evidence.witness, finite)
    least, error = np.nan, np.nan
    if evidence.multipliers is not None:
        least, error = measure_multipliers(problem, evidence.dying, evidence.multipliers, finite)
    by_multipliers = least > error and error < 0.5  # multipliers were at least 1 before rounding
    survival = "Newton step" if at_witness.fall < LARGEST_FALL else "multipliers" if by_multipliers else ""
    certificate = LogitCertificate(
        rise=np.inf if exact else rise,
        leak=0.0 if exact else leak,
        survival="fractions" if exact else survival,
        fall=at_witness.fall,
        least_multiplier=least,
        multiplier_error=error,
        decrement=at_beta.decrement,
        least_information=at_beta.least_information,
        rank=finite.rank,
        identified=identified.rank,
        least_kept=finite.least_kept,
        largest_dropped=finite.largest_dropped,
        outside=_measure_outside(problem, evidence.dying, finite, identified),
        n_parameters=problem.rows.n_parameters,
        exact=exact,
    )
    return certificate, at_beta.covariance


# The largest component of a difference outside its span; at least the cut if it is not rounding.
def _measure_outside(problem: ChoiceProblem, dying: Bool, finite: Span, identified: Span) -> float:
    for span, face in ((finite, ~dying), (identified, np.ones_like(dying))):
        if span.leak > 0 and not has_rank(problem, face, span.rank):
            return max(finite.leak, identified.leak, CUT)
    return max(finite.leak, identified.leak)


def measure_direction(
    problem: ChoiceProblem, dying: Bool, direction: Float64, finite: Span
) -> tuple[float, float]:
    """min d·v / ‖d‖ over dying pairs, less a bound on its error, and max |d·v| / ‖d‖ over the others."""
    if not dying.any():
        return np.inf, 0.0
    norm = np.where(problem.norms > 0, problem.norms, 1.0)
    height = problem.gaps(direction) / norm
    surviving = height[~dying]
    leak = float(np.abs(surviving).max(initial=0.0))
    # the exact direction, with D₀ v = 0, is at most ‖D₀ v‖ / σ_min⁺(D₀) away
    error_of_v = float(np.linalg.norm(surviving)) / finite.least_kept if finite.rank else 0.0
    # d·v adds n_terms products; a difference of games has two items, and the columns that are no items
    n_terms = len(direction) if problem.graph is None else len(direction) - problem.graph.n_items + 3
    length = min(n_terms**0.5 * float(np.abs(direction).max()), float(np.linalg.norm(direction)))
    rounding = 4 * n_terms * np.finfo(float).eps * length
    return float(height[dying].min()) - error_of_v - rounding, leak


class StepProof(NamedTuple):
    """What a Newton step proves; the fields are those of :class:`LogitCertificate`, and S (SᵀHS)⁻¹ Sᵀ."""

    decrement: float
    least_information: float
    fall: float
    covariance: Float64 | None


def prove_by_step(problem: ChoiceProblem, face: Bool | None, beta: Float64, finite: Span) -> StepProof:
    """Measure the Newton step u at β on the face; the fall is infinite where it proves nothing."""
    if finite.rank == 0:
        return StepProof(0.0, 1.0, 0.0, None if problem.graph else np.zeros((len(beta), len(beta))))
    utilities = problem.with_offsets(problem.utilities(beta))
    probability = problem.probabilities(utilities, face)[0]
    if problem.graph is not None:
        return _prove_on_graph(problem, face, utilities, probability)
    spectrum = _find_spectrum(problem, probability, finite)
    if not spectrum.is_regular:
        return StepProof(np.inf, spectrum.least, np.inf, np.zeros((len(beta), len(beta))))
    gradient = spectrum.basis.T @ (problem.gradient(problem.residuals(probability)) / spectrum.scale)
    step = spectrum.solve(gradient)
    residual = spectrum.vectors.T @ (gradient - spectrum.times(step))
    error = float(np.sqrt((residual**2 / spectrum.values).sum()))
    fall = _bound_fall(problem, face, probability, (spectrum.basis @ step) / spectrum.scale, error)
    eigenvectors = (spectrum.basis @ spectrum.vectors) / spectrum.scale[:, None]
    eigenvectors = finite.basis @ (finite.basis.T @ eigenvectors)  # their components in S
    covariance = (eigenvectors / spectrum.values) @ eigenvectors.T
    return StepProof(float(gradient @ step), spectrum.least, fall, covariance)


class Spectrum(NamedTuple):
    """The eigenvalues and eigenvectors of BᵀHB, the information H on S, for a basis B of S."""

    values: Float64  # (rank,), ascending
    vectors: Float64  # (rank, rank)
    basis: Float64  # B, (n_parameters, rank), orthonormal columns in coordinates multiplied by ``scale``
    scale: Float64  # (n_parameters,)
    matrix: Float64  # BᵀHB
    rows: Float64 | None  # A with AᵀA = BᵀHB, shape (n_rows, rank), where BᵀHB is too inaccurate

    @property
    def least(self) -> float:
        """The smallest eigenvalue as a share of the largest, or its root where there are rows."""
        least = float(self.values[0] / max(self.values[-1], 1e-300))
        return least if self.rows is None else least**0.5

    @property
    def is_regular(self) -> bool:
        return self.least > (LEAST_INFORMATION if self.rows is None else LEAST_SINGULAR)

    def times(self, step: Float64) -> Float64:
        """BᵀHB u."""
        return self.matrix @ step if self.rows is None else self.rows.T @ (self.rows @ step)

    def solve(self, gradient: Float64) -> Float64:
        """The u with BᵀHB u = ``gradient``."""
        step = np.zeros_like(gradient)
        for _ in range(3):  # each solves for what rounding left of the gradient
            step += self.vectors @ ((self.vectors.T @ (gradient - self.times(step))) / self.values)
        return step


# The spectrum in scaled coordinates, or if it is ill-posed there, where H has the diagonal 1.
def _find_spectrum(problem: ChoiceProblem, probability: Float64, finite: Span) -> Spectrum:
    information = problem.information(probability)
    basis = finite.basis
    matrix = basis.T @ information @ basis
    values, vectors = linalg.eigh(matrix, check_finite=False)
    if values[0] > WELL_POSED * values[-1]:
        return Spectrum(values, vectors, basis, np.ones(len(basis)), matrix, None)
    scale = root_diagonal(information)  # counts such as 1 and 10¹² differ in it
    basis = linalg.qr(finite.basis / scale[:, None], mode="economic", check_finite=False)[0]
    rows = problem.weighted_rows(probability, basis / scale[:, None])
    if rows is None:
        matrix = basis.T @ (information / np.outer(scale, scale)) @ basis
        values, vectors = linalg.eigh(matrix, check_finite=False)
        return Spectrum(values, vectors, basis, scale, matrix, None)
    # the Gram matrix would square the condition
    singular, right = linalg.svd(rows, full_matrices=False, check_finite=False)[1:]
    return Spectrum(singular[::-1] ** 2, right[::-1].T, basis, scale, matrix, rows)


# Measure the Newton step on the graph of games, with a bound on the errors of solver and rounding.
def _prove_on_graph(
    problem: ChoiceProblem, face: Bool | None, utilities: Float64, probability: Float64
) -> StepProof:
    curvature = problem.curvature(probability)
    gradient = problem.gradient(problem.residuals(probability))
    step = curvature.solve(gradient)
    residual = np.abs(gradient - curvature.times(step)) + problem.rounding(utilities)
    error = curvature.bound(residual)
    fall = _bound_fall(problem, face, probability, step, error)
    decrement = (max(float(gradient @ step), 0.0) ** 0.5 + error) ** 2  # √ is a norm
    return StepProof(decrement, curvature.least, fall, None)


# A bound on how far a step u lowers an alternative, if r = g − H u has ‖r‖_{H⁺} ≤ ``error``.
def _bound_fall(
    problem: ChoiceProblem, face: Bool | None, probability: Float64, step: Float64, error: float
) -> float:
    # the exact step lowers it by at most ‖r‖_{H⁺} / √(N p) more, because H ⪰ N p (x − x̄)(x − x̄)ᵀ
    fall, lowest = measure_fall(problem, face, probability, problem.utilities(step))
    fall += error / np.sqrt(max(lowest * float(problem.totals.min(initial=1.0)), 1e-300))
    return fall if lowest >= LEAST_PROBABILITY else np.inf


def surviving_directions(problem: ChoiceProblem, dying: Bool) -> tuple[Float64, Bool]:
    """The distinct directions of surviving pairs, and which of them are pairs both ways."""
    rows = np.flatnonzero(problem.is_pair & ~dying & (problem.norms > 0))
    directions, direction_of = distinct_directions(problem.differences(rows), digits=None)
    both_ways = np.zeros(len(directions), bool)
    both_ways[direction_of[problem.also_chosen[rows]]] = True
    return directions, both_ways


def find_multipliers(problem: ChoiceProblem, dying: Bool) -> Float64 | None:
    """λ with Σ λ d = 0 over surviving directions, λ ≥ 1 except on pairs both ways; None if none exists."""
    if problem.graph is not None or int((problem.is_pair & ~dying).sum()) > MOST_MULTIPLIERS:
        return None
    directions, both = surviving_directions(problem, dying)
    if not len(directions):
        return np.zeros(0)
    multipliers = find_balance(directions, both)
    if multipliers is None:
        return None
    for _ in range(2):  # spread the remainder of Σ λ d evenly over all pairs
        multipliers = multipliers - np.linalg.lstsq(directions.T, directions.T @ multipliers, rcond=1e-12)[0]
    return multipliers


def measure_multipliers(
    problem: ChoiceProblem, dying: Bool, multipliers: Float64, finite: Span
) -> tuple[float, float]:
    """The least multiplier of a pair one way, and the bound ‖Σ λ d‖ / σ_min⁺ on the error of each."""
    directions, both = surviving_directions(problem, dying)
    if len(multipliers) != len(directions):
        return -np.inf, np.inf
    imbalance = float(np.linalg.norm(multipliers @ directions))
    imbalance += 4 * np.finfo(float).eps * float(np.abs(multipliers).sum())
    least = float(multipliers[~both].min(initial=np.inf))
    return least, imbalance / finite.least_kept if finite.rank else 0.0
