"""Explain by the values of a column why its coefficient is infinite: :class:`LabelledCases`."""

from typing import NamedTuple

import numpy as np

from attomaton.base.printing import show_count
from attomaton.base.tables import Bool, Float64
from attomaton.choices.design import DUMMY


class LabelledCases(NamedTuple):
    """The values of a column in cases with two labels of the ``target``."""

    column: str
    values: Float64  # (n_cases,)
    counts: Float64  # (n_cases,), how often each case was observed
    has_first: Bool  # (n_cases,), whether each case has the first label
    target: str
    labels: tuple[str, str]

    @property
    def swapped(self) -> "LabelledCases":
        return self._replace(has_first=~self.has_first, labels=self.labels[::-1])

    def describe_levels(self) -> str:
        """Which of the two values of the column decides the label; empty if neither does."""
        low, high = np.unique(self.values)
        clauses = [
            f"{count_cases(float(self.counts[self.values == level].sum()))} with "
            f"{say_level(self.column, level)} had {self.target} = {label}"
            for level, has_label, label in (
                (high, self.has_first, self.labels[0]),
                (low, ~self.has_first, self.labels[1]),
            )
            if has_label[self.values == level].all()
        ]
        return " and ".join(clauses)

    def describe_threshold(self) -> str:
        """Above which value all cases have the first label, and no others do; empty if there is none."""
        least_of_first = float(self.values[self.has_first].min())
        most_of_second = float(self.values[~self.has_first].max())
        if least_of_first < most_of_second:
            return ""
        is_complete = least_of_first > most_of_second  # if equal, both labels occur at the border
        border = shortest(_short_border(most_of_second, least_of_first) if is_complete else most_of_second)
        above = f"every case with {self.column} > {border} had {self.target} = {self.labels[0]}"
        if is_complete:
            return f"{above}, every other case had {self.target} = {self.labels[1]}"
        return f"{above}, and every case with {self.column} < {border} had {self.target} = {self.labels[1]}"


def count_cases(count: float) -> str:
    """How many cases, in words that say that these are all."""
    return f"all {show_count(count)} cases" if count != 1 else "the one case"


def say_level(column: str, level: float) -> str:
    """A column with its value, or the level that a column of 0 and 1 stands for."""
    dummy = DUMMY.fullmatch(column)
    if dummy is None:
        return f"{column} = {shortest(level)}"
    return f"{dummy[1]} = {dummy[2]}" if level == 1 else f"{dummy[1]} other than {dummy[2]}"


# A number with few digits, at least ``low`` and below ``high``.
def _short_border(low: float, high: float) -> float:
    # 17 digits tell any two float64 apart, so that `low` itself is found at last
    rounded = (float(f"{value:.{digits}g}") for digits in range(1, 18) for value in (low, (low + high) / 2))
    return next(value for value in rounded if low <= value < high)


def shortest(value: float) -> str:
    """The shortest decimal number that is this float64 and no other."""
    if value == 0 or 1e-5 <= abs(value) < 1e17:
        return np.format_float_positional(value, trim="-")
    return repr(float(value))
