"""Judge claims about the Hessian of the loss: nowhere negative, and positive within the cyclic subspace.

Both are proved for log-loss on an attention mass. Hessians at random points test the proof, and are the only
evidence for other losses and heads.
"""

from dataclasses import dataclass, replace

import numpy as np

from attomaton.base.tables import Float64
from attomaton.claims.evidence import Evidence, need_log_loss, need_mass_head
from attomaton.claims.verdicts import Judgement
from attomaton.graphs.components import list_edge_ends
from attomaton.training.models.attention import measure_curvatures
from attomaton.training.models.heads import TokenId, reads_mass

# Random points at which the curvature is computed, over all trials.
N_POINTS = 1_000

# Limit of dimensions: a Hessian has dim² rows, and a thousand of them are decomposed.
MOST_HESSIAN_DIMENSIONS = 16

# Entries of Hessians computed at once.
HESSIAN_NUMBERS = 2_000_000

# Eigenvalues above −this, relative to the largest, count as nonnegative.
EIGENVALUE_ROUNDING = 1e-12

# Share of the largest curvature that embeddings allow below which eigenvalues have few digits.
FLAT = 1e-3

PROVED = (
    "proved: with log-loss on an attention mass the Hessian is the covariance of e_x e_kᵀ under attention, "
    "averaged over the contexts, so no eigenvalue is negative at any W"
)

STRICT = f"{PROVED}, and none is zero in the span of the edges, since every token of a context has attention"


@dataclass(frozen=True, eq=False)
class Curvature:
    """Smallest eigenvalues of Hessians at random points, relative to the largest of each Hessian."""

    least: Float64  # shape (n_points,)
    least_cyclic: Float64  # within the cyclic subspace, shape (n_points with such a subspace,)


def draw_curvature(evidence: Evidence) -> Curvature:
    """Compute Hessians at random points W with normal entries of size 0.1 to 3, spread over the trials."""
    trace = evidence.trace
    model = replace(trace.model, head=TokenId()) if reads_mass(trace.model.head) else trace.model
    rng = np.random.default_rng(0)  # a verdict on a run is always the same
    dim = trace.weights.shape[2]
    axes = evidence.target.axes
    least: list[float] = []
    least_cyclic: list[float] = []
    n_at_once = max(HESSIAN_NUMBERS // dim**4, 1)
    for first in range(0, N_POINTS, n_at_once):
        numbers = range(first, min(first + n_at_once, N_POINTS))
        trials = [number % trace.n_trials for number in numbers]
        sizes = 10 ** rng.uniform(-1.0, np.log10(3.0), (len(trials), 1, 1))
        points = sizes * rng.normal(size=(len(trials), dim, dim))
        samples = [trace.samples[trial] for trial in trials]
        hessians = measure_curvatures(model, samples, list(trace.embeddings[trials]), points)
        eigenvalues = np.linalg.eigvalsh(hessians)
        # relative to the largest, unless attention has settled and all of them are small
        most_curvature = np.square(trace.embeddings[trials]).sum(-1).max(-1) ** 2
        largest = np.maximum(np.abs(eigenvalues).max(1), np.finfo(float).tiny)
        least += (eigenvalues[:, 0] / np.maximum(largest, FLAT * most_curvature)).tolist()
        for hessian, padded_axes, scale in zip(hessians, axes[trials], largest, strict=True):
            cyclic = padded_axes[padded_axes.any(axis=1)]
            if len(cyclic):
                least_cyclic.append(float(np.linalg.eigvalsh(cyclic @ hessian @ cyclic.T)[0] / scale))
    return Curvature(np.array(least), np.array(least_cyclic))


def _is_sampled(evidence: Evidence) -> bool:
    # whether Hessians are computed: always if they are small, otherwise only without a proof
    return evidence.trace.weights.shape[2] <= MOST_HESSIAN_DIMENSIONS or not _is_proved(evidence)


def _is_proved(evidence: Evidence) -> bool:
    return not (need_log_loss(evidence) or need_mass_head(evidence))


def judge_convexity(evidence: Evidence) -> Judgement:
    """Claim: no eigenvalue of the Hessian is negative."""
    if not _is_sampled(evidence):
        return Judgement(0.0, 0.0, True, PROVED)
    least = float(evidence.once(draw_curvature).least.min())
    meaning = f"smallest eigenvalue of the Hessian at {N_POINTS:,} random points, relative to its largest"
    if _is_proved(evidence):
        meaning += f"; {PROVED}"
    return Judgement(least, -EIGENVALUE_ROUNDING, least >= -EIGENVALUE_ROUNDING, meaning)


def judge_strictness(evidence: Evidence) -> Judgement:
    """Claim: within the cyclic subspace all eigenvalues are positive."""
    if _is_sampled(evidence):
        least = float(evidence.once(draw_curvature).least_cyclic.min(initial=np.inf))
        meaning = (
            f"smallest eigenvalue of the Hessian within the cyclic subspace at {N_POINTS:,} random points, "
            "relative to its largest"
        )
    else:
        least = min(_span_ties(evidence, trial) for trial in np.flatnonzero(~evidence.acyclic).tolist())
        meaning = "smallest eigenvalue of the ties within the cyclic subspace, relative to the largest"
    if _is_proved(evidence):
        meaning += f"; {STRICT}"
    return Judgement(least, EIGENVALUE_ROUNDING, least > EIGENVALUE_ROUNDING, meaning)


# The smallest relative eigenvalue of the ties in a trial's cyclic subspace; 0 if they do not span it.
def _span_ties(evidence: Evidence, trial: int) -> float:
    components = evidence.automata[trial].components
    table = evidence.trace.embeddings[trial]
    query, winner, loser = list_edge_ends(components)
    tied = components.components_of(query, winner) == components.components_of(query, loser)
    axes = evidence.target.axes[trial]
    axes = axes[axes.any(axis=1)].reshape(-1, table.shape[1], table.shape[1])
    # (e_winner − e_loser) e_queryᵀ of each tied edge, in coordinates along the axes: (n_axes, n_edges)
    apart = table[winner[tied]] - table[loser[tied]]
    coordinates = np.einsum("aij,ei,ej->ae", axes, apart, table[query[tied]], optimize=True)
    values = np.linalg.eigvalsh(coordinates @ coordinates.T)
    return float(values[0] / values[-1])
