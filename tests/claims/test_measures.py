import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import attomaton as at
from attomaton.claims.limits import solve_trials
from attomaton.claims.measures import measure_trace
from attomaton.training.loop import Watch, train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import RandomUnit
from attomaton.training.steps import GradientDescent
from tests.claims.runs import global_run
from tests.strategies import ordered_sets


def curves_by_definition(trace, automaton, trial):
    """Word for word, one record after the other."""
    table, components = trace.embeddings[trial], automaton.components
    nodes = list(components.nodes.to_pylist())
    ties = [
        np.outer(table[a["token"]] - table[b["token"]], table[a["query"]]).ravel()
        for a in nodes
        for b in nodes
        if a["component"] == b["component"] and a["token"] < b["token"]
    ]
    span = np.linalg.pinv(np.array(ties)) @ np.array(ties) if ties else np.zeros((table.shape[1] ** 2,) * 2)
    hard, soft = automaton.hard.weights.ravel(), automaton.soft.weights.ravel()
    for weights in trace.weights[:, trial]:
        flat, below, n = weights.ravel(), 0.0, 0
        for context, label in trace.samples[trial]:
            if label not in context:
                continue
            n += 1
            scores = table[list(context)] @ weights @ table[context[-1]]
            probability = np.exp(scores) / np.exp(scores).sum()
            own = components.component(context[-1], label)
            below += sum(
                p
                for x, p in zip(context, probability, strict=True)
                if components.component(context[-1], x) != own
            )
        outside = flat - span @ flat
        yield (
            np.linalg.norm(flat),
            flat @ hard / (np.linalg.norm(flat) * np.linalg.norm(hard)),
            np.linalg.norm(span @ flat - soft),
            outside @ hard / (np.linalg.norm(outside) * np.linalg.norm(hard)),
            below / n,
        )


@given(ordered_sets(max_tokens=5))
def test_curves_are_what_their_definition_says(samples):
    model = AttentionModel(RandomUnit(samples.n_tokens + 1), start=1.0)
    trace = train(samples, model, GradientDescent(0.5), steps=6, trials=2, watch=Watch(every=2))
    automata = solve_trials(trace)
    curves = measure_trace(trace, automata)
    names = ("norm", "correlation", "finite_distance", "outside_correlation", "missed")
    for trial, automaton in enumerate(automata):
        plain = np.array(list(curves_by_definition(trace, automaton, trial))).T
        for name, values in zip(names, plain, strict=True):
            np.testing.assert_allclose(getattr(curves, name)[:, trial], values, rtol=1e-7, atol=1e-9)


def test_published_curves_end_where_they_were_published():
    trace = global_run()
    curves = measure_trace(trace, solve_trials(trace))
    assert (curves.correlation[-1] > 0.96).all()
    assert (curves.outside_correlation[-1] >= curves.correlation[-1]).all()
    assert (curves.finite_distance[-1] < 0.013).all()
    assert (curves.retrieved[-1] > 0.99).all()
    np.testing.assert_allclose(np.exp(-curves.surprise), curves.retrieved, rtol=1e-12)
    table = curves.summary()
    assert table.num_rows == len(trace.steps)
    assert table.column("correlation_mean")[-1].as_py() == pytest.approx(curves.correlation[-1].mean())
    assert isinstance(table, pa.Table)


def test_automata_of_another_run_are_refused():
    trace = global_run()
    with pytest.raises(at.AttomatonError, match="solve_trials"):
        measure_trace(trace, solve_trials(trace)[:2])


@pytest.mark.timing
def test_curves_of_a_hundred_trials_take_less_than_a_third_of_a_second():
    trace = global_run(100)
    automata = solve_trials(trace)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        measure_trace(trace, automata)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.3
