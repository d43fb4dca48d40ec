"""The curves of the first paper's own code, measured as that code measures them.

They differ from ours (:class:`attomaton.claims.Curves`) in three points. W_fin(τ) is not the exact optimum
but a second run of normalised descent, from 0 on the reduced contexts. The correlation is that with R·W_svm +
W_fin, R fitted to the last record. The softmax probability is the mass of the largest component of a context,
not of the label's.
"""

from collections.abc import Sequence

import numpy as np

from attomaton.automaton import Automaton
from attomaton.base.tables import Float64
from attomaton.claims.contexts import read_contexts
from attomaton.claims.evidence import step_size_of
from attomaton.claims.limits import dense
from attomaton.training import Trace

TITLES = {
    "authors_correlation": "corr(W, R·W_svm + W_fin(τ)), as the authors' code",
    "authors_distance": "‖Π_fin W − W_fin(τ)‖, W_fin(τ) trained, as the authors' code",
    "authors_retrieved": "largest mass of a component, as the authors' code",
}


def measure_authors(trace: Trace, automata: Sequence[Automaton], projected: Float64) -> dict[str, Float64]:
    """Each measure by record and trial; ``projected`` is Π_fin W, shape (n_records, n_trials, dim, dim)."""
    finite = train_finite(trace, automata)
    directions = np.stack([dense(automaton.hard.weights) for automaton in automata])
    size = np.maximum(np.sum(directions**2, axis=(1, 2)), np.finfo(float).tiny)
    scale = np.einsum("bij,bij->b", trace.weights[-1] - finite[-1], directions) / size
    aim = finite[-1] + scale[:, None, None] * directions
    lengths = np.linalg.norm(trace.weights, axis=(2, 3)) * np.linalg.norm(aim, axis=(1, 2))
    return {
        "authors_correlation": np.einsum("rbij,bij->rb", trace.weights, aim) / lengths,
        "authors_distance": np.linalg.norm(projected - finite, axis=(2, 3)),
        "authors_retrieved": np.stack(
            [_largest_mass(trace, automaton, trial) for trial, automaton in enumerate(automata)], axis=1
        ),
    }


def train_finite(trace: Trace, automata: Sequence[Automaton]) -> Float64:
    """W_fin(τ) at the run's records: normalised descent from 0 on contexts of the label's component alone."""
    keys, label, shown, query = _reduce(trace, automata)
    weights = np.zeros(trace.weights.shape[1:])
    weights_reached, step, rows = np.zeros_like(trace.weights), 0, trace.steps.tolist()
    size = step_size_of(trace)
    for row, last in enumerate(rows):
        for _ in range(last - step):
            scores = np.einsum("bntd,bnd->bnt", keys, np.einsum("bij,bnj->bni", weights, query))
            odds = np.where(shown, np.exp(scores - scores.max(axis=2, keepdims=True)), 0.0)
            odds = odds / np.maximum(odds.sum(axis=2, keepdims=True), np.finfo(float).tiny)
            missed = np.einsum("bnt,bntd->bnd", odds - label, keys)
            slope = np.einsum("bnd,bne->bde", missed, query)
            length = np.linalg.norm(slope, axis=(1, 2), keepdims=True) + np.finfo(float).eps
            weights = weights - size * slope / length
        step, weights_reached[row] = last, weights
    return weights_reached


def _reduce(trace: Trace, automata: Sequence[Automaton]) -> tuple[Float64, ...]:
    """Embeddings of the tokens of each reduced context, which is the label, which exist, and of the query."""
    most = max(len(samples) for samples in trace.samples)
    longest = max(len(context) for samples in trace.samples for context, _ in samples)
    dim = trace.embeddings.shape[2]
    keys = np.zeros((trace.n_trials, most, longest, dim))
    label, shown = np.zeros(keys.shape[:3]), np.zeros(keys.shape[:3])
    query = np.zeros((trace.n_trials, most, dim))
    for trial, (samples, automaton) in enumerate(zip(trace.samples, automata, strict=True)):
        table, components = trace.embeddings[trial], automaton.components
        for number, (context, wanted) in enumerate(samples):
            tokens = np.array(context)
            component = components.components_of(np.full(len(tokens), tokens[-1]), tokens)
            inside = tokens[component == component[tokens == wanted][0]]
            if len(inside) > 1:
                keys[trial, number, : len(inside)] = table[inside]
                label[trial, number, : len(inside)] = inside == wanted
                shown[trial, number, : len(inside)] = 1.0
                query[trial, number] = table[tokens[-1]]
    return keys, label, shown, query


def _largest_mass(trace: Trace, automaton: Automaton, trial: int) -> Float64:
    """The mean over samples of the mass on the component that has most, shape (n_records,)."""
    contexts = read_contexts(trace.samples[trial], trace.embeddings[trial])
    masses, bags = contexts.masses(trace.weights[:, trial]), contexts.bags
    component = automaton.components.components_of(bags.samples.queries[bags.sample], bags.token)
    group = np.unique(np.stack([bags.sample, component]), axis=1, return_inverse=True)[1].ravel()
    sums = np.zeros((len(masses), int(group.max()) + 1))
    for number in range(sums.shape[1]):
        sums[:, number] = masses[:, group == number].sum(axis=1)
    owner = np.zeros(sums.shape[1], np.int64)
    owner[group] = bags.sample
    return np.maximum.reduceat(sums, np.searchsorted(owner, np.arange(len(bags.samples))), axis=1).mean(
        axis=1
    )
