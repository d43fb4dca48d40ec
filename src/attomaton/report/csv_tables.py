"""Write the tables of a run as CSV files, with the text of each token next to its id."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from attomaton.automaton.automaton import Automaton
from attomaton.base.artifacts import FolderKind, build_folder, explained, write_file
from attomaton.base.tables import Bool, column, ragged_column
from attomaton.report.export import TokenTexts, as_text, escape_cell, join_rows, scan_queries

_arrow: Any = pa
CSV_TABLES = FolderKind("tables", "exported tables", "attomaton export --csv")
ID_COLUMNS = ("query", "token", "winner", "loser")  # columns of token ids


def write_csv(automaton: Automaton, folder: Path, queries: Bool) -> dict[str, int]:
    """Write the tables of an automaton, each to a CSV file, and return the number of rows of each table.

    After each column of token ids, a column with their texts follows, whose name ends in ``_text``. Numbers
    in lists are separated by spaces; the texts of a list of tokens are a JSON list. Texts are escaped, so
    every row is one line and no cell is a formula. :func:`~attomaton.report.unescape_text` recovers them.

    Parameters
    ----------
    automaton : Automaton
        The automaton to write.
    folder : Path
        A new or empty folder, or one with earlier tables, which are replaced.
    queries : array of bool, shape (n_tokens,)
        Which queries to write.

    Examples
    --------
    >>> import tempfile, numpy as np, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_csv(at.learn(["a rose is a rose"]), Path(folder), np.ones(3, bool))["edges"]
    4
    """
    texts = TokenTexts(automaton, escape_cell)
    written: dict[str, int] = {}
    names = {name: f"{name}.csv" for name in ("tokens", *CSV_COLUMNS)}
    with build_folder(folder, CSV_TABLES, names.values(), overwrite=True) as building, explained(folder):
        files: dict[str, Any] = {}
        for name, file in names.items():
            rows = _Rows(_table_batches(automaton, name, queries), texts)
            files[file] = write_file(building.folder / file, rows.write)
            written[name] = rows.written
        building.finish({}, files)
    return written


# File → the stored table that it contains, and stored column → column of the file; none means all.
CSV_COLUMNS: dict[str, tuple[str, dict[str, str]]] = {
    "edges": ("edges", {}),
    "components": ("nodes", {"query": "query", "token": "token", "component": "component"}),
    "order": ("order", {}),
    "hard": ("nodes", {"query": "query", "token": "token", "hard": "score"}),
    "soft": ("nodes", {"query": "query", "token": "token", "soft": "score"}),
    "choices": ("choices", {}),
}


def _table_batches(automaton: Automaton, name: str, queries: Bool) -> Iterator[Any]:
    if name == "tokens":
        yield _arrow.table({"token": _arrow.array(range(automaton.n_tokens), pa.int32())})
        return
    table, renamed = CSV_COLUMNS[name]
    for batch in scan_queries(automaton, table, queries):
        rows: Any = batch
        yield rows.select(list(renamed)).rename_columns(list(renamed.values())) if renamed else rows


class _Rows:
    # Batches of a table, written as CSV with the texts of tokens; `written` counts the rows.

    def __init__(self, batches: Iterator[Any], texts: TokenTexts) -> None:
        self._batches, self._texts = batches, texts
        self.written = 0

    def write(self, path: Path) -> None:
        import pyarrow.csv

        csv: Any = pyarrow.csv
        first = self._with_texts(next(self._batches))  # names the columns, even if it is empty
        with csv.CSVWriter(str(path), first.schema) as writer:
            for rows in chain([first], map(self._with_texts, self._batches)):
                if rows.num_rows:
                    writer.write_table(rows)
                self.written += rows.num_rows

    def _with_texts(self, rows: pa.Table) -> Any:
        columns: dict[str, Any] = {}
        for name in rows.column_names:
            if name in ("tokens", "multiplicities"):
                offsets, values = ragged_column(rows, name)
                columns[name] = join_rows(offsets, as_text(values), " ")
                if name == "tokens":
                    columns["tokens_text"] = self._texts.lists(offsets, values)
            else:
                columns[name] = rows.column(name)
                if name in ID_COLUMNS:
                    columns[f"{name}_text"] = self._texts.of(column(rows, name))
        return _arrow.table(columns)
