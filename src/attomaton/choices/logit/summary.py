"""The table of a fit with the columns of statsmodels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from attomaton.base.frames import Tabular
from attomaton.base.printing import Block, Grid
from attomaton.base.tables import table_of
from attomaton.choices.logit.contrasts import Contrast, ContrastKind
from attomaton.choices.spread import two_sided

# The columns of a summary, named as in statsmodels.
STATISTICS = ("coef", "std err", "z", "P>|z|", "[0.025", "0.975]")


@dataclass(frozen=True, eq=False, repr=False)
class LogitSummary(Tabular):
    """Coefficients with standard errors, z, P>|z| and 95 % intervals; infinite coefficients in words.

    A finite row of ``coefficients`` has the numbers of Wald's test, with sandwich standard errors if
    ``robust``. The entry of ``readings`` says in words what is known of a row that is not finite. ``head`` is
    the line above the table, and ``notes`` are the lines below it.
    """

    head: str
    coefficients: tuple[Contrast, ...]
    readings: tuple[str, ...]
    robust: bool = False
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return str(self)

    # The STATISTICS of each coefficient, NaN where a number does not exist.
    def _numbers(self) -> list[list[float]]:
        return [_wald(row, self.robust) for row in self.coefficients]

    def _table(self) -> pa.Table:
        columns: list[Sequence[float]] = list(zip(*self._numbers(), strict=True)) or [()] * len(STATISTICS)
        return table_of(
            {
                "parameter": [row.label for row in self.coefficients],
                **dict(zip(STATISTICS, columns, strict=True)),
                "reading": list(self.readings),
            }
        )

    def _blocks(self) -> list[Block]:
        digits = (".4f", ".4f", ".3f", ".3f", ".3f", ".3f")
        rows = [
            [row.label, *map(_cell, numbers, digits), reading]
            for row, numbers, reading in zip(self.coefficients, self._numbers(), self.readings, strict=True)
        ]
        headers = ["", *STATISTICS, *([""] if any(self.readings) else [])]
        return [self.head, Grid("", headers, [row[: len(headers)] for row in rows]), *self.notes]


def _wald(row: Contrast, robust: bool) -> list[float]:
    error = row.robust_error if robust else row.standard_error
    if row.kind is not ContrastKind.FINITE or error is None:
        return [row.value, *[np.nan] * (len(STATISTICS) - 1)]
    z = row.value / error
    return [row.value, error, z, two_sided(z, np.inf), *row.interval(robust=robust)]


def _cell(value: float, form: str) -> str:
    return "-" if np.isnan(value) else f"{value:+}" if np.isinf(value) else f"{value:{form}}"
