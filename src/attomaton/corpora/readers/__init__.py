"""Corpora on disk, in memory and at URLs, as batches of documents.

A reader yields batches of documents, as text or as token ids, with the row each came from; it holds a few
megabytes at a time. There is one module per format; ``sources`` finds the readers of a path, folder, glob,
URL or object.
"""

from attomaton.corpora.documents import Documents
from attomaton.corpora.readers.batches import Reader, Reading, TextBatch, TokenBatch
from attomaton.corpora.readers.corpus import read_corpus, read_text
from attomaton.corpora.readers.sources import find_readers

__all__ = [
    "Documents",
    "Reader",
    "Reading",
    "TextBatch",
    "TokenBatch",
    "find_readers",
    "read_corpus",
    "read_text",
]
