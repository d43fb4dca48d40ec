"""The kernel of both corpus passes: one record batch of token lists in, one of counted rows out.

Every engine runs these functions and adds up what they return; nothing else of the theory happens there. A
batch holds whole documents, one row each, in a column ``tokens`` (a list of integers).
"""

from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.tables import Bool, Int64, make_table
from attomaton.corpora.pieces import Piece
from attomaton.corpora.shards.format import piece_of
from attomaton.engines.selection import Selection
from attomaton.graphs.choices import ChoiceTable, extract_choices, find_tied, members_inside
from attomaton.graphs.components import Components
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA, unpack_edges
from attomaton.graphs.grouping import sum_by_key
from attomaton.graphs.windows import Links, link_repeats, window_edges

MAX_KEYS = 1 << 24
"""Edges packed at once before they are counted: 128 MB."""

_arrow: Any = pa


def count_edges(
    batch: pa.RecordBatch, *, selection: Selection, kept: Bool
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The edges of a batch's documents, counted."""
    piece = piece_of(batch, len(kept))
    links = link_repeats(piece, selection.reach, kept)
    chunks = list(window_edges(piece, links, window=selection.reach, kept=kept, max_keys=MAX_KEYS))
    keys = np.concatenate([keys for keys, _ in chunks] or [np.empty(0, np.int64)])
    support = np.concatenate([support for _, support in chunks] or [np.empty(0, np.int32)]).astype(np.int64)
    keys, support = sum_by_key(keys, support) if len(chunks) > 1 else (keys, support)
    return _one_batch(edge_rows(keys, support)), _one_batch(query_rows(links))


def count_choices(
    batch: pa.RecordBatch, components: Components | None, *, selection: Selection, kept: Bool
) -> pa.RecordBatch:
    """The counted choices of some documents inside each label's component (None means in whole contexts).

    The columns are those of :class:`~attomaton.graphs.choices.ChoiceTable`.
    """
    piece = piece_of(batch, len(kept))
    return _one_batch(choices_of_piece(piece, components, selection=selection, kept=kept).rows)


def choices_of_piece(
    piece: Piece,
    components: Components | None,
    *,
    selection: Selection,
    kept: Bool,
    threads: int | None = None,
) -> ChoiceTable:
    """The counted choices of a piece; only samples that can leave a choice are unfolded."""
    samples = piece.samples(selection.reach)
    before = link_repeats(piece, selection.reach, kept).before
    samples = samples.take((before[samples.stops] >= samples.starts) & kept[samples.queries])
    if components is not None:
        members = members_inside(components, samples.n_tokens)
        samples = samples.take(find_tied(members, samples.queries, samples.labels))
    return extract_choices(samples, components, threads=threads)


def edge_rows(keys: Int64, support: Int64) -> pa.Table:
    """Packed edges with their support as a table."""
    query, winner, loser = unpack_edges(keys)
    return make_table(EDGE_SCHEMA, {"query": query, "winner": winner, "loser": loser, "support": support})


def query_rows(links: Links) -> pa.Table:
    """The samples read by query, of those that have any."""
    asked = np.flatnonzero(links.realisable + links.unrealisable)
    columns = {
        "query": asked.astype(np.int32),
        "realisable": links.realisable[asked],
        "unrealisable": links.unrealisable[asked],
    }
    return make_table(QUERY_SCHEMA, columns)


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    table: Any = rows.combine_chunks()
    arrays = [_arrow.concat_arrays(column.chunks) for column in table.columns if column.chunks]
    if len(arrays) < table.num_columns:
        arrays = [_arrow.array([], field.type) for field in table.schema]
    return _arrow.RecordBatch.from_arrays(arrays, schema=table.schema)
