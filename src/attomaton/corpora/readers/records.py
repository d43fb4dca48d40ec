"""What a value of JSON or of Python's own says as a document: text, a list of tokens, or a list of ids."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from attomaton.base.errors import InvalidSamples, UnreadableSource, UnsupportedOption
from attomaton.base.tables import Integers
from attomaton.corpora.budgets import JSON_VALUES, shown
from attomaton.corpora.readers.batches import (
    BATCH_BYTES,
    Batch,
    Reading,
    Skips,
    Text,
    TextBatch,
    bad_id,
    checked_text,
    text_size,
    token_batch,
)
from attomaton.corpora.readers.files import FileReader

FIELD = "text"
"""The field of a record that is read where none is named."""

NOTHING: Integers = np.empty(0, np.int64)
"""The empty list, which is one of tokens and one of ids."""

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)

Document = Text | Integers
"""A document as text, as the list of its tokens, or as ids."""


def field_of(record: Any, reading: Reading, place: str) -> Document:
    """The document in the field of a record that is asked for."""
    if not isinstance(record, Mapping):
        raise UnreadableSource(
            f"{place} is no JSON object; write one object with a text per line (a .json file may also be one "
            "list of texts or objects)"
        )
    field, fields = reading.column or FIELD, cast("Mapping[str, Any]", record)
    if field not in fields:
        present = ", ".join(shown(str(name)) for name in sorted(map(str, fields))[:8]) or "none"
        raise UnreadableSource(
            f"{place} has no field {field!r} (it has {present}); name the field with column "
            "(--column on the command line)"
        )
    value = fields[field]
    if isinstance(value, str | list | tuple):
        return document_of(value, reading, place)
    raise UnreadableSource(
        f"{place} has {type(value).__name__} in the field {field!r}, not text; name the field with column"
    )


def document_of(value: Any, reading: Reading, place: str) -> Document:
    """A text, a list of tokens or a list of ids; anything else is an error."""
    if isinstance(value, str):
        return checked_text(value, place)
    if not isinstance(value, list | tuple | np.ndarray):
        raise UnreadableSource(
            f"{place} is {type(value).__name__}, not text, a list of tokens or a list of ids; drop or mend it"
        )
    listed: Any = cast("Any", value)
    items: list[Any] = listed.tolist() if isinstance(value, np.ndarray) else list(listed)
    if not items:
        return NOTHING
    if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        return [_checked_token(item, number, place) for number, item in enumerate(items)]
    try:
        ids = np.array(items, np.int64)
    except OverflowError as error:
        raise UnreadableSource(f"{place} is no list of ids ({error}); mend it") from error
    wrong = bad_id(ids, place, reading.n_tokens)
    if wrong is not None:
        raise wrong
    return ids


class RecordReader(FileReader):
    """A file whose documents are read one after the other, those that cannot be read skipped or refused."""

    def batches(self) -> Iterator[Batch]:
        """The documents in order; rows are those of ``_documents``."""
        skips = Skips(self.reading)
        yield from batch_documents(self._documents(skips), skips)

    def _documents(self, skips: Skips) -> Iterator[tuple[int, Document]]:
        """Each document with its row."""
        raise NotImplementedError


def check_records(read: Callable[[], Any], source: str) -> list[Any]:
    """What is read from JSON, if it is a list of objects, one for each row."""
    try:
        records = read()
    except RecursionError as error:
        raise UnreadableSource(f"{source} is nested too deeply to be read; mend it") from error
    if not isinstance(records, list) or not records:
        raise InvalidSamples(f"{source} holds no list of records; write one object for each row")
    for row, record in enumerate(cast("list[Any]", records)):
        if not isinstance(record, dict):
            raise InvalidSamples(f"{source}: record {row} is no object; write one object for each row")
    return cast("list[Any]", records)


def batch_documents(documents: Iterator[tuple[int, Document]], skips: Skips) -> Iterator[Batch]:
    """Numbered documents in batches of about ``BATCH_BYTES``; one source holds text or ids, not both."""
    pending: list[Document] = []
    rows: list[int] = []
    size, kind = 0, None
    for row, document in documents:
        ids = isinstance(document, np.ndarray)
        if kind not in (None, ids) and len(document):
            raise UnsupportedOption(
                f"record {row} holds {'token ids' if ids else 'text'}, and those before it "
                f"{'text' if ids else 'token ids'}; write the two into files of their own"
            )
        kind = ids if len(document) else kind
        pending.append(document)
        rows.append(row)
        size += max(document.nbytes if isinstance(document, np.ndarray) else text_size(document), 1)
        if size >= BATCH_BYTES:
            yield _batch(pending, rows, skips, ids=bool(kind))
            pending, rows, size = [], [], 0
    last = _batch(pending, rows, skips, ids=bool(kind))
    if pending or last.skipped.count:
        yield last


def check_values(text: str, place: str) -> None:
    """Refuse a text of very many JSON values, each of which would become an object; texts count as one."""
    if (
        len(text) > JSON_VALUES
        and _values_of(text) > JSON_VALUES
        and _values_of(_STRING.sub("", text)) > JSON_VALUES
    ):
        raise UnreadableSource(
            f"{place} holds more than {JSON_VALUES:,} values; write the text in a record of its own"
        )


def read_json(text: str, place: str) -> Any:
    """One JSON value."""
    check_values(text, place)
    try:
        return json.loads(text)
    except RecursionError as error:
        raise UnreadableSource(f"{place} is nested too deeply to be read; mend it") from error
    except ValueError as error:
        raise UnreadableSource(
            f"{place} is not JSON ({shown(str(error))}); mend it, or fetch the file again"
        ) from error


def _values_of(text: str) -> int:
    return text.count("[") + text.count("{") + text.count(",")


def _batch(held: Sequence[Document], rows: Sequence[int], skips: Skips, *, ids: bool) -> Batch:
    if ids:  # an empty list has no kind of its own
        return token_batch([np.asarray(one, np.int64) for one in held], rows, skips)
    texts: list[Text] = [one.tolist() if isinstance(one, np.ndarray) else one for one in held]
    return TextBatch(texts, np.array(rows, np.int64), skips.take())


def _checked_token(token: Any, number: int, place: str) -> str:
    if not isinstance(token, str):
        raise UnreadableSource(
            f"{place} has {type(token).__name__} at position {number}; a document is one text, one list of "
            "tokens as strings, or one list of ids"
        )
    if not token:
        raise UnreadableSource(f"{place} has an empty token at position {number}; leave it out")
    return checked_text(token, place)
