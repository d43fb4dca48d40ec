"""Find the rule that decides each of many contexts, as ``Automaton.explain`` does for one context."""

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.explanation import Rule
from attomaton.automaton.prediction import BatchPrediction
from attomaton.base.native import precede_all
from attomaton.base.ragged import group_borders, occurs, offsets_of, ranges_of
from attomaton.base.tables import Bool, Int32, Int64
from attomaton.graphs.bags import Bags

# The rules of the automaton, in the numbering of `find_rules`.
RULES = (Rule.DETERMINED, Rule.INCOMPARABLE, Rule.UNSEEN_IGNORED, Rule.NO_EVIDENCE)


def find_rules(automaton: Automaton, prediction: BatchPrediction) -> Int64:
    """The rule that decides each context, as an index into ``RULES``, shape (n_samples,)."""
    size = prediction.n_samples
    is_node = prediction.is_node
    # entries that are nodes, sorted by context: the context and the component of each
    sample = prediction.bags.sample[is_node]
    component = prediction.component[is_node]
    is_retrieved = prediction.probabilities[is_node] > 0
    top = np.zeros(size, np.int64)  # one of the retrieved components of each context
    top[sample[is_retrieved]] = component[is_retrieved]
    has_one_top = _holds_for_all(sample, ~is_retrieved | (component == top[sample]), size)
    borders = group_borders(sample, size)
    queries = prediction.bags.samples.queries
    determined = has_one_top & _precedes_all(automaton, queries, borders, component, top)
    has_unseen = ~_holds_for_all(prediction.bags.sample, is_node, size)
    rules = np.where(has_unseen, RULES.index(Rule.UNSEEN_IGNORED), RULES.index(Rule.DETERMINED))
    rules[~determined] = RULES.index(Rule.INCOMPARABLE)
    rules[prediction.no_evidence] = RULES.index(Rule.NO_EVIDENCE)
    return rules


def _holds_for_all(sample: Int64, mask: Bool, size: int) -> Bool:
    return ~occurs(sample[~mask], size)  # whether the mask is true for all entries of each sample


# Whether the top component of each context precedes its other components, shape (n_samples,). Context i
# has the components component[borders[i] : borders[i + 1]].
def _precedes_all(automaton: Automaton, queries: Int32, borders: Int64, component: Int64, top: Int64) -> Bool:
    n_nodes = np.diff(borders)
    precedes = np.zeros(len(top), bool)
    for block, outline in automaton.outlines(np.unique(queries[n_nodes > 0])):
        rows = np.flatnonzero(np.isin(queries, block) & (n_nodes > 0))
        # from numbers over all queries to rows of the outline, whose numbers are ascending
        members = np.searchsorted(outline.number, component[ranges_of(borders[rows], n_nodes[rows])])
        tops = np.searchsorted(outline.number, top[rows])
        by_top = np.argsort(tops, kind="stable")  # one search of the order for each top
        offsets = offsets_of(n_nodes[rows])
        precedes[rows] = precede_all(by_top, tops, offsets, members, *outline.components.below)
    return precedes


def answer_bags(automaton: Automaton, bags: Bags) -> tuple[BatchPrediction, Int64]:
    """Predict many contexts, and find the rule that decided each, as an index into ``RULES``.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.graphs.bags import count_all_tokens
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1], n_tokens=4)
    >>> prediction, rules = answer_bags(at.learn(samples), count_all_tokens(samples))
    >>> prediction.of_labels().tolist(), [RULES[number].name for number in rules]
    ([1.0, 1.0], ['DETERMINED', 'DETERMINED'])
    """
    prediction = automaton.predict_bags(bags)
    return prediction, find_rules(automaton, prediction)
