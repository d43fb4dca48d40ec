# ruff: noqa: E501  the table of errors is easier to read with one row each
"""Samples: the definition of windows, and errors that say what, where and what to do."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.errors import EmptyContext, InvalidSamples, TokenOutOfRange, UnsupportedOption

documents_strategy = st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=6)


@given(documents_strategy, st.integers(1, 15))
def test_windows_equal_the_definition(documents, window):
    offsets = np.cumsum([0, *map(len, documents)])
    ids = [token for document in documents for token in document]
    samples = at.Samples.from_windows(ids, window=window, documents=offsets, n_tokens=10)
    expected = [
        at.corpora.Sample(tuple(document[max(0, i - window) : i]), document[i])
        for document in documents
        for i in range(1, len(document))
    ]
    assert list(samples) == expected


@given(documents_strategy)
def test_lists_and_arrays_give_the_same_samples(documents):
    contexts = [document for document in documents if document]
    labels = [context[0] for context in contexts]
    from_lists = at.Samples.from_lists(contexts, labels, n_tokens=10)
    offsets = np.cumsum([0, *map(len, contexts)])
    from_arrays = at.Samples.from_arrays(
        np.concatenate([[], *contexts]).astype(int), offsets, labels, n_tokens=10
    )
    expected = [at.corpora.Sample(tuple(c), label) for c, label in zip(contexts, labels, strict=True)]
    assert list(from_lists) == list(from_arrays) == expected
    assert from_lists.values.dtype == from_lists.labels.dtype == np.int32
    assert from_lists.starts.dtype == np.int64


def test_windows_copy_no_text():
    ids = np.arange(1000, dtype=np.int32)
    assert len(at.Samples.from_windows(ids, window=500).values) == 1000


def test_n_tokens_defaults_to_the_largest_id():
    assert at.Samples.from_lists([[0, 1]], [5]).n_tokens == 6
    assert at.Samples.from_lists([], []).n_tokens == 0


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: at.Samples.from_lists([[1], []], [0, 1]), EmptyContext, "sample 1 has an empty context .1 such sample..*; drop the sample"),
        (lambda: at.Samples.from_lists([[1]], [0, 1]), InvalidSamples, "1 contexts but 2 labels"),
        (lambda: at.Samples.from_lists([[0, 7]], [0], n_tokens=3), TokenOutOfRange, "token 7 at position 1 of the context of sample 0 .*raise n_tokens"),
        (lambda: at.Samples.from_lists([[0], [0, 1, -1]], [0, 1]), TokenOutOfRange, "token -1 at position 2 of the context of sample 1"),
        (lambda: at.Samples.from_lists([[0]], [9], n_tokens=3), TokenOutOfRange, "token 9 at the label of sample 0"),
        (lambda: at.Samples.from_arrays([0.5], [0, 1], [0]), InvalidSamples, "values must be a one-dimensional array of integers, not float64"),
        (lambda: at.Samples.from_arrays([0, 1], [0, 2, 1], [0, 0]), InvalidSamples, "offsets must run from 0 to 2"),
        (lambda: at.Samples.from_arrays([0, 1], [0, 3, 2], [0, 0]), InvalidSamples, "sample 1 ends before it starts"),
        (lambda: at.Samples.from_windows([0, 1], window=0), UnsupportedOption, "window is 0; give a whole number, 1 or more"),
        (lambda: at.Samples.from_windows([0, 5], window=2, n_tokens=2), TokenOutOfRange, "position 1 of the stream"),
        (lambda: at.Samples.from_windows([0, 1], window=1, documents=[0, 1]), InvalidSamples, "document offsets must run from 0 to 2"),
        (lambda: at.Samples.from_lists([[3_000_000]], [0]), InvalidSamples, "must be from 0 to 2,097,152"),
    ],
)  # fmt: skip
def test_errors_say_what_where_and_what_to_do(build, error, message):
    with pytest.raises(error, match=message) as caught:
        build()
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, at.AttomatonError)
