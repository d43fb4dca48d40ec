"""From what a user gives to what an engine reads: samples in memory, or token shards on disk."""

import os
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from attomaton.artifacts import digest_arrays
from attomaton.corpora.documents import Documents
from attomaton.corpora.pieces import Piece
from attomaton.corpora.samples import Samples
from attomaton.corpora.shards import Shards, holds_shards, is_tokenized, read_tokens
from attomaton.corpora.shards.lists import TOKENS
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.splitting import find_splitter
from attomaton.corpora.tokenizers.subwords import is_subword_file, read_definition
from attomaton.engines.memory import trim
from attomaton.engines.selection import Selection
from attomaton.engines.work import fingerprint
from attomaton.errors import UnsupportedOption, UnwritablePlace
from attomaton.options import show, whole_number
from attomaton.readers.batches import Reading
from attomaton.readers.files import printable
from attomaton.readers.given import name_of, path_of, read_given
from attomaton.readers.sources import is_ids, is_run
from attomaton.readers.tokenize import tokenize_into
from attomaton.remote import Place, RemotePath
from attomaton.tables import Bool


@dataclass(frozen=True)
class Corpus:
    """What was given, ready for an engine.

    Attributes
    ----------
    tokens : Samples or Shards
        The corpus in memory, or on disk.
    vocabulary : Vocabulary, optional
        None where ids are all there is.
    about : dict
        Kind, name and digest of the input, for the manifest of a run.
    """

    tokens: Samples | Shards
    vocabulary: Vocabulary | None
    about: dict[str, Any]

    def pick(self, queries: Sequence[int] | Sequence[str] | int | None) -> dict[str, Any]:
        """The selection's settings for these queries."""
        if queries is None:
            return {}
        if isinstance(queries, int | float | np.number):
            return {"top_queries": queries}
        return {"queries": tuple(self._query_id(query) for query in queries)}

    def samples(self, kept: Bool, selection: Selection) -> Samples | None:
        """The samples of the kept queries, where the corpus is in memory."""
        if isinstance(self.tokens, Shards):
            return None
        samples = trim(self.tokens, selection)
        return samples if kept.all() else samples.take(kept[samples.queries])

    def _query_id(self, query: int | str) -> int:
        if not isinstance(query, str):
            return whole_number(query, "a query")
        if self.vocabulary is None:
            raise UnsupportedOption(
                "queries are given as text but the source has no vocabulary; give token ids"
            )
        return int(self.vocabulary.lookup([query])[0])


def check_reading(tokenizer: object, queries: object) -> None:
    """Say at once that a corpus cannot be read in this way, or that these are no queries.

    Examples
    --------
    >>> check_reading("word", queries=["the", "of"])
    """
    if not isinstance(tokenizer, str):
        raise UnsupportedOption(f"tokenizer is {show(tokenizer)}; give a name, or the path of a file")
    if is_subword_file(tokenizer):
        read_definition(tokenizer)
    else:
        find_splitter(tokenizer)
    if isinstance(queries, str | bytes):
        raise UnsupportedOption(f"queries is the text {show(queries)}; give a list of tokens or token ids")
    asked = cast("Any", queries)
    if queries is None or isinstance(queries, int | float | np.number):
        Selection(top_queries=asked)
    elif not isinstance(queries, Iterable) or (isinstance(queries, np.ndarray) and not np.ndim(asked)):
        raise UnsupportedOption(f"queries is {show(asked)}; give tokens or token ids, or how many queries")
    elif isinstance(queries, Sized) and not len(asked):
        raise UnsupportedOption("queries is empty; give tokens or token ids, or None for all queries")


def refuse_input_in(out: Path, source: Any) -> None:
    """Never write to the folder that holds an input."""
    path = path_of(source)
    if path is None or isinstance(path, RemotePath):
        return
    place, given = Path(os.path.realpath(out)), Path(os.path.realpath(path))
    if place in given.parents or (place == given and place.is_dir()):
        raise UnwritablePlace(f"{out} holds the corpus itself ({path}); give another folder for the run")


def read_source(source: Any, *, window: int, tokenizer: str, tokens: Path | None, reading: Reading) -> Corpus:
    """Read a corpus.

    Parameters
    ----------
    source : Samples, Documents, sequence of ids, path, glob, URL, sequence of documents, frame or dataset
        A folder of token shards stays on disk; all else is read into memory, or into shards.
    window : int
        Longest context; ready-made samples have theirs.
    tokenizer : str
        For text.
    tokens : Path, optional
        Write shards there instead of reading into memory.
    reading : Reading
        How to read it.
    """
    if isinstance(source, Samples):
        digest = digest_arrays(source.values, source.starts, source.stops, source.labels)
        return Corpus(source, None, {"kind": "samples", "sha256": digest})
    folder = _folder_of(source, reading)
    if folder is not None:
        return _read_shards(folder, window)
    if tokens is not None and not is_ids(source) and not isinstance(source, Documents):
        return _write_shards(source, window, tokenizer, tokens, reading)
    read, about = read_given(source, tokenizer, reading)
    about = {**about, "window": window}
    if tokens is None:
        return Corpus(read.windows(window), read.vocabulary, about)
    n_tokens = int(read.ids.max(initial=-1)) + 1 if read.vocabulary is None else len(read.vocabulary)
    return Corpus(Shards.write(tokens, read.ids, read.offsets, n_tokens=n_tokens), read.vocabulary, about)


def read_documents(
    source: Any, *, tokenizer: str | Vocabulary, tokens: Path | None, reading: Reading
) -> tuple[Piece | Shards, Vocabulary | None]:
    """Read a corpus as whole documents: in memory, or as shards, which are written to ``tokens`` if asked.

    Examples
    --------
    >>> piece, vocabulary = read_documents(
    ...     ["to be", "or not to be"], tokenizer="word", tokens=None, reading=Reading()
    ... )
    >>> piece.ids.tolist(), piece.documents.tolist(), vocabulary.tokens
    ([0, 1, 2, 3, 0, 1], [0, 2, 6], ('to', 'be', 'or', 'not'))
    """
    folder = _folder_of(source, reading)
    if folder is not None:
        corpus = _read_shards(folder, 0)
        assert isinstance(corpus.tokens, Shards)  # noqa: S101  our own invariant
        return corpus.tokens, corpus.vocabulary
    in_memory = is_ids(source) or isinstance(source, Documents)
    if tokens is not None and isinstance(tokenizer, str) and not in_memory:
        corpus = _write_shards(source, 0, tokenizer, tokens, reading)
        assert isinstance(corpus.tokens, Shards)  # noqa: S101  our own invariant
        return corpus.tokens, corpus.vocabulary
    read, _ = read_given(source, tokenizer, reading)
    n_tokens = int(read.ids.max(initial=-1)) + 1 if read.vocabulary is None else len(read.vocabulary)
    if tokens is None:
        return Piece(read.ids, read.offsets, 0, n_tokens), read.vocabulary
    return Shards.write(tokens, read.ids, read.offsets, n_tokens=n_tokens), read.vocabulary


def _folder_of(source: Any, reading: Reading) -> Place | None:
    """The folder, if token shards are what is given."""
    folder = path_of(source)
    if folder is None or (isinstance(folder, RemotePath) and not folder.is_dir()) or is_run(folder):
        return None
    shards = reading.column in (None, TOKENS) and reading.format in (None, "parquet") and holds_shards(folder)
    return folder if shards or is_tokenized(folder) else None


def _read_shards(folder: Place, window: int) -> Corpus:
    """Shards that are there already, with their vocabulary if they were tokenised by us."""
    vocabulary = digests = None
    if is_tokenized(folder):
        corpus = read_tokens(folder)
        shards, vocabulary = Shards.from_paths(corpus.shards, n_tokens=corpus.n_tokens), corpus.vocabulary
        digests = corpus.check_shards()
    else:
        shards = Shards.from_folder(folder)
    digest = fingerprint(shards, {}, digests)
    return Corpus(
        shards, vocabulary, {"kind": "shards", "name": name_of(folder), "sha256": digest, "window": window}
    )


def _write_shards(source: Any, window: int, tokenizer: str, tokens: Path, reading: Reading) -> Corpus:
    """Tokenise into shards first; a run that was cut short goes on where it was."""
    corpus = tokenize_into(tokens, source, tokenizer=tokenizer, reading=reading)
    shards = Shards.from_paths(corpus.shards, n_tokens=corpus.n_tokens)
    name = name_of(path_of(source))
    about = {"kind": "documents", "name": name, "sha256": fingerprint(shards, {}), "window": window}
    return Corpus(shards, corpus.vocabulary, {**about, "tokenizer": printable(tokenizer)})
