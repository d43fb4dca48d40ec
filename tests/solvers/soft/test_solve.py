"""The Luce model: multiplicities, and answers that are not certified."""

import numpy as np
import pyarrow.compute as pc
import pytest

import attomaton as at
from attomaton.base.errors import MismatchedParts, UncertifiedSolution
from attomaton.solvers.soft import newton
from tests.drawn import paper_draw, scores_of


def test_multiplicity_is_an_offset():
    """Token 0 always stands twice where token 1 stands once; equal wins then mean half the odds."""
    samples = at.Samples.from_lists([[0, 0, 1, 2], [0, 0, 1, 2]], [0, 1])
    components = at.find_components(at.extract_edges(samples))
    scores = scores_of(at.solve_luce(samples, components).expect())
    np.testing.assert_allclose(np.exp(scores[2, 0] - scores[2, 1]), 0.5, rtol=1e-9)


def test_choices_serve_as_well_as_samples():
    samples = paper_draw(3, n_samples=30)
    components = at.find_components(at.extract_edges(samples))
    choices = at.extract_choices(samples, components)
    one, other = at.solve_luce(samples, components), at.solve_luce(choices, components)
    assert one.scores.equals(other.scores)


def test_choices_that_do_not_connect_a_component_are_refused():
    """Components in which 0 and 1 tie, and samples in which 0 always wins: the optimum would be infinite."""
    both = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])
    components = at.find_components(at.extract_edges(both))
    with pytest.raises(MismatchedParts, match="do not connect a component; give the samples"):
        at.solve_luce(at.Samples.from_lists([[0, 1, 2]] * 5, [0] * 5), components)


def test_rounding_of_very_many_choices_is_allowed_for():
    """A billion choices: the gradient cannot be smaller than the rounding of its sum."""
    rng = np.random.default_rng(0)
    contexts = [[*rng.permutation(20)[:6].tolist(), 20] for _ in range(400)]
    samples = at.Samples.from_lists(contexts, [int(rng.choice(context[:-1])) for context in contexts])
    components = at.find_components(at.extract_edges(samples))
    table = at.extract_choices(samples, components).rows
    heavy = table.set_column(4, "count", pc.multiply(table.column("count"), 3_000_000))
    assert at.solve_luce(at.ChoiceTable(heavy), components).expect().certificate.gradient_norm < 1e-3


def test_scores_that_are_not_the_best_are_not_certified(monkeypatch):
    samples = at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    components = at.find_components(at.extract_edges(samples))
    monkeypatch.setattr(newton, "minimise_groups", lambda _, groups, **__: np.zeros(len(groups.alternatives)))
    soft = at.solve_luce(samples, components)
    with pytest.raises(UncertifiedSolution, match="largest gradient entry"):
        soft.expect()


def test_extreme_odds_converge():
    """A cycle of 30 tokens, each beating the next 10,000 times and losing once around."""
    n = 30
    contexts = [[i, (i + 1) % n, n] for i in range(n) for _ in range(2)]
    labels = [token for i in range(n) for token in (i, i if i < n - 1 else 0)]
    samples = at.Samples.from_lists(contexts, labels)
    heavy = samples
    for _ in range(6):
        heavy = heavy + heavy
    lost = at.Samples.from_lists([[n - 1, 0, n]], [n - 1], n_tokens=n + 1)
    components = at.find_components(at.extract_edges(heavy + lost))
    assert components.sizes.max() == n
    assert at.solve_luce(heavy + lost, components).expect().certificate.gradient_norm <= 1e-8


@pytest.mark.parametrize("apart", [1e-8, 1e-10, 1e-12])
def test_a_singular_kernel_is_no_warning(apart):
    """Queries 2 and 3 are nearly the same: nothing is certified, and nothing multiplied by infinity."""
    contexts = [[0, 1, 2]] * 3 + [[1, 0, 2]] + [[0, 1, 3]] * 2 + [[1, 0, 3]]
    samples = at.Samples.from_lists(contexts, [0, 0, 0, 1, 0, 0, 1])
    table = np.eye(4)
    table[3, 2:] = 1.0, apart
    components = at.find_components(at.extract_edges(samples))
    assert at.solve_luce(samples, components, embeddings=table).status is at.base.Status.UNCERTIFIED
