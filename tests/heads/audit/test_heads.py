"""The audit of all heads at once."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from attomaton.base.errors import AttomatonError, InvalidSamples, UnreadableModel, UnsupportedOption
from attomaton.base.printing import blocks_of, draw_text
from attomaton.heads.arrays import example_audit
from attomaton.heads.audit.causal import replace_heads
from attomaton.heads.audit.contexts import show_head
from attomaton.heads.audit.documents import split_documents
from attomaton.heads.audit.explanations import Position
from attomaton.heads.audit.heads import audit_heads
from attomaton.heads.audit.ladder import name_column
from attomaton.heads.audit.pictures import COLOURS, draw_audit
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.audit.randomised import rotate_beside
from attomaton.heads.audit.replacing import LabelledContexts
from attomaton.heads.audit.rungs import learned_rungs, plain_rungs
from attomaton.heads.model import Head
from attomaton.heads.opening import open_model
from tests.heads import made
from tests.heads.audit.built import build_heads
from tests.heads.audit.standin import StandIn, draw_documents

DOCUMENTS = draw_documents(30)
MODEL = StandIn(slope=0.1)
HOW = AuditSettings(window=8, per_document=10, length=16)


def rungs(documents):
    return (*plain_rungs(), *learned_rungs(documents, n_tokens=12, window=8))


@pytest.fixture(scope="module")
def audit():
    random = [StandIn(seed=seed) for seed in (1, 2)]
    return audit_heads(MODEL, DOCUMENTS, rungs=rungs, random=random, causal="all", settings=HOW)


def test_every_head_has_a_row_with_all_that_was_measured(audit, tmp_path):
    table = audit.table()
    assert table["head"].to_pylist() == ["0.0", "0.1", "1.0", "1.1"]
    for name in ("position", "key token", "induction", "duplicate", "automaton", "shrink"):
        assert {name_column(kind, name) for kind in ("explained", "added", "z", "alone")} <= set(
            table.column_names
        )
    for name in ("alone_last", "alone_frequency", "alone_bigram", "pattern_rise", "ablation_rise", "seeks"):
        assert name in table.column_names
    assert pq.read_table(audit.save(tmp_path / "audit.parquet")).select(table.column_names).equals(table)
    assert audit.n_random == 2
    assert audit.n_documents == 12


def test_pattern_and_ablation_are_shown_together(audit):
    shown = str(audit)
    assert "pattern" in shown
    assert "output" in shown
    assert "not evidence about where a head looks" in shown
    assert "2 models with random weights" in shown
    assert "heads it harms" in shown


def test_random_heads_are_drawn_without_being_asked_for():
    rng = np.random.default_rng(0)
    model = build_heads("random", rng, n_tokens=12)
    rungs, how = (Position(),), AuditSettings(window=8, seed=3)
    audit, counted = (
        audit_heads(model, DOCUMENTS, rungs=rungs, settings=how, **asked) for asked in ({}, {"random": 2})
    )
    given = audit_heads(
        model,
        DOCUMENTS,
        rungs=rungs,
        settings=how,
        random=[rotate_beside(model, seed=seed) for seed in (3, 4)],
    )
    for other in (counted, given):
        np.testing.assert_array_equal(audit.seeking.z, other.seeking.z)
        np.testing.assert_array_equal(audit.ladder.z, other.ladder.z)
    assert (audit.n_random, audit.null, given.null) == (2, "intact", "given")
    assert "trained residual stream" in str(audit)


def test_without_random_heads_no_head_is_said_to_seek():
    for asked in ({}, {"random": 0}):  # a stand-in shows no weights, so that nothing can be drawn
        audit = audit_heads(MODEL, DOCUMENTS, rungs=(Position(),), settings=HOW, **asked)
        assert audit.n_random == 0
        assert not audit.seeking.holds.any()
        assert audit.table()["seeks"].null_count == len(audit.heads)
        assert "no head is reported as seeking the next token" in str(audit).replace("\n", " ")
        assert ("made from weights" in audit.left_out) == (not asked)


@pytest.mark.parametrize("asked", [{"random": -1}, {"random": 101}, {"random": "two"}])
def test_random_heads_that_cannot_be_counted_are_refused(asked):
    with pytest.raises(AttomatonError):
        audit_heads(MODEL, DOCUMENTS, rungs=(Position(),), settings=HOW, **asked)


def test_what_is_scored_was_not_fitted_on(audit):
    scored = split_documents(30, share=0.6, seed=0)[1]
    contexts = LabelledContexts.of([DOCUMENTS[one] for one in scored], length=16, n_tokens=12)
    np.testing.assert_allclose(audit.causal.pattern.value, replace_heads(MODEL, contexts).pattern.value)
    seen = []
    audit_heads(MODEL, DOCUMENTS, rungs=lambda some: seen.append(some) or [Position()], settings=HOW)
    assert len(seen[0]) == 18


def test_an_audit_is_drawn(audit):
    import matplotlib as mpl

    mpl.use("agg")
    assert audit.plot().get_ylabel() == "layer"


def test_the_map_has_a_cell_for_each_head_and_counts_types():
    import matplotlib as mpl

    mpl.use("agg")
    heads = [Head(layer, number) for layer in range(2) for number in range(3)]
    labels = ["sink", "induction", "sink", "next-token seeking", "sink", "induction"]
    axes = draw_audit(heads, labels, np.isin(np.arange(6), (1, 3)))
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["sink (3)", "induction (2)", "next-token seeking (1)", "also seeks the next token"]
    assert axes.lines[-1].get_xydata().tolist() == [
        [1.5, 0.5]
    ]  # one dot: the colour says it of the other head
    cells = axes.collections[0]
    colours = [mpl.colors.to_hex(one) for one in cells.to_rgba(cells.get_array().ravel())]
    assert colours == [COLOURS[label] for label in labels]


def test_the_stages_of_an_audit_are_told_and_its_table_fits_a_terminal(capsys):
    model, documents = example_audit()
    told = list[str]()
    for progress in (told.append, True):
        audit = audit_heads(model, documents, settings=AuditSettings(window=8), progress=progress)
    assert told == ["recording attention of arrays", "explaining heads"]
    assert capsys.readouterr().err.split("\n")[:2] == told
    assert "│ like random weights │" in draw_text(blocks_of(audit), width=80)


def test_rare_types_come_first(audit):
    names = [audit.types[at].name for at in audit.order]
    counts = [names.count(name) for name in names]
    assert counts == sorted(counts)
    assert sorted(audit.order) == list(range(len(audit.heads)))


@pytest.mark.parametrize("kind", ["folder", "transformers model"])
def test_whatever_stands_for_a_model_is_opened(kind, tmp_path):
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    if kind == "folder":
        made.write(tmp_path, "llama", **sizes)
    given = str(tmp_path) if kind == "folder" else made.make("llama", **sizes)
    tables = [audit_heads(one, DOCUMENTS, settings=HOW).table() for one in (given, open_model(given))]
    assert tables[0].equals(tables[1])
    assert show_head(given, DOCUMENTS, Head(0, 1), settings=HOW).head == Head(0, 1)
    with pytest.raises(UnreadableModel, match="cannot be read as a model"):
        audit_heads(3, DOCUMENTS)


def test_wrong_asking_is_refused():
    with pytest.raises(AttomatonError, match="settings is of type dict; it must be AuditSettings"):
        audit_heads(MODEL, DOCUMENTS, settings={"window": 8})
    with pytest.raises(InvalidSamples, match="but the corpus has one document; split"):
        audit_heads(MODEL, DOCUMENTS[:1])
    with pytest.raises(UnsupportedOption):
        AuditSettings(window=1)


def test_a_series_in_another_order_is_split_by_place():
    shuffled = pd.Series(DOCUMENTS).sample(frac=1, random_state=0)
    how = AuditSettings(window=8, per_document=4, length=8)
    one, other = (audit_heads(MODEL, held, settings=how) for held in (shuffled, list(shuffled)))
    assert one.table().equals(other.table())


@pytest.mark.parametrize(
    ("documents", "how", "said"),
    [
        (DOCUMENTS[:12], HOW, "but only 5 of the 5 drawn from 12 documents have so many"),
        (
            DOCUMENTS,
            AuditSettings(window=8),
            "a length of 64 needs 8 documents to score with at least 65 tokens, but only 0 of the 12 drawn",
        ),
        ([], HOW, "but the corpus has none"),
        ([DOCUMENTS[0]], HOW, "but the corpus has one document"),
    ],
)
def test_documents_that_are_too_few_are_refused_before_any_work(documents, how, said):
    class Untouched(StandIn):
        def watch(self, tokens, **how):
            assert np.size(tokens) == 1, "the model was run, and not only to see whether its loss is finite"
            return super().watch(tokens, **how)

    with pytest.raises(InvalidSamples, match=said):
        audit_heads(Untouched(), documents, causal="top", settings=how)


def test_parts_to_fit_on_that_are_too_short_are_refused():
    fit_on, _ = split_documents(30, share=HOW.fitted, seed=HOW.seed)
    documents = [ids[:4] if number in fit_on else ids for number, ids in enumerate(DOCUMENTS)]
    with pytest.raises(InvalidSamples, match="none of the 18 documents to fit on has 10 tokens"):
        audit_heads(MODEL, documents, settings=HOW)


def test_documents_on_both_sides_of_the_split_are_refused():
    with pytest.raises(InvalidSamples, match="12 of the 12 documents to score are copies"):
        audit_heads(MODEL, [DOCUMENTS[0]] * 30, settings=HOW)
