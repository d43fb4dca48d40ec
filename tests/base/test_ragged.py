"""Rows of unequal length, each function against its plain definition, row by row."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from attomaton.base import ragged

numbers = st.floats(-30, 30).map(lambda number: round(number, 3))
rows = st.lists(st.lists(numbers, max_size=20), max_size=8)
filled = st.lists(st.lists(numbers, min_size=1, max_size=20), min_size=1, max_size=8)


def flatten(lists):
    """All entries, the offsets and the index of the rows."""
    lengths = np.array([len(one) for one in lists], np.int64)
    index = [number for number, one in enumerate(lists) for _ in one]
    flat = np.array([entry for one in lists for entry in one], np.float64)
    return flat, ragged.offsets_of(lengths), np.array(index, np.int64)


def softmax_by_definition(row):
    odds = [math.exp(entry - max(row)) for entry in row]
    return [one / sum(odds) for one in odds]


@given(rows)
def test_offsets_cut_the_rows_out_again(lists):
    flat, offsets, index = flatten(lists)
    assert [flat[begin:end].tolist() for begin, end in pairwise(offsets)] == lists
    assert ragged.rows_of(offsets).tolist() == index.tolist()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=8))
def test_ranges_are_those_of_python(pairs):
    starts, lengths = (np.array([pair[part] for pair in pairs], np.int64) for part in (0, 1))
    plain = [number for start, length in pairs for number in range(start, start + length)]
    assert ragged.ranges_of(starts, lengths).tolist() == plain


@given(st.lists(st.integers(0, 6), max_size=30))
def test_borders_runs_and_what_occurs(entries):
    index, ordered = np.array(entries, np.int64), sorted(entries)
    plain = [sum(entry < number for entry in entries) for number in range(8)]
    assert ragged.group_borders(index, 7).tolist() == plain
    assert ragged.occurs(index, 7).tolist() == [number in entries for number in range(7)]
    if entries:
        starts = [ordered.index(value) for value in sorted(set(entries))]
        assert ragged.run_starts(np.array(ordered)).tolist() == starts


@given(rows, st.randoms(use_true_random=False))
def test_sums_and_largest_whatever_the_order(lists, random):
    flat, _, index = flatten(lists)
    order = list(range(len(flat)))
    random.shuffle(order)
    flat, index = flat[order], index[order]
    sums = ragged.sum_at(index, flat, len(lists) + 1)
    np.testing.assert_allclose(sums, [*(math.fsum(one) for one in lists), 0.0], atol=1e-12)
    largest = [max(one, default=-math.inf) for one in lists]
    assert ragged.largest_of(index, flat, len(lists)).tolist() == largest
    least = [max([0.0, *one]) for one in lists]
    assert ragged.largest_of(index, flat, len(lists), least=0.0).tolist() == least


@given(filled)
def test_centred_rows_have_mean_zero_and_keep_their_differences(lists):
    flat, _, index = flatten(lists)
    plain = [entry - math.fsum(row) / len(row) for row in lists for entry in row]
    assert ragged.centre(index, flat).tolist() == pytest.approx(plain, abs=1e-12)
    means = ragged.means_at(index, flat).tolist()
    assert means == pytest.approx([math.fsum(row) / len(row) for row in lists], abs=1e-12)
    both = ragged.centre(index, np.stack([flat, 2 * flat], axis=1))
    np.testing.assert_array_equal(both[:, 0], ragged.centre(index, flat))


@given(filled)
def test_softmax_is_its_definition_in_both_forms(lists):
    flat, offsets, index = flatten(lists)
    plain = [probability for row in lists for probability in softmax_by_definition(row)]
    for probabilities in (ragged.softmax(index, flat, len(lists)), ragged.softmax_runs(flat, offsets[:-1])):
        assert probabilities.tolist() == pytest.approx(plain, rel=1e-13, abs=1e-300)
    both = ragged.softmax_runs(np.stack([flat, -flat]), offsets[:-1])
    np.testing.assert_array_equal(both[0], ragged.softmax_runs(flat, offsets[:-1]))
    odds = [math.exp(entry - max(row)) for row in lists for entry in row]
    assert ragged.odds_of(index, flat, len(lists)).tolist() == pytest.approx(odds, rel=1e-13, abs=1e-300)


@given(filled)
def test_shares_and_log_sums_are_their_definitions(lists):
    flat, offsets, index = flatten(lists)
    weights = np.exp(flat)
    plain = [math.exp(entry) / math.fsum(map(math.exp, row)) for row in lists for entry in row]
    assert ragged.shares_of(index, weights, len(lists)).tolist() == pytest.approx(plain, rel=1e-13)
    logs = [math.log(math.fsum(map(math.exp, row))) for row in lists]
    assert ragged.log_sums(flat, offsets).tolist() == pytest.approx(logs, rel=1e-13, abs=1e-13)


def test_borders_of_a_sorted_index_with_empty_rows():
    assert ragged.sorted_borders(np.array([0, 2, 2]), 4).tolist() == [0, 1, 1, 3, 3]
