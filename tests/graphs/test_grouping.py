"""Looking keys up."""

import numpy as np
from hypothesis import given, strategies as st

from attomaton.graphs.grouping import distinct_keys, find_keys

keys = st.lists(st.integers(-20, 60), max_size=120)


@given(st.lists(st.integers(0, 40), max_size=30, unique=True), keys)
def test_find_keys_is_searchsorted(ordered, wanted):
    rising, asked = np.sort(np.array(ordered, np.int64)), np.array(wanted, np.int64)
    np.testing.assert_array_equal(find_keys(rising, asked), np.searchsorted(rising, asked))


@given(keys, st.integers(1, 10**9))
def test_distinct_keys_is_unique(values, stretch):
    given_keys = np.array(values, np.int64) * stretch
    np.testing.assert_array_equal(distinct_keys(given_keys), np.unique(given_keys))
