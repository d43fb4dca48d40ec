"""The compact form of the soft side against its definition, and what it refuses."""

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import MismatchedParts
from attomaton.graphs.choices import ChoiceTable, extract_choices
from attomaton.graphs.partitions import keep_ties
from attomaton.solvers.soft.likelihood import luce_problem
from attomaton.solvers.soft.tied import group_choices, solve_groups
from tests.drawn import components_of, cycle_problem


def tied(seed, n=300, n_tokens=7, window=5):
    """Choices inside the ties of a random text, and the ties."""
    rng = np.random.default_rng(seed)
    samples = at.Samples.from_windows(rng.integers(0, n_tokens, n), window=window)
    ties = keep_ties(components_of(samples))
    return extract_choices(samples, ties), ties


@pytest.mark.parametrize("seed", range(40))
def test_scores_and_loss_are_those_of_the_definition(seed):
    choices, ties = tied(seed, n=60 + 20 * seed, n_tokens=3 + seed % 6, window=2 + seed % 5)
    found = solve_groups(group_choices(choices, ties))
    expected = at.solve_luce(choices, ties)
    np.testing.assert_allclose(found.scores, expected.scores.column("score").to_numpy(), atol=1e-10)
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    assert found.certificate.certified == expected.certificate.certified
    assert found.certificate.curvature == pytest.approx(expected.certificate.curvature, rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_winners_does_not_matter(seed):
    choices, ties = tied(seed)
    rng = np.random.default_rng(seed)
    shuffled = np.lexsort((rng.random(len(choices)), choices["query"]))  # only queries must rise
    mixed = ChoiceTable(choices.rows.take(shuffled).combine_chunks())
    one, other = (solve_groups(group_choices(some, ties)) for some in (choices, mixed))
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-9)


def test_a_group_alone_is_the_problem_of_its_component():
    choices, ties = tied(3)
    groups = group_choices(choices, ties)
    _, problem = luce_problem(choices, ties)
    for group in range(len(groups)):
        here, alone = groups.alone(group)
        kept, expected = problem.restrict(np.arange(problem.n_components) == group)
        np.testing.assert_array_equal(groups.alternatives[here], kept)
        scores = np.linspace(-1.0, 1.0, len(kept))
        assert alone.loss(scores) == pytest.approx(expected.loss(scores), rel=1e-12)
        np.testing.assert_allclose(alone.gradient(scores), expected.gradient(scores), atol=1e-9)


def test_losses_of_impossible_probabilities_are_numbers():
    from attomaton.solvers.soft.curvature import measure_slopes

    problem, scores = cycle_problem([1.0, 2.0, 3.0]), np.array([0.0, 900.0, -900.0])
    assert measure_slopes(problem, scores).loss.sum() == pytest.approx(problem.loss(scores), rel=1e-12)


def test_foreign_choices_are_refused():
    choices, ties = tied(0)
    with pytest.raises(MismatchedParts, match="come from different corpora"):
        group_choices(choices, tied(1, n=40, n_tokens=30)[1])
    some = ChoiceTable(choices.rows.slice(0, 1))
    with pytest.raises(MismatchedParts, match="come from different corpora"):
        group_choices(some, ties)
