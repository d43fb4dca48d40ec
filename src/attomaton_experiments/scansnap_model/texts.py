"""A text for training and a text for measuring, with the most frequent words as tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.base.tables import Float64, Int64, Integers
from attomaton.corpora.readers.corpus import read_text

UNKNOWN = "<unk>"
"""The token for every word without a token of its own."""


@dataclass(frozen=True, eq=False)
class TextPair:
    """Two texts in the tokens of the first.

    Attributes
    ----------
    name : str
        Name of the folder they were read from.
    train, valid : int64 arrays
        The texts as ids.
    tokens : tuple of str
        Token ``i`` at index ``i``: ``<unk>``, then words by decreasing frequency in train.
    """

    name: str
    train: Int64
    valid: Int64
    tokens: tuple[str, ...]

    @property
    def shares(self) -> Float64:
        """The share of each token in train, shape (n_tokens,)."""
        return np.bincount(self.train, minlength=len(self.tokens)) / len(self.train)


def read_texts(folder: str | Path, n_tokens: int) -> TextPair:
    """Read train*.txt and valid.txt of a folder; all but ``n_tokens − 1`` words become ``<unk>``.

    Words of equal frequency are ordered by first appearance.
    """
    if n_tokens < 2:
        raise UnsupportedOption(f"n_tokens is {n_tokens}; give at least 2: {UNKNOWN} and one word")
    words, ids = _read_words(find_train(Path(folder)))
    other_words, other_ids = _read_words(Path(folder) / "valid.txt")
    counts = np.bincount(ids, minlength=len(words))
    counts[[number for number, word in enumerate(words) if word == UNKNOWN]] = 0
    order = np.argsort(-counts, kind="stable")[: n_tokens - 1]
    tokens = (UNKNOWN, *(words[int(number)] for number in order if counts[number]))
    number = {word: number for number, word in enumerate(tokens)}

    def renumber(old: Sequence[str], text: Integers) -> Int64:
        return np.array([number.get(word, 0) for word in old], np.int64)[text]

    name = Path(folder).resolve().name
    return TextPair(name, renumber(words, ids), renumber(other_words, other_ids), tokens)


def _read_words(path: Path) -> tuple[Sequence[str], Integers]:
    """The words of a file, and the file as their numbers."""
    documents = read_text(path)
    return documents.vocabulary.tokens if documents.vocabulary is not None else (), documents.ids


def find_train(folder: Path) -> Path:
    """The only file of the folder whose name begins with ``train`` and ends with ``.txt``."""
    files = sorted(folder.glob("train*.txt"))
    if len(files) != 1:
        raise UnreadableSource(
            f"{folder} holds {len(files)} files train*.txt; give a folder with one of them and valid.txt"
        )
    return files[0]
