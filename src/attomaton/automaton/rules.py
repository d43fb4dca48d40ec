"""The rule that decides, for many contexts at once.

:meth:`Automaton.explain <attomaton.automaton.automaton.Automaton.explain>` is the plain definition, context
by context; this module traverses the order once for each retrieved component.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.explanation import Rule
from attomaton.automaton.prediction import BatchPrediction
from attomaton.base.native import precede_all
from attomaton.base.ragged import group_borders, occurs, offsets_of, ranges_of
from attomaton.base.tables import Bool, Int32, Int64
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import Bags, count_all_tokens
from attomaton.solvers.solved import solve_samples

RULES = (Rule.DETERMINED, Rule.INCOMPARABLE, Rule.UNSEEN_IGNORED, Rule.NO_EVIDENCE)
"""The rules of the automaton, in the numbering of :func:`find_rules`."""


def find_rules(automaton: Automaton, prediction: BatchPrediction) -> Int64:
    """The rule that decided each context, as its index in ``RULES``, shape (n_samples,)."""
    bags, is_node = prediction.bags, prediction.is_node
    size = prediction.n_samples
    sample, component = bags.sample[is_node], prediction.component[is_node]
    taken = prediction.probabilities[is_node] > 0
    top = np.zeros(size, np.int64)
    top[sample[taken]] = component[taken]
    alone = _all_of(sample, ~taken | (component == top[sample]), size)
    first = group_borders(sample, size)
    ordered = alone & _precede(automaton, bags.samples.queries, (first, component), top)
    unseen = ~_all_of(bags.sample, is_node, size)
    rules = np.where(unseen, RULES.index(Rule.UNSEEN_IGNORED), RULES.index(Rule.DETERMINED))
    rules[~ordered] = RULES.index(Rule.INCOMPARABLE)
    rules[prediction.no_evidence] = RULES.index(Rule.NO_EVIDENCE)
    return rules


def _all_of(sample: Int64, mask: Bool, size: int) -> Bool:
    """Whether the mask is true for all entries of each sample, shape (size,)."""
    return ~occurs(sample[~mask], size)


def _precede(automaton: Automaton, queries: Int32, present: tuple[Int64, Int64], top: Int64) -> Bool:
    """Whether each sample's top component precedes all others present, shape (n_samples,).

    ``present`` is where the components of each sample begin, and these components. A run that is read on
    demand is read in blocks of queries.
    """
    first, component = present
    ordered = np.zeros(len(top), bool)
    with_top = np.unique(queries[np.diff(first) > 0])
    for block, outline in automaton.outlines(with_top):
        rows = np.flatnonzero(np.isin(queries, block) & (np.diff(first) > 0))
        lengths = np.diff(first)[rows]
        members = np.searchsorted(outline.number, component[ranges_of(first[rows], lengths)])
        tops = np.searchsorted(outline.number, top[rows])
        order = np.argsort(tops, kind="stable")
        ordered[rows] = precede_all(order, tops, offsets_of(lengths), members, *outline.components.below)
    return ordered


def answer_bags(automaton: Automaton, bags: Bags) -> tuple[BatchPrediction, Int64]:
    """The prediction for each context, and the rule that decided.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.graphs.bags import count_all_tokens
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1], n_tokens=4))
    >>> new = at.Samples.from_lists([[0, 1, 2], [1, 3, 2]], [0, 1], n_tokens=4)
    >>> prediction, rules = answer_bags(auto, count_all_tokens(new))
    >>> prediction.of_labels().tolist(), [RULES[number].name for number in rules]
    ([1.0, 1.0], ['DETERMINED', 'UNSEEN_IGNORED'])
    """
    prediction = automaton.predict_bags(bags)
    return prediction, find_rules(automaton, prediction)


MOST_CONTEXTS = 20_000
"""Maximum number of contexts evaluated, evenly spaced if there are more."""

HELD_OUT = 10
"""The last 1/HELD_OUT of the samples is held out."""

MOST_LEARNED = 400_000
"""Maximum number of samples for which the rest is learned again to predict the held-out ones."""


@dataclass(frozen=True)
class Answered:
    """Shares of contexts by the rule that decides them, in the order of ``RULES``."""

    n_contexts: int
    determined: float
    incomparable: float
    unseen_ignored: float
    no_evidence: float


def measure_answered(automaton: Automaton, samples: Samples) -> Answered:
    """The shares by rule of the contexts of these samples, at most ``MOST_CONTEXTS`` of them."""
    if len(samples) > MOST_CONTEXTS:
        samples = samples.take(np.linspace(0, len(samples) - 1, MOST_CONTEXTS).astype(np.int64))
    rules = answer_bags(automaton, count_all_tokens(samples))[1]
    shares = np.bincount(rules, minlength=len(RULES)) / max(len(samples), 1)
    return Answered(len(samples), *shares.tolist())


def measure_held_out(samples: Samples) -> Answered | None:
    """The shares by rule of the last tenth of the samples' contexts, predicted from the others.

    None if there are too few samples to hold any out, or too many to learn from a second time.
    """
    cut = len(samples) - len(samples) // HELD_OUT
    if cut == len(samples) or len(samples) > MOST_LEARNED:
        return None
    solved = solve_samples(samples.take(slice(cut)))
    learned = Automaton(solved.components, solved.hard, solved.soft)
    return measure_answered(learned, samples.take(slice(cut, None)))
