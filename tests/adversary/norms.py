"""Least max, spectral and nuclear norms, against a linear program and cone programs of our own."""

import cvxpy
import numpy as np
from scipy.optimize import linprog

import attomaton as at
from attomaton.solvers.norms.solve import solve_factored, solve_normed
from tests.adversary.draws import describe, draw_corpus, draw_embeddings
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.automaton import constraints_of
from tests.adversary.reference.graphs import graphs_of

SOLVED = {"max": 1e-6, "spectral": 1e-5, "nuclear": 1e-5, "frobenius": 1e-5}
"""What a reference leaves of the optimum, relative; tied directions that nearly vanish cost it digits."""

TABLES = (
    "orthonormal",
    "orthonormal",
    "condition 1e0",
    "condition 1e2",
    "near 1e-4",
    "opposite 1e-6",
    "unequal rows 1e3",
    "float32",
    "few dimensions",
    "a row twice",
    "a row of zeros",
)


def draw_chain(rng):
    """An order of many tokens under one query: each beats the next, and some the next but one."""
    size = int(rng.integers(6, 15))
    order = rng.permutation(size).tolist()
    pairs = [(place, place + 1) for place in range(size - 1)]
    pairs += [(place, place + 2) for place in range(0, size - 2, 3)]
    contexts = [[order[above], order[below], order[-1]] for above, below in pairs]
    return contexts, [context[0] for context in contexts], size


def draw(rng):
    """A tiny corpus with a table of embeddings, None if orthonormal, in units of 10^-6 to 10^6."""
    if rng.random() < 0.1:
        return *draw_chain(rng), None, "chain"
    contexts, labels, n_tokens = draw_corpus(rng, most_tokens=5, most_samples=7, most_length=4)
    kind = str(rng.choice(TABLES))
    if kind == "orthonormal" or n_tokens < 2:
        return contexts, labels, n_tokens, None, "orthonormal"
    unit = float(rng.choice([1.0, 1.0, 1e-6, 1e-3, 1e3, 1e6]))
    return contexts, labels, n_tokens, unit * draw_embeddings(rng, n_tokens, kind), kind


def find_least(table, edges, ties, norm):
    """The least norm by definition, in units in which the longest row has length 1; None if not settled.

    Infinite if no W meets all constraints.
    """
    unit = float(np.abs(table).max()) or 1.0
    rows = np.array([np.outer(table[i] - table[j], table[k]).ravel() for i, j, k in edges]) / unit**2
    tied = np.array(ties, bool)
    if tied.all():
        return 0.0
    dim = table.shape[1]
    if norm == "max":
        size = dim * dim
        bounds = np.block([[np.eye(size), -np.ones((size, 1))], [-np.eye(size), -np.ones((size, 1))]])
        ones = np.zeros((int((~tied).sum()), 1))
        upper = np.vstack([np.hstack([-rows[~tied], ones]), bounds])
        found = linprog(
            np.append(np.zeros(size), 1.0),
            upper,
            np.append(-np.ones(len(ones)), np.zeros(2 * size)),
            np.hstack([rows[tied], np.zeros((int(tied.sum()), 1))]) if tied.any() else None,
            np.zeros(int(tied.sum())) if tied.any() else None,
            bounds=(None, None),
            method="highs",
        )
        if found.status == 2:
            return np.inf
        return float(found.fun) / unit**2 if found.status == 0 else None
    weights = cvxpy.Variable((dim, dim))
    flat = cvxpy.reshape(weights, (dim * dim,), order="C")
    held = [rows[~tied] @ flat >= 1, *([rows[tied] @ flat == 0] if tied.any() else [])]
    kinds = {"spectral": 2, "nuclear": "nuc", "frobenius": "fro"}
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.norm(weights, kinds[norm])), held)
    try:
        problem.solve(solver=cvxpy.CLARABEL)
    except cvxpy.SolverError:
        return None
    if problem.status == cvxpy.INFEASIBLE:
        return np.inf
    return float(problem.value) / unit**2 if problem.status == cvxpy.OPTIMAL else None


def size_of(weights, norm):
    """The norm of W by definition."""
    if norm == "max":
        return float(np.abs(weights).max())
    values = np.linalg.svd(weights, compute_uv=False)
    return float({"spectral": values.max(), "nuclear": values.sum()}[norm])


def attack(rng) -> Finding:
    """Bounds on the least norm, the norm of the W returned, its margins, and what cannot be met."""
    norm = str(rng.choice(["max", "spectral", "nuclear"]))
    contexts, labels, n_tokens, given, kind = draw(rng)
    components = at.find_components(
        at.extract_edges(at.Samples.from_lists(contexts, labels, n_tokens=n_tokens))
    )
    table = np.eye(n_tokens) if given is None else np.asarray(given, np.float64)
    if norm == "nuclear":
        told = solve_factored(components, embeddings=table)
    else:
        told = solve_normed(components, norm=norm, embeddings=given)
    kind = f"{norm}, {kind}"
    if told.status is not at.base.Status.CERTIFIED:
        return unjudged("not certified", kind)
    edges, ties = constraints_of(graphs_of(contexts, labels))
    least = find_least(table, edges, ties, norm)
    if least is None:
        return unjudged("the reference did not settle", kind)
    certificate = told.certificate
    weights = told.weights if isinstance(told.weights, np.ndarray) else told.weights.toarray()
    gaps = [float((table[i] - table[j]) @ weights @ table[k]) for i, j, k in edges]
    missed = [abs(gap) if tie else 1 - gap for gap, tie in zip(gaps, ties, strict=True)]
    size = size_of(weights, norm)
    checks = [
        ("norm of the answer", abs(size - certificate.upper), 1e-9 * size),
        ("margin", max(missed, default=0.0), 1e-8),
    ]
    if np.isfinite(least):  # what a reference cannot meet to its 10^-8, the answer meets as checked above
        allowed = SOLVED[norm] * least
        checks += [
            ("lower bound above the least norm", certificate.lower - least, allowed),
            ("upper bound below the least norm", least - certificate.upper, allowed),
        ]
    return worst_of(checks, len(contexts), describe(contexts, labels, n_tokens, embeddings=given), kind=kind)
