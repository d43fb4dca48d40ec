"""Campaign: every kernel called through its public border with random, mostly wrong arrays.

``python -m tests.faults.kernels 1000 --seed 1`` makes a thousand trials in one process and prints which
kernels were called; a kernel that reads or writes beyond an array ends the process.
"""

import argparse
import importlib
import json
import pkgutil
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import attomaton
import attomaton as at
import attomaton_experiments
from attomaton.automaton.repetition.counts import draw_counts
from attomaton.automaton.rules import answer_bags
from attomaton.base import native
from attomaton.base.errors import AttomatonError
from attomaton.base.tables import column, ragged_column
from attomaton.corpora.documents import Chunk
from attomaton.engines.kernel import choices_of_chunk
from attomaton.engines.selection import Selection
from attomaton.graphs.bags import count_all_tokens
from attomaton.graphs.choices import CHOICE_SCHEMA
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, reduce_order
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA
from attomaton.graphs.robustness import measure_robustness
from attomaton.graphs.windows import Links, link_repeats, window_edges
from attomaton.heads.arrays import from_arrays
from attomaton.solvers.hard.certify import certify_positions
from attomaton.solvers.hard.joint import Joint
from attomaton.solvers.hard.placement import Placement
from attomaton.solvers.hard.problem import EmbeddedProblem, OrderProblem
from attomaton.solvers.norms.solve import solve_factored
from attomaton.solvers.soft.certify import certify_scores
from attomaton.solvers.soft.curvature import score_errors
from attomaton.solvers.soft.likelihood import LuceProblem
from attomaton.solvers.soft.newton import Newton
from attomaton.trajectory.flow.embedded import EmbeddedFlow, Losers
from attomaton.trajectory.flow.orthonormal import orthonormal_flow
from attomaton_experiments.head_study.edges import measure_edges
from tests.drawn import any_problem, random_order

SECONDS = 60
"""Of computing for one trial."""

KERNELS = {name: kernel for name, kernel in vars(native).items() if not name.startswith("_")}
KERNEL = type(next(iter(KERNELS.values())))

EVIL = (-1, -2, 0, 1, 2**21, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
ROUNDS = 8
"""Trials of each target with nothing bent, so that every kernel is called."""

Rng = np.random.Generator
straight = False


def watch_kernels() -> set[str]:
    """The names of the kernels that the package will have called, added with each call."""
    called: set[str] = set()

    def watched(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            called.add(name)
            return kernel(*arguments)

        return call

    watching = {kernel: watched(name, kernel) for name, kernel in KERNELS.items()}
    for package in (attomaton, attomaton_experiments):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith(("__main__", ".native")):
                continue
            names = vars(importlib.import_module(module.name))
            for name, value in list(names.items()):
                if type(value) is KERNEL and value in watching:
                    names[name] = watching[value]
    return called


def bend(rng: Rng, array: np.ndarray) -> np.ndarray:
    """The array as it is, or with a few values, its length, its type or its order changed."""
    array = np.array(array)
    kind = rng.choice(["as it is", "value", "value", "shorter", "longer", "shuffled", "type", "shape"])
    if kind == "value" and array.size:
        for _ in range(rng.integers(1, 3)):
            at_place = rng.integers(array.size)
            evil = int(rng.choice([*EVIL[:4], array.size, array.size + 1, int(rng.integers(-3, 12))]))
            evil = int(EVIL[rng.integers(len(EVIL))]) if rng.random() < 0.4 else evil
            if array.dtype.kind == "b":
                array.flat[at_place] ^= True
            elif array.dtype.kind == "f":
                array.flat[at_place] = rng.choice([np.nan, np.inf, -np.inf, -1.0, 0.0, 1e9])
            else:
                limits = np.iinfo(array.dtype)
                array.flat[at_place] = min(max(evil, limits.min), limits.max)
    elif kind == "shorter":
        array = array[: rng.integers(len(array) + 1)]
    elif kind == "longer" and len(array):
        array = np.concatenate([array, array[: rng.integers(1, len(array) + 1)]])
    elif kind == "shuffled":
        array = array[rng.permutation(len(array))]
    elif kind == "type":
        array = array.astype(rng.choice([np.int16, np.uint64, np.float32, np.float64, np.bool_, ">i8"]))
    elif kind == "shape":
        array = array.reshape(*([1] * int(rng.integers(0, 2))), -1, 1) if array.size else array
    return array


def bend_some(rng: Rng, **arrays):
    """The arrays, at most two of them bent, often none; none in the first rounds."""
    if straight:
        return arrays
    bent = rng.choice(list(arrays), size=min(len(arrays), int(rng.integers(0, 3))), replace=False)
    return {name: bend(rng, one) if name in bent else one for name, one in arrays.items()}


def table_of(schema: pa.Schema, columns) -> pa.Table:
    """An Arrow table of columns that may not fit it; what Arrow refuses is no table."""
    try:
        arrays = [pa.array(columns[field.name], field.type) for field in schema]
        return pa.Table.from_arrays(arrays, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise NoTable from error


class NoTable(Exception):
    """Arrow itself refuses the columns."""


def draw_samples(rng: Rng, n_tokens: int = 6) -> at.Samples:
    """Realisable samples under few queries."""
    contexts = [rng.integers(0, n_tokens, rng.integers(1, 6)).tolist() for _ in range(rng.integers(1, 25))]
    for context in contexts:
        context[-1] %= 3
    return at.Samples.from_lists(contexts, [int(rng.choice(c)) for c in contexts], n_tokens=n_tokens)


def bend_table(rng: Rng, schema: pa.Schema, table: pa.Table) -> pa.Table:
    """The table with some columns bent."""
    columns = {name: column(table, name) for name in schema.names}
    return table_of(schema, bend_some(rng, **columns))


def bend_components(rng: Rng) -> at.Components:
    """Components of bent tables."""
    found = at.find_components(at.extract_edges(draw_samples(rng)))
    edges = found.edges
    which = rng.integers(4)
    n_tokens = int(rng.choice([edges.n_tokens, *EVIL])) if rng.random() < 0.1 else edges.n_tokens
    table = bend_table(rng, EDGE_SCHEMA, edges.rows) if which == 0 else edges.rows
    queries = bend_table(rng, QUERY_SCHEMA, edges.queries) if which == 0 else edges.queries
    nodes = bend_table(rng, NODE_SCHEMA, found.nodes) if which == 1 else found.nodes
    order = bend_table(rng, ORDER_SCHEMA, found.order) if which == 2 else found.order
    return at.Components(at.EdgeTable(table, queries, n_tokens), nodes, order)


def try_components(rng: Rng) -> None:
    """Components → heights, reduction, robustness, the hard side, with embeddings and without."""
    components = bend_components(rng)
    found = at.find_components(components.edges)
    reduce_order(components), components.totally_ordered, repr(components), components._repr_html_()
    hard = at.solve_graph_svm(components)
    repr(hard), found.heights
    measure_robustness(components)


def try_embedded(rng: Rng) -> None:
    """Components with embeddings: the joint solver, the factored one."""
    components = bend_components(rng)
    table = bend(rng, rng.normal(size=(components.edges.n_tokens, int(rng.integers(1, 8)))))
    at.solve_graph_svm(components, embeddings=table, solver=Joint() if rng.random() < 0.5 else None)
    if rng.random() < 0.3:
        solve_factored(components, embeddings=table)


def try_automaton(rng: Rng) -> None:
    """Automata → batch rules, comparison, explanation."""
    samples = draw_samples(rng)
    one, other = at.learn(samples), at.learn(draw_samples(rng))
    components = bend_components(rng)
    at.diff(one, other)
    answer_bags(one, count_all_tokens(samples))
    try:
        mixed = at.Automaton(components, one.hard, one.soft)
    except AttomatonError:
        mixed = at.Automaton(components, at.solve_graph_svm(components), at.solve_luce(samples, components))
    answer_bags(mixed, count_all_tokens(samples))
    at.diff(mixed, other)


def try_order(rng: Rng) -> None:
    """Order problems → the block solver and its certificate."""
    deep = rng.random() < (0.5 if straight else 0.02)
    if deep:
        size = 4200
        above = np.concatenate([np.arange(size - 70), rng.integers(0, size - 70, 2000)])
        below = above + np.concatenate([np.full(size - 70, 60), rng.integers(1, 70, 2000)])
        rows = np.lexsort((below, above))
        parts = {"sizes": rng.integers(1, 9, size), "above": above[rows], "below": below[rows]}
    else:
        size = int(rng.integers(1, 30))
        drawn = random_order(
            rng, size, int(size * rng.choice([0.5, 1, 2, 4])), heaviest=int(rng.choice([1, 50]))
        )
        parts = {"sizes": drawn.sizes, "above": drawn.above, "below": drawn.below}
    group = np.zeros(len(parts["sizes"]), np.int64)
    problem = OrderProblem(**bend_some(rng, **parts, group=group))
    positions, flow = Placement().solve_order(problem)
    bent = bend_some(rng, positions=positions, flow=flow)
    certify_positions(problem, bent["positions"], bent["flow"], rtol=1e-9)


def try_embedded_problem(rng: Rng) -> None:
    """Embedded problems → the joint solver."""
    components = at.find_components(at.extract_edges(draw_samples(rng)))
    from attomaton.solvers.hard.problem import embedded_problem

    given = embedded_problem(components, rng.normal(size=(components.edges.n_tokens, 8)))
    names = ("token_gram", "query_gram", "token", "query", "component")
    bent = bend_some(rng, **{name: getattr(given, name) for name in names})
    Joint().solve_embedded(EmbeddedProblem(**bent, order=given.order))


def try_ropes(rng: Rng) -> None:
    """Constraints as differences of rows → sums with twice the digits, and the certificate."""
    from attomaton.solvers.hard.rows import RowConstraints, RowProof, certify_answer, row_constraints

    components = at.find_components(at.extract_edges(draw_samples(rng)))
    given = row_constraints(components, rng.normal(size=(components.edges.n_tokens, 6)))
    names = ("keys", "queries", "plus", "minus", "query", "number", "tie", "tokens")
    constraints = RowConstraints(**bend_some(rng, **{name: getattr(given, name) for name in names}))
    bent = bend_some(rng, weights=rng.normal(size=(6, 6, 2)), multipliers=rng.normal(size=len(given.plus)))
    certify_answer(constraints, RowProof(**bent), rtol=1e-6)


def try_luce(rng: Rng) -> None:
    """Luce problems → Newton's method, the certificate, standard errors."""
    given = any_problem(int(rng.integers(2**32)))
    names = ("alternative", "offsets", "log_multiplicity", "winner", "count", "component")
    problem = LuceProblem(**bend_some(rng, **{name: getattr(given, name) for name in names}))
    anchor = bend_some(rng, anchor=np.zeros(problem.n_alternatives))["anchor"]
    scores = Newton(max_steps=20).solve(problem, anchor=anchor, stiffness=0.1)
    bent = bend_some(rng, scores=scores)["scores"]
    certify_scores(problem, bent, atol=1e-8, ridge=0.1)
    score_errors(problem, bent, ridge=0.1)


def try_choices(rng: Rng) -> None:
    """Choice tables → the soft side, the trajectory, the expansion."""
    samples = draw_samples(rng)
    components = at.find_components(at.extract_edges(samples))
    whole = rng.random() < 0.5
    table = at.extract_choices(samples, None if whole else components).rows
    offsets, tokens = ragged_column(table, "tokens")
    _, multiplicities = ragged_column(table, "multiplicities")
    plain = {name: column(table, name) for name in ("query", "winner", "count")}
    bent = bend_some(rng, **plain, tokens=tokens, multiplicities=multiplicities, offsets=offsets)
    lists = {name: _list_column(bent["offsets"], bent[name]) for name in ("tokens", "multiplicities")}
    choices = at.ChoiceTable(table_of(CHOICE_SCHEMA, {**bent, **lists}))
    if whole:
        dim = components.edges.n_tokens
        embeddings = rng.normal(size=(dim, dim)) if rng.random() < 0.3 else None
        at.fast_forward(choices, components=components, to=50.0, embeddings=embeddings)
        at.shrink(samples)
    else:
        at.solve_luce(choices, components).standard_errors()


def _list_column(offsets, values):
    """A list column from offsets that may be wrong: built without Arrow's checks, as a file may hold it."""
    try:
        offsets = np.ascontiguousarray(offsets, np.int64).ravel()
        values = np.ascontiguousarray(values, np.int32).ravel()
    except (ValueError, OverflowError) as error:
        raise NoTable from error
    if len(offsets) == 0:
        raise NoTable
    flat = pa.array(values, pa.int32())
    kind = pa.large_list(pa.int32())
    try:
        return pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets)], children=[flat])
    except pa.ArrowInvalid as error:
        raise NoTable from error


def try_flows(rng: Rng) -> None:
    """Flows → plain descent, implicit steps, damping, at places of any length."""
    problem = any_problem(int(rng.integers(2**32)))
    problem = LuceProblem(
        problem.alternative, problem.offsets, problem.log_multiplicity, problem.winner, problem.count,
        problem.component,
    )  # fmt: skip
    component = bend_some(rng, component=np.sort(problem.component))["component"]
    size = problem.n_alternatives
    if rng.random() < 0.5:
        from attomaton.solvers.soft.likelihood import context_problem

        _, problem = context_problem(at.extract_choices(draw_samples(rng)))
        component, size = bend_some(rng, c=np.arange(problem.n_alternatives))["c"], problem.n_alternatives
        flow = orthonormal_flow(problem, component, 10)
    elif rng.random() < 0.5:
        flow = orthonormal_flow(problem, component, 10)
    else:
        losers = Losers(rng.normal(size=(6, 4)), np.zeros(6), np.array([0, 2, 6]), np.array([0.5, 0.5]))
        flow, size = EmbeddedFlow(losers), 4
    places = bend_some(rng, one=np.zeros(size), other=rng.normal(size=size))
    flow.descend(places["one"], 0.1, 3)
    flow.minimise(places["one"], 1.0, places["other"], 1e-6)
    flow.damp(places["other"], 1.0, places["one"])


def try_windows(rng: Rng) -> None:
    """Pieces of text → links and edges of sliding windows, and choices inside components of whatever."""
    n_tokens, length = int(rng.integers(1, 6)), int(rng.integers(0, 40))
    cuts = np.sort(rng.integers(0, length + 1, rng.integers(0, 4)))
    documents = np.concatenate([[0], cuts, [length]])
    arrays = bend_some(rng, ids=rng.integers(0, n_tokens, length).astype(np.int32), documents=documents)
    head = 0 if straight else int(rng.choice([0, 0, 2, -1, 2**62]))
    piece = Chunk(arrays["ids"], arrays["documents"], head, n_tokens)
    selected = bend_some(rng, selected=rng.random(n_tokens) < 0.8)["selected"]
    window = int(rng.choice([1, 3, 100, 0, -4]))
    if rng.random() < 0.3:
        components = at.find_components(at.extract_edges(draw_samples(rng)))
        choices_of_chunk(piece, components, selection=Selection(window=window), selected=selected)
    links = link_repeats(piece, window, selected)
    bent = bend_some(rng, before=links.before, after=links.after, realisable=links.realisable)
    links = Links(**bent, unrealisable=links.unrealisable)
    list(
        window_edges(
            piece, links, window=window, selected=selected, max_keys=int(rng.choice([1, 10, 1000, -3]))
        )
    )


def try_samples(rng: Rng) -> None:
    """Samples → edges, choices, an automaton."""
    given = draw_samples(rng)
    names = ("values", "starts", "stops", "labels")
    arrays = bend_some(rng, **{name: getattr(given, name) for name in names})
    n_tokens = 6 if straight else int(rng.choice([6, 6, 6, 2, 0, -1, 2**21, 2**62]))
    samples = at.Samples(**arrays, n_tokens=n_tokens)
    at.learn(samples)


def try_drawing(rng: Rng) -> None:
    """Texts that a layer draws from its own output, from odds and prompts of any kind."""
    size = int(rng.integers(1, 5))
    table = rng.random((size, size if straight else int(rng.integers(1, 5))))
    prompt = rng.integers(0, size, 3) if straight else bend(rng, rng.integers(0, size, 3))
    draw_counts(table, prompt.tolist(), lengths=[len(prompt), 500_000 if straight else 300], seed=0)


def try_winners(rng: Rng) -> None:
    """Where a layer that reads its own output ends, from log-odds and prompts of any kind."""
    size = 3 if straight else int(rng.integers(1, 5))
    table = rng.random((size, size))
    at.winners(table if straight else bend(rng, table), [0, 1, 2] if straight else [int(rng.integers(size))])


def try_heads(rng: Rng) -> None:
    """Edges of other samples than the model's tokens, or of them."""
    samples = draw_samples(rng)
    size = samples.n_tokens if straight else int(rng.integers(1, 9))
    look, read = rng.normal(size=(3, 2, 2, 4, 3)), rng.normal(size=(2, 2, 3, 4))
    model = from_arrays(rng.normal(size=(size, 4)), look[0], look[1], look[2], read)
    measure_edges(model, at.extract_edges(samples), samples, threads=1)


TARGETS: dict[str, Callable[[Rng], None]] = {
    name.removeprefix("try_"): target for name, target in globals().items() if name.startswith("try_")
}


def run_target(name: str, seed: int) -> str:
    """``fine``, ``refused`` or ``no table``; anything else is raised."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        TARGETS[name](np.random.default_rng([seed, len(name), sum(name.encode())]))
    except AttomatonError:
        return "refused"
    except NoTable:
        return "no table"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "fine"


def trials(count: int, seed: int) -> Iterator[tuple[str, int]]:
    """``count`` trials, all targets in turn."""
    names = list(TARGETS)
    for number in range(count):
        yield names[number % len(names)], seed * 1_000_003 + number


def main(count: int, seed: int) -> dict[str, object]:
    """Make the trials; which kernels were called, and how the trials ended. Dies as a kernel dies."""
    warnings.simplefilter("ignore")
    called = watch_kernels()
    outcomes: Counter[str] = Counter()
    tracebacks: dict[str, str] = {}
    global straight
    for place, (name, number) in enumerate(trials(count + ROUNDS * len(TARGETS), seed)):
        straight = place < ROUNDS * len(TARGETS)
        sys.stderr.write(f"{name} {number}\n")  # the last line is what a crash was caused by
        try:
            outcomes[f"{name}: {run_target(name, number)}"] += 1
        except Exception as error:
            outcomes["traceback"] += 1
            tracebacks.setdefault(f"{name}: {type(error).__name__}: {str(error)[:100]}", f"{name} {number}")
    return {
        "trials": count,
        "outcomes": dict(outcomes),
        "tracebacks": tracebacks,
        "kernels": len(KERNELS),
        "not reached": sorted(set(KERNELS) - called),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(json.dumps(main(asked.count, asked.seed), indent=1))  # noqa: T201
