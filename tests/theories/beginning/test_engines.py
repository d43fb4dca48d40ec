"""The statistics on every engine: the same digits as in memory, and the definition."""

import numpy as np
import pytest

import attomaton as at
from attomaton.engines.selection import Selection
from attomaton.theories.beginning.passes import Cutting
from attomaton.theories.beginning.statistics import add_statistics, find_statistics
from tests.engines.conftest import (
    make_engine as make_engine,
    make_quick_engine as make_quick_engine,
    write_shards,
)
from tests.theories.beginning.corpora import cut_plainly, draw_documents
from tests.theories.beginning.definition import define_statistics
from tests.theories.beginning.test_statistics import assert_equal_to_definition


def assert_same_digits(found, other):
    for name in ("counts", "smoothed", "looks"):
        for part in ("indptr", "indices", "data"):
            assert np.array_equal(getattr(getattr(found, name), part), getattr(getattr(other, name), part))
    assert np.array_equal(found.lags, other.lags)
    assert (found.n_sequences, found.n_read, found.n_labels) == (
        other.n_sequences,
        other.n_read,
        other.n_labels,
    )


def check(make, folder, trials, seed):
    rng = np.random.default_rng(seed)
    for trial in range(trials):
        documents, n_tokens, window = draw_documents(rng)
        shards = write_shards(folder / f"shards{trial}", documents, n_tokens, int(rng.integers(1, 4)))
        engine = make(shards, folder / f"work{trial}", Selection())
        found = add_statistics(Cutting(window, n_tokens), engine.sums)
        assert_same_digits(found, find_statistics(documents, window=window, n_tokens=n_tokens))
        assert_equal_to_definition(found, define_statistics(cut_plainly(documents, window), n_tokens))


def test_engines_equal_memory_and_the_definition(make_quick_engine, tmp_path):
    check(make_quick_engine, tmp_path, 12, 0)


def test_spark_equals_memory_and_the_definition(make_engine, tmp_path):
    check(make_engine, tmp_path, 2, 1)


@pytest.mark.slow
def test_all_engines_equal_the_definition_on_200_random_corpora(make_engine, tmp_path):
    check(make_engine, tmp_path, 200, 2)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_begin_gives_the_same_from_text_and_from_shards(engine, tmp_path):
    texts = ["a b a c a b a c a b", "c a b", "b b a c a b c c c a b a a"]
    options = {"window": 3, "most_frequent": 2}
    found = at.begin(
        texts, engine=at.engines.Engine(engine, threads=1, memory="1GB"), work=tmp_path / "work", **options
    )
    plain = at.begin(texts, **options)
    tokens = at.tokenize_corpus(texts, tmp_path / "tokens")
    stored = at.begin(tokens, engine=at.engines.Engine(engine, threads=1, memory="1GB"), **options)
    for other in (plain, stored):
        assert_same_digits(found.statistics, other.statistics)
        assert found.vocabulary == other.vocabulary
    assert found.vocabulary.tokens == ("a", "b", "<rest>")


def test_a_call_that_was_cut_short_is_taken_up(tmp_path, monkeypatch):
    from attomaton.theories.beginning import statistics

    texts = ["a b a c a b a c a b", "b b a c a b c c c a b a a"]
    given = {"window": 3, "engine": at.engines.Engine("duckdb", "1GB", 1), "work": tmp_path / "work"}
    with monkeypatch.context() as broken:
        broken.setattr(statistics, "find_gain", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            at.begin(texts, **given)
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("contexts-*.parquet")}
    assert written
    found = at.begin(texts, **given)
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert_same_digits(found.statistics, at.begin(texts, window=3).statistics)
