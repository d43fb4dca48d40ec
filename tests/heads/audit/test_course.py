"""The audit over training: the same contexts at each step, sorted, one model at a time."""

import gc
import weakref

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import attomaton as at
from attomaton.base.errors import MismatchedParts, SameWeights, UnreadableModel, UnsupportedOption
from attomaton.heads.audit.course import audit_course
from attomaton.heads.audit.heads import audit_heads
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.audit.randomised import rotate_beside
from attomaton.heads.audit.rungs import plain_rungs
from attomaton.heads.audit.saved import read_saved
from attomaton.heads.audit.steps import ModelStep, find_steps
from attomaton.heads.opening import open_model
from attomaton.heads.trained import watch_trace
from tests.heads.audit.standin import StandIn, draw_documents
from tests.heads.made import write

HOW = AuditSettings(window=6, per_document=6, length=10)


def folders(place, **changes):
    """Checkpoints of a GPT-2 as trainers write them, in an order that is not that of their names."""
    for number, step in enumerate((1000, 200, 30)):
        tensors = write(place / f"checkpoint-{step}", "gpt2", n_layer=1, n_head=2, vocab_size=12, **changes)
        assert tensors
        if number:  # heads grow with the steps: at first they look everywhere
            from safetensors.torch import save_file

            grown = {name: one * (step / 1000) for name, one in tensors.items() if "c_attn" in name}
            save_file(tensors | grown, place / f"checkpoint-{step}" / "model.safetensors")
    return [str(place / f"checkpoint-{step}") for step in (1000, 200, 30)]


def test_checkpoints_of_a_trainer(tmp_path):
    sources, documents = folders(tmp_path), draw_documents()
    course = audit_course(sources, documents, random=1, causal="all", settings=HOW)
    assert course.steps == (30, 200, 1000)
    table = course.table()
    assert table["step"].to_pylist() == [30, 30, 200, 200, 1000, 1000]
    assert table["head"].to_pylist() == ["0.0", "0.1"] * 3
    assert table["model"].to_pylist()[-1] == sources[0]
    for source, audit in zip(sources[::-1], course.audits, strict=True):
        model = open_model(source)
        alone = audit_heads(
            model, documents, random=[rotate_beside(model, seed=0)], causal="all", settings=HOW
        )
        assert audit.table().equals(alone.table())
    kept, about = read_saved(course.save(tmp_path / "course.parquet"))
    assert kept.equals(table)
    assert about.n_random == 1
    assert about.rungs == course.rungs
    assert pq.read_table(tmp_path / "course.parquet").num_rows == 6
    assert "Rise in loss with the head's mean pattern" in str(course)
    assert "step 1,000" in str(course)


@pytest.mark.slow  # trains
def test_a_real_training_ends_as_the_audit_of_its_last_step(tmp_path):
    documents = draw_documents(n=24, n_tokens=8, length=24)
    samples = at.Samples.from_windows(np.concatenate(documents), window=6, n_tokens=8)
    trace = at.train(samples, at.AttentionModel(), at.GradientDescent(2.0), steps=36, out=tmp_path / "run")
    steps = find_steps([str(tmp_path / "run")], most=3)
    course = audit_course(steps, documents, random=1, causal="all", settings=HOW)
    assert course.steps == (0, 18, 36)
    model = watch_trace(trace)
    alone = audit_heads(model, documents, random=[rotate_beside(model, seed=0)], causal="all", settings=HOW)
    assert course.audits[-1].table().equals(alone.table())
    assert not course.shares[0].any()  # W(0) = 0: there is nothing to explain
    assert course.shares[-1, -1].max() > 0.05
    assert course.audits[-1].causal is None
    assert "its loss is infinite" in str(course)


def test_rungs_are_made_once_and_models_are_held_one_at_a_time():
    made, alive, most = [], weakref.WeakSet(), []

    def rungs(documents):
        made.append(len(documents))
        return plain_rungs()

    def opening(seed):
        def open_it():
            gc.collect()
            most.append(len(alive))
            model = StandIn(n_layers=1, seed=seed)
            alive.add(model)
            return model

        return open_it

    models = [ModelStep(step, f"step {step}", opening(step)) for step in range(3)]
    told = []
    from attomaton.base.progress import Stages

    audit_course(models, draw_documents(), rungs=rungs, settings=HOW, progress=Stages(told.append))
    assert len(made) == 1
    assert max(most) <= 1
    assert any(one.startswith("step 2 (3 of 3): recording attention") for one in told)


def test_the_same_contexts_at_every_step():
    seen = []

    class Noted(StandIn):
        def watch(self, tokens, **edits):
            seen[-1].append(np.asarray(tokens).tobytes())
            return super().watch(tokens, **edits)

    def opening(seed):
        def open_it():
            seen.append([])
            return Noted(n_layers=1, seed=seed)

        return open_it

    audit_course([ModelStep(one, str(one), opening(one)) for one in (0, 7)], draw_documents(), settings=HOW)
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_tokens": 13}, "step-1 has a vocabulary of 12 tokens, but step-2 has 13"),
        ({"n_heads": 1}, "step-1 has 2 heads per layer, but step-2 has 1"),
        ({"n_layers": 1}, "step-1 has 2 layers, but step-2 has 1"),
        ({"longest": 32}, "step-1 reads contexts of up to 64 tokens, but step-2 of up to 32"),
    ],
)
def test_models_of_other_shapes_are_refused(change, said):
    models = [ModelStep(1, "step-1", StandIn), ModelStep(2, "step-2", lambda: StandIn(**change))]
    with pytest.raises(MismatchedParts, match=said):
        audit_course(models, draw_documents(), settings=HOW)


def test_a_checkpoint_that_is_served_twice_is_named(recwarn):
    """The same weights under two names are no two steps of a training."""
    documents = draw_documents()
    models = [StandIn(n_layers=1), StandIn(n_layers=1, seed=1), StandIn(n_layers=1)]
    with pytest.warns(SameWeights, match=r"\(step 1\) and .* \(step 3\) give identical numbers"):
        audit_course(models, documents, steps=[1, 2, 3], settings=HOW)
    recwarn.clear()
    audit_course(models[:2], documents, steps=[1, 2], settings=HOW)
    assert not [one for one in recwarn if one.category is SameWeights]


def test_steps_that_are_not_said():
    documents = draw_documents()
    with pytest.raises(UnsupportedOption, match=r"the step of a \w+ is unknown; give"):
        audit_course([StandIn()], documents)
    with pytest.raises(MismatchedParts, match="1 models and 2 steps"):
        audit_course([StandIn()], documents, steps=[1, 2])
    with pytest.raises(MismatchedParts, match="both at step 1"):
        audit_course([StandIn(), StandIn()], documents, steps=[1, 1])
    with pytest.raises(UnsupportedOption, match="at least one model"):
        audit_course([], documents)
    with pytest.raises(UnreadableModel, match="not named after a step"):
        audit_course(["final"], documents)


def test_the_picture_has_three_maps():
    course = audit_course([StandIn(), StandIn(seed=1)], draw_documents(), steps=[0, 10], settings=HOW)
    axes = course.plot()
    assert [one.get_title(loc="left") for one in axes][2] == "next-token excess"
    assert [text.get_text() for text in axes[0].get_yticklabels()] == ["0.0", "0.1", "1.0", "1.1"]
    assert [text.get_text() for text in axes[0].get_xticklabels()] == ["0", "10"]


def test_documents_of_a_course_are_taken_by_their_place():
    shuffled = pd.Series(draw_documents()).sample(frac=1, random_state=0)
    one, other = (
        audit_course([StandIn(n_layers=1)], held, steps=[1], settings=HOW)
        for held in (shuffled, list(shuffled))
    )
    assert one.table().equals(other.table())
