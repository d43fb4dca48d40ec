"""Turn a user's source into an engine's input: samples in memory, or token shards on disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from attomaton.base.artifacts import digest_arrays
from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import show
from attomaton.base.remote import AnyPath
from attomaton.corpora.documents import Chunk, Documents
from attomaton.corpora.readers import corpus
from attomaton.corpora.readers.batches import Reading, refuse_reading
from attomaton.corpora.readers.files import printable
from attomaton.corpora.readers.sources import find_files, is_ids, written_kind
from attomaton.corpora.readers.tokenize import tokenize_into
from attomaton.corpora.samples import NOTHING_SKIPPED, Samples
from attomaton.corpora.shards import Shards, holds_shards, is_tokenized, read_tokens
from attomaton.corpora.token_files import TOKENS
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.encoders import find_tokenizer
from attomaton.corpora.tokenizers.subwords import is_subword_file, read_definition
from attomaton.engines.memory import MEMORY_CHUNK_TOKENS
from attomaton.engines.selection import Selection
from attomaton.engines.work import fingerprint


@dataclass(frozen=True)
class EngineCorpus:
    """A corpus ready for an engine, in memory or on disk, and the part of it to keep.

    ``about`` is its entry for the manifest of a run; ``window`` the longest context read, None for samples.
    """

    tokens: Samples | Shards
    vocabulary: Vocabulary | None
    about: dict[str, Any]
    selection: Selection
    window: int | None


def check_tokenizer(tokenizer: object) -> None:
    if not isinstance(tokenizer, str):
        raise UnsupportedOption(f"tokenizer is {show(tokenizer)}; give a name, or the path of a file")
    if is_subword_file(tokenizer):
        read_definition(tokenizer)
    else:
        find_tokenizer(tokenizer)


def size_of_text(source: Any, reading: Reading) -> int:
    """The bytes of the local text files of a corpus; 0 for shards, URLs and what is in memory."""
    path = corpus.path_of(source)
    if not isinstance(path, Path) or str(path) == "-" or _folder_of(source, reading) is not None:
        return 0
    return sum(file.stored() or 0 for file in find_files(str(path)))


def read_source(
    source: Any, selection: Selection, *, tokenizer: str, reading: Reading, tokens: Path | None = None
) -> EngineCorpus:
    """Read a corpus: into memory, or as shards, which are written to ``tokens`` if given."""
    if isinstance(source, Samples):
        refuse_reading(reading, "the Samples")
        digest = digest_arrays(source.values, source.starts, source.stops, source.labels)
        about = {"kind": "samples", "sha256": digest}
        return EngineCorpus(source, None, about, selection.with_ids(None), None)
    read, vocabulary, about = _read_corpus(source, tokenizer, tokens, reading)
    samples_or_shards = read.windows(selection.longest) if isinstance(read, Documents) else read
    about["window"] = selection.longest
    return EngineCorpus(samples_or_shards, vocabulary, about, selection.with_ids(vocabulary), selection.reach)


def read_whole_documents(
    source: Any, *, tokenizer: str | Vocabulary, tokens: Path | None, reading: Reading
) -> tuple[Chunk | Shards, Vocabulary | None, dict[str, Any]]:
    """Read whole documents into memory, or as shards in ``tokens``; also vocabulary and manifest entry."""
    read, vocabulary, about = _read_corpus(source, tokenizer, tokens, reading)
    documents = read.as_chunk if isinstance(read, Documents) else read
    return documents, vocabulary, about


# A corpus in memory, or as shards if it is one or ``tokens`` is given; no samples at all is an error.
def _read_corpus(
    source: Any, tokenizer: str | Vocabulary, tokens: Path | None, reading: Reading
) -> tuple[Documents | Shards, Vocabulary | None, dict[str, Any]]:
    folder = _folder_of(source, reading)
    in_memory = is_ids(source) or isinstance(source, Documents) or not isinstance(tokenizer, str)
    if folder is None and (tokens is None or in_memory):
        read, about = corpus.read_documents_and_entry(source, tokenizer, reading)
        if tokens is None:
            return read, read.vocabulary, about
        size = read.as_chunk.n_tokens
        return Shards.write(tokens, read.ids, read.offsets, n_tokens=size), read.vocabulary, about
    tokenized, digests = None, None
    if folder is None:  # tokenise first; an interrupted run resumes where it stopped
        assert tokens is not None and isinstance(tokenizer, str)  # noqa: PT018, S101  our own invariant
        tokenized = tokenize_into(tokens, source, tokenizer=tokenizer, reading=reading)
    elif is_tokenized(folder):
        tokenized = read_tokens(folder)
        digests = tokenized.check_shards()
    if tokenized is None:
        shards = Shards.from_folder(cast("AnyPath", folder))
    else:
        shards = Shards.from_paths(tokenized.shards, n_tokens=tokenized.n_tokens)
    kind, name = "documents" if folder is None else "shards", corpus.printable_name(corpus.path_of(source))
    about: dict[str, Any] = {"kind": kind, "name": name, "sha256": fingerprint(shards, {}, digests)}
    about |= {"tokenizer": printable(str(tokenizer))} if folder is None else {}
    about |= corpus.warn_of_skipped(NOTHING_SKIPPED if tokenized is None else tokenized.skipped)
    n_documents = 0
    for chunk in shards.chunks(MEMORY_CHUNK_TOKENS, None):
        lengths = np.diff(chunk.documents)
        if bool((lengths > 1).any()):
            return shards, None if tokenized is None else tokenized.vocabulary, about
        n_documents += len(lengths)
    raise corpus.error_without_samples(source, about, n_documents)


# The folder, if the source is token shards.
def _folder_of(source: Any, reading: Reading) -> AnyPath | None:
    folder = corpus.path_of(source)
    if folder is None or not corpus.is_folder(folder):
        return None
    if is_tokenized(folder):
        refuse_reading(reading, str(folder))
        return folder
    usual = reading.column in (None, TOKENS) and reading.format in (None, "parquet")
    return folder if written_kind(folder) is None and usual and holds_shards(folder) else None
