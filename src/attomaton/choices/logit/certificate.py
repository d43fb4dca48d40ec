"""What proves a fit: recomputed from its vectors by the lines below, never taken from a solver.

Dying pairs are proved by a direction v with d·v > 0 there and d·v = 0 on the others. Surviving pairs are
proved by λ > 0 with Σ λ d = 0: weights n p (1 + (x − x̄)·u) of a Newton step at some point (the witness), or
multipliers stored as such. Both proofs have margins of order 1, so that a rounding error r is harmless if
‖r‖ / σ_min⁺(D₀) is below the margin; only the rank of D₀ is ill-posed, and its numbers are stated.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from attomaton.base.printing import tell_accuracy
from attomaton.base.tables import Bool, Float64
from attomaton.choices.logit.exact import has_rank
from attomaton.choices.logit.face import distinct_directions, find_balance
from attomaton.choices.logit.newton import LARGEST_FALL, LEAST_PROBABILITY, measure_fall
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.spans import CUT, SPAN_ROUNDING, Span
from attomaton.choices.logit.untyped import linalg

CONVERGED = 1e-10
"""The decrement g·u at which a fit counts as converged; the error of its contrasts in s.e. is its root."""

LEAST_INFORMATION = 1e-13
"""The smallest eigenvalue of the scaled information on S, as a share of the largest, that is not rounding."""

LEAST_SINGULAR = 1e-9
"""The smallest such share of singular values of the weighted rows: standard errors have seven digits."""

WELL_POSED = 1e-10
"""Above this share of the largest, the smallest eigenvalue of the information on S needs no other scale."""

MOST_MULTIPLIERS = 20_000
"""Distinct pairs up to which multipliers are computed where a Newton step proves nothing."""


class LogitState(Enum):
    """How well a fit is proved; the value of a member says so in words.

    Examples
    --------
    >>> from attomaton.choices import binary_logit, fit_logit
    >>> fit = fit_logit(binary_logit([[1.0], [1.0], [1.0]], [0, 1, 1]))
    >>> fit.state is LogitState.CERTIFIED
    True
    """

    CERTIFIED = "every pair's fate and the finite part are proved"
    EQUAL = "differences below 1e-9 of a feature's scale decide; they are treated as equal"
    UNCERTIFIED = "the proof is incomplete"


class LogitEvidence(NamedTuple):
    """The vectors that a certificate is computed from, in scaled coordinates."""

    dying: Bool  # (n_rows,)
    beta: Float64
    direction: Float64  # v
    witness: Float64  # where a Newton step proves that the other pairs survive
    multipliers: Float64 | None  # λ of the distinct surviving directions, if a step cannot


@dataclass(frozen=True)
class LogitCertificate:
    """The numbers of the proof.

    Attributes
    ----------
    rise : float
        min d·v / ‖d‖ over dying pairs, less what rounding may take away; inf if none dies.
    leak : float
        max |d·v| / ‖d‖ over surviving pairs.
    survival : str
        What proves survival: "Newton step", "multipliers", "fractions", or "" if nothing does.
    fall : float
        How far the witness' step lowers an alternative, its error bound included; survival needs < ½ here,
        < 1 in theory.
    least_multiplier, multiplier_error : float
        Where multipliers prove survival: the smallest, and ‖Σ λ d‖ / σ_min⁺.
    decrement : float
        g·u at β, the squared error of the finite part in standard errors.
    least_information : float
        The smallest eigenvalue of the scaled information on S at β as a share of the largest, or its root
        where it was computed from the rows.
    rank, identified : int
        dim S and dim R.
    least_kept, largest_dropped : float
        Singular values of D₀ next to the cut, as shares of the largest.
    outside : float
        The largest part of a difference outside the span that it was put into.
    n_parameters : int
        The number of columns.
    exact : bool
        Whether fractions have proved which pairs die.

    Examples
    --------
    >>> from attomaton.choices import binary_logit, fit_logit
    >>> proof = fit_logit(binary_logit([[1.0], [2.0], [3.0]], [0, 1, 1])).certificate
    >>> proof.certified, proof.survival, proof.rank, proof.identified
    (True, 'Newton step', 1, 1)
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
        """Certified, treated as equal, or not certified."""
        if not (self.rise > 0 and self.survival and self.converged):
            return LogitState.UNCERTIFIED
        if self.exact or self.outside <= SPAN_ROUNDING * max(self.n_parameters, 1) ** 0.5:
            return LogitState.CERTIFIED
        return LogitState.EQUAL if self.outside <= 10 * CUT else LogitState.UNCERTIFIED

    @property
    def converged(self) -> bool:
        """Whether the finite part is proved."""
        return self.decrement < CONVERGED and self.least_information > LEAST_INFORMATION

    @property
    def certified(self) -> bool:
        """Whether everything is proved."""
        return self.state is LogitState.CERTIFIED

    @property
    def verdict(self) -> str:
        """What is proved, in one sentence; with the numbers of the proof if something is not proved."""
        if not self.certified:
            return f"not certified: {self}"
        distance = f"{CONVERGED**0.5:.0e} standard errors"
        return tell_accuracy("estimate", distance, infinite=self.rank < self.identified)

    def __str__(self) -> str:
        phrases = list[str]()
        if self.rise < np.inf:
            phrases.append(f"dying pairs rise by {self.rise:.2g} or more, others by {self.leak:.1g} at most")
        if self.survival == "Newton step":
            phrases.append(f"survival by a Newton step (fall {self.fall:.2g} < {LARGEST_FALL})")
        elif self.survival == "multipliers":
            least, error = self.least_multiplier, self.multiplier_error
            phrases.append(f"survival by multipliers (least {least:.2g}, error {error:.1g})")
        else:
            phrases.append(f"survival by {self.survival}" if self.survival else "survival not proved")
        phrases.append(f"decrement {self.decrement:.1g}")
        phrases.append(f"rank {self.rank} of {self.identified} (cut between {self.least_kept:.1g} and ")
        phrases[-1] += f"{self.largest_dropped:.1g})"
        return f"{self.state.name.lower()}: {'; '.join(phrases)}"


def certify(
    problem: ChoiceProblem, evidence: LogitEvidence, finite: Span, identified: Span, *, exact: bool = False
) -> tuple[LogitCertificate, Float64 | None]:
    """Compute the proof of a fit from its vectors, and with it S (SᵀHS)⁻¹ Sᵀ at β (None on a graph)."""
    face = ~evidence.dying if evidence.dying.any() else None
    rise, leak = measure_direction(problem, evidence.dying, evidence.direction, finite)
    here = prove_by_step(problem, face, evidence.beta, finite)
    settled = np.array_equal(evidence.beta, evidence.witness)
    fall = here.fall if settled else prove_by_step(problem, face, evidence.witness, finite).fall
    least, error = np.nan, np.nan
    if evidence.multipliers is not None:
        least, error = measure_multipliers(problem, evidence.dying, evidence.multipliers, finite)
    by_multipliers = least > error and error < 0.5
    survival = "Newton step" if fall < LARGEST_FALL else "multipliers" if by_multipliers else ""
    certificate = LogitCertificate(
        rise=np.inf if exact else rise,
        leak=0.0 if exact else leak,
        survival="fractions" if exact else survival,
        fall=fall,
        least_multiplier=least,
        multiplier_error=error,
        decrement=here.decrement,
        least_information=here.least,
        rank=finite.rank,
        identified=identified.rank,
        least_kept=finite.least_kept,
        largest_dropped=finite.largest_dropped,
        outside=_outside(problem, evidence.dying, finite, identified),
        n_parameters=problem.rows.n_parameters,
        exact=exact,
    )
    return certificate, here.covariance


def _outside(problem: ChoiceProblem, dying: Bool, finite: Span, identified: Span) -> float:
    """The largest part of a difference outside its span; at least the cut if that part is not rounding."""
    for span, face in ((finite, ~dying), (identified, np.ones_like(dying))):
        if span.leak > 0 and not has_rank(problem, face, span.rank):
            return max(finite.leak, identified.leak, CUT)
    return max(finite.leak, identified.leak)


def measure_direction(
    problem: ChoiceProblem, dying: Bool, direction: Float64, finite: Span
) -> tuple[float, float]:
    """How far v raises every dying pair, less its possible error, and how far any other pair."""
    if not dying.any():
        return np.inf, 0.0
    norm = np.where(problem.norms > 0, problem.norms, 1.0)
    height = problem.gaps(direction) / norm
    surviving = height[~dying]
    leak = float(np.abs(surviving).max(initial=0.0))
    off = float(np.linalg.norm(surviving)) / finite.least_kept if finite.rank else 0.0
    terms = len(direction) if problem.graph is None else len(direction) - problem.graph.n_items + 3
    length = min(terms**0.5 * float(np.abs(direction).max()), float(np.linalg.norm(direction)))
    rounding = 4 * terms * np.finfo(float).eps * length
    return float(height[dying].min()) - off - rounding, leak


class StepProof(NamedTuple):
    """What a Newton step proves."""

    decrement: float
    least: float  # eigenvalue of the scaled information on S, or its root, as a share of the largest
    fall: float
    covariance: Float64 | None  # S (SᵀHS)⁻¹ Sᵀ


def prove_by_step(problem: ChoiceProblem, face: Bool | None, beta: Float64, finite: Span) -> StepProof:
    """The decrement, the least information on S, and how far the Newton step at β lowers an alternative.

    The fall includes its error bound ‖r‖_{H⁺} / √(N p) for what is left of r = g − H u, because
    H ⪰ N p (x − x̄)(x − x̄)ᵀ for every alternative. It is infinite where it proves nothing.
    """
    if finite.rank == 0:
        return StepProof(0.0, 1.0, 0.0, None if problem.graph else np.zeros((len(beta), len(beta))))
    utilities = problem.with_offsets(problem.utilities(beta))
    probability = problem.probabilities(utilities, face)[0]
    if problem.graph is not None:
        return _prove_on_graph(problem, face, utilities, probability)
    information = problem.information(probability)
    scale, basis = np.ones(len(beta)), finite.basis
    inner = basis.T @ information @ basis
    values, vectors = linalg.eigh(inner, check_finite=False)
    rows = None
    if values[0] <= WELL_POSED * values[-1]:  # coordinates in which counts of 1 and 10¹² stand side by side
        scale = np.sqrt(np.maximum(np.diag(information), 0.0))
        scale = np.where(scale > 0, scale, 1.0)
        basis = linalg.qr(finite.basis / scale[:, None], mode="economic", check_finite=False)[0]
        rows = problem.weighted_rows(probability, basis / scale[:, None])
        if rows is None:
            inner = basis.T @ (information / np.outer(scale, scale)) @ basis
            values, vectors = linalg.eigh(inner, check_finite=False)
        else:  # the Gram matrix would square the condition
            values, vectors = linalg.svd(rows, full_matrices=False, check_finite=False)[1:]
            values, vectors = values[::-1] ** 2, vectors[::-1].T
    gradient = basis.T @ (problem.gradient(problem.residuals(probability)) / scale)
    least = float(values[0] / max(values[-1], 1e-300))
    if rows is not None:
        least = least**0.5
    if least <= (LEAST_INFORMATION if rows is None else LEAST_SINGULAR):
        return StepProof(np.inf, least, np.inf, np.zeros_like(information))
    step = np.zeros_like(gradient)
    for _ in range(3):
        step += vectors @ ((vectors.T @ (gradient - _times(inner, rows, step))) / values)
    residual = vectors.T @ (gradient - _times(inner, rows, step))
    moved = problem.utilities((basis @ step) / scale)
    fall, lowest = measure_fall(problem, face, probability, moved)
    error = float(np.sqrt((residual**2 / values).sum())) / np.sqrt(
        max(lowest * float(problem.totals.min(initial=1.0)), 1e-300)
    )
    fall = fall + error if lowest >= LEAST_PROBABILITY else np.inf
    half = finite.basis @ (finite.basis.T @ ((basis @ vectors) / scale[:, None]))
    return StepProof(float(gradient @ step), least, fall, (half / values) @ half.T)


def _prove_on_graph(
    problem: ChoiceProblem, face: Bool | None, utilities: Float64, probability: Float64
) -> StepProof:
    """The proof on the graph of games, whose curvature bounds what the solver and rounding left."""
    curvature = problem.curvature(probability)
    gradient = problem.gradient(problem.residuals(probability))
    step = curvature.solve(gradient)
    residual = np.abs(gradient - curvature.times(step)) + problem.rounding(utilities)
    bound = curvature.bound(residual)
    fall, lowest = measure_fall(problem, face, probability, problem.utilities(step))
    fall += bound / np.sqrt(max(lowest * float(problem.totals.min(initial=1.0)), 1e-300))
    fall = fall if lowest >= LEAST_PROBABILITY else np.inf
    decrement = (max(float(gradient @ step), 0.0) ** 0.5 + bound) ** 2
    return StepProof(decrement, curvature.least, fall, None)


def _times(information: Float64, rows: Float64 | None, step: Float64) -> Float64:
    return information @ step if rows is None else rows.T @ (rows @ step)


def surviving_directions(problem: ChoiceProblem, dying: Bool) -> tuple[Float64, Bool]:
    """The distinct directions of surviving pairs, and which of them are pairs both ways."""
    rows = np.flatnonzero(problem.is_pair & ~dying & (problem.norms > 0))
    free = problem.also_chosen[rows]
    vectors = problem.differences(rows)
    directions, number = distinct_directions(vectors, digits=None)
    both = np.zeros(len(directions), bool)
    both[number[free]] = True
    return directions, both


def find_multipliers(problem: ChoiceProblem, dying: Bool) -> Float64 | None:
    """λ ≥ 1 with Σ λ d = 0 over surviving directions (any sign on pairs both ways); None if none is there."""
    if problem.graph is not None or int((problem.is_pair & ~dying).sum()) > MOST_MULTIPLIERS:
        return None
    directions, both = surviving_directions(problem, dying)
    if not len(directions):
        return np.zeros(0)
    multipliers = find_balance(directions, both)
    if multipliers is None:
        return None
    for _ in range(2):  # what is left of Σ λ d, put on all pairs evenly
        multipliers = multipliers - np.linalg.lstsq(directions.T, directions.T @ multipliers, rcond=1e-12)[0]
    return multipliers


def measure_multipliers(
    problem: ChoiceProblem, dying: Bool, multipliers: Float64, finite: Span
) -> tuple[float, float]:
    """The least multiplier of a pair one way, and the bound ‖Σ λ d‖ / σ_min⁺ of the error of each."""
    directions, both = surviving_directions(problem, dying)
    if len(multipliers) != len(directions):
        return -np.inf, np.inf
    imbalance = float(np.linalg.norm(multipliers @ directions))
    imbalance += 4 * np.finfo(float).eps * float(np.abs(multipliers).sum())
    return float(
        multipliers[~both].min(initial=np.inf)
    ), imbalance / finite.least_kept if finite.rank else 0.0
