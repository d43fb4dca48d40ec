"""The fit of a conditional logit, finite where the data make it so, with its proof."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

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
from attomaton.choices.logit.cone import CLOSE, Cone, classify, classify_all
from attomaton.choices.logit.contrasts import (
    Contrast,
    ContrastKind,
    describe_contrast,
    describe_settling,
    weights_of,
)
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


def fit_logit(problem: ChoiceProblem) -> "LogitFit":
    """Fit a conditional logit and decide which of its estimates are finite.

    Newton's method runs first, with a test that can prove that the maximum exists. Where the test fails,
    attomaton finds the alternatives that fall infinitely far behind (they *die*), and Newton's method runs on
    the others, the *face* of the data.

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
        if problem.graph is not None:  # again, with matrices of all parameters
            problem = replace(problem, dense=True)
            identified = span_of(problem, None)
    zero = np.zeros(problem.rows.n_parameters)
    course = NewtonClimb(patience=PATIENCE).run(problem, None, zero)
    if course.proof is not None:
        face = Face(np.zeros(problem.situations.n_rows, bool), zero, zero, "Newton")
        return _fit_on_face(problem, face, course, identified)
    return _fit_separated(problem, course.last.point.beta, identified)


def _fit_games(problem: ChoiceProblem, identified: Span) -> "LogitFit | None":
    """Fit games on the face that is right unless features separate more; None where no step proves it."""
    face, on_graph = find_games_face(problem), problem.graph is not None
    climb = NewtonClimb(patience=None if on_graph else PATIENCE)
    course = climb.run(problem, face.alive, np.zeros(problem.rows.n_parameters))
    if not on_graph and course.proof is None:
        return None
    return _fit_on_face(problem, face, course, identified)


def _fit_separated(problem: ChoiceProblem, start: Float64, identified: Span) -> "LogitFit":
    """Fit on the face that a linear program finds.

    If that fit has no proof, try again in coordinates in which classes that nearly overlap are far apart.
    """
    try:
        face = find_face(problem, start)
        fit = _fit_on_face(problem, face, _climb(problem, face), identified)
    except UncertifiedSolution:
        fit = None
    if fit is not None and (fit.certificate.certified or fit.method == "components"):
        return fit
    try:
        metric = find_metric(problem, identified.basis)
        face = find_face(problem, np.zeros(problem.rows.n_parameters), metric=metric)
        finer = _fit_on_face(problem, face, _climb(problem, face), identified)
    except UncertifiedSolution:
        if fit is None:
            raise
        return fit
    return finer if fit is None or finer.certificate.certified else fit


def _climb(problem: ChoiceProblem, face: Face) -> Course:
    """Climb on a face from its start; if nothing is proved on the way, look for a proof from 0."""
    course = NewtonClimb().run(problem, face.alive, face.start)
    if course.proof is None and face.start.any():
        climb = NewtonClimb(most_steps=20, until_proof=True)
        course = course._replace(proof=climb.run(problem, face.alive, np.zeros_like(face.start)).proof)
    return course


def _fit_on_face(problem: ChoiceProblem, face: Face, course: Course, identified: Span) -> "LogitFit":
    """The fit at the end of a course on a face; climb once more if it has not converged."""
    finite = identified if face.alive is None else span_of(problem, face.alive)
    fit = _prove(problem, face, course, finite, identified)
    if not fit.certificate.converged:  # again from 0, with steps that stay in S and are all looked at
        reach = np.inf if fit.certificate.survival else NewtonClimb.reach  # there is a maximum to go to
        basis = finite.basis if problem.graph is None else None
        climb = NewtonClimb(most_steps=200, settled=1e-20, chord=False, reach=reach, basis=basis)
        further = climb.run(problem, face.alive, np.zeros_like(face.start))
        fit = _prove(problem, face, Course(further.last, course.proof or further.proof), finite, identified)
    return fit


def _prove(problem: ChoiceProblem, face: Face, course: Course, finite: Span, identified: Span) -> "LogitFit":
    """The fit with the first of these proofs that succeeds: a Newton step, multipliers, fractions."""
    beta = finite.project(course.last.point.beta)
    evidence = LogitEvidence(face.dying, beta, finite.reject(face.direction), beta, None)
    fit = _certify(problem, evidence, finite, identified, face.method, face.program_rows)
    if fit.certificate.survival:
        return fit
    if course.proof is not None:
        evidence = evidence._replace(witness=finite.project(course.proof.point.beta))
    evidence = evidence._replace(multipliers=find_multipliers(problem, face.dying))
    return _certify(problem, evidence, finite, identified, face.method, face.program_rows)


def _certify(
    problem: ChoiceProblem,
    evidence: LogitEvidence,
    finite: Span,
    identified: Span,
    method: str,
    program_rows: int,
) -> "LogitFit":
    """The fit with the certificate of its vectors, by fractions where floating point is not enough."""
    certificate, covariance = certify(problem, evidence, finite, identified)
    ranks = (finite.rank, identified.rank)
    if (
        not certificate.certified
        and certificate.converged
        and prove_in_fractions(problem, evidence.dying, evidence.direction, ranks)
    ):
        certificate, covariance = certify(problem, evidence, finite, identified, exact=True)
    return LogitFit(problem, evidence, finite, identified, certificate, covariance, method, program_rows)


def restore_fit(run: Run) -> "LogitFit":
    """The fit in a folder that was read; spans and certificate are computed anew."""
    problem, evidence, method, program_rows = unpack_fit(run)
    identified = span_of(problem, None)
    finite = span_of(problem, ~evidence.dying) if evidence.dying.any() else identified
    return _certify(problem, evidence, finite, identified, method, program_rows)


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
        S, the contrasts with a finite estimate, and R, those that the data bear on, in scaled coordinates.
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
        return self._at_limit[1]

    @property
    def aic(self) -> float:
        """Akaike's criterion; with infinite estimates, of the supremum and the finite parameters."""
        return 2.0 * self.n_parameters - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        return float(np.log(self.problem.n_choices)) * self.n_parameters - 2.0 * self.log_likelihood

    @cached_property
    def probabilities(self) -> Float64:
        """The limit of the probability of each row; 0 for rows that die."""
        self.expect()
        return self._at_limit[0]

    @cached_property
    def _utilities(self) -> Float64:
        return self.problem.with_offsets(self.problem.utilities(self.evidence.beta))

    @cached_property
    def _at_limit(self) -> tuple[Float64, float]:
        return self.problem.probabilities(self._utilities, ~self.dying if self.dying.any() else None)

    @cached_property
    def covariance(self) -> Float64:
        """The covariance of β* by the information, shape (n_parameters, n_parameters)."""
        self.expect()
        return self.problem.covariance(self.scaled_covariance)

    @cached_property
    def scaled_covariance(self) -> Float64:
        """S (SᵀHS)⁻¹ Sᵀ at β*, with the information H; both in scaled coordinates."""
        if self.known_covariance is not None:
            return self.known_covariance
        outside = self.finite.complement
        lift = float(self._curvature.diagonal.mean()) or 1.0  # makes H invertible outside S
        matrix = self.problem.information(self._at_limit[0]) + lift * outside @ outside.T
        inverse = np.linalg.inv(matrix) - outside @ outside.T / lift
        return (inverse + inverse.T) / 2

    @cached_property
    def _curvature(self) -> InformationMatrix:
        return self.problem.curvature(self._at_limit[0])

    def deviate(self, contrast: Float64) -> Float64:
        """H⁺ f of a finite contrast, in scaled coordinates: f·H⁺f is its variance by the information."""
        inside = self.finite.project(contrast)
        if self.known_covariance is not None:
            return self.known_covariance @ inside
        return self.finite.project(self._curvature.solve(inside))

    def robust_covariance(self, clusters: Any = None) -> Float64:
        """The sandwich covariance, shape (n_parameters, n_parameters), for finite contrasts.

        ``clusters`` has the cluster (such as the judge) of each situation, for CR2, which needs at least
        three. By default every choice is a cluster, or every situation if counts are fractions.
        """
        self.expect()
        problem = self.problem
        if clusters is None:
            return problem.covariance(self._robust)
        labels = np.asarray(clusters)
        labels = labels if problem.source_situations is None else labels[problem.source_situations]
        if len(labels) != len(problem.situations):
            raise InvalidSamples(
                f"there are {len(labels)} clusters for {len(problem.situations)} situations; give one "
                "each, and build the problem with merge=False"
            )
        groups = np.unique(labels, return_inverse=True)[1].ravel()
        probability = self._at_limit[0]
        single = None if problem.is_whole else SingleResiduals(problem.residuals(probability))
        errors = ClusterErrors(problem, probability, self.finite.basis, groups, single=single)
        if errors.n_clusters < FEWEST_CLUSTERS:
            raise UnsupportedOption(
                f"clustered errors need at least {FEWEST_CLUSTERS} clusters, and there are "
                f"{errors.n_clusters}; leave clusters out if choices are independent"
            )
        return errors.covariance

    @cached_property
    def _robust(self) -> Float64:
        self._check()
        problem, bread = self.problem, self.scaled_covariance
        meat = problem.rows.scores(self._residuals, None)
        if self._choices_scatter:
            share = problem.counts / problem.situations.spread(problem.totals)
            meat = meat + problem.rows.information(share, problem.totals)
        meat = meat / np.outer(problem.scale, problem.scale)
        return bread @ meat @ bread

    @cached_property
    def _residuals(self) -> Float64:
        """The residual of each row: of its count, or of a single choice where counts are whole."""
        residuals = self.problem.residuals(self._at_limit[0])
        if not self.problem.is_whole:
            return residuals
        return residuals / self.problem.situations.spread(np.sqrt(self.problem.totals))

    def _robust_variance(self, deviation: Float64) -> float:
        """The variance of a contrast f by the sandwich without clusters, from H⁺ f."""
        problem, utilities = self.problem, self.problem.utilities(deviation)
        score = problem.situations.sum(self._residuals * utilities)
        variance = float(score @ score)
        if self._choices_scatter:
            share = problem.counts / problem.situations.spread(problem.totals)
            away = utilities - problem.situations.spread(problem.situations.sum(share * utilities))
            variance += float(problem.counts @ away**2)
        return variance

    @property
    def _choices_scatter(self) -> bool:
        """Whether single choices scatter about the mean of their situation."""
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
        kind, sure = classify(scaled, self.finite, self.identified, lambda: self._cone)
        sizes = np.abs(scaled[scaled != 0])
        sure = sure and bool((sizes > CLOSE * sizes.max(initial=0.0)).all())  # else small entries may decide
        if self.certificate.certified and not sure:
            exact = classify_in_fractions(self.problem, self.dying, parameters)
            kind, sure = exact or kind, exact is not None
        settle = describe_settling(weights, kind)
        contrast = Contrast(describe_contrast(weights), kind, np.nan, level=level, settle=settle)
        if kind is ContrastKind.FINITE:
            contrast = self._measure_finite(contrast, scaled)
        elif kind in (ContrastKind.PLUS, ContrastKind.MINUS):
            contrast = self._bound_infinite(contrast, scaled, clusters)
        return contrast if sure and self.certificate.certified else replace(contrast, certified=False)

    def _measure_finite(self, contrast: Contrast, scaled: Float64) -> Contrast:
        """The contrast with its estimate and errors; ``scaled`` has its weights in scaled coordinates."""
        deviation = self.deviate(scaled)
        return replace(
            contrast,
            value=float(scaled @ self.evidence.beta),
            standard_error=float(np.sqrt(max(scaled @ deviation, 0.0))),
            robust_error=float(np.sqrt(self._robust_variance(deviation))),
            comparisons=self._choices_on_face,
            settle="",
        )

    def _bound_infinite(self, contrast: Contrast, scaled: Float64, clusters: Int64 | None) -> Contrast:
        """The contrast with its bound, and the number of choices that prove it."""
        sign = 1.0 if contrast.kind is ContrastKind.PLUS else -1.0
        binding, bound = self._cone.binding(sign * scaled), None
        if binding is not None:
            least = bound_below(
                self._cone, sign * scaled, binding, self.dying_log_odds, contrast.level, clusters
            )
            bound = None if least is None else float(scaled @ self.evidence.beta) + sign * least
        rows = self._cone.rows if binding is None else self._cone.rows[binding]
        situations = np.unique(self.problem.situation_of(rows))
        return replace(
            contrast,
            value=sign * np.inf,
            bound=bound,
            comparisons=float(self.problem.totals[situations].sum()),
            certified=binding is not None,
        )

    def classify(self, weights: Any) -> Any:
        """The :class:`ContrastKind` of each of many contrasts, the rows of ``weights``."""
        self._check()
        scaled = self.problem.scaled(np.asarray(weights, np.float64))
        return classify_all(scaled, self.finite, self.identified, self._cone)

    @cached_property
    def _cone(self) -> Cone:
        return Cone.from_face(self.problem, self.dying, self.finite, self.evidence.direction)

    @cached_property
    def dying_log_odds(self) -> Float64:
        """Log odds of each dying row against the face of its situation, at β*, shape (n_dying,)."""
        situations, rows = self.problem.situations, np.flatnonzero(self.dying)
        inside = np.where(self.dying, -np.inf, self._utilities)
        top = situations.top(inside)
        sums = top + np.log(situations.sum(np.exp(inside - situations.spread(top))))
        return self._utilities[rows] - sums[self.problem.situation_of(rows)]

    @cached_property
    def _choices_on_face(self) -> float:
        alive = self.problem.situations.sum((~self.dying).astype(np.float64))
        return float(self.problem.totals[alive > 1].sum())

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
        return tuple(self.contrast(name) for name in self.problem.names)

    def summary(self, *, robust: bool = False) -> LogitSummary:
        """The table that statsmodels prints; ``robust`` uses sandwich standard errors."""
        notes = (*self.aliases, self.certificate.verdict)
        head = f"{self._head}, log-likelihood {self._at_limit[1]:.4f}"
        readings = tuple(row.reading for row in self.contrasts)
        return LogitSummary(head, self.contrasts, readings, robust, notes)

    def _table(self) -> pa.Table:
        rows = self.contrasts
        return table_of(
            {
                "parameter": [row.label for row in rows],
                "kind": [row.kind.value for row in rows],
                "estimate": [row.value for row in rows],
                "standard_error": [row.standard_error for row in rows],
                "robust_error": [row.robust_error for row in rows],
                "bound": [row.bound for row in rows],
                "comparisons": [row.comparisons for row in rows],
                "certified": [row.certified for row in rows],
            }
        )

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

    def _check(self) -> None:
        """Refuse a fit without proof; where small differences count as equal, contrasts say so."""
        if self.state is LogitState.UNCERTIFIED:
            self.expect()


def _cells(row: Contrast) -> list[str]:
    if row.kind is ContrastKind.FINITE:
        return [row.label, f"{row.value:+z.3f}", f"{row.standard_error:.3f}", f"{row.robust_error:.3f}", ""]
    return [row.label, "-" if np.isnan(row.value) else row.kind.value, "-", "-", row.reading]
