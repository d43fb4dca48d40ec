"""Tables of choices in files: CSV, TSV, Parquet and JSON, as columns."""

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from attomaton.base.errors import InvalidSamples, UnreadableSource, UnsupportedOption
from attomaton.base.options import check_path
from attomaton.choices.columns import as_list, columns_of, find_column
from attomaton.corpora.readers.batches import Reading
from attomaton.corpora.readers.files import File, naming
from attomaton.corpora.readers.sources import TABLES


def read_columns(path: str | PathLike[str]) -> Mapping[Any, Any]:
    """The columns of a file by name. Those of CSV and TSV are text as it stands there: 007 stays 007."""
    source = check_path(fspath(path), "the file of choices")
    file = File(source, source)
    if file.suffix not in TABLES:
        raise UnreadableSource(
            f"{source!r} is no file of choices; give one that ends in {', '.join(TABLES)}, or sequences of "
            "winners and losers"
        )
    with naming(source):
        return columns_of(TABLES[file.suffix](file, Reading()).table())


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
