"""Compiling ahead: small problems that make every kernel be compiled, run side by side in other programs.

``python -m attomaton.cli.warming NAME …`` solves the problems of these names with compiling switched on.
"""

import sys
from collections.abc import Callable, Sequence

import numpy as np

from attomaton.automaton.learning import LEARNING, learn
from attomaton.base.errors import UnsupportedOption
from attomaton.base.kernels import is_kept, start_helpers, wait_for_helpers
from attomaton.base.machine import count_processors
from attomaton.choices.fit import fit_choices
from attomaton.choices.result import ChoiceFit
from attomaton.corpora.samples import Samples
from attomaton.graphs.choices import extract_choices
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import extract_edges
from attomaton.graphs.robustness import measure_robustness
from attomaton.solvers.hard import forest, placement, planting
from attomaton.solvers.hard.problem import OrderProblem
from attomaton.solvers.hard.solve import solve_graph_svm
from attomaton.solvers.solved import solve_ties
from attomaton.trajectory.forward import fast_forward

Chain = tuple[str, ...]

OTHERS: tuple[Chain, ...] = (("flows", "windows", "errors"), ("embedded", "robustness", "deep-orders"))
"""What only trajectories, given embeddings, robustness and tokens on disk need."""


def warm_up() -> None:
    """Compile every kernel for this machine and keep the code on disk, side by side in several processes.

    Later programs read the code in a fraction of a second. In a Docker image, run
    ``attomaton doctor --compile`` in a layer after the installation, as the user who will run attomaton.
    """
    chains, at_once = [*LEARNING, *OTHERS], count_processors()
    shares = [[name for chain in chains[start::at_once] for name in chain] for start in range(at_once)]
    start_helpers([share for share in shares if share])
    if not (wait_for_helpers() and is_kept(placement.solve_parts)):
        raise UnsupportedOption(
            "the kernels could not be compiled ahead, or the code could not be kept on disk; "
            "`attomaton doctor` says where compiled code is kept and whether that place can be written"
        )


def _pivots() -> None:
    graph = forest.unit_graph(np.ones(3), np.array([0, 1]), np.array([1, 2]), 0)
    planted, walk = forest.empty_forest(graph), forest.empty_walk(graph)
    forest.pivot(graph, planted, walk, (0.5, 1e-14))
    forest.collect(graph, planted, walk)


def _planting() -> None:
    graph = forest.unit_graph(np.ones(3), np.array([0, 1]), np.array([1, 2]), 0)
    height, depth = planting.longest_paths(graph)
    reach = planting.find_reach(graph, height, depth)
    planting.plant(graph, forest.empty_forest(graph), planting.prefer_edges(graph, height, depth, reach))


def _deep_orders() -> None:
    nodes = np.arange(placement.DEEP_NODES + 1)
    chain = OrderProblem(np.ones(len(nodes), np.int64), nodes[:-1], nodes[1:], np.zeros(len(nodes), np.int64))
    placement.Placement().solve_order(chain)


def _choices() -> ChoiceFit:
    return fit_choices(["a", "b", "c"], [["a", "b"], ["b", "c"], ["c", "a"]])


def _luce() -> None:
    components = _components()
    solve_ties(components, extract_choices(SAMPLES, components))


def _embedded() -> None:
    embeddings = np.eye(4) + 0.1
    solve_graph_svm(_components(), embeddings=embeddings)
    solve_graph_svm(_components(), embeddings=embeddings, norm="nuclear")
    fast_forward(SAMPLES, step_size=1.0, to=1e3, embeddings=embeddings)


def _windows() -> None:
    learn([[0, 1, 0, 2, 0, 1, 0, 1]], window=3, engine="duckdb").explain([0, 2, 1])


SAMPLES = Samples.from_lists([[0, 1, 2], [1, 0, 2], [3, 0, 2], [0, 1, 2]], [0, 1, 0, 1], n_tokens=4)


def _components() -> Components:
    return find_components(extract_edges(SAMPLES))


EXERCISES: dict[str, Callable[[], object]] = {
    "pivots": _pivots,
    "planting": _planting,
    "orders": lambda: solve_graph_svm(_components()),
    "deep-orders": _deep_orders,
    "choices": _choices,
    "errors": lambda: _choices().standard_errors,
    "sets": lambda: extract_choices(SAMPLES, _components()),
    "luce": _luce,
    "flows": lambda: fast_forward(SAMPLES, step_size=1.0, to=1e3),
    "embedded": _embedded,
    "robustness": lambda: measure_robustness(_components()),
    "windows": _windows,
}
"""Small problems by name. Each needs kernels that the others do not need."""


def exercise(names: Sequence[str]) -> None:
    """Solve the problems of these names, one after the other; all of them if none is named."""
    for name in names or EXERCISES:
        EXERCISES[name]()


if __name__ == "__main__":
    exercise(sys.argv[1:])
