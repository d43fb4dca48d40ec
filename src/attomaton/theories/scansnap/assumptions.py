"""The assumptions of the second theory, measured on a corpus, each with its value and its bound.

The paper states its assumptions as limits (T → ∞, M ≫ K², η_Y ≫ η_Z, f_n·f_n' → 0). A corpus has numbers.
Where a limit says "much", the bound here is a factor of ten.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from attomaton.base.ragged import sum_at
from attomaton.graphs.grouping import count_keys, distinct_keys, find_keys, pack_pairs, unpack_pairs
from attomaton.theories.scansnap.classes import CorpusClasses
from attomaton.theories.scansnap.law import Rates

_sparse: Any = sparse
MUCH_LARGER = 10.0
"""The factor that counts as "much larger"."""

MOST_COMPARED = 1000
"""Number of most frequent classes that are compared pair by pair."""


@dataclass(frozen=True)
class Assumption:
    """One assumption, and whether a corpus meets it.

    Attributes
    ----------
    name : str
        The name of the assumption.
    value, bound : float
        The measured value and its bound; ``value`` is infinite for infinitely long sequences.
    met : bool
        Whether it holds.
    meaning : str
        The meaning of the numbers, and the effect of a violation.
    """

    name: str
    value: float
    bound: float
    met: bool
    meaning: str


def check_assumptions(
    classes: CorpusClasses, rates: Rates | None = None, *, tolerance: float = 0.0
) -> tuple[Assumption, ...]:
    """Test a corpus, and learning rates if given, against the paper's assumptions."""
    squares = np.add.reduceat(classes.probabilities**2, classes.offsets[:-1])
    spread = MUCH_LARGER * float(classes.shares @ (1 / squares))
    length = np.inf if classes.lengths is None else float(classes.shares @ classes.lengths)
    mean, largest, size = mean_overlap(classes), largest_overlap(classes), len(classes)
    label = classes.labels.astype(np.int64)
    labels, n_queries = count_keys(unpack_pairs(distinct_keys(pack_pairs(label, classes.queries)))[0])
    several = float(classes.shares[(n_queries > 1)[find_keys(labels, label)]].sum())
    mass = classes.shares[classes.rows] * classes.probabilities
    distinct = float(mass[classes.is_distinct(tolerance)[classes.tokens]].sum())
    fast = Assumption(
        "fast decoder",
        np.nan if rates is None else rates.ratio,
        MUCH_LARGER,
        rates is not None and rates.ratio >= MUCH_LARGER,
        "η_Y/η_Z; a slower decoder has not learned the classes before attention moves",
    )
    return (
        Assumption(
            "long contexts",
            length,
            spread,
            length >= spread,
            "mean number of tokens before the query, compared with ten times 1/Σ P(l|n)², the effective "
            "number of tokens of a class; if contexts are shorter, those of one class differ",
        ),
        *([] if rates is None else [fast]),
        Assumption(
            "weak correlation on average",
            mean,
            1 / size,
            mean <= 1 / size,
            "f_n·f_n' of two classes drawn by their shares, against 1/K; correlated classes are learned "
            "together, but the closed form treats each class alone",
        ),
        Assumption(
            "weak correlation of any two",
            largest,
            0.5,
            largest <= 0.5,
            f"the largest f_n·f_n' among the {min(MOST_COMPARED, size):,} most frequent classes; two classes "
            "above ½ share most of their law",
        ),
        Assumption(
            "many tokens",
            float(classes.n_tokens),
            MUCH_LARGER * size**2,
            classes.n_tokens >= MUCH_LARGER * size**2,
            "M against 10 K², K the number of classes",
        ),
        Assumption(
            "one query for each label",
            several,
            0.0,
            several == 0.0,
            "share of the sequences whose label also follows another query; tokens that predict the label "
            "under another query are raised under this one too, distinct or not",
        ),
        Assumption(
            "distinct tokens",
            distinct,
            0.5,
            distinct >= 0.5,
            "share of the keys that are tokens of one class only; the laws of growth apply to those",
        ),
    )


def mean_overlap(classes: CorpusClasses) -> float:
    """The mean of f_n·f_n' over two different classes drawn by their shares.

    (‖Σ π_n f_n‖² − Σ π_n²)/(1 − Σ π_n²), which needs no sum over pairs; 0 for a single class.
    """
    together = sum_at(classes.tokens, classes.shares[classes.rows] * classes.features, classes.n_tokens)
    same = float(classes.shares @ classes.shares)
    return 0.0 if len(classes) == 1 else max(float(together @ together) - same, 0.0) / (1 - same)


def largest_overlap(classes: CorpusClasses) -> float:
    """The largest f_n·f_n' of two of the 1,000 most frequent classes; 0 for a single class."""
    if len(classes) == 1:
        return 0.0
    frequent = classes.take(np.sort(np.argsort(-classes.shares, kind="stable")[:MOST_COMPARED]))
    entries = (frequent.features, frequent.tokens, frequent.offsets)
    features = _sparse.csr_array(entries, shape=(len(frequent), classes.n_tokens))
    overlaps = (features @ features.T).toarray()
    np.fill_diagonal(overlaps, 0.0)
    return min(float(overlaps.max()), 1.0)
