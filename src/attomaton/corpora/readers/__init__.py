"""Read corpora on disk, in memory and at URLs, as batches of documents.

A reader yields documents as text or as token ids, each with the row that it came from, and has only a few
megabytes of them in memory. Each format has a module; ``sources`` finds the readers of a path, folder, glob,
URL or object.
"""

from attomaton.corpora.readers.batches import Reading as Reading, TextBatch as TextBatch
from attomaton.corpora.readers.corpus import read_corpus as read_corpus, read_text as read_text
from attomaton.corpora.readers.sources import find_readers as find_readers
