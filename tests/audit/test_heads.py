"""The audit of all heads at once."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from attomaton.audit.causal import Contexts, replace_heads
from attomaton.audit.heads import audit_heads
from attomaton.audit.ladder import Position
from attomaton.audit.prepared import Audit
from attomaton.audit.rows import split_documents
from attomaton.audit.usual import learned_rungs, plain_rungs
from attomaton.errors import InvalidSamples, UnsupportedOption
from tests.audit.standin import StandIn, draw_documents

DOCUMENTS = draw_documents(30)
MODEL = StandIn(slope=0.1)
HOW = Audit(window=8, per_document=10, length=16)


def rungs(documents):
    return (*plain_rungs(documents, n_tokens=12), *learned_rungs(documents, n_tokens=12, window=8))


@pytest.fixture(scope="module")
def audit():
    return audit_heads(MODEL, DOCUMENTS, rungs=rungs, random=[StandIn(seed=seed) for seed in (1, 2)], how=HOW)


def test_every_head_has_a_row_with_all_that_was_measured(audit, tmp_path):
    table = audit.table()
    assert table["head"].to_pylist() == ["0.0", "0.1", "1.0", "1.1"]
    for name in ("position", "key token", "induction", "same token", "PMI", "automaton", "shrink"):
        assert {f"explained {name}", f"added {name}", f"z {name}", f"alone {name}"} <= set(table.column_names)
    for name in ("alone last", "alone frequency", "alone bigram", "pattern_rise", "ablation_rise", "seeks"):
        assert name in table.column_names
    assert pq.read_table(audit.save(tmp_path / "audit.parquet")).equals(table)
    assert audit.n_random == 2
    assert audit.n_documents == 12


def test_pattern_and_ablation_are_shown_together(audit):
    shown = str(audit)
    assert "pattern" in shown
    assert "output" in shown
    assert "no evidence about where a head looks" in shown
    assert "2 models with random weights" in shown


def test_what_is_scored_was_not_fitted_on(audit):
    scored = split_documents(30, share=0.6, seed=0)[1]
    contexts = Contexts.of([DOCUMENTS[one] for one in scored], length=16, n_tokens=12)
    np.testing.assert_allclose(audit.causal.pattern.value, replace_heads(MODEL, contexts).pattern.value)
    seen = []
    audit_heads(MODEL, DOCUMENTS, rungs=lambda some: seen.append(some) or [Position()], how=HOW)
    assert len(seen[0]) == 18


def test_an_audit_is_drawn(audit):
    import matplotlib as mpl

    mpl.use("agg")
    assert audit.plot().get_ylabel() == "explained share"


def test_wrong_asking_is_refused():
    with pytest.raises(InvalidSamples, match="there is one; give several"):
        audit_heads(MODEL, DOCUMENTS[:1])
    with pytest.raises(UnsupportedOption):
        Audit(window=1)


def test_a_series_in_another_order_is_split_by_place():
    shuffled = pd.Series(DOCUMENTS).sample(frac=1, random_state=0)
    how = Audit(window=8, per_document=4, length=8)
    one, other = (audit_heads(MODEL, held, how=how) for held in (shuffled, list(shuffled)))
    assert one.table().equals(other.table())


@pytest.mark.parametrize(
    ("documents", "how", "said"),
    [
        (DOCUMENTS[:12], HOW, "of 12 documents 5 are drawn to be scored, and 5 of them have the 10 tokens"),
        (DOCUMENTS, Audit(window=8), "and 0 of them have the 65 tokens that a length of 64 needs"),
        ([], HOW, "there are none"),
        ([DOCUMENTS[0]], HOW, "there is one"),
    ],
)
def test_documents_that_are_too_few_are_refused_before_any_work(documents, how, said):
    class Untouched(StandIn):
        def watch(self, tokens, **how):
            assert np.size(tokens) == 1, "the model was run, and not only to see whether its loss is finite"
            return super().watch(tokens, **how)

    with pytest.raises(InvalidSamples, match=said):
        audit_heads(Untouched(), documents, how=how)


def test_parts_to_fit_on_that_are_too_short_are_refused():
    fit_on, _ = split_documents(30, share=HOW.fitted, seed=HOW.seed)
    documents = [ids[:4] if number in fit_on else ids for number, ids in enumerate(DOCUMENTS)]
    with pytest.raises(InvalidSamples, match="no document of the 18 to fit on has 10 tokens"):
        audit_heads(MODEL, documents, how=HOW)


def test_documents_on_both_sides_of_the_split_are_refused():
    with pytest.raises(InvalidSamples, match="12 of the 12 documents to score are copies"):
        audit_heads(MODEL, [DOCUMENTS[0]] * 30, how=HOW)
