"""Measure correlations, distances and attention masses at every record of a training run."""

# Two tokens of one component tie under its query. The *cyclic subspace* is the span of all ties: matrices
# (e_i − e_j) e_kᵀ with tokens i and j that tie under query k. Π_fin projects W onto it. In it W converges to
# the *finite part* W_fin, and perpendicular to it W grows along W_svm. `predict_target` computes both from
# the automata of a run, and `measure_trace` compares the run with them.

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.automaton import Automaton
from attomaton.base.frames import Tabular
from attomaton.base.solutions import is_orthonormal
from attomaton.base.tables import Bool, Float64, Int64, make_table, table_of
from attomaton.claims.contexts import TrialContexts, read_contexts
from attomaton.claims.limits import check_automata, dense
from attomaton.graphs.components import Components
from attomaton.training.trace import Trace
from attomaton.trajectory.basis import find_basis


@dataclass(frozen=True, eq=False, repr=False)
class Curves(Tabular):
    """One number for each of the recorded ``steps`` and trials, shape (n_records, n_trials) each.

    ``norm`` is ‖W‖, and Π_fin the projection onto the cyclic subspace. ``correlation`` is
    ⟨W, W_svm⟩ / (‖W‖ ‖W_svm‖), NaN if either is zero; ``outside_correlation`` uses W − Π_fin W instead of W.
    ``finite_distance`` is ‖Π_fin W − W_fin‖. ``missed`` is the attention mass outside the highest component
    present in the context, averaged over the samples. ``loss`` is the mean training loss.
    """

    steps: Int64
    norm: Float64
    correlation: Float64
    finite_distance: Float64
    outside_correlation: Float64
    missed: Float64
    loss: Float64

    def __repr__(self) -> str:
        return f"Curves({len(self.steps):,} records of {self.norm.shape[1]:,} trials)"

    def _table(self) -> pa.Table:
        n_trials = int(self.norm.shape[1])
        names = [field.name for field in fields(self) if field.name != "steps"]
        columns: dict[str, Any] = {name: getattr(self, name).ravel() for name in names}
        trial: Int64 = np.tile(np.arange(n_trials, dtype=np.int64), len(self.steps))
        return table_of({"step": np.repeat(self.steps, n_trials), "trial": trial, **columns})

    @property
    def retrieved(self) -> Float64:
        """The attention mass on the highest component in the context, averaged over the samples."""
        return 1.0 - self.missed

    @property
    def surprise(self) -> Float64:
        """−ln of the retrieved mass; precise even if the mass is nearly 1."""
        return -np.log1p(-self.missed)

    def summary(self) -> pa.Table:
        """Mean and standard deviation over the trials: columns step, norm_mean, norm_std and so on."""
        columns: dict[str, Float64] = {"step": self.steps.astype(np.float64)}
        names = [field.name for field in fields(self) if field.name != "steps"]
        for name in [*names, "retrieved", "surprise"]:
            values: Float64 = getattr(self, name)
            columns[f"{name}_mean"] = values.mean(1)
            columns[f"{name}_std"] = values.std(1)
        return make_table(pa.schema([(name, pa.float64()) for name in columns]), columns)


def measure_trace(trace: Trace, automata: Sequence[Automaton]) -> Curves:
    """Measure the norm, correlation, distance and attention curves of a run relative to its automata.

    ``automata`` are the automata of the trials of ``trace`` (:func:`~attomaton.claims.limits.solve_trials`).

    Examples
    --------
    >>> import attomaton as at
    >>> corpus = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])  # 0 and 1 tie, and both beat 2
    >>> trace = at.train(corpus, at.AttentionModel(), at.GradientDescent(1.0), steps=1000)
    >>> measure_trace(trace, at.claims.solve_trials(trace)).missed[[0, -1], 0].round(3).tolist()
    [0.333, 0.001]
    """
    return measure_against(trace, predict_target(trace, automata))


@dataclass(frozen=True, eq=False)
class Target:
    """The predicted limit of the weights of each trial, and the tokens predicted to lose all attention.

    ``directions`` is W_svm, or another direction, perpendicular to the cyclic subspace, shape (n_trials, dim,
    dim). ``axes`` are orthonormal axes of the cyclic subspace, padded with zeros, shape (n_trials, n_axes,
    dim²), and ``finite_part`` the finite part along them, shape (n_trials, n_axes). ``contexts`` has the
    (sample, token) pairs of each trial, and ``below`` marks those below the highest component of their
    context.
    """

    directions: Float64
    axes: Float64
    finite_part: Float64
    contexts: tuple[TrialContexts, ...]
    below: tuple[Bool, ...]

    def finite_distance(self, weights: Float64) -> Float64:
        """‖Π_fin W − W_fin‖, shape (n_records, n_trials)."""
        return np.linalg.norm(cyclic_coordinates(self.axes, weights) - self.finite_part, axis=-1)

    def along_direction(self, weights: Float64) -> Float64:
        """⟨W, direction⟩/‖direction‖, shape (n_records, n_trials); NaN if there is no direction."""
        n_trials = len(self.directions)
        flat = weights.reshape(*weights.shape[:2], -1).swapaxes(0, 1)
        products = (flat @ self.directions.reshape(n_trials, -1, 1))[..., 0].T
        return products / _nonzero(np.linalg.norm(self.directions, axis=(1, 2)))

    def correlation(self, weights: Float64) -> Float64:
        """⟨W, direction⟩/(‖W‖ ‖direction‖), shape (n_records, n_trials)."""
        return self.along_direction(weights) / _nonzero(np.linalg.norm(weights, axis=(2, 3)))


def predict_target(trace: Trace, automata: Sequence[Automaton]) -> Target:
    check_automata(trace, automata)
    axes = cyclic_axes(trace, [automaton.components for automaton in automata])
    finite = np.stack([dense(automaton.soft.weights) for automaton in automata])
    contexts = tuple(read_contexts(*pair) for pair in zip(trace.samples, trace.embeddings, strict=True))
    # a label beats every other token of its context, so its component is the highest one there
    below = tuple(
        pairs.outside_component_of(automaton.components, pairs.bags.samples.labels)
        for pairs, automaton in zip(contexts, automata, strict=True)
    )
    directions = np.stack([dense(automaton.hard.weights) for automaton in automata])
    return Target(directions, axes, cyclic_coordinates(axes, finite[None])[0], contexts, below)


def measure_against(trace: Trace, target: Target) -> Curves:
    norm = np.linalg.norm(trace.weights, axis=(2, 3))
    coordinates = cyclic_coordinates(target.axes, trace.weights)
    # these are the correlation and the distance of Target, with each projection computed only once
    length_along = target.along_direction(trace.weights)
    # ‖W − Π_fin W‖; W_svm is perpendicular to the cyclic subspace, so ⟨W − Π_fin W, W_svm⟩ = ⟨W, W_svm⟩
    outside = np.sqrt(np.maximum(norm**2 - np.sum(coordinates**2, axis=-1), 0.0))
    missed = [
        contexts.mean_mass(trace.weights[:, trial], below)
        for trial, (contexts, below) in enumerate(zip(target.contexts, target.below, strict=True))
    ]
    return Curves(
        steps=trace.steps,
        norm=norm,
        correlation=length_along / _nonzero(norm),
        finite_distance=np.linalg.norm(coordinates - target.finite_part, axis=-1),
        outside_correlation=length_along / _nonzero(outside),
        missed=np.stack(missed, axis=1),
        loss=trace.losses,
    )


def cyclic_axes(trace: Trace, components: Sequence[Components]) -> Float64:
    """Orthonormal axes of the cyclic subspace of every trial, (n_trials, n_axes, dim²), padded with zeros."""
    by_trial = [_axes(*pair) for pair in zip(components, trace.embeddings, strict=True)]
    axes = np.zeros((len(by_trial), max(map(len, by_trial)), trace.embeddings.shape[2] ** 2))
    for trial, of_trial in enumerate(by_trial):
        axes[trial, : len(of_trial)] = of_trial
    return axes


def cyclic_coordinates(axes: Float64, weights: Float64) -> Float64:
    """Coordinates of Π_fin W, shape (n_records, n_trials, n_axes), from W of all records and trials."""
    flat = weights.reshape(*weights.shape[:2], -1).swapaxes(0, 1)
    return (flat @ axes.swapaxes(1, 2)).swapaxes(0, 1)


def _axes(components: Components, table: Float64) -> Float64:
    # orthonormal axes of the cyclic subspace of one trial, shape (n_axes, dim²)
    if is_orthonormal(table):
        return _axes_of_tokens(components)
    basis = find_basis(components, table)
    # the cyclic axes of the basis are in coordinates of its left and right factors
    inner = basis.axes[: basis.n_cyclic].reshape(basis.n_cyclic, len(basis.left), len(basis.right))
    return (basis.left.T @ inner @ basis.right).reshape(basis.n_cyclic, basis.left.shape[1] ** 2)


# The axes of the cyclic subspace for orthonormal embeddings, from differences of tokens that tie.
def _axes_of_tokens(components: Components) -> Float64:
    # axis number `count` of a component: (1, …, 1, −count, 0, …)/√(count (count + 1)), as in a Helmert matrix
    size = components.edges.n_tokens
    axes: list[Float64] = []
    order = np.argsort(components.component_of_node, kind="stable")
    groups = np.split(order, np.cumsum(components.sizes)[:-1])
    for nodes in groups:
        # W has rows of tokens and columns of queries
        entry = components.token_of_node[nodes] * size + components.query_of_node[nodes]
        for count in range(1, len(nodes)):
            axis = np.zeros(size * size)
            axis[entry[:count]] = 1.0
            axis[entry[count]] = -float(count)
            axes.append(axis / np.sqrt(count * (count + 1.0)))
    return np.array(axes).reshape(-1, size * size)


# NaN instead of 0, for a division.
def _nonzero(norms: Float64) -> Float64:
    return np.where(norms > 0, norms, np.nan)
