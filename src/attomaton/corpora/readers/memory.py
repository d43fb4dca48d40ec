"""Documents that are in memory already: a sequence of texts, of lists of tokens or ids, or of records."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from attomaton.base.artifacts import digest_arrays, digest_record
from attomaton.base.errors import AttomatonError, UnreadableSource
from attomaton.base.tables import Integers
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers.batches import (
    Batch,
    HeldReader,
    Reading,
    Skips,
    TokenBatch,
    bad_id,
    token_batch,
)
from attomaton.corpora.readers.records import Document, batch_documents, document_of, field_of

ROWS = 1000


@dataclass(frozen=True, eq=False)
class MemoryReader(HeldReader):
    """A sequence of documents: texts and lists of tokens, lists of ids, or records that hold one of these."""

    documents: Sequence[Any]
    reading: Reading
    source: str = "the documents given"

    @property
    def has_columns(self) -> bool:
        """Whether they are records, of which ``column`` names a field."""
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
        if self.has_columns or _holds_text(self.documents):
            yield from batch_documents(self._records(skips), skips)
            return
        for start in range(0, len(self.documents), ROWS):
            lists: list[Integers] = []
            rows: list[int] = []
            for row in range(start, min(start + ROWS, len(self.documents))):
                try:
                    lists.append(self._ids(row))
                except AttomatonError as error:
                    skips.add(error)
                else:
                    rows.append(row)
            yield token_batch(lists, rows, skips)

    def _records(self, skips: Skips) -> Iterator[tuple[int, Document]]:
        read = field_of if self.has_columns else document_of
        for row, document in enumerate(self.documents):
            try:
                content = read(document, self.reading, f"document {row}")
            except AttomatonError as error:
                skips.add(error)
            else:
                yield row, content

    def _ids(self, row: int) -> Integers:
        document = self.documents[row]
        try:
            ids = np.asarray(document)
        except (ValueError, OverflowError) as error:
            raise UnreadableSource(f"document {row} is no list of ids ({error}); mend it") from error
        if ids.size == 0 and ids.ndim == 1:
            return np.empty(0, np.int32)
        if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
            raise UnreadableSource(
                f"document {row} is {type(document).__name__}, not one list of integers; give texts, or "
                "lists of ids"
            )
        error = bad_id(ids, f"document {row}", self.reading.n_tokens)
        if error is not None:
            raise error
        return ids


@dataclass(frozen=True, eq=False)
class DocumentsReader(HeldReader):
    """A corpus that was tokenised before; its vocabulary goes with it."""

    documents: Documents
    reading: Reading
    source: str = "the documents given"
    has_columns = False

    def digest(self) -> str:
        """The SHA-256 of ids, borders and tokens."""
        tokens = () if self.documents.vocabulary is None else self.documents.vocabulary.tokens
        return digest_record([digest_arrays(self.documents.ids, self.documents.offsets), list(tokens)])

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        ids, offsets = self.documents.ids, self.documents.offsets
        wrong = bad_id(ids, self.source, self.reading.n_tokens)
        if wrong is not None:
            raise wrong
        yield TokenBatch(offsets, ids, np.arange(len(offsets) - 1, dtype=np.int64), self.documents.skipped)


def _holds_text(documents: Sequence[Any]) -> bool:
    """Whether the first document that has anything in it is text, or a list of tokens."""
    for document in documents:
        if isinstance(document, str):
            return True
        if isinstance(document, list | tuple | np.ndarray) and len(cast("Sequence[Any]", document)):
            return isinstance(document[0], str)
        if not isinstance(document, list | tuple | np.ndarray):
            return False
    return len(documents) == 0


def _content(document: Any) -> tuple[str, bytes]:
    """What a document is and its bytes: the same bytes are other ids under another type or shape."""
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
