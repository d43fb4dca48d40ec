"""By which rule contexts are answered: how far the theorem reaches on known contexts and on new ones."""

from dataclasses import dataclass

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.explanation import Rule
from attomaton.automaton.rules import RULES, answer_bags
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import count_all_tokens
from attomaton.solvers.solved import solve_samples

MOST = 20_000
"""Contexts that are asked; of more, so many are taken, evenly spread."""

HELD_OUT = 10
"""One in so many samples, the last ones, is held out."""

MOST_LEARNED = 400_000
"""Samples up to which the others are learned anew to answer those held out."""


@dataclass(frozen=True)
class Answered:
    """Shares of contexts by the rule that answers them.

    Attributes
    ----------
    n_contexts : int
        Contexts that were asked.
    determined : float
        Share that the theorem decides: one component precedes all others of the context.
    incomparable : float
        Share in which no component precedes all others; the highest by weight is taken.
    unseen_ignored : float
        Share with tokens that have no evidence under the query; the theorem decides among the others.
    backed_off : float
        Share in which no token has evidence under the query.
    """

    n_contexts: int
    determined: float
    incomparable: float
    unseen_ignored: float
    backed_off: float


def measure_answered(automaton: Automaton, samples: Samples) -> Answered:
    """The shares of the contexts of these samples, of at most ``MOST`` of them, by rule."""
    if len(samples) > MOST:
        samples = samples.take(np.linspace(0, len(samples) - 1, MOST).astype(np.int64))
    rules = answer_bags(automaton, count_all_tokens(samples))[1]
    shares = np.bincount(rules, minlength=len(RULES)) / max(len(samples), 1)
    by_rule = dict(zip(RULES, shares.tolist(), strict=True))
    return Answered(
        n_contexts=len(samples),
        determined=by_rule[Rule.DETERMINED],
        incomparable=by_rule[Rule.INCOMPARABLE],
        unseen_ignored=by_rule[Rule.UNSEEN_IGNORED],
        backed_off=by_rule[Rule.BACK_OFF],
    )


def measure_held_out(samples: Samples) -> Answered | None:
    """The shares of the last tenth of the samples' contexts, answered by what the others teach.

    None where there are too few samples to hold any out, or too many to learn them a second time.
    """
    cut = len(samples) - len(samples) // HELD_OUT
    if cut == len(samples) or len(samples) > MOST_LEARNED:
        return None
    solved = solve_samples(samples.take(slice(cut)))
    learned = Automaton(solved.components, solved.hard, solved.soft)
    return measure_answered(learned, samples.take(slice(cut, None)))
