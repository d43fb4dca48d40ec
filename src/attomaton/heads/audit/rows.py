"""Attention rows: where heads attend from sampled positions of documents, and what is measured of each row.

A *query* is a sampled position. The *window* of a query is the query itself and the tokens before it, newest
first. Many heads attend to the first token of the context when nothing else fits, so it is recorded too. The
*keys* of a row are the positions of the window and, last, the first token.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attomaton.base.tables import Bool, Float64, Int32, Int64
from attomaton.heads.model import Head

_torch: Any = torch  # its type stubs leave some functions partly unknown

Float32 = NDArray[np.float32]

# Fields with a number for each row and head, whose mean is a column of the audit.
MEASURES = ("inside", "first", "withheld", "entropy")

BY_HEAD = ("attention", *MEASURES)  # fields whose second axis is that of the heads

# Fields that have one entry per row.
BY_ROW = (*BY_HEAD, "past", "starts", "labels", "documents", "positions")

ROWS_DIFFER = "rows to fit on and rows to score have different heads or windows; record both alike"

EARLIER = 3  # tokens that rows have beyond their window: induction by three tokens looks at them

# A share of attention up to which there is none; logarithms are taken of larger shares only.
LEAST_ATTENTION = 1e-12


@dataclass(frozen=True, eq=False)
class Rows:
    """Attention rows, one for each query, of all heads of a model or some.

    - By row and head: ``attention`` (n_rows, n_heads, window) on each position of the window, divided by its
      sum, ``inside`` (n_rows, n_heads); the attention on the ``first`` token of the context, which is never
      in the window; ``withheld``, which no position gets because learned sinks take it, as in gpt_oss; and
      the ``entropy`` in nats of the attention over all positions. ``heads`` are in the order of these arrays.
    - By row: ``past`` (n_rows, window + 3), the tokens from the query back, −1 before the document begins;
      ``starts``, the first token of the context; ``labels``, the next token; ``documents``, the number of the
      document; and ``positions``, that of the query in its document.
    - ``n_tokens`` is the size of the vocabulary.
    """

    heads: tuple[Head, ...]
    attention: Float32
    inside: Float32
    first: Float32
    withheld: Float32
    entropy: Float32
    past: Int32
    starts: Int32
    labels: Int32
    documents: Int32
    positions: Int32
    n_tokens: int

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def window(self) -> int:
        """The number of positions in the window."""
        return self.past.shape[1] - EARLIER

    @property
    def tokens(self) -> Int32:
        """The token at each position of the window, shape (n_rows, window)."""
        return self.past[:, : self.window]

    @property
    def queries(self) -> Int32:
        """The token at each query, shape (n_rows,)."""
        return self.past[:, 0]

    @property
    def profile(self) -> Float64:
        """The mean attention on each position of the window, shape (n_heads, window)."""
        return self.attention.mean(0, dtype=np.float64)

    @property
    def attends(self) -> Bool:
        """Which heads attend to any key in which rows, shape (n_rows, n_heads)."""
        return self.inside + self.first > LEAST_ATTENTION

    def on_keys(self, index: int) -> Float64:
        """The attention of one head on the keys, shape (n_rows, window + 1): rows sum to 1, or are 0."""
        # ``attention`` is divided by its sum ``inside``, which is undone here.
        inside = self.attention[:, index].astype(np.float64) * self.inside[:, index, None]
        attention = np.concatenate([inside, self.first[:, index, None]], 1)
        total, attends = attention.sum(1, keepdims=True), self.attends[:, index, None]
        return np.divide(attention, total, out=np.zeros_like(attention), where=attends)

    def take(self, rows: Bool | Int64) -> "Rows":
        """The rows of a mask, or with these indices."""
        return replace(self, **{name: getattr(self, name)[rows] for name in BY_ROW})

    def of_layer(self, layer: int) -> "Rows":
        """The rows of the heads of one layer, which follow one another; nothing is copied."""
        indices = [index for index, head in enumerate(self.heads) if head.layer == layer]
        columns = slice(indices[0], indices[-1] + 1)
        return self._of_columns(self.heads[columns], columns)

    def of_heads(self, heads: Sequence[Head]) -> "Rows":
        """The rows of some of the heads."""
        return self._of_columns(tuple(heads), [self.heads.index(head) for head in heads])

    def _of_columns(self, heads: tuple[Head, ...], columns: slice | list[int]) -> "Rows":
        return replace(self, heads=heads, **{name: getattr(self, name)[:, columns] for name in BY_HEAD})


def measure_patterns(patterns: Tensor, queries: Tensor, window: int) -> dict[str, Tensor]:
    """Fields of rows by head, from patterns (n, n_heads, n_queries, length) at ``queries`` (n, n_queries)."""
    # The positions in the window of each query, newest first, shape (n, 1, n_queries, window).
    in_window = (queries[:, None, :, None] - torch.arange(window)).to(patterns.device)
    total = patterns.sum(-1, keepdim=True)
    entropy: Tensor = _torch.special.entr(patterns / total.clamp_min(LEAST_ATTENTION)).sum(-1)
    # ``attention`` is not yet divided by its sum, the field ``inside``.
    return {
        "attention": _torch.take_along_dim(patterns, in_window, 3),
        "first": patterns[..., 0],
        "withheld": (1.0 - total[..., 0]).clamp_min(0.0),
        "entropy": entropy,
    }
