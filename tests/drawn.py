"""Draws of a given seed, and plain functions to compare with; what hypothesis draws is in strategies.py."""

import networkx as nx
import numpy as np

import attomaton as at
from attomaton.base.ragged import offsets_of
from attomaton.graphs.edges import EdgeTable, make_edges, pack_edges
from attomaton.graphs.grouping import count_keys
from attomaton.solvers.hard.problem import OrderProblem
from attomaton.solvers.soft.likelihood import LuceProblem, luce_problem


def components_of(samples):
    """The components of a sample set."""
    return at.find_components(at.extract_edges(samples))


def unroll_rankings(rankings):
    """Rankings, best first, as the choices of Plackett and Luce: each item from those not yet placed."""
    steps = [list(ranking[start:]) for ranking in rankings for start in range(len(ranking) - 1)]
    return [step[0] for step in steps], steps


def paper_draw(seed, *, n_tokens=6, n_samples=8, window=4, repeats=False):
    """A random draw with every label realisable, from a seed; optionally with repeated tokens."""
    rng = np.random.default_rng(seed)
    if not repeats:
        return at.synthetic.draw_random(rng, n_tokens=n_tokens, n_samples=n_samples, window=window)
    contexts = rng.integers(0, n_tokens, (n_samples, window))
    labels = [int(rng.choice(context)) for context in contexts]
    return at.Samples.from_lists(contexts.tolist(), labels, n_tokens=n_tokens)


def embeddings_for(seed, n_tokens, dim):
    """Random unit rows."""
    table = np.random.default_rng(seed).normal(size=(n_tokens, dim))
    return table / np.linalg.norm(table, axis=1, keepdims=True)


def edge_table(query, winner, loser, n_tokens) -> EdgeTable:
    """An edge table straight from arrays, each row one sample."""
    keys, support = count_keys(pack_edges(np.asarray(query), np.asarray(winner), np.asarray(loser)))
    queries, samples = count_keys(np.asarray(query, np.int64))
    return make_edges(n_tokens, keys, support, queries, samples, np.zeros_like(samples))


def as_counter(edges: EdgeTable):
    """(query, winner, loser) → support, to compare with the definition."""
    rows = zip(*(edges[name].tolist() for name in ("query", "winner", "loser", "support")), strict=True)
    return {(query, winner, loser): support for query, winner, loser, support in rows}


def scores_of(solution):
    """(query, token) → score."""
    return {(row["query"], row["token"]): row["score"] for row in solution.scores.to_pylist()}


def parts_of(components):
    """The components as a set of (query, frozenset of tokens)."""
    return {
        (int(components.query_of[number]), frozenset(components.tokens(number).tolist()))
        for number in range(len(components))
    }


def networkx_graph(edges: EdgeTable) -> nx.DiGraph:
    """All queries' graphs as one networkx graph over (query, token)."""
    graph = nx.DiGraph()
    for row in edges.queries.to_pylist():
        if row["realisable"]:
            graph.add_node((row["query"], row["query"]))
    for row in edges.rows.to_pylist():
        graph.add_edge((row["query"], row["winner"]), (row["query"], row["loser"]))
    return graph


def learn_parts(samples, embeddings=None):
    """Components, hard and soft solutions of a sample set, certified."""
    components = at.find_components(at.extract_edges(samples))
    hard = at.solve_graph_svm(components, embeddings=embeddings).expect()
    return components, hard, at.solve_luce(samples, components, embeddings=embeddings).expect()


def one_group(sizes, above, below) -> OrderProblem:
    """One query's order, edges sorted as the problem asks."""
    above, below = np.asarray(above, np.int64), np.asarray(below, np.int64)
    rows = np.lexsort((below, above))
    return OrderProblem(np.asarray(sizes, np.int64), above[rows], below[rows], np.zeros(len(sizes), np.int64))


def random_order(rng, n_nodes, n_edges, heaviest=1, *, by_magnitude=False) -> OrderProblem:
    """Uniform pairs, possibly repeated, directed along a hidden random order.

    Weights are uniform in 1 … heaviest, or their logarithms are.
    """
    rank = rng.permutation(n_nodes)
    one, other = rng.integers(0, n_nodes, (2, n_edges if n_nodes > 1 else 0))
    other = np.where(one == other, (other + 1) % n_nodes, other)
    swap = rank[one] > rank[other]
    sizes = rng.integers(1, heaviest, n_nodes, endpoint=True)
    if by_magnitude:
        sizes = (heaviest ** rng.random(n_nodes)).astype(np.int64)
    return one_group(sizes, np.where(swap, other, one), np.where(swap, one, other))


def mixed_orders(rng, n_orders, fewest=1, most=60):
    """Orders of ``fewest`` to ``most`` nodes, sparse to dense, some edges repeated, weights up to 10^9."""
    for _ in range(n_orders):
        n_nodes = int(rng.integers(fewest, most, endpoint=True))
        n_edges = int(n_nodes * rng.choice([0.5, 1, 1.5, 2, 4, n_nodes / 4, n_nodes]))
        heaviest, by_magnitude = int(rng.choice([1, 5, 1000, 10**9])), bool(rng.integers(2))
        yield random_order(rng, n_nodes, n_edges, heaviest, by_magnitude=by_magnitude)


def luce_problem_of(samples):
    """The choices inside all components of a sample set."""
    components = components_of(samples)
    return luce_problem(at.extract_choices(samples, components), components)[1]


def any_problem(seed, *, n_groups=3, n_choices=12):
    """Groups of alternatives in mixed order, some without choices; not strongly connected."""
    rng = np.random.default_rng(seed)
    component = rng.permutation(np.repeat(np.arange(n_groups), rng.integers(1, 5, n_groups)))
    choices = []
    for _ in range(n_choices):
        own = np.flatnonzero(component == rng.integers(n_groups))
        members = rng.permutation(own)[: rng.integers(1, len(own) + 1)]
        choices.append(
            (members, rng.choice(members), rng.integers(1, 4, len(members)), int(rng.integers(1, 5)))
        )
    return luce_problem_of_choices(component, choices)


def luce_problem_of_choices(component, choices):
    """The problem of (members, winner, multiplicities, count) each, all members of one component."""
    members, winner, multiplicities, count = zip(*choices, strict=True)
    return LuceProblem(
        alternative=np.concatenate(members),
        offsets=offsets_of(np.array([len(some) for some in members])),
        log_multiplicity=np.log(np.concatenate(multiplicities)),
        winner=np.array(winner),
        count=np.array(count, float),
        component=component,
    )


def pick_component(problem, number):
    """The alternatives of one component, and the problem on them alone."""
    return problem.restrict(np.arange(problem.n_components) == number)


def dense_hessian(problem, scores):
    """Σ count (diag p − p pᵀ), written out, shape (n_alternatives, n_alternatives)."""
    hessian, probability = np.zeros((problem.n_alternatives,) * 2), problem.probabilities(scores)
    for choice, count in enumerate(problem.count):
        entries = slice(problem.offsets[choice], problem.offsets[choice + 1])
        members, p = problem.alternative[entries], probability[entries]
        hessian[np.ix_(members, members)] += count * (np.diag(p) - np.outer(p, p))
    return hessian


def cycle_problem(count):
    """One component: each alternative beats the next ``count`` times, the last the first."""
    n = len(count)
    pairs = np.stack([np.arange(n), np.roll(np.arange(n), -1)], axis=1)
    return LuceProblem(
        alternative=pairs.ravel(),
        offsets=2 * np.arange(n + 1),
        log_multiplicity=np.zeros(2 * n),
        winner=np.arange(n),
        count=np.asarray(count, float),
        component=np.zeros(n, np.int64),
    )
