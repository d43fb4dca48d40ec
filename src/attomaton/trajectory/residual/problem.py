"""What the third term minimises, and what is known about the answer.

Insert W(t) = ln t·W_svm + W_fin + R into gradient descent. Where a priority A → B is tight (hard scores
differ by exactly 1), labels in A leave to B the mass κ_AB e^{R_B − R_A}/(η t) in all; elsewhere it dies
faster. What crosses must carry W_svm/t, so R makes  Σ_tight κ_AB e^{R_B − R_A} + ⟨W_svm, R⟩  stationary: a
convex function.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array

from attomaton.base.ragged import largest_of, rows_of, sum_at
from attomaton.base.tables import Bool, Float64, Int64, column
from attomaton.trajectory.loss import TrainingLoss


@dataclass(frozen=True, eq=False)
class Priorities:
    """The edges of the order as the third term sees them.

    Attributes
    ----------
    above, below : int64 arrays, shape (n_order,)
        The components each edge joins.
    slack : float64 array, shape (n_order,)
        Difference of their hard scores, less 1.
    tight : bool array, shape (n_order,)
        Where the slack is zero.
    kappa : float64 array, shape (n_order,)
        κ = (η/n) Σ over samples labelled above of (Σ_{x below} m_x e^{w_x}) / (Σ_{a above} m_a e^{w_a}), with
        the soft scores w.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1])  # 0 beats 1 and 2, 1 beats 2
    >>> priorities = at.expand(at.learn(samples), samples).third.priorities
    >>> priorities.above.tolist(), priorities.below.tolist(), priorities.tight.tolist()
    ([0, 0, 1], [1, 2, 2], [True, False, True])
    >>> priorities.slack.round(6).tolist(), priorities.kappa.tolist()
    ([0.0, 1.0, 0.0], [0.5, 0.5, 0.5])
    """

    above: Int64
    below: Int64
    slack: Float64
    tight: Bool
    kappa: Float64


@dataclass(frozen=True, eq=False)
class Residual(ABC):
    """The third term R, with what limits it.

    Attributes
    ----------
    priorities : Priorities
        What it was found from.
    weights : float array, shape (dim, dim), or sparse array, shape (n_tokens, n_tokens)
        R.
    scores : float64 array, shape (n_nodes,)
        The score it gives to every node.
    flow : float64 array, shape (n_order,)
        κ e^{R_B − R_A} of the tight edges at R: multipliers of the Graph-SVM.
    degenerate : bool array, shape (n_order,)
        Tight edges on which every multiplier is zero: nothing holds their ends together, and scores drift
        apart like ln ln t.
    path_dependent : bool array, shape (n_components,)
        Components whose R depends on the way training took, not only on its end; what is given then is the
        part that does not.
    gradient : float
        Largest entry of the gradient that is left.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1]], [0])
    >>> third = at.expand(at.learn(samples), samples, step_size=1.0).third
    >>> third.scores.round(4).tolist(), third.priorities.kappa.tolist()  # ± ½ ln 2, as κ e^−2R = ½
    ([0.3466, -0.3466], [1.0])
    >>> round(third.settling(), 6), third.degenerate.any(), third.path_dependent.any()
    (1.0, np.False_, np.False_)
    """

    priorities: Priorities
    weights: Float64 | csc_array
    scores: Float64
    flow: Float64
    degenerate: Bool
    path_dependent: Bool
    gradient: float

    @abstractmethod
    def settling(self) -> float:
        """λ: the smallest rate, in ln t, at which tight edges settle at R; 1 if there are none."""


def find_priorities(
    loss: TrainingLoss, hard: Float64, soft: Float64, *, step_size: float, atol: float
) -> Priorities:
    """Slacks and odds of all edges of the order."""
    components = loss.components
    above, below = column(components.order, "above"), column(components.order, "below")
    level = np.zeros(len(components))
    level[components.component_of_node] = hard
    slack = level[above] - level[below] - 1.0
    kappa = _cross_odds(loss, soft) * step_size / loss.n_samples
    return Priorities(above, below, slack, slack <= atol, kappa)


def _cross_odds(loss: TrainingLoss, soft: Float64) -> Float64:
    """Odds of the tokens below against the label's component, summed for every edge, shape (n_order,)."""
    problem, component = loss.problem, loss.component
    choice, n_choices = rows_of(problem.offsets), len(problem.winner)
    own, other = component[problem.winner][choice], component[problem.alternative]
    logits = soft[loss.nodes][problem.alternative] + problem.log_multiplicity
    inside = own == other
    odds = np.exp(logits - largest_of(choice[inside], logits[inside], n_choices)[choice])
    total = sum_at(choice[inside], odds[inside], n_choices)
    order, size = loss.components.order, len(loss.components)
    edges = column(order, "above") * size + column(order, "below")
    place = np.searchsorted(edges, own[~inside] * size + other[~inside])
    across = choice[~inside]
    return sum_at(place, odds[~inside] / total[across] * problem.count[across], len(edges))
