"""The study, in small: training that repeats and goes on, measures, tables and verdicts."""

import numpy as np
import pytest
import torch

import attomaton as at
from attomaton.base.errors import UnsupportedOption
from attomaton_experiments.head_study.audit import audit_model, correlate_tables, prepare_text
from attomaton_experiments.head_study.measures import explain_share, fit_scale
from attomaton_experiments.head_study.run import (
    StudyModel,
    align,
    judge_study,
    tell_closed,
    tell_course,
    tell_shares,
)
from attomaton_experiments.head_study.small import SmallConfig, SmallModel
from attomaton_experiments.head_study.training import SmallTraining, take_course
from attomaton_experiments.head_study.variants import VARIANTS, plan_training


@pytest.fixture(scope="module")
def text():
    """A chain of eight tokens: each is followed by one of three."""
    rng = np.random.default_rng(0)
    steps = rng.choice([1, 2, 5], 4000, p=[0.6, 0.3, 0.1])
    ids = np.cumsum(steps) % 8
    samples = at.Samples.from_windows(ids[:3500], window=6, n_tokens=8)
    automaton = at.learn(samples)
    answers = automaton, at.shrink(samples, strength=0.4)
    sizes = {"n_contexts": 150, "n_windows": 100}
    return prepare_text(ids[:3500], ids[3500:], samples, answers, automaton.components, **sizes)


def test_training_repeats_and_is_taken_up(tmp_path):
    training = SmallTraining(SmallConfig(4, longest=4, width=8), steps=5, batch_size=4, marks=(0, 2))
    ids = np.arange(60) % 4
    first, again = training.run(ids), training.run(ids)
    assert sorted(first.weights) == [0, 2, 5]
    for step, tables in first.weights.items():
        for name, table in tables.items():
            assert np.array_equal(table, again.weights[step][name])
    path = tmp_path / "kept" / "one.safetensors"
    take_course(training, ids, path)
    written = path.stat().st_mtime_ns
    taken = take_course(training, ids, path)
    assert path.stat().st_mtime_ns == written
    assert torch.equal(taken.last.tables["query_0"], first.last.tables["query_0"])
    with pytest.raises(UnsupportedOption, match="step 3 was not stored"):
        taken.at(3)
    path.write_bytes(path.read_bytes()[:-9])  # cut short: trained again
    assert sorted(take_course(training, ids[1:], path).weights) == [0, 2, 5]


def test_only_labels_in_the_context_count_where_that_is_asked():
    training = SmallTraining(SmallConfig(4, longest=3, width=8), steps=1, copying=True)
    model, rows = SmallModel(training.config), torch.tensor([[0, 1, 1, 0], [2, 3, 0, 1]])
    counted = model.loss(rows)[0, 1:]
    assert torch.isclose(training.mean_loss(model, rows), counted.mean())


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_model_of_the_study_has_a_plan(variant):
    training = plan_training(variant, 10, longest=8, steps=50, seed=3)
    assert training.seed == 3
    assert training.marks == (0, 30)
    with pytest.raises(UnsupportedOption, match="four heads"):
        plan_training("nothing", 10, longest=8, steps=50, seed=3)


def test_the_scale_is_the_best_of_a_grid():
    rng = np.random.default_rng(4)
    scores, offset = rng.normal(size=(2, 40, 5))
    attention = rng.dirichlet(np.ones(5), 40)
    found = fit_scale(scores, attention, offset)
    best = explain_share(attention, scores, found, offset)
    assert all(explain_share(attention, scores, found + step, offset) < best for step in (-0.01, 0.01))


def test_the_theorys_layer_is_explained_by_the_theory(text, tmp_path):
    runs = StudyModel("theory's layer", 400, 0).run(text, tmp_path)
    [head] = runs["heads"]
    assert head["shrink"] > 0.9
    assert head["obeyed"] == 1.0
    assert head["utility"] < head["shrink"]
    assert (tmp_path / "theorys-layer-0.safetensors").exists()
    assert {one["step"] for one in runs["course"]} == {0, 30, 100, 300, 800}
    assert runs["course"][-1]["pattern"] == pytest.approx(1.0, abs=1e-6)


def test_tables_and_verdicts_are_told(text):
    runs = [StudyModel("four heads", 30, seed).run(text, None) for seed in (0, 1)]
    heads, course = ([one for run in runs for one in run[name]] for name in ("heads", "course"))
    assert len(heads) == 8
    for grid in (*tell_shares(heads), tell_closed(heads), tell_course(course)):
        assert all(len(row) == len(grid.headers) for row in grid.rows)
    assert "±" in tell_shares(heads)[0].rows[0][2]
    assert {len(one) for one in align(heads + course)} == {len(align(heads + course)[0])}
    [plain, own] = judge_study(heads, {"plain": 1.0, "own": 0.0, "shrink": 0.9})
    assert (plain[0], own[0], plain[3], own[3]) == ("heads-plain", "heads-own", True, True)


def test_the_closed_form_follows_the_measured_table_where_labels_hang_on_the_query_alone(text):
    """The text is a chain, so nothing but the mean field is dropped."""
    course = plan_training("values and residual", 8, longest=6, steps=300, seed=0).run(text.train)
    [head] = audit_model(text, course.last, copying=False)
    assert head["correlation, closed"] > 0.9
    assert head["utility"] > 0.3


def test_a_table_correlates_with_itself(text):
    from attomaton.heads.utility.closed import find_closed_utility

    [table] = find_closed_utility(SmallModel(SmallConfig(8, width=8)), text.counts[False])
    assert correlate_tables(table, table) == pytest.approx(1.0)
