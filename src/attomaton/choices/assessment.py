"""Whether a model fits: tests between models, and against the choices themselves."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.choices.order import OrderedItems


class LikelihoodRatio(NamedTuple):
    """The likelihood-ratio test of a fit against a smaller one.

    Attributes
    ----------
    statistic : float
        Twice the difference of the log-likelihoods.
    degrees : int
        How many more numbers the larger fit has, finite or not.
    infinite : bool
        Whether an estimate of either is infinite. The likelihoods are suprema then, and the chi-square
        distribution is a worse approximation.

    Examples
    --------
    >>> LikelihoodRatio(5.41, 2, False).p_value.__round__(3)
    0.067
    """

    statistic: float
    degrees: int
    infinite: bool

    @property
    def p_value(self) -> float:
        """The probability of a statistic at least this large, by the chi-square distribution."""
        from scipy.special import chdtrc

        return float(chdtrc(self.degrees, self.statistic))

    def __str__(self) -> str:
        plural = "s" * (self.degrees != 1)
        note = " (approximate: an estimate is infinite)" * self.infinite
        return (
            f"likelihood ratio {self.statistic:.3f} with {self.degrees} degree{plural} of freedom: "
            f"p = {self.p_value:.3g}{note}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class AssessedItems(OrderedItems):
    """Items with tests of their scores; a base of :class:`~attomaton.ChoiceFit`.

    Attributes
    ----------
    items, graph, model, scale : as for :class:`OrderedItems`

    Examples
    --------
    >>> import attomaton as at
    >>> isinstance(at.fit_choices(["a", "b"], losers=["b", "a"]), AssessedItems)
    True
    """

    @property
    def log_likelihood(self) -> float:
        """Σ ln p of the choices; where the data are not connected, its supremum, which is not attained.

        A tie that counts as half wins counts as parts of choices; one that is an outcome has its own
        probability.
        """
        self.model.expect()
        return self.model.log_likelihood

    @property
    def n_parameters(self) -> int:
        """The number of fitted finite parameters: Σ (items − 1) over the components, and coefficients."""
        return self.model.n_parameters

    @property
    def aic(self) -> float:
        """Akaike's information criterion, 2 · n_parameters − 2 · log_likelihood.

        Where something is infinite, it is that of the choices which the infinite gaps leave open: the
        likelihood is its supremum, and only finite parameters count. Half wins have no likelihood, and a
        ridge or a prior moves the fit away from its maximum; there this raises ``UnsupportedOption``.
        """
        return 2.0 * self.n_parameters - 2.0 * self._maximum("AIC")

    @property
    def bic(self) -> float:
        """The Bayesian information criterion: as :attr:`aic`, with ln(number of choices) in place of 2.

        Examples
        --------
        >>> import attomaton as at
        >>> fit = at.fit_choices(["a", "b", "a", "a"], losers=["b", "a", "b", "c"])  # c never won
        >>> round(fit.aic, 3), round(fit.bic, 3), fit.n_parameters
        (5.819, 5.205, 1)
        """
        size = float(np.log(self.model.tally.n_choices))
        return size * self.n_parameters - 2.0 * self._maximum("BIC")

    def _maximum(self, criterion: str) -> float:
        """The log-likelihood, if it is at its maximum or its supremum."""
        why = self.model.why_no_aic
        if why:
            raise UnsupportedOption(
                f"{criterion} needs the maximum of a likelihood, and {why}; compare .log_likelihood and "
                ".n_parameters yourself, or fit without half wins, fractions, a ridge and a prior"
            )
        return self.log_likelihood

    def likelihood_ratio(self, nested: "AssessedItems") -> LikelihoodRatio:
        """Test this fit against a smaller one of the same choices, such as one without a feature.

        Parameters
        ----------
        nested : ChoiceFit
            A fit of the same choices with fewer coefficients.

        Examples
        --------
        >>> import attomaton as at
        >>> games = {"white": list("abab"), "black": list("baba"), "won": [1, 1, 0, 0], "n": [9, 6, 3, 4]}
        >>> names = {"first": "white", "second": "black", "outcome": "won", "count": "n"}
        >>> fit = at.fit_choices(games, moved_first="white", **names)
        >>> print(fit.likelihood_ratio(at.fit_choices(games, **names)))
        likelihood ratio 2.811 with 1 degree of freedom: p = 0.0936
        """
        for model in (self.model, nested.model):
            why = model.why_no_aic or "choices of one cluster are not independent" * model.clustered
            if why:
                raise UnsupportedOption(
                    f"the test needs maxima of likelihoods, and {why}; read .difference(…).p_value, or fit "
                    "without half wins, fractions, clusters, a ridge and a prior"
                )
        ours, theirs = self.model.tally, nested.model.tally
        same = self.items == nested.items and self.model.ties == nested.model.ties
        if not (same and all(map(np.array_equal, ours, theirs))):
            raise UnsupportedOption(
                "the two fits are not of the same choices; fit both from one table, with one rule of ties"
            )
        degrees = self.model.n_identified - nested.model.n_identified
        if degrees <= 0 or not set(nested.model.coefficients) <= set(self.model.coefficients):
            raise UnsupportedOption(
                "the other fit is not a smaller one of the same kind; call likelihood_ratio on the fit with "
                "more features, and give the one with some of these left out"
            )
        statistic = 2.0 * (self.log_likelihood - nested.log_likelihood)
        infinite = any(one.model.n_parameters < one.model.n_identified for one in (self, nested))
        return LikelihoodRatio(max(statistic, 0.0), degrees, infinite)
