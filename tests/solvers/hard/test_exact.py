"""The exact check: what it accepts, what it refuses, and the block solver's positions against it."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from attomaton.base.borders import trusted
from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.solvers.hard.certify import MOST_PROVED, check_exactly
from attomaton.solvers.hard.placement import Placement
from attomaton.solvers.hard.problem import OrderProblem
from tests.drawn import mixed_orders, one_group, random_order


def assert_exact(problem):
    """The block solver's flow passes the check, and its positions are the exact ones up to rounding."""
    positions, flow = Placement().solve_order(problem)
    check = check_exactly(problem, flow)
    assert check.optimal, check.reason
    exact = np.array([float(position) for position in check.positions])
    np.testing.assert_allclose(positions, exact, rtol=0, atol=1e-12 * np.abs(exact).max(initial=0.0))
    return check


def test_positions_equal_the_exact_ones_on_500_random_orders():
    for problem in mixed_orders(np.random.default_rng(0), 500):
        assert_exact(problem)


@pytest.mark.slow  # scale
@pytest.mark.parametrize("heaviest", [1, 5, 10**9])
@pytest.mark.parametrize("n_edges", [5_000, 20_000, 100_000])
def test_ten_thousand_nodes(n_edges, heaviest):
    assert_exact(random_order(np.random.default_rng(n_edges), 10_000, n_edges, heaviest))


@pytest.mark.slow  # scale
def test_a_chain_of_ten_thousand():
    steps = np.arange(9_999)
    check = assert_exact(one_group(np.ones(10_000), steps, steps + 1))
    assert check.positions == [Fraction(9_999 - 2 * node, 2) for node in range(10_000)]


def test_several_groups_and_none():
    two = OrderProblem(np.array([1, 1, 3, 1]), np.array([0, 2]), np.array([1, 3]), np.array([0, 0, 1, 1]))
    check = check_exactly(two, np.array([0.5, 0.75]))
    assert check.optimal
    assert check.positions == [Fraction(1, 2), Fraction(-1, 2), Fraction(1, 4), Fraction(-3, 4)]
    nothing = check_exactly(one_group([], [], []), np.zeros(0))
    assert nothing.optimal
    free = check_exactly(one_group([3, 4], [], []), np.zeros(0))
    assert free.optimal
    assert free.positions == [0, 0]


def test_an_edge_without_pressure_may_be_held_tight_or_not():
    """The pairs 0 → 1 and 2 → 3 stand at ±1/2 on their own, so 0 → 3 has a gap of 1 and multiplier 0."""
    problem = one_group([1, 1, 1, 1], [0, 0, 2], [1, 3, 3])
    held = check_exactly(problem, np.array([0.5, 1e-17, 0.5]))
    free = check_exactly(problem, np.array([0.5, 0.0, 0.5]))
    below = check_exactly(problem, np.array([0.5, -1e-17, 0.5]))
    assert held.optimal
    assert free.optimal
    assert below.optimal
    assert held.positions == free.positions == below.positions


def test_a_violated_edge_is_refused():
    chain = one_group([1, 1, 1], [0, 1], [1, 2])
    check = check_exactly(chain, np.array([1.0, 0.0]))
    assert not check.optimal
    assert check.reason == "edge 1 → 2 is violated: its gap is -1/2"
    assert check_exactly(chain, np.zeros(2)).reason == "edge 0 → 1 is violated: its gap is 0"


def test_a_violation_too_small_for_floating_point_is_refused():
    """A star of weights 1, 10^16, 10^16: without its second edge that gap falls short by 1e-16."""
    heavy = 10**16
    star = one_group([1, heavy, heavy], [0, 0], [1, 2])
    assert check_exactly(star, np.array([1.0, 1.0])).optimal
    check = check_exactly(star, np.array([1.0, 0.0]))
    assert check.reason == f"edge 0 → 2 is violated: its gap is {Fraction(heavy, heavy + 1)}"


def test_a_tight_edge_that_pulls_is_refused():
    """0 above 1 and 2 stands at 2/3, and 4 below 3 at −1/2: 0 → 4 would have to pull to be tight."""
    problem = one_group([1, 1, 1, 1, 1], [0, 0, 0, 3], [1, 2, 4, 4])
    assert check_exactly(problem, np.array([1.0, 1.0, 0.0, 1.0])).optimal
    check = check_exactly(problem, np.ones(4))
    assert check.reason.startswith("edge 0 → 4 has the negative multiplier -")


@pytest.mark.parametrize(
    ("above", "below"), [([0, 0, 1], [1, 2, 2]), ([0, 0], [1, 1]), ([0, 1], [1, 0]), ([1], [1])]
)
def test_tight_edges_that_close_a_circle_are_refused(above, below):
    """The last two are cycles, which no OrderProblem takes: the proof does not rely on that."""
    parts = {"sizes": [1, 1, 1], "above": above, "below": below, "group": [0, 0, 0]}
    problem = trusted(OrderProblem, **{name: np.array(part) for name, part in parts.items()})
    check = check_exactly(problem, np.ones(len(above)))
    assert check.reason.endswith("closes a cycle of tight edges")
    assert not check.optimal
    assert not check.positions


def test_a_wrong_choice_of_tight_edges_is_never_called_optimal():
    """Flow on random edges: what passes has the one optimal norm, and most does not pass."""
    rng = np.random.default_rng(0)
    passed = 0
    for problem in mixed_orders(rng, 200, most=8):
        best = assert_exact(problem).positions
        check = check_exactly(problem, rng.normal(size=len(problem.above)))
        if check.optimal:
            passed += len(problem.above) > 0
            assert check.positions == best
    assert 0 < passed < 60


def test_near_ties_of_heavy_components_are_still_exact():
    """Gaps that miss 1 by 1e-11 matter here: the second edge would be violated by 1 / 39999999999."""
    problem = one_group([99_999, 100_000, 100_001, 100_000], [0, 0, 1, 1], [2, 3, 2, 3])
    assert_exact(problem)


def test_too_many_components_for_whole_numbers():
    check_exactly(one_group(np.ones(MOST_PROVED), [0], [1]), np.ones(1))
    with pytest.raises(UnsupportedOption, match=rf"20,001 components are too many.*at most {MOST_PROVED:,}"):
        check_exactly(one_group(np.ones(MOST_PROVED + 1), [0], [1]), np.ones(1))


def test_the_docs_name_the_same_limit():
    page = Path(__file__).parents[3] / "docs" / "reference.md"
    assert f"in integer arithmetic, for up to {MOST_PROVED:,} components" in page.read_text(encoding="utf-8")


def test_unsorted_edges_are_refused():
    with pytest.raises(MismatchedParts, match="sorted by the component above"):
        OrderProblem(np.ones(3, np.int64), np.array([1, 0]), np.array([2, 1]), np.zeros(3, np.int64))
