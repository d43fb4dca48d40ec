"""The weights of gradient descent at step t without training: W(t) = ln t·W_svm + W_fin + R.

:func:`expand` takes the first two terms from an automaton and computes R (:mod:`.residual`).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csc_array

from attomaton.base.borders import check_kind
from attomaton.base.errors import MismatchedParts, UncertifiedSolution, UnsupportedOption
from attomaton.base.options import real_number
from attomaton.base.printing import Block, Grid, Signal
from attomaton.base.solutions import check_embeddings, score_table
from attomaton.base.tables import Bool, Float64, column, keep_rows, table_of
from attomaton.corpora.samples import Samples
from attomaton.graphs.choices import ChoiceTable
from attomaton.solvers.solved import Solved
from attomaton.trajectory.basis import find_basis
from attomaton.trajectory.curves import WeightPath, inner
from attomaton.trajectory.forward import DescentSetting, Trajectory, follow_descent
from attomaton.trajectory.loss import training_loss
from attomaton.trajectory.residual import Residual, find_priorities, solve_embedded, solve_orthonormal
from attomaton.trajectory.sharpness import StabilityEdge, find_edge

TIGHT_ORTHONORMAL = 1e-9  # largest slack of a tight edge; hard scores are exact to rounding
TIGHT_EMBEDDED = 1e-6  # largest slack with given embeddings, whose hard scores are certified to 1e-10
CONVERGED_GRADIENT = 1e-8  # largest accepted gradient of the third term, relative to the largest flow


class Expansion(WeightPath):
    """W(t) = ln t·W_svm + W_fin + R, from :func:`expand`.

    ``direction``, ``finite`` and ``residual`` are W_svm, W_fin and R, shape (dim, dim), or sparse (n_tokens,
    n_tokens); ``third`` is R with the tight edges and the flow on them. The expansion fails beyond the
    ``edge`` of stability. ``start`` is W(0), if it is not zero.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1]], [0])  # 0 precedes 1 under the query 1
    >>> expansion = expand(at.learn(samples), samples)
    >>> expansion.weights_at(1e6).toarray().round(3).tolist()  # ± ½ ln(2 η t)
    [[0.0, 7.254], [0.0, -7.254]]
    >>> expansion.error_at(1e6) < 1e-3, round(expansion.loss_at(1e6) * 1e6, 2)
    (True, 0.5)
    """

    def __init__(
        self,
        solved: Solved,
        setting: DescentSetting,
        third: Residual,
        edge: StabilityEdge,
        start: "Start | None" = None,
    ) -> None:
        tolerance = CONVERGED_GRADIENT * max(1.0, float(third.flow.max(initial=0.0)))
        if not (np.isfinite(third.scores).all() and third.gradient <= tolerance):
            raise UncertifiedSolution(
                f"the term R did not converge (gradient {third.gradient:.1e}), perhaps because embeddings "
                "are nearly dependent; use fast_forward, which does not need R"
            )
        self.loss = setting.loss
        self.edge = edge
        self.direction: Float64 | csc_array = solved.hard.weights
        self.finite: Float64 | csc_array = solved.soft.weights
        self.residual: Float64 | csc_array = third.weights
        self.third = third
        self._scores = (  # of all nodes: those that grow with ln t, and the constants
            column(solved.hard.scores, "score"),
            column(solved.soft.scores, "score") + third.scores + (0.0 if start is None else start.scores),
        )
        self.start = start
        self._setting = setting

    def __repr__(self) -> str:
        outlook = self.caveat or f"error falls like t^-{self.rate:.3g}"
        return f"Expansion({self.loss.pairs.num_rows:,} scores: {outlook})"

    # Each score as constant + direction · ln t, with the columns query, token, constant, direction.
    def _table(self) -> pa.Table:
        direction, constant = (scores[self.loss.nodes] for scores in self._scores)
        pairs = {name: column(self.loss.pairs, name) for name in ("query", "token")}
        return table_of({**pairs, "constant": constant, "direction": direction})

    def _blocks(self) -> list[Block]:
        terms = {"‖W_svm‖": self.direction, "‖W_fin‖": self.finite, "‖R‖": self.residual}
        sizes = [(name, f"{inner(term, term) ** 0.5:.6g}") for name, term in terms.items()]
        rows = [("scores", f"{self.loss.pairs.num_rows:,}"), *sizes]
        outcome = Signal(self.caveat or f"The error falls like t^-{self.rate:.3g}.", good=not self.caveat)
        return [Grid("Expansion: W(t) = ln t·W_svm + W_fin + R", ["", ""], rows), outcome]

    @property
    def path_dependent(self) -> Bool:
        """Components whose R depends on the path of training, shape (n_components,)."""
        return self.third.path_dependent

    @property
    def degenerate(self) -> pa.Table:
        """Priorities that are tight (1 apart) with multiplier 0: their scores drift apart like ln ln t."""
        return keep_rows(self.loss.components.order, self.third.degenerate)

    @property
    def caveat(self) -> str:
        """What the data alone do not determine, and whether the step size is too large; empty if nothing."""
        caveats = [str(self.edge)] if self.edge.passed else []
        if self.path_dependent.any():
            caveats.append(f"R depends on the path in {int(self.path_dependent.sum()):,} components")
        if self.third.degenerate.any():
            caveats.append(f"R drifts like ln ln t at {int(self.third.degenerate.sum()):,} edges")
        return "; ".join(caveats)

    @cached_property
    def settling(self) -> float:
        """λ: the smallest rate, in ln t, at which tight edges converge to R."""
        return self.third.settling()

    @property
    def rate(self) -> float:
        """The error falls like t^−rate: least of 1, ``settling`` and the slack of edges not tight."""
        priorities = self.third.priorities
        return min(self.settling, float(priorities.slack[~priorities.tight].min(initial=1.0)), 1.0)

    def weights_at(self, step: float) -> Float64 | csc_array:
        """W(t), shape (dim, dim); with orthonormal embeddings the scores, sparse, key tokens × queries."""
        return self.weights_along(_log_of_step(step))

    def weights_along(self, level: float) -> Float64 | csc_array:
        """level·W_svm + W_fin + R, plus the part of W(0) that training leaves.

        Plain descent has level = ln t. Normalised descent and regularisation paths follow the same curve.
        """
        weights = real_number(level, "level") * self.direction + self.finite + self.residual
        return weights if self.start is None else weights + self.start.weights

    def scores_at(self, step: float) -> pa.Table:
        """The table (query, token, score) of all pairs that training sees."""
        hard, constant = self._scores
        return score_table(self.loss.pairs, (_log_of_step(step) * hard + constant)[self.loss.nodes])

    def error_at(self, step: float) -> float:
        """Estimated ‖error‖ of W(t), Frobenius norm; infinite if there is a :attr:`caveat`.

        It is the distance to :func:`fast_forward` at this step plus the estimated error there, and infinite
        where the trajectory cannot be computed. The first call computes the trajectory.
        """
        step = max(real_number(step, "step"), 1.0)
        if self.caveat:
            return float("inf")
        try:
            trajectory = self._trajectory
            difference: Any = self.weights_at(step) - trajectory.weights_at(step)
            return inner(difference, difference) ** 0.5 + trajectory.error_at(step)
        except (UncertifiedSolution, UnsupportedOption):
            return float("inf")

    # The computed path, which later steps continue.
    @cached_property
    def _trajectory(self) -> Trajectory:
        return follow_descent(self._setting)


@dataclass(frozen=True, eq=False)
class Start:
    """What W(0) adds to W(t) at all steps: the component outside the span in which training moves weights."""

    weights: Float64  # (dim, dim)
    scores: Float64  # (n_nodes,), the scores of the nodes under it


def expand(
    automaton: Solved,
    samples: Samples | ChoiceTable,
    *,
    step_size: float = 1.0,
    embeddings: object = None,
    start: Float64 | None = None,
) -> Expansion:
    """Predict the weights of plain gradient descent at any step: ln t·W_svm + W_fin + R.

    Parameters
    ----------
    automaton : Automaton or Solved
        The automaton learned from the samples: its hard and soft solutions are the first two terms.
    samples : Samples or ChoiceTable
        The corpus, or its whole-context choices, ``extract_choices(samples)``.
    step_size : float
        η, for the loss that is the mean over realisable samples.
    embeddings : float array, shape (n_tokens, dim), optional
        The embeddings that the automaton was learned with.
    start : float array, shape (dim, dim), optional
        W(0); needs embeddings. None means zero. Training leaves its component outside the span of the edges.

    Notes
    -----
    R is perpendicular to the cyclic subspace and minimises Σ_{tight A → B} κ_AB e^{R_B − R_A} + ⟨W_svm, R⟩
    with κ_AB = (η/n) Σ_{samples labelled in A} (Σ_{x∈B∩X} m_x e^{w_x}) / (Σ_{a∈A∩X} m_a e^{w_a}), w the
    scores of W_fin. The ``caveat`` of the result names what the data alone do not determine.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1]], [0])  # 0 precedes 1 under the query 1
    >>> scores = expand(at.learn(samples), samples).scores_at(1e6).column("score").to_numpy()
    >>> float((scores[0] - scores[1]).round(3))  # ln(2 η t)
    14.509
    """
    check_kind(automaton, Solved, "the automaton")
    step_size = real_number(step_size, "step_size", least=1e-290, most=1e290)
    if (embeddings is None) == automaton.embedded:
        raise MismatchedParts(
            "the automaton was learned with other embeddings; give expand the embeddings of learn, or no "
            "embeddings if learn had none"
        )
    automaton.hard.expect()
    automaton.soft.expect()
    loss = training_loss(samples, automaton.components)
    if embeddings is None:
        if start is not None:
            raise UnsupportedOption("start needs embeddings; give embeddings=np.eye(n_tokens) too")
        hard, soft = column(automaton.hard.scores, "score"), column(automaton.soft.scores, "score")
        priorities = find_priorities(loss, hard, soft, step_size=step_size, atol=TIGHT_ORTHONORMAL)
        multipliers = column(automaton.hard.multipliers, "multiplier")
        third = solve_orthonormal(loss.components, priorities, hard, multipliers)
        edge = find_edge(loss, step_size, finite=soft)
        return Expansion(automaton, DescentSetting(loss, step_size), third, edge)
    table = check_embeddings(embeddings, automaton.n_tokens)
    return _expand_embedded(automaton, DescentSetting(loss, step_size, table, start))


# The expansion for given embeddings, in the coordinates of a basis of the edge directions.
def _expand_embedded(solved: Solved, setting: DescentSetting) -> Expansion:
    loss, start = setting.loss, setting.start
    table = np.asarray(setting.embeddings)
    weights, nodes = np.asarray(solved.hard.weights), solved.hard.scores
    scores = _node_scores(nodes, table, weights)
    if not np.allclose(scores, column(nodes, "score"), atol=1e-6 * (1.0 + np.abs(scores).max(initial=0.0))):
        raise MismatchedParts(
            "these are not the embeddings that the automaton was learned with; give the embeddings of learn"
        )
    basis = find_basis(loss.components, table)
    scaled_step = setting.step_size * basis.scale**4  # c = W·scale², so dc = −η scale⁴ ∂L/∂c
    hard, soft = column(solved.hard.scores, "score"), column(solved.soft.scores, "score")
    priorities = find_priorities(loss, hard, soft, step_size=scaled_step, atol=TIGHT_EMBEDDED)
    third = solve_embedded(loss.components, priorities, basis, basis.coordinates(weights))
    fixed_start = None
    if start is not None:  # the component of W(0) that training cannot move
        fixed = np.asarray(start) - basis.weights(basis.coordinates(np.asarray(start)))
        fixed_start = Start(fixed, _node_scores(nodes, table, fixed))
    edge = find_edge(loss, setting.step_size, basis, np.asarray(solved.soft.weights))
    return Expansion(solved, setting, third, edge, fixed_start)


# e_xᵀ W e_k of every node (k, x).
def _node_scores(nodes: pa.Table, table: Float64, weights: Float64) -> Float64:
    return np.sum(table[column(nodes, "token")] @ weights * table[column(nodes, "query")], axis=1)


def _log_of_step(step: float) -> float:
    return float(np.log(real_number(step, "step of an expansion", least=1)))
