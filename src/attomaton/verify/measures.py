"""What experiments draw of a training run: correlations, distances, attention masses, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from attomaton.corpora.samples import Samples
from attomaton.errors import MismatchedParts
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import extract_edges
from attomaton.hard.solve import solve_graph_svm
from attomaton.limit.automaton import Automaton
from attomaton.limit.basis import Basis, find_basis
from attomaton.soft.solve import solve_luce
from attomaton.tables import Float64, Int64, make_table
from attomaton.training.trace import Trace
from attomaton.verify.masses import read_contexts

MOST_NUMBERS = 20_000_000
"""Attention is computed for so many records at once that it holds at most this many numbers."""


@dataclass(frozen=True, eq=False, repr=False)
class Curves:
    """One number for each record and trial, shape (n_records, n_trials) each.

    Attributes
    ----------
    steps : int64 array, shape (n_records,)
        The steps of the records.
    norm : float64 array
        ‖W‖.
    correlation : float64 array
        ⟨W, W_svm⟩ / (‖W‖ ‖W_svm‖); NaN where one of them is zero.
    finite_distance : float64 array
        ‖Π_fin W − W_fin‖, Π_fin the projection onto the cyclic subspace.
    outside_correlation : float64 array
        The correlation of W_svm with Π⊥W = W − Π_fin W.
    missed : float64 array
        1 − the attention mass on the highest component present in the context, mean over the samples.
    loss : float64 array
        The mean training loss.
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

    @property
    def retrieved(self) -> Float64:
        """The attention mass on the highest component present, mean over the samples."""
        return 1.0 - self.missed

    @property
    def surprise(self) -> Float64:
        """−ln of that mass; keeps its digits when the mass is nearly 1."""
        return -np.log1p(-self.missed)

    def summary(self) -> pa.Table:
        """Mean and standard deviation over the trials: columns step, norm_mean, norm_std and so on."""
        columns: dict[str, Float64] = {"step": self.steps.astype(np.float64)}
        names = [field.name for field in fields(self) if field.name != "steps"]
        for name in [*names, "retrieved", "surprise"]:
            values: Float64 = getattr(self, name)
            columns[f"{name}_mean"], columns[f"{name}_std"] = values.mean(1), values.std(1)
        return make_table(pa.schema([(name, pa.float64()) for name in columns]), columns)


def solve_trials(trace: Trace) -> list[Automaton]:
    """The automaton of every trial: what its samples and embeddings say training converges to.

    Examples
    --------
    >>> from attomaton.models.attention import AttentionModel
    >>> from attomaton.models.embeddings import Orthonormal
    >>> from attomaton.training.loop import train
    >>> from attomaton.training.steps import GradientDescent
    >>> corpus = Samples.from_lists([[0, 1]], [0])
    >>> trace = train(corpus, AttentionModel(Orthonormal()), GradientDescent(1.0), steps=1000)
    >>> automaton, = solve_trials(trace)
    >>> automaton.hard.weights.round(6).tolist()
    [[0.0, 0.5], [0.0, -0.5]]
    >>> measure_trace(trace, [automaton]).correlation[-1].round(6)
    array([1.])
    """
    return [_solve(*pair) for pair in zip(trace.samples, trace.embeddings, strict=True)]


def _solve(samples: Samples, table: Float64) -> Automaton:
    found = find_components(extract_edges(samples))
    hard = solve_graph_svm(found, embeddings=table)
    soft = solve_luce(samples, hard.components, embeddings=table)
    return Automaton(hard.components, hard, soft, samples=samples)


def measure_trace(trace: Trace, automata: Sequence[Automaton]) -> Curves:
    """All curves of a run against the automata of its trials (:func:`solve_trials`)."""
    check_automata(trace, automata)
    hard, soft = directions(automata), finite_parts(automata)
    cyclic = cyclic_axes(trace, [automaton.components for automaton in automata])
    n_records, n_trials = trace.losses.shape
    flat = trace.weights.reshape(n_records, n_trials, -1).swapaxes(0, 1)
    placed = flat @ cyclic.swapaxes(1, 2)
    distance = np.linalg.norm(placed - cyclic_place(cyclic, soft)[:, None], axis=-1)
    norm = np.linalg.norm(flat, axis=-1)
    along = (flat @ hard.reshape(n_trials, -1, 1))[..., 0] / _nonzero(np.linalg.norm(hard, axis=(1, 2)))[
        :, None
    ]
    outside = np.sqrt(np.maximum(norm**2 - np.sum(placed**2, axis=-1), 0.0))  # W_svm ⟂ S_fin
    return Curves(
        steps=trace.steps,
        norm=norm.T,
        correlation=(along / _nonzero(norm)).T,
        finite_distance=distance.T,
        outside_correlation=(along / _nonzero(outside)).T,
        missed=np.stack([_missed(trace, automaton, i) for i, automaton in enumerate(automata)], axis=1),
        loss=trace.losses,
    )


def check_automata(trace: Trace, automata: Sequence[Automaton]) -> None:
    """One automaton for each trial, solved with its embeddings."""
    shape = trace.weights.shape[2:]
    fit = len(automata) == trace.n_trials and all(a.hard.weights.shape == shape for a in automata)
    if not fit or not all(isinstance(automaton.hard.weights, np.ndarray) for automaton in automata):
        raise MismatchedParts(
            f"{len(automata)} automata for {trace.n_trials} trials with weights of shape {shape}; "
            "give solve_trials(trace), one for each trial, solved with its embeddings"
        )


def directions(automata: Sequence[Automaton]) -> Float64:
    """W_svm of every trial, shape (n_trials, dim, dim)."""
    return np.stack([np.asarray(automaton.hard.weights) for automaton in automata])


def finite_parts(automata: Sequence[Automaton]) -> Float64:
    """W_fin of every trial, shape (n_trials, dim, dim)."""
    return np.stack([np.asarray(automaton.soft.weights) for automaton in automata])


def cyclic_axes(trace: Trace, components: Sequence[Components]) -> Float64:
    """Orthonormal axes of the cyclic subspace of every trial, shape (n_trials, most, dim²), zeros after."""
    bases = [find_basis(*pair) for pair in zip(components, trace.embeddings, strict=True)]
    most = max(basis.n_cyclic for basis in bases)
    axes = np.zeros((len(bases), most, trace.embeddings.shape[2] ** 2))
    for trial, basis in enumerate(bases):
        axes[trial, : basis.n_cyclic] = _spread(basis)
    return axes


def cyclic_place(cyclic: Float64, weights: Float64) -> Float64:
    """Coordinates of the part of each trial's W in its cyclic subspace, shape (n_trials, most)."""
    return (cyclic @ weights.reshape(len(weights), -1, 1))[..., 0]


def _spread(basis: Basis) -> Float64:
    """The cyclic axes of a basis as weights, shape (n_cyclic, dim²)."""
    inner = basis.axes[: basis.n_cyclic].reshape(basis.n_cyclic, len(basis.left), len(basis.right))
    return (basis.left.T @ inner @ basis.right).reshape(basis.n_cyclic, basis.left.shape[1] ** 2)


def _nonzero(norms: Float64) -> Float64:
    return np.where(norms > 0, norms, np.nan)


def _missed(trace: Trace, automaton: Automaton, trial: int) -> Float64:
    """Mean attention mass below the label's component, shape (n_records,)."""
    contexts = read_contexts(trace.samples[trial], trace.embeddings[trial])
    below = contexts.below(automaton.components)
    n_at_once = max(MOST_NUMBERS // max(len(below), len(contexts.table) ** 2), 1)
    pieces = [
        contexts.masses(trace.weights[first : first + n_at_once, trial])[:, below].sum(1)
        for first in range(0, len(trace.steps), n_at_once)
    ]
    return np.concatenate(pieces) / len(contexts.bags.samples)
