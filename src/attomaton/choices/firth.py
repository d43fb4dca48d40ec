"""Scores by Firth's penalised likelihood, which are finite for all items that comparisons connect."""

# `FirthScores.of` takes over a conditional logit without the penalty (`LogitScores`); its members override
# those that depend on the estimate. Nodes of its components are the items and, last, one *query*: the graph
# code of this package has a query in every graph, and here it is no item.

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.tables import Float64, Int64
from attomaton.choices.conditional import LogitScores
from attomaton.choices.gaps import Gaps, OpenGaps
from attomaton.choices.logit.cone import CLOSE
from attomaton.choices.logit.contrasts import Contrast, ContrastKind
from attomaton.choices.logit.firth import FirthFit
from attomaton.choices.logit.rows import Situations
from attomaton.graphs.components import Components, merge_components


@dataclass(frozen=True, eq=False)
class FirthScores(LogitScores):
    """The scores and coefficients of a conditional logit with Firth's penalty.

    ``logit`` and ``graph`` are without the penalty: the fit, and the components and order that it proves.
    Items of one component in ``components`` have finite differences with the penalty. Members without a
    docstring are described in :class:`.conditional.LogitScores`, and here include the penalty.
    """

    joined = "Firth's penalty"  # what joins components of the data into one; printed with the fit
    penalty = "firth"  # the value of the option `penalty`

    @classmethod
    def of(cls, model: LogitScores) -> "FirthScores":
        """The same choices with the penalty; only independent choices with whole counts are supported."""
        if model.units.kind != "information":
            raise UnsupportedOption(
                "Firth's penalty is for whole and independent choices; leave cluster= out, give whole "
                "numbers as counts, and count ties as outcomes"
            )
        return cls(**{field.name: getattr(model, field.name) for field in fields(model)})

    @cached_property
    def graph(self) -> Components:
        """The components and their order without the penalty."""
        return LogitScores.components.func(self)  # the cached property that this class overrides

    @cached_property
    def penalised(self) -> FirthFit:
        """The fit with the penalty."""
        return self.logit.firth()

    @property
    def verdict(self) -> str:
        return f"every estimate is stationary under Firth's penalty; without the penalty, {super().verdict}"

    @cached_property
    def components(self) -> Components:
        """The components of ``graph`` merged where differences of their items are identified."""
        null = self.logit.problem.parameters(self.logit.identified.complement)  # (n_columns, n_vectors)
        # the first node of each component: an item, but for the last component, which is the query alone
        first_node = np.unique(self.graph.component_of_node, return_index=True)[1]
        groups = _group_identified(null[first_node[:-1]])
        query_group = len(groups)  # a new number, so the query stays alone
        return merge_components(self.graph, np.append(groups, query_group))

    @property
    def _beta(self) -> Float64:
        return self.penalised.coefficients

    @cached_property
    def _covariance(self) -> Float64:
        return self.penalised.covariance

    def _error(self, contrast: Float64) -> tuple[float, float]:
        # the standard error and its degrees of freedom, which are infinite: intervals are normal, not t
        return max(float(contrast @ self._covariance @ contrast), 0.0) ** 0.5, np.inf

    def gaps(self, component: Int64, above: Int64, below: Int64) -> Gaps:  # noqa: ARG002
        """The infinite gaps between components: none, since the penalty makes every difference finite."""
        nothing = np.zeros(0, np.int64)
        n_components = int(component.max(initial=-1)) + 1
        return OpenGaps(lambda above, below, level: None, nothing, nothing, n_components)  # noqa: ARG005

    @property
    def log_likelihood(self) -> float:
        # without the penalty, at the estimate with the penalty
        return self.penalised.log_likelihood

    @property
    def n_parameters(self) -> int:
        return self.n_identified

    @property
    def why_no_aic(self) -> str:
        # continues "AIC needs the maximum of a likelihood, and …"
        return "Firth's penalty moves the fit away from it"

    @cached_property
    def coefficients(self) -> dict[str, Contrast]:
        """The contrasts of features with finite estimates; unidentified ones are as without the penalty."""
        coefficients = dict(LogitScores.coefficients.func(self))
        for name, contrast in coefficients.items():
            if contrast.kind is not ContrastKind.UNIDENTIFIED:
                estimate = self.penalised.contrast(name)
                coefficients[name] = Contrast(
                    name, ContrastKind.FINITE, estimate.value, estimate.standard_error, level=contrast.level
                )
        return coefficients

    def predict(self, rows: Any, situations: Situations) -> Float64:
        return self.penalised.predict(rows, situations)

    def remarks(self) -> list[str]:
        note = (
            "penalty: Firth's (half the log determinant of the information); intervals here are Wald's, "
            "those of .difference and .probability_interval are by profile penalised likelihood"
        )
        infinite = [
            f"{name} at {contrast.kind.value}"
            for name, contrast in LogitScores.coefficients.func(self).items()
            if contrast.kind in (ContrastKind.PLUS, ContrastKind.MINUS)
        ]
        if infinite:
            note += f"; without the penalty the best fit has {', '.join(infinite)}"
        return [*super().remarks(), note]


# The group of each component, from all null vectors at one item of each, (n_components, n_vectors).
def _group_identified(null: Float64) -> Int64:
    # A difference of two items is identified if each null vector has one value at both. So each component
    # that has no group yet founds one, of its own number, with all later components whose values are equal.
    groups = np.full(len(null), -1)  # −1: no group yet
    for number, values in enumerate(null):
        if groups[number] < 0:
            is_equal = np.linalg.norm(null - values, axis=1) <= CLOSE
            groups[is_equal & (groups < 0)] = number
    return groups
