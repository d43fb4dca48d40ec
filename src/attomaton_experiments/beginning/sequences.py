"""Texts as sequences of equal length over their most frequent words."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.tables import Int64
from attomaton.corpora import Documents, Vocabulary, read_corpus
from attomaton.theories.beginning.begin import RARE
from attomaton.theories.beginning.passes import Frequent, cut_sequences


@dataclass(frozen=True, eq=False)
class Sequences:
    """All sequences of a text.

    Attributes
    ----------
    name : str
        Name of the file or folder.
    table : int64 array, shape (n_sequences, window + 1)
        Tokens; the last column is only a label.
    vocabulary : Vocabulary
        Words by decreasing frequency, and last the token for all others.
    """

    name: str
    table: Int64
    vocabulary: Vocabulary

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary."""
        return len(self.vocabulary)

    def draw(self, count: int, seed: Any) -> Int64:
        """A random sample without replacement, shape (count, window + 1)."""
        if count > len(self.table):
            raise UnsupportedOption(
                f"{self.name} has {len(self.table):,} sequences, but {count:,} are needed; give a longer text"
            )
        return self.table[np.random.default_rng(seed).choice(len(self.table), count, replace=False)]


def read_frequent(source: Path, n_tokens: int, tokenizer: str) -> tuple[Documents, Vocabulary]:
    """A text in its ``n_tokens − 1`` most frequent words, and their names; all others become one token."""
    documents = read_corpus(source, tokenizer=tokenizer)
    vocabulary = documents.vocabulary
    if vocabulary is None:
        raise UnsupportedOption(f"{source} holds ids, not text; give a text")
    counts = np.bincount(documents.ids, minlength=len(vocabulary))
    frequent = Frequent.among(counts, n_tokens - 1)
    chosen: list[int] = frequent.tokens.tolist()
    frequent_words = Vocabulary((*(vocabulary.tokens[token] for token in chosen), RARE), tokenizer)
    return Documents(frequent.ids[documents.ids], documents.offsets, frequent_words), frequent_words


def read_sequences(source: Path, n_tokens: int, window: int, tokenizer: str) -> Sequences:
    """The sequences of a text: every document is cut from its beginning, and the remainder is dropped."""
    documents, vocabulary = read_frequent(source, n_tokens, tokenizer)
    starts = cut_sequences(documents.offsets, window)
    table = documents.ids[starts[:, None] + np.arange(window + 1)].astype(np.int64)
    return Sequences(Path(source).name, table, vocabulary)
