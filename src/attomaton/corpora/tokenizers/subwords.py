"""Tokenizers of language models: a Hugging Face ``tokenizer.json``, or a tiktoken ranks file.

The ids are those that the libraries ``tokenizers`` and ``tiktoken`` give to plain text: no special tokens
are added, and nothing is truncated or padded. Text that looks like a special token is ordinary text for
tiktoken; a ``tokenizer.json`` says itself which added tokens it finds in text.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from attomaton.corpora.tokenizers.encoders import Encoder, ragged
from attomaton.corpora.tokenizers.patterns import SCHEMES
from attomaton.errors import MissingExtra, UnreadableSource, UnsupportedOption
from attomaton.tables import Int32, Int64

HUGGING_FACE = "tokenizer.json"
TIKTOKEN = "tiktoken"


class SubwordEncoder(Encoder, Protocol):
    """An encoder that brings its own vocabulary."""

    def tokens(self) -> tuple[str, ...]:
        """A name for each id; no two are equal."""
        ...


def is_subword_file(tokenizer: str) -> bool:
    """Whether the name of a tokenizer is the path of a file of one."""
    return tokenizer.endswith((".json", ".tiktoken"))


def read_definition(path: str) -> tuple[str, str]:
    """The kind of a tokenizer file, and all that is needed to make the tokenizer without the file."""
    file = Path(path)
    try:
        content = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableSource(f"{file} is not a tokenizer file: it is not UTF-8; give another") from error
    except OSError as error:
        raise UnreadableSource(
            f"the tokenizer {file} cannot be read: {error.strerror}; give the path of a tokenizer.json or "
            ".tiktoken file"
        ) from error
    kind = TIKTOKEN if file.suffix == ".tiktoken" else HUGGING_FACE
    definition = json.dumps({"scheme": file.stem, "ranks": content}) if kind == TIKTOKEN else content
    try:
        subword_encoder(kind, definition)
    except (UnreadableSource, UnsupportedOption) as error:
        raise type(error)(f"{file}: {error}") from error
    return kind, definition


@lru_cache(maxsize=4)
def subword_encoder(kind: str, definition: str) -> SubwordEncoder:
    """The encoder of a definition that :func:`read_definition` gave."""
    return TiktokenEncoder(definition) if kind == TIKTOKEN else HuggingFaceEncoder(definition)


class HuggingFaceEncoder:
    """A ``tokenizer.json``, run by the library ``tokenizers``."""

    def __init__(self, definition: str) -> None:
        try:
            import tokenizers
        except ModuleNotFoundError as error:
            raise _missing("a tokenizer.json", "tokenizers") from error
        library: Any = tokenizers
        try:
            self._tokenizer = library.Tokenizer.from_str(definition)
        except Exception as error:  # the library raises no narrower one
            raise UnreadableSource(f"not a tokenizer.json ({error}); give another file") from error
        if getattr(self._tokenizer.model, "dropout", None):
            raise UnsupportedOption(
                "the tokenizer drops merges at random, so a text has no fixed ids; set its dropout to null"
            )
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        """The texts as ids."""
        found = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return ragged([one.ids for one in found])

    def tokens(self) -> tuple[str, ...]:
        """The tokens as the file spells them (GPT-2 writes a space as ``Ġ``)."""
        return _name_all({index: token for token, index in self._tokenizer.get_vocab().items()})


class TiktokenEncoder:
    """A ranks file, run by the library ``tiktoken``; its name says which pattern splits the text."""

    def __init__(self, definition: str) -> None:
        try:
            import tiktoken
        except ModuleNotFoundError as error:
            raise _missing("a .tiktoken file", "tiktoken") from error
        stored = json.loads(definition)
        if stored["scheme"] not in SCHEMES:
            raise UnsupportedOption(
                f"a ranks file does not hold its splitting pattern, and none is known for "
                f"{stored['scheme']!r}; name it as one of {', '.join(sorted(SCHEMES))}, or give a "
                "tokenizer.json"
            )
        scheme = SCHEMES[stored["scheme"]]
        self._ranks = _parse_ranks(stored["ranks"])
        if len(self._ranks) != scheme.n_ranks:
            raise UnreadableSource(
                f"{len(self._ranks):,} ranks, but {stored['scheme']} has {scheme.n_ranks:,}; restore the file"
            )
        self._special = dict(scheme.special)
        try:
            self._encoding = tiktoken.Encoding(
                stored["scheme"],
                pat_str=scheme.pattern,
                mergeable_ranks=self._ranks,
                special_tokens=self._special,
            )
        except Exception as error:
            raise UnreadableSource(f"not a ranks file ({error}); give another file") from error

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        """The texts as ids."""
        return ragged([self._encoding.encode_ordinary(text) for text in texts])

    def tokens(self) -> tuple[str, ...]:
        """The tokens as text; a byte that is no UTF-8 is shown like ``<0xE9>``."""
        names = {index: _show(token) for token, index in self._ranks.items()}
        return _name_all({**names, **{index: token for token, index in self._special.items()}})


def _parse_ranks(content: str) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                token, rank = line.split()
                ranks[base64.b64decode(token, validate=True)] = int(rank)
            except (ValueError, binascii.Error) as error:
                raise UnreadableSource(
                    f"line {number} is not a token in base64 and its rank; restore the file"
                ) from error
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing or min(ranks.values()) < 0:
        raise UnreadableSource(
            "the ranks do not hold every single byte with a rank from 0 on; restore the file"
        )
    return ranks


def _show(token: bytes) -> str:
    shown = token.decode("utf-8", errors="surrogateescape")
    return "".join(f"<0x{ord(c) - 0xDC00:02X}>" if "\udc80" <= c <= "\udcff" else c for c in shown)


def _name_all(names: Mapping[int, str]) -> tuple[str, ...]:
    """A name for each id from 0 to the largest; ids without one, or with another's, are named by number."""
    taken: set[str] = set()
    named: list[str] = []
    for index in range(max(names, default=-1) + 1):
        name = names.get(index)
        named.append(f"<id {index}>" if name is None or name in taken else name)
        taken.add(named[-1])
    return tuple(named)


def _missing(what: str, library: str) -> MissingExtra:
    return MissingExtra(f"{what} needs the library {library}: pip install 'attomaton[hf]'")
