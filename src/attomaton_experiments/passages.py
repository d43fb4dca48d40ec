"""Passages of plain text: the documents of a corpus, or the sentences of WikiText as they were written."""

import re
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.corpora import Reading, read_corpus

MARKS = (
    (r" @([-,.])@ ", r"\1"),
    (r" ([,.;:!?%)\]])", r"\1"),
    (r"([(\[$]) ", r"\1"),
    (r" (n't|'(?:s|t|re|ve|m|ll|d))\b", r"\1"),
    (r'" ([^"]*?) "', r'"\1"'),
)
"""How WikiText splits a text into words → how the text was written."""

SENTENCE = re.compile(r"(?<= [.?!]) ")
"""Where a sentence of WikiText ends."""

UNKNOWN = "<unk>"
"""WikiText's token for a rare word."""


def read_passages(source: Path, *, shortest: int) -> list[str]:
    r"""The documents of a corpus with at least ``shortest`` characters.

    A ``.txt`` file is read as WikiText: the documents are the longest runs of sentences of one line in
    which no word is unknown, and they are written without WikiText's marks.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "valid.txt")
    ...     _ = path.write_text(" = Heading = \n An <unk> came . It cost $ 1 @,@ 000 .")
    ...     read_passages(path, shortest=10)
    ['It cost $1,000.']
    """
    wiki = source.suffix == ".txt"
    documents = read_corpus(source, tokenizer="byte", reading=Reading(documents="line") if wiki else None)
    content = documents.ids.astype(np.uint8).tobytes()
    texts = [content[first:last].decode() for first, last in pairwise(documents.offsets.tolist())]
    passages = [
        passage
        for document in texts
        for passage in (_runs(document) if wiki else [document])
        if len(passage) >= shortest
    ]
    if not passages:
        raise UnsupportedOption(f"{source} has no passage of {shortest} characters; give a longer text")
    return passages


def _runs(line: str) -> list[str]:
    """The runs of known sentences of a line; a heading has none."""
    if line.lstrip().startswith("="):
        return []
    by_known = groupby(SENTENCE.split(line.strip()), key=lambda sentence: UNKNOWN not in sentence)
    return [_write(" ".join(sentences)) for is_kept, sentences in by_known if is_kept]


def _write(text: str) -> str:
    for pattern, written in MARKS:
        text = re.sub(pattern, written, text)
    return text
