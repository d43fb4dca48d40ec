"""Tables of choices in files: CSV, TSV, Parquet and JSON, as columns."""

import json
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any, cast

import pyarrow as pa

from attomaton.base.errors import InvalidSamples, UnreadableSource, UnsupportedOption
from attomaton.base.options import check_path
from attomaton.choices.columns import as_list, columns_of, find_column
from attomaton.corpora.readers.files import File, decode, naming
from attomaton.corpora.readers.tables import open_parquet

_arrow: Any = pa

LARGEST = 1 << 31
"""Bytes of a file of choices, unpacked."""

ENDINGS = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".json")
"""Endings of files that hold tables; those of text may be packed as .gz or .zst."""


def read_columns(path: str | PathLike[str]) -> Mapping[Any, Any]:
    """The columns of a file by name. Those of CSV and TSV are text as it stands there: 007 stays 007."""
    source = check_path(fspath(path), "the file of choices")
    file = File(source, source)
    if file.suffix not in ENDINGS:
        raise UnreadableSource(
            f"{source!r} is no file of choices; give one that ends in {', '.join(ENDINGS)}, or sequences of "
            "winners and losers"
        )
    with naming(source):
        if file.suffix in (".csv", ".tsv"):
            return columns_of(_read_separated(file))
        if file.suffix == ".parquet":
            return columns_of(_read_parquet(file))
        return columns_of(_read_records(file))


def split_column(columns: Mapping[Any, Any], name: str | None, between: str) -> dict[Any, Any]:
    """The columns with the texts of one split into lists; blanks around the parts are taken off."""
    if name is None or not between.strip():
        raise UnsupportedOption(
            "to split is for a column of choice sets or rankings; name it, and say what stands between items"
        )
    texts = as_list(find_column(columns, name, "choice_set"))
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidSamples(f"row {row} of {name!r} holds no text to split; leave split out, or mend it")
    return {**columns, name: [[part.strip() for part in text.split(between)] for text in texts]}


def _read_separated(file: File) -> Any:
    from pyarrow import csv

    tables: Any = csv
    blob = _read_all(file)
    parse = tables.ParseOptions(delimiter="\t" if file.suffix == ".tsv" else ",", newlines_in_values=True)
    head = tables.open_csv(_arrow.BufferReader(blob), parse_options=parse).schema
    texts = {name: pa.string() for name in head.names}
    return tables.read_csv(
        _arrow.BufferReader(blob),
        parse_options=parse,
        convert_options=tables.ConvertOptions(column_types=texts, strings_can_be_null=False),
        read_options=tables.ReadOptions(use_threads=False),
    )


def _read_parquet(file: File) -> Any:
    """A Parquet file that does not say that it is too large."""
    with file.open_raw() as raw:
        table = open_parquet(raw)
        about = table.metadata
        size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
        _check_size(file, max(size, about.num_rows))
        return table.read(use_threads=False)


def _read_records(file: File) -> list[Any]:
    """One JSON object for each row: a line each, or all in one list."""
    text = _read_all(file).decode()
    try:
        if file.suffix == ".json":
            records = json.loads(text)
        else:
            records = [json.loads(line) for line in text.split("\n") if line.strip()]
    except RecursionError as error:
        raise UnreadableSource(f"{file.source} is nested too deeply to be read; mend it") from error
    if not isinstance(records, list) or not records:
        raise InvalidSamples(f"{file.source} holds no list of records; write one object for each row")
    for row, record in enumerate(cast("list[Any]", records)):
        if not isinstance(record, dict):
            raise InvalidSamples(f"{file.source}: record {row} is no object; write one object for each row")
    return cast("list[Any]", records)


def _read_all(file: File) -> bytes:
    """The bytes of a text file, unpacked, if they are UTF-8 and not too many."""
    with file.open() as raw:
        blob = raw.read(LARGEST + 1)
    _check_size(file, len(blob))
    decode(blob, file.source)
    return blob.removeprefix(b"\xef\xbb\xbf")


def _check_size(file: File, size: int) -> None:
    if size > LARGEST:
        raise UnreadableSource(f"{file.source} is larger than {LARGEST:,} bytes; count equal rows first")
