"""Measure the share of contexts that each rule decides, in the corpus and in a held-out tenth of it."""

from dataclasses import dataclass

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.rules import RULES, answer_bags
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import count_all_tokens
from attomaton.solvers.solved import solve_samples

MOST_CONTEXTS = 20_000  # contexts evaluated, evenly spaced if there are more
HELD_OUT = 10  # the last 1/HELD_OUT of the samples is held out
MOST_LEARNED = 400_000  # samples from which an automaton is learned again, without the held-out ones


@dataclass(frozen=True)
class Answered:
    """The share of contexts that each rule decides, in the order of ``RULES``."""

    n_contexts: int
    determined: float
    incomparable: float
    unseen_ignored: float
    no_evidence: float


def measure_answered(automaton: Automaton, samples: Samples) -> Answered:
    if len(samples) > MOST_CONTEXTS:
        samples = samples.take(np.linspace(0, len(samples) - 1, MOST_CONTEXTS).astype(np.int64))
    rules = answer_bags(automaton, count_all_tokens(samples))[1]
    shares = np.bincount(rules, minlength=len(RULES)) / max(len(samples), 1)
    return Answered(len(samples), *shares.tolist())


def measure_held_out(samples: Samples) -> Answered | None:
    """The shares for the last tenth of the contexts, learned from the others; None if too few or too many."""
    cut = len(samples) - len(samples) // HELD_OUT
    if cut == len(samples) or len(samples) > MOST_LEARNED:
        return None
    solved = solve_samples(samples.take(slice(cut)))
    learned = Automaton(solved.components, solved.hard, solved.soft)
    return measure_answered(learned, samples.take(slice(cut, None)))
