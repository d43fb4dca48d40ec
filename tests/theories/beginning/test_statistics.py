"""The statistics of the beginning against their definitions."""

import numpy as np
import pytest

from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.engines import sums
from attomaton.theories.beginning import gain, passes, statistics
from attomaton.theories.beginning.statistics import find_statistics
from tests.theories.beginning.corpora import cut_plainly, draw_documents
from tests.theories.beginning.definition import define_statistics

NAMES = {"bigrams": "bigrams", "contexts": "contexts", "look_table": "looks", "lags": "lags"}


ROUNDING = float(np.finfo(np.float64).eps)
"""What the definition may leave where its terms, none above 1, cancel: a corpus of one token has Q̄ = 0."""


def assert_equal_to_definition(found, defined):
    for name, other in NAMES.items():
        wanted = defined[other]
        allowed = 1e-12 * float(np.abs(wanted).max()) + ROUNDING
        assert np.abs(getattr(found, name) - wanted).max() <= allowed, name


def test_statistics_equal_their_definitions_on_random_corpora():
    rng = np.random.default_rng(0)
    for _ in range(200):
        documents, n_tokens, window = draw_documents(rng)
        found = find_statistics(documents, window=window, n_tokens=n_tokens)
        sequences = cut_plainly(documents, window)
        assert found.n_sequences == len(sequences)
        assert_equal_to_definition(found, define_statistics(sequences, n_tokens))


def test_pairs_that_occur_agree_with_dense_tables(monkeypatch):
    rng = np.random.default_rng(1)
    for _ in range(50):
        documents, n_tokens, window = draw_documents(rng)
        dense = find_statistics(documents, window=window, n_tokens=n_tokens)
        with monkeypatch.context() as small:
            small.setattr(gain, "DENSE_TOKENS", 0)
            small.setattr(sums, "LARGEST_DENSE_SUMS", 0)
            small.setattr(gain, "PASS_ENTRIES", 3)
            sparse = find_statistics(documents, window=window, n_tokens=n_tokens)
        for name in ("counts", "smoothed", "looks"):
            one, other = (getattr(way, name).toarray() for way in (dense, sparse))
            assert np.abs(one - other).max() <= 1e-13 * max(1e-12, np.abs(one).max())
        assert np.abs(dense.lags - sparse.lags).max() <= 1e-13 * max(1e-12, np.abs(dense.lags).max())


def test_long_sequences_are_listed_in_parts(monkeypatch):
    rng = np.random.default_rng(2)
    documents = [rng.integers(0, 6, 60).tolist() for _ in range(4)]
    whole = find_statistics(documents, window=13)
    for most in (1, 5, 20, 200):
        monkeypatch.setattr(passes, "PAIRS_AT_ONCE", most)
        parts = find_statistics(documents, window=13)
        assert np.array_equal(parts.look_table, whole.look_table)
        assert np.array_equal(parts.smoothed.toarray(), whole.smoothed.toarray())
        assert np.array_equal(parts.lags, whole.lags)


def test_a_large_vocabulary_has_no_dense_table(monkeypatch):
    monkeypatch.setattr(statistics, "DENSE_TOKENS", 2)
    found = find_statistics([[0, 1, 2, 0]], window=3)
    with pytest.raises(UnsupportedOption, match="most_frequent"):
        _ = found.look_table


def test_rests_are_left_out_and_counted():
    found = find_statistics([[0, 1, 0, 1, 0, 1], [1, 0], []], window=4)
    assert (found.n_sequences, found.n_documents, found.n_read) == (1, 3, 8)
    assert found.left_out == 2


def test_no_sequence_is_an_error_that_says_so():
    with pytest.raises(UnreadableSource, match="no document has the 9 tokens"):
        find_statistics([[0, 1, 2]], window=8)
