"""Heads that write something else than they read."""

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.errors import AttomatonError
from attomaton.graphs.edges import edges_by_definition
from attomaton.graphs.writing import find_successors, measure_reach, replace_labels

streams = st.lists(st.integers(0, 5), min_size=1, max_size=60)


@given(streams)
def test_successors_are_the_most_frequent_ones(stream):
    counts = defaultdict(Counter)
    for one, other in pairwise(stream):
        counts[one][other] += 1
    expected = [counts[one].most_common(1)[0][0] if counts[one] else one for one in range(6)]
    assert find_successors(stream, n_tokens=6).tolist() == expected


@given(streams, st.lists(st.integers(0, 5), min_size=6, max_size=6), st.integers(1, 8))
def test_reach_is_counted_as_defined(stream, writes, window):
    samples = at.Samples.from_windows(stream, window=window, n_tokens=6)
    reach = measure_reach(samples, writes)
    rows = [(y in x, y in {writes[token] for token in x}) for x, y in samples]
    n = max(len(rows), 1)
    assert reach.identity == sum(one for one, _ in rows) / n
    assert reach.written == sum(other for _, other in rows) / n
    assert reach.either == sum(one or other for one, other in rows) / n


@given(streams, st.permutations(range(6)))
def test_replaced_labels_are_what_is_read(stream, writes):
    samples = at.Samples.from_windows(stream, window=4, n_tokens=6)
    back = {y: x for x, y in enumerate(writes)}
    plain = [(x, back[y]) for x, y in samples if back[y] in x]
    replaced = replace_labels(samples, list(writes))
    assert [(one.context, one.label) for one in replaced] == plain
    if plain:
        given_lists = at.Samples.from_lists(*map(list, zip(*plain, strict=True)), n_tokens=6)
        assert edges_by_definition(replaced) == edges_by_definition(given_lists)


@pytest.mark.parametrize(
    "writes", [[0, 1], [0, 1, 3], [0.0, 1.0, 2.0], {3: 0}, {0: 3}, {-1: 0}, {0: 1.7}, [0, -1, 2], [[0, 1, 2]]]
)
def test_maps_that_do_not_fit_are_refused(writes):
    with pytest.raises(AttomatonError):
        measure_reach(at.Samples.from_lists([[0, 1, 2]], [0]), writes)


def test_labels_that_several_tokens_write_are_refused():
    with pytest.raises(AttomatonError, match="one token per label"):
        replace_labels(at.Samples.from_lists([[0, 1, 2]], [0]), [0, 0, 2])


@pytest.mark.slow
def test_realisable_shares_on_wikitext(wikitext):
    """Identity or the most frequent successor in the training text: 31.2, 44.9 and 57.3 %."""
    names = ("train.articles-shuffled", "valid", "test")
    texts = [(wikitext / f"{name}.txt").read_text(encoding="utf-8") for name in names]
    parts = [[word for line in text.split("\n")[:-1] for word in [*line.split(), "<eos>"]] for text in texts]
    number = {word: at for at, word in enumerate(dict.fromkeys(word for part in parts for word in part))}
    train, valid, test = (np.array([number[word] for word in part], np.int32) for part in parts)
    successors = find_successors(train, n_tokens=len(number))
    stream = np.concatenate([valid, test])
    found = {}
    for window in (8, 32, 128):
        reach = measure_reach(
            at.Samples.from_windows(stream, window=window, n_tokens=len(number)), successors
        )
        found[window] = round(100 * reach.identity, 1), round(100 * reach.either, 1)
    assert found == {8: (11.8, 31.2), 32: (33.4, 44.9), 128: (53.0, 57.3)}
