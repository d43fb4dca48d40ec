"""What a user gives as a corpus, read into memory: as documents, or at once as samples.

Every function that takes a corpus takes the same sources and options, and reads them here.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from typing import Any, TypedDict, Unpack, cast

import numpy as np

from attomaton.base.artifacts import digest_arrays
from attomaton.base.errors import SkippedDocuments, UnreadableSource, UnsupportedOption
from attomaton.base.options import check_path
from attomaton.base.remote import Place, RemotePath, as_place
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers.batches import Reading, as_reading
from attomaton.corpora.readers.corpus import read_corpus, read_text_and_digest
from attomaton.corpora.readers.files import printable
from attomaton.corpora.readers.sources import is_ids
from attomaton.corpora.samples import WINDOW, Samples, Skipped
from attomaton.corpora.shards import TokenizedCorpus
from attomaton.corpora.tokenizers.vocabulary import Vocabulary


class ReadingOptions(TypedDict, total=False):
    """How a source becomes samples; samples that are given ready-made need none of this.

    ``window`` is the longest context (32), ``tokenizer`` splits text (``"word"``), and ``reading`` says how
    files are read: a :class:`~attomaton.corpora.Reading`.

    Examples
    --------
    >>> options = ReadingOptions(window=2, tokenizer="character")
    >>> options["window"]
    2
    """

    window: int
    tokenizer: str | Vocabulary
    reading: Reading | None


def read_samples(source: Any, **options: Unpack[ReadingOptions]) -> Samples:
    """A corpus as samples: every position of every document, with up to ``window`` tokens before it."""
    check_options(options)
    return source if isinstance(source, Samples) else read_named(source, options)[0]


def read_ids(source: Any, **options: Unpack[ReadingOptions]) -> Samples:
    """The same of a corpus of ids; text is an error, because nothing says which id a word has."""
    check_options(options)
    if isinstance(source, Samples):
        return source
    samples, vocabulary = read_named(source, options)
    if vocabulary is not None:
        raise UnsupportedOption(
            "the source is text, and there is no vocabulary to read it with: what was learned from are token "
            "ids; give token ids"
        )
    return samples


def read_named(source: Any, options: ReadingOptions) -> tuple[Samples, Vocabulary | None]:
    """A corpus as samples, and the vocabulary that names their tokens; of ids alone there is none."""
    check_options(options)
    reading = as_reading(options.get("reading"))
    read, _ = read_given(source, options.get("tokenizer") or "word", reading)
    return read.windows(options.get("window", WINDOW)), read.vocabulary


def check_options(options: ReadingOptions) -> None:
    """Refuse an option that no reader has, as Python refuses a parameter that a function lacks."""
    unknown = sorted(options.keys() - ReadingOptions.__annotations__.keys())
    if unknown:
        raise TypeError(
            f"got an unexpected keyword argument {unknown[0]!r}; a corpus is read with "
            f"{', '.join(ReadingOptions.__annotations__)}"
        )


def read_given(
    source: Any, tokenizer: str | Vocabulary, reading: Reading
) -> tuple[Documents, dict[str, Any]]:
    """A corpus in memory, and what the manifest of a run says of it: its kind, name and digest."""
    documents, about = _read(source, tokenizer, reading)
    about |= tell_skipped(documents.skipped)
    if not bool((np.diff(documents.offsets) > 1).any()):
        raise no_samples(source, about, len(documents.offsets) - 1)
    return documents, about


def tell_skipped(skipped: Skipped) -> dict[str, Any]:
    """Warn of documents that were skipped, if any were; what a manifest says of them."""
    if skipped.count:
        warnings.warn(SkippedDocuments(skipped.count, skipped.first), stacklevel=3)
    return {"skipped": asdict(skipped)}


def path_of(source: Any) -> Place | None:
    """The path or URL, if the source is one."""
    if isinstance(source, TokenizedCorpus):
        return source.folder
    if isinstance(source, RemotePath):
        return source
    return as_place(check_path(source, "source")) if isinstance(source, str | PathLike) else None


def name_of(path: Place | None) -> str | None:
    """The name of a file or folder as a manifest can hold it."""
    return None if path is None else printable(path.name)


def name_tokenizer(tokenizer: str | Vocabulary) -> str:
    """A tokenizer as a manifest names it."""
    return printable(tokenizer if isinstance(tokenizer, str) else tokenizer.tokenizer)


def _read(source: Any, tokenizer: str | Vocabulary, reading: Reading) -> tuple[Documents, dict[str, Any]]:
    if is_ids(source):
        samples = Samples.from_windows(source, window=1)
        documents = Documents(samples.values, np.array([0, len(samples.values)], np.int64), None)
        return documents, {"kind": "ids", "sha256": digest_arrays(samples.values)}
    path = path_of(source)
    if path is not None and isinstance(tokenizer, str) and _is_plain_text(path, reading):
        documents, digest = read_text_and_digest(source, tokenizer)
        about = {"kind": "text", "name": name_of(path), "sha256": digest}
        return documents, {**about, "tokenizer": name_tokenizer(tokenizer)}
    documents = read_corpus(source, tokenizer=tokenizer, reading=reading)
    split_by = documents.vocabulary if isinstance(source, Documents) else tokenizer
    about = {"kind": "documents", "name": name_of(path)}
    about |= {"sha256": digest_arrays(documents.ids, documents.offsets)}
    return documents, about if split_by is None else {**about, "tokenizer": name_tokenizer(split_by)}


def _is_plain_text(path: Place, reading: Reading) -> bool:
    """Whether the path is one text file, read as one document; a manifest then has the digest of the file."""
    if path.is_dir() if isinstance(path, RemotePath) else os.path.isdir(path):  # noqa: PTH112
        return False  # isdir: a text that stands for its path may be too long for one
    ending = path.suffix in ("", ".txt") and "*" not in path.name
    return ending and reading.documents == "file" and reading.format is None and reading.column is None


def no_samples(source: Any, about: Mapping[str, Any], size: int) -> UnreadableSource:
    """The error for ``size`` documents without a single sample; words meant as one document have none."""
    listed = isinstance(source, Sequence) and all(
        isinstance(one, str) for one in cast("Sequence[Any]", source)
    )
    if listed and size > 1 and not isinstance(source, str):
        return UnreadableSource(
            f"each of the {size:,} texts given is a document of at most one token, so there is no sample "
            "at all; if they are the words of one document, give them as a list in a list ([words]), and if "
            "they are paths of files, give a folder, a glob or a list of pathlib.Path"
        )
    name = about.get("name") or "the corpus"
    return UnreadableSource(
        f"no document of {name} ({size:,} in all) has two tokens, and a sample needs a context and a label; "
        "give longer documents, or read them with another tokenizer"
    )
