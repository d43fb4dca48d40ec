"""Models that show attention patterns only: they are audited, without what needs weights."""

import numpy as np
import pytest
import torch

from attomaton.base.errors import InvalidSamples, UnreadableModel, UnsupportedOption
from attomaton.heads import AuditSettings, Head, PatternModel, audit_heads, useful_rungs
from tests.heads.made import make_opt

RNG = np.random.default_rng(0)
DOCUMENTS = [RNG.integers(0, 61, length) for length in (30, 7, 25, 31, 9, *[28] * 20)]
HOW = AuditSettings(window=6, per_document=5, longest=20, length=8)


def attentions(model, ids):
    with torch.no_grad():
        return model.eval()(torch.as_tensor(ids), output_attentions=True).attentions


def test_an_iterator_is_read_in_the_order_of_the_documents():
    original = make_opt(attn_implementation="eager")
    items = (attentions(original, document[None]) for document in DOCUMENTS)
    ours = PatternModel.from_iterator(items, n_tokens=61)
    audits = [audit_heads(model, DOCUMENTS, causal="all", settings=HOW) for model in (ours, original)]
    np.testing.assert_allclose(audits[0].ladder.shares, audits[1].ladder.shares, atol=1e-5)
    np.testing.assert_array_equal(audits[0].first, audits[1].first)
    with pytest.raises(InvalidSamples, match=r"patterns of .* documents only.*An iterator is read once"):
        audit_heads(ours, DOCUMENTS, settings=HOW)


def uniform(ids, heads=2):
    length = ids.shape[1]
    flat = torch.ones(length, length).tril()
    return [(flat / flat.sum(1, keepdim=True)).expand(len(ids), heads, length, length)] * 2


def test_a_function_is_a_model():
    model = PatternModel.from_function(uniform, n_tokens=61)
    audit = audit_heads(model, DOCUMENTS, settings=HOW)
    assert len(audit.heads) == 4
    assert np.allclose(audit.ladder.shares, 0)
    assert model.watch(DOCUMENTS[0][None]).logits.isnan().all()


WRONG = {
    "looks ahead": (lambda ids: [torch.full((len(ids), 1, 11, 11), 1 / 11)], "later tokens"),
    "scores": (lambda _: [torch.eye(11)[None, None] * 3], "not probabilities"),
    "less than zero": (lambda _: [torch.eye(11)[None, None] * -1], "not probabilities"),
    "no number": (lambda _: [torch.eye(11)[None, None] * torch.nan], "not finite"),
    "short": (lambda _: [torch.eye(4)[None, None]], r"shape \(1, 1, 4, 4\) instead of"),
    "flat": (lambda _: [torch.eye(11)], "returns no attention"),
    "nothing": (lambda _: [], "returns no attention.*eager"),
    "raises": (lambda _: 1 / 0, "cannot be run on token ids .division"),
    "heads": (lambda _: [torch.eye(11).expand(1, n, 11, 11) for n in (1, 2)], "equally many heads"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_attention_is_refused(what):
    function, words = WRONG[what]
    with pytest.raises(UnreadableModel, match=words):
        PatternModel.from_function(function, n_tokens=9)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], "there are no patterns"),
        ([3], "is of type int; give an array"),
        ([()], "has no layers.*eager"),
        ([torch.eye(8)], r"layer 0 of an item .* has shape \(8,\)"),
        ([[torch.eye(8)[None], torch.eye(8)]], r"layer 1 of an item .* has shape \(8, 8\)"),
        ([torch.eye(5).expand(1, 1, 5, 5)] * 30, "document 0 cover 5 of its 20 tokens.*longest=5"),
        ([[torch.eye(n).expand(1, n, n) for n in (30, 5)]] * 30, "document 0 cover 5 of its 20 tokens"),
    ],
)
def test_an_iterator_of_something_else_is_refused(items, words):
    with pytest.raises(InvalidSamples, match=words):
        audit_heads(PatternModel.from_iterator(iter(items), n_tokens=61), DOCUMENTS, settings=HOW)


def test_a_skipped_document_counts_in_messages():
    model = PatternModel.from_iterator([torch.eye(5).expand(1, 1, 5, 5)] * 3, n_tokens=61)
    model.watch(np.zeros((1, 5), int))
    model.skip()
    with pytest.raises(InvalidSamples, match="patterns of document 2 cover 5 of its 6 tokens"):
        model.watch(np.zeros((1, 6), int))
    with pytest.raises(InvalidSamples, match="patterns of 3 documents only"):
        model.watch(np.zeros((1, 5), int))


def test_an_iterator_has_one_document_at_a_time():
    model = PatternModel.from_iterator([torch.eye(5).expand(1, 1, 5, 5)] * 3, n_tokens=61)
    with pytest.raises(InvalidSamples, match="one document at a time, and 2 contexts were given"):
        model.watch(np.zeros((2, 5), int))


def test_what_needs_weights_says_so():
    model, ids = PatternModel.from_function(uniform, n_tokens=61), DOCUMENTS[0][None]
    with pytest.raises(UnsupportedOption, match=r"edits.*leave that out"):
        model.watch(ids, edit_patterns=lambda _, pattern: pattern)
    with pytest.raises(UnsupportedOption, match="token scores need the weights"):
        model.score_tokens(Head(0, 0), ids[0], ids[0])
    with pytest.raises(UnsupportedOption, match="writes need"):
        model.write_logits(Head(0, 0), ids[0])
    with pytest.raises(UnsupportedOption, match="utility"):
        audit_heads(model, DOCUMENTS, rungs=lambda texts: useful_rungs(texts, n_tokens=61), settings=HOW)
    audit = audit_heads(model, DOCUMENTS, causal="all", settings=HOW)
    assert audit.seeking.judged == [None] * 4
    assert audit.table()["seeks"].null_count == 4
    assert audit.causal is None
    for words in ("Causal value is left out", "random heads", "weights"):
        assert words in str(audit)
