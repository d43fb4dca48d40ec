"""Read a whole corpus into memory, whatever its files are."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.errors import (
    AttomatonError,
    MismatchedParts,
    UnreadableSource,
    UnsupportedOption,
)
from attomaton.base.options import check_path
from attomaton.base.ragged import offsets_of
from attomaton.base.remote import Place, RemotePath, as_place
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.budgets import STANDARD_INPUT, Allowance
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers.batches import (
    Batch,
    Reader,
    Reading,
    Skips,
    TextBatch,
    as_reading,
    unpacked_bytes,
)
from attomaton.corpora.readers.files import File, decode, shorten, text_cure
from attomaton.corpora.readers.sources import find_readers
from attomaton.corpora.readers.standard import keep_standard_input
from attomaton.corpora.readers.texts import BEGINNING, refuse_records
from attomaton.corpora.samples import MAX_TOKENS, NOTHING_SKIPPED
from attomaton.corpora.shards import TokenizedCorpus, is_tokenized, read_tokens
from attomaton.corpora.tokenizers.encoders import TableEncoder, distinct_tokens
from attomaton.corpora.tokenizers.vocabulary import Vocabulary


def read_text(path: str | Path, *, tokenizer: str = "word") -> Documents:
    """Read one UTF-8 text file as one document; the text ``"-"`` is standard input."""
    return read_text_and_digest(path, tokenizer)[0]


def read_text_and_digest(path: str | Place, tokenizer: str) -> tuple[Documents, str]:
    """One text file, and the SHA-256 of the very bytes that were read."""
    file = keep_standard_input() if path == STANDARD_INPUT else File(str(path), as_place(path).name)
    try:
        with file.open_raw() as stream:
            content = stream.read()
    except IsADirectoryError as error:
        raise UnreadableSource(f"{file.source} is a folder; give one text file") from error
    except OSError as error:
        if isinstance(error, AttomatonError):
            raise
        raise UnreadableSource(
            f"{shorten(file.source)} cannot be read: {error.strerror}; give the path of a text file"
            f"{text_cure(file.source)}"
        ) from error
    if file.suffix != ".txt" or path == STANDARD_INPUT:
        refuse_records(content[:BEGINNING], file.source)
    text = decode(content.removeprefix(b"\xef\xbb\xbf"), file.source)
    vocabulary, ids = Vocabulary.from_text(text.replace("\r\n", "\n").replace("\r", "\n"), tokenizer)
    if len(ids) < 2:
        raise UnreadableSource(
            f"{file.source} has too few tokens ({len(ids)}): a sample needs a context and a label, so give "
            "more text"
        )
    borders = np.array([0, len(ids)], np.int64)
    return Documents(ids, borders, vocabulary), hashlib.sha256(content).hexdigest()


def read_corpus(
    source: Any,
    *,
    tokenizer: str | Vocabulary = "word",
    reading: Reading | None = None,
) -> Documents:
    """Read a whole corpus into memory.

    Parameters
    ----------
    source : path, URL, sequence, frame or dataset
        A file, folder, glob or URL; ``"-"`` for standard input; a list of texts, of lists of tokens, of lists
        of ids, of records (dicts), or of ``pathlib.Path``; an array of ids; a frame or Series of pandas or
        Polars; an Arrow table; a ``datasets.Dataset``; a :class:`~attomaton.corpora.documents.Documents`,
        which is returned. A folder that :func:`tokenize_corpus` wrote keeps its vocabulary.
    tokenizer : str or Vocabulary
        ``"word"``, ``"word-lower"``, ``"word-punct"``, ``"character"``, ``"byte"``, or the path of a
        ``tokenizer.json`` or ``.tiktoken`` file. A corpus of ids needs none; one with a fixed vocabulary then
        names the ids and bounds them. Given a vocabulary, its tokens keep their ids and new ones get the
        numbers behind them.
    reading : Reading, optional
        How files are read: their format, the column of the documents, what is one in plain text.

    Examples
    --------
    >>> documents = read_corpus(["to be", "or not to be"])
    >>> documents.ids.tolist(), documents.offsets.tolist(), documents.vocabulary.tokens
    ([0, 1, 2, 3, 0, 1], [0, 2, 6], ('to', 'be', 'or', 'not'))
    """
    read = _read_already(source)
    if read is not None:
        return match_documents(read, tokenizer) if isinstance(tokenizer, Vocabulary) else read
    vocabulary, numbering = _begin(tokenizer)
    asked = bounded(as_reading(reading), vocabulary)
    pieces: list[Int32] = []
    lengths: list[Int64] = []
    skipped, kinds = NOTHING_SKIPPED, set[str]()
    encode = numbering.encode if vocabulary is None else vocabulary.encode_all
    for reader in find_readers(source, asked):
        for batch in checked_batches(reader, asked):
            skipped += batch.skipped
            if not len(batch.rows):
                continue
            if isinstance(batch, TextBatch):
                kinds.add("text")
                offsets, ids = encode(batch.texts)
            else:
                kinds.add("ids")
                offsets, ids = batch.offsets, batch.ids
            pieces.append(ids)
            lengths.append(np.diff(offsets))
    if vocabulary is None and "text" in kinds:
        refuse_mixture(kinds, numbering.tokenizer)
        vocabulary = Vocabulary(tuple(numbering.numbers), numbering.tokenizer)
    elif vocabulary is None and isinstance(tokenizer, Vocabulary):
        vocabulary = tokenizer
    ids = np.concatenate([np.empty(0, np.int32), *pieces])
    return Documents(ids, offsets_of(np.concatenate([np.empty(0, np.int64), *lengths])), vocabulary, skipped)


def _read_already(source: Any) -> Documents | None:
    """The documents, if somebody has tokenised them before."""
    if isinstance(source, Documents):
        return source
    if isinstance(source, TokenizedCorpus):
        return source.documents()
    if isinstance(source, RemotePath) and is_tokenized(source):
        return read_tokens(source).documents()
    if isinstance(source, str | Path) and is_tokenized(check_path(source, "source")):
        return read_tokens(source).documents()
    return None


def _begin(tokenizer: str | Vocabulary) -> tuple[Vocabulary | None, "Numbering"]:
    """The vocabulary, if it is fixed, and what numbers the tokens otherwise."""
    if not isinstance(tokenizer, Vocabulary):
        return Vocabulary.fixed(tokenizer), Numbering(tokenizer)
    fixed = tokenizer if tokenizer.is_fixed else None
    return fixed, Numbering(tokenizer.tokenizer, tokenizer.ids)


def bounded(reading: Reading, vocabulary: Vocabulary | None) -> Reading:
    """The reading, with ids held to the vocabulary if it is known."""
    return reading if vocabulary is None else replace(reading, n_tokens=len(vocabulary))


def checked_batches(reader: Reader, reading: Reading) -> Iterator[Batch]:
    """The batches of a reader; one without documents is bad input, and so is one without end."""
    documents, skipped = 0, 0
    allowance = Allowance(shorten(reader.source), reader.stored())
    for batch in reader.batches():
        documents += len(batch.rows)
        skipped += batch.skipped.count
        allowance.spend(n_bytes=unpacked_bytes(batch), documents=len(batch.rows) + batch.skipped.count)
        yield batch
    if not documents and not skipped:
        skips = Skips(reading)
        skips.add(UnreadableSource(f"{reader.source} is empty: it holds no documents; leave it out"))
        yield TextBatch([], np.empty(0, np.int64), skips.take())


def refuse_mixture(kinds: set[str], tokenizer: str) -> None:
    """Text and ids in one corpus mean the same tokens only under a fixed vocabulary."""
    if len(kinds) > 1:
        raise UnsupportedOption(
            f"the corpus holds text and token ids, and {tokenizer!r} numbers its tokens anew; give the "
            "tokenizer file that made the ids, or read the two apart"
        )


class Numbering:
    """Words or characters, numbered as they first appear."""

    def __init__(self, tokenizer: str, numbers: Mapping[str, int] | None = None) -> None:
        self.tokenizer = tokenizer
        self.numbers: dict[str, int] = {} if numbers is None else dict(numbers)

    def encode(self, texts: Any) -> tuple[Int64, Int32]:
        """The texts as ids; new tokens get the next numbers."""
        self.add(distinct_tokens(texts, self.tokenizer))
        return TableEncoder(self.tokenizer, self.numbers).encode(texts)

    def add(self, tokens: tuple[str, ...]) -> None:
        """Number tokens that have no number yet."""
        for token in tokens:
            self.numbers.setdefault(token, len(self.numbers))
        if len(self.numbers) > MAX_TOKENS:
            raise UnsupportedOption(
                f"the corpus has more than {MAX_TOKENS:,} different tokens under {self.tokenizer!r}; take a "
                "tokenizer.json or .tiktoken file"
            )


def match_documents(documents: Documents, vocabulary: Vocabulary) -> Documents:
    """The documents with the ids of this vocabulary; tokens that it lacks get the numbers behind it."""
    own = documents.vocabulary
    if own is None or own == vocabulary:
        return documents
    if (own.tokenizer, own.definition) != (vocabulary.tokenizer, vocabulary.definition):
        raise MismatchedParts(
            f"the documents are split by the tokenizer {own.tokenizer} and the vocabulary by "
            f"{vocabulary.tokenizer}; read them with the same one"
        )
    numbering = Numbering(vocabulary.tokenizer, vocabulary.ids)
    numbering.add(own.tokens)
    new: Int32 = np.fromiter((numbering.numbers[token] for token in own.tokens), np.int32, len(own))
    named = replace(vocabulary, tokens=tuple(numbering.numbers))
    return replace(documents, ids=new[documents.ids], vocabulary=named)
