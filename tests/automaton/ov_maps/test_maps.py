"""What each token writes, and contexts as the keys that they offer."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.automaton.ov_maps.maps import Writing, check_named, find_writing
from attomaton.base.errors import AttomatonError, TokenOutOfRange, UnknownToken, UnsupportedOption
from attomaton.graphs.bags import count_all_tokens
from attomaton.graphs.writing import find_successors

tables = st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=3)
contexts = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=5), min_size=1, max_size=6)


def keys_by_definition(writing, context):
    """Every way of every position that writes what no earlier way of it does; way 0 stands last."""
    keys = []
    for token in context:
        if token >= writing.n_tokens:
            keys.append(token + writing.n_keys - writing.n_tokens)
            continue
        ways = [int(row[token]) for row in writing.table]
        first = [way for way in range(writing.n_ways) if ways[way] not in ways[:way]]
        keys += [way * writing.n_tokens + token for way in reversed(first)]
    return keys


@given(tables, contexts)
def test_contexts_are_read_as_defined(table, lists):
    writing = Writing(np.array(table))
    samples = at.Samples.from_lists(lists, [0] * len(lists), n_tokens=6)  # 4 and 5 are unknown words
    read = writing.read(samples)
    assert [list(one.context) for one in read] == [keys_by_definition(writing, one) for one in lists]
    assert read.queries.tolist() == [keys_by_definition(writing, one)[-1] for one in lists]
    assert writing.token_of(read.queries).tolist() == samples.queries.tolist()
    bags, expected = writing.read_bags(count_all_tokens(samples)), count_all_tokens(read)
    for name in ("sample", "token", "multiplicity"):
        assert getattr(bags, name).tolist() == getattr(expected, name).tolist()
    for context in lists:
        keys = np.array(keys_by_definition(writing, context))
        written = Counter(writing.write(keys).tolist())
        plain = Counter()
        for token in context:
            plain.update({token} if token > 3 else {int(row[token]) for row in writing.table})
        assert written == plain


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 5))
def test_successors_of_samples_are_those_of_the_stream(stream, window):
    samples = at.Samples.from_windows(stream, window=window, n_tokens=5)
    expected = find_successors(stream, n_tokens=5).tolist()
    assert find_writing("successor", samples).table.tolist() == [expected]
    both = find_writing("identity+successor", samples)
    assert both.table.tolist() == [[0, 1, 2, 3, 4], expected]


def test_maps_of_texts_are_numbered():
    vocabulary = at.Vocabulary(("a", "b", "c"))
    samples = at.Samples.from_lists([[0, 1, 2]], [0])
    writing = find_writing({"a": "c", "never seen": "b"}, samples, vocabulary)
    assert writing.table.tolist() == [[2, 1, 2]]
    assert find_writing({"0": "2"}, samples).table.tolist() == [[2, 1, 2]]  # JSON has no numbers as keys
    with pytest.raises(UnknownToken, match="not in the corpus"):
        find_writing({"a": "z"}, samples, vocabulary)
    with pytest.raises(UnknownToken, match="no vocabulary"):
        find_writing({"a": "b"}, samples)


def test_keys_of_several_ways_have_names():
    writing = Writing(np.array([[0, 1], [1, 0]]))
    assert writing.name_keys(at.Vocabulary(("a", "b"))).tokens == ("a", "b", "a → b", "b → a")
    assert writing.name_keys(None) is None


@pytest.mark.parametrize("writes", [[0, 1], [0, 1, 3], [[0, 1]], np.zeros((0, 3), int), np.zeros((1, 3))])
def test_maps_that_do_not_fit_are_refused(writes):
    with pytest.raises(AttomatonError):
        at.automaton.learn_writing(at.Samples.from_lists([[0, 1, 2]], [0]), writes=writes)


def test_names_and_sizes_are_checked():
    with pytest.raises(UnsupportedOption, match="identity\\+successor"):
        check_named("successors")
    with pytest.raises(TokenOutOfRange, match="give fewer rows"):
        Writing(np.zeros((3, 1 << 20), np.int32))
