"""The kernels repeat recorded calls, from several threads bit for bit, and convert no array."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from attomaton.base import native
from tests.base.native.recorded import copied, read_calls

CALLS = read_calls()
KERNELS = sorted(name for name in dir(native) if not name.startswith("_"))


def assert_near(found, expected):
    """Counts are equal; floats as near as exp and log of another processor are, which differ in a bit."""
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for result, recorded in zip(found, expected, strict=True):
            assert_near(result, recorded)
    elif isinstance(expected, np.ndarray) and expected.dtype.kind != "f":
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected, strict=True)
    elif isinstance(expected, float | np.ndarray):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, strict=True)
    else:
        assert found == expected


def replay(kernel):
    """Each recorded call anew: its result, and its arguments afterwards."""
    for call in CALLS[kernel]:
        arguments = copied(call.arguments)
        yield getattr(native, kernel)(*arguments), arguments


def test_every_kernel_was_recorded():
    assert set(KERNELS) == set(CALLS)
    assert sum(map(len, CALLS.values())) >= 500


@pytest.mark.parametrize("kernel", KERNELS)
def test_recorded_calls_are_repeated(kernel):
    for (result, after), call in zip(replay(kernel), CALLS[kernel], strict=True):
        assert_near(result, call.result)
        assert_near(after, call.after)


def test_sixteen_threads_get_the_same_bits():
    alone = {kernel: pickle.dumps(list(replay(kernel))) for kernel in KERNELS}
    order = np.random.default_rng(0).permutation(KERNELS * 4).tolist()
    with ThreadPoolExecutor(16) as pool:
        for kernel, results in zip(order, pool.map(lambda name: list(replay(name)), order), strict=True):
            assert pickle.dumps(results) == alone[kernel]


def arrays_in(value, path=()):
    """The position of every array among nested arguments."""
    if isinstance(value, tuple):
        for position, part in enumerate(value):
            yield from arrays_in(part, (*path, position))
    elif isinstance(value, np.ndarray):
        yield path


def entry(value, path):
    for position in path:
        value = value[position]
    return value


def count_entries(call):
    return sum(entry(call.arguments, path).size for path in arrays_in(call.arguments))


def replaced(value, path, new):
    if not path:
        return new
    return tuple(replaced(part, path[1:], new) if at == path[0] else part for at, part in enumerate(value))


def unaligned(array):
    """The same entries, one byte past an aligned address."""
    return np.frombuffer(bytearray(b" " + array.tobytes()), array.dtype, offset=1).reshape(array.shape)


def spoilt(array):
    """The same entries in an array that a kernel cannot take as it is."""
    yield np.zeros(array.shape, {"f": np.float16, "i": np.int16, "b": np.int8}[array.dtype.kind])
    yield array[np.newaxis]
    if array.itemsize > 1:
        yield array.astype(array.dtype.newbyteorder())
        if array.size:
            yield unaligned(array)
    for apart in (np.repeat(array, 2, axis=-1)[..., ::2], np.asfortranarray(array)):
        if not apart.flags.c_contiguous:
            yield apart


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_array_is_converted(kernel):
    """What a kernel writes into a converted copy would be lost."""
    call = max(CALLS[kernel], key=count_entries)
    for path in arrays_in(call.arguments):
        array = entry(call.arguments, path)
        for other in spoilt(array):
            with pytest.raises(TypeError):
                getattr(native, kernel)(*replaced(copied(call.arguments), path, other))
        if not np.array_equal(array, entry(call.after, path), equal_nan=array.dtype.kind == "f"):
            fixed = array.copy()
            fixed.flags.writeable = False
            with pytest.raises(TypeError):
                getattr(native, kernel)(*replaced(copied(call.arguments), path, fixed))


def test_the_stub_is_what_the_extension_says():
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, root / ".ci/stub.py", "--check"], check=True)
