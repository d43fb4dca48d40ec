"""JSON and Python values as documents (text, lists of tokens or ids), in files and in memory."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from attomaton.base.artifacts import digest_arrays, digest_record
from attomaton.base.errors import AttomatonError, InvalidSamples, UnreadableSource, UnsupportedOption
from attomaton.base.tables import Integers
from attomaton.corpora.budgets import JSON_VALUES, TABLE_VALUES, brief
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers.batches import (
    TEXT_BATCH_BYTES,
    Batch,
    ObjectReader,
    Reading,
    Skips,
    Text,
    TextBatch,
    TokenBatch,
    checked_ids,
    checked_text,
    text_size,
    token_batch,
    too_long,
)
from attomaton.corpora.readers.files import FileReader, TableReader, decode_utf8, naming, read_lines

FIELD = "text"  # the default field of a record
LIST_TYPES: Any = (list, tuple)
NO_TOKENS: Integers = np.empty(0, np.int64)  # the empty list, of tokens as well as of ids
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)

T = TypeVar("T")

Document = Text | Integers  # a document as text, as the list of its tokens, or as ids


def field_of(record: Any, reading: Reading, location: str) -> Document:
    """The document in the selected field of a record."""
    if not isinstance(record, Mapping):
        raise UnreadableSource(
            f"{location} is not a JSON object; write one object with a text per line (a .json file may also "
            "be one list of texts or objects)"
        )
    field, fields = reading.column or FIELD, cast("Mapping[str, Any]", record)
    if field not in fields:
        present = ", ".join(brief(str(name)) for name in sorted(map(str, fields))[:8]) or "none"
        raise UnreadableSource(
            f"{location} has no field {field!r} (it has {present}); name the field with column "
            "(--column on the command line)"
        )
    value = fields[field]
    if isinstance(value, str | list | tuple):
        return document_of(value, reading, location)
    raise UnreadableSource(
        f"{location} has {type(value).__name__} in the field {field!r}, not text; name the field with column"
    )


def document_of(value: Any, reading: Reading, location: str) -> Document:
    """A text, a list of tokens or a list of ids; anything else is an error."""
    if isinstance(value, str):
        return checked_text(value, location)
    kind = getattr(getattr(value, "dtype", None), "kind", None)  # of an array, which may hold tokens
    items: Any = value.tolist() if kind in ("O", "U", "T") else value
    if isinstance(items, LIST_TYPES) and not all(map(_is_id, items)):
        return [_checked_token(item, number, location) for number, item in enumerate(items)]
    try:
        ids: Any = np.asarray(items)
    except (ValueError, OverflowError) as error:
        raise UnreadableSource(f"{location} is not a list of ids ({error}); correct it") from error
    if ids.size == 0 and ids.ndim == 1:
        return NO_TOKENS
    if ids.ndim == 1 and isinstance(items, LIST_TYPES) and ids.dtype.kind not in "iu":
        raise UnreadableSource(f"{location} has an id that no integer of 64 bits holds; correct it")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        kind = type(cast("object", value)).__name__
        raise UnreadableSource(
            f"{location} is {kind}, not text, a list of tokens or a list of ids; drop or fix it"
        )
    return checked_ids(ids, location, reading.n_tokens)


def _is_id(item: object) -> bool:
    return isinstance(item, int | np.integer) and not isinstance(item, bool)


class RecordReader(FileReader):
    """A file whose documents are read one by one; unreadable ones are skipped or refused."""

    def batches(self) -> Iterator[Batch]:
        """The documents in order; rows are those of ``_documents``."""
        skips = Skips(self.reading)
        yield from batch_documents(self._documents(skips), skips)

    def _documents(self, skips: Skips) -> Iterator[tuple[int, Document]]:
        raise NotImplementedError


class JsonTableReader(RecordReader, TableReader):
    """A file of JSON, which can be read as a table."""

    def read_values(self) -> str:
        """The text of the file, if its values, each of which becomes an object, are not too many."""
        text = self.read_whole()
        if _values_of(text) > TABLE_VALUES:
            most = max(TABLE_VALUES, self.stored() or 0)  # an id may be compressed to little more than a byte
            self.check_number(_values_of(_STRING.sub("", text)), "values", most)
        return text


def check_records(read: Callable[[], Any], source: str) -> list[Any]:
    """The value read from JSON, if it is a list of objects, one for each row."""
    records = parse_document(read, source)
    if not isinstance(records, list) or not records:
        raise InvalidSamples(f"{source} is not a list of records; write one object for each row")
    for row, record in enumerate(cast("list[Any]", records)):
        if not isinstance(record, dict):
            raise InvalidSamples(f"{source}: record {row} is not an object; write one object for each row")
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
                f"record {row} holds {'token ids' if ids else 'text'}, but those before it "
                f"{'text' if ids else 'token ids'}; write the two to separate files"
            )
        kind = ids if len(document) else kind
        pending.append(document)
        rows.append(row)
        size += max(_size_of(document), 1)
        if size >= TEXT_BATCH_BYTES:
            yield _batch(pending, rows, skips, kind)
            pending, rows, size = [], [], 0
    last = _batch(pending, rows, skips, kind)
    if pending or last.skipped.count:
        yield last


def _size_of(document: Document) -> int:
    return document.nbytes if isinstance(document, np.ndarray) else text_size(document)


def read_json_value(text: str, location: str) -> Any:
    """One JSON value of not too many parts, since each becomes an object; a string counts as one."""
    if (
        len(text) > JSON_VALUES
        and _values_of(text) > JSON_VALUES
        and _values_of(_STRING.sub("", text)) > JSON_VALUES
    ):
        raise UnreadableSource(
            f"{location} holds more than {JSON_VALUES:,} values; write the text to a separate record"
        )
    return parse_document(lambda: json.loads(text), location)


def parse_document(parse: Callable[[], T], location: str) -> T:
    """What ``parse`` reads from JSON, with its errors explained."""
    try:
        return parse()
    except RecursionError as error:
        raise UnreadableSource(f"{location} is nested too deeply to be read; flatten it") from error
    except ValueError as error:
        raise UnreadableSource(
            f"{location} is not JSON ({brief(str(error))}); correct it, or download the file again"
        ) from error


def _values_of(text: str) -> int:
    return text.count("[") + text.count("{") + text.count(",")


def _batch(documents: Sequence[Document], rows: Sequence[int], skips: Skips, are_ids: bool | None) -> Batch:
    if are_ids is None:  # an empty list may be either kind
        are_ids = len(documents) > 0 and all(isinstance(document, np.ndarray) for document in documents)
    if are_ids:
        return token_batch([np.asarray(document, np.int64) for document in documents], rows, skips)
    texts: list[Text] = [
        document.tolist() if isinstance(document, np.ndarray) else document for document in documents
    ]
    return TextBatch(texts, np.array(rows, np.int64), skips.take())


def _checked_token(token: Any, number: int, location: str) -> str:
    if not isinstance(token, str):
        raise UnreadableSource(
            f"{location} has {type(token).__name__} at position {number}; give a document as one text, one "
            "list of tokens as strings, or one list of ids"
        )
    if not token:
        raise UnreadableSource(f"{location} has an empty token at position {number}; leave it out")
    return checked_text(token, location)


_SPACE = re.compile(r"[ \t\r\n]*+")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class JsonReader(JsonTableReader):
    """A ``.json`` file, plain or compressed (``.gz``, ``.zst``), which is read as a whole.

    It holds a list whose elements are texts, lists of tokens or of ids, or objects with the selected field;
    or one such object; or several objects in sequence, on separate lines or not.
    """

    def table(self) -> list[Any]:
        """One object for each row, all in one list."""
        text = self.read_values()
        return check_records(lambda: json.loads(text), self.source)

    def _documents(self, skips: Skips) -> Iterator[tuple[int, Document]]:
        """The documents; rows are the numbers of the elements, from 0."""
        with naming(self.source):
            text = self.read_values()
            values = parse_document(lambda: list(_values_in(text)), self.source)
        alone = len(values) == 1 and isinstance(values[0], dict)
        if len(values) == 1 and isinstance(values[0], list):
            values = cast("list[Any]", values[0])
        elif not all(isinstance(value, dict) for value in values):
            raise UnreadableSource(
                f"{self.source} is neither one list nor objects in a row; write one list of texts or objects"
            )
        for number, value in enumerate(values):
            location = f"{self.source}, element {number},"
            try:
                document = self._document(value, location, alone=alone)
                if _size_of(document) > self.reading.max_bytes:
                    raise too_long(location, self.reading, advice="break the document")
            except AttomatonError as error:
                skips.add(error)
            else:
                yield number, document

    def _document(self, value: Any, location: str, *, alone: bool) -> Document:
        if isinstance(value, dict) or self.reading.column is not None:
            document = field_of(value, self.reading, location)
            if alone and not isinstance(document, str):
                field = self.reading.column or FIELD
                raise UnreadableSource(
                    f"{self.source} is one object whose field {field!r} is a list, which may be one "
                    f"document or many; write a list of texts, or of objects with one document each: "
                    f"jq '.{brief(field)}' extracts that list"
                )
            return document
        if isinstance(value, int | float):
            raise UnreadableSource(
                f"{location} is a number; write one document as a list in the list: [[0, 1, 2]]"
            )
        return document_of(value, self.reading, location)


def _values_in(text: str) -> Iterator[Any]:
    at = 0
    while at < len(text):
        space = _SPACE.match(text, at)
        at = at if space is None else space.end()
        if at < len(text):
            value, at = _DECODER.raw_decode(text, at)
            yield value


@dataclass(frozen=True)
class JsonLinesReader(JsonTableReader):
    """A ``.jsonl`` file, plain or compressed (``.gz``, ``.zst``). Blank lines are ignored.

    The field holds the text of a document, or a list of its tokens or ids.
    """

    def table(self) -> list[Any]:
        """One object for each row, one per line."""
        lines = enumerate(self.read_values().split("\n"), 1)
        records = [
            parse_document(partial(json.loads, line), f"{self.source}, line {number},")
            for number, line in lines
            if line.strip()
        ]
        return check_records(lambda: records, self.source)

    def locate(self, row: int) -> str:
        """The line of a row of the table, from 1."""
        lines = self.read_whole().split("\n")
        filled = [number for number, line in enumerate(lines, 1) if line.strip()]
        return f"line {filled[row]} of {self.source}"

    def _documents(self, skips: Skips) -> Iterator[tuple[int, Document]]:
        """The documents; rows are line numbers from 1."""
        number = 0
        with naming(self.source, lambda: f", after line {number},"), self.file.open() as file:
            for number, line in read_lines(file, self.reading.max_bytes):
                if line is not None and not line.strip():
                    continue
                location = f"{self.source}, line {number},"
                try:
                    if line is None:
                        raise too_long(location, self.reading, advice="break the document")
                    document = field_of(
                        read_json_value(decode_utf8(line, location), location), self.reading, location
                    )
                except AttomatonError as error:
                    skips.add(error)
                else:
                    yield number, document


@dataclass(frozen=True, eq=False)
class MemoryReader(ObjectReader):
    """A sequence of documents: texts and lists of tokens, lists of ids, or records that hold one of these."""

    documents: Sequence[Any]
    reading: Reading
    source: str = "the documents given"

    @property
    def has_columns(self) -> bool:
        """Whether they are records, so that ``column`` names a field."""
        return len(self.documents) > 0 and isinstance(self.documents[0], Mapping)

    def digest(self) -> str:
        """The SHA-256 of the documents."""
        digest = hashlib.sha256()
        for document in self.documents:
            kind, blob = _content(document)
            digest.update(f"{kind} {len(blob)} ".encode())
            digest.update(blob)
        return digest.hexdigest()

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        skips = Skips(self.reading)
        yield from batch_documents(self._records(skips), skips)

    def _records(self, skips: Skips) -> Iterator[tuple[int, Document]]:
        read = field_of if self.has_columns else document_of
        for row, document in enumerate(self.documents):
            try:
                content = read(document, self.reading, f"document {row}")
            except AttomatonError as error:
                skips.add(error)
            else:
                yield row, content


@dataclass(frozen=True, eq=False)
class DocumentsReader(ObjectReader):
    """A corpus that is already tokenised, with its vocabulary."""

    documents: Documents
    reading: Reading
    source: str = "the documents given"
    has_columns = False

    def digest(self) -> str:
        """The SHA-256 of ids, offsets and tokens."""
        tokens = () if self.documents.vocabulary is None else self.documents.vocabulary.tokens
        return digest_record([digest_arrays(self.documents.ids, self.documents.offsets), list(tokens)])

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        ids, offsets = self.documents.ids, self.documents.offsets
        checked_ids(ids, self.source, self.reading.n_tokens)
        yield TokenBatch(offsets, ids, np.arange(len(offsets) - 1, dtype=np.int64), self.documents.skipped)


def _content(document: Any) -> tuple[str, bytes]:
    """The kind of a document and its bytes: the same bytes mean other ids with another type or shape."""
    if isinstance(document, str):
        return "text", document.encode("utf-8", "surrogatepass")
    if isinstance(document, Mapping) or (len(document) and isinstance(document[0], str)):
        return "other", repr(cast("object", document)).encode("utf-8", "surrogatepass")
    try:
        ids = np.asarray(document)
    except (ValueError, OverflowError):  # ragged, or larger than any integer: refused when it is read
        ids = np.empty(0, object)
    if ids.dtype.hasobject:
        return "other", repr(document).encode("utf-8", "surrogatepass")
    return f"ids {ids.dtype.str} {ids.shape}", ids.tobytes()
