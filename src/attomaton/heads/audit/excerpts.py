"""A few contexts of every head (``choose_contexts``), to be saved with an audit and shown on a page."""

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.tables import Float64, Int32, Int64
from attomaton.corpora.tokenizers.vocabulary import Vocabulary, text_of
from attomaton.heads.audit.fitting import divergence
from attomaton.heads.audit.rows import LEAST_ATTENTION, Rows

_arrow: Any = pa

# Arrow's types of what is stored of a context; attention is in units of 1 / ``FULL``.
CONTEXT_FIELDS = {
    "document": pa.int32(),
    "position": pa.int32(),
    "opening": pa.string(),  # the first token of the context
    "tokens": _arrow.list_(pa.string()),  # the window, the query last
    "label": pa.string(),
    "first": pa.uint8(),
    "attention": _arrow.list_(pa.uint8()),
}

CONTEXTS = _arrow.list_(_arrow.struct(CONTEXT_FIELDS))  # the contexts of one head

FULL = 255  # the whole attention of a query: on the window, on the first token and between them


def choose_contexts(rows: Rows, *, n: int = 3, vocabulary: Vocabulary | None = None) -> Any:
    """For each head, the rows that depart most from its mean pattern, one per document, as ``CONTEXTS``."""

    @cache
    def text(token: int) -> str:
        return text_of(vocabulary, token)

    def context(row: int, head: int) -> dict[str, Any]:
        """Rows have the newest token first; a reader wants the query last."""
        attention = rows.attention[row, head, ::-1] * rows.inside[row, head]
        return {
            "document": rows.documents[row],
            "position": rows.positions[row],
            "opening": text(int(rows.starts[row])),
            "tokens": [text(token) for token in rows.tokens[row, ::-1].tolist()],
            "label": text(int(rows.labels[row])),
            "first": np.rint(FULL * rows.first[row, head]),
            "attention": np.rint(FULL * attention).astype(np.uint8),
        }

    contexts = list[list[dict[str, Any]]]()
    for head in range(len(rows.heads)):
        attention = rows.on_keys(head)
        mean_logs = np.log(np.maximum(attention.mean(0, keepdims=True), LEAST_ATTENTION))
        chosen: list[int] = find_most_apart(divergence(attention, mean_logs), rows.documents, n).tolist()
        contexts.append([context(row, head) for row in chosen])
    return _arrow.array(contexts, CONTEXTS)


def find_most_apart(departures: Float64, documents: Int32, n: int) -> Int64:
    """The row of each document with the largest departure, for the n documents where it is largest."""
    order = np.argsort(-departures, kind="stable")
    # In this order, the first row of each document has its largest departure.
    _, firsts = np.unique(documents[order], return_index=True)
    return order[np.sort(firsts)[:n]]
