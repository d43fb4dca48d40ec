"""What all readers share: options, batches of documents, and what happens to bad documents.

A reader reads each document with :func:`attempt`, which returns an error instead of raising it.
:meth:`Skips.filter` then raises the error, or counts it and continues, as the option ``skip_bad`` says.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np

from attomaton.base.errors import AttomatonError, UnreadableSource, UnsupportedOption
from attomaton.base.options import Checked, checked, choice, flag, show, whole_number
from attomaton.base.printing import show_hidden
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int32, Int64, Integers
from attomaton.corpora.samples import ID_CURE, MAX_TOKENS, NOTHING_SKIPPED, Skipped, check_range

TEXT_BATCH_BYTES = 1 << 20  # size at which a batch of texts is closed: 1 MB, or one document
RAISE_LIMIT = "raise the limit with Reading(max_bytes=…)"
# Number types of a `.bin` stream, little-endian.
TOKEN_TYPES = ("uint16", "uint32", "int32", "int64")

LIST_ITEM_BYTES = 8  # of the reference to a token in a list

# A document as text, or as a list of tokens if it is already split.
Text = str | Sequence[str]

Read = TypeVar("Read")
Arguments = ParamSpec("Arguments")


def _check_name(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise UnsupportedOption(f"{name} is {show(value)}, not a name; give a name, or leave {name} out")
    return value


@dataclass(frozen=True)
class Reading(Checked):
    """How to read a corpus; each reader uses the options that concern it.

    Attributes
    ----------
    column : str, optional
        The field of JSON, or the column of a table, that contains the documents. By default it is ``text`` in
        JSON, and in a table it is found by name and type.
    documents : str
        What a document is in plain text: the whole ``"file"``, or each ``"line"``.
    separator : int, optional
        The id that ends each document in a stream of ids, and belongs to it. By default a stream is one
        document.
    dtype : str
        The number type of a ``.bin`` file: ``uint16``, ``uint32``, ``int32`` or ``int64``.
    max_bytes : int
        The maximum size of a stored document. A longer document is refused before it is loaded into memory.
    skip_bad : bool
        Whether to skip and count unreadable documents and empty files. A damaged file is still an error.
    n_tokens : int
        The limit that all ids must be below.
    format : str, optional
        The file format, such as ``"jsonl"``, ``"csv"`` or ``"txt"``. By default the suffix of each file
        decides, and standard input is plain text.

    Examples
    --------
    >>> import attomaton as at
    >>> at.read_corpus([5, 1, 0, 3, 0], reading=Reading(separator=0)).offsets.tolist()
    [0, 3, 5]
    """

    column: str | None = field(default=None, metadata=checked(_check_name))
    documents: str = field(default="file", metadata=checked(choice, options=("file", "line")))
    separator: int | None = field(default=None, metadata=checked(whole_number))
    dtype: str = field(default="uint16", metadata=checked(choice, options=tuple(TOKEN_TYPES)))
    max_bytes: int = field(default=1 << 26, metadata=checked(whole_number, least=1))
    skip_bad: bool = field(default=False, metadata=checked(flag))
    n_tokens: int = field(default=MAX_TOKENS, metadata=checked(whole_number, most=MAX_TOKENS))
    format: str | None = field(default=None, metadata=checked(_check_name))

    def to_record(self) -> dict[str, Any]:
        """The options, for JSON; ``format`` only if it is set, because older records do not have it."""
        return {name: value for name, value in asdict(self).items() if (name, value) != ("format", None)}


def as_reading(reading: object) -> Reading:  # the argument `reading` of a user, checked
    if reading is None:
        return Reading()
    if not isinstance(reading, Reading):
        raise UnsupportedOption(f"reading is of type {type(reading).__name__}; give an attomaton.Reading")
    return reading


def refuse_reading(reading: Reading, corpus: str) -> None:
    """Refuse options without effect on a corpus of token ids that are split into documents."""
    harmless = {"column": (None, "tokens"), "documents": ("file",), "format": (None, "parquet")}
    for name, values in harmless.items():
        if getattr(reading, name) not in values:
            raise UnsupportedOption(
                f"{name} is {show(getattr(reading, name))}, but {corpus} is already token ids in documents; "
                f"leave {name} out"
            )


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Consecutive documents, as texts or as lists of tokens; document ``i`` comes from row ``rows[i]``."""

    texts: Sequence[Text]
    rows: Int64
    skipped: Skipped = NOTHING_SKIPPED


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Consecutive documents: document ``i`` has ``ids[offsets[i]:offsets[i + 1]]``, from ``rows[i]``."""

    offsets: Int64
    ids: Int32
    rows: Int64
    skipped: Skipped = NOTHING_SKIPPED


Batch = TextBatch | TokenBatch


def unpacked_bytes(batch: Batch) -> int:
    if isinstance(batch, TextBatch):
        return sum(map(text_size, batch.texts))
    return batch.ids.nbytes


def text_size(text: Text) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text)) + LIST_ITEM_BYTES * len(text)


class Reader(Protocol):
    """A reader of one file, or of one object in memory.

    ``source`` is its name in messages, and ``name`` its name in the corpus. ``has_columns`` is whether
    ``Reading.column`` selects a column, and ``portable`` whether another process can read the source.
    ``batches`` yields the documents in order, a few megabytes at a time. ``digest`` is the SHA-256 of the
    content. ``stored`` is the size on disk in bytes, if that is known.
    """

    @property
    def has_columns(self) -> bool: ...
    @property
    def source(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def portable(self) -> bool: ...
    def batches(self) -> Iterator[Batch]: ...
    def digest(self) -> str: ...
    def stored(self) -> int | None: ...


class ObjectReader:
    """Base of the readers of objects in memory, which no other process can read."""

    name = "memory"
    portable = False

    def stored(self) -> None:
        return None


def attempt(
    read: Callable[Arguments, Read], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Read | AttomatonError:
    """The document that ``read`` returns, or its error, which :class:`Skips` raises or counts."""
    try:
        return read(*arguments, **options)
    except AttomatonError as error:
        return error


class Skips:
    """Raises the errors of bad documents, or counts them if ``skip_bad`` is set."""

    def __init__(self, reading: Reading) -> None:
        self._allowed = reading.skip_bad
        self._skipped = Skipped()

    def add(self, error: AttomatonError) -> None:  # raises it if skipping is not allowed
        if not self._allowed:
            raise error
        self._skipped += Skipped(1, show_hidden(str(error)))

    def filter(self, results: Iterable[tuple[int, Read | AttomatonError]]) -> Iterator[tuple[int, Read]]:
        """Yield the documents among the results of :func:`attempt`, each with its row."""
        for row, result in results:
            if isinstance(result, AttomatonError):
                self.add(result)
            else:
                yield row, result

    def take(self) -> Skipped:
        """What was skipped since the last call: each batch reports its own."""
        skipped = self._skipped
        self._skipped = Skipped()
        return skipped


def checked_text(text: str, location: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnreadableSource(
            f"{location} is not Unicode: character {error.start} is the surrogate "
            f"U+{ord(text[error.start]):04X}; correct it"
        ) from error
    return text


def too_long(location: str, reading: Reading, *, advice: str) -> UnreadableSource:
    return UnreadableSource(
        f"{location} is longer than {reading.max_bytes:,} bytes; {advice}, or {RAISE_LIMIT}"
    )


def checked_ids(ids: Integers, location: str, n_tokens: int) -> Integers:
    check_range(ids, n_tokens, lambda index: f"{location.rstrip(',')}, position {index},", ID_CURE)
    return ids


def token_batch(lists: Sequence[Integers], rows: Sequence[int], skips: Skips) -> TokenBatch:
    """A batch of these documents, and of what was skipped between them.

    Without documents its arrays are empty.
    """
    offsets = offsets_of(np.array([len(ids) for ids in lists], np.int64))
    joined = np.concatenate([np.empty(0, np.int32), *lists]).astype(np.int32)
    return TokenBatch(offsets, joined, np.array(rows, np.int64), skips.take())
