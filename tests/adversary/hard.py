"""The Graph-SVM for orthonormal embeddings: scores as fractions, bounds of ‖W‖², at any size."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

import attomaton as at
from attomaton.solvers.hard.certify import certify_positions
from attomaton.solvers.hard.placement import Placement
from attomaton.solvers.hard.problem import OrderProblem
from tests.adversary.draws import describe, draw_corpus
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.automaton import hard_scores
from tests.adversary.reference.graphs import graphs_of

ROUNDING = 1e-11
"""Of scores and bounds, relative: positions are promised to rounding."""


def draw(rng):
    """Small corpora of all kinds, and now and then a deeper one."""
    deep = rng.random() < 0.1
    return draw_corpus(rng, most_tokens=22 if deep else 12, most_samples=40 if deep else 25)


def attack(rng) -> Finding:
    """Small corpora against fractions."""
    contexts, labels, n_tokens = draw(rng)
    case = describe(contexts, labels, n_tokens)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    hard = at.solve_graph_svm(at.find_components(at.extract_edges(samples)))
    if hard.status is not at.base.Status.CERTIFIED:
        return unjudged("not certified")
    exact = {
        (query, token): score
        for query, graph in graphs_of(contexts, labels).items()
        for token, score in hard_scores(graph, n_tokens).items()
    }
    told = {(row["query"], row["token"]): row["score"] for row in hard.scores.to_pylist()}
    if told.keys() != exact.keys():
        return Finding(np.inf, 0.0, "nodes", len(contexts), case)
    scale = 1 + max((abs(float(score)) for score in exact.values()), default=0.0)
    apart = max((abs(float(Fraction(told[key]) - score)) for key, score in exact.items()), default=0.0)
    checks = [("score", apart / scale, ROUNDING)]
    checks += bound_checks(hard.certificate, sum(score**2 for score in exact.values()), ROUNDING)
    return worst_of(checks, len(contexts), case)


def bound_checks(certificate, exact, rounding):
    """How far the exact ‖W‖² lies outside of the bounds, relative."""
    lower, upper = Fraction(certificate.lower), Fraction(certificate.upper)
    if exact == 0:
        return [("bounds of 0", float(max(abs(lower), abs(upper))), 0.0)]
    return [
        ("lower bound above ‖W‖²", max(float((lower - exact) / exact), 0.0), rounding),
        ("upper bound below ‖W‖²", max(float((exact - upper) / exact), 0.0), rounding),
    ]


def draw_chain(rng):
    """A long chain of components that tie inside: its answer is known, and depends on every link.

    Under the query K − 1, tokens in circles of random sizes; each circle precedes the next by one edge.
    """
    n_tokens = int(rng.choice([600, 601, 3000, 20_000, 100_000], p=[0.3, 0.3, 0.2, 0.15, 0.05]))
    most = int(rng.choice([1, 2, 5, n_tokens // 4]))
    sizes = []
    while sum(sizes) < n_tokens - 1:
        sizes.append(min(int(rng.integers(1, most, endpoint=True)), n_tokens - 1 - sum(sizes)))
    ids = rng.permutation(n_tokens - 1).tolist()
    contexts, labels, first = [], [], 0
    for place, size in enumerate(sizes):
        own = ids[first : first + size]
        for at_, token in enumerate(own):
            if size > 1:
                contexts.append([token, own[(at_ + 1) % size], n_tokens - 1])
                labels.append(token)
        if place + 1 < len(sizes):
            contexts.append([own[int(rng.integers(size))], ids[first + size], n_tokens - 1])
            labels.append(contexts[-1][0])
        elif size == 1:
            contexts.append([own[0], n_tokens - 1])
            labels.append(own[0])
        first += size
    return contexts, labels, n_tokens, sizes, ids


def chain_positions(sizes):
    """Positions of a chain, all of whose links are tight, with the query last: one block about its mean."""
    weights = [*sizes, 1]
    places = range(len(weights), 0, -1)
    mean = Fraction(sum(w * p for w, p in zip(weights, places, strict=True)), sum(weights))
    return [p - mean for p in places]


def attack_chain(rng) -> Finding:
    """Chains of 600 to 100,000 tokens with ties."""
    contexts, labels, n_tokens, sizes, ids = draw_chain(rng)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    components = at.find_components(at.extract_edges(samples))
    hard = at.solve_graph_svm(components)
    if hard.status is not at.base.Status.CERTIFIED:
        return unjudged("not certified")
    positions = chain_positions(sizes)
    exact = np.empty(n_tokens)
    exact[n_tokens - 1] = float(positions[-1])
    exact[ids] = np.repeat([float(one) for one in positions[:-1]], sizes)
    told = np.full(n_tokens, np.nan)
    told[hard.scores.column("token").to_numpy()] = hard.scores.column("score").to_numpy()
    square = sum(w * p * p for w, p in zip([*sizes, 1], positions, strict=True))
    checks = [
        ("components", float(abs(len(components) - len(sizes) - 1)), 0.0),
        ("score", float(np.abs(told - exact).max() / np.abs(exact).max()), ROUNDING),
        *bound_checks(hard.certificate, square, ROUNDING),
    ]
    return worst_of(checks, n_tokens, {"n_tokens": n_tokens, "sizes": sizes[:50]})


def draw_order(rng):
    """A random order problem with weights up to 10⁹: sizes, edges (above, below)."""
    n_nodes = int(np.exp(rng.uniform(np.log(3), np.log(3000))))
    n_edges = int(n_nodes * rng.choice([0.7, 1, 2, 5]))
    heaviest = int(rng.choice([1, 1000, 10**9]))
    sizes = (heaviest ** rng.random(n_nodes)).astype(np.int64)
    rank = rng.permutation(n_nodes)
    one, other = rng.integers(0, n_nodes, (2, n_edges))
    keep = one != other
    one, other = one[keep], other[keep]
    swap = rank[one] > rank[other]
    edges = sorted(
        set(zip(np.where(swap, other, one).tolist(), np.where(swap, one, other).tolist(), strict=True))
    )
    return sizes, edges


def attack_order(rng) -> Finding:
    """Weights to 10⁹: the answer's own multipliers prove its optimality again, summed as fractions.

    Weak duality needs no trust: Σ|C|p² of feasible positions is above the optimum, and
    (Σf)²/Σ(div f)²/|C| of any f ≥ 0 below it. Both are formed here with eighty digits.
    """
    sizes, edges = draw_order(rng)
    above, below = np.array(edges, np.int64).reshape(-1, 2).T
    group = np.zeros(len(sizes), np.int64)
    problem = OrderProblem(sizes, np.ascontiguousarray(above), np.ascontiguousarray(below), group)
    positions, flow = Placement().solve_order(problem)
    certificate = certify_positions(problem, positions, flow, rtol=1e-12)
    if not certificate.certified:
        return unjudged("not certified")
    gap, missed = prove_again(sizes.tolist(), edges, positions.tolist(), flow.tolist())
    case = {"sizes": sizes.tolist()[:40], "edges": edges[:60]}
    checks = [("gap of exact bounds", abs(gap), 1e-11), ("margin missed", max(missed, 0.0), 1e-9)]
    return worst_of(checks, len(sizes), case)


def prove_again(weights, edges, positions, flow):
    """The relative gap of the two bounds, and by how much the smallest margin misses 1, to eighty digits."""
    with localcontext() as context:
        context.prec = 80
        place = [Decimal(value) for value in positions]
        pushed = [Decimal(max(value, 0.0)) for value in flow]
        missed = max((1 - (place[a] - place[b]) for a, b in edges), default=Decimal(0))
        divergence = [Decimal(0)] * len(weights)
        for (a, b), value in zip(edges, pushed, strict=True):
            divergence[a] += value
            divergence[b] -= value
        upper = sum(weight * one**2 for weight, one in zip(weights, place, strict=True))
        spread = sum(value**2 / weight for value, weight in zip(divergence, weights, strict=True))
        lower = sum(pushed) ** 2 / spread if spread else Decimal(0)
        return float((upper - lower) / upper) if upper else 0.0, float(missed)
