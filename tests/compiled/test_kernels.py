"""When kernels are compiled: not for small work, but before large work begins, and in the end if repeated."""

import os
import subprocess
import sys

import numpy as np
import pytest

from attomaton.compiled import compiled, compiled_within, expect_work
from attomaton.compiled.kernels import Kernel, count_entries


@compiled_within
def double(number):
    return 2 * number


@compiled
def add_up(numbers):
    total = 0.0
    for number in numbers:
        total += double(number)
    return total


def test_small_work_is_not_compiled():
    add_up._asked, add_up._is_loaded = 0.0, False
    assert add_up(np.ones(10)) == 20.0
    assert not add_up._is_loaded
    assert not add_up.code.overloads


def test_expected_work_is_compiled_before_it_begins():
    add_up._asked, add_up._is_loaded = 0.0, False
    expect_work(add_up, 1e9)
    assert add_up(np.ones(10)) == 20.0
    assert add_up._is_loaded
    assert add_up.code.overloads


def test_repeated_small_work_is_compiled_in_the_end():
    kernel = Kernel(add_up.plain, None)
    for _ in range(30):
        kernel(np.ones(100_000))
    assert kernel._is_loaded


def test_entries_of_nested_tuples_count():
    assert count_entries(np.zeros(3), (np.zeros((2, 2)), (np.zeros(1), 5)), 7) == 8


@pytest.mark.parametrize(("told", "imported"), [("", False), ("off", False), ("on", True)])
def test_the_example_needs_no_compiler(told, imported, tmp_path):
    """Nothing of numba is imported for a small text, unless the environment asks for it."""
    code = (
        "import sys, attomaton as at; "
        "at.fit_choices(['a', 'b', 'c'], [['a', 'b'], ['b', 'c'], ['c', 'a']]); "
        "print('numba' in sys.modules)"
    )
    environment = os.environ | {"ATTOMATON_COMPILE": told}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == str(imported)
