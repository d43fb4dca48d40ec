"""Convert text to token ids and back.

``vocabulary`` has the tokens by id. ``encoders`` has the tokenizers that need no library (word, character,
byte). ``subwords`` reads tokenizer files, with ``huggingface``, ``ranks`` and ``llama2c``.
"""

from attomaton.corpora.tokenizers.encoders import TOKENIZERS, split_words
from attomaton.corpora.tokenizers.vocabulary import Vocabulary, read_vocabulary, vocabulary_records

__all__ = ["TOKENIZERS", "Vocabulary", "read_vocabulary", "split_words", "vocabulary_records"]
