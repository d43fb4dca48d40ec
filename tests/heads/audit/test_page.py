"""The page of an audit: which contexts it shows, what it holds, and what a saved audit keeps of it."""

import json
import re
from html import unescape

import numpy as np
import pytest

from attomaton.base.errors import UnreadableSource, UnwritablePlace
from attomaton.base.tables import write_parquet
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.heads.audit.excerpts import CONTEXTS, FULL, choose_contexts
from attomaton.heads.audit.heads import audit_heads
from attomaton.heads.audit.ladder import name_column
from attomaton.heads.audit.page import render_audit, write_audit
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.audit.recording import record
from attomaton.heads.audit.saved import read_saved
from tests.heads.audit.drawn_audit import draw_audit
from tests.heads.audit.standin import StandIn, draw_documents

LETTERS = Vocabulary(tuple("abcdefghijkl"))


@pytest.fixture(scope="module")
def audit():
    texts = [" ".join(LETTERS.tokens[token] for token in document) for document in draw_documents()]
    return audit_heads(StandIn(), texts, random=0, settings=AuditSettings(window=6), tokenizer=LETTERS)


def data_of(page):
    """The JSON inside a page."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_contexts_are_those_that_depart_most_one_per_document():
    documents = draw_documents(12)
    rows = record(StandIn(), documents, window=6, per_document=5).rows
    chosen = choose_contexts(rows, n=4, vocabulary=LETTERS)
    assert chosen.type == CONTEXTS
    for place, contexts in enumerate(chosen.to_pylist()):
        own = rows.on_keys(place)
        mean = own.mean(0)
        apart = [
            float(sum(p * np.log(p / q) for p, q in zip(row, mean, strict=True) if p > 0)) for row in own
        ]
        best = {}
        for row, value in enumerate(apart):
            document = int(rows.documents[row])
            if document not in best or value > apart[best[document]]:
                best[document] = row
        expected = sorted(best.values(), key=lambda row: -apart[row])[:4]
        for row, context in zip(expected, contexts, strict=True):
            document, position = int(rows.documents[row]), int(rows.positions[row])
            ids = documents[document]
            assert (context["document"], context["position"]) == (document, position)
            assert context["opening"] == LETTERS.tokens[ids[0]]
            assert context["tokens"] == [LETTERS.tokens[one] for one in ids[position - 5 : position + 1]]
            assert context["label"] == LETTERS.tokens[ids[position + 1]]
            pattern = StandIn().watch(ids[None, :-1]).patterns[place // 2][0, place % 2, position].numpy()
            shown = np.array([context["first"], *context["attention"]]) / FULL
            wanted = np.array([pattern[0], *pattern[position - 5 : position + 1]])
            assert np.abs(shown - wanted).max() <= 0.5 / FULL + 1e-6


def test_the_page_holds_the_table_and_the_contexts(audit):
    data, table = data_of(render_audit(audit._with_contexts(), audit.about)), audit.table()
    assert data["rungs"] == list(audit.ladder.names)
    for rung, name in enumerate(data["rungs"]):
        np.testing.assert_allclose(
            data["explained"][rung], table[name_column("explained", name)].to_numpy(), atol=5e-5
        )
    np.testing.assert_allclose(data["columns"]["seeking_z"], table["seeking_z"].to_numpy(), atol=5e-5)
    assert data["columns"]["seeks"] == [None] * 4  # no random heads, no test
    for head, contexts in enumerate(audit.contexts.to_pylist()):
        for (window, first, *attention), context in zip(data["contexts"][head], contexts, strict=True):
            document, position, opening, label, *tokens = data["windows"][window]
            assert (document, position, first) == (context["document"], context["position"], context["first"])
            assert attention == context["attention"]
            assert [data["tokens"][one] for one in tokens] == context["tokens"]
            assert [data["tokens"][opening], data["tokens"][label]] == [context["opening"], context["label"]]
    assert len({tuple(one) for one in data["windows"]}) == len(data["windows"])


def test_a_saved_audit_keeps_its_contexts(audit, tmp_path):
    table, about = read_saved(audit.save(tmp_path / "heads.parquet"))
    assert table["contexts"].to_pylist() == audit.contexts.to_pylist()
    assert render_audit(table, about) == render_audit(audit._with_contexts(), audit.about)
    assert "contexts" not in audit.table().column_names


def test_contexts_of_another_type_are_refused(audit, tmp_path):
    table = audit._with_contexts()
    wrong = table.set_column(table.column_names.index("contexts"), "contexts", [[1, 2, 3, 4]])
    write_parquet(wrong, tmp_path / "wrong.parquet")
    with pytest.raises(UnreadableSource, match="'contexts' has a wrong type"):
        read_saved(tmp_path / "wrong.parquet")


def test_numbers_that_are_not_finite_are_null():
    table, about = draw_audit(1, 2)
    at = table.column_names.index("seeking_z")
    table = table.set_column(at, "seeking_z", [[np.nan, np.inf]])
    assert data_of(render_audit(table, about))["columns"]["seeking_z"] == [None, None]


def test_a_page_replaces_a_page_and_nothing_else(audit, tmp_path):
    path = audit.page(tmp_path / "heads.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert audit.page(path) == path
    (tmp_path / "notes.html").write_text("<p>mine", encoding="utf-8")
    with pytest.raises(UnwritablePlace, match="attomaton did not write it"):
        audit.page(tmp_path / "notes.html")


def test_a_page_does_not_name_folders(tmp_path):
    table, about = draw_audit(1, 2, model="/home/somebody/models/small.gguf")
    assert (
        data_of(write_audit(table, about, tmp_path / "page.html").read_text("utf-8"))["model"] == "small.gguf"
    )
    table, about = draw_audit(1, 2, model="owner/small")
    assert data_of(render_audit(table, about))["model"] == "owner/small"


def test_a_notebook_shows_the_page_and_the_table(audit):
    shown = audit._repr_html_()
    source = re.search(r"srcdoc='([^']*)'", shown)[1]
    assert unescape(source) == render_audit(audit._with_contexts(), audit.about)
    assert 'sandbox="allow-scripts"' in shown
    assert "<details><summary>Table</summary>" in shown.split("</iframe>")[1]


@pytest.mark.parametrize("size", [(30, 9), (32, 32)])
def test_a_page_stays_small(size):
    words = tuple(f" word{number}" for number in range(2000))
    assert len(render_audit(*draw_audit(*size, words=words)).encode()) < 5_000_000
