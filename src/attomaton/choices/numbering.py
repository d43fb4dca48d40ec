"""Check cells, items and counts (``is_missing``, ``check_…``, ``counts_of``), and number the items."""

from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from attomaton.base.errors import InvalidSamples
from attomaton.base.tables import Int64

MOST_MADE = 1 << 53  # maximum total count of choices: float64 cannot count beyond it


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, NaT, pandas' NA, or text without a visible character."""
    if isinstance(value, str):
        return not value.strip()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.generic) and bool(value != value)  # only NaN differs from itself


class BadRows(InvalidSamples):
    """Rows of a table that cannot be read, as a mask or as numbers.

    The message consists of ``before``, the name of the first row, and ``after``.
    """

    def __init__(self, before: str, rows: Any, after: str, noun: str = "row") -> None:
        super().__init__(before, rows, after, noun)  # in full, so that the error can be pickled
        self.before, self.after, self.noun = before, after, noun
        numbers = np.atleast_1d(rows)
        self.rows: Int64 = np.flatnonzero(numbers) if numbers.dtype == bool else numbers

    def __str__(self) -> str:
        return self.locate(f"{self.noun} {self.rows[0]}")

    def locate(self, row: str) -> str:
        """The message for a row with this name, such as ``line 5 of games.csv``."""
        return f"{self.before}{row}{self.after}"


def check_items(items: Sequence[Any]) -> None:
    """Reject missing items, and items that differ only in spelling."""
    missing = [item for item in items if is_missing(item)]
    if missing:
        raise InvalidSamples(f"an item is missing ({missing[0]!r}); drop its choices, or give it a name")
    texts = [item for item in items if isinstance(item, str | bytes | bool)]
    numbers = [item for item in items if isinstance(item, int | float) and not isinstance(item, bool)]
    if texts and numbers:
        raise InvalidSamples(
            f"items have different types, such as {texts[0]!r} and {numbers[0]!r}; convert all items to "
            "text, or all to numbers"
        )
    spellings: dict[str, str] = {}  # normalized text → the item with this text
    for item in items:
        if not isinstance(item, str):
            continue
        normalized = " ".join((item if item.isascii() else normalize("NFC", item)).split())
        if spellings.setdefault(normalized, item) != item:
            raise InvalidSamples(
                f"the items {spellings[normalized]!r} and {item!r} look alike but differ in whitespace or in "
                "Unicode normalization; use one spelling (in pandas: .str.strip(), "
                ".str.normalize('NFC'))"
            )


def check_unrolled(n_entries: int, n_items: int, allowed: int) -> None:
    """Reject sets or rankings that are too large; memory is quadratic in their size."""
    # the number of entries may also be 32 times the number of items in all rankings or sets of the data
    most = max(allowed, 32 * n_items)
    if n_entries > most:
        raise InvalidSamples(
            f"the choices have {n_entries:,} alternatives in all, but at most {most:,} are supported; "
            "shorten the rankings or sets"
        )


def counts_of(counts: object, n_choices: int) -> NDArray[Any]:
    """Check the counts of choices; they are int64 if all are whole, else float64."""
    if counts is None:
        return np.ones(n_choices, np.int64)
    try:
        values = np.asarray(counts)
    except ValueError:  # lists of different lengths
        values = np.empty((0, 0))
    if values.ndim != 1 or (len(values) and values.dtype.kind not in "iuf"):
        raise InvalidSamples("counts must be numbers of at least 0; give one number for each choice")
    bad: Any = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        value = values[np.argmax(bad)]
        shown = "missing" if np.isnan(value) else f"{value:g}"
        raise BadRows("the count in ", bad, f" is {shown}; give a finite number of at least 0")
    if len(values) and not values.any():
        raise InvalidSamples("all counts are 0; give at least one count above 0")
    if values.sum(dtype=np.float64) > MOST_MADE:
        raise InvalidSamples(f"counts add up to more than {MOST_MADE:,}; divide all by a common factor")
    return values.astype(np.int64 if (values % 1 == 0).all() else np.float64)


def number_hashable(entries: Sequence[Any]) -> tuple[tuple[Any, ...], Int64]:
    """The distinct items in order of first appearance, and the item number of each entry."""
    try:
        number_of = {item: number for number, item in enumerate(dict.fromkeys(entries))}
    except TypeError as error:
        raise InvalidSamples(
            f"an item is not hashable ({error}); give hashable items, such as tuples instead of lists"
        ) from error
    # A missing value that does not equal itself could be numbered several times; check_items rejects others.
    missing = [item for item in number_of if not isinstance(item, str | None) and is_missing(item)]
    if missing:
        raise InvalidSamples(f"an item is missing ({missing[0]!r}); drop its choices, or give it a name")
    return tuple(number_of), np.fromiter(map(number_of.__getitem__, entries), np.int64, len(entries))
