"""Strategies: what fails is shown at its smallest, and there is enough in what they draw."""

import random

import numpy as np
import pytest
from hypothesis import find, given, settings, strategies as st

from tests.drawn import components_of
from tests.strategies import (
    edge_tables,
    embedded,
    luce_problems,
    many,
    orderings,
    orders,
    paper_draws,
    read_samples,
    sample_sets,
    tied_sets,
    unit_rows,
    vectors,
)

SEARCH = settings(max_examples=2_000, database=None, derandomize=False)


def smallest(strategy, condition, seed=0):
    return find(strategy, condition, settings=SEARCH, random=random.Random(seed))  # noqa: S311


def has_tie(samples):
    return not components_of(samples).is_acyclic


def has_three_tied(samples):
    return components_of(samples).sizes.max(initial=0) >= 3


def has_priority(samples):
    return components_of(samples).order.num_rows > 0


def has_stranger(samples):
    return any(label not in context for context, label in samples)


@pytest.mark.slow  # two thousand draws
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("condition", "n_samples", "n_positions", "n_used"),
    [(has_tie, 2, 4, 2), (has_three_tied, 3, 7, 3), (has_priority, 1, 2, 2), (has_stranger, 1, 1, 1)],
)
def test_sample_sets_shrink_to_the_fewest_samples_and_tokens(condition, n_samples, n_positions, n_used, seed):
    samples = smallest(sample_sets(), condition, seed)
    assert (len(samples), int(samples.lengths.sum())) == (n_samples, n_positions)
    assert len(set(samples.values.tolist())) == n_used


@pytest.mark.slow  # two thousand draws
def test_other_sets_shrink_as_far():
    for sets in (tied_sets(), paper_draws(), paper_draws(repeats=True)):
        samples = smallest(sets, has_tie)
        assert (len(samples), int(samples.lengths.sum())) == (2, 4)
    samples, embeddings = smallest(embedded(sample_sets()), lambda drawn: has_priority(drawn[0]))
    assert len(samples) == 1
    np.testing.assert_array_equal(embeddings, np.eye(samples.n_tokens, samples.n_tokens + 2))
    assert len(smallest(sample_sets(), lambda samples: len(samples) >= 7)) == 7
    many_ones = smallest(many(st.integers(0, 9), 40), lambda drawn: sum(drawn) >= 9)
    assert many_ones == [9]


@pytest.mark.slow  # two thousand draws
def test_the_simplest_of_each_kind():
    def anything(_):
        return True

    np.testing.assert_array_equal(smallest(unit_rows(3, 5), anything), np.eye(3, 5))
    np.testing.assert_array_equal(smallest(vectors(2, 3), anything), np.zeros((2, 3)))
    assert smallest(orderings(4), anything).tolist() == [0, 1, 2, 3]
    problem = smallest(luce_problems(), lambda drawn: len(np.unique(drawn.winner)) == 2)
    assert (problem.n_alternatives, len(problem.winner)) == (2, 2)
    order = smallest(orders(), lambda drawn: len(drawn.above) == 2)
    assert sorted(order.sizes.tolist()) == [1, 1, 1]
    table = smallest(edge_tables(), lambda edges: len(edges["winner"]) == 2)
    assert table["support"].tolist() == [1, 1]


@pytest.mark.parametrize("dim", [4, 5, 8])
def test_rows_are_of_length_one_and_independent(dim):
    @given(unit_rows(4, dim))
    def check(table):
        np.testing.assert_allclose(np.linalg.norm(table, axis=1), 1.0)
        assert np.linalg.matrix_rank(table) == 4

    check()


def test_rows_that_cannot_be_independent_differ_at_their_simplest():
    table = smallest(unit_rows(6, 3), lambda _: True)
    assert len(np.unique(table.round(9), axis=0)) == 6


def test_laws_have_something_to_speak_of():
    """Of 200 sample sets at least 60 have a tie, 60 a priority, and 30 a label outside of its context."""
    seen = []

    @settings(max_examples=200)
    @given(sample_sets())
    def look(samples):
        seen.append([has_tie(samples), has_priority(samples), has_stranger(samples), len(samples) > 20])

    look()
    ties, priorities, strangers, large = np.sum(seen, axis=0)
    assert ties >= 60
    assert priorities >= 60
    assert strangers >= 30
    assert large >= 40


def test_bytes_are_read_as_they_say():
    rows = [bytes([0, 0, 1, 2]), bytes([9, 5, 1]), bytes([250, 0])]
    assert list(read_samples(rows, 4, 3)) == [((0, 1, 2), 0), ((1, 1), 1), ((0,), 0)]
    strange = read_samples(rows, 4, 3, realisable=False)
    assert strange.labels.tolist() == [0, 1, 2]
    distinct = read_samples([bytes([3, 1, 1, 1, 1, 0])], 4, 4, distinct=True)
    assert list(distinct) == [((2, 3, 1, 0), 3)]
