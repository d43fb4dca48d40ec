"""Recover components from trained weights: gaps between components grow, gaps inside a component converge.

Under query k the gap of tokens i and j is (e_i − e_j)ᵀ W e_k. It tends to m ln t plus a constant, where m = 0
inside a component, and m ≥ 1 (the margin of W_svm) between components. So from half of the steps to the last,
a gap between components moves by at least ln 2, and a gap inside a component hardly moves. Only gaps between
a label and another token of its context are measured, since no sample compares other tokens.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.claims.approach import NEGLIGIBLE, find_worst, name_trials, swings_of
from attomaton.claims.computed_path import compute_path, find_time, follow_trial
from attomaton.claims.evidence import Evidence
from attomaton.claims.limits import dense
from attomaton.claims.verdicts import Judgement
from attomaton.graphs.components import Components, list_edge_ends
from attomaton.solvers.hard.solve import Kind
from attomaton.training.trace import Trace

# A gap that moves by more between half of the steps and the last grows: half of what ln t moves by.
GROWTH = 0.5 * float(np.log(2.0))

# Times found by the loss are rounded down by at most this factor.
TIME_ROUNDING = 10**0.125


@dataclass(frozen=True)
class ComponentCounts:
    """The number of components of the graph (``all``), and how many of them the trained weights have.

    A component is ``recovered`` if the weights have exactly this set of tokens, and every gap to another
    component grows in the order of the graph. It is ``merged`` if the weights tie it to tokens of another
    component, and ``split`` if they separate its tokens.
    """

    all: int
    recovered: int
    merged: int
    split: int


def count_components(
    trace: Trace, components: Components, *, trial: int = 0, record: int = -1
) -> ComponentCounts:
    """Count the components of the graph that can be recovered from the weights of a trial at a record.

    The score gaps at ``record`` of ``trial`` in ``trace`` are compared with the gaps at half of the steps.
    ``components`` are those of the trial's samples.

    Examples
    --------
    >>> import attomaton as at
    >>> corpus = at.Samples.from_lists([[0, 1], [0, 2, 1]], [0, 0])  # 0 precedes 1 and 2
    >>> trace = at.train(corpus, at.AttentionModel(), at.GradientDescent(1.0), steps=1000)
    >>> count_components(trace, at.learn(corpus).components).recovered
    3
    """
    middle = int(np.abs(trace.steps - trace.steps[record] / 2).argmin())
    gaps = measure_gaps(components, trace.embeddings[trial], trace.weights[[middle, record], trial])
    return _compare(components, gaps[1] - gaps[0])


def measure_gaps(components: Components, table: Float64, weights: Float64) -> Float64:
    """The gap between winner and loser of every edge, shape (n_records, n_edges)."""
    query, winner, loser = list_edge_ends(components)
    projected = [table @ matrix for matrix in weights]  # e_iᵀ W in row i
    return np.stack([np.sum((rows[winner] - rows[loser]) * table[query], axis=1) for rows in projected])


def _end_nodes(components: Components) -> tuple[Int64, Int64]:
    # the rows of ``nodes`` of each edge's winner and loser
    query, winner, loser = list_edge_ends(components)
    return components.rows(query, winner)[0], components.rows(query, loser)[0]


def _compare(components: Components, gap_changes: Float64) -> ComponentCounts:
    # join tokens whose gaps moved by at most GROWTH, and compare the joined sets with the components
    winner, loser = _end_nodes(components)
    n_nodes = components.nodes.num_rows
    component = components.component_of_node
    still = np.abs(gap_changes) <= GROWTH
    joined = coo_array((np.ones(int(still.sum())), (winner[still], loser[still])), shape=(n_nodes, n_nodes))
    _, token_set = connected_components(joined, directed=False)
    # the pairs of a component and a joined set that share a node
    shared_component, shared_set = np.unique(np.stack([component, token_set]), axis=1)
    set_is_merged = np.bincount(shared_set) > 1  # the set has tokens of several components
    merged = np.zeros(len(components), bool)
    merged[shared_component[set_is_merged[shared_set]]] = True
    split = np.bincount(shared_component, minlength=len(components)) > 1
    # components with a gap to another one that falls, though it should grow
    reversed_order = np.zeros(len(components), bool)
    wrong = (component[winner] != component[loser]) & (gap_changes < -GROWTH)
    reversed_order[component[winner[wrong]]] = reversed_order[component[loser[wrong]]] = True
    recovered = ~(merged | split | reversed_order)
    return ComponentCounts(len(components), int(recovered.sum()), int(merged.sum()), int(split.sum()))


def find_readable(evidence: Evidence) -> Bool:
    """Trials whose growing and converging gaps differ by the end of the computed path, shape (n_trials,)."""
    path = evidence.once(compute_path)
    readable = np.zeros(evidence.trace.n_trials, bool)
    for trial in np.flatnonzero(path.is_known).tolist():
        readable[trial] = _is_readable(evidence, trial, _find_halves(evidence, trial))
    return readable


class _Halves(NamedTuple):
    """Computed weights at half of the steps and at the end, shape (n_times, dim, dim)."""

    middle: Float64  # at all times that may be half of the steps, or the end, if these are known roughly
    end: Float64
    error: float  # bounds the error of each W


# Whether gaps between components move more than GROWTH, and gaps inside less, from middle to end.
def _is_readable(evidence: Evidence, trial: int, path: _Halves) -> bool:
    table = evidence.trace.embeddings[trial]
    components = evidence.automata[trial].components
    # a W off by d changes a gap by at most 2 max ‖e‖² d, and the difference of two gaps by twice as much
    distance = path.error + swings_of(evidence) + NEGLIGIBLE
    slack = 4.0 * float(np.sum(table**2, axis=1).max()) * distance
    before = measure_gaps(components, table, path.middle)
    after = measure_gaps(components, table, path.end)
    gap_changes = after[:, None] - before  # from any middle to any end, shape (n_ends, n_middles, n_edges)
    winner, loser = _end_nodes(components)
    tied = components.component_of_node[winner] == components.component_of_node[loser]
    between = gap_changes[..., ~tied].min(initial=np.inf)
    inside = np.abs(gap_changes[..., tied]).max(initial=0.0)
    separated = evidence.automata[trial].hard.kind is Kind.EVERY_PRIORITY
    return separated and between - slack > GROWTH > inside + slack


def _find_halves(evidence: Evidence, trial: int) -> _Halves:
    if not evidence.normalized:
        computed = evidence.once(compute_path)
        weights = computed.weights[:, trial]
        return _Halves(weights[:1], weights[-1:], float(computed.error[trial]))
    # normalised steps: the times on the path with the losses of the run, which are rounded down
    path = follow_trial(evidence, trial)
    losses: list[float] = evidence.trace.losses[[evidence.middle, -1], trial].tolist()
    half, last = (find_time(path, loss) for loss in losses)
    times = [half, TIME_ROUNDING * half, last, TIME_ROUNDING * last]
    weights = np.stack([dense(path.weights_at(time)) for time in times])
    return _Halves(weights[:2], weights[2:], path.error_at(times[-1]))


def forecast_readable(evidence: Evidence, trial: int, steps: Int64) -> Bool:
    """Whether growing and converging gaps of a trial differ at each of these ascending steps."""
    path = follow_trial(evidence, trial)
    times = np.unique(np.concatenate([steps // 2, steps])).astype(float)
    weights = {time: dense(path.weights_at(time))[None] for time in times.tolist()}
    halves = [_Halves(weights[end // 2], weights[end], path.error_at(float(end))) for end in steps.tolist()]
    return np.array([_is_readable(evidence, trial, at_step) for at_step in halves])


def need_readable(evidence: Evidence) -> str:
    reason = "no trial is long enough to distinguish score gaps that grow from score gaps that converge"
    return "" if evidence.once(find_readable).any() else reason


def judge_components(evidence: Evidence) -> Judgement:
    """Claim: the components of the graph can be recovered from the weights."""
    readable = evidence.once(find_readable)
    judged = readable if readable.any() else ~readable
    counts = {
        trial: count_components(evidence.trace, evidence.automata[trial].components, trial=trial)
        for trial in np.flatnonzero(judged).tolist()
    }
    share = np.zeros(len(judged))
    share[judged] = [count.recovered / count.all for count in counts.values()]
    worst = find_worst(-share, judged)
    apart = f"{counts[worst].merged} merged, {counts[worst].split} split"
    meaning = f"share of the graph's components recovered ({apart})"
    meaning = name_trials(meaning, worst, share == 1.0, judged)
    return Judgement(float(share[worst]), 1.0, bool(share[worst] == 1.0), meaning)
