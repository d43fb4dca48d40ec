"""The beginning of training: forecasts against runs, bounds inside their range, and where attention turns."""

import numpy as np
import pytest

from attomaton.base.errors import MismatchedParts
from attomaton.claims.agreement import begin_from, compare_beginning, compare_course, find_crossings
from attomaton.claims.beginning import BEGINNING_CLAIMS, judge_course, verify_beginning
from attomaton.theories.beginning.course import follow_course
from attomaton.training.loop import Watch, train_deep
from attomaton.training.models.deep import DeepModel
from attomaton.training.steps import Adam
from tests.claims.first_steps import bigrams_with_copies, forecast_in_loops

NAMES = ("attention", "positions", "values", "output")


def status_of(verdicts):
    return {one.claim: one.status.value for one in verdicts}


@pytest.mark.parametrize("seed", range(3))
def test_the_forecast_is_that_of_plain_loops(seed):
    rng = np.random.default_rng(seed)
    sequences = rng.integers(0, 7, (9, 6))
    weights = begin_from(sequences, 8).weights_at(6, 0.5)
    for name, told in forecast_in_loops(sequences, 8, 6, 0.5).items():
        np.testing.assert_allclose(getattr(weights, name), told, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    ("n_layers", "step_size", "cosine", "size"), [(1, 0.1, 0.99999, 0.005), (3, 1.0, 0.9999, 0.1)]
)
def test_ten_steps_are_predicted(n_layers, step_size, cosine, size):
    sequences = bigrams_with_copies(np.random.default_rng(0))
    run = train_deep(
        sequences, DeepModel(n_layers=n_layers), step_size, steps=10, n_tokens=40, watch=Watch(every=10)
    )
    told = forecast_in_loops(sequences, 40, 10, step_size)
    agreement = compare_beginning(run)
    for name in NAMES:
        near = agreement.near[name]
        assert near.cosine[-1].min() >= cosine, name
        assert np.abs(near.size[-1] - 1).max() <= size, name
        weights = getattr(run.at(10), name)
        flat = weights.reshape(1 if name == "output" else n_layers, -1)
        cosines = flat @ told[name].ravel() / np.linalg.norm(flat, axis=1) / np.linalg.norm(told[name])
        np.testing.assert_allclose(cosines, near.cosine[-1].ravel(), rtol=1e-9)


def test_the_bounds_hold_inside_their_range_on_random_corpora():
    """Theorem of one layer: T ≥ 3, V ≥ 500, s ≤ 3/(8 η T^{3/8}), at the last step of that range."""
    rng = np.random.default_rng(1)
    for _ in range(BOUND_TRIALS):
        window, steps = int(rng.integers(3, 9)), int(rng.integers(3, 8))
        step_size = 3 / (8 * steps * window**0.375)
        used = int(rng.integers(2, 500))  # from a few tokens, strongly correlated, to all
        sequences = rng.integers(0, used, (int(rng.integers(1, 6)), window + 1))
        run = train_deep(sequences, None, step_size, steps=steps, n_tokens=500, watch=Watch(every=steps))
        verdicts = verify_beginning(run)
        assert [status_of(verdicts)[f"beginning-{name}"] for name in NAMES] == ["holds"] * 4


BOUND_TRIALS = 20
"""The 200 corpora of the issue are in tests/theory/test_beginning.py."""


def test_another_corpus_fails():
    rng = np.random.default_rng(2)
    sequences, other = rng.integers(0, 4, (2, 30, 5))
    run = train_deep(sequences, None, 0.05, steps=4, n_tokens=500)
    assert set(status_of(verify_beginning(run)).values()) <= {"holds", "not_applicable"}
    wrong = begin_from(500 - 1 - other, 500)
    found = status_of(verify_beginning(compare_beginning(run, wrong)))
    assert found["beginning-direction"] == "fails"
    assert [found[f"beginning-{name}"] for name in NAMES].count("fails") >= 1


def test_what_the_theorem_does_not_speak_of_is_not_judged():
    sequences = np.random.default_rng(3).integers(0, 6, (10, 5))

    def reasons(model, step=0.01, n_tokens=500):
        run = train_deep(sequences, model, step, steps=4, n_tokens=n_tokens)
        return {one.claim: one.reason for one in verify_beginning(run) if one.value is None}

    assert "feed-forward" in reasons(DeepModel(hidden=3))["beginning-values"]
    assert "relative positions" in reasons(DeepModel(positions=False))["beginning-values"]
    assert "equal initial weights" in reasons(DeepModel(n_heads=2))["beginning-output"]
    assert "start with deviation" in reasons(DeepModel(start=1e-9))["beginning-output"]
    assert "500 tokens" in reasons(None, n_tokens=6)["beginning-output"]
    assert "plain gradient descent" in reasons(None, Adam(0.01))["beginning-direction"]
    assert "outgrown its start" in reasons(DeepModel(start=0.1))["beginning-direction"]
    assert "to the end of the run" in reasons(None)["beginning-turn"]


def test_each_head_that_starts_equal_has_the_forecast():
    sequences = bigrams_with_copies(np.random.default_rng(4), n_tokens=12, shape=(60, 9))
    run = train_deep(sequences, DeepModel(n_layers=2, n_heads=3), 0.2, steps=6, n_tokens=12)
    near = compare_beginning(run).near
    for name in ("attention", "positions", "values"):
        assert near[name].cosine[-1].shape == (1, 2, 3)
        assert near[name].cosine[-1].min() > 0.999
        assert np.abs(near[name].size[-1] - 1).max() < 0.1


def test_attention_turns_after_the_first_steps():
    sequences = bigrams_with_copies(np.random.default_rng(5), n_tokens=12, shape=(60, 9), copies=0.1)
    run = train_deep(sequences, DeepModel(n_layers=2), 2.0, steps=400, n_tokens=12, watch=Watch(every=5))
    agreement = compare_beginning(run)
    found = {one.claim: one for one in verify_beginning(agreement)}
    turned = np.isfinite(agreement.turns)
    if turned.any():
        assert found["beginning-turn"].status.value == "holds"
        assert found["beginning-turn"].value == np.nanmin(agreement.turns)
    else:
        assert found["beginning-turn"].value is None
    assert agreement.table().num_rows == len(run.steps) * (3 * 2 + 1)


def test_crossings_are_interpolated_and_a_start_below_is_no_turn():
    steps = np.array([0, 2, 4, 6])
    curves = np.array([[0.1, 1.0, np.nan], [0.9, 1.0, np.nan], [0.3, 0.9, 1.0], [0.2, 0.8, 0.0]])
    found = find_crossings(steps, curves, 0.5)
    np.testing.assert_allclose(found, [2 + 2 * 0.4 / 0.6, np.nan, 5.0])


def test_forecasts_of_other_sizes_are_refused():
    run = train_deep(np.array([[0, 1, 2, 0]]), steps=2)
    with pytest.raises(MismatchedParts, match="the forecasts differ"):
        compare_beginning(run, begin_from(np.array([[0, 1, 2]]), 3))


def test_claims_are_named_after_the_beginning():
    assert all(claim.name.startswith("beginning-") for claim in BEGINNING_CLAIMS)


def test_a_small_run_is_along_its_course():
    corpus = np.random.default_rng(0).integers(0, 5, (40, 7))
    trace = train_deep(corpus, step=1.0, steps=30)
    near = compare_course(trace, follow_course(corpus, 5, step_size=1.0, steps=30))
    assert judge_course(compare_beginning(trace), near["attention"]).status.value == "holds"
