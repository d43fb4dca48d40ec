"""Recover components from trained weights: gaps between components grow, gaps inside a component converge.

Under query k the gap of tokens i and j is (e_i − e_j)ᵀ W e_k. It tends to m ln t plus a constant, where m = 0
inside a component, and m ≥ 1 (the margin of W_svm) between components. So from half of the steps to the last,
a gap between components moves by at least ln 2, and a gap inside a component hardly moves. Only gaps between
a label and another token of its context are measured, since no sample compares other tokens.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.claims.approach import NEGLIGIBLE, find_worst, name_trials, swings_of
from attomaton.claims.computed_path import compute_path, find_time, follow_trial
from attomaton.claims.evidence import Evidence
from attomaton.claims.limits import dense
from attomaton.claims.measures import list_edge_ends
from attomaton.claims.verdicts import Judgement
from attomaton.graphs.components import Components
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
    keys = [table @ matrix for matrix in weights]
    return np.stack([np.sum((key[winner] - key[loser]) * table[query], axis=1) for key in keys])


def _end_nodes(components: Components) -> tuple[Int64, Int64]:
    """The rows of ``nodes`` of each edge's winner and loser."""
    query, winner, loser = list_edge_ends(components)
    return components.rows(query, winner)[0], components.rows(query, loser)[0]


def _compare(components: Components, gap_changes: Float64) -> ComponentCounts:
    """Join tokens whose gaps moved by at most GROWTH, and compare the joined sets with the components."""
    winner, loser = _end_nodes(components)
    n_nodes, component = components.nodes.num_rows, components.component_of_node
    still = np.abs(gap_changes) <= GROWTH
    joined = coo_array((np.ones(int(still.sum())), (winner[still], loser[still])), shape=(n_nodes, n_nodes))
    _, token_set = connected_components(joined, directed=False)
    pairs = np.unique(np.stack([component, token_set]), axis=1)  # that share a node
    merged = np.zeros(len(components), bool)
    merged[pairs[0, np.bincount(pairs[1])[pairs[1]] > 1]] = True
    split = np.bincount(pairs[0], minlength=len(components)) > 1
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
        readable[trial] = _is_readable(evidence, trial, *_find_halves(evidence, trial))
    return readable


def _is_readable(evidence: Evidence, trial: int, halves: Float64, ends: Float64, error: float) -> bool:
    """Whether gaps between components move more than GROWTH, and gaps inside less, from halves to ends."""
    table, components = evidence.trace.embeddings[trial], evidence.automata[trial].components
    slack = 4.0 * float(np.sum(table**2, axis=1).max()) * (error + swings_of(evidence) + NEGLIGIBLE)
    before, after = (measure_gaps(components, table, weights) for weights in (halves, ends))
    gap_changes, (winner, loser) = after[:, None] - before, _end_nodes(components)
    tied = components.component_of_node[winner] == components.component_of_node[loser]
    between = gap_changes[..., ~tied].min(initial=np.inf)
    inside = np.abs(gap_changes[..., tied]).max(initial=0.0)
    separated = evidence.automata[trial].hard.kind is Kind.EVERY_PRIORITY
    return separated and between - slack > GROWTH > inside + slack


def _find_halves(evidence: Evidence, trial: int) -> tuple[Float64, Float64, float]:
    trace, path = evidence.trace, follow_trial(evidence, trial)
    if not evidence.normalized:
        computed = evidence.once(compute_path)
        return computed.weights[:1, trial], computed.weights[-1:, trial], float(computed.error[trial])
    half, last = (find_time(path, float(trace.losses[record, trial])) for record in (evidence.middle, -1))
    times = [half, TIME_ROUNDING * half, last, TIME_ROUNDING * last]
    weights = np.stack([dense(path.weights_at(time)) for time in times])
    return weights[:2], weights[2:], path.error_at(times[-1])


def forecast_readable(evidence: Evidence, trial: int, steps: Int64) -> Bool:
    """Whether growing and converging gaps of a trial differ at each of these ascending steps."""
    path = follow_trial(evidence, trial)
    times = np.unique(np.concatenate([steps // 2, steps])).astype(float)
    weights = {time: dense(path.weights_at(time)) for time in times.tolist()}
    return np.array(
        [
            _is_readable(
                evidence, trial, weights[step // 2][None], weights[step][None], path.error_at(float(step))
            )
            for step in steps.tolist()
        ]
    )


def need_readable(evidence: Evidence) -> str:
    reason = "no trial is long enough to distinguish score gaps that grow from score gaps that converge"
    return "" if evidence.once(find_readable).any() else reason


def judge_components(evidence: Evidence) -> Judgement:
    readable = evidence.once(find_readable)
    judged = readable if readable.any() else ~readable
    counts = {
        trial: count_components(evidence.trace, evidence.automata[trial].components, trial=trial)
        for trial in np.flatnonzero(judged).tolist()
    }
    share = np.zeros(len(judged))
    share[judged] = [count.recovered / count.all for count in counts.values()]
    worst = find_worst(-share, judged)
    meaning = (
        f"share of the graph's components recovered ({counts[worst].merged} merged, {counts[worst].split} "
        "split)"
    )
    meaning = name_trials(meaning, worst, share == 1.0, judged)
    return Judgement(float(share[worst]), 1.0, bool(share[worst] == 1.0), meaning)
