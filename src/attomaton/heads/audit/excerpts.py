"""A few contexts of every head, small enough to be saved with an audit and shown on a page."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.tables import Float64, Int32, Int64
from attomaton.corpora.tokenizers.vocabulary import Vocabulary, text_of
from attomaton.heads.audit.fitting import divergence
from attomaton.heads.audit.rows import LEAST_ATTENTION, Rows
from attomaton.heads.audit.saved import CONTEXTS, FULL

_arrow: Any = pa


def choose_contexts(
    rows: Rows, documents: Sequence[Any], *, n: int = 3, vocabulary: Vocabulary | None = None
) -> Any:
    """For each head, the rows that depart most from its mean pattern, at most one per document.

    The mean pattern is what the rung ``position`` fits. Returns an Arrow array of type ``CONTEXTS``, one
    entry per head; tokens are texts, or ids if there is no vocabulary.
    """

    @cache
    def text(token: int) -> str:
        return text_of(vocabulary, token)

    def context(row: int, index: int) -> dict[str, Any]:
        attention = rows.attention[row, index, ::-1] * rows.inside[row, index]
        return {
            "document": rows.documents[row],
            "position": rows.positions[row],
            "opening": text(int(documents[rows.documents[row]][0])),
            "tokens": [text(token) for token in rows.tokens[row, ::-1].tolist()],
            "label": text(int(rows.labels[row])),
            "first": np.rint(FULL * rows.first[row, index]),
            "attention": np.rint(FULL * attention).astype(np.uint8),
        }

    contexts = list[list[dict[str, Any]]]()
    for index in range(len(rows.heads)):
        attention = rows.on_keys(index)
        apart = divergence(attention, np.log(np.maximum(attention.mean(0, keepdims=True), LEAST_ATTENTION)))
        contexts.append([context(row, index) for row in most_apart(apart, rows.documents, n).tolist()])
    return _arrow.array(contexts, CONTEXTS)


def most_apart(apart: Float64, documents: Int32, n: int) -> Int64:
    """The row of each document with the largest departure, for the n documents where it is largest."""
    order = np.argsort(-apart, kind="stable")
    _, firsts = np.unique(documents[order], return_index=True)
    return order[np.sort(firsts)[:n]]
