"""Measure the assumptions of the second theory on a corpus; where the paper says "much", a factor of ten."""

from dataclasses import dataclass

import numpy as np

from attomaton.base.ragged import sum_at
from attomaton.graphs.grouping import count_keys, distinct_keys, find_keys, pack_pairs, unpack_pairs
from attomaton.theories.scansnap.classes import CorpusClasses
from attomaton.theories.scansnap.law import Rates
from attomaton.theories.scansnap.pulls import features_of

# Where the paper says "much larger" or "much faster", this factor is required.
MUCH_LARGER = 10.0

# Number of most frequent classes that are compared pair by pair.
MOST_COMPARED = 1000

SLOW_DECODER = "η_Y/η_Z; a slower decoder has not learned the classes before attention moves"


@dataclass(frozen=True)
class Assumption:
    """Whether a corpus meets the assumption ``name``: the measured ``value``, compared with its ``bound``.

    ``value`` is infinite for infinitely long sequences. ``met`` is the answer. ``meaning`` says what the
    numbers are and what follows if the assumption is not met.
    """

    name: str
    value: float
    bound: float
    met: bool
    meaning: str


def check_assumptions(
    classes: CorpusClasses, rates: Rates | None = None, *, tolerance: float = 0.0
) -> tuple[Assumption, ...]:
    """Measure every assumption; ``tolerance`` is that of :meth:`CorpusClasses.distinct`."""
    n_classes = len(classes)
    about_rates = [] if rates is None else [_at_least("fast decoder", rates.ratio, MUCH_LARGER, SLOW_DECODER)]
    return (
        _at_least(
            "long contexts",
            np.inf if classes.lengths is None else float(classes.shares @ classes.lengths),
            MUCH_LARGER * _mean_effective_tokens(classes),
            "mean number of tokens before the query, compared with ten times 1/Σ P(l|n)², the effective "
            "number of tokens of a class; shorter contexts of one class differ from each other",
        ),
        *about_rates,
        _at_most(
            "weak correlation on average",
            mean_overlap(classes),
            1 / n_classes,
            "mean f_n·f_n' of two classes drawn by their shares, compared with 1/K; correlated classes are "
            "learned together, but the closed form treats each class alone",
        ),
        _at_most(
            "weak correlation of any two",
            largest_overlap(classes),
            0.5,
            f"the largest f_n·f_n' among the {min(MOST_COMPARED, n_classes):,} most frequent classes; two "
            "classes above ½ share most of their tokens",
        ),
        _at_least(
            "many tokens",
            float(classes.n_tokens),
            MUCH_LARGER * n_classes**2,
            "size of the vocabulary, compared with ten times the squared number of classes",
        ),
        _at_most(
            "one query for each label",
            _share_with_several_queries(classes),
            0.0,
            "share of the sequences whose label also follows another query; tokens that predict the label "
            "under another query are then raised under this query, too",
        ),
        _at_least(
            "distinct tokens",
            _share_of_distinct(classes, tolerance),
            0.5,
            "share of the keys that are tokens of one class only, to which the laws of growth apply",
        ),
    )


def _at_least(name: str, value: float, bound: float, meaning: str) -> Assumption:
    return Assumption(name, value, bound, value >= bound, meaning)


def _at_most(name: str, value: float, bound: float, meaning: str) -> Assumption:
    return Assumption(name, value, bound, value <= bound, meaning)


def _mean_effective_tokens(classes: CorpusClasses) -> float:
    # the mean of 1/Σ_l P(l | n)² over the classes n, weighted by their shares
    squares = np.add.reduceat(classes.probabilities**2, classes.offsets[:-1])
    return float(classes.shares @ (1 / squares))


def _share_with_several_queries(classes: CorpusClasses) -> float:
    # the share of the sequences whose label follows at least two queries
    label = classes.labels.astype(np.int64)
    label_of_pair, _ = unpack_pairs(distinct_keys(pack_pairs(label, classes.queries)))
    labels, n_queries = count_keys(label_of_pair)
    has_several = (n_queries > 1)[find_keys(labels, label)]
    return float(classes.shares[has_several].sum())


def _share_of_distinct(classes: CorpusClasses, tolerance: float) -> float:
    # the share of all tokens before queries, averaged over sequences, that are distinct
    mass = classes.shares[classes.rows] * classes.probabilities
    return float(mass[classes.is_distinct(tolerance)[classes.tokens]].sum())


def mean_overlap(classes: CorpusClasses) -> float:
    """The mean of f_n·f_n' over two different classes drawn by their shares; 0 for a single class."""
    # Σ_{n ≠ n'} π_n π_n' f_n·f_n' = ‖Σ_n π_n f_n‖² − Σ_n π_n², since ‖f_n‖ = 1
    mean_feature = sum_at(classes.tokens, classes.shares[classes.rows] * classes.features, classes.n_tokens)
    drawn_twice = float(classes.shares @ classes.shares)
    overlap = max(float(mean_feature @ mean_feature) - drawn_twice, 0.0)
    return 0.0 if len(classes) == 1 else overlap / (1 - drawn_twice)


def largest_overlap(classes: CorpusClasses) -> float:
    """The largest f_n·f_n' of two of the 1,000 most frequent classes; 0 for a single class."""
    if len(classes) == 1:
        return 0.0
    frequent = classes.take(np.sort(np.argsort(-classes.shares, kind="stable")[:MOST_COMPARED]))
    features = features_of(frequent)
    overlaps = (features @ features.T).toarray()
    np.fill_diagonal(overlaps, 0.0)
    return min(float(overlaps.max()), 1.0)
