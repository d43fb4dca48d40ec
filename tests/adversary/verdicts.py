"""Verdicts on sound runs: none may be ``fails``."""

import numpy as np

import attomaton as at
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import EmbeddingTable, Orthonormal
from tests.adversary.draws import describe
from tests.adversary.finding import Finding, unjudged
from tests.adversary.reference.descent import curvatures_of


def draw(rng):
    """The setting of the first paper: contexts without repetition, few tokens; steps far below the edge."""
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
    _, limit, first = curvatures_of(contexts, labels, np.eye(n_tokens) if table is None else table)
    step_size = float(2 / max(limit, first, 1e-3) * rng.uniform(0.05, 0.6))
    step = at.GradientDescent(step_size)
    if rng.random() < 0.3:
        step = at.GradientDescent(float(rng.choice([0.005, 0.01, 0.02])), normalized=True)
    return contexts, labels, n_tokens, table, step, float(rng.choice([0.0, 0.0, 1.0]))


def attack(rng) -> Finding:
    """Train by plain or normalised descent, from zero or as PyTorch starts; verify, and count what fails."""
    contexts, labels, n_tokens, table, step, start = draw(rng)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    model = AttentionModel(Orthonormal() if table is None else EmbeddingTable(table), start=start)
    trace = at.train(samples, model, step, steps=4000, seed=int(rng.integers(10**6)))
    auto = at.learn(samples, embeddings=table)
    if not (auto.hard.status is auto.soft.status is at.base.Status.CERTIFIED):
        return unjudged("not certified")
    verdicts = at.verify(at.learn(samples), trace)
    failed = [f"{one.claim} ({one.shown_value} against {one.shown_bound})" for one in verdicts if one.fails]
    kind = f"{'normalised' if step.normalized else 'plain'}, start {start:g}"
    told = describe(contexts, labels, n_tokens, step=str(step), start=start)
    if table is not None:
        told["embeddings"] = table.tolist()
    return Finding(
        float(len(failed)), 0.0, "verdicts that fail: " + "; ".join(failed), len(contexts), told, kind=kind
    )
