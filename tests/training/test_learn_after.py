"""Training first and learning afterwards, into one folder: both stand side by side, and neither is lost."""

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import MismatchedParts, UnwritablePlace
from attomaton.training.checkpoints import Store, read_trace

TEXT = ["to be or not to be or to do be to be or not", "be or to do not be to or be"]
MORE = {"window": 4}


def train(out, steps=40, *, callbacks=(), **options):
    """A short training, kept in a folder."""
    watch = at.training.Watch(callbacks)
    store = Store(out, every=10, **options)
    step = at.GradientDescent(1.0)
    return at.train(TEXT, at.AttentionModel(), step, steps=steps, watch=watch, out=store, **MORE)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_run_is_learned_beside_the_training_that_was_there_first(engine, tmp_path):
    trained = train(tmp_path / "run")
    learned = at.learn(TEXT, engine=at.engines.Engine(engine, memory="1GB"), out=tmp_path / "run", **MORE)
    assert np.array_equal(read_trace(tmp_path / "run").weights, trained.weights)
    assert at.Automaton.load(tmp_path / "run").predict("to be") == learned.predict("to be")
    again = train(tmp_path / "run", resume=True)  # it is finished, and read back
    assert np.array_equal(again.weights, trained.weights)
    at.learn(TEXT, out=tmp_path / "other", **MORE)
    train(tmp_path / "other")  # and in the other order

    def names(run):
        files = (path.relative_to(tmp_path / run) for path in (tmp_path / run).rglob("*"))
        return sorted(map(str, files))

    assert names("run") == names("other")


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_run_of_other_samples_is_refused_and_the_training_stays(engine, tmp_path):
    trained = train(tmp_path / "run")
    with pytest.raises(MismatchedParts, match=r"the run in .*/run was learned from other samples"):
        at.learn(TEXT, window=2, engine=at.engines.Engine(engine, memory="1GB"), out=tmp_path / "run")
    assert np.array_equal(read_trace(tmp_path / "run").weights, trained.weights)


def test_an_unfinished_training_is_kept_and_can_be_resumed(tmp_path):
    def stop(step, _):
        if step == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", callbacks=[stop])
    at.learn(TEXT, out=tmp_path / "run", **MORE)
    resumed = train(tmp_path / "run", resume=True)
    assert np.array_equal(resumed.weights, train(tmp_path / "other").weights)
    assert at.Automaton.load(tmp_path / "run").predict("to be")


def test_a_run_that_is_there_is_replaced_only_where_that_is_asked_for(tmp_path):
    train(tmp_path / "run")
    at.learn(TEXT, out=tmp_path / "run", **MORE)
    with pytest.raises(UnwritablePlace, match="and a training, which would be removed too"):
        at.learn(TEXT, out=tmp_path / "run", **MORE)
    at.learn(TEXT, out=tmp_path / "run", overwrite=True, **MORE)
    assert not (tmp_path / "run" / "training").exists()


def test_files_of_others_beside_a_training_are_never_replaced(tmp_path):
    train(tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(UnwritablePlace, match=r"notes\.txt"):
        at.learn(TEXT, out=tmp_path / "run", **MORE)
