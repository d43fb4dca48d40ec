"""Tokenizers that are a function from a text to its tokens.

The word tokenizer splits at white space and turns each line end into ``<eos>``, as the WikiText language
models do. Its variants make small letters of capitals, and split punctuation off.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from unicodedata import category

from attomaton.base.errors import UnsupportedOption

EOS = "<eos>"

BYTES = tuple(chr(byte) if 0x20 <= byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256))
"""The token of each byte: itself if it is printable ASCII, else like ``<0x0A>``."""


def split_words(text: str) -> list[str]:
    r"""Words between white space; a line end is the token ``<eos>``, and so is a word written ``<eos>``."""
    return text.replace("\n", f" {EOS} ").split()


def split_lower_words(text: str) -> list[str]:
    r"""The words of the text in small letters; each line end is the token ``<eos>``."""
    return split_words(text.lower())


def split_punctuation(text: str) -> list[str]:
    r"""Words in small letters and signs by themselves; each line end is the token ``<eos>``.

    A sign is a character that Unicode calls punctuation or a symbol. The underscore and an apostrophe between
    two letters or digits are parts of a word.
    """
    lines = text.lower().replace("\n", EOS).split(EOS)
    split = [_SIGN.sub(_set_apart, line).split() for line in lines]
    return [token for number, line in enumerate(split) for token in ([EOS, *line] if number else line)]


_SIGN = re.compile(r"[^\w\s]")


def _set_apart(found: re.Match[str]) -> str:
    sign = found[0]
    inner = sign in "'’" and found.string[found.start() - 1 : found.start()].isalnum()
    inner = inner and found.string[found.end() : found.end() + 1].isalnum()
    return sign if inner or not _is_sign(sign) else f" {sign} "


@lru_cache(maxsize=1 << 16)
def _is_sign(character: str) -> bool:
    return category(character)[0] in "PS"


def split_bytes(text: str) -> list[str]:
    r"""The bytes of the text in UTF-8."""
    return [BYTES[byte] for byte in text.encode("utf-8")]


def join_words(tokens: Sequence[str]) -> str:
    r"""Words with blanks between them and a line end for each ``<eos>``: :func:`split_words` undoes it."""
    text = " ".join("\n" if token == EOS else token for token in tokens)
    return text.replace(" \n", "\n").replace("\n ", "\n")


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "word": split_words,
    "word-lower": split_lower_words,
    "word-punct": split_punctuation,
    "character": list[str],
    "byte": split_bytes,
}
"""Name of a tokenizer → the function that splits a text into tokens."""


def find_splitter(tokenizer: str) -> Callable[[str], list[str]]:
    """The function of a named tokenizer."""
    if tokenizer not in TOKENIZERS:
        raise UnsupportedOption(
            f"there is no tokenizer {tokenizer!r}; choose one of {', '.join(TOKENIZERS)}, "
            "or give the path of a tokenizer.json or .tiktoken file"
        )
    return TOKENIZERS[tokenizer]
