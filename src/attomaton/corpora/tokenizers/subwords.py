"""Read tokenizer files of language models: ``tokenizer.json``, ``.tiktoken``, and ``.bin`` of llama2.c.

The ids are those of the libraries ``tokenizers`` and ``tiktoken`` for plain text: no special tokens are
added, and nothing is truncated or padded. For tiktoken, text that looks like a special token is ordinary
text. A ``tokenizer.json`` itself defines which added tokens it finds in text.
"""

import base64
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from attomaton.base.errors import AttomatonError, UnreadableSource, UnsupportedOption
from attomaton.corpora.budgets import TOKENIZER_BYTES, open_regular
from attomaton.corpora.tokenizers.encoders import Encoder
from attomaton.corpora.tokenizers.huggingface import HUGGING_FACE, HuggingFaceEncoder
from attomaton.corpora.tokenizers.llama2c import LLAMA2C, Llama2cEncoder
from attomaton.corpora.tokenizers.ranks import TIKTOKEN, TiktokenEncoder


class SubwordEncoder(Encoder, Protocol):
    """An encoder with its own vocabulary."""

    def tokens(self) -> tuple[str, ...]:
        """A unique name for each id."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of consecutive ids; bytes that are not UTF-8 become replacement characters."""
        ...


def is_subword_file(tokenizer: str) -> bool:
    return tokenizer.endswith((".json", ".tiktoken", ".bin"))


def read_definition(path: str) -> tuple[str, str]:
    """The kind and the definition of a tokenizer file, from which it can be rebuilt without the file."""
    file = Path(path)
    try:
        with open_regular(file) as stream:
            blob = stream.read(TOKENIZER_BYTES + 1)
            content = (base64.b64encode(blob) if file.suffix == ".bin" else blob).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableSource(f"{file} is not UTF-8, so not a tokenizer file; give another file") from error
    except OSError as error:
        if isinstance(error, AttomatonError):
            raise
        raise UnreadableSource(
            f"the tokenizer {file} cannot be read: {error.strerror}; give the path of a tokenizer.json, "
            ".tiktoken or .bin file"
        ) from error
    if len(content) > TOKENIZER_BYTES:
        raise UnreadableSource(f"{file} has more than {TOKENIZER_BYTES:,} characters; use another tokenizer")
    kind = {".tiktoken": TIKTOKEN, ".bin": LLAMA2C}.get(file.suffix, HUGGING_FACE)
    definition = json.dumps({"scheme": file.stem, "ranks": content}) if kind == TIKTOKEN else content
    try:
        subword_encoder(kind, definition)
    except (UnreadableSource, UnsupportedOption) as error:
        raise type(error)(f"{file}: {error}") from error
    return kind, definition


@lru_cache(maxsize=4)
def subword_encoder(kind: str, definition: str) -> SubwordEncoder:
    if kind == LLAMA2C:
        return Llama2cEncoder(definition)
    return TiktokenEncoder(definition) if kind == TIKTOKEN else HuggingFaceEncoder(definition)
