import numpy as np

from attomaton.claims.contexts import read_contexts
from attomaton.claims.limits import solve_trials
from attomaton.claims.local import LEAST_UNDECIDED, SELECTED, selected_edges, solve_local
from attomaton.claims.measures import measure_trace
from attomaton.claims.mechanics import verify
from attomaton.claims.verdicts import VerdictStatus
from attomaton.training.loop import train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import RandomUnit
from attomaton.training.models.heads import EmbeddingDistance, Tied, TokenId
from attomaton.training.models.losses import CorrelationLoss, SquaredLoss
from attomaton.training.steps import GradientDescent
from tests.claims.runs import draws, global_run, local_run
from tests.drawn import embeddings_for, paper_draw


def correlations(one, other):
    return (
        np.sum(one * other, axis=(1, 2))
        / np.linalg.norm(one, axis=(1, 2))
        / np.linalg.norm(other, axis=(1, 2))
    )


def test_selected_tokens_beat_the_others_of_their_context():
    for seed in range(20):
        samples, table = paper_draw(seed, repeats=True), embeddings_for(seed, 6, 8)
        weights = 6.0 * np.random.default_rng(seed).normal(size=(8, 8))
        edges = set()
        for context, _ in samples:
            scores = table[list(context)] @ weights @ table[context[-1]]
            probability = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
            mass = {x: sum(p for t, p in zip(context, probability, strict=True) if t == x) for x in context}
            kept = [x for x in mass if not LEAST_UNDECIDED < mass[x] <= SELECTED]
            edges |= {(context[-1], y, x) for y in kept for x in kept if mass[y] > SELECTED and x != y}
        contexts = read_contexts(samples, table)
        found = selected_edges(contexts, contexts.masses(weights[None])[0])
        assert (
            set(zip(*(found[name].tolist() for name in ("query", "winner", "loser")), strict=True)) == edges
        )


def test_masses_of_a_context_sum_to_one():
    samples = paper_draw(3, repeats=True)
    contexts = read_contexts(samples, embeddings_for(3, 6, 8))
    np.testing.assert_allclose(contexts.sums(contexts.masses(np.ones((2, 8, 8)))), 1.0)


def test_local_direction_of_the_published_setting():
    trace = local_run()
    local, curves = solve_local(trace), measure_trace(trace, solve_trials(trace))
    close = correlations(trace.weights[-1], local.directions)
    assert np.median(close) >= 0.99
    astray = curves.correlation[-1] < 0.95
    assert astray.sum() >= 3
    assert (close > curves.correlation[-1])[astray].all()
    distance = local.target.finite_distance(trace.weights[-1:])
    assert (distance < 0.1).all()  # steps of 0.1 leave a floor of about half their size


def test_where_training_ends_globally_both_graphs_agree():
    trace = global_run()
    local = solve_local(trace)
    for solution, automaton in zip(local.hard, solve_trials(trace), strict=True):
        np.testing.assert_allclose(solution.weights, automaton.hard.weights, atol=1e-6)


def test_a_loss_that_is_flat_at_the_end_is_not_judged():
    """Gaps of contexts that select their label then grow half as fast: margins are not all 1."""
    step = GradientDescent(0.05, normalized=True)
    for head, loss in ((TokenId(), SquaredLoss()), (EmbeddingDistance(), CorrelationLoss())):
        trace = train(draws(3), AttentionModel(RandomUnit(8), head, loss), step, steps=200)
        verdicts = {one.claim: one for one in verify(solve_trials(trace), trace)}
        assert verdicts["local direction"].status is VerdictStatus.NOT_APPLICABLE
        assert "derivative of the loss is 0" in verdicts["local direction"].reason


def test_a_run_too_slow_to_deselect_is_too_early():
    """Cross-entropy of sharp masses swings so much that W hardly grows: selected tokens fade slowly."""
    model = AttentionModel(RandomUnit(8), Tied(0.1), start=1.0)
    trace = train(draws(20), model, GradientDescent(0.1, normalized=True), steps=1000)
    verdict = next(one for one in verify(solve_trials(trace), trace) if one.claim == "local direction")
    assert verdict.status is not VerdictStatus.FAILS
