"""Corpora without a single sample are refused by every engine, with the same words."""

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import UnreadableSource
from attomaton.corpora.shards import Shards

ENGINES = ("memory", "duckdb", "spark")
CORPORA = {
    "one token": [[0]],
    "one token each": [[5], [3]],
    "an empty document": [[]],
    "empty documents": [[], [], []],
    "empty and one": [[], [7], []],
    "words": ["to", "be"],
    "a long list of empty texts": [""] * 9,
}
CALLS = {"learn": at.learn, "begin": at.begin, "learn_decoder": at.learn_decoder}


def words_of(call, corpus, engine):
    with pytest.raises(UnreadableSource) as told:
        call(corpus, engine=engine)
    return str(told.value)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", CORPORA)
def test_all_engines_refuse_a_corpus_without_samples_in_the_same_words(call, name):
    assert len({words_of(CALLS[call], CORPORA[name], engine) for engine in ENGINES}) == 1


@pytest.mark.parametrize("call", CALLS)
def test_so_do_shards_and_tokenised_folders(call, tmp_path):
    Shards.write(tmp_path / "shards", np.array([0, 1], np.int32), np.array([0, 1, 1, 2]), n_tokens=2)
    at.tokenize_corpus([[0], [], [1]], tmp_path / "tokens")
    for folder in ("shards", "tokens"):
        told = {words_of(CALLS[call], tmp_path / folder, engine) for engine in ENGINES}
        assert told == {
            f"no document of {folder} (3 in total) has two tokens, but a sample needs a context and a label; "
            "give longer documents, or use another tokenizer"
        }


def test_nothing_is_left_where_a_run_was_refused(tmp_path):
    for engine in ("memory", "duckdb"):
        with pytest.raises(UnreadableSource):
            at.learn([[0]], engine=engine, out=tmp_path / engine)
        assert not (tmp_path / engine).exists()


def test_one_sample_anywhere_is_enough(tmp_path):
    corpus = [[0]] * 50 + [[1, 1]]
    found = [
        at.learn(corpus, window=2, engine=at.engines.Engine(engine, memory="1GB"))
        for engine in ("memory", "duckdb")
    ]
    assert [one.coverage.n_read for one in found] == [1, 1]


def test_tokens_are_not_made_of_nothing(tmp_path):
    with pytest.raises(UnreadableSource, match="contains no tokens"):
        at.tokenize_corpus([[], []], tmp_path / "tokens")
    assert not (tmp_path / "tokens").exists()
