"""The compiled loops over orders against their definitions, for random orders of all kinds."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from attomaton.base.native import project_order, rank_edges
from attomaton.solvers.hard.certify import bound_groups
from attomaton.solvers.hard.problem import OrderProblem
from tests.drawn import random_order

seeds = st.integers(0, 10**9)


def draw(seed) -> tuple[OrderProblem, np.random.Generator]:
    """An order of up to 40 components, and the generator it came from."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 41))
    order = random_order(rng, size, int(size * rng.choice([0.5, 1, 2, 4])), int(rng.choice([1, 50])))
    return order, rng


@given(seeds)
def test_a_projection_is_optimal(seed):
    """Every gap is met; multipliers push, only where a gap is tight, and balance weight · p + moment."""
    order, rng = draw(seed)
    n_edges = len(order.above)
    weight, moment = (
        order.sizes.astype(np.float64),
        10.0 ** rng.integers(-2, 3) * rng.normal(size=len(order.sizes)),
    )
    first = rng.integers(0, max(n_edges, 1), n_edges).astype(np.int32)  # any edges, some of them twice
    graph = weight, moment, order.above, order.below
    positions, multipliers, active, block, offset = project_order(graph, first, (0.5, 1e-11))
    scale = 1.0 + np.abs(moment).max()
    gaps = order.gaps(positions)
    assert (gaps >= 1 - 1e-10).all()
    assert gaps[active] == pytest.approx(1.0, abs=1e-9 * scale)
    assert (multipliers >= 0).all()
    assert not multipliers[~active].any()
    assert weight * positions + moment == pytest.approx(order.divergence(multipliers), abs=1e-8 * scale)
    together = block[:, None] == block
    reach = np.eye(len(block), dtype=bool)
    reach[order.above[active], order.below[active]] = reach[order.below[active], order.above[active]] = True
    for _ in range(6):  # paths of up to 64 active edges
        reach = reach @ reach
    np.testing.assert_array_equal(together, reach)
    apart = np.subtract.outer(positions, positions) - np.subtract.outer(offset, offset)
    assert apart[together] == pytest.approx(0.0, abs=1e-9 * scale)


@given(seeds)
def test_edges_are_ranked_by_their_slack_on_longest_paths(seed):
    order, _ = draw(seed)
    size = len(order.sizes)
    height, depth = np.zeros(size, int), np.zeros(size, int)
    for _ in range(size):
        np.maximum.at(height, order.above, height[order.below] + 1)
        np.maximum.at(depth, order.below, depth[order.above] + 1)
    slack = height[order.above] - height[order.below] + depth[order.below] - depth[order.above]
    ranked, levels = rank_edges(size, order.above, order.below)
    assert levels == height.max()
    np.testing.assert_array_equal(ranked, np.argsort(slack, kind="stable"))


@given(seeds)
def test_bounds_of_groups_are_those_of_fractions(seed):
    """Two groups; positions and flow of any size and sign."""
    (one, rng), (two, _) = draw(seed), draw(seed + 1)
    size = len(one.sizes)
    ends = ([*getattr(one, name), *(size + getattr(two, name))] for name in ("above", "below"))
    order = OrderProblem(np.r_[one.sizes, two.sizes], *ends, np.repeat([0, 1], [size, len(two.sizes)]))
    positions, flow = (
        rng.normal(size=n) * 10.0 ** rng.integers(-6, 7, n) for n in (len(order.sizes), len(order.above))
    )
    lower, upper, shortfall = bound_groups(order, positions, flow)
    assert shortfall == np.maximum(1.0 - order.gaps(positions), 0.0).max(initial=0.0)
    pushed = [max(Fraction(value), Fraction(0)) for value in flow.tolist()]
    divergence = [Fraction(0)] * len(order.sizes)
    for above, below, value in zip(order.above.tolist(), order.below.tolist(), pushed, strict=True):
        divergence[above] += value
        divergence[below] -= value
    for group in (0, 1):
        nodes = np.flatnonzero(order.group == group).tolist()
        sizes = {node: int(order.sizes[node]) for node in nodes}
        above = float(sum(sizes[node] * Fraction(positions[node]) ** 2 for node in nodes))
        spread = sum(divergence[node] ** 2 / sizes[node] for node in nodes)
        total = sum(value for edge, value in enumerate(pushed) if order.above[edge] in sizes)
        assert upper[group] == pytest.approx(above, rel=1e-14)
        assert lower[group] == pytest.approx(float(total**2 / spread) if spread else 0.0, rel=1e-13)
