"""Read Python values, from JSON and from objects in memory, as documents: texts, lists of tokens or ids."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np

from attomaton.base.artifacts import digest_arrays, digest_record
from attomaton.base.errors import AttomatonError, UnreadableSource, UnsupportedOption
from attomaton.base.tables import Integers
from attomaton.corpora.budgets import brief
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers import batches
from attomaton.corpora.readers.batches import Batch, ObjectReader, Reading, Skips, Text, TextBatch, TokenBatch
from attomaton.corpora.readers.files import FileReader

FIELD = "text"  # the default field of a record
SHOWN_FIELDS = 8  # fields that an error lists
LIST_TYPES: Any = (list, tuple)
TEXT_KINDS = ("O", "U", "T")  # kinds of NumPy arrays that may contain text: objects, and two types of strings
NO_TOKENS: Integers = np.empty(0, np.int64)  # the empty list, of tokens as well as of ids

Document = Text | Integers  # a document as text, as the list of its tokens, or as ids


def document_in(value: Any, reading: Reading, location: str) -> Document:
    """The document in a field of a record (``reading.column``, or ``text``)."""
    if not isinstance(value, Mapping):
        raise UnreadableSource(
            f"{location} is not a JSON object; write one object with a text on each line (a .json file may "
            "also be a list of texts or objects)"
        )
    field = reading.column or FIELD
    fields = cast("Mapping[str, Any]", value)
    if field not in fields:
        present = ", ".join(brief(name) for name in sorted(map(str, fields))[:SHOWN_FIELDS]) or "none"
        raise UnreadableSource(
            f"{location} has no field {field!r}, only {present}; choose a field with column (--column)"
        )
    content = fields[field]
    if isinstance(content, str | list | tuple):
        return document_of(content, reading, location)
    raise UnreadableSource(
        f"{location} has {type(content).__name__} in the field {field!r}, not text; set another column"
    )


def document_of(value: Any, reading: Reading, location: str) -> Document:
    """A text, a list of tokens, or a list of ids; any other value is an error."""
    if isinstance(value, str):
        return batches.checked_text(value, location)
    kind = getattr(getattr(value, "dtype", None), "kind", None)  # of an array, which may contain tokens
    items: Any = value.tolist() if kind in TEXT_KINDS else value
    if isinstance(items, LIST_TYPES) and not all(map(_is_id, items)):
        return [_checked_token(item, number, location) for number, item in enumerate(items)]
    try:
        ids: Any = np.asarray(items)
    except (ValueError, OverflowError) as error:
        raise UnreadableSource(f"{location} is not a list of ids ({error}); correct it") from error
    if ids.size == 0 and ids.ndim == 1:
        return NO_TOKENS
    # integers have the kinds i (signed) and u; NumPy makes an array of other kinds from larger integers
    if ids.ndim == 1 and isinstance(items, LIST_TYPES) and ids.dtype.kind not in "iu":
        raise UnreadableSource(f"{location} has an id of more than 64 bits; correct it")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise UnreadableSource(
            f"{location} is {type(value).__name__}, not text, a list of tokens or a list of ids; correct it"
        )
    return batches.checked_ids(ids, location, reading.n_tokens)


def _is_id(item: object) -> bool:
    return isinstance(item, int | np.integer) and not isinstance(item, bool)


def _checked_token(token: Any, number: int, location: str) -> str:
    if not isinstance(token, str):
        raise UnreadableSource(
            f"{location} has {type(token).__name__} at position {number}; give a document as one text, one "
            "list of tokens, or one list of ids"
        )
    if not token:
        raise UnreadableSource(f"{location} has an empty token at position {number}; leave it out")
    return batches.checked_text(token, location)


def split_stream(ids: Any, separator: int | None) -> list[Any]:
    """The documents of a stream of ids; the separator ends a document, and belongs to it."""
    if separator is None:
        return [ids]
    is_array = isinstance(ids, np.ndarray)
    ends = ids == separator if is_array else [_is_id(token) and token == separator for token in ids]
    # document i is ids[borders[i]:borders[i + 1]], unless it is empty, as after a separator at the end
    borders: list[int] = [0, *(np.flatnonzero(ends) + 1).tolist(), len(ids)]
    return [ids[start:stop] for start, stop in pairwise(borders) if start < stop]


class RecordReader(FileReader):
    """A file whose documents are read one by one; unreadable documents are skipped or refused."""

    def batches(self) -> Iterator[Batch]:
        skips = Skips(self.reading)
        yield from batch_documents(skips.filter(self._results()), skips)

    def _results(self) -> Iterator[tuple[int, Document | AttomatonError]]:
        raise NotImplementedError


def batch_documents(documents: Iterable[tuple[int, Document]], skips: Skips) -> Iterator[Batch]:
    """Yield numbered documents in batches of about ``TEXT_BATCH_BYTES``; a source has either text or ids."""
    pending: list[Document] = []
    rows: list[int] = []
    size = 0  # bytes of the pending documents
    has_ids: bool | None = None  # None until the first document that is not empty
    for row, document in documents:
        is_ids = isinstance(document, np.ndarray)
        if has_ids not in (None, is_ids) and len(document):
            raise UnsupportedOption(
                f"record {row} is {'token ids' if is_ids else 'text'}, but the records before it are "
                f"{'text' if is_ids else 'token ids'}; write the two to separate files"
            )
        has_ids = is_ids if len(document) else has_ids
        pending.append(document)
        rows.append(row)
        size += max(document_bytes(document), 1)  # an empty document counts, so that batches are closed
        if size >= batches.TEXT_BATCH_BYTES:
            yield _batch(pending, rows, skips, has_ids)
            pending = []
            rows = []
            size = 0
    last = _batch(pending, rows, skips, has_ids)
    if pending or last.skipped.count:
        yield last


def document_bytes(document: Document) -> int:
    return document.nbytes if isinstance(document, np.ndarray) else batches.text_size(document)


def _batch(documents: Sequence[Document], rows: Sequence[int], skips: Skips, has_ids: bool | None) -> Batch:
    if has_ids is None:  # all documents so far are empty; only an empty list may be a list of ids
        has_ids = len(documents) > 0 and all(isinstance(document, np.ndarray) for document in documents)
    if has_ids:
        return batches.token_batch([np.asarray(document, np.int64) for document in documents], rows, skips)
    texts: list[Text] = [item.tolist() if isinstance(item, np.ndarray) else item for item in documents]
    return TextBatch(texts, np.array(rows, np.int64), skips.take())


@dataclass(frozen=True, eq=False)
class MemoryReader(ObjectReader):
    """A sequence of texts, of lists of tokens or ids, or of records; rows are numbered from 0."""

    documents: Sequence[Any]
    reading: Reading
    source: str = "the list of documents"

    @property
    def has_columns(self) -> bool:
        return len(self.documents) > 0 and isinstance(self.documents[0], Mapping)

    def digest(self) -> str:
        digest = hashlib.sha256()
        for document in self.documents:
            kind, blob = _content(document)
            digest.update(f"{kind} {len(blob)} ".encode())
            digest.update(blob)
        return digest.hexdigest()

    def batches(self) -> Iterator[Batch]:
        skips = Skips(self.reading)
        read = document_in if self.has_columns else document_of
        results = (
            (row, batches.attempt(read, document, self.reading, f"document {row}"))
            for row, document in enumerate(self.documents)
        )
        yield from batch_documents(skips.filter(results), skips)


@dataclass(frozen=True, eq=False)
class DocumentsReader(ObjectReader):
    """A corpus that is already tokenised, with its vocabulary; rows are numbered from 0."""

    documents: Documents
    reading: Reading
    source: str = "the Documents"
    has_columns = False

    def digest(self) -> str:
        tokens = () if self.documents.vocabulary is None else self.documents.vocabulary.tokens
        return digest_record([digest_arrays(self.documents.ids, self.documents.offsets), list(tokens)])

    def batches(self) -> Iterator[Batch]:
        ids = self.documents.ids
        offsets = self.documents.offsets
        batches.checked_ids(ids, self.source, self.reading.n_tokens)
        yield TokenBatch(offsets, ids, np.arange(len(offsets) - 1, dtype=np.int64), self.documents.skipped)


# The kind and the bytes of a document: ids of another type or shape may have equal bytes.
def _content(document: Any) -> tuple[str, bytes]:
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
