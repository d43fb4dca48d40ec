"""The beginning of training at the sizes of the theory: bounds on many corpora, and real stories."""

import numpy as np
import pytest

from attomaton.claims.agreement import compare_beginning, compare_course
from attomaton.claims.beginning import verify_beginning
from attomaton.theories.beginning.course import follow_course
from attomaton.training.loop import Watch, train_deep
from attomaton.training.models.deep import DeepModel
from attomaton_experiments.beginning.sequences import read_sequences

WEIGHTS = ("attention", "positions", "values", "output")


@pytest.mark.slow
def test_the_bounds_of_one_layer_hold_on_two_hundred_random_corpora():
    rng = np.random.default_rng(0)
    for _ in range(200):
        window, steps = int(rng.integers(3, 13)), int(rng.integers(3, 9))
        step_size = 3 / (8 * steps * window**0.375) * float(rng.uniform(0.2, 1.0))
        size = int(rng.integers(500, 600))
        used = int(rng.integers(2, size))
        sequences = rng.integers(0, used, (int(rng.integers(1, 8)), window + 1))
        run = train_deep(sequences, None, step_size, steps=steps, n_tokens=size, watch=Watch(every=steps))
        verdicts = {one.claim: one.status.value for one in verify_beginning(run)}
        assert [verdicts[f"beginning-{name}"] for name in WEIGHTS] == ["holds"] * 4


@pytest.mark.slow
@pytest.mark.parametrize("n_layers", [2, 3])
def test_the_bounds_of_any_depth_hold_inside_their_range(n_layers):
    """L ≤ √T/4, η ≥ 1/T, s ≤ min(5/(8√T), 1/(12 L))/η: two or four steps on long sequences."""
    rng = np.random.default_rng(n_layers)
    window = 16 * n_layers**2
    longest = min(5 / (8 * window**0.5), 1 / (12 * n_layers))
    for _ in range(5):
        step_size, steps = 1 / window, int(longest * window + 1e-9)
        sequences = rng.integers(0, int(rng.integers(2, 60)), (3, window + 1))
        run = train_deep(sequences, DeepModel(n_layers=n_layers), step_size, steps=steps, n_tokens=60)
        verdicts = {one.claim: one.status.value for one in verify_beginning(run)}
        assert [verdicts[f"beginning-{name}"] for name in WEIGHTS] == ["holds"] * 4


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "n_layers"), [(0, 2), (1, 2), (2, 3)])
def test_on_stories_the_forecast_lasts_while_the_loss_has_hardly_fallen(tinystories, seed, n_layers):
    text = read_sequences(tinystories, 300, 32, "word-punct")
    model, watch = DeepModel(n_layers=n_layers), Watch(every=1)
    run = train_deep(text.some(160, seed), model, 2.0, steps=14, n_tokens=300, watch=watch)
    agreement = compare_beginning(run)
    early = (agreement.fallen[:, 0] <= 0.05) & (run.steps >= 3)
    assert early.sum() >= 5
    assert agreement.near["attention"].cosine[early].min() >= 0.98
    verdicts = {one.claim: one for one in verify_beginning(agreement)}
    assert verdicts["beginning-direction"].status.value == "holds"
    assert "300" in verdicts["beginning-output"].reason or "tokens" in verdicts["beginning-output"].reason


@pytest.mark.slow
def test_on_stories_attention_turns_and_its_course_is_predicted(tinystories):
    """The numbers of docs/beginning.md, at steps 10, 20 and 40."""
    text = read_sequences(tinystories, 300, 32, "word-punct")
    sequences = text.some(160, 0)
    run = train_deep(sequences, DeepModel(n_layers=2), 2.0, steps=40, n_tokens=300, watch=Watch(every=10))
    near = compare_beginning(run).near["attention"].cosine[:, 0, :, 0]
    course = follow_course(sequences, 300, step_size=2.0, steps=40, n_layers=2, every=10)
    along = compare_course(run, course)["attention"].cosine[:, 0, :, 0]
    assert near[1].min() >= 0.98
    assert near[4].min() < 0.5
    assert along[4].min() >= 0.8
    assert (along[2:] >= near[2:]).all()
