"""What the page reads back is what was packed."""

import numpy as np
from hypothesis import given, strategies as st

from attomaton.report.page.packing import SHORTEST_RUN, differences, runs

whole = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 7)), max_size=12).map(
    lambda pairs: np.array([value for value, times in pairs for _ in range(times)], np.int64)
)


def expand(packed):
    return [value for one in packed for value in ([one[0]] * one[1] if isinstance(one, list) else [one])]


@given(whole)
def test_runs_expand_to_the_values_and_are_not_longer(values):
    packed = runs(values)
    assert expand(packed) == values.tolist()
    assert all(one[1] >= SHORTEST_RUN for one in packed if isinstance(one, list))
    assert len(str(packed)) <= len(str(values.tolist()))


@given(whole)
def test_differences_sum_up_to_the_values(values):
    assert np.cumsum(expand(differences(values)), dtype=np.int64).tolist() == values.tolist()
