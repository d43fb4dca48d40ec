"""Text to token ids and back.

``vocabulary`` holds the tokens by id, ``splitting`` the tokenizers that need no library (word, character,
byte), ``subwords`` those of a ``tokenizer.json`` or a ``.tiktoken`` file, ``llama2c`` those of llama2.c,
``encoders`` what turns many texts
into ids at once.
"""

from attomaton.corpora.tokenizers.encoders import EOS, TOKENIZERS, split_words
from attomaton.corpora.tokenizers.vocabulary import Vocabulary, read_vocabulary, vocabulary_records

__all__ = ["EOS", "TOKENIZERS", "Vocabulary", "read_vocabulary", "split_words", "vocabulary_records"]
