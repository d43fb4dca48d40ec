"""Runs in parts on disk, saved and opened, against the engine in memory and against plain Python."""

import tempfile
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import numpy as np

import attomaton as at
from attomaton.automaton.runs import staged
from attomaton.base.artifacts import parted
from attomaton.base.errors import AttomatonError
from attomaton.engines import partitions as edge_partitions
from attomaton.graphs import partitions
from tests.adversary.finding import Finding, worst_of
from tests.adversary.reference.automaton import Limit
from tests.adversary.reference.graphs import QueryGraph, graphs_of

KINDS = ("some", "one token", "hardly any", "two tokens", "never repeated", "far apart", "skewed")
CONTEXTS = 4
PROBABILITY = 1e-6
"""Scores are certified to 1e-6, so that probabilities inside a component are too."""


def draw(rng):
    """Documents of every awkward kind, and how they are learned from."""
    kind = str(rng.choice(KINDS))
    n_tokens = int(rng.integers(1, 7))
    sizes = rng.integers(0, 18, int(rng.integers(1, 5)))
    documents = [rng.integers(0, n_tokens, size).tolist() for size in sizes]
    if kind == "one token":
        documents = [[0] * int(size) for size in sizes % 5]
    elif kind == "hardly any":
        documents = [one[: int(rng.integers(0, 3))] for one in documents]
    elif kind == "two tokens":
        documents = [[], [0, 1] * int(rng.integers(1, 6)), [], [1]]
    elif kind == "never repeated":
        documents = [rng.permutation(int(rng.integers(1, 9))).tolist(), []]
    elif kind == "far apart":
        documents = [[100_003 * token for token in one] for one in documents]
    elif kind == "skewed":
        documents = [np.minimum(rng.zipf(1.5, 60), 12).tolist() for _ in range(2)]
    options = {"window": int(rng.integers(1, 9))}
    if rng.random() < 0.25:
        options["min_support"] = int(rng.integers(2, 4))
    if rng.random() < 0.25:
        options["queries"] = int(rng.integers(1, 4))
    return kind, documents, options


def samples_of(documents, window):
    """Every position with a token before it, by definition."""
    found = [
        (one[max(0, place - window) : place], one[place]) for one in documents for place in range(1, len(one))
    ]
    return [context for context, _ in found], [label for _, label in found]


def graphs_kept(contexts, labels, options):
    """The graphs of the queries that are kept, of the edges that are shown often enough."""
    graphs, counted = graphs_of(contexts, labels), Counter()
    counted.update(context[-1] for context, label in zip(contexts, labels, strict=True) if label in context)
    first = sorted(graphs, key=lambda query: (-counted[query], query))[: options.get("queries")]
    least = options.get("min_support", 1)
    return {
        query: QueryGraph(query, Counter({edge: n for edge, n in graphs[query].wins.items() if n >= least}))
        for query in first
    }


def choices_in(graphs, contexts, labels):
    """What each label was chosen from inside its component, counted."""
    found = Counter()
    for context, label in zip(contexts, labels, strict=True):
        graph = graphs.get(context[-1])
        if graph is None or label not in context or label not in graph.nodes:
            continue
        own = graph.components[graph.component_of[label]]
        held = sorted(Counter(token for token in context if token in own).items())
        if len(held) > 1:
            found[context[-1], label, *zip(*held, strict=True)] += 1
    return found


def attempt(call):
    """What a call returns and None, or None and the error in words."""
    try:
        return call(), None
    except AttomatonError as error:
        return None, f"{type(error).__name__}: {error}"


def tables_of(auto):
    """Edges, components and choices of an automaton as plain values."""
    rows = auto.components.edges.rows.to_pylist()
    edges = {(row["query"], row["winner"], row["loser"]): row["support"] for row in rows}
    parts_of = {}
    for row in auto.components.nodes.to_pylist():
        parts_of.setdefault((row["query"], row["component"]), set()).add(row["token"])
    components = Counter((query, frozenset(own)) for (query, _), own in parts_of.items())
    choices = {
        (row["query"], row["winner"], tuple(row["tokens"]), tuple(row["multiplicities"])): row["count"]
        for row in auto.soft.choices.rows.to_pylist()
    }
    return {"edges": edges, "components": components, "choices": choices}


def attack(rng) -> Finding:
    """The same refusals, edges, components, choices and predictions, wherever a corpus is learned from."""
    kind, documents, options = draw(rng)
    case = {"documents": documents, **options}
    size = sum(map(len, documents))
    small = int(rng.choice([1, 3, 20]))
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(partitions, "PARTITION_SAMPLES", small),
        patch.object(parted, "GROUP_ROWS", 8 * small),
        patch.object(staged, "MOST_LOADED_EDGES", int(rng.choice([5, staged.MOST_LOADED_EDGES]))),
        patch.object(edge_partitions, "SCANNED_ROWS", int(rng.choice([5, edge_partitions.SCANNED_ROWS]))),
    ):
        place = Path(folder)
        keep = at.Selection(**options)
        memory, refused = attempt(lambda: at.learn(documents, engine="memory", keep=keep))
        disk = at.engines.Engine("duckdb", memory="1GB", threads=1)
        made, other = attempt(lambda: at.learn(documents, out=place / "run", engine=disk, keep=keep))
        contexts, labels = samples_of(documents, options["window"])
        checks = [
            ("refused in the same words", float(refused != other), 0.0),
            ("refused where there is no sample", float((refused is None) != bool(contexts)), 0.0),
        ]
        if memory is None or made is None:
            return worst_of(checks, size, case, kind=kind)
        memory.save(place / "saved")
        opened = [at.Automaton.load(place / "run"), at.Automaton.load(place / "saved")]
        whole = [memory, *(at.Automaton.load(place / one, whole=True) for one in ("run", "saved"))]
        graphs = graphs_kept(contexts, labels, options)
        exact = {
            "edges": {(query, *edge): n for query, graph in graphs.items() for edge, n in graph.wins.items()},
            "components": Counter(
                (query, frozenset(own)) for query, graph in graphs.items() for own in graph.components
            ),
            "choices": choices_in(graphs, contexts, labels),
        }
        for where, auto in zip(("memory", "run", "saved"), whole, strict=True):
            told = tables_of(auto)
            checks += [(f"{name}, {where}", float(told[name] != exact[name]), 0.0) for name in exact]
        certified = memory.hard.status is memory.soft.status is at.base.Status.CERTIFIED
        limit = None
        if certified and options.keys() == {"window"} and kind != "far apart":
            limit = Limit(contexts, labels, memory.n_tokens)
        for context in _draw_contexts(rng, documents, memory.n_tokens):
            told = [
                attempt(lambda auto=auto, asked=context: auto.predict(asked))
                for auto in (memory, made, *opened)
            ]
            checks.append(("predicted alike", float(any(one != told[0] for one in told)), 0.0))
            if limit is not None and told[0][0] is not None:
                probabilities = np.zeros(memory.n_tokens)
                probabilities[list(told[0][0])] = list(told[0][0].values())
                checks.append(
                    (
                        "probability",
                        float(np.abs(probabilities - limit.probabilities(context)).max()),
                        PROBABILITY,
                    )
                )
        return worst_of(checks, size, case, kind=kind)


def _draw_contexts(rng, documents, n_tokens):
    """Contexts of known tokens, and one with a token that is not known."""
    known = sorted({token for one in documents for token in one})
    drawn = [rng.choice(known, int(rng.integers(1, 7))).tolist() for _ in range(CONTEXTS)]
    return [*drawn, [known[0], n_tokens]]
