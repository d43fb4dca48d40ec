"""A text to learn from and a text to judge, as ids of the words of the first.

Every line ends with ``<eos>``, as is usual for WikiText, and every text is read as if preceded by
``<eos>``, so that every word has a context.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attomaton.base.errors import InvalidSamples, UnreadableSource
from attomaton.base.tables import Int64

END, UNKNOWN = "<eos>", "<unk>"


@dataclass(frozen=True, eq=False)
class SplitTexts:
    r"""Three texts over one vocabulary.

    Attributes
    ----------
    tokens : tuple of str
        The types of the whole training file by decreasing frequency, ties in order of first appearance.
    fitted : int64 array
        The training file without its last part.
    held_out : int64 array
        The last part of the training file: for weights, and for all other choices.
    valid : int64 array
        The text that is judged. Nothing is learned or chosen on it.

    Examples
    --------
    >>> texts = split_texts("a b\na b\nb a\n", "a a\n", share=0.4)
    >>> texts.tokens
    ('a', 'b', '<eos>')
    >>> texts.fitted.tolist(), texts.held_out.tolist(), texts.valid.tolist()
    ([0, 1, 2, 0, 1, 2], [1, 0, 2], [0, 0, 2])
    """

    tokens: tuple[str, ...]
    fitted: Int64
    held_out: Int64
    valid: Int64

    @property
    def train(self) -> Int64:
        """The whole training file."""
        return np.concatenate([self.fitted, self.held_out])

    @property
    def end(self) -> int:
        """The id of ``<eos>``."""
        return self.tokens.index(END)


def read_texts(folder: str | Path, share: float) -> SplitTexts:
    """Read train*.txt and valid.txt of a folder; the last ``share`` of the training lines is held out."""
    files = sorted(Path(folder).glob("train*.txt"))
    if len(files) != 1:
        raise UnreadableSource(
            f"{folder} holds {len(files)} files train*.txt; give a folder with one of them and valid.txt"
        )
    return split_texts(_read(files[0]), _read(Path(folder) / "valid.txt"), share)


def split_texts(train: str, valid: str, share: float) -> SplitTexts:
    """The same for texts in memory."""
    lines = _split(train)
    cut = len(lines) - round(share * len(lines))
    if not 0 < cut < len(lines):
        raise InvalidSamples(f"{len(lines)} lines cannot be cut at {share:.0%}; give a text of more lines")
    counts = Counter(word for line in lines for word in line)
    tokens = tuple(word for word, _ in counts.most_common())
    number = {word: number for number, word in enumerate(tokens)}
    fitted, held_out, judged = (
        _number(chosen, number) for chosen in (lines[:cut], lines[cut:], _split(valid))
    )
    return SplitTexts(tokens, fitted, held_out, judged)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UnreadableSource(f"{path} cannot be read ({error}); give a folder with this file") from error


def _split(text: str) -> list[list[str]]:
    lines = text.split("\n")
    return [[*line.split(), END] for line in (lines if lines[-1] else lines[:-1])]


def _number(lines: list[list[str]], number: dict[str, int]) -> Int64:
    words = [word for line in lines for word in line]
    unknown = number.get(UNKNOWN)
    missing = next((word for word in words if word not in number), None)
    if missing is not None and unknown is None:
        raise InvalidSamples(f"{missing!r} is not in the training text, which has no {UNKNOWN}; add one")
    return np.array([number.get(word, unknown) for word in words], np.int64)
