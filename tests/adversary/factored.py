"""The least nuclear norm, against a cone program of our own solved by Clarabel."""

import cvxpy
import numpy as np

import attomaton as at
from attomaton.solvers.norms.solve import solve_factored
from tests.adversary.draws import describe, draw_corpus
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.automaton import constraints_of
from tests.adversary.reference.graphs import graphs_of

SOLVED = 1e-6
"""What an interior-point solver leaves of the optimum, relative."""


def draw(rng):
    """A tiny corpus, orthonormal or with independent embeddings."""
    contexts, labels, n_tokens = draw_corpus(rng, most_tokens=5, most_samples=6, most_length=4)
    table = rng.normal(size=(n_tokens, n_tokens + 1)) if rng.random() < 0.5 else np.eye(n_tokens)
    return contexts, labels, n_tokens, table


def attack(rng) -> Finding:
    """Bounds on ‖W‖_*, the norm of the W returned, and its margins."""
    contexts, labels, n_tokens, table = draw(rng)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    told = solve_factored(at.find_components(at.extract_edges(samples)), embeddings=table)
    if told.status is not at.base.Status.CERTIFIED:
        return unjudged("not certified")
    edges, ties = constraints_of(graphs_of(contexts, labels))
    dim = table.shape[1]
    weights = cvxpy.Variable((dim, dim))
    asked = [(table[i] - table[j]) @ weights @ table[k] for i, j, k in edges]
    held = [gap == 0 if tie else gap >= 1 for gap, tie in zip(asked, ties, strict=True)]
    least = 0.0
    if not all(ties):
        problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(weights)), held)
        problem.solve(solver=cvxpy.CLARABEL)
        if problem.status != cvxpy.OPTIMAL:
            return unjudged("the reference did not settle")
        least = float(problem.value)
    certificate = told.certificate
    gaps = [float((table[i] - table[j]) @ told.weights @ table[k]) for i, j, k in edges]
    missed = [abs(gap) if tie else 1 - gap for gap, tie in zip(gaps, ties, strict=True)]
    norm = float(np.linalg.svd(told.weights, compute_uv=False).sum())
    checks = [
        ("lower bound above ‖W‖_*", (certificate.lower - least) / (least or 1.0), SOLVED),
        ("upper bound below ‖W‖_*", (least - certificate.upper) / (least or 1.0), SOLVED),
        ("norm of the answer", abs(norm - certificate.upper) / (1 + norm), 1e-9),
        ("margin", max(missed, default=0.0), 1e-8),
    ]
    return worst_of(checks, len(contexts), describe(contexts, labels, n_tokens, embeddings=table))
