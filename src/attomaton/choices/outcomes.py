"""How a comparison of two ended, as tables say it: a number, the name of a column, of an item, or a tie."""

from typing import Any

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.tables import Bool, Int64
from attomaton.choices.columns import as_arrow, as_list

TIES = ("tie", "draw", "tied")
"""Words for a tie; ``tie (…)`` is one too."""

NUMBERS = {"1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0, "0.5": 0.5}
"""Texts that say what the first of a pair has of the win."""

FLAGS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
"""Texts that say whether a row is a tie."""


def read_flags(values: Any) -> Bool:
    """Truth values as they stand in tables, shape (n_rows,)."""
    flags: list[bool] = []
    for row, value in enumerate(as_list(values)):
        known = FLAGS.get(str(value).strip().lower(), FLAGS.get(str(value).removesuffix(".0")))
        if known is None:
            raise InvalidSamples(f"tied is {show(value)} in row {row}; give True or False")
        flags.append(known)
    return np.array(flags, bool)


def read_outcomes(
    values: Any, items: tuple[Any, ...], pair: tuple[Int64, Int64], names: tuple[Any, Any]
) -> tuple[Bool, Bool]:
    """Where the first of each pair lost, and where it was a tie, shape (n_rows,) each."""
    array = as_arrow(values)
    given: list[Any] = [] if array is None else array.to_pylist()
    if array is None or len(given) != len(pair[0]):
        raise InvalidSamples("the outcome is no column of texts or numbers with one entry for each row")
    _refuse_double_meaning(items, names, set(given))
    number = {item: place for place, item in enumerate(items)}
    first, second = (one.tolist() for one in pair)
    ends = np.array(
        [_end(value, number, (first[row], second[row]), names, row) for row, value in enumerate(given)],
        np.float64,
    )
    return ends == 0.0, ends == 0.5


def _end(
    value: Any, number: dict[Any, int], pair: tuple[int, int], names: tuple[Any, Any], row: int
) -> float:
    """What the first of a pair has of the win: 1, ½ or 0."""
    if value in number and number[value] in pair and not isinstance(value, bool):
        return float(number[value] == pair[0])
    if isinstance(value, str):
        word = value.strip().lower()
        if value in names:
            return float(value == names[0])
        if word in TIES or word.startswith(("tie ", "tie(")):
            return 0.5
        value = NUMBERS.get(word)
    if value in (0, 0.5, 1):
        return float(value)
    raise InvalidSamples(
        f"the outcome in row {row} cannot be read: it is 1 if {show(names[0])} won, 0 if {show(names[1])} "
        "did, 0.5 or 'tie' if neither; or the name of the winner, or of its column"
    )


def _refuse_double_meaning(items: tuple[Any, ...], names: tuple[Any, Any], given: set[Any]) -> None:
    """An item that is called as a column, or 'tie', or 1 where numbers are outcomes, could mean both."""
    special = {*names, *TIES, 0, 0.5, 1, *NUMBERS}
    both = next((item for item in items if item in special and item in given), None)
    if both is not None:
        raise InvalidSamples(
            f"the outcome {show(both)} may be the item of that name or not; give columns of winner and loser"
        )
