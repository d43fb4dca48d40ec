"""Number the tokens of a corpus: with a fixed vocabulary, or in order of first appearance."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers.batches import Batch, TextBatch
from attomaton.corpora.samples import MAX_TOKENS
from attomaton.corpora.tokenizers.encoders import TableEncoder, distinct_tokens
from attomaton.corpora.tokenizers.vocabulary import Vocabulary


class Numbering:
    """Words or characters, numbered in order of first appearance."""

    def __init__(self, tokenizer: str, numbers: Mapping[str, int] | None = None) -> None:
        self.tokenizer = tokenizer
        self.numbers: dict[str, int] = {} if numbers is None else dict(numbers)

    def encode(self, texts: Any) -> tuple[Int64, Int32]:
        """Texts as (offsets, ids).

        Text i is ids[offsets[i]:offsets[i + 1]]; new tokens get the next numbers.
        """
        self.add(distinct_tokens(texts, self.tokenizer))
        return TableEncoder(self.tokenizer, self.numbers).encode(texts)

    def add(self, tokens: tuple[str, ...]) -> None:
        for token in tokens:
            self.numbers.setdefault(token, len(self.numbers))
        if len(self.numbers) > MAX_TOKENS:
            raise UnsupportedOption(
                f"the corpus has more than {MAX_TOKENS:,} different tokens with {self.tokenizer!r}; use a "
                "tokenizer.json or .tiktoken file"
            )


class CorpusEncoder:
    """Encodes the batches of a corpus; afterwards, :meth:`vocabulary` names the tokens.

    ``fixed`` is the vocabulary of a tokenizer that has one. Otherwise words or characters are numbered in
    order of first appearance; if the tokenizer is a vocabulary, they are numbered after its tokens.
    """

    def __init__(self, tokenizer: str | Vocabulary) -> None:
        self._initial: Vocabulary | None = None  # the vocabulary that is extended
        if isinstance(tokenizer, Vocabulary):
            self._initial = tokenizer
            self.fixed = tokenizer if tokenizer.is_fixed else None
            self._numbering = Numbering(tokenizer.tokenizer, tokenizer.ids)
        else:
            self.fixed = Vocabulary.fixed(tokenizer)
            self._numbering = Numbering(tokenizer)
        self._kinds = set[str]()  # of the batches: "text" or "ids"

    def encode(self, batch: Batch) -> tuple[Int64, Int32]:
        """The documents of a batch as ``(offsets, ids)``."""
        if not isinstance(batch, TextBatch):
            self._kinds.add("ids")
            return batch.offsets, batch.ids
        self._kinds.add("text")
        if self.fixed is not None:
            return self.fixed.encode_all(batch.texts)
        return self._numbering.encode(batch.texts)

    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary of all batches so far; None for ids whose tokenizer is unknown."""
        if self.fixed is not None or "text" not in self._kinds:
            return self.fixed or self._initial
        refuse_mixture(self._kinds, self._numbering.tokenizer)
        return Vocabulary(tuple(self._numbering.numbers), self._numbering.tokenizer)


def refuse_mixture(kinds: set[str], tokenizer: str) -> None:
    """Refuse a mixture of texts and ids, unless the tokenizer has a fixed vocabulary."""
    if len(kinds) > 1:
        raise UnsupportedOption(
            f"the corpus has both text and token ids, but the tokenizer {tokenizer!r} gives text new ids; "
            "give the tokenizer file of the ids, or read text and ids separately"
        )


def renumber_documents(documents: Documents, vocabulary: Vocabulary) -> Documents:
    """The documents with the ids of this vocabulary; tokens that it lacks get the next ids."""
    present = documents.vocabulary
    if present is None or present == vocabulary:
        return documents
    if (present.tokenizer, present.definition) != (vocabulary.tokenizer, vocabulary.definition):
        raise MismatchedParts(
            f"the documents have the tokenizer {present.tokenizer}, but the vocabulary has "
            f"{vocabulary.tokenizer}; use one tokenizer for both"
        )
    numbering = Numbering(vocabulary.tokenizer, vocabulary.ids)
    numbering.add(present.tokens)
    # old id → new id
    new_ids = np.array([numbering.numbers[token] for token in present.tokens], np.int32)
    extended = replace(vocabulary, tokens=tuple(numbering.numbers))
    return replace(documents, ids=new_ids[documents.ids], vocabulary=extended)
