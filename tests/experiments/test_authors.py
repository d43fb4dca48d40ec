"""The authors' own curves, against a plain reading of their code."""

import numpy as np
import pytest

from attomaton.claims.limits import dense, solve_trials
from attomaton.claims.measures import cyclic_coordinates, predict_target
from attomaton_experiments.authors import measure_authors, train_finite
from attomaton_experiments.published import run_published
from attomaton_experiments.settings import read_settings
from tests.claims.runs import global_run


def test_the_trained_finite_part_ends_near_the_exact_one():
    """Steps of 0.01 swing around W_fin; where nothing ties, it stays at 0."""
    trace = global_run()
    automata = solve_trials(trace)
    finite = train_finite(trace, automata)
    for trial, automaton in enumerate(automata):
        exact = dense(automaton.soft.weights)
        assert np.linalg.norm(finite[-1, trial] - exact) < 0.02
        assert (finite[:, trial] == 0).all() == (not exact.any())
    assert not finite[0].any()


def test_measures_are_those_of_the_definition():
    trace = global_run()
    automata = solve_trials(trace)
    target = predict_target(trace, automata)
    projected = np.einsum("rba,bax->rbx", cyclic_coordinates(target.axes, trace.weights), target.axes)
    found = measure_authors(trace, automata, projected.reshape(trace.weights.shape))
    finite = train_finite(trace, automata)
    record, trial = 50, 1
    weights, table = trace.weights[record, trial], trace.embeddings[trial]
    direction = dense(automata[trial].hard.weights)
    scales = np.linspace(0, 50, 200_001)
    apart = trace.weights[-1, trial] - finite[-1, trial]
    square = np.sum(apart**2) - 2 * scales * np.sum(apart * direction) + scales**2 * np.sum(direction**2)
    aim = scales[square.argmin()] * direction + finite[-1, trial]
    along = np.sum(aim * weights) / np.linalg.norm(aim) / np.linalg.norm(weights)
    assert found["authors_correlation"][record, trial] == pytest.approx(along, abs=1e-6)
    components, total = automata[trial].components, 0.0
    for context, _ in trace.samples[trial]:
        tokens = np.array(context)
        odds = np.exp(table[tokens] @ weights @ table[tokens[-1]])
        component = components.components_of(np.full(len(tokens), tokens[-1]), tokens)
        total += max(odds[component == number].sum() for number in set(component)) / odds.sum()
    mean = total / len(trace.samples[trial])
    assert found["authors_retrieved"][record, trial] == pytest.approx(mean, rel=1e-9)
    apart = np.linalg.norm(projected[record, trial].reshape(8, 8) - finite[record, trial])
    assert found["authors_distance"][record, trial] == pytest.approx(apart, rel=1e-9)


def test_every_published_number_is_beside_ours():
    settings = read_settings("published", trials=2)
    page = run_published({**settings, "experiments": ["scan-snap-4"]}, lambda *_: None)
    rows = page.numbers.to_pylist()
    assert len(rows) == 50
    assert all(abs(row["ours"] / row["published"] - 1) < 0.6 for row in rows)
    assert "figure_4.log" in page.text
