"""Text like WikiText-2 in what the edge pass feels, of any length, the same every time.

A token either repeats one of the tokens shortly before it in its document, or is drawn from a Zipf–Mandelbrot
law. Matched to WikiText-2 train at window 32: the share of realisable positions (31 %), the other tokens of a
realisable context (25), articles of 3,400 tokens on average (lognormal lengths), and a vocabulary that grows
with the text. Not matched: syntax, topics, and with them who follows whom: there are more distinct edges.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N_TYPES = 100_000
REPEATED, RECENT, SHIFT, EXPONENT = 0.16, 70, 3.5, 1.22
SHARD_TOKENS = 5_000_000


def draw_shard(n_tokens: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and document offsets of one shard."""
    rng = np.random.default_rng([2026, seed])
    lengths = np.maximum(rng.lognormal(np.log(3400) - 0.32, 0.8, n_tokens // 2000 + 10).astype(np.int64), 1)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    offsets = np.append(offsets[offsets < n_tokens], n_tokens)
    weights = (np.arange(N_TYPES) + SHIFT) ** -EXPONENT
    ids = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(n_tokens)).astype(np.int32)
    position = np.arange(n_tokens)
    source = position - np.where(rng.random(n_tokens) < REPEATED, rng.integers(1, RECENT, n_tokens), 0)
    source = np.where(source < np.repeat(offsets[:-1], np.diff(offsets)), position, source)
    while True:  # a repeated token may itself be one
        further = source[source]
        if np.array_equal(further, source):
            return ids[source], offsets
        source = further


def write_generated(folder: Path, n_tokens: int) -> None:
    """So many tokens in Parquet shards of five million."""
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, n_tokens, SHARD_TOKENS)):
        ids, offsets = draw_shard(min(SHARD_TOKENS, n_tokens - start), number)
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(ids))
        pq.write_table(pa.table({"tokens": lists}), folder / f"{number:05d}.parquet")
