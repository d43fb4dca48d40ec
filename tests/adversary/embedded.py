"""The Graph-SVM for given embeddings: what is certified must be so, to the digits that are printed."""

from decimal import Decimal, localcontext
from math import inf

import numpy as np

import attomaton as at
from attomaton.base.errors import AttomatonError
from attomaton.solvers.hard.solve import Kind
from tests.adversary.draws import EMBEDDINGS, describe, draw_corpus, draw_embeddings
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.automaton import constraints_of
from tests.adversary.reference.graphs import graphs_of
from tests.adversary.reference.least_norm import Constraints, Unsolved, gram_of, least_norm

DIGITS = 180
NEGLIGIBLE = Decimal(10) ** -90
"""Rows 1e-14 apart leave squared distances of 1e-56 between directions; exact dependence leaves 1e-170."""

PRINTED = 1e-12
"""A certificate prints twelve digits."""

FEASIBLE = 1e-9
"""How much a margin may be missed."""


def draw(rng, kind=None):
    """A small corpus and embeddings of one of the kinds."""
    contexts, labels, n_tokens = draw_corpus(rng, most_tokens=6, most_samples=8, most_length=4)
    while n_tokens < 3:
        contexts, labels, n_tokens = draw_corpus(rng, most_tokens=6, most_samples=8, most_length=4)
    kind = EMBEDDINGS[int(rng.integers(len(EMBEDDINGS)))] if kind is None else kind
    return contexts, labels, n_tokens, kind, draw_embeddings(rng, n_tokens, kind)


def attack(rng, kind=None) -> Finding:
    """One corpus with embeddings: kind, bounds, margins and scores of what is certified."""
    contexts, labels, n_tokens, kind, table = draw(rng, kind)
    case = describe(contexts, labels, n_tokens, kind=kind, embeddings=table)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    try:
        hard = at.solve_graph_svm(at.find_components(at.extract_edges(samples)), embeddings=table)
    except AttomatonError as error:
        return unjudged(f"refused: {type(error).__name__}", kind)
    if hard.status is not at.base.Status.CERTIFIED:
        return unjudged("not certified", kind)
    graphs = graphs_of(contexts, labels)
    with localcontext() as context:
        context.prec = DIGITS
        try:
            checks = _check(hard, graphs, np.asarray(table, np.float64))
        except Unsolved:
            return unjudged("the reference did not end", kind)
    return worst_of(checks, len(contexts), case, kind=kind)


def _check(hard, graphs, table):
    edges, ties = constraints_of(graphs)
    if not edges:
        return [("bounds of 0", abs(hard.certificate.lower) + abs(hard.certificate.upper), 0.0)]
    held = Constraints(edges, gram_of(table))
    found = _solve(held, ties)
    generalised = hard.kind is Kind.GENERALISED
    if (found is None) != generalised:
        truth = "no W meets all" if found is None else f"a W meets all, ‖W‖² = {_square(found, ties):.4e}"
        return [(f"said {hard.kind.name}, but {truth}", inf, 0.0)]
    if generalised:
        wrong, ties = _merged(hard, held, ties)
        if wrong:
            return [(wrong, inf, 0.0)]
        found = _solve(held, ties)
        if found is None:
            return [("priorities kept that contradict each other", inf, 0.0)]
    return _check_numbers(hard, held, ties, found, table)


def _solve(held, ties):
    asked = [Decimal(int(not tie)) for tie in ties]
    return least_norm(held.kernel, asked, ties, negligible=NEGLIGIBLE)


def _square(found, ties):
    return sum(value for number, value in found.items() if not ties[number])


def _merged(hard, held, ties):
    """What is wrong with the priorities counted as ties, if anything; and the ties with those merged."""
    number = {
        (query, token): component
        for query, token, component in zip(
            hard.components.query_of_node.tolist(),
            hard.components.token_of_node.tolist(),
            hard.components.component_of_node.tolist(),
            strict=True,
        )
    }
    merged = [number[k, i] == number[k, j] for i, j, k in held.edges]
    for place, (was, now) in enumerate(zip(ties, merged, strict=True)):
        if now and not was:
            asked = [Decimal(int(other == place)) for other in range(len(ties))]
            if least_norm(held.kernel, asked, ties, negligible=NEGLIGIBLE) is not None:
                return f"the priority {held.edges[place]} counts as a tie but can be met", merged
    return "", merged


def _check_numbers(hard, held, ties, found, table):
    """The bounds, the margins of the scores, and the scores, which the bounds' width bounds too."""
    exact, told = _square(found, ties), hard.certificate
    lower, upper = Decimal(told.lower), Decimal(told.upper)
    if exact == 0:
        return [("bounds of 0", float(abs(lower) + abs(upper)), 0.0)]
    lengths = np.linalg.norm(table, axis=1)
    width = max(upper - lower, Decimal(0)) + Decimal(PRINTED) * upper
    reach = float(width) ** 0.5 + FEASIBLE * float(upper) ** 0.5
    scores = {(row["query"], row["token"]): row["score"] for row in hard.scores.to_pylist()}
    most, allowed = 0.0, 1.0
    for (query, token), score in scores.items():
        apart = float(abs(Decimal(score) - held.score(found, token, query)))
        room = lengths[token] * lengths[query] * reach + 1e-9 * (1 + abs(score))
        if apart / room > most / allowed:
            most, allowed = apart, room
    missed = max(
        float(abs(Decimal(scores[k, i]) - Decimal(scores[k, j]) - (not tie)))
        if tie
        else float(1 - (Decimal(scores[k, i]) - Decimal(scores[k, j])))
        for (i, j, k), tie in zip(held.edges, ties, strict=True)
    )
    return [
        ("lower bound above ‖W‖²", float((lower - exact) / exact), PRINTED),
        ("upper bound below ‖W‖²", float((exact - upper) / exact), PRINTED),
        ("score", most, allowed),
        ("margin of the scores", missed, FEASIBLE),
    ]
