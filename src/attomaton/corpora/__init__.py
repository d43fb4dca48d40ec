"""Samples from text, token ids and arrays."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.corpora import synthetic as synthetic
    from attomaton.corpora.documents import Documents as Documents
    from attomaton.corpora.readers.batches import Reading as Reading
    from attomaton.corpora.readers.corpus import read_corpus as read_corpus
    from attomaton.corpora.readers.tokenize import tokenize_corpus as tokenize_corpus
    from attomaton.corpora.samples import Sample as Sample, Samples as Samples
    from attomaton.corpora.shards import Shards as Shards, read_tokens as read_tokens
    from attomaton.corpora.tokenizers.encoders import Encoder as Encoder
    from attomaton.corpora.tokenizers.vocabulary import Vocabulary as Vocabulary
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
