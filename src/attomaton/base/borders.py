"""Check arrays from users and files, because the compiled kernels do not check bounds.

Every array that indexes another is checked once, when a public value is made from a file or from user input:
type, length and range, in a few passes of numpy. Values that our own code derives from checked values are not
checked again (:func:`trusted`).
"""

from collections.abc import Mapping
from operator import index
from typing import Any, Final, SupportsIndex, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attomaton.base.errors import AttomatonError, MismatchedParts
from attomaton.base.options import show
from attomaton.base.printing import count_noun
from attomaton.base.tables import Float64, Int32, Int64, Integers, column

Value = TypeVar("Value")
Refusal = type[AttomatonError]

MEND = "correct it, or use a value that attomaton returned"

# Requirements of kernels, for `np.require`: in C order, aligned, and a plain array.
CONTIGUOUS: Final = ("C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY")

# Largest sum of counts: beyond it float64 cannot represent every integer, and integer sums may wrap.
MOST_COUNTED = 1 << 53


def trusted(kind: type[Value], **fields: Any) -> Value:
    """A frozen dataclass without its checks, from fields that our own code derived from checked values."""
    value = object.__new__(kind)
    for name, field in fields.items():
        object.__setattr__(value, name, field)
    return value


def check_size(size: object, most: int, name: str, *, error: Refusal = MismatchedParts) -> int:
    """The size as an int, if it is a whole number from 0 to ``most``."""
    # any other value becomes one that is too large
    number = index(size) if isinstance(size, SupportsIndex) and not isinstance(size, bool) else most + 1
    if not 0 <= number <= most:
        raise error(f"{name} is {show(size)}, not a whole number from 0 to {most:,}; {MEND}")
    return number


def check_int32(values: object, name: str, *, error: Refusal = MismatchedParts) -> Int32:
    """A one-dimensional array of whole numbers as int32, copied only if its type or layout differs."""
    return _check_integers(values, np.dtype(np.int32), name, error)


def check_int64(values: object, name: str, *, error: Refusal = MismatchedParts) -> Int64:
    return _check_integers(values, np.dtype(np.int64), name, error)


def check_floats(values: object, shape: tuple[int | None, ...], name: str, *, finite: bool = True) -> Float64:
    """A C array of this shape (None is any length) as float64, all finite unless ``finite`` is false."""
    try:
        numbers = np.require(values, np.float64, CONTIGUOUS)
    except (TypeError, ValueError) as problem:
        raise MismatchedParts(f"{name} is not an array of numbers ({problem}); {MEND}") from problem
    sizes = zip(shape, numbers.shape, strict=False)
    if numbers.ndim != len(shape) or any(size not in (None, actual) for size, actual in sizes):
        needed = ", ".join("any" if size is None else str(size) for size in shape)
        raise MismatchedParts(f"{name} has shape {numbers.shape}, not ({needed}); {MEND}")
    if finite and not np.isfinite(numbers).all():
        index = tuple(np.argwhere(~np.isfinite(numbers))[0].tolist())
        raise MismatchedParts(f"{name} is {numbers[index]} at index {index}; {MEND}")
    return numbers


def check_ids(ids: Integers, size: int, name: str, *, error: Refusal = MismatchedParts) -> None:
    """Check that ids are in 0 … size − 1; the error names the first row that is not."""
    if not len(ids) or (int(ids.min()) >= 0 and int(ids.max()) < size):
        return
    outside = np.flatnonzero((ids < 0) | (ids >= size))
    raise error(
        f"{name} is {ids[outside[0]]} in row {outside[0]}, outside 0 … {size - 1} "
        f"({count_noun(len(outside), 'such row')}); {MEND}"
    )


def check_count_range(counts: Integers, least: int, name: str) -> None:
    """Check that each count is at least ``least`` and their sum at most 2⁵³."""
    if not len(counts):
        return
    if int(counts.min()) < least:
        row = int(np.argmin(counts))
        raise MismatchedParts(f"{name} is {counts[row]} in row {row} but must be at least {least}; {MEND}")
    if float(counts.sum(dtype=np.float64)) > MOST_COUNTED:
        raise MismatchedParts(f"{name} adds up to more than {MOST_COUNTED:,}; {MEND}")


def check_rising(keys: Integers, name: str, *, strictly: bool = True) -> None:
    """Check that keys increase from row to row, or do not decrease if ``strictly`` is false."""
    wrong = keys[1:] <= keys[:-1] if strictly else keys[1:] < keys[:-1]
    if wrong.any():
        row = int(np.argmax(wrong)) + 1  # wrong[i] compares row i + 1 with row i
        order = "increase" if strictly else "not decrease"
        raise MismatchedParts(f"{name} must {order} from row to row, but row {row} does not; {MEND}")


def check_offsets(offsets: Int64, n_values: int, name: str, *, error: Refusal = MismatchedParts) -> None:
    """Check that offsets begin at 0, do not decrease, and end at ``n_values``."""
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != n_values or (offsets[1:] < offsets[:-1]).any():
        raise error(f"{name} must rise from 0 to {n_values}, the number of values; {MEND}")


def check_kind(value: object, kind: type[object], name: str) -> None:
    if not isinstance(value, kind):
        raise MismatchedParts(f"{name} is of type {type(value).__name__}; it must be {kind.__name__}")


def check_lengths(name: str, /, **arrays: Any) -> None:
    lengths = {key: len(array) for key, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{length} of {key}" for key, length in lengths.items())
        raise MismatchedParts(f"{name} must have equal lengths, but there are {listed}; {MEND}")


def check_table(table: object, schema: pa.Schema, name: str) -> None:
    """Check that a table has these columns and no nulls, and passes the full validation of Arrow."""
    if not isinstance(table, pa.Table):
        raise MismatchedParts(f"{name} is of type {type(table).__name__}; give a pyarrow.Table")
    columns = {field.name: field.type for field in cast("Any", schema)}
    if columns != {field.name: field.type for field in cast("Any", table.schema)}:
        listed = ", ".join(f"{field}: {kind}" for field, kind in columns.items())
        raise MismatchedParts(f"{name} has the wrong columns; it needs {listed}")
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise MismatchedParts(f"{name} is not valid ({problem}); {MEND}") from problem
    for field, kind in columns.items():
        chunked = cast("Any", table).column(field)
        n_nulls = chunked.null_count
        if isinstance(kind, pa.LargeListType):  # in the lists, too
            n_nulls += sum(chunk.values.null_count for chunk in chunked.chunks)
        if n_nulls:
            raise MismatchedParts(f"{name} has nulls in the column {field}; {MEND}")


def check_ids_of(table: pa.Table, sizes: Mapping[str, int], name: str) -> None:
    """Check that the ids in these columns of a table are in 0 … size − 1."""
    for field, size in sizes.items():
        check_ids(column(table, field), size, f"{field} in {name}")


# One-dimensional integers that fit the type `kind`, as an array of this type in C order.
def _check_integers(values: object, kind: np.dtype[Any], name: str, error: Refusal) -> NDArray[Any]:
    try:
        numbers = np.require(values, None, CONTIGUOUS)
    except ValueError as problem:  # ragged
        raise error(f"{name} is not a list of whole numbers ({problem}); {MEND}") from problem
    if numbers.ndim != 1 or (len(numbers) and numbers.dtype.kind not in "iu"):
        raise error(
            f"{name} must be a one-dimensional array of whole numbers, not {numbers.dtype} of shape "
            f"{numbers.shape}; convert it first"
        )
    if numbers.dtype == kind:
        return numbers
    limits = np.iinfo(kind)
    if len(numbers) and not (limits.min <= int(numbers.min()) and int(numbers.max()) <= limits.max):
        raise error(f"{name} has numbers that do not fit {kind}; {MEND}")
    return numbers.astype(kind)
