"""Attention rows that are watched."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from attomaton.base.errors import InvalidSamples, TokenOutOfRange, UnreadableModel, UnsupportedOption
from attomaton.heads.audit.documents import split_documents
from attomaton.heads.audit.jackknife import FEWEST_DOCUMENTS
from attomaton.heads.audit.randomised import rotate_beside
from attomaton.heads.audit.recording import record
from attomaton.heads.audit.rows import EARLIER
from attomaton.heads.reading.families import read_object
from tests.heads import made
from tests.heads.audit.standin import StandIn, draw_documents

MODEL = StandIn()


def documents_of_many_lengths():
    return [ids[: 8 + 2 * number] for number, ids in enumerate(draw_documents(12))]


def test_every_row_is_what_the_model_does_on_the_document_alone():
    documents = documents_of_many_lengths()
    rows = record(MODEL, documents, window=6, per_document=3).rows
    for row in range(len(rows)):
        ids, at = documents[rows.documents[row]], rows.positions[row]
        places = at - np.arange(6)
        seen = np.concatenate([one[0, :, at].numpy() for one in MODEL.watch(ids[None, :-1]).patterns])
        inside = seen[:, places]
        np.testing.assert_allclose(rows.inside[row], inside.sum(1), atol=1e-6)
        np.testing.assert_allclose(rows.attention[row], inside / inside.sum(1, keepdims=True), atol=1e-6)
        np.testing.assert_allclose(rows.first[row], seen[:, 0], atol=1e-6)
        assert rows.tokens[row].tolist() == ids[places].tolist()
        before = [ids[one] if one >= 0 else -1 for one in at - np.arange(6 + EARLIER)]
        assert rows.past[row].tolist() == before
        assert rows.starts[row] == ids[0]
        assert rows.labels[row] == ids[at + 1]


def test_the_batch_plays_no_part(monkeypatch):
    whole = record(MODEL, documents_of_many_lengths(), window=6).rows
    monkeypatch.setattr("attomaton.heads.model.BATCH_BYTES", 1)
    alone = record(MODEL, documents_of_many_lengths(), window=6).rows
    np.testing.assert_array_equal(whole.tokens, alone.tokens)
    np.testing.assert_allclose(whole.attention, alone.attention, atol=1e-6)


def test_short_documents_are_left_out_and_long_ones_cut():
    rows = record(MODEL, [np.arange(7), np.tile(np.arange(12), 9)], window=6, per_document=99).rows
    assert set(rows.documents.tolist()) == {1}
    assert rows.positions.max() == MODEL.shape.longest - 1
    assert len(rows) == MODEL.shape.longest - 6


def test_the_budget_holds():
    rows = record(MODEL, draw_documents(10), window=6, per_document=20, most_bytes=10 * 2 * 4 * 4 * 8).rows
    assert len(rows) == 20
    documents = draw_documents(60)
    rows = record(MODEL, documents, window=6, most_bytes=1).rows  # fewer documents, not more memory
    assert len(rows) == len(np.unique(rows.documents)) == 2 * FEWEST_DOCUMENTS
    np.testing.assert_array_equal(rows.starts, [documents[one][0] for one in rows.documents])


def test_wrong_documents_are_refused():
    with pytest.raises(InvalidSamples, match="no document has 8 tokens"):
        record(MODEL, [[0, 1, 2]], window=6)
    with pytest.raises(TokenOutOfRange, match="document 0 contains the id 12"):
        record(MODEL, [np.arange(13)], window=6)
    with pytest.raises(InvalidSamples, match="not a list of token ids"):
        record(MODEL, ["words words"], window=6)
    with pytest.raises(InvalidSamples, match="not a list of token ids"):
        record(MODEL, [np.zeros((2, 20), int)], window=6)
    with pytest.raises(InvalidSamples, match="not a list of token ids"):
        record(MODEL, [[[0], [1, 2]]], window=6)
    with pytest.raises(TokenOutOfRange, match="document 1 contains the id -1"):
        record(MODEL, [np.arange(9), np.arange(9) - 1], window=6)
    for wrong in (None, 3, "words", {0: [1, 2]}):
        with pytest.raises(InvalidSamples, match="give a list of token ids for each document"):
            record(MODEL, wrong, window=6)
    with pytest.raises(UnsupportedOption, match=r"contexts of at most 64 tokens.*window of at most 63"):
        record(MODEL, draw_documents(2), window=64, longest=99)


def test_attention_that_is_no_number_is_refused():
    model = StandIn()
    model.qk[1, 0] *= 1e308
    with pytest.raises(UnreadableModel, match=r"attention of head 1\.0 of stand-in 0 is NaN"):
        record(model, draw_documents(2), window=6)


def test_documents_are_taken_by_their_place_whatever_holds_them():
    documents = draw_documents(6)
    wanted = record(MODEL, documents, window=6).rows
    shuffled = pd.Series(documents, index=[3, 1, 5, 0, 2, 4])
    held = (
        shuffled,
        pa.array(map(np.ndarray.tolist, documents)),
        iter(documents),
        torch.tensor(np.array(documents)),
    )
    for one in held:
        np.testing.assert_array_equal(record(MODEL, one, window=6).rows.tokens, wanted.tokens)


def test_parts_have_no_document_in_common():
    one, other = split_documents(21, share=0.5, seed=3)
    assert sorted(one + other) == list(range(21))
    assert len(one) == 10


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox", "gemma3_text"])
def test_one_pass_records_what_several_define(family):
    """Random heads beside the model's own, and what attention reads, against one pass for each."""
    model = read_object(made.make(family))
    documents = [np.random.default_rng(one).integers(0, model.shape.n_tokens, 12 + one) for one in range(9)]
    models = [rotate_beside(model, seed=seed) for seed in (3, 4)]
    seen = record(model, documents, window=5, random=models, reads_of=[2, 5])
    for rows, slow in zip((seen.rows, *seen.random), (model, *models), strict=True):
        alone = record(slow, documents, window=5).rows
        np.testing.assert_array_equal(rows.tokens, alone.tokens)
        for name in ("attention", "inside", "first"):
            np.testing.assert_allclose(getattr(rows, name), getattr(alone, name), atol=2e-6)
    sums, counts, first = {}, {}, 0.0
    for ids in (documents[2], documents[5]):
        reads = []
        stream = model.embed(ids[None, :-1])
        model.run_layers(
            stream, range(len(model.layers)), on_layer=lambda _, read, reads=reads: reads.append(read[0])
        )
        first += np.array([read[0].numpy() for read in reads]) / 2
        for place, token in enumerate(ids[1:-1].tolist(), 1):
            counts[token] = counts.get(token, 0) + 1
            for layer, read in enumerate(reads):
                sums[token, layer] = sums.get((token, layer), 0) + read[place].numpy()
    np.testing.assert_allclose(seen.reads.first, first, atol=1e-5)
    assert seen.reads.tokens.tolist() == sorted(counts)
    for place, token in enumerate(seen.reads.tokens.tolist()):
        assert seen.reads.counts[place] == counts[token]
        for layer, means in enumerate(seen.reads.means):
            np.testing.assert_allclose(means[place], sums[token, layer] / counts[token], atol=1e-5)


def test_the_rows_of_a_layer_are_those_of_its_heads():
    rows = record(MODEL, draw_documents(3), window=6).rows
    for layer in range(2):
        part = rows.of_layer(layer)
        assert [head.layer for head in part.heads] == [layer] * 2
        np.testing.assert_array_equal(part.attention, rows.attention[:, 2 * layer : 2 * layer + 2])


def test_a_model_with_patterns_of_other_heads_than_its_shape_says_is_refused():
    model = StandIn(n_layers=1, n_heads=2)
    model.shape = replace(model.shape, n_heads=3)
    with pytest.raises(UnreadableModel, match="patterns of 2 heads, but the shape of the model says 3"):
        record(model, draw_documents(10), window=8)
