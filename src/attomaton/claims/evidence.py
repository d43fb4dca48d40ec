"""Evidence for claims: a run, the automata of its trials, and what follows from both.

A function ``need_…`` checks one assumption of a claim. It returns an empty text if the evidence meets the
assumption, and otherwise the objection that the verdict prints.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.base.tables import Bool, Float64
from attomaton.claims.measures import Curves, Target, measure_against, predict_target
from attomaton.training.models.heads import Tied, TokenId, reads_mass
from attomaton.training.models.losses import LogLoss
from attomaton.training.steps import GradientDescent
from attomaton.training.trace import Trace
from attomaton.trajectory.sharpness import find_passed

Result = TypeVar("Result")

# The tangent that stands for a right angle or more.
NOWHERE = 1e9

# Shorter runs are not judged by their limit.
FEWEST_STEPS, FEWEST_RECORDS = 100, 10

# If less attention than this is below the highest component, it underflows: normalised steps are 0/0.
LEAST_MASS = 1e-290

# The least mass with a tied readout, whose C Eᵀ is the identity only up to rounding.
LEAST_MASS_TIED = 1e-20


@dataclass(frozen=True, eq=False)
class Evidence:
    """A run with the automaton of every trial (:func:`~attomaton.claims.limits.solve_trials`)."""

    trace: Trace
    automata: tuple[Automaton, ...]
    # results that depend only on data, W(0) and step: `computed_path.lengthen_run` hands them to the evidence
    # of a longer run, while results of `once` belong to this evidence only
    of_data: dict[Any, Any] = field(default_factory=dict[Any, Any])

    @cached_property
    def target(self) -> Target:
        if predict_target not in self.of_data:
            self.of_data[predict_target] = predict_target(self.trace, self.automata)
        return self.of_data[predict_target]

    @cached_property
    def curves(self) -> Curves:
        return measure_against(self.trace, self.target)

    @property
    def directions(self) -> Float64:
        """W_svm, shape (n_trials, dim, dim)."""
        return self.target.directions

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

    def once(self, find: "Callable[..., Result]", *arguments: Any) -> "Result":
        """Call a function on this evidence, or return its earlier result."""
        if (find, arguments) not in self._results:
            self._results[find, arguments] = find(self, *arguments)
        return self._results[find, arguments]

    @cached_property
    def _results(self) -> dict[Any, Any]:
        return {}

    @property
    def step_size(self) -> float:
        return step_size_of(self.trace)

    @property
    def normalized(self) -> bool:
        step = self.trace.step
        return isinstance(step, GradientDescent) and step.normalized

    @property
    def middle(self) -> int:
        """The record nearest to half of the steps."""
        return int(np.abs(self.trace.steps - self.trace.steps[-1] / 2).argmin())


def step_size_of(trace: Trace) -> float:
    """η of gradient descent; 1 for other steps, which no claim about a limit covers."""
    return trace.step.step_size if isinstance(trace.step, GradientDescent) else 1.0


def find_tangents(weights: Float64, directions: Float64) -> tuple[Float64, Float64]:
    """Tangents of the angles between W and a direction, and the length of W along the direction."""
    # W has the shape (n_records, n_trials, dim, dim), a direction (n_trials, dim, dim), and each result
    # (n_records, n_trials)
    unit = directions / np.linalg.norm(directions, axis=(1, 2), keepdims=True)
    level = np.einsum("rbij,bij->rb", weights, unit)
    perpendicular = np.linalg.norm(weights - level[..., None, None] * unit, axis=(2, 3))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(level > 0, np.minimum(perpendicular / level, NOWHERE), NOWHERE), level


def correlation_of(tangent: Float64) -> Float64:
    # the cosine of an angle with this tangent
    return 1.0 / np.sqrt(1.0 + tangent**2)


def need_log_loss(evidence: Evidence) -> str:
    loss = evidence.trace.model.loss
    return "" if isinstance(loss, LogLoss) else f"the loss is {type(loss).__name__}, not log-loss"


def need_mass_head(evidence: Evidence) -> str:
    """Condition: the head reads the attention mass on the label (assumption A, or token ids)."""
    head = evidence.trace.model.head
    if isinstance(head, TokenId):
        return ""
    if not reads_mass(head):
        return f"the head is {head}, which does not read the attention mass on the label"
    if evidence.independent.all():
        return ""
    return "the head is tied, but embeddings are linearly dependent: C Eᵀ = I has no solution"


def need_descent(evidence: Evidence) -> str:
    """Condition: gradient descent on W, plain or normalised, with a fixed step."""
    step = evidence.trace.step
    if not isinstance(step, GradientDescent) or step.momentum or step.schedule is not None:
        return f"the optimiser is {step}, not gradient descent with a fixed step size and without momentum"
    if evidence.trace.model.rank is not None:
        return "the theorem is about training W, but here two factors of W were trained"
    return ""


def need_start(evidence: Evidence) -> str:
    first = int(evidence.trace.steps[0])
    return f"W(0) was not recorded: the first record is at step {first:,}" if first else ""


class LostDigits(NamedTuple):
    """Whether rounding hides the end of a run."""

    broken: str  # a message if weights are not finite
    missed: Float64  # the attention that is left to move, shape (n_trials,); 1 if nothing should move
    least: float  # the least attention whose gradient float64 can resolve


def find_lost_digits(evidence: Evidence) -> LostDigits:
    broken = ~np.isfinite(evidence.trace.weights).all(axis=(0, 2, 3))
    least = LEAST_MASS_TIED if isinstance(evidence.trace.model.head, Tied) else LEAST_MASS
    if broken.any():
        message = f"the weights of trial {int(broken.argmax())} are not finite"
        return LostDigits(message, np.ones(evidence.trace.n_trials), least)
    return LostDigits("", np.where(evidence.directed, evidence.curves.missed[-1], 1.0), least)


def need_digits(evidence: Evidence) -> str:
    """Condition: weights are finite, and normalised steps ended before rounding hid the gradient."""
    lost = find_lost_digits(evidence)
    if lost.broken or not evidence.normalized or (lost.missed >= lost.least).all():
        return lost.broken
    return (
        f"at the end only {lost.missed.min():.0e} of the attention is outside the highest component (trial "
        f"{int(lost.missed.argmin())}); below {lost.least:.0e} rounding hides the gradient of normalised "
        "steps: use fewer steps"
    )


def need_records(evidence: Evidence) -> str:
    n_steps, n_records = int(evidence.trace.steps[-1]), len(evidence.trace.steps)
    if n_steps < FEWEST_STEPS or n_records >= FEWEST_RECORDS:
        return ""
    return f"{n_records} records are too few to estimate a limit: record at least {FEWEST_RECORDS}"


def need_steps(evidence: Evidence) -> str:
    n_steps = int(evidence.trace.steps[-1])
    return "" if n_steps >= FEWEST_STEPS else f"{n_steps:,} steps are too few to estimate a limit"


def need_plain_descent(evidence: Evidence) -> str:
    return "steps are normalised" if evidence.normalized else need_descent(evidence)


def need_stable_step(evidence: Evidence) -> str:
    """Condition: in every trial, plain steps on log-loss are below the edge of stability; other runs pass."""
    if need_plain_descent(evidence) or need_log_loss(evidence) or need_mass_head(evidence):
        return ""
    return evidence.once(_describe_passed)


def _describe_passed(evidence: Evidence) -> str:
    # the first stability limit that is below the step size, and the number of trials with such a limit
    trace = evidence.trace
    components = [automaton.components for automaton in evidence.automata]
    try:
        passed = list(find_passed(trace.samples, list(trace.embeddings), evidence.step_size, components))
    except (UncertifiedSolution, UnsupportedOption) as problem:
        return f"no stable step size is known: {problem}"
    if not passed:
        return ""
    trial, edge = passed[0]
    n_more = len(passed) - 1
    more = f" (trial {trial}, and {n_more:,} more trials)" if n_more else f" (trial {trial})"
    return str(edge) + more * (len(components) > 1)


def need_direction(evidence: Evidence) -> str:
    return "" if evidence.directed.any() else "W_svm = 0: no token precedes another"


def need_ties(evidence: Evidence) -> str:
    return "no trial has a cycle, so there is no finite part" if evidence.acyclic.all() else ""


def need_independence(evidence: Evidence) -> str:
    if evidence.independent.any():
        return ""
    n_tokens, dim = evidence.trace.embeddings.shape[1:]
    return f"the embeddings of {n_tokens} tokens in {dim} dimensions are linearly dependent"
