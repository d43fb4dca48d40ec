"""Beyond the 4,000 nodes up to which priorities are tested for contradictions: nothing false is certified."""

import numpy as np

import attomaton as at
from attomaton.errors import AttomatonError
from attomaton.hard.solve import Kind
from tests.adversary.finding import Finding, unjudged

BORDER = 4000


def draw(rng):
    """Three nodes for each of many queries; two queries are each other's opposite and ask for the same.

    Tokens 0 and 1 are compared under every query. With e_q' = −e_q no W puts 0 before 1 under both.
    """
    n_nodes = int(rng.choice([BORDER - 40, BORDER, BORDER + 2, BORDER + 200]))
    n_queries, dim = n_nodes // 3, int(rng.integers(3, 9))
    n_tokens = n_queries + 2
    table = rng.normal(size=(n_tokens, dim))
    contexts = [[0, 1, query] for query in range(2, n_tokens)]
    contradiction = bool(rng.random() < 0.7)
    if contradiction:
        table[2 + n_queries // 2] = -table[2]
    else:  # one half space holds all queries, and 0 − 1 and 0 − q point the same way
        table[:, 0] = np.abs(table[:, 0]) + 0.1
        table[0, 0] = table[:, 0].max() + 1.0
    return contexts, [0] * len(contexts), n_tokens, table, contradiction


def attack(rng) -> Finding:
    """Large problems with a contradiction that is known, or with none."""
    contexts, labels, n_tokens, table, contradiction = draw(rng)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    case = {"n_tokens": n_tokens, "dim": table.shape[1], "contradiction": contradiction}
    try:
        hard = at.solve_graph_svm(at.find_components(at.extract_edges(samples)), embeddings=table)
    except AttomatonError as error:
        return unjudged(f"refused: {type(error).__name__}")
    if hard.status is not at.Status.CERTIFIED:
        return unjudged("not certified")
    if contradiction and hard.kind is Kind.EVERY_PRIORITY:
        return Finding(np.inf, 0.0, "certified what contradicts itself", n_tokens, case)
    weights = np.asarray(hard.weights)
    scores = table @ weights @ table.T
    merged = hard.components
    numbers = dict(
        zip(
            zip(merged.query_of_node.tolist(), merged.token_of_node.tolist(), strict=True),
            merged.component_of_node.tolist(),
            strict=True,
        )
    )
    missed = 0.0
    for query in range(2, n_tokens):
        for loser in (1, query):
            tie = numbers[query, 0] == numbers[query, loser]
            margin = scores[0, query] - scores[loser, query]
            missed = max(missed, abs(margin) if tie else 1 - margin)
    return Finding(missed / (1 + np.abs(scores).max()), 1e-8, "margin of the weights", n_tokens, case)
