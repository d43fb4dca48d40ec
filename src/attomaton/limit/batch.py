"""The automaton's answers to many contexts at once: an entry for each distinct token of each context.

:meth:`Automaton.predict_proba <attomaton.limit.automaton.Automaton.predict_proba>` is the plain definition,
context by context; this is the same in a dozen array operations.
"""

import numpy as np

from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import Bags, count_all_tokens
from attomaton.limit.automaton import TIE, Automaton
from attomaton.limit.prediction import BatchPrediction, largest_of
from attomaton.tables import column, sum_at


def predict_samples(automaton: Automaton, samples: Samples) -> BatchPrediction:
    """Predict the next token of every context; labels are not looked at.

    Parameters
    ----------
    automaton : Automaton
        What to ask.
    samples : Samples
        Contexts; ids beyond the automaton's vocabulary are unseen tokens.

    Returns
    -------
    BatchPrediction
        Equal to ``automaton.predict_proba(context)`` for each context, without its zeros for the tokens that
        are not in the context.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1])
    >>> predicted = predict_samples(at.learn(samples), samples)
    >>> predicted.bags.token.tolist(), predicted.probabilities.round(6).tolist()
    ([0, 1, 2, 0, 1, 2, 1, 2], [0.5, 0.5, 0.0, 0.5, 0.5, 0.0, 1.0, 0.0])
    """
    return predict_bags(automaton, count_all_tokens(samples))


def predict_bags(automaton: Automaton, bags: Bags) -> BatchPrediction:
    """The same for contexts that are bags already, perhaps with some of their tokens left out.

    Leaving tokens out is asking what is retrieved given that it is one of the others.
    """
    rows, seen = automaton.components.rows(bags.samples.queries[bags.sample], bags.token)
    size = len(bags.samples)
    weights = bags.multiplicity.astype(np.float64)
    sample, known = bags.sample[seen], rows[seen]
    hard = column(automaton.hard.scores, "score")[known]
    soft = column(automaton.soft.scores, "score")[known]
    taken = hard >= largest_of(sample, hard, size)[sample] - TIE
    highest = largest_of(sample[taken], soft[taken], size)[sample]
    odds = np.exp(np.where(taken, soft - highest, -np.inf)) * weights[seen]
    answered = np.zeros(size, bool)
    answered[sample] = True
    weights[answered[bags.sample]] = 0.0
    weights[seen] = odds
    return BatchPrediction(bags, rows, seen, weights / sum_at(bags.sample, weights, size)[bags.sample])
