"""Kernels give the same numbers whether Python runs them or compiled code does."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base import kernels
from attomaton.base.kernels import Kernel

ROUNDED = {"_descend_all", "_minimise", "_damp", "_descend", "_bend"}
"""Kernels with matrix products, or with a form of their own for numpy: equal to rounding."""


@pytest.fixture(scope="module")
def both_ways():
    """Every call of a kernel runs in Python and compiled, and what it returns and changes is compared."""
    seen: dict[str, int] = {}
    real = Kernel.__call__

    def call(self, *arguments):
        if kernels._running.plain:
            return real(self, *arguments)
        others = deepcopy(arguments)
        kernels._running.plain = True
        try:
            with np.errstate(all="ignore"):
                plain = self._instead(*others)
        finally:
            kernels._running.plain = False
        found = self.code(*arguments)
        seen[self.__name__] = seen.get(self.__name__, 0) + 1
        same((found, arguments), (plain, others), self.__name__)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "__call__", call)
        yield seen


def same(one, other, name):
    """Equal in every bit, or to rounding where the kernel is one of those."""
    if isinstance(one, (tuple, list)):
        assert len(one) == len(other), name
        for here, there in zip(one, other, strict=True):
            same(here, there, name)
    elif one is None:
        assert other is None, name
    elif name in ROUNDED:
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13, err_msg=name)
    else:
        assert np.asarray(one).dtype.kind == np.asarray(other).dtype.kind, name
        assert np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f"), name


documents = st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=40), min_size=1, max_size=4)


@given(documents, st.integers(2, 12))
def test_learning_is_the_same_both_ways(both_ways, ids, window):
    auto = at.learn([[0, 1, 0, 0], *ids], window=window, engine=at.engines.Engine(threads=1))
    assert auto.hard.certificate.certified


def test_solvers_are_the_same_both_ways(both_ways):
    ids = (np.random.default_rng(5).zipf(1.4, 3_000).clip(max=60) - 1).tolist()
    auto = at.learn([ids], window=8, engine=at.engines.Engine(threads=1))
    auto.explain(ids[:8])
    assert {"solve_parts", "_solve_groups", "_sum_groups", "_measure_groups"} <= set(both_ways)


@pytest.mark.slow  # compiles everything twice
def test_trajectories_are_the_same_both_ways(both_ways):
    samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [3, 0, 2]], [0, 1, 0], n_tokens=4)
    at.fast_forward(samples, step_size=1.0, to=1e6)
    at.fast_forward(samples, step_size=1.0, to=1e4, embeddings=np.eye(4)[:, :3] + 0.1)
    assert {"_descend_all", "_minimise_all", "_damp_all"} <= set(both_ways)
