"""Shards: token ids on disk, in Parquet files with one document a row.

``lists`` has the one column that makes a file a shard, ``format`` writes, checks and reads one file, ``cuts``
has the shards of a corpus and how they are divided into work, and ``tokenized`` the folder that
``tokenize_corpus`` writes: shards with a vocabulary and a manifest.
"""

from attomaton.corpora.shards.cuts import Cuts, Shards, holds_shards
from attomaton.corpora.shards.format import SHARD_SCHEMA, shard_table, write_shards
from attomaton.corpora.shards.tokenized import (
    TOKENIZED,
    VOCABULARY,
    TokenizedCorpus,
    is_tokenized,
    read_tokens,
)

__all__ = [
    "SHARD_SCHEMA",
    "TOKENIZED",
    "VOCABULARY",
    "Cuts",
    "Shards",
    "TokenizedCorpus",
    "holds_shards",
    "is_tokenized",
    "read_tokens",
    "shard_table",
    "write_shards",
]
