"""The fit of a conditional logit, finite where the data make it so, with its proof."""

from collections.abc import Mapping
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
    """Fit a conditional logit and decide what of it is finite.

    Newton's method runs first, with a test that can prove that the maximum exists. Where that fails,
    attomaton finds which alternatives fall infinitely far behind (they die), and Newton's method runs on the
    others, the face of the data.

    Parameters
    ----------
    problem : ChoiceProblem
        The choices.

    Returns
    -------
    LogitFit
        Print it for a table; ``contrast`` gives any difference of parameters.

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
    zero = np.zeros(problem.rows.n_parameters)
    identified = span_of(problem, None)

    # games: those between strong components die, unless features separate more
    course = None
    if isinstance(problem.rows, BattleRows):
        face, on_graph = find_games_face(problem), problem.graph is not None
        alive = ~face.dying if face.dying.any() else None
        course = NewtonClimb(patience=None if on_graph else PATIENCE).run(problem, alive, zero)
        if on_graph or course.proof is not None:
            fit = _fit_on(problem, face, course, identified)
            if fit.certificate.certified or problem.rows.n_parameters > MOST_PARAMETERS:
                return fit
        if on_graph:
            problem = replace(problem, dense=True)
            identified = span_of(problem, None)
        if on_graph or alive is not None:
            course = None

    # nothing dies: Newton's method proves that a maximum exists
    course = course or NewtonClimb(patience=PATIENCE).run(problem, None, zero)
    if course.proof is not None:
        face = Face(np.zeros(problem.situations.n_rows, bool), zero, zero, "Newton")
        return _fit_on(problem, face, course, identified)

    # a linear program says what dies; if its fit has no proof, in coordinates that tell near classes apart
    try:
        face = find_face(problem, course.last.beta)
        fit = _fit_on(problem, face, _climb(problem, face), identified)
    except UncertifiedSolution:
        fit = None
    if fit is not None and (fit.certificate.certified or fit.method == "components"):
        return fit
    try:
        face = find_face(problem, zero, metric=find_metric(problem, identified.basis))
        finer = _fit_on(problem, face, _climb(problem, face), identified)
    except UncertifiedSolution:
        if fit is None:
            raise
        return fit
    return finer if fit is None or finer.certificate.certified else fit


def _fit_on(problem: ChoiceProblem, face: Face, course: Course, identified: Span) -> "LogitFit":
    """The fit on a face, which Newton's method has climbed already."""
    finite = span_of(problem, ~face.dying) if face.dying.any() else identified
    fit = _prove(problem, face, course, finite, identified)
    if not fit.certificate.converged:  # again from 0, with steps that stay in S and are all looked at
        alive = ~face.dying if face.dying.any() else None
        reach = np.inf if fit.certificate.survival else NewtonClimb.reach  # there is a maximum to go to
        basis = finite.basis if problem.graph is None else None
        climb = NewtonClimb(most_steps=200, settled=1e-20, chord=False, reach=reach, basis=basis)
        further = climb.run(problem, alive, np.zeros_like(face.start))
        fit = _prove(problem, face, Course(further.last, course.proof or further.proof), finite, identified)
    return fit


def _prove(problem: ChoiceProblem, face: Face, course: Course, finite: Span, identified: Span) -> "LogitFit":
    """The fit with the strongest proof that is there: a Newton step, multipliers, fractions."""
    beta = finite.project(course.last.beta)
    evidence = LogitEvidence(face.dying, beta, finite.reject(face.direction), beta, None)
    fit = _conclude(problem, evidence, finite, identified, face.method, face.program_rows)
    if fit.certificate.survival:
        return fit
    if course.proof is not None:
        evidence = evidence._replace(witness=finite.project(course.proof.beta))
    evidence = evidence._replace(multipliers=find_multipliers(problem, face.dying))
    return _conclude(problem, evidence, finite, identified, face.method, face.program_rows)


def _conclude(
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
    return _conclude(problem, evidence, finite, identified, method, program_rows)


def _climb(problem: ChoiceProblem, face: Face) -> Course:
    """Newton's method on a face, begun again at 0 if nothing is proved on the way from elsewhere."""
    alive = ~face.dying if face.dying.any() else None
    course = NewtonClimb().run(problem, alive, face.start)
    if course.proof is None and face.start.any():
        zero = np.zeros_like(face.start)
        course = Course(
            course.last, NewtonClimb(most_steps=20, until_proof=True).run(problem, alive, zero).proof
        )
    return course


@dataclass(frozen=True, eq=False, repr=False)
class LogitFit(Tabular):
    """A conditional logit: the finite part of its estimate, what is infinite, and the proof.

    Attributes
    ----------
    problem : ChoiceProblem
        The choices.
    evidence : LogitEvidence
        β*, v, the witness and the multipliers, in scaled coordinates: what the certificate is computed from.
    finite, identified : Span
        S, the contrasts with a finite estimate, and R, those that the data bear on, in scaled coordinates.
    certificate : LogitCertificate
        The numbers of the proof.
    known_covariance : float64 array, shape (n_parameters, n_parameters), or None
        S (SᵀHS)⁻¹ Sᵀ at β*, in scaled coordinates; None on the graph of
        games, where it is computed on demand.
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
        """Read a fit that :meth:`save` wrote; spans and certificate are computed anew.

        Examples
        --------
        >>> import tempfile
        >>> fit = fit_logit(ChoiceProblem.from_rows([[1.0], [0.0]], [2], [8, 0], names=["x"]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = LogitFit.load(fit.save(f"{folder}/fit"))
        >>> again.certificate.certified, round(again.contrast("x").bound, 3)
        (True, 0.789)
        """
        return load_run(path, LOGIT, restore_fit)

    @property
    def state(self) -> LogitState:
        """Certified, treated as equal, or not certified."""
        return self.certificate.state

    def expect(self) -> Self:
        """Return the fit itself if it is certified; raise ``UncertifiedSolution`` if not."""
        if self.state is LogitState.CERTIFIED:
            return self
        still = "" if self.state is LogitState.UNCERTIFIED else "; contrast() answers, and says so"
        raise UncertifiedSolution(
            f"{self.state.value} ({self.certificate}); drop or round features that hardly differ, or scale "
            f"them to a common size{still}"
        )

    @property
    def dying(self) -> Bool:
        """Rows whose alternative is infinitely far behind in its situation, shape (n_rows,)."""
        return self.evidence.dying

    @property
    def separation(self) -> str:
        """The kind by Albert and Anderson (1984): "complete", "quasi-complete" or "none" (overlap)."""
        left = self.problem.situations.n_rows - int(self.dying.sum())
        if not self.dying.any():
            return "none"
        return "complete" if left == len(self.problem.situations) else "quasi-complete"

    @property
    def n_parameters(self) -> int:
        """How many finite numbers are fitted: dim S."""
        return self.finite.rank

    @cached_property
    def coefficients(self) -> Float64:
        """β*, the finite part, which lies in S of the scaled columns: use it for finite contrasts only."""
        self.expect()
        return self.problem.parameters(self.evidence.beta)

    @cached_property
    def log_likelihood(self) -> float:
        """Σ n ln p: the maximum, or the supremum where pairs die."""
        self.expect()
        return self._at_limit[1]

    @property
    def aic(self) -> float:
        """Akaike's criterion; of the supremum and the finite parameters if an estimate is infinite."""
        return 2.0 * self.n_parameters - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """The Bayesian information criterion: as :attr:`aic`, with ln(number of choices) in place of 2."""
        return float(np.log(self.problem.n_choices)) * self.n_parameters - 2.0 * self.log_likelihood

    @cached_property
    def probabilities(self) -> Float64:
        """The limit of the probability of each row; 0 for those that die."""
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
        """The covariance of β* by the information, (n_parameters, n_parameters); valid for contrasts in S."""
        self.expect()
        return self.problem.covariance(self.scaled_covariance)

    @cached_property
    def scaled_covariance(self) -> Float64:
        """S (SᵀHS)⁻¹ Sᵀ at β*, in scaled coordinates: H lifted along the complement, inverted."""
        if self.known_covariance is not None:
            return self.known_covariance
        outside = self.finite.complement
        lift = float(self._curvature.diagonal.mean()) or 1.0
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
        """The sandwich covariance, shape (n_parameters, n_parameters); valid for contrasts in S.

        Parameters
        ----------
        clusters : sequence, optional
            The cluster (such as the judge or the prompt) of each situation; the errors are then those of CR2,
            which needs three clusters. None means that every choice is a cluster, or every situation if its
            counts are fractions.
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
        """The sandwich without clusters, in scaled coordinates."""
        self._check()
        problem, bread = self.problem, self.scaled_covariance
        meat = problem.rows.scores(self._residuals, None)
        if (problem.totals > 1).any() and problem.is_whole:  # they scatter about their mean, too
            share = problem.counts / problem.situations.spread(problem.totals)
            meat = meat + problem.rows.information(share, problem.totals)
        meat = meat / np.outer(problem.scale, problem.scale)
        return bread @ meat @ bread

    @cached_property
    def _residuals(self) -> Float64:
        """What is left of the counts of each row; of each choice alone where counts are whole."""
        residuals = self.problem.residuals(self._at_limit[0])
        if not self.problem.is_whole:
            return residuals
        return residuals / self.problem.situations.spread(np.sqrt(self.problem.totals))

    def _scatter(self, moved: Float64) -> float:
        """What the sandwich without clusters has for a contrast f, from H⁺ f."""
        problem, rise = self.problem, self.problem.utilities(moved)
        score = problem.situations.sum(self._residuals * rise)
        square = float(score @ score)
        if (problem.totals > 1).any() and problem.is_whole:
            share = problem.counts / problem.situations.spread(problem.totals)
            away = rise - problem.situations.spread(problem.situations.sum(share * rise))
            square += float(problem.counts @ away**2)
        return square

    def contrast(self, *names: Any, level: float = 0.95, clusters: Int64 | None = None) -> Contrast:
        """What the data say about a contrast of parameters.

        Parameters
        ----------
        *names : str, or one mapping
            One name; two names for their difference; or a mapping from names to weights.
        level : float
            The confidence of the bound.
        clusters : int64 array, shape (n_situations,), optional
            The cluster of each situation: all choices of a cluster count as one in a bound.

        Examples
        --------
        >>> from attomaton.choices.logit import ChoiceProblem, fit_logit
        >>> rows = [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
        >>> fit = fit_logit(ChoiceProblem.from_rows(rows, [2, 2], [1, 0, 1, 0], names=["a", "b", "c"]))
        >>> fit.contrast("b", "c").kind.value, fit.contrast({"a": 2, "b": -1, "c": -1}).kind.value
        ('undecided', '+inf')
        """
        self._check()
        level = real_number(level, "level", above=0, below=1)
        weights = weights_of(names)
        contrast = np.zeros(self.problem.rows.n_parameters)
        for name, weight in weights.items():
            contrast[self.problem.number(name)] += weight
        scaled = self.problem.scaled(contrast)
        kind, sure = classify(scaled, self.finite, self.identified, lambda: self._cone)
        sizes = np.abs(scaled[scaled != 0])
        sure = sure and bool((sizes > CLOSE * sizes.max(initial=0.0)).all())  # else small entries may decide
        if self.certificate.certified and not sure:
            exact = classify_in_fractions(self.problem, self.dying, contrast)
            kind, sure = exact or kind, exact is not None
        answer = self._answer(scaled, weights, kind, level, clusters)
        return answer if sure and self.certificate.certified else replace(answer, certified=False)

    def classify(self, weights: Any) -> Any:
        """The classes of many contrasts at once, as :meth:`contrast` gives them.

        Parameters
        ----------
        weights : float array, shape (n_contrasts, n_parameters)
            One contrast in each row.

        Returns
        -------
        array of ContrastKind, shape (n_contrasts,)

        Examples
        --------
        >>> from attomaton.choices import binary_logit, fit_logit
        >>> fit = fit_logit(binary_logit([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1]))
        >>> [kind.value for kind in fit.classify([[1, 0], [0, 1], [1, 3]])]
        ['finite', '+inf', '+inf']
        """
        self._check()
        scaled = self.problem.scaled(np.asarray(weights, np.float64))
        return classify_all(scaled, self.finite, self.identified, self._cone)

    def _answer(
        self,
        contrast: Float64,
        weights: Mapping[str, float],
        kind: ContrastKind,
        level: float,
        clusters: Int64 | None,
    ) -> Contrast:
        label = describe_contrast(weights)
        if kind is ContrastKind.FINITE:
            moved = self.deviate(contrast)
            return Contrast(
                label,
                kind,
                float(contrast @ self.evidence.beta),
                float(np.sqrt(max(contrast @ moved, 0.0))),
                float(np.sqrt(self._scatter(moved))),
                level=level,
                comparisons=self._choices_on_face,
            )
        settle = describe_settling(weights, kind)
        if kind in (ContrastKind.UNDECIDED, ContrastKind.UNIDENTIFIED):
            return Contrast(label, kind, np.nan, level=level, settle=settle)
        sign = 1.0 if kind is ContrastKind.PLUS else -1.0
        binding = self._cone.binding(sign * contrast)
        least, sure = None, binding is not None
        if binding is not None:
            least = bound_below(self._cone, sign * contrast, binding, self.dying_log_odds, level, clusters)
        owners = np.unique(self.problem.situation_of(self._cone.rows[... if binding is None else binding]))
        return Contrast(
            label,
            kind,
            sign * np.inf,
            bound=None if least is None else float(contrast @ self.evidence.beta) + sign * least,
            level=level,
            comparisons=float(self.problem.totals[owners].sum()),
            settle=settle,
            certified=sure,
        )

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
        """Where gradient descent from 0 goes: β_t / ln t tends to it.

        The direction depends on how features are scaled, and describes training only: it does not decide a
        contrast that the data leave open.
        """
        self.expect()
        return find_direction(self.problem, self.dying, self.finite)

    @cached_property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The contrast of each parameter by itself, as :meth:`contrast` gives it."""
        return tuple(self.contrast(name) for name in self.problem.names)

    def summary(self, *, robust: bool = False) -> LogitSummary:
        """Each parameter with the columns that statsmodels prints, infinite ones with their bound in words.

        Parameters
        ----------
        robust : bool
            Whether to use sandwich standard errors, as for ties that count as half wins.

        Examples
        --------
        >>> from attomaton.choices import binary_logit, fit_logit
        >>> fit = fit_logit(binary_logit([[1.0], [1.0], [1.0]], [0, 1, 1], names=["constant"]))
        >>> fit.summary().to_pandas()[["coef", "std err", "z"]].round(4).values.tolist()
        [[0.6931, 1.2247, 0.566]]
        """
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
        """The estimates by Firth's penalised likelihood: finite wherever the data bear on a parameter.

        Examples
        --------
        All of 8 tosses are heads: the maximum is infinite. Firth's estimate adds half a toss to each side.

        >>> fit = fit_logit(ChoiceProblem.from_rows([[1.0], [0.0]], [2], [8, 0], names=["x"]))
        >>> fit.firth().coefficients.round(4).tolist(), np.log([8.5 / 0.5]).round(4).tolist()
        ([2.8332], [2.8332])
        """
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
            return [head, f"{self.state.value}: {self.certificate}"]
        rows = [_cells(row) for row in self.contrasts]
        grid = Grid("", ["parameter", "estimate", "s.e.", "robust", "reading"], rows)
        return [head, grid, *self.aliases, self.certificate.verdict]

    def _check(self) -> None:
        """Refuse what nothing is proved of; what treats small differences as equal is said by contrasts."""
        if self.state is LogitState.UNCERTIFIED:
            self.expect()


def _cells(row: Contrast) -> list[str]:
    if row.kind is ContrastKind.FINITE:
        return [row.label, f"{row.value:+z.3f}", f"{row.standard_error:.3f}", f"{row.robust_error:.3f}", ""]
    return [row.label, "-" if np.isnan(row.value) else row.kind.value, "-", "-", row.reading]
