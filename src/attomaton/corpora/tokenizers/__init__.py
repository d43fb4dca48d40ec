"""Text to token ids and back.

``vocabulary`` holds the tokens by id, ``subwords`` the tokenizers of a ``tokenizer.json``, a ``.tiktoken``
file or llama2.c, ``encoders`` those that need no library (word, character, byte) and the encoding of many
texts at once.
"""

from attomaton.corpora.tokenizers.encoders import EOS, TOKENIZERS, split_words
from attomaton.corpora.tokenizers.vocabulary import Vocabulary, read_vocabulary, vocabulary_records

__all__ = ["EOS", "TOKENIZERS", "Vocabulary", "read_vocabulary", "split_words", "vocabulary_records"]
