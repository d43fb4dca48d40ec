"""A whole corpus in memory: token ids with the borders between documents."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.borders import check_int32, check_int64, check_offsets, keep_checked
from attomaton.corpora.budgets import Allowance
from attomaton.corpora.readers.batches import (
    NOTHING_SKIPPED,
    Batch,
    Reader,
    Reading,
    Skipped,
    Skips,
    TextBatch,
    unpacked_bytes,
)
from attomaton.corpora.readers.files import File, decode, shorten
from attomaton.corpora.readers.sources import find_readers, is_tokenized
from attomaton.corpora.readers.standard import keep_standard_input
from attomaton.corpora.regular import STANDARD_INPUT
from attomaton.corpora.samples import MAX_TOKENS, Samples
from attomaton.corpora.tokenizers.encoders import TableEncoder, distinct_tokens
from attomaton.corpora.tokenizers.vocabulary import Vocabulary
from attomaton.errors import (
    AttomatonError,
    InvalidSamples,
    TokenOutOfRange,
    UnreadableSource,
    UnsupportedOption,
)
from attomaton.ragged import offsets_of
from attomaton.tables import Int32, Int64


@dataclass(frozen=True, eq=False)
class Documents:
    """A tokenised corpus: document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``.

    Attributes
    ----------
    ids : int32 array, shape (n_values,)
        All documents, one after the other.
    offsets : int64 array, shape (n_documents + 1,)
        Where each begins, and the end.
    vocabulary : Vocabulary, optional
        None for a corpus of ids whose tokenizer is not known.
    skipped : Skipped
        What could not be read.

    Examples
    --------
    >>> documents = read_corpus(["to be", "or not to be"])
    >>> list(documents.windows(window=2))[:2]  # no context crosses the border of a document
    [Sample(context=(0,), label=1), Sample(context=(2,), label=3)]
    """

    ids: Int32
    offsets: Int64
    vocabulary: Vocabulary | None
    skipped: Skipped = NOTHING_SKIPPED

    def __post_init__(self) -> None:
        """Refuse what later code must not be given; :meth:`windows` compares the ids with the vocabulary."""
        ids = check_int32(self.ids, "ids", error=TokenOutOfRange)
        offsets = check_int64(self.offsets, "offsets", error=InvalidSamples)
        check_offsets(offsets, len(ids), "offsets of documents", error=InvalidSamples)
        keep_checked(self, ids=ids, offsets=offsets)

    def windows(self, window: int) -> Samples:
        """Every position as a sample with up to ``window`` tokens of context."""
        n_tokens = None if self.vocabulary is None else len(self.vocabulary)
        return Samples.from_windows(self.ids, window=window, documents=self.offsets, n_tokens=n_tokens)


def read_text(path: str | Path, *, tokenizer: str = "word") -> Documents:
    """Read one UTF-8 text file as one document; the text ``"-"`` is standard input."""
    return read_text_and_digest(path, tokenizer)[0]


def read_text_and_digest(path: str | Path, tokenizer: str) -> tuple[Documents, str]:
    """One text file, and the SHA-256 of the very bytes that were read."""
    file = keep_standard_input() if path == STANDARD_INPUT else File(str(path), Path(path).name)
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
        ) from error
    text = decode(content.removeprefix(b"\xef\xbb\xbf"), file.source)
    vocabulary, ids = Vocabulary.from_text(text.replace("\r\n", "\n").replace("\r", "\n"), tokenizer)
    if len(ids) < 2:
        raise UnreadableSource(
            f"{file.source} has too few tokens ({len(ids)}): a sample needs a context and a label, so give "
            "more text"
        )
    borders = np.array([0, len(ids)], np.int64)
    return Documents(ids, borders, vocabulary), hashlib.sha256(content).hexdigest()


def read_corpus(source: Any, *, tokenizer: str = "word", reading: Reading | None = None) -> Documents:
    """Read a whole corpus into memory.

    Parameters
    ----------
    source : path, URL, sequence or dataset
        What :func:`find_readers` takes. A folder that :func:`tokenize_corpus` wrote keeps its vocabulary.
    tokenizer : str
        ``"word"``, ``"character"``, ``"byte"``, or the path of a ``tokenizer.json`` or ``.tiktoken`` file.
        A corpus of ids needs none; one with a fixed vocabulary then names the ids and bounds them.
    reading : Reading, optional
        How to read.

    Examples
    --------
    >>> documents = read_corpus(["to be", "or not to be"])
    >>> documents.ids.tolist(), documents.offsets.tolist(), documents.vocabulary.tokens
    ([0, 1, 2, 3, 0, 1], [0, 2, 6], ('to', 'be', 'or', 'not'))
    """
    if isinstance(source, str | Path) and is_tokenized(source):
        from attomaton.corpora.shards import read_tokens

        return read_tokens(source).documents()
    vocabulary = Vocabulary.fixed(tokenizer)
    asked = bounded(Reading() if reading is None else reading, vocabulary)
    numbering = Numbering(tokenizer)
    pieces: list[Int32] = []
    lengths: list[Int64] = []
    skipped, kinds = NOTHING_SKIPPED, set[str]()
    for reader in find_readers(source, asked):
        for batch in checked_batches(reader, asked):
            skipped += batch.skipped
            if not len(batch.rows):
                continue
            if isinstance(batch, TextBatch):
                kinds.add("text")
                offsets, ids = (numbering if vocabulary is None else vocabulary.encoder).encode(batch.texts)
            else:
                kinds.add("ids")
                offsets, ids = batch.offsets, batch.ids
            pieces.append(ids)
            lengths.append(np.diff(offsets))
    if vocabulary is None and "text" in kinds:
        refuse_mixture(kinds, tokenizer)
        vocabulary = Vocabulary(tuple(numbering.numbers), tokenizer)
    ids = np.concatenate([np.empty(0, np.int32), *pieces])
    return Documents(ids, offsets_of(np.concatenate([np.empty(0, np.int64), *lengths])), vocabulary, skipped)


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
    """Words or characters, numbered as they first appear.

    Examples
    --------
    >>> numbering = Numbering("word")
    >>> [numbering.encode([text])[1].tolist() for text in ("a rose is", "is a lily")]
    [[0, 1, 2], [2, 0, 3]]
    """

    def __init__(self, tokenizer: str) -> None:
        self.tokenizer = tokenizer
        self.numbers: dict[str, int] = {}

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
