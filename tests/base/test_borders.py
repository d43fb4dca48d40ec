"""Arrays of any layout become what compiled code can read."""

import numpy as np
import pyarrow as pa
import pytest

import attomaton as at
from attomaton.base.borders import check_floats, check_int32, check_int64
from attomaton.base.tables import column


def unaligned(array):
    """The same entries, one byte past an aligned address."""
    return np.frombuffer(bytearray(b" " + array.tobytes()), array.dtype, offset=1).reshape(array.shape)


LAYOUTS = {
    "unaligned": unaligned,
    "strided": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    "reversed": lambda array: np.ascontiguousarray(array[::-1])[::-1],
    "Fortran": np.asfortranarray,
    "swapped": lambda array: array.astype(array.dtype.newbyteorder()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_checked_arrays_are_contiguous_and_aligned(layout):
    for check, array in (
        (lambda array: check_int32(array, "ids"), np.arange(9, dtype=np.int32)),
        (lambda array: check_int64(array, "ids"), np.arange(9)),
        (lambda array: check_floats(array, (3, 3), "rows"), np.arange(9.0).reshape(3, 3)),
    ):
        checked = check(LAYOUTS[layout](array))
        assert checked.flags.carray
        np.testing.assert_array_equal(checked, array, strict=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_samples_of_any_layout_give_the_same_edges(layout):
    given = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [2, 1, 1]] * 2, [0, 1, 2] * 2)
    names = ("values", "starts", "stops", "labels")
    samples = at.Samples(**{name: LAYOUTS[layout](getattr(given, name)) for name in names}, n_tokens=3)
    assert all(getattr(samples, name).flags.carray for name in names)
    assert at.extract_edges(samples).rows.equals(at.extract_edges(given).rows)


def test_columns_over_unaligned_buffers_are_aligned():
    buffer = pa.py_buffer(unaligned(np.arange(4)))
    table = pa.table({"number": pa.Array.from_buffers(pa.int64(), 4, [None, buffer])})
    assert column(table, "number").flags.aligned
    assert column(table, "number").tolist() == [0, 1, 2, 3]
