"""Verdicts on sound runs: none may be ``fails``."""

import numpy as np

import attomaton as at
from attomaton.models.attention import AttentionModel
from attomaton.models.embeddings import Given, Orthonormal
from tests.adversary.draws import describe
from tests.adversary.finding import Finding, unjudged
from tests.adversary.reference.automaton import soft_scores
from tests.adversary.reference.descent import Layer
from tests.adversary.reference.graphs import graphs_of


def draw(rng):
    """The setting of the first paper: contexts without repetition, few tokens; a step well below the edge."""
    n_tokens = int(rng.integers(3, 7))
    contexts, labels = [], []
    for _ in range(int(rng.integers(2, 7))):
        context = rng.permutation(n_tokens)[: int(rng.integers(2, min(n_tokens, 4) + 1))].tolist()
        contexts.append(context)
        labels.append(int(rng.choice(context)))
    table = None
    if rng.random() < 0.5:
        table = rng.normal(size=(n_tokens, n_tokens + 2))
        table /= np.linalg.norm(table, axis=1, keepdims=True)
    layer = Layer(contexts, labels, np.eye(n_tokens) if table is None else table)
    graphs = graphs_of(contexts, labels)
    soft = {
        (query, token): score
        for query, graph in graphs.items()
        for token, score in soft_scores(graph, contexts, labels).items()
    }
    limit = layer.sharpness(layer.limit_chances(graphs, soft))
    first = layer.sharpness(layer.chances(np.zeros((n_tokens, len(layer.queries)))))
    step_size = float(2 / max(limit, first, 1e-3) * rng.uniform(0.05, 0.6))
    return contexts, labels, n_tokens, table, step_size


def attack(rng) -> Finding:
    """Train by plain descent from zero, verify, and count what fails."""
    contexts, labels, n_tokens, table, step_size = draw(rng)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    model = AttentionModel(Orthonormal() if table is None else Given(table))
    trace = at.train(samples, model, at.GradientDescent(step_size), steps=4000)
    auto = at.learn(samples, embeddings=table)
    if not (auto.hard.status is auto.soft.status is at.Status.CERTIFIED):
        return unjudged("not certified")
    verdicts = at.verify(at.learn(samples), trace)
    failed = [f"{one.claim} ({one.shown_value} against {one.shown_bound})" for one in verdicts if one.fails]
    told = describe(contexts, labels, n_tokens, step_size=step_size)
    if table is not None:
        told["embeddings"] = table.tolist()
    return Finding(float(len(failed)), 0.0, "verdicts that fail: " + "; ".join(failed), len(contexts), told)
