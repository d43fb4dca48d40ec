"""When kernels are compiled: not for small work, but before large work begins, and in the end if repeated."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import attomaton as at
from attomaton.base import kernels as deciding
from attomaton.base.kernels import Kernel, compiled, compiled_within, count_entries, expect_work


@pytest.fixture(autouse=True)
def decided_by_work(monkeypatch):
    """Whatever the environment says: here the work decides."""
    monkeypatch.delenv("ATTOMATON_COMPILE", raising=False)
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)


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


def learned(monkeypatch, **settings):
    """Scores of a small corpus, of a trajectory and of choices, with kernels that were never used before."""
    for name, value in settings.items():
        monkeypatch.setattr(deciding, name, value)
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("attomaton")]
    for kernel in [one for module in modules for one in list(vars(module).values())]:
        if isinstance(kernel, Kernel):
            monkeypatch.setattr(kernel, "_is_loaded", False)
            monkeypatch.setattr(kernel, "_asked", 0.0)
    ids = (np.random.default_rng(8).zipf(1.5, 400).clip(max=20) - 1).tolist()
    auto = at.learn([ids], window=6)
    samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [3, 0, 2]], labels=[0, 1, 0], n_tokens=4)
    weights = at.fast_forward(samples, step_size=1.0, to=1e4).weights_at(5_000)
    return auto.hard.scores, auto.soft.scores, weights


def test_a_kernel_that_takes_too_long_begins_again_compiled(monkeypatch):
    """The answer is the same, even where arguments had been changed before Python gave up."""
    with monkeypatch.context() as patch:
        plain = learned(patch)
    with monkeypatch.context() as patch:
        begun_again = learned(patch, SOON=-1.0, SECONDS_FOR_BYTE=0.0)
    assert plain[0].equals(begun_again[0])
    assert plain[1].equals(begun_again[1])
    np.testing.assert_allclose(plain[2].toarray(), begun_again[2].toarray(), rtol=1e-10, atol=1e-12)


def test_hard_work_on_few_numbers_ends_soon():
    """A cycle with one weak link takes conjugate gradients thousands of turns."""
    pairs = [(item, (item + 1) % 300) for item in range(300)]
    began = time.monotonic()
    at.fit_choices(range(300), pairs, counts=[10] * 299 + [1])
    assert time.monotonic() - began < 60
