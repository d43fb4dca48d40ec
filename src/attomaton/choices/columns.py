"""Columns of lists, arrays and frames: find them, read numbers, and number items."""

# ``columns_of`` lists the columns of a frame, ``find_column`` finds one of them by name,
# ``read_numbers`` reads numbers, and ``number_columns`` numbers the items of several columns together.

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import pyarrow as pa

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.tables import Float64, Int64, arrow_compute, join_chunks, numbers_of
from attomaton.choices.numbering import BadRows, check_items, is_missing, number_hashable
from attomaton.corpora.readers.tables import dataset_tables, library_of
from attomaton.graphs.grouping import distinct_keys, find_keys

_arrow: Any = pa
_is: Any = pa.types

LISTED_COLUMNS = 12  # maximum number of column names that an error lists

INEXACT_FROM = 1 << 53  # from this size not every integer is a float64


def is_frame(values: object) -> bool:
    """Whether a value has named columns: a frame, an Arrow table, a dict of columns, a list of records."""
    if isinstance(values, Mapping | pa.Table | pa.RecordBatch):
        return True
    if isinstance(values, list):
        rows = cast("list[object]", values)
        return bool(rows) and all(isinstance(row, Mapping) for row in rows)
    kind = type(values)  # a lazy frame warns if its attributes are read
    if library_of(values) == "datasets":
        return hasattr(kind, "column_names")
    supported = library_of(values) in ("narwhals", "pandas", "polars") or hasattr(kind, "__arrow_c_stream__")
    return supported and hasattr(kind, "columns")


def columns_of(frame: Any) -> dict[Any, Any]:
    """Name → column; the column is None if two columns have this name."""
    if library_of(frame) == "datasets":
        frame = _arrow.concat_tables(dataset_tables(_only_split(frame)))
    if isinstance(frame, Mapping):
        return dict(cast("Mapping[Any, Any]", frame))
    if isinstance(frame, list):
        return _columns_of_records(cast("list[Mapping[Any, Any]]", frame))
    if hasattr(frame, "collect") and not hasattr(frame, "to_arrow"):
        raise InvalidSamples("the frame is lazy; collect it first: frame.collect()")
    if library_of(frame) not in ("pandas", "pyarrow"):
        frame = _arrow.table(frame)
    in_arrow = library_of(frame) == "pyarrow"
    names: list[Any] = list(frame.column_names if in_arrow else frame.columns)
    take = frame.column if in_arrow else frame.__getitem__
    return {name: take(name) if count == 1 else None for name, count in Counter(names).items()}


def _only_split(dataset: Any) -> Any:
    # a Hugging Face dataset, or the only split of a dict of them
    if not isinstance(dataset, Mapping):
        return dataset
    splits = cast("Mapping[str, Any]", dataset)
    if len(splits) > 1:
        raise InvalidSamples(
            f"the dataset has the splits {', '.join(map(show, splits))}; give one of them, such as "
            f"dataset[{next(iter(splits))!r}]"
        )
    return next(iter(splits.values()))


def _columns_of_records(records: list[Mapping[Any, Any]]) -> dict[Any, Any]:
    names = dict.fromkeys(chain.from_iterable(records))
    # a table of records may have 2^24 cells, and 32 for each cell with a value
    if len(names) * len(records) > (1 << 24) + 32 * sum(map(len, records)):
        raise InvalidSamples(
            f"{len(records):,} records have {len(names):,} different field names, and each record lacks most "
            "of them; give all records the same fields"
        )
    return {name: [record.get(name) for record in records] for name in names}


def find_column(columns: Mapping[Any, Any], name: Any, role: str) -> Any:
    """A column by its name; an error about a missing one says how to name the column of this role."""
    column = look_up(columns, name) if isinstance(name, Hashable) else None
    if column is not None:
        return column
    if isinstance(name, Hashable) and name in columns:
        raise InvalidSamples(f"there are two columns {name!r}; rename one of them")
    listed = ", ".join(show(key) for key in list(columns)[:LISTED_COLUMNS])
    listed += ", …" * (len(columns) > LISTED_COLUMNS)
    raise InvalidSamples(
        f"there is no column {show(name)} for the {role} among the columns {listed or '(none)'}; "
        + (f"name the column with {role}=" if role.isidentifier() else "correct the formula")
    )


def look_up(columns: Any, name: Any) -> Any:
    """A column by its name, or a field of structs or dicts by its path ``a.b``; None if absent."""
    column = _field(columns, name)
    if column is not None or not isinstance(name, str):
        return column
    dots = [index for index, sign in enumerate(name) if sign == "."]
    for dot in reversed(dots):  # names may contain dots, too
        outer = _field(columns, name[:dot])
        inner = None if outer is None else look_up(outer, name[dot + 1 :])
        if inner is not None:
            return inner
    return None


def _field(source: Any, name: Any) -> Any:
    # a column of a table, or a field of all cells of a column of structs or dicts; None if absent
    if isinstance(source, Mapping):
        return cast("Mapping[Any, Any]", source).get(name)
    column = source.to_arrow() if library_of(source) == "polars" else source
    if isinstance(column, pa.Array | pa.ChunkedArray):
        kind = cast("Any", column).type
        index = kind.get_field_index(name) if _is.is_struct(kind) else -1
        return None if index < 0 else arrow_compute().struct_field(column, [index])
    cells = as_list(column) if getattr(column, "dtype", None) in (None, object) else []
    if not any(isinstance(cell, dict) and name in cell for cell in cells):
        return None
    return [cast("dict[Any, Any]", cell).get(name) if isinstance(cell, dict) else None for cell in cells]


def as_list(values: Any) -> list[Any]:
    for method in ("to_pylist", "tolist", "to_list"):  # of Arrow, numpy and pandas, and Polars
        if hasattr(values, method):
            return cast("list[Any]", getattr(values, method)())
    return list(values)


def as_sequence(names: Any) -> Sequence[Any]:
    return list(cast("Sequence[Any]", names)) if isinstance(names, list | tuple) else [names]


def as_arrow(values: Any) -> Any:
    """Text or numbers as one Arrow array, with null for missing entries; None for anything else."""
    if isinstance(values, list | tuple):
        kinds: set[type] = set(map(type, cast("Sequence[Any]", values)))
        if any(issubclass(kind, list | tuple | dict) for kind in kinds):
            return None
    column = cast("Any", values)
    try:
        array: Any = column.to_arrow() if library_of(column) == "polars" else column
        if not isinstance(array, pa.Array | pa.ChunkedArray):
            array = _arrow.array(array, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    plain = _as_plain_array(join_chunks(array) if isinstance(array, pa.ChunkedArray) else array)
    return plain if _kind_of(plain.type) else None


# Decode dictionaries, run-end encoding, string views and decimals.
def _as_plain_array(array: Any) -> Any:
    if isinstance(array, pa.ExtensionArray):
        return _as_plain_array(cast("Any", array).storage)
    if _is.is_dictionary(array.type):
        values = _as_plain_array(array.dictionary)
        return _arrow.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    if _is.is_run_end_encoded(array.type):
        return _as_plain_array(arrow_compute().run_end_decode(array))
    if _is.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.float64()) if _is.is_decimal(array.type) else array


def list_values(values: Any) -> tuple[Int64, Any] | None:
    """The lengths and the values of a column of Arrow lists; None for any other column."""
    polars = library_of(values) == "polars" and hasattr(values, "to_arrow")
    column: Any = values.to_arrow() if polars else values
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        return None
    lists: Any = join_chunks(column) if isinstance(column, pa.ChunkedArray) else cast("Any", column)
    if not (_is.is_list(lists.type) or _is.is_large_list(lists.type)):
        return None
    if lists.null_count:
        rows = np.flatnonzero([cells is None for cells in lists.to_pylist()])
        raise BadRows("", rows, " has no list; drop the rows without a list")
    return numbers_of(lists.value_lengths()).astype(np.int64), lists.flatten()


def number_values(values: Any) -> tuple[Int64, list[Any]]:
    """The code of each entry, and the distinct values that the codes index; a missing entry is None."""
    array = as_arrow(values)
    if array is None:
        cells = as_list(values)
        nested: list[Any] = [cell for cell in cells if isinstance(cell, list | dict | set)]
        if nested:
            raise InvalidSamples(f"a column contains {show(nested[0])}; name a column of text or numbers")
        number_of = {value: number for number, value in enumerate(dict.fromkeys(cells))}
        return np.fromiter(map(number_of.__getitem__, cells), np.int64, len(cells)), list(number_of)
    coded = array.dictionary_encode("encode")
    return numbers_of(coded.indices).astype(np.int64), coded.dictionary.to_pylist()


def read_numbers(values: Any, role: str, n_rows: int) -> Float64:
    """Read finite numbers, which may be stored as text."""
    array = as_arrow(values)
    if array is None or len(array) != n_rows:
        raise InvalidSamples(f"{role} is not a column of {n_rows:,} numbers; give one number for each row")
    try:
        numbers = numbers_of(array if _is.is_float64(array.type) else array.cast(pa.float64()))
    except pa.ArrowException:
        numbers = np.array(list(map(as_number, array.to_pylist())))
    bad = ~np.isfinite(numbers)
    if bad.any():
        value = array[int(np.argmax(bad))].as_py()
        shown = "missing" if is_missing(value) else show(value)
        raise BadRows(f"{role} is {shown} in ", bad, "; write a finite number, or drop the row")
    return numbers


def read_totals(column: Any, role: str, n_rows: int) -> Float64:
    """Read numbers, or sum the fields of structs or dicts."""
    if as_arrow(column) is not None:
        return read_numbers(column, role, n_rows)
    cells = as_list(column)
    bad = [not isinstance(cell, dict) for cell in cells]
    if any(bad):
        raise BadRows(
            f"{role} is {show(cells[bad.index(True)])} in ", bad, "; write a number or a struct of numbers"
        )
    return np.array([sum(value or 0 for value in cell.values()) for cell in cells], np.float64)


def as_number(cell: Any) -> float:
    """A number, or a number as text, as a float; NaN for all other values, including bools."""
    try:
        return np.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError):
        return np.nan


def number_columns(columns: Mapping[str, Any]) -> tuple[tuple[Any, ...], list[Int64]]:
    """The distinct items of all columns, and each column as item numbers; rejects missing entries."""
    # Integers are numbered in ascending order, other items in order of first appearance, row by row.
    arrays: dict[str, Any] = {role: as_arrow(values) for role, values in columns.items()}
    in_arrow = all(array is not None for array in arrays.values())
    if not in_arrow:
        arrays = {role: as_list(values) for role, values in columns.items()}
    if not in_arrow or any(array.null_count for array in arrays.values()):
        _refuse_missing(arrays)
    lengths = [len(array) for array in arrays.values()]
    by_row = np.arange(sum(lengths))  # the entries of the concatenated columns, row by row
    if len(set(lengths)) == 1:
        by_row = by_row.reshape(len(lengths), -1).T.ravel()
    number = _number_in_arrow if in_arrow else _number_in_python
    items, numbers = number(arrays, by_row)
    if any(map(is_missing, items)):
        _refuse_missing(arrays)
    check_items(items)
    return items, np.split(numbers, np.cumsum(lengths)[:-1])


def _number_in_arrow(arrays: Mapping[str, Any], by_row: Int64) -> tuple[tuple[Any, ...], Int64]:
    # the distinct items, and the item number of each entry of the concatenated columns; ``by_row`` has these
    # entries in the order in which items are numbered
    kinds = {role: _kind_of(array.type) for role, array in arrays.items() if len(array)}
    if len(set(kinds.values())) > 1:
        contents = " and ".join(f"{role} contains {kind}" for role, kind in kinds.items())
        raise InvalidSamples(f"items must be of one type, but {contents}; convert both columns to one type")
    if "numbers" in kinds.values():
        values = _join_numbers([_as_numbers(array) for array in arrays.values()])
        if values.dtype.kind == "i":
            distinct = distinct_keys(values)
            return tuple(distinct.tolist()), find_keys(distinct, values)
        distinct, codes = np.unique(values, return_inverse=True)
        items: list[Any] = distinct.tolist()
    else:
        wide = [  # Arrow joins only columns of one type, and there are two of text
            array.cast(pa.large_string()) if kinds.get(role) == "text" else array
            for role, array in arrays.items()
        ]
        coded = _arrow.chunked_array(wide).combine_chunks().dictionary_encode()
        codes = numbers_of(coded.indices).astype(np.int64)
        items = coded.dictionary.to_pylist()
    # renumber the codes by first appearance: of repeated assignments the last stays, so go backwards
    first_entry = np.empty(len(items), np.int64)
    first_entry[codes[by_row][::-1]] = np.arange(len(codes))[::-1]
    order = np.argsort(first_entry)
    number_of_code = np.empty_like(order)
    number_of_code[order] = np.arange(len(order))
    return tuple(items[code] for code in order.tolist()), number_of_code[codes]


# Concatenate columns of numbers; reject large integers next to floats.
def _join_numbers(arrays: Sequence[Any]) -> Any:
    values = np.concatenate(arrays)
    large = any(array.dtype.kind == "i" and (np.abs(array) >= INEXACT_FROM).any() for array in arrays)
    if values.dtype.kind == "f" and large:
        raise InvalidSamples(
            "some items are large integers and others are floats, which cannot represent large integers; "
            "convert both columns to integers or to text"
        )
    return values


def _number_in_python(lists: Mapping[str, list[Any]], by_row: Int64) -> tuple[tuple[Any, ...], Int64]:
    # the answer of ``_number_in_arrow`` for Python objects that Arrow cannot number
    entries = list(chain.from_iterable(lists.values()))
    items, numbers = number_hashable([entries[index] for index in by_row.tolist()])
    number_of_entry = np.empty_like(numbers)
    number_of_entry[by_row] = numbers
    return items, number_of_entry


# The name of a type in error messages; empty if Arrow cannot number its values.
def _kind_of(arrow_type: Any) -> str:
    if _is.is_string(arrow_type) or _is.is_large_string(arrow_type):
        return "text"
    if _is.is_integer(arrow_type) or _is.is_floating(arrow_type):
        return "numbers"
    if _is.is_boolean(arrow_type):
        return "truth values"
    if _is.is_temporal(arrow_type) and not _is.is_duration(arrow_type):
        return f"{arrow_type} values"
    return "nothing" if _is.is_null(arrow_type) else ""


# Convert to 64-bit integers if all numbers are whole, otherwise to floats.
def _as_numbers(array: Any) -> Any:
    values = numbers_of(array)
    if values.dtype.kind == "u" and len(values) and int(values.max()) > np.iinfo(np.int64).max:
        raise InvalidSamples(
            f"an item is {int(values.max())}, which does not fit into 64 bits; convert the items to text"
        )
    if values.dtype.kind == "f" and (np.abs(values) < INEXACT_FROM).all() and (values % 1 == 0).all():
        values = values.astype(np.int64)
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64)


def _refuse_missing(columns: Mapping[str, Any]) -> None:
    # raise an error that names the first missing entry, if any
    for role, values in columns.items():
        cells = as_list(values)
        rows = np.flatnonzero([is_missing(cell) for cell in cells])
        if len(rows):
            content = "empty" if isinstance(cells[rows[0]], str) else f"missing ({cells[rows[0]]!r})"
            raise BadRows(
                f"the {role} in ",
                rows,
                f" is {content}; fill it in, or drop such rows (in pandas: frame.dropna(); on the command "
                "line: --skip-bad)",
            )
