"""The Luce model has one finite optimum exactly if its comparison graph is strongly connected (Ford 1957)."""

import networkx as nx
import numpy as np
import pytest

from attomaton.base.ragged import centre, offsets_of
from attomaton.solvers.soft.certify import certify_scores
from attomaton.solvers.soft.likelihood import LuceProblem
from attomaton.solvers.soft.newton import Newton
from tests.drawn import components_of, luce_problem_of, paper_draw

pytestmark = pytest.mark.costly("200 examples each")


def random_choices(rng):
    """Choices among a few alternatives, taken as one group whether connected or not, and who beats whom."""
    n = int(rng.integers(2, 8))
    sets = [rng.permutation(n)[: rng.integers(2, n + 1)] for _ in range(int(rng.integers(1, 4 * n)))]
    winner = np.array([int(rng.choice(members)) for members in sets])
    lengths = np.array([len(members) for members in sets])
    problem = LuceProblem(
        alternative=np.concatenate(sets),
        offsets=offsets_of(lengths),
        log_multiplicity=np.log(rng.integers(1, 3, lengths.sum())),
        winner=winner,
        count=rng.integers(1, 4, len(sets)).astype(float),
        component=np.zeros(n, np.int64),
    )
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((w, x) for w, members in zip(winner, sets, strict=True) for x in members if x != w)
    return problem, graph


def draw_graphs(wanted, how_many):
    rng, found = np.random.default_rng(7), 0
    while found < how_many:
        problem, graph = random_choices(rng)
        if nx.is_strongly_connected(graph) == wanted:
            found += 1
            yield problem, graph


def test_a_finite_optimum_on_100_connected_graphs():
    for problem, _ in draw_graphs(True, 100):
        scores = centre(problem.component, Newton().solve(problem))
        proof = certify_scores(problem, scores, atol=1e-8)
        assert proof.certified  # an optimum exists within 1e-6 of these scores
        assert proof.curvature > 0  # and no other


def test_none_on_100_graphs_that_are_not_connected():
    """Raising a part that nothing else beats never costs: it gains for ever, or it changes nothing at all."""
    for problem, graph in draw_graphs(False, 100):
        condensed = nx.condensation(graph)
        top = next(node for node in condensed if condensed.in_degree(node) == 0)
        raised = np.zeros(problem.n_alternatives)
        raised[list(condensed.nodes[top]["members"])] = 1.0
        start = np.random.default_rng(0).normal(size=problem.n_alternatives)
        slopes = [problem.gradient(start + height * raised) @ raised for height in (0.0, 1.0, 5.0, 20.0)]
        if condensed.out_degree(top):
            assert slopes[0] < slopes[1] < slopes[2] < slopes[3] < 0.0
            gaps = [_gap(problem, raised, ridge) for ridge in (1e-2, 1e-4, 1e-6)]
            assert gaps[1] > gaps[0] + 1.0
            assert gaps[2] > gaps[1] + 1.0
        else:
            assert np.abs(slopes).max() < 1e-12


def _gap(problem, raised, ridge):
    """How far the best scores with a ridge lift the raised part above the rest."""
    scores = Newton().solve(problem, stiffness=ridge)
    return scores[raised == 1.0].mean() - scores[raised == 0.0].mean()


@pytest.mark.parametrize("seed", range(3))
def test_solve_luce_never_meets_the_second_case(seed):
    """Components are strongly connected by definition: what is left of each choice set stays inside one."""
    samples = paper_draw(seed, n_samples=40)
    problem, components = luce_problem_of(samples), components_of(samples)
    assert problem.n_components == int((components.sizes > 1).sum())
    assert certify_scores(problem, centre(problem.component, Newton().solve(problem)), atol=1e-8).certified
