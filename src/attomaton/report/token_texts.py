"""Columns of token ids as columns of text, many rows at once."""

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from attomaton.automaton.automaton import Automaton
from attomaton.base.tables import Int64, Integers

_arrow: Any = pa
_compute: Any = pc
TEXT = pa.large_string()


class TokenTexts:
    """The escaped text of every token of an automaton, to be looked up by arrays of ids."""

    def __init__(self, automaton: Automaton, escape: Callable[[str], str]) -> None:
        self._names = [automaton.name(token) for token in range(automaton.n_tokens)]
        self._escape = escape

    @cached_property
    def alone(self) -> Any:
        """The text of each token, shape (n_tokens,)."""
        return _arrow.array([self._escape(name) for name in self._names], TEXT)

    @cached_property
    def quoted(self) -> Any:
        """The text of each token as a JSON string, shape (n_tokens,)."""
        return _arrow.array([json.dumps(text.as_py(), ensure_ascii=False) for text in self.alone], TEXT)

    def of(self, tokens: Integers) -> Any:
        """The text of each token of an array."""
        return self.alone.take(_arrow.array(tokens))

    def lists(self, offsets: Int64, tokens: Integers) -> Any:
        """Ragged rows of tokens as JSON lists of their texts."""
        rows = join_rows(offsets, self.quoted.take(_arrow.array(tokens)), ", ")
        return join_columns("[", rows, "]")


def as_text(values: Any) -> Any:
    """Numbers as text."""
    return _arrow.array(values).cast(TEXT)


def join_rows(offsets: Int64, texts: Any, separator: str) -> Any:
    """Ragged rows of texts, each row joined to one text."""
    lists = _arrow.LargeListArray.from_arrays(_arrow.array(offsets - offsets[0], pa.int64()), texts)
    return _compute.binary_join(lists, _arrow.scalar(separator, TEXT))


def join_columns(*columns: Any) -> Any:
    """The texts of a row put together; a plain string stands in every row."""
    parts = [_arrow.scalar(part, TEXT) if isinstance(part, str) else part for part in columns]
    return _compute.binary_join_element_wise(*parts, _arrow.scalar("", TEXT))
