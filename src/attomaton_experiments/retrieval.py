"""Trained attention compared with its automaton on any contexts: how often the top token is retrieved."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.rules import RULES, answer_bags
from attomaton.automaton.scoring import PROBABILITY_TIE, Score, score_prediction
from attomaton.base.ragged import largest_of, run_starts, shares_of, softmax_runs
from attomaton.base.tables import Float64, Int64
from attomaton.graphs.bags import Bags


def attend(bags: Bags, scores: Float64) -> Float64:
    """The attention mass m_x e^{s_x} / Σ m e^s of each entry, from its score, shape (n_entries,).

    Examples
    --------
    >>> from attomaton.corpora.samples import Samples
    >>> from attomaton.graphs.bags import count_tokens
    >>> attend(count_tokens(Samples.from_lists([[1, 0, 1]], [0])), np.log([2.0, 1.0])).tolist()
    [0.5, 0.5]
    """
    return softmax_runs(scores + np.log(bags.multiplicity), run_starts(bags.sample))


@dataclass(frozen=True, eq=False)
class RetrievalAgreement:
    """Agreement of attention and automaton on some contexts.

    Attributes
    ----------
    n_contexts : int
        The number of contexts.
    retrieved : float
        Share of contexts whose top token, the one with the most attention, lies in the retrieved component;
        if n tokens share the top, each counts 1/n.
    mass : float
        Mean attention mass on the retrieved component.
    same_top : float
        Share of contexts whose top token is also the automaton's likeliest; ties as above.
    distance : float
        Mean total variation ½ Σ |attention − automaton| between the two over the context's tokens.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.graphs.bags import count_tokens
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1])  # 0 beats 1 and 2, 1 beats 2
    >>> retrieval = read_retrieval(at.learn(samples), count_tokens(samples))
    >>> scores = np.log([3.0, 1.0, 1.0, 3.0, 1.0])  # attention that is half trained
    >>> found = retrieval.compare(attend(retrieval.bags, scores))["all"]
    >>> found.retrieved, round(found.mass, 3), found.same_top, round(found.distance, 3)
    (1.0, 0.675, 1.0, 0.325)
    """

    n_contexts: int
    retrieved: float
    mass: float
    same_top: float
    distance: float


@dataclass(frozen=True, eq=False)
class Retrieval:
    """The tokens that the automaton retrieves from each context, and by which rule.

    Attributes
    ----------
    prediction : BatchPrediction
        The automaton's probability of each distinct token of each context.
    rules : int64 array, shape (n_contexts,)
        The rule that answered, as its index in ``automaton.rules.RULES``.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.graphs.bags import count_tokens
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1])
    >>> retrieval = read_retrieval(at.learn(samples), count_tokens(samples))
    >>> retrieval.shares()["determined"]
    1.0
    """

    prediction: BatchPrediction
    rules: Int64

    @property
    def bags(self) -> Bags:
        """The contexts."""
        return self.prediction.bags

    def shares(self) -> dict[str, float]:
        """Share of contexts answered by each rule."""
        counts = np.bincount(self.rules, minlength=len(RULES)) / len(self.rules)
        return {rule.name.lower(): float(share) for rule, share in zip(RULES, counts, strict=True)}

    def compare(self, masses: Float64) -> Mapping[str, RetrievalAgreement]:
        """Agreement by rule, and over all contexts under ``"all"``; rules without contexts are left out.

        Parameters
        ----------
        masses : float64 array, shape (n_entries,)
            The attention mass of each distinct token of each context (:func:`attend`).
        """
        top = self._share_top(masses)
        chosen = self.prediction.probabilities > 0
        quantities = {
            "retrieved": self._sums(top * chosen),
            "mass": self._sums(masses * chosen),
            "same_top": self._sums(top * (self._favourite > 0)),
            "distance": self._sums(np.abs(masses - self.prediction.probabilities)) / 2,
        }
        groups = {"all": np.ones(len(self.rules), bool)}
        groups |= {rule.name.lower(): self.rules == number for number, rule in enumerate(RULES)}
        return {
            name: RetrievalAgreement(
                int(mask.sum()),
                **{quantity: float(values[mask].mean()) for quantity, values in quantities.items()},
            )
            for name, mask in groups.items()
            if mask.any()
        }

    def score(self, masses: Float64) -> Score:
        """Log-loss and top-1 accuracy of this attention on the labels, which must be in their contexts."""
        return score_prediction(replace(self.prediction, probabilities=masses))

    def _share_top(self, masses: Float64) -> Float64:
        """1/n for each of the n tokens of a context with the most mass."""
        sample, size = self.bags.sample, len(self.rules)
        top = (masses >= (1 - PROBABILITY_TIE) * largest_of(sample, masses, size)[sample]).astype(np.float64)
        return shares_of(sample, top, size)

    def _sums(self, values: Float64) -> Float64:
        return np.add.reduceat(values, run_starts(self.bags.sample))

    @cached_property
    def _favourite(self) -> Float64:
        return self._share_top(self.prediction.probabilities)


def read_retrieval(automaton: Automaton, bags: Bags) -> Retrieval:
    """Apply the automaton to all contexts.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.graphs.bags import count_tokens
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1])
    >>> retrieval = read_retrieval(at.learn(samples), count_tokens(samples))
    >>> uniform = attend(retrieval.bags, np.zeros(5))
    >>> round(retrieval.compare(uniform)["determined"].retrieved, 3)  # one of three, one of two
    0.417
    """
    return Retrieval(*answer_bags(automaton, bags))
