"""Statements about corpora: robustness by removal, coverage, and differences of two corpora."""

from collections import Counter

import numpy as np

import attomaton as at
from attomaton.graphs.robustness import measure_robustness
from tests.adversary.draws import describe, draw_corpus
from tests.adversary.finding import Finding, worst_of
from tests.adversary.reference.graphs import QueryGraph, graphs_of, reach


def draw_dense(rng):
    """Few queries and many ties, some samples unrealisable; repeats raise the support of edges."""
    large = rng.random() < 0.03
    most_tokens, most_samples = (40, 70) if large else (8, 18)
    contexts, labels, n_tokens = draw_corpus(
        rng, most_tokens=most_tokens, most_samples=most_samples, unrealisable=0.07
    )
    times = int(rng.choice([1, 1, 2, 5]))
    extra = rng.integers(0, len(contexts), times * 3).tolist() if times > 1 else []
    return contexts + [contexts[i] for i in extra], labels + [labels[i] for i in extra], n_tokens


def _holds(part, edges):
    """Whether edges alone strongly connect a part."""
    inside = [(a, b) for a, b in edges if a in part and b in part]
    reached = reach(sorted(part), inside)
    return all(reached[one] | {one} >= part for one in part)


def attack_robustness(rng) -> Finding:
    """Every edge inside a component is taken away, and every threshold of support tried."""
    contexts, labels, n_tokens = draw_dense(rng)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    components = at.find_components(at.extract_edges(samples))
    told = measure_robustness(components)
    bridges, table, hangs = set(), Counter(), 0
    for query, graph in graphs_of(contexts, labels).items():
        for part in graph.components:
            if len(part) < 2:
                continue
            inside = {edge: n for edge, n in graph.wins.items() if edge[0] in part and edge[1] in part}
            own = {edge for edge in inside if not _holds(part, inside.keys() - {edge})}
            bridges |= {(query, *edge, inside[edge]) for edge in own}
            table[query, len(part), len(inside), len(own), _support(part, inside)] += 1
            named = components.bridges_of(components.component(query, min(part))).to_pylist()
            hangs += len({(row["winner"], row["loser"]) for row in named} ^ own)
    names = ("query", "winner", "loser", "support")
    found = {tuple(row[name] for name in names) for row in told.bridges.to_pylist()}
    columns = ("query", "size", "edges", "bridges", "support")
    rows = Counter(tuple(row[name] for name in columns) for row in told.rows.to_pylist())
    checks = [
        ("bridges", float(len(found ^ bridges)), 0.0),
        ("components", float(rows != table), 0.0),
        ("what one component hangs on", float(hangs), 0.0),
    ]
    return worst_of(checks, len(contexts), describe(contexts, labels, n_tokens))


def _support(part, inside):
    """The largest support that every edge may be asked for before the part falls apart."""
    levels = sorted(set(inside.values()), reverse=True)
    return next(level for level in levels if _holds(part, [e for e in inside if inside[e] >= level]))


def attack_coverage(rng) -> Finding:
    """The dozen numbers of the coverage report, by definition."""
    contexts, labels, n_tokens = draw_corpus(rng, unrealisable=0.2)
    told = at.learn(at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)).coverage
    graphs = graphs_of(contexts, labels)
    parts = [(query, part) for query, graph in graphs.items() for part in graph.components]
    tied = {query for query, part in parts if len(part) > 1}
    ordered = sum(_in_line(graph) for graph in graphs.values())
    largest = sorted((len(part) for _, part in parts if len(part) > 1), reverse=True)[:5]
    share = np.mean([label in context for context, label in zip(contexts, labels, strict=True)])
    n_queries = max(len(graphs), 1)
    pairs = {
        "read": (told.n_read, len(contexts)),
        "realisable": (told.realisable, share),
        "queries": (told.n_queries, len(graphs)),
        "edges": (told.n_edges, sum(len(graph.wins) for graph in graphs.values())),
        "components": (told.n_components, len(parts)),
        "tied": (told.tied_queries, len(tied) / n_queries),
        "ordered": (told.ordered_queries, ordered / n_queries),
    }
    checks = [(name, abs(float(one - other)), 1e-12) for name, (one, other) in pairs.items()]
    checks.append(("largest", float([one.size for one in told.largest] != largest), 0.0))
    for one in told.largest:
        true = {frozenset(part) for query, part in parts if query == one.query and len(part) == one.size}
        known = any(set(one.tokens) <= part for part in true)
        checks.append(("tokens of the largest", float(not known), 0.0))
    return worst_of(checks, len(contexts), describe(contexts, labels, n_tokens))


def _in_line(graph):
    """Whether all components are comparable with each other."""
    first = [min(part) for part in graph.components]
    return all(a == b or graph.precedes(a, b) or graph.precedes(b, a) for a in first for b in first)


def relation(graph, one, other):
    """What one token does to another under a query."""
    if graph is None or one not in graph.nodes or other not in graph.nodes:
        return "unseen"
    if graph.tie(one, other):
        return "ties"
    if graph.precedes(one, other):
        return "precedes"
    return "follows" if graph.precedes(other, one) else "unordered"


def change(in_a, in_b):
    """How two relations differ, in the words of the page on comparing corpora."""
    ordered = {"precedes", "follows"}
    if {in_a, in_b} == ordered:
        return "reversed"
    if in_a == "ties" and in_b in ordered:
        return "split"
    if in_b == "ties" and in_a in ordered:
        return "merged"
    known = ordered | {"ties"}
    if in_a in known:
        return "lost"
    return "gained" if in_b in known else None


def attack_diff(rng) -> Finding:
    """Every pair that two corpora relate differently, and no other."""
    contexts, labels, n_tokens = draw_dense(rng)
    others, theirs = list(contexts), list(labels)
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(others)))
        others[place] = rng.integers(0, n_tokens, int(rng.integers(1, 6))).tolist()
        theirs[place] = int(rng.choice(others[place]))
    corpora = (contexts, labels), (others, theirs)
    autos = [at.learn(at.Samples.from_lists(*one, n_tokens=n_tokens)) for one in corpora]
    told = at.diff(*autos)
    graphs = [graphs_of(*one) for one in corpora]
    pairs = {
        (query, min(edge), max(edge))
        for known in graphs
        for query, graph in known.items()
        for edge in graph.wins
    }
    exact = set()
    for query, one, other in pairs:
        known = [
            sides.get(query, QueryGraph(query, Counter())) if query in sides else None for sides in graphs
        ]
        in_a, in_b = (relation(graph, one, other) for graph in known)
        if in_a != in_b:
            wins = [(0, 0) if g is None else (g.wins[one, other], g.wins[other, one]) for g in known]
            exact.add((query, one, other, change(in_a, in_b), in_a, in_b, *wins[0], *wins[1]))
    names = [one.name for one in told.rows.schema]
    found = {tuple(row[name] for name in names) for row in told.rows.to_pylist()}
    checks = [
        ("pairs compared", float(abs(told.n_pairs - len(pairs))), 0.0),
        ("rows", float(len(found ^ exact)), 0.0),
    ]
    case = describe(contexts, labels, n_tokens, others=others, their_labels=theirs)
    return worst_of(checks, len(contexts), case)
