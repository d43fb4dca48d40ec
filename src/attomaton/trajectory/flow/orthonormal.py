"""Gradient flow for orthonormal embeddings: queries separate, one coordinate per (query, token).

Within a component gradients are sums of terms of order 1 that cancel to order 1/t. A component as a whole
moves only by the flow across its border, so that part is summed separately and loses no digits. Conjugate
gradients use whole components in their preconditioner, or they would need an iteration per digit of t.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attomaton.base.borders import check_floats, check_int64, check_lengths
from attomaton.base.errors import MismatchedParts
from attomaton.base.native import damp_queries, descend_queries, minimise_queries
from attomaton.base.ragged import run_starts, sum_at
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.soft.likelihood import LuceProblem
from attomaton.solvers.soft.newton import Choices, Groups, problem_of, sort_by_group
from attomaton.trajectory.sharpness import bound_curvatures


@dataclass(frozen=True, eq=False)
class OrthonormalFlow:
    """The training loss as a function of all scores; one block per query.

    ``groups`` are the choices by query, with counts divided by the number of samples; ``components`` are the
    component of each alternative, and the size of each component.
    """

    groups: Groups
    components: tuple[Int64, Int64]

    def descend(self, point: Float64, step_size: float, n_steps: int) -> Float64:
        end = self._check(point).copy()
        descend_queries(self._queries, end, step_size, n_steps)
        return end

    def minimise(self, anchor: Float64, stiffness: float, start: Float64, atol: float) -> Float64:
        """The minimum of L(x) + ½ stiffness ‖x − anchor‖²; NaN if Newton's method does not converge."""
        point, anchor = self._check(start).copy(), self._check(anchor)
        converged = minimise_queries(self._queries, anchor, stiffness, point, atol)
        return point if converged else np.full(len(point), np.nan)

    def damp(self, point: Float64, stiffness: float, move: Float64) -> Float64:
        damped, point = self._check(move).copy(), self._check(point)
        damp_queries(self._queries, point, stiffness, damped)
        return damped

    def sharpness(self, point: Float64, enough: float = 0.0) -> Float64:
        """Bounds on the largest eigenvalue of each query's curvature; rough where at most ``enough``."""
        blocks = self.spread(np.arange(len(self.groups.borders) - 1))
        problem = problem_of(self.groups.choices, blocks)
        return bound_curvatures(problem, problem.probabilities(self._check(point)), blocks, enough=enough)

    @property
    def _queries(self) -> tuple[Choices, tuple[Int64, Int64], tuple[Int64, Int64]]:
        return self.groups.choices, self.groups.starts, self.components

    def _check(self, values: Float64) -> Float64:
        size = len(self.groups.alternatives)
        return np.ascontiguousarray(check_floats(values, (size,), "the state of a flow", finite=False))

    def lengths(self, move: Float64) -> Float64:
        """The length of a change of each query's scores, shape (n_queries,)."""
        n_queries = len(self.groups.borders) - 1
        return np.sqrt(sum_at(self.spread(np.arange(n_queries)), move * move, n_queries))

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """The value of each score's query, shape (n_alternatives,)."""
        return np.repeat(values, np.diff(self.groups.borders))


def orthonormal_flow(problem: LuceProblem, component: Int64, n_samples: int) -> OrthonormalFlow:
    """The flow of whole-context choices, sorted by query; ``component`` gives that of each alternative."""
    _check_components(problem, check_int64(component, "component"))
    groups = sort_by_group(problem)
    shared = groups.choices._replace(count=groups.choices.count / n_samples)
    numbers = np.unique(component, return_inverse=True)[1]
    by_query = Groups(shared, groups.alternatives, groups.borders, groups.choice_borders)
    return OrthonormalFlow(by_query, (numbers, np.bincount(numbers)))


# Check that queries are contiguous and their components numbered in order.
def _check_components(problem: LuceProblem, component: Int64) -> None:
    check_lengths("alternatives and their components", query=problem.component, component=component)
    if not len(component):
        return
    query = problem.component
    first = run_starts(query)
    lowest, highest = (np.asarray(find.reduceat(component, first)) for find in (np.minimum, np.maximum))
    sorted_queries = bool((np.diff(query) >= 0).all())
    if not (sorted_queries and (lowest == component[first]).all() and (lowest[1:] > highest[:-1]).all()):
        raise MismatchedParts(
            "the choices and the components are from different corpora: the components of a query are not "
            "numbered by their first tokens; give results of find_components and extract_choices"
        )
