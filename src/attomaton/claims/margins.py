"""Measure the margins of a run in a norm, and the best margin in this norm.

The margin of W is the smallest score difference (e_i − e_j)ᵀ W e_k of any priority. Divided by ‖W‖ it is at
most the best margin, the inverse of the least norm of the Graph-SVM.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.base.errors import UncertifiedSolution
from attomaton.base.solutions import is_orthonormal
from attomaton.base.tables import Float64, Int64
from attomaton.claims.limits import check_automata, embeddings_for_solvers
from attomaton.graphs.components import Components, list_edge_ends
from attomaton.solvers.norms.certify import measure_norm
from attomaton.solvers.norms.solve import solve_normed
from attomaton.training.steps import Adam, GradientDescent, Muon, SignDescent, SpectralDescent, Step
from attomaton.training.trace import Trace

Norm = Literal["frobenius", "max", "spectral"]

MARGIN_NORMS: tuple[Norm, ...] = ("frobenius", "max", "spectral")

NORM_OF_STEP: dict[type, Norm] = {
    GradientDescent: "frobenius",
    SignDescent: "max",
    Adam: "max",
    SpectralDescent: "spectral",
    Muon: "spectral",
}

# Size limit: larger problems in the spectral norm, or in the max norm with embeddings, take too long.
MOST_NORM_DIMENSIONS = 64


def own_norm(step: Step) -> Norm | None:
    """Return the norm in which training with this kind of step maximises the margin, None if it is unknown.

    Examples
    --------
    >>> own_norm(Adam(0.1)), own_norm(GradientDescent(1.0)), own_norm(Muon(0.1))
    ('max', 'frobenius', 'spectral')
    """
    return NORM_OF_STEP.get(type(step))


@dataclass(frozen=True, eq=False)
class Margins:
    """The margins of a run in one ``norm``, at the recorded ``steps``, shape (n_records,).

    ``margin`` is the smallest score difference of any priority (infinite without priorities) and ``size`` is
    ‖W‖, both of shape (n_records, n_trials). ``best`` is the largest margin of a W of norm 1, shape
    (n_trials,); it is NaN if it is not proved.
    """

    norm: Norm
    steps: Int64
    margin: Float64
    size: Float64
    best: Float64

    @property
    def share(self) -> Float64:
        """The margin of W/‖W‖ as a share of the best margin, shape (n_records, n_trials); 0 if W = 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.size > 0, self.margin / self.size / self.best, 0.0)


def measure_margins(trace: Trace, automata: Sequence[Automaton], norm: Norm) -> Margins:
    """Measure the margin of every record and trial in a norm, and compute the best margin of each trial.

    ``automata`` are the automata of the trials of ``trace`` (:func:`~attomaton.claims.limits.solve_trials`).
    ``norm`` is "frobenius", "max" or "spectral".

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1]], [0])  # one priority
    >>> trace = at.train(samples, at.AttentionModel(), at.GradientDescent(1.0), steps=10)
    >>> measure_margins(trace, at.claims.solve_trials(trace), "max").share[-1].round(3).tolist()
    [0.368]
    """
    check_automata(trace, automata)
    n_records, n_trials = trace.weights.shape[:2]
    margin = np.full((n_records, n_trials), np.inf)
    best = np.full(n_trials, np.nan)
    for trial, automaton in enumerate(automata):
        table = trace.embeddings[trial]
        differences = read_differences(automaton.components, table, trace.weights[:, trial])
        margin[:, trial] = differences.min(axis=1, initial=np.inf)
        best[trial] = find_best(automaton, table, norm)
    return Margins(norm, trace.steps, margin, measure_norm(trace.weights, norm), best)


def find_best(automaton: Automaton, table: Float64, norm: Norm) -> float:
    """The best margin of a W of norm 1 for one trial; NaN if it is not proved or the problem is too large."""
    components = automaton.components
    if norm == "frobenius":
        squared = automaton.hard.certificate.upper
        return 1.0 / np.sqrt(squared) if squared > 0 else np.nan
    embeddings = embeddings_for_solvers(table)
    closed = norm == "max" and embeddings is None  # a closed form, at any size
    if (not closed and max(table.shape) > MOST_NORM_DIMENSIONS) or not components.order.num_rows:
        return np.nan
    try:
        return solve_normed(components, norm=norm, embeddings=embeddings).expect().best_margin
    except UncertifiedSolution:
        return np.nan


def read_differences(components: Components, table: Float64, weights: Float64) -> Float64:
    """(e_i − e_j)ᵀ W e_k of every edge i → j between components, shape (n_records, n_edges)."""
    query, winner, loser = find_strict(components)
    if is_orthonormal(table):
        return weights[:, winner, query] - weights[:, loser, query]
    scores = table @ weights @ table.T
    return scores[:, winner, query] - scores[:, loser, query]


def find_strict(components: Components) -> tuple[Int64, Int64, Int64]:
    """Query, winner and loser of the data edges between components, shape (n_edges,) each."""
    query, winner, loser = list_edge_ends(components)
    strict = components.components_of(query, winner) != components.components_of(query, loser)
    return query[strict], winner[strict], loser[strict]
