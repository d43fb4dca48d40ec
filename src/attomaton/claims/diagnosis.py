"""Diagnose why a run departs from the theory, and say what to change."""

# `diagnose` calls the other functions. Each looks for one failure in all trials, and returns a sentence, or
# "" if there is none.

from collections.abc import Sequence

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.base.tables import Bool
from attomaton.claims.evidence import Evidence, need_log_loss, need_mass_head
from attomaton.graphs.edges import extract_edges
from attomaton.training.steps import GradientDescent
from attomaton.training.trace import Trace

# If the loss rises at more than this share of the records, the run does not converge.
RISES = 0.1

# A rise of the loss smaller than this, at every record, does not matter.
SMALL_RISE = 1e-4

# Differences of the loss below this, relative and absolute, are rounding.
RISE_ROUNDING, LEAST_RISE = 1e-9, 1e-12

# Without a known limit, a loss has hardly fallen if it has fallen by less than this share.
HARDLY_FALLEN = 1e-3

# With a known limit, a loss has hardly fallen if more than this share of the way to the limit is left.
STILL_ABOVE = 0.5

# A context has most attention on tokens that its label beats if they have more than this share.
MOST_ATTENTION = 0.5

# With more tokens than this many times the dimensions, small changes of W move many scores.
CROWDED = 2


def diagnose(trace: Trace, automata: Sequence[Automaton]) -> list[str]:
    """List the known failures of a run, each with its cause and what to change.

    ``automata`` are the automata of the trials of ``trace`` (:func:`~attomaton.claims.limits.solve_trials`).

    Examples
    --------
    >>> import attomaton as at
    >>> corpus = at.Samples.from_lists([[0, 1]], [0])
    >>> trace = at.train(corpus, at.AttentionModel(), at.GradientDescent(1e-6), steps=100)
    >>> diagnose(trace, at.claims.solve_trials(trace))[0][:26]
    'the loss has hardly fallen'
    """
    evidence = Evidence(trace, tuple(automata))
    causes = [
        _not_finite(trace),
        _too_large_steps(trace),
        _too_small_steps(evidence),
        _wrong_priorities(evidence),
        _crowded(evidence),
        _left_out(trace),
    ]
    return [line for line in causes if line]


def _in_trials(affected: Bool) -> str:
    return f" in {int(affected.sum())} of {len(affected)} trials" if len(affected) > 1 else ""


def _not_finite(trace: Trace) -> str:
    broken = ~np.isfinite(trace.weights).all(axis=(0, 2, 3)).reshape(-1)
    if not broken.any():
        return ""
    return (
        f"weights or gradients are not finite{_in_trials(broken)}: a gradient underflowed, or a step was far "
        "too large; use smaller or fewer steps"
    )


def _too_large_steps(trace: Trace) -> str:
    if len(trace.steps) < 2:
        return ""
    changes = np.diff(trace.losses, axis=0)
    rises = np.mean(changes > RISE_ROUNDING * np.abs(trace.losses[:-1]) + LEAST_RISE, axis=0)
    shaken = (rises > RISES) & (np.abs(changes).max(axis=0) > SMALL_RISE)
    if not shaken.any():
        return ""
    cure = "reduce step_size"
    if isinstance(trace.step, GradientDescent) and trace.step.normalized:
        cure += ", or decay it with a schedule, since normalised steps have constant length"
    return f"the loss keeps rising{_in_trials(shaken)}: steps are too large for the curvature; {cure}"


def _too_small_steps(evidence: Evidence) -> str:
    trace = evidence.trace
    # With log-loss of the attention mass on the label, the loss converges to that of the soft scores, which
    # the automaton has. With any other loss or head, no limit is known.
    has_known_limit = not (need_log_loss(evidence) or need_mass_head(evidence))
    if not has_known_limit:
        fallen = trace.losses[0] - trace.losses[-1]
        slow = fallen < HARDLY_FALLEN * np.maximum(np.abs(trace.losses[0]), LEAST_RISE)
    else:
        # the mean loss of each trial; `soft.loss` is a sum over samples
        n_samples = [max(automaton.components.edges.n_samples, 1) for automaton in evidence.automata]
        limit = np.array([automaton.soft.loss for automaton in evidence.automata]) / np.array(n_samples)
        slow = trace.losses[-1] - limit > STILL_ABOVE * (trace.losses[0] - limit)
        slow &= trace.losses[0] - limit > RISE_ROUNDING  # otherwise the start is the limit
    if not slow.any():
        return ""
    return (
        f"the loss has hardly fallen{_in_trials(slow)}: training has not begun to converge; use more or "
        "larger steps"
    )


def _wrong_priorities(evidence: Evidence) -> str:
    trace = evidence.trace
    wrong = np.zeros(trace.n_trials, bool)
    target = evidence.target
    for trial, (contexts, below) in enumerate(zip(target.contexts, target.below, strict=True)):
        # Entries are (sample, token) pairs. `below` marks tokens that the label of the sample beats, so the
        # sum over the pairs of a sample is the attention at the last record on such tokens.
        masses = contexts.masses(trace.weights[-1:, trial])[0]
        lost_mass = contexts.sums(masses * below)  # (n_samples,)
        wrong[trial] = (lost_mass > MOST_ATTENTION).any()
    if not wrong.any():
        return ""
    cause = need_log_loss(evidence) or need_mass_head(evidence)
    advice = (
        f"{cause}, so training may converge to other tokens (see the claim 'local direction'); use "
        "log-loss with the token-id or tied readout"
        if cause
        else "training is too short, or steps are too large; take more steps, or reduce step_size"
    )
    return f"some contexts have most attention on tokens that the label beats{_in_trials(wrong)}: {advice}"


def _crowded(evidence: Evidence) -> str:
    n_tokens, dim = evidence.trace.embeddings.shape[1:]
    # `inseparable` counts the priorities that the embeddings cannot meet; their tokens count as ties
    merged = np.array([automaton.hard.certificate.inseparable > 0 for automaton in evidence.automata])
    if n_tokens <= CROWDED * dim and not merged.any():
        return ""
    lost = f"; some priorities cannot be met at all{_in_trials(merged)}" if merged.any() else ""
    return (
        f"{n_tokens} tokens share {dim} dimensions, so scores depend on each other and training is slow "
        f"or unstable{lost}; use dim ≥ {n_tokens}, or fewer tokens"
    )


def _left_out(trace: Trace) -> str:
    corpora = {id(samples): samples for samples in trace.samples}.values()  # trials may share one
    tables = [extract_edges(samples) for samples in corpora]
    left = sum(table.n_unrealisable for table in tables)
    realisable = sum(table.n_samples for table in tables)
    if left <= realisable:
        return ""
    return (
        f"{left:,} of {left + realisable:,} samples have a label outside their context and were left out; "
        "use longer contexts, or report that the model covers only the other samples"
    )
