"""The tokens by id, with the tokenizer that produces them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from attomaton.base.errors import CorruptRun, TokenOutOfRange
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int32, Int64, number_strings
from attomaton.corpora.tokenizers import encoders, subwords


@dataclass(frozen=True)
class Vocabulary:
    """The tokens by id, and the tokenizer that produces them.

    Attributes
    ----------
    tokens : tuple of str
        The text of each token; its index is the token id.
    tokenizer : str
        ``"word"``, ``"word-lower"``, ``"word-punct"``, ``"character"``, ``"byte"``, ``"tokenizer.json"``,
        ``"tiktoken"`` or ``"llama2.c"``.
    definition : str, optional
        The content of the tokenizer file, for the last three tokenizers.

    Examples
    --------
    >>> vocabulary, ids = Vocabulary.from_text("a rose is a rose")
    >>> vocabulary.tokens, ids.tolist(), vocabulary.encode("is a").tolist()
    (('a', 'rose', 'is'), [0, 1, 2, 0, 1], [2, 0])
    """

    tokens: tuple[str, ...]
    tokenizer: str = "word"
    definition: str | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} tokens, {self.tokenizer!r})"

    @classmethod
    def from_text(cls, text: str, tokenizer: str = "word") -> tuple["Vocabulary", Int32]:
        """The vocabulary of a text, fixed or in order of first appearance, and the ids of the text."""
        fixed = cls.fixed(tokenizer)
        if fixed is not None:
            return fixed, fixed.encode(text)
        tokens, ids = number_strings(encoders.find_tokenizer(tokenizer).split(text))
        return cls(tokens, tokenizer), ids

    @classmethod
    def fixed(cls, tokenizer: str) -> "Vocabulary | None":
        """The vocabulary of a tokenizer, by name or path, if it is fixed; None for words and characters."""
        if tokenizer == "byte":
            return cls(encoders.BYTE_TOKENS, "byte")
        if not subwords.is_subword_file(tokenizer):
            encoders.find_tokenizer(tokenizer)  # raises an error if there is none
            return None
        kind, definition = subwords.read_definition(tokenizer)
        return cls(subwords.subword_encoder(kind, definition).tokens(), kind, definition)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Vocabulary":
        """The inverse of :meth:`to_record`."""
        tokens = record.get("tokens")
        tokenizer = record.get("tokenizer")
        definition = record.get("definition")
        names: list[Any] = cast("list[Any]", tokens) if isinstance(tokens, list) else [None]
        are_texts = all(isinstance(name, str) for name in names)
        if not are_texts or not isinstance(tokenizer, str) or not isinstance(definition, str | None):
            raise CorruptRun("the tokens or the tokenizer of a vocabulary are missing; write it again")
        return cls(tuple(names), tokenizer, definition)

    def to_record(self) -> dict[str, Any]:
        """The vocabulary as plain values, for JSON."""
        record = {"tokenizer": self.tokenizer, "tokens": list(self.tokens)}
        return record if self.definition is None else {**record, "definition": self.definition}

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    @cached_property
    def encoder(self) -> encoders.Encoder:  # rebuilt from the definition, without the file of the tokenizer
        if self.definition is not None:
            return subwords.subword_encoder(self.tokenizer, self.definition)
        if self.tokenizer == "byte":
            return encoders.ByteEncoder()
        return encoders.TableEncoder(self.tokenizer, self.ids)

    def encode(self, text: str) -> Int32:
        """The token ids of a text; a token outside the vocabulary is an error that names it."""
        return self.encoder.encode([text])[1]

    def encode_open(self, text: str) -> tuple[Int32, tuple[str, ...]]:
        """The token ids of a text, and its words or characters outside the vocabulary.

        The first of these has the id ``len(vocabulary)``, the second ``len(vocabulary) + 1``, and so on.
        """
        if self.is_fixed:
            return self.encode(text), ()
        return self.number_open(encoders.find_tokenizer(self.tokenizer).split(text))

    def number_open(self, tokens: Sequence[str]) -> tuple[Int32, tuple[str, ...]]:
        """The ids of tokens, and the tokens outside the vocabulary, numbered as in :meth:`encode_open`."""
        unknown = dict.fromkeys(token for token in tokens if token not in self.ids)
        new = {token: number for number, token in enumerate(unknown, len(self))}
        ids = [new[token] if token in new else self.ids[token] for token in tokens]
        return np.array(ids, np.int32), tuple(unknown)

    def join(self, ids: Iterable[int], unknown: Sequence[str] = ()) -> str:
        """The text of consecutive ids; ids from ``len(vocabulary)`` on are the ``unknown`` tokens.

        Bytes that are not UTF-8 become replacement characters.
        """
        numbers = [int(index) for index in ids]
        if self.definition is not None:
            return cast("subwords.SubwordEncoder", self.encoder).decode(numbers)
        self.decode(index for index in numbers if index < len(self))  # raises an error if one is negative
        texts = (*self.tokens, *unknown)
        return encoders.find_tokenizer(self.tokenizer).join([texts[index] for index in numbers])

    def encode_all(self, texts: Sequence[str | Sequence[str]]) -> tuple[Int64, Int32]:
        """Encode many texts, or lists of tokens, as ``(offsets, ids)``."""
        plain = [text for text in texts if isinstance(text, str)]
        if len(plain) == len(texts):
            return self.encoder.encode(plain)
        lists = [self.encode(text) if isinstance(text, str) else self.lookup(text) for text in texts]
        offsets = offsets_of(np.array([len(ids) for ids in lists], np.int64))
        return offsets, np.concatenate([np.empty(0, np.int32), *lists])

    @property
    def before(self) -> tuple[int, ...]:
        """The special tokens, such as BOS, that a ``tokenizer.json`` puts before a text."""
        return self.encoder.before() if isinstance(self.encoder, subwords.HuggingFaceEncoder) else ()

    @property
    def is_fixed(self) -> bool:  # whether a tokenizer file, or the byte, defines all tokens
        return self.definition is not None or self.tokenizer == "byte"

    def lookup(self, tokens: Sequence[str]) -> Int32:
        """The ids of tokens, shape (len(tokens),); a token outside the vocabulary is an error."""
        unknown = {token for token in tokens if token not in self.ids}
        if unknown:
            raise encoders.unknown_token(unknown, len(self))
        return np.fromiter((self.ids[token] for token in tokens), np.int32, len(tokens))

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The tokens of ids."""
        numbers = list(ids)
        outside = [index for index in numbers if not 0 <= index < len(self)]
        if outside:
            raise TokenOutOfRange(
                f"id {outside[0]} is not in 0 … {len(self) - 1}, the ids of this vocabulary"
            )
        return [self.tokens[index] for index in numbers]


def name_token(vocabulary: Vocabulary | None, token: int) -> str:  # its text, or its id without a vocabulary
    return str(token) if vocabulary is None else vocabulary.tokens[token]


def text_of(vocabulary: Vocabulary | None, token: int) -> str:
    """The text of a token inside a line, with blanks; its name if the token alone has no text."""
    name = name_token(vocabulary, token)
    if vocabulary is None or vocabulary.tokenizer != "tokenizer.json":
        return name
    # the decoder may drop the first blank of a line, so the text is that of the second of two equal tokens
    text = vocabulary.join([token, token])[len(vocabulary.join([token])) :]
    # U+FFFD replaces bytes that are only a part of a character
    return name if not text or "\ufffd" in text else text


def vocabulary_records(vocabulary: Vocabulary | None) -> dict[str, Any]:
    return {} if vocabulary is None else {"vocabulary": vocabulary.to_record()}


def read_vocabulary(records: Mapping[str, Any], n_tokens: int) -> Vocabulary | None:
    """The vocabulary among the records of a folder, if there is one; it must name every token."""
    if records.get("vocabulary") is None:
        return None
    vocabulary = Vocabulary.from_record(records["vocabulary"])
    for text in (*vocabulary.tokens, vocabulary.tokenizer, vocabulary.definition or ""):
        text.encode()  # raises a ValueError if it is not valid Unicode
    if len(vocabulary) != n_tokens:
        raise ValueError(f"vocabulary.json has {len(vocabulary)} tokens, not {n_tokens}")
    return vocabulary
