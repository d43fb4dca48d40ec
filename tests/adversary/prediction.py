"""What the automaton makes of contexts: probabilities, attention, retrieval, rules, held-out scores."""

from decimal import Decimal, localcontext

import numpy as np

import attomaton as at
from attomaton.automaton.rules import RULES, answer_bags
from attomaton.graphs.bags import count_all_tokens
from tests.adversary.draws import describe, draw_corpus
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.automaton import Limit, constraints_of
from tests.adversary.reference.graphs import graphs_of
from tests.adversary.reference.least_norm import Constraints, gram_of, least_norm

CONTEXTS = 6
PROBABILITY = 1e-6
"""Scores are certified to 1e-6, so that probabilities inside a component are too."""


def draw(rng):
    """A corpus, perhaps with embeddings, and contexts to ask about; few tokens, so that rules vary."""
    contexts, labels, n_tokens = draw_corpus(rng, most_tokens=7, most_samples=10, most_length=5)
    table = rng.normal(size=(n_tokens, n_tokens + 1)) if rng.random() < 0.25 else None
    asked = []
    for _ in range(CONTEXTS):
        context = rng.integers(0, n_tokens, int(rng.integers(1, 8))).tolist()
        if rng.random() < 0.8:
            context[-1] = int(rng.choice([one[-1] for one in contexts]))
        asked.append(context)
    return contexts, labels, n_tokens, table, asked


def _embedded_scores(contexts, labels, table):
    """Hard scores for independent embeddings; equal inside components, as they are in exact arithmetic."""
    graphs = graphs_of(contexts, labels)
    edges, ties = constraints_of(graphs)
    with localcontext() as context:
        context.prec = 100
        held = Constraints(edges, gram_of(table))
        asked = [Decimal(int(not tie)) for tie in ties]
        found = least_norm(held.kernel, asked, ties, negligible=Decimal(10) ** -40)
        return {
            (query, token): held.score(found, min(part), query)
            for query, graph in graphs.items()
            for part in graph.components
            for token in part
        }


def attack(rng) -> Finding:
    """Probabilities, attention, retrieved tokens and the rule, context by context and in batches."""
    contexts, labels, n_tokens, table, asked = draw(rng)
    auto = at.learn(at.Samples.from_lists(contexts, labels, n_tokens=n_tokens), embeddings=table)
    if not (auto.hard.status is auto.soft.status is at.base.Status.CERTIFIED):
        return unjudged("not certified")
    hard = None if table is None else _embedded_scores(contexts, labels, table)
    limit = Limit(contexts, labels, n_tokens, hard=hard, table=table)
    bags = count_all_tokens(at.Samples.from_lists(asked, [0] * len(asked), n_tokens=n_tokens))
    batch, rules = answer_bags(auto, bags)
    checks = []
    for number, context in enumerate(asked):
        exact, (rule, top) = limit.probabilities(context), limit.rule(context)
        told, attention = auto.predict_proba(context), auto.attention(context)
        summed = np.zeros(n_tokens)
        np.add.at(summed, context, attention)
        together = np.zeros(n_tokens)
        mine = batch.bags.sample == number
        together[batch.bags.token[mine]] = batch.probabilities[mine]
        retrieved = set(auto.retrieve(context).tolist())
        checks += [
            ("probability", float(np.abs(told - exact).max()), PROBABILITY),
            ("attention summed", float(np.abs(summed - told).max()), 1e-12),
            ("probability in a batch", float(np.abs(together - told).max()), 1e-12),
            ("rule", float(auto.explain(context).rule.name != rule), 0.0),
            ("rule in a batch", float(RULES[rules[number]].name != rule), 0.0),
            ("retrieved", float(retrieved != {int(x) for x in np.flatnonzero(exact)}), 0.0),
            ("the top component", float(bool(top) and retrieved != top), 0.0),
        ]
    more = {} if table is None else {"embeddings": table}
    return worst_of(checks, len(contexts), describe(contexts, labels, n_tokens, asked=asked, **more))


def attack_scores(rng) -> Finding:
    """Log-loss, top-1 and shares of held-out samples, for the limit and for a mixture with uniform."""
    contexts, labels, n_tokens, _, asked = draw(rng)
    wanted = [int(rng.choice(one)) if rng.random() < 0.8 else int(rng.integers(n_tokens)) for one in asked]
    pairs = [(one, label) for one, label in zip(asked, wanted, strict=True) if label in one]
    if not pairs:
        return unjudged("no realisable sample")
    auto = at.learn(at.Samples.from_lists(contexts, labels, n_tokens=n_tokens))
    epsilon = float(rng.choice([0.0, 0.05, 0.5]))
    told = auto.score(at.Samples.from_lists(asked, wanted, n_tokens=n_tokens), epsilon=epsilon)
    limit = Limit(contexts, labels, n_tokens)
    losses, hits, zero = [], [], 0
    for context, label in pairs:
        uniform = np.bincount(context, minlength=n_tokens) / len(context)
        probability = (1 - epsilon) * limit.probabilities(context) + epsilon * uniform
        zero += probability[label] == 0
        losses.append(-np.log(probability[label]) if probability[label] else np.inf)
        ties = np.flatnonzero(probability >= probability.max() * (1 - 1e-8))
        hits.append(1 / len(ties) if label in ties else 0.0)
    seen = [(limit.seen(context), set(context)) for context, _ in pairs]
    loss = np.mean(losses)
    checks = [
        ("samples", float(told.n_samples != len(pairs)), 0.0),
        (
            "log-loss",
            0.0 if loss == told.log_loss else float(abs(loss - told.log_loss)),
            PROBABILITY / epsilon if epsilon else 1e-5,
        ),
        ("top-1", abs(float(np.mean(hits)) - told.top1), 1e-12),
        ("labels with probability 0", abs(zero / len(pairs) - told.zero_share), 1e-12),
        ("unseen", abs(np.mean([len(s) < len(c) for s, c in seen]) - told.unseen), 1e-12),
        ("no evidence", abs(np.mean([not s for s, _ in seen]) - told.no_evidence), 1e-12),
    ]
    case = describe(contexts, labels, n_tokens, asked=asked, wanted=wanted, epsilon=epsilon)
    return worst_of(checks, len(contexts), case)
