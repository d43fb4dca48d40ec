"""Split texts into tokens, and encode many texts as ids at once.

The word tokenizer splits at white space and turns line ends into ``<eos>``, as WikiText language models do.
"""

import re
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, Protocol
from unicodedata import category

import numpy as np

from attomaton.base.errors import AttomatonError, UnknownToken, UnreadableSource, UnsupportedOption
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int32, Int64, number_strings
from attomaton.corpora.budgets import brief

EOS = "<eos>"
SHOWN_TOKENS = 5  # unknown tokens that an error lists

RESTORE_TOKENIZER = "download the file again"
ANOTHER_TOKENIZER = "download the file again, or use another tokenizer"

# The token of each byte: the character if it is printable ASCII, otherwise like `<0x0A>`.
BYTE_TOKENS = tuple(chr(byte) if 0x20 <= byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256))


def split_words(text: str) -> list[str]:
    """Words between white space; a line end, like a word written ``<eos>``, is the token ``<eos>``."""
    return text.replace("\n", f" {EOS} ").split()


def split_lower(text: str) -> list[str]:
    return split_words(text.lower())


def split_punctuation(text: str) -> list[str]:
    """Lowercase words, with punctuation and symbols as separate tokens; a line end is the token ``<eos>``."""
    lines = text.lower().replace("\n", EOS).split(EOS)
    first, *others = (_SIGN.sub(_set_apart, line).split() for line in lines)
    return first + [token for line in others for token in (EOS, *line)]


_SIGN = re.compile(r"[^\w\s]")  # the underscore is in \w, so it is a part of a word


# A sign between spaces, so that it becomes a token; an apostrophe between letters or digits is left as it is.
# At the start of the line, the slice before the sign is empty, and so is not alphanumeric.
def _set_apart(match: re.Match[str]) -> str:
    sign = match[0]
    before = match.string[match.start() - 1 : match.start()]
    after = match.string[match.end() : match.end() + 1]
    is_inner = sign in "'’" and before.isalnum() and after.isalnum()
    return sign if is_inner or not _is_sign(sign) else f" {sign} "


@lru_cache(maxsize=1 << 16)
def _is_sign(character: str) -> bool:
    return category(character)[0] in "PS"  # punctuation or symbol, in the categories of Unicode


def join_words(tokens: Sequence[str]) -> str:
    """Words separated by spaces, with a line end for ``<eos>``: the inverse of :func:`split_words`."""
    text = " ".join("\n" if token == EOS else token for token in tokens)
    return text.replace(" \n", "\n").replace("\n ", "\n")


def split_bytes(text: str) -> list[str]:
    return [BYTE_TOKENS[byte] for byte in text.encode("utf-8")]


def join_bytes(tokens: Sequence[str]) -> str:
    return bytes(map(BYTE_TOKENS.index, tokens)).decode("utf-8", errors="replace")


class Tokenizer(NamedTuple):
    """A tokenizer without a vocabulary: ``split`` splits a text that ``join`` makes into the same tokens."""

    split: Callable[[str], list[str]]
    join: Callable[[Sequence[str]], str]


TOKENIZERS: dict[str, Tokenizer] = {
    "word": Tokenizer(split_words, join_words),
    "word-lower": Tokenizer(split_lower, join_words),
    "word-punct": Tokenizer(split_punctuation, join_words),
    "character": Tokenizer(list[str], "".join),
    "byte": Tokenizer(split_bytes, join_bytes),
}


def find_tokenizer(name: str) -> Tokenizer:
    if name not in TOKENIZERS:
        raise UnsupportedOption(
            f"the tokenizer {name!r} is unknown; choose one of {', '.join(TOKENIZERS)}, or give the path of "
            "a tokenizer.json or .tiktoken file"
        )
    return TOKENIZERS[name]


class Encoder(Protocol):
    """A tokenizer with its token ids.

    Examples
    --------
    >>> from attomaton.corpora.tokenizers import Vocabulary
    >>> Vocabulary.from_text("a rose is a rose")[0].encoder.encode(["a rose", "", "is"])[1].tolist()
    [0, 1, 2]
    """

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        """Encode texts: ``(offsets, ids)``; text ``i`` has the ids ``ids[offsets[i]:offsets[i + 1]]``."""
        ...


@dataclass(frozen=True)
class TableEncoder:
    """Encodes words or characters by a table of ids; a token outside the table is an error."""

    tokenizer: str
    numbers: Mapping[str, int]

    def encode(self, texts: Sequence[str | Sequence[str]]) -> tuple[Int64, Int32]:
        lists = split_all(texts, self.tokenizer)
        # the table is read once for each distinct token: all tokens are distinct[indices]
        distinct, indices = number_strings(list(chain.from_iterable(lists)))
        unknown = {token for token in distinct if token not in self.numbers}
        if unknown:
            raise unknown_token(unknown, len(self.numbers))
        ids = np.fromiter((self.numbers[token] for token in distinct), np.int32, len(distinct))
        return _lengths_to_offsets([len(tokens) for tokens in lists]), ids[indices]


@dataclass(frozen=True)
class ByteEncoder:
    """Encodes a text as its bytes in UTF-8; the id is the byte."""

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        encoded = [text.encode("utf-8") for text in texts]
        ids = np.frombuffer(b"".join(encoded), np.uint8).astype(np.int32)
        return _lengths_to_offsets([len(text_bytes) for text_bytes in encoded]), ids


def split_all(texts: Sequence[str | Sequence[str]], tokenizer: str) -> list[Sequence[str]]:
    split = find_tokenizer(tokenizer).split
    return [split(text) if isinstance(text, str) else text for text in texts]


def distinct_tokens(texts: Sequence[str | Sequence[str]], tokenizer: str) -> tuple[str, ...]:
    return number_strings(list(chain.from_iterable(split_all(texts, tokenizer))))[0]


def ragged(lists: Sequence[Sequence[int]]) -> tuple[Int64, Int32]:  # as (offsets, ids), like Encoder.encode
    offsets = _lengths_to_offsets([len(ids) for ids in lists])
    return offsets, np.fromiter(chain.from_iterable(lists), np.int32, int(offsets[-1]))


def unknown_token(unknown: Collection[str], n_tokens: int) -> UnknownToken:
    shown = ", ".join(repr(brief(token)) for token in sorted(unknown)[:SHOWN_TOKENS])
    return UnknownToken(
        f"not in the vocabulary of {n_tokens:,} tokens: {shown}; check case and punctuation, leave this "
        "out, or learn from a corpus that contains it"
    )


def show_bytes(token: bytes) -> str:
    """A token as text.

    A byte that is not UTF-8 is written like `<0xE2>`. Python decodes the byte b as the lone surrogate 0xDC00
    + b, where b is 0x80 or more.
    """
    text = token.decode("utf-8", errors="surrogateescape")
    return "".join(f"<0x{ord(c) - 0xDC00:02X}>" if "\udc80" <= c <= "\udcff" else c for c in text)


def name_all(names: Mapping[int, str]) -> tuple[str, ...]:
    """A name for each id from 0 to the largest; an id without a unique name is named by its number."""
    used: dict[str, int] = {}
    for index in range(max(names, default=-1) + 1):
        name = names.get(index)
        used[f"<id {index}>" if name is None or name in used else name] = index
    return tuple(used)


def _lengths_to_offsets(lengths: list[int]) -> Int64:
    return offsets_of(np.array(lengths, np.int64))


@contextmanager
def running(failure: str) -> Generator[None]:
    """Convert the errors of a tokenizer library, including panics, which are not an ``Exception``."""
    try:
        yield
    except (AttomatonError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        reason = brief(str(error).strip() or type(error).__name__)
        raise UnreadableSource(f"{failure} ({reason}); {ANOTHER_TOKENIZER}") from error
