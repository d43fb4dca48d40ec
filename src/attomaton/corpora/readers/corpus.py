"""Read a user's corpus into memory: as documents, or directly as samples.

Every function of the library that takes a corpus accepts the same sources and options, and reads them here.
"""

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
from attomaton.base.ragged import offsets_of
from attomaton.base.remote import AnyPath, RemotePath, as_path
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
    refuse_reading,
    unpacked_bytes,
)
from attomaton.corpora.readers.files import File, keep_standard_input, printable, shorten_path
from attomaton.corpora.readers.sources import find_readers, is_ids
from attomaton.corpora.readers.texts import decode_text, read_beginning
from attomaton.corpora.samples import MAX_TOKENS, NOTHING_SKIPPED, WINDOW, Samples, Skipped
from attomaton.corpora.shards import TokenizedCorpus, is_tokenized, read_tokens
from attomaton.corpora.tokenizers.encoders import TableEncoder, distinct_tokens
from attomaton.corpora.tokenizers.vocabulary import Vocabulary


def read_corpus(
    source: Any, *, tokenizer: str | Vocabulary = "word", reading: Reading | None = None
) -> Documents:
    """Read a whole corpus into memory.

    Parameters
    ----------
    source : path, URL, sequence, frame or dataset
        A file, folder, glob or URL; ``"-"`` for standard input; a list of texts, of lists of tokens, of lists
        of ids, of records (dicts), or of ``pathlib.Path``; an array of ids; a pandas or Polars frame or
        Series; an Arrow table; a ``datasets.Dataset``; a :class:`~attomaton.corpora.documents.Documents`,
        returned unchanged unless a Vocabulary numbers its tokens anew. A folder that
        :func:`tokenize_corpus` wrote keeps its vocabulary.
    tokenizer : str or Vocabulary
        ``"word"``, ``"word-lower"``, ``"word-punct"``, ``"character"``, ``"byte"``, or the path of a
        ``tokenizer.json`` or ``.tiktoken`` file. A corpus of ids needs none; a tokenizer with a fixed
        vocabulary then names and bounds the ids. If a vocabulary is given, its tokens keep their ids and new
        tokens are numbered after them.
    reading : Reading, optional
        How to read files: their format, the column of the documents, and whether a text file or each of its
        lines is a document.

    Examples
    --------
    >>> documents = read_corpus(["to be", "or not to be"])
    >>> documents.ids.tolist(), documents.offsets.tolist(), documents.vocabulary.tokens
    ([0, 1, 2, 3, 0, 1], [0, 2, 6], ('to', 'be', 'or', 'not'))
    """
    options = as_reading(reading)
    documents = _find_documents(source, options)
    if documents is not None:
        return renumber_documents(documents, tokenizer) if isinstance(tokenizer, Vocabulary) else documents
    if isinstance(tokenizer, Vocabulary):
        vocabulary = tokenizer if tokenizer.is_fixed else None
        numbering = Numbering(tokenizer.tokenizer, tokenizer.ids)
    else:
        vocabulary, numbering = Vocabulary.fixed(tokenizer), Numbering(tokenizer)
    options = with_id_limit(options, vocabulary)
    id_arrays: list[Int32] = []
    length_arrays: list[Int64] = []
    skipped, kinds = NOTHING_SKIPPED, set[str]()
    encode = numbering.encode if vocabulary is None else vocabulary.encode_all
    for reader in find_readers(source, options):
        for batch in checked_batches(reader, options):
            skipped += batch.skipped
            if not len(batch.rows):
                continue
            if isinstance(batch, TextBatch):
                kinds.add("text")
                offsets, ids = encode(batch.texts)
            else:
                kinds.add("ids")
                offsets, ids = batch.offsets, batch.ids
            id_arrays.append(ids)
            length_arrays.append(np.diff(offsets))
    if vocabulary is None and "text" in kinds:
        refuse_mixture(kinds, numbering.tokenizer)
        vocabulary = Vocabulary(tuple(numbering.numbers), numbering.tokenizer)
    elif vocabulary is None and isinstance(tokenizer, Vocabulary):
        vocabulary = tokenizer
    ids = np.concatenate([np.empty(0, np.int32), *id_arrays])
    lengths = np.concatenate([np.empty(0, np.int64), *length_arrays])
    return Documents(ids, offsets_of(lengths), vocabulary, skipped)


def _find_documents(source: Any, reading: Reading) -> Documents | None:
    """The documents of a source that is tokenised already; None for any other."""
    corpus = source if isinstance(source, TokenizedCorpus) else None
    if isinstance(source, str | Path | RemotePath):
        path = source if isinstance(source, RemotePath) else check_path(source, "source")
        corpus = read_tokens(path) if is_tokenized(path) else None
    if corpus is not None:
        refuse_reading(reading, str(corpus.folder))
        return corpus.documents()
    if not isinstance(source, Documents):
        return None
    refuse_reading(reading, "the corpus")
    return source


def renumber_documents(documents: Documents, vocabulary: Vocabulary) -> Documents:
    """The documents with the ids of this vocabulary; tokens that it lacks are numbered after it."""
    present = documents.vocabulary
    if present is None or present == vocabulary:
        return documents
    if (present.tokenizer, present.definition) != (vocabulary.tokenizer, vocabulary.definition):
        raise errors.MismatchedParts(
            f"the documents use the tokenizer {present.tokenizer}, but the vocabulary uses "
            f"{vocabulary.tokenizer}; use the same one for both"
        )
    numbering = Numbering(vocabulary.tokenizer, vocabulary.ids)
    numbering.add(present.tokens)
    new_ids = np.array([numbering.numbers[token] for token in present.tokens], np.int32)
    extended = replace(vocabulary, tokens=tuple(numbering.numbers))
    return replace(documents, ids=new_ids[documents.ids], vocabulary=extended)


class Numbering:
    """Words or characters, numbered in order of first appearance."""

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
            raise errors.UnsupportedOption(
                f"the corpus has more than {MAX_TOKENS:,} different tokens with {self.tokenizer!r}; use a "
                "tokenizer.json or .tiktoken file"
            )


def with_id_limit(reading: Reading, vocabulary: Vocabulary | None) -> Reading:
    """The reading options, with ids limited to those of a fixed vocabulary."""
    return reading if vocabulary is None else replace(reading, n_tokens=len(vocabulary))


def checked_batches(reader: Reader, reading: Reading) -> Iterator[Batch]:
    """The batches of a reader; no documents at all, or far too many for the file's size, is an error."""
    documents, skipped = 0, 0
    allowance = Allowance(shorten_path(reader.source), reader.stored())
    for batch in reader.batches():
        documents += len(batch.rows)
        skipped += batch.skipped.count
        allowance.spend(n_bytes=unpacked_bytes(batch), documents=len(batch.rows) + batch.skipped.count)
        yield batch
    if not documents and not skipped:
        skips = Skips(reading)
        skips.add(errors.UnreadableSource(f"{reader.source} is empty: it has no documents; leave it out"))
        yield TextBatch([], np.empty(0, np.int64), skips.take())


def refuse_mixture(kinds: set[str], tokenizer: str) -> None:
    """Refuse a mixture of text and ids, which a tokenizer without a fixed vocabulary numbers differently."""
    if len(kinds) > 1:
        raise errors.UnsupportedOption(
            f"the corpus holds both text and token ids, but {tokenizer!r} assigns its own ids; give the "
            "tokenizer file that made the ids, or read the two separately"
        )


def read_text(path: str | Path, *, tokenizer: str = "word") -> Documents:
    """Read one UTF-8 text file as one document; ``"-"`` is standard input."""
    if path != STANDARD_INPUT and is_folder(as_path(path)):
        raise errors.UnreadableSource(f"{path} is a folder; give one text file")
    return _read_text(path, tokenizer, Reading())[0]


def _read_text(path: str | AnyPath, tokenizer: str, reading: Reading) -> tuple[Documents, str]:
    """One text file, and the SHA-256 of the bytes read."""
    file = keep_standard_input() if path == STANDARD_INPUT else File(str(path), as_path(path).name)
    content = read_beginning(file, reading, reading.max_bytes + 1)
    vocabulary, ids = Vocabulary.from_text(decode_text(content, file.source, reading), tokenizer)
    if len(ids) < 2:
        raise errors.UnreadableSource(
            f"{file.source} has too few tokens ({len(ids)}): a sample needs a context and a label, so give "
            "more text"
        )
    offsets = np.array([0, len(ids)], np.int64)
    documents = trusted(Documents, ids=ids, offsets=offsets, vocabulary=vocabulary, skipped=NOTHING_SKIPPED)
    return documents, hashlib.sha256(content).hexdigest()


class ReadingOptions(TypedDict, total=False):
    """How a source becomes samples; ignored where samples are given directly.

    ``window`` is the longest context (default 32), ``tokenizer`` splits text (default ``"word"``), and
    ``reading`` says how to read files: a :class:`~attomaton.corpora.Reading`.
    """

    window: int
    tokenizer: str | Vocabulary
    reading: Reading | None


def check_options(options: ReadingOptions) -> None:
    """Refuse an unknown option, as Python refuses an unknown keyword argument."""
    unknown = sorted(options.keys() - ReadingOptions.__annotations__.keys())
    if unknown:
        raise TypeError(
            f"got an unexpected keyword argument {unknown[0]!r}; the options for reading a corpus are "
            f"{', '.join(ReadingOptions.__annotations__)}"
        )


def read_samples(source: Any, **options: Unpack[ReadingOptions]) -> Samples:
    """A corpus as samples: every position of every document, with up to ``window`` tokens before it."""
    check_options(options)
    if isinstance(source, Samples):
        refuse_reading(as_reading(options.get("reading")), "the Samples")
        return source
    return read_samples_and_vocabulary(source, options)[0]


def read_samples_of_ids(source: Any, **options: Unpack[ReadingOptions]) -> Samples:
    """A corpus of ids as samples; text is an error, because the ids of its words are unknown."""
    if isinstance(source, Samples):
        return read_samples(source, **options)
    samples, vocabulary = read_samples_and_vocabulary(source, options)
    if vocabulary is not None:
        raise errors.UnsupportedOption(
            "the source is text, but there is no vocabulary to encode it: the automaton was learned from "
            "token ids; give token ids"
        )
    return samples


def read_samples_and_vocabulary(source: Any, options: ReadingOptions) -> tuple[Samples, Vocabulary | None]:
    """A corpus as samples, and the vocabulary that names their tokens; None for a corpus of ids."""
    check_options(options)
    reading = as_reading(options.get("reading"))
    documents, _ = read_documents_and_entry(source, options.get("tokenizer") or "word", reading)
    return documents.windows(options.get("window", WINDOW)), documents.vocabulary


def read_documents_and_entry(
    source: Any, tokenizer: str | Vocabulary, reading: Reading
) -> tuple[Documents, dict[str, Any]]:
    """A corpus in memory, and its entry for the manifest of a run: its kind, name and digest.

    The digest of a single plain text is that of its file.
    """
    path = path_of(source)
    if is_ids(source):
        refuse_reading(reading, "the sequence")
        samples = Samples.from_windows(source, window=1)
        documents = Documents(samples.values, np.array([0, len(samples.values)], np.int64), None)
        about: dict[str, Any] = {"kind": "ids", "sha256": digest_arrays(samples.values)}
    elif path is not None and isinstance(tokenizer, str) and _is_plain_text(path, reading):
        documents, digest = _read_text(source, tokenizer, reading)
        about = {"kind": "text", "name": printable_name(path), "sha256": digest}
        about["tokenizer"] = printable_tokenizer(tokenizer)
    else:
        documents = read_corpus(source, tokenizer=tokenizer, reading=reading)
        digest = digest_arrays(documents.ids, documents.offsets)
        about = {"kind": "documents", "name": printable_name(path), "sha256": digest}
        split_by = documents.vocabulary if isinstance(source, Documents) else tokenizer
        if split_by is not None:
            about["tokenizer"] = printable_tokenizer(split_by)
    about |= warn_of_skipped(documents.skipped)
    if not bool((np.diff(documents.offsets) > 1).any()):
        raise error_without_samples(source, about, len(documents.offsets) - 1)
    return documents, about


def path_of(source: Any) -> AnyPath | None:
    """The path or URL, if the source is one."""
    if isinstance(source, TokenizedCorpus):
        return source.folder
    if isinstance(source, RemotePath):
        return source
    return as_path(check_path(source, "source")) if isinstance(source, str | PathLike) else None


def is_folder(path: AnyPath) -> bool:
    """Whether there is a folder; a text given in place of a path may be too long for one."""
    return path.is_dir() if isinstance(path, RemotePath) else os.path.isdir(path)  # noqa: PTH112


def _is_plain_text(path: AnyPath, reading: Reading) -> bool:
    """Whether a path is that of one text file, read as one document."""
    one_document = reading.documents == "file" and reading.format is None and reading.column is None
    one_file = path.suffix in ("", ".txt") and "*" not in path.name and not is_folder(path)
    return one_document and one_file


def printable_name(path: AnyPath | None) -> str | None:
    """The name of a file or folder for a manifest."""
    return None if path is None else printable(path.name)


def printable_tokenizer(tokenizer: str | Vocabulary) -> str:
    """The name of a tokenizer for a manifest."""
    return printable(tokenizer if isinstance(tokenizer, str) else tokenizer.tokenizer)


def warn_of_skipped(skipped: Skipped) -> dict[str, Any]:
    """Warn about skipped documents, if any; return their entry for the manifest."""
    if skipped.count:
        warnings.warn(errors.SkippedDocuments(skipped.count, skipped.first), stacklevel=3)
    return {"skipped": asdict(skipped)}


def error_without_samples(source: Any, about: Mapping[str, Any], size: int) -> errors.UnreadableSource:
    """The error for ``size`` documents without any sample, such as words meant as one document."""
    listed = isinstance(source, Sequence) and not isinstance(source, str)
    if listed and size > 1 and all(isinstance(text, str) for text in cast("Sequence[Any]", source)):
        return errors.UnreadableSource(
            f"each of the {size:,} texts is a document of at most one token, so there are no samples; "
            "if they are the words of one document, give them as a list in a list ([words]); if "
            "they are paths of files, give a folder, a glob or a list of pathlib.Path"
        )
    name = about.get("name") or "the corpus"
    return errors.UnreadableSource(
        f"no document of {name} ({size:,} in total) has two tokens, but a sample needs a context and a label"
        "; give longer documents, or read them with another tokenizer"
    )
