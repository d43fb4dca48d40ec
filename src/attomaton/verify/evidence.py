"""What claims are judged by: a run, the automata of its trials, and what follows from both."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from attomaton.limit.automaton import Automaton
from attomaton.models.heads import Tied, TokenId
from attomaton.models.losses import LogLoss
from attomaton.tables import Bool, Float64, Int64
from attomaton.training.steps import GradientDescent
from attomaton.training.trace import Trace
from attomaton.verify.local import find_local_directions
from attomaton.verify.measures import Curves, Target, aim_at, measure_against

Found = TypeVar("Found")

NOWHERE = 1e9
"""The tangent of a right angle, or more."""


FEWEST_STEPS, FEWEST_RECORDS = 100, 10
"""Shorter runs are not judged by where they go."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """A run with the automaton of every trial (:func:`~attomaton.verify.measures.solve_trials`)."""

    trace: Trace
    automata: tuple[Automaton, ...]

    @cached_property
    def target(self) -> Target:
        """Where the automata say that weights go."""
        return aim_at(self.trace, self.automata)

    @cached_property
    def curves(self) -> Curves:
        """The run's curves against the automata."""
        return measure_against(self.trace, self.target)

    @property
    def directions(self) -> Float64:
        """W_svm, shape (n_trials, dim, dim)."""
        return self.target.directions

    @cached_property
    def cyclic_places(self) -> Float64:
        """Coordinates of Π_fin W, shape (n_records, n_trials, most)."""
        return self.target.cyclic_places(self.trace.weights)

    @cached_property
    def local_directions(self) -> Float64:
        """The directions of the tokens selected at the end, shape (n_trials, dim, dim)."""
        return find_local_directions(self.trace)

    @cached_property
    def directed(self) -> Bool:
        """Trials with W_svm ≠ 0, shape (n_trials,)."""
        return np.asarray(self.directions.any(axis=(1, 2)))

    @cached_property
    def independent(self) -> Bool:
        """Trials whose embeddings are linearly independent, shape (n_trials,)."""
        tables = self.trace.embeddings
        return np.asarray(np.linalg.matrix_rank(tables) == tables.shape[1])

    @cached_property
    def acyclic(self) -> Bool:
        """Trials without ties, shape (n_trials,)."""
        return np.array([automaton.components.is_acyclic for automaton in self.automata])

    def once(self, find: "Callable[[Evidence], Found]") -> "Found":
        """What a function finds in this evidence, computed the first time it is asked for."""
        known = self._known
        if find not in known:
            known[find] = find(self)
        return known[find]

    @cached_property
    def _known(self) -> dict[Any, Any]:
        return {}

    @property
    def middle(self) -> int:
        """The record nearest to half of the steps."""
        return int(np.abs(self.trace.steps - self.trace.steps[-1] / 2).argmin())


def find_angles(weights: Float64, along: Float64) -> tuple[Float64, Float64]:
    """Tangents of the angle between W and a direction: at the last record, and at half the way.

    Half the way is the record at which ⟨W, direction⟩ was nearest to half of what it is at the last. While
    W = level · direction + something bounded, the tangent halves in between; if W goes elsewhere, it stays.

    Parameters
    ----------
    weights : float64 array, shape (n_records, n_trials, dim, dim)
    along : float64 array, shape (n_trials, dim, dim)

    Returns
    -------
    float64 arrays, shape (n_trials,) each
        ``NOWHERE`` where W does not point along the direction at all.
    """
    unit = along / np.linalg.norm(along, axis=(1, 2), keepdims=True)
    level = np.einsum("rbij,bij->rb", weights, unit)
    half: Int64 = np.abs(level - level[-1] / 2).argmin(axis=0)
    beside = np.linalg.norm(weights - level[..., None, None] * unit, axis=(2, 3))
    with np.errstate(divide="ignore", invalid="ignore"):
        tangent = np.where(level > 0, np.minimum(beside / level, NOWHERE), NOWHERE)
    return tangent[-1], tangent[half, np.arange(len(half))]


def correlation_of(tangent: Float64) -> Float64:
    """The cosine of the angle with this tangent."""
    return 1.0 / np.sqrt(1.0 + tangent**2)


def need_log_loss(evidence: Evidence) -> str:
    """The loss is log-loss."""
    loss = evidence.trace.model.loss
    return "" if isinstance(loss, LogLoss) else f"the loss is {type(loss).__name__}, not log-loss"


def need_mass_head(evidence: Evidence) -> str:
    """The head reads the attention mass on the label (assumption A, or token ids)."""
    head = evidence.trace.model.head
    if isinstance(head, TokenId):
        return ""
    if not isinstance(head, Tied):
        return f"the head is {head}, which does not read the attention mass on the label"
    if evidence.independent.all():
        return ""
    return "the head is tied, but embeddings are linearly dependent: C Eᵀ = I has no solution"


def need_descent(evidence: Evidence) -> str:
    """Gradient descent on W, plain or normalised, with a fixed step."""
    step = evidence.trace.step
    if not isinstance(step, GradientDescent) or step.momentum or step.schedule is not None:
        return f"the step is {step}, not gradient descent with a fixed step and no momentum"
    if evidence.trace.model.rank is not None:
        return "W is a product of two factors, and these were trained"
    return ""


def need_length(evidence: Evidence) -> str:
    """Enough steps and records to tell where a run goes."""
    n_steps, n_records = int(evidence.trace.steps[-1]), len(evidence.trace.steps)
    long = n_steps >= FEWEST_STEPS and n_records >= FEWEST_RECORDS
    return "" if long else f"{n_steps:,} steps with {n_records} records are too few to tell a limit by"


def need_plain_descent(evidence: Evidence) -> str:
    """Gradient descent with the gradient itself."""
    step = evidence.trace.step
    normalized = isinstance(step, GradientDescent) and step.normalized
    return "steps are normalised" if normalized else need_descent(evidence)


def need_direction(evidence: Evidence) -> str:
    """Some trial has a priority, so that W_svm ≠ 0."""
    return "" if evidence.directed.any() else "W_svm = 0: no token precedes another"


def need_ties(evidence: Evidence) -> str:
    """Some trial has a cycle."""
    return "no trial has a cycle, so that there is no finite part" if evidence.acyclic.all() else ""


def need_independence(evidence: Evidence) -> str:
    """Some trial has linearly independent embeddings."""
    if evidence.independent.any():
        return ""
    n_tokens, dim = evidence.trace.embeddings.shape[1:]
    return f"the embeddings of {n_tokens} tokens in {dim} dimensions are linearly dependent"
