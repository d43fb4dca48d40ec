"""Tokenizers that are a function from a text to its tokens.

The word tokenizer splits at white space and turns each line end into ``<eos>``, as the WikiText language
models do.
"""

from collections.abc import Callable, Sequence

from attomaton.errors import UnsupportedOption

EOS = "<eos>"

BYTES = tuple(chr(byte) if 0x20 <= byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256))
"""The token of each byte: itself if it is printable ASCII, else like ``<0x0A>``."""


def split_words(text: str) -> list[str]:
    r"""Words between white space; each line end is the token ``<eos>``, and so is a word written ``<eos>``.

    Examples
    --------
    >>> split_words("to be or\nnot")
    ['to', 'be', 'or', '<eos>', 'not']
    """
    return text.replace("\n", f" {EOS} ").split()


def split_bytes(text: str) -> list[str]:
    r"""The bytes of the text in UTF-8.

    Examples
    --------
    >>> split_bytes("é\n")
    ['<0xC3>', '<0xA9>', '<0x0A>']
    """
    return [BYTES[byte] for byte in text.encode("utf-8")]


def join_words(tokens: Sequence[str]) -> str:
    r"""Words with blanks between them and a line end for each ``<eos>``: :func:`split_words` undoes it.

    Examples
    --------
    >>> join_words(["to", "be", "or", "<eos>", "not"])
    'to be or\nnot'
    """
    text = " ".join("\n" if token == EOS else token for token in tokens)
    return text.replace(" \n", "\n").replace("\n ", "\n")


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "word": split_words,
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
