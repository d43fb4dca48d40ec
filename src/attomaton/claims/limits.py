"""Solve the limit of training that the theory predicts for each trial of a run."""

from collections.abc import Sequence

from scipy.sparse import csc_array

from attomaton.automaton.automaton import Automaton
from attomaton.base.errors import MismatchedParts
from attomaton.base.solutions import is_orthonormal
from attomaton.base.tables import Float64
from attomaton.corpora.samples import Samples
from attomaton.solvers.solved import solve_samples
from attomaton.training.trace import Trace


def solve_trials(trace: Trace) -> list[Automaton]:
    """Compute the limit of training for the samples and embeddings of every trial, as an automaton.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = Samples.from_lists([[0, 1]], [0])
    >>> trace = at.train(samples, at.AttentionModel(), at.GradientDescent(1.0), steps=1000)
    >>> len(solve_trials(trace))
    1
    """
    pairs = zip(trace.samples, trace.embeddings, strict=True)
    return [solve_trial(samples, embeddings_for_solvers(table)) for samples, table in pairs]


def solve_trial(samples: Samples, embeddings: Float64 | None) -> Automaton:
    """Compute the automaton of one trial; ``embeddings=None`` means orthonormal embeddings."""
    solved = solve_samples(samples, embeddings=embeddings)
    return Automaton(solved.components, solved.hard, solved.soft, samples=samples)


def embeddings_for_solvers(table: Float64) -> Float64 | None:
    """The embeddings, or None if they are orthonormal: solvers then work query by query, at any size."""
    return None if is_orthonormal(table) else table


def dense(weights: Float64 | csc_array) -> Float64:
    return weights.toarray() if isinstance(weights, csc_array) else weights


def check_automata(trace: Trace, automata: Sequence[Automaton]) -> None:
    shape = trace.weights.shape[2:]
    if len(automata) != trace.n_trials or not all(a.hard.weights.shape == shape for a in automata):
        raise MismatchedParts(
            f"{len(automata)} automata do not fit {trace.n_trials} trials with weights of shape {shape}; "
            "use solve_trials(trace), which solves one automaton per trial"
        )
