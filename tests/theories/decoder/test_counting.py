"""Contexts and what follows them: every engine counts what the definition says."""

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import MismatchedParts, UnreadableSource, UnsupportedOption
from attomaton.engines.selection import Selection
from attomaton.theories.decoder.learn import add_supports
from attomaton.theories.decoder.supports import Supports, count_supports
from tests.engines.conftest import (
    make_engine as make_engine,
    make_quick_engine as make_quick_engine,
    write_shards,
)
from tests.theories.beginning.corpora import draw_documents


def assert_equal(found, other):
    for name in ("contexts", "offsets", "tokens", "counts"):
        assert np.array_equal(getattr(found, name), getattr(other, name)), name
    assert found.n_tokens == other.n_tokens


def check(make, folder, trials, seed):
    rng = np.random.default_rng(seed)
    for trial in range(trials):
        documents, n_tokens, _ = draw_documents(rng)
        width = int(rng.integers(0, min(3, max(map(len, documents)))))
        shards = write_shards(folder / f"shards{trial}", documents, n_tokens, int(rng.integers(1, 4)))
        engine = make(shards, folder / f"work{trial}", Selection())
        found, read = add_supports(width, n_tokens, engine.sums)
        assert_equal(found, count_supports(documents, width, n_tokens))
        assert read.n_tokens == sum(map(len, documents))


def test_engines_equal_the_definition(make_quick_engine, tmp_path):
    check(make_quick_engine, tmp_path, 12, 0)


def test_spark_equals_the_definition(make_engine, tmp_path):
    check(make_engine, tmp_path, 2, 1)


@pytest.mark.slow
def test_all_engines_equal_the_definition_on_200_random_corpora(make_engine, tmp_path):
    check(make_engine, tmp_path, 200, 2)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("context", ["unigram", "bigram", "ngram:3"])
def test_text_and_shards_give_the_same(engine, context, tmp_path):
    texts = ["a b a c a b a c a b", "c a b", "b b a c a b c c c a b a a"]
    given = {"engine": at.engines.Engine(engine, "1GB", 1), "most_frequent": 2}
    found = at.learn_decoder(texts, context, work=tmp_path / "work", **given)
    tokens = at.tokenize_corpus(texts, tmp_path / "tokens")
    for other in (
        at.learn_decoder(texts, context, most_frequent=2),
        at.learn_decoder(tokens, context, **given),
    ):
        assert_equal(found.supports, other.supports)
        assert (found.vocabulary, found.read) == (other.vocabulary, other.read)
    assert found.vocabulary.tokens == ("a", "b", "<rest>")


def test_first_tokens_of_documents_have_no_context():
    limit = at.learn_decoder([[0, 1, 0], [1], [0, 1, 1, 0]], "ngram:3")
    assert (limit.supports.n_positions, limit.n_labels, limit.coverage) == (3, 5, 0.6)
    assert at.learn_decoder([[0, 1, 0], [1, 0]], "unigram").coverage == 1.0


def test_what_cannot_be_asked_is_said():
    for context in ("word", "ngram:", "ngram:0", "ngram:-1", None, 3):
        with pytest.raises(UnsupportedOption):
            at.learn_decoder([[0, 1]], context)
    with pytest.raises(UnsupportedOption, match="window"):
        at.learn_decoder([[0, 1]], window=3)
    with pytest.raises(TypeError, match="words"):
        at.learn_decoder([[0, 1]], words=3)
    with pytest.raises(UnsupportedOption, match="64 bits"):
        at.learn_decoder([[0, 99_999]], "ngram:4")
    with pytest.raises(UnreadableSource, match="3 tokens"):
        at.learn_decoder([[0, 1]], "ngram:3")
    with pytest.raises(UnsupportedOption, match="samples"):
        at.learn_decoder(at.Samples.from_lists([[0, 1]], [0]))


@pytest.mark.parametrize(
    "changed",
    [
        {"offsets": np.array([0, 0, 3])},
        {"tokens": np.array([1, 1, 0])},
        {"tokens": np.array([1, 7, 0])},
        {"counts": np.array([1, 0, 2])},
        {"contexts": np.array([[0], [9]])},
        {"contexts": np.array([0, 1])},
    ],
)
def test_broken_supports_are_refused(changed):
    sound = {
        "contexts": np.array([[0], [1]]),
        "offsets": np.array([0, 2, 3]),
        "tokens": np.array([1, 2, 0]),
        "counts": np.array([1, 1, 2]),
    }
    Supports(**sound, n_tokens=3)
    with pytest.raises((MismatchedParts, ValueError)):
        Supports(**{**sound, **changed}, n_tokens=3)
