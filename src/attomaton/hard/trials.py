"""Problems of standard shapes and sizes, to measure the solvers of the hard side on this machine.

Run them with ``attomaton bench hard``; the benchmarks of the repository use the same problems.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from attomaton.corpora.synthetic import draw_random
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import extract_edges
from attomaton.hard.certify import HardCertificate, certify_positions
from attomaton.hard.constraints import embedded_problem
from attomaton.hard.problem import OrderProblem
from attomaton.hard.solve import solve_graph_svm
from attomaton.ragged import offsets_of
from attomaton.tables import Float64, Int64


@dataclass(frozen=True)
class Trial:
    """One problem solved: what it was, how long it took after a first call, and the certificate.

    ``rival_seconds`` is Clarabel's time for the same problem, None if it is not installed or not tried.
    """

    name: str
    size: str
    seconds: float
    first_seconds: float
    certificate: HardCertificate
    rival_seconds: float | None


def shallow_orders(n_groups: int, rng: np.random.Generator) -> OrderProblem:
    """Many queries as text has them: a few winners above many losers, sizes falling like 1/rank."""
    losers = np.maximum(1, n_groups // (1 + np.arange(n_groups)))
    winners = 1 + np.minimum(losers // 4, 50)
    start = offsets_of(losers + winners)
    group = np.repeat(np.arange(n_groups), losers)
    rank = np.arange(len(group)) - offsets_of(losers)[group]
    below = start[group] + winners[group] + rank
    above = start[group] + (rng.random(len(group)) ** 3 * winners[group]).astype(np.int64)
    also = start[group] + rng.integers(0, winners[group])
    twice = rng.random(len(group)) < 0.1
    keys = np.concatenate([above, also[twice]]) * start[-1] + np.concatenate([below, below[twice]])
    keys = np.unique(keys)
    numbers = np.repeat(np.arange(n_groups), losers + winners)
    return OrderProblem(np.ones(len(numbers), np.int64), keys // start[-1], keys % start[-1], numbers)


def random_order(n_nodes: int, n_pairs: int, rng: np.random.Generator) -> OrderProblem:
    """One order: uniform pairs a < b, each once."""
    return _one_order(n_nodes, np.sort(rng.integers(0, n_nodes, (2, n_pairs)), axis=0))


def deep_order(n_nodes: int, n_pairs: int, rng: np.random.Generator, span: int = 1000) -> OrderProblem:
    """One order with many levels: pairs at most ``span`` apart, each once."""
    above = rng.integers(0, n_nodes, n_pairs)
    below = above + rng.integers(1, span + 1, n_pairs)
    inside = below < n_nodes
    return _one_order(n_nodes, np.stack([above[inside], below[inside]]))


def _one_order(n_nodes: int, pairs: Int64) -> OrderProblem:
    above, below = pairs
    keys = np.unique(above[above < below] * n_nodes + below[above < below])
    return OrderProblem(
        np.ones(n_nodes, np.int64), keys // n_nodes, keys % n_nodes, np.zeros(n_nodes, np.int64)
    )


def random_corpus(
    n_tokens: int, dim: int, n_samples: int, window: int, rng: np.random.Generator
) -> tuple[Components, Float64]:
    """Components of random samples without repetition, and random unit embeddings, shape (n_tokens, dim)."""
    samples = draw_random(rng, n_tokens=n_tokens, n_samples=n_samples, window=window)
    embeddings = rng.normal(size=(n_tokens, dim))
    norms = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return find_components(extract_edges(samples)), embeddings / norms


def run_trials(*, rivals: bool = True) -> Iterator[Trial]:
    """Solve one problem of each shape; with ``rivals``, also by Clarabel where that is installed."""
    rng = np.random.default_rng(0)
    yield _try_order("shallow, many queries", shallow_orders(13_000, rng), rivals)
    yield _try_order("random order", random_order(2_000, 35_000, rng), rivals)
    yield _try_order("deep order", deep_order(100_000, 1_000_000, rng), False)
    components, embeddings = random_corpus(48, 64, 300, 8, rng)
    yield _try_embedded("unit embeddings", components, embeddings, rivals)
    components, embeddings = random_corpus(500, 512, 2_500, 8, rng)
    yield _try_embedded("unit embeddings", components, embeddings, False)


def _try_order(name: str, problem: OrderProblem, rivals: bool) -> Trial:
    from attomaton.hard.solvers.placement import Placement

    def solve() -> HardCertificate:
        return certify_positions(problem, *Placement().solve_order(problem), rtol=1e-12)

    size = f"{len(problem.sizes):,} components, {len(problem.above):,} edges"
    return _time(name, size, solve, lambda: _reference().solve_order(problem), rivals)


def _try_embedded(name: str, components: Components, embeddings: Float64, rivals: bool) -> Trial:
    problem = embedded_problem(components, embeddings)

    def solve() -> HardCertificate:
        return solve_graph_svm(components, embeddings=embeddings).certificate

    size = f"{len(problem.token_gram):,} tokens, {len(problem.order.above):,} priorities"
    return _time(name, size, solve, lambda: _reference().solve_embedded(problem), rivals)


def _reference() -> Any:
    from attomaton.hard.solvers.reference import Reference

    return Reference(rtol=1e-8)


def _time(
    name: str, size: str, solve: Callable[[], HardCertificate], rival: Callable[[], object], rivals: bool
) -> Trial:
    """The first call, which may compile, then the median of three."""
    _, first = _seconds(solve)
    runs = sorted((_seconds(solve) for _ in range(3)), key=lambda run: run[1])
    certificate, seconds = runs[1]
    beside = _seconds(rival)[1] if rivals and find_spec("clarabel") else None
    return Trial(name, size, seconds, first, certificate, beside)


def _seconds(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start
