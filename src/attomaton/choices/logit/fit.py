"""Fit a conditional logit: which estimates are finite, which are infinite, and the proof.

:func:`fit_logit` tries these routes in turn; each ends in :func:`_fit_on_face`, which makes the result:

1. :func:`_fit_games`, for games of two: the strong components of "who beat whom" say which rows die;
2. Newton's method on all rows, if one of its steps proves that no row dies;
3. :func:`_fit_separated`: a linear program finds the rows that die, the second time in coordinates in which
   classes that nearly overlap are far apart.

A row *dies* if its alternative falls infinitely far behind another of its situation; the rows that do not die
are the *face*. A *course* is a run of Newton's method on a face: its last point β*, and the first point whose
step proves that no row of the face dies. The span S of the face is ``finite``, the contrasts with a finite
estimate. The span R of all rows is ``identified``, the contrasts that the data bear on. Vectors are in the
scaled coordinates of :mod:`~attomaton.choices.logit.problem`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from attomaton.base.artifacts import Run, load_run, write_run
from attomaton.base.errors import InvalidSamples, UncertifiedSolution, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import real_number
from attomaton.base.printing import Block, Grid, show_count
from attomaton.base.tables import Bool, Float64, Int64, table_of
from attomaton.choices.logit.bounds import bound_below
from attomaton.choices.logit.certificate import (
    LogitCertificate,
    LogitEvidence,
    LogitState,
    certify,
    find_multipliers,
)
from attomaton.choices.logit.clusters import FEWEST_CLUSTERS, ClusterErrors, SingleResiduals
from attomaton.choices.logit.cone import CLOSE, Cone, Proof, classify, classify_all
from attomaton.choices.logit.contrasts import Contrast, ContrastKind, contrast_without_numbers, weights_of
from attomaton.choices.logit.curvature import InformationMatrix
from attomaton.choices.logit.direction import HardDirection, find_direction
from attomaton.choices.logit.exact import classify_in_fractions, prove_in_fractions
from attomaton.choices.logit.face import PATIENCE, Face, find_face, find_games_face, find_metric
from attomaton.choices.logit.firth import FirthClimb, FirthFit
from attomaton.choices.logit.folders import LOGIT, pack_fit, unpack_fit
from attomaton.choices.logit.identification import describe_aliases, null_vectors
from attomaton.choices.logit.newton import Course, NewtonClimb
from attomaton.choices.logit.problem import MOST_PARAMETERS, ChoiceProblem
from attomaton.choices.logit.rows import BattleRows
from attomaton.choices.logit.spans import Span, span_of
from attomaton.choices.logit.summary import LogitSummary

# Attributes of a contrast that are columns of the table of a fit.
NUMBERS = ("standard_error", "robust_error", "bound", "comparisons", "certified")


def fit_logit(problem: ChoiceProblem) -> "LogitFit":
    """Fit a conditional logit and decide which of its estimates are finite.

    Alternatives that fall infinitely far behind have probability 0 in the limit. The finite estimates are
    those of maximum likelihood among the other alternatives.

    Parameters
    ----------
    problem : ChoiceProblem
        The choices.

    Returns
    -------
    LogitFit

    Examples
    --------
    Three tosses of each kind: x = 1 always wins, x = 0 wins once.

    >>> problem = ChoiceProblem.from_rows(
    ...     [[1, 1], [0, 0], [1, 0], [0, 0]], [2, 2], [3, 0, 1, 2], names=["constant", "x"]
    ... )
    >>> fit = fit_logit(problem).expect()
    >>> print(fit.contrast("constant"))
    constant: -0.693 (s.e. 1.225, robust 1.225)
    >>> fit.contrast("x").kind.value, round(fit.contrast("x").bound, 3)
    ('+inf', 0.154)
    """
    identified = span_of(problem, None)
    if isinstance(problem.rows, BattleRows):
        fit = _fit_games(problem, identified)
        if fit is not None and (fit.certificate.certified or problem.rows.n_parameters > MOST_PARAMETERS):
            return fit
        if problem.graph is not None:  # from here on, with matrices of all parameters
            problem = replace(problem, dense=True)
            identified = span_of(problem, None)
    zero = np.zeros(problem.rows.n_parameters)
    course = NewtonClimb(patience=PATIENCE).run(problem, None, zero)
    if course.proof is not None:
        face = Face(np.zeros(problem.situations.n_rows, bool), zero, zero, "Newton")
        return _fit_on_face(problem, face, course, identified)
    return _fit_separated(problem, course.last.point.beta, identified)


# Fit games on the face that is right unless features separate more; None where no step proves it.
def _fit_games(problem: ChoiceProblem, identified: Span) -> "LogitFit | None":
    face = find_games_face(problem)
    is_on_graph = problem.graph is not None
    climb = NewtonClimb(patience=None if is_on_graph else PATIENCE)
    course = climb.run(problem, face.alive, np.zeros(problem.rows.n_parameters))
    if course.proof is None and not is_on_graph:
        return None
    return _fit_on_face(problem, face, course, identified)


# Fit on the face that a linear program finds from ``start``; find another if the fit has no proof.
def _fit_separated(problem: ChoiceProblem, start: Float64, identified: Span) -> "LogitFit":
    try:
        face = find_face(problem, start)
        fit = _fit_on_face(problem, face, _climb(problem, face), identified)
    except UncertifiedSolution:
        fit = None
    if fit is not None and (fit.certificate.certified or fit.method == "components"):
        return fit
    try:  # in coordinates in which classes that nearly overlap are far apart
        metric = find_metric(problem, identified.basis)
        face = find_face(problem, np.zeros(problem.rows.n_parameters), metric=metric)
        finer = _fit_on_face(problem, face, _climb(problem, face), identified)
    except UncertifiedSolution:
        if fit is None:
            raise
        return fit
    return finer if fit is None or finer.certificate.certified else fit


# Climb on a face from its start; if nothing is proved on the way, look for a proof from 0.
def _climb(problem: ChoiceProblem, face: Face) -> Course:
    course = NewtonClimb().run(problem, face.alive, face.start)
    if course.proof is None and face.start.any():
        climb = NewtonClimb(most_steps=20, until_proof=True)
        course = course._replace(proof=climb.run(problem, face.alive, np.zeros_like(face.start)).proof)
    return course


# The fit at the end of a course on a face; climb once more if it has not converged.
def _fit_on_face(problem: ChoiceProblem, face: Face, course: Course, identified: Span) -> "LogitFit":
    finite = identified if face.alive is None else span_of(problem, face.alive)
    fit = _prove(problem, face, course, finite, identified)
    if fit.certificate.converged:
        return fit
    # again from 0, inside S, and with steps of any length if a maximum is known to exist
    reach = np.inf if fit.certificate.survival else NewtonClimb.reach
    basis = finite.basis if problem.graph is None else None
    slow_climb = NewtonClimb(most_steps=200, settled=1e-20, chord=False, reach=reach, basis=basis)
    further = slow_climb.run(problem, face.alive, np.zeros_like(face.start))
    return _prove(problem, face, Course(further.last, course.proof or further.proof), finite, identified)


# The fit with the first of these proofs that succeeds: a Newton step, multipliers, fractions.
def _prove(problem: ChoiceProblem, face: Face, course: Course, finite: Span, identified: Span) -> "LogitFit":
    beta = finite.project(course.last.point.beta)
    direction = finite.reject(face.direction)
    evidence = LogitEvidence(face.dying, beta, direction, witness=beta, multipliers=None)
    fit = _certify(problem, face, evidence, finite, identified)
    if fit.certificate.survival:
        return fit
    if course.proof is not None:
        evidence = evidence._replace(witness=finite.project(course.proof.point.beta))
    evidence = evidence._replace(multipliers=find_multipliers(problem, face.dying))
    return _certify(problem, face, evidence, finite, identified)


# The fit with the certificate of its vectors, by fractions where floating point is not enough.
def _certify(
    problem: ChoiceProblem, face: Face, evidence: LogitEvidence, finite: Span, identified: Span
) -> "LogitFit":
    certificate, covariance = certify(problem, evidence, finite, identified)
    ranks = (finite.rank, identified.rank)
    is_open = certificate.converged and not certificate.certified
    if is_open and prove_in_fractions(problem, evidence.dying, evidence.direction, ranks):
        certificate, covariance = certify(problem, evidence, finite, identified, exact=True)
    return LogitFit(
        problem, evidence, finite, identified, certificate, covariance, face.method, face.program_rows
    )


def restore_fit(run: Run) -> "LogitFit":
    """The fit in a folder that was read; spans and certificate are computed anew."""
    problem, evidence, method, program_rows = unpack_fit(run)
    face = Face(evidence.dying, evidence.direction, evidence.beta, method, program_rows)
    identified = span_of(problem, None)
    finite = identified if face.alive is None else span_of(problem, face.alive)
    return _certify(problem, face, evidence, finite, identified)


class LimitOfLikelihood(NamedTuple):
    """What maximum likelihood tends to: the model at β* if only the face is offered."""

    probability: Float64  # (n_rows,), 0 for rows that die
    log_likelihood: float


@dataclass(frozen=True, eq=False, repr=False)
class LogitFit(Tabular):
    """A conditional logit: its finite estimates β*, which contrasts are infinite, and the proof.

    Attributes
    ----------
    problem : ChoiceProblem
        The choices.
    evidence : LogitEvidence
        The vectors that the certificate is computed from, in scaled coordinates.
    finite, identified : Span
        S, the contrasts with a finite estimate, and R, the contrasts that the data bear on.
    certificate : LogitCertificate
        The numbers of the proof.
    known_covariance : float64 array, shape (n_parameters, n_parameters), or None
        The covariance of β* in scaled coordinates; None on the graph of games, where it is computed later.
    method : str
        The method that decided which alternatives die.
    program_rows : int
        The number of rows of the linear program; 0 if there was none.

    Examples
    --------
    >>> from attomaton.choices.logit import ChoiceProblem, fit_logit
    >>> items = [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]  # a and b met 4 times, b and c twice
    >>> fit = fit_logit(ChoiceProblem.from_rows(items, [2, 2], [3, 1, 2, 0], names=["a", "b", "c"]))
    >>> fit.contrast("a", "b").value.__round__(6), fit.contrast("a", "c").kind.value
    (1.098612, '+inf')
    >>> fit.aliases
    ('only differences inside {a, b, c} are identified',)
    """

    problem: ChoiceProblem
    evidence: LogitEvidence
    finite: Span
    identified: Span
    certificate: LogitCertificate
    known_covariance: Float64 | None
    method: str = "Newton"
    program_rows: int = 0

    def __repr__(self) -> str:
        return str(self)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fit into a new folder; ``overwrite`` replaces an earlier fit there."""
        run = pack_fit(self.problem, self.evidence, self.method, self.program_rows)
        return write_run(path, run, LOGIT, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> "LogitFit":
        """Read a fit that :meth:`save` wrote; spans and certificate are computed anew."""
        return load_run(path, LOGIT, restore_fit)

    @property
    def state(self) -> LogitState:
        """Whether the fit is certified, certified up to tiny differences, or not certified."""
        return self.certificate.state

    def expect(self) -> Self:
        """Return the fit itself if it is certified; raise ``UncertifiedSolution`` if not."""
        if self.state is LogitState.CERTIFIED:
            return self
        still = "" if self.state is LogitState.UNCERTIFIED else "; contrast() answers with this caveat"
        raise UncertifiedSolution(
            f"{self.state.value} ({self.certificate.details}); drop or round features that hardly differ, or "
            f"scale them to a common size{still}"
        )

    @property
    def dying(self) -> Bool:
        """Which rows are infinitely far behind in their situation, shape (n_rows,)."""
        return self.evidence.dying

    @property
    def separation(self) -> str:
        """The kind of separation (Albert and Anderson 1984): "complete", "quasi-complete" or "none"."""
        left = self.problem.situations.n_rows - int(self.dying.sum())
        if not self.dying.any():
            return "none"
        return "complete" if left == len(self.problem.situations) else "quasi-complete"

    @property
    def n_parameters(self) -> int:
        """The number of fitted finite parameters: dim S."""
        return self.finite.rank

    @cached_property
    def coefficients(self) -> Float64:
        """β*, shape (n_parameters,); only its finite contrasts have a meaning."""
        self.expect()
        return self.problem.parameters(self.evidence.beta)

    @cached_property
    def log_likelihood(self) -> float:
        """Σ n ln p: the maximum, or the supremum where pairs die."""
        self.expect()
        return self._limit.log_likelihood

    @property
    def aic(self) -> float:
        """Akaike's criterion. With infinite estimates: of the supremum, counting finite parameters only."""
        return 2.0 * self.n_parameters - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion, for the number of choices."""
        return float(np.log(self.problem.n_choices)) * self.n_parameters - 2.0 * self.log_likelihood

    @cached_property
    def probabilities(self) -> Float64:
        """The limit of the probability of each row; 0 for rows that die."""
        self.expect()
        return self._limit.probability

    @cached_property
    def _utilities(self) -> Float64:
        return self.problem.with_offsets(self.problem.utilities(self.evidence.beta))

    @cached_property
    def _limit(self) -> LimitOfLikelihood:
        face = ~self.dying if self.dying.any() else None
        return LimitOfLikelihood(*self.problem.probabilities(self._utilities, face))

    @cached_property
    def covariance(self) -> Float64:
        """The covariance of β* by the information, shape (n_parameters, n_parameters)."""
        self.expect()
        return self.problem.covariance(self.scaled_covariance)

    @cached_property
    def scaled_covariance(self) -> Float64:
        """H⁺ = B (BᵀHB)⁻¹ Bᵀ at β*, with the information H and a basis B of S, in scaled coordinates."""
        if self.known_covariance is not None:
            return self.known_covariance
        # with the basis C of the complement, where H is 0: H⁺ = (H + lift·CCᵀ)⁻¹ − CCᵀ/lift
        outside = self.finite.complement
        lift = float(self._curvature.diagonal.mean()) or 1.0
        matrix = self.problem.information(self._limit.probability) + lift * outside @ outside.T
        inverse = np.linalg.inv(matrix) - outside @ outside.T / lift
        return (inverse + inverse.T) / 2

    @cached_property
    def _curvature(self) -> InformationMatrix:
        return self.problem.curvature(self._limit.probability)

    def deviate(self, contrast: Float64) -> Float64:
        """H⁺ f of a finite contrast, in scaled coordinates: f·H⁺f is its variance by the information."""
        inside = self.finite.project(contrast)
        if self.known_covariance is not None:
            return self.known_covariance @ inside
        return self.finite.project(self._curvature.solve(inside))

    # The sandwich covariance is H⁺MH⁺, with the information H and the *meat* M = Σ s sᵀ over the scores s of
    # all choices. A choice of row ij has the score x_ij − Σ_k p_ik x_ik at the probabilities p of β*. So with
    # the residuals r_ij = n_ij − N_i p_ij, their sums s_i = Σ_j r_ij x_ij over a situation, and the shares
    # q_ij = n_ij / N_i of its N_i choices,
    #     M = Σ_i s_i s_iᵀ / N_i + Σ_i N_i Cov_q(x_i).
    # Where counts are fractions of choices, each situation counts as one choice: M = Σ_i s_i s_iᵀ.

    def robust_covariance(self, clusters: ArrayLike | None = None) -> Float64:
        """The sandwich covariance, shape (n_parameters, n_parameters), for finite contrasts.

        ``clusters`` has the cluster (such as the judge) of each situation, for CR2, which needs at least
        three. By default every choice is a cluster, or every situation if counts are fractions.
        """
        self.expect()
        problem = self.problem
        if clusters is None:
            return problem.covariance(self._sandwich)
        labels = np.asarray(clusters)
        labels = labels if problem.source_situations is None else labels[problem.source_situations]
        if len(labels) != len(problem.situations):
            raise InvalidSamples(
                f"there are {len(labels)} clusters for {len(problem.situations)} situations; give one "
                "each, and build the problem with merge=False"
            )
        groups = np.unique(labels, return_inverse=True)[1].ravel()
        probability = self._limit.probability
        single = None if problem.is_whole else SingleResiduals(problem.residuals(probability))
        errors = ClusterErrors(problem, probability, self.finite.basis, groups, single=single)
        if errors.n_clusters < FEWEST_CLUSTERS:
            raise UnsupportedOption(
                f"clustered errors need at least {FEWEST_CLUSTERS} clusters, and there are "
                f"{errors.n_clusters}; leave clusters out if choices are independent"
            )
        return errors.covariance

    # H⁺MH⁺ without clusters, in scaled coordinates.
    @cached_property
    def _sandwich(self) -> Float64:
        self._check()
        problem = self.problem
        meat = problem.rows.scores(self._residuals, None)
        if self._repeats:
            meat = meat + problem.rows.information(self._shares, problem.totals)
        meat = meat / np.outer(problem.scale, problem.scale)
        return self.scaled_covariance @ meat @ self.scaled_covariance

    # (H⁺f)ᵀM(H⁺f) of a contrast f, from ``deviation`` = H⁺f and without the matrix M.
    def _sandwich_variance(self, deviation: Float64) -> float:
        situations = self.problem.situations
        utilities = self.problem.utilities(deviation)
        score = situations.sum(self._residuals * utilities)
        variance = float(score @ score)
        if self._repeats:
            away = situations.centre(utilities, self._shares)
            variance += float(self.problem.counts @ away**2)
        return variance

    # r_ij / √N_i for whole choices, and r_ij for fractions of choices.
    @cached_property
    def _residuals(self) -> Float64:
        residuals = self.problem.residuals(self._limit.probability)
        if not self.problem.is_whole:
            return residuals
        return residuals / self.problem.situations.spread(np.sqrt(self.problem.totals))

    @property
    def _shares(self) -> Float64:
        return self.problem.counts / self.problem.situations.spread(self.problem.totals)

    # Whether a situation has several whole choices, so that Cov_q(x_i) is not 0.
    @property
    def _repeats(self) -> bool:
        return bool((self.problem.totals > 1).any()) and self.problem.is_whole

    def contrast(self, *names: Any, level: float = 0.95, clusters: Int64 | None = None) -> Contrast:
        """What the data say about a contrast of parameters.

        Parameters
        ----------
        *names : str, or one mapping
            One name; two names for their difference; or a mapping from names to weights.
        level : float
            The confidence of the bound and the interval.
        clusters : int64 array, shape (n_situations,), optional
            The cluster of each situation: all choices of a cluster count as one in a bound.
        """
        self._check()
        level = real_number(level, "level", above=0, below=1)
        weights = weights_of(names)
        parameters = self.problem.weigh_parameters(weights)
        scaled = self.problem.scaled(parameters)
        kind, is_sure = self._decide(parameters, scaled)
        contrast = contrast_without_numbers(weights, kind, level)
        if kind is ContrastKind.FINITE:
            contrast = self._measure_finite(contrast, scaled)
        elif kind in (ContrastKind.PLUS, ContrastKind.MINUS):
            contrast = self._bound_infinite(contrast, scaled, clusters)
        return contrast if is_sure and self.certificate.certified else replace(contrast, certified=False)

    # The class of a contrast, given as weights of the columns as given and in scaled coordinates.
    def _decide(self, parameters: Float64, scaled: Float64) -> Proof:
        proof = classify(scaled, self.finite, self.identified, lambda: self._cone)
        sizes = np.abs(scaled[scaled != 0])
        is_even = bool((sizes > CLOSE * sizes.max(initial=0.0)).all())  # else a tiny weight may decide
        if (proof.certified and is_even) or not self.certificate.certified:
            return Proof(proof.kind, proof.certified and is_even)
        exact = classify_in_fractions(self.problem, self.dying, parameters)
        return Proof(exact or proof.kind, exact is not None)

    # The contrast with its estimate and errors; ``scaled`` has its weights in scaled coordinates.
    def _measure_finite(self, contrast: Contrast, scaled: Float64) -> Contrast:
        deviation = self.deviate(scaled)
        return replace(
            contrast,
            value=float(scaled @ self.evidence.beta),
            standard_error=float(np.sqrt(max(scaled @ deviation, 0.0))),
            robust_error=float(np.sqrt(self._sandwich_variance(deviation))),
            comparisons=self._choices_on_face,
            settle="",
        )

    # The contrast with its bound, and the number of choices that prove it.
    def _bound_infinite(self, contrast: Contrast, scaled: Float64, clusters: Int64 | None) -> Contrast:
        sign = 1.0 if contrast.kind is ContrastKind.PLUS else -1.0  # sign · contrast is +∞
        bound = None
        proving_rows = self._cone.rows
        binding = self._cone.binding(sign * scaled)
        if binding is not None:
            proving_rows = self._cone.rows[binding]
            log_odds = self.dying_log_odds
            least = bound_below(self._cone, sign * scaled, binding, log_odds, contrast.level, clusters)
            bound = None if least is None else float(scaled @ self.evidence.beta) + sign * least
        situations = np.unique(self.problem.situation_of(proving_rows))
        return replace(
            contrast,
            value=sign * np.inf,
            bound=bound,
            comparisons=float(self.problem.totals[situations].sum()),
            certified=binding is not None,
        )

    def classify(self, weights: Any) -> Any:
        """The :class:`ContrastKind` of each row of ``weights``, shape (n,), from shape (n, n_parameters)."""
        self._check()
        scaled = self.problem.scaled(np.asarray(weights, np.float64))
        return classify_all(scaled, self.finite, self.identified, self._cone)

    @cached_property
    def _cone(self) -> Cone:
        return Cone.from_face(self.problem, self.dying, self.finite, self.evidence.direction)

    @cached_property
    def dying_log_odds(self) -> Float64:
        """Log odds of each dying row against the face of its situation, at β*, shape (n_dying,)."""
        situations = self.problem.situations
        rows = np.flatnonzero(self.dying)
        inside = np.where(self.dying, -np.inf, self._utilities)
        top = situations.top(inside)
        log_sums = top + np.log(situations.sum(np.exp(inside - situations.spread(top))))
        return self._utilities[rows] - log_sums[self.problem.situation_of(rows)]

    # The number of choices in situations with two or more rows on the face.
    @cached_property
    def _choices_on_face(self) -> float:
        n_alive = self.problem.situations.sum((~self.dying).astype(np.float64))
        return float(self.problem.totals[n_alive > 1].sum())

    @cached_property
    def aliases(self) -> tuple[str, ...]:
        """What the data cannot tell apart, in sentences; empty if every parameter is identified."""
        return describe_aliases(null_vectors(self.problem, self.identified), self.problem.names)

    @cached_property
    def direction(self) -> HardDirection:
        """The direction of gradient descent from 0, the limit of β_t / ln t."""
        self.expect()
        return find_direction(self.problem, self.dying, self.finite)

    @cached_property
    def contrasts(self) -> tuple[Contrast, ...]:
        """What the data say about each parameter by itself."""
        return tuple(self.contrast(name) for name in self.problem.names)

    def summary(self, *, robust: bool = False) -> LogitSummary:
        """The table that statsmodels prints; ``robust`` uses sandwich standard errors."""
        head = f"{self._head}, log-likelihood {self._limit.log_likelihood:.4f}"
        readings = tuple(row.reading for row in self.contrasts)
        return LogitSummary(head, self.contrasts, readings, robust, (*self.aliases, self.certificate.verdict))

    def _table(self) -> pa.Table:
        rows = self.contrasts
        columns: dict[str, Any] = {
            "parameter": [row.label for row in rows],
            "kind": [row.kind.value for row in rows],
            "estimate": [row.value for row in rows],
            **{name: [getattr(row, name) for row in rows] for name in NUMBERS},
        }
        return table_of(columns)

    def firth(self) -> FirthFit:
        """Estimate by Firth's penalised likelihood, which is finite for every identified parameter."""
        self.expect()
        climb = FirthClimb(self.problem, self.identified.basis)
        top = climb.run(np.zeros(self.identified.rank))
        return FirthFit(self.problem, climb, top, self.contrast, self.certificate.verdict)

    @property
    def _head(self) -> str:
        problem = self.problem
        head = f"{show_count(problem.n_choices)} choices in {len(problem.situations):,} situations, "
        return head + f"{len(problem.names):,} parameters, {self.n_parameters:,} finite numbers"

    def _blocks(self) -> list[Block]:
        head = self._head
        if not self.certificate.certified:
            return [head, f"{self.state.value}: {self.certificate.details}"]
        rows = [_cells(row) for row in self.contrasts]
        grid = Grid("", ["parameter", "estimate", "s.e.", "robust", "reading"], rows)
        return [head, grid, *self.aliases, self.certificate.verdict]

    # Refuse a fit without proof; where small differences count as equal, contrasts say so.
    def _check(self) -> None:
        if self.state is LogitState.UNCERTIFIED:
            self.expect()


def _cells(row: Contrast) -> list[str]:  # parameter, estimate, s.e., robust, reading
    if row.kind is ContrastKind.FINITE:
        return [row.label, f"{row.value:+z.3f}", f"{row.standard_error:.3f}", f"{row.robust_error:.3f}", ""]
    return [row.label, "-" if np.isnan(row.value) else row.kind.value, "-", "-", row.reading]
