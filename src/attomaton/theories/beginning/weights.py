"""The weights that the theorem forecasts for a step."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.printing import Block, Grid, Printed, blocks_of
from attomaton.base.tables import Float64
from attomaton.theories.beginning.statistics import Statistics
from attomaton.theories.beginning.theorem import WEIGHTS, Coefficients, Setting, TheoremBounds


@dataclass(frozen=True, eq=False, repr=False)
class EarlyWeights(Printed):
    """The forecast weights of every layer after a few steps of gradient descent; all layers are alike.

    Attributes
    ----------
    statistics : Statistics
        Of the corpus.
    setting : Setting
        Depth, start and step size.
    step : int
        s.

    Examples
    --------
    >>> import attomaton as at
    >>> weights = at.begin([[0, 1, 2, 0, 1, 2, 0]], window=3).weights_at(4, step_size=0.5)
    >>> weights.attention.shape, weights.positions.shape, weights.values.shape, weights.output.shape
    ((3, 3), (3,), (3, 3), (3, 3))
    >>> weights.bounds.hold, weights.valid_until
    (False, 0)
    >>> sorted(weights.to_dict())
    ['attention', 'output', 'positions', 'values']
    """

    statistics: Statistics
    setting: Setting
    step: int

    def __repr__(self) -> str:
        return f"EarlyWeights(step {self.step:,} of size {self.setting.step_size:g})"

    @cached_property
    def coefficients(self) -> Coefficients:
        """What the statistics are multiplied by."""
        return Coefficients.at(self.step, self.setting.step_size)

    @cached_property
    def attention(self) -> Float64:
        """W ≈ (3C(s,4) + 2C(s,3)) η⁴ Q̄, query × key."""
        return self.coefficients.attention * self.statistics.look_table

    @cached_property
    def positions(self) -> Float64:
        """P ≈ (3C(s,4) + 2C(s,3)) η⁴ Δ, by lag from 0 on, shape (window,)."""
        return self.coefficients.attention * self.statistics.lags

    @cached_property
    def values(self) -> Float64:
        """V ≈ C(s,2) η² Φ̄ᵀB̄ᵀ, token read × token written."""
        return self.coefficients.values * self.statistics.carried

    @cached_property
    def output(self) -> Float64:
        """W_O ≈ s η B̄, token × next token."""
        return self.coefficients.output * self.statistics.bigrams

    @cached_property
    def bounds(self) -> TheoremBounds:
        """How far real weights may be from these, and whether the theorem promises it."""
        return self.setting.bounds_at(self.step)

    @property
    def valid_until(self) -> int:
        """The last step for which the theorem speaks; 0 if it does for none."""
        return self.setting.valid_until

    def to_dict(self) -> dict[str, Float64]:
        """All four by name."""
        return {name: getattr(self, name) for name in WEIGHTS}

    def _blocks(self) -> list[Block]:
        sizes = {name: float(np.linalg.norm(one)) for name, one in self.to_dict().items()}
        rows = [
            (sign, f"{sizes[name]:.3g}", f"{getattr(self.bounds, name):.3g}")
            for name, sign in WEIGHTS.items()
        ]
        return [
            f"Every layer after step {self.step:,} of size {self.setting.step_size:g}.",
            blocks_of(self.bounds)[0],
            Grid("", ["weights", "Frobenius norm", "error at most"], rows),
        ]
