"""Scores by Firth's penalised likelihood, which are finite for all items that comparisons connect."""

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
    Items of one component in ``components`` have finite differences with the penalty.
    """

    joined = "Firth's penalty"
    penalty = "firth"

    @classmethod
    def of(cls, model: LogitScores) -> "FirthScores":
        if model.units.kind != "information":
            raise UnsupportedOption(
                "Firth's penalty is for whole and independent choices; leave cluster= out, give whole "
                "numbers as counts, and count ties as outcomes"
            )
        return cls(**{field.name: getattr(model, field.name) for field in fields(model)})

    @cached_property
    def graph(self) -> Components:
        return LogitScores.components.func(self)  # the cached property that this class overrides

    @cached_property
    def penalised(self) -> FirthFit:
        return self.logit.firth()

    @property
    def verdict(self) -> str:
        return f"every estimate is stationary under Firth's penalty; without the penalty, {super().verdict}"

    @cached_property
    def components(self) -> Components:
        """The components of ``graph`` merged where differences of their items are identified."""
        # a difference is identified if all null vectors have one value at both items
        null = self.logit.problem.parameters(self.logit.identified.complement)[: self.n_items]
        component = self.graph.component_of_node
        leaders = np.unique(component, return_index=True)[1][:-1]  # an item of each; the query is last
        groups = np.full(len(self.graph), -1)  # by component, −1 until it has a group
        for number, leader in enumerate(leaders):
            if groups[number] < 0:
                distance = np.linalg.norm(null[leaders] - null[leader], axis=1)
                groups[np.flatnonzero((distance <= CLOSE) & (groups[:-1] < 0))] = number
        groups[component[-1]] = len(groups)  # the query stays alone
        return merge_components(self.graph, groups)

    @property
    def _beta(self) -> Float64:
        return self.penalised.coefficients

    @cached_property
    def _covariance(self) -> Float64:
        return self.penalised.covariance

    def _error(self, contrast: Float64) -> tuple[float, float]:
        return max(float(contrast @ self._covariance @ contrast), 0.0) ** 0.5, np.inf

    def gaps(self, component: Int64, above: Int64, below: Int64) -> Gaps:  # noqa: ARG002
        """No gaps, since none is infinite."""
        nothing = np.zeros(0, np.int64)
        n_components = int(component.max(initial=-1)) + 1
        return OpenGaps(lambda above, below, level: None, nothing, nothing, n_components)  # noqa: ARG005

    @property
    def log_likelihood(self) -> float:
        return self.penalised.log_likelihood

    @property
    def n_parameters(self) -> int:
        return self.n_identified

    @property
    def why_no_aic(self) -> str:
        return "Firth's penalty moves the fit away from it"

    @cached_property
    def coefficients(self) -> dict[str, Contrast]:
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
