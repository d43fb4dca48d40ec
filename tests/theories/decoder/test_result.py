"""What a decoder's limit answers, shows, saves and refuses."""

import json

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import (
    AttomatonError,
    CorruptRun,
    EmptyContext,
    TokenOutOfRange,
    UnknownToken,
    UnsupportedOption,
)
from attomaton.theories.decoder.result import DecoderLimit
from attomaton.theories.decoder.supports import CorpusSizes, Supports

TEXT = ["a b a c a b a b", "c a"]


def test_probabilities_are_those_of_the_corpus_and_the_loss_ends_at_their_entropy():
    limit = at.learn_decoder(TEXT)
    assert limit.predict_proba("c a").tolist() == [0.0, 0.75, 0.25]
    assert limit.predict_proba(["c", "a"]).tolist() == limit.predict_proba([0]).tolist()
    assert limit.loss_at(10**12) == pytest.approx(limit.entropy, abs=1e-10)
    assert np.allclose(limit.predict_proba("a", step=10**9), [0, 0.75, 0.25], atol=1e-6)
    assert limit.predict_proba("a", step=0).tolist() == [1 / 3] * 3


def test_contexts_that_never_occur_stay_uniform():
    limit = at.learn_decoder(["a b", "c c"])
    for context in ("b", "rose", [1]):
        assert limit.predict_proba(context).tolist() == [1 / 3] * 3
        assert limit.predict_proba(context, step=100).tolist() == [1 / 3] * 3
        assert not limit.direction(context).any()
        assert limit.explain(context).tokens == ()
    assert "never precedes" in str(limit.explain("rose"))


def test_a_stopped_decoder_gives_the_same_probabilities_one_by_one_and_at_once():
    limit = at.learn_decoder(TEXT)
    stopped = limit.at(300, 0.5)
    contexts, labels = np.repeat([[0], [1], [2]], 3, axis=0), np.tile([0, 1, 2], 3)
    one_by_one = [limit.predict_proba(row, step=300, step_size=0.5) for row in ([0], [1], [2])]
    assert np.allclose(np.exp(stopped.log_probabilities(contexts, labels)), np.concatenate(one_by_one))
    assert stopped.loss == pytest.approx(limit.loss_at(300, 0.5))
    assert np.allclose(limit.weights_at(300, 0.5)[:, 0], limit.logits_at("a", 300, 0.5))


def test_it_prints_and_shows(tmp_path):
    limit = at.learn_decoder(TEXT)
    assert "entropy" in str(limit)
    assert "entropy" in limit._repr_html_()
    assert "log-odds" in limit.explain("a")._repr_html_()
    json.dumps(limit.to_dict())
    json.dumps(limit.explain("a").to_dict())
    assert limit.explain("b").alike == 1  # after c there is only a, too


@pytest.mark.parametrize("context", ["unigram", "bigram", "ngram:3"])
@pytest.mark.parametrize("corpus", [TEXT, [[0, 1, 0, 2], [1, 1, 0]]])
def test_it_is_saved_and_loaded(context, corpus, tmp_path):
    limit = at.learn_decoder(corpus, context)
    found = DecoderLimit.load(limit.save(tmp_path / "decoder"))
    assert (found.read, found.vocabulary) == (limit.read, limit.vocabulary)
    assert str(found.supports) == str(limit.supports)
    assert found.loss_at(100) == limit.loss_at(100)
    with pytest.raises(OSError, match="decoder"):
        limit.save(tmp_path / "decoder")
    limit.save(tmp_path / "decoder", overwrite=True)


def test_other_folders_do_not_load(tmp_path):
    at.begin(TEXT, window=2).save(tmp_path / "begun")
    for place in ("begun", "nothing"):
        with pytest.raises(CorruptRun):
            DecoderLimit.load(tmp_path / place)


def test_what_cannot_be_asked_is_said():
    limit, ids = at.learn_decoder(TEXT, "ngram:3"), at.learn_decoder([[0, 1, 0]])
    with pytest.raises(EmptyContext, match="last 2"):
        limit.predict_proba("a")
    with pytest.raises(UnknownToken, match="ids"):
        ids.predict_proba("a")
    with pytest.raises(TokenOutOfRange):
        limit.predict_proba([0, 99])
    for context in (3, None, ["a", 1], [[0], [1]]):
        with pytest.raises((TokenOutOfRange, UnknownToken)):
            limit.predict_proba(context)
    for wrong in (-1, 0.5, True, None):
        with pytest.raises(UnsupportedOption):
            limit.loss_at(wrong)
    for wrong in (0, -1.0, float("nan"), "1"):
        with pytest.raises(UnsupportedOption):
            limit.loss_at(3, wrong)
    with pytest.raises(UnsupportedOption, match="ascending"):
        limit.losses_at([5, 2])


def test_words_that_became_one_token_are_asked_for_by_it():
    limit = at.learn_decoder(["a b a c a b a d c a d a"], most_frequent=2)
    rest = limit.predict_proba(["<rest>"])
    assert rest.max() > 0.5
    for word in ("c", "d", "zebra"):
        assert (limit.predict_proba(word) == rest).all()


def test_labels_beyond_the_vocabulary_are_refused():
    stopped = at.learn_decoder(["the cat sat on the mat"]).at(10)
    for contexts, labels in (([[1]], [-1]), ([[1]], [99]), ([[1], [0]], [1]), ([[0.7]], [1])):
        with pytest.raises(AttomatonError):
            stopped.log_probabilities(contexts, labels)


def test_counts_beyond_32_bits_give_the_loss_of_the_stopped_decoder():
    much = 2**31
    rows, ends = np.array([[0], [1]], np.int32), np.array([0, 2, 4])
    supports = Supports(rows, ends, np.array([0, 1, 1, 2]), np.array([much, much // 2, 1, 5]), 3)
    limit = DecoderLimit(supports, CorpusSizes(1, 1, 1))
    assert limit.loss_at(1000) == pytest.approx(limit.at(1000).loss)


def test_contexts_of_a_frame_are_tuples_of_tokens():
    assert at.learn_decoder(["a b a c"], "ngram:3").to_pandas()["context"].tolist() == [
        ("a", "b"),
        ("b", "a"),
    ]
