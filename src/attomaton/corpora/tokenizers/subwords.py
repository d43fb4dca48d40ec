"""Tokenizers of language models: ``tokenizer.json``, a tiktoken ranks file, or a ``.bin`` of llama2.c.

The ids are those that the libraries ``tokenizers`` and ``tiktoken`` give to plain text: no special tokens
are added, and nothing is truncated or padded. Text that looks like a special token is ordinary text for
tiktoken; a ``tokenizer.json`` says itself which added tokens it finds in text.
"""

import base64
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from attomaton.base.errors import AttomatonError, UnreadableSource, UnsupportedOption, needing
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.budgets import TOKENIZER_BYTES, VOCABULARY, open_regular, shown
from attomaton.corpora.tokenizers.definitions import check_json, parse_ranks, running
from attomaton.corpora.tokenizers.encoders import Encoder, name_all, ragged, show_bytes
from attomaton.corpora.tokenizers.llama2c import LLAMA2C, Llama2cEncoder
from attomaton.corpora.tokenizers.patterns import SCHEMES

HUGGING_FACE = "tokenizer.json"
TIKTOKEN = "tiktoken"


class SubwordEncoder(Encoder, Protocol):
    """An encoder that brings its own vocabulary."""

    def tokens(self) -> tuple[str, ...]:
        """A name for each id; no two are equal."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids in a row; bytes that are no UTF-8 are shown as a replacement character."""
        ...


def is_subword_file(tokenizer: str) -> bool:
    """Whether the name of a tokenizer is the path of a file of one."""
    return tokenizer.endswith((".json", ".tiktoken", ".bin"))


def read_definition(path: str) -> tuple[str, str]:
    """The kind of a tokenizer file, and all that is needed to make the tokenizer without the file."""
    file = Path(path)
    try:
        with open_regular(file) as stream:
            read = stream.read(TOKENIZER_BYTES + 1)
            packed = base64.b64encode(read) if file.suffix == ".bin" else read
            content = packed.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableSource(f"{file} is not a tokenizer file: it is not UTF-8; give another") from error
    except OSError as error:
        if isinstance(error, AttomatonError):
            raise
        raise UnreadableSource(
            f"the tokenizer {file} cannot be read: {error.strerror}; give the path of a tokenizer.json, "
            ".tiktoken or .bin file"
        ) from error
    if len(content) > TOKENIZER_BYTES:
        raise UnreadableSource(
            f"{file} has more than {TOKENIZER_BYTES:,} characters, as no tokenizer has; give another file"
        )
    kind = {".tiktoken": TIKTOKEN, ".bin": LLAMA2C}.get(file.suffix, HUGGING_FACE)
    definition = json.dumps({"scheme": file.stem, "ranks": content}) if kind == TIKTOKEN else content
    try:
        subword_encoder(kind, definition)
    except (UnreadableSource, UnsupportedOption) as error:
        raise type(error)(f"{file}: {error}") from error
    return kind, definition


@lru_cache(maxsize=4)
def subword_encoder(kind: str, definition: str) -> SubwordEncoder:
    """The encoder of a definition that :func:`read_definition` gave."""
    if kind == LLAMA2C:
        return Llama2cEncoder(definition)
    return TiktokenEncoder(definition) if kind == TIKTOKEN else HuggingFaceEncoder(definition)


class HuggingFaceEncoder:
    """A ``tokenizer.json``, run by the library ``tokenizers``."""

    def __init__(self, definition: str) -> None:
        with needing("a tokenizer.json"):
            import tokenizers
        library: Any = tokenizers
        check_json(definition)
        with running("not a tokenizer.json"):
            self._tokenizer = library.Tokenizer.from_str(definition)
            self._names = {index: token for token, index in self._tokenizer.get_vocab().items()}
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
            dropout = getattr(self._tokenizer.model, "dropout", None)
        if dropout:
            raise UnsupportedOption(
                "the tokenizer drops merges at random, so a text has no fixed ids; set its dropout to null"
            )
        self._n_tokens = max(self._names, default=-1) + 1
        if self._n_tokens > VOCABULARY:
            raise UnreadableSource(
                f"the tokenizer numbers its tokens up to {self._n_tokens - 1}, and ids are below "
                f"{VOCABULARY:,}; give another file"
            )

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        """The texts as ids."""
        with running("the tokenizer has no ids for a part of the text"):
            found = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
            lists = [one.ids for one in found]
        largest = max((max(ids) for ids in lists if ids), default=0)
        if largest >= max(1, self._n_tokens):
            raise UnreadableSource(
                f"the tokenizer gives the id {largest}, and its vocabulary ends before {self._n_tokens}; "
                "give another file"
            )
        return ragged(lists)

    def tokens(self) -> tuple[str, ...]:
        """The tokens as the file spells them (GPT-2 writes a space as ``Ġ``)."""
        return name_all(self._names)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids in a row, as the file's decoder joins them; an id without a token adds nothing."""
        with running("the tokenizer cannot join its tokens"):
            return self._tokenizer.decode(list(ids), skip_special_tokens=False)


class TiktokenEncoder:
    """A ranks file, run by the library ``tiktoken``; its name says which pattern splits the text."""

    def __init__(self, definition: str) -> None:
        with needing("a .tiktoken file"):
            import tiktoken
        name, content = _stored_ranks(definition)
        if name not in SCHEMES:
            raise UnsupportedOption(
                f"a ranks file does not hold its splitting pattern, and none is known for "
                f"{shown(name)!r}; name it as one of {', '.join(sorted(SCHEMES))}, or give a "
                "tokenizer.json"
            )
        scheme = SCHEMES[name]
        self._ranks = parse_ranks(content, scheme.n_ranks + len(scheme.special) + 1)
        if len(self._ranks) != scheme.n_ranks:
            raise UnreadableSource(
                f"{len(self._ranks):,} ranks, but {name} has {scheme.n_ranks:,}; restore the file"
            )
        self._special = dict(scheme.special)
        taken = set(self._ranks.values()) & set(self._special.values())
        if taken:
            raise UnreadableSource(f"the rank {min(taken)} is that of a special token; restore the file")
        with running("not a ranks file"):
            self._encoding = tiktoken.Encoding(
                name, pat_str=scheme.pattern, mergeable_ranks=self._ranks, special_tokens=self._special
            )

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        """The texts as ids."""
        with running("the tokenizer has no ids for a part of the text"):
            lists = [self._encoding.encode_ordinary(text) for text in texts]
        return ragged(lists)

    def tokens(self) -> tuple[str, ...]:
        """The tokens as text; a byte that is no UTF-8 is shown like ``<0xE9>``."""
        names = {index: show_bytes(token) for token, index in self._ranks.items()}
        return name_all({**names, **{index: token for token, index in self._special.items()}})

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids in a row; an id between the ranks that has no token adds nothing."""
        texts = {index: token.encode() for token, index in self._special.items()}
        texts.update({index: token for token, index in self._ranks.items()})
        return b"".join(texts.get(index, b"") for index in ids).decode("utf-8", errors="replace")


def _stored_ranks(definition: str) -> tuple[str, str]:
    """The name of the scheme and the ranks, from what a run has stored."""
    try:
        stored = json.loads(definition)
        return str(stored["scheme"]), str(stored["ranks"])
    except (ValueError, RecursionError, TypeError, LookupError) as error:
        raise UnreadableSource("not the definition of a ranks file; give another file") from error
