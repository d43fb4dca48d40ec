"""Fast-forward against plain gradient descent, and against itself."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.drawn import components_of, embeddings_for, paper_draw
from tests.strategies import realisable_sets, sample_sets, unit_rows, vectors
from tests.trajectory.definition import descend_by_definition

import attomaton as at
from attomaton.base.errors import MismatchedParts, UncertifiedSolution, UnsupportedOption
from attomaton.trajectory.flow.implicit import FOURTH_ORDER, STAGE_TIMES, STAGES, THIRD_ORDER

STEPS = 3_000


def dense(weights):
    return weights if isinstance(weights, np.ndarray) else weights.toarray()


@given(realisable_sets(max_samples=12), st.none() | vectors(6, 6), st.sampled_from([0.1, 1.0]))
def test_it_is_where_plain_descent_gets(samples, drawn, step_size):
    size = samples.n_tokens
    start = None if drawn is None else 0.25 * drawn[:size, :size]
    options = {"step_size": step_size, "start": start}
    walked = descend_by_definition(samples, np.eye(size), n_steps=STEPS, **options)
    trajectory = at.fast_forward(samples, to=STEPS, **options)
    assert np.linalg.norm(dense(trajectory.weights_at(STEPS)) - walked) <= 1e-4 + trajectory.error_at(STEPS)
    coupled = at.fast_forward(samples, embeddings=np.eye(size), to=STEPS, **options)
    assert np.linalg.norm(coupled.weights_at(STEPS) - walked) <= 1e-4 + coupled.error_at(STEPS)


@settings(max_examples=15)
@given(
    realisable_sets(max_samples=12),
    st.integers(2, 8).flatmap(lambda dim: unit_rows(6, dim)),
    st.floats(0.5, 2.0),
)
def test_any_embeddings_will_do(samples, rows, length):
    embeddings = length * rows[: samples.n_tokens]
    walked = descend_by_definition(samples, embeddings, step_size=0.5, n_steps=STEPS)
    trajectory = at.fast_forward(samples, embeddings=embeddings, step_size=0.5, to=STEPS)
    assert np.linalg.norm(trajectory.weights_at(STEPS) - walked) <= 1e-3 + trajectory.error_at(STEPS)


@pytest.mark.slow  # long descent
@pytest.mark.parametrize(
    ("step_size", "length"), [(1e-3, 1.0), (1e-2, 1.0), (1.0, 0.1), (1.0, 1.0), (3.0, 1.0)]
)
def test_the_error_estimate_covers_the_error_for_small_and_large_steps(step_size, length):
    for seed in range(4):
        samples, embeddings = paper_draw(seed, n_samples=8), length * embeddings_for(seed, 6, 8)
        trajectory = at.fast_forward(samples, embeddings=embeddings, step_size=step_size, to=2e4)
        for step in (2_000, 20_000):
            walked = descend_by_definition(samples, embeddings, step_size=step_size, n_steps=step)
            error = np.linalg.norm(trajectory.weights_at(step) - walked)
            assert error <= 1.2 * trajectory.error_at(step)
            assert error <= 1e-3


@pytest.mark.slow  # long descent
def test_the_error_estimate_holds_in_a_corpus_where_steps_are_small():
    rng = np.random.default_rng(0)
    contexts = rng.integers(0, 100, (4_000, 8))
    labels = [int(rng.choice(context)) for context in contexts]
    trajectory = at.fast_forward(at.Samples.from_lists(contexts.tolist(), labels, n_tokens=100), to=5_000)
    for rows, track in trajectory._tracks:
        for step in (500, 5_000):
            walked = track._flow.descend(track._start, 1.0, step)
            assert (track._flow.lengths(track.at(step).point - walked) <= 1.5 * track.at(step).error).all()
            assert len(rows) == len(walked)


@given(sample_sets(min_samples=3, max_samples=30))
def test_queries_alone_go_where_all_together_go(samples):
    """The two solvers share no line below the integrator, up to steps where doubles hold no 1 − p."""
    alone = at.fast_forward(samples, to=1e12)
    together = at.fast_forward(samples, embeddings=np.eye(samples.n_tokens), to=1e12)
    for step in (500, 1e5, 1e12):
        allowed = 1e-6 + alone.error_at(step) + together.error_at(step)
        assert np.linalg.norm(dense(alone.weights_at(step)) - together.weights_at(step)) <= allowed


def test_the_method_has_order_four_with_order_three_inside():
    """Its order conditions, for the coefficients as they stand."""
    matrix = np.zeros((5, 5))
    for at_row, row in enumerate(STAGES):
        matrix[at_row, : len(row)] = row
        matrix[at_row, at_row] = 0.25
    times, weights, compared = np.array(STAGE_TIMES), np.array(FOURTH_ORDER), np.array(THIRD_ORDER)
    assert np.allclose(matrix.sum(axis=1), times, atol=1e-14)
    assert np.allclose(matrix[-1], weights, atol=1e-14)  # stiffly accurate
    conditions = {
        1: [(np.ones(5), 1)],
        2: [(times, 1 / 2)],
        3: [(times**2, 1 / 3), (matrix @ times, 1 / 6)],
        4: [
            (times**3, 1 / 4),
            (times * (matrix @ times), 1 / 8),
            (matrix @ times**2, 1 / 12),
            (matrix @ matrix @ times, 1 / 24),
        ],
    }
    for order, pairs in conditions.items():
        for vector, value in pairs:
            assert weights @ vector == pytest.approx(value, abs=1e-12)
            if order <= 3:
                assert compared @ vector == pytest.approx(value, abs=1e-12)


def test_correlation_rises_and_loss_falls_all_the_way():
    for seed in range(5):
        samples, embeddings = paper_draw(seed), embeddings_for(seed, 6, 8)
        hard = at.solve_graph_svm(components_of(samples), embeddings=embeddings).expect()
        trajectory = at.fast_forward(samples, embeddings=embeddings)
        curves = trajectory.curves(np.logspace(4, 12, 17), hard.weights)
        assert (np.diff(curves.column("correlation").to_numpy()) > 0).all()
        assert (np.diff(curves.column("loss").to_numpy()) <= 1e-15).all()
        assert (np.diff(curves.column("norm").to_numpy()) > 0).all()


def test_choices_and_components_serve_in_place_of_samples():
    samples = paper_draw(3, repeats=True)
    components = components_of(samples)
    one = at.fast_forward(samples, to=1e5).weights_at(1e5)
    other = at.fast_forward(at.extract_choices(samples), components=components, to=1e5).weights_at(1e5)
    assert abs(one - other).max() == 0.0


def test_a_step_beyond_the_end_is_computed_when_asked_for():
    samples = paper_draw(1)
    short, long = at.fast_forward(samples, to=1e3), at.fast_forward(samples, to=1e7)
    assert abs(short.weights_at(1e7) - long.weights_at(1e7)).max() <= short.error_at(1e7) + 1e-9
    assert abs(long.weights_at(0)).sum() == 0.0


def test_what_no_sample_speaks_about_stays_where_it_started():
    samples = at.Samples.from_lists([[0, 1]], [0], n_tokens=4)
    start = np.arange(16.0).reshape(4, 4)
    moved = at.fast_forward(samples, start=start, to=100).weights_at(100).toarray() - start
    assert moved[0, 1] > 0 > moved[1, 1]
    moved[:2, 1] = 0.0
    assert not moved.any()


def test_wrong_use_is_told():
    samples = paper_draw(0)
    with pytest.raises(UnsupportedOption, match="give components"):
        at.fast_forward(at.extract_choices(samples))
    with pytest.raises(UnsupportedOption, match="give a finite number of at least"):
        at.fast_forward(samples, step_size=0)
    with pytest.raises(UnsupportedOption, match="step is -1"):
        at.fast_forward(samples, to=10).weights_at(-1)
    with pytest.raises(UnsupportedOption, match="start has shape"):
        at.fast_forward(samples, start=np.eye(3))
    with pytest.raises(UnsupportedOption, match="finite numbers"):
        at.fast_forward(samples, embeddings=np.eye(6), start=np.full((6, 6), np.nan))
    restricted = at.extract_choices(samples, components_of(samples))
    with pytest.raises(MismatchedParts, match="extract_choices"):
        at.fast_forward(restricted, components=components_of(samples))
    many = at.Samples.from_lists(
        [[i % 300, (7 * i + 1) % 300] for i in range(3_000)], [i % 300 for i in range(3_000)]
    )
    with pytest.raises(UnsupportedOption, match="too many"):
        at.fast_forward(many, embeddings=np.eye(300))
    fewer = at.find_components(at.extract_edges(samples).filter(min_support=100))
    with pytest.raises(MismatchedParts, match="no edges left out"):
        at.fast_forward(samples, components=fewer)
    with pytest.raises(MismatchedParts, match="shape"):
        at.fast_forward(samples, to=10).curves([5], np.eye(3))
    with pytest.raises(UncertifiedSolution, match="larger rtol"):
        at.fast_forward(samples, to=1e6, rtol=1e-17)


@pytest.mark.parametrize("embeddings", [None, np.eye(3)])
def test_it_can_be_pickled(embeddings):
    samples = at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    trajectory = at.fast_forward(samples, embeddings=embeddings, to=1e4)
    again = pickle.loads(pickle.dumps(trajectory))  # noqa: S301  our own bytes
    np.testing.assert_array_equal(dense(again.weights_at(1e5)), dense(trajectory.weights_at(1e5)))
    assert again.edge == trajectory.edge


def test_an_automaton_that_was_stopped_can_be_pickled():
    samples = at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    auto = at.learn(samples)
    auto.at(100)
    again = pickle.loads(pickle.dumps(auto))  # noqa: S301  our own bytes
    assert again.retrieve([1, 0, 2]).tolist() == auto.retrieve([1, 0, 2]).tolist()
