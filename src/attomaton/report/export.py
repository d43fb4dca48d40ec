"""Choose the queries to export, and write token texts so that other programs can read them."""

# The exports to GraphML and CSV use it: `pick_queries` and `scan_queries` give the rows, and `TokenTexts` and
# the functions `join_…` make columns of text from them, as Arrow arrays.

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from os.path import realpath
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attomaton.automaton.automaton import Automaton
from attomaton.base.errors import UnknownToken, UnsupportedOption, UnwritablePlace
from attomaton.base.options import whole_number
from attomaton.base.printing import show_hidden
from attomaton.base.tables import Bool, Int64, Integers, column, keep_rows

ROWS_AT_A_TIME = 1 << 16
TEXT_TYPE = pa.large_string()  # of columns with texts of tokens


def pick_queries(automaton: Automaton, choice: Sequence[str] | int | None = None) -> Bool:
    """Which tokens are chosen queries, shape (n_tokens,).

    A choice is names, the number of most frequent queries, or None for all.
    """
    present = np.zeros(automaton.n_tokens, bool)
    index = automaton.index
    present[column(index, "query")[column(index, "components") > 0]] = True
    if choice is None:
        return present
    is_number = isinstance(choice, int | float | np.number)
    picked = np.zeros(automaton.n_tokens, bool)
    picked[_most_seen(automaton, choice) if is_number else _query_ids(automaton, choice)] = True
    absent = np.flatnonzero(picked & ~present)
    if len(absent):
        raise UnknownToken(
            f"{automaton.name(int(absent[0]))!r} is not a query of this run: no realisable sample ends in "
            "it; choose another query"
        )
    return picked


def refuse_run_folder(run: Path, target: Path) -> None:
    """Refuse to write into the run folder itself, which contains only the files in its manifest."""
    if Path(realpath(target)).is_relative_to(realpath(run)):  # circular links resolve to nothing
        raise UnwritablePlace(f"{target} is inside the run folder {run}; choose a path outside of it")


def _most_seen(automaton: Automaton, number: object) -> list[int]:
    number = whole_number(number, "the number of queries", least=1)
    queries = automaton.index
    ids = column(queries, "query")
    realisable = column(queries, "realisable")  # the number of realisable samples
    by_samples = np.lexsort((ids, -realisable))  # equal numbers by id
    return ids[by_samples[realisable[by_samples] > 0][:number]].tolist()


def _is_id_text(name: str, n_tokens: int) -> bool:
    # the length is checked first, since int() refuses very long numbers
    plain = name.isascii() and name.isdecimal() and len(name) <= len(str(n_tokens))
    return plain and int(name) < n_tokens


def _query_ids(automaton: Automaton, names: Sequence[str]) -> list[int]:
    if not names:
        raise UnsupportedOption(
            "no query is named; give tokens separated by spaces, or a number k for the k most frequent ones"
        )
    if automaton.vocabulary is not None:
        return automaton.vocabulary.lookup(names).tolist()
    unknown = [name for name in names if not _is_id_text(name, automaton.n_tokens)]
    if unknown:
        raise UnknownToken(
            f"{unknown[0]!r} is not a token id of this run, which has no vocabulary; "
            f"give ids below {automaton.n_tokens}"
        )
    return [int(name) for name in names]


def scan_queries(automaton: Automaton, table: str, queries: Bool) -> Iterator[pa.Table]:
    # the rows of a stored table for the chosen queries, in batches; at least one batch, which may be empty
    for batch in automaton.scan(table, np.flatnonzero(queries)):
        for start in range(0, max(batch.num_rows, 1), ROWS_AT_A_TIME):
            rows = batch.slice(start, ROWS_AT_A_TIME)
            yield keep_rows(rows, queries[column(rows, "query")])


# A character at the beginning of a cell that makes it a formula, also after a separator or a quote, and in
# full width.
_FORMULA = re.compile("(?:^|(?<=[;,|\"']))(\\s*)([=+\\-@\uff1d\uff0b\uff0d\uff20])(?=.)")
# An escaped character: \u003d, or a letter such as \n.
_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|(.))", re.DOTALL)
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def escape_text(text: str) -> str:
    r"""Escape hidden characters and double backslashes; :func:`unescape_text` is the inverse."""
    return show_hidden(text.replace("\\", "\\\\"))


def escape_cell(text: str) -> str:
    """Escape a text so that no spreadsheet reads it as a formula, whatever the separator of cells."""
    return _FORMULA.sub(lambda match: match[1] + f"\\u{ord(match[2]):04x}", escape_text(text))


def unescape_text(text: str) -> str:
    r"""Recover the text of a token from an exported CSV or GraphML file.

    Examples
    --------
    >>> unescape_text(r"\u003d1 \\n \n")
    '=1 \\n \n'
    """
    return _ESCAPE.sub(_read_escape, text)


def _read_escape(match: "re.Match[str]") -> str:
    return chr(int(match[1], 16)) if match[1] is not None else _SHORT.get(match[2], match[2])


_arrow: Any = pa
_compute: Any = pc


class TokenTexts:
    """The escaped text of every token of an automaton, looked up by arrays of ids."""

    def __init__(self, automaton: Automaton, escape: Callable[[str], str]) -> None:
        self._names = [automaton.name(token) for token in range(automaton.n_tokens)]
        self._escape = escape

    @cached_property
    def alone(self) -> Any:
        """The escaped text of each token, by id."""
        return _arrow.array([self._escape(name) for name in self._names], TEXT_TYPE)

    @cached_property
    def quoted(self) -> Any:
        """The escaped texts as JSON strings."""
        return _arrow.array([json.dumps(text.as_py(), ensure_ascii=False) for text in self.alone], TEXT_TYPE)

    def of(self, tokens: Integers) -> Any:
        return self.alone.take(_arrow.array(tokens))

    def lists(self, offsets: Int64, tokens: Integers) -> Any:
        """A JSON list for each row, whose tokens are between two offsets."""
        return join_columns("[", join_rows(offsets, self.quoted.take(_arrow.array(tokens)), ", "), "]")


def as_text(values: Any) -> Any:
    return _arrow.array(values).cast(TEXT_TYPE)


def join_rows(offsets: Int64, texts: Any, separator: str) -> Any:
    # a text for each row, from its texts, which are between two offsets
    lists = _arrow.LargeListArray.from_arrays(_arrow.array(offsets - offsets[0], pa.int64()), texts)
    return _compute.binary_join(lists, _arrow.scalar(separator, TEXT_TYPE))


def join_columns(*columns: Any) -> Any:
    # a text for each row, from columns of text and from texts that are the same in all rows
    texts = [_arrow.scalar(text, TEXT_TYPE) if isinstance(text, str) else text for text in columns]
    return _compute.binary_join_element_wise(*texts, _arrow.scalar("", TEXT_TYPE))  # joined by nothing
