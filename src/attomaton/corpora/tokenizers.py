"""Text to token ids and back.

The word tokenizer splits at white space and turns each line end into ``<eos>``, as the WikiText language
models do.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.errors import TokenOutOfRange, UnknownToken, UnsupportedOption
from attomaton.tables import Int32, number_strings

EOS = "<eos>"


def split_words(text: str) -> list[str]:
    r"""Words between white space; each line end is the token ``<eos>``, and so is a word written ``<eos>``.

    Examples
    --------
    >>> split_words("to be or\nnot")
    ['to', 'be', 'or', '<eos>', 'not']
    """
    return text.replace("\n", f" {EOS} ").split()


TOKENIZERS = {"word": split_words}
"""Name of a tokenizer → the function that splits a text into tokens."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens by id, and the tokenizer that makes them.

    Examples
    --------
    >>> vocabulary, ids = Vocabulary.from_text("a rose is a rose")
    >>> vocabulary.tokens, ids.tolist(), vocabulary.encode("is a").tolist()
    (('a', 'rose', 'is'), [0, 1, 2, 0, 1], [2, 0])
    """

    tokens: tuple[str, ...]
    tokenizer: str = "word"

    @classmethod
    def from_text(cls, text: str, tokenizer: str = "word") -> tuple["Vocabulary", Int32]:
        """The vocabulary of a text, in order of first appearance, and the text as ids."""
        tokens, ids = number_strings(_splitter(tokenizer)(text))
        return cls(tokens, tokenizer), ids

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Token → id."""
        return {token: index for index, token in enumerate(self.tokens)}

    def encode(self, text: str) -> Int32:
        """A text as token ids; a token outside the vocabulary is an error that names it."""
        return self.lookup(_splitter(self.tokenizer)(text))

    def lookup(self, tokens: Sequence[str]) -> Int32:
        """The ids of tokens, shape (len(tokens),)."""
        unknown = sorted({token for token in tokens if token not in self.ids})
        if unknown:
            raise UnknownToken(
                f"not among the {len(self):,} tokens of the vocabulary: {', '.join(map(repr, unknown[:5]))}; "
                "leave that out, mind case and punctuation, or learn from a corpus that has it"
            )
        return np.fromiter((self.ids[token] for token in tokens), np.int32, len(tokens))

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The tokens of ids."""
        wanted = list(ids)
        outside = [index for index in wanted if not 0 <= index < len(self)]
        if outside:
            raise TokenOutOfRange(
                f"id {outside[0]} is not in 0 … {len(self) - 1}; give ids of this vocabulary"
            )
        return [self.tokens[index] for index in wanted]


def _splitter(tokenizer: str) -> Callable[[str], list[str]]:
    if tokenizer not in TOKENIZERS:
        raise UnsupportedOption(
            f"there is no tokenizer {tokenizer!r}; choose one of {', '.join(sorted(TOKENIZERS))}"
        )
    return TOKENIZERS[tokenizer]
