"""Results that are tables: Arrow inside, pandas or Polars on request, with tokens as text.

Each result provides an Arrow table; columns of token ids are recognised by their names.
"""

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa

from attomaton.base.errors import MismatchedParts
from attomaton.base.printing import PRINTED_ROWS, Block, Grid, Printed, count_noun
from attomaton.base.tables import to_pandas, to_polars

# Columns of token ids, or of lists of token ids.
TOKEN_COLUMNS = ("query", "token", "winner", "loser", "rival", "label", "tokens", "context")

_arrow: Any = pa


class Worded(Protocol):
    """Anything that names tokens, such as a vocabulary: token ``i`` is ``tokens[i]``."""

    @property
    def tokens(self) -> Sequence[str]: ...


class Tabular(Printed):
    """A result that is a table, and prints its first rows.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(["to be or not to be", "to be is to do"])
    >>> auto.components.edges.to_pandas(auto.vocabulary).head(2)["winner"].tolist()
    ['be', 'be']
    """

    def _table(self) -> pa.Table:
        raise NotImplementedError

    def _words(self) -> Worded | None:
        return None

    def table(self, vocabulary: Worded | None = None) -> pa.Table:
        """The Arrow table, with tokens as text if ``vocabulary`` (or the result itself) names them."""
        words = self._words() if vocabulary is None else vocabulary
        return self._table() if words is None else name_tokens(self._table(), words.tokens)

    def to_pandas(self, vocabulary: Worded | None = None) -> Any:
        """The table as a pandas DataFrame, with tokens as text if ``vocabulary`` names them."""
        return to_pandas(self.table(vocabulary))

    def to_polars(self, vocabulary: Worded | None = None) -> Any:
        """The table as a Polars DataFrame, with tokens as text if ``vocabulary`` names them."""
        return to_polars(self.table(vocabulary))

    def _blocks(self) -> list[Block]:
        return [repr(self), *first_rows(self._table(), self._words())]


def first_rows(table: pa.Table, words: Worded | None = None, *, n_rows: int | None = None) -> list[Block]:
    """The first rows of a table and the number of other rows; ``n_rows`` is that of a table already cut."""
    first: Any = table.slice(0, PRINTED_ROWS)
    shown = first if words is None else name_tokens(first, words.tokens)
    remaining = (table.num_rows if n_rows is None else n_rows) - PRINTED_ROWS
    rows = [[_frame_cell(value) for value in row.values()] for row in shown.to_pylist()]
    blocks: list[Block] = [Grid("", table.column_names, rows)] if rows else []
    return blocks + ([f"and {count_noun(remaining, 'more row')}"] if remaining > 0 else [])


def name_tokens(table: pa.Table, tokens: Sequence[str]) -> pa.Table:
    """The table with texts in place of token ids; other columns are unchanged."""
    words = _arrow.array(tokens, pa.large_string())
    named: Any = table
    for index, name in enumerate(table.column_names):
        if name not in TOKEN_COLUMNS:
            continue
        column = named.column(name)
        ids = _arrow.concat_arrays(column.chunks or [_arrow.array([], column.type)])
        if hasattr(ids, "offsets"):  # lists of ids
            flat = _words_of_ids(ids.flatten(), words, name)
            offsets = ids.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
            # flatten() begins with the first list, but the offsets of a slice do not begin at 0
            texts = _arrow.LargeListArray.from_arrays(_arrow.array(offsets - offsets[:1]), flat)
        else:
            texts = _words_of_ids(ids, words, name)
        named = named.set_column(index, name, texts)
    return named


# The word of each id, as an Arrow array; an id without a word is an error that names the column.
def _words_of_ids(ids: Any, words: Any, name: str) -> Any:
    numbers = ids.to_numpy(zero_copy_only=False)
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(words):
        raise MismatchedParts(
            f"the column {name} contains the id {int(numbers.max())}, but the vocabulary has only "
            f"{len(words):,} tokens; use the vocabulary of the same corpus"
        )
    return words.take(_arrow.array(numbers))


def _frame_cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        shown = cast("list[Any]", value)
        return " ".join(map(str, shown[:PRINTED_ROWS])) + " …" * (len(shown) > PRINTED_ROWS)
    return str(value)
