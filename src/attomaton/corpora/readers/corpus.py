"""Read a corpus into memory, as documents or as samples, for every function with a corpus as argument."""

import hashlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

import numpy as np

from attomaton.base import errors
from attomaton.base.artifacts import digest_arrays
from attomaton.base.borders import trusted
from attomaton.base.options import check_path
from attomaton.base.printing import count_noun
from attomaton.base.ragged import offsets_of
from attomaton.base.remote import AnyPath, RemotePath, as_path
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.budgets import STANDARD_INPUT, Allowance
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers import batches
from attomaton.corpora.readers.batches import Batch, Reader, Reading, Skips, TextBatch
from attomaton.corpora.readers.files import File, keep_standard_input, printable, shorten_path
from attomaton.corpora.readers.numbering import CorpusEncoder, renumber_documents
from attomaton.corpora.readers.sources import find_readers, is_ids
from attomaton.corpora.readers.texts import decode_text, read_beginning
from attomaton.corpora.samples import NOTHING_SKIPPED, WINDOW, Samples, Skipped
from attomaton.corpora.shards import TokenizedCorpus, is_tokenized, read_tokens
from attomaton.corpora.tokenizers.vocabulary import Vocabulary


def read_corpus(
    source: Any,
    *,
    tokenizer: str | Vocabulary = "word",
    reading: Reading | None = None,
    limit: int | None = None,
) -> Documents:
    """Read a corpus into memory.

    Parameters
    ----------
    source : path, URL, sequence, frame or dataset
        A file, folder, glob or URL; ``"-"`` for standard input; a list of texts, of lists of tokens, of lists
        of ids, of records (dicts), or of ``pathlib.Path``; an array of ids; a pandas or Polars frame or
        Series; an Arrow table; a ``datasets.Dataset``; a :class:`.Documents`; or a folder that
        :func:`tokenize_corpus` wrote.
    tokenizer : str or Vocabulary
        ``"word"``, ``"word-lower"``, ``"word-punct"``, ``"character"``, ``"byte"``, or the path of a
        ``tokenizer.json`` or ``.tiktoken`` file, which also names the ids of a corpus of ids. With a
        vocabulary, tokens keep their ids, and new tokens get the next ones.
    reading : Reading, optional
        How to read files: the format, the column of the documents, whether each line is a document.
    limit : int, optional
        The number of documents after which reading stops, to within one batch.

    Examples
    --------
    >>> documents = read_corpus(["to be", "or not to be"])
    >>> documents.ids.tolist(), documents.offsets.tolist(), documents.vocabulary.tokens
    ([0, 1, 2, 3, 0, 1], [0, 2, 6], ('to', 'be', 'or', 'not'))
    """
    options = batches.as_reading(reading)
    documents = _find_documents(source, options)
    if documents is not None:
        return renumber_documents(documents, tokenizer) if isinstance(tokenizer, Vocabulary) else documents
    encoder = CorpusEncoder(tokenizer)
    options = with_id_limit(options, encoder.fixed)
    ids: list[Int32] = [np.empty(0, np.int32)]
    lengths: list[Int64] = [np.empty(0, np.int64)]
    skipped = NOTHING_SKIPPED
    readers = find_readers(source, options)
    # one loop over the batches of all readers, so that `break` ends it
    for batch in (batch for reader in readers for batch in checked_batches(reader, options)):
        skipped += batch.skipped
        if len(batch.rows):
            offsets, batch_ids = encoder.encode(batch)
            ids.append(batch_ids)
            lengths.append(np.diff(offsets))
            if limit is not None and sum(map(len, lengths)) >= limit:
                break
    return Documents(np.concatenate(ids), offsets_of(np.concatenate(lengths)), encoder.vocabulary(), skipped)


# The documents of a source that is already tokenised, in memory or in a folder; None for any other source.
def _find_documents(source: Any, reading: Reading) -> Documents | None:
    corpus = source if isinstance(source, TokenizedCorpus) else None
    if isinstance(source, str | Path | RemotePath):
        path = source if isinstance(source, RemotePath) else check_path(source, "source")
        corpus = read_tokens(path) if is_tokenized(path) else None
    if corpus is not None:
        batches.refuse_reading(reading, str(corpus.folder))
        return corpus.documents()
    if not isinstance(source, Documents):
        return None
    batches.refuse_reading(reading, "the corpus")
    return source


def with_id_limit(reading: Reading, vocabulary: Vocabulary | None) -> Reading:
    return reading if vocabulary is None else replace(reading, n_tokens=len(vocabulary))


def checked_batches(reader: Reader, reading: Reading) -> Iterator[Batch]:
    """Yield the batches of a reader; no documents, or far too many for the file size, are an error."""
    n_documents = 0
    allowance = Allowance(shorten_path(reader.source), reader.stored())
    for batch in reader.batches():
        n_read = len(batch.rows) + batch.skipped.count
        n_documents += n_read
        allowance.spend(n_bytes=batches.unpacked_bytes(batch), documents=n_read)
        yield batch
    if not n_documents:
        skips = Skips(reading)
        skips.add(errors.UnreadableSource(f"{reader.source} is empty: it has no documents; leave it out"))
        yield TextBatch([], np.empty(0, np.int64), skips.take())


def read_text(path: str | Path, *, tokenizer: str = "word") -> Documents:
    """Read a UTF-8 text file as one document; ``"-"`` is standard input."""
    if path != STANDARD_INPUT and is_folder(as_path(path)):
        raise errors.UnreadableSource(f"{path} is a folder; give the path of a text file")
    return _read_text(path, tokenizer, Reading())[0]


# A text file as one document, and the SHA-256 of the file.
def _read_text(path: str | AnyPath, tokenizer: str, reading: Reading) -> tuple[Documents, str]:
    file = keep_standard_input() if path == STANDARD_INPUT else File(str(path), as_path(path).name)
    content = read_beginning(file, reading, reading.max_bytes + 1)
    vocabulary, ids = Vocabulary.from_text(decode_text(content, file.source, reading), tokenizer)
    if len(ids) < 2:
        raise errors.UnreadableSource(
            f"{file.source} has {count_noun(len(ids), 'token')}, but two are needed; give a longer text"
        )
    offsets = np.array([0, len(ids)], np.int64)
    documents = trusted(Documents, ids=ids, offsets=offsets, vocabulary=vocabulary, skipped=NOTHING_SKIPPED)
    return documents, hashlib.sha256(content).hexdigest()


class ReadingOptions(TypedDict, total=False):
    """How a corpus becomes samples; these options have no effect on :class:`.Samples`.

    ``window`` is the longest context (by default 32), ``tokenizer`` splits text (by default ``"word"``), and
    ``reading`` says how to read files.
    """

    window: int
    tokenizer: str | Vocabulary
    reading: Reading | None


def check_options(options: ReadingOptions) -> None:
    unknown = sorted(options.keys() - ReadingOptions.__annotations__.keys())
    if unknown:
        raise TypeError(
            f"got an unexpected keyword argument {unknown[0]!r}; the options to read a corpus are "
            f"{', '.join(ReadingOptions.__annotations__)}"
        )


def read_samples(source: Any, **options: Unpack[ReadingOptions]) -> Samples:
    """Read a corpus as samples: each token with up to ``window`` preceding tokens as context."""
    check_options(options)
    if isinstance(source, Samples):
        batches.refuse_reading(batches.as_reading(options.get("reading")), "the Samples")
        return source
    return read_samples_and_vocabulary(source, options)[0]


def read_samples_and_vocabulary(source: Any, options: ReadingOptions) -> tuple[Samples, Vocabulary | None]:
    check_options(options)
    reading = batches.as_reading(options.get("reading"))
    documents, _ = read_documents_and_entry(source, options.get("tokenizer") or "word", reading)
    return documents.windows(options.get("window", WINDOW)), documents.vocabulary


def read_documents_and_entry(
    source: Any, tokenizer: str | Vocabulary, reading: Reading, limit: int | None = None
) -> tuple[Documents, dict[str, Any]]:
    """Read a corpus into memory; also return its manifest entry: kind, name and digest."""
    path = path_of(source)
    if is_ids(source):
        batches.refuse_reading(reading, "the sequence")
    if is_ids(source) and reading.separator is None:
        ids = Samples.from_windows(source, window=1).values  # checked as the ids of samples are
        documents = Documents(ids, np.array([0, len(ids)], np.int64), None)
        entry: dict[str, Any] = {"kind": "ids", "sha256": digest_arrays(ids)}
    elif path is not None and isinstance(tokenizer, str) and _is_plain_text(path, reading):
        documents, digest = _read_text(source, tokenizer, reading)
        entry = {"kind": "text", "name": printable_name(path), "sha256": digest}
        entry["tokenizer"] = printable_tokenizer(tokenizer)
    else:
        documents = read_corpus(source, tokenizer=tokenizer, reading=reading, limit=limit)
        digest = digest_arrays(documents.ids, documents.offsets)
        entry = {"kind": "documents", "name": printable_name(path), "sha256": digest}
        split_by = documents.vocabulary if isinstance(source, Documents) else tokenizer
        if split_by is not None:
            entry["tokenizer"] = printable_tokenizer(split_by)
    entry |= warn_of_skipped(documents.skipped)
    if not bool((np.diff(documents.offsets) > 1).any()):  # no document has a context and a label
        raise error_without_samples(source, entry, len(documents.offsets) - 1)
    return documents, entry


def path_of(source: Any) -> AnyPath | None:
    """The path of a corpus on disk or at a URL; None for a corpus in memory."""
    if isinstance(source, TokenizedCorpus):
        return source.folder
    if isinstance(source, RemotePath):
        return source
    return as_path(check_path(source, "source")) if isinstance(source, str | PathLike) else None


def is_folder(path: AnyPath) -> bool:
    # os.path: a text given in place of a path may be too long for a path
    return path.is_dir() if isinstance(path, RemotePath) else os.path.isdir(path)  # noqa: PTH112


# Whether a path is one plain-text file that is one document, which needs no reader.
def _is_plain_text(path: AnyPath, reading: Reading) -> bool:
    is_document = reading.documents == "file" and reading.format is None and reading.column is None
    is_file = path.suffix in ("", ".txt") and "*" not in path.name and not is_folder(path)
    return is_document and is_file


def printable_name(path: AnyPath | None) -> str | None:
    return None if path is None else printable(path.name)


def printable_tokenizer(tokenizer: str | Vocabulary) -> str:
    return printable(tokenizer if isinstance(tokenizer, str) else tokenizer.tokenizer)


def warn_of_skipped(skipped: Skipped) -> dict[str, Any]:
    """Warns if documents were skipped; returns what the manifest entry of a corpus says about them."""
    if skipped.count:
        warnings.warn(errors.SkippedDocuments(skipped.count, skipped.first), stacklevel=3)
    return {"skipped": asdict(skipped)}


def error_without_samples(source: Any, entry: Mapping[str, Any], n_texts: int) -> errors.UnreadableSource:
    """The error for documents without any sample, such as words that are meant as one document."""
    listed = isinstance(source, Sequence) and not isinstance(source, str)
    if listed and n_texts > 1 and all(isinstance(text, str) for text in cast("Sequence[Any]", source)):
        return errors.UnreadableSource(
            f"each of the {n_texts:,} texts is a document of at most one token, so there are no samples; if "
            "the texts are the words of one document, give a list of this list ([words]); if they are "
            "paths, give a folder, a glob or a list of pathlib.Path"
        )
    name = entry.get("name") or "the corpus"
    return errors.UnreadableSource(
        f"no document of {name} ({n_texts:,} in total) has two tokens, but a sample needs a context and a "
        "label; give longer documents, or use another tokenizer"
    )
