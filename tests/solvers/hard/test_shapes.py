"""Orders of extreme shape: each is certified to a relative gap of 1e-12, most have a closed form as well."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.orders import deep_order

import attomaton as at
from attomaton.base.native import project_order, rank_edges
from attomaton.solvers.hard.certify import certify_positions
from attomaton.solvers.hard.placement import Placement
from attomaton.solvers.hard.problem import OrderProblem
from tests.drawn import edge_table, one_group, random_order
from tests.sizes import some


def solve(problem) -> np.ndarray:
    """Certified positions."""
    positions, flow = Placement().solve_order(problem)
    certificate = certify_positions(problem, positions, flow, rtol=1e-12)
    assert certificate.certified, certificate
    return positions


def norm(problem, positions) -> float:
    return float((problem.sizes * positions**2).sum())


def ones(n_nodes) -> np.ndarray:
    return np.ones(n_nodes, np.int64)


def chain_edges(nodes) -> tuple[np.ndarray, np.ndarray]:
    """Each node above the next."""
    nodes = np.asarray(nodes)
    return nodes[:-1], nodes[1:]


def join(*parts) -> tuple[np.ndarray, np.ndarray]:
    """Several lists of edges as one."""
    above, below = zip(*parts, strict=True)
    return np.concatenate(above), np.concatenate(below)


def upside_down(problem) -> OrderProblem:
    return one_group(problem.sizes, problem.below, problem.above)


@pytest.mark.parametrize("n_nodes", some([2, 3, 1_000, 10**5, 10**6], gate=[2, 3, 1_000]))
def test_chains(n_nodes):
    problem = one_group(ones(n_nodes), *chain_edges(np.arange(n_nodes)))
    positions = solve(problem)
    np.testing.assert_allclose(positions, (n_nodes - 1) / 2 - np.arange(n_nodes), atol=1e-12 * n_nodes)
    assert norm(problem, positions) == pytest.approx(n_nodes * (n_nodes**2 - 1) / 12, rel=1e-12)


@pytest.mark.slow  # scale
def test_a_chain_of_a_million_in_no_order():
    nodes = np.random.default_rng(0).permutation(10**6)
    positions = solve(one_group(ones(10**6), *chain_edges(nodes)))
    np.testing.assert_allclose(positions[nodes], (10**6 - 1) / 2 - np.arange(10**6), atol=1e-6)


@pytest.mark.slow  # scale
def test_a_chain_of_a_million_from_components():
    above, below = chain_edges(np.arange(10**6))
    components = at.find_components(edge_table(np.zeros(10**6 - 1, int), above, below, 10**6))
    hard = at.solve_graph_svm(components).expect()
    assert hard.certificate.upper == pytest.approx(10**6 * (10**12 - 1) / 12, rel=1e-12)


def test_antichains():
    nothing = np.zeros(0, np.int64)
    assert not solve(one_group([], nothing, nothing)).any()
    assert not solve(one_group(ones(1_000), nothing, nothing)).any()
    groups = OrderProblem(ones(10**5), nothing, nothing, np.arange(10**5))
    assert not solve(groups).any()


def test_groups_of_which_every_other_is_an_antichain():
    """Pairs 0 → 1 in every even group; two nodes without an edge in every odd one."""
    group = np.repeat(np.arange(20_000), 2)
    tops = np.arange(0, 40_000, 4)
    positions = solve(OrderProblem(ones(40_000), tops, tops + 1, group))
    np.testing.assert_array_equal(positions.reshape(-1, 4), np.tile([0.5, -0.5, 0.0, 0.0], (10_000, 1)))


@pytest.mark.parametrize("n_leaves", [1, 7, 10**6])
def test_stars_both_ways(n_leaves):
    star = one_group(ones(n_leaves + 1), np.zeros(n_leaves, int), np.arange(1, n_leaves + 1))
    expected = np.r_[n_leaves, -ones(n_leaves)] / (n_leaves + 1)
    np.testing.assert_allclose(solve(star), expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(solve(upside_down(star)), -expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("n_pairs", [2, 50_000])
def test_fences(n_pairs):
    """Up, down, up, down: every pair stands at ±1/2, and every other edge is tight without pressing."""
    tops = np.arange(0, 2 * n_pairs, 2)
    problem = one_group(ones(2 * n_pairs), *join((tops, tops + 1), (tops[1:], tops[1:] - 1)))
    np.testing.assert_allclose(solve(problem), np.tile([0.5, -0.5], n_pairs), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("n_layers", "width"), [(2, 300), (30, 30), (200, 4)])
def test_complete_layers(n_layers, width):
    """Every node above all of the next layer: a chain of layers, so the norm is that of a chain × width."""
    nodes = np.arange(n_layers * width).reshape(n_layers, width)
    above = np.repeat(nodes[:-1], width, axis=1).ravel()
    below = np.tile(nodes[1:], (1, width)).ravel()
    problem = one_group(ones(n_layers * width), above, below)
    positions = solve(problem)
    np.testing.assert_allclose(positions, (n_layers - 1) / 2 - nodes.ravel() // width, atol=1e-12 * n_layers)
    assert norm(problem, positions) == pytest.approx(width * n_layers * (n_layers**2 - 1) / 12, rel=1e-12)


def test_complete_layers_of_random_width_and_weight():
    rng = np.random.default_rng(0)
    layer = np.sort(rng.integers(0, 30, 600))
    above, below = np.nonzero(layer[:, None] + 1 == layer)
    solve(one_group(rng.integers(1, 10**9, 600), above, below))


def test_a_total_order_with_all_its_pairs():
    above, below = np.nonzero(np.triu(np.ones((400, 400), bool), 1))
    problem = one_group(ones(400), above, below)
    assert norm(problem, solve(problem)) == pytest.approx(400 * (400**2 - 1) / 12, rel=1e-12)


def test_ties_everywhere():
    """One strongly connected component: nothing to separate."""
    above, below = chain_edges(np.r_[np.arange(5_000), 0])
    components = at.find_components(edge_table(np.zeros(5_000, int), above, below, 5_000))
    assert len(components) == 1
    hard = at.solve_graph_svm(components).expect()
    assert not hard.scores.column("score").to_numpy().any()


def test_a_chain_of_ties():
    """Pairs of tied tokens, each pair above the next: a chain of 5,000 with weights 2."""
    first = np.arange(0, 10_000, 2)
    above, below = join((first, first + 1), (first + 1, first), (first[:-1] + 1, first[1:]))
    components = at.find_components(edge_table(np.zeros(len(above), int), above, below, 10_000))
    assert (components.sizes == 2).all()
    hard = at.solve_graph_svm(components).expect()
    assert hard.certificate.upper == pytest.approx(2 * 5_000 * (5_000**2 - 1) / 12, rel=1e-12)


@pytest.mark.parametrize("heavy", [1, 7, 10**9])
@pytest.mark.parametrize("heavy_on_top", [False, True])
def test_a_single_edge_of_uneven_weights(heavy, heavy_on_top):
    top, bottom = (heavy, 1) if heavy_on_top else (1, heavy)
    positions = solve(one_group([top, bottom], [0], [1]))
    expected = np.array([bottom, -top]) / (top + bottom)
    np.testing.assert_allclose(positions, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(3))
def test_weights_from_one_to_a_billion(seed):
    rng = np.random.default_rng(seed)
    for n_edges in (2_000, 4_000, 20_000):
        solve(random_order(rng, 2_000, n_edges, 10**9))
        solve(random_order(rng, 2_000, n_edges, 10**9, by_magnitude=True))
    solve(one_group(rng.choice([1, 10**9], 3_000), *chain_edges(np.arange(3_000))))


def test_repeated_edges_change_nothing():
    rng = np.random.default_rng(0)
    for n_edges in (100, 300, 2_000):
        once = random_order(rng, 200, n_edges, 5)
        thrice = one_group(once.sizes, np.tile(once.above, 3), np.tile(once.below, 3))
        np.testing.assert_allclose(solve(thrice), solve(once), rtol=0, atol=1e-12)


@pytest.mark.slow  # scale
@pytest.mark.parametrize("place", [0, 500, 999])
def test_a_million_leaves_on_one_node_of_a_chain(place):
    """The leaves stay near zero; where their node would be less than 1 above them, the chain makes way."""
    leaves = np.arange(1_000, 1_001_000)
    edges = join(chain_edges(np.arange(1_000)), (np.full(10**6, place), leaves))
    problem = one_group(ones(1_001_000), *edges)
    positions = solve(problem)
    np.testing.assert_allclose(solve(upside_down(problem)), -positions, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_legs", [1, 5])
def test_caterpillars(n_legs):
    """A chain with legs below, above, and on either side in turn at every node of the spine."""
    spine = np.arange(2_000)
    foot, leg = np.repeat(spine, n_legs), np.arange(2_000, 2_000 * (n_legs + 1))
    sizes, up = ones(2_000 * (n_legs + 1)), foot % 2 == 0
    for above, below in ((foot, leg), (leg, foot), (np.where(up, leg, foot), np.where(up, foot, leg))):
        problem = one_group(sizes, *join(chain_edges(spine), (above, below)))
        np.testing.assert_allclose(solve(upside_down(problem)), -solve(problem), rtol=0, atol=1e-9)


def test_grids():
    """The product order of 60 × 60: with equal weights a node stands at its level."""
    node = np.arange(3_600).reshape(60, 60)
    edges = join((node[:-1].ravel(), node[1:].ravel()), (node[:, :-1].ravel(), node[:, 1:].ravel()))
    positions = solve(one_group(ones(3_600), *edges))
    levels = np.add.outer(np.arange(60), np.arange(60)).ravel()
    np.testing.assert_allclose(positions, 59.0 - levels, rtol=0, atol=1e-10)
    solve(one_group(np.random.default_rng(0).integers(1, 100, 3_600), *edges))


def test_binary_trees_both_ways():
    children = np.arange(1, 2**16 - 1)
    tree = one_group(ones(2**16 - 1), (children - 1) // 2, children)
    positions = solve(tree)
    np.testing.assert_allclose(solve(upside_down(tree)), -positions, rtol=0, atol=1e-11)
    depth = np.log2(np.arange(1, 2**16)).astype(int)
    np.testing.assert_allclose(positions, depth.mean() - depth, rtol=0, atol=1e-11)


@pytest.mark.parametrize("edge", [(0, 3_000), (1_500, 3_200), (2_999, 3_000), (3_499, 0), (3_200, 1_500)])
def test_two_chains_joined_by_one_edge(edge):
    """Lengths 3,000 and 500; (2999, 3000) makes one chain of 3,500 of them."""
    chains = chain_edges(np.arange(3_000)), chain_edges(np.arange(3_000, 3_500))
    problem = one_group(ones(3_500), *join(*chains, ([edge[0]], [edge[1]])))
    value = norm(problem, solve(problem))
    closed = [length * (length**2 - 1) / 12 for length in (3_000, 500, 3_500)]
    assert closed[0] + closed[1] <= value * (1 + 1e-12)
    assert value <= closed[2] * (1 + 1e-12)
    if edge in ((2_999, 3_000), (3_499, 0)):
        assert value == pytest.approx(closed[2], rel=1e-12)


@pytest.mark.parametrize(("span", "heaviest"), [(1_000, 1), (100, 1), (1_000, 10**9), (10, 1_000)])
def test_deep_orders_are_exact(span, heaviest):
    """More than 64 levels and 4,096 nodes, so the rigid ends are joined first: still exact to the integer."""
    rng = np.random.default_rng(span)
    problem = deep_order(10_000, 60_000, rng, span)
    problem = replace(problem, sizes=rng.integers(1, heaviest, 10_000, endpoint=True))
    positions, flow = Placement().solve_order(problem)
    certificate = certify_positions(problem, positions, flow, rtol=1e-12, exact=True)
    assert certificate.certified, certificate
    assert certificate.exact


@pytest.mark.slow  # scale
def test_several_deep_orders_side_by_side():
    """Two groups, the second of two weak components of different depth, one of them upside down."""
    one, two = (deep_order(6_000, 40_000, np.random.default_rng(seed)) for seed in (0, 1))
    above = np.concatenate([one.above, 6_000 + one.above, 12_000 + two.below])
    below = np.concatenate([one.below, 6_000 + one.below, 12_000 + two.above])
    rows = np.lexsort((below, above))
    group = np.repeat([0, 1], [6_000, 12_000])
    together = solve(OrderProblem(ones(18_000), above[rows], below[rows], group))
    np.testing.assert_allclose(together[:6_000], solve(one), atol=1e-9)
    np.testing.assert_allclose(together[6_000:12_000], solve(one), atol=1e-9)
    np.testing.assert_allclose(together[12_000:], solve(upside_down(two)), atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_contraction_agrees_with_plain_pivots(seed):
    """The slow definition of the deep path: pivots over the whole order."""
    problem = deep_order(5_000, 40_000, np.random.default_rng(seed))
    contracted = solve(problem)
    graph = problem.sizes.astype(np.float64), np.zeros(5_000), problem.above, problem.below
    first, _ = rank_edges(5_000, problem.above, problem.below)
    positions, *_ = project_order(graph, first, (0.5, 1e-12))
    np.testing.assert_allclose(contracted, positions, atol=1e-9)
