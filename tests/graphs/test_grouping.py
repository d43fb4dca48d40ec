"""Looking keys up."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attomaton.graphs.grouping import find_keys

keys = st.lists(st.integers(-20, 60), max_size=120)


@given(st.lists(st.integers(0, 40), max_size=30, unique=True), keys)
def test_find_keys_is_searchsorted(ordered, wanted):
    rising, asked = np.sort(np.array(ordered, np.int64)), np.array(wanted, np.int64)
    np.testing.assert_array_equal(find_keys(rising, asked), np.searchsorted(rising, asked))
