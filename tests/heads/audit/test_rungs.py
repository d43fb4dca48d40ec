"""Rungs of a model's own: each model is explained by its own utility, in the ladder and head by head."""

import numpy as np
import pytest

from attomaton.corpora.samples import Samples
from attomaton.heads.audit.contexts import show_head
from attomaton.heads.audit.explanations import Position
from attomaton.heads.audit.heads import audit_heads, table_of_heads
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.audit.rungs import (
    Closed,
    Measured,
    cut_windows,
    plain_rungs,
    settle_rungs,
    useful_rungs,
)
from attomaton.heads.model import Head
from attomaton.heads.utility.closed import count_pairs, find_closed_utility
from attomaton.heads.utility.measured import measure_utility
from attomaton_experiments.head_study.small import SmallConfig
from attomaton_experiments.head_study.training import SmallTraining


@pytest.fixture(scope="module")
def text():
    rng = np.random.default_rng(0)
    return [np.cumsum(rng.choice([1, 2, 5], 40, p=[0.6, 0.3, 0.1])) % 8 for _ in range(60)]


@pytest.fixture(scope="module")
def model(text):
    """Values, a residual stream and two heads, trained so far that the heads look by content."""
    config = SmallConfig(8, longest=12, width=16, n_heads=2)
    return SmallTraining(config, steps=400).run(np.concatenate(text)).last


def test_the_tables_are_those_of_the_model(text, model):
    closed, measured = useful_rungs(text, n_tokens=8, window=5)
    offsets = np.arange(0, 61) * 40
    samples = Samples.from_windows(np.concatenate(text), window=5, documents=offsets, n_tokens=8)
    for rung, tables in (
        (closed, find_closed_utility(model, count_pairs(samples))),
        (measured, measure_utility(model, cut_windows(text, 10), baseline="position")),
    ):
        made = rung.of(model)
        for place, table in enumerate(tables):
            assert made.values[place].tolist() == table.scores["score"].to_pylist()
            assert made.background[place].tolist() == table.background.tolist()


def test_windows_are_shorter_where_the_model_or_the_budget_asks(text, model, monkeypatch):
    wide = Measured(cut_windows(text, 30))
    assert np.isfinite(wide.of(model).values).all()  # the model takes 12 tokens
    asked = []

    def watch(_, rows, **how):
        asked.append((rows.shape, how))
        return measure_utility(model, rows[:3], **how)

    monkeypatch.setattr("attomaton.heads.audit.rungs.measure_utility", watch)
    monkeypatch.setattr("attomaton.heads.audit.rungs.MOST_PAIRS", 25 * 12 * 12)
    wide.of(model)
    assert asked == [((25, 13), {"baseline": "position"})]


def test_utility_explains_what_the_usual_rungs_leave(text, model):
    how = AuditSettings(window=8, longest=12)

    def rungs(documents):
        return (Position(), *useful_rungs(documents, n_tokens=8, window=8))

    found = audit_heads(model, text, rungs=rungs, settings=how)
    assert found.ladder.names == ("position", "utility in closed form", "utility")
    assert (np.array(found.ladder.added[1].value) > 0.1).any()
    shown = show_head(model, text, Head(0, 1), rungs=rungs, settings=how, examples=3)
    assert shown.table().num_rows == 3 * 9


def test_each_model_is_explained_by_its_own(text, model):
    """A model and itself as its own control: the same ladder, though rungs are made twice."""
    how = AuditSettings(window=8, longest=12)
    asked = []

    class Watched(Measured):
        def of(self, one):
            asked.append(one)
            return super().of(one)

    other = SmallTraining(model.config, steps=1).run(np.concatenate(text)).last
    audit_heads(model, text, rungs=(Position(), Watched(cut_windows(text, 10))), random=[other], settings=how)
    assert asked == [model, other]


def test_one_head_has_its_own_row(text, model):
    [table] = settle_rungs([Closed(Samples.from_windows(text[0], window=5, n_tokens=8))], model)
    one = table_of_heads(table, [Head(0, 1)], model)
    assert one.values.tolist() == [table.values[1].tolist()]
    assert one.background.tolist() == [table.background[1].tolist()]
    plain = plain_rungs()[0]
    assert table_of_heads(plain, [Head(0, 1)], model) is plain


def test_large_vocabularies_and_short_texts_have_fewer_rungs():
    assert [rung.name for rung in useful_rungs([[0, 1, 2]], n_tokens=50_000)] == ["utility"]
    assert useful_rungs([[0, 1], []], n_tokens=2) == ()
