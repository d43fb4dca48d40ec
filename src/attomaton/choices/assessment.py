"""Probabilities of new pairs, and tests of a fit."""

# ``AssessedItems`` is the part of a ``attomaton.ChoiceFit`` that predicts pairs, compares the fit
# with a smaller one, and starts the tests of ``attomaton.choices.checks``.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attomaton.base.errors import InvalidSamples, UndeterminedChoice, UnknownToken, UnsupportedOption
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.columns import columns_of, find_column, number_values
from attomaton.choices.covariates import CONTESTANTS, RELATIVE, read_covariates, unfitted_feature
from attomaton.choices.order import OrderedItems
from attomaton.choices.parsed import PairChoices, ParsedChoices
from attomaton.choices.ratings import outcome_probabilities
from attomaton.choices.uncertainty import LuceScores
from attomaton.graphs.paths import QueryOrder, graph_of

if TYPE_CHECKING:
    from attomaton.choices.checks import CrossValidation, GoodnessOfFit, Intransitivity
    from attomaton.choices.logit.fit import LogitFit
    from attomaton.choices.logit.rows import Situations
    from attomaton.choices.simulation import FittedChoices

# The usual names of the columns of the two items of a pair.
PAIR_COLUMNS = (*CONTESTANTS, ("model_a", "model_b"))

EFFECTS = ("moved_first", "tie")  # coefficients that are not features


class Outcomes(NamedTuple):
    """The probabilities of the outcomes of a pair, for its first item."""

    win: float
    tie: float
    loss: float


class LikelihoodRatio(NamedTuple):
    """The likelihood-ratio test of a fit against a smaller one.

    ``statistic`` is twice the difference of the log-likelihoods, and ``degrees`` is how many more parameters
    the larger fit has. ``infinite`` says that an estimate is infinite: the chi-square distribution is then a
    worse approximation.
    """

    statistic: float
    degrees: int
    infinite: bool

    @property
    def p_value(self) -> float:
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

    The fields ``items``, ``graph``, ``model`` and ``scale`` are those of :class:`OrderedItems`.
    """

    def outcomes(self, first: Any, second: Any, *, moved_first: Any = None) -> Outcomes:
        """The probabilities that ``first`` wins, that neither item wins, and that ``second`` wins.

        Features are equal for both items, and ``moved_first`` names the item that moves first, if any.
        """
        number, opponent = self._lookup([first, second])
        if number == opponent:
            raise InvalidSamples(f"{first!r} against itself has no outcome; give two different items")
        if moved_first not in (None, first, second):
            raise InvalidSamples(f"moved_first is {moved_first!r}; give {first!r}, {second!r} or None")
        sign = 1.0 if moved_first == first else -1.0
        features = {} if moved_first is None else {"moved_first": np.array([sign])}
        (row,) = self._predict_pairs(np.array([number]), np.array([opponent]), features)
        outcome = Outcomes(*row.tolist())
        if np.isnan(outcome.win):
            raise self._undetermined(first, second)
        return outcome

    def win_probabilities(self) -> Float64:
        """The probability that the item of each row wins against the item of each column.

        Items are in the order of :attr:`items`. Entries are NaN on the diagonal and where the choices leave
        the probability open. Where ties are outcomes, the two entries of a pair add up to less than 1.
        """
        n_items = len(self.items)
        first, second = np.triu_indices(n_items, 1)
        win, _, loss = self._predict_pairs(first, second, {}).T
        result = np.full((n_items, n_items), np.nan)
        result[first, second] = win
        result[second, first] = loss
        return result

    def predict_proba(
        self,
        frame: Any,
        *,
        first: Any = None,
        second: Any = None,
        moved_first: Any = None,
        features: Any = None,
    ) -> Float64:
        """The probabilities of the outcomes of new pairs: win of the first, tie, win of the second.

        Parameters
        ----------
        frame : frame
            One row per pair, in any form that :func:`~attomaton.fit_choices` reads.
        first, second : column names, optional
            The columns of the two items; by default ``first`` and ``second``, ``winner`` and ``loser``, or
            ``model_a`` and ``model_b``.
        moved_first, features : optional
            As in :func:`~attomaton.fit_choices`. By default nobody moves first, and the features of the fit
            are columns of the same names.

        Returns
        -------
        float64 array, shape (n_rows, 3), NaN where the choices leave a probability open
        """
        if (first is None) != (second is None):
            raise UnsupportedOption("only one of first= and second= is given; give both, or neither")
        columns = columns_of(frame)
        usual = (pair for pair in PAIR_COLUMNS if all(name in columns for name in pair))
        names = (first, second) if first is not None else next(usual, ("first", "second"))
        number = self._read_items(find_column(columns, names[0], "first"))
        opponent = self._read_items(find_column(columns, names[1], "second"))
        features = self._fitted_features() if features is None else features
        options = {"moved_first": moved_first, "features": features}
        options = {name: source for name, source in options.items() if source is not None}
        # features are read as for choices, whose outcomes (here all wins of the first) make no difference
        pairs = PairChoices(number, opponent, np.zeros_like(number))
        parsed = ParsedChoices(self.items, pairs, np.ones(len(number)))
        covariates = read_covariates(parsed, options, columns, names)
        return self._predict_pairs(number, opponent, covariates.features)

    def _fitted_features(self) -> list[str]:
        # the names of the features of the fit that new pairs can have
        parameters = () if self.logit is None else self.logit.problem.names
        fitted = [name for name in self.model.coefficients if name in parameters and name not in EFFECTS]
        relative = next((name for name in fitted if name.endswith(RELATIVE)), None)
        if relative is not None:
            raise UnsupportedOption(
                f"{relative!r} was standardised over the pairs of the fit; give features={{{relative!r}: …}} "
                "with (a − b) / (a + b), less the mean and divided by the standard deviation of these pairs"
            )
        return fitted

    def _read_items(self, column: Any) -> Int64:
        number, distinct = number_values(column)
        return np.array(self._lookup(distinct), np.int64)[number]

    # The probabilities of win, tie and loss of the first of each pair, shape (n_pairs, 3).
    def _predict_pairs(self, first: Int64, second: Int64, features: Mapping[str, Float64]) -> Float64:
        model = self.model
        if not isinstance(model, LuceScores):
            return model.predict_pairs(first, second, features)
        if features:
            raise unfitted_feature(next(iter(features)))
        win, loss = outcome_probabilities(self._luce_gaps(model, first, second), -np.inf)
        no_tie = 0.0 * win  # NaN where the choices leave it open
        return np.stack([win, no_tie, loss], axis=1)

    def _luce_gaps(self, model: LuceScores, first: Int64, second: Int64) -> Float64:
        # the score of the first less that of the second; ±inf across components, NaN if open
        of_first, of_second = (model.components.component_of_node[items] for items in (first, second))
        gap = np.full(len(first), np.nan)
        for sign, above, below in ((1.0, of_first, of_second), (-1.0, of_second, of_first)):
            for component in np.unique(above).tolist():
                pairs = np.flatnonzero(above == component)
                is_behind = self._below(component)[below[pairs]]
                gap[pairs[is_behind]] = sign * np.inf
        is_finite = of_first == of_second  # a component is below itself: correct its gaps
        if is_finite.any():
            model.expect()
        gap[is_finite] = (model.values[first] - model.values[second])[is_finite]
        return gap

    @property
    def log_likelihood(self) -> float:
        """Σ ln p of the choices, or its supremum where gaps are infinite; a half win adds ½ ln p."""
        self.model.expect()
        return self.model.log_likelihood

    @property
    def n_parameters(self) -> int:
        """The number of finite parameters: Σ (items − 1) over the components, and coefficients."""
        return self.model.n_parameters

    @property
    def aic(self) -> float:
        """Akaike's information criterion, 2 · n_parameters − 2 · log_likelihood, of finite parameters."""
        return 2.0 * self.n_parameters - 2.0 * self._maximum("AIC")

    @property
    def bic(self) -> float:
        """The Bayesian information criterion, ln(number of choices) · n_parameters − 2 · log_likelihood."""
        size = float(np.log(self.model.tally.n_choices))
        return size * self.n_parameters - 2.0 * self._maximum("BIC")

    def _maximum(self, criterion: str) -> float:
        # the maximum of the log-likelihood, if ``criterion`` is defined for the fit
        why = self.model.why_no_aic
        if why:
            raise UnsupportedOption(
                f"{criterion} needs the maximum of a likelihood, and {why}; fit without half wins, "
                "fractions, ridge, prior and penalty"
            )
        return self.log_likelihood

    def likelihood_ratio(self, nested: "AssessedItems") -> LikelihoodRatio:
        """Test this fit against the ``nested`` fit of the same choices with fewer coefficients."""
        for model in (self.model, nested.model):
            why = model.why_no_aic
            if not why and model.clustered:
                why = "choices of one cluster are not independent"
            if why:
                raise UnsupportedOption(
                    f"the test needs maxima of likelihoods, and {why}; read .difference(…).p_value, or fit "
                    "without half wins, fractions, clusters, ridge, prior and penalty"
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
                "the other fit does not have fewer of the same parameters; call likelihood_ratio on the fit "
                "with more features, and give the fit without some of them"
            )
        statistic = 2.0 * (self.log_likelihood - nested.log_likelihood)
        infinite = any(fit.model.n_parameters < fit.model.n_identified for fit in (self, nested))
        return LikelihoodRatio(max(statistic, 0.0), degrees, infinite)

    def goodness_of_fit(
        self, *, method: str | None = None, n_draws: int = 499, seed: int = 0
    ) -> "GoodnessOfFit":
        """Test whether the model fits the choices: deviance, Pearson's statistic and residuals by pair.

        The ``method`` is "chi-square", or "bootstrap" for choices that are drawn from the model ``n_draws``
        times, with this ``seed``, and fitted again. The default is chi-square if there are no features and
        every cell has 5 expected choices or more.
        """
        from attomaton.choices.checks import assess  # a tenth of the start-up time

        return assess(self._fitted, self.items, method, n_draws, seed)

    def intransitivity(self, *, n_draws: int = 499, seed: int = 0) -> "Intransitivity":
        """Test whether there are more cycles (a beats b, b beats c, c beats a) than the model predicts.

        Choices are drawn from the model ``n_draws`` times, with this ``seed``, and fitted again.
        """
        from attomaton.choices.checks import count_cycles  # a tenth of the start-up time

        return count_cycles(self._fitted, self.items, n_draws, seed)

    def cross_validate(self, *, n_folds: int = 10, seed: int = 0) -> "CrossValidation":
        """Measure how well the model predicts choices that it was not fitted to: log loss and calibration.

        Choices, or whole clusters, are divided into ``n_folds`` with this ``seed``. Each fold is left out in
        turn, and the model is fitted to the others, with the penalty of this fit. Each step of a ranking is
        one choice.
        """
        from attomaton.choices.checks import cross_validate  # a tenth of the start-up time
        from attomaton.choices.simulation import read_fitted

        fitted = read_fitted(self.model, len(self.items), clustered=True)
        clusters = None if isinstance(self.model, LuceScores) else self.model.units.clusters
        return cross_validate(fitted, self._predict_rows, clusters, self.log_likelihood, n_folds, seed)

    def _predict_rows(self, logit: "LogitFit", rows: Any, situations: "Situations") -> Float64:
        # predict by another fit of the same columns, with the penalty of this fit
        from attomaton.choices.logit.prediction import predict_rows

        if isinstance(self.model, LuceScores):
            return predict_rows(logit, rows, situations, leave_open=True)
        return replace(self.model, logit=logit).predict(rows, situations)

    @cached_property
    def _fitted(self) -> "FittedChoices":
        from attomaton.choices.simulation import read_fitted  # a tenth of the start-up time

        return read_fitted(self.model, len(self.items))

    @cached_property
    def _number_of(self) -> dict[Any, int]:
        return {item: number for number, item in enumerate(self.items)}

    @cached_property
    def _paths(self) -> QueryOrder:
        return QueryOrder(graph_of(self.model.components, len(self.items)))

    # Which components this component precedes, itself included, shape (n_components,).
    def _below(self, component: int) -> Bool:
        return self._paths.search(component)[0]

    def _lookup(self, items: Sequence[Any]) -> list[int]:
        # the numbers of items, as indices into ``items``
        for item in items:
            if not self._is_item(item):
                raise UnknownToken(f"{item!r} occurs in no choice; leave it out, or add choices with it")
        return [self._number_of[item] for item in items]

    def _is_item(self, item: Any) -> bool:
        try:
            return item in self._number_of
        except TypeError:  # it cannot be hashed
            return False

    def _undetermined(self, first: Any, second: Any) -> UndeterminedChoice:
        # the error about two items whose difference the choices leave open
        if self.logit is not None:
            return UndeterminedChoice(
                f"the choices leave the difference of {first!r} and {second!r} open; add comparisons of the "
                "two (see .missing and .coefficients)"
            )
        return UndeterminedChoice(
            f"no chain of choices leads from {first!r} to {second!r} or back, so neither is "
            "preferred; add comparisons that connect them (see .missing)"
        )
